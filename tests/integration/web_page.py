"""The web app of one user: requests to its API over ASGI, authorized as by Telegram."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx

from src.base.owners import Owner
from src.core import Core
from src.talk.turn_state import Teaching
from src.web.app_api import build_web_app
from tests.fakes.init_data import signed
from tests.integration.person import Rig

TOKEN = "123456:ABC-def_token"
STRANGER = 2**41 + 4_000_000  # a user without access to the bot

Json = dict[str, Any]


@dataclass
class WebPage:
    """A page opened by a user.

    Attributes:
        rig: The bot.
        http: Client of the API.
        user: The user's id.
        language_code: Language of the user's Telegram.
    """

    rig: Rig
    http: httpx.AsyncClient
    user: int
    language_code: str = "ru"
    seen: list[httpx.Response] = field(default_factory=list)

    @property
    def owner(self) -> Owner:
        return Owner(self.user)

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every request of the page."""
        text = signed(TOKEN, self.user, datetime.now(UTC), language_code=self.language_code)
        return {"Authorization": f"tma {text}"}

    def of(self, user: int, language_code: str = "ru") -> WebPage:
        """Return the page of another user."""
        return WebPage(self.rig, self.http, user, language_code)

    async def ask(self, path: str, body: Any = None, status: int = 200) -> Json:
        """Send GET, or POST with a body; checks the status and returns the answer."""
        if body is None:
            response = await self.http.get(f"/api/{path}", headers=self.headers)
        else:
            response = await self.http.post(f"/api/{path}", headers=self.headers, json=body)
        assert response.status_code == status, (path, response.text[:300])
        return dict(response.json())

    async def refused(self, path: str, body: Any = None, status: int = 404) -> str:
        """Send a request that must fail, and return the error sentence."""
        answer = await self.ask(path, body, status)
        assert list(answer) == ["error"]
        return str(answer["error"])

    async def facts(self, query: str = "") -> list[Json]:
        """Return the facts in the order of the page."""
        return list((await self.ask(f"facts{query}"))["facts"])

    async def fact(self, text: str) -> Json:
        """Return the fact with this text."""
        [found] = [fact for fact in await self.facts() if fact["text"] == text]
        return found

    async def teach(self, text: str, **changes: Any) -> str:
        """Write ``/remember text`` in the chat; returns the answer."""
        answer = await self.rig.ask(text, self.user, teaching=Teaching(), **changes)
        return answer.text

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Query the database; ``%(user)s`` is the user's id."""
        return self.rig.rows(sql, user=self.user)


@asynccontextmanager
async def open_page(rig: Rig, user: int, core: Core | None = None) -> AsyncIterator[WebPage]:
    """Open the page of a bot that allows all users except STRANGER."""
    app = build_web_app(core or rig.core, TOKEN, lambda user_id: user_id != STRANGER)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://bot") as client:
        yield WebPage(rig, client, user)
