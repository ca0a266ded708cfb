"""The notebook in structured calls and in tasks without tools: strict mode, summaries."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from src.memory.prompts import MERGE_PROMPT, SUMMARY_PROMPT
from src.offline.lines import NOTE, kind_of
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
UNDERSTANDING = "Understanding"


def explicit_facts(text: str) -> list[Fact]:
    """The facts of a message: what is to be remembered, or what it tells beyond doubt."""
    if forget_request(text) is not None or asks_to_keep_private(text):
        return []
    wanted = to_remember(text)
    if wanted is None:
        return [fact for part in text.split(CUT) for fact in plain_facts(part)]
    return plain_facts(wanted) or [Fact(text=wanted.rstrip(" .!…"))]


def do_task(system: str, prompt: str) -> str | None:
    """The text for a task that the system prompt sets; None when it sets none."""
    task = _TASKS.get(system)
    return task(prompt) if task is not None else None


def fill_form(form: str, prompt: str, kinds: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of the call that a structured prompt demands; empty for any other form.

    Conflicts stays empty: nothing but what the memory's own rules find contradicts.

    Args:
        form: Its name.
        prompt: What it is filled from.
        kinds: What the line is that is to be understood; see ``kind_of``.
    """
    match form:
        case "Understanding":
            return _understanding(prompt, kinds)
        case "ExtractedFacts":
            return {"facts": list(_extracted(prompt))}
        case "Forgetting":
            return {"uids": list(_meant(prompt))}
    return {}


def line_of(prompt: str) -> str:
    """The newest message of a structured prompt."""
    records = list(_records(prompt, "messages"))
    return str(records[-1].get("text", "")) if records else ""


def _understanding(prompt: str, kinds: Mapping[str, str]) -> dict[str, Any]:
    text = line_of(prompt)
    wanted = forget_request(text)
    if wanted is not None:
        return {"intent": "forget", "query": wanted.about}
    if asks_for_reminder(text):
        return {"intent": "remind"}
    facts = list(_extracted(prompt))
    if not facts and text.strip() and (kinds.get(text) or kind_of(text, None)) == NOTE:
        record = list(_records(prompt, "messages"))[-1]
        facts = [_told(Fact(text=text.strip().rstrip(".!…")), record)]
    return {"intent": "teach", "facts": facts} if facts else _solved(prompt, text)


def _told(fact: Fact, record: Record) -> dict[str, Any]:
    return {**fact.model_dump(include=TOLD), "message": str(record.get("uid", ""))}


def _extracted(prompt: str) -> Iterator[dict[str, Any]]:
    for record in _records(prompt, "messages"):
        if record.get("role") == "user" and not any(key.endswith("_from") for key in record):
            yield from (_told(f, record) for f in explicit_facts(str(record.get("text", ""))))


def _meant(prompt: str) -> Iterator[str]:
    """The quotes that share a word with what is to be forgotten, and tell something."""
    tasks = list(_records(prompt, "messages"))
    request = forget_request(str(tasks[-1].get("task", ""))) if tasks else None
    for record in _records(prompt, "context"):
        text = str(record.get("text", ""))
        if request is not None and request.about and shared(request.about, text) and is_note(text):
            yield str(record["uid"])


def _solved(prompt: str, asked: str) -> dict[str, Any]:
    """The quotes that are near a question, the newest first, each with its reference."""
    quotes = [{**r, "text": str(r.get("text", ""))} for r in _records(prompt, "context")]
    found = newest_first(near(quotes, asked))
    language = detect_language(asked)
    form = say("quoted", language, text="{}") if len(found) > 1 else "{}"
    lines = [f"{form.format(r['text'])} [{r.get('id', r['uid'])}]" for r in found]
    if found and not covers(found, asked):
        lines.insert(0, say("offline_only_this", language))
    return {"intent": "solve", "answer": "\n".join(lines)}


def _summary(prompt: str) -> str:
    """The beginnings of what the user noted; of questions only where there is nothing else."""
    records = [r for r in _records(prompt, "messages") if r.get("role") == "user"]
    texts = [(text, r) for r in records if (text := str(r.get("text", "")).strip())]
    told = [(text, r) for text, r in texts if is_note(text)] or texts
    quotes = (f"{_whose(record)}«{shortened(text, SUMMARY_QUOTE)}»" for text, record in told)
    return "; ".join(dict.fromkeys(quotes)) or "—"


def _whose(record: dict[str, Any]) -> str:
    """Whose words a record holds, where they are not the user's."""
    names = [str(record[key]) for key in record if key.endswith("_from")]
    return f"{names[0]}: " if names else ""


def _merged(prompt: str) -> str:
    return "; ".join(str(r.get("summary", "")) for r in _records(prompt, "history_summary"))


def _records(prompt: str, tag: str) -> Iterator[dict[str, Any]]:
    """The JSON lines of a block."""
    _, _, rest = prompt.partition(f"<{tag}>\n")
    for line in rest.partition(f"</{tag}>")[0].splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record


_TASKS: dict[str, Callable[[str], str]] = {
    SUMMARY_PROMPT: _summary,
    MERGE_PROMPT: _merged,
}
