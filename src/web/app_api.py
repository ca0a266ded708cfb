"""``/app``: the page of the Mini App and its API, which serves only the memory of its caller."""

import html
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from src.base.owners import Owner
from src.base.zones import beginning_of
from src.core import Core
from src.history.timeline_repo import LAST, Place, TimelineRepository
from src.memory.forgetting_repo import Undone
from src.memory.memory_repo import KINDS, FactQuery, Memory
from src.reading.facts import fact_uid
from src.reminders.reminder_repo import MAX_WAITING, REMINDER_UID
from src.reminders.reminder_service import ReminderResult, confirmation
from src.reminders.rules import ReminderOrder
from src.talk.command_service import undone_text
from src.texts import LANGUAGES, say, sentences
from src.texts.reply import MAX_DATA, Action
from src.web import app_views as views
from src.web.app_gate import Gate, Json, RefusedError, VerifiedCall, accepted_language, is_number
from src.web.http_server import WithHeaders, send_file

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

PAGE_TEXT = "page_"  # how the keys of the page's own sentences begin


def page_names() -> set[str]:
    """The names of the page's own sentences; its scripts use all of them."""
    return {key.removeprefix(PAGE_TEXT) for key in sentences() if key.startswith(PAGE_TEXT)}


def pack_place(place: Place) -> str:
    """Where a page of messages ends, as the page hands it back for the next."""
    return f"{place.position}.{place.id}"


FACTS, HITS, MESSAGES = 50, 20, 40  # a page
SEARCHED = 2000  # facts that a search inside them looks at
CAME = 10  # reminders that came lately
LATELY = timedelta(days=1)
MAX_TEXT = 4096  # characters of a correction, as of a message in Telegram
MAX_QUERY = 500
MAX_TIME = 100
MAX_OFFSET = 1_000_000
# What a request takes of its sender's ``Allowance``.
LOOK, CHANGE, SEARCH, EXPORT = 1.0, 2.0, 3.0, 20.0
# Commands of the chat that the page gives as well, and whether they want words.
COMMANDS = {
    "remind": True, "settings": True, "privacy": False, "usage": False, "delete_me": False,
}  # fmt: skip
FILE_TYPES = {"json": "application/json", "md": "text/markdown; charset=utf-8"}

Answer = Callable[[VerifiedCall], Awaitable[Json | Response]]
FileFormat = Literal["json", "md"]


class Api:
    """What each address does."""

    def __init__(self, core: Core, gate: Gate) -> None:
        """Serve from ``core`` whom ``gate`` lets pass."""
        self._core = core
        self._gate = gate
        self._client = core.client
        self._memories = core.memory.memories
        self._timeline = TimelineRepository(core.client)

    def routes(self) -> list[Route]:
        """All of them; a test walks them without ``initData``."""
        looked: tuple[tuple[str, float, Answer], ...] = (
            ("/start", LOOK, self.start), ("/facts", LOOK, self.facts),
            ("/timeline", LOOK, self.timeline), ("/reminders", LOOK, self.reminders),
            ("/settings", LOOK, self.settings),
            ("/export/json", EXPORT, partial(self.export, "json")),
            ("/export/markdown", EXPORT, partial(self.export, "md")),
        )  # fmt: skip
        done: tuple[tuple[str, float, Answer], ...] = (
            ("/search", SEARCH, self.search), ("/facts/find", SEARCH, self.find_facts),
            ("/facts/{fact}/pin", CHANGE, self.pin),
            ("/facts/{fact}/correct", CHANGE, self.correct),
            ("/facts/{fact}/forget", CHANGE, self.forget),
            ("/facts/{fact}/undo", CHANGE, self.undo),
            ("/forgettings/{number}/undo", CHANGE, self.recall),
            ("/reminders/{number}/move", CHANGE, self.move_reminder),
            ("/reminders/{number}/restore", CHANGE, self.restore_reminder),
            ("/buttons", CHANGE, self.press), ("/commands/{command}", CHANGE, self.command),
        )  # fmt: skip
        return [
            *(Route(path, self._served(cost, one), methods=["GET"]) for path, cost, one in looked),
            *(Route(path, self._served(cost, one), methods=["POST"]) for path, cost, one in done),
        ]

    async def start(self, asked: VerifiedCall) -> Json:
        """What the page needs before anything else: its language and its sentences."""
        language = asked.language
        texts = {name: say(f"{PAGE_TEXT}{name}", language) for name in page_names()}
        kinds = {kind: say(f"kind_{kind}", language) for kind in KINDS}
        return {"language": language, "texts": texts, "kinds": kinds}

    async def facts(self, asked: VerifiedCall) -> Json:
        """A page of facts: ``?kind=&sort=newest&offset=``; else kind by kind, the pinned first."""
        rows, owner, wanted = self._memories.facts, asked.called.owner, _facts_wanted(asked)
        facts = await self._client.run(rows.list_facts, owner, wanted)
        counts = await self._client.run(rows.count_kinds, owner)
        return _facts_page(asked, facts, counts, wanted.offset)

    async def find_facts(self, asked: VerifiedCall) -> Json:
        """The facts with all words of ``{"text": …}`` in any form; a page of them as above."""
        words, wanted = asked.text("text", MAX_QUERY), _facts_wanted(asked)
        every = replace(wanted, kind=None, limit=SEARCHED, offset=0)
        found = await self._memories.find_facts(asked.called.owner, words, every)
        counts = Counter(fact.memory_type for fact in found)
        facts = [fact for fact in found if wanted.kind in (None, fact.memory_type)]
        return _facts_page(asked, facts[wanted.offset :], counts, wanted.offset)

    async def pin(self, asked: VerifiedCall) -> Json:
        """Keep a fact always in view, or no more: ``{"pinned": true}``."""
        pinned = asked.body.get("pinned")
        if not isinstance(pinned, bool):
            raise asked.refused(400, "app_bad_request")
        owner, fact = asked.called.owner, asked.number("fact")
        if not await self._memories.pin(owner, fact, pinned=pinned):
            raise asked.refused(404, "memory_gone")
        return {"pinned": pinned}

    async def correct(self, asked: VerifiedCall) -> Json:
        """Put ``{"text": …}`` in the place of a fact, as an answer in the chat would.

        ``fact`` is the new one, through which it is taken back; null when nothing changed, and
        then ``text`` says why.
        """
        text = asked.text("text", MAX_TEXT)
        correct, fact = self._core.commands.correct, asked.number("fact")
        done = await correct(asked.called, fact, text, mode=asked.mode)
        if done is None:
            raise asked.refused(404, "memory_gone")
        new = (*done.changes.replaced_by, *done.changes.saved)
        return {"text": done.text, "fact": next(iter(new), None)}

    async def forget(self, asked: VerifiedCall) -> Json:
        """Forget a fact, and what was said of it; ``undo`` takes that back for ten minutes."""
        uid = fact_uid(asked.number("fact"))
        forgotten = await self._memories.forget(asked.called.owner, [uid])
        if not forgotten.texts:
            raise asked.refused(404, "memory_gone")
        return {"texts": list(forgotten.texts), "undo": forgotten.number}

    async def undo(self, asked: VerifiedCall) -> Json:
        """Take back how a fact came about: what it replaced holds again."""
        called = asked.called
        undone = None
        if fact := asked.number("fact"):
            undone = await self._memories.undo(called.owner, fact, asker=called.member)
        return _undone(asked, undone)

    async def recall(self, asked: VerifiedCall) -> Json:
        """Take a forgetting back."""
        called = asked.called
        undone = await self._memories.undo_forgetting(
            called.owner, asked.number("number"), asker=called.member
        )
        return _undone(asked, undone)

    async def search(self, asked: VerifiedCall) -> Json:
        """Everything said that fits ``{"text": …}``, best first.

        What is looked for stands in the body: addresses end up in logs.
        """
        words = asked.text("text", MAX_QUERY)
        hits = await self._core.commands.find(asked.called.asking(words), limit=HITS)
        told = [views.hit_view(hit, asked.called) for hit in hits]
        nothing = say("search_nothing", asked.language)
        return {"hits": told, "nothing": nothing}

    async def timeline(self, asked: VerifiedCall) -> Json:
        """Messages in reading order, the newest; or those around a place in them.

        ``?before=`` and ``?from=`` take what ``older`` and ``newer`` said; ``?message=12`` and
        ``?on=2026-03-31`` lead to a message and to the first of a day, which is ``at``. A topic
        of the private chat is a timeline of its own: ``?topic=``.
        """
        query, user = asked.request.query_params, asked.called.owner.telegram_user_id
        topic = query.get("topic", "")
        owner = Owner(user, int(topic) if is_number(topic, 18) else 0)
        place: Place | None = None
        if "message" in query:
            owner, place = await self._find_message(asked, query["message"])
        elif "on" in query:
            place = await self._find_day(asked, owner, query["on"])
        if place is not None:
            page = await self._messages(asked, owner, before=place, after=place)
            return {**page, "at": place.id}
        if "from" in query:
            return await self._messages(asked, owner, after=_place(asked, query["from"]))
        before = _place(asked, query["before"]) if "before" in query else LAST
        return await self._messages(asked, owner, before=before)

    async def _find_message(self, asked: VerifiedCall, number: str) -> tuple[Owner, Place]:
        owner = asked.called.owner
        id_ = int(number) if is_number(number, 18) else 0
        found = await self._client.run(self._timeline.find_message, owner, id_)
        if found is None:
            raise asked.refused(404, "app_message_gone")
        return Owner(owner.telegram_user_id, found[0]), found[1]

    async def _find_day(self, asked: VerifiedCall, owner: Owner, day: str) -> Place | None:
        since = beginning_of(day, asked.called.time_zone)
        if since is None:
            raise asked.refused(400, "app_bad_request")
        return await self._client.run(self._timeline.find_day, owner, since)

    async def _messages(
        self,
        asked: VerifiedCall,
        owner: Owner,
        *,
        before: Place | None = None,
        after: Place | None = None,
    ) -> Json:
        """A page to one side of a place, or half a page to each."""
        run, size = self._client.run, MESSAGES // 2 if before and after else MESSAGES
        older = newer = []
        if before is not None:
            older = await run(self._timeline.list_before, owner, before, limit=size + 1)
        if after is not None:
            newer = await run(self._timeline.list_from, owner, after, limit=size + 1)
        shown = [*reversed(older[:size]), *newer[:size]]
        return {
            "messages": [views.message_view(message, asked.called) for message in shown],
            "older": pack_place(older[size - 1].place) if len(older) > size else None,
            "newer": pack_place(newer[size].place) if len(newer) > size else None,
            "topic": owner.thread_id,
        }

    async def settings(self, asked: VerifiedCall) -> Json:
        """What the owner may choose, and has chosen."""
        choices = await self._core.commands.settings.list_choices(asked.called)
        return {"settings": [views.choice_view(choice) for choice in choices]}

    async def reminders(self, asked: VerifiedCall) -> Json:
        """What waits, the next one first; and what came lately, the newest first."""
        called, rows = asked.called, self._core.reminders.rows
        waiting = await self._client.run(rows.list_waiting, called.owner, limit=MAX_WAITING)
        since = called.moment - LATELY
        came = await self._client.run(rows.list_came, called.owner, since, limit=CAME)
        return {
            "waiting": [views.reminder_view(one, called) for one in waiting],
            "came": [views.reminder_view(one, called) for one in came],
        }

    async def move_reminder(self, asked: VerifiedCall) -> Json:
        """Let one that waits come at another time: ``{"text": "2026-12-01T09:00"}``."""
        uid = f"{REMINDER_UID}{asked.number('number')}"
        try:
            order = ReminderOrder(text=uid, when=asked.text("text", MAX_TIME), moves=uid)
            moved = await self._core.reminders.take(asked.called, order)
        except ValueError as error:
            raise asked.refused(400, "reminder_no_time") from error
        return _confirmed(asked, moved)

    async def restore_reminder(self, asked: VerifiedCall) -> Json:
        """Take back that one was cancelled, for ten minutes."""
        rows, called = self._core.reminders.rows, asked.called
        restored = await self._client.run(
            rows.restore, called.owner, asked.number("number"), now=called.moment
        )
        return _confirmed(asked, ReminderResult(restored, None if restored else "gone"))

    async def press(self, asked: VerifiedCall) -> Json:
        """Do what a button of the chat does: ``{"action": "later:12:1"}``."""
        action = Action.unpack(asked.text("action", MAX_DATA))
        if action is None or action.name not in views.PRESSED:
            raise asked.refused(404, "tap_unknown")
        reply = await self._core.commands.press(action, asked.called)
        if reply.is_note:
            raise RefusedError(404, reply.text)
        return views.reply_view(reply)

    async def command(self, asked: VerifiedCall) -> Json:
        """Give one of COMMANDS, with the words of ``{"text": …}`` where it wants some."""
        name = str(asked.request.path_params["command"])
        if name not in COMMANDS:
            raise asked.refused(404, "app_not_here")
        words = asked.text("text", MAX_TEXT) if COMMANDS[name] else ""
        return views.reply_view(await self._core.commands.run(name, asked.called.asking(words)))

    async def export(self, form: FileFormat, asked: VerifiedCall) -> Response:
        """Everything in a file, for programs (``json``) or to read (``md``)."""
        file = await self._client.run(self._core.exports.write_file, form, asked.called)
        kind = "application/zip" if file.name.endswith(".zip") else FILE_TYPES[form]
        return send_file(file, kind)

    def _served(self, cost: float, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        """An address behind the gate; what goes wrong is a sentence."""

        async def serve(request: Request) -> Response:
            try:
                async with self._gate.passed(request, cost) as asked:
                    answered = await answer(asked)
            except RefusedError as refused:
                return told(refused.status, refused.sentence)
            return JSONResponse(answered) if isinstance(answered, dict) else answered

        return serve


def told(status: int, sentence: str) -> JSONResponse:
    """A refusal as the page understands it."""
    return JSONResponse({"error": sentence}, status)


async def refuse_unknown(request: Request, error: Exception) -> Response:
    """An address, or a method of one, that there is not."""
    status = error.status_code if isinstance(error, HTTPException) else 404
    return told(status, say("app_not_here", accepted_language(request)))


async def explain_defect(request: Request, _error: Exception) -> Response:
    """A defect of ours; the server logs it."""
    return told(500, say("app_unavailable", accepted_language(request)))


def _undone(asked: VerifiedCall, undone: Undone | None) -> Json:
    """What was taken back.

    Raises:
        RefusedError: Nothing, because it is too late, or was done already.
    """
    if undone is None:
        raise asked.refused(404, "undo_nothing")
    return {"text": undone_text(undone, asked.language)}


def _confirmed(asked: VerifiedCall, result: ReminderResult) -> Json:
    """What became of a reminder.

    Raises:
        RefusedError: It is gone, or cannot come then.
    """
    text = confirmation(result, asked.called)
    if result.reminder is None:
        raise RefusedError(404 if result.refusal == "gone" else 400, text)
    return {"text": text}


def _facts_wanted(asked: VerifiedCall) -> FactQuery:
    """A page, and one more that tells whether another follows."""
    query = asked.request.query_params
    kind, offset = query.get("kind"), query.get("offset", "")
    return FactQuery(
        "newest" if query.get("sort") == "newest" else "kind",
        kind=kind if kind in KINDS else None,
        limit=FACTS + 1,
        offset=min(int(offset), MAX_OFFSET) if is_number(offset, 7) else 0,
    )


def _facts_page(
    asked: VerifiedCall, facts: list[Memory], counts: Mapping[str, int], offset: int
) -> Json:
    return {
        "counts": counts,
        "facts": [views.fact_view(fact, asked.called) for fact in facts[:FACTS]],
        "next": offset + FACTS if len(facts) > FACTS else None,
    }


def _place(asked: VerifiedCall, text: str) -> Place:
    """What ``pack_place`` wrote.

    Raises:
        RefusedError: It did not write that.
    """
    position, _, id_ = text.partition(".")
    if not (is_number(position, 9) and is_number(id_, 18)):
        raise asked.refused(400, "app_bad_request")
    return Place(int(position), int(id_))


def build_web_app(core: Core, token: str, permits: Callable[[int], bool]) -> Any:
    """The page as an ASGI app, to be mounted somewhere.

    Args:
        core: Whose memory it shows.
        token: The bot's, with which Telegram signs who opens the page.
        permits: Whether a Telegram id may use the bot.
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
    return WithHeaders(app, HEADERS, STATIC_HEADERS)


def _page() -> str:
    """The page; what it says when it reaches nobody stands in it, in every language."""
    said = "".join(
        f'<p lang="{language}">{html.escape(say("page_unreachable", language))}</p>'
        for language in LANGUAGES
    )
    modules = "".join(
        f'<link rel="modulepreload" href="static/app/{file.name}">'
        for file in sorted((HERE / "static" / "app").glob("*.js"))
    )
    source = (HERE / "page.html").read_text(encoding="utf-8")
    filled = source.replace("{unreachable}", said).replace("{script}", TELEGRAM_SCRIPT)
    return filled.replace("{modules}", modules)
