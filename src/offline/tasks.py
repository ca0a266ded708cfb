"""The notebook in structured calls and in tasks without tools: strict mode, summaries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from src.offline.lines import NOTE
from src.offline.replies import Kind, Record, is_note, near
from src.reading.facts import Fact
from src.reading.plain_facts import plain_facts, to_remember
from src.reading.requests import asks_to_keep_private, forget_request
from src.reading.words import shared
from src.reminders.rules import asks_for_reminder
from src.texts.plain_text import CUT, shortened

SUMMARY_QUOTE = 70  # characters of each message in a summary
# What the rules know of a fact.
TOLD = {"text", "quote", "memory_type", "importance", "subject", "relation", "object"}
UNDERSTANDING = "Understanding"
Records = Mapping[str, Sequence[Record]]  # the blocks of a prompt, by their names


def explicit_facts(text: str) -> list[Fact]:
    """The facts of a message: what is to be remembered, or what it tells beyond doubt."""
    if forget_request(text) is not None or asks_to_keep_private(text):
        return []
    wanted = to_remember(text)
    if wanted is None:
        return [fact for part in text.split(CUT) for fact in plain_facts(part)]
    return plain_facts(wanted) or [Fact(text=wanted.rstrip(" .!…"))]


def fill_form(form: str, records: Records, kind: Kind) -> dict[str, Any]:
    """The arguments of the call that a structured prompt demands; empty for any other form.

    Conflicts stays empty: nothing but what the memory's own rules find contradicts.

    Args:
        form: Its name.
        records: What it is filled from.
        kind: Tells what a line is.
    """
    match form:
        case "Understanding":
            return _understanding(records, kind)
        case "ExtractedFacts":
            return {"facts": list(_extracted(records["messages"]))}
        case "Forgetting":
            return {"uids": list(_meant(records))}
    return {}


def summary_of(records: Records) -> str:
    """The beginnings of what the user noted, or of questions where there is nothing else.

    Of summaries, all of them.
    """
    if summaries := records.get("history_summary"):
        return "; ".join(str(one["summary"]) for one in summaries)
    said = [one for one in records["messages"] if one["role"] == "user" and one["text"].strip()]
    told = [one for one in said if is_note(one["text"])] or said
    quotes = (f"{_whose(one)}«{shortened(one['text'].strip(), SUMMARY_QUOTE)}»" for one in told)
    return "; ".join(dict.fromkeys(quotes)) or "—"


def _whose(record: Record) -> str:
    """Whose words a record holds, where they are not the user's."""
    return next((f"{record[key]}: " for key in record if key.endswith("_from")), "")


def _understanding(records: Records, kind: Kind) -> dict[str, Any]:
    asked = records["messages"][-1]
    text = asked["text"].strip()
    wanted = forget_request(text)
    if wanted is not None:
        return {"intent": "forget", "query": wanted.about}
    if asks_for_reminder(text):
        return {"intent": "remind"}
    facts = list(_extracted(records["messages"]))
    if not facts and text and kind(asked["text"]) == NOTE:
        facts = [_told(Fact(text=text.rstrip(".!…")), asked)]
    if facts:
        return {"intent": "teach", "facts": facts}
    lines = (
        f"{one['text']} [{one.get('id', one['uid'])}]" for one in near(records["context"], text)
    )
    return {"intent": "solve", "answer": "\n".join(lines)}


def _told(fact: Fact, record: Record) -> dict[str, Any]:
    return {**fact.model_dump(include=TOLD), "message": record["uid"]}


def _extracted(messages: Sequence[Record]) -> Iterator[dict[str, Any]]:
    for record in messages:
        if record["role"] == "user" and not _whose(record):
            yield from (_told(fact, record) for fact in explicit_facts(record["text"]))


def _meant(records: Records) -> Iterator[str]:
    """The quotes that share a word with what is to be forgotten, and tell something."""
    wanted = forget_request(records["messages"][0]["task"])
    for one in records["context"]:
        if wanted and wanted.about and shared(wanted.about, one["text"]) and is_note(one["text"]):
            yield one["uid"]
