"""The API under the page: each address reads or changes the memory of whoever asks, alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from functools import partial
from typing import Literal

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from src.base.owners import Called
from src.base.zones import first_moment, local_time
from src.core import Core
from src.history.timeline_repo import LAST, Place, TimelineMessage, TimelineRepository
from src.memory.forgetting_repo import Undone
from src.memory.memory_page_repo import Replaced
from src.memory.memory_repo import Memory
from src.memory.retriever import Hit
from src.reading.facts import MEMORY_TYPES, fact_uid
from src.talk.command_service import undone_text
from src.talk.corrections import CorrectionService
from src.texts import Language, say
from src.texts.plain_text import shortened
from src.texts.reply import ReplyFile
from src.web.app_gate import Asked, Gate, Json, RefusedError, accepted_language

MAX_SNIPPET = 600  # characters of what a search found
MAX_PAST = 5  # earlier values of a fact

# What the page itself says: each is the sentence ``app_<name>``, and ``app.js`` uses all of them.
NAMES = (
    "all", "before", "bot", "cancel", "close", "correct", "date", "export", "export_about",
    "export_json", "export_markdown", "export_phone", "exported", "fact", "facts", "find",
    "forget", "forgotten", "found", "kinds", "loading", "menu", "message", "more", "newest",
    "no_facts", "no_messages", "pin", "pinned", "privacy", "private", "retired", "retry", "right",
    "said", "save", "search", "search_hint", "search_label", "sections", "timeline", "undo",
    "undo_until", "unpin", "unreachable", "until", "you",
)  # fmt: skip


def page_texts(language: Language) -> dict[str, str]:
    """What the page says, by the names in ``NAMES``."""
    return {name: say(f"app_{name}", language) for name in NAMES}


def fact_view(fact: Memory, called: Called, replaced: Sequence[Replaced]) -> Json:
    """A fact with its source and its past, which ``replaced`` lists, the latest first."""
    return {
        "id": fact.id,
        "kind": fact.memory_type,
        "text": fact.text,
        "pinned": fact.pinned,
        "day": called.day(fact.said_at),
        "quote": fact.quote or fact.text,
        "before": [
            {"text": old.text, "until": called.day(old.until) if old.until else None}
            for old in replaced[:MAX_PAST]
        ],
    }


def hit_view(hit: Hit, called: Called) -> Json:
    """What a search found: a fact, or a message of the user's or the bot's."""
    at = local_time(hit.said_at, called.time_zone)
    return {
        "kind": "fact" if hit.kind == "memory" else "message",
        "by": "bot" if hit.speaker == "assistant" else "you",
        "text": shortened(hit.words, MAX_SNIPPET),
        "day": called.day(hit.said_at),
        "date": f"{at:%Y-%m-%d}",
        "time": f"{at:%H:%M}",
        "retired": hit.retired,
    }


def message_view(message: TimelineMessage, called: Called) -> Json:
    """A message with its day, by which the page groups."""
    at = local_time(message.said_at, called.time_zone)
    return {
        "by": "bot" if message.role == "assistant" else "you",
        "text": message.text,
        "day": called.day(message.said_at),
        "date": f"{at:%Y-%m-%d}",
        "time": f"{at:%H:%M}",
        "private": message.is_private,
    }


def pack_place(place: Place) -> str:
    """Where a page of messages ends, as the page hands it back for the next."""
    return f"{place.position}.{place.id}"


def unpack_place(text: str) -> Place | None:
    """What ``pack_place`` wrote; None for anything else."""
    position, _, id_ = text.partition(".")
    if not (_is_number(position, 9) and _is_number(id_, 18)):
        return None
    return Place(int(position), int(id_))


def by_fact(replaced: Iterable[Replaced]) -> dict[int, list[Replaced]]:
    """What each fact replaced, in the order given."""
    past: dict[int, list[Replaced]] = {}
    for one in replaced:
        past.setdefault(one.by, []).append(one)
    return past


def _is_number(text: str, digits: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= digits


FACTS, HITS, MESSAGES = 50, 20, 40  # a page
MAX_TEXT = 4096  # characters of a correction, as of a message in Telegram
MAX_QUERY = 500
MAX_OFFSET = 1_000_000
CHUNK = 65_536  # bytes of a file that are in memory at once
# What a request takes of its sender's ``Allowance``.
LOOK, CHANGE, SEARCH, EXPORT = 1.0, 2.0, 3.0, 20.0
FILE_TYPES = {"json": "application/json", "md": "text/markdown; charset=utf-8"}

Answer = Callable[[Asked], Awaitable[Json | Response]]
Form = Literal["json", "md"]


class Api:
    """What each address does."""

    def __init__(self, core: Core, gate: Gate) -> None:
        """Serve from ``core`` whom ``gate`` lets pass."""
        self._core = core
        self._gate = gate
        self._client = core.client
        self._memories = core.memory.memories
        self._timeline = TimelineRepository(core.client)
        self._corrections = CorrectionService(core.agent, core.pages, core.client)

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

    async def start(self, asked: Asked) -> Json:
        """What the page needs before anything else: its language and its sentences."""
        language = asked.language
        kinds = {kind: say(f"kind_{kind}", language) for kind in MEMORY_TYPES}
        return {"language": language, "texts": page_texts(language), "kinds": kinds}

    async def facts(self, asked: Asked) -> Json:
        """A page of facts, kind by kind, of each the pinned first: ``?kind=&offset=``."""
        owner, query = asked.called.owner, asked.request.query_params
        kind = query.get("kind")
        kind = kind if kind in MEMORY_TYPES else None
        offset = _offset(query.get("offset", "0"))
        facts = await self._client.run(
            self._core.pages.list_page, owner, kind=kind, limit=FACTS + 1, offset=offset
        )
        shown = facts[:FACTS]
        ids = [fact.id for fact in shown]
        past = by_fact(await self._client.run(self._core.pages.list_replaced, owner, ids))
        return {
            "counts": await self._client.run(self._core.pages.count_kinds, owner),
            "facts": [fact_view(fact, asked.called, past.get(fact.id, ())) for fact in shown],
            "next": offset + FACTS if len(facts) > FACTS else None,
        }

    async def pin(self, asked: Asked) -> Json:
        """Keep a fact always in view, or no more: ``{"pinned": true}``."""
        pinned = asked.body.get("pinned")
        if not isinstance(pinned, bool):
            raise asked.refused(400, "app_bad_request")
        owner, fact = asked.called.owner, asked.number("fact")
        if not await self._client.run(self._core.pages.set_pinned, owner, fact, pinned=pinned):
            raise asked.refused(404, "memory_gone")
        return {"pinned": pinned}

    async def correct(self, asked: Asked) -> Json:
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
        return {"text": done.text, "fact": done.fact}

    async def forget(self, asked: Asked) -> Json:
        """Forget a fact, and what was said of it; ``undo`` takes that back for ten minutes."""
        uid = fact_uid(asked.number("fact"))
        forgotten = await self._memories.forget(asked.called.owner, [uid])
        if not forgotten.texts:
            raise asked.refused(404, "memory_gone")
        return {"texts": list(forgotten.texts), "undo": forgotten.number}

    async def undo(self, asked: Asked) -> Json:
        """Take back how a fact came about: what it replaced holds again."""
        called = asked.called
        undone = None
        if fact := asked.number("fact"):
            undone = await self._memories.undo(called.owner, fact, asker=called.member)
        return _undone(asked, undone)

    async def recall(self, asked: Asked) -> Json:
        """Take a forgetting back."""
        called = asked.called
        undone = await self._memories.undo_forgetting(
            called.owner, asked.number("number"), asker=called.member
        )
        return _undone(asked, undone)

    async def search(self, asked: Asked) -> Json:
        """Everything said that fits ``{"text": …}``, best first.

        What is looked for stands in the body: addresses end up in logs.
        """
        words = asked.text("text", MAX_QUERY)
        hits = await self._core.commands.memory.find(asked.called.asking(words), limit=HITS)
        told = [hit_view(hit, asked.called) for hit in hits]
        nothing = say("search_nothing", asked.language)
        return {"hits": told, "nothing": nothing}

    async def timeline(self, asked: Asked) -> Json:
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

    async def privacy(self, asked: Asked) -> Json:
        """What is kept, who sees it, and how it is erased."""
        return {"text": (await self._core.commands.say_privacy(asked.called)).text}

    async def export(self, form: Form, asked: Asked) -> Response:
        """Everything in a file, for programs (``json``) or to read (``md``)."""
        called = asked.called
        file = await self._client.run(
            self._core.exports.write_file, form, called.owner, called.moment,
            language=called.language, time_zone=called.time_zone,
        )  # fmt: skip
        kind = "application/zip" if file.name.endswith(".zip") else FILE_TYPES[form]
        headers = {"Content-Disposition": f'attachment; filename="{file.name}"'}
        return StreamingResponse(_read(file), media_type=kind, headers=headers)

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


def _undone(asked: Asked, undone: Undone | None) -> Json:
    """What was taken back.

    Raises:
        RefusedError: Nothing, because it is too late, or was done already.
    """
    if undone is None:
        raise asked.refused(404, "undo_nothing")
    return {"text": undone_text(undone, asked.language)}


def _offset(text: str) -> int:
    is_number = text.isascii() and text.isdigit() and len(text) <= 7
    return min(int(text), MAX_OFFSET) if is_number else 0


def _end_of_day(text: str, time_zone: str) -> datetime | None:
    """The moment at which a day ends for the owner; None for what is no day, or the last one."""
    try:
        following = date.fromisoformat(text) + timedelta(days=1)
        return first_moment(datetime.combine(following, time()), time_zone)
    except (ValueError, OverflowError):
        return None


def _read(file: ReplyFile) -> Iterator[bytes]:
    with file.content as content:
        content.seek(0)
        while piece := content.read(CHUNK):
            yield piece
