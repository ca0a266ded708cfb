"""Facts: their model, known relations and subjects, and the test for duplicates."""

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, datetime
from functools import cache, lru_cache
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from src.reading import lexicon
from src.reading.words import people, read_numbers, word_lemmas
from src.texts.morphology import lemmas, parts_of_speech
from src.texts.plain_text import normalise, plain

MemoryType = Literal["user_fact", "preference", "event", "conversation_insight", "private"]
Origin = Literal["tool", "teach", "command", "extraction", "connected"]

# Types of facts, with their descriptions for models. A new type needs a migration: the database
# checks ``memories.memory_type``.
MEMORY_TYPES: Mapping[MemoryType, str] = {
    "user_fact": "who the person is, lives, works, has",
    "preference": "likes, dislikes, habits",
    "event": "what happens at a time",
    "conversation_insight": "a goal or a plan",
}

# A household secret, such as a door code, stored on request; hidden from models.
PRIVATE: MemoryType = "private"

MAX_SUBJECT, MAX_RELATION, MAX_OBJECT = 100, 60, 400  # characters; the rest is cut off
MAX_REPLACED = 20  # facts that one fact may replace
FACT_UID = "fact-"
WISH = "wish"  # relation of facts about how the bot should answer


def _known_type(value: Any) -> Any:
    return value if value in tuple(MEMORY_TYPES) else "user_fact"


def _within_scale(value: Any) -> int:
    try:
        return max(1, min(10, round(float(value))))
    except (TypeError, ValueError, OverflowError):
        return 5


def _as_ids(value: Any) -> list[str]:
    values = value if isinstance(value, list | tuple | set | frozenset) else [value]
    return [str(entry).strip() for entry in values if entry][:MAX_REPLACED]


def _as_moment(value: Any) -> Any:
    """Read a date such as 2026, 2026-05 or 2026-05-01; None for anything else."""
    if not isinstance(value, str):
        return value if isinstance(value, datetime) else None
    text = value.strip()
    with suppress(ValueError):
        moment = datetime.fromisoformat(text + {4: "-01-01", 7: "-01"}.get(len(text), ""))
        return moment if MINYEAR < moment.year < MAXYEAR else None  # 9999: for ever
    return None


def _as_share(value: Any) -> float:
    try:
        return max(0.0, min(1.0, float(value)))
    except (TypeError, ValueError, OverflowError):
        return 1.0


Moment = Annotated[
    datetime | None, BeforeValidator(_as_moment), WithJsonSchema({"type": "string"})
]
Words = Annotated[str, BeforeValidator(lambda value: "" if value is None else str(value).strip())]


class Fact(BaseModel):
    """What a model wants to have stored; nothing in it is trusted before the gate.

    Sloppy values become usable ones here (a type that does not exist, an importance of 11, no
    quote), so that a model's slip costs no fact.

    Attributes:
        text: The fact as one sentence in the user's language.
        quote: The user's own words that say so, exactly as written; by default the text.
        message: ``msg-<id>`` of the message that the quote is from, when the model was shown ids.
        memory_type: What kind of fact it is: one of ``MEMORY_TYPES``.
        importance: 1 (a trifle) to 10 (never to be forgotten).
        subject: Whom or what it is about: "user" for the user, else a name or a role.
        relation: What links the subject and the object, for example "lives_in".
        object: The value: a city, a name, a date; by default the text.
        replaces: ``fact-<id>`` of each fact that does not hold any more because of it.
        pinned: Whether it shall always be in the prompt.
        valid_from: Since when it holds in the world, in the user's zone if it has none; None when
            it was not said.
        valid_until: Until when it holds, likewise.
        confidence: How sure the model is that the user means it, 0 to 1.
    """

    model_config = ConfigDict(frozen=True)
    text: Words = Field(validation_alias=AliasChoices("text", "fact", "content", "statement"))
    quote: Words = ""
    message: Words = ""
    memory_type: Annotated[MemoryType, BeforeValidator(_known_type)] = "user_fact"
    importance: Annotated[int, BeforeValidator(_within_scale)] = 5
    subject: Words = "user"
    relation: Words = "other"
    object: Words = ""
    replaces: Annotated[list[str], BeforeValidator(_as_ids)] = Field(default_factory=list)
    pinned: Annotated[bool, BeforeValidator(lambda value: str(value).lower() == "true")] = False
    valid_from: Moment = None
    valid_until: Moment = None
    confidence: Annotated[float, BeforeValidator(_as_share)] = 1.0

    @model_validator(mode="after")
    def _complete(self) -> Self:
        self.__dict__.update(  # the model is frozen
            quote=self.quote or self.text,
            subject=self.subject[:MAX_SUBJECT] or "user",
            relation=self.relation[:MAX_RELATION] or "other",
            object=self.object[:MAX_OBJECT] or self.text[:MAX_OBJECT],
        )
        return self

    def replaced_ids(self) -> frozenset[int]:
        """Return the ids of the facts that it claims to replace."""
        numbers = (fact_number(uid) for uid in self.replaces)
        return frozenset(number for number in numbers if number is not None)


def fact_uid(memory_id: int) -> str:
    """Return the name of a fact in prompts and buttons: ``fact-12``."""
    return f"{FACT_UID}{memory_id}"


def fact_number(uid: str, prefix: str = FACT_UID) -> int | None:
    """Return 12 for ``fact-12`` (or another prefix and 12), None for anything else."""
    number = uid.removeprefix(prefix)
    is_number = number != uid and number.isascii() and number.isdigit() and len(number) <= 18
    return int(number) if is_number else None


# Table of known relations, and the questions that ask for them.

EntityType = Literal["person", "place", "pet", "organisation", "thing"]


@dataclass(frozen=True)
class Relation:
    """Relation between a subject and a value.

    Attributes:
        name: Canonical name, in English.
        is_single: True if a subject has one value at a time, so that a new one replaces the old.
        importance: Default importance of such a fact, 1 to 10.
        value: What its value is, where that is certain; else it may be anything.
    """

    name: str
    is_single: bool = False
    importance: int = 5
    value: EntityType | None = None


RELATIONS = (
    Relation("name", is_single=True, importance=10),
    Relation("nickname", is_single=True, importance=9),
    Relation("age", is_single=True, importance=7),
    Relation("birthday", is_single=True, importance=8),
    Relation("gender", is_single=True),
    Relation("nationality"),
    Relation("lives_in", is_single=True, importance=7, value="place"),
    Relation("born_in", is_single=True, value="place"),
    Relation("address", is_single=True, importance=7, value="place"),
    Relation("works_as", importance=7),
    Relation("works_at", importance=7, value="organisation"),
    Relation("studies_at", is_single=True, importance=7, value="organisation"),
    Relation("studies", is_single=True),
    Relation("married_to", is_single=True, importance=8, value="person"),
    Relation("partner", is_single=True, importance=8, value="person"),
    Relation("email", importance=6),
    Relation("phone", importance=6),
    Relation("height", is_single=True),
    Relation("weight", is_single=True),
    Relation("shoe_size", is_single=True),
    Relation("clothes_size", is_single=True),
    Relation("diet", is_single=True, importance=7),
    Relation("time_zone", is_single=True, importance=7),
    Relation("native_language", importance=7),
    Relation("car"),
    Relation("likes"),
    Relation("dislikes"),
    Relation("has_child", importance=8, value="person"),
    Relation("has_sibling", importance=8, value="person"),
    Relation("has_parent", importance=8, value="person"),
    Relation("has_pet", importance=6, value="pet"),
    Relation("has_friend", value="person"),
    Relation("allergic_to", importance=9),
    Relation("speaks"),
    Relation("owns"),
    Relation("visited", value="place"),
    Relation("plans"),
    Relation("hobby"),
    Relation("habit"),
    Relation("event"),
    Relation("skill"),
    Relation("condition", importance=8),
    Relation("takes_medicine", importance=8),
    Relation("knows"),
    Relation("wish", importance=10),
)
BY_NAME = {relation.name: relation for relation in RELATIONS}
VALUE_TYPES = {relation.name: relation.value for relation in RELATIONS if relation.value}


@lru_cache(maxsize=256)
def lemmas_about(relation: str) -> frozenset[str]:
    """Return the lemmas of the words for a relation in a request to forget ("my job").

    None of them is one of its values.
    """
    tables = (table for _, table in lexicon.by_language("relations.about"))
    words = [word for table in tables for word in table.get(relation, "").split()]
    return frozenset[str]().union(*map(word_lemmas, words))


# Relations in questions: "где я живу?" asks for ``lives_in``.
#
# A fact is indexed with its relation as an additional term, and a question searches for that term.
# So "I moved to Lviv" answers "where do I live?" without a common word.

MAX_QUESTION = 300  # characters; only the end of a longer text is searched


def relation_term(relation: str) -> str:
    """Return the search term of a relation; no word contains an equals sign."""
    return f"={relation}"


@cache
def _questions() -> dict[str, lexicon.Expression]:
    """Return expressions for the questions by the relations that they ask for."""
    asked = [table for _, table in lexicon.by_language("relations.asked")]
    names = [one.name for one in RELATIONS if any(one.name in table for table in asked)]
    return {name: lexicon.AnyCase(rf"(?<!\w)<relations.asked.{name}>(?!\w)") for name in names}


def asked_relations(question: str) -> list[str]:
    """Return the relations that a question asks for, as search terms."""
    text = question[-MAX_QUESTION:].replace("ё", "е").replace("’", "'")
    return [relation_term(name) for name, words in _questions().items() if words.search(text)]


# Canonical relations and subjects, and single-valued relations.
#
# Models name the same relation in many ways and in the user's language. A known relation gets one
# English name; an unknown one stays as written and counts as multi-valued, so that no rule retires
# a fact whose meaning it does not know.

_FAVOURITE = lexicon.Expression("(?:<facts.of_somebody>_)?<facts.favourite>_(.+)")
THING_LETTERS = 5  # of each word of a favourite thing; ignores case endings


def _normalise_relation(relation: str) -> str:
    letters = plain(relation).replace("'", "")
    return re.sub(r"[\W_]+", "_", letters).strip("_")


@cache
def _aliases() -> dict[str, str]:
    names = {name: name for name in BY_NAME} | lexicon.values("relations.aliases")
    return {_normalise_relation(alias): name for alias, name in names.items()}


def canonical_relation(relation: str) -> str:
    """Return the relation's canonical name, or else its spelling (lower case, underscores).

    A favourite thing is a relation of its own: "улюблене місто" is ``favourite_місто``.
    """
    spelling = _normalise_relation(relation)
    bare, aliases = spelling, _aliases()
    auxiliaries = tuple(f"{word}_" for word in lexicon.words("facts.auxiliaries"))
    while bare not in aliases and bare.startswith(auxiliaries):
        bare = bare.split("_", 1)[1]
    if bare in aliases:
        return aliases[bare]
    if (favourite := _FAVOURITE.fullmatch(bare)) is None:
        return spelling
    thing = favourite[1].replace("colour", "color")
    return "favourite_" + "_".join(word[:THING_LETTERS] for word in thing.split("_"))


def holds_many(relation: str) -> bool:
    """Return True if a subject may have several values of the relation, as of an unknown one."""
    name = canonical_relation(relation)
    known = BY_NAME.get(name)
    return not (known.is_single if known else name.startswith("favourite_"))


def canonical_subject(subject: str) -> str:
    """Return "user" for the user, an English word for kin, or else the normalised name."""
    words = normalise(subject).split()
    owners = lexicon.words("people.owners")
    rest = [word.removesuffix("'s") for word in words if word not in owners] or words
    return " ".join(people().get(word, word) for word in rest)


def is_update(new: Fact, old: Fact) -> bool:
    """Return True if the new fact replaces an old one by rule alone; both may be in one message.

    Both must state different values of the same single-valued relation of the same subject. A
    brother or a cat with another name is another one: only the user's own name is replaced. The
    caller compares the times for which the facts are valid.
    """
    subject, relation = canonical_subject(new.subject), canonical_relation(new.relation)
    if relation == "name" and subject != "user":
        return False
    return (
        subject == canonical_subject(old.subject)
        and relation == canonical_relation(old.relation)
        and not holds_many(relation)
        and normalise(new.object) != normalise(old.object)
    )


# Duplicates: texts that state the same fact.
#
# Similar embeddings prove nothing: 15:00 and 16:30, "есть аллергия" and "нет аллергии" are closer
# than 0.95. So duplicates must also consist of the same words in the same order. Three things may
# differ: filler words ("очень", "now", "у меня"), the ending of one word within its declension or
# conjugation, and one group of words that moved to the other end. Any other difference (a number,
# a name, a negation, an antonym, a preposition, a relative, a tense, singular and plural) is a
# word without a counterpart, so no list of such pairs is needed. A false "same" would lose a
# fact; a false "different" only stores a near-duplicate, so synonyms and translations count as
# different.

__all__ = ["content_hash", "is_same", "normalise"]

CONTRACTIONS = {"ca": "can", "wo": "will", "sha": "shall"}  # before n't
# Grammemes of OpenCorpora that tell the forms of a verb, or of a noun, apart.
OF_VERBS, OF_NOUNS = (
    frozenset({"sing", "plur", "past", "pres", "futr"}),
    frozenset({"sing", "plur", "masc", "femn"}),
)
MAX_INFLECTED = 1  # words; two may swap roles: "Олег помог Ивану", "Олегу помог Иван"

# "I have" in Russian and Ukrainian; "I am", whose "am" must not be read as morning.
FILLER_PHRASE = lexicon.Expression(r"\b<sameness.filler_phrases>\b")
CLAUSES = lexicon.AnyCase(r"[,;:.!?—–-]\s+\w|\s<sameness.conjunctions>\s")


def content_hash(text: str, speaker_id: int | None = None) -> str:
    """Return the SHA-256 of the normalised text in hexadecimal; in a group also of the speaker.

    Users choose the texts, so the hash must be collision-resistant; and unlike Python's ``hash``
    it is the same in every process.
    """
    identity = normalise(text) if speaker_id is None else f"{speaker_id}: {normalise(text)}"
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()


def is_same(
    a: str,
    b: str,
    *,
    similarity: float,
    threshold: float = 0.95,
    subjects: tuple[str, str] | None = None,
) -> bool:
    """Return True if ``b`` states the same as ``a``, so that nothing new needs to be stored.

    Args:
        a: One fact.
        b: The other.
        similarity: Calibrated similarity of their embeddings, 0 to 1.
        threshold: Below it they differ, unless the normalised texts are equal.
        subjects: Their subjects, if known; different subjects make different facts. Equal texts
            are duplicates all the same: the content hash admits only one of them.
    """
    if normalise(a) == normalise(b):
        return True
    if not similarity >= threshold:  # also rejects NaN
        return False
    if subjects is not None and canonical_subject(subjects[0]) != canonical_subject(subjects[1]):
        return False
    left, right = _core_words(a), _core_words(b)
    if not left or len(left) != len(right):
        return False
    changed = [pair for pair in zip(left, right, strict=True) if pair[0] != pair[1]]
    is_inflected = len(changed) <= MAX_INFLECTED and all(_is_one_word(*pair) for pair in changed)
    if is_inflected and _count_articles(a) == _count_articles(b):
        return True
    return not (CLAUSES.search(a) or CLAUSES.search(b)) and _is_rotated(left, right)


def _core_words(text: str) -> list[str]:
    expanded: list[str] = []
    for word in FILLER_PHRASE.sub(" ", normalise(text)).split():
        if word == "cannot":
            expanded += ["can", "not"]
        elif word.endswith("n't") and word != "n't":
            expanded += [CONTRACTIONS.get(word[:-3], word[:-3]), "not"]
        elif word.endswith("'ve"):
            expanded += [word[:-3], "have"]
        else:
            expanded.append(word)
    variants, fillers = lexicon.values("sameness.variants"), lexicon.words("sameness.fillers")
    return [variants.get(word, word) for word in read_numbers(expanded) if word not in fillers]


def _count_articles(text: str) -> int:
    """Return the number of indefinite articles: "a dog" and "dogs" differ."""
    return sum(word in ("a", "an") for word in normalise(text).split())


def _is_one_word(left: str, right: str) -> bool:
    """Return True if two forms are of one word, in the same number, gender and tense."""
    if left.isascii() and right.isascii():
        return left.isalpha() and right.isalpha() and _without_s(left) == _without_s(right)
    forms, others = parts_of_speech(left), parts_of_speech(right)
    telling = OF_VERBS if "VERB" in forms & others else OF_NOUNS
    is_same_form = forms & telling == others & telling
    return is_same_form and not lemmas(left).isdisjoint(lemmas(right))


def _without_s(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _is_rotated(left: list[str], right: list[str]) -> bool:
    """Return True if the texts differ by one group of words moved from one end to the other.

    The forms must be equal, because endings and order together say who does what. A group does
    not end in a preposition or a negation, which belong to the next word; in English it begins
    with a preposition ("on Mondays I ..."), or else the order says who does what. With two
    numbers it would be uncertain which belongs to what.
    """
    if sum(word[-1].isdecimal() for word in left) > 1:
        return False
    prepositions = lexicon.words("sameness.prepositions")
    fixed = lexicon.words("sameness.negations") | prepositions
    for cut in range(1, len(left)):
        first, second = left[:cut], left[cut:]
        if second + first != right or {first[-1], second[-1]} & fixed:
            continue
        if not "".join(left).isascii() or {first[0], second[0]} & prepositions:
            return True
    return False
