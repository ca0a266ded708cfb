"""Gate of the page's API: verifies each request and limits their rate.

``initData`` identifies who opened the page; Telegram signs it with the bot's token. Outside
Telegram a one-time link becomes a signed cookie. It names a row of ``page_sessions``, so that a
logout or an erasure ends it everywhere, and its key depends on the bot's token.
"""

import hashlib
import hmac
import json
import logging
import re
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID

from aiolimiter import AsyncLimiter
from itsdangerous import BadSignature, URLSafeTimedSerializer
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from src.base.errors import AppError
from src.base.owners import Caller, Owner
from src.core import Core
from src.outside.connections import SESSION_TIME, PageSessionRepository
from src.pg.client import PgClient
from src.texts import Language, choose_language, say
from src.web.http_server import read_body

logger = logging.getLogger(__name__)

BURST = 240.0  # requests at once; a visit that uses every control once costs some 150
PER_SECOND = 1.0  # requests a second that are regained
MAX_PEOPLE = 10_000  # with a limiter; the least recently used one is evicted


class Allowance:
    """Allowance of each person or address; each process has its own."""

    def __init__(self, burst: float = BURST, per_second: float = PER_SECOND) -> None:
        """Allow ``burst`` at once; ``per_second`` of it is regained."""
        self._limiter_of = lru_cache(MAX_PEOPLE)(lambda _: AsyncLimiter(burst, burst / per_second))

    def has(self, key: Hashable, cost: float = 1.0) -> bool:
        """Return True if ``cost`` is left of an allowance."""
        return self._limiter_of(key).has_capacity(cost)

    async def take(self, key: Hashable, cost: float = 1.0) -> bool:
        """Take ``cost`` from an allowance; return False, taking nothing, if it lacks it."""
        is_enough = self.has(key, cost)
        if is_enough:
            await self._limiter_of(key).acquire(cost)
        return is_enough


MAX_CHARACTERS = 8192  # of initData; Telegram sends about 700
MAX_FIELDS = 50  # of initData; Telegram sends five to ten
MAX_AGE = 24 * 3600  # seconds since the page was opened
MAX_AHEAD = 60  # seconds that Telegram's clock may be ahead of ours
MAX_ID = 2**52  # Telegram: ids have at most 52 significant bits
MAX_DIGITS = 12  # of a Unix timestamp


class UnverifiedError(AppError):
    """initData does not prove who opened the page."""

    text_key = "app_unauthorized"


class ExpiredError(UnverifiedError):
    """initData is too old."""

    text_key = "app_expired"


@dataclass(frozen=True)
class Visitor:
    """User who opened the page.

    Attributes:
        user_id: Telegram id.
        language_code: Language of the Telegram application, an IETF tag.
    """

    user_id: int
    language_code: str | None = None

    @classmethod
    def parse(cls, user: str) -> Self:
        """Parse the field ``user`` of initData, which is JSON.

        Raises:
            UnverifiedError: It names nobody.
        """
        try:
            data: Any = json.loads(user)
        except (ValueError, RecursionError) as error:
            raise UnverifiedError("initData does not say who opened the page") from error
        number = data.get("id") if isinstance(data, dict) else None
        if type(number) is not int or not 0 < number < MAX_ID:
            raise UnverifiedError("initData names nobody")
        code = data.get("language_code")
        return cls(number, code if isinstance(code, str) else None)


def read_init_data(text: str, token: str, now: datetime) -> Visitor:
    """Verify ``initData``, and return the user who opened the page.

    aiogram's ``check_webapp_signature`` computes the same signature, and compares it in constant
    time as well, but it takes the last of two fields of one name, leaves empty fields unsigned,
    replaces bytes that are not UTF-8, raises TypeError for a hash beyond ASCII, and checks no age.

    Args:
        text: As Telegram passes it to the page: percent-encoded, ASCII.
        token: Token of the bot that the page belongs to.
        now: Current time (aware), for the check of its age.

    Raises:
        UnverifiedError: It is forged, malformed, or meant for another bot.
        ExpiredError: It is older than MAX_AGE.
    """
    fields = _parse_fields(text)
    signature = fields.pop("hash", "")
    # Source: https://core.telegram.org/bots/webapps#validating-data-received-via-the-mini-app
    signed = "\n".join(f"{name}={value}" for name, value in sorted(fields.items()))
    key = hmac.new(b"WebAppData", token.encode(), hashlib.sha256).digest()
    own = hmac.new(key, signed.encode(), hashlib.sha256).hexdigest()
    if not hmac.compare_digest(own.encode(), signature.encode()):
        raise UnverifiedError("the signature of initData is not Telegram's")
    opened_at = to_number(fields.get("auth_date", ""), MAX_DIGITS)
    if opened_at is None:
        raise UnverifiedError("initData does not say when the page was opened")
    age = now.timestamp() - opened_at
    if age < -MAX_AHEAD:
        raise UnverifiedError("initData is from the future")
    if age > MAX_AGE:
        raise ExpiredError("initData is too old")
    return Visitor.parse(fields.get("user", ""))


def _parse_fields(text: str) -> dict[str, str]:
    if len(text) > MAX_CHARACTERS or not text.isascii():
        raise UnverifiedError("initData is too long, or no ASCII")
    try:
        pairs = parse_qsl(text, True, True, errors="strict", max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise UnverifiedError("initData is no query string of UTF-8") from error
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise UnverifiedError("a field of initData stands there twice")
    return fields


COOKIE = "pomni_page"
LINK = re.compile(r"[A-Za-z0-9_-]{43}")


class PageSessions:
    """Opens, finds and closes the sessions of browsers."""

    def __init__(self, client: PgClient, token: str, url: str) -> None:
        """Sign with the bot's ``token``; ``url`` is the public address of the page."""
        self._run = client.run
        self._rows = PageSessionRepository(client)
        self._url = urlsplit(url)
        key = hmac.new(token.encode(), b"page outside Telegram", hashlib.sha256).digest()
        self._signer = URLSafeTimedSerializer(key, salt="session of a page")

    def comes_from_page(self, request: Request) -> bool:
        """Return True unless a browser says that another site sent the request.

        Browsers name the sender in ``Sec-Fetch-Site``, older ones the origin of each POST.
        """
        site = request.headers.get("sec-fetch-site")
        if site is not None:
            return site == "same-origin"
        origin = request.headers.get("origin")
        if origin is None:
            return request.method == "GET"
        host = urlsplit(origin).netloc
        return host in (self._url.netloc, request.headers.get("host"))

    async def enter(self, link: str, response: Response) -> bool:
        """Open a session with the token of a link, and set its cookie; False if it is void."""
        if LINK.fullmatch(link) is None:
            return False
        session_id = await self._run(self._rows.open, link)
        if session_id is None:
            return False
        response.set_cookie(
            COOKIE,
            str(self._signer.dumps(session_id)),
            max_age=int(SESSION_TIME.total_seconds()),
            path=self._path,
            httponly=True,
            samesite="strict",
            secure=self._url.scheme == "https",
        )
        return True

    async def find_user(self, request: Request) -> int | None:
        """Return the Telegram id of the person whose session a request belongs to, or None."""
        session_id = self._read(request)
        if session_id is None:
            return None
        return await self._run(self._rows.find_user, session_id)

    async def leave(self, owner: Owner, request: Request, response: Response) -> None:
        """Close the session of a request, and delete its cookie."""
        session_id = self._read(request)
        if session_id is not None:
            await self._run(self._rows.close, owner, session_id)
        response.delete_cookie(COOKIE, path=self._path)

    @property
    def _path(self) -> str:
        """Path below which browsers send the cookie: the page and its API."""
        return self._url.path.rpartition("/")[0] + "/"

    def _read(self, request: Request) -> UUID | None:
        cookie, seconds = request.cookies.get(COOKIE, ""), SESSION_TIME.total_seconds()
        try:
            return UUID(self._signer.loads(cookie, max_age=int(seconds)))
        except (BadSignature, ValueError, TypeError, AttributeError):
            return None


SCHEME = "tma "  # scheme of the Authorization header: Telegram Mini App
MAX_BODY = 65_536  # bytes; 4,096 characters, each escaped as two \uXXXX, take 49 KB

Json = dict[str, Any]


class RefusedError(HTTPException):
    """The request is not served; ``detail`` explains it to the user in their language."""


@dataclass(frozen=True)
class VerifiedCall:
    """Request that passed the gate.

    Attributes:
        caller: The caller; the owner is that person, never a group.
        request: The request.
        body: JSON object of a POST.
    """

    caller: Caller
    request: Request
    body: Mapping[str, Any]

    @property
    def language(self) -> Language:
        """Language of the reply."""
        return self.caller.language

    def refusal(self, status: int, key: str, **values: Any) -> RefusedError:
        """Return an error to be raised, with a sentence in the caller's language."""
        return RefusedError(status, say(key, self.language, **values))

    def number(self, name: str) -> int:
        """Return an id in the path; 0, which no row has, if it is malformed."""
        return to_number(str(self.request.path_params[name]), 18) or 0

    def text(self, name: str, limit: int) -> str:
        """Return a text of the body, stripped, non-empty, with at most ``limit`` characters.

        Raises:
            RefusedError: It is missing, empty or too long.
        """
        text = self.body.get(name)
        if not isinstance(text, str):
            raise self.refusal(400, "app_bad_request")
        if len(text) > limit:
            raise self.refusal(413, "app_too_long", limit=limit)
        if not text.strip():
            raise self.refusal(400, "app_empty_text")
        return text.strip()


class Gate:
    """Verifies callers, and limits their requests."""

    def __init__(
        self,
        core: Core,
        token: str,
        permits: Callable[[int], bool],
        sessions: PageSessions | None = None,
    ) -> None:
        """Admit users whom Telegram verifies with ``token``, and ``permits`` by id.

        With ``sessions``, also those whose browser has one.
        """
        self._core = core
        self._token = token
        self._permits = permits
        self._sessions = sessions
        self._allowance = Allowance()

    @asynccontextmanager
    async def verified(self, request: Request, cost: float) -> AsyncIterator[VerifiedCall]:
        """Yield the verified request; it takes ``cost`` from its sender's allowance.

        Raises:
            RefusedError: The request is refused, or it failed, as in an outage of the database.
        """
        language = accepted_language(request)
        if self._sessions is not None and "authorization" not in request.headers:
            visitor = await self._find_visitor(self._sessions, request, language)
        else:
            visitor = self._verify(request, language)
        language = choose_language(visitor.language_code)
        if not self._permits(visitor.user_id):
            raise RefusedError(403, say("not_allowed", language, user_id=visitor.user_id))
        if not await self._allowance.take(visitor.user_id, cost):
            raise RefusedError(429, say("app_too_often", language))
        body = await read_json(request, language) if request.method == "POST" else {}
        core, user_id = self._core, visitor.user_id
        try:
            chosen = await core.client.run(core.user_settings.get, user_id)
            caller = core.caller(Owner(user_id), chosen, visitor.language_code, member=user_id)
            if chosen.is_blocked:
                raise RefusedError(403, say("not_allowed", caller.language, user_id=user_id))
            yield VerifiedCall(caller, request, body)
        except AppError as error:
            logger.warning("a request of the page failed", exc_info=error)
            raise RefusedError(503, say("app_unavailable", language)) from error

    def _verify(self, request: Request, language: Language) -> Visitor:
        text = find_credentials(request, SCHEME)
        try:
            if text is None:
                raise UnverifiedError("there is no initData")
            return read_init_data(text, self._token, datetime.now(UTC))
        except UnverifiedError as error:
            raise RefusedError(401, say(error.text_key, language)) from error

    async def _find_visitor(
        self, sessions: PageSessions, request: Request, language: Language
    ) -> Visitor:
        if not sessions.comes_from_page(request):
            raise RefusedError(403, say("app_unauthorized", language))
        try:
            user_id = await sessions.find_user(request)
        except AppError as error:
            logger.warning("a session of the page could not be read", exc_info=error)
            raise RefusedError(503, say("app_unavailable", language)) from error
        if user_id is None:
            raise RefusedError(401, say("enter_needed", language))
        return Visitor(user_id, language_code=language)


def accepted_language(request: Request) -> Language:
    """Return the language of the browser, for callers that are not known yet."""
    return choose_language(request.headers.get("accept-language", "")[:16].partition(",")[0])


def find_credentials(request: Request, scheme: str) -> str | None:
    """Return what follows ``scheme`` in the only Authorization header; None for anything else."""
    headers = request.headers.getlist("authorization")
    if len(headers) != 1 or headers[0][: len(scheme)].lower() != scheme:
        return None
    return headers[0][len(scheme) :]


def to_number(text: str, digits: int) -> int | None:
    """Return a whole number of at most ``digits`` ASCII digits; None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None


async def read_json(request: Request, language: Language) -> Json:
    """Return the JSON object that a request brings.

    Raises:
        RefusedError: It brings something else, or too much.
    """
    sentence = say("app_bad_request", language)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RefusedError(415, sentence)
    try:
        data = json.loads(await read_body(request, MAX_BODY))
    except (ValueError, RecursionError) as error:
        raise RefusedError(400, sentence) from error
    if not isinstance(data, dict):
        raise RefusedError(400, sentence)
    return data
