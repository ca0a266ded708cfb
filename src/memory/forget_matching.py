"""Exact matching of a request to forget with stored facts, and redaction of their words.

Every content word of the request must be found in the fact: as a word, a name, a relative, or a
word for its relation ("where I live" finds ``lives_in``), never by similarity. "Forget that I play
tennis" finds no fact about football, although both play. ``[…]`` takes the place of what is cut
out of a message.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice, pairwise

from src.reading import facts, lexicon, requests, sentences
from src.reading.contradictions import affirms
from src.reading.facts import lemmas_about
from src.reading.gate import MASK
from src.reading.words import Word, answered_values, content_words, lemmas_in, lemmas_of, people
from src.texts.morphology import parts_of_speech
from src.texts.plain_text import (
    CUT,
    NFC,
    blank,
    plain,
    plain_with_offsets,
    quote_pattern,
    without_yo,
)

NOISE = lexicon.Expression(r"\b<match.noise>\b")
SUBJECT_PRONOUN = lexicon.Expression(r"\b<match.i>\b")
FIRST_PERSON = lexicon.Expression(r"<match.begins_own>\b")
OWN_PRONOUN = lexicon.Expression(r"\b<match.own>\b")
NAME = re.compile(r"(?<![\w'-])[A-ZА-ЯЁІЇЄҐ][\w'-]+")
# The text between a person and their name ("brother, called Ned").
NAMED = lexicon.AnyCase(r"(?:'s)?[\s,:—–-]+(?:<match.named>[\s—–-]+)*")
NUMBER = re.compile(r"\d")  # "I owe Ned 60" is about money
SURE = 2  # matched words from which on a number also matches words for money
FADING = 0.9  # of the weight of a word, from clause to clause
SHORT_FORM = 4  # letters that a word has at least when it is cut short
CLAUSE_END = re.compile("[,;:.!?—–]")
HAVING_THAT = lexicon.Expression(r"\b<match.having>\b")
SEVERAL = lexicon.AnyCase(r"\w(?:,|\s+<find.clause>)\s")
HAVING = lexicon.Expression(r"\b<match.has>\b")
# Separator of clauses.
SEPARATOR = lexicon.AnyCase(
    r"[.!?;,:\n]+\s*|\s+[—–-]\s+|\s+(?=<find.clause>\s)|(?<=[\d•])\s+(?=[^\W\d_]{3,}\s[\d•])"
)
# Rest of a sentence from which all content was redacted.
NOTHING = lexicon.AnyCase(r"[\W\d_]*(?:<find.left_over>[\W_]*)*")
Span = tuple[int, int]


@dataclass(frozen=True)
class Statement:
    """A fact, current or retired, or a sentence of a message from which no fact was made.

    Attributes:
        text: The text of the fact or sentence.
        subject: The canonical subject; empty when unknown.
        relation: The canonical relation; empty for a sentence.
        object: The value in the user's words.
        is_fact: False for a sentence.
        id: The id of the fact; 0 for a sentence.
        is_current: False for a retired fact.
        superseded_by: The id of the fact that replaced it.
        quotes: The exact words of each source, by ``msg-<id>``.
        speaker_id: In a group, the member who stated it.
        private_text: The text with the codes that are masked in it, or "".
    """

    text: str
    subject: str = ""
    relation: str = ""
    object: str = ""
    is_fact: bool = True
    id: int = 0
    is_current: bool = True
    superseded_by: int | None = None
    quotes: Mapping[str, str] = field(default_factory=dict)
    speaker_id: int | None = None
    private_text: str = ""

    @property
    def is_about_user(self) -> bool:
        """True if the user is the subject.

        A model may call the cat the subject of "у меня есть кот".
        """
        subject = facts.canonical_subject(self.subject)
        if not self.is_fact or subject == "user":
            return True
        return subject not in _kin() and FIRST_PERSON.match(plain(self.text)) is not None

    def is_about_other(self, lemmas: frozenset[str]) -> bool:
        """Return True if it is about a person of whom none of these lemmas speaks."""
        if self.is_fact:
            subject = facts.canonical_subject(self.subject)
            is_named = f"@{subject}" in lemmas or bool(_subject_lemmas(subject) & lemmas)
            return subject in _kin() and not is_named
        first = next(iter(content_words(self.text)), None)
        return first is not None and first.is_kin and not first.lemmas & lemmas

    def has_free(self, word: Word) -> bool:
        """Return True if a word occurs without a preposition before it, or does not occur."""
        text = plain(self.text)
        starts = [found.start for found in content_words(text) if found.lemmas & word.lemmas]
        before = [re.findall(r"[\w']+", text[:start])[-1:] for start in starts]
        prepositions = lexicon.words("sameness.prepositions")
        return not starts or any(not words or words[0] not in prepositions for words in before)

    @property
    def key_lemmas(self) -> frozenset[str]:
        """Lemmas of the value of a fact, or of all its words if it has no value."""
        is_value = plain(self.object) != plain(self.text)
        words = lemmas_of(self.object) if is_value else frozenset()
        return words or lemmas_of(self.text)


@dataclass(frozen=True)
class Request:
    """The thing to forget, in the user's words.

    Attributes:
        words: The content words.
        is_about_user: "that I play": the user is the subject.
        is_own: "my birthday": the thing is the user's.
        has_thing: "that I have a dog": the user has the thing, not only mentions it.
        is_negative: "that I don't eat meat".
        is_item: "cross off the milk": the thing stands in a list.
        is_of_several: "my number and my address".
    """

    words: tuple[Word, ...]
    is_about_user: bool
    is_own: bool
    has_thing: bool
    is_negative: bool
    is_item: bool
    is_of_several: bool

    @property
    def is_of_one(self) -> bool:
        """True if it names one thing or a person, not a detail of it."""
        return len(self.words) == 1 or all(word.is_kin or word.is_name for word in self.words)

    @property
    def lemmas(self) -> frozenset[str]:
        """All lemmas of the words."""
        return frozenset(lemma for word in self.words for lemma in word.lemmas)


def read_request(text: str) -> Request:
    """Parse a request, with or without "forget" before it."""
    parsed = requests.forget_request(text) or requests.list_request(text)
    about = parsed.about if parsed else text
    names = {without_yo(name.lower()) for name in NAME.findall(about)}
    bare = NOISE.sub(blank, plain(about))
    return Request(
        words=tuple(replace(w, is_name=w.text in names) for w in content_words(bare)),
        is_about_user=SUBJECT_PRONOUN.search(bare) is not None,
        is_own=OWN_PRONOUN.search(bare) is not None,
        has_thing=HAVING_THAT.search(bare) is not None,
        is_negative=not affirms(about),
        is_item=requests.names_item(text, about),
        is_of_several=SEVERAL.search(bare) is not None,
    )


def is_question(text: str) -> bool:
    """Return True if all sentences (the first MAX_SENTENCES) are questions."""
    found = list(islice(sentences.sentences(text), sentences.MAX_SENTENCES))
    return bool(found) and all(map(sentences.is_question, found))


def is_meant(request: Request, candidate: Statement) -> bool:
    """Return True if the candidate matches every word of the request, and its meaning."""
    words = len(request.words)
    if words == 0 or count_shared(request, candidate) != words:
        return False
    if request.is_about_user and not candidate.is_about_user:
        return False
    is_users_own = request.is_about_user or request.is_own
    if is_users_own and candidate.is_about_other(request.lemmas):
        return False
    by_relation = lemmas_about(candidate.relation)
    # Of "my name" only the owner of the thing decides.
    names_only_relation = all(word.lemmas & by_relation for word in request.words)
    if is_users_own and names_only_relation and not candidate.is_about_user:
        return False
    has_polarity = request.is_negative or request.is_about_user or request.has_thing
    if has_polarity and affirms(_statement(request, candidate)) == request.is_negative:
        return False
    is_a_thing = request.is_own and words == 1
    if is_a_thing and not candidate.has_free(request.words[0]):
        return False  # "my dog" is not the dog of "allergic to dogs"
    return not request.has_thing or _has_as_thing(request, candidate)


def count_shared(request: Request, candidate: Statement) -> int:
    """Return how many words of the request the candidate contains."""
    known = lemmas_of(f"{candidate.text} {candidate.object}") | _subject_lemmas(candidate.subject)
    relation = _relation_words(candidate, known)
    if not candidate.is_fact or MASK in candidate.text:
        known |= answered_values(candidate.text)  # "the locker number" is in "locker 12"
    # Words that no dictionary knows may be cut short: "аккум".
    texts = [word.text for word in content_words(candidate.text)]
    long = [text for text in texts if len(text) >= SHORT_FORM and not text.isascii()]
    short = tuple(text for text in long if not parts_of_speech(text))
    found = sum(
        bool(word.lemmas & (known | relation)) or word.text.startswith(short)
        for word in request.words
    )
    if found < SURE or NUMBER.search(candidate.text) is None:
        return found
    money = lemmas_in("match.money") - known - relation
    return found + sum(bool(word.lemmas & money) for word in request.words)


def weigh_clauses(request: Request, texts: Iterable[str]) -> list[float]:
    """Return how much of a request each clause of a text tells.

    A clause with a word of the request goes on about what those before it named: "Bev comes on
    Mondays, charges 135". The nearer they stand, the more that counts; not at all if the request
    names several things.
    """
    fading = 0.0 if request.is_of_several else FADING
    weights: list[float] = []
    named = [0.0] * len(request.words)
    for text in texts:
        own = [_weigh(request, number, text) for number in range(len(named))]
        named = [max(weight, fading * before) for weight, before in zip(own, named, strict=True)]
        weights.append(sum(named) if any(own) else 0.0)
    return weights


def _weigh(request: Request, number: int, text: str) -> float:
    """Return the weight of one word of a request in a clause; half of it for a mere value.

    A person counts twice, and the thing that is named first a little more: "the driftwood from
    Fedya" stands in the clause that tells of the driftwood, whichever tells of Fedya.
    """
    word = request.words[number]
    alone, kinds = replace(request, words=(word,)), (True, False)
    shared = sum(count_shared(alone, Statement(text, is_fact=kind)) for kind in kinds) / 2
    if word.is_kin or word.is_name or "Name" in parts_of_speech(word.text):
        return 2 * shared
    return 2.5 * shared if number == 0 else shared


def choose_best(request: Request, meant: Sequence[Statement]) -> Sequence[Statement]:
    """Narrow matches down: not about another person, and without words beyond the request."""
    lemmas = request.lemmas
    candidates = [c for c in meant if not c.is_about_other(lemmas)] or meant
    exact = [c for c in candidates if all(w.lemmas & lemmas for w in content_words(c.text))]
    return exact if len(exact) == 1 else candidates


def find_names(request: Request, candidates: Iterable[Statement]) -> frozenset[str]:
    """Return names next to a person of the request: Руслан in "мой бывший Руслан"."""
    names: set[str] = set()
    lemmas, caller = request.lemmas, lexicon.words("match.called")
    for entry in candidates:
        words = [word for word in content_words(entry.text) if word.text not in caller]
        for word, following in pairwise(words):
            between = entry.text[word.end : following.start]
            if word.lemmas & lemmas and following.is_name and NAMED.fullmatch(between):
                names |= following.lemmas
    return frozenset(names)


def is_about_person(request: Request, candidate: Statement) -> bool:
    """Return True if the request names only people, and the candidate mentions one of them."""
    if not request.words or not all(word.is_kin or word.is_name for word in request.words):
        return False
    known = lemmas_of(f"{candidate.text} {candidate.object}") | _subject_lemmas(candidate.subject)
    return any(word.lemmas & known for word in request.words)


def _statement(request: Request, candidate: Statement) -> str:
    """Return the part that states the thing, without clauses such as "tell nobody" after it."""
    lemmas = request.lemmas
    found = [word for word in content_words(candidate.text) if word.lemmas & lemmas]
    if candidate.is_fact or not found:
        return candidate.text
    ends = [end.end() for end in CLAUSE_END.finditer(candidate.text, 0, found[0].start)]
    start = ends[-1] if ends else 0
    return candidate.text[start : found[-1].end]


def _has_as_thing(request: Request, candidate: Statement) -> bool:
    """Return True if the user has the thing: "аллергия на собак" does not mean a dog."""
    if not candidate.is_about_user:
        return False
    if candidate.relation in OWNING:
        return True
    is_free = any(map(candidate.has_free, request.words))
    return is_free and HAVING.search(plain(candidate.text)) is not None


def _relation_words(candidate: Statement, known: frozenset[str]) -> frozenset[str]:
    """Return words that name the relation of the fact; "name" only if a name is in the object."""
    words: frozenset[str] = lemmas_about(candidate.relation)
    if candidate.relation.startswith("favourite_"):
        words |= lemmas_in("match.favourite")
    for relation in VERBS:  # "люблю" also matches "нравится"
        if known & lemmas_about(relation):
            words |= lemmas_about(relation)
    has_name = candidate.relation in NAMING and any(
        w.is_name for w in content_words(f"x {candidate.object}")
    )
    return words | lemmas_about("name") if has_name else words


def _subject_lemmas(subject: str) -> frozenset[str]:
    canonical = facts.canonical_subject(subject)
    if canonical == "user":
        return frozenset()
    return lemmas_of(subject) | ({f"@{canonical}"} if canonical in _kin() else frozenset())


@cache
def _kin() -> frozenset[str]:
    return frozenset(people().values()) - {"user"}


OWNING = frozenset(
    {
        "has_pet",
        "has_child",
        "has_sibling",
        "has_parent",
        "has_friend",
        "owns",
        "car",
        "married_to",
        "partner",
    }
)
NAMING = OWNING | {"name", "nickname", "knows"}
VERBS = ("likes", "lives_in", "works_as", "allergic_to")


def spans(text: str, quote: str) -> list[Span]:
    """Return the spans of a quote in a text; both are folded as by ``plain``.

    Like the gate, it matches whole words only.

    Args:
        text: The message; spans are counted in ``NFC(text)``.
        quote: The words; without letters or digits they match nothing.
    """
    folded, indexes = plain_with_offsets(text)
    found = quote_pattern(quote).finditer(folded)
    return [(indexes[match.start()], indexes[match.end() - 1] + 1) for match in found]


def clauses(text: str, within: Span | None = None) -> list[Span]:
    """Return the clauses of a text, or of a part of it, without the separators."""
    start, end = within or (0, len(text))
    found: list[Span] = []
    for match in SEPARATOR.finditer(text, start, end):
        found.append((start, match.start()))
        start = match.end()
    return [(a, b) for a, b in (*found, (start, end)) if text[a:b].strip()]


def clauses_that_say(text: str, lemmas: frozenset[str], within: Span | None = None) -> list[Span]:
    """Return the clauses that contain one of these lemmas in any form."""
    return [
        (start, end)
        for start, end in clauses(text, within)
        if any(word.lemmas & lemmas for word in content_words(text[start:end]))
    ]


def cut(text: str, parts: Iterable[Span]) -> str:
    """Return the text with ``[…]`` in place of these parts; empty if nothing else is left."""
    text = NFC(text)
    pieces: list[str] = []
    at = 0
    for start, end in sorted(parts):
        if start > at or not pieces:  # parts may overlap
            pieces.append(text[at:start])
        at = max(at, end)
    pieces.append(text[at:])
    return "" if all(map(NOTHING.fullmatch, pieces)) else CUT.join(pieces)


def without(parts: Sequence[Span], excluded: Sequence[Span]) -> list[Span]:
    """Return the parts that do not overlap with ``excluded``."""
    return [
        (start, end)
        for start, end in parts
        if not any(start < until and begin < end for begin, until in excluded)
    ]
