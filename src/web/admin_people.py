"""The admin page that lists people and groups."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from src.base.owners import Owner
from src.web.admin_site import LAST, PAGE, AdminSite, read_owner

FIRST = -LAST  # before every id

# Owners by their ids; what they have is looked up for the page's few alone.
SELECT_OWNERS = """
SELECT c.telegram_user_id, c.thread_id, c.created_at, m.created_at AS last_at,
       coalesce(m.position, 0) AS messages
FROM (SELECT * FROM conversations
      WHERE (telegram_user_id, thread_id) > (%(user)s, %(thread_id)s)
      ORDER BY telegram_user_id, thread_id LIMIT %(limit)s) AS c
LEFT JOIN LATERAL (SELECT created_at, position FROM messages WHERE conversation_id = c.id
                   ORDER BY position DESC, id DESC LIMIT 1) AS m ON true
ORDER BY c.telegram_user_id, c.thread_id
"""


class PeoplePages:
    """Who talks with the bot."""

    def __init__(self, site: AdminSite) -> None:
        """Draw on ``site``."""
        self._site = site

    def routes(self) -> list[Route]:
        """Their addresses."""
        return [self._site.shown("/users", self.users)]

    async def users(self, request: Request) -> Response:
        """Owners by id."""
        wanted = request.query_params.get("id", "").strip()
        after = read_owner(request.query_params.get("after", ""))
        if wanted:
            found = read_owner(wanted)
            after = Owner(found.telegram_user_id, -1) if found else after
        owners = await self._site.rows(SELECT_OWNERS, after or Owner(FIRST), limit=PAGE)
        if wanted:
            owners = [line for line in owners if str(line["telegram_user_id"]) == wanted]
        return self._site.render(
            request, "users.html", owners=owners, wanted=wanted,
            more=owners[-1] if len(owners) == PAGE else None,
        )  # fmt: skip
