"""Markdown as a tree of few elements, which a page builds one by one, and as safe HTML."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import pyromark
from markupsafe import Markup, escape

from src.texts.signs import Signs

OPTIONS = pyromark.Options.ENABLE_TABLES | pyromark.Options.ENABLE_STRIKETHROUGH
MAX_DEPTH = 12  # nested elements; deeper ones become plain text
# A heading becomes a strong line, a picture its description.
IN_LINE = {"Strong": "strong", "Emphasis": "em", "Strikethrough": "s"}
BLOCKS = {"Paragraph": "p", "Heading": "strong", "BlockQuote": "blockquote", "CodeBlock": "pre"}
ROWS = {"Table": "table", "TableHead": "tr", "TableRow": "tr", "TableCell": "td", "Item": "li"}
ELEMENTS = IN_LINE | BLOCKS | ROWS
LINK = "link"
NAMES = frozenset({*ELEMENTS.values(), "ul", "ol", "code", "hr", LINK})
# A text; or the name of an element, one of NAMES, and the nodes in it. The first node of a link is
# its target, unchecked.
Node = str | list[Any]
MARKS: dict[str, Node] = {"SoftBreak": "\n", "HardBreak": "\n", "Rule": ["hr"]}
MAX_MARKED_UP = 60_000  # characters; a longer text is shown as it was written
REFERENCE = re.compile(r"\b(msg|fact)-(\d{1,18})\b")
PAGES = {"msg": "?msg=", "fact": "/facts?fact="}
# Allowed targets of a link; no browser reads such an address as one of another scheme.
ADDRESS = re.compile(r"(?:https?://|tg://|mailto:)[^\s\x00-\x1f\\]+", re.IGNORECASE)
ANCHOR = Markup('<a href="{}" rel="noopener noreferrer nofollow">{}</a>')


def parse_markdown(text: str) -> list[Node]:
    """Parse a text into nodes; HTML and what is no markup become text, as written."""
    signs = Signs()
    path: list[list[Any]] = [[]]  # open elements, the innermost last
    for event in pyromark.events(signs.hide(text), options=OPTIONS):
        if isinstance(event, str):
            _add_node(path[-1], MARKS.get(event, ""))
            continue
        [(kind, value)] = event.items()
        if kind == "Start" and len(path) > MAX_DEPTH:
            path.append(path[-1])
        elif kind == "Start":
            path.append(_open_element(path[-1], value, signs))
        elif kind == "End":
            path.pop()
        elif kind == "Code":
            _add_node(path[-1], ["code", signs.restored(str(value))])
        else:
            _add_node(path[-1], signs.restored(str(value)))
    return path[0]


def _open_element(parent: list[Any], tag: Any, signs: Signs) -> list[Any]:
    """Return the node to which the content of a tag is added."""
    if isinstance(tag, str):
        tag = {tag: None}
    [(kind, details)] = tag.items()
    match kind, details:
        case "Link", {"dest_url": address}:
            node = [LINK, signs.restored(address)]
        case "List", None:
            node = ["ul"]
        case "List", _:
            node = ["ol"]
        case _ if kind in ELEMENTS:
            node = [ELEMENTS[kind]]
        case _:
            return parent
    parent.append(["p", node] if kind == "Heading" else node)
    return node


def _add_node(inside: list[Any], node: Node) -> None:
    first = 1
    if inside[:1] == [LINK]:
        first = 2
    if isinstance(node, str) and len(inside) > first and isinstance(inside[-1], str):
        inside[-1] += node
    elif node:
        inside.append(node)


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
