"""Markdown on the admin page: what it marks up, and that nothing of it runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.texts.markdown import LINK, MAX_DEPTH, NAMES, Node, parse_markdown
from src.web.admin_words import render_markdown
from tests.e2e.test_admin_page import HOSTILE

ALLOWED = frozenset((
    "p", "strong", "em", "s", "blockquote", "pre", "code", "table", "tr", "td", "li", "ul", "ol",
    "a", "br", "hr",
))  # fmt: skip
VOID = frozenset(("br", "hr"))
ATTRIBUTES = frozenset((("a", "href"), ("a", "rel")))
SAFE = re.compile(r"(https?://|tg://|mailto:|/users/)", re.IGNORECASE)


class Checker(HTMLParser):
    """Fails at what is not ours."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED
        for name, value in attrs:
            assert (tag, name) in ATTRIBUTES, (tag, name)
            assert name != "href" or re.match(SAFE, value or ""), value
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_comment(self, _data: str) -> None:
        raise AssertionError("a comment")


def check(text: str) -> str:
    page = str(render_markdown(text, "/users/1/0"))
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    return page


@pytest.mark.parametrize(("text", "page"), [
    ("**a** *b* ~~c~~ `<d>`",
     "<p><strong>a</strong> <em>b</em> <s>c</s> <code>&lt;d&gt;</code></p>"),
    ("```py\nx < y msg-1\n```", "<pre>x &lt; y msg-1\n</pre>"),
    ("|a|b|\n|-|-|\n|1|2|",
     "<table><tr><td>a</td><td>b</td></tr><tr><td>1</td><td>2</td></tr></table>"),
    ("[x](https://e.org/?a=1&b=\"2)",
     '<p><a href="https://e.org/?a=1&amp;b=&#34;2" rel="noopener noreferrer nofollow">x</a></p>'),
    ("[a](data:text/html,x) [b](//e.org) [c](https:e.org) [d](file:///x)", "<p>a b c d</p>"),
    ("[x](javascript:alert(1)) ![cat](https://e.org/x.png)", "<p>x cat</p>"),
    ("<b onclick=x>hi</b>", "<p>&lt;b onclick=x&gt;hi&lt;/b&gt;</p>"),
    ("see fact-2, xmsg-1 and msg-3",
     '<p>see <a href="/users/1/0/facts?fact=2#fact-2">fact-2</a>, xmsg-1 and '
     '<a href="/users/1/0?msg=3#msg-3">msg-3</a></p>'),
])  # fmt: skip
def test_what_markdown_becomes(text: str, page: str) -> None:
    assert check(text) == page


@pytest.mark.parametrize(
    "wrap", ["{}", "[x]({})", "![{}](x)", "`{}`", "> - {}", "[{}]: x\n\n[{}]"]
)
def test_nothing_hostile_becomes_an_element(wrap: str) -> None:
    for text in HOSTILE:
        check(wrap.replace("{}", text))


@given(st.text(st.sampled_from("*_~`>#-+|[]()!<a>:/&\"'\n 1.\\")))
def test_whatever_is_written_no_element_is_left_open(text: str) -> None:
    check(text)


@pytest.mark.parametrize("text", [
    "> " * 5000 + "x", "*a " * 20_000, "[" * 50_000, "- " * 3000 + "x", "`" * 30_000,
    "||" * 20_000, "msg-" * 15_000, "![" * 20_000 + "](" * 5000,
])  # fmt: skip
def test_what_nests_deeply_is_bounded(text: str) -> None:
    page = check(text)
    assert len(page) < 20 * len(text)


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
