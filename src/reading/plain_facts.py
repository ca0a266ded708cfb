"""Facts that a text states beyond doubt: a name, a birthday, and what it asks to remember.

The meaning of other statements is left to a language model; they are found as they are.
"""

import re
from datetime import UTC, datetime
from functools import cache

from src.reading import lexicon
from src.reading.facts import BY_NAME, Fact
from src.reading.gate import holds_secret
from src.reading.reminder_phrases import read_reminder
from src.reading.requests import asks_to_keep_private, forget_request
from src.reading.sentences import FOLD, MAX_SENTENCE, OPENER, is_question, sentences
from src.texts.morphology import NAMES, parts_of_speech

MAX_FACTS = 8  # per text
VALUES = {
    "name": r"[^\W\d_][\w'-]*(?: (?-i:[A-ZА-ЯІЇЄҐ])[\w'-]*)?",
    "date": r"(?=.*\d)[\w\s.,/-]{3,30}",
}
# Of other words than names: "меня зовут домой", "my name is important".
NO_NAME = frozenset({"ADVB", "PREP", "CONJ", "PRCL", "NPRO", "VERB", "INFN", "PRED", "COMP"})
JOINT = re.compile(r"\s*[,;]\s*(?:(?:and|и|і|та|а)\s+)?|\s+(?:and|и|і|та)\s+", re.IGNORECASE)
REMEMBER = lexicon.AnyCase(r"<lines.remember>[\s,:—–-]*(?:<lines.that>\b[\s,:]*)?")
# The order to keep a secret precedes or follows it: "gate code is 4471, remember it".
KEEP_SECRET = lexicon.AnyCase(
    r"(?<![\w'])(?<!n't )(?<!\bnt )(?<!\bi )(?<!\bto )(?<!\byou )(?<!\bwe )(?<!\bне )(?<!not )"
    r"(?:<lines.remember>|<secrets.keep>(?![\w']))[\s,:—–-]*(?:<lines.that>\b[\s,:]*)?"
)
PLEASE_LAST = lexicon.AnyCase(r"[\s,]+<requests.please>$")


def plain_facts(text: str) -> list[Fact]:
    """Return the facts of sentences that state nothing else; each text is part of a sentence.

    A sentence is one fact, or those of its clauses that state one: the first one does, or all do;
    none takes it back ("…, or so they say").
    """
    found: list[Fact] = []
    for sentence in sentences(text):
        sentence = sentence.strip().strip(" ,.!…")
        if len(sentence) > MAX_SENTENCE:
            continue
        sentence = sentence[OPENER.behind(sentence.translate(FOLD)) :].strip()
        whole = _read_clause(sentence)
        if whole is not None:
            found.append(whole)
            continue
        clauses = [clause.strip() for clause in JOINT.split(sentence)]
        begins = {word.lower() for clause in clauses for word in clause.split()[:1]}
        facts = [_read_clause(clause) for clause in clauses]
        if facts[0] is not None and begins.isdisjoint(lexicon.words("facts.doubting")):
            found += [fact for fact in facts if fact is not None]
    return found[:MAX_FACTS]


def to_remember(text: str) -> str | None:
    """Return the text after "remember that …", "запомни: …", or None without such an order."""
    folded = text.translate(FOLD)
    order = REMEMBER.match(folded, OPENER.behind(folded)) or REMEMBER.match(folded)
    return (text[order.end() :].strip() or None) if order is not None else None


def secret_to_keep(text: str) -> str:
    """Return the part of a message with a secret that is to be remembered, or ""."""
    for order in KEEP_SECRET.finditer(text.translate(FOLD)):
        secret = text[order.end() :].strip()
        before = PLEASE_LAST.sub("", text[: order.start()].rstrip(" ,;.–—-"))
        return secret if holds_secret(secret) else before.strip()
    return ""


def told_secrets(text: str) -> str:
    """Return the sentences of a message that tell a secret, or "" if it asks or orders something.

    Args:
        text: A message without secrets, but for those that may be kept: of a door, of a wifi.
    """
    is_order = forget_request(text) is not None or asks_to_keep_private(text)
    if is_order or is_question(text) or read_reminder(text, datetime.now(UTC), "UTC") is not None:
        return ""
    told = [one.strip() for one in sentences(text) if holds_secret(one)]
    return " ".join(told).rstrip(".!")


def _read_clause(clause: str) -> Fact | None:
    folded = clause.translate(FOLD)
    for relation, pattern in _patterns():
        if (match := pattern.fullmatch(folded)) is not None:
            value = clause[match.start("value") : match.end("value")]
            if relation == "name" and not is_name(value):
                continue
            importance = BY_NAME[relation].importance
            return Fact(text=clause, relation=relation, object=value, importance=importance)
    return None


def is_name(text: str) -> bool:
    """Return True if a text may be a name: with a capital, or a name in the dictionaries.

    English has no dictionary here: any lower-case word that is none of a few others counts.
    """
    first = text.split()[0]
    tags = parts_of_speech(first)
    if tags & NAMES:
        return True
    no_names = lexicon.words("facts.no_name") | lexicon.words("search.stop_words")
    if tags & NO_NAME or first.lower() in no_names or first.endswith("n't"):
        return False
    return first[0].isupper() or first.isascii()


@cache
def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    pieces = {name: f"(?P<value>{source})" for name, source in VALUES.items()}
    return [
        (relation, re.compile(source.replace(" ", r"\s+"), re.IGNORECASE))
        for relation, sources in lexicon.rules("facts.told", pieces).items()
        for source in sources
    ]
