"""Admin page of a conversation: messages, tool calls, sources, costs and failures."""

from starlette.requests import Request
from starlette.responses import Response

from src.base.owners import Owner
from src.base.zones import local_time, parse_day_start
from src.web.admin_site import LAST, AdminSite, Values, int_of, owner_of

PAGE = 40  # messages

# A page of a conversation, upwards or downwards from a position; an index serves it.
IN_TALK = """ FROM messages WHERE conversation_id =
(SELECT id FROM conversations WHERE telegram_user_id = %(user)s AND thread_id = %(thread_id)s)
"""
SELECT_OLDER = f"""SELECT id, position {IN_TALK}
AND position < %(position)s ORDER BY position DESC, id DESC LIMIT %(limit)s"""
SELECT_NEWER = f"""SELECT id, position {IN_TALK}
AND position > %(position)s ORDER BY position, id LIMIT %(limit)s"""

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
        rows = await site.rows(SELECT_OLDER, owner, position=before, limit=PAGE + 1)
        page, has_older, has_newer = rows[:PAGE][::-1], len(rows) > PAGE, before < LAST
    else:
        rows = await site.rows(SELECT_NEWER, owner, position=after, limit=PAGE + 1)
        page, has_older, has_newer = rows[:PAGE], after > 0, len(rows) > PAGE
    older = None
    if page and has_older:
        older = page[0]["position"]
    newer = None
    if page and has_newer:
        newer = page[-1]["position"]
    ids = [row["id"] for row in page]
    bubbles = await site.rows(SELECT_BUBBLES, owner, ids=ids, zone=site.zone)
    calls = await site.rows(SELECT_CALLS, owner, ids=ids)
    asked: Values = {"missing": missing, "day": query.get("day", ""), "is_opened": not query}
    shown: Values = {"bubbles": bubbles, "calls": calls, "older": older, "newer": newer}
    return site.render(request, "talk.html", owner=owner, **asked, **shown)


async def _locate(site: AdminSite, owner: Owner, request: Request) -> tuple[int | None, int, str]:
    """Return the position after which, or before which, the page begins, and a notice.

    The notice says that a requested message or day was not found.
    """
    message_id = int_of(request, "msg", digits=18)
    if message_id is not None:
        found = await site.rows(SELECT_POSITION, owner, id=message_id)
        if not found:
            return None, LAST, f"msg-{message_id} is no longer in this talk; this is its end."
        return None, found[0]["position"] + PAGE // 2, ""
    since = parse_day_start(request.query_params.get("day", ""), site.zone)
    if since is not None:
        found = await site.rows(SELECT_SINCE, owner, since=since)
        if not found:
            day = f"{local_time(since, site.zone):%d.%m.%Y}"
            return None, LAST, f"Nothing was said since {day}; this is the end."
        return found[0]["position"] - 1, 0, ""
    return int_of(request, "after"), int_of(request, "before") or LAST, ""
