"""Talks in the console without a model: what people do with a memory, checked line by line.

    python -m benchmarks.dialogues [--kind forget_all] [--language en] [--show] [--folder …]
    python -m benchmarks.dialogues --talks [--show]

Each file holds dialogues: ``say`` is a line of the user, ``must`` are patterns that its reply
holds, ``must_not`` such that it does not hold, ``must_not_first`` such that its first line with
a quotation does not. Prints the checks that failed, and one JSON line: {"checks", "held"}.

With ``--talks`` it has the long talks of ``talks.toml``, and prints how often each sentence came
that may stand in any reply; that no model is connected must not come twice.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import re
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from src.base.config import Settings
from src.console import Console, ConsoleStreams
from src.core import Core, open_core
from src.texts import Language, say

FOLDER = Path(__file__).parent
TALKS = FOLDER / "talks.toml"
# What may stand in any reply.
STOCK = (
    "offline_note", "offline_noted", "offline_unknown", "offline_unsure", "offline_request",
    "offline_identity", "offline_ability",
)  # fmt: skip
FIRST_USER = 5_000


# Facts are extracted from every message at once, as they are in a long talk.
EAGER = "UPDATE global_settings SET memory_extraction_window = 1"


async def main(
    kind: str | None, language: str | None, folder: Path, *, show: bool, eager: bool = False
) -> int:
    """Run the dialogues, each as a user of its own; returns how many checks failed."""
    failed, checks = Counter[str](), 0
    with tempfile.TemporaryDirectory(prefix="pomni-dialogues-") as data:
        async with open_core(Settings(data_dir=Path(data))) as core:
            if eager:
                core.client.execute(EAGER)
            for number, dialogue in enumerate(_dialogues(folder, kind, language)):
                turns = dialogue["turns"]
                replies = await talk(core, FIRST_USER + number, [t["say"] for t in turns])
                for turn, reply in zip(turns, replies, strict=True):
                    if show:
                        print(f"> {turn['say']}\n{reply}\n")
                    problems = list(_problems(turn, reply))
                    checks += len(turn) > 1
                    failed[dialogue["kind"]] += bool(problems)
                    for problem in problems:
                        print(f"[{dialogue['kind']}] {turn['say']}\n    {problem}\n    {reply!r}")
    lost = failed.total()
    print(json.dumps({"checks": checks, "held": checks - lost, "failed": dict(+failed)}))
    return lost


async def count_sentences(*, show: bool) -> int:
    """Have each talk; returns in how many no model was said to be connected more than once."""
    talks: dict[Language, str] = tomllib.loads(TALKS.read_text(encoding="utf-8"))
    repeated = 0
    with tempfile.TemporaryDirectory(prefix="pomni-talks-") as data:
        async with open_core(Settings(data_dir=Path(data))) as core:
            for number, (language, text) in enumerate(talks.items()):
                lines = text.splitlines()
                replies = await talk(core, FIRST_USER + number, lines)
                if show:
                    print("\n".join(f"> {a}\n{b}\n" for a, b in zip(lines, replies, strict=True)))
                said = Counter(
                    key for reply in replies for key in STOCK if _says(reply, key, language)
                )
                repeated += said["offline_note"] > 1
                print(json.dumps({"language": language, "lines": len(lines), **said}))
    return repeated


def _says(reply: str, key: str, language: Language) -> bool:
    return say(key, language) in reply


def _dialogues(folder: Path, kind: str | None, language: str | None) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob(f"{language or '*'}.json")):
        for dialogue in json.loads(path.read_text(encoding="utf-8")):
            if kind in (None, dialogue["kind"]):
                yield dialogue


class Messages(io.StringIO):
    """An input of the console whose lines are whole messages, which may have several lines."""

    def __init__(self, messages: list[str]) -> None:
        super().__init__()
        self._messages = iter(messages)

    def readline(self, _size: int | None = -1, /) -> str:
        message = next(self._messages, None)
        return "" if message is None else f"{message}\n"


async def talk(core: Core, user_id: int, messages: list[str]) -> list[str]:
    """The reply to each message."""
    target = io.StringIO()
    console = Console(
        core,
        user_id,
        as_json=True,
        streams=ConsoleStreams(Messages(messages), target),
    )
    await console.run()
    return [json.loads(line)["reply"] for line in target.getvalue().splitlines()]


def _problems(turn: dict[str, Any], reply: str) -> Iterator[str]:
    quoted = next((line for line in reply.splitlines() if re.search("[«“]", line)), reply)
    for pattern in turn.get("must", ()):
        if not re.search(pattern, reply, re.IGNORECASE):
            yield f"lacks {pattern}"
    for pattern in turn.get("must_not", ()):
        if re.search(pattern, reply, re.IGNORECASE):
            yield f"holds {pattern}"
    for pattern in turn.get("must_not_first", ()):
        if re.search(pattern, quoted, re.IGNORECASE):
            yield f"first holds {pattern}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kind")
    parser.add_argument("--language")
    parser.add_argument("--show", action="store_true", help="print every reply")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="other dialogues")
    parser.add_argument("--eager", action="store_true", help="digest every message at once")
    parser.add_argument("--talks", action="store_true", help="have the long talks")
    given = parser.parse_args()
    if given.talks:
        sys.exit(bool(asyncio.run(count_sentences(show=given.show))))
    failures = main(
        given.kind, given.language, given.folder, show=given.show, eager=given.eager
    )  # fmt: skip
    sys.exit(bool(asyncio.run(failures)))
