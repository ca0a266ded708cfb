"""What every page of ``/admin`` stands on: the login, the forms, how a page is drawn."""

import contextlib
import hmac
import ipaddress
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from src.base.errors import AppError
from src.base.owners import Owner
from src.base.zones import first_moment, local_time
from src.core import Core
from src.pg.client import Params, Record
from src.web import admin_access
from src.web.admin_access import Access, Role, Session
from src.web.admin_markdown import link_references
from src.web.admin_words import FILTERS
from src.web.app_gate import is_number
from src.web.http_server import read_body

logger = logging.getLogger(__name__)

# Every page but the login asks for a session, and every form brings the session's token. Texts of
# users are shown as text: the templates escape everything, and the browser is told to run nothing.

HERE = Path(__file__).parent
PAGE = 50  # rows
LAST = 2**62  # behind every id and position
MAX_FORM = 100_000  # bytes
MAX_DEEP_LINK = 1000  # characters
DEEP_LINK = re.compile(r"/(?:[\w.~%+:@=&?,;!*'()-][\w.~%+:@=&?,;!*'()/-]*)?")
COOKIE, BROWSER_COOKIE = "pomni_admin", "pomni_admin_browser"

# What is said of a status that has no sentence of its own.
REFUSALS = {
    404: "There is no such page, or what it showed is gone.",
    405: "This page is opened, not sent to.",
    413: "The form is too long.",
}

# Write down what was done, by whom and from where.
INSERT_ACTION = """
INSERT INTO admin_actions (who, address, action, target)
VALUES (%(who)s, left(%(address)s, 100), %(action)s, left(%(target)s, 200))
"""

# A session that was ended is over in every process, whatever its cookie says.
INSERT_LOGOUT = "INSERT INTO admin_logouts (session_id) VALUES (%(id)s) ON CONFLICT DO NOTHING"
SELECT_LOGOUT = "SELECT ended_at FROM admin_logouts WHERE session_id = %(id)s"

# What somebody is called, as far as it is known.
SELECT_NAME = "SELECT name FROM owners WHERE id = %(owner)s"

Page = Callable[[Request], Awaitable[Response]]
Fields = Mapping[str, str]
Action = Callable[[Request, Fields], Awaitable[str | Response]]


class AdminSite:
    """Lets operators in, and draws what the pages found."""

    def __init__(self, core: Core, access: Access) -> None:
        """Show what ``core`` keeps to whom ``access`` lets in."""
        self.core = core
        self._access = access
        self._client = core.client
        self._templates = Environment(
            loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined
        )
        self._templates.filters.update(
            FILTERS, moment=self._moment, clock=self._clock, linked=link_references
        )

    def routes(self) -> list[Route | Mount]:
        """The login, the logout and what the pages look like."""
        return [
            Route("/login", self._answered(self.show_login), methods=["GET"]),
            Route("/login", self._answered(self.login), methods=["POST"]),
            self.done("/logout", self.logout, role=Role.READER),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ]

    async def show_login(self, request: Request) -> Response:
        """Ask for the password; whoever is inside goes on."""
        next_ = request.query_params.get("next", "")
        if await self._find_session(request):
            return _go_on(request, next_)
        return self.render(request, "login.html", problem="", next=next_)

    async def login(self, request: Request) -> Response:
        """Take the password; say only whether it is right."""
        if not _is_same_site(request):
            raise HTTPException(403)
        form = await _read_form(request)
        next_ = form.get("next", "")
        guesser, is_stranger = self._guesser(request)
        try:
            role = await self._access.check(
                form.get("password", ""), guesser, is_stranger=is_stranger
            )
        except admin_access.TooManyGuessesError as error:
            problem = f"Too many wrong passwords. Try again in {error.seconds} seconds."
            page = self.render(request, "login.html", status=429, problem=problem, next=next_)
            page.headers["Retry-After"] = str(error.seconds)
            return page
        if role is None:
            logger.warning(
                "a wrong password for the admin page", extra={"address": address_of(request)}
            )
            await self.note(request, "wrong password")
            problem = "This is not the password."
            return self.render(request, "login.html", status=401, problem=problem, next=next_)
        return await self._let_in(request, role, next_)

    async def _let_in(self, request: Request, role: Role, next_: str) -> Response:
        cookie = self._access.new_session(role)
        request.state.session = self._access.read_session(cookie)
        await self.note(request, "login")
        inside = _go_on(request, next_)
        browser = request.cookies.get(BROWSER_COOKIE, "")
        if self._access.read_browser(browser) is None:
            browser = self._access.new_browser(role)
        for name, value, seconds in (
            (COOKIE, cookie, admin_access.SESSION_SECONDS),
            (BROWSER_COOKIE, browser, admin_access.BROWSER_SECONDS),
        ):
            inside.set_cookie(
                name, value, max_age=seconds, path=request.scope["root_path"] or "/",
                httponly=True, samesite="strict", secure=_is_https(request),
            )  # fmt: skip
        return inside

    def _guesser(self, request: Request) -> tuple[str, bool]:
        """Whose guess it is; and whether strangers could guess in their place.

        They cannot from a browser in which somebody was inside, nor over the loopback, unless a
        proxy there passes them on.
        """
        browser = self._access.read_browser(request.cookies.get(BROWSER_COOKIE, ""))
        if browser is not None:
            return browser, False
        network = _network_of(address_of(request))
        if "x-forwarded-for" in request.headers:
            return f"{network}, by proxy", True
        return network, network not in ("127.0.0.1", "::/64")

    async def logout(self, request: Request, _form: Fields) -> Response:
        """End the session, in every process."""
        await self.rows(INSERT_LOGOUT, id=self.session(request).id)
        await self.note(request, "logout")
        root = request.scope["root_path"]
        response = RedirectResponse(f"{root}/login", 303)
        response.delete_cookie(COOKIE, path=root or "/")
        return response

    def shown(self, path: str, page: Page, *, role: Role = Role.OPERATOR) -> Route:
        """A page that needs a session: an operator's, or with ``role`` also a reader's."""
        return Route(path, self._inside(page, role), methods=["GET"])

    def read(self, path: str, page: Page, what: str) -> Route:
        """A page with texts of an owner; the audit tells who read ``what`` of whom."""

        async def show(request: Request) -> Response:
            owner = owner_of(request)
            names = await self.rows(SELECT_NAME, owner)
            request.state.whose = names[0]["name"] if names else None
            response = await page(request)
            await self.note(request, f"read {what}", path_of(owner)[1:])
            return response

        return self.shown(path, show)

    def done(self, path: str, action: Action, *, role: Role = Role.OPERATOR) -> Route:
        """Something that is done by a form of ours, in a session; then a page is shown.

        ``action`` returns where to go on, or the page itself.
        """

        async def do(request: Request) -> Response:
            form = await _read_form(request)
            token = self.session(request).form_token
            if not hmac.compare_digest(token.encode(), form.get("token", "").encode()):
                raise HTTPException(403, "This form is out of date: open its page again.")
            shown = await action(request, form)
            root = request.scope["root_path"]
            return RedirectResponse(f"{root}{shown}", 303) if isinstance(shown, str) else shown

        return Route(path, self._inside(do, role), methods=["POST"])

    def _inside(self, page: Page, role: Role) -> Page:
        async def show(request: Request) -> Response:
            session = await self._find_session(request)
            if session is None:
                return _to_login(request)
            request.state.session = session
            if Role.READER == session.role != role:
                raise HTTPException(
                    403, "A reader sees figures and failures, and changes nothing."
                )
            return await page(request)

        return self._answered(show)

    def _answered(self, page: Page) -> Page:
        """The page, or why there is none."""

        async def show(request: Request) -> Response:
            try:
                return await page(request)
            except AppError as error:
                logger.warning("an admin page failed", exc_info=error)
                return self.render(request, "failure.html", status=503, problem=str(error))

        return show

    async def refuse(self, request: Request, error: Exception) -> Response:
        """A page that says what was wrong with a request, and where to go on."""
        assert isinstance(error, HTTPException)  # Starlette calls it for those alone
        if not hasattr(request.state, "session"):
            with contextlib.suppress(AppError):
                request.state.session = await self._find_session(request)
        status = error.status_code
        problem = REFUSALS.get(status, error.detail)
        return self.render(request, "refusal.html", status=status, problem=problem)

    async def _find_session(self, request: Request) -> Session | None:
        session = self._access.read_session(request.cookies.get(COOKIE, ""))
        if session is None or await self.rows(SELECT_LOGOUT, id=session.id):
            return None
        return session

    @staticmethod
    def session(request: Request) -> Session:
        """Who is inside."""
        session: Session = request.state.session
        return session

    def render(
        self, request: Request, template: str, *, status: int = 200, **values: Any
    ) -> HTMLResponse:
        """A page of ``template``, which gets ``values`` and who looks at it from where.

        ``base`` is there where the pages about ``owner`` begin, ``whose`` what they are called.
        """
        session: Session | None = getattr(request.state, "session", None)
        root, owner = request.scope["root_path"], values.get("owner")
        text = self._templates.get_template(template).render(
            root=root, path=request.url.path, zone=self.zone,
            base=root + path_of(owner) if owner else root,
            whose=getattr(request.state, "whose", None) or (owner and owner.telegram_user_id),
            is_inside=session is not None, is_reader=session and session.role == Role.READER,
            token=session.form_token if session else "", **values,
        )  # fmt: skip
        return HTMLResponse(text, status)

    async def rows(self, statement: str, params: Params = None, **values: Any) -> list[Record]:
        """What one statement finds."""
        return await self._client.run(self._client.fetch_records, statement, params, **values)

    async def note(self, request: Request, action: str, target: str = "") -> None:
        """Write down in the audit what was done, by whom and from where."""
        session: Session | None = getattr(request.state, "session", None)
        await self.rows(
            INSERT_ACTION, who=session.name if session else "", address=address_of(request),
            action=action, target=target,
        )  # fmt: skip

    @property
    def zone(self) -> str:
        """The time zone in which moments and days are shown."""
        return self.core.settings.timezone

    def midnight(self, days: int = 1) -> datetime:
        """When the last ``days`` days began, today among them."""
        return first_moment(datetime.combine(self.first_day(days), time.min), self.zone)

    def first_day(self, days: int) -> date:
        """The first of the last ``days`` days."""
        return local_time(datetime.now(UTC), self.zone).date() - timedelta(days=days - 1)

    def _clock(self, moment: datetime) -> str:
        return f"{local_time(moment, self.zone):%H:%M}"

    def _moment(self, moment: datetime | None) -> str:
        return f"{local_time(moment, self.zone):%d.%m.%Y %H:%M}" if moment else ""


class Pages:
    """Pages of one kind, drawn on a site."""

    def __init__(self, site: AdminSite) -> None:
        """Draw on ``site``."""
        self._site, self._core, self._run = site, site.core, site.core.client.run


async def _read_form(request: Request) -> dict[str, str]:
    """A form's fields; of a name that comes twice, the last."""
    body = await read_body(request, MAX_FORM)
    if body is None:
        raise HTTPException(413)
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def _is_same_site(request: Request) -> bool:
    """Whether a page of ours sent the form, as far as the browser says."""
    return request.headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")


def _is_https(request: Request) -> bool:
    return request.headers.get("x-forwarded-proto", request.url.scheme) == "https"


def _to_login(request: Request) -> Response:
    """To the login, and after it to the page that was asked for."""
    address = f"{request.scope['root_path']}/login"
    path = request.url.path.removeprefix(request.scope["root_path"])
    if request.method == "GET" and path != "/":
        query = f"?{request.url.query}" if request.url.query else ""
        address += "?" + urlencode({"next": path + query})
    return RedirectResponse(address, 303)


def _go_on(request: Request, next_: str) -> Response:
    """To a page of ours: a path, never another's address."""
    is_ours = DEEP_LINK.fullmatch(next_) and len(next_) <= MAX_DEEP_LINK
    return RedirectResponse(f"{request.scope['root_path']}{next_ if is_ours else '/'}", 303)


def address_of(request: Request) -> str:
    """From where somebody asks; the proxies of ``TRUSTED_PROXIES`` are believed by then."""
    return request.client.host if request.client else "unknown"


def _network_of(address: str) -> str:
    """What one guesser has: an address, of the sixth version a network of the last 64 bits."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address[:100]
    if isinstance(ip, ipaddress.IPv4Address):
        return str(ip)
    return str(ip.ipv4_mapped or ipaddress.IPv6Network((int(ip), 64), strict=False))


def owner_of(request: Request) -> Owner:
    """Whose page it is, by the address.

    Raises:
        HTTPException: 404, it is nobody's.
    """
    with contextlib.suppress(ValueError):
        owner = Owner(int(request.path_params["user"]), request.path_params["thread"])
        if max(map(abs, owner)) < 2**52:
            return owner
    raise HTTPException(404)


def path_of(owner: Owner) -> str:
    """Where the pages about an owner begin; in the audit, without the slash, who was meant."""
    return f"/users/{owner.telegram_user_id}/{owner.thread_id}"


def number_of(request: Request, name: str, *, digits: int = 9) -> int | None:
    """A number of at most so many digits in the query of the address; None without one."""
    text = request.query_params.get(name, "")
    return int(text) if is_number(text, digits) else None
