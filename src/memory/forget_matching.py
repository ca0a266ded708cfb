"""What a request to forget means: which facts, by the thing itself and never by nearness.

Every word of the request that says something must be found in the fact: as a word, a name, a
relative, or a word for its relation ("where I live" finds ``lives_in``). "Forget that I play
tennis" finds no fact about football, although both play.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice, pairwise

from src.reading import lexicon
from src.reading.contradictions import stance
from src.reading.facts import canonical_subject
from src.reading.requests import forget_request
from src.reading.sentences import MAX_SENTENCES, sentences
from src.reading.sentences import is_question as asks
from src.reading.words import Word, content_words, lemmas_about, lemmas_in, lemmas_of, people
from src.texts.plain_text import blank, flat, plain, without_yo

NOISE = lexicon.Expression(r"\b<match.noise>\b")
SUBJECT_PRONOUN = lexicon.Expression(r"\b<match.i>\b")
FIRST_PERSON = lexicon.Expression(r"<match.begins_own>\b")
OWN_PRONOUN = lexicon.Expression(r"\b<match.own>\b")
NAME = re.compile(r"(?<![\w'-])[A-ZА-ЯЁІЇЄҐ][\w'-]+")
# Between a person and their name.
NAMED = lexicon.AnyCase(r"(?:'s)?[\s,:—–-]+(?:<match.named>[\s—–-]+)*")
NUMBER = re.compile(r"\d")  # "I owe Ned 60" speaks of money, where all else is said, too
SURE = 2  # words
CLAUSE_END = re.compile("[,;:.!?—–]")
HAVING_THAT = lexicon.Expression(r"\b<match.having>\b")
HAVING = lexicon.Expression(r"\b<match.has>\b")


@dataclass(frozen=True)
class Told:
    """A fact of the owner's, living or retired, or a sentence of a message that told none.

    Attributes:
        text: What it says.
        subject: Whom it is about, canonical; empty when unknown.
        relation: Canonical; empty for a sentence.
        object: The value, as it was said.
        is_fact: Whether it is one.
        id: Its number; 0 for a sentence.
        is_living: Whether it holds.
        superseded_by: What took its place.
        quotes: The exact words that told it, by ``msg-<id>``.
        speaker_id: In a group, the member who told it.
    """

    text: str
    subject: str = ""
    relation: str = ""
    object: str = ""
    is_fact: bool = True
    id: int = 0
    is_living: bool = True
    superseded_by: int | None = None
    quotes: Mapping[str, str] = field(default_factory=dict)
    speaker_id: int | None = None


@dataclass(frozen=True)
class Request:
    """What is to be forgotten, in the user's words.

    Attributes:
        words: The words that say what.
        is_about_user: "that I play": the user is the subject.
        is_his_own: "my birthday".
        has_thing: "that I have a dog": the thing is had, not only spoken of.
        is_negative: "that I don't eat meat".
    """

    words: tuple[Word, ...]
    is_about_user: bool
    is_his_own: bool
    has_thing: bool
    is_negative: bool


def read_request(text: str) -> Request:
    """Understand the words of a request, with or without "forget" before them."""
    wanted = forget_request(text)
    about = wanted.about if wanted else text
    names = {without_yo(name.lower()) for name in NAME.findall(about)}
    bare = NOISE.sub(blank, flat(about))
    has_thing = HAVING_THAT.search(bare)
    return Request(
        words=tuple(replace(w, is_name=w.text in names) for w in content_words(bare)),
        is_about_user=SUBJECT_PRONOUN.search(bare) is not None,
        is_his_own=OWN_PRONOUN.search(bare) is not None,
        has_thing=has_thing is not None,
        is_negative=not stance(about).is_positive,
    )


def is_question(text: str) -> bool:
    """Whether a text asks, and tells nothing."""
    found = list(islice(sentences(text), MAX_SENTENCES))
    return bool(found) and all(map(asks, found))


def is_meant(request: Request, told: Told) -> bool:
    """Whether a request surely means a fact: it speaks of all that the request names."""
    words = len(request.words)
    return words > 0 and shared(request, told) == words and _fits(request, told)


def shared(request: Request, told: Told) -> int:
    """How many words of the request are found in a fact."""
    known = lemmas_of(f"{told.text} {told.object}") | _subject_lemmas(told.subject)
    relation = _relation_words(told, known)
    found = sum(bool(word.lemmas & (known | relation)) for word in request.words)
    if found < SURE or NUMBER.search(told.text) is None:
        return found
    money = lemmas_in("match.money") - known - relation
    return found + sum(bool(word.lemmas & money) for word in request.words)


def choose(request: Request, meant: Sequence[Told]) -> Sequence[Told]:
    """Of several facts that fit, the best: about no other person, and of nothing else."""
    candidates = [told for told in meant if not _is_of_another(request, told)] or meant
    wanted = frozenset(lemma for word in request.words for lemma in word.lemmas)
    exact = [
        told for told in candidates if all(w.lemmas & wanted for w in content_words(told.text))
    ]
    return exact if len(exact) == 1 else candidates


def names_of(request: Request, told: Iterable[Told]) -> frozenset[str]:
    """Names that stand beside a person of the request: "мой бывший Руслан" names Руслан."""
    names: set[str] = set()
    for entry in told:
        words = [
            word
            for word in content_words(entry.text)
            if word.text not in lexicon.words("match.called")
        ]
        for word, following in pairwise(words):
            is_named = any(word.lemmas & wanted.lemmas for wanted in request.words)
            between = entry.text[word.end : following.start]
            if is_named and following.is_name and NAMED.fullmatch(between):
                names |= following.lemmas
    return frozenset(names)


def is_about_person(request: Request, told: Told) -> bool:
    """Whether a request names only people, and a fact speaks of one of them."""
    if not request.words or not all(word.is_kin or word.is_name for word in request.words):
        return False
    known = lemmas_of(f"{told.text} {told.object}") | _subject_lemmas(told.subject)
    return any(word.lemmas & known for word in request.words)


def _fits(request: Request, told: Told) -> bool:
    """Whether the subject, the polarity and the role of the words agree as well."""
    if request.is_about_user and not _is_about_user(told):
        return False
    is_own = request.is_about_user or request.is_his_own
    if is_own and _is_of_another(request, told):
        return False
    if is_own and _only_by_relation(request, told) and not _is_about_user(told):
        return False
    tells_whether = request.is_negative or request.is_about_user or request.has_thing
    if tells_whether and stance(_meant_part(request, told)).is_positive == request.is_negative:
        return False
    is_a_thing = request.is_his_own and len(request.words) == 1
    if is_a_thing and not _stands_free(request.words[0], told):
        return False  # "my dog" is not the dog of "allergic to dogs"
    return not request.has_thing or _has_as_thing(request, told)


def _meant_part(request: Request, told: Told) -> str:
    """What a fact, or a sentence, tells of the request: not "tell nobody" behind it."""
    named = [
        word
        for word in content_words(told.text)
        if any(word.lemmas & wanted.lemmas for wanted in request.words)
    ]
    if told.is_fact or not named:
        return told.text
    ends = [end.end() for end in CLAUSE_END.finditer(told.text, 0, named[0].start)]
    begin = ends[-1] if ends else 0
    return told.text[begin : named[-1].end]


def _only_by_relation(request: Request, told: Told) -> bool:
    """Whether it names the relation alone, as in "my name": then whose it is decides."""
    by_relation = lemmas_about(told.relation)
    return all(word.lemmas & by_relation for word in request.words)


def _is_about_user(told: Told) -> bool:
    """Whether the user is its subject, as of "у меня есть кот", though a model says: the cat."""
    subject = canonical_subject(told.subject)
    if not told.is_fact or subject == "user":
        return True
    return subject not in _kin() and FIRST_PERSON.match(plain(told.text)) is not None


def _is_of_another(request: Request, told: Told) -> bool:
    """Whether it is about a person whom the request does not name."""
    wanted = {lemma for word in request.words for lemma in word.lemmas}
    if told.is_fact:
        subject = canonical_subject(told.subject)
        is_person = subject in _kin()
        return is_person and f"@{subject}" not in wanted and not _subject_lemmas(subject) & wanted
    first = next(iter(content_words(told.text)), None)
    return first is not None and first.is_kin and not first.lemmas & wanted


def _has_as_thing(request: Request, told: Told) -> bool:
    """Whether the thing is had there, not only spoken of: no "аллергия на собак" for a dog."""
    if not _is_about_user(told):
        return False
    if told.relation in OWNING:
        return True
    is_free = any(_stands_free(word, told) for word in request.words)
    return is_free and HAVING.search(plain(told.text)) is not None


def _stands_free(wanted: Word, told: Told) -> bool:
    """Whether a word stands there without a preposition before it, if it stands there at all."""
    text = plain(told.text)
    places = [word.start for word in content_words(text) if word.lemmas & wanted.lemmas]
    before = [re.findall(r"[\w']+", text[:start])[-1:] for start in places]
    prepositions = lexicon.words("sameness.prepositions")
    return not places or any(not words or words[0] not in prepositions for words in before)


def _relation_words(told: Told, known: frozenset[str]) -> frozenset[str]:
    """Words that name the relation, when the fact has that one; a name must have been told."""
    words: frozenset[str] = lemmas_about(told.relation)
    if told.relation.startswith("favourite_"):
        words |= lemmas_in("match.favourite")
    for relation in VERBS:  # "нравится" is told as "люблю"
        if known & lemmas_about(relation):
            words |= lemmas_about(relation)
    is_named = told.relation in NAMING and any(
        w.is_name for w in content_words(f"x {told.object}")
    )
    return words | lemmas_about("name") if is_named else words


def _subject_lemmas(subject: str) -> frozenset[str]:
    canonical = canonical_subject(subject)
    if canonical == "user":
        return frozenset()
    return lemmas_of(subject) | ({f"@{canonical}"} if canonical in _kin() else frozenset())


@cache
def _kin() -> frozenset[str]:
    return frozenset(people().values()) - {"user"}


OWNING = frozenset(
    {"has_pet", "has_child", "has_sibling", "has_parent", "has_friend", "owns", "car",
     "married_to", "partner"}
)  # fmt: skip
NAMING = OWNING | {"name", "nickname", "knows"}
VERBS = ("likes", "lives_in", "works_as", "allergic_to")
