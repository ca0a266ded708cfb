"""From a message to its sentences, from a sentence to its clauses, from a clause to its reading.

People write "меня зовут анна живу в киеве работаю врачом": a sentence is cut where what follows
says something by the grammar, with or without a comma. Everything works on a *folded* copy of
the message that is as long as the message, so that any span can be quoted as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from typing import Literal

from src.llm.offline_grammar import Case, compile_pattern, rules

Span = tuple[int, int]
Who = Literal["user", "role", "pronoun", "name", "nobody"]

MAX_SENTENCE = 500  # characters; what is longer is no statement but a document
MAX_SENTENCES = 200  # of one message; the longest message of Telegram has about a hundred
MAX_CUTS = 24  # commas, conjunctions and such in a sentence; more of them is a list

_LETTERS = str.maketrans("ёЁ’ʼ‘`´", "еЕ'''''")
_SMILEYS = re.compile(
    r"[\u2190-\u2bff\u200d\ufe0f\u20e3\U0001f000-\U0001faff]+|(?<=\s)[:;=xX]-?[()DpPрР]+(?!\w)"
)
_BRACKETS = re.compile(r"\){2,}|\({2,}")
# A run of full stops is looked at from its beginning only, once. So much space is between two
# things that are told, and the rules below would try each of its places.
_SENTENCE_END = re.compile(r"[!?…]+|[\n;]+|\s{10,}+|(?<!\.)\.++(?=\s|$|[А-ЯІЇЄҐ])")
_WORD = re.compile(r"\w")
_ABBREVIATION = re.compile(
    r"\b(?:[A-ZА-ЯІЇЄҐ]|ул|г|д|кв|им|ім|св|просп|пр|пер|обл|вул|буд|бул|тел|т|стр|тыс|тис|"
    r"млн|руб|грн|эт|St|Mr|Mrs|Ms|Dr|Prof)$"
)
# What may stand at the ends of a statement: letters, digits, and what belongs to them.
_OPENING = re.compile(r"[\w«“„\"'(\[+#@$€£₴]")
_CLOSING = re.compile(r"[\w»”\"')\]%+°$€£₴₽]")

# A clause may begin after a comma, after a conjunction, and before words that begin clauses.
_SEPARATOR = re.compile(
    r"\s*,\s*(?:(?:а|и|но|та|і|й|але|зато|and|but|so)\s+)?"
    r"|\s+(?:а|и|но|та|і|й|але|and|but|plus)\s+"
    r"|\s+(?=(?:я|[ув]\s+(?:меня|мене)|мо[йяеиї]|моє|мій|i|i'm|i've|my|he|she|his|her)\s)"
    r"|\s+(?=(?:меня|мене|его|ее|його|її)\s+(?:зовут|звать|звати|звуть)\s)"
    r"|\s+(?=(?:мне|мені|ему|ей|йому|їй)\s+(?:\d|не\s+нрав|нрав|подоб|не\s+подоб|уже|вже))"
    r"|(?<!\bя)(?<!\bмы)(?<!\bми)(?<!\bне)(?<!\bочень)(?<!\bдуже)(?<!\bуже)(?<!\bтеперь)\s+"
    r"(?=(?:не\s+)?(?:живу|работаю|учусь|люблю|обожаю|ненавижу|мешкаю|працюю|навчаюся|обожнюю|"
    r"ненавиджу)\s)",
    re.IGNORECASE,
)
# "Если я живу в Москве, …": nothing in such a sentence holds by itself.
_CONDITION = re.compile(r"(?:если|якщо|if|unless|когда|коли|when|хотя|хоча)\b", re.IGNORECASE)

# Who a clause may be about, which rules may follow, and how that begins it; in this order.
_SUBJECTS: tuple[tuple[Who, tuple[Case, ...], str], ...] = (
    ("user", ("at",), r"(?:у|в) (?:меня|мене|нас)\b"),
    ("user", ("verb", "noun"), r"(?:я|мы|ми)(?: {with} (?:{my} )?{role})?\b|i(?=m\b|ve\b)"),
    ("user", ("verb", "noun"), r"(?:мне|мені|нам|меня|мене|нас|i|we)\b"),
    ("user", ("my",), r"{my}\b"),
    ("role", ("at",), r"(?:у|в) (?:{my} )?(?P<person>{person})\b"),
    ("role", ("my",), r"(?:{my} )?(?P<person>{person})'s\b"),
    ("role", ("verb", "noun"), r"{of_me}(?P<person>{person})\b"),
    ("role", ("verb", "noun"), r"{of_me}(?P<person>{person}) {capitals}\b"),
    ("pronoun", ("at",), r"(?:у|в) (?:него|нее|них|нього|неї)\b"),
    ("pronoun", ("verb", "noun"), r"(?:он[аи]?|він|вон[аи]|ему|ей|им|йому|їй|їм)\b"),
    ("pronoun", ("verb", "noun"), r"(?:he|she|they|it)\b"),
    ("pronoun", ("verb", "my"), r"(?:его|ее|их|його|її|їх|his|her|their|its)\b"),
    ("nobody", ("verb", "my", "whole"), r""),
    ("name", ("my",), r"(?P<person>{capitals})'s\b"),
    ("name", ("verb", "noun"), r"(?P<person>{capitals})\b"),
)
# Words before the subject, and between it and the verb, that change nothing here.
_ADVERBS = re.compile(
    r"(?:(?:теперь|сейчас|тоже|также|уже|очень|просто|давно|недавно|вчера|вообще|сам|сама|наконец|"
    r"только что|до сих пор|больше всего|с детства|в основном|снова|еще|ще|тепер|зараз|теж|також|"
    r"вже|дуже|нещодавно|вчора|щойно|досі|нарешті|знову|кстати|к счастью|на самом деле|now|also|"
    r"just|really|currently|recently|still|already|actually|finally|too|always)\b[\s,]*)*",
    re.IGNORECASE,
)
# "Летом переехала", "Все любят …": capitalised words that are nobody's name.
_NO_NAME = re.compile(
    r"(?:летом|зимой|весной|осенью|влітку|взимку|навесні|восени|потом|потім|затем|раньше|раніше|"
    r"все|всі|никто|ніхто|кто|хто|люди|каждый|кожен|многие|then|last|all|every|everyone|people|"
    r"nobody|somebody|someone|some|many|this|that|there|the|who)\b",
    re.IGNORECASE,
)
# What is said of something of somebody's and needs no "my" before it.
_BARE_MY = frozenset({"birthday", "phone", "email", "shoe_size", "favourite"})
_COPULA = re.compile(r"[:=–—]|\s-\s")
# What English tells without a subject; any other bare verb is rather a command.
_BARE_ENGLISH = frozenset(
    {"likes", "dislikes", "lives_in", "works_at", "works_as", "studies_at", "allergic_to"}
    | {"born_in", "visited", "name", "favourite", "general"} | _BARE_MY
)  # fmt: skip


@dataclass(frozen=True)
class Reading:
    """What a clause says by the grammar.

    Attributes:
        relation: The first word of the rule: a relation, or ``has``, ``favourite``, ``general``.
        who: Whose clause it is; ``nobody`` when no subject stands in it.
        person: The role or name that stands in it as the subject.
        said: The match of the rule.
    """

    relation: str
    who: Who
    person: Span | None
    said: re.Match[str]

    def span(self, group: str) -> Span | None:
        """Where a group of the rule matched; None when it did not, or the rule has none."""
        found = self.said.groupdict().get(group) is not None
        return self.said.span(group) if found else None


@dataclass(frozen=True)
class Clause:
    """A part of a sentence: where it stands, and what it says if the grammar knows."""

    start: int
    end: int
    reading: Reading | None
    after_comma: bool = True


def fold(text: str) -> str:
    """The text with "е" for "ё", straight apostrophes and spaces for smileys, as long as before.

    Closing brackets that close nothing are smileys too and end a sentence.
    """
    folded = _SMILEYS.sub(lambda match: " " * len(match[0]), text.translate(_LETTERS))
    folded = _BRACKETS.sub(lambda match: ".".ljust(len(match[0])), folded)
    return folded if "(" in folded else folded.replace(")", ".")


def narrow(text: str, start: int, end: int) -> Span:
    """The span without the white space and the punctuation at its ends."""
    while start < end and not _OPENING.match(text, start):
        start += 1
    while start < end and not _CLOSING.match(text, end - 1):
        end -= 1
    return start, end


def sentences(text: str) -> Iterator[Span]:
    """The spans of the first sentences, question marks included, nothing over MAX_SENTENCE.

    What has no letter or digit is none.
    """
    return islice(filter(partial(_has_words, text), _between_marks(text)), MAX_SENTENCES)


def _has_words(text: str, span: Span) -> bool:
    return span[1] - span[0] <= MAX_SENTENCE and _WORD.search(text, *span) is not None


def _between_marks(text: str) -> Iterator[Span]:
    """The text, cut after each mark that ends a sentence."""
    start = 0
    for mark in _SENTENCE_END.finditer(text):
        if mark[0] == "." and _ABBREVIATION.search(
            text, max(start, mark.start() - 8), mark.start()
        ):
            continue
        yield start, mark.start() if mark[0].isspace() else mark.end()
        start = mark.end()
    yield start, len(text)


def clauses(text: str, start: int, end: int) -> list[Clause]:
    """The clauses of a sentence of the folded ``text``; those without a reading stay together."""
    cuts = list(_SEPARATOR.finditer(text, start, end))
    if len(cuts) > MAX_CUTS or _CONDITION.match(text, start, end):
        cuts = []
    found: list[Clause] = []
    for cut in reversed(cuts):
        part = narrow(text, cut.end(), end)
        reading = read_clause(text, *part, first=False)
        if reading is not None:
            found.append(Clause(*part, reading, "," in cut[0]))
            end = cut.start()
    part = narrow(text, start, end)
    found.append(Clause(*part, read_clause(text, *part)))
    return _join_weak(text, found[::-1])


def read_clause(text: str, start: int, end: int, *, first: bool = True) -> Reading | None:
    """What ``text[start:end]`` says by the grammar; None when no rule fits.

    Args:
        text: Folded.
        start: Where the clause begins.
        end: Where it ends.
        first: Nothing stands before it in its sentence.
    """
    return next(_readings(text, start, end, first), None)


def find_role(text: str, start: int, end: int) -> Span | None:
    """Where somebody close is named at the beginning of ``text[start:end]``: "мой брат"."""
    start = skip_adverbs(text, start, end)
    for who, _, pattern in _subjects():
        subject = pattern.match(text, start, end) if who == "role" else None
        if subject is not None:
            return subject.span("person")
    return None


def _join_weak(text: str, found: list[Clause]) -> list[Clause]:
    """Join what was cut without a comma to a clause that says nothing: "I think | I love tea"."""
    joined = found[:1]
    for clause in found[1:]:
        before = joined[-1]
        if clause.after_comma or before.reading is not None:
            joined.append(clause)
            continue
        whole = read_clause(text, before.start, clause.end)
        joined[-1] = Clause(before.start, clause.end, whole, before.after_comma)
    return joined


def _readings(text: str, start: int, end: int, first: bool) -> Iterator[Reading]:
    start = skip_adverbs(text, start, end)
    for who, cases, pattern in _subjects():
        subject = pattern.match(text, start, end)
        if subject is None or (who == "name" and _NO_NAME.match(text, start, end)):
            continue
        person = subject.span("person") if who in ("role", "name") else None
        rest = skip_adverbs(text, subject.end(), end)
        for case in cases:
            for relation, rule in rules(case):
                said = rule.fullmatch(text, rest, end)
                if said and _is_allowed(
                    reading := Reading(relation, who, person, said), case, first
                ):
                    yield reading


def _is_allowed(reading: Reading, case: Case, first: bool) -> bool:
    """Whether a rule that fits may be meant, by who speaks of whom."""
    if reading.who == "name":
        fits_others = reading.span("third") or reading.span("shared")
        return case == "my" or (fits_others is not None and reading.relation != "name")
    if reading.who != "nobody":
        return True
    clause = reading.said[0]
    if case == "my" and reading.relation not in _BARE_MY:
        return _COPULA.search(clause) is not None
    return not first or not clause[:1].isascii() or reading.relation in _BARE_ENGLISH


def skip_adverbs(text: str, start: int, end: int) -> int:
    """Where something else than "now", "also" and the like begins in ``text[start:end]``."""
    while start < end and text[start] in " ,\t":
        start += 1
    match = _ADVERBS.match(text, start, end)
    return match.end() if match else start


@cache
def _subjects() -> tuple[tuple[Who, tuple[Case, ...], re.Pattern[str]], ...]:
    return tuple((who, cases, compile_pattern(pattern)) for who, cases, pattern in _SUBJECTS)
