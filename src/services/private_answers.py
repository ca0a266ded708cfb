"""Whether an answer repeats what the user wants remembered nowhere but in the window."""

from __future__ import annotations

from collections.abc import Sequence

from src.graph.new_messages import voice_of
from src.language import lexicon
from src.language.words import content_words, lemmas_of
from src.llm.prompts.time_label import strip_time_label
from src.storage.conversation_repo import HistoryMessage

REPEATED = 0.5  # of what a private message says: an answer with so much of it repeats it
WORDS = 2  # of it that no other message of the user has: so few repeat it as well


def repeats_private(answer: str, history: Sequence[HistoryMessage]) -> bool:
    """Whether an answer says what a private message in the window said.

    Words that the user also said openly tell nothing. In doubt it is private: what an answer says
    is seldom looked for.
    """
    private = [entry for entry in history if voice_of(entry).is_private]
    if not private or not answer:
        return False
    openly = lemmas_of(" ".join(lexicon.words("private.request"))) | lemmas_of("\n".join(
        strip_time_label(entry["content"]) for entry in history
        if entry["role"] == "user" and not voice_of(entry).is_private
    ))  # fmt: skip
    said = lemmas_of(answer)
    return any(_repeats(entry, said, openly) for entry in private)


def _repeats(entry: HistoryMessage, said: frozenset[str], openly: frozenset[str]) -> bool:
    """Of what the bot itself answered to it, which is mostly phrases, more must be repeated."""
    words = [
        word
        for word in content_words(strip_time_label(entry["content"]))
        if not word.lemmas & openly
    ]
    repeated = sum(bool(word.lemmas & said) for word in words)
    is_much = repeated > 0 and repeated >= REPEATED * len(words)
    is_many = repeated >= WORDS
    return (is_much or is_many) if entry["role"] == "user" else (is_much and is_many)
