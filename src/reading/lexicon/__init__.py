"""Words of each language, as data: ``ru.toml``, ``uk.toml``, ``en.toml`` in this folder.

A file holds groups of words and phrases (``[forget] verbs = […]`` is ``forget.verbs``) in a
notation explained at the top of ``en.toml``. A group is the union of all languages, since people
mix them; a language may omit a group. The files are read at the first use of a group, and each
expression is compiled at its first use. ``shapes.toml`` tells how words stand together as times.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, Self

FOLDER = Path(__file__).parent
FIRST = ("ru", "uk", "en")  # the order in which their words are tried
# Parts of the notation; ``/…/`` is a verbatim regular expression.
TOKEN = re.compile(
    r"/(?P<raw>[^/]+)/"
    r"|<(?:(?P<part>\w+)=)?(?P<group>[\w.]+)(?::(?P<first>\d+)-(?P<last>\d+))?>"
    r"|(?P<sign>[*+{|}\[\]…])|(?P<text>.)"
)
SIGNS = {"*": r"\w*", "+": r"\w+", "{": "(?:", "|": "|", "}": ")", "[": "(?:", "]": ")?",
         "…": r"\b.{0,30}\b"}  # fmt: skip
CHOICE = re.compile(r"[\[{](?P<endings>[^\[\]{}]*)[\]}]")
RAW = re.compile("/[^/]+/")
# Apostrophes that are often omitted in typing: "п'ять", "don't".
LEFT_OUT = re.compile(r"(?<=[а-яіїєґ])'(?=[а-яіїєґ{])|(?<=n)'(?=t\b)")
PIECE = re.compile(r"(?<!\?P)<(\w+)>")
ONE_LETTER = re.compile(r"\(\?:(\w(?:\|\w)+)\)")  # a choice of letters is quicker as a set
# Reference to a group, or to a range of a table of numbers: <numbers.ordinals:1-30>.
REFERENCE = re.compile(r"(?<!\?P)<(\w+(?:\.\w+)+)(?::(\d+)-(\d+))?>")


class Expression:
    """Regular expression with groups in it, ``<forget.verbs>``, compiled at its first use.

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
        """Store the expression without compiling it.

        Args:
            source: Source for ``re``, with names of groups.
            flags: Flags for ``re``.
        """
        self.source, self.flags = source, flags

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """Compiled expression with the words of all languages."""
        return re.compile(expanded(self.source), self.flags)

    def __getattr__(self, name: str) -> Any:
        """Return a method of the compiled expression and cache it as an attribute."""
        method = getattr(self.compiled, name)
        setattr(self, name, method)
        return method

    def behind(self, text: str, position: int = 0) -> int:
        """Return the end of the match at a position, or the position itself without a match."""
        match = self.match(text, position)
        return match.end() if match else position


class AnyCase(Expression):
    """Expression that ignores case."""

    def __init__(self, source: str) -> None:
        """Store the expression; ``source`` is as in ``Expression``."""
        super().__init__(source, re.IGNORECASE)

    @classmethod
    def each(cls, *sources: str) -> tuple[Self, ...]:
        """Return an expression for each source, in order."""
        return tuple(map(cls, sources))


def expanded(source: str) -> str:
    """Return an expression with its references to groups replaced by their words."""
    return REFERENCE.sub(lambda name: either(name[1], name[2], name[3]), source)


@cache
def either(group: str, first: str | None = None, last: str | None = None) -> str:
    """Return an expression for any entry of a group; longer entries are tried first.

    Args:
        group: Name of the group.
        first: Least number, if the group is a table of numbers.
        last: Greatest number.
    """
    if first is None or last is None:
        entries = list(_entries(group))
    else:
        allowed = range(int(first), int(last) + 1)
        entries = [entry for entry, number in numbers(group).items() if number in allowed]
    # Verbatim expressions do not count.
    longest_first = sorted(dict.fromkeys(entries), key=lambda e: len(RAW.sub("", e)), reverse=True)
    return f"(?:{'|'.join(map(pattern_of, longest_first))})"


def rules(group: str, pieces: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the rules of all languages by kind, as expressions.

    Args:
        group: A table of lists of entries.
        pieces: Expressions for the names without a dot in these entries: ``<number>``.
    """
    rules_by_kind: dict[str, list[str]] = {}
    for _, table in by_language(group):
        for kind, entries in table.items():
            sources = (PIECE.sub(lambda name: pieces[name[1]], pattern_of(e)) for e in entries)
            rules_by_kind.setdefault(kind, []).extend(map(expanded, sources))
    return rules_by_kind


def shapes(group: str) -> Iterator[tuple[str, str]]:
    """Yield the kind of each entry ``kind: entry`` of a group, and the entry as an expression."""
    for entry in _entries(group):
        kind, _, shape = entry.partition(": ")
        yield kind, pattern_of(shape)


def pattern_of(entry: str) -> str:
    """Return an entry as a regular expression."""
    source = "".join(map(_translate, TOKEN.finditer(LEFT_OUT.sub("[']", entry))))
    return ONE_LETTER.sub(lambda letters: f"[{letters[1].replace('|', '')}]", source)


def _translate(token: re.Match[str]) -> str:
    if token["raw"]:
        return token["raw"]
    if token["sign"]:
        return SIGNS[token["sign"]]
    if token["group"]:
        group = token["group"]
        listed = f"<{group}>"
        if "." in group:
            listed = either(group, token["first"], token["last"])
        return f"(?P<{token['part']}>{listed})" if token["part"] else listed
    return " " if token["text"] == " " else re.escape(token["text"])


@cache
def words(group: str) -> frozenset[str]:
    """Return the words or phrases of a group as written, and as typed without apostrophes."""
    entries = list(_entries(group))
    return frozenset([*entries, *(LEFT_OUT.sub("", entry) for entry in entries)])


@cache
def forms(group: str) -> frozenset[str]:
    """Return the single words of a group with their endings spelt out: ``сред{а|у}`` is two."""
    entries = (entry for entry in _entries(group) if not re.search(r"[ /*+<…]", entry))
    return frozenset(form for entry in entries for form in _spelt_out(entry))


def _spelt_out(entry: str) -> Iterator[str]:
    choice = CHOICE.search(entry)
    if choice is None:
        yield entry
        return
    left_out = [""] if choice[0].startswith("[") else []
    for ending in [*choice["endings"].split("|"), *left_out]:
        yield from _spelt_out(entry[: choice.start()] + ending + entry[choice.end() :])


@cache
def values(group: str) -> dict[str, str]:
    """Return the value of each word of a table: ``values("numbers.cardinals")["five"] == "5"``."""
    return {
        form: key
        for _, table in by_language(group)
        for key, listed in _numbered(table)
        for word in _as_list(listed)
        for form in (word, LEFT_OUT.sub("", word))
    }


@cache
def numbers(group: str) -> dict[str, int]:
    """Return the same for a table with numeric keys."""
    return {word: int(key) for word, key in values(group).items()}


@lru_cache(maxsize=4_000)
def key_of(group: str, text: str) -> str | None:
    """Return the key of the first entry of a table that matches, or None."""
    return next((key for key, one in _keys(group) if one.fullmatch(text)), None)


@cache
def _keys(group: str) -> list[tuple[str, re.Pattern[str]]]:
    return [
        (key, re.compile(pattern_of(entry)))
        for _, table in by_language(group)
        for key, listed in _numbered(table)
        for entry in _as_list(listed)
    ]


def _numbered(table: dict[str, Any] | list[str]) -> Iterable[tuple[str, Any]]:
    """Return the keys of a table with their entries; a list counts its entries from 0."""
    if isinstance(table, dict):
        return table.items()
    return ((str(number), [entry]) for number, entry in enumerate(table))


def by_language(group: str) -> list[tuple[str, Any]]:
    """Return what each language has in a group, with the language code.

    Raises:
        KeyError: No language has it.
    """
    contents: list[tuple[str, Any]] = list(_load_files().items())
    for name in group.split("."):
        contents = [(code, content[name]) for code, content in contents if name in content]
    if not contents:
        raise KeyError(f"no language has the group {group}")
    return contents


def of_language(group: str, language: str, default: Any = None) -> Any:
    """Return what one language has in a group, or the default."""
    return dict(by_language(group)).get(language, default)


@cache
def pairs(group: str, language: str | None = None) -> dict[str, str]:
    """Return what stands for each part of a list of pairs: ``kh=х`` or ``went=go``.

    Args:
        group: Name of the group.
        language: Code of the language; by default the pairs of all.
    """
    lists = (told for code, told in by_language(group) if language in (None, code))
    return dict(pair.split("=") for told in lists for pair in told.split())


def _entries(group: str) -> Iterator[str]:
    for _, content in by_language(group):
        parts = content.values() if isinstance(content, dict) else [content]
        for part in parts:
            yield from _as_list(part)


def _as_list(content: str | list[str]) -> list[str]:
    return content.split() if isinstance(content, str) else content


@cache
def _load_files() -> dict[str, dict[str, Any]]:
    files = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.toml")}
    others = sorted(files.keys() - set(FIRST))
    return {name: tomllib.loads(files[name]) for name in (*FIRST, *others)}
