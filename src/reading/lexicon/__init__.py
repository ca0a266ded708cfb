"""The words of each language, as data: ``ru.toml``, ``uk.toml``, ``en.toml`` in this folder.

A file holds groups of words and phrases (``[forget] verbs = […]`` is ``forget.verbs``) in a
notation that the top of ``en.toml`` explains. A group is what all languages together list in it,
since people mix them; what a language lacks, it leaves out. The files are read when the first
group is asked for, and each expression is compiled when it is first used.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, Self

FOLDER = Path(__file__).parent
FIRST = ("ru", "uk", "en")  # in this order their words are tried
# Parts of the notation; ``/…/`` is a regular expression as it stands.
TOKEN = re.compile(
    r"/(?P<raw>[^/]+)/|<(?:(?P<part>\w+)=)?(?P<group>[\w.]+)>|(?P<sign>[*+{|}\[\]…])|(?P<text>.)"
)
SIGNS = {"*": r"\w*", "+": r"\w+", "{": "(?:", "|": "|", "}": ")", "[": "(?:", "]": ")?",
         "…": r"\b.{0,30}\b"}  # fmt: skip
RAW = re.compile("/[^/]+/")
# An apostrophe that people leave out as they type: "п'ять", "don't".
LEFT_OUT = re.compile(r"(?<=[а-яіїєґ])'(?=[а-яіїєґ{])|(?<=n)'(?=t\b)")
PIECE = re.compile(r"(?<!\?P)<(\w+)>")
ONE_LETTER = re.compile(r"\(\?:(\w(?:\|\w)+)\)")  # a choice of letters is quicker as a set
# Of an expression to a group, of a table of numbers also to some of them: <numbers.ordinals:1-30>.
REFERENCE = re.compile(r"(?<!\?P)<(\w+(?:\.\w+)+)(?::(\d+)-(\d+))?>")


class Expression:
    """A regular expression with groups in it, ``<forget.verbs>``, compiled at its first use.

    Its methods are those of ``re.Pattern``, and ``behind``.
    """

    match: Callable[..., re.Match[str] | None]
    fullmatch: Callable[..., re.Match[str] | None]
    search: Callable[..., re.Match[str] | None]
    finditer: Callable[..., Iterator[re.Match[str]]]
    sub: Callable[..., str]
    subn: Callable[..., tuple[str, int]]
    split: Callable[..., list[str]]

    def __init__(self, source: str, flags: int = 0) -> None:
        """Keep the expression; nothing is read or compiled yet.

        Args:
            source: As ``re`` has it, with names of groups.
            flags: Of ``re``.
        """
        self.source, self.flags = source, flags

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The expression with the words of all languages."""
        return re.compile(expanded(self.source), self.flags)

    def __getattr__(self, name: str) -> Any:
        """A method of the compiled expression; found once, it is an attribute."""
        found = getattr(self.compiled, name)
        setattr(self, name, found)
        return found

    def behind(self, text: str, place: int = 0) -> int:
        """Where what it matches at a place ends; the place itself where it matches nothing."""
        found = self.match(text, place)
        return found.end() if found else place


class AnyCase(Expression):
    """An expression that takes capital letters for small ones."""

    def __init__(self, source: str) -> None:
        """Keep the expression; ``source`` is as ``Expression`` has it."""
        super().__init__(source, re.IGNORECASE)

    @classmethod
    def each(cls, *sources: str) -> tuple[Self, ...]:
        """An expression for each source, in their order."""
        return tuple(map(cls, sources))


def expanded(source: str) -> str:
    """An expression with the groups that it names written out."""
    return REFERENCE.sub(lambda name: either(name[1], name[2], name[3]), source)


@cache
def either(group: str, first: str | None = None, last: str | None = None) -> str:
    """An expression for anything that a group lists; of what begins alike, the longer first.

    Args:
        group: Its name.
        first: Of a table of numbers, the least of those that are wanted.
        last: The greatest.
    """
    if first is None or last is None:
        entries = list(_entries(group))
    else:
        wanted = range(int(first), int(last) + 1)
        entries = [entry for entry, number in numbers(group).items() if number in wanted]
    longest_first = sorted(dict.fromkeys(entries), key=_length, reverse=True)
    return f"(?:{'|'.join(map(pattern_of, longest_first))})"


def _length(entry: str) -> int:
    return len(RAW.sub("", entry))


def rules(group: str, pieces: Mapping[str, str]) -> dict[str, list[str]]:
    """The rules of all languages by their kinds, as expressions.

    Args:
        group: A table of lists of entries.
        pieces: Expressions for the names without a dot in these entries: ``<number>``.
    """
    found: dict[str, list[str]] = {}
    for _, table in by_language(group):
        for kind, entries in table.items():
            sources = (PIECE.sub(lambda name: pieces[name[1]], pattern_of(e)) for e in entries)
            found.setdefault(kind, []).extend(map(expanded, sources))
    return found


def pattern_of(entry: str) -> str:
    """An entry as a regular expression."""
    source = "".join(map(_translated, TOKEN.finditer(LEFT_OUT.sub("[']", entry))))
    return ONE_LETTER.sub(lambda letters: f"[{letters[1].replace('|', '')}]", source)


def _translated(token: re.Match[str]) -> str:
    if token["raw"]:
        return token["raw"]
    if token["sign"]:
        return SIGNS[token["sign"]]
    if token["group"]:
        group = token["group"]
        listed = either(group) if "." in group else f"<{group}>"
        return f"(?P<{token['part']}>{listed})" if token["part"] else listed
    return " " if token["text"] == " " else re.escape(token["text"])


@cache
def words(group: str) -> frozenset[str]:
    """The words, or phrases, of a group as they stand."""
    return frozenset(form for entry in _entries(group) for form in _spellings(entry))


@cache
def values(group: str) -> dict[str, str]:
    """What the words of a table say: ``values("numbers.cardinals")["five"]`` is ``"5"``."""
    return {
        form: key
        for _, table in by_language(group)
        for key, listed in table.items()
        for word in _listed(listed)
        for form in _spellings(word)
    }


@cache
def numbers(group: str) -> dict[str, int]:
    """The same of a table whose keys are numbers."""
    return {word: int(key) for word, key in values(group).items()}


@lru_cache(maxsize=4_000)
def key_of(group: str, said: str) -> str | None:
    """The key of a table under which stands what was said; None: under none."""
    return next((key for key, one in _keys(group) if one.fullmatch(said)), None)


@cache
def _keys(group: str) -> list[tuple[str, re.Pattern[str]]]:
    return [
        (key, re.compile(pattern_of(entry)))
        for _, table in by_language(group)
        for key, listed in table.items()
        for entry in _listed(listed)
    ]


def by_language(group: str) -> list[tuple[str, Any]]:
    """What each language that has a group says in it, by the code of the language.

    Raises:
        KeyError: No language has it.
    """
    found: list[tuple[str, Any]] = list(_files().items())
    for name in group.split("."):
        found = [(code, told[name]) for code, told in found if name in told]
    if not found:
        raise KeyError(f"no language has the group {group}")
    return found


def of_language(group: str, language: str, default: Any = None) -> Any:
    """What one language says in a group; the default where it has none."""
    return dict(by_language(group)).get(language, default)


def _entries(group: str) -> Iterator[str]:
    for _, told in by_language(group):
        parts = told.values() if isinstance(told, dict) else [told]
        for part in parts:
            yield from _listed(part)


def _spellings(word: str) -> set[str]:
    """A word as it is written, and as it is typed without its apostrophe."""
    return {word, LEFT_OUT.sub("", word)}


def _listed(told: str | list[str]) -> list[str]:
    """A list of phrases, or the words of a text."""
    return told.split() if isinstance(told, str) else told


@cache
def _files() -> dict[str, dict[str, Any]]:
    """All languages, by their codes."""
    return {
        path.stem: tomllib.loads(path.read_text(encoding="utf-8"))
        for path in sorted(FOLDER.glob("*.toml"), key=_place)
    }


def _place(path: Path) -> tuple[int, str]:
    """Those of ``FIRST`` in its order, others behind them."""
    place = FIRST.index(path.stem) if path.stem in FIRST else len(FIRST)
    return place, path.stem
