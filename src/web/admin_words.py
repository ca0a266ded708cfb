"""Labels, and formats of figures and texts, which the templates use as filters."""

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from src.base.zones import local_time
from src.reading.gate import MASK, redact
from src.texts.markdown import LINK, Node, parse_markdown

Number = int | float | Decimal


@cache
def labels() -> Mapping[str, Any]:
    """Return the tables of ``admin_labels.toml``."""
    return tomllib.loads(Path(__file__).with_name("admin_labels.toml").read_text("utf-8"))


def count(number: Number | None) -> str:
    """Return ``12,345``; a dash without a number."""
    if number is None:
        return "–"
    return f"{number:,.0f}"


def money(amount: Number | None, currency: str) -> str:
    """Return an amount with two digits, four below one; a dash without a price."""
    if amount is None:
        return "–"
    if 0 < amount < 1:
        return f"{amount:,.4f} {currency}"
    return f"{amount:,.2f} {currency}"


def seconds(number: Number | None) -> str:
    """Return ``240 ms``, ``1.4 s``, ``12 min`` or ``3.0 h``."""
    if number is None:
        return "–"
    value = float(number)
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 60:
        if value < 10:
            return f"{value:.1f} s"
        return f"{value:.0f} s"
    if value < 3600:
        return f"{value / 60:.0f} min"
    return f"{value / 3600:.1f} h"


def size(number: Number | None) -> str:
    """Return a number of bytes as kB, MB or GB."""
    if number is None:
        return "–"
    value = float(number) / 1e3
    for unit in ("kB", "MB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} GB"


def format_clock(moment: datetime, zone: str) -> str:
    """Return ``09:30``."""
    return f"{local_time(moment, zone):%H:%M}"


def format_moment(moment: datetime | None, zone: str) -> str:
    """Return ``31.12.2026 09:30``; nothing without a moment."""
    if moment is None:
        return ""
    return f"{local_time(moment, zone):%d.%m.%Y %H:%M}"


def signed(number: Number | None) -> str:
    """Return ``+12`` or ``-3``."""
    if number is None:
        return "–"
    return f"{number:+,.0f}"


def masked(text: str | None) -> str:
    """Redact secrets in a text, door codes included; without a text, all is redacted."""
    if text is None:
        return MASK
    return redact(text, household=True)


def plain_cell(value: Any) -> str:
    """Format a cell of CSV; no text begins a formula in a spreadsheet."""
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{value}"
    if value is None:
        return ""
    return str(value)


# Texts of users and answers: references to messages and facts are links, HTML is escaped.

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


FILTERS: dict[str, Callable[..., str]] = {
    filter_.__name__: filter_ for filter_ in (count, money, seconds, size, signed, masked)
}
FILTERS |= {"linked": link_references, "marked": render_markdown}
