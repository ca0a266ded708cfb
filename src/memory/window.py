"""The rendered window: which of the last messages the model sees.

It moves in steps, so that between two steps the prompt only grows at its end and a provider's
prefix cache covers everything before it. What lies before the window is in the summaries.
"""

from __future__ import annotations


def window_start(last_position: int, *, window: int = 30, step: int = 15) -> int:
    """The position of the first message that is rendered.

    Args:
        last_position: Of the newest message; positions count from 1.
        window: The most messages that are rendered.
        step: By how many the start moves at once; so ``window - step + 1`` to ``window``
            messages are rendered once the conversation is that long.
    """
    overflow = max(0, last_position - window)
    return -(-overflow // step) * step + 1
