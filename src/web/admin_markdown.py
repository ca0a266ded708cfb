"""Texts as HTML that runs nothing: answers with their Markdown, references as links."""

import re
from collections.abc import Callable
from typing import Any

import pyromark
from markupsafe import Markup, escape

OPTIONS = pyromark.Options.ENABLE_TABLES | pyromark.Options.ENABLE_STRIKETHROUGH
MAX_DEPTH = 12  # elements inside each other; what is deeper is text without any
MAX_MARKED_UP = 60_000  # characters; what is longer is shown as it was written
# A heading is no heading of our page.
ELEMENTS = {
    "Paragraph": "p", "Heading": "p", "Strong": "strong", "Emphasis": "em", "Strikethrough": "s",
    "BlockQuote": "blockquote", "CodeBlock": "pre", "Table": "table", "TableHead": "tr",
    "TableRow": "tr", "TableCell": "td", "Item": "li",
}  # fmt: skip
REFERENCE = re.compile(r"\b(msg|fact)-(\d{1,18})\b")
# Where a link may lead; no browser reads such an address as one of another scheme.
ADDRESS = re.compile(r"(?:https?://|tg://|mailto:)[^\s\x00-\x1f\\]+", re.IGNORECASE)
LINK = Markup(' href="{}" rel="noopener noreferrer nofollow"')


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
    return _Writer(lambda words: link_references(words, base)).write(text)


class _Writer:
    """Writes the events of the parser as elements, of which none is left open."""

    def __init__(self, words: Callable[[str], Markup]) -> None:
        self._words = words
        self._open: list[str] = []  # what each "Start" has opened; empty: nothing
        self._pieces: list[Markup] = []

    def write(self, text: str) -> Markup:
        for event in pyromark.events(text, options=OPTIONS):
            if isinstance(event, str):
                self._add_mark(event)
            else:
                [(kind, value)] = event.items()
                self._add(kind, value)
        return Markup("").join(self._pieces)

    def _add(self, kind: str, value: Any) -> None:
        if kind == "Start":
            self._start(value)
        elif kind == "End":
            if name := self._open.pop():
                self._pieces.append(Markup(f"</{name}>"))
        elif kind == "Code":
            self._pieces.append(Markup("<code>{}</code>").format(value))
        elif "a" in self._open or "pre" in self._open:
            self._pieces.append(escape(value))
        else:  # words, and HTML, which is words here
            self._pieces.append(self._words(str(value)))

    def _add_mark(self, mark: str) -> None:
        marks = {"SoftBreak": Markup("<br>"), "HardBreak": Markup("<br>"), "Rule": Markup("<hr>")}
        self._pieces.append(marks.get(mark, Markup("")))

    def _start(self, tag: Any) -> None:
        kind, about = (tag, {}) if isinstance(tag, str) else next(iter(tag.items()))
        name, attributes = ELEMENTS.get(kind, ""), Markup("")
        if kind == "List":
            name = "ul" if about is None else "ol"
        elif kind == "Heading":
            attributes = Markup(' class="heading"')
        elif kind == "Link" and ADDRESS.fullmatch(about["dest_url"]):
            name, attributes = "a", LINK.format(about["dest_url"])
        if len(self._open) >= MAX_DEPTH:
            name = ""
        self._open.append(name)
        if name:
            self._pieces.append(Markup("<{}{}>").format(name, attributes))
