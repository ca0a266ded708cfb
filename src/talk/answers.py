"""Answers: sources that they cite, and answers to our questions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from src.history.conversation_repo import HistoryMessage
from src.history.turn_repo import AnswerSource, Asks
from src.memory.citations import References, number_references, reference_names
from src.memory.retriever import Hit
from src.reading import lexicon
from src.talk.turn_state import Resolution
from src.texts.plain_text import plain

FENCE = "```"
CLOSED_CODE = re.compile(r"```|(?<!\w)`[^`\n]+`")
# What may be the beginning of a reference, of a list of them, of a link, or of code in a line.
BEGUN = re.compile(r"(?:(?<!\w)`{1,2}[^`\n]{0,60}|[ \t]*\[[^\[\]\n]{0,60}\]?|[ \t]+)\Z")


def cited_sources(
    text: str, hits: Sequence[Hit], *, asked: str
) -> tuple[str, tuple[AnswerSource, ...]]:
    """The answer with references 1, 2, 3 that all lead somewhere, and what they stand for.

    A reference leads to a message of the user's; neither a summary nor what the bot said is one.

    Args:
        text: As the model wrote it.
        hits: What the model was shown: its [1] is the first.
        asked: What is answered; brackets in it are no references.
    """
    numbered, cited = number_references(text, _known(hits), said=_said(asked, hits))
    return numbered, tuple(
        _source(number, hits[place]) for number, place in enumerate(cited, start=1)
    )


class GrowingReferences:
    """Shows an answer while it grows, with the numbers that it will have in the end."""

    def __init__(
        self, on_text: Callable[[str], None], sources: Callable[[], Sequence[Hit]], *, asked: str
    ) -> None:
        """Pass on to ``on_text`` what answers ``asked``.

        ``sources`` tells what the model has been shown so far: it may search between two pieces.
        """
        self._on_text = on_text
        self._sources = sources
        self._asked = asked
        self._references = References()
        self._before = ""  # the last character that was shown
        self._held = ""
        self._is_code = False

    def feed(self, piece: str) -> None:
        """The next piece; what may become a reference or code waits for its end."""
        self._held += piece
        flat = CLOSED_CODE.sub(lambda code: "." * len(code[0]), self._before + self._held)
        begun = BEGUN.search(flat, len(self._before))
        self._show(len(self._held) if begun is None else begun.start() - len(self._before))

    def flush(self) -> None:
        """The end of it."""
        self._show(len(self._held))

    def _show(self, end: int) -> None:
        ready, self._held = self._held[:end], self._held[end:]
        self._before = (self._before + ready)[-1:]
        shown = []
        for number, part in enumerate(ready.split(FENCE)):
            self._is_code ^= number > 0
            shown.append(part if self._is_code else self._number(part))
        if any(shown) or len(shown) > 1:
            self._on_text(FENCE.join(shown))

    def _number(self, part: str) -> str:
        if "[" not in part:
            return part
        hits = self._sources()
        return self._references.number(part, _known(hits), said=_said(self._asked, hits))


def _known(hits: Sequence[Hit]) -> dict[str, int]:
    """What an answer may cite: the numbers and ids that the model saw, and which hit it is."""
    told = {place for place, hit in enumerate(hits) if _is_told(hit)}
    names = {name: place for name, place in reference_names(hits).items() if place in told}
    return {str(place + 1): place for place in told} | names


def _said(text: str, hits: Sequence[Hit]) -> list[str]:
    return [text, *(hit.words for hit in hits if _is_told(hit))]


def _is_told(hit: Hit) -> bool:
    return hit.kind != "summary" and hit.speaker != "assistant"


def _source(number: int, hit: Hit) -> AnswerSource:
    memory_id = hit.source_id if hit.kind == "memory" else None
    return AnswerSource(number, hit.uid, hit.words, hit.said_at, hit.message_id, memory_id)


YES = lexicon.Expression("(?:<answers.yes>|[, ])+")
NO = lexicon.Expression(r"<answers.no>\b.*")
BEGINS_YES = lexicon.Expression("<answers.begins_yes>")
# Which of two facts holds, by what a whole message says.
_WHICH = "(?:<answers.keep> )?{}(?: <answers.right>)?"
CHOICES: tuple[tuple[Resolution, lexicon.Expression], ...] = (
    ("both", lexicon.Expression(_WHICH.format("<answers.both>"))),
    ("old", lexicon.Expression(f"{_WHICH.format('<answers.old>')}|<answers.keep_it>")),
    ("replace", lexicon.Expression(f"{_WHICH.format('<answers.new>')}|<answers.replace>")),
)


def reads_as_yes(text: str) -> bool | None:
    """True for yes, False for no, None for anything else."""
    flat = plain(text).strip(" .!…")
    if NO.fullmatch(flat):
        return False
    return True if BEGINS_YES.match(flat) and YES.fullmatch(flat) else None


def reads_as_choice(text: str) -> Resolution | None:
    """Which of two facts a whole message wants to hold; None for anything else."""
    flat = plain(text).strip(' .!…«»"')
    return next((choice for choice, words in CHOICES if words.fullmatch(flat)), None)


def question_before(history: Sequence[HistoryMessage], asks: Asks) -> HistoryMessage | None:
    """The bot's answer right before the newest message, if it asks this and that still counts."""
    for entry in reversed(history[:-1]):
        if entry["role"] == "user":
            return None
        if entry["role"] == "assistant":
            return entry if entry.get("asks") == asks else None
    return None
