"""The page in somebody's hand: requests to its API, over ASGI, as Telegram lets him make them."""

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
STRANGER = 2**41 + 4_000_000  # whom the bot does not permit

Json = dict[str, Any]


@dataclass
class WebPage:
    """A page that somebody has open.

    Attributes:
        rig: The bot behind it.
        http: The connection.
        user: Who opened it.
        language_code: Of his Telegram.
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
        """What the page sends with every request."""
        text = signed(TOKEN, self.user, datetime.now(UTC), language_code=self.language_code)
        return {"Authorization": f"tma {text}"}

    def of(self, user: int, language_code: str = "ru") -> WebPage:
        """The page of somebody else."""
        return WebPage(self.rig, self.http, user, language_code)

    async def ask(self, path: str, body: Any = None, status: int = 200) -> Json:
        """GET, or POST with a body; what is answered, with this status."""
        if body is None:
            response = await self.http.get(f"/api/{path}", headers=self.headers)
        else:
            response = await self.http.post(f"/api/{path}", headers=self.headers, json=body)
        assert response.status_code == status, (path, response.text[:300])
        return dict(response.json())

    async def refused(self, path: str, body: Any = None, status: int = 404) -> str:
        """The sentence with which something is refused."""
        told = await self.ask(path, body, status)
        assert list(told) == ["error"]
        return str(told["error"])

    async def facts(self, query: str = "") -> list[Json]:
        """The facts as the page lists them."""
        return list((await self.ask(f"facts{query}"))["facts"])

    async def fact(self, text: str) -> Json:
        """The one with this text."""
        [found] = [fact for fact in await self.facts() if fact["text"] == text]
        return found

    async def teach(self, text: str, **changes: Any) -> str:
        """Write ``/remember text`` in the chat; the answer."""
        answer = await self.rig.ask(text, self.user, teaching=Teaching(), **changes)
        return answer.text

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Look into the database; ``%(user)s`` is this person."""
        return self.rig.rows(sql, user=self.user)


@asynccontextmanager
async def open_page(rig: Rig, user: int, core: Core | None = None) -> AsyncIterator[WebPage]:
    """The page of a bot that permits everybody but STRANGER."""
    app = build_web_app(core or rig.core, TOKEN, lambda user_id: user_id != STRANGER)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://bot") as client:
        yield WebPage(rig, client, user)
