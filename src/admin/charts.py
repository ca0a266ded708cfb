"""Bars as SVG, drawn here: the page needs no script for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT, GAP = 640, 120, 2  # units of the drawing
PARTS = 3  # kinds of bars that the style sheet has colours for


@dataclass(frozen=True)
class Rectangle:
    """A part of a bar, in units of the drawing; ``part`` tells its colour."""

    x: float
    y: float
    width: float
    height: float
    part: int
    title: str


@dataclass(frozen=True)
class Bars:
    """A chart of stacked bars.

    Attributes:
        title: What it shows.
        rectangles: Its parts.
        labels: The first and the last label below it.
        most: The height of the highest bar, as text.
    """

    title: str
    rectangles: tuple[Rectangle, ...]
    labels: tuple[str, str]
    most: str
    width: int = WIDTH
    height: int = HEIGHT


def bars(title: str, columns: Sequence[tuple[str, Sequence[float]]]) -> Bars | None:
    """A chart of ``(label, values stacked upon each other)``; None without any.

    Args:
        title: What it shows.
        columns: From left to right.
    """
    most = max((sum(values) for _label, values in columns), default=0.0)
    if not most:
        return None
    step = WIDTH / len(columns)
    parts: list[Rectangle] = []
    for number, (label, values) in enumerate(columns):
        top = float(HEIGHT)
        for part, value in enumerate(values):
            height = HEIGHT * value / most
            top -= height
            parts.append(
                Rectangle(
                    round(number * step, 1), round(top, 1), round(max(step - GAP, 1), 1),
                    round(height, 1), part % PARTS, f"{label}: {value:,.0f}",
                )
            )  # fmt: skip
    return Bars(title, tuple(parts), (columns[0][0], columns[-1][0]), f"{most:,.0f}")
