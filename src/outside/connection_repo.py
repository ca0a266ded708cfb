"""Connections of other assistants to a person's memory: their names, rights and hashed tokens."""

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from src.base.owners import Owner
from src.pg.client import Repository, storable

MAX_CONNECTIONS = 10  # of a person
TOKEN = re.compile(r"pomni_[A-Za-z0-9_-]{43}")

# The owner's connections, the oldest first.
SELECT_ALL = """
SELECT id, name, may_remember, created_at, last_used_at FROM memory_tokens
WHERE owner_id = %(owner)s ORDER BY id LIMIT 100
"""

# Add a connection, unless there are enough.
INSERT = """
INSERT INTO memory_tokens (owner_id, name, token_hash)
SELECT add_owner(%(user)s, %(thread_id)s), %(name)s, %(token_hash)s
WHERE (SELECT count(*) FROM memory_tokens WHERE owner_id = %(owner)s) < %(limit)s
RETURNING id, name, may_remember, created_at, last_used_at
"""

# Allow or forbid a connection to store facts.
UPDATE_RIGHT = """
UPDATE memory_tokens SET may_remember = %(may_remember)s WHERE id = %(id)s AND owner_id = %(owner)s
"""

# Revoke a connection.
DELETE = "DELETE FROM memory_tokens WHERE id = %(id)s AND owner_id = %(owner)s"

# Whose memory a token opens.
SELECT_CALLER = """
SELECT o.telegram_user_id, t.id, t.name, t.may_remember, t.created_at, t.last_used_at
FROM memory_tokens t JOIN owners o ON o.id = t.owner_id
WHERE t.token_hash = %(token_hash)s
"""

# Note a call, at most once a minute.
UPDATE_USED = """
UPDATE memory_tokens SET last_used_at = now()
WHERE id = %(id)s AND owner_id = %(owner)s
  AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute')
"""


@dataclass(frozen=True)
class Connection:
    """Connection of another assistant.

    Attributes:
        id: Its number.
        name: The person's name for it.
        may_remember: True if it may store facts, False if it only reads.
        created_at: When it was made.
        last_used_at: When it last called, to the minute, if ever.
    """

    id: int
    name: str
    may_remember: bool
    created_at: datetime
    last_used_at: datetime | None


def hash_token(token: str) -> bytes:
    """Return what is stored of a token; it is random, so that no salt is needed."""
    return hashlib.sha256(token.encode()).digest()


class ConnectionRepository(Repository):
    """Repository of connections; every method blocks (see ``PgClient.run``)."""

    def list_all(self, owner: Owner) -> list[Connection]:
        """Return the owner's connections, the oldest first."""
        return self._all(Connection, SELECT_ALL, owner)

    def add(self, owner: Owner, name: str) -> tuple[Connection, str] | None:
        """Add a connection that reads; return it with its token, None if there are enough."""
        token = f"pomni_{secrets.token_urlsafe(32)}"
        values: dict[str, Any] = {"token_hash": hash_token(token), "limit": MAX_CONNECTIONS}
        added = self._first(Connection, INSERT, owner, name=storable(name), **values)
        return None if added is None else (added, token)

    def allow(self, owner: Owner, number: int, *, may_remember: bool) -> bool:
        """Allow a connection to store facts, or forbid it; False if there is no such one."""
        values: dict[str, Any] = {"id": number, "may_remember": may_remember}
        return self._client.execute(UPDATE_RIGHT, owner, **values) > 0

    def delete(self, owner: Owner, number: int) -> bool:
        """Revoke a connection; False if there is no such one."""
        return self._client.execute(DELETE, owner, id=number) > 0

    def find_caller(self, token: str) -> tuple[int, Connection] | None:
        """Return the Telegram id and the connection of a token.

        None for a token that is no one's, or was revoked.
        """
        if TOKEN.fullmatch(token) is None:
            return None
        found = self._client.fetch_one(SELECT_CALLER, token_hash=hash_token(token))
        if found is None:
            return None
        user_id, *columns = found
        return user_id, Connection(*columns)

    def mark_used(self, owner: Owner, number: int) -> None:
        """Note that a connection called, if it did not within the last minute."""
        self._client.execute(UPDATE_USED, owner, id=number)
