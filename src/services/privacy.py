"""What a user wants remembered nowhere but in the window: messages, and answers that repeat it."""

from __future__ import annotations

from collections.abc import Sequence

from src.graph.new_messages import new_messages, voice_of
from src.language.requests import asks_to_keep_private
from src.language.words import content_words, lemmas_of
from src.llm.prompts.time_label import strip_time_label
from src.services.turn_state import IncomingMessage, TurnResult
from src.storage.conversation_repo import HistoryMessage

REPEATED = 0.5  # of what a private message says: an answer with so much of it repeats it
WORDS = 2  # of it that no other message of the user has: so few repeat it as well

# Words of the request itself.
REQUESTS = (
    "запоминай запомни помни сохраняй записывай запам'ятовуй пам'ятай зберігай записуй remember "
    "memorize save store keep record log off tell anyone никому нікому"
)


def wants_privacy(text: str, *, is_own: bool) -> bool:
    """Whether a message asks that it be remembered nowhere; words of others ask for nothing."""
    return is_own and asks_to_keep_private(text)


def is_private(incoming: IncomingMessage) -> bool:
    """Whether a message is remembered nowhere; what is to be remembered as it stands is."""
    asks = wants_privacy(incoming.text, is_own=incoming.voice.is_own)
    return asks and incoming.teaching is None


def is_searched_by_meaning(incoming: IncomingMessage) -> bool:
    """Whether its words may go to the embedding model, to recall what is like them."""
    return incoming.memory_on and not is_private(incoming)


def is_private_answer(result: TurnResult, history: Sequence[HistoryMessage]) -> bool:
    """Whether an answer is remembered nowhere.

    Args:
        result: Its text; a refusal of the program's tells nothing.
        history: The window, with the message that is answered at its end.
    """
    answers_private = any(voice_of(entry).is_private for entry in new_messages(history))
    is_refusal = result.ended == "over ceiling"
    return is_refusal or answers_private or repeats_private(result.text, history)


def repeats_private(answer: str, history: Sequence[HistoryMessage]) -> bool:
    """Whether an answer says what a private message in the window said.

    Words that the user also said openly tell nothing. In doubt it is private: what an answer says
    is seldom looked for.
    """
    private = [entry for entry in history if voice_of(entry).is_private]
    if not private or not answer:
        return False
    openly = lemmas_of(REQUESTS) | lemmas_of("\n".join(
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
