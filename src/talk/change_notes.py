"""Notes about what an answer changed."""

from src.history.turn_repo import StoredAnswer
from src.memory.memory_repo import FactQuery, Memory, MemoryRepository
from src.pg.client import PgClient
from src.talk.turn_state import Turn
from src.texts import say
from src.texts.plain_text import shortened

MAX_NOTED = 4  # facts, or as many as replaced others; the rest is only counted
MAX_TEXT = 120  # characters of each fact


async def describe_changes(client: PgClient, turn: Turn, answer: StoredAnswer) -> str:
    """Return notes about what changed with an answer, and in the background since the one before.

    All replaced facts are named. Facts that are retired meanwhile are left out. A confirmation
    (strict mode, /remember) reports the changes of its own turn itself.
    """
    incoming, changes = turn.incoming, answer.changes
    facts = MemoryRepository(client)
    behind = await client.run(
        facts.list_replaced_behind, incoming.owner, turn.conversation_id, answer.id
    )
    lines = [_note(turn, fact, "note_replaced_behind") for fact in behind]
    ids = [*changes.replaced_by, *changes.saved]
    if not ids or incoming.preferences.mode == "strict" or incoming.teaching is not None:
        return "\n".join(lines)
    found = await client.run(facts.list_facts, incoming.owner, FactQuery(ids=ids))
    found.sort(key=lambda fact: ids.index(fact.id))
    if len(ids) > 1:  # their buttons have these numbers
        notes = [f"{ids.index(fact.id) + 1}. {_note(turn, fact)}" for fact in found]
    else:
        notes = [_note(turn, one) for one in found if one.past or one.text not in answer.text]
    shown = max(MAX_NOTED, len(changes.replaced_by))
    lines += notes[:shown]
    if len(notes) > shown:
        lines.append(say("note_more", incoming.language, count=len(notes) - shown))
    return "\n".join(lines)


def _note(turn: Turn, fact: Memory, replaced: str = "note_replaced") -> str:
    language, text = turn.incoming.language, shortened(fact.text, MAX_TEXT)
    if not fact.past:
        return say("note_saved", language, text=text)
    old = "; ".join(shortened(one.text, MAX_TEXT) for one in fact.past)
    if replaced == "note_replaced":
        return say("note_replaced", language, text=text, old=old)
    return say("note_replaced_behind", language, text=text, old=old)
