"""Foundation of the pages of ``/admin``: login, sessions, forms, rendering, audit."""

import contextlib
import hmac
import logging
import re
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from src.base.errors import AppError
from src.base.owners import Owner
from src.base.zones import first_moment, local_time
from src.core import Core
from src.memory.change_repo import UNDO_SECONDS
from src.pg.client import Params, Record
from src.web import admin_access
from src.web.admin_access import AdminAccess, AdminSession, Role
from src.web.admin_words import FILTERS, format_clock, format_moment, labels
from src.web.app_gate import to_number
from src.web.http_server import read_body

logger = logging.getLogger(__name__)

# Every page except the login requires a session, and every form carries the session's token.
# Texts of users stay text: the templates escape everything, and the headers forbid all scripts.

HERE = Path(__file__).parent
PAGE = 50  # rows
LAST = 2**62  # greater than every id and position
MAX_FORM = 100_000  # bytes
MAX_DEEP_LINK = 1000  # characters
DEEP_LINK = re.compile(r"/(?:[\w.~%+:@=&?,;!*'()-][\w.~%+:@=&?,;!*'()/-]*)?")
COOKIE, BROWSER_COOKIE = "pomni_admin", "pomni_admin_browser"

# Sentences for errors by status; other errors bring their own.
REFUSALS = {
    404: "There is no such page, or what it showed is gone.",
    405: "This page is opened, not sent to.",
    413: "The form is too long.",
}

# Store an action in the audit.
INSERT_ACTION = """
INSERT INTO admin_actions (who, address, action, target)
VALUES (%(who)s, left(%(address)s, 100), %(action)s, left(%(target)s, 200))
"""

# Logged-out sessions: over in every process, although their cookies are still valid.
INSERT_LOGOUT = "INSERT INTO admin_logouts (session_id) VALUES (%(id)s) ON CONFLICT DO NOTHING"
SELECT_LOGOUT = "SELECT ended_at FROM admin_logouts WHERE session_id = %(id)s"

# Name of an owner, or their id.
SELECT_NAME = """
SELECT coalesce(nullif(name, ''), telegram_user_id::text) AS name FROM owners
WHERE id = %(owner)s
"""

Fields = Mapping[str, str]
Values = dict[str, Any]  # variables of a template
Page = Callable[["AdminSite", Request], Awaitable[Response]]
Action = Callable[["AdminSite", Request, Fields], Awaitable[str | Response]]


class AdminSite:
    """Login, sessions, audit and rendering, which all pages share.

    Attributes:
        core: Objects that all doors share.
        run: Runs a blocking method of a repository in a thread.
        menu: Paths, titles and roles of the pages in the menu, which their routes add.
        zone: Time zone of the displayed moments and days.
    """

    def __init__(self, core: Core, access: AdminAccess) -> None:
        """Show data of ``core`` to sessions of ``access``."""
        self.core = core
        self._access = access
        self.run = core.client.run
        self.menu: list[tuple[str, str, Role]] = []
        self.zone = core.settings.timezone
        self._templates = Environment(
            loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined
        )
        self._templates.globals.update(
            labels=labels(), zone=self.zone, undo_minutes=UNDO_SECONDS // 60
        )
        self._templates.filters.update(
            FILTERS,
            moment=partial(format_moment, zone=self.zone),
            clock=partial(format_clock, zone=self.zone),
        )

    async def show_login(self, request: Request) -> Response:
        """Ask for the password, or redirect a session to the page it wants."""
        next_ = request.query_params.get("next", "")
        if await self._find_session(request):
            return _redirect_inside(request, next_)
        return self.render(request, "login.html", problem="", next=next_)

    async def login(self, request: Request) -> Response:
        """Check the password; the answer says only whether it is right."""
        if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            raise HTTPException(403)  # the browser says that another site sent the form
        form = await _read_form(request)
        next_ = form.get("next", "")
        guesser, is_stranger = self._access.identify(
            request.cookies.get(BROWSER_COOKIE, ""),
            client_address(request),
            is_forwarded="x-forwarded-for" in request.headers,
        )
        try:
            typed = form.get("password", "")
            role = await self._access.check(typed, guesser, is_stranger=is_stranger)
        except admin_access.TooManyGuessesError as error:
            problem = f"Too many wrong passwords. Try again in {error.seconds} seconds."
            page = self.render(request, "login.html", status=429, problem=problem, next=next_)
            page.headers["Retry-After"] = str(error.seconds)
            return page
        if role is None:
            address = {"address": client_address(request)}
            logger.warning("a wrong password for the admin page", extra=address)
            await self.note(request, "wrong password")
            problem = "This is not the password."
            return self.render(request, "login.html", status=401, problem=problem, next=next_)
        return await self._start_session(request, role, next_)

    async def _start_session(self, request: Request, role: Role, next_: str) -> Response:
        cookie = self._access.new_session(role)
        request.state.session = self._access.read_session(cookie)
        await self.note(request, "login")
        response = _redirect_inside(request, next_)
        browser = request.cookies.get(BROWSER_COOKIE, "")
        if self._access.read_browser(browser) is None:
            browser = self._access.new_browser(role)
        is_https = request.headers.get("x-forwarded-proto", request.url.scheme) == "https"
        for name, value, seconds in (
            (COOKIE, cookie, admin_access.SESSION_SECONDS),
            (BROWSER_COOKIE, browser, admin_access.BROWSER_SECONDS),
        ):
            response.set_cookie(
                name,
                value,
                max_age=seconds,
                path=request.scope["root_path"] or "/",
                httponly=True,
                samesite="strict",
                secure=is_https,
            )
        return response

    async def logout(self, request: Request, _form: Fields) -> Response:
        """End the session in every process."""
        await self.rows(INSERT_LOGOUT, id=request.state.session.id)
        await self.note(request, "logout")
        root = request.scope["root_path"]
        response = RedirectResponse(f"{root}/login", 303)
        response.delete_cookie(COOKIE, path=root or "/")
        return response

    def page_route(
        self,
        path: str,
        page: Page,
        title: str = "",
        *,
        role: Role = Role.OPERATOR,
        method: str = "GET",
    ) -> Route:
        """Build the route of a page for operators, with ``Role.READER`` for readers as well.

        With a ``title`` the page is in the menu.
        """
        if title:
            self.menu.append((path, title, role))

        async def show(request: Request) -> Response:
            session = await self._find_session(request)
            if session is None:
                root = request.scope["root_path"]
                address = f"{root}/login"
                asked = request.url.replace(scheme="", netloc="")  # path and query
                next_ = str(asked).removeprefix(root)
                if request.method == "GET" and next_ != "/":
                    address += "?" + urlencode({"next": next_})
                return RedirectResponse(address, 303)
            request.state.session = session
            if Role.READER == session.role != role:
                raise HTTPException(
                    403, "A reader sees figures and failures, and changes nothing."
                )
            return await page(self, request)

        return Route(path, show, methods=[method])

    def audited_route(self, path: str, page: Page, subject: str) -> Route:
        """Build the route of a page with texts of an owner; the audit notes who read it."""

        async def show(site: AdminSite, request: Request) -> Response:
            owner = owner_of(request)
            for row in await site.rows(SELECT_NAME, owner):
                request.state.whose = row["name"]
            response = await page(site, request)
            await site.note(request, f"read {subject}", path_of(owner)[1:])
            return response

        return self.page_route(path, show)

    def form_route(self, path: str, action: Action, *, role: Role = Role.OPERATOR) -> Route:
        """Build the route of a form that a session submits.

        ``action`` returns the path to redirect to, or the page itself.
        """

        async def do(site: AdminSite, request: Request) -> Response:
            form = await _read_form(request)
            token = request.state.session.form_token
            if not hmac.compare_digest(token.encode(), form.get("token", "").encode()):
                raise HTTPException(403, "This form is out of date: open its page again.")
            result = await action(site, request, form)
            if isinstance(result, Response):
                return result
            return RedirectResponse(request.scope["root_path"] + result, 303)

        return self.page_route(path, do, role=role, method="POST")

    async def report_failure(self, request: Request, error: Exception) -> Response:
        """Render the error page of a request that failed."""
        logger.warning("an admin page failed", exc_info=error)
        return self.render(request, "failure.html", status=503, problem=str(error))

    async def refuse(self, request: Request, error: Exception) -> Response:
        """Render the error page of a request that was refused."""
        assert isinstance(error, HTTPException)  # Starlette calls it for those alone
        if not hasattr(request.state, "session"):
            with contextlib.suppress(AppError):
                request.state.session = await self._find_session(request)
        status = error.status_code
        problem = REFUSALS.get(status, error.detail)
        return self.render(request, "refusal.html", status=status, problem=problem)

    async def _find_session(self, request: Request) -> AdminSession | None:
        session = self._access.read_session(request.cookies.get(COOKIE, ""))
        if session is None or await self.rows(SELECT_LOGOUT, id=session.id):
            return None
        return session

    def render(
        self, request: Request, template: str, *, status: int = 200, **values: Any
    ) -> HTMLResponse:
        """Render ``template`` with ``values`` and with the session, the path and the zone.

        ``link`` makes addresses of the same page with other parameters. Of pages about ``owner``,
        ``base`` is the beginning of their paths, ``whose`` the name.
        """
        root, owner, session = request.scope["root_path"], values.get("owner"), session_of(request)
        values.update(root=root, path=request.url.path, is_inside=session is not None)
        values.update(link=partial(query_of, request))
        if session is not None:
            is_reader = session.role == Role.READER
            menu = [entry for entry in self.menu if not is_reader or entry[2] == Role.READER]
            values.update(is_reader=is_reader, menu=menu, token=session.form_token)
        if owner is not None:
            whose = getattr(request.state, "whose", owner.telegram_user_id)
            values.update(base=root + path_of(owner), whose=whose)
        return HTMLResponse(self._templates.get_template(template).render(values), status)

    async def rows(self, statement: str, params: Params = None, **values: Any) -> list[Record]:
        """Execute a statement; return its rows."""
        return await self.run(self.core.client.fetch_records, statement, params, **values)

    async def note(self, request: Request, action: str, target: str = "") -> None:
        """Store an action, its session and its address in the audit."""
        session, address = session_of(request), client_address(request)
        who = ""
        if session:
            who = session.name
        await self.rows(INSERT_ACTION, who=who, address=address, action=action, target=target)

    def midnight(self, days: int = 1) -> datetime:
        """Return the beginning of the last ``days`` days, today included."""
        return first_moment(datetime.combine(self.first_day(days), time.min), self.zone)

    def first_day(self, days: int) -> date:
        """Return the first of the last ``days`` days."""
        return local_time(datetime.now(UTC), self.zone).date() - timedelta(days=days - 1)


def session_of(request: Request) -> AdminSession | None:
    """Return the session of a request; None before the login."""
    return getattr(request.state, "session", None)


async def _read_form(request: Request) -> dict[str, str]:
    body = await read_body(request, MAX_FORM)
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def _redirect_inside(request: Request, next_: str) -> Response:
    """Redirect to ``next_`` if it is a path of this site, else to the overview."""
    if len(next_) > MAX_DEEP_LINK or not DEEP_LINK.fullmatch(next_):
        next_ = "/"
    return RedirectResponse(request.scope["root_path"] + next_, 303)


def client_address(request: Request) -> str:
    """Return the address of the client; proxies of ``TRUSTED_PROXIES`` are resolved by then."""
    if request.client:
        return request.client.host
    return "unknown"


def owner_of(request: Request) -> Owner:
    """Return the owner of the page, by its address.

    Raises:
        HTTPException: 404, the address is not of an owner.
    """
    with contextlib.suppress(ValueError):
        owner = Owner(int(request.path_params["user"]), request.path_params["thread"])
        if max(map(abs, owner)) < 2**52:
            return owner
    raise HTTPException(404)


def path_of(owner: Owner) -> str:
    """Return the path of the pages about an owner; without its slash, the target in the audit."""
    return f"/users/{owner.telegram_user_id}/{owner.thread_id}"


def choice_of(request: Request, name: str, choices: Container[str], default: str = "") -> str:
    """Return a query parameter if it is one of ``choices``, else ``default``."""
    value = request.query_params.get(name, default)
    if value in choices:
        return value
    return default


def text_of(request: Request, name: str, limit: int) -> str:
    """Return a query parameter as text of at most ``limit`` characters, without NUL."""
    return request.query_params.get(name, "").replace("\0", "").strip()[:limit]


def int_of(request: Request, name: str, *, digits: int = 9) -> int | None:
    """Return a query parameter of at most ``digits`` digits; None without a number."""
    return to_number(request.query_params.get(name, ""), digits)


def query_of(request: Request, **changed: object) -> str:
    """Return the query string of a request with some parameters changed, without empty ones."""
    parts = {**request.query_params, **changed}
    filled = {name: str(value) for name, value in parts.items() if value}
    if not filled:
        return ""
    return f"?{QueryParams(filled)}"


def next_page(ids: Sequence[int]) -> int | None:
    """Return the id before which the next page begins; None after a page that is not full."""
    if len(ids) < PAGE:
        return None
    return ids[-1]
