"""Labels, and formats of figures, which the templates use as filters."""

import tomllib
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from src.reading.gate import MASK, redact

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


FILTERS: dict[str, Callable[..., str]] = {
    filter_.__name__: filter_ for filter_ in (count, money, seconds, size, signed, masked)
}


def plain_cell(value: Any) -> str:
    """Format a cell of CSV; no text begins a formula in a spreadsheet."""
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{value}"
    if value is None:
        return ""
    return str(value)
