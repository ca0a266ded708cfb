"""ASGI app of ``/app``: the page of the Mini App, and its API to the caller's own memory."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from src.base.owners import Owner
from src.base.zones import parse_day_start
from src.core import Core
from src.history.timeline_repo import LAST, PageCursor, TimelineRepository
from src.imports.files import open_again
from src.imports.records import Opened
from src.memory.forgetting_repo import UndoResult
from src.memory.memory_repo import KINDS, FactQuery, StoredFact
from src.privacy.export import FileFormat
from src.reading.facts import fact_uid
from src.reminders.reminder_repo import MAX_WAITING, REMINDER_UID
from src.reminders.reminder_service import ReminderResult, format_result
from src.reminders.rules import ReminderOrder
from src.talk.forget_screens import format_undo
from src.talk.settings import list_choices
from src.texts import LANGUAGES, Language, say, sentences
from src.texts.reply import MAX_DATA, Action
from src.web import app_views as views
from src.web.app_gate import (
    Allowance,
    Gate,
    Json,
    PageSessions,
    RefusedError,
    VerifiedCall,
    accepted_language,
    read_json,
    to_number,
)
from src.web.http_server import WithHeaders, read_pieces, send_file

HERE = Path(__file__).parent
# The only script of others; it provides ``initData`` and the theme.
TELEGRAM_SCRIPT = "https://telegram.org/js/telegram-web-app.js"
# Applications of Telegram show the page in a web view, web.telegram.org in a frame.
HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; script-src 'self' {TELEGRAM_SCRIPT}; "
    "style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'none'; "
    "base-uri 'none'; frame-ancestors https://web.telegram.org https://*.telegram.org",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
STATIC_HEADERS = {**HEADERS, "Cache-Control": "no-cache"}  # revalidated by ETag

PAGE_TEXT = "page_"  # prefix of the keys of the page's own sentences


def page_names() -> set[str]:
    """Return the names of the page's own sentences; its scripts use all of them."""
    return {key.removeprefix(PAGE_TEXT) for key in sentences() if key.startswith(PAGE_TEXT)}


def pack_place(place: PageCursor) -> str:
    """Return a cursor: the end of a page, which the client sends back for the next."""
    return f"{place.position}.{place.id}"


FACTS, HITS, MESSAGES = 50, 20, 40  # per page
MAX_SEARCHED = 2000  # facts that a search among them reads
MAX_DELIVERED = 10  # recently delivered reminders
RECENTLY = timedelta(days=1)
MAX_TEXT = 4096  # characters of a correction: the limit of Telegram messages
MAX_QUERY = 500
MAX_TIME = 100
MAX_OFFSET = 1_000_000
MAX_UPLOAD = 500 << 20  # bytes of a file that is imported
# Cost of a request, taken from the ``Allowance`` of its sender.
LOOK, CHANGE, SEARCH, EXPORT = 1.0, 2.0, 3.0, 20.0
# Commands of the chat that the page offers, and those of them that take an argument.
COMMANDS = ("about", "today", "remind", "settings", "privacy", "usage", "delete_me")
WITH_ARGUMENT = ("remind", "settings")
FILE_TYPES = {".json": "application/json", ".md": "text/markdown", ".zip": "application/zip"}

Endpoint = Callable[[VerifiedCall], Awaitable[Json | Response]]


class Api:
    """Endpoints of the API."""

    def __init__(self, core: Core, gate: Gate, sessions: PageSessions | None = None) -> None:
        """Serve data of ``core`` to callers that pass ``gate``; ``sessions`` are browsers'."""
        self._core = core
        self._gate = gate
        self._sessions = sessions
        self._entries = Allowance()
        self._run = core.client.run
        self._memories = core.memory.memories
        self._timeline = TimelineRepository(core.client)

    def routes(self) -> list[Route]:
        """List the routes; a test requests each of them without ``initData``."""
        get, post = partial(self._route, "GET"), partial(self._route, "POST")
        outside = []
        if self._sessions is not None:
            outside = [post("/leave", CHANGE, partial(self.leave, self._sessions))]
        return [
            *outside,
            get("/start", LOOK, self.start),
            get("/facts", LOOK, self.facts),
            get("/timeline", LOOK, self.timeline),
            get("/reminders", LOOK, self.reminders),
            get("/settings", LOOK, self.settings),
            get("/export/json", EXPORT, partial(self.export, "json")),
            get("/export/markdown", EXPORT, partial(self.export, "md")),
            post("/search", SEARCH, self.search),
            post("/facts/find", SEARCH, self.find_facts),
            post("/facts/{fact}/pin", CHANGE, self.pin),
            post("/facts/{fact}/correct", CHANGE, self.correct),
            post("/facts/{fact}/forget", CHANGE, self.forget),
            post("/facts/{fact}/undo", CHANGE, self.undo),
            post("/changes/{number}/undo", CHANGE, self.undo_change),
            post("/reminders/{number}/move", CHANGE, self.move_reminder),
            post("/reminders/{number}/restore", CHANGE, self.restore_reminder),
            post("/buttons", CHANGE, self.press),
            post("/commands/{command}", CHANGE, self.command),
            self._route("PUT", "/import", EXPORT, self.bring),
            get("/imports/{number}", LOOK, self.watch),
        ]

    async def start(self, call: VerifiedCall) -> Json:
        """Return the language, the sentences and the kinds, which the page loads first."""
        language = call.language
        texts = {name: say(f"{PAGE_TEXT}{name}", language) for name in page_names()}
        kinds = {kind: say(f"kind_{kind}", language) for kind in KINDS}
        return {"language": language, "texts": texts, "kinds": kinds}

    async def facts(self, call: VerifiedCall) -> Json:
        """List facts: ``?kind=&sort=newest&offset=``; default: by kind, pinned facts first."""
        rows, owner, fact_query = self._memories.facts, call.caller.owner, _build_fact_query(call)
        facts = await self._run(rows.list_facts, owner, fact_query)
        counts = await self._run(rows.count_kinds, owner)
        return _build_facts_page(call, facts, counts, fact_query.offset)

    async def find_facts(self, call: VerifiedCall) -> Json:
        """List the facts that have all words of ``{"text": …}`` in any form, paginated alike."""
        words, fact_query = call.text("text", MAX_QUERY), _build_fact_query(call)
        every = replace(fact_query, kind=None, limit=MAX_SEARCHED, offset=0)
        found = await self._memories.find_facts(call.caller.owner, words, every)
        counts = Counter[str](fact.fact.memory_type for fact in found)
        facts = [fact for fact in found if fact_query.kind in (None, fact.fact.memory_type)]
        return _build_facts_page(call, facts[fact_query.offset :], counts, fact_query.offset)

    async def pin(self, call: VerifiedCall) -> Json:
        """Pin or unpin a fact: ``{"pinned": true}``."""
        pinned = call.body.get("pinned")
        if not isinstance(pinned, bool):
            raise call.refusal(400, "app_bad_request")
        pin, owner = self._memories.facts.set_pinned, call.caller.owner
        if not await self._run(pin, owner, call.number("fact"), pinned=pinned):
            raise call.refusal(404, "memory_gone")
        return {"pinned": pinned}

    async def correct(self, call: VerifiedCall) -> Json:
        """Replace a fact by ``{"text": …}``, as an answer in the chat does.

        ``fact`` is the id of the new fact, through which the correction is undone; null when
        nothing changed, and then ``text`` gives the reason.
        """
        text = call.text("text", MAX_TEXT)
        correct, fact = self._core.commands.correct, call.number("fact")
        reply = await correct(call.caller, fact, text)
        if reply is None:
            raise call.refusal(404, "memory_gone")
        new = (*reply.changes.replaced_by, *reply.changes.saved)
        return {"text": reply.text, "fact": next(iter(new), None)}

    async def forget(self, call: VerifiedCall) -> Json:
        """Forget a fact and its messages; ``undo`` is valid for ten minutes."""
        uid = fact_uid(call.number("fact"))
        forgotten = await self._memories.forget(call.caller.owner, [uid])
        if not forgotten.texts:
            raise call.refusal(404, "memory_gone")
        return {"texts": list(forgotten.texts), "undo": forgotten.number}

    async def undo(self, call: VerifiedCall) -> Json:
        """Undo the creation of a fact; the fact that it replaced is current again."""
        caller = call.caller
        undone, fact = None, call.number("fact")
        if fact:
            undone = await self._memories.undo(caller.owner, fact, asker=caller.member)
        return _build_undo_reply(call, undone)

    async def undo_change(self, call: VerifiedCall) -> Json:
        """Undo a forgetting."""
        caller, number, undo = call.caller, call.number("number"), self._memories.undo
        undone = await undo(caller.owner, number=number, asker=caller.member)
        return _build_undo_reply(call, undone)

    async def search(self, call: VerifiedCall) -> Json:
        """Search facts and messages for ``{"text": …}``, best first.

        The query is in the body, because addresses end up in logs.
        """
        words = call.text("text", MAX_QUERY)
        hits, _ = await self._core.commands.search.find(
            call.caller.with_argument(words), limit=HITS
        )
        nothing = say("search_nothing", call.language)
        return {"hits": [views.hit_view(hit, call.caller) for hit in hits], "nothing": nothing}

    async def timeline(self, call: VerifiedCall) -> Json:
        """List messages in reading order: the newest, or those around a place.

        ``?before=`` and ``?from=`` take the cursors ``older`` and ``newer``; ``?message=12`` and
        ``?on=2026-03-31`` lead to a message and to the first of a day, whose id is ``at``. A topic
        of the private chat is a timeline of its own: ``?topic=``.
        """
        query, user = call.request.query_params, call.caller.owner.telegram_user_id
        topic = query.get("topic", "")
        thread_id = to_number(topic.removeprefix("-"), 18) or 0
        if topic.startswith("-"):  # an imported conversation
            thread_id = -thread_id
        owner = Owner(user, thread_id)
        place: PageCursor | None = None
        if "message" in query:
            id_ = to_number(query["message"], 18) or 0
            found = await self._run(self._timeline.find_message, call.caller.owner, id_)
            if found is None:
                raise call.refusal(404, "app_message_gone")
            owner, place = Owner(user, found[0]), found[1]
        elif "on" in query:
            since = parse_day_start(query["on"], call.caller.time_zone)
            if since is None:
                raise call.refusal(400, "app_bad_request")
            place = await self._run(self._timeline.find_day, owner, since)
        if place is not None:
            page = await self._list_messages(call, owner, before=place, after=place)
            return {**page, "at": place.id}
        if "from" in query:
            after = _parse_place(call, query["from"])
            return await self._list_messages(call, owner, before=None, after=after)
        before = _parse_place(call, query["before"]) if "before" in query else LAST
        return await self._list_messages(call, owner, before=before, after=None)

    async def _list_messages(
        self,
        call: VerifiedCall,
        owner: Owner,
        *,
        before: PageCursor | None,
        after: PageCursor | None,
    ) -> Json:
        """Return a page to one side of a place, or half a page to each."""
        run, size = self._run, MESSAGES // 2 if before and after else MESSAGES
        older = newer = []
        if before is not None:
            older = await run(self._timeline.list_before, owner, before, limit=size + 1)
        if after is not None:
            newer = await run(self._timeline.list_from, owner, after, limit=size + 1)
        page = [*reversed(older[:size]), *newer[:size]]
        return {
            "messages": [views.message_view(message, call.caller) for message in page],
            "older": pack_place(older[size - 1].place) if len(older) > size else None,
            "newer": pack_place(newer[size].place) if len(newer) > size else None,
            "topic": owner.thread_id,
        }

    async def settings(self, call: VerifiedCall) -> Json:
        """List the settings with their choices."""
        choices = list_choices(call.caller)
        return {"settings": [views.choice_view(choice) for choice in choices]}

    async def reminders(self, call: VerifiedCall) -> Json:
        """List pending reminders, the next one first, and recent ones, the newest first."""
        caller, rows = call.caller, self._core.reminders.rows
        waiting = await self._run(rows.list_waiting, caller.owner, limit=MAX_WAITING)
        since = caller.moment - RECENTLY
        came = await self._run(rows.list_delivered, caller.owner, since, limit=MAX_DELIVERED)
        return {
            "waiting": [views.reminder_view(one, caller) for one in waiting],
            "came": [views.reminder_view(one, caller) for one in came],
        }

    async def move_reminder(self, call: VerifiedCall) -> Json:
        """Move a pending reminder to another time: ``{"text": "2026-12-01T09:00"}``."""
        uid = f"{REMINDER_UID}{call.number('number')}"
        try:
            order = ReminderOrder(text=uid, when=call.text("text", MAX_TIME), moves=uid)
            moved = await self._core.reminders.apply_order(call.caller, order)
        except ValueError as error:
            raise call.refusal(400, "reminder_no_time") from error
        return _build_reminder_reply(call, moved)

    async def restore_reminder(self, call: VerifiedCall) -> Json:
        """Undo the cancellation of a reminder, for ten minutes."""
        caller, number, reminders = call.caller, call.number("number"), self._core.reminders
        result = ReminderResult(None, "gone")
        found = await self._run(reminders.rows.find, caller.owner, number)
        if found is not None and found.is_cancelled:
            for restored in await reminders.undo(caller, reminder=number):
                result = ReminderResult(restored)
        return _build_reminder_reply(call, result)

    async def press(self, call: VerifiedCall) -> Json:
        """Execute a button of the chat: ``{"action": "later:12:1"}``."""
        action = Action.unpack(call.text("action", MAX_DATA))
        if action is None or action.name not in views.PRESSED:
            raise call.refusal(404, "tap_unknown")
        reply = await self._core.commands.press(action, call.caller)
        if reply.is_note:
            raise RefusedError(404, reply.text)
        return views.reply_view(reply)

    async def command(self, call: VerifiedCall) -> Json:
        """Execute a command of ``COMMANDS``, with ``{"text": …}`` if it takes an argument."""
        name = str(call.request.path_params["command"])
        if name not in COMMANDS:
            raise call.refusal(404, "app_not_here")
        words = ""
        if name in WITH_ARGUMENT:
            words = call.text("text", MAX_TEXT)
        reply = await self._core.commands.run(name, call.caller.with_argument(words))
        return views.reply_view(reply)

    async def export(self, form: FileFormat, call: VerifiedCall) -> Response:
        """Send everything in a file: ``json`` for programs, or ``md`` to read."""
        file = await self._run(self._core.exports.write_file, form, call.caller)
        return send_file(file, FILE_TYPES[Path(file.name).suffix])

    async def enter(self, request: Request) -> Response:
        """Open a session with the token of a one-time link: ``{"link": …}``."""
        language, sessions = accepted_language(request), self._sessions
        if sessions is None:
            raise RefusedError(404, say("app_not_here", language))
        if not sessions.comes_from_page(request):
            raise RefusedError(403, say("app_unauthorized", language))
        address = request.client.host if request.client else ""
        if not await self._entries.take(address):
            raise RefusedError(429, say("app_too_often", language))
        link = (await read_json(request, language)).get("link")
        response = JSONResponse({})
        if not isinstance(link, str) or not await sessions.enter(link[:MAX_QUERY], response):
            raise RefusedError(401, say("enter_over", language))
        return response

    async def leave(self, sessions: PageSessions, call: VerifiedCall) -> Response:
        """Close the session of the browser that calls."""
        response = JSONResponse({})
        await sessions.leave(call.caller.owner, call.request, response)
        return response

    async def bring(self, call: VerifiedCall) -> Json:
        """Read an uploaded file (``?name=``), and return what it holds, with the choices.

        The file has no name on the disk, so that it leaves no trace.
        """
        name = call.request.query_params.get("name", "")[:MAX_QUERY]
        with tempfile.TemporaryFile() as file:
            size = 0
            async for piece in read_pieces(call.request):
                size += len(piece)
                if size > MAX_UPLOAD:
                    raise call.refusal(413, "import_too_big")
                await asyncio.to_thread(file.write, piece)
            file.flush()
            reply = await self._core.commands.imports.read(
                call.caller, Opened(name, partial(open_again, file))
            )
        return views.reply_view(reply)

    async def watch(self, call: VerifiedCall) -> Json:
        """Show how far an import is; ``goes_on`` until it is over."""
        imports, caller = self._core.commands.imports, call.caller
        found = await self._run(imports.service.rows.find, caller.owner, call.number("number"))
        if found is None:
            return {"text": "", "goes_on": False}
        shown = views.reply_view(await imports.screen(caller, found))
        return {**shown, "goes_on": found.state in ("storing", "undoing")}

    def _route(self, method: str, path: str, cost: float, endpoint: Endpoint) -> Route:
        async def serve(request: Request) -> Response:
            async with self._gate.verified(request, cost) as call:
                reply = await endpoint(call)
            if isinstance(reply, Response):
                return reply
            return JSONResponse(reply)

        return Route(path, serve, methods=[method])


async def explain(request: Request, error: Exception) -> Response:
    """Answer a refusal, an unknown address, or a defect, which the server logs."""
    if isinstance(error, RefusedError):
        return JSONResponse({"error": error.detail}, error.status_code)
    language = accepted_language(request)
    if isinstance(error, HTTPException) and error.status_code in (404, 405):
        return JSONResponse({"error": say("app_not_here", language)}, error.status_code)
    if isinstance(error, HTTPException):
        return JSONResponse({"error": say("app_bad_request", language)}, error.status_code)
    return JSONResponse({"error": say("app_unavailable", language)}, 500)


def _build_undo_reply(call: VerifiedCall, undone: UndoResult | None) -> Json:
    """Describe what was undone.

    Raises:
        RefusedError: Nothing was: it is too late, or was undone already.
    """
    if undone is None:
        raise call.refusal(404, "undo_nothing")
    return {"text": format_undo(undone, call.language)}


def _build_reminder_reply(call: VerifiedCall, result: ReminderResult) -> Json:
    """Confirm a change of a reminder.

    Raises:
        RefusedError: The reminder is gone, or the new time is not possible.
    """
    text = format_result(result, call.caller)
    if result.refusal == "gone":
        raise RefusedError(404, text)
    if result.reminder is None:
        raise RefusedError(400, text)
    return {"text": text}


def _build_fact_query(call: VerifiedCall) -> FactQuery:
    """Query a page, and one fact more, which tells that another page follows."""
    query = call.request.query_params
    offset = to_number(query.get("offset", ""), 7) or 0
    page = FactQuery("kind", limit=FACTS + 1, offset=min(offset, MAX_OFFSET))
    if query.get("sort") == "newest":
        page = replace(page, order="newest")
    if query.get("kind") in KINDS:
        page = replace(page, kind=query["kind"])
    return page


def _build_facts_page(
    call: VerifiedCall, facts: list[StoredFact], counts: Mapping[str, int], offset: int
) -> Json:
    shown = [views.fact_view(fact, call.caller) for fact in facts[:FACTS]]
    next_offset = offset + FACTS if len(facts) > FACTS else None
    return {"counts": counts, "facts": shown, "next": next_offset}


def _parse_place(call: VerifiedCall, text: str) -> PageCursor:
    """Parse a cursor of ``pack_place``.

    Raises:
        RefusedError: It is malformed.
    """
    before, _, after = text.partition(".")
    position, id_ = to_number(before, 9), to_number(after, 18)
    if position is None or id_ is None:
        raise call.refusal(400, "app_bad_request")
    return PageCursor(position, id_)


def build_web_app(core: Core, token: str, permits: Callable[[int], bool]) -> Any:
    """Build the page and its API as an ASGI app to be mounted.

    With ``PUBLIC_URL`` the page is also at ``/page``, for browsers outside Telegram.

    Args:
        core: Owner of the data.
        token: Token of the bot, with which Telegram signs ``initData``.
        permits: Returns True if a Telegram id may use the bot.
    """
    page = _build_page()
    outside = {language: _build_page(language) for language in LANGUAGES}
    sessions = None
    if core.settings.page_url is not None:
        sessions = PageSessions(core.client, token, core.settings.page_url)
    api = Api(core, Gate(core, token, permits, sessions), sessions)

    async def show(_request: Request) -> Response:
        return HTMLResponse(page)

    async def show_outside(request: Request) -> Response:
        return HTMLResponse(outside[accepted_language(request)])

    routes: list[BaseRoute] = [
        Route("/", show, methods=["GET"]),
        Mount("/static", StaticFiles(directory=HERE / "static")),
    ]
    if sessions is not None:
        routes.append(Route("/page", show_outside, methods=["GET"]))
        routes.append(Route("/api/enter", api.enter, methods=["POST"]))
    app = Starlette(
        routes=[*routes, Mount("/api", routes=api.routes())],
        exception_handlers={HTTPException: explain, Exception: explain},
    )
    return WithHeaders(app, HEADERS, STATIC_HEADERS)


def _build_page(outside: Language | None = None) -> str:
    """Render the page in Telegram; ``outside``: the one that needs no Telegram.

    That one has no script of Telegram, and in this language a form that uses the one-time link.
    """
    enter = None
    if outside is not None:
        enter = {
            "title": say("enter_title", outside),
            "about": say("enter_about", outside),
            "button": say("enter_button", outside),
        }
    loader = FileSystemLoader(HERE / "templates")
    template = Environment(loader=loader, autoescape=True).get_template("app.html")
    return template.render(
        outside=outside,
        enter=enter,
        telegram_script=TELEGRAM_SCRIPT,
        modules=sorted(file.name for file in (HERE / "static" / "app").glob("*.js")),
        unreachable={language: say("page_unreachable", language) for language in LANGUAGES},
    )
