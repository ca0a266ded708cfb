"""Forgets exactly: a fact with what it had replaced, and its words wherever they stand."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from src.base.owners import Owner
from src.memory import forget_matching
from src.memory.cutting import clauses, clauses_that_say, composed, cut, spans, without
from src.memory.forget_matching import Request, Told, is_about_person, is_meant, read_request
from src.memory.forgetting_repo import Change, ForgettingRepository, OtherQuote, TouchedMessage
from src.memory.memory_repo import message_number
from src.pg.client import Transaction
from src.pg.locks import lock_history
from src.reading import lexicon
from src.reading.facts import fact_number, fact_uid, holds_many
from src.reading.requests import forget_request, without_plain_reason
from src.reading.words import lemmas_of
from src.texts.plain_text import plain

MAX_ASKED = 8  # facts that a question back names
MAX_NEAREST = 3
BEGINNING = 4  # letters by which the database looks for a word
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
# A clause that is nothing without the one before it: "…, his name is Rex".
GOES_ON = lexicon.AnyCase(r"(?:<find.clause>\s+)?<find.of_the_same>(?![\w'-])")
DASH = re.compile("[—–-]")
REPEATED = 0.5  # of what a fact says: an answer with so much of it repeats it


@dataclass(frozen=True)
class Named:
    """A fact or message that might be meant: ``fact-12`` or ``msg-12``, and its text."""

    id: str
    text: str


@dataclass(frozen=True)
class Forgotten:
    """The result of a request to forget.

    Attributes:
        texts: What is forgotten now.
        ask: Several that fit: nothing is forgotten, the user is to say which.
        nearest: None fits: nothing is forgotten, these come nearest.
        number: Under which it can be taken back.
    """

    texts: tuple[str, ...] = ()
    ask: tuple[Named, ...] = ()
    nearest: tuple[Named, ...] = ()
    number: int | None = None


class Forgetter:
    """Carries out one request to forget, in a transaction: by ids, or by the words for it.

    In a group only what the member who asks said is forgotten.
    """

    def __init__(
        self,
        transaction: Transaction,
        owner: Owner,
        *,
        request_id: int | None = None,
        speaker_id: int | None = None,
    ) -> None:
        """Lock the history and load the known facts; this blocks, as every method does.

        Args:
            transaction: The caller's.
            owner: Whose facts and messages; those of others are left alone.
            request_id: The message in which the user asks for it; it is hidden with it.
            speaker_id: Who asks, in a group; what others told stays.
        """
        lock_history(transaction, *owner)
        self._repository = ForgettingRepository(transaction, owner)
        self._request_id = request_id
        self._speaker_id = speaker_id
        facts = self._repository.list_facts()
        self._known = [fact for fact in facts if self._is_own(fact.speaker_id)]
        self._messages: set[int] = set()
        self._sentences: dict[int, list[str]] = {}
        self._forgotten: list[Told] = []

    def forget(self, ids: Sequence[str], about: str = "") -> Forgotten:
        """Forget exactly these facts (``fact-12``) and whole messages (``msg-12``).

        Args:
            ids: What to forget.
            about: What of these messages is meant, where they told several things.
        """
        request = read_request(about)
        facts = {number for uid in ids if (number := fact_number(uid)) is not None}
        for uid in {uid for uid in ids if message_number(uid)} - {f"msg-{self._request_id}"}:
            told = [fact for fact in self._known if uid in fact.quotes]
            some = [fact for fact in told if forget_matching.shared(request, fact)]
            facts |= {fact.id for fact in some or told}
            if len(some) in (0, len(told)):
                self._messages.add(message_number(uid) or 0)
        return self._carry_out(facts)

    def forget_about(self, about: str, *, everything: bool = False) -> Forgotten:
        """Forget what the words of a request mean: the one fact that surely fits.

        Args:
            about: "that I play football", "кота"; the whole request does as well.
            everything: All that fits, unasked, also what no fact was made of.
        """
        request = read_request(about)
        meant = self._find_facts(request, everything=everything)
        if request.words and (everything or not meant):
            self._sentences = self._find_sentences(request)
        asked = [fact for fact in meant if fact.is_living] or meant
        spoken = [Named(f"msg-{id_}", " ".join(s)) for id_, s in self._sentences.items()]
        found = [*(Named(fact_uid(fact.id), fact.text) for fact in asked), *spoken]
        if not found and (thing := without_plain_reason(about)):
            return self.forget_about(thing, everything=everything)
        if not found:
            return Forgotten(nearest=_nearest(self._known, request))
        if len(found) > 1 and not everything:
            return Forgotten(ask=tuple(found[:MAX_ASKED]))
        return self._carry_out({fact.id for fact in meant}, [entry.text for entry in spoken])

    def _is_own(self, speaker_id: int | None) -> bool:
        """Whether the one who asks said it; in a private chat always."""
        return self._speaker_id is None or speaker_id in (None, self._speaker_id)

    def _find_facts(self, request: Request, *, everything: bool) -> list[Told]:
        """The facts that a request means: living ones first of all."""
        for living in (True, False):
            facts = [fact for fact in self._known if fact.is_living is living or everything]
            meant = [fact for fact in facts if is_meant(request, fact)]
            if everything:
                meant += [f for f in facts if f not in meant and is_about_person(request, f)]
                names = forget_matching.names_of(request, meant)
                meant = [f for f in facts if f in meant or names & lemmas_of(f.text)]
            else:
                meant = [*forget_matching.choose(request, meant)]
            if meant:
                return _with_earlier(self._known, request, meant)
        return []

    def _find_sentences(self, request: Request) -> dict[int, list[str]]:
        """Sentences that told no fact and fit, by their messages."""
        forms = (form for word in request.words for form in (word.text, *word.lemmas))
        messages = self._repository.list_messages(beginnings=set(map(_beginning, forms)))
        found: dict[int, list[str]] = {}
        quoted = [quote for fact in self._known for quote in fact.quotes.values()]
        for message in messages:
            is_telling = message.role == "user" and message.id != self._request_id
            if not is_telling or not self._is_own(message.sender_id) or _asks(message.text):
                continue
            for sentence in filter(None, map(str.strip, SENTENCE_END.split(message.text))):
                if _asks(sentence) or any(spans(sentence, quote) for quote in quoted):
                    continue
                if is_meant(request, Told(sentence, is_fact=False)):
                    found.setdefault(message.id, []).extend(_meant_clauses(sentence, request))
        return found

    def _carry_out(self, facts: Collection[int], told: Sequence[str] = ()) -> Forgotten:
        """Forget these facts, and the messages and sentences that were found.

        Args:
            facts: Their ids.
            told: The sentences, for the reply.
        """
        self._forgotten = gone = _with_replaced(self._known, facts)
        ids = {fact.id for fact in gone}
        sources = {n for fact in gone for uid in fact.quotes if (n := message_number(uid))}
        # Words that questions about them may contain.
        words = lemmas_of("\n".join(f"{f.text} {f.object} {f.subject}" for f in gone))
        messages = self._repository.list_messages(
            facts=ids,
            ids=sources | self._messages | self._sentences.keys(),
            beginnings=set(map(_beginning, words)),
        )
        self._messages &= {m.id for m in messages if self._is_own(m.sender_id)}
        present = {message.id: message for message in messages if message.role == "user"}
        if not gone and not present.keys() & (self._messages | self._sentences.keys()):
            return Forgotten()
        others = self._repository.list_other_quotes(
            facts=ids, ids=[message.id for message in messages]
        )
        changes = self._changes(messages, others)
        named = [fact for fact in gone if fact.id in facts]
        texts = [fact.text for fact in named if fact.is_living] or [fact.text for fact in named]
        texts += told
        if not texts:
            texts = [present[number].text for number in self._messages & present.keys()]
        number = self._repository.forget(
            ids, texts=texts, asked_by=self._speaker_id, changes=changes,
            quotes=_cut_quotes(changes, others),
        )  # fmt: skip
        if self._request_id is not None:
            self._repository.hide_request(self._request_id)
        return Forgotten(texts=tuple(texts), number=number)

    def _changes(
        self, messages: Sequence[TouchedMessage], others: Sequence[OtherQuote]
    ) -> list[Change]:
        """What becomes of each message: the user's are cut, answers that repeat it go."""
        changes: list[Change] = []
        for message in messages:
            if message.id == self._request_id or message.role != "user":
                continue
            beside = [other for other in others if other.message_id == message.id]
            after = self._remainder(message, beside)
            if after != message.text:
                changes.append(Change(message.id, message.text, after or None))
        cut_ids = {change.message_id for change in changes}
        return changes + [
            Change(message.id, message.text, None)
            for message in messages
            if message.role == "assistant" and self._is_repeated_by(message, cut_ids)
        ]

    def _remainder(self, message: TouchedMessage, others: Sequence[OtherQuote]) -> str:
        """The text of a user's message after the cuts."""
        if message.id in self._messages:
            return ""
        text, uid = composed(message.text), f"msg-{message.id}"
        gone = self._forgotten
        if _asks(text) and not any(uid in fact.quotes for fact in gone):
            return "" if any(_asks_about(text, fact) for fact in gone) else message.text
        kept = [span for other in others for span in spans(text, other.quote)]
        siblings = lemmas_of(" ".join(f"{other.text} {other.object}" for other in others))
        parts = [span for fact in gone for span in _parts(text, fact, uid, kept, siblings)]
        for sentence in self._sentences.get(message.id, ()):
            parts += spans(text, sentence)
        return cut(text, parts) if parts else message.text

    def _is_repeated_by(self, message: TouchedMessage, changed: Collection[int]) -> bool:
        """Whether an answer of the bot repeats a forgotten fact."""
        if message.cites or message.reply_to_id in self._messages:
            return True
        said = lemmas_of(message.text)
        told = [_distinct(fact) for fact in self._forgotten]
        told += [lemmas_of(" ".join(sentences)) for sentences in self._sentences.values()]
        least = 0.01 if message.reply_to_id in changed else REPEATED
        return any(len(words & said) >= least * len(words) for words in told if words)


def _meant_clauses(sentence: str, request: Request) -> list[str]:
    """The clauses of a sentence that a request means, each with those that go on about it."""
    whole: list[tuple[int, int]] = []
    for start, end in clauses(sentence):
        before = sentence[whole[-1][1] : start] if whole else ","
        if GOES_ON.match(sentence, start) or DASH.search(before):
            start = whole.pop()[0] if whole else start
        whole.append((start, end))
    told = [sentence[start:end].strip() for start, end in whole]
    return [part for part in told if is_meant(request, Told(part, is_fact=False))] or [sentence]


def _with_earlier(known: Sequence[Told], request: Request, meant: Sequence[Told]) -> list[Told]:
    """With "where I live" also what held earlier is meant, though nothing replaced it."""
    if len(meant) != 1 or holds_many(meant[0].relation):
        return list(meant)
    kind = (meant[0].subject, meant[0].relation)
    earlier = [
        fact
        for fact in known
        if not fact.is_living
        and fact.id != meant[0].id
        and (fact.subject, fact.relation) == kind
        and is_meant(request, fact)
    ]
    return [*meant, *earlier]


def _with_replaced(known: Sequence[Told], ids: Collection[int]) -> list[Told]:
    """These facts with all their predecessors."""
    gone = {fact.id for fact in known if fact.id in ids}
    while True:
        more = {f.id for f in known if f.superseded_by in gone} - gone
        if not more:
            return [fact for fact in known if fact.id in gone]
        gone |= more


def _parts(
    text: str, fact: Told, uid: str, kept: Sequence[tuple[int, int]], siblings: frozenset[str]
) -> list[tuple[int, int]]:
    """Where a message tells a fact: its quote, or the clauses of it that others do not need."""
    quoted = [span for quote in {*fact.quotes.values(), fact.text} for span in spans(text, quote)]
    own = without(quoted, kept)
    shared_spans = [span for span in quoted if span not in own]
    said = (_distinct(fact) - siblings) or _distinct(fact)
    for span in shared_spans:
        clauses = clauses_that_say(text, said, span)
        own += clauses or [span]
    if uid in fact.quotes:
        narrow = [span for span in kept if span not in quoted]
        own += without(clauses_that_say(text, said), narrow)
    return own


def _asks(text: str) -> bool:
    return forget_matching.is_question(text) or forget_request(text) is not None


def _asks_about(text: str, fact: Told) -> bool:
    """Whether a question, or an earlier request to forget, is about the fact."""
    request = read_request(text)
    if any(word.lemmas & _distinct(fact) for word in request.words):
        return True
    return bool(request.words) and forget_matching.shared(request, fact) == len(request.words)


def _cut_quotes(
    changes: Sequence[Change], others: Sequence[OtherQuote]
) -> dict[int, tuple[str, str]]:
    """Quotes of other facts that a cut has removed from their message."""
    after = {change.message_id: change.after for change in changes}
    result: dict[int, tuple[str, str]] = {}
    for other in others:
        if other.message_id in after and not spans(after[other.message_id] or "", other.quote):
            result[other.source_id] = (other.quote, other.text)
    return result


def _distinct(fact: Told) -> frozenset[str]:
    """The words that tell a fact: its object's where it has one, else all of them."""
    is_value = plain(fact.object) != plain(fact.text)
    words = lemmas_of(fact.object) if is_value else frozenset()
    return words or lemmas_of(fact.text)


def _nearest(known: Sequence[Told], request: Request) -> tuple[Named, ...]:
    """Living facts that share words with the request, best match first."""
    scored = [(forget_matching.shared(request, fact), fact) for fact in known if fact.is_living]
    near = sorted(scored, key=lambda entry: (-entry[0], -entry[1].id))[:MAX_NEAREST]
    return tuple(Named(fact_uid(fact.id), fact.text) for number, fact in near if number)


def _beginning(lemma: str) -> str:
    return lemma.lstrip("@~")[:BEGINNING]
