"""Console dialogue of thirty lines per language with a model named by the environment.

    OPENAI_API_KEY=none OPENAI_BASE_URL=http://127.0.0.1:8081/v1 LLM_MODEL=openai:local \
        LLM_CONTEXT_SIZE=8192 python -m benchmarks.small_model [en] [ru] [uk]

For a model on one's own machine: it shows if tools are called correctly, and how fast it is.
``small_model.toml`` holds the lines. Prints each line with its reply, and a JSON line per
language: the tools called and the number of failed calls, replies that show a call as text, facts
stored of those told, reminders set of those requested, questions answered correctly, and seconds
per line (median, longest).
"""

import asyncio
import json
import re
import statistics
import sys
import tempfile
import time
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.dialogues.__main__ import FIRST_USER, talk
from src.base.config import load_settings
from src.core import Core, open_core

LINES = Path(__file__).with_suffix(".toml")
CALL_SHOWN = re.compile(r'<tool_call>|"arguments"|"name"\s*:')
FACTS = "SELECT text FROM facts WHERE telegram_user_id = %(user)s AND holds"
REMINDERS = """
SELECT r.text FROM reminders r JOIN owners o ON o.id = r.owner_id
WHERE o.telegram_user_id = %(user)s AND r.is_waiting
"""
CALLS = """
SELECT t.name, t.error IS NOT NULL AS failed FROM tool_results t
JOIN conversations c ON c.id = t.conversation_id WHERE c.telegram_user_id = %(user)s
"""


async def main(languages: list[str]) -> None:
    """Run the dialogue in each language, with a user for each."""
    talks = tomllib.loads(LINES.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="pomni-small-model-") as folder:
        settings = load_settings(None).model_copy(update={"data_dir": Path(folder)})
        async with open_core(settings) as core:
            for number, language in enumerate(languages or list(talks)):
                figures = await _have(core, FIRST_USER + number, talks[language])
                print(json.dumps({"language": language, **figures}), flush=True)


async def _have(core: Core, user_id: int, lines: list[dict[str, str]]) -> dict[str, Any]:
    replies, seconds = [], []
    for line in lines:
        began = time.monotonic()
        replies += await talk(core, user_id, [line["say"]])
        seconds.append(time.monotonic() - began)
        print(f"> {line['say']}\n{replies[-1]}\n({seconds[-1]:.0f} s)\n", flush=True)
    facts = [text for (text,) in core.client.fetch_all(FACTS, {"user": user_id})]
    waiting = [text for (text,) in core.client.fetch_all(REMINDERS, {"user": user_id})]
    calls = core.client.fetch_all(CALLS, {"user": user_id})
    print("\n".join(facts + waiting))
    answered = [
        re.search(line["answer"], reply, re.IGNORECASE) is not None
        for line, reply in zip(lines, replies, strict=True)
        if "answer" in line
    ]
    return {
        "calls": Counter(name for name, _ in calls),
        "calls_failed": sum(failed for _, failed in calls),
        "calls_shown": sum(CALL_SHOWN.search(reply) is not None for reply in replies),
        "facts": _kept(lines, "fact", facts),
        "reminders": _kept(lines, "reminder", waiting),
        "answers": f"{sum(answered)}/{len(answered)}",
        "seconds": [round(statistics.median(seconds)), round(max(seconds))],
    }


def _kept(lines: list[dict[str, str]], key: str, texts: list[str]) -> str:
    """Return how many of the expected patterns match a text, such as 8/10."""
    wanted = [line[key] for line in lines if key in line]
    kept = sum(any(re.search(one, text, re.IGNORECASE) for text in texts) for one in wanted)
    return f"{kept}/{len(wanted)}"


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
