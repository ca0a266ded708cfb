"""Reader of Gemini's activity, as Google Takeout exports it."""

import re
from typing import Any

from src.imports.records import Record, Records, read_moment

PROMPTED = re.compile(r"Prompted(?: with:?)?\s+")


def read_prompt(act: dict[str, Any]) -> Records:
    """Yield a prompt; in other languages those that were answered tell it from other acts."""
    title, time = act["title"], act["time"]
    is_prompt = PROMPTED.match(title) is not None or "safeHtmlItem" in act
    text = PROMPTED.sub("", title, count=1).strip()
    if is_prompt and text and "Gemini" in act["header"]:
        yield Record("gemini", time[:10], "", time, text, read_moment(time))
