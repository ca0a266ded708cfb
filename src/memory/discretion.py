"""What stays out of the memory: decided here, and nowhere else.

Messages whose sender asks for it, answers that repeat them, and everything while an owner has
the memory switched off.
"""

from __future__ import annotations

from collections.abc import Sequence

from src.history.conversation_repo import HistoryMessage
from src.history.new_messages import new_messages, strip_time_label, voice_of
from src.memory.memories import Memories
from src.memory.memory_repo import Memory
from src.memory.retriever import Hit, Query
from src.memory.turn_context import TurnContext
from src.memory.writer import Outcome, Said
from src.reading import lexicon
from src.reading.facts import Fact
from src.reading.requests import asks_to_keep_private
from src.reading.words import content_words, lemmas_of

MEMORY_OFF = "memory_off"  # why a fact is not saved
REPEATED = 0.5  # of what a private message says: an answer with so much of it repeats it
WORDS = 2  # of it that no other message of the user has: so few repeat it as well


def wants_privacy(text: str, *, is_own: bool, is_taught: bool = False) -> bool:
    """Whether a message is to be remembered nowhere.

    Args:
        text: What it says.
        is_own: Whether its sender typed it; words of others ask for nothing.
        is_taught: Whether it is to be remembered as it stands, whatever it says.
    """
    return is_own and not is_taught and asks_to_keep_private(text)


def is_private_answer(answer: str, history: Sequence[HistoryMessage]) -> bool:
    """Whether an answer is remembered nowhere.

    Args:
        answer: Its text.
        history: The window, with the message that is answered at its end.
    """
    answers_private = any(voice_of(entry).is_private for entry in new_messages(history))
    return answers_private or repeats_private(answer, history)


async def recall(memories: Memories, context: TurnContext, query: Query) -> list[Hit]:
    """What was said that fits the query; nothing while the memory is off."""
    return await memories.retriever.search(query) if context.memory_on else []


async def key_facts(memories: Memories, context: TurnContext) -> list[Memory]:
    """The key facts; none while the memory is off.

    Raises:
        StorageError: The database is away.
    """
    return await memories.get_user_facts(context.owner) if context.memory_on else []


def refusal(context: TurnContext, fact: Fact, said: Said) -> Outcome | None:
    """What becomes of a fact while the memory is off; None while it is on."""
    if context.memory_on:
        return None
    return Outcome("refused", fact.text, f"msg-{said.message_id}", reason=MEMORY_OFF)


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
