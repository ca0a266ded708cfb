"""The admin page about what is known of an owner: facts, and what was refused."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from src.base.owners import Owner
from src.memory.consolidation import ConsolidationRepository
from src.memory.memory_repo import KINDS, FactQuery, Memory
from src.memory.purge_repo import UNDO_SECONDS
from src.pg.client import Record
from src.reading.facts import fact_uid
from src.reading.gate import MASK, redact
from src.web.admin_site import LAST, PAGE, AdminSite, Fields, Pages, number_of, owner_of, path_of

MAX_WORDS = 200  # characters that are searched for
TELLERS = 5  # sources of a fact that are listed beside the newest
# What is shown of the facts, by what the address calls it.
STATES: Mapping[str, dict[str, Any]] = {
    "current": {},
    "pinned": {"is_pinned": True},
    "past": {"is_living": False},
    "all": {"is_living": None},
    "refused": {},
}
KIND_NAMES = dict(
    zip(KINDS, ("personal", "preference", "event", "goal or plan", "kept secret"), strict=True)
)
ENDS = {
    "replaced": "replaced", "outdated": "outdated", "contradicted": "contradicted",
    "duplicate": "said twice", "edited": "its message was edited", "undone": "taken back",
    "limit": "there were too many facts",
}  # fmt: skip
REFUSALS = {
    "secret": "a secret", "quote_not_said": "the user did not say it",
    "number_not_said": "a number that the user did not say", "empty": "it says nothing",
    "too_long": "too long", "bad_dates": "its dates do not go together",
    "imitation": "it imitates what only the program writes", "question": "a question",
    "other_script": "another alphabet than the user's", "others_words": "words of others",
    "disputed": "the user is asked about it",
}  # fmt: skip
# What is said of an action, by what the address says was done.
DONE = {
    "pin": "Pinned: every prompt has it.",
    "unpin": "No longer pinned.",
    "forget": f"Forgotten. For {UNDO_SECONDS // 60} minutes it can be taken back below.",
    "undo": "Taken back.",
    "apart": "Taken apart.",
    "nothing": "Nothing was changed: it is gone already, or there is nothing to take back.",
}

# Who told each of some facts, the newest first; one more of each than is listed.
SELECT_SOURCES = """
SELECT s.memory_id, s.uid, s.message_id, s.quote, s.said_at,
       coalesce(m.speaker, s.sender_id::text) AS teller
FROM unnest(%(ids)s::bigint[]) AS wanted (id),
     LATERAL (SELECT * FROM memory_sources WHERE memory_id = wanted.id
              ORDER BY said_at DESC, id DESC LIMIT %(limit)s) AS s
LEFT JOIN messages m ON m.id = s.message_id
ORDER BY s.said_at DESC, s.id DESC
"""

# What the gate refused of an owner's, the newest first.
SELECT_REFUSED = """
SELECT id, created_at, reason, text, message_id, origin FROM rejected_facts
WHERE owner_id = %(owner)s AND id < %(before)s
  AND (%(text)s = '' OR strpos(lower(text), lower(%(text)s)) > 0)
ORDER BY id DESC LIMIT %(limit)s
"""


class FactPages(Pages):
    """What is known of an owner, and what an operator may do with it."""

    def __init__(self, site: AdminSite) -> None:
        """Draw on ``site``."""
        super().__init__(site)
        self._memories = site.core.memory.memories
        self._consolidations = ConsolidationRepository(site.core.client)

    def routes(self) -> list[Route]:
        """Their addresses."""
        facts = "/users/{user}/{thread:int}/facts"
        return [
            self._site.read(facts, self.facts, "facts"),
            self._site.read(facts + "/{fact:int}/forget", self.ask, "facts"),
            self._site.done(facts + "/{fact:int}/{action:str}", self.change_fact),
            self._site.done(
                "/users/{user}/{thread:int}/consolidations/{number:int}/undo",
                self.undo_consolidation,
            ),
        ]

    async def facts(self, request: Request) -> Response:
        """A page of facts, or of what was refused, as the address asks for them."""
        owner, asked, query = owner_of(request), _asked(request), request.query_params
        refused: list[Record] = []
        facts: list[Memory] = []
        if asked["state"] == "refused":
            refused = await self._refused(owner, request, asked["q"])
        else:
            facts = await self._list(owner, _wanted(request, asked))
        shown: Sequence[Any] = refused or facts
        last = refused[-1]["id"] if refused else facts[-1].id if facts else None
        is_first = not query.get("before") and not query.get("fact")
        done = await self._run(self._consolidations.list_done, owner) if is_first else []
        return self._site.render(
            request, "facts.html", owner=owner, facts=facts, refused=refused, asked=asked,
            sources=await self._sources([fact.id for fact in facts]), consolidations=done,
            states=STATES, kinds=KIND_NAMES, ends=ENDS, reasons=REFUSALS, mask=_mask,
            done=DONE.get(query.get("done", ""), ""), is_first=is_first,
            query=_query(query, done=""), link=lambda **other: _query(asked, **other),
            more=last if len(shown) == PAGE else None,
        )  # fmt: skip

    async def ask(self, request: Request) -> Response:
        """Whether a fact is to be forgotten."""
        owner, number = owner_of(request), int(request.path_params["fact"])
        facts = await self._list(owner, FactQuery(ids=[number]))
        if not facts:
            raise HTTPException(404)
        return self._site.render(
            request, "forget.html", owner=owner, fact=facts[0], mask=_mask,
            minutes=UNDO_SECONDS // 60, query=_query(request.query_params),
            sources=(await self._sources([number]))[number],
        )  # fmt: skip

    async def change_fact(self, request: Request, _form: Fields) -> str:
        """Pin, unpin, forget; take back a replacement or a forgetting."""
        owner, number = owner_of(request), int(request.path_params["fact"])
        action = request.path_params["action"]
        if action in ("pin", "unpin"):
            is_done: Any = await self._memories.pin(owner, number, pinned=action == "pin")
        elif action == "forget":
            is_done = (await self._memories.forget(owner, [fact_uid(number)])).texts
        elif action == "undo":
            is_done = await self._memories.undo(owner, number or None)
        else:
            raise HTTPException(404)
        return await self._went(request, owner, action, f"{action} fact {number}", is_done)

    async def undo_consolidation(self, request: Request, _form: Fields) -> str:
        """What the nightly job put together is apart again, for good."""
        owner, number = owner_of(request), int(request.path_params["number"])
        is_done = await self._run(self._consolidations.undo, owner, number)
        return await self._went(request, owner, "apart", f"undo consolidation {number}", is_done)

    async def _went(
        self, request: Request, owner: Owner, done: str, action: str, is_done: Any
    ) -> str:
        """Back to where the form stood, which tells how it went; only what happened is noted."""
        if is_done:
            await self._site.note(request, action, path_of(owner)[1:])
        told = _query(request.query_params, done=done if is_done else "nothing")
        return f"{path_of(owner)}/facts{told}"

    async def _list(self, owner: Owner, wanted: FactQuery) -> list[Memory]:
        return await self._run(self._memories.facts.list_facts, owner, wanted)

    async def _refused(self, owner: Owner, request: Request, text: str) -> list[Record]:
        before = number_of(request, "before") or LAST
        wanted = {**owner.columns(), "text": text, "before": before, "limit": PAGE}
        return await self._site.rows(SELECT_REFUSED, wanted)

    async def _sources(self, ids: Sequence[int]) -> Mapping[int, list[Record]]:
        """Where each of some facts was told, the newest first."""
        sources = defaultdict(list)
        for row in await self._site.rows(SELECT_SOURCES, ids=list(ids), limit=TELLERS + 2):
            sources[row["memory_id"]].append(row)
        return sources


def _asked(request: Request) -> dict[str, str]:
    """What the address asks for, without what makes no sense."""
    query = request.query_params
    state, kind = query.get("state", ""), query.get("kind", "")
    return {
        "state": state if state in STATES else "current",
        "kind": kind if kind in KIND_NAMES else "",
        "q": query.get("q", "").replace("\0", "").strip()[:MAX_WORDS],
    }


def _wanted(request: Request, asked: Mapping[str, str]) -> FactQuery:
    """The facts that the address asks for; one of them alone in whatever state it is."""
    fact = number_of(request, "fact")
    if fact is not None:
        return FactQuery(ids=[fact], is_living=None)
    return FactQuery(
        text=asked["q"], kind=asked["kind"] or None, before=number_of(request, "before"),
        limit=PAGE, **STATES[asked["state"]],
    )  # fmt: skip


def _query(query: QueryParams | Mapping[str, str], **other: object) -> str:
    """A query of an address with some parts changed; what is empty is left out."""
    parts = {name: str(value) for name, value in {**query, **other}.items() if value}
    return f"?{QueryParams(parts)}" if parts else ""


def _mask(text: str | None) -> str:
    """A text in which no secret can be read, not even one for a door; of a secret nothing."""
    return MASK if text is None else redact(text, household=True)
