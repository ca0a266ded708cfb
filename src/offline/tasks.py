"""The offline model in structured calls and in tasks without tools: strict mode, summaries."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from src.memory.prompts import ANSWER_PROMPT, MERGE_PROMPT, SUMMARY_PROMPT, UNKNOWN
from src.offline.replies import answering
from src.reading.facts import Fact, holds_many
from src.reading.requests import forget_request
from src.reading.sentences import is_question
from src.reading.statements import TOLD, statements, told_by
from src.reading.words import shared
from src.reminders.rules import asks_for_reminder
from src.texts.plain_text import shortened

QUOTED = 3  # quotes of one answer
SUMMARY_QUOTE = 70  # characters of each message in a summary


def fill_form(form: str, prompt: str) -> dict[str, Any]:
    """The arguments of the call that a structured prompt demands; empty for an unknown form."""
    fill = _FORMS.get(form)
    return fill(prompt) if fill is not None else {}


def do_task(system: str, prompt: str) -> str | None:
    """The text for a task that the system prompt sets; None when it sets none."""
    task = _TASKS.get(system)
    return task(prompt) if task is not None else None


def _understanding(prompt: str) -> dict[str, Any]:
    text = str(_last_record(prompt, "messages").get("text", ""))
    wanted = forget_request(text)
    if wanted is not None:
        return {"intent": "forget", "facts": [], "query": wanted.about}
    if asks_for_reminder(text):
        return {"intent": "remind", "facts": [], "query": ""}
    facts = _extracted_facts(prompt)["facts"]
    return {"intent": "teach" if facts else "solve", "facts": facts, "query": ""}


def _extracted_facts(prompt: str) -> dict[str, Any]:
    return {
        "facts": [
            _form(statement, str(record.get("uid", "")))
            for record in _records(prompt, "messages")
            if record.get("role") == "user" and not any(key.endswith("_from") for key in record)
            for statement in told_by(str(record.get("text", "")))
        ]
    }


def _conflicts(prompt: str) -> dict[str, Any]:
    new, known = list(_records(prompt, "messages")), list(_records(prompt, "memories"))
    return {
        "conflicts": [
            {"new": n["new"], "known": k["known"], "confidence": 1.0}
            for n in new
            for k in known
            if _contradicts(str(n.get("text", "")), str(k.get("text", "")))
        ]
    }


def _contradicts(new: str, known: str) -> bool:
    """Whether two statements give one relation of one subject two values."""
    return any(
        (fact.subject, fact.relation) == (other.subject, other.relation)
        and not holds_many(fact.relation)
        and fact.object.lower() != other.object.lower()
        for fact in statements(new)
        for other in statements(known)
    )


def _reasoning_step(_prompt: str) -> dict[str, Any]:
    return {"thought": "", "action": "answer", "query": ""}


def _forgetting(prompt: str) -> dict[str, Any]:
    """The quotes that share a word with what is to be forgotten, and are no questions."""
    request = forget_request(str(_last_record(prompt, "messages").get("task", "")))
    about = request.about if request is not None else ""
    return {
        "uids": [
            record["uid"]
            for record in _records(prompt, "context")
            if about and shared(about, str(record.get("text", "")))
            and not is_question(str(record.get("text", "")))
        ]
    }  # fmt: skip


def _strict_answer(prompt: str) -> str:
    """The quotes that answer the task, as they are, each with its reference."""
    task = str(_last_record(prompt, "messages").get("task", ""))
    fitting = answering(
        [{**r, "text": str(r.get("text", ""))} for r in _records(prompt, "context")], task
    )
    return "\n".join(f"{r['text']} [{r.get('id', r['uid'])}]" for r in fitting[:QUOTED]) or UNKNOWN


def _summary(prompt: str) -> str:
    """The beginnings of what the user said; of questions only where he did nothing but ask."""
    records = [r for r in _records(prompt, "messages") if r.get("role") == "user"]
    texts = [(text, r) for r in records if (text := str(r.get("text", "")).strip())]
    told = [(text, r) for text, r in texts if not is_question(text)] or texts
    quotes = (f"{_whose(record)}«{shortened(text, SUMMARY_QUOTE)}»" for text, record in told)
    return "; ".join(dict.fromkeys(quotes)) or "—"


def _whose(record: dict[str, Any]) -> str:
    """Whose words a record holds, where they are not the user's."""
    names = [str(record[key]) for key in record if key.endswith("_from")]
    return f"{names[0]}: " if names else ""


def _merged(prompt: str) -> str:
    return "; ".join(str(r.get("summary", "")) for r in _records(prompt, "history_summary"))


def _form(fact: Fact, uid: str) -> dict[str, Any]:
    return {**fact.model_dump(include=TOLD), "message": uid}


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


def _last_record(prompt: str, tag: str) -> dict[str, Any]:
    records = list(_records(prompt, tag))
    return records[-1] if records else {}


_FORMS: dict[str, Callable[[str], dict[str, Any]]] = {
    "Understanding": _understanding,
    "ExtractedFacts": _extracted_facts,
    "Conflicts": _conflicts,
    "ReasoningStep": _reasoning_step,
    "Forgetting": _forgetting,
}
_TASKS: dict[str, Callable[[str], str]] = {
    ANSWER_PROMPT: _strict_answer,
    SUMMARY_PROMPT: _summary,
    MERGE_PROMPT: _merged,
}
