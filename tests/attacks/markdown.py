"""Hostile Markdown that must not be slow to format nor exceed Telegram's limits.

    python -m tests.attacks.markdown --n 20000

prints one JSON line: {"texts", "violations", "slowest_ms", "slowest", ...}. Texts consist of
pieces with a meaning in Markdown, tables, formulas or spoilers, repeated, nested and mixed. The
formatted text must not be much longer than its source, must fit into Telegram's messages, and must
contain no stand-in. The exit status is 1 on a violation.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from src.telegram.rendering import (
    MAX_ENTITIES,
    MAX_PARTS,
    MAX_UTF16,
    Part,
    convert,
    render,
)
from src.texts.markdown import NONCHARACTERS
from tests.attacks.frame import run_attack
from tests.fakes.telegram_checks import check_entities, utf16_length

PIECES = (
    *("> ", ">", "- ", "+ ", "* ", "1. ", "9) ", "  ", "    ", "\t", "\n", "\n\n", "\r", "\r\n"),
    *("*", "**", "_", "__", "~", "~~", "`", "```\n", "```", "~~~\n", "|", "||", "|-|-|\n", "|a"),
    *("[", "]", "](", "[a](", "![", "[a]: b\n", "[a]", "(", ")", "<", ">", "<a b=", "<div>", "</"),
    *("$", "$$", "\\(", "\\)", "\\[", "\\]", "\\", "\\frac{", "\\sqrt{", "\\overline{", "\\sqrt"),
    *("{", "}", "^", "\\begin{matrix}", "\\end{matrix}", "\\\\", "&", "&amp;", "&#1234567;"),
    *("# ", "---\n", "===\n", "***\n", "- [ ] ", "[^1]", "<!--", "-->", "<tg-spoiler>", "<?"),
    *("a", "слово ", "1", " ", "😀", "\u200d", "\u0301", "\u202e", "\ufdfa", "\ufdd0", "\ufdd7"),
    *("\n> ", "\n>", "\n> > ", "\n- ", "\n  - ", "\n|a|b|", "$1 ", "https://a.b/c", "\x00",
     "\x0b"),
)  # fmt: skip
# Pieces that are known to be harmful when repeated to a whole text.
NESTED = (
    "> - ", "+ + + ", "1. - ", "> ", "- > 1. ", "||a\n> ", "\\sqrt{", "$\\overline ", "*a **b ",
)  # fmt: skip
LENGTHS = (40, 400, 4096, 12_000, 30_000)  # characters; the last is that of the longest answer
GROWTH = 40  # highest ratio of formatted to source length, due to formulas and nested lists


@dataclass
class Result:
    """Result of a run; milliseconds are CPU time."""

    texts: int = 0
    violations: list[str] = field(default_factory=list)
    most_parts: int = 0
    slowest_ms: float = 0.0
    slowest: str = ""
    longest_growth: float = 0.0


def hostile_texts(number: int, seed: int) -> Iterator[str]:
    """Yield ``number`` texts, determined by the seed."""
    numbers = random.Random(seed)
    for _ in range(number):
        length = numbers.choice(LENGTHS)
        if numbers.random() < 0.2:
            piece = numbers.choice(NESTED)
            yield (piece * (length // len(piece) + 1))[:length]
            continue
        pieces = numbers.sample(PIECES, numbers.choice((1, 2, 3, 5, 9)))
        text = "".join(numbers.choice(pieces) for _ in range(length // 2))
        if numbers.random() < 0.3:
            middle = numbers.choice(PIECES) * numbers.randrange(1, length)
            text = text[: length // 3] + middle[: length // 3] + text[length // 3 :]
        yield text[:length]


def judge(text: str, parts: list[Part], formatted: str) -> Iterator[str]:
    """Yield violations in the messages of a text."""
    if len(parts) > MAX_PARTS:
        yield f"{len(parts)} messages"
    if len(formatted) > GROWTH * len(text) + MAX_UTF16:
        yield f"{len(formatted)} characters out of {len(text)}"
    for part in parts:
        if utf16_length(part.text) > MAX_UTF16 or not part.text.strip():
            yield "a message that Telegram would refuse"
        if any(chr(code) in part.text for code in NONCHARACTERS):
            yield "a stand-in was left"
        if len(part.entities) > MAX_ENTITIES:
            yield f"{len(part.entities)} entities"
        check_entities(part.text, [entity.model_dump() for entity in part.entities])


async def attack(n: int, seed: int) -> Result:
    """Format ``n`` hostile texts."""
    result = Result()
    for text in hostile_texts(n, seed):
        start = time.process_time()
        parts = await render(text)
        milliseconds = (time.process_time() - start) * 1000
        try:
            formatted, _ = convert(text)
        except Exception:  # noqa: BLE001  (the bot then sends plain text)
            formatted = ""
        try:
            problems = list(judge(text, parts, formatted))
        except Exception as error:  # noqa: BLE001  (Telegram's refusal)
            problems = [str(error)]
        result.texts += 1
        result.violations += [f"{what}: {text[:60]!r}" for what in problems]
        result.most_parts = max(result.most_parts, len(parts))
        result.longest_growth = max(result.longest_growth, round(len(formatted) / len(text), 1))
        if milliseconds > result.slowest_ms:
            result.slowest_ms, result.slowest = round(milliseconds, 1), repr(text[:60])
    return result


if __name__ == "__main__":
    run_attack(attack, {"--n": 20_000, "--seed": 1}, wrong=["violations"])
