"""Who may ask the page's API, how often, and with what; every request passes here."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request

from src.application import Core
from src.errors import AppError
from src.services.called import Called
from src.storage.owner import Owner
from src.storage.user_settings_repo import Mode
from src.texts import Language, choose_language, say
from src.webapp.allowance import Allowance
from src.webapp.init_data import UnverifiedError, Visitor, read_init_data

logger = logging.getLogger(__name__)

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
class Asked:
    """A request that passed.

    Attributes:
        called: Who asks; the owner is he himself, never a group.
        mode: In which he talks with the bot.
        request: The request.
        body: What a POST brought.
    """

    called: Called
    mode: Mode
    request: Request
    body: Mapping[str, Any]

    @property
    def language(self) -> Language:
        """In which he is answered."""
        return self.called.language

    def refused(self, status: int, key: str, **values: Any) -> RefusedError:
        """A refusal, to be raised, that says a sentence in his language."""
        return RefusedError(status, say(key, self.language, **values))

    def number(self, name: str) -> int:
        """A number in the address, as an id of PostgreSQL's; 0, which nothing has, for others."""
        written = str(self.request.path_params[name])
        is_id = written.isascii() and written.isdigit() and len(written) <= 18
        return int(written) if is_id else 0

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
        """Let in whom the bot of ``token`` knows from Telegram, and ``permits`` by his id."""
        self._core = core
        self._token = token
        self._permits = permits
        self._allowance = Allowance()
        self._calls = asyncio.Semaphore(MAX_CALLS)

    @asynccontextmanager
    async def passed(self, request: Request, cost: float) -> AsyncIterator[Asked]:
        """The request, verified; it takes ``cost`` of what its sender may ask.

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
        scheme, init_data = _split(request.headers.getlist("authorization"))
        try:
            if scheme != SCHEME:
                raise UnverifiedError("there is no initData")
            return read_init_data(init_data, self._token, datetime.now(UTC))
        except UnverifiedError as error:
            raise RefusedError(401, say(error.text_key, language)) from error

    async def _asked(self, visitor: Visitor, request: Request, body: Json) -> Asked:
        """Who asks, with what he chose; the database is asked in every request."""
        core = self._core
        known = await core.client.run(core.user_settings.get, visitor.user_id)
        called = Called(
            Owner(visitor.user_id),
            choose_language(known.language, visitor.language_code),
            datetime.now(UTC),
            known.time_zone or core.settings.timezone,
            member=visitor.user_id,
        )
        return Asked(called, known.mode, request, body)


def accepted_language(request: Request) -> Language:
    """The language of the browser, as long as it is not known who asks."""
    return choose_language(request.headers.get("accept-language", "")[:16].partition(",")[0])


def _split(headers: list[str]) -> tuple[str, str]:
    """Scheme and value of the one Authorization header."""
    if len(headers) != 1:
        return "", ""
    return headers[0][: len(SCHEME)].lower(), headers[0][len(SCHEME) :]


async def _read_body(request: Request, language: Language) -> Json:
    """The object that a POST brings, as JSON of a bounded size."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RefusedError(415, say("app_bad_request", language))
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY:
            raise RefusedError(413, say("app_bad_request", language))
    try:
        told = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RefusedError(400, say("app_bad_request", language)) from error
    if not isinstance(told, dict):
        raise RefusedError(400, say("app_bad_request", language))
    return told
