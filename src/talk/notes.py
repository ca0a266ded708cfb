"""Notes below an answer: what changed, with buttons that undo it, and wishes that it offers."""

from dataclasses import replace
from typing import Literal, get_args

from src.history.turn_repo import Changes, StoredAnswer
from src.memory.memory_repo import FactQuery, MemoryRepository, StoredFact
from src.memory.screens import recall_button
from src.pg.client import PgClient
from src.reading import lexicon
from src.reminders.screens import cancel_button
from src.talk.turn_state import Turn
from src.texts import LANGUAGES, Language, say
from src.texts.plain_text import plain, shortened
from src.texts.reply import Action, Button, Rows

MAX_NOTED = 4  # facts, or as many as replaced others; the rest is only counted
MAX_NOTED_TEXT = 120  # characters of each fact
MAX_UNDO = 4  # buttons; /memory and /undo reach the rest


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
    lines = [_note(turn, fact, is_behind=True) for fact in behind]
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
    shown = max(MAX_NOTED, len(replacing))
    for fact in found[:shown]:
        number = f"{ids.index(fact.id) + 1}. " if len(ids) > 1 else ""  # as on its button
        lines.append(f"{number}{_note(turn, fact)}")
    if len(found) > shown:
        lines.append(say("note_more", incoming.language, count=len(found) - shown))
    return "\n".join(lines), changes


def _note(turn: Turn, fact: StoredFact, *, is_behind: bool = False) -> str:
    language, text = turn.incoming.language, shortened(fact.text, MAX_NOTED_TEXT)
    if not fact.past:
        return say("note_saved", language, text=text)
    old = "; ".join(shortened(one.text, MAX_NOTED_TEXT) for one in fact.past)
    if is_behind:
        return say("note_replaced_behind", language, text=text, old=old)
    return say("note_replaced", language, text=text, old=old)


def undo_buttons(changes: Changes, language: Language) -> list[Button]:
    """Return a button per change, at most MAX_UNDO, those that undo the costliest first."""
    buttons = []
    if changes.forgetting is not None:
        buttons.append(recall_button(changes.forgetting, language))
    ids = [(id_, "undo_button") for id_ in changes.replaced_by]
    ids += [(id_, "undo_saved_button") for id_ in changes.saved]  # numbered like the notes
    buttons += _number([Button(say(key, language), Action("undo", (id_,))) for id_, key in ids])
    reminders = [cancel_button(number, language) for number in changes.reminders]
    return [*_number(reminders), *buttons][:MAX_UNDO]


def _number(buttons: list[Button]) -> list[Button]:
    if len(buttons) == 1:
        return buttons
    return [replace(one, label=f"{one.label} ({n})") for n, one in enumerate(buttons, start=1)]


# Wishes about answers that a correction teaches: read, offered below the answer, kept.

Wish = Literal["short", "long", "simple"]

WISHES: tuple[Wish, ...] = get_args(Wish)  # in the order of the buttons
UNKNOWN = "unknown"  # something was wrong, and the user did not say what
MAX_CORRECTION = 40  # characters of a message that only corrects the answer before it


def read_correction(text: str) -> str | None:
    """Return the wish in a whole message (one of WISHES), UNKNOWN for "not so", or None."""
    if len(text) > MAX_CORRECTION:
        return None
    return lexicon.key_of("answers.wish", plain(text).replace(",", "").strip(" .!?"))


def wish_text(wish: Wish, language: Language) -> str:
    """Return a wish as it is kept: ``Отвечай коротко``."""
    return say(f"wish_{wish}", language)


def texts_of(*wishes: str) -> frozenset[str]:
    """Return the texts of these wishes as they are kept, in all languages."""
    return frozenset(wish_text(one, lang) for one in WISHES if one in wishes for lang in LANGUAGES)


def rivals_of(text: str) -> frozenset[str]:
    """Return the texts of the wishes about length that a kept one replaces, in all languages."""
    texts = texts_of("short", "long")
    if text not in texts:
        return frozenset()
    return texts - {text}


def offer_of(changes: Changes, language: Language) -> str:
    """Return the question below an answer whether to keep a wish, or ""."""
    if changes.wish in WISHES:
        return say("wish_offer", language, wish=wish_text(changes.wish, language))
    return say("wish_which", language) if changes.wish else ""


def offer_in_words(changes: Changes, language: Language) -> str:
    """Return the same question for the console, where words answer it, or ""."""
    if changes.wish == UNKNOWN:
        return say("console_wishes", language)
    if not changes.wish:
        return ""
    return f"{offer_of(changes, language)} {say('console_wish', language)}"


def wish_rows(changes: Changes, language: Language) -> Rows:
    """Return the buttons of that question: the wish, or all of them, and none."""
    if not changes.wish:
        return ()
    offered = [wish for wish in WISHES if changes.wish in (wish, UNKNOWN)]
    buttons = [
        Button(f"✓ {wish_text(wish, language)}", Action("wish", (WISHES.index(wish),)))
        for wish in offered
    ]
    buttons.append(Button(say("wish_no", language), Action("wish", (len(WISHES),))))
    return tuple((button,) for button in buttons)
