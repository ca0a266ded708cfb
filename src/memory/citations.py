"""Records of hits for a model, and the references by which an answer cites them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from src.base.zones import SECOND, local_time
from src.llm.quoting import quoted
from src.llm.tokens import TokenCounter
from src.memory.prompts import MAX_MEMORY, memories_text
from src.memory.retrieval_repo import Hit
from src.memory.turn_context import TurnContext
from src.reading import facts, gate, relative_dates

# References in answers: valid ones, and ones that the model invented.
#
# A model cites by the numbers or ids that it was shown: [7], [fact-12], [msg-12]. The user sees 1,
# 2, 3, in the order in which the answer mentions them.

_ID = r"(?:msg|fact|summary|sum|mem)-"
_NUMBER_OR_ID = rf"(?:\d{{1,3}}|{_ID}\w{{1,40}})"
# A reference with the spaces before it, but not the text of a Markdown link, nor in a[1] = 5.
REFERENCE = re.compile(
    rf"(?<![ \t])[ \t]*\[(?:(\d{{1,3}})|\s*({_ID}[\w-]{{1,40}})\s*)\](?!\(| = )"
)
# Several in one bracket, but neither x = [1, 2] nor "x": [1, 2] nor sum([1, 2]).
REFERENCE_LIST = re.compile(
    rf"(?<!=)(?<!= )(?<!\": )(?<!\w\()\[({_NUMBER_OR_ID}(?:\s*[,;]\s*{_NUMBER_OR_ID})+)\](?!\()"
)
# Markdown code, in which [1] is an index; the backtick in "м`ясо" does not start any.
CODE = r"```.*?(?:```|\Z)|(?<!\w)`[^`\n]+`(?!\w)"
CLAUSE = re.compile(r"[.!?…:\n]+|[,;](?![^\[\]\n]{0,20}\])")  # "[1, 2]" is not split
MIN_LIST = 3  # numbers of a list, as in "sort [5, 2, 9]"; two may be invented references
MIN_WORDS = 3  # words of a protected clause; shorter ones may be the model's own
MAX_CLAUSES = 40  # protected clauses; each is tried at every position of the answer


def number_references(
    answer: str, known: Mapping[str, int], *, said: Iterable[str] = ()
) -> tuple[str, list[int]]:
    """Number the references 1, 2, 3 by their first mention, and drop invalid ones.

    ``[1, 2]`` counts as ``[1][2]``, and ``[1][1]`` as ``[1]``. Code and brackets that the user
    wrote stay unchanged.

    Args:
        answer: The model's answer.
        known: Valid numbers and ids, and the source that each stands for.
        said: Texts of the user that the answer may quote.

    Returns:
        The answer, and the sources in the order of their new numbers.
    """
    cited: list[int] = []
    adjacent: set[int] = set()  # sources of the references at the end of what was read
    pieces = []

    def keep(text: str) -> None:
        if text:
            adjacent.clear()
        pieces.append(text)

    parts = _protected_pattern(said).split(answer) if "[" in answer else [answer]
    for number, part in enumerate(parts):
        if number % 2:  # protected
            keep(part)
            continue
        text, end = REFERENCE_LIST.sub(lambda match: _split_list(match, known), part), 0
        for match in REFERENCE.finditer(text):
            keep(text[end : match.start()])
            end = match.end()
            source = known.get(match[1] or match[2])
            if source is None or source in adjacent:
                continue
            adjacent.add(source)
            if source not in cited:
                cited.append(source)
            spaces = match[0].partition("[")[0]
            pieces.append(f"{spaces}[{cited.index(source) + 1}]")
        keep(text[end:])
    return "".join(pieces), cited


def _protected_pattern(said: Iterable[str]) -> re.Pattern[str]:
    """Return a group that matches what stays: code, and the user's own clauses with brackets."""
    clauses = {clause.strip() for text in said if "[" in text for clause in CLAUSE.split(text)}
    long = {clause for clause in clauses if len(clause.split()) >= MIN_WORDS}
    quoted = {one for one in long if REFERENCE.search(one) or REFERENCE_LIST.search(one)}
    longest = sorted(quoted, key=len, reverse=True)[:MAX_CLAUSES]
    return re.compile(f"({'|'.join([CODE, *map(re.escape, longest)])})", re.DOTALL)


def _split_list(match: re.Match[str], known: Mapping[str, int]) -> str:
    """Return ``[1][2]`` for ``[1, 2]``; three numbers, none of which is known, are a list."""
    references = [reference.strip() for reference in re.split("[,;]", match[1])]
    if len(references) >= MIN_LIST and not any(one in known for one in references):
        return match[0]
    return "".join(f"[{reference}]" for reference in references)


def memory_record(number: int, hit: Hit, time_zone: str) -> dict[str, Any]:
    """Return a hit as a record for the model."""
    record: dict[str, Any] = {"n": number, **_quote_record(hit, time_zone)}
    if hit.memory_type is not None:
        record["kind"] = hit.memory_type
    record |= _note_of_past(hit, time_zone)
    if hit.validity.successor is not None:
        record["replaced_by"] = facts.fact_uid(hit.validity.successor)
    if hit.kind == "summary":
        record["note"] = "a summary"
    if hit.speaker == "assistant":
        record["note"] = "your own words"
    return record


def _note_of_past(hit: Hit, time_zone: str) -> dict[str, str]:
    """Return what a model is told of a fact that was replaced, or that is over by its own date."""
    if hit.retired:
        return {"note": "held earlier, not any more"}
    if hit.validity.end is not None and hit.is_over(datetime.now(UTC)):
        last = local_time(hit.validity.end - SECOND, time_zone)
        return {"note": f"past: over since {last:%Y-%m-%d}, say that it was"}
    return {}


def _quote_record(hit: Hit, time_zone: str) -> dict[str, Any]:
    said_at = f"{local_time(hit.said_at, time_zone):%Y-%m-%d %H:%M}"
    text = hit.text[:MAX_MEMORY]
    record = {"id": hit_id(hit), "said_at": said_at, "text": text}
    if not hit.is_own:
        whose = "from_file" if hit.author.provenance == "file" else "words_of"
        return {**record, whose: hit.author.name or gate.UNKNOWN}
    if hit.author.name:
        key = "speaker"
        if hit.author.provenance == "imported":
            key = "imported_from"
        record[key] = hit.author.name
    return record


# The words around memories; each time has as many tokens.
FRAME = memories_text([], "2026-11-25 12:00, Wednesday")


def within_budget(
    records: Iterable[dict[str, Any]], counter: TokenCounter, budget: int
) -> list[dict[str, Any]]:
    """Return as many records, from the first on, as fit into ``budget`` tokens when quoted."""
    packed: list[dict[str, Any]] = []
    for record in records:
        budget -= counter.count(quoted(record))
        if budget < 0:
            break
        packed.append(record)
    return packed


def fit_memories(
    hits: Sequence[Hit], counter: TokenCounter, budget: int, time_zone: str
) -> list[Hit]:
    """Return as many hits, from the first on, as a prompt shows within ``budget`` tokens."""
    records = (memory_record(0, hit, time_zone) for hit in hits)
    packed = within_budget(records, counter, budget - counter.count(FRAME))
    return list(hits[: len(packed)])


def words_and_dates(hit: Hit, time_zone: str) -> dict[str, Any]:
    """Return the words of a hit and the dates that they mean, if they name relative days.

    The text of a fact has the dates already, that of a message has not.
    """
    dates = relative_dates.resolved_dates(hit.words, local_time(hit.said_at, time_zone))
    if not dates:
        return {}
    return {"quote": hit.words[:MAX_MEMORY], "dates": dates}


def hit_id(hit: Hit) -> str:
    """Return the id of the hit itself: ``fact-12``, ``msg-12`` or ``summary-3``."""
    if hit.kind == "memory":
        return facts.fact_uid(hit.source_id)
    return f"summary-{hit.source_id}" if hit.kind == "summary" else f"msg-{hit.source_id}"


def reference_names(hits: Sequence[Hit]) -> dict[str, int]:
    """Return the ids by which a model may cite the hits, with the index of each hit.

    If several hits have the same message, its uid stands for the first of them.
    """
    names = {hit.uid: index for index, hit in reversed(list(enumerate(hits)))}
    return names | {hit_id(hit): index for index, hit in enumerate(hits)}


def context_records(hits: list[Hit], context: TurnContext) -> list[dict[str, Any]]:
    """Return the hits as records for the model, in strict mode."""
    return [
        {
            "uid": hit.uid,
            **_quote_record(hit, context.time_zone),
            **({} if hit.is_by_asker(context.speaker_id) else {"of_asker": False}),
            **_note_of_past(hit, context.time_zone),
            "similarity": round(hit.match.similarity, 2),
            "lexical": round(hit.match.bm25, 1),
        }
        for hit in hits
    ]
