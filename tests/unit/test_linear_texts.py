"""Reading a text takes a time in proportion to its length, whatever it consists of.

``python -m tests.attacks.linear_texts`` tries more texts, and longer ones.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import pytest

from src.telegram.messages import without_address
from src.telegram.updates import BotIdentity
from tests.attacks.hostile_texts import Kind, kinds
from tests.attacks.linear_texts import BOUNDED, LIMIT, MESSAGE, READERS, measure
from tests.attacks.repeated_choices import expressions, slow_text

BOT = BotIdentity(42, "pomni_bot", "Помни")

PROOF = pytest.param(True, marks=pytest.mark.proof)
SHORT: dict[str, Any] = {
    "length": MESSAGE // 8, "long": 2 * MESSAGE, "suspects": 2,
}  # fmt: skip
EDGE_MILLISECONDS = 100  # none takes ten on a quiet machine; what is cubic takes thousands


def some_kinds(name: str, names: Collection[str], *, every: bool) -> dict[str, Kind]:
    """All kinds of texts, or of each 64 another one for another reader."""
    found = kinds(thorough=False)
    first = sorted(names).index(name) % 64
    return found if every else {kind: found[kind] for kind in [*found][first::64]}


@pytest.mark.parametrize("every", [False, PROOF])
@pytest.mark.parametrize("name", sorted(READERS.keys() - BOUNDED))
def test_a_reader_takes_a_time_in_proportion_to_the_length(name: str, every: bool) -> None:
    """By what power of the length it grows: two would be quadratic.

    Nor may it take long for the edge of a text, of which it reads no more however long it is.
    """
    growth = measure(READERS[name], some_kinds(name, READERS, every=every), **SHORT)
    assert growth.power <= LIMIT and growth.milliseconds < EDGE_MILLISECONDS, growth


def test_a_quadratic_reader_is_found_out() -> None:
    growth = measure(re.compile(r"\s*@pomni_bot\b").search, {"spaces": " ".__mul__}, **SHORT)
    assert growth.power > LIMIT


@pytest.mark.parametrize(("text", "plain"), [
    ("привет @pomni_bot", "привет"), ("@Pomni_Bot, привет", "привет"),
    ("раз  @pomni_bot  @pomni_bot: два", "раз два"),
    ("это @pomni_bots и a@pomni_bot.ru", "это @pomni_bots и a@pomni_bot.ru"),
    ("@pomni_bot", "@pomni_bot"), ("  без него  ", "без него"),
    ("Помни, где ключ?", "где ключ?"), ("Помни: ключ тут", "ключ тут"),
    ("Помни, что нового?", "что нового?"), ("Помни, что ключ тут", "Помни, что ключ тут"),
    ("@pomni_bot помни, що ключ у Олі.", "помни, що ключ у Олі."),
])  # fmt: skip
def test_the_bot_s_name_is_an_address_and_no_content(text: str, plain: str) -> None:
    assert without_address(text, BOT) == plain


def test_no_expression_can_be_read_in_two_ways_at_each_of_many_places() -> None:
    found = expressions()
    assert len(found) > 200, "all that the bot holds"
    assert {slow: source for source, one in found.items() if (slow := slow_text(one))} == {}


def test_an_expression_of_two_ways_is_found_out() -> None:
    assert slow_text(re.compile(r"a: (?:(?:so|so then|then) ?)+x")) is not None
    assert slow_text(re.compile(r"a: (?>(?:so|so then|then) ?)+x")) is None
