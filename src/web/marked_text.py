"""Markdown as a tree of a few elements, for a page that builds them one by one."""

from typing import Any

import pyromark

OPTIONS = pyromark.Options.ENABLE_TABLES | pyromark.Options.ENABLE_STRIKETHROUGH
MAX_DEPTH = 12  # elements inside each other; what is deeper is text without any
# A heading is a strong line, a picture its words, a link its words and where it leads.
ELEMENTS = {
    "Paragraph": "p", "Heading": "strong", "Strong": "strong", "Emphasis": "em",
    "Strikethrough": "s", "BlockQuote": "blockquote", "CodeBlock": "pre", "Table": "table",
    "TableHead": "tr", "TableRow": "tr", "TableCell": "td", "Item": "li",
}  # fmt: skip
NAMES = frozenset({*ELEMENTS.values(), "ul", "ol", "code", "hr"})
Node = str | list[Any]  # words; or the name of an element, one of NAMES, and the nodes inside
MARKS: dict[str, Node] = {"SoftBreak": "\n", "HardBreak": "\n", "Rule": ["hr"]}


def parse_markdown(text: str) -> list[Node]:
    """The nodes of a text; HTML in it is words."""
    root: list[Any] = []
    path = [(root, "")]  # what is open, the innermost last, with the words that end it
    for event in pyromark.events(text, options=OPTIONS):
        if isinstance(event, str):
            _add(path[-1][0], MARKS.get(event, ""))
            continue
        [(kind, value)] = event.items()
        if kind == "Start":
            path.append(_open(path[-1][0], value, len(path) <= MAX_DEPTH))
        elif kind == "End":
            inside, ending = path.pop()
            _add(inside, ending)
        else:
            _add(path[-1][0], ["code", value] if kind == "Code" else str(value))
    return root


def _open(parent: list[Any], tag: Any, is_shallow: bool) -> tuple[list[Any], str]:
    """Where what stands inside a tag is added, and the words behind it."""
    about: Any
    kind, about = (tag, None) if isinstance(tag, str) else next(iter(tag.items()))
    if kind == "Link" and about["link_type"] == "Inline":
        return parent, f" ({about['dest_url']})"
    name = ELEMENTS.get(kind)
    if kind == "List":
        name = "ul" if about is None else "ol"
    if name is None or not is_shallow:
        return parent, ""
    node: list[Any] = [name]
    parent.append(["p", node] if kind == "Heading" else node)
    return node, ""


def _add(inside: list[Any], node: Node) -> None:
    """Add a node; words join the words before them."""
    if isinstance(node, str) and len(inside) > 1 and isinstance(inside[-1], str):
        inside[-1] += node
    elif node:
        inside.append(node)
