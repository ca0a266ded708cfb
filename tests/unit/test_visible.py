"""What can be seen, and what Telegram would take for an empty message."""

from __future__ import annotations

from src.texts.plain_text import is_visible
from tests.cases import for_each


@for_each("text", [
    "", " \t\r\n\u00a0\u2003\u3000", "\u200b\u200c\u200d\u2060\ufeff",
    "\u200e\u200f\u202a\u202e\u2066\u2069\u061c", "\u115f\u1160\u3164\uffa0", "\u2800\u2800",
    "\u17b4\u17b5\u2064\U0001d159\U0001d173\U000e0001\U000e0041", "\x00\x1f\x7f\x85\u2028\u2029",
    "\ud800", "\ufdd0\uffff\U0010fffe",
])  # fmt: skip
def test_nothing_of_it_is_seen(text: str) -> None:
    assert not is_visible(text)
    assert is_visible(f"{text}.{text}")


@for_each(
    "text", ["a", "ж", "0", ".", "|", "—", "😀", "❤️", "👨‍👩‍👧", "\U0001fae8", "한", "ﷺ", "\ufffd"]
)
def test_it_is_seen(text: str) -> None:
    assert is_visible(text)
