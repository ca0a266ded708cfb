"""What the offline model says to the results of its tools."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from src.llm.offline_facts import is_question
from src.texts import Language, say

QUOTED = 3  # memories of one answer
# Of 59 facts that do not answer a question, one reaches this similarity in one case of three; of
# those that answer it, seven of ten do. The others share a word or a relation with it.
SIMILAR = 0.67
NEAR_BEST = 0.35  # what scores less than the best one by so much is not quoted
HISTORY = re.compile(r"раньше|прежде|прежн|раніше|колись|before|previous|used to", re.IGNORECASE)
PREFIX = 4  # letters that two forms of a word share
# Words that nearly every question has; their beginnings mean nothing.
EMPTY_STEMS = frozenset(
    word[:PREFIX]
    for line in (
        "какой какого какая какую какие когда меня моего моему моей моих моём мною тебе сколько",
        "почему зачем откуда скажи расскажи напомни помнишь знаешь говорил говорила сказал",
        "який якої якого яким коли чому звідки мені мене мого моєї моїх мною тобі скільки навіщо",
        "скажи розкажи нагадай пам'ятаєш знаєш казав казала",
        "what when where which whose does have about tell your know said told that this with",
    )
    for word in line.split()
)


def quote_found(found: dict[str, Any], question: str, language: Language) -> str | None:
    """The memories that fit, each with its date and number; None when there is none.

    What was replaced by something newer is quoted only when the question asks for history.
    """
    asks_history = HISTORY.search(question) is not None
    memories = [
        memory
        for memory in _relevant(found)
        if not is_question(memory["text"]) and ("note" not in memory or asks_history)
    ][:QUOTED]
    if not memories:
        return None
    lines = [
        f"{say('offline_quote', language, said_at=_day(m['said_at']), text=m['text'])} [{m['n']}]"
        for m in memories
    ]
    return f"{say('offline_quote_one', language)}\n\n" + "\n".join(lines)


def relevant_uids(found: dict[str, Any], wanted: str) -> list[str]:
    """References of the memories that a request to forget means: sharing a word, else the best."""
    memories = _relevant(found)
    sharing = [memory for memory in memories if stems(wanted) & stems(memory["text"])]
    return [memory.get("id") or memory["uid"] for memory in sharing or memories[:1]]


def describe_saved(results: Sequence[dict[str, Any]], language: Language) -> str:
    """What became of the facts of a message."""
    lines = [_describe_one(result, language) for result in results if result]
    return "\n".join(lines) or say("offline_note", language)


def describe_forgotten(result: dict[str, Any], language: Language) -> str:
    """What is forgotten now."""
    texts = result.get("forgotten") or []
    if not texts:
        return say("forgot_nothing", language)
    return "\n".join(say("forgot", language, text=text) for text in texts)


def _describe_one(result: dict[str, Any], language: Language) -> str:
    text, outcome = str(result.get("text", "")), result.get("outcome")
    if outcome == "refused":
        key = f"refused_{result.get('reason')}"
        known = ("refused_secret", "refused_instruction", "refused_unclear_date")
        return say(key if key in known else "refused_other", language)
    if outcome == "update":
        old = "; ".join(result.get("replaced") or [])
        return say("offline_replaced", language, text=text, old=old)
    return say("offline_known" if outcome == "same" else "offline_saved", language, text=text)


def related(memories: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What shares words with the query or is close to it in meaning, and not far from the best."""
    fitting = [
        memory
        for memory in memories
        if memory.get("lexical", 0.0) > 0 or memory.get("similarity", 0.0) >= SIMILAR
    ]
    best = max((_score(memory) for memory in fitting), default=0.0)
    return [memory for memory in fitting if _score(memory) >= best - NEAR_BEST]


def _relevant(found: dict[str, Any]) -> list[dict[str, Any]]:
    return related([m for m in found.get("memories") or () if isinstance(m, dict)])


def _score(memory: dict[str, Any]) -> float:
    return float(memory.get("score", memory.get("similarity", 0.0)))


def stems(text: str) -> set[str]:
    """The beginnings of the words that say something."""
    words = re.findall(r"[^\W\d_]{4,}", text.lower().replace("ё", "е"))
    return {word[:PREFIX] for word in words} - EMPTY_STEMS


def _day(said_at: str) -> str:
    try:
        return datetime.fromisoformat(said_at).strftime("%d.%m.%Y %H:%M")
    except ValueError:
        return said_at
