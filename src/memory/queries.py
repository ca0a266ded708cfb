"""Queries of the search: filters, overviews, search terms in all languages.

A question is in another language than the note that answers it more often than an embedding of a
small model bears. So the search looks for each word of the question also by the words that stand
for it in Russian, Ukrainian and English (``concepts.toml``), and for each name in the letters of
the other script.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import islice, product
from pathlib import Path
from typing import Literal, cast

from src.base.owners import Owner
from src.memory.retrieval_repo import NOTHING_SHOWN, Hit, Shown
from src.memory.search_index_repo import DocumentKind
from src.memory.thresholds import RELATED
from src.reading import facts, requests
from src.reading.facts import canonical_subject
from src.reading.lexicon import key_of
from src.reading.time_expressions import Period, TimeQuery, read_time
from src.reading.words import entity_forms
from src.texts.morphology import (
    WORD,
    dictionary_forms,
    inflections,
    nominatives,
    stem_english,
    terms,
)
from src.texts.plain_text import plain

MAX_QUERY = 2000  # characters
TOKENS = 50  # of a short message in a prompt
Bounds = tuple[datetime | None, datetime | None]

# Requests for an overview: facts about the user or their family, or messages of a period. They are
# answered by kind and time: no word and no vector of "what do you know about me?" leads to a fact.

OverviewKind = Literal["profile", "family", "work", "wishes", "period"]


@dataclass(frozen=True)
class Overview:
    """Kind and periods of a requested overview.

    Attributes:
        kind: ``profile``: facts of every kind; ``family``: facts about kin; ``work``; ``wishes``:
            how to answer; ``period``: messages of the user.
        periods: Half-open periods to which it is limited; empty for all time.
    """

    kind: OverviewKind
    periods: Sequence[Period] = ()


FAMILY = [
    "mother",
    "father",
    "parents",
    "brother",
    "sister",
    "son",
    "daughter",
    "child",
    "wife",
    "husband",
    "partner",
    "grandmother",
    "grandfather",
    "aunt",
    "uncle",
    "cousin",
    "family",
]
# Subjects and relations of the facts in an overview; None: every subject.
OVERVIEWS: Mapping[str, tuple[list[str] | None, list[str]]] = {
    "profile": (None, []),
    "family": (FAMILY, ["has_child", "has_sibling", "has_parent", "married_to", "partner"]),
    "work": ([], ["works_as", "works_at", "studies_at", "studies"]),
    "wishes": ([], ["wish"]),
}


def read_overview(text: str, now: datetime) -> Overview | None:
    """Return the overview that a message asks for; None if it asks for something else.

    Args:
        text: The message.
        now: The owner's local time (aware), for "yesterday".
    """
    kind = requests.overview_of(text)
    if kind is not None:
        return Overview(cast("OverviewKind", kind))
    time = read_time(text, now)
    if time.periods and requests.asks_what_was_said(time.content):
        return Overview("period", time.periods)
    return None


@dataclass(frozen=True)
class Query:
    """A search with its filters.

    Attributes:
        owner: Whose memory is searched.
        text: The question, or any text.
        now: The owner's local time (aware), for "last week".
        limit: Maximum number of hits, or with ``tokens`` of facts among them; a message and the
            facts that it told count as one.
        threshold: Least similarity (see ``EmbeddingSpace.similarity``) in meaning and words, or
            least share of the words of the document with most of them, unless a document shares
            links or time with the query.
        shown: What the prompt shows already.
        with_assistant: True to include the bot's messages; see ``SearchRequest``.
        with_questions: True to include the user's own mere questions, although the text does not
            ask for them.
        kinds: Kinds of documents that count.
        by_words_only: True to send the text to no embedder.
        types: Types of facts that count; None for all of them and for messages.
        period: Earliest time of writing, and its end (aware), exclusive.
        speaker_id: In a group, the asker: an overview lists what they told.
        tokens: Part of a prompt that the hits fill, each text once; there may be a few more than
            fit. None for hits by number.
    """

    owner: Owner
    text: str
    now: datetime
    limit: int = 5
    threshold: float = RELATED
    shown: Shown = NOTHING_SHOWN
    with_assistant: bool = False
    with_questions: bool = False
    kinds: Sequence[DocumentKind] = ("message", "memory", "summary")
    by_words_only: bool = False
    types: Sequence[str] | None = None
    period: Bounds = (None, None)
    speaker_id: int | None = None
    tokens: int | None = None

    @property
    def most(self) -> int:
        """Number of short messages that ``tokens`` have room for; 0 for hits by number."""
        tokens = self.tokens or 0
        return tokens // TOKENS

    def overview(self) -> Overview | None:
        """Return the overview that the text, or a listing without a text, asks for."""
        if self.text.strip():
            return read_overview(self.text, self.now)
        if self.types is not None and not {"message", "summary"} & set(self.types):
            return Overview("profile")
        return Overview("period")

    @property
    def question(self) -> str:
        """The end of a long text, where the question stands."""
        return self.text[-MAX_QUERY:].strip()

    def accepts(self, hit: Hit) -> bool:
        """Return True if a hit was said in the period, and is of one of the types."""
        since, until = self.period
        if since is not None and hit.said_at < since:
            return False
        if until is not None and hit.said_at >= until:
            return False
        return self.types is None or (hit.memory_type or hit.kind) in self.types


CONCEPTS = Path(__file__).with_name("concepts.toml")
MAX_WORDS = 64  # of a question
MAX_SPELLINGS = 48  # of a name in Latin letters
MIN_NAME = 3  # letters
PREFIX = 4  # letters of a Cyrillic term, which are all that a name in Latin letters must spell
# Spellings of Cyrillic letters in Latin ones, as people and passports write names.
_WRITTEN = """
а: a, б: b, в: v w, г: g h, ґ: g, д: d, е: e ye, є: ye ie e, ж: zh, з: z, и: i y, і: i, ї: i yi,
й: i y, к: k, л: l, м: m, н: n, о: o, п: p, р: r, с: s, т: t, у: u, ф: f, х: kh h, ц: ts c, ч: ch,
ш: sh, щ: shch, ы: y, э: e, ю: yu iu, я: ya ia, ль: l, кс: x ks
"""
SPELLINGS = dict(pair.strip().split(": ") for pair in _WRITTEN.split(","))
# The Cyrillic letters that one or more Latin ones may stand for.
CYRILLIC = {
    latin: [letter for letter, spellings in SPELLINGS.items() if latin in spellings.split()]
    for latin in " ".join(SPELLINGS.values()).split()
}


def asked_terms(text: str, time: TimeQuery) -> list[tuple[str, ...]]:
    """Return the search terms of a question: its words without those of its periods, save months.

    A note may name the month without having been told in it.
    """
    months = [word for word in WORD.findall(text) if key_of("time.month", word.lower())]
    words = f"{time.content or text} {' '.join(months) if time.periods else ''}"
    return [*term_groups(words), *((term,) for term in facts.asked_relations(text))]


def entity_terms(text: str) -> list[str]:
    """Return terms by which a query may name an entity: words, and roles in canonical form."""
    asked = WORD.findall(text)[:64]
    roles = " ".join(canonical_subject(word) for word in asked)
    named = sorted(entity_forms(f"{' '.join(asked)} {roles}"))
    return list(dict.fromkeys([*terms(text), *terms(roles), *named]))


def term_groups(text: str) -> list[tuple[str, ...]]:
    """Return the search terms of a question: for each word those that may stand for it."""
    groups: dict[tuple[str, ...], None] = {}
    for written in WORD.findall(text)[:MAX_WORDS]:
        if own := terms(written):
            concepts, forms = _load_concepts(), _base_forms(plain(written))
            same = [one for form in forms for one in concepts.get(form, ())]
            groups[tuple(dict.fromkeys([*own, *same, *_name_terms(written)]))] = None
    return list(groups)


AS_RUSSIAN = str.maketrans("іїєґёэ", "ииегее")  # "Славік" is "Славик", "Эмма" is "Емма"
OTHER_E = str.maketrans("еєэ", "ээе")  # at the beginning of a name


def may_be_same_name(one: str, other: str) -> bool:
    """Return True for names in two scripts or languages that may be written as each other."""
    one, other = one.lstrip("~"), other.lstrip("~")
    if one.isascii() == other.isascii():
        return one.translate(AS_RUSSIAN) == other.translate(AS_RUSSIAN)
    return any(not set(group).isdisjoint(terms(other)) for group in term_groups(one.title()))


@cache
def _load_concepts() -> dict[str, list[str]]:
    """Return the search terms of each concept, by each base form of its words."""
    concepts: dict[str, list[str]] = {}
    for lines in tomllib.loads(CONCEPTS.read_text(encoding="utf-8")).values():
        for line in lines:
            words = [plain(word) for word in line.split()]
            written = " ".join(form for word in words for form in sorted(inflections(word)))
            found = list(dict.fromkeys(terms(written)))
            for form in {form for word in words for form in _base_forms(word)}:
                concepts.setdefault(form, []).extend(found)
    return concepts


def _base_forms(word: str) -> frozenset[str]:
    if word.isascii():
        return frozenset({stem_english(word.removesuffix("'s"))})
    return dictionary_forms(word) or frozenset({word})


def _name_terms(word: str) -> list[str]:
    """Return the search terms of a name in other spellings; none for other words."""
    name = plain(word).removesuffix("'s")
    letters: list[list[str]] = []
    if not name.isascii():
        spelt: list[str] = []
        for nominative in sorted(nominatives(name)):
            letters = [SPELLINGS.get(letter, "").split() or [""] for letter in nominative]
            spelt += map("".join, islice(product(*letters), MAX_SPELLINGS))
            spelt.append(nominative[0].translate(OTHER_E) + nominative[1:].translate(AS_RUSSIAN))
        return terms(" ".join(spelt))
    if not word[0].isupper() or len(name) < MIN_NAME or not name.isalpha():
        return []
    while name and len(letters) < PREFIX:
        size = next((n for n in (4, 3, 2, 1) if name[:n] in CYRILLIC), 1)
        letters.append(CYRILLIC.get(name[:size], [""]))
        name = name[size:]
    return ["".join(spelling)[:PREFIX] for spelling in product(*letters)]
