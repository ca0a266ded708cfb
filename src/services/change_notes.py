"""The line under an answer: what its turn saved, replaced or forgot, where it does not say so."""

from __future__ import annotations

from src.services.turn_state import Turn
from src.storage.memory_page_repo import MemoryPageRepository
from src.storage.pg_client import PgClient
from src.storage.turn_repo import StoredAnswer
from src.texts import say
from src.texts.visible import shortened

MAX_NOTED = 4  # facts; the rest is counted
MAX_TEXT = 120  # characters of each


class ChangeNotes:
    """Writes that line; the facts are looked up, so one that is gone again is not told."""

    def __init__(self, pages: MemoryPageRepository, client: PgClient) -> None:
        """Look them up in ``pages``."""
        self._pages = pages
        self._client = client

    async def describe(self, turn: Turn, answer: StoredAnswer) -> str:
        """The line, in the language of the turn; empty when there is nothing to tell.

        A confirmation (strict mode, /remember) tells it all itself.
        """
        incoming, changes = turn.incoming, answer.changes
        ids = [*changes.replaced_by, *changes.saved]
        if not ids or incoming.mode == "strict" or incoming.teaching is not None:
            return ""
        found = dict(await self._client.run(self._pages.list_texts, incoming.owner, ids))
        past = await self._client.run(self._pages.list_replaced, incoming.owner, ids)
        before = {replaced.by: replaced.text for replaced in reversed(past)}
        untold = [
            (text, before.get(id_)) for id_, text in found.items() if text not in answer.text
        ]
        lines = [_line(turn, text, old) for text, old in untold[:MAX_NOTED]]
        if len(untold) > MAX_NOTED:
            lines.append(say("note_more", incoming.language, count=len(untold) - MAX_NOTED))
        return "\n".join(lines)


def _line(turn: Turn, text: str, old: str | None) -> str:
    language, text = turn.incoming.language, shortened(text, MAX_TEXT)
    if old is None:
        return say("note_saved", language, text=text)
    return say("note_replaced", language, text=text, old=shortened(old, MAX_TEXT))
