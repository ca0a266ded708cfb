"""Exact forgetting: a fact with those that it replaced, and its words in every message."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress

from src.base.owners import Owner
from src.memory import forget_matching
from src.memory.forget_matching import (
    Request,
    Span,
    Statement,
    clauses,
    clauses_that_say,
    cut,
    is_about_person,
    is_meant,
    read_request,
    spans,
    without,
)
from src.memory.forgetting_repo import ForgettingRepository, OtherQuote, TextChange, TouchedMessage
from src.memory.memory_repo import message_number
from src.memory.thresholds import HINTED, REPEATED
from src.pg.client import Transaction
from src.pg.locks import lock_history
from src.reading import lexicon, requests
from src.reading.facts import fact_number, fact_uid, holds_many
from src.reading.gate import MASK
from src.reading.words import content_words, lemmas_of
from src.texts.plain_text import NFC

MAX_ASKED = 8  # facts listed in a question back
MAX_NEAREST = 3
MAX_REST = 1  # words of a clause beyond the request, with which clauses that depend on it go
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
# A clause that depends on the one before it: "…, his name is Rex".
GOES_ON = lexicon.AnyCase(r"(?:<find.clause>\s+)?<find.of_the_same>(?![\w'-])")
CONJUNCTION = lexicon.AnyCase(r"<find.clause>\s+")
DASH = re.compile("[—–-]")
HEALTH = lexicon.AnyCase(r"(?<!\w)<about.health>(?!\w)")


@dataclass(frozen=True)
class ForgetMatch:
    """A fact or message that the request may mean: ``fact-12`` or ``msg-12``, and its text."""

    id: str
    text: str


@dataclass(frozen=True)
class Forgotten:
    """Result of a request to forget.

    Attributes:
        texts: The forgotten texts.
        ask: Several matches; nothing is forgotten until the user chooses.
        nearest: The nearest facts when nothing matches, and nothing is forgotten.
        number: The id of the forgetting, for its undo.
    """

    texts: tuple[str, ...] = ()
    ask: tuple[ForgetMatch, ...] = ()
    nearest: tuple[ForgetMatch, ...] = ()
    number: int | None = None


class Forgetter:
    """Carries out one request to forget, by ids or by words, in a transaction of the caller.

    In a group it forgets only what the member who asks has said.
    """

    def __init__(
        self,
        transaction: Transaction,
        owner: Owner,
        *,
        request_id: int | None = None,
        speaker_id: int | None = None,
    ) -> None:
        """Lock the history and load the facts; this blocks, as every method does.

        Args:
            transaction: The caller's transaction.
            owner: The owner of the facts and messages.
            request_id: The message with the request; it is hidden as well.
            speaker_id: In a group, the member who asks; facts of other members stay.
        """
        lock_history(transaction, *owner)
        self._repository = ForgettingRepository(transaction, owner)
        self._request_id = request_id
        self._speaker_id = speaker_id
        facts = self._repository.list_facts()
        self._facts = [fact for fact in facts if self._is_by_asker(fact.speaker_id)]
        self._message_ids: set[int] = set()
        self._sentences: dict[int, list[str]] = {}
        self._forgotten: list[Statement] = []
        self._rests: dict[int, tuple[str, str | None]] = {}
        self._request: Request | None = None

    def forget(self, ids: Sequence[str], about: str = "") -> Forgotten:
        """Forget exactly these facts (``fact-12``) and messages (``msg-12``).

        Args:
            ids: Ids of facts and messages.
            about: The thing to forget, for messages that state several.
        """
        request = read_request(about)
        facts = {number for number in map(fact_number, ids) if number is not None}
        for uid in {uid for uid in ids if message_number(uid)} - {f"msg-{self._request_id}"}:
            sourced = [fact for fact in self._facts if uid in fact.quotes]
            matching = [fact for fact in sourced if forget_matching.count_shared(request, fact)]
            facts |= {fact.id for fact in matching or sourced}
            if len(matching) in (0, len(sourced)):
                self._message_ids.add(message_number(uid) or 0)
        return self._carry_out(facts)

    def forget_about(self, about: str, *, everything: bool = False) -> Forgotten:
        """Forget the one fact, or sentence, that matches the words of a request exactly.

        Args:
            about: "that I play football", "кота", or the whole request.
            everything: Forget all matches without a question back, sentences too.
        """
        request = read_request(about)
        self._request = None if everything else request
        meant: list[Statement] = []
        if request.is_item:
            self._add_sentences(request, of_lists=True)
        is_in_list = bool(self._sentences)
        if not is_in_list:
            meant = self._find_facts(request, everything=everything)
            if request.words and (everything or not meant):  # sentences that no fact was made of
                self._add_sentences(request)
        listed = [fact for fact in meant if fact.is_current] or meant
        sentences = [ForgetMatch(f"msg-{id_}", " ".join(s)) for id_, s in self._sentences.items()]
        matches = [*(ForgetMatch(fact_uid(fact.id), fact.text) for fact in listed), *sentences]
        if not matches:
            thing = requests.without_plain_reason(about)
            if thing:
                return self.forget_about(thing, everything=everything)
            return Forgotten(nearest=self.find_nearest(request))
        if len(matches) > 1 and not (everything or is_in_list):
            return Forgotten(ask=tuple(matches[:MAX_ASKED]))
        return self._carry_out({fact.id for fact in meant}, [entry.text for entry in sentences])

    def _add_sentences(self, request: Request, *, of_lists: bool = False) -> None:
        """Note the sentences, or those of lists, that a request means, by their messages."""
        for message, sentence in self._list_statements(request):
            is_of_kind = not of_lists or requests.LISTED.search(sentence) is not None
            if is_of_kind and is_meant(request, Statement(sentence, is_fact=False)):
                parts = [sentence[a:b] for a, b in _meant_clauses(sentence, request)]
                if of_lists:
                    parts = _without_others(parts, sentence, request)
                found = self._sentences.setdefault(message, [])
                found += map(_without_conjunction, parts)

    def _is_by_asker(self, speaker_id: int | None) -> bool:
        return self._speaker_id is None or speaker_id in (None, self._speaker_id)

    def _find_facts(self, request: Request, *, everything: bool) -> list[Statement]:
        """Return the facts that a request means: current ones, else retired ones."""
        for current in (True, False):
            facts = [fact for fact in self._facts if fact.is_current is current or everything]
            meant = [fact for fact in facts if is_meant(request, fact)]
            if everything:
                meant += [f for f in facts if f not in meant and is_about_person(request, f)]
                names = forget_matching.find_names(request, meant)
                meant = [f for f in facts if f in meant or names & lemmas_of(f.text)]
            else:
                meant = [*forget_matching.choose_best(request, meant)]
            if len(meant) == 1 and not holds_many(meant[0].relation):
                # "Where I live" means earlier homes as well, although nothing replaced them.
                [fact] = meant
                retired = [f for f in self._facts if not f.is_current and f.id != fact.id]
                key = fact.subject, fact.relation
                same = [f for f in retired if (f.subject, f.relation) == key]
                return [fact, *(f for f in same if is_meant(request, f))]
            if meant:
                return meant
        return []

    def _list_statements(self, request: Request) -> Iterator[tuple[int, str]]:
        """Yield the sentences that may hold a word of the request and say more than facts quote.

        Each comes with its message.
        """
        quotes = [quote for fact in self._facts for quote in fact.quotes.values()]
        forms = {form for word in request.words for form in (word.text, *word.lemmas)}
        messages = self._repository.list_messages(words=forms)
        for message in messages:
            is_statement = message.role == "user" and message.id != self._request_id
            if not is_statement or not self._is_by_asker(message.sender_id) or _asks(message.text):
                continue
            for sentence in filter(None, map(str.strip, SENTENCE_END.split(message.text))):
                quoted = [span for quote in quotes for span in spans(sentence, quote)]
                is_said = not quoted or content_words(cut(sentence, quoted))
                if is_said and not _asks(sentence):
                    yield message.id, sentence

    def find_nearest(self, request: Request) -> tuple[ForgetMatch, ...]:
        """Return the facts, and the clauses of messages, with most words of the request."""
        count = forget_matching.count_shared
        facts = [fact for fact in self._facts if fact.is_current]
        near = [
            (count(request, fact), ForgetMatch(fact_uid(fact.id), fact.text)) for fact in facts
        ]
        for message, sentence in self._list_statements(request):
            number = count(request, Statement(sentence, is_fact=False))
            text = _meant_text(sentence, request)
            near.append((number, ForgetMatch(f"msg-{message}", text)))
        near.reverse()  # the newest first
        near.sort(key=lambda entry: entry[0], reverse=True)
        return tuple(match for number, match in near[:MAX_NEAREST] if number)

    def _carry_out(self, facts: Collection[int], sentences: Sequence[str] = ()) -> Forgotten:
        """Forget these facts, and the messages and sentences that were found.

        Args:
            facts: Ids of the facts.
            sentences: The sentences, for the reply.
        """
        self._forgotten = forgotten = list(map(self._narrow, self._add_replaced(facts)))
        ids = {fact.id for fact in forgotten}
        uids = {uid for fact in forgotten for uid in fact.quotes}
        sources = {number for number in map(message_number, uids) if number}
        # Questions about the facts may contain any of these words.
        words = lemmas_of("\n".join(f"{f.text} {f.object} {f.subject}" for f in forgotten))
        messages = self._repository.list_messages(
            facts=ids, ids=sources | self._message_ids | self._sentences.keys(), words=words
        )
        self._message_ids &= {m.id for m in messages if self._is_by_asker(m.sender_id)}
        existing = {message.id: message for message in messages if message.role == "user"}
        if not forgotten and not existing.keys() & (self._message_ids | self._sentences.keys()):
            return Forgotten()
        others = self._repository.list_other_quotes(
            facts=ids, ids=[message.id for message in messages]
        )
        changes = self._build_changes(messages, others)
        changed = {change.message_id for change in changes}
        asked = [fact for fact in forgotten if fact.id in facts]
        texts = [fact.text for fact in asked if fact.is_current] or [fact.text for fact in asked]
        texts += sentences
        if not texts:
            texts = [existing[number].text for number in self._message_ids & existing.keys()]
        number = self._repository.forget(
            ids - self._rests.keys(),
            texts=texts,
            asked_by=self._speaker_id,
            changes=changes,
            others=[other for other in others if other.message_id in changed],
            rests=self._rests,
        )
        if self._request_id is not None:
            self._repository.hide_request(self._request_id)
        return Forgotten(texts=tuple(texts), number=number)

    def _add_replaced(self, ids: Collection[int]) -> list[Statement]:
        found = {fact.id for fact in self._facts if fact.id in ids}
        while True:
            predecessors = {f.id for f in self._facts if f.superseded_by in found} - found
            if not predecessors:
                return [fact for fact in self._facts if fact.id in found]
            found |= predecessors

    def _build_changes(
        self, messages: Sequence[TouchedMessage], others: Sequence[OtherQuote]
    ) -> list[TextChange]:
        changes: list[TextChange] = []
        for message in messages:
            if message.id == self._request_id or message.role != "user":
                continue
            quotes = [other for other in others if other.message_id == message.id]
            after = self._redact(message, quotes)
            if after != message.text:
                changes.append(TextChange(message.id, message.text, after or None))
        cut_ids = {change.message_id for change in changes}
        return changes + [
            TextChange(message.id, message.text, None)
            for message in messages
            if message.role == "assistant" and self._repeats(message, cut_ids)
        ]

    def _redact(self, message: TouchedMessage, others: Sequence[OtherQuote]) -> str:
        """Return the redacted text of a user's message; empty to hide it."""
        if message.id in self._message_ids:
            return ""
        text, uid = NFC(message.text), f"msg-{message.id}"
        facts = self._forgotten
        if _asks(text) and not any(uid in fact.quotes for fact in facts):
            asked = read_request(text)
            is_about = any(
                asked.lemmas & fact.key_lemmas
                or 0 < len(asked.words) == forget_matching.count_shared(asked, fact)
                for fact in facts
            )
            return "" if is_about else message.text
        taken = [span for other in others for span in spans(text, other.quote)]
        siblings = lemmas_of(" ".join(f"{other.text} {other.object}" for other in others))
        parts = [span for fact in facts for span in _find_parts(text, fact, uid, taken, siblings)]
        for sentence in self._sentences.get(message.id, ()):
            parts += spans(text, sentence)
        if not parts:
            return message.text
        return cut(text, parts)

    def _narrow(self, fact: Statement) -> Statement:
        """Return a fact with nothing but the clauses that the request means; note what stays."""
        if self._request is None:
            return fact
        texts = [fact.text, *fact.quotes.values()]
        text, *quotes = (_meant_text(one, self._request) for one in texts)
        if text == fact.text.strip():
            return fact
        meant = _meant_clauses(fact.text, self._request)
        is_rest = [span not in meant for span in clauses(fact.text)]
        rest, private = (_joined(compress(parts, is_rest)) for parts in _clause_texts(fact))
        if all(word.text.isdecimal() for word in content_words(rest)):
            return fact  # "the plumber is Gus, 555 0199"
        if fact.is_current:
            holds_code = bool(fact.private_text) and MASK in rest
            self._rests[fact.id] = rest, private if holds_code else None
        return replace(
            fact, text=text, object="", quotes=dict(zip(fact.quotes, quotes, strict=True))
        )

    def _repeats(self, message: TouchedMessage, changed: Collection[int]) -> bool:
        if message.cites or message.reply_to_id in self._message_ids:
            return True
        lemmas = lemmas_of(message.text)
        word_sets = [fact.key_lemmas for fact in self._forgotten]
        word_sets += [lemmas_of(" ".join(sentences)) for sentences in self._sentences.values()]
        threshold = HINTED if message.reply_to_id in changed else REPEATED
        return any(len(words & lemmas) >= threshold * len(words) for words in word_sets if words)


def _meant_clauses(text: str, request: Request) -> list[Span]:
    """Return the clauses of a text that hold most of a request, and those that depend on them.

    Words of the request may stand in other clauses, which stay: "height: Ann 98, Ben 101" without
    "Ben's height". What stands behind a dash goes with a clause that says little else, and so does
    what goes on about it ("his name is Rex") if the request names no more than the thing; what
    tells of health stays.
    """
    found = clauses(text)
    weights = forget_matching.weigh_clauses(request, (text[a:b] for a, b in found))
    labels = [text[end : end + 1] == ":" for _, end in found]
    values = [weight for weight, is_label in zip(weights, labels, strict=True) if not is_label]
    best = max(values, default=0)
    meant: list[Span] = []
    takes_value = takes_next = False
    for number, (start, end) in enumerate(found):
        before = text[found[number - 1][1] : start] if number else ""
        goes_on = GOES_ON.match(text, start) is not None and not HEALTH.search(text, start, end)
        if weights[number] == best > 0 and not labels[number]:
            words = content_words(text[start:end])
            rest = [word for word in words if not word.lemmas & request.lemmas]
            takes_value = len(rest) <= MAX_REST
            may_be_of_others = number > 0 or any(word.is_kin or word.is_name for word in rest)
            takes_next = takes_value and request.is_of_one and not may_be_of_others
        elif not (goes_on and takes_next) and not (takes_value and DASH.search(before)):
            takes_value = takes_next = False
            continue
        meant.append((start, end))
    return meant or found


def _meant_text(text: str, request: Request) -> str:
    """Return the clauses of a text that a request means, as one text."""
    meant = _meant_clauses(text, request)
    if len(meant) == len(clauses(text)):
        return text.strip()
    return _without_conjunction(", ".join(text[start:end].strip() for start, end in meant))


def _without_others(parts: Sequence[str], sentence: str, request: Request) -> list[str]:
    """Return parts of a list; of "shopping list milk eggs" only the words of the request."""
    words = content_words(requests.LISTED.sub(" ", sentence))
    own = [word.text for word in words if word.lemmas & request.lemmas]
    if len(own) == len(words):
        return [*parts]
    heads = [part for part in parts if requests.LISTED.search(part)]
    return [part for part in parts if part not in heads] + (own if heads else [])


def _clause_texts(fact: Statement) -> tuple[list[str], list[str]]:
    """Return the clauses of a fact, masked and with its codes."""
    around = map(re.escape, fact.text.split(MASK))
    private = re.fullmatch("(.+)".join(around), fact.private_text)
    codes = iter(private.groups() if private else ())
    masked = [fact.text[start:end] for start, end in clauses(fact.text)]
    return masked, [re.sub(MASK, lambda mask: next(codes, mask[0]), part) for part in masked]


def _joined(parts: Iterable[str]) -> str:
    return ", ".join(map(_without_conjunction, parts))


def _without_conjunction(clause: str) -> str:
    clause = clause.strip()
    return clause[CONJUNCTION.behind(clause) :]


def _find_parts(
    text: str, fact: Statement, uid: str, taken: Sequence[Span], siblings: frozenset[str]
) -> list[Span]:
    """Return the spans of a fact in a message: its quote, or clauses that no other fact needs."""
    quoted = [span for quote in {*fact.quotes.values(), fact.text} for span in spans(text, quote)]
    own = without(quoted, taken)
    shared_spans = [span for span in quoted if span not in own]
    lemmas = (fact.key_lemmas - siblings) or fact.key_lemmas
    for span in shared_spans:
        inner = clauses_that_say(text, lemmas, span)
        own += inner or [span]
    if uid in fact.quotes:
        outside = [span for span in taken if span not in quoted]
        own += without(clauses_that_say(text, lemmas), outside)
    return own


def _asks(text: str) -> bool:
    return forget_matching.is_question(text) or requests.forget_request(text) is not None
