"""Fifty broken or hostile files of each kind, each of which must get exactly one sentence.

    python -m tests.attacks.files

runs the bot as a process against loopback fakes, sends each file from a separate user, and prints
one JSON line: the number of files sent and read by kind, the peak memory of the bot and its
children beyond the idle bot's in MB, and the violations. The exit status is 1 when a file got no
message, several messages or an unexpected one, when memory grew by more than MAX_GROWTH, or when a
file's name or content is in the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from src.media.attachments import AT_ONCE, PICTURES
from src.media.document_child import MAX_MEMORY
from src.pg.embedded import EmbeddedPostgres
from src.pg.migrations import migrate
from src.texts import say
from tests.conftest import execute, fast_folder
from tests.e2e.bot_process import BotProcess, World, eventually
from tests.fakes.hostile_documents import Files, damaged, hostile_files
from tests.fakes.openai_server import ChatRequest, FakeOpenAI, Reply
from tests.fakes.telegram_server import FakeTelegram

CANARY = "zolotaya-kanareyka"  # in the name of every document, and in a secret file on disk
ANSWER = "Прочитано."
FIRST_PERSON = 2**41
AT_A_TIME = 20  # files sent concurrently
MAX_GROWTH = AT_ONCE * MAX_MEMORY + (256 << 20)  # bytes; 256 MB for the bot's own process
SENTENCES = (
    "error_document_broken", "error_document_kind", "error_document_protected",
    "error_document_too_full", "error_document_too_large", "error_document_too_slow",
    "error_document_without_text",
    "picture_unseen", "sound_unheard", "sound_silent", "cannot_read",
)  # fmt: skip


@dataclass
class Seen:
    """Result of a run.

    Attributes:
        sent: Number of files by kind.
        read: Number of files that were read and answered, by kind.
        growth: Peak memory beyond the idle bot's, in MB.
        violations: Descriptions of violations.
    """

    sent: Counter[str] = field(default_factory=Counter)
    read: Counter[str] = field(default_factory=Counter)
    growth: int = 0
    violations: list[str] = field(default_factory=list)


def all_files(secret: str) -> dict[str, Files]:
    """Return documents, pictures and sounds by kind, at least fifty of each."""
    rng = random.Random(1)
    with_signature = {f"begins as {mime} {n}": start + rng.randbytes(n * 997)
             for start, mime in PICTURES.items() for n in range(8)}  # fmt: skip
    pictures = with_signature | damaged(b"\x89PNG\r\n\x1a\n" + rng.randbytes(4000))
    pictures["of thirty megabytes"] = b"\xff\xd8\xff" + bytes(30 << 20)
    pictures["too large for a model"] = b"\xff\xd8\xff" + bytes(9 << 20)
    pictures["empty"] = b""
    sounds = {f"noise of {n}": rng.randbytes(n * 301) for n in range(30)}
    sounds |= damaged(b"OggS" + rng.randbytes(4000))
    sounds["of thirty megabytes"] = b"OggS" + bytes(30 << 20)
    return {**hostile_files(secret), "picture": pictures, "sound": sounds}


def content(kind: str, file_id: str, size: int) -> dict[str, Any]:
    """Return the fields of a message with a file; half of them state its size."""
    size_field = {"file_size": size} if size % 2 else {}
    file = {"file_id": file_id, "file_unique_id": file_id, **size_field}
    if kind == "picture":
        return {"photo": [{**file, "width": 9, "height": 9}]}
    if kind == "sound":
        return {"voice": {**file, "duration": 3}}
    ending = {"text": "txt", "zip": "docx"}.get(kind, kind)
    return {"document": {**file, "file_name": f"{CANARY}-{file_id}.{ending}"}}


def reply(request: ChatRequest) -> Reply:
    """Answer texts and reject pictures."""
    if "image_url" in json.dumps(request.messages[-1]):
        return Reply(status=400, error="unsupported image")
    return Reply(text=ANSWER)


@asynccontextmanager
async def memory_of(bot: BotProcess, seen: Seen) -> AsyncIterator[None]:
    """Record the peak memory of the bot and its children during the context."""
    parent = psutil.Process(bot.pid)

    def taken() -> int:
        total = 0
        for process in (parent, *parent.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                total += process.memory_info().rss
        return total

    async def watch() -> None:
        while True:
            seen.growth = max(seen.growth, (taken() - idle) >> 20)
            await asyncio.sleep(0.05)

    idle = taken()
    watching = asyncio.create_task(watch())
    yield
    watching.cancel()


async def send(world: World, files: dict[str, Files], seen: Seen) -> None:
    """Send each file from a separate user, and judge the answers."""
    places = asyncio.Semaphore(AT_A_TIME)
    entries = [(kind, name, data) for kind, of in files.items() for name, data in of.items()]

    async def one(person: int, kind: str, name: str, data: bytes) -> None:
        async with places:
            file_id = f"f{person}"
            world.telegram.state.files[file_id] = data
            await world.telegram.send_message(person, **content(kind, file_id, len(data)))
            with contextlib.suppress(AssertionError):
                await world.telegram.wait_sent(person, timeout=120)
            del world.telegram.state.files[file_id]
        seen.sent[kind] += 1
        seen.violations += judge(f"{kind}: {name}", world.answers(person))
        seen.read[kind] += world.answers(person)[:1] == [ANSWER]

    await asyncio.gather(*(one(FIRST_PERSON + n, *file) for n, file in enumerate(entries)))
    await world.settled(120)
    for number, (kind, name, _) in enumerate(entries):
        if len(world.answers(FIRST_PERSON + number)) > 1:
            seen.violations.append(f"{kind}: {name}: several messages")


def judge(name: str, answers: list[str]) -> Iterator[str]:
    """Yield violations in the answers to a file."""
    allowed = [ANSWER, *(say(key, "ru") for key in SENTENCES)]
    if not answers:
        yield f"{name}: no answer"
    elif not any(answers[0] == text or answers[0].startswith(ANSWER) for text in allowed):
        yield f"{name}: {answers[0][:80]!r}"


async def attack(world: World, secret: Path) -> Seen:
    """Send all files to a new bot."""
    seen = Seen()
    world.model.reply = reply
    world.model.transcription_status = 400
    bot = await world.start(TRANSCRIPTION_MODEL="whisper-1")
    await world.telegram.send_text(FIRST_PERSON - 1, "привет")
    await world.telegram.wait_sent(FIRST_PERSON - 1, timeout=60)  # warm up
    async with memory_of(bot, seen):
        await send(world, all_files(str(secret)), seen)
    if seen.growth << 20 > MAX_GROWTH:
        seen.violations.append(f"{seen.growth} MB")
    logged = json.dumps(bot.lines, ensure_ascii=False).split("}, {")
    leaks = [line for line in logged if CANARY in line or str(secret) in line]
    seen.violations += [f"the log: {line[:200]}" for line in leaks]
    await eventually(lambda: bot.running, "the bot to live")
    return seen


async def main() -> Seen:
    """Run the attack on its own PostgreSQL."""
    with tempfile.TemporaryDirectory(prefix="pomni-files-", dir=fast_folder()) as folder:
        secret = Path(folder) / "secret.txt"
        secret.write_text(CANARY)
        server = EmbeddedPostgres(Path(folder))
        dsn = await asyncio.to_thread(server.start)
        try:
            execute(dsn, "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
            await asyncio.to_thread(migrate, dsn)
            async with FakeTelegram(keep_calls=False) as telegram, FakeOpenAI() as model:
                world = World(dsn, telegram, model)
                try:
                    return await attack(world, secret)
                finally:
                    await world.close()
        finally:
            await asyncio.to_thread(server.stop)


if __name__ == "__main__":
    result = asyncio.run(main())
    print(json.dumps(vars(result), ensure_ascii=False))
    sys.exit(bool(result.violations))
