"""Admin page of an owner's facts: current, past and refused ones."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from src.base.owners import Owner
from src.memory.consolidation import ConsolidationRepository
from src.memory.memory_repo import KINDS, FactQuery, StoredFact
from src.pg.client import Record
from src.reading.facts import fact_uid
from src.web.admin_site import (
    LAST,
    PAGE,
    AdminSite,
    Fields,
    choice_of,
    int_of,
    next_page,
    owner_of,
    path_of,
    query_of,
    text_of,
)
from src.web.admin_words import labels

MAX_WORDS = 200  # characters of a search
TELLERS = 5  # listed sources of a fact, beside the newest
# Arguments of ``FactQuery``, by the state in the address.
STATES: Mapping[str, dict[str, Any]] = {
    "current": {},
    "pinned": {"is_pinned": True},
    "past": {"is_living": False},
    "all": {"is_living": None},
    "refused": {},
}

# Sources of the given facts, newest first; one more of each than is listed.
SELECT_SOURCES = """
SELECT s.memory_id, s.uid, s.message_id, s.quote, s.said_at,
       coalesce(m.speaker, s.sender_id::text) AS teller
FROM unnest(%(ids)s::bigint[]) AS wanted (id),
     LATERAL (SELECT * FROM memory_sources WHERE memory_id = wanted.id
              ORDER BY said_at DESC, id DESC LIMIT %(limit)s) AS s
LEFT JOIN messages m ON m.id = s.message_id
ORDER BY s.said_at DESC, s.id DESC
"""

# Facts of an owner that the gate refused, newest first.
SELECT_REFUSED = """
SELECT id, created_at, reason, text, message_id, origin FROM rejected_facts
WHERE owner_id = %(owner)s AND id < %(before)s
  AND (%(text)s = '' OR strpos(lower(text), lower(%(text)s)) > 0)
ORDER BY id DESC LIMIT %(limit)s
"""


async def show_facts(site: AdminSite, request: Request) -> Response:
    """Show a page of facts, or of refused ones, as filtered by the address."""
    owner, before = owner_of(request), int_of(request, "before")
    asked = {
        "state": choice_of(request, "state", STATES, "current"),
        "kind": choice_of(request, "kind", KINDS),
        "q": text_of(request, "q", MAX_WORDS),
    }
    refused: list[Record] = []
    facts: list[StoredFact] = []
    merges: list[Record] = []
    number = int_of(request, "fact")
    if asked["state"] == "refused":
        values = {"text": asked["q"], "before": before or LAST, "limit": PAGE}
        refused = await site.rows(SELECT_REFUSED, owner, **values)
    elif number is not None:
        facts = await _list_facts(site, owner, FactQuery(ids=[number], is_living=None))
    else:
        kind, state = asked["kind"] or None, STATES[asked["state"]]
        query = FactQuery(text=asked["q"], kind=kind, before=before, limit=PAGE, **state)
        facts = await _list_facts(site, owner, query)
    is_first = before is None and number is None
    if is_first:
        merges = await site.run(ConsolidationRepository(site.core.client).list_merges, owner)
    ids = [fact.id for fact in facts]
    done = labels()["fact_notices"].get(request.query_params.get("done", ""), "")
    return site.render(
        request,
        "facts.html",
        owner=owner,
        done=done,
        asked=asked,
        states=STATES,
        kinds={kind: labels()["fact_kinds"].get(kind, kind) for kind in KINDS},
        facts=facts,
        refused=refused,
        consolidations=merges,
        sources=await _list_sources(site, ids),
        query=query_of(request, done=""),
        is_first=is_first,
        older=next_page([*ids, *(row["id"] for row in refused)]),
    )


async def change_fact(site: AdminSite, request: Request, _form: Fields) -> str:
    """Pin, unpin or forget a fact, or undo a replacement or a forgetting."""
    owner, number = owner_of(request), int(request.path_params["fact"])
    action, memories = request.path_params["action"], site.core.memory.memories
    if action in ("pin", "unpin"):
        pin, is_pinned = memories.facts.set_pinned, action == "pin"
        is_done: Any = await site.run(pin, owner, number, pinned=is_pinned)
    elif action == "forget":
        is_done = (await memories.forget(owner, [fact_uid(number)])).texts
    elif action == "undo":
        is_done = await memories.undo(owner, number or None)
    else:
        raise HTTPException(404)
    return await _finish(site, request, action, f"{action} fact {number}", is_done)


async def undo_consolidation(site: AdminSite, request: Request, _form: Fields) -> str:
    """Restore the facts that the nightly consolidation merged; this is final."""
    owner, number = owner_of(request), int(request.path_params["number"])
    is_done = await site.run(ConsolidationRepository(site.core.client).undo, owner, number)
    return await _finish(site, request, "apart", f"undo consolidation {number}", is_done)


async def _finish(site: AdminSite, request: Request, done: str, action: str, is_done: Any) -> str:
    """Return the address of the form, with a notice; note in the audit what was changed."""
    path = path_of(owner_of(request))
    if is_done:
        await site.note(request, action, path[1:])
    else:
        done = "nothing"
    return f"{path}/facts{query_of(request, done=done)}"


async def _list_facts(site: AdminSite, owner: Owner, query: FactQuery) -> list[StoredFact]:
    return await site.run(site.core.memory.memories.facts.list_facts, owner, query)


async def _list_sources(site: AdminSite, ids: Sequence[int]) -> Mapping[int, list[Record]]:
    sources = defaultdict(list)
    for row in await site.rows(SELECT_SOURCES, ids=list(ids), limit=TELLERS + 2):
        sources[row["memory_id"]].append(row)
    return sources
