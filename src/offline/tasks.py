"""Offline model in structured calls and tasks without tools: strict mode, summaries."""

from collections.abc import Mapping, Sequence
from typing import Any

from src.memory.line_kinds import NOTE, Classifier
from src.offline.replies import Record, covers, is_note, match_notes, newest_first
from src.reading.facts import Fact
from src.reading.plain_facts import plain_facts, to_remember
from src.reading.requests import ForgetRequest, asks_to_keep_private, forget_request
from src.reading.sentences import is_question
from src.reading.words import shared
from src.reminders.rules import asks_for_reminder
from src.texts import detect_language, say
from src.texts.plain_text import CUT, shortened

SUMMARY_QUOTE = 70  # characters of each message in a summary
# Fields of a fact that the rules fill in.
FACT_FIELDS = {"text", "quote", "memory_type", "importance", "subject", "relation", "object"}
Records = Mapping[str, Sequence[Record]]  # blocks of a prompt by name


def facts_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the facts of a message: what it orders to remember, or states beyond doubt."""
    text = message["text"]
    if forget_request(text) is not None or asks_to_keep_private(text):
        return []
    remembered = to_remember(text)
    if remembered:
        facts = plain_facts(remembered) or [Fact(text=remembered.rstrip(" .!…"))]
    else:
        facts = [fact for part in text.split(CUT) for fact in plain_facts(part)]
    told = message["uid"]
    return [{**fact.model_dump(include=FACT_FIELDS), "message": told} for fact in facts]


def fill_form(form: str, records: Records, kind: Classifier) -> dict[str, Any]:
    """Return the arguments of the call that a structured prompt demands; {} for other forms.

    Conflicts stay empty: only the rules of the memory find contradictions.

    Args:
        form: Name of the form.
        records: Records to fill it from.
        kind: Classifies a line.
    """
    if form == "Understanding":
        return _understanding(records, kind)
    if form == "ExtractedFacts":
        return {"facts": _extract(records["messages"])}
    if form == "Forgetting":
        request = forget_request(records["messages"][0]["task"]) or ForgetRequest("")
        found = [one for one in records["context"] if shared(request.about, one["text"])]
        return {"uids": [one["uid"] for one in found if is_note(one["text"])]}
    return {}


def summary_of(records: Records) -> str:
    """Return the beginnings of the user's notes, or of their questions if there are no notes.

    Summaries are joined in full, equal ones once.
    """
    summaries = records.get("history_summary")
    if summaries:
        return "; ".join(dict.fromkeys(str(one["summary"]) for one in summaries))
    typed = [one for one in records["messages"] if one["role"] == "user" and one["text"].strip()]
    notes = [one for one in typed if is_note(one["text"]) and not is_question(one["text"])]
    quotes = []
    for one in notes or typed:
        text = shortened(one["text"].strip(), SUMMARY_QUOTE)
        quotes.append(_author(one) + say("quoted", detect_language(text), text=text))
    return "; ".join(dict.fromkeys(quotes)) or "—"


def _author(record: Record) -> str:
    """Return the author of a record as a prefix; "" for the user's own words."""
    return next((f"{record[key]}: " for key in record if key.endswith("_from")), "")


def _understanding(records: Records, kind: Classifier) -> dict[str, Any]:
    message = records["messages"][-1]
    text = message["text"].strip()
    request = forget_request(text)
    if request is not None:
        return {"intent": "forget", "query": request.about}
    if asks_for_reminder(text):
        return {"intent": "remind"}
    facts = _extract(records["messages"])
    if not facts and text and kind(message["text"]) == NOTE:
        note = Fact(text=text.rstrip(".!…"))
        facts = [{**note.model_dump(include=FACT_FIELDS), "message": message["uid"]}]
    if facts:
        return {"intent": "teach", "facts": facts}
    found = newest_first(match_notes(records["context"], text).sure, text)
    language = detect_language(text)
    form = "{}"
    if len(found) > 1:
        form = say("quoted", language, text="{}")
    lines = [f"{form.format(one['text'])} [{one.get('id', one['uid'])}]" for one in found]
    if found and not covers(found, text):
        lines.insert(0, say("offline_only_this", language))
    return {"intent": "solve", "answer": "\n".join(lines)}


def _extract(messages: Sequence[Record]) -> list[dict[str, Any]]:
    own = [one for one in messages if one["role"] == "user" and not _author(one)]
    return [fact for one in own for fact in facts_of(one)]
