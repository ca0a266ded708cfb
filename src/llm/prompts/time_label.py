"""The time label of user messages, and its removal from what the model writes.

Every user message is stored and shown to the model as ``[Текущее время: YYYY-MM-DD HH:MM] text``
(the label is literal, whatever the user's language). Models sometimes copy the label
into their answers; it is taken out there, also while the answer streams.
"""

from __future__ import annotations

import re
from datetime import datetime

from src.time_zones import in_zone, local_time

LABEL_START = "[Текущее время:"
# As the program itself writes it; what follows may imitate it.
OWN_LABEL = re.compile(r"\[Текущее время: [0-9: -]+\] ")
LABELS = re.compile(r"(?:\s*\[Текущее время:[^\]\n]{0,40}\]\s*+)+")
MAX_LABEL = 64  # characters; a longer beginning is no label


def add_time_label(text: str, moment: datetime, time_zone: str) -> str:
    """The text with the time of ``moment`` (aware) in ``time_zone`` before it."""
    local = local_time(moment, time_zone)
    return f"[Текущее время: {local:%Y-%m-%d %H:%M}] {text}"


def read_time_label(text: str, time_zone: str) -> datetime | None:
    """The moment that the label names, in ``time_zone``; None without a label."""
    match = re.match(r"\s*\[Текущее время: (\d{4}-\d\d-\d\d \d\d:\d\d)\]", text)
    if match is None:
        return None
    try:
        written = datetime.strptime(match[1], "%Y-%m-%d %H:%M")  # noqa: DTZ007
    except ValueError:
        return None
    return in_zone(written, time_zone)


def strip_time_label(text: str) -> str:
    """The text without the labels at its beginning."""
    labels = LABELS.match(text)
    return text if labels is None else text[labels.end() :]


def split_time_label(content: str) -> tuple[str, str]:
    """The label of a stored message, and what was written; the label is empty where none is."""
    label = OWN_LABEL.match(content)
    return (label[0], content[label.end() :]) if label else ("", content)


class LabelFilter:
    """Passes streamed text on, holding it back while it may still become a label."""

    def __init__(self) -> None:
        """One filter per answer."""
        self._held: str | None = ""

    def feed(self, text: str) -> str:
        """Take the next piece; return what can be shown now."""
        if self._held is None:
            return text
        start = self._held = strip_time_label(self._held + text).lstrip()
        may_be_label = start.startswith(LABEL_START) or LABEL_START.startswith(start)
        if may_be_label and len(start) < MAX_LABEL:
            return ""
        self._held = None
        return start

    def flush(self) -> str:
        """What was still held back at the end of the answer."""
        shown, self._held = self._held or "", None
        return shown
