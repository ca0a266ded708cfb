"""Sessions of the page outside Telegram: a one-time link becomes a signed cookie.

The cookie names a row of ``page_sessions``, so that a logout or an erasure ends it everywhere. It
is signed with a key that depends on the bot's token.
"""

import hashlib
import hmac
import re
from urllib.parse import urlsplit
from uuid import UUID

from itsdangerous import BadSignature, URLSafeTimedSerializer
from starlette.requests import Request
from starlette.responses import Response

from src.base.owners import Owner
from src.outside.page_session_repo import SESSION_TIME, PageSessionRepository
from src.pg.client import PgClient

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
