"""Markdown as a tree of few elements, which a page builds one by one."""

from typing import Any

import pyromark

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
    first = 2 if inside[:1] == [LINK] else 1
    if isinstance(node, str) and len(inside) > first and isinstance(inside[-1], str):
        inside[-1] += node
    elif node:
        inside.append(node)
