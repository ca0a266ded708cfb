"""What a person tells, as structured facts, by rules alone: the ears of the offline model.

Only what the user says becomes a fact, in the user's own words and language; questions, requests,
greetings and thanks become none. What no rule knows but tells something is kept as it stands,
under the relation ``other``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from src.llm.offline_clauses import (
    MAX_SENTENCE,
    Clause,
    Reading,
    Span,
    clauses,
    find_role,
    fold,
    narrow,
    sentences,
    skip_adverbs,
)
from src.llm.offline_grammar import compile_pattern, role_names, role_relations
from src.llm.offline_speech import (
    Statement,
    forget_request,
    is_question,
    read_statement,
    tells_something,
)

__all__ = [
    "RELATIONS",
    "OfflineFact",
    "forget_request",
    "is_question",
    "parse_facts",
]

MAX_FACTS = 50  # of one message; who pastes a book tells nothing of himself in it

# From 1 to 10, by relation; every other relation has OTHER_IMPORTANCE.
IMPORTANCE: dict[str, int] = {
    **dict.fromkeys(("name", "allergic_to"), 9),
    **dict.fromkeys(("married_to", "partner", "has_child", "has_sibling", "has_parent"), 8),
    **dict.fromkeys(("family", "birthday", "lives_in"), 8),
    **dict.fromkeys(("works_as", "works_at", "studies_at", "address", "born_in"), 7),
    **dict.fromkeys(("age", "has_pet", "diet", "phone", "email"), 7),
    **dict.fromkeys(("event", "plans", "visited", "has_friend"), 6),
    **dict.fromkeys(("likes", "dislikes", "favourite", "hobby"), 5),
}
OTHER_IMPORTANCE = 4
HEALTH_IMPORTANCE = 8
_EVENTS = frozenset({"event", "plans", "visited"})
# With a date these are events: "I have a meeting on Friday".
_DATED = frozenset({"plans", "owns"})
_UNDERSTOOD_BY_NO_RULE = frozenset({"other", "event", "habit"})
_PREFERENCES = frozenset({"likes", "dislikes", "favourite", "hobby"})
# Kinds of people in the grammar for whom the vocabulary has no relation of its own.
_UNNAMED = frozenset({"family", "acquaintance"})
# The vocabulary. Besides: ``favourite_<thing>``, and in general statements the word that stands
# there ("Paris is the capital of France").
RELATIONS = (frozenset(IMPORTANCE) - _UNNAMED - {"favourite"}) | frozenset(
    {"speaks", "owns", "car", "shoe_size", "habit", "other"}
)

_EMPTY_OBJECT = compile_pattern(
    r"(?:это|этого|его|ее|их|него|так|там|тут|здесь|все|тебя|вас|меня|це|цього|його|її|їх|мене|"
    r"усе|it|this|that|them|him|her|so|there|here|you|me)"
)
# What follows the object and is no part of it.
_AFTER_OBJECT = compile_pattern(
    r" (?:теперь|сейчас|тоже|вообще|кстати|очень|больше всего|тепер|зараз|теж|дуже|now|too|"
    r"as well|already|these days|very much|so much|a lot|btw|(?:уже|вже|since)\b.*|for (?:\d|a|"
    r"many|over|almost|about|two|three|several)\b.*|(?:с|з) (?:\d.*|детства|дитинства)|(?:last|"
    r"this|next) (?:year|month|week|spring|summer|autumn|fall|winter)|\w+ \w+ ago|recently|(?:в|"
    r"у) (?:прошлом|этом|минулому|цьому) (?:году|месяце|році|місяці)|(?:\w+ )?(?:год|года|лет|"
    r"месяц\w*|недел\w*|рік|роки|років|місяц\w*) (?:назад|тому)|недавно|вчера|нещодавно|вчора|"
    r"yesterday)$"
)
_HEALTH = compile_pattern(
    r"аллерг|алерг|allerg|диабет|діабет|diabet|астм|asthma|беремен|вагітн|pregnan|операци|операці|"
    r"surgery|диагноз|діагноз|diagnos|лекарств|ліки|medication|insulin|инсулин|эпилеп|непереносим"
)
_HABIT = compile_pattern(
    r"\b(?:кажд(?:ый|ое|ую) \w+|ежедневно|обычно|по (?:утрам|вечерам|ночам|выходным)|щодня|"
    r"щоранку|щовечора|щотижня|зазвичай|кож(?:ен|ного) \w+|every \w+|usually|daily|on weekends)\b"
)
_TIME = compile_pattern(
    r"\b(?:сегодня|завтра|послезавтра|вчера|позавчера|сьогодні|післязавтра|вчора|позавчора|(?:в|"
    r"во|у) (?:понедельник|вторник|среду|четверг|пятницу|субботу|воскресенье|понеділок|вівторок|"
    r"середу|четвер|п'ятницю|неділю)|на (?:следующ|этой|прошл|наступн|цьому|минул)\w* (?:недел|"
    r"тижн)\w*|(?:через|за) (?:\w+ )?(?:час|ден|дн|недел|тижд|тижн|месяц|місяц|год|рік|рок)\w*|"
    r"\d{1,2}(?:st|nd|rd|th)? (?:of )?{month}|{month} \d{1,2}|\d{1,2}:\d\d|today|tonight|tomorrow|"
    r"yesterday|on (?:mon|tues|wednes|thurs|fri|satur|sun)day|"
    r"(?:next|this|last) (?:week|month|year|weekend|\w+day)|at \d{1,2}\s*(?:am|pm)?|"
    r"in (?:\d+|a|an|two|three) (?:hour|day|week|month|year)s?)\b"
)


@dataclass(frozen=True)
class OfflineFact:
    """One thing that the user told.

    Attributes:
        text: The statement in the user's words, on one line; self-contained: "У меня есть
            собака. Её зовут Рекс" rather than "Её зовут Рекс".
        memory_type: ``user_fact``, ``preference`` or ``event``.
        importance: 1 to 10.
        quote: Where it was said: an exact substring of the message.
        subject: ``user``; a role in its dictionary form and lower case ("брат" also for "моего
            брата"; with an adjective as written: "старший брат"); or a name as written.
        relation: One of RELATIONS, ``favourite_<thing>`` or the word of a general statement.
        object: As written, trimmed; for ``other``, ``habit`` and ``event`` the whole statement.
    """

    text: str
    memory_type: str
    importance: int
    quote: str
    subject: str
    relation: str
    object: str


def parse_facts(text: str) -> list[OfflineFact]:
    """What a message tells: one fact for every clause that the rules understand.

    Sentences that no rule understands become one fact each under the relation ``other``.
    Of a message that also asks something only what the rules understand is a fact: "Where are my
    keys? I looked everywhere." Never raises; at most MAX_FACTS.
    """
    facts = _Listener(text).facts()
    if is_question(text):
        facts = (fact for fact in facts if fact.relation not in _UNDERSTOOD_BY_NO_RULE)
    return list(islice(facts, MAX_FACTS))


@dataclass(frozen=True)
class _Mention:
    """Somebody of whom the message spoke: "у меня есть собака. Её зовут …"."""

    start: int
    subject: str


class _Listener:
    """Goes through one message and remembers of whom it spoke."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._folded = fold(text)
        self._mention: _Mention | None = None

    def facts(self) -> Iterator[OfflineFact]:
        """The facts, in the order in which they were told."""
        for start, end in sentences(self._folded):
            statement = read_statement(self._folded, start, end)
            if statement is not None:
                exclaimed = "!" in self._folded[statement.end : end]
                yield from self._sentence(statement, exclaimed=exclaimed)

    def _sentence(self, statement: Statement, *, exclaimed: bool) -> Iterator[OfflineFact]:
        anchor = statement.start
        for clause in clauses(self._folded, statement.start, statement.end):
            if clause.reading is not None and clause.reading.who != "nobody":
                anchor = clause.start
            if clause.reading is not None and not self._object(clause.reading):
                continue  # "I like it"
            fact = self._understood(clause, clause.reading, anchor) if clause.reading else None
            if fact is None and statement.whole:
                fact = self._as_it_stands(clause, statement, exclaimed=exclaimed)
            if fact is not None:
                yield fact

    def _understood(self, clause: Clause, reading: Reading, anchor: int) -> OfflineFact | None:
        """The fact of a clause that the grammar knows; None if it is not clear about whom."""
        whose, told = self._whose(clause, reading, anchor), self._object(reading)
        if whose is None:
            return None
        span, kind = (whose.start, clause.end), reading.relation
        if kind in _DATED and _TIME.search(self._folded, clause.start, clause.end):
            return self._fact(
                span, whose.subject, "event", self._written(clause.start, clause.end)
            )
        if kind == "has":
            kin = reading.said["kin"].lower()
            kind = role_relations()[kin]
            self._mention = _Mention(clause.start, role_names()[kin])
        return self._fact(span, whose.subject, kind, told, self._relation(reading, kind))

    def _whose(self, clause: Clause, reading: Reading, anchor: int) -> _Mention | None:
        """Whom a clause is about, and where the text begins that says so; None if unknown."""
        named = reading.span("who") or reading.person
        if named is not None:
            self._mention = _Mention(clause.start, self._name(named))
            return self._mention
        if (general := reading.span("subject")) is not None:
            return _Mention(clause.start, self._written(*general))
        mention = self._mention
        if mention is not None and clause.end - mention.start > MAX_SENTENCE:
            mention = None
        if reading.who == "pronoun" or (reading.who == "nobody" and reading.span("third")):
            return mention
        shared = reading.who == "nobody" and reading.span("shared") is not None
        if shared and mention is not None and mention.start >= anchor:
            return mention
        # "I live in Kyiv and | work as a nurse" needs its "I"; a Slavic verb is person enough.
        bare = reading.who == "nobody" and self._folded[clause.start].isascii()
        return _Mention(anchor if bare else clause.start, "user")

    def _object(self, reading: Reading) -> str:
        """The object as written, without "too", "since 2010" and the like; empty for "it"."""
        start, end = reading.said.span("object")
        after = _AFTER_OBJECT.search(self._folded, start, end)
        start, end = narrow(self._folded, start, after.start() if after else end)
        unclear = _EMPTY_OBJECT.fullmatch(self._folded, start, end)
        return "" if unclear else self._written(start, end)

    def _relation(self, reading: Reading, kind: str) -> str:
        if kind == "general":
            return str(reading.said["relation"]).lower()
        if kind == "favourite":
            thing = self._written(*reading.said.span("thing")).lower()
            return f"favourite_{thing.replace(' ', '_')}"
        return "other" if kind in _UNNAMED else kind

    def _as_it_stands(
        self, clause: Clause, statement: Statement, *, exclaimed: bool
    ) -> OfflineFact | None:
        """A clause that no rule knows: an event, a habit or something else; None for chatter."""
        start, end = clause.start, clause.end
        told = self._written(start, end)
        keep = statement.on_request or tells_something(
            self._folded[start:end], exclaimed=exclaimed
        )
        if not keep or _EMPTY_OBJECT.fullmatch(told):
            return None
        role = find_role(self._folded, start, end)
        if role is not None:
            self._mention = _Mention(start, self._name(role))
            if skip_adverbs(self._folded, role[1], end) == end:
                return None  # "Мой брат, кстати, | живёт в Праге"
        habit = _HABIT.search(self._folded, start, end)
        event = _TIME.search(self._folded, start, end)
        kind = "habit" if habit else "event" if event else "other"
        subject = "user" if role is None else self._name(role)
        return self._fact((start, end), subject, kind, told)

    def _name(self, span: Span) -> str:
        """A role in its dictionary form, a role with an adjective in lower case, or a name."""
        written = self._written(*span)
        folded = self._folded[slice(*span)].lower()
        if folded in role_names():
            return role_names()[folded]
        is_role = folded.split()[-1] in role_names()
        return written.lower() if is_role else written

    def _written(self, start: int, end: int) -> str:
        """The text between two places as it was written, on one line."""
        return " ".join(self._text[start:end].split())

    def _fact(
        self, span: Span, subject: str, kind: str, told: str, relation: str | None = None
    ) -> OfflineFact:
        importance = IMPORTANCE.get(kind, OTHER_IMPORTANCE)
        if _HEALTH.search(self._folded, *span):
            importance = max(importance, HEALTH_IMPORTANCE)
        return OfflineFact(
            text=self._written(*span),
            memory_type=_memory_type(kind),
            importance=importance,
            quote=self._text[slice(*span)],
            subject=subject,
            relation=relation or kind,
            object=told,
        )


def _memory_type(kind: str) -> str:
    if kind in _PREFERENCES:
        return "preference"
    return "event" if kind in _EVENTS else "user_fact"
