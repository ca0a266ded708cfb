"""Markup that costs too much is text before the parser sees it, and all else stays as it was."""

from __future__ import annotations

import pyromark
from telegramify_markdown import convert

from src.telegram.rendering import MAX_DEPTH, ORIGINALS, shield, unshield
from tests.cases import for_each


def formatted(markdown: str) -> str:
    text, _ = convert(shield(markdown))
    return unshield(text)


def depth(markdown: str) -> int:
    """How deeply quotes and lists are nested."""
    deepest = now = 0
    for event in pyromark.events(markdown):
        for kind, step in (("Start", 1), ("End", -1)):
            tag = event.get(kind) if isinstance(event, dict) else None
            if isinstance(tag, dict) and ("BlockQuote" in tag or "List" in tag):
                now += step
        deepest = max(deepest, now)
    return deepest


ORDINARY = [
    "**жирно**, _косо_, `код`, ~~нет~~, ||тайна||, [сюда](https://example.org)",
    "> цитата\n> > в цитате\n\n- раз\n  - два\n    1. три\n\n* * *\n\n***\n\n- - -",
    "| имя | возраст |\n|---|---|\n| Анна | 30 |\n| Олег | 7 |",
    "Формула \\(\\frac{a}{b}\\) и $\\sqrt{x^2 + y^2}$, цена $10.49 (~$11.20).",
    "```python\nif a or b:\n    print(f'{a}')\n```\n\n~~~\n> - не цитата\n~~~",
    "* * * * * * * * * * *",
    "> - * * * * * * * * *",
    "2 + 2 = 4\n3. пункт\n> x",
]


@for_each("markdown", ORDINARY)
def test_what_people_write_is_left_alone(markdown: str) -> None:
    assert shield(markdown) == markdown


@for_each("marker", [">", "> ", "- ", "+ ", "1. ", "7) ", "> - ", "- 1. > "])
def test_markers_beyond_the_depth_are_text(marker: str) -> None:
    hidden = shield(marker * 1000 + "конец")
    assert unshield(hidden) == marker * 1000 + "конец" and depth(f"{marker * 20}x") > MAX_DEPTH
    assert depth(hidden) <= MAX_DEPTH
    assert formatted(marker * 1000 + "конец").rstrip().endswith("конец")


@for_each(
    "markdown",
    [
        "> - " * 2000,
        "+ + + " * 1024,
        "1. " * 2000,
        "|a" * 900 + "|\n" + "|-" * 900 + "|\n" + "|b|\n" * 1000,
        "|" + "a" * 4000 + "|\n|-|\n" + "|b|\n" * 800,
        "\\[" + "\\sqrt{" * 60 + "x" + "}" * 60 + "\\]",
        "$" + "\\overline" * 300 + " x$",
        "\\(" + "\\sqrt[ ]{\\underline" * 100 + "x\\)",
    ],
)
def test_what_would_grow_without_end_does_not(markdown: str) -> None:
    assert len(formatted(markdown)) <= 4 * len(markdown) + 1000


@for_each(
    "gap", ["\n> " * 40, "\n>" * 40, "\n> > > > > > " * 8, "\n" * 3000, "\r> \r> \r> \r> " * 9]
)
def test_a_spoiler_over_many_empty_lines_is_text(gap: str) -> None:
    """The parser of spoilers tries 2^n ways: this test would not end in a lifetime."""
    assert formatted(f"||a{gap}x||").startswith("||a")


def test_a_spoiler_over_a_few_quoted_lines_is_still_one() -> None:
    assert "||" not in formatted("||раз\n> \n> два||")


@for_each("piece", ["$1", "~a", "```"])
def test_delimiters_by_the_thousand_are_text(piece: str) -> None:
    assert formatted(f"{piece} " * 5000).count(piece) == 5000


def test_stand_ins_that_somebody_sends_vanish() -> None:
    typed = "".join(map(chr, ORIGINALS))
    assert formatted(f"a{typed}b") == "ab"


def test_line_ends_of_every_kind_are_one() -> None:
    assert shield("a\r\nb\rc\n") == "a\nb\nc\n"
