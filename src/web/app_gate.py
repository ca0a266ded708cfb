"""Who may ask the page's API, how often, and with what; every request passes here.

``initData`` is what Telegram tells a page about who opened it, signed with the bot's token.
"""

import asyncio
import hashlib
import hmac
import json
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request

from src.base.errors import AppError
from src.base.owners import Called, Owner
from src.core import Core
from src.pg.user_settings_repo import Mode
from src.texts import Language, choose_language, say
from src.web.http_server import read_body

logger = logging.getLogger(__name__)

BURST = 240.0  # at once; a visit that uses every control once takes some 150
PER_SECOND = 1.0  # that come back
MAX_PEOPLE = 10_000  # that are remembered


@dataclass(eq=False, repr=False)
class Allowance:
    """A bucket for each person or address, from which requests take; each process has its own."""

    clock: Callable[[], float] = time.monotonic  # seconds
    burst: float = BURST  # of a full one
    per_second: float = PER_SECOND

    def __post_init__(self) -> None:
        """Everybody's is full."""
        self._left: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, whose: Hashable, cost: float = 1.0) -> bool:
        """Take ``cost`` from a bucket; False, and nothing is taken, when it lacks it."""
        now = self.clock()
        left, at = self._left.pop(whose, (self.burst, now))
        left = min(self.burst, left + (now - at) * self.per_second)
        is_enough = left >= cost
        self._left[whose] = (left - cost if is_enough else left, now)
        if len(self._left) > MAX_PEOPLE:
            self._left.popitem(last=False)
        return is_enough

    def fill(self, whose: Hashable) -> None:
        """A bucket is full again."""
        self._left.pop(whose, None)


MAX_CHARACTERS = 8192  # Telegram's has about 700
MAX_FIELDS = 50  # Telegram's has five to ten
MAX_AGE = 24 * 3600  # seconds since the page was opened
MAX_AHEAD = 60  # seconds that Telegram's clock may be before ours
MAX_ID = 2**52  # Telegram: ids have at most 52 significant bits
MAX_DIGITS = 12  # of a moment, in seconds since 1970


class UnverifiedError(AppError):
    """Nothing proves who opened the page."""

    text_key = "app_unauthorized"


class ExpiredError(UnverifiedError):
    """The page was opened too long ago."""

    text_key = "app_expired"


@dataclass(frozen=True)
class Visitor:
    """Who opened the page.

    Attributes:
        user_id: The Telegram id.
        is_bot: Whether it is a bot.
        language_code: The language of the Telegram application, an IETF tag.
    """

    user_id: int
    is_bot: bool = False
    language_code: str | None = None


def read_init_data(text: str, token: str, now: datetime) -> Visitor:
    """Who opened the page, if Telegram says so.

    aiogram's ``check_webapp_signature`` does the same sum and compares in constant time, too, but
    it takes the last of two fields of one name, leaves empty fields unsigned, replaces bytes that
    are no UTF-8, fails with a TypeError at a hash beyond ASCII, and looks at no age.

    Args:
        text: As Telegram handed it to the page: percent-encoded, ASCII.
        token: The bot's, whose page it is.
        now: Against which its age is held (aware).

    Raises:
        UnverifiedError: It is forged, malformed, or meant for another bot.
        ExpiredError: It is older than MAX_AGE.
    """
    fields = _fields(text)
    given = fields.pop("hash", "")
    if not hmac.compare_digest(_sign(fields, token).encode(), given.encode()):
        raise UnverifiedError("the signature of initData is not Telegram's")
    _check_age(fields.get("auth_date", ""), now)
    return _visitor(fields.get("user", ""))


def _fields(text: str) -> dict[str, str]:
    """The fields by name, each of which stands there once."""
    if len(text) > MAX_CHARACTERS or not text.isascii():
        raise UnverifiedError("initData is too long, or no ASCII")
    try:
        pairs = parse_qsl(
            text, keep_blank_values=True, strict_parsing=True, errors="strict",
            max_num_fields=MAX_FIELDS,
        )  # fmt: skip
    except ValueError as error:
        raise UnverifiedError("initData is no query string of UTF-8") from error
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise UnverifiedError("a field of initData stands there twice")
    return fields


def _sign(fields: Mapping[str, str], token: str) -> str:
    """The sum that Telegram would have made.

    Source: https://core.telegram.org/bots/webapps#validating-data-received-via-the-mini-app
    """
    signed = "\n".join(f"{name}={value}" for name, value in sorted(fields.items()))
    key = hmac.new(b"WebAppData", token.encode(), hashlib.sha256).digest()
    return hmac.new(key, signed.encode(), hashlib.sha256).hexdigest()


def _check_age(moment: str, now: datetime) -> None:
    if not is_number(moment, MAX_DIGITS):
        raise UnverifiedError("initData does not say when the page was opened")
    age = now.timestamp() - int(moment)
    if age < -MAX_AHEAD:
        raise UnverifiedError("initData is from the future")
    if age > MAX_AGE:
        raise ExpiredError("initData is too old")


def _visitor(user: str) -> Visitor:
    try:
        told: Any = json.loads(user)
    except (ValueError, RecursionError) as error:
        raise UnverifiedError("initData does not say who opened the page") from error
    number = told.get("id") if isinstance(told, dict) else None
    if type(number) is not int or not 0 < number < MAX_ID:
        raise UnverifiedError("initData names nobody")
    code = told.get("language_code")
    is_bot = told.get("is_bot", False) is not False
    return Visitor(number, is_bot, code if isinstance(code, str) else None)


SCHEME = "tma "  # of the Authorization header: Telegram Mini App
MAX_BODY = 65_536  # bytes; 4,096 characters, each escaped as two \uXXXX, take 49 KB
MAX_CALLS = 50  # side by side in this process, so that there is room for the rest of it

Json = dict[str, Any]


class RefusedError(Exception):
    """A request that is not served.

    Attributes:
        status: Of HTTP.
        sentence: What the user is told.
    """

    def __init__(self, status: int, sentence: str) -> None:
        """Refuse with this status and sentence."""
        super().__init__(f"refused with {status}")
        self.status = status
        self.sentence = sentence


@dataclass(frozen=True)
class VerifiedCall:
    """A request that passed.

    Attributes:
        called: Who asks; the owner is that person, never a group.
        mode: In which they talk with the bot.
        request: The request.
        body: What a POST brought.
    """

    called: Called
    mode: Mode
    request: Request
    body: Mapping[str, Any]

    @property
    def language(self) -> Language:
        """The language of the reply."""
        return self.called.language

    def refused(self, status: int, key: str, **values: Any) -> RefusedError:
        """A refusal, to be raised, that says a sentence in their language."""
        return RefusedError(status, say(key, self.language, **values))

    def number(self, name: str) -> int:
        """A number in the address, as an id of PostgreSQL's; 0, which nothing has, for others."""
        written = str(self.request.path_params[name])
        return int(written) if is_number(written, 18) else 0

    def text(self, name: str, limit: int) -> str:
        """A text of the body, at most so many characters, with something in it.

        Raises:
            RefusedError: It is none.
        """
        text = self.body.get(name)
        if not isinstance(text, str):
            raise self.refused(400, "app_bad_request")
        if len(text) > limit:
            raise self.refused(413, "app_too_long", limit=limit)
        if not text.strip():
            raise self.refused(400, "app_empty_text")
        return text.strip()


class Gate:
    """Verifies who asks, and counts."""

    def __init__(self, core: Core, token: str, permits: Callable[[int], bool]) -> None:
        """Let in whom the bot of ``token`` knows from Telegram, and ``permits`` by id."""
        self._core = core
        self._token = token
        self._permits = permits
        self._allowance = Allowance()
        self._calls = asyncio.Semaphore(MAX_CALLS)

    @asynccontextmanager
    async def passed(self, request: Request, cost: float) -> AsyncIterator[VerifiedCall]:
        """The request, verified; it takes ``cost`` of its sender's allowance.

        Raises:
            RefusedError: It is not served, or serving it failed, as in an outage of the database.
        """
        language = accepted_language(request)
        visitor = self._verify(request, language)
        language = choose_language(visitor.language_code)
        if visitor.is_bot or not self._permits(visitor.user_id):
            raise RefusedError(403, say("not_allowed", language, user_id=visitor.user_id))
        if not self._allowance.take(visitor.user_id, cost):
            raise RefusedError(429, say("app_too_often", language))
        if self._calls.locked():
            raise RefusedError(503, say("app_unavailable", language))
        async with self._calls:
            body = await _read_body(request, language) if request.method == "POST" else {}
            try:
                yield await self._asked(visitor, request, body)
            except AppError as error:
                logger.warning("a request of the page failed", exc_info=error)
                raise RefusedError(503, say("app_unavailable", language)) from error

    def _verify(self, request: Request, language: Language) -> Visitor:
        headers = request.headers.getlist("authorization")
        try:
            if len(headers) != 1 or headers[0][: len(SCHEME)].lower() != SCHEME:
                raise UnverifiedError("there is no initData")
            return read_init_data(headers[0][len(SCHEME) :], self._token, datetime.now(UTC))
        except UnverifiedError as error:
            raise RefusedError(401, say(error.text_key, language)) from error

    async def _asked(self, visitor: Visitor, request: Request, body: Json) -> VerifiedCall:
        """Who asks, with their settings; the database is asked in every request."""
        core, user_id = self._core, visitor.user_id
        known = await core.client.run(core.user_settings.get, user_id)
        called = core.called(Owner(user_id), known, visitor.language_code, member=user_id)
        if known.is_blocked:
            raise RefusedError(403, say("not_allowed", called.language, user_id=user_id))
        return VerifiedCall(called, known.mode, request, body)


def accepted_language(request: Request) -> Language:
    """The language of the browser, as long as it is not known who asks."""
    return choose_language(request.headers.get("accept-language", "")[:16].partition(",")[0])


def is_number(text: str, digits: int) -> bool:
    """Whether a text is a whole number of at most so many ASCII digits."""
    return text.isascii() and text.isdigit() and len(text) <= digits


async def _read_body(request: Request, language: Language) -> Json:
    """The object that a POST brings, as JSON of a bounded size."""
    sentence = say("app_bad_request", language)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RefusedError(415, sentence)
    body = await read_body(request, MAX_BODY)
    if body is None:
        raise RefusedError(413, sentence)
    try:
        told = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RefusedError(400, sentence) from error
    if not isinstance(told, dict):
        raise RefusedError(400, sentence)
    return told
