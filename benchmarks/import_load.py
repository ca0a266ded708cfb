"""Waits of other users before, during and after a large import, in one run.

    python -m benchmarks.import_load --messages 100000

The bot runs as a process against loopback fakes. One person sends a zip in ChatGPT's format and
chooses to have it searched only; all the time others, who write for the first time, get answers.
The import is over when it is stored and indexed, so that words find it; vectors come later.
"""

import argparse
import asyncio
import io
import json
import time
import zipfile
from collections.abc import Awaitable

import psutil

from src.texts import say
from tests.attacks.flood import Others, Waits, reply, warm_up
from tests.attacks.frame import own_postgres
from tests.e2e.bot_process import World, eventually
from tests.e2e.conftest import open_world
from tests.fakes.telegram_types import SentMessage
from tests.integration.imports.bringing import chat
from tests.integration.phone import buttons

BRINGER = 2**41 + 7
QUIET_SECONDS = 60.0
LIMIT_SECONDS = 3600.0
WORDS = "видели радугу над морем, потом пошёл дождь, пили чай и говорили о поездке в горы"
IS_STORED = """
SELECT NOT EXISTS (SELECT FROM imports WHERE state <> 'done')
   AND NOT EXISTS (
    SELECT FROM unindexed_messages u JOIN conversations c ON c.id = u.conversation_id
    WHERE c.import_id IS NOT NULL)
"""


def export_of(messages: int) -> bytes:
    """Return a zip of conversations of twenty messages."""
    chats = [
        chat(f"c{first}", *(f"{WORDS}, день {first + n}" for n in range(20)), start=10**9)
        for first in range(0, messages, 20)
    ]
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", json.dumps(chats, ensure_ascii=False))
    return target.getvalue()


async def beside(others: Others, work: Awaitable[None]) -> dict[str, float]:
    """Do some work while others write; return its seconds, and how long they wait."""
    others.waits["message"] = Waits()
    start, over = time.monotonic(), asyncio.Event()
    writing = asyncio.create_task(others.write("message", "привет", over))
    await work
    seconds = time.monotonic() - start
    over.set()
    await writing
    return {"seconds": round(seconds, 1), **others.waits["message"].summary()}


async def send_export(world: World, messages: int) -> SentMessage:
    """Send the file; return the summary below which the choices stand."""
    world.telegram.state.files["export"] = export_of(messages)
    file = {"file_id": "export", "file_unique_id": "e", "file_name": "export.zip"}
    await world.telegram.send_message(
        BRINGER, document=file, caption="/import", language_code="en"
    )
    [summary] = await world.telegram.wait_sent(BRINGER, timeout=LIMIT_SECONDS)
    return summary


async def bring(world: World, messages: int) -> None:
    """Bring a file, and wait until it is stored and indexed."""
    summary = await send_export(world, messages)
    labels = {label: data for row in buttons(summary) for label, data in row}
    await world.telegram.press_button(
        BRINGER, summary.message_id, labels[say("import_search", "en")]
    )
    await until(world, IS_STORED)


async def until(world: World, condition: str) -> None:
    """Wait until a condition of SQL holds."""
    await eventually(lambda: world.query(condition) == [(True,)], "the end", LIMIT_SECONDS)


async def measure(messages: int) -> None:
    """Print the waits in each phase, and the bot's memory at the end of the import."""
    async with own_postgres() as own, open_world(own.dsn) as world:
        world.telegram.keep_calls = False
        world.model.reply = reply
        bot = await world.start(GATHER_SECONDS="0")
        await warm_up(world)
        others = Others(world)
        show("before", await beside(others, asyncio.sleep(QUIET_SECONDS)))
        show("import", await beside(others, bring(world, messages)))
        show("memory", {"mb": round(psutil.Process(bot.pid).memory_info().rss / 1e6)})
        show("after", await beside(others, asyncio.sleep(QUIET_SECONDS)))


def show(phase: str, figures: dict[str, float]) -> None:
    """Print the figures of a phase as soon as it is over."""
    print(phase, json.dumps(figures), flush=True)


def main() -> None:
    """Read the options, and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.import_load")
    parser.add_argument("--messages", type=int, default=100_000)
    asyncio.run(measure(parser.parse_args().messages))


if __name__ == "__main__":
    main()
