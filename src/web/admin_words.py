"""Labels, formats of figures (which the templates use as filters), and stacked bar charts."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
    return "–" if number is None else f"{number:,.0f}"


def short(number: Number) -> str:
    """Return ``999``, ``12.3k`` or ``4.5M``, for axes and legends."""
    value = float(number)
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{letter}"
    return f"{value:.3g}"


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
        return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 3600 else f"{value / 3600:.1f} h"


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
    return "–" if number is None else f"{number:+,.0f}"


def masked(text: str | None) -> str:
    """Redact secrets in a text, door codes included; without a text, all is redacted."""
    return MASK if text is None else redact(text, household=True)


FILTERS: dict[str, Callable[..., str]] = {
    filter_.__name__: filter_ for filter_ in (count, short, money, seconds, size, signed, masked)
}

TONES = [f"part{number}" for number in range(6)]
WIDTH, HEIGHT = 1000.0, 100.0  # of a chart in its own units; the page stretches it


@dataclass(frozen=True)
class Piece:
    """Rectangle of a chart: colour class of the style sheet, position, size, tooltip."""

    tone: str
    x: float
    y: float
    width: float
    height: float
    title: str


@dataclass(frozen=True)
class Chart:
    """Stacked bar chart.

    Attributes:
        name: Title, also read by screen readers.
        pieces: Rectangles of the bars.
        top: Upper end of the axis.
        ends: Labels below the axis: the first bar, the middle one and the last.
        legend: Colour class, name and formatted sum of each part.
        form: Formats the numbers.
    """

    name: str
    pieces: Sequence[Piece]
    top: float
    ends: Sequence[str]
    legend: Sequence[tuple[str, str, str]]
    form: Callable[[Number], str]


def build_chart(
    name: str,
    parts: Sequence[str],
    bars: Mapping[str, Sequence[Number]],
    *,
    form: Callable[[Number], str] = short,
    tones: Sequence[str] = TONES,
) -> Chart | None:
    """Chart ``bars`` from left to right, each with a value for each part; None: no values."""
    maximum = max((float(sum(values)) for values in bars.values()), default=0.0)
    if not maximum:
        return None
    top, step, pieces = _round_up(maximum), WIDTH / len(bars), []
    for place, (label, values) in enumerate(bars.items()):
        level = HEIGHT
        for part, value in enumerate(values):
            height = HEIGHT * float(value) / top
            level -= height
            title = f"{label}: {form(value)} {parts[part]}"
            if height:
                pieces.append(Piece(tones[part], place * step, level, step * 0.8, height, title))
    labels = list(bars)
    ends = dict.fromkeys((labels[0], labels[len(labels) // 2], labels[-1]))
    sums = [form(sum(values[part] for values in bars.values())) for part in range(len(parts))]
    legend = list(zip(tones, parts, sums, strict=False))
    return Chart(name, pieces, top, list(ends), legend, form)


def _round_up(maximum: float) -> float:
    """Return the next of 1, 2, 5, 10, 20, … (or a tenth, a hundredth of them)."""
    power = 1.0
    while power < maximum:
        power *= 10
    while power / 10 >= maximum:
        power /= 10
    return next(top for top in (power / 5, power / 2, power) if top >= maximum)


def plain_cell(value: Any) -> str:
    """Format a cell of CSV; no text begins a formula in a spreadsheet."""
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{value}"
    return "" if value is None else str(value)
