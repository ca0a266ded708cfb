"""Requests to Telegram: a session with checks and rate limits, and errors of our own.

A request that fails is retried at once, left to the queue, or was optional. The table of refusals
tells what each one concerns.
"""

import asyncio
import json
import re
import ssl
import tomllib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, ParamSpec, TypeVar

import aiohttp_socks
import certifi
from aiogram import Bot, exceptions
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.session.middlewares import base
from aiogram.methods import EditMessageText, Response, SendMessage, TelegramMethod
from aiogram.methods.base import TelegramType
from aiohttp import ClientConnectorError, ClientProxyConnectionError, ClientSession
from aiohttp.connector import Connection
from aiolimiter import AsyncLimiter

from src.base import errors
from src.base.metrics import Metrics

T = TypeVar("T")
P = ParamSpec("P")

QUICK_RETRIES = 3  # immediate retries of requests that certainly did not arrive
MAX_QUICK_WAIT = 5.0  # seconds; a longer retry_after is left to the queue
BEST_EFFORT_SECONDS = 10  # seconds for optional requests
UNKNOWN_ID = 0  # of a sent message whose id Telegram did not return
TIMEOUT = 20  # seconds for a request that names no other
FLOOD_PAUSE = 3  # seconds to wait after a 429 of a gateway, which names none
# Result of a request that Telegram has accepted with an unparsable response.
ACCEPTED: Any = SimpleNamespace(message_id=UNKNOWN_ID)
# Telegram's limits: about one message per second in a chat (short bursts pass), 20 per minute in a
# group.
PRIVATE_BURST, PRIVATE_SECONDS = 5, 5.0
GROUP_BURST, GROUP_SECONDS = 20, 60.0
MAX_CHATS = 10_000  # cached limiters; the least recently used one is evicted
PROXY_SECONDS = 15.0  # until the way to Telegram is open
# All that can go wrong before a request is sent; ValueError: a login that the protocol cannot say.
PROXY_FAILURES = (
    aiohttp_socks.ProxyConnectionError, aiohttp_socks.ProxyError, aiohttp_socks.ProxyTimeoutError,
    asyncio.IncompleteReadError, OSError, ValueError,
)  # fmt: skip


TABLE = Path(__file__).with_name("refusals.toml")
Scope = Literal["reply", "topic", "chat", "everywhere"]


@dataclass(frozen=True)
class Refusal:
    """Row of ``refusals.toml``, which describes the fields."""

    scope: Scope
    reason: str
    phrases: list[str]


@cache
def refusals() -> tuple[Refusal, ...]:
    """Return the rows of the table."""
    rows = tomllib.loads(TABLE.read_text("utf-8"))["refusal"]
    return tuple(Refusal(**row) for row in rows)


SLOW_MODE = re.compile(r"slowmode_wait_(\d+)")


def find_refusal(error: BaseException | None) -> Refusal | None:
    """Return the meaning of Telegram's 400 or 403; None if it concerns only this message."""
    return next((one for one in refusals() if is_refusal(error, *one.phrases)), None)


def is_refusal(error: BaseException | None, *phrases: str) -> bool:
    """Return True for a 400 or 403 whose description has one of the phrases (in lower case)."""
    if not isinstance(error, exceptions.TelegramBadRequest | exceptions.TelegramForbiddenError):
        return False
    return any(phrase in str(error).lower() for phrase in phrases)


def refusal_error(error: Exception) -> errors.AppError:
    """Convert Telegram's refusal to our error."""
    name, slow = type(error).__name__, SLOW_MODE.search(str(error).lower())
    if slow is not None:
        delayed = errors.DeliveryError(f"slow mode asks to wait {slow[1]} s")
        delayed.retry_after = float(slow[1])
        return delayed
    refusal = find_refusal(error)
    if refusal is None or refusal.scope == "reply":
        return errors.DeliveryRefusedError(f"Telegram refused a message ({name})")
    if refusal.scope == "everywhere":
        return errors.ChatUnavailableError(f"nothing can be sent to this chat ({name})")
    return errors.PlaceLostError(refusal.scope, refusal.reason)


def delivery_error(error: Exception) -> errors.AppError:
    """Convert aiogram's error to ours: worth a retry, of unknown effect, or final."""
    if isinstance(error, errors.AppError):
        return error
    name = type(error).__name__
    if isinstance(error, exceptions.TelegramRetryAfter):
        delayed = errors.DeliveryError(f"Telegram asks to wait {error.retry_after} s")
        delayed.retry_after = float(error.retry_after)
        return delayed
    if isinstance(error, exceptions.TelegramNetworkError) and not isinstance(
        error, exceptions.TelegramEntityTooLarge
    ):
        if isinstance(error.__cause__, ClientConnectorError):
            return errors.DeliveryError("Telegram could not be reached")
        return errors.DeliveryUnknownError(f"no answer from Telegram ({name})")
    if isinstance(error, exceptions.ClientDecodeError):
        return errors.DeliveryNonsenseError("Telegram's answer was not the Bot API's")
    if isinstance(error, exceptions.TelegramServerError | exceptions.TelegramUnauthorizedError):
        return errors.DeliveryError(f"Telegram failed ({name})")
    return refusal_error(error)


def is_not_modified(error: BaseException | None) -> bool:
    """Return True if the edit changed nothing, which is a success."""
    return is_refusal(error, "message is not modified", "message_not_modified")


def is_unknown_method(error: BaseException) -> bool:
    """Return True if the Bot API server is too old to know the method."""
    return isinstance(error, exceptions.TelegramNotFound) or is_refusal(error, "method not found")


async def with_quick_retries(
    send: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Send a request; retry at once if it certainly did not arrive, else leave it to the queue.

    Raises:
        AppError: See ``Delivery.send_answer``; its cause is aiogram's error.
    """
    for attempt in range(QUICK_RETRIES + 1):
        try:
            return await send(*args, **kwargs)
        except exceptions.AiogramError as error:
            failure = delivery_error(error)
            is_certain = type(failure) is errors.DeliveryError
            wait = failure.retry_after if failure.retry_after is not None else 0.2 * 2**attempt
            if not is_certain or attempt == QUICK_RETRIES or wait > MAX_QUICK_WAIT:
                raise failure from error
        await asyncio.sleep(wait)
    raise AssertionError("unreachable")


async def best_effort(request: Awaitable[Any]) -> Exception | None:
    """Await an optional request such as ``query.answer()``; return its failure, if it failed."""
    try:
        async with asyncio.timeout(BEST_EFFORT_SECONDS):
            await request
    except (exceptions.AiogramError, TimeoutError) as error:
        return error
    return None


class ProxyConnector(aiohttp_socks.ProxyConnector):
    """Raises an error of aiohttp that says that nothing was sent: a message is then sent again."""

    async def connect(self, req: Any, traces: Any, timeout: Any) -> Connection:  # noqa: ASYNC109
        """Return a connection by the proxy.

        Raises:
            ClientProxyConnectionError: There is none.
        """
        try:
            async with asyncio.timeout(PROXY_SECONDS):
                return await super().connect(req, traces, timeout)
        except PROXY_FAILURES as error:
            cause = OSError(type(error).__name__)
            raise ClientProxyConnectionError(req.connection_key, cause) from error


def build_connector(proxy: str) -> ProxyConnector:
    """Build a connector of a proxy: its address with its login."""
    tls = ssl.create_default_context()  # with SSL_CERT_FILE, for a proxy of one's own
    tls.load_verify_locations(certifi.where())
    proxy_ssl = None
    if proxy.startswith("https:"):
        proxy, proxy_ssl = proxy.replace("https:", "http:", 1), tls
    connector = ProxyConnector.from_url(proxy, rdns=True, proxy_ssl=proxy_ssl, ssl=tls)
    assert isinstance(connector, ProxyConnector)
    return connector


class TelegramSession(AiohttpSession):
    """aiogram's session with any kind of proxy, to which the status says what an answer means.

    A gateway's page is then the refusal of its status, and a message that Telegram has accepted
    is not sent again because a field of the answer is newer than aiogram.
    """

    def __init__(self, proxy_url: str | None = None, **options: Any) -> None:
        """Create a session; ``proxy_url`` is the address of a proxy, with its login."""
        super().__init__(timeout=TIMEOUT, **options)
        # pydantic knows Response[Message] as long as somebody holds it, and then builds it anew.
        self._response_types: set[type[Response[Any]]] = set()
        self._by_proxy: ClientSession | None = None
        self._proxy_url = proxy_url

    async def create_session(self) -> ClientSession:
        """Return the open session."""
        if self._proxy_url is None:
            return await super().create_session()
        if self._by_proxy is None or self._by_proxy.closed:
            self._by_proxy = ClientSession(connector=build_connector(self._proxy_url))
        return self._by_proxy

    async def close(self) -> None:
        """Close the connections."""
        if self._by_proxy is not None:
            await self._by_proxy.close()
        await super().close()

    def check_response(
        self, bot: Bot, method: TelegramMethod[TelegramType], status_code: int, content: str
    ) -> Response[TelegramType]:
        """Parse a response.

        Raises:
            TelegramAPIError: It was refused; the class depends on the status.
            ClientDecodeError: A response with a success status is not the Bot API's. One that says
                ``ok`` is accepted unparsed if only the success matters, and so is a message that
                another bot deleted before Telegram returned it.
        """
        try:
            response = super().check_response(bot, method, status_code, content)
            self._response_types.add(type(response))
            return response
        except exceptions.TelegramServerError as error:
            if "immediately deleted" not in str(error):
                raise
            return Response.model_construct(ok=True, result=ACCEPTED)
        except exceptions.ClientDecodeError as error:
            if status_code < HTTPStatus.MULTIPLE_CHOICES:
                is_ok = isinstance(error.data, dict) and error.data.get("ok") is True
                if is_ok and not method.__api_method__.startswith("get"):
                    return Response.model_construct(ok=True, result=ACCEPTED)
                # The error's text may quote a user, so it is replaced.
                cause = ValueError(type(error.original).__name__)
                raise exceptions.ClientDecodeError(error.message, cause, None) from None
        refusal: dict[str, Any] = {"ok": False, "description": f"HTTP {status_code}"}
        if status_code == HTTPStatus.TOO_MANY_REQUESTS:
            refusal["parameters"] = {"retry_after": FLOOD_PAUSE}
        return super().check_response(bot, method, status_code, json.dumps(refusal))


class ThrottleMiddleware(base.BaseRequestMiddleware):
    """Delays messages above Telegram's limits instead of provoking a 429."""

    def __init__(self, messages_per_second: int, metrics: Metrics) -> None:
        """Allow so many messages per second over all chats (Telegram's default is 30)."""
        self._global_limiter = AsyncLimiter(messages_per_second, 1.0)
        self._limiter_of = lru_cache(MAX_CHATS)(limiter_of)
        self._metrics = metrics

    async def __call__(
        self,
        make_request: base.NextRequestMiddlewareType[TelegramType],
        bot: Bot,
        method: TelegramMethod[TelegramType],
    ) -> Response[TelegramType]:
        """Wait for a slot, then send and count the request."""
        if isinstance(method, SendMessage | EditMessageText):
            chat_id = 0
            if isinstance(method.chat_id, int):
                chat_id = method.chat_id
            await self._limiter_of(chat_id).acquire()
            await self._global_limiter.acquire()
        result = "error"
        try:
            response: Response[TelegramType] = await make_request(bot, method)
            result = "ok"
            return response
        finally:
            self._metrics.requests.labels(method.__api_method__, result).inc()


def limiter_of(chat_id: int) -> AsyncLimiter:
    """Return a new limiter for a chat; a group's id is negative."""
    if chat_id < 0:
        return AsyncLimiter(GROUP_BURST, GROUP_SECONDS)
    return AsyncLimiter(PRIVATE_BURST, PRIVATE_SECONDS)
