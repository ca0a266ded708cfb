"""Ways to a memory from outside: connections of other assistants, the page in a browser."""

from dataclasses import dataclass

from src.base.owners import Caller
from src.outside.connection_repo import (
    MAX_CONNECTIONS,
    Connection,
    ConnectionRepository,
    PageSessionRepository,
)
from src.pg.client import PgClient
from src.reading.voices import clean_name
from src.texts import say
from src.texts.reply import Action, Button, Reply


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
        lines = [say("connect_about", language)]
        lines += [_line(connection, caller) for connection in connections]
        rows = [_buttons(connection, caller) for connection in connections]
        if len(connections) < MAX_CONNECTIONS:
            new = Action("lend", (len(connections),))
            rows.append((Button(say("connect_new", language), new),))
        return Reply("\n".join(lines), tuple(rows), hint, is_screen=True)

    async def add(self, caller: Caller, name: str = "") -> Reply:
        """Add a connection that reads, and show its token, this once."""
        language = caller.language
        refusal = self._refusal(caller)
        if refusal is not None:
            return refusal
        name = name or say("connect_name", language)
        added = await self._client.run(self._connections.add, caller.owner, name)
        if added is None:
            return Reply(say("connect_full", language, count=MAX_CONNECTIONS))
        connection, token = added
        text = say("connect_added", language, name=name, url=self._url, token=token)
        return Reply(text, (_buttons(connection, caller),))

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
    name = connection.name
    return say("connect_line", language, name=name, right=right, since=since, used=used)


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
