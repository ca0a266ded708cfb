"""``/app`` as an ASGI app: the page, its script and style, and the API, under strict headers."""

from __future__ import annotations

import html
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from src.core import Core
from src.texts import LANGUAGES, say
from src.web.app_api import Api, explain_defect, refuse_unknown
from src.web.app_gate import Gate

HERE = Path(__file__).parent
# The one script that is not ours, from which the page has ``initData`` and the theme.
TELEGRAM_SCRIPT = "https://telegram.org/js/telegram-web-app.js"
# Telegram shows the page in a view of its own; in a browser, in a frame of web.telegram.org.
HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; script-src 'self' {TELEGRAM_SCRIPT}; "
    "style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'none'; "
    "base-uri 'none'; frame-ancestors https://web.telegram.org https://*.telegram.org",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
STATIC_HEADERS = {**HEADERS, "Cache-Control": "no-cache"}  # asked for again, by its ETag


class _Headers:
    """Adds our headers to every response, also to refusals."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        wanted = STATIC_HEADERS if "/static/" in scope["path"] else HEADERS

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                ours = [(name.lower().encode(), value.encode()) for name, value in wanted.items()]
                message["headers"] = [*message["headers"], *ours]
            await send(message)

        await self._app(scope, receive, send_with_headers)


def build_web_app(core: Core, token: str, permits: Callable[[int], bool]) -> Any:
    """The page as an ASGI app, to be mounted somewhere.

    Args:
        core: Whose memory it shows.
        token: The bot's, with which Telegram signs who opens the page.
        permits: Whether somebody, by his Telegram id, may use the bot.
    """
    page = _page()

    async def show(_request: Request) -> Response:
        return HTMLResponse(page)

    app = Starlette(
        routes=[
            Route("/", show, methods=["GET"]),
            Mount("/static", StaticFiles(directory=HERE / "static")),
            Mount("/api", routes=Api(core, Gate(core, token, permits)).routes()),
        ],
        exception_handlers={HTTPException: refuse_unknown, Exception: explain_defect},
    )
    return _Headers(app)


def _page() -> str:
    """The page; what it says when it reaches nobody stands in it, in every language."""
    said = "".join(
        f'<p lang="{language}">{html.escape(say("app_unreachable", language))}</p>'
        for language in LANGUAGES
    )
    source = (HERE / "page.html").read_text(encoding="utf-8")
    return source.replace("{unreachable}", said).replace("{script}", TELEGRAM_SCRIPT)
