"""What the offline model says to the results of its tools."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from src.language.content import ANSWER_KINDS, Lemmas, content
from src.language.kin import kin_of
from src.language.morphology import words
from src.language.relation_questions import asked_relations, relation_term
from src.language.sentences import FOLD
from src.llm.offline.statements import statements, subject_of
from src.texts import Language, detect_language, say

QUOTED = 4  # quotes of one answer
LISTED = 20  # lines of an overview
SHARED = 0.5  # of the content words of a question must stand in what answers it
# Of 59 facts that do not answer a question, one reaches this similarity in one case of ten.
SIMILAR = 0.78
HISTORY = re.compile(
    r"раньше|прежде|прежн|бывш|когда-то|раніше|колись|колишн|before|previous|used to|"
    r"former",
    re.IGNORECASE,
)
ABOUT_ME = re.compile(
    r"\b(?:я|мы|мне|меня|мной|нас|нам|ми|мені|мене|i|i'm|me|my|we|our|mine)\b", re.IGNORECASE
)
POSSESSED = re.compile(
    r"\b(?:мо[йяеиюй]|моего|моему|моей|моим|моих|мою|мій|моє|мої|моєї|моєму|моїх|мого|моєю|"
    r"наш\w*|my|our)\s+"
    r"(?:(?:старш|младш|бывш|молодш|колишн|любим|улюблен|favou?rite|older|younger|little|big|"
    r"ex)[\w-]*\s+)?([\w'-]+)",
    re.IGNORECASE,
)


def quote_found(found: dict[str, Any], question: str, language: Language) -> str | None:
    """What was said that answers a question, newest first; None when nothing does.

    What held earlier stands below, marked, and only when it is asked for or nothing else is known.
    """
    if found.get("overview"):
        return _overview(found, language)
    records = [r for r in _records(found) if statements(r["text"])]
    fitting = [r for r in records if answers(r, question, records)]
    now = sorted((r for r in fitting if r.get("holds", True)), key=_said, reverse=True)[:QUOTED]
    past = sorted((r for r in fitting if not r.get("holds", True)), key=_said, reverse=True)
    if now and HISTORY.search(question) is None:
        past = []
    lines = [_line(r, language) for r in now]
    lines += [
        f"{say('offline_earlier', language)} {_line(r, language)[2:]}" for r in past[:QUOTED]
    ]
    if not lines:
        return None
    return f"{say('offline_quote_one', language)}\n\n" + "\n".join(lines)


def answers(record: dict[str, Any], question: str, records: Sequence[dict[str, Any]]) -> bool:
    """Whether something that was said truly has to do with a question.

    It is about the same person, and asks for the relation that it tells, or shares half of the
    question's content words; likeness of meaning alone only from SIMILAR on.
    """
    told = statements(record["text"])
    whose, named = asked_subject(question)
    asked = set(asked_relations(question))
    there = frozenset[str]().union(*content(record["text"]))
    if named is not None and not _speaks_of(named, record, records, whose):
        return False
    subjects = {statement.subject for statement in told}
    if named is None and whose == "user" and subjects and "user" not in subjects:
        return False
    if asked & {relation_term(s.relation) for s in told if s.subject == whose or named}:
        return True
    wanted = _wanted(question)
    if wanted:
        share = sum(bool(forms & there) for forms in wanted) / len(wanted)
        if share >= SHARED:
            return True
    return float(record.get("similarity", 0)) >= SIMILAR


def asked_subject(question: str) -> tuple[str, Lemmas | None]:
    """Whom a question is about: the role (or ``user``), and the word that names it, if another."""
    language = detect_language(question)
    folded = question.translate(FOLD)
    owned = POSSESSED.search(folded)
    if owned is not None:
        forms = frozenset[str]().union(*content(owned[1]))
        role = kin_of(owned[1], language)
        if role is not None and forms:
            return role, forms
    for word in words(question):
        role = kin_of(word, language)
        if role is not None:
            return role, frozenset[str]().union(*content(word)) or None
    if ABOUT_ME.search(folded) or owned is not None:
        return "user", None
    subject = subject_of(question)
    return (subject, None)


def describe_saved(results: Sequence[dict[str, Any]], language: Language) -> str:
    """What became of each fact, each outcome once."""
    lines = dict.fromkeys(line for result in results for line in _saved(result, language))
    return "\n".join(lines) or say("offline_note", language)


def describe_forgotten(found: dict[str, Any], language: Language) -> str:
    """What is forgotten; or which of several is meant; or what is nearest to what is not there."""
    if found.get("forgotten"):
        lines = [say("forgot", language, text=text) for text in found["forgotten"]]
        return "\n".join([*lines, say("forgot_undo", language)])
    if found.get("ask"):
        options = "\n".join(f"• «{entry['text']}»" for entry in found["ask"][:LISTED])
        return f"{say('forget_which', language)}\n{options}"
    if found.get("nearest"):
        nearest = "\n".join(f"• «{entry['text']}»" for entry in found["nearest"][:3])
        return f"{say('forgot_nothing', language)} {say('forget_nearest', language)}\n{nearest}"
    return say("forgot_nothing", language)


def _saved(result: dict[str, Any], language: Language) -> Iterator[str]:
    text = str(result.get("text", ""))
    if result.get("outcome") == "same":
        yield say("offline_known", language, text=text)
    elif result.get("replaced"):
        yield say("offline_replaced", language, text=text, old="; ".join(result["replaced"]))
    elif result.get("outcome") == "outdated":
        yield say("taught_outdated", language, text=text)
    elif result.get("saved"):
        yield say("offline_saved", language, text=text)
    else:
        key = f"refused_{result.get('reason')}"
        known = ("refused_secret", "refused_unclear_date")
        yield say(key if key in known else "refused_other", language)


def _wanted(question: str) -> list[Lemmas]:
    """The content words that an answer must share; the kind of answer only where it is alone."""
    found = list(content(question))
    kinds = frozenset[str]().union(*(c for kind in ANSWER_KINDS for c in content(kind)))
    rest = [forms for forms in found if not forms & kinds]
    return rest or found


def _speaks_of(
    named: Lemmas, record: dict[str, Any], records: Sequence[dict[str, Any]], role: str
) -> bool:
    """Whether a record names whom the question is about, by the word, the role, or a name."""
    language = detect_language(record["text"])
    if any(kin_of(word, language) == role for word in words(record["text"])):
        return True
    if named & frozenset[str]().union(*content(record["text"])):
        return True
    names = {
        word for other in records for word in words(other["text"])
        if word[:1].isupper() and named & frozenset[str]().union(*content(other["text"]))
    } - {words(other["text"])[0] for other in records if words(other["text"])}  # fmt: skip
    return any(
        frozenset[str]().union(*content(name)) & frozenset[str]().union(*content(record["text"]))
        for name in names
    )


def _overview(found: dict[str, Any], language: Language) -> str | None:
    lines = [_line(r, language) for r in _records(found) if r.get("holds", True)][:LISTED]
    key = f"offline_overview_{found['overview']}"
    return f"{say(key, language)}\n\n" + "\n".join(lines) if lines else None


def _records(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [r for r in found.get("memories") or () if isinstance(r, dict) and r.get("text")]


def _line(record: dict[str, Any], language: Language) -> str:
    day = _day(record["said_at"])
    return f"{say('offline_quote', language, said_at=day, text=record['text'])} [{record['n']}]"


def _said(record: dict[str, Any]) -> str:
    return str(record["said_at"])


def _day(said_at: str) -> str:
    """``2026-11-21 14:05`` as people write it."""
    try:
        return f"{datetime.fromisoformat(said_at):%d.%m.%Y %H:%M}"
    except ValueError:
        return said_at
