"""Notes about what an answer changed."""

from dataclasses import replace

from src.history.turn_repo import Changes, StoredAnswer
from src.memory.memory_repo import FactQuery, MemoryRepository, StoredFact
from src.pg.client import PgClient
from src.talk.turn_state import Turn
from src.texts import say
from src.texts.plain_text import shortened

MAX_NOTED = 4  # facts, or as many as replaced others; the rest is only counted
MAX_TEXT = 120  # characters of each fact


async def describe_changes(
    client: PgClient, turn: Turn, answer: StoredAnswer
) -> tuple[str, Changes]:
    """Return notes about what changed with an answer, and in the background since the one before.

    All replaced facts are named. Facts that are retired meanwhile are left out, and all that the
    answer itself tells in the order of its buttons. A confirmation (strict mode, /remember)
    reports the changes of its own turn itself.

    Returns:
        The notes, and the changes in the order of their buttons.
    """
    incoming, changes = turn.incoming, answer.changes
    facts = MemoryRepository(client)
    behind = await client.run(
        facts.list_replaced_behind, incoming.owner, turn.conversation_id, answer.id
    )
    lines = [_note(turn, fact, "note_replaced_behind") for fact in behind]
    ids = [*changes.replaced_by, *changes.saved]
    if not ids or incoming.preferences.mode == "strict" or incoming.teaching is not None:
        return "\n".join(lines), changes
    found = await client.run(facts.list_facts, incoming.owner, FactQuery(ids=ids))
    places = dict.fromkeys(ids, -1) | {fact.id: answer.text.find(fact.text) for fact in found}
    saved, replacing = (
        tuple(sorted(some, key=lambda id_: places[id_]))
        for some in (changes.saved, changes.replaced_by)
    )
    changes, ids = replace(changes, saved=saved, replaced_by=replacing), [*replacing, *saved]
    if not replacing and -1 not in places.values():
        return "\n".join(lines), changes
    found.sort(key=lambda fact: ids.index(fact.id))
    notes = [_note(turn, fact) for fact in found]
    if len(ids) > 1:  # their buttons have these numbers
        notes = [f"{ids.index(fact.id) + 1}. {_note(turn, fact)}" for fact in found]
    shown = max(MAX_NOTED, len(changes.replaced_by))
    lines += notes[:shown]
    if len(notes) > shown:
        lines.append(say("note_more", incoming.language, count=len(notes) - shown))
    return "\n".join(lines), changes


def _note(turn: Turn, fact: StoredFact, replaced: str = "note_replaced") -> str:
    language, text = turn.incoming.language, shortened(fact.text, MAX_TEXT)
    if not fact.past:
        return say("note_saved", language, text=text)
    old = "; ".join(shortened(one.text, MAX_TEXT) for one in fact.past)
    if replaced == "note_replaced":
        return say("note_replaced", language, text=text, old=old)
    return say("note_replaced_behind", language, text=text, old=old)
