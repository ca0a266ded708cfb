"""Texts as HTML that runs nothing: answers with their Markdown, references as links."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from markupsafe import Markup, escape

from src.web.marked_text import LINK, Node, parse_markdown

MAX_MARKED_UP = 60_000  # characters; what is longer is shown as it was written
REFERENCE = re.compile(r"\b(msg|fact)-(\d{1,18})\b")
# Where a link may lead; no browser reads such an address as one of another scheme.
ADDRESS = re.compile(r"(?:https?://|tg://|mailto:)[^\s\x00-\x1f\\]+", re.IGNORECASE)
ANCHOR = Markup('<a href="{}" rel="noopener noreferrer nofollow">{}</a>')


def link_references(text: str, base: str) -> Markup:
    """A text as it was written; ``msg-1`` and ``fact-2`` lead to the pages under ``base``."""
    pieces, end = [], 0
    for found in REFERENCE.finditer(text):
        kind, number = found.groups()
        page = f"?msg={number}" if kind == "msg" else f"/facts?fact={number}"
        link = Markup('<a href="{}{}#{}">{}</a>').format(base, page, found[0], found[0])
        pieces += [escape(text[end : found.start()]), link]
        end = found.end()
    return Markup("").join([*pieces, escape(text[end:])])


def render_markdown(text: str, base: str) -> Markup:
    """An answer's Markdown; its HTML is shown as text, its pictures by their words."""
    if len(text) > MAX_MARKED_UP:
        return link_references(text, base)
    return _write(parse_markdown(text), lambda words: link_references(words, base))


def _write(nodes: Sequence[Node], say: Callable[[str], Markup]) -> Markup:
    """The nodes as HTML; ``say`` writes the words among them."""
    return Markup("").join(_element(n, say) if isinstance(n, list) else say(n) for n in nodes)


def _element(node: Sequence[Any], say: Callable[[str], Markup]) -> Markup:
    name, *inside = node
    if name == LINK:
        address, *inside = inside
        told = _write(inside, escape)
        return ANCHOR.format(address, told) if ADDRESS.fullmatch(address) else told
    if name == "hr":
        return Markup("<hr>")
    told = _write(inside, escape if name in ("pre", "code") else say)
    return Markup("<{0}>{1}</{0}>").format(name, told)
