"""Questions for an overview: what is known of the user, of his family, or was said in a period.

They are answered by kind and by time: no word and no vector of "what do you know about me?" leads
to what is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, cast

from src.dates.time_expressions import Period, read_time
from src.language.requests import asks_what_was_said, overview_of

OverviewKind = Literal["profile", "family", "work", "wishes", "period"]


@dataclass(frozen=True)
class Overview:
    """What is to be listed.

    Attributes:
        kind: ``profile``: facts of every kind; ``family``: about kin; ``work``; ``wishes``: how to
            answer; ``period``: what the user said then.
        periods: Half-open periods to which it is bound; none: all of time.
    """

    kind: OverviewKind
    periods: Sequence[Period] = ()


def read_overview(text: str, now: datetime) -> Overview | None:
    """The overview that a message asks for; None when it asks for something else.

    Args:
        text: The message.
        now: The owner's local time (aware), for "yesterday".
    """
    kind = overview_of(text)
    if kind is not None:
        return Overview(cast("OverviewKind", kind))
    time = read_time(text, now)
    if time.periods and asks_what_was_said(time.content):
        return Overview("period", time.periods)
    return None
