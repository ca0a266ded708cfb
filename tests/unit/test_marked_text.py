"""Answers with Markdown become a tree of a few elements, whatever stands in them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from src.web.marked_text import LINK, MAX_DEPTH, NAMES, Node, parse_markdown
from tests.e2e.test_admin_page import HOSTILE


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("", []), ("one\ntwo", [["p", "one\ntwo"]]),
        ("# a *b* `c`", [["p", ["strong", "a ", ["em", "b"], " ", ["code", "c"]]]]),
        ("2. x\n3. ~~y~~", [["ol", ["li", "x"], ["li", ["s", "y"]]]]),
        ("> q\n\n---", [["blockquote", ["p", "q"]], ["hr"]]),
        ("see [it](https://a.example)", [["p", "see ", ["link", "https://a.example", "it"]]]),
        ("![a cat](https://a.example/cat.png)", [["p", "a cat"]]),
        ("a <b>bold</b>", [["p", "a <b>bold</b>"]]),
        ("2*3*4, `2*3`, List<String>", [["p", "2*3*4, ", ["code", "2*3"], ", List<String>"]]),
        ("[*a*](https://a.example/*x*)", [["p", [LINK, "https://a.example/*x*", ["em", "a"]]]]),
        (r"$x^2$ \(\frac{a}{b_1}\)", [["p", r"$x^2$ \(\frac{a}{b_1}\)"]]),
        ("|a|b|\n|-|-|\n|1|2|", [["table", ["tr", ["td", "a"], ["td", "b"]],
                                  ["tr", ["td", "1"], ["td", "2"]]]]),
    ],
)  # fmt: skip
def test_it_is_read_as_people_write_it(text: str, nodes: list[Node]) -> None:
    assert parse_markdown(text) == nodes


def names(nodes: list[Node], depth: int = 1) -> Iterator[tuple[str, int]]:
    for node in nodes:
        if not isinstance(node, str):
            yield node[0], depth
            yield from names(node[2 if node[0] == LINK else 1 :], depth + 1)


def test_no_text_makes_another_element_or_nests_deep() -> None:
    texts = [
        *HOSTILE,
        "\n".join(HOSTILE),
        "> " * 500 + "x",
        "- " * 500 + "x",
        "**" * 999,
        "[" * 999,
    ]
    for text in texts:
        for name, depth in names(parse_markdown(text)):
            assert name in NAMES and depth <= MAX_DEPTH + 1, text[:40]
