"""How much one background call reads: the usual portion, or more when it is far behind.

A flood of a thousand messages is worth a few calls, not two hundred. What was said at an ordinary
pace is read in the usual portions, of which the design gives the sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from src.storage.conversation_repo import PastMessage

USUAL_PORTIONS = 3  # so many may wait before it counts as being far behind
MAX_PORTION_TEXT = 24_000  # characters of one call, about 8,000 tokens


def portion_size(waiting: int, usual: int, *, far: int, most: int) -> int:
    """How many of the ``waiting`` messages the next call reads.

    Args:
        waiting: Messages that wait to be read.
        usual: Messages that one call reads when it is not far behind.
        far: From more than so many waiting messages on it is far behind.
        most: Messages that one call reads at most then.
    """
    if waiting <= max(far, USUAL_PORTIONS * usual):
        return usual
    return max(usual, ceil(waiting / ceil(waiting / most)))  # equal ones, without a rest


def fitting(messages: Sequence[PastMessage], *, least: int, longest: int) -> Sequence[PastMessage]:
    """As many of the first ``messages`` as one call may read, in characters.

    Args:
        messages: In their order.
        least: So many are taken in any case.
        longest: Characters of one message that are read.
    """
    characters = 0
    for number, message in enumerate(messages):
        characters += min(len(message.text), longest)
        if characters > MAX_PORTION_TEXT and number >= least:
            return messages[:number]
    return messages
