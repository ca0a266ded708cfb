"""``/app``: the page of the Mini App and its API, which serves only the memory of its caller."""

import html
from collections.abc import Awaitable, Callable, Iterator
from datetime import date, datetime, time, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from src.base.owners import Called
from src.base.zones import first_moment, local_time
from src.core import Core
from src.history.timeline_repo import LAST, Place, TimelineMessage, TimelineRepository
from src.memory.forgetting_repo import Undone
from src.memory.memory_repo import FactQuery, Memory
from src.memory.retrieval_repo import Hit
from src.reading.facts import MEMORY_TYPES, fact_uid
from src.talk.command_service import undone_text
from src.talk.corrections import CorrectionService
from src.texts import LANGUAGES, say, sentences
from src.texts.plain_text import shortened
from src.texts.reply import ReplyFile
from src.web.app_gate import Gate, Json, RefusedError, VerifiedCall, accepted_language, is_number
from src.web.http_server import WithHeaders

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

MAX_SNIPPET = 600  # characters of what a search found
MAX_PAST = 5  # earlier values of a fact

PAGE_TEXT = "page_"  # how the keys of the page's own sentences begin


def fact_view(fact: Memory, called: Called) -> Json:
    """A fact with its source and its past, the latest first."""
    return {
        "id": fact.id,
        "kind": fact.memory_type,
        "text": fact.text,
        "pinned": fact.pinned,
        "day": called.day(fact.said_at),
        "quote": fact.quote or fact.text,
        "before": [
            {"text": old.text, "until": called.day(old.until) if old.until else None}
            for old in fact.past[:MAX_PAST]
        ],
    }


def hit_view(hit: Hit, called: Called) -> Json:
    """What a search found: a fact, or a message of the user's or the bot's."""
    return {
        "kind": "fact" if hit.kind == "memory" else "message",
        "by": "bot" if hit.speaker == "assistant" else "you",
        "text": shortened(hit.words, MAX_SNIPPET),
        "retired": hit.retired,
        **_moment_view(hit.said_at, called),
    }


def message_view(message: TimelineMessage, called: Called) -> Json:
    """A message with its day, by which the page groups."""
    return {
        "by": "bot" if message.role == "assistant" else "you",
        "text": message.text,
        "private": message.is_private,
        **_moment_view(message.said_at, called),
    }


def page_names() -> set[str]:
    """The names of the page's own sentences; ``app.js`` uses all of them."""
    return {key.removeprefix(PAGE_TEXT) for key in sentences() if key.startswith(PAGE_TEXT)}


def _moment_view(moment: datetime, called: Called) -> Json:
    at = local_time(moment, called.time_zone)
    return {"day": called.day(moment), "date": f"{at:%Y-%m-%d}", "time": f"{at:%H:%M}"}


def pack_place(place: Place) -> str:
    """Where a page of messages ends, as the page hands it back for the next."""
    return f"{place.position}.{place.id}"


def unpack_place(text: str) -> Place | None:
    """What ``pack_place`` wrote; None for anything else."""
    position, _, id_ = text.partition(".")
    if not (is_number(position, 9) and is_number(id_, 18)):
        return None
    return Place(int(position), int(id_))


FACTS, HITS, MESSAGES = 50, 20, 40  # a page
MAX_TEXT = 4096  # characters of a correction, as of a message in Telegram
MAX_QUERY = 500
MAX_OFFSET = 1_000_000
CHUNK = 65_536  # bytes of a file that are in memory at once
# What a request takes of its sender's ``Allowance``.
LOOK, CHANGE, SEARCH, EXPORT = 1.0, 2.0, 3.0, 20.0
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
        self._corrections = CorrectionService(core.agent, core.client)

    def routes(self) -> list[Route]:
        """All of them; a test walks them without ``initData``."""
        looked: tuple[tuple[str, float, Answer], ...] = (
            ("/start", LOOK, self.start), ("/facts", LOOK, self.facts),
            ("/timeline", LOOK, self.timeline), ("/privacy", LOOK, self.privacy),
            ("/export/json", EXPORT, partial(self.export, "json")),
            ("/export/markdown", EXPORT, partial(self.export, "md")),
        )  # fmt: skip
        done: tuple[tuple[str, float, Answer], ...] = (
            ("/search", SEARCH, self.search), ("/facts/{fact}/pin", CHANGE, self.pin),
            ("/facts/{fact}/correct", CHANGE, self.correct),
            ("/facts/{fact}/forget", CHANGE, self.forget),
            ("/facts/{fact}/undo", CHANGE, self.undo),
            ("/forgettings/{number}/undo", CHANGE, self.recall),
        )  # fmt: skip
        return [
            *(Route(path, self._served(cost, one), methods=["GET"]) for path, cost, one in looked),
            *(Route(path, self._served(cost, one), methods=["POST"]) for path, cost, one in done),
        ]

    async def start(self, asked: VerifiedCall) -> Json:
        """What the page needs before anything else: its language and its sentences."""
        language = asked.language
        texts = {name: say(f"{PAGE_TEXT}{name}", language) for name in page_names()}
        kinds = {kind: say(f"kind_{kind}", language) for kind in MEMORY_TYPES}
        return {"language": language, "texts": texts, "kinds": kinds}

    async def facts(self, asked: VerifiedCall) -> Json:
        """A page of facts, kind by kind, of each the pinned first: ``?kind=&offset=``."""
        owner, query = asked.called.owner, asked.request.query_params
        kind = query.get("kind")
        kind = kind if kind in MEMORY_TYPES else None
        offset = query.get("offset", "0")
        first = min(int(offset), MAX_OFFSET) if is_number(offset, 7) else 0
        wanted = FactQuery("kind", kind=kind, limit=FACTS + 1, offset=first)
        facts = await self._client.run(self._memories.facts.list_facts, owner, wanted)
        return {
            "counts": await self._client.run(self._memories.facts.count_kinds, owner),
            "facts": [fact_view(fact, asked.called) for fact in facts[:FACTS]],
            "next": first + FACTS if len(facts) > FACTS else None,
        }

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
        done = await self._corrections.correct(
            asked.called, asked.number("fact"), text, mode=asked.mode
        )
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
        told = [hit_view(hit, asked.called) for hit in hits]
        nothing = say("search_nothing", asked.language)
        return {"hits": told, "nothing": nothing}

    async def timeline(self, asked: VerifiedCall) -> Json:
        """Messages, the newest first: ``?before=`` what ``next`` said, or ``?on=2026-03-31``."""
        query = asked.request.query_params
        before = unpack_place(query["before"]) if "before" in query else LAST
        until = _end_of_day(query["on"], asked.called.time_zone) if "on" in query else None
        if before is None or ("on" in query and until is None):
            raise asked.refused(400, "app_bad_request")
        found = await self._client.run(
            self._timeline.list_messages, asked.called.owner,
            before=before, until=until, limit=MESSAGES + 1,
        )  # fmt: skip
        shown = found[:MESSAGES]
        return {
            "messages": [message_view(message, asked.called) for message in shown],
            "next": pack_place(shown[-1].place) if len(found) > MESSAGES else None,
        }

    async def privacy(self, asked: VerifiedCall) -> Json:
        """What is kept, who sees it, and how it is erased."""
        return {"text": (await self._core.commands.say_privacy(asked.called)).text}

    async def export(self, form: FileFormat, asked: VerifiedCall) -> Response:
        """Everything in a file, for programs (``json``) or to read (``md``)."""
        file = await self._client.run(self._core.exports.write_file, form, asked.called)
        kind = "application/zip" if file.name.endswith(".zip") else FILE_TYPES[form]
        headers = {"Content-Disposition": f'attachment; filename="{file.name}"'}
        return StreamingResponse(_chunks(file), media_type=kind, headers=headers)

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


def _end_of_day(text: str, time_zone: str) -> datetime | None:
    """The moment at which a day ends for the owner; None for what is no day, or the last one."""
    try:
        following = date.fromisoformat(text) + timedelta(days=1)
        return first_moment(datetime.combine(following, time()), time_zone)
    except (ValueError, OverflowError):
        return None


def _chunks(file: ReplyFile) -> Iterator[bytes]:
    with file.content as content:
        content.seek(0)
        while piece := content.read(CHUNK):
            yield piece


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
    source = (HERE / "page.html").read_text(encoding="utf-8")
    return source.replace("{unreachable}", said).replace("{script}", TELEGRAM_SCRIPT)
