"""What the local embedding engine is given of a text."""

from __future__ import annotations

import random
import sys
import unicodedata

from src.llm.embeddings import MAX_MARKS, READ_FACTOR, clean_end, clean_start
from tests.attacks.embedding_fuzz import draw_text
from tests.cases import for_each

SALUTATION = "\ufdfa"  # becomes 18 characters, more than any other


@for_each("text", [
    "Где я живу?", "Їжачок з'їв ґудзик", "It's 5 o'clock; 20 % off!", "😀👍🏽 Ok", "日本語です",
    "a  b",
])  # fmt: skip
def test_an_ordinary_text_stays_as_it_is(text: str) -> None:
    assert clean_start(text, 100) == clean_end(text, 100) == text


def test_a_text_is_bounded_by_its_expanded_length() -> None:
    expanded = unicodedata.normalize("NFKC", SALUTATION)
    assert len(expanded) == 18
    assert clean_start(SALUTATION * 100, 50) == (expanded * 3)[:50]
    assert clean_end(SALUTATION * 100, 50) == (expanded * 3)[-50:]


def test_of_a_long_text_the_query_keeps_its_end_and_the_document_its_start() -> None:
    text = "начало " + "x" * 5000 + " конец"
    assert clean_start(text, 20) == "начало " + "x" * 13
    assert clean_end(text, 20) == "x" * 14 + " конец"


def test_no_more_is_read_than_could_be_needed() -> None:
    class Counted(str):
        cut = 0

        def __getitem__(self, key: object) -> str:
            piece = super().__getitem__(key)  # type: ignore[index]
            Counted.cut = len(piece)
            return piece

    clean_start(Counted("я" * 1_000_000), 1500)
    assert Counted.cut == READ_FACTOR * 1500


@for_each(("text", "cleaned"), [
    ("a\x00b\x07c", "abc"), ("a\nb\tc\r\nd", "a b c  d"), ("a\ud800b\udfffc", "a b c"),
    ("a\ue000b\U000f0000c", "a b c"), ("a\u0378b\U000e0fffc", "a b c"), ("и\u0306", "й"),
    ("x" + "\u0301" * 2000 + "y", "x\u0301".join(("", "\u0301" * (MAX_MARKS - 1) + "y"))),
])  # fmt: skip
def test_what_means_nothing_is_no_part_of_it(text: str, cleaned: str) -> None:
    assert clean_start(text, 1500) == clean_end(text, 1500) == cleaned


def test_nothing_is_left_that_the_engine_would_expand() -> None:
    """It decomposes each character by itself, into at most four times its bytes."""
    characters = map(chr, range(sys.maxunicode + 1))
    cleaned = {part for character in characters for part in clean_start(character, 100)}
    growing = [c for c in cleaned if len(unicodedata.normalize("NFKC", c)) > len(c.encode())]
    assert growing == []


def test_any_text_becomes_utf_8_within_its_bounds() -> None:
    dice = random.Random(1)
    for _ in range(300):
        text = draw_text(dice)
        for cleaned in (clean_start(text, 300), clean_end(text, 300)):
            assert len(cleaned) <= 300
            assert b"\x00" not in cleaned.encode()
            assert clean_start(cleaned, 300) == cleaned, "once is enough"
