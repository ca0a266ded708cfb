"""Admin page that lists people and groups: search, filters, sort orders."""

from starlette.requests import Request
from starlette.responses import Response

from src.memory.memory_repo import COUNT_LIVING
from src.pg.records_repo import COST, SUMS
from src.web.admin_site import PAGE, AdminSite, choice_of, int_of, text_of

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
