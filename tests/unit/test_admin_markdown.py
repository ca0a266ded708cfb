"""Markdown on the admin page: what it marks up, and that nothing of it runs."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.web.admin_markdown import render_markdown
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
    begun = time.process_time()
    page = check(text)
    assert time.process_time() - begun < 2
    assert len(page) < 20 * len(text)
