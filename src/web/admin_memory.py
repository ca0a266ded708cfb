"""Admin pages of what is remembered of an owner: conversation, facts, recall."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from src.base.owners import Owner
from src.base.zones import local_time, parse_day_start
from src.memory.consolidation import ConsolidationRepository
from src.memory.memory_repo import KINDS, FactQuery, StoredFact
from src.memory.prompts import hit_id
from src.memory.queries import Query
from src.memory.retriever import score_record
from src.pg.client import Record
from src.reading.facts import fact_uid
from src.talk.turn_state import IncomingMessage
from src.web.admin_site import (
    LAST,
    PAGE,
    AdminSite,
    Fields,
    Values,
    choice_of,
    int_of,
    next_page,
    owner_of,
    path_of,
    query_of,
    text_of,
)
from src.web.admin_words import labels

# The conversation: messages, tool calls, sources, costs and failures.

MESSAGES = 40  # of a page

# A page of a conversation, upwards or downwards from a position; an index serves it.
IN_TALK = """ FROM messages WHERE conversation_id =
(SELECT id FROM conversations WHERE telegram_user_id = %(user)s AND thread_id = %(thread_id)s)
"""
SELECT_OLDER = f"""SELECT id, position {IN_TALK}
AND position < %(position)s ORDER BY position DESC FETCH FIRST %(limit)s ROWS WITH TIES"""
SELECT_NEWER = f"""SELECT id, position {IN_TALK}
AND position > %(position)s ORDER BY position FETCH FIRST %(limit)s ROWS WITH TIES"""

# Position of a message, and of the first one since a moment.
SELECT_POSITION = f"SELECT position {IN_TALK} AND id = %(id)s"
SELECT_SINCE = f"""SELECT position {IN_TALK}
AND created_at >= %(since)s ORDER BY created_at, id LIMIT 1"""

# Messages of a page with their outcome. An answer and its usage are stored by one statement, hence
# at the same moment; a failure is logged within a minute.
SELECT_BUBBLES = """
SELECT m.id, m.position, m.role, message_text(m.content) AS text, m.created_at, m.speaker,
       (m.created_at AT TIME ZONE %(zone)s)::date AS day, m.is_forgotten, m.is_private,
       CASE WHEN m.failed_at IS NOT NULL THEN 'failed'
            WHEN m.stopped_at IS NOT NULL THEN 'stopped by the user'
            WHEN m.role = 'assistant' AND m.delivered_at IS NULL THEN 'not delivered'
            ELSE '' END AS state,
       CASE WHEN m.failed_at IS NOT NULL THEN coalesce(f.reason, 'the log no longer tells why')
            END AS reason,
       ARRAY(SELECT CASE WHEN s.memory_id IS NOT NULL THEN 'fact-' || s.memory_id
                         ELSE 'msg-' || s.message_id END
             FROM answer_sources s WHERE s.answer_id = m.id ORDER BY s.number) AS sources,
       u.prompt, u.completion
FROM messages m JOIN conversations c ON c.id = m.conversation_id
LEFT JOIN LATERAL (SELECT sum(prompt_tokens) AS prompt, sum(completion_tokens) AS completion
                   FROM model_usage
                   WHERE owner_id = c.owner_id AND created_at = m.created_at
                     AND m.role = 'assistant') AS u ON true
LEFT JOIN LATERAL (SELECT event || ': ' || reason AS reason FROM failures
                   WHERE m.failed_at IS NOT NULL AND owner_id = c.owner_id
                     AND failed_at BETWEEN m.created_at AND m.failed_at + interval '1 minute'
                   ORDER BY failed_at DESC LIMIT 1) AS f ON true
WHERE m.id = ANY(%(ids)s) AND c.owner_id = %(owner)s ORDER BY m.position, m.id
"""

# Tool calls during the answers to these messages.
SELECT_CALLS = """
SELECT t.message_id, t.name, t.arguments::text AS arguments, t.result, t.error, t.duration_ms
FROM tool_results t JOIN conversations c ON c.id = t.conversation_id
WHERE t.message_id = ANY(%(ids)s) AND c.owner_id = %(owner)s ORDER BY t.id LIMIT 500
"""


async def show_talk(site: AdminSite, request: Request) -> Response:
    """Show a page of a conversation: the newest, or the requested one."""
    owner, query = owner_of(request), request.query_params
    after, before, missing = await _locate(site, owner, request)
    if after is None:
        rows = await site.rows(SELECT_OLDER, owner, position=before, limit=MESSAGES + 1)
        page, has_older, has_newer = _whole(rows), len(rows) > MESSAGES, before < LAST
    else:
        rows = await site.rows(SELECT_NEWER, owner, position=after, limit=MESSAGES + 1)
        page, has_older, has_newer = _whole(rows), after > 0, len(rows) > MESSAGES
    ids = [row["id"] for row in page]
    bubbles = await site.rows(SELECT_BUBBLES, owner, ids=ids, zone=site.zone)
    calls = await site.rows(SELECT_CALLS, owner, ids=ids)
    asked: Values = {"missing": missing, "day": query.get("day", ""), "is_opened": not query}
    shown: Values = {"bubbles": bubbles, "calls": calls, "older": has_older, "newer": has_newer}
    return site.render(request, "talk.html", owner=owner, **asked, **shown)


def _whole(rows: list[Record]) -> list[Record]:
    """Return a page that ends between two positions; other assistants' messages share one."""
    if len(rows) <= MESSAGES:
        return rows
    return [row for row in rows if row["position"] != rows[-1]["position"]] or rows


async def _locate(site: AdminSite, owner: Owner, request: Request) -> tuple[int | None, int, str]:
    """Return the position after which, or before which, the page begins, and a notice.

    The notice says that a requested message or day was not found.
    """
    message_id = int_of(request, "msg", digits=18)
    if message_id is not None:
        found = await site.rows(SELECT_POSITION, owner, id=message_id)
        if not found:
            return None, LAST, f"msg-{message_id} is no longer in this talk; this is its end."
        return None, found[0]["position"] + MESSAGES // 2, ""
    since = parse_day_start(request.query_params.get("day", ""), site.zone)
    if since is not None:
        found = await site.rows(SELECT_SINCE, owner, since=since)
        if not found:
            day = f"{local_time(since, site.zone):%d.%m.%Y}"
            return None, LAST, f"Nothing was said since {day}; this is the end."
        return found[0]["position"] - 1, 0, ""
    return int_of(request, "after"), int_of(request, "before") or LAST, ""


# Facts: current, past and refused ones.

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
    else:
        kind, state = asked["kind"] or None, STATES[asked["state"]]
        query = FactQuery(text=asked["q"], kind=kind, before=before, limit=PAGE, **state)
        if number is not None:
            query = FactQuery(ids=[number], is_living=None)
        facts = await site.run(site.core.memory.memories.facts.list_facts, owner, query)
    is_first = before is None and number is None
    if is_first:
        merges = await site.run(ConsolidationRepository(site.core.client).list_merges, owner)
    ids = [fact.id for fact in facts]
    sources = defaultdict(list)
    for row in await site.rows(SELECT_SOURCES, ids=ids, limit=TELLERS + 2):
        sources[row["memory_id"]].append(row)
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
        sources=sources,
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


# Recall.

MAX_QUESTION = 500  # characters

# An answer, and what was recalled for it.
SELECT_ANSWER = """
SELECT w.said_at, w.message_id, w.asked_id, w.asked, w.mode, w.model, w.tools, w.since,
       a.recall -> 'found' AS found
FROM why w JOIN messages a ON a.id = w.message_id
JOIN conversations c ON c.id = a.conversation_id
WHERE w.message_id = %(id)s AND c.owner_id = %(owner)s
"""

# Facts, messages and summaries as they are now; those that are gone have no row.
SELECT_DOCUMENTS = """
SELECT 'fact-' || id AS id, text, said_at, retired_at IS NOT NULL AS retired FROM facts
WHERE id = ANY(%(fact)s) AND owner_id = %(owner)s
UNION ALL
SELECT 'msg-' || m.id, message_text(m.content), m.said_at, false
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.id = ANY(%(msg)s) AND c.owner_id = %(owner)s AND NOT m.is_forgotten
UNION ALL
SELECT 'summary-' || s.id, s.content, s.created_at, false
FROM conversation_summaries s JOIN conversations c ON c.id = s.conversation_id
WHERE s.id = ANY(%(summary)s) AND c.owner_id = %(owner)s
"""


async def show_recall(site: AdminSite, request: Request) -> Response:
    """Show what a question would recall now, or what was recalled for an answer then."""
    owner = owner_of(request)
    question = text_of(request, "q", MAX_QUESTION)
    shown: Values = {"found": [], "prompt": [], "overview": None, "answer": None}
    number = int_of(request, "answer", digits=18)
    if question:
        number = None
        shown.update(await _preview_recall(site, owner, question))
    for answer in await site.rows(SELECT_ANSWER, owner, id=number):
        shown["answer"], found = answer, answer["found"] or []
        numbers: dict[str, list[int]] = {"fact": [], "msg": [], "summary": []}
        for one in found:
            kind, _, id_ = one["id"].partition("-")
            numbers[kind].append(int(id_))
        now = {row["id"]: row for row in await site.rows(SELECT_DOCUMENTS, owner, **numbers)}
        gone = {"text": None, "said_at": None, "retired": False}
        shown["found"] = [{**now.get(one["id"], gone), **one} for one in found]
    shown["tokens"] = site.core.counter.count_messages(shown["prompt"])
    return site.render(
        request, "recall.html", owner=owner, question=question, number=number, **shown
    )


async def _preview_recall(site: AdminSite, owner: Owner, question: str) -> Values:
    settings = await site.core.live_settings.get()
    query = Query(
        owner,
        question,
        datetime.now(UTC),
        limit=settings.memory_retrieve_limit,
        threshold=settings.memory_retrieve_threshold,
        tokens=settings.memory_context_tokens,
    )
    hits = await site.core.memory.retriever.search(query)
    caller = await site.run(site.core.load_caller, owner)
    message = IncomingMessage(caller, question)
    prompt = await site.core.agent.preview_prompt(message)
    quoted = "\n".join(message.text for message in prompt)
    found = []
    for hit in hits:
        is_shown = not prompt or f'"{hit_id(hit)}"' in quoted
        about = {"said_at": hit.said_at, "retired": hit.retired, "shown": is_shown}
        found.append(
            {**score_record(hit), "id": hit_id(hit), "by": hit.uid, "text": hit.text, **about}
        )
    return {"overview": query.overview(), "found": found, "prompt": prompt}
