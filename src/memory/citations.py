"""What was found, as a model sees it, and the references by which an answer cites it."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from src.base.zones import local_time
from src.memory.prompts import MAX_MEMORY
from src.memory.retrieval_repo import Hit
from src.memory.turn_context import TurnContext
from src.reading.facts import fact_uid
from src.reading.relative_dates import resolved_dates
from src.reading.voices import UNKNOWN

# References in answers: which of them point to something, and which the model made up.
#
# A model cites by the numbers or the ids that it was shown: [7], [fact-12], [msg-12]. The user
# sees 1, 2, 3, in the order in which the answer mentions them.

_ID = r"(?:msg|fact|summary|sum|mem)-"
_ONE = rf"(?:\d{{1,3}}|{_ID}\w{{1,40}})"
# A reference and the spaces before it; not the text of a Markdown link.
REFERENCE = re.compile(rf"(?<![ \t])[ \t]*\[(?:(\d{{1,3}})|\s*({_ID}[\w-]{{1,40}})\s*)\](?!\()")
REFERENCE_LIST = re.compile(rf"\[({_ONE}(?:\s*[,;]\s*{_ONE})+)\](?!\()")
# Markdown's code, in which [1] is an index; the backtick in "м`ясо" begins none.
CODE = r"```.*?(?:```|\Z)|(?<!\w)`[^`\n]+`(?!\w)"
CLAUSE = re.compile(r"[.!?…:\n]+|[,;](?![^\[\]\n]{0,20}\])")  # "[1, 2]" is not divided
MIN_WORDS = 3  # of a clause with brackets, these among them: fewer may well be the model's own
MAX_CLAUSES = 40  # of those: each is looked for at every place of the answer


def number_references(
    answer: str, known: Mapping[str, int], *, said: Iterable[str] = ()
) -> tuple[str, list[int]]:
    """Number the references 1, 2, 3 by their first mention, and drop those that lead nowhere.

    ``[1, 2]`` counts as ``[1][2]``. Code stays as it is, and so do brackets that the user wrote.

    Args:
        answer: What the model wrote.
        known: By what it may cite, numbers and ids, and the source that each stands for.
        said: Texts of the user that the answer may quote.

    Returns:
        The answer, and the sources in the order of their new numbers.
    """
    references = References()
    return references.number(answer, known, said=said), references.cited


class References:
    """Those of one answer, which may come in pieces that divide neither a reference nor code.

    Attributes:
        cited: The sources in the order of their new numbers.
    """

    def __init__(self) -> None:
        """Start without citations."""
        self.cited: list[int] = []

    def number(self, piece: str, known: Mapping[str, int], *, said: Iterable[str] = ()) -> str:
        """The next piece, as ``number_references`` changes the whole."""
        if "[" not in piece:
            return piece
        return _outside(_protected(said), piece, lambda text: self._change(text, known))

    def _change(self, text: str, known: Mapping[str, int]) -> str:
        def number(match: re.Match[str]) -> str:
            source = known.get(match[1] or match[2])
            if source is None:
                return ""
            if source not in self.cited:
                self.cited.append(source)
            spaces = match[0].partition("[")[0]
            return f"{spaces}[{self.cited.index(source) + 1}]"

        return REFERENCE.sub(number, REFERENCE_LIST.sub(lambda m: _apart(m[1]), text))


def _protected(said: Iterable[str]) -> re.Pattern[str]:
    """Matches what stays as it is: code, and the user's own clauses with brackets."""
    clauses = {clause.strip() for text in said if "[" in text for clause in CLAUSE.split(text)}
    own = {c for c in clauses if _holds_reference(c) and len(c.split()) >= MIN_WORDS}
    longest = sorted(own, key=len, reverse=True)[:MAX_CLAUSES]
    return re.compile("|".join([CODE, *map(re.escape, longest)]), re.DOTALL)


def _holds_reference(text: str) -> bool:
    return REFERENCE.search(text) is not None or REFERENCE_LIST.search(text) is not None


def _outside(protected: re.Pattern[str], text: str, change: Callable[[str], str]) -> str:
    """The text, changed outside the protected parts."""
    changed: list[str] = []
    end = 0
    for piece in protected.finditer(text):
        changed += [change(text[end : piece.start()]), piece[0]]
        end = piece.end()
    return "".join([*changed, change(text[end:])])


def _apart(references: str) -> str:
    """``1, 2`` as ``[1][2]``."""
    return "".join(f"[{reference.strip()}]" for reference in re.split(r"[,;]", references))


def memory_record(number: int, hit: Hit, time_zone: str) -> dict[str, Any]:
    """A hit as the model sees it."""
    record: dict[str, Any] = {"n": number, **_quote(hit, time_zone)}
    if hit.memory_type is not None:
        record["kind"] = hit.memory_type
    if hit.retired:
        record["note"] = "held earlier, not any more"
    if hit.successor is not None:
        record["replaced_by"] = fact_uid(hit.successor)
    if hit.kind == "summary":
        record["note"] = "a summary"
    if hit.speaker == "assistant":
        record["note"] = "your own words"
    return record


def _quote(hit: Hit, time_zone: str) -> dict[str, Any]:
    """What was said and when, and whose words they are where they are not simply the user's."""
    said_at = f"{local_time(hit.said_at, time_zone):%Y-%m-%d %H:%M}"
    text = hit.text[:MAX_MEMORY]
    record = {"id": hit_id(hit), "uid": hit.uid, "said_at": said_at, "text": text}
    if not hit.is_own:
        whose = "from_file" if hit.provenance == "file" else "words_of"
        return {**record, whose: hit.author or UNKNOWN}
    return {**record, "speaker": hit.author} if hit.author else record


def words_and_dates(hit: Hit, time_zone: str) -> dict[str, Any]:
    """Of what counts from the day on which it was said: those words, and which days they mean.

    A fact's text has the dates in their place, a message's has not.
    """
    dates = resolved_dates(hit.words, local_time(hit.said_at, time_zone))
    return {"quote": hit.words[:MAX_MEMORY], "dates": dates} if dates else {}


def hit_id(hit: Hit) -> str:
    """What names the hit itself: ``fact-12``, ``msg-12`` or ``summary-3``."""
    if hit.kind == "memory":
        return fact_uid(hit.source_id)
    return f"summary-{hit.source_id}" if hit.kind == "summary" else f"msg-{hit.source_id}"


def reference_names(hits: Sequence[Hit]) -> dict[str, int]:
    """The ids by which a model may cite the hits, and the place of each among them.

    Several facts may be told by one message; its uid stands for the first of them.
    """
    names = {hit.uid: place for place, hit in reversed(list(enumerate(hits)))}
    return names | {hit_id(hit): place for place, hit in enumerate(hits)}


def context_records(hits: list[Hit], context: TurnContext) -> list[dict[str, Any]]:
    """The quotes as the model sees them."""
    return [
        {
            **_quote(hit, context.time_zone),
            **({} if hit.is_of(context.speaker_id) else {"of_asker": False}),
            **({"note": "held earlier, not any more"} if hit.retired else {}),
            "similarity": round(hit.similarity, 2),
            "lexical": round(hit.bm25, 1),
        }
        for hit in hits
    ]
