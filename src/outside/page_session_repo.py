"""Sessions of the page outside Telegram, and the links that open one, once."""

import secrets
from datetime import timedelta
from typing import Any
from uuid import UUID

from src.base.owners import Owner
from src.outside.connection_repo import hash_token
from src.pg.client import Repository, Transaction

LINK_TIME = timedelta(minutes=10)  # that a link may be used
SESSION_TIME = timedelta(days=30)

# Delete what is over of the owner, and an older link that was not used.
DELETE_OVER = """
DELETE FROM page_sessions
WHERE owner_id = %(owner)s AND (ends_at < now() OR link_hash IS NOT NULL)
"""

# Add a link.
INSERT_LINK = """
INSERT INTO page_sessions (owner_id, link_hash, ends_at)
VALUES (add_owner(%(user)s, %(thread_id)s), %(link_hash)s, now() + %(time)s)
"""

# Open a session with a link, which is used up.
UPDATE_OPENED = """
UPDATE page_sessions SET link_hash = NULL, opened_at = now(), ends_at = now() + %(time)s
WHERE link_hash = %(link_hash)s AND ends_at > now()
RETURNING id::text
"""

# Whose page a session shows.
SELECT_USER = """
SELECT o.telegram_user_id FROM page_sessions s JOIN owners o ON o.id = s.owner_id
WHERE s.id = %(id)s::uuid AND s.opened_at IS NOT NULL AND s.ends_at > now()
"""

# Close one session of the owner, or all of them, with links that were not used.
DELETE_SESSIONS = """
DELETE FROM page_sessions
WHERE owner_id = %(owner)s AND (%(id)s::uuid IS NULL OR id = %(id)s::uuid)
"""

# How many browsers show the owner's page.
COUNT_OPEN = """
SELECT count(*) FROM page_sessions
WHERE owner_id = %(owner)s AND opened_at IS NOT NULL AND ends_at > now()
"""


class PageSessionRepository(Repository):
    """Repository of page sessions; every method blocks (see ``PgClient.run``)."""

    def add_link(self, owner: Owner) -> str:
        """Return the token of a new link; an older one is void."""
        token = secrets.token_urlsafe(32)
        values: dict[str, Any] = {"link_hash": hash_token(token), "time": LINK_TIME}

        def work(transaction: Transaction) -> None:
            transaction.execute(DELETE_OVER, owner)
            transaction.execute(INSERT_LINK, owner, **values)

        self._client.in_transaction(work)
        return token

    def open(self, token: str) -> str | None:
        """Open a session with a link; return its id, None if the link is void, used or over."""
        values: dict[str, Any] = {"link_hash": hash_token(token), "time": SESSION_TIME}
        return self._first(str, UPDATE_OPENED, **values)

    def find_user(self, session_id: UUID) -> int | None:
        """Return the Telegram id of the person whose page a session shows; None if it is over."""
        return self._first(int, SELECT_USER, id=str(session_id))

    def close(self, owner: Owner, session_id: UUID | None = None) -> int:
        """Close a session of the owner, by default all of them; return how many."""
        id_ = None if session_id is None else str(session_id)
        return self._client.execute(DELETE_SESSIONS, owner, id=id_)

    def count_open(self, owner: Owner) -> int:
        """Return how many browsers show the owner's page."""
        return self._first(int, COUNT_OPEN, owner) or 0
