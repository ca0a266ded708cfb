"""Admin pages of one owner: overview, recall preview, export, blocking, erasure."""

from datetime import UTC, datetime
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from src.memory.citations import hit_id
from src.memory.ranking import LEXICAL_WEIGHT, LINK_BONUS
from src.memory.retriever import Query
from src.pg.records_repo import COST, SUMS
from src.talk.turn_state import IncomingMessage
from src.web.admin_people import DAYS, SELECT_PEOPLE
from src.web.admin_site import AdminSite, Fields, owner_of, path_of
from src.web.http_server import send_file

MAX_QUESTION = 500  # characters
MAX_LINES = 50  # of each list

# Id of an owner, if they are known.
SELECT_ID = "SELECT id FROM owners WHERE id = %(owner)s"

# Conversations of an owner; a private chat may have several topics.
SELECT_TALKS = """
SELECT telegram_user_id, thread_id, created_at FROM conversations
WHERE owner_id = %(owner)s ORDER BY thread_id LIMIT %(limit)s
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


async def show_person(site: AdminSite, request: Request, problem: str = "") -> Response:
    """Show the overview of an owner."""
    owner, rows, run = owner_of(request), site.rows, site.run
    found = await rows(SELECT_ID, owner)
    if not found:
        raise HTTPException(404, "Nothing is kept of them.")
    core, live = site.core, await site.core.live_settings.get()
    [person] = await rows(SELECT_PEOPLE, owners=[found[0]["id"]], days=DAYS)
    return site.render(
        request, "about.html", status=422 if problem else 200, owner=owner, person=person,
        chosen=await run(core.user_settings.get, owner.telegram_user_id), days=DAYS,
        talks=await rows(SELECT_TALKS, owner, limit=MAX_LINES), problem=problem,
        reminders=await run(core.reminders.rows.list_waiting, owner, limit=MAX_LINES),
        summaries=await rows(SELECT_SUMMARIES, owner, limit=MAX_LINES),
        usage=await rows(SELECT_USAGE, owner, days=DAYS, limit=MAX_LINES),
        failures=await rows(SELECT_FAILURES, owner, limit=MAX_LINES), currency=live.currency,
    )  # fmt: skip


async def export_person(site: AdminSite, request: Request, form: Fields) -> Response:
    """Export everything of an owner as a file: Markdown, or JSON for programs."""
    owner, kind = owner_of(request), "md" if form.get("form") == "md" else "json"
    chosen = await site.run(site.core.user_settings.get, owner.telegram_user_id)
    caller = site.core.caller(owner, chosen)
    file = await site.run(site.core.exports.write_file, kind, caller)
    await site.note(request, f"export {kind}", path_of(owner)[1:])
    return send_file(file, "application/octet-stream")


async def erase_person(site: AdminSite, request: Request, form: Fields) -> str | Response:
    """Erase everything of an owner, after their id was typed as a confirmation."""
    owner = owner_of(request)
    number = str(owner.telegram_user_id)
    if form.get("confirm", "").strip() != number:
        problem = f"Nothing was erased: type {number} to erase everything of them."
        return await show_person(site, request, problem)
    await site.core.agent.erase(owner.telegram_user_id)
    await site.note(request, "erase everything", path_of(owner)[1:])
    return "/audit"  # it lists the erasure


async def set_block(site: AdminSite, request: Request, _form: Fields, *, is_blocked: bool) -> str:
    """Stop answering an owner, or answer them again."""
    owner, change = owner_of(request), site.core.user_settings.set_blocked
    if await site.run(change, owner.telegram_user_id, is_blocked=is_blocked):
        action = "block" if is_blocked else "unblock"
        await site.note(request, action, path_of(owner)[1:])
    return f"{path_of(owner)}/about"


async def show_recall(site: AdminSite, request: Request) -> Response:
    """Show the hits of a question, with the score of each search channel."""
    owner = owner_of(request)
    question = request.query_params.get("q", "")[:MAX_QUESTION]
    hits: list[Any] = []
    prompt: list[Any] = []
    overview = None
    settings = await site.core.live_settings.get()
    if question.strip():
        query = Query(
            owner, question, datetime.now(UTC), limit=settings.memory_retrieve_limit,
            threshold=settings.memory_retrieve_threshold, tokens=settings.memory_context_tokens,
        )  # fmt: skip
        overview = query.overview()
        hits = await site.core.memory.retriever.search(query)
        chosen = await site.run(site.core.user_settings.get, owner.telegram_user_id)
        caller = site.core.caller(owner, chosen)
        message = IncomingMessage(
            owner, question, caller.moment, caller.language, caller.time_zone, chosen.mode
        )
        prompt = await site.core.agent.preview_prompt(message)
    text = "\n".join(message.text for message in prompt)
    return site.render(
        request, "recall.html", owner=owner, question=question, hits=hits, overview=overview,
        prompt=prompt, tokens=site.core.counter.count_messages(prompt),
        unseen=[hit for hit in hits if prompt and f'"{hit_id(hit)}"' not in text],
        lexical=LEXICAL_WEIGHT, links=LINK_BONUS,
    )  # fmt: skip
