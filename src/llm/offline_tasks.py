"""The offline model in structured calls and in tasks without tools: strict mode, summaries."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from src.llm.offline_facts import OfflineFact, forget_request, is_question, parse_facts
from src.llm.offline_replies import related, relevant_uids
from src.llm.prompts.reasoning import ANSWER_PROMPT, UNKNOWN
from src.llm.prompts.summary import MERGE_PROMPT, SUMMARY_PROMPT
from src.texts import detect_language, say

QUOTED = 3  # quotes of one answer
SUMMARY_QUOTE = 70  # characters of each message in a summary
# Relations that hold one value, beside favourite_<thing>.
ONE_VALUE = frozenset(
    word
    for line in (
        "name age birthday lives_in address works_as works_at studies_at",
        "married_to partner diet phone email shoe_size car",
    )
    for word in line.split()
)


def fill_form(form: str, prompt: str) -> dict[str, Any]:
    """The arguments of the call that a structured prompt demands; empty for an unknown form."""
    fill = _FORMS.get(form)
    return fill(prompt) if fill is not None else {}


def do_task(system: str, prompt: str) -> str | None:
    """The text for a task that the system prompt sets; None when it sets none."""
    task = _TASKS.get(system)
    return task(prompt) if task is not None else None


def _understanding(prompt: str) -> dict[str, Any]:
    record = _last_record(prompt, "messages")
    text = str(record.get("text", ""))
    wanted = forget_request(text)
    if wanted is not None:
        return {"intent": "forget", "facts": [], "query": wanted}
    facts = parse_facts(text)
    return {
        "intent": "teach" if facts else "solve",
        "facts": [_form(fact, str(record.get("uid", ""))) for fact in facts],
        "query": "",
    }


def _extracted_facts(prompt: str) -> dict[str, Any]:
    return {
        "facts": [
            _form(fact, str(record.get("uid", "")))
            for record in _records(prompt, "messages")
            if record.get("role") == "user"
            for fact in parse_facts(str(record.get("text", "")))
        ]
    }


def _conflicts(prompt: str) -> dict[str, Any]:
    new = list(_records(prompt, "messages"))
    known = list(_records(prompt, "memories"))
    return {
        "conflicts": [
            {"new": n["new"], "known": k["known"], "confidence": 1.0}
            for n in new
            for k in known
            if _contradicts(str(n.get("text", "")), str(k.get("text", "")))
        ]
    }


def _reasoning_step(_prompt: str) -> dict[str, Any]:
    return {"thought": "", "action": "answer", "query": ""}


def _forgetting(prompt: str) -> dict[str, Any]:
    wanted = forget_request(str(_last_record(prompt, "messages").get("task", "")))
    return {"uids": relevant_uids({"memories": list(_records(prompt, "context"))}, wanted or "")}


def _strict_answer(prompt: str) -> str:
    """The quotes that have to do with the task, as they are, each with its reference."""
    quotes = [
        record
        for record in related(list(_records(prompt, "context")))
        if not is_question(str(record.get("text", "")))
    ]
    lines = [f"{quote['text']} [{quote['uid']}]" for quote in quotes[:QUOTED]]
    return "\n".join(lines) or UNKNOWN


def _summary(prompt: str) -> str:
    """The beginnings of what the user said."""
    texts = [
        str(record.get("text", ""))
        for record in _records(prompt, "messages")
        if record.get("role") == "user"
    ]
    quotes = "; ".join(f"«{text[:SUMMARY_QUOTE].strip()}»" for text in texts if text.strip())
    return say("offline_summary", detect_language(quotes, "ru"), quotes=quotes or "—")


def _merged(prompt: str) -> str:
    summaries = [str(r.get("summary", "")) for r in _records(prompt, "history_summary")]
    return " ".join(summaries)


def _contradicts(new: str, known: str) -> bool:
    """Whether two statements give one relation two values."""
    for fact in parse_facts(new):
        for other in parse_facts(known):
            same = (fact.subject.lower(), fact.relation) == (
                other.subject.lower(),
                other.relation,
            )
            holds_one = fact.relation in ONE_VALUE or fact.relation.startswith("favourite_")
            if same and holds_one and fact.object.lower() != other.object.lower():
                return True
    return False


def _form(fact: OfflineFact, uid: str) -> dict[str, Any]:
    return {
        "text": fact.text,
        "memory_type": fact.memory_type,
        "importance": fact.importance,
        "quote": fact.quote,
        "message": uid,
        "subject": fact.subject,
        "relation": fact.relation,
        "object": fact.object,
    }


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
