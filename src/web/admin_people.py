"""Admin pages of people and groups: the list; one owner's page, export, block, erasure."""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from src.memory.memory_repo import COUNT_LIVING
from src.pg.records import COST, SUMS
from src.privacy.export import FileFormat
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
    caller = await site.run(site.core.load_caller, owner)
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
