"""Texts that the embedding engine would die of, and an engine that dies: the bot stays."""

from __future__ import annotations

import os
import signal
import unicodedata
from pathlib import Path

import pytest

from tests.e2e.bot_process import BotProcess, World, eventually
from tests.fakes.openai_server import Reply

USER, OTHER = 2**41 + 1, 2**41 + 2
SALUTATION = "\ufdfa"  # eight of them ended the bot
# What is repeated in each, and how often in make proof: about as long as a message may be.
HOSTILE = [
    (SALUTATION, 8), (SALUTATION, 3000), ("\U0001f469\u200d", 900), ("\u0316\u0301", 1500),
    ("\U000e0fff\ue000\u0378", 800), ("\u202e\u05d0\u0627\u2066", 700),
    ("\ufdfb\u33a6\U0001f19b\u3316", 700),
]  # fmt: skip
UNEMBEDDED = "SELECT 1 FROM search_documents WHERE model_id IS NULL"
UNINDEXED = "SELECT 1 FROM unindexed_messages LIMIT 1"


def engine(bot: BotProcess) -> int | None:
    """The process of its embedding engine, if it lives."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == bot.pid and "embedding_child.py" in command:
            return int(folder.name)
    return None


async def embedded(world: World) -> None:
    """Everything that was said is in the index, with a vector."""
    await eventually(lambda: not world.query(UNINDEXED), "the index")
    await eventually(lambda: not world.query(UNEMBEDDED), "the vectors")


@pytest.mark.parametrize("most", [60, pytest.param(3000, marks=pytest.mark.proof)])
async def test_texts_that_ended_the_engine_are_answered_and_embedded(
    world: World, most: int
) -> None:
    bot = await world.start()
    pid = bot.pid
    for number, (text, times) in enumerate(HOSTILE):
        first = "Z" if unicodedata.combining(text[0]) else ""
        await world.telegram.send_text(USER + 10 * number, first + text * min(times, most))
    world.model.queue(Reply(text=SALUTATION * 8))
    await world.telegram.send_text(OTHER, "привет")
    for number in range(len(HOSTILE)):
        await world.telegram.wait_sent(USER + 10 * number)
    await world.telegram.wait_sent(OTHER)
    await world.settled()
    await embedded(world)
    assert bot.pid == pid
    await eventually(lambda: engine(bot), "its engine")
    crashed = (-signal.SIGABRT, -signal.SIGSEGV)
    assert not [line for line in bot.lines if line.get("status") in crashed]
    assert not [
        line for line in bot.lines if line["event"] == "a document is found by words alone"
    ]

    assert await bot.terminate() == 0
    again = await world.start()
    await world.telegram.send_text(OTHER, "как дела?")
    await world.telegram.wait_sent(OTHER, 2)
    assert world.answers(OTHER)[1] == "эхо: как дела?"
    await embedded(world)
    assert again.pid


async def test_the_bot_outlives_its_engine_which_does_not_outlive_the_bot(world: World) -> None:
    bot = await world.start()
    first = await eventually(lambda: engine(bot), "an engine before the first question")
    await world.telegram.send_text(USER, "раз")
    await world.telegram.wait_sent(USER)
    await embedded(world)
    os.kill(first, signal.SIGKILL)
    await world.telegram.send_text(USER, "два")
    await world.telegram.wait_sent(USER, 2)
    await embedded(world)
    second = engine(bot)
    assert second not in (None, first)
    await bot.kill()
    await eventually(lambda: not Path(f"/proc/{second}").exists(), "its end")


async def test_an_answer_does_not_wait_for_an_engine_that_hangs(world: World) -> None:
    bot = await world.start()
    await world.telegram.send_text(USER, "раз")
    await world.telegram.wait_sent(USER)
    await embedded(world)
    hanging = engine(bot)
    assert hanging is not None
    os.kill(hanging, signal.SIGSTOP)
    await world.telegram.send_text(USER, "два")
    await world.telegram.wait_sent(USER, 2)
    assert world.answers(USER) == ["эхо: раз", "эхо: два"]
    await world.telegram.send_text(USER, "/search раз")
    await world.telegram.wait_sent(USER, 3)
    assert await bot.terminate() == 0, "nor does the end"
    await eventually(lambda: not Path(f"/proc/{hanging}").exists(), "its end")
