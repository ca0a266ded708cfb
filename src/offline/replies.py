"""What the offline model says to the results of its tools."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

from src.reading import lexicon
from src.reading.relations import asked_relations, endings_of, relation_term
from src.reading.sentences import FOLD, best_passage
from src.reading.statements import statements, told_by
from src.reading.words import ANIMALS, ANSWER_KINDS, Lemmas, content, kin_of
from src.texts import Language, say
from src.texts.morphology import lemmas, terms, words

QUOTED = 4  # quotes of one answer
LISTED = 20  # lines of an overview
FILE_QUOTE = 240  # characters of what is quoted of a file
SHARED = 0.5  # of the content words of a question must stand in what answers it
NAMED = 0.3  # of them, where one is the name of whom it is about
BEHIND = 0.34  # what shares so much less than the best is left out
# How similar must be what shares most of the words with the question, or only some. Without a
# shared word it must be SIMILAR and lead by LEAD; so may what shares some. What they let pass is
# counted by ``python -m benchmarks.irrelevance``.
MOST = 0.6
SIMILAR_IF_MOST, SIMILAR_IF_SOME, SIMILAR = 0.5, 0.76, 0.7
LEAD = 0.05
OF_ANOTHER = -1.0
HISTORY = re.compile(
    r"раньше|прежде|прежн|бывш|когда-то|раніше|колись|колишн|before|previous|used to|former",
    re.IGNORECASE,
)
# The one who asks is whom it is about: "где я живу", "у меня есть …"; "мою машину" is a thing.
ABOUT_ME = re.compile(
    r"(?<![\w-])(?:я|мы|мне|ми|мені|i|i'?m|we|[ув]\s(?:меня|мене|нас)|(?:меня|мене)\sзв?о?в\w+|"
    r"зовут\sменя)(?![\w-])",
    re.IGNORECASE,
)
OF_MINE = re.compile(
    r"(?<![\w-])(?:мо[йяеию]\w*|мо[єї]\w*|мого|мі[йм]\w*|наш\w*|меня|мене|my|our|mine|me)(?![\w-])",
    re.IGNORECASE,
)
# Questions for a name ask for words with a capital letter.
ASKS_NAME = re.compile(
    r"как (?:\w+ ){0,2}(?:зовут|звать|называ\w+)|\bкто (?:мо|у меня)|имя|кличк|як (?:\w+ ){0,2}"
    r"(?:звати|звуть|зветься|назива\w+)|\bхто (?:м|у мене)|ім'я|\bname\b|\bcalled\b|who(?:'?s|"
    r" is) my",
    re.IGNORECASE,
)
SAME_RELATIONS = ({"works_as", "works_at"}, {"married_to", "partner"})
Record = dict[str, Any]


def quote_found(found: Record, question: str, language: Language) -> str | None:
    """What was said that answers a question, newest first; None when nothing does.

    What held earlier stands below, marked, and only when it is asked for or nothing else is known.
    """
    if found.get("overview"):
        return _overview(found, language)
    fitting = answering(_records(found), question)
    now = sorted((r for r in fitting if r.get("holds", True)), key=_order, reverse=True)[:QUOTED]
    past = sorted((r for r in fitting if not r.get("holds", True)), key=_order, reverse=True)
    succeeded = [r for r in past if r.get("replaced_by")]
    if now and HISTORY.search(question) is None:
        past = [r for r in succeeded if not _stands_alone(now, r, question)]
    lines = [_line(r, language) for r in now]
    lines += [
        f"{say('offline_earlier', language)} {_line(r, language)[2:]}" for r in past[:QUOTED]
    ]
    if not lines:
        return None
    return f"{say('offline_quote_one', language)}\n\n" + "\n".join(lines)


def answering(records: Sequence[Record], question: str) -> list[Record]:
    """The records that have to do with a question, without those that fit far less than others.

    What took the place of a fitting fact fits as well: "we broke up" says who is engaged.
    """
    if Asked(question).is_of_asker:  # nobody answers for another; what he sent may be his own
        records = [r for r in records if r.get("of_asker", True) or _is_file(r)]
    records = [_narrowed(r, question) for r in records]
    told = [r for r in records if _is_told(r)]
    asked = Asked(question, told)
    scores = {
        _id(r): asked.score_of_file(r) if _is_file(r) else _weighed(asked.score(r), r, told)
        for r in told
    }
    if asked.is_about_me and any(scores[_id(r)] > 0 for r in told if not _is_file(r)):
        scores |= {_id(r): 0.0 for r in told if _is_file(r)}  # he himself tells best
    for record in told:
        if successor := record.get("replaced_by"):
            scores[successor] = max(scores.get(successor, 0.0), scores[_id(record)])
    best = max(scores.values(), default=0.0)
    return [r for r in told if scores[_id(r)] > max(0.0, best - BEHIND)]


def _weighed(score: float, record: Record, told: Sequence[Record]) -> float:
    """The share of the words, where the similarity does not speak against it; else 0.

    Without a shared word, what is far more similar than everything else counts as sharing some.
    """
    similarity = _similarity(record)
    if score < 0 or score == 1 or not similarity:  # 0: it has no vector yet
        return max(score, 0.0)
    leads = (
        similarity - max((_similarity(r) for r in told if r is not record), default=0.0) >= LEAD
    )
    if score == 0:
        return NAMED if leads and similarity >= SIMILAR else 0.0
    is_close = similarity >= (SIMILAR_IF_MOST if score >= MOST else SIMILAR_IF_SOME)
    return score if is_close or (leads and similarity >= SIMILAR_IF_MOST) else 0.0


def _similarity(record: Record) -> float:
    return float(record.get("similarity", 0))


class Asked:
    """What a question asks, and how well something that was said answers it."""

    def __init__(self, question: str, records: Sequence[Record] = ()) -> None:
        """Read the question; the names of kin are learnt from ``records``."""
        folded = question.translate(FOLD)
        found = words(question)
        self._roles = {role for word in found if (role := kin_of(word))}
        self._names = lemma_set(
            word
            for word in found[1:]
            if word[:1].isupper() and word.lower() not in lexicon.words("meaning.empty")
        )
        self.is_about_me = ABOUT_ME.search(folded) is not None and not self._roles
        self.is_of_asker = self.is_about_me or OF_MINE.search(folded) is not None
        self._relations = set(asked_relations(question))
        for same in SAME_RELATIONS:
            terms = {relation_term(relation) for relation in same}
            self._relations |= terms if terms & self._relations else set()
        self._ends = endings_of(self._relations)
        self._wants_name = ASKS_NAME.search(folded) is not None
        own = lemma_set(word for word in found if kin_of(word))
        self._wanted = [forms for forms in _wanted(question) if not forms & own]
        self._aliases = _aliases(self._roles, records)

    def score(self, record: Record) -> float:
        """Up to 1, the share of what is asked; below 0 when it is about somebody else."""
        text = record["text"]
        there = lemma_set(words(text))
        is_named = bool(self._names & there)
        if self._names and not is_named and not self._roles:
            return OF_ANOTHER
        if self._roles and not (self._speaks_of_role(text) or is_named):
            return OF_ANOTHER
        told = statements(text)
        subjects = {statement.subject for statement in told}
        if self.is_about_me and subjects and "user" not in subjects and not is_named:
            return OF_ANOTHER
        if self._relations & {relation_term(s.relation) for s in told} and (
            self._roles or not self.is_about_me or "user" in subjects
        ):
            return 1.0
        if any(re.search(end, text.lower().translate(FOLD)) for end in self._ends):
            return 1.0  # "we broke up" answers "do I have a girlfriend?"
        if not self._wanted or (self._wants_name and self._roles):
            return 1.0 if self._roles and (not self._wants_name or _has_name(text)) else OF_ANOTHER
        share = self._share(there)
        if share >= SHARED or (is_named and share >= NAMED):
            return share
        return 0.0

    def score_of_file(self, record: Record) -> float:
        """The same for the passage of a file, whose name counts with its words."""
        share = self._share(lemma_set(words(f"{record['from_file']} {record['text']}")))
        is_of_himself = self.is_about_me and (self._wants_name or self._relations)
        return share if share >= SHARED and not is_of_himself else 0.0

    def _share(self, there: Lemmas) -> float:
        """How many of the words that an answer must share are among these."""
        return sum(bool(forms & there) for forms in self._wanted) / max(1, len(self._wanted))

    def _speaks_of_role(self, text: str) -> bool:
        found = words(text)
        roles = {role for word in found if (role := kin_of(word))}
        is_pet = "pet" in self._roles and bool(roles & ANIMALS)
        return is_pet or bool(roles & self._roles) or bool(self._aliases & lemma_set(found))


def lemma_set(found: Iterable[str]) -> Lemmas:
    """The dictionary forms of all of these words."""
    return frozenset(form for word in found for form in lemmas(word))


def _aliases(roles: set[str], records: Sequence[Record]) -> Lemmas:
    """The names that stand beside a role: "моя жена — Ольга", "my son is called Leo"."""
    names = []
    for record in records:
        found = words(record["text"])
        for word, following in pairwise(found):
            if kin_of(word) in roles:
                names.append(following)
        names += [found[n + 2] for n, word in enumerate(found[:-2]) if kin_of(word) in roles]
        names += [
            found[n + 3]
            for n, word in enumerate(found[:-3])
            if kin_of(word) in roles and found[n + 2].lower() in {"called", "named"}
        ]
    return lemma_set(name for name in names if name[:1].isupper())


def _has_name(text: str) -> bool:
    return any(word[:1].isupper() for word in words(text)[1:])


def _stands_alone(now: Sequence[Record], past: Record, question: str) -> bool:
    """Whether what took the place of a fact speaks of what is asked; "no, on Friday" does not."""
    successor = next((r for r in now if _id(r) == past["replaced_by"]), None)
    if successor is None:
        return True
    there = lemma_set(words(successor["text"]))
    return any(forms & there for forms in _wanted(question))


def _id(record: Record) -> str:
    return str(record.get("id") or record.get("uid"))


def _is_told(record: Record) -> bool:
    """Whether it is a fact, or a message that tells something; a summary is nobody's words."""
    kind = _id(record).partition("-")[0]
    if kind == "fact" or _is_file(record):
        return True
    return kind != "summary" and bool(told_by(record["text"]))


def _is_file(record: Record) -> bool:
    return bool(record.get("from_file"))


def _narrowed(record: Record, question: str) -> Record:
    """Of a file the sentences that have to do with the question; its meaning is that of all."""
    if not _is_file(record):
        return record
    text = best_passage(record["text"], frozenset(terms(question)), FILE_QUOTE)
    return {**record, "text": text}


def corrected(found: Record, correction: str) -> Record | None:
    """The fact that a correction is about: the newest that shares a word, else the newest."""
    said = frozenset[str]().union(*content(correction))
    records = sorted((r for r in _records(found) if r.get("holds", True)), key=_order)
    sharing = [r for r in records if said & lemma_set(words(r["text"]))]
    newest = [r for r in records if _order(r) == _order(records[-1])]
    chosen = [r for r in newest if r in sharing] or newest or sharing
    return chosen[-1] if chosen else None


def describe_saved(results: Sequence[dict[str, Any]], language: Language) -> str:
    """What became of each fact, each outcome once."""
    lines = dict.fromkeys(line for result in results for line in _saved(result, language))
    return "\n".join(lines) or say("offline_note", language)


def describe_forgotten(found: dict[str, Any], language: Language) -> str:
    """What is forgotten; or which of several is meant; or what is nearest to what is not there."""
    if found.get("forgotten"):
        lines = [say("forgot", language, text=text) for text in dict.fromkeys(found["forgotten"])]
        return "\n".join([*lines, say("forgot_undo", language)])
    if found.get("ask"):
        options = _quotes(found["ask"][:LISTED], language)
        return f"{say('forget_which', language)}\n{options}"
    if found.get("nearest"):
        nearest = _quotes(found["nearest"][:3], language)
        return f"{say('forgot_nothing', language)} {say('forget_nearest', language)}\n{nearest}"
    return say("forgot_nothing", language)


def _quotes(entries: Sequence[Record], language: Language) -> str:
    """A line for each."""
    return "\n".join(f"• {say('quoted', language, text=entry['text'])}" for entry in entries)


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
        known = ("refused_secret", "refused_unclear_date", "refused_memory_off")
        yield say(key if key in known else "refused_other", language)


def _wanted(question: str) -> list[Lemmas]:
    """The content words that an answer must share; the kind of answer only where it is alone."""
    found = list(content(question))
    kinds = frozenset[str]().union(*(c for kind in ANSWER_KINDS for c in content(kind)))
    rest = [forms for forms in found if not forms & kinds]
    return rest or found


def _overview(found: dict[str, Any], language: Language) -> str | None:
    holding = [r for r in _records(found) if r.get("holds", True)]
    told = [r for r in holding if _is_told(r)] or holding
    lines = [_line(r, language) for r in told[:LISTED]]
    key = f"offline_overview_{found['overview']}"
    return f"{say(key, language)}\n\n" + "\n".join(lines) if lines else None


def _records(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [r for r in found.get("memories") or () if isinstance(r, dict) and r.get("text")]


def _line(record: dict[str, Any], language: Language) -> str:
    told = str(record.get("quote") or record["text"])
    if _is_file(record):
        told = best_passage(told, (), FILE_QUOTE)
    author = record.get("words_of") or record.get("from_file") or record.get("speaker")
    text = f"{author}: {told}" if author else told
    line = say("offline_quote", language, said_at=_day(record["said_at"]), text=text)
    dates = f" ({', '.join(record['dates'])})" if record.get("dates") else ""
    return f"{line}{dates} [{record['n']}]"


def _order(record: Record) -> tuple[str, int]:
    """By time, and within a minute by the number of the message."""
    number = str(record["uid"]).rpartition("-")[2]
    return str(record["said_at"]), int(number) if number.isdigit() else 0


def _day(said_at: str) -> str:
    """``2026-11-21 14:05`` as people write it."""
    try:
        return f"{datetime.fromisoformat(said_at):%d.%m.%Y %H:%M}"
    except ValueError:
        return said_at
