"""SIGTERM right after the last of twenty answers, repeatedly, each time with a new data folder.

``python -m tests.attacks.stops --rounds 20`` prints the seconds until each process ended. The exit
status is 1 when one took longer than three.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time

from tests.attacks.frame import run_attack
from tests.e2e.bot_process import World
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.telegram_server import FakeTelegram

USER = 2**41 + 77
BOUND = 3.0  # seconds
SAID = (
    "Я живу в городе номер {}", "Мою кошку зовут Мурка{}", "Напомни завтра в 9 купить молоко {}",
    "Что ты помнишь обо мне, раз {}?",
)  # fmt: skip


def _new_folder() -> tempfile.TemporaryDirectory[str]:
    """Create a folder whose removal tolerates a server still writing its last checkpoint."""
    return tempfile.TemporaryDirectory(prefix="pomni-stops-", ignore_cleanup_errors=True)


async def time_an_end(messages: int, *, cold: bool = False) -> tuple[float, list[str]]:
    """Return the seconds that a new bot takes to end, and its last log lines.

    Args:
        messages: Number of messages answered before.
        cold: True if the process imports everything itself.
    """
    async with FakeTelegram() as telegram, FakeOpenAI() as model:
        world = World("", telegram, model)
        with _new_folder() as folder:
            bot = world.process(cold=cold, DATABASE_URL="", DATA_DIR=folder, LOG_LEVEL="DEBUG")
            try:
                await bot.start()
                for number in range(messages):
                    await telegram.send_text(USER, SAID[number % len(SAID)].format(number))
                    await telegram.wait_sent(USER, number + 1)
                start = time.monotonic()
                bot.ask_to_stop()
                status = await bot.wait_end(60)
                seconds = time.monotonic() - start
            finally:
                await world.close()
            assert status == 0, bot.logs()
            return seconds, [json.dumps(line, ensure_ascii=False) for line in bot.lines[-60:]]


async def main(rounds: int, messages: int, cold: bool) -> dict[str, object]:
    """Stop ``rounds`` bots after ``messages`` answers, and time their ends."""
    ends = []
    for _ in range(rounds):
        seconds, lines = await time_an_end(messages, cold=cold)
        ends.append(round(seconds, 2))
        if seconds > BOUND:
            print("\n".join(lines), file=sys.stderr)
    return {"rounds": rounds, "late": sum(end > BOUND for end in ends), "seconds": ends}


if __name__ == "__main__":
    run_attack(main, {"--rounds": 20, "--messages": 20, "--cold": False}, wrong=["late"])
