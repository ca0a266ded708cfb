"""Wishes about answers that a correction teaches: read, offered below the answer, kept."""

from typing import Literal, get_args

from src.history.turn_repo import Changes
from src.reading import lexicon
from src.texts import LANGUAGES, Language, say
from src.texts.plain_text import plain
from src.texts.reply import Action, Button, Rows

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


def rivals_of(text: str) -> frozenset[str]:
    """Return the texts of the wishes about length that a kept one replaces, in all languages."""
    lengths: tuple[Wish, ...] = ("short", "long")
    texts = frozenset(wish_text(wish, language) for wish in lengths for language in LANGUAGES)
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
