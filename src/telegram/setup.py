"""Setup of aiogram: a session with checks and rate limits, dispatcher, commands, webhook."""

import asyncio
import json
import logging
from functools import lru_cache
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

from aiogram import Bot, Dispatcher, exceptions, types
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.session.middlewares import base
from aiogram.client.telegram import TelegramAPIServer
from aiogram.methods import EditMessageText, Response, SendMessage, TelegramMethod
from aiogram.methods.base import TelegramType
from aiohttp import ClientSession
from aiolimiter import AsyncLimiter

from src.base.config import Settings
from src.base.errors import ConfigError, DeliveryError
from src.base.metrics import Metrics
from src.core import Core
from src.talk.command_service import COMMANDS
from src.talk.commands import Features, Place, offered
from src.telegram.delivery import UNKNOWN_ID, Delivery
from src.telegram.handlers import Handlers
from src.telegram.receiver import UNKNOWN_TOKEN
from src.telegram.updates import ALLOWED_UPDATES, BotIdentity
from src.texts import LANGUAGES, say

logger = logging.getLogger(__name__)

TIMEOUT = 20  # seconds for a request that names no other
FLOOD_PAUSE = 3  # seconds to wait after a 429 of a gateway, which names none
# Result of a request that Telegram has accepted with an unparsable response.
ACCEPTED: Any = SimpleNamespace(message_id=UNKNOWN_ID)


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
            from src.telegram.proxy_connector import build_connector  # imported if needed

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
                ``ok`` is accepted unparsed if only the success matters.
        """
        try:
            response = super().check_response(bot, method, status_code, content)
            self._response_types.add(type(response))
            return response
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


# Telegram's limits: about one message per second in a chat (short bursts pass), 20 per minute in a
# group.
PRIVATE_BURST, PRIVATE_SECONDS = 5, 5.0
GROUP_BURST, GROUP_SECONDS = 20, 60.0
MAX_CHATS = 10_000  # cached limiters; the least recently used one is evicted


class ThrottleMiddleware(base.BaseRequestMiddleware):
    """Delays messages above Telegram's limits instead of provoking a 429."""

    def __init__(self, messages_per_second: int, metrics: Metrics) -> None:
        """Allow so many messages per second over all chats (Telegram's default is 30)."""
        self._global_limiter = AsyncLimiter(messages_per_second, 1.0)
        self._limiter_of = lru_cache(MAX_CHATS)(_build_limiter)
        self._metrics = metrics

    async def __call__(
        self,
        make_request: base.NextRequestMiddlewareType[TelegramType],
        bot: Bot,
        method: TelegramMethod[TelegramType],
    ) -> Response[TelegramType]:
        """Wait for a slot, then send and count the request."""
        if isinstance(method, SendMessage | EditMessageText):
            await self._wait_for_slot(method.chat_id)
        result = "error"
        try:
            response: Any = await make_request(bot, method)
            result = "ok"
            return response  # type: ignore[no-any-return]
        finally:
            self._metrics.requests.labels(method.__api_method__, result).inc()

    async def _wait_for_slot(self, chat_id: int | str | None) -> None:
        await self._limiter_of(chat_id if isinstance(chat_id, int) else 0).acquire()
        await self._global_limiter.acquire()


def _build_limiter(chat_id: int) -> AsyncLimiter:
    if chat_id < 0:
        return AsyncLimiter(GROUP_BURST, GROUP_SECONDS)
    return AsyncLimiter(PRIVATE_BURST, PRIVATE_SECONDS)


# Menus of commands: their scope, the place, and whether its users are admins there.
MENUS: tuple[tuple[types.BotCommandScopeUnion | None, Place, bool], ...] = (
    (None, "private", True),
    (types.BotCommandScopeAllGroupChats(), "group", False),
    (types.BotCommandScopeAllChatAdministrators(), "group", True),
)
FIRST_PAUSE, MAX_PAUSE = 1.0, 300.0  # seconds between attempts to configure Telegram
MENU_LABEL = "Pomni"  # Telegram has one label for all users, so it is not translated


def build_bot(settings: Settings, metrics: Metrics) -> Bot:
    """Create the bot of the token on the configured Bot API server."""
    if settings.telegram_bot_token is None:
        raise ConfigError(["TELEGRAM_BOT_TOKEN: it is missing. Get one from @BotFather"])
    address = settings.telegram_api_base
    session = TelegramSession(
        settings.telegram_proxy_to(address), api=TelegramAPIServer.from_base(address)
    )
    session.middleware(ThrottleMiddleware(settings.telegram_rate_limit, metrics))
    return Bot(settings.telegram_bot_token.get_secret_value(), session=session)


def build_dispatcher(core: Core, delivery: Delivery, identity: BotIdentity) -> Dispatcher:
    """Create the dispatcher with all handlers, which reply through ``delivery``."""
    dispatcher = Dispatcher(disable_fsm=True)
    Handlers(core, delivery, identity).register(dispatcher)
    return dispatcher


async def get_identity(bot: Bot) -> BotIdentity:
    """Ask Telegram for the bot's identity.

    Raises:
        ConfigError: The token is wrong.
        DeliveryError: Telegram cannot be reached.
    """
    try:
        me = await bot.get_me()
    except exceptions.TelegramUnauthorizedError as error:
        raise ConfigError([UNKNOWN_TOKEN]) from error
    except exceptions.AiogramError as error:
        raise DeliveryError(f"Telegram did not answer getMe ({type(error).__name__})") from error
    return BotIdentity(
        me.id, me.username or "", me.first_name, reads_all=bool(me.can_read_all_group_messages)
    )


async def configure_telegram(bot: Bot, settings: Settings) -> None:
    """Set or delete the webhook, and set the commands in each language and the menu button.

    Raises:
        AiogramError: Telegram refused or cannot be reached.
    """
    if settings.telegram_webhook_url and settings.telegram_webhook_secret:
        await bot.set_webhook(
            settings.telegram_webhook_url,
            secret_token=settings.telegram_webhook_secret.get_secret_value(),
            allowed_updates=ALLOWED_UPDATES,
        )
    else:
        await bot.delete_webhook(drop_pending_updates=False)
    features = Features.of(settings)
    for language in LANGUAGES:
        code = None if language == "en" else language  # English is the default
        for scope, place, is_admin in MENUS:
            menu = {
                entry.name: say(f"command_{entry.name}", language)
                for entry in offered(COMMANDS.values(), features, place, is_admin=is_admin)
            }
            fields: dict[str, Any] = {"scope": scope, "language_code": code}
            shown = await bot.get_my_commands(**fields)
            # Telegram takes few changes at a time, so what stands there is not set again.
            if [(one.command, one.description) for one in shown] != list(menu.items()):
                commands = [
                    types.BotCommand(command=name, description=description)
                    for name, description in menu.items()
                ]
                await bot.set_my_commands(commands, **fields)
    await _set_menu_button(bot, settings.app_url)


async def configure_until_done(bot: Bot, settings: Settings) -> None:
    """Run ``configure_telegram`` until Telegram takes it; a 429 waits as long as it says."""
    pause = FIRST_PAUSE
    while True:
        try:
            return await configure_telegram(bot, settings)
        except exceptions.TelegramRetryAfter as error:
            logger.warning("Telegram asks to wait with the commands", exc_info=error)
            wait = max(pause, error.retry_after)
        except exceptions.AiogramError as error:
            logger.warning("Telegram did not take the commands or webhook", exc_info=error)
            wait = pause
        await asyncio.sleep(wait)
        pause = min(MAX_PAUSE, pause * 2)


async def _set_menu_button(bot: Bot, app_url: str | None) -> None:
    """Without an app, reset only a button of our own."""
    if app_url is not None:
        button = types.MenuButtonWebApp(text=MENU_LABEL, web_app=types.WebAppInfo(url=app_url))
        await bot.set_chat_menu_button(menu_button=button)
        return
    current = await bot.get_chat_menu_button()
    if isinstance(current, types.MenuButtonWebApp) and current.text == MENU_LABEL:
        default = types.MenuButtonDefault()
        await bot.set_chat_menu_button(menu_button=default)
