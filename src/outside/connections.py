"""Ways into a memory from outside: connections of other assistants, sessions of the page.

Their rows, whose tokens are stored as hashes, and the screens of ``/connect`` and ``/page``.
"""

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from src.base.owners import Caller, Owner
from src.pg.client import PgClient, Repository, storable
from src.reading.gate import clean_name
from src.texts import say
from src.texts.reply import Action, Button, Reply

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
        sql = UPDATE_RIGHT
        return self._client.execute(sql, owner, id=number, may_remember=may_remember) > 0

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


LINK_TIME = timedelta(minutes=10)  # that a link may be used
SESSION_TIME = timedelta(days=30)

# Add a link; delete what is over of the owner, and an older link that was not used.
INSERT_LINK = """
WITH over AS (
    DELETE FROM page_sessions
    WHERE owner_id = %(owner)s AND (ends_at < now() OR link_hash IS NOT NULL)
)
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
        self._client.execute(INSERT_LINK, owner, link_hash=hash_token(token), time=LINK_TIME)
        return token

    def open(self, token: str) -> str | None:
        """Open a session with a link; return its id, None if the link is void, used or over."""
        return self._first(str, UPDATE_OPENED, link_hash=hash_token(token), time=SESSION_TIME)

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


# Screens.


@dataclass(eq=False, repr=False)
class ConnectScreens:
    """The list of connections of ``/connect``, and the actions of its buttons.

    ``_url`` is the address of the MCP server; None if it is off.
    """

    _client: PgClient
    _url: str | None

    def __post_init__(self) -> None:
        """Build the repository on the client."""
        self._connections = ConnectionRepository(self._client)

    async def connect(self, caller: Caller) -> Reply:
        """Reply to ``/connect``: the list, or with a name a new connection."""
        name = clean_name(caller.argument)
        if name is None:
            return await self.page(caller)
        return await self.add(caller, name)

    async def page(self, caller: Caller, hint: str = "") -> Reply:
        """Return the list of connections, with their rights and when each was last used."""
        language = caller.language
        refusal = self._refusal(caller)
        if refusal is not None:
            return refusal
        connections = await self._client.run(self._connections.list_all, caller.owner)
        lines = [say("connect_about", language), *(_line(one, caller) for one in connections)]
        rows = [_buttons(connection, caller) for connection in connections]
        if len(connections) < MAX_CONNECTIONS:
            new = Action("lend", (len(connections),))
            rows.append((Button(say("connect_new", language), new),))
        return Reply("\n".join(lines), tuple(rows), hint, is_screen=True)

    async def add(self, caller: Caller, name: str = "") -> Reply:
        """Add a connection that reads, and show its token, this once; no tap replaces it."""
        language = caller.language
        refusal = self._refusal(caller)
        if refusal is not None:
            return refusal
        name = name or say("connect_name", language)
        added = await self._client.run(self._connections.add, caller.owner, name)
        if added is None:
            return Reply(say("connect_full", language, count=MAX_CONNECTIONS))
        _, token = added
        return Reply(say("connect_added", language, name=name, url=self._url, token=token))

    async def press_new(self, caller: Caller, count: int) -> Reply:
        """Add a connection, unless there are others than the ``count`` that the list showed.

        So a second tap shows the list with what the first one made.
        """
        connections = await self._client.run(self._connections.list_all, caller.owner)
        if len(connections) != count:
            return await self.page(caller)
        return (await self.add(caller)).as_screen()

    async def allow(self, caller: Caller, number: int, *, may_remember: bool) -> Reply:
        """Allow a connection to store facts, or forbid it, and show the list."""
        language, allow = caller.language, self._connections.allow
        if not await self._client.run(allow, caller.owner, number, may_remember=may_remember):
            return Reply.closing_note(say("connect_gone", language))
        return await self.page(caller)

    async def revoke(self, caller: Caller, number: int) -> Reply:
        """Revoke a connection, and show the others."""
        delete = self._connections.delete
        if not await self._client.run(delete, caller.owner, number):
            return Reply.closing_note(say("connect_gone", caller.language))
        return await self.page(caller, say("connect_revoked", caller.language))

    def _refusal(self, caller: Caller) -> Reply | None:
        if self._url is None:
            return Reply(say("connect_off", caller.language))
        if caller.owner.is_group:
            return Reply(say("connect_in_private", caller.language))
        return None


def _line(connection: Connection, caller: Caller) -> str:
    language = caller.language
    used = say("connect_unused", language)
    if connection.last_used_at is not None:
        used = say("connect_used", language, day=caller.day(connection.last_used_at))
    right = say("connect_reads", language)
    if connection.may_remember:
        right = say("connect_remembers", language)
    since = caller.day(connection.created_at)
    return say("connect_line", language, name=connection.name, right=right, since=since, used=used)


def _buttons(connection: Connection, caller: Caller) -> tuple[Button, ...]:
    language, name = caller.language, connection.name
    change = Button(say("connect_allow", language, name=name), Action("allow", (connection.id, 1)))
    if connection.may_remember:
        change = Button(
            say("connect_forbid", language, name=name), Action("allow", (connection.id, 0))
        )
    revoke = Button(say("connect_revoke", language, name=name), Action("revoke", (connection.id,)))
    return change, revoke


@dataclass(eq=False, repr=False)
class PageScreens:
    """The one-time link of ``/page``, and the button that closes the page in all browsers.

    ``_url`` is the address of the page outside Telegram; None if it has none.
    """

    _client: PgClient
    _url: str | None

    def __post_init__(self) -> None:
        """Build the repository on the client."""
        self._sessions = PageSessionRepository(self._client)

    async def page(self, caller: Caller) -> Reply:
        """Return a link that opens the page in one browser, for ten minutes.

        The token stands behind ``#``: browsers send that part to no server.
        """
        language = caller.language
        if self._url is None:
            return Reply(say("enter_off", language))
        if caller.owner.is_group:
            return Reply(say("enter_in_private", language))
        token = await self._client.run(self._sessions.add_link, caller.owner)
        text = say("enter_link", language, url=f"{self._url}#enter={token}")
        count = await self._client.run(self._sessions.count_open, caller.owner)
        if not count:
            return Reply(text)
        close = Button(say("enter_close", language, count=count), Action("leave"))
        return Reply(text, ((close,),))

    async def leave(self, caller: Caller) -> Reply:
        """Close the page in every browser."""
        closed = await self._client.run(self._sessions.close, caller.owner)
        if not closed:
            return Reply.closing_note(say("enter_none", caller.language))
        return Reply(say("enter_closed", caller.language))
