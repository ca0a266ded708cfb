"""Notes about what an answer changed."""

from dataclasses import replace

from src.history.turn_repo import Changes, StoredAnswer
from src.memory.memory_repo import FactQuery, Memory, MemoryRepository
from src.pg.client import PgClient
from src.talk.turn_state import Turn
from src.texts import say
from src.texts.plain_text import shortened

MAX_NOTED = 4  # facts; the others are only counted
MAX_TEXT = 120  # characters of each fact


async def describe_changes(
    client: PgClient, turn: Turn, answer: StoredAnswer
) -> tuple[str, Changes]:
    """Return notes about an answer's changes, and the changes in the order of their buttons.

    There are none about retired facts, nor if the answer itself tells all in this order. A
    confirmation (strict mode, /remember) reports its changes itself.
    """
    incoming, changes = turn.incoming, answer.changes
    ids = [*changes.replaced_by, *changes.saved]
    if not ids or incoming.preferences.mode == "strict" or incoming.teaching is not None:
        return "", changes
    list_facts = MemoryRepository(client).list_facts
    found = await client.run(list_facts, incoming.owner, FactQuery(ids=ids))
    places = dict.fromkeys(ids, -1) | {fact.id: answer.text.find(fact.text) for fact in found}
    saved, replacing = (
        tuple(sorted(some, key=lambda id_: places[id_]))
        for some in (changes.saved, changes.replaced_by)
    )
    changes, ids = replace(changes, saved=saved, replaced_by=replacing), [*replacing, *saved]
    shown = [places[id_] for id_ in ids]
    if -1 not in shown and shown == sorted(shown):
        return "", changes
    found.sort(key=lambda fact: ids.index(fact.id))
    if len(ids) > 1:  # their buttons have these numbers
        notes = [f"{ids.index(fact.id) + 1}. {_note(turn, fact)}" for fact in found]
    else:
        notes = [_note(turn, fact) for fact in found if fact.text not in answer.text]
    lines = notes[:MAX_NOTED]
    if len(notes) > MAX_NOTED:
        lines.append(say("note_more", incoming.language, count=len(notes) - MAX_NOTED))
    return "\n".join(lines), changes


def _note(turn: Turn, fact: Memory) -> str:
    language, text = turn.incoming.language, shortened(fact.text, MAX_TEXT)
    if not fact.past:
        return say("note_saved", language, text=text)
    return say("note_replaced", language, text=text, old=shortened(fact.past[0].text, MAX_TEXT))
