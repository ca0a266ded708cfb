"""The notebook in structured calls and in tasks without tools: strict mode, summaries."""

from collections.abc import Mapping, Sequence
from typing import Any

from src.memory.line_kinds import NOTE, Kind
from src.offline.replies import Record, covers, is_note, near, newest_first
from src.reading.facts import Fact
from src.reading.plain_facts import plain_facts, to_remember
from src.reading.requests import asks_to_keep_private, forget_request
from src.reading.words import shared
from src.reminders.rules import asks_for_reminder
from src.texts import detect_language, say
from src.texts.plain_text import CUT, shortened

SUMMARY_QUOTE = 70  # characters of each message in a summary
# What the rules know of a fact.
TOLD = {"text", "quote", "memory_type", "importance", "subject", "relation", "object"}
Records = Mapping[str, Sequence[Record]]  # the blocks of a prompt, by their names


def facts_of(said: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The facts of a message: what is to be remembered, or what it tells beyond doubt."""
    text = said["text"]
    if forget_request(text) is not None or asks_to_keep_private(text):
        return []
    if wanted := to_remember(text):
        facts = plain_facts(wanted) or [Fact(text=wanted.rstrip(" .!…"))]
    else:
        facts = [fact for part in text.split(CUT) for fact in plain_facts(part)]
    return [_told(fact, said) for fact in facts]


def fill_form(form: str, records: Records, kind: Kind) -> dict[str, Any]:
    """The arguments of the call that a structured prompt demands; empty for any other form.

    Conflicts stays empty: nothing but what the memory's own rules find contradicts.

    Args:
        form: Its name.
        records: What it is filled from.
        kind: Tells what a line is.
    """
    if form == "Understanding":
        return _understanding(records, kind)
    if form == "ExtractedFacts":
        return {"facts": _extracted(records["messages"])}
    return {"uids": _meant(records)} if form == "Forgetting" else {}


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
    if (wanted := forget_request(text)) is not None:
        return {"intent": "forget", "query": wanted.about}
    if asks_for_reminder(text):
        return {"intent": "remind"}
    facts = _extracted(records["messages"])
    if not facts and text and kind(asked["text"]) == NOTE:
        facts = [_told(Fact(text=text.rstrip(".!…")), asked)]
    if facts:
        return {"intent": "teach", "facts": facts}
    found = newest_first(near(records["context"], text))
    language = detect_language(text)
    form = say("quoted", language, text="{}") if len(found) > 1 else "{}"
    lines = [f"{form.format(one['text'])} [{one.get('id', one['uid'])}]" for one in found]
    if found and not covers(found, text):
        lines.insert(0, say("offline_only_this", language))
    return {"intent": "solve", "answer": "\n".join(lines)}


def _told(fact: Fact, record: Mapping[str, Any]) -> dict[str, Any]:
    return {**fact.model_dump(include=TOLD), "message": record["uid"]}


def _extracted(messages: Sequence[Record]) -> list[dict[str, Any]]:
    typed = [one for one in messages if one["role"] == "user" and not _whose(one)]
    return [fact for one in typed for fact in facts_of(one)]


def _meant(records: Records) -> list[str]:
    """The quotes that share a word with what is to be forgotten, and tell something."""
    wanted = forget_request(records["messages"][0]["task"])
    about = wanted.about if wanted is not None else ""
    return [
        r["uid"] for r in records["context"] if shared(about, r["text"]) and is_note(r["text"])
    ]
