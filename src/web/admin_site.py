"""What every page of ``/admin`` stands on: the login, the forms, how a page is drawn."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from src.base.errors import AppError
from src.base.owners import Owner
from src.base.zones import local_time
from src.core import Core
from src.pg.client import Params, Record
from src.web.admin_access import COOKIE, SESSION_SECONDS, Access, TooManyGuessesError
from src.web.app_gate import is_number
from src.web.http_server import read_body

logger = logging.getLogger(__name__)

# Every page but the login asks for a session, and every form brings the session's token. Texts of
# users are shown as text: the templates escape everything, and the browser is told to run nothing.

HERE = Path(__file__).parent
PAGE = 50  # rows
MAX_FORM = 100_000  # bytes

# What operators did, the newest first.
INSERT_ACTION = """
INSERT INTO admin_actions (address, action, target)
VALUES (left(%(address)s, 100), %(action)s, left(%(target)s, 200))
"""
SELECT_ACTIONS = """
SELECT done_at, address, action, target FROM admin_actions ORDER BY id DESC LIMIT 200
"""

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
        self._templates.filters["moment"] = self._moment

    def routes(self) -> list[Route | Mount]:
        """The login, the logout and what the pages look like."""
        return [
            Route("/login", self.show_login, methods=["GET"]),
            Route("/login", self.login, methods=["POST"]),
            self.done("/logout", self.logout),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ]

    async def show_login(self, request: Request) -> Response:
        """Ask for the password."""
        return self.render(request, "login.html", problem="")

    async def login(self, request: Request) -> Response:
        """Take the password; say only whether it is right."""
        if not _is_same_site(request):
            raise HTTPException(403)
        form = await _read_form(request)
        address = address_of(request)
        try:
            is_right = await self._access.check(form.get("password", ""), address)
        except TooManyGuessesError as error:
            problem = f"Too many wrong passwords. Try again in {error.seconds} seconds."
            response = self.render(request, "login.html", status=429, problem=problem)
            response.headers["Retry-After"] = str(error.seconds)
            return response
        if not is_right:
            logger.warning("a wrong password for the admin page", extra={"address": address})
            problem = "This is not the password."
            return self.render(request, "login.html", status=401, problem=problem)
        await self.note(request, "login")
        inside = RedirectResponse(f"{request.scope['root_path']}/", 303)
        inside.set_cookie(
            COOKIE, self._access.new_session(), max_age=SESSION_SECONDS,
            path=request.scope["root_path"] or "/", httponly=True, samesite="strict",
            secure=_is_https(request),
        )  # fmt: skip
        return inside

    async def logout(self, request: Request, _form: Fields) -> Response:
        """End the session in this browser."""
        root = request.scope["root_path"]
        response = RedirectResponse(f"{root}/login", 303)
        response.delete_cookie(COOKIE, path=root or "/")
        return response

    def shown(self, path: str, page: Page) -> Route:
        """A page that needs a session."""
        return Route(path, self._inside(page), methods=["GET"])

    def done(self, path: str, action: Action) -> Route:
        """Something that is done by a form of ours, in a session; then a page is shown.

        ``action`` returns where to go on, or the page itself.
        """

        async def do(request: Request) -> Response:
            cookie, root = request.cookies.get(COOKIE, ""), request.scope["root_path"]
            form = await _read_form(request)
            if not self._access.is_form_token(cookie, form.get("token", "")):
                raise HTTPException(403)
            shown = await action(request, form)
            return RedirectResponse(f"{root}{shown}", 303) if isinstance(shown, str) else shown

        return Route(path, self._inside(do), methods=["POST"])

    def _inside(self, page: Page) -> Page:
        async def show(request: Request) -> Response:
            if not self._access.is_session(request.cookies.get(COOKIE)):
                return RedirectResponse(f"{request.scope['root_path']}/login", 303)
            try:
                return await page(request)
            except AppError as error:
                logger.warning("an admin page failed", exc_info=error)
                return self.render(request, "failure.html", status=503, problem=str(error))

        return show

    def listing(self, template: str, statement: str, **values: Any) -> Page:
        """A page that lists the rows of one statement: all of them, or an owner's."""

        async def listing(request: Request) -> Response:
            owner = owner_of(request) if "user" in request.path_params else None
            rows = await self.rows(statement, owner, **values)
            return self.render(request, template, owner=owner, rows=rows)

        return listing

    def render(
        self, request: Request, template: str, *, status: int = 200, **values: Any
    ) -> HTMLResponse:
        """A page of ``template``, which gets ``values`` and who looks at it from where."""
        cookie = request.cookies.get(COOKIE, "")
        is_inside = self._access.is_session(cookie)
        text = self._templates.get_template(template).render(
            root=request.scope["root_path"], path=request.url.path, is_inside=is_inside,
            token=self._access.form_token(cookie) if is_inside else "", **values,
        )  # fmt: skip
        return HTMLResponse(text, status)

    async def rows(self, statement: str, params: Params = None, **values: Any) -> list[Record]:
        """What one statement finds."""
        return await self._client.run(self._client.fetch_records, statement, params, **values)

    async def note(self, request: Request, action: str, target: str = "") -> None:
        """Write down in the audit what was done, and from where."""
        await self.rows(INSERT_ACTION, address=address_of(request), action=action, target=target)

    @property
    def zone(self) -> str:
        """The time zone in which moments and days are shown."""
        return self.core.settings.timezone

    def _moment(self, moment: datetime | None) -> str:
        return f"{local_time(moment, self.zone):%d.%m.%Y %H:%M}" if moment else ""


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


def address_of(request: Request) -> str:
    """From where somebody asks."""
    return request.client.host if request.client else "unknown"


def owner_of(request: Request) -> Owner:
    """Whose page it is, by the address.

    Raises:
        HTTPException: 404, it is nobody's.
    """
    owner = read_owner(f"{request.path_params['user']}/{request.path_params['thread']}")
    if owner is None:
        raise HTTPException(404)
    return owner


def read_owner(text: str) -> Owner | None:
    """``12`` or ``12/3``: an owner and the topic; None for anything else."""
    user, _, thread = text.partition("/")
    try:
        owner = Owner(int(user), int(thread or 0))
    except ValueError:
        return None
    return owner if max(abs(number) for number in owner) < 2**52 else None


def number_of(request: Request, name: str) -> int | None:
    """A number in the query of the address; None without one."""
    text = request.query_params.get(name, "")
    return int(text) if is_number(text, 9) else None
