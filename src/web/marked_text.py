"""Markdown as a tree of a few elements, for a page that builds them one by one."""

from typing import Any

import pyromark

OPTIONS = pyromark.Options.ENABLE_TABLES | pyromark.Options.ENABLE_STRIKETHROUGH
MAX_DEPTH = 12  # elements inside each other; what is deeper is text without any
# A heading is a strong line, a picture its words.
ELEMENTS = {
    "Paragraph": "p", "Heading": "strong", "Strong": "strong", "Emphasis": "em",
    "Strikethrough": "s", "BlockQuote": "blockquote", "CodeBlock": "pre", "Table": "table",
    "TableHead": "tr", "TableRow": "tr", "TableCell": "td", "Item": "li",
}  # fmt: skip
LINK = "link"
NAMES = frozenset({*ELEMENTS.values(), "ul", "ol", "code", "hr", LINK})
# Words; or the name of an element, one of NAMES, and the nodes inside. Of a link the first of them
# is where it leads, whatever that is.
Node = str | list[Any]
MARKS: dict[str, Node] = {"SoftBreak": "\n", "HardBreak": "\n", "Rule": ["hr"]}


def parse_markdown(text: str) -> list[Node]:
    """The nodes of a text; HTML in it is words."""
    path: list[list[Any]] = [[]]  # what is open, the innermost last
    for event in pyromark.events(text, options=OPTIONS):
        if isinstance(event, str):
            _add(path[-1], MARKS.get(event, ""))
            continue
        [(kind, value)] = event.items()
        if kind == "Start":
            path.append(_open(path[-1], value) if len(path) <= MAX_DEPTH else path[-1])
        elif kind == "End":
            path.pop()
        else:
            _add(path[-1], ["code", value] if kind == "Code" else str(value))
    return path[0]


def _open(parent: list[Any], tag: Any) -> list[Any]:
    """Where what stands inside a tag is added."""
    about: Any
    kind, about = (tag, None) if isinstance(tag, str) else next(iter(tag.items()))
    name = ELEMENTS.get(kind)
    if kind == "List":
        name = "ul" if about is None else "ol"
    node = [LINK, about["dest_url"]] if kind == "Link" else [name]
    if node == [None]:
        return parent
    parent.append(["p", node] if kind == "Heading" else node)
    return node


def _add(inside: list[Any], node: Node) -> None:
    """Add a node; words join the words before them."""
    first = 2 if inside[:1] == [LINK] else 1
    if isinstance(node, str) and len(inside) > first and isinstance(inside[-1], str):
        inside[-1] += node
    elif node:
        inside.append(node)
