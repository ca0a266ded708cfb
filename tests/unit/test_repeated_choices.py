"""No expression has a text that it reads in so many ways that a short message stops the bot."""

from __future__ import annotations

import re

from tests.attacks.repeated_choices import expressions, slow_text


def test_no_expression_can_be_read_in_two_ways_at_each_of_many_places() -> None:
    found = expressions()
    assert len(found) > 200, "all that the bot holds"
    assert {slow: source for source, one in found.items() if (slow := slow_text(one))} == {}


def test_an_expression_of_two_ways_is_found_out() -> None:
    assert slow_text(re.compile(r"a: (?:(?:so|so then|then) ?)+x")) is not None
    assert slow_text(re.compile(r"a: (?>(?:so|so then|then) ?)+x")) is None
