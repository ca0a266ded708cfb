"""The pages of ``/admin``: rendered on the server, without a script, each a few statements."""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from src.base.errors import AppError, SettingsError
from src.base.owners import Owner
from src.base.zones import local_time
from src.core import Core
from src.memory.consolidation import ConsolidationRepository
from src.memory.memory_repo import FactQuery
from src.memory.ranking import LEXICAL_WEIGHT, LINK_BONUS
from src.memory.retriever import Query
from src.pg.client import Params, Record
from src.pg.global_settings_repo import GlobalSettings
from src.reading.facts import fact_uid
from src.talk.turn_state import IncomingMessage
from src.texts import choose_language
from src.web import admin_queries as sql
from src.web.admin_access import COOKIE, SESSION_SECONDS, Access, TooManyGuessesError
from src.web.app_gate import is_number
from src.web.http_server import WithHeaders, read_body

logger = logging.getLogger(__name__)

# Every page but the login asks for a session, and every form brings the session's token. Texts of
# users are shown as text: the templates escape everything, and the browser is told to run nothing.

HERE = Path(__file__).parent
PAGE = 50  # rows
MAX_FORM = 100_000  # bytes
MAX_QUESTION = 500  # characters
DAYS = (1, 7, 14, 30, 90)  # that usage is shown of
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
STATIC_HEADERS = {"Cache-Control": "max-age=3600", "X-Content-Type-Options": "nosniff"}

Page = Callable[[Request], Awaitable[Response]]
Fields = Mapping[str, str]
Action = Callable[[Request, Fields], Awaitable[str]]


class AdminPages:
    """What each address shows or does."""

    def __init__(self, core: Core, access: Access) -> None:
        """Show what ``core`` keeps to whom ``access`` lets in."""
        self._core = core
        self._access = access
        self._client = core.client
        self._consolidations = ConsolidationRepository(core.client)
        self._templates = Environment(
            loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined
        )
        self._templates.filters["moment"] = self._moment

    def routes(self) -> list[Route | Mount]:
        """All of them; a test walks them without a session."""
        owner = "/users/{user}/{thread:int}"
        listing = self._listing
        shown: tuple[tuple[str, Page], ...] = (
            ("/", self.overview), ("/users", self.users), (owner, self.conversation),
            (owner + "/facts", self.facts), (owner + "/recall", self.recall),
            (owner + "/rejected", listing("rejected.html", sql.SELECT_REJECTED)),
            ("/settings", self.settings), ("/queue", self.queue), ("/usage", self.usage),
            ("/batches", listing("batches.html", sql.SELECT_BATCHES, limit=PAGE)),
            ("/audit", listing("audit.html", sql.SELECT_ACTIONS)),
        )  # fmt: skip
        done: tuple[tuple[str, Action], ...] = (
            (owner + "/facts/{fact:int}/{action:str}", self.change_fact),
            (owner + "/consolidations/{number:int}/undo", self.undo_consolidation),
            ("/settings", self.change_settings), ("/prices", self.change_price),
            ("/queue/{job:int}/retry", self.retry_job),
            ("/queue/put-aside/{number:int}/retry", self.retry_put_aside),
            ("/logout", self.logout),
        )  # fmt: skip
        return [
            Route("/login", self.show_login, methods=["GET"]),
            Route("/login", self.login, methods=["POST"]),
            *(Route(path, self._shown(page), methods=["GET"]) for path, page in shown),
            *(Route(path, self._done(action), methods=["POST"]) for path, action in done),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ]

    async def show_login(self, request: Request) -> Response:
        """Ask for the password."""
        return self._render(request, "login.html", problem="")

    async def login(self, request: Request) -> Response:
        """Take the password; say only whether it is right."""
        if not _is_same_site(request):
            raise HTTPException(403)
        form = await _read_form(request)
        address = _address(request)
        try:
            is_right = await self._access.check(form.get("password", ""), address)
        except TooManyGuessesError as error:
            problem = f"Too many wrong passwords. Try again in {error.seconds} seconds."
            response = self._render(request, "login.html", status=429, problem=problem)
            response.headers["Retry-After"] = str(error.seconds)
            return response
        if not is_right:
            logger.warning("a wrong password for the admin page", extra={"address": address})
            problem = "This is not the password."
            return self._render(request, "login.html", status=401, problem=problem)
        await self._note(request, "login")
        inside = RedirectResponse(f"{request.scope['root_path']}/", 303)
        inside.set_cookie(
            COOKIE, self._access.new_session(), max_age=SESSION_SECONDS,
            path=request.scope["root_path"] or "/", httponly=True, samesite="strict",
            secure=_is_https(request),
        )  # fmt: skip
        return inside

    async def logout(self, _request: Request, _form: Fields) -> str:
        """End the session in this browser."""
        return "/login"

    async def overview(self, request: Request) -> Response:
        """How it goes, on one page."""
        run = self._client.run
        waiting, oldest = await run(self._core.updates.count_waiting)
        return self._render(
            request, "overview.html", waiting=waiting, oldest=oldest,
            usage=await self._rows(sql.SELECT_USAGE, days=1, zone=self._zone),
            put_aside=await run(self._core.put_aside.count),
            by_words=self._core.metrics.registry.get_sample_value("pomni_searches_by_words_total"),
            tables=await self._rows(sql.ESTIMATE),
            batches=await self._rows(sql.SELECT_BATCHES, limit=3),
            settings=await self._core.live_settings.get(),
        )  # fmt: skip

    async def users(self, request: Request) -> Response:
        """Owners by id."""
        wanted = request.query_params.get("id", "").strip()
        after = _owner_of(request.query_params.get("after", ""))
        if wanted:
            found = _owner_of(wanted)
            after = Owner(found.telegram_user_id, -1) if found else after
        owners = await self._rows(sql.SELECT_OWNERS, after or Owner(sql.FIRST), limit=PAGE)
        if wanted:
            owners = [line for line in owners if str(line["telegram_user_id"]) == wanted]
        return self._render(
            request, "users.html", owners=owners, wanted=wanted,
            more=owners[-1] if len(owners) == PAGE else None,
        )  # fmt: skip

    async def conversation(self, request: Request) -> Response:
        """The messages as bubbles, the newest page first."""
        owner, before = _owner(request), _number(request, "before")
        newest_first = await self._rows(
            sql.SELECT_BUBBLES, owner, before=before or sql.LAST, limit=PAGE
        )
        [weight] = await self._rows(sql.WEIGH, owner)
        return self._render(
            request, "conversation.html", owner=owner, bubbles=newest_first[::-1], before=before,
            more=newest_first[-1]["position"] if len(newest_first) == PAGE else None,
            weight=weight,
        )  # fmt: skip

    async def facts(self, request: Request) -> Response:
        """Facts with their sources, also those that hold no more."""
        owner, before = _owner(request), _number(request, "before")
        wanted = FactQuery(is_living=None, before=before, limit=PAGE)
        facts = await self._client.run(self._core.memory.memories.facts.list_facts, owner, wanted)
        return self._render(
            request, "facts.html", owner=owner, facts=facts,
            consolidations=await self._client.run(self._consolidations.list_done, owner),
            more=facts[-1].id if len(facts) == PAGE else None,
        )  # fmt: skip

    async def change_fact(self, request: Request, _form: Fields) -> str:
        """Pin, unpin, forget; take back a replacement or a forgetting."""
        owner, number = _owner(request), int(request.path_params["fact"])
        action, memories = request.path_params["action"], self._core.memory.memories
        if action in ("pin", "unpin"):
            await memories.pin(owner, number, pinned=action == "pin")
        elif action == "forget":
            await memories.forget(owner, [fact_uid(number)])
        elif action == "undo":
            await memories.undo(owner, number or None)
        else:
            raise HTTPException(404)
        await self._note(request, f"{action} fact", f"{owner.telegram_user_id}: {number}")
        return f"/users/{owner.telegram_user_id}/{owner.thread_id}/facts"

    async def recall(self, request: Request) -> Response:
        """What would be recalled for a question, and which channel found it."""
        owner = _owner(request)
        question = request.query_params.get("q", "")[:MAX_QUESTION]
        hits: list[Any] = []
        prompt: list[Any] = []
        overview = None
        settings = await self._core.live_settings.get()
        if question.strip():
            query = Query(
                owner, question, datetime.now(UTC), limit=20,
                threshold=settings.memory_retrieve_threshold,
            )  # fmt: skip
            overview = query.overview()
            hits = await self._core.memory.retriever.search(query)
            prompt = await self._core.agent.preview_prompt(await self._pretend(owner, question))
        return self._render(
            request, "recall.html", owner=owner, question=question, hits=hits, overview=overview,
            prompt=prompt,
            tokens=self._core.counter.count_messages(prompt),
            limit=settings.memory_retrieve_limit, lexical=LEXICAL_WEIGHT, links=LINK_BONUS,
        )  # fmt: skip

    async def _pretend(self, owner: Owner, question: str) -> IncomingMessage:
        """The question as if the owner asked it now."""
        known = await self._client.run(self._core.user_settings.get, owner.telegram_user_id)
        return IncomingMessage(
            owner, question, datetime.now(UTC), choose_language(known.language),
            known.time_zone or self._zone, known.mode,
        )  # fmt: skip

    async def settings(
        self,
        request: Request,
        problems: Mapping[str, str] | None = None,
        values: Fields | None = None,
    ) -> Response:
        """What may be changed while the bot runs, and who changed it last."""
        current = await self._core.live_settings.get()
        about = {row["name"]: row for row in await self._rows(sql.SELECT_DESCRIPTIONS)}
        fields = [
            about.get(name, {}) | _field(name, current, problems or {}, values or {})
            for name in GlobalSettings.model_fields
        ]
        return self._render(
            request, "settings.html", status=422 if problems else 200, fields=fields,
            problem=(problems or {}).get("", ""),
            changes=await self._rows(sql.SELECT_CHANGES, limit=PAGE),
            embedding=await self._embedding(),
        )  # fmt: skip

    async def _embedding(self) -> str:
        """Which embedding model serves, and how far the one that shall has got."""
        space = self._core.memory.space
        serving, coming = await space.current(), space.coming()
        if coming is None:
            return f"{serving.name} serves."
        done, total = await self._client.run(
            self._core.memory.embeddings.find_progress, coming.name
        )
        return (
            f"{serving.name} serves until every document is embedded by {coming.name}: "
            f"{done:,} of {total:,} are."
        )

    async def change_settings(self, request: Request, form: Fields) -> str:
        """Only what differs is changed."""
        stored = (await self._core.live_settings.get()).model_dump()
        wanted = {name: form[name].strip() for name in stored if name in form}
        wanted |= {
            name: "true" if form.get(name) == "on" else "false"
            for name, value in stored.items()
            if isinstance(value, bool)
        }
        changed = {
            name: value for name, value in wanted.items() if value != _as_text(stored[name])
        }
        if changed:
            await self._core.live_settings.change(f"admin page, {_address(request)}", changed)
            await self._note(request, "change settings", ", ".join(changed))
        return "/settings"

    async def undo_consolidation(self, request: Request, _form: Fields) -> str:
        """What the nightly job put together is apart again, for good."""
        owner, number = _owner(request), int(request.path_params["number"])
        if await self._client.run(self._consolidations.undo, owner, number):
            await self._note(request, "undo consolidation", str(number))
        return f"/users/{owner.telegram_user_id}/{owner.thread_id}/facts"

    async def queue(self, request: Request) -> Response:
        """What waits, what failed, what is put aside."""
        return self._render(
            request, "queue.html", queue=await self._rows(sql.SELECT_QUEUE),
            failed=await self._rows(sql.SELECT_FAILED),
            put_aside=await self._client.run(self._core.put_aside.list_all),
        )  # fmt: skip

    async def retry_job(self, request: Request, _form: Fields) -> str:
        """Give a failed job back."""
        await self._rows(sql.RETRY_FAILED, id=request.path_params["job"])
        await self._note(request, "retry job", str(request.path_params["job"]))
        return "/queue"

    async def retry_put_aside(self, request: Request, _form: Fields) -> str:
        """Give back what kills its process."""
        await self._client.run(self._core.put_aside.retry, int(request.path_params["number"]))
        await self._note(request, "retry put aside", str(request.path_params["number"]))
        return "/queue"

    async def usage(self, request: Request) -> Response:
        """Tokens, money and time by day, model and user."""
        days = _number(request, "days") or 7
        days = days if days in DAYS else 7
        lines = await self._rows(sql.SELECT_USAGE, days=days, zone=self._zone)
        by_day: dict[str, Counter[str]] = {}
        for line in reversed(lines):
            sums = by_day.setdefault(f"{line['day']:%d.%m.}", Counter())
            sums.update({part: line[part] for part in ("cached", "prompt", "completion")})
        return self._render(
            request, "usage.html", lines=lines, days=days, choices=DAYS,
            by_day=by_day,
            most=max((one["prompt"] + one["completion"] for one in by_day.values()), default=0),
            prices=await self._rows(sql.SELECT_PRICES),
            spenders=await self._rows(sql.SELECT_SPENDERS, days=days),
            problem=request.query_params.get("problem") == "price",
        )  # fmt: skip

    async def change_price(self, request: Request, form: Fields) -> str:
        """What a million tokens of a model cost."""
        model = form.get("model", "").strip()
        if not model.isprintable() or len(model) > 200 or model.split() != [model]:
            return "/usage?problem=price"
        if form.get("delete"):
            await self._rows(sql.DELETE_PRICE, model=model)
        else:
            try:
                price = {
                    one: _money(form.get(one, "")) for one in ("prompt", "cached", "completion")
                }
            except (InvalidOperation, ValueError):
                return "/usage?problem=price"
            await self._rows(sql.UPSERT_PRICE, price, model=model)
        await self._note(request, "change price", model)
        return "/usage"

    def _listing(self, template: str, statement: str, **values: Any) -> Page:
        """A page that lists the rows of one statement: all of them, or an owner's."""

        async def listing(request: Request) -> Response:
            owner = _owner(request) if "user" in request.path_params else None
            rows = await self._rows(statement, owner, **values)
            return self._render(request, template, owner=owner, rows=rows)

        return listing

    def _shown(self, page: Page) -> Page:
        """A page that needs a session."""

        async def show(request: Request) -> Response:
            if not self._access.is_session(request.cookies.get(COOKIE)):
                return RedirectResponse(f"{request.scope['root_path']}/login", 303)
            try:
                return await page(request)
            except AppError as error:
                return self._failure(request, error)

        return show

    def _done(self, action: Action) -> Page:
        """Something that is done by a form of ours, in a session; then a page is shown."""

        async def do(request: Request) -> Response:
            cookie, root = request.cookies.get(COOKIE, ""), request.scope["root_path"]
            form = await _read_form(request)
            if not self._access.is_form_token(cookie, form.get("token", "")):
                raise HTTPException(403)
            try:
                response: Response = RedirectResponse(f"{root}{await action(request, form)}", 303)
            except SettingsError as error:
                return await self.settings(request, error.problems, form)
            if action == self.logout:
                response.delete_cookie(COOKIE, path=root or "/")
            return response

        return self._shown(do)

    def _failure(self, request: Request, error: AppError) -> Response:
        logger.warning("an admin page failed", exc_info=error)
        return self._render(request, "failure.html", status=503, problem=str(error))

    def _render(
        self, request: Request, template: str, *, status: int = 200, **values: Any
    ) -> HTMLResponse:
        cookie = request.cookies.get(COOKIE, "")
        is_inside = self._access.is_session(cookie)
        text = self._templates.get_template(template).render(
            root=request.scope["root_path"], path=request.url.path, is_inside=is_inside,
            token=self._access.form_token(cookie) if is_inside else "", **values,
        )  # fmt: skip
        return HTMLResponse(text, status)

    async def _rows(self, statement: str, params: Params = None, **values: Any) -> list[Record]:
        return await self._client.run(self._client.fetch_records, statement, params, **values)

    async def _note(self, request: Request, action: str, target: str = "") -> None:
        await self._rows(
            sql.INSERT_ACTION, address=_address(request), action=action, target=target
        )

    @property
    def _zone(self) -> str:
        return self._core.settings.timezone

    def _moment(self, moment: datetime | None) -> str:
        return f"{local_time(moment, self._zone):%d.%m.%Y %H:%M}" if moment else ""


def build_admin_app(core: Core, password: str) -> Any:
    """The admin page as an ASGI app, to be mounted somewhere."""
    pages = AdminPages(core, Access(password))
    return WithHeaders(Starlette(routes=pages.routes()), HEADERS, STATIC_HEADERS)


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


def _address(request: Request) -> str:
    return request.client.host if request.client else "unknown"


def _owner(request: Request) -> Owner:
    owner = _owner_of(f"{request.path_params['user']}/{request.path_params['thread']}")
    if owner is None:
        raise HTTPException(404)
    return owner


def _owner_of(text: str) -> Owner | None:
    """``12`` or ``12/3``: an owner and the topic; None for anything else."""
    user, _, thread = text.partition("/")
    try:
        owner = Owner(int(user), int(thread or 0))
    except ValueError:
        return None
    return owner if max(abs(number) for number in owner) < 2**52 else None


def _number(request: Request, name: str) -> int | None:
    text = request.query_params.get(name, "")
    return int(text) if is_number(text, 9) else None


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _money(text: str) -> Decimal:
    value = Decimal(text.strip().replace(",", ".") or "0")
    if not 0 <= value < 10**8:
        raise ValueError("no price")
    return value


def _field(
    name: str, current: GlobalSettings, problems: Mapping[str, str], values: Fields
) -> dict[str, Any]:
    """What the form needs to know of a setting."""
    field = GlobalSettings.model_fields[name]
    value = getattr(current, name)
    kind = field.annotation
    choices = getattr(kind, "__args__", ()) if kind not in (int, float, str, bool) else ()
    return {
        "name": name,
        "value": values.get(name, value),
        "default": field.default,
        "choices": choices,
        "is_switch": kind is bool,
        "is_number": kind in (int, float),
        "problem": problems.get(name, ""),
    }
