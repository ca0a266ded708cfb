"""Forgets exactly: a fact with what it had replaced, and its words wherever they stand."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from src.base.owners import Owner
from src.memory.cutting import clauses_that_say, composed, cut, spans, without
from src.memory.forget_matching import (
    Request,
    Told,
    choose,
    is_about_person,
    is_meant,
    is_question,
    names_of,
    read_request,
    shared,
)
from src.memory.forgetting_repo import (
    Change,
    ForgettingRepository,
    KnownFact,
    Notice,
    TouchedMessage,
)
from src.memory.memory_repo import message_number
from src.pg.client import PgClient, Transaction
from src.pg.locks import lock_history
from src.reading.facts import fact_number, fact_uid, holds_many
from src.reading.requests import forget_request
from src.reading.words import lemmas_of
from src.texts.plain_text import plain

MAX_ASKED = 8  # facts that a question back names
MAX_NEAREST = 3
BEGINNING = 4  # letters by which the database looks for a word
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
REPEATED = 0.5  # of what a fact says: an answer with so much of it repeats it


@dataclass(frozen=True)
class Named:
    """A fact or message that might be meant: ``fact-12`` or ``msg-12``, and its text."""

    id: str
    text: str


@dataclass(frozen=True)
class Forgotten:
    """What came of a request to forget.

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


@dataclass
class _Plan:
    """What goes: facts, whole messages, and sentences of messages that told no fact.

    In a group nobody forgets for another: only what ``speaker_id`` said himself goes.
    """

    speaker_id: int | None = None
    facts: set[int] = field(default_factory=set)
    messages: set[int] = field(default_factory=set)
    sentences: dict[int, list[str]] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)


class Forgetter:
    """Forgets by id or by the words of a request; every method blocks (``PgClient.run``)."""

    def __init__(self, client: PgClient, repository: ForgettingRepository) -> None:
        """Forget through ``repository``, one transaction a request."""
        self._client = client
        self._repository = repository

    def forget(
        self,
        owner: Owner,
        ids: Sequence[str],
        *,
        about: str = "",
        request_id: int | None = None,
        speaker_id: int | None = None,
    ) -> Forgotten:
        """Forget exactly these facts (``fact-12``) and whole messages (``msg-12``).

        Args:
            owner: Whose they are; those of others are left alone.
            ids: What to forget.
            about: What of these messages is meant, where they told several things.
            request_id: The message in which the user asks for it; it is hidden with it.
            speaker_id: Who asks, in a group; what others told stays.
        """

        def work(transaction: Transaction) -> Forgotten:
            lock_history(transaction, *owner)
            plan = _Plan(speaker_id)
            known = self._known(transaction, owner, plan)
            plan.facts = {number for uid in ids if (number := fact_number(uid)) is not None}
            uids = {uid for uid in ids if message_number(uid) is not None} - {f"msg-{request_id}"}
            request = read_request(about)
            for uid in uids:
                told = [fact for fact in known if uid in fact.quotes]
                some = [fact for fact in told if shared(request, _told(fact))]
                plan.facts |= {fact.id for fact in some or told}
                if len(some) in (0, len(told)):
                    plan.messages.add(message_number(uid) or 0)
            return self._carry_out(transaction, owner, known, plan, request_id)

        return self._client.in_transaction(work)

    def forget_about(
        self,
        owner: Owner,
        about: str,
        *,
        everything: bool = False,
        request_id: int | None = None,
        speaker_id: int | None = None,
    ) -> Forgotten:
        """Forget what the words of a request mean: the one fact that surely fits.

        Args:
            owner: Whose facts.
            about: "that I play football", "кота"; the whole request does as well.
            everything: All that fits, unasked, also what no fact was made of.
            request_id: The message that is answered.
            speaker_id: Who asks, in a group; what others told stays.
        """
        request = read_request(about)

        def work(transaction: Transaction) -> Forgotten:
            lock_history(transaction, *owner)
            plan = _Plan(speaker_id)
            known = self._known(transaction, owner, plan)
            meant = self._meant(known, request, everything=everything)
            if everything or not meant:
                plan.sentences = self._sentences(
                    transaction, owner, request, known, request_id, speaker_id
                )
            asked = [fact for fact in meant if fact.is_living] or meant
            found = [Named(fact_uid(fact.id), fact.text) for fact in asked]
            found += [Named(f"msg-{id_}", " ".join(s)) for id_, s in plan.sentences.items()]
            if not found:
                return Forgotten(nearest=_nearest(known, request))
            if len(found) > 1 and not everything:
                return Forgotten(ask=tuple(found[:MAX_ASKED]))
            plan.facts = {fact.id for fact in meant}
            plan.texts = [entry.text for entry in found if entry.id.startswith("msg-")]
            return self._carry_out(transaction, owner, known, plan, request_id)

        return self._client.in_transaction(work)

    def keep_private(self, owner: Owner, message_id: int) -> None:
        """Let a message be in the window and nowhere else."""

        def work(transaction: Transaction) -> None:
            lock_history(transaction, *owner)
            self._repository.keep_private(transaction, owner, message_id)

        self._client.in_transaction(work)

    def _known(self, transaction: Transaction, owner: Owner, plan: _Plan) -> list[KnownFact]:
        facts = self._repository.list_facts(transaction, owner)
        return [fact for fact in facts if _is_his(fact.speaker_id, plan.speaker_id)]

    def _meant(
        self, known: Sequence[KnownFact], request: Request, *, everything: bool
    ) -> list[KnownFact]:
        """The facts that a request means: living ones first of all."""
        for living in (True, False):
            told = {f.id: (f, _told(f)) for f in known if f.is_living is living or everything}
            fitting = [(id_, t) for id_, (_, t) in told.items() if is_meant(request, t)]
            if everything:
                people = [(id_, t) for id_, (_, t) in told.items() if is_about_person(request, t)]
                fitting += people
                names = names_of(request, (t for _, t in fitting))
                by_name = {id_ for id_, (_, t) in told.items() if names & lemmas_of(t.text)}
                chosen = [id_ for id_ in told if id_ in {i for i, _ in fitting} | by_name]
            else:
                chosen = choose(request, fitting)
            if chosen:
                return _with_earlier(known, request, [told[id_][0] for id_ in chosen])
        return []

    def _sentences(
        self,
        transaction: Transaction,
        owner: Owner,
        request: Request,
        known: Sequence[KnownFact],
        request_id: int | None,
        speaker_id: int | None,
    ) -> dict[int, list[str]]:
        """Sentences that told no fact and fit, by their messages."""
        if not request.words:
            return {}
        wanted = {_beginning(lemma) for word in request.words for lemma in word.lemmas}
        messages = self._repository.list_messages(transaction, owner, beginnings=wanted)
        found: dict[int, list[str]] = {}
        quoted = [quote for fact in known for quote in fact.quotes.values()]
        for message in messages:
            if message.role != "user" or message.id == request_id or _asks(message.text):
                continue
            if not _is_his(message.sender_id, speaker_id):
                continue
            for sentence in filter(None, map(str.strip, SENTENCE_END.split(message.text))):
                if _asks(sentence) or any(spans(sentence, quote) for quote in quoted):
                    continue
                if is_meant(request, Told(sentence, is_fact=False)):
                    found.setdefault(message.id, []).append(sentence)
        return found

    def _carry_out(
        self,
        transaction: Transaction,
        owner: Owner,
        known: Sequence[KnownFact],
        plan: _Plan,
        request_id: int | None,
    ) -> Forgotten:
        gone = _with_replaced(known, plan.facts)
        ids = {fact.id for fact in gone}
        sources = {n for fact in gone for uid in fact.quotes if (n := message_number(uid))}
        looked_at = sources | plan.messages | plan.sentences.keys()
        # Whatever may stand in a question about them.
        words = lemmas_of("\n".join(f"{f.text} {f.object} {f.subject}" for f in gone))
        messages = self._repository.list_messages(
            transaction, owner, facts=ids, ids=looked_at, beginnings=set(map(_beginning, words))
        )
        his = {m.id for m in messages if _is_his(m.sender_id, plan.speaker_id)}
        plan.messages &= his
        present = {message.id: message for message in messages if message.role == "user"}
        if not gone and not present.keys() & (plan.messages | plan.sentences.keys()):
            return Forgotten()
        others = self._repository.list_other_quotes(
            transaction, owner, facts=ids, ids=[message.id for message in messages]
        )
        changes = _changes(gone, messages, plan, others, request_id)
        texts = [fact.text for fact in gone if fact.is_living and fact.id in plan.facts]
        texts = texts or [fact.text for fact in gone if fact.id in plan.facts]
        texts += plan.texts
        if not texts:
            texts = [present[number].text for number in plan.messages & present.keys()]
        number = self._repository.forget(
            transaction, owner, facts=ids, changes=changes,
            quotes=_cut_quotes(changes, others), notice=Notice(texts, plan.speaker_id),
        )  # fmt: skip
        if request_id is not None:
            self._repository.hide_request(transaction, owner, request_id)
        return Forgotten(texts=tuple(texts), number=number)


def _is_his(speaker_id: int | None, asker: int | None) -> bool:
    """Whether it was said by the one who asks, or nobody but him could have said it."""
    return asker is None or speaker_id in (None, asker)


OtherQuote = tuple[int, int, str, str, int, str]


def _with_earlier(
    known: Sequence[KnownFact], request: Request, meant: Sequence[KnownFact]
) -> list[KnownFact]:
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
        and is_meant(request, _told(fact))
    ]
    return [*meant, *earlier]


def _with_replaced(known: Sequence[KnownFact], ids: Collection[int]) -> list[KnownFact]:
    """These facts of the owner's with all that they had replaced."""
    gone = {fact.id for fact in known if fact.id in ids}
    while True:
        more = {f.id for f in known if f.superseded_by in gone} - gone
        if not more:
            return [fact for fact in known if fact.id in gone]
        gone |= more


def _changes(
    gone: Sequence[KnownFact],
    messages: Sequence[TouchedMessage],
    plan: _Plan,
    others: Sequence[OtherQuote],
    request_id: int | None,
) -> list[Change]:
    """What becomes of each message."""
    changes: list[Change] = []
    cut_ids: set[int] = set()
    for message in messages:
        if message.id == request_id or message.role != "user":
            continue
        after = _after(message, gone, plan, [o for o in others if o[1] == message.id])
        if after != message.text:
            changes.append(Change(message.id, message.text, after or None))
            cut_ids.add(message.id)
    answers = [message for message in messages if message.role == "assistant"]
    repeating = [message for message in answers if _repeats(message, gone, plan, cut_ids)]
    return changes + [Change(message.id, message.text, None) for message in repeating]


def _after(
    message: TouchedMessage, gone: Sequence[KnownFact], plan: _Plan, others: Sequence[OtherQuote]
) -> str:
    """What is left of a user's message."""
    if message.id in plan.messages:
        return ""
    text = composed(message.text)
    is_source = any(f"msg-{message.id}" in fact.quotes for fact in gone)
    if not is_source and _asks(text):
        return "" if any(_asks_about(text, fact) for fact in gone) else message.text
    kept = [span for other in others for span in spans(text, other[2])]
    siblings = lemmas_of(" ".join(f"{other[3]} {other[5]}" for other in others))
    parts = [
        span for fact in gone for span in _parts(text, fact, f"msg-{message.id}", kept, siblings)
    ]
    parts += [s for sentence in plan.sentences.get(message.id, ()) for s in spans(text, sentence)]
    return cut(text, parts) if parts else message.text


def _parts(
    text: str, fact: KnownFact, uid: str, kept: Sequence[tuple[int, int]], siblings: frozenset[str]
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


def _repeats(
    message: TouchedMessage, gone: Sequence[KnownFact], plan: _Plan, changed: Collection[int]
) -> bool:
    """Whether an answer of the bot says what is forgotten."""
    if message.cites or message.reply_to_id in plan.messages:
        return True
    said = lemmas_of(message.text)
    is_reply = message.reply_to_id in changed
    told = [_distinct(fact) for fact in gone]
    told += [lemmas_of(" ".join(sentences)) for sentences in plan.sentences.values()]
    least = 0.01 if is_reply else REPEATED
    return any(len(words & said) >= least * len(words) for words in told if words)


def _asks(text: str) -> bool:
    return is_question(text) or forget_request(text) is not None


def _asks_about(text: str, fact: KnownFact) -> bool:
    """Whether a question, or an earlier request to forget, is about the fact."""
    words = read_request(text).words
    if any(word.lemmas & _distinct(fact) for word in words):
        return True
    request = read_request(text)
    return bool(words) and shared(request, _told(fact)) == len(words)


def _cut_quotes(
    changes: Sequence[Change], others: Sequence[OtherQuote]
) -> dict[int, tuple[str, str]]:
    """What other facts quote of a message that is cut, where it is not there any more."""
    after = {change.message_id: change.after for change in changes}
    result: dict[int, tuple[str, str]] = {}
    for source, message_id, quote, text, _, _ in others:
        left = after.get(message_id, quote)
        if message_id in after and not spans(left or "", quote):
            result[source] = (quote, text)
    return result


def _distinct(fact: KnownFact) -> frozenset[str]:
    """The words that tell a fact: its object's where it has one, else all of them."""
    is_value = plain(fact.object) != plain(fact.text)
    words = lemmas_of(fact.object) if is_value else frozenset()
    return words or lemmas_of(fact.text)


def _told(fact: KnownFact) -> Told:
    return Told(fact.text, fact.subject, fact.relation, fact.object)


def _nearest(known: Sequence[KnownFact], request: Request) -> tuple[Named, ...]:
    """Living facts that share some of the words, most of them first."""
    scored = [(shared(request, _told(fact)), fact) for fact in known if fact.is_living]
    near = sorted(
        (entry for entry in scored if entry[0]), key=lambda entry: (-entry[0], -entry[1].id)
    )
    return tuple(Named(fact_uid(f.id), f.text) for _, f in near[:MAX_NEAREST])


def _beginning(lemma: str) -> str:
    return lemma.removeprefix("@").rstrip("-")[:BEGINNING]
