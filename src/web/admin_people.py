"""Admin pages of people and groups: the list; one owner's page, recall, export, erasure."""

from datetime import UTC, datetime

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from src.base.owners import Caller, Owner
from src.memory.citations import hit_id
from src.memory.memory_repo import COUNT_LIVING
from src.memory.ranking import score_record
from src.memory.retriever import Query
from src.pg.client import Record
from src.pg.records_repo import COST, SUMS
from src.privacy.export import FileFormat
from src.talk.turn_state import IncomingMessage
from src.web.admin_site import (
    PAGE,
    AdminSite,
    Fields,
    Values,
    choice_of,
    int_of,
    owner_of,
    path_of,
    text_of,
)
from src.web.http_server import send_file

DAYS = 30  # covered by the cost
MAX_PAGES = 2000
MAX_WORDS = 100  # characters of a search

# Sort orders; an index serves each of them.
ORDERS = {
    "seen": ("Last seen", "o.seen_at DESC, o.id"),
    "name": ("Name", "lower(o.name), o.id"),
    "new": ("Newest", "o.id DESC"),
}
# Filters.
KINDS = {
    "": ("Everybody", "true"),
    "people": ("People", "o.telegram_user_id > 0"),
    "groups": ("Groups", "o.telegram_user_id < 0"),
    "failed": ("With failures", "EXISTS (SELECT FROM failures f WHERE f.owner_id = o.id)"),
    "gone": (
        "Who blocked the bot",
        "EXISTS (SELECT FROM user_settings s WHERE s.owner_id = o.id"
        " AND s.inactive_since IS NOT NULL)",
    ),
    "blocked": ("Whom you blocked", "o.blocked_at IS NOT NULL"),
}

# A page of owners, matched by a part of their name, or by their id.
SELECT_PAGE = """
SELECT o.id FROM owners o
WHERE (%(words)s = '' OR o.telegram_user_id::text = %(words)s
       OR strpos(lower(o.name), lower(%(words)s)) > 0
       OR strpos(lower(o.username), lower(ltrim(%(words)s, '@'))) > 0)
"""

# Details of a page's owners. Facts, calls and failures are read for all of them at once: where one
# owner has most of a table, a lookup per owner would read it fifty times.
SELECT_PEOPLE = f"""
SELECT o.id, o.telegram_user_id, o.thread_id, o.name, o.username, o.created_at, o.seen_at,
       s.language, s.time_zone, s.inactive_since, o.blocked_at, spent.cost,
       coalesce(known.facts, 0) AS facts, coalesce(failed.failures, 0) AS failures,
       (SELECT coalesce(sum(m.position), 0)::bigint FROM conversations c CROSS JOIN LATERAL (
            SELECT position FROM messages WHERE conversation_id = c.id
            ORDER BY position DESC, id DESC LIMIT 1) AS m WHERE c.owner_id = o.id) AS messages
FROM owners o
LEFT JOIN owners home ON home.telegram_user_id = o.telegram_user_id AND home.thread_id = 0
LEFT JOIN user_settings s ON s.owner_id = home.id
LEFT JOIN ({COUNT_LIVING}) AS known ON known.owner_id = o.id
LEFT JOIN (SELECT owner_id, sum(times)::bigint AS failures FROM failures
           WHERE owner_id = ANY(%(owners)s) GROUP BY owner_id) AS failed ON failed.owner_id = o.id
LEFT JOIN (
    SELECT owner_id, sum({COST}) AS cost FROM (
        SELECT owner_id, model, purpose, {SUMS}
        FROM model_usage
        WHERE owner_id = ANY(%(owners)s)
          AND created_at > now() - make_interval(days => %(days)s)
        GROUP BY owner_id, model, purpose) AS u JOIN model_prices p ON p.model = u.model
    GROUP BY owner_id) AS spent ON spent.owner_id = o.id
WHERE o.id = ANY(%(owners)s) ORDER BY array_position(%(owners)s, o.id)
"""  # noqa: S608  (it interpolates constants)

MAX_QUESTION = 500  # characters
MAX_LINES = 50  # of each list

# Id of an owner, if they are known.
SELECT_ID = "SELECT id FROM owners WHERE id = %(owner)s"

# Conversations of an owner; a private chat may have several topics.
SELECT_TALKS = """
SELECT telegram_user_id, thread_id, created_at FROM conversations
WHERE owner_id = %(owner)s AND import_id IS NULL ORDER BY thread_id LIMIT %(limit)s
"""

# Summaries of messages that left the window, newest first.
SELECT_SUMMARIES = """
SELECT s.created_at, s.content, s.first_position, s.last_position
FROM conversation_summaries s JOIN conversations c ON c.id = s.conversation_id
WHERE c.owner_id = %(owner)s ORDER BY s.created_at DESC, s.id DESC LIMIT %(limit)s
"""

# Usage of models for an owner, by purpose; a model without a price has no cost.
SELECT_USAGE = f"""
SELECT purpose, sum(calls + failed)::bigint AS calls, sum(failed)::bigint AS failed,
       sum(u.prompt)::bigint AS prompt, sum(u.completion)::bigint AS completion,
       sum({COST}) AS cost
FROM (SELECT model, purpose, {SUMS}
      FROM model_usage
      WHERE owner_id = %(owner)s AND created_at > now() - make_interval(days => %(days)s)
      GROUP BY model, purpose) AS u LEFT JOIN model_prices p ON p.model = u.model
GROUP BY purpose ORDER BY cost DESC NULLS LAST, 4 DESC, purpose LIMIT %(limit)s
"""  # noqa: S608  (it interpolates a constant)

# Failures of an owner, newest first.
SELECT_FAILURES = """
SELECT failed_at, part, event, reason, times FROM failures
WHERE owner_id = %(owner)s ORDER BY failed_at DESC, id DESC LIMIT %(limit)s
"""

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


def page_query(kind: str, order: str) -> str:
    """Return the statement for a page; ``kind`` and ``order`` are keys of the tables above."""
    place = f"ORDER BY {ORDERS[order][1]} LIMIT %(limit)s OFFSET %(offset)s"
    return f"{SELECT_PAGE}AND {KINDS[kind][1]} {place}"


async def show_people(site: AdminSite, request: Request) -> Response:
    """Show a page of owners."""
    words, page = text_of(request, "q", MAX_WORDS), min(int_of(request, "page") or 0, MAX_PAGES)
    kind, order = choice_of(request, "kind", KINDS), choice_of(request, "sort", ORDERS, "seen")
    found = await site.rows(
        page_query(kind, order), words=words, limit=PAGE + 1, offset=page * PAGE
    )
    ids = [row["id"] for row in found[:PAGE]]
    settings = await site.core.live_settings.get()
    return site.render(
        request,
        "users.html",
        people=await site.rows(SELECT_PEOPLE, owners=ids, days=DAYS),
        days=DAYS,
        currency=settings.currency,
        words=words,
        page=page,
        has_more=len(found) > PAGE,
        kind=kind,
        kinds=KINDS,
        order=order,
        orders=ORDERS,
    )


async def show_person(
    site: AdminSite, request: Request, *, status: int = 200, problem: str = ""
) -> Response:
    """Show the overview of an owner, with a problem of a form if there is one."""
    owner, rows, run = owner_of(request), site.rows, site.run
    found = await rows(SELECT_ID, owner)
    if not found:
        raise HTTPException(404, "Nothing is kept of them.")
    core, live = site.core, await site.core.live_settings.get()
    [person] = await rows(SELECT_PEOPLE, owners=[found[0]["id"]], days=DAYS)
    lists = {
        "talks": await rows(SELECT_TALKS, owner, limit=MAX_LINES),
        "reminders": await run(core.reminders.rows.list_waiting, owner, limit=MAX_LINES),
        "summaries": await rows(SELECT_SUMMARIES, owner, limit=MAX_LINES),
        "usage": await rows(SELECT_USAGE, owner, days=DAYS, limit=MAX_LINES),
        "failures": await rows(SELECT_FAILURES, owner, limit=MAX_LINES),
    }
    chosen = await run(core.user_settings.get, owner.telegram_user_id)
    about: Values = {"person": person, "chosen": chosen, "days": DAYS, "currency": live.currency}
    about |= {"owner": owner, "problem": problem, **lists}
    return site.render(request, "about.html", status=status, **about)


async def export_person(site: AdminSite, request: Request, form: Fields) -> Response:
    """Export everything of an owner as a file: Markdown, or JSON for programs."""
    owner = owner_of(request)
    kind: FileFormat = "json"
    if form.get("form") == "md":
        kind = "md"
    caller = await _caller_of(site, owner)
    file = await site.run(site.core.exports.write_file, kind, caller)
    await site.note(request, f"export {kind}", path_of(owner)[1:])
    return send_file(file, "application/octet-stream")


async def erase_person(site: AdminSite, request: Request, form: Fields) -> str | Response:
    """Erase everything of an owner, after their id was typed as a confirmation."""
    owner = owner_of(request)
    number = str(owner.telegram_user_id)
    if form.get("confirm", "").strip() != number:
        problem = f"Nothing was erased: type {number} to erase everything of them."
        return await show_person(site, request, status=422, problem=problem)
    await site.core.commands.forgetting.erase_owner(owner.telegram_user_id)
    await site.note(request, "erase everything", path_of(owner)[1:])
    return "/audit"  # it lists the erasure


async def set_block(site: AdminSite, request: Request, _form: Fields, *, action: str) -> str:
    """Stop answering an owner (``block``), or answer them again (``unblock``)."""
    owner, change = owner_of(request), site.core.user_settings.set_blocked
    if await site.run(change, owner.telegram_user_id, is_blocked=action == "block"):
        await site.note(request, action, path_of(owner)[1:])
    return f"{path_of(owner)}/about"


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
        shown["answer"] = answer
        shown["found"] = await _read_documents(site, owner, answer["found"] or [])
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
    caller = await _caller_of(site, owner)
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


async def _caller_of(site: AdminSite, owner: Owner) -> Caller:
    chosen = await site.run(site.core.user_settings.get, owner.telegram_user_id)
    return site.core.caller(owner, chosen)


async def _read_documents(site: AdminSite, owner: Owner, found: list[Record]) -> list[Record]:
    """Return recorded documents with their texts; None for those that are gone."""
    numbers: dict[str, list[int]] = {"fact": [], "msg": [], "summary": []}
    for one in found:
        kind, _, number = one["id"].partition("-")
        numbers[kind].append(int(number))
    now = {row["id"]: row for row in await site.rows(SELECT_DOCUMENTS, owner, **numbers)}
    gone = {"text": None, "said_at": None, "retired": False}
    return [{**now.get(one["id"], gone), **one} for one in found]
