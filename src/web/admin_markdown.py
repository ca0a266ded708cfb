"""Texts as safe HTML: rendered Markdown, and references as links."""

import re
from collections.abc import Callable, Sequence

from markupsafe import Markup, escape

from src.web.marked_text import LINK, Node, parse_markdown

MAX_MARKED_UP = 60_000  # characters; a longer text is shown as it was written
REFERENCE = re.compile(r"\b(msg|fact)-(\d{1,18})\b")
PAGES = {"msg": "?msg=", "fact": "/facts?fact="}
# Allowed targets of a link; no browser reads such an address as one of another scheme.
ADDRESS = re.compile(r"(?:https?://|tg://|mailto:)[^\s\x00-\x1f\\]+", re.IGNORECASE)
ANCHOR = Markup('<a href="{}" rel="noopener noreferrer nofollow">{}</a>')


def link_references(text: str, base: str) -> Markup:
    """Escape a text; ``msg-1`` and ``fact-2`` become links to pages under ``base``."""
    pieces, end = [], 0
    for match in REFERENCE.finditer(text):
        kind, number = match.groups()
        page = base + PAGES[kind] + number
        link = Markup('<a href="{}#{}">{}</a>').format(page, match[0], match[0])
        pieces += [escape(text[end : match.start()]), link]
        end = match.end()
    return Markup("").join([*pieces, escape(text[end:])])


def render_markdown(text: str, base: str) -> Markup:
    """Render an answer's Markdown; HTML is escaped, pictures become their description."""
    if len(text) > MAX_MARKED_UP:
        return link_references(text, base)
    return _render(parse_markdown(text), lambda words: link_references(words, base))


def _render(nodes: Sequence[Node], say: Callable[[str], Markup]) -> Markup:
    return Markup("").join(_render_node(node, say) for node in nodes)


def _render_node(node: Node, say: Callable[[str], Markup]) -> Markup:
    match node:
        case str():
            return say(node)
        case ["hr"]:
            return Markup("<hr>")
        case [name, address, *inside] if name == LINK and ADDRESS.fullmatch(address):
            return ANCHOR.format(address, _render(inside, escape))
        case [name, _, *inside] if name == LINK:
            return _render(inside, escape)
        case [("pre" | "code") as name, *inside]:
            content = _render(inside, escape)
        case [name, *inside]:
            content = _render(inside, say)
    return Markup("<{0}>{1}</{0}>").format(name, content)
