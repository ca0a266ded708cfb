"""Large files are read and stored in bounded memory."""

from __future__ import annotations

import json
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from src.imports.formats import read_file
from src.imports.records import Opened, Reading, Record
from src.texts import say
from tests.integration.imports.bringing import Bringer, chat
from tests.integration.person import NOON, Person

pytestmark = pytest.mark.core(llm_model="offline")

MEGABYTE = 1 << 20
WORDS = "Сегодня видел радугу над морем, потом пошёл дождь и мы пили чай. " * 4
SIZES = [4, pytest.param(100, marks=pytest.mark.proof)]


def chatgpt(megabytes: int) -> Iterator[str]:
    """Conversations of twenty messages, in one line."""
    length, number, between = 0, 0, "["
    while length < megabytes * MEGABYTE:
        texts = [f"{WORDS} {number} {place}" for place in range(20)]
        piece = between + json.dumps(chat(f"c{number}", *texts), ensure_ascii=False)
        length, number, between = length + len(piece.encode()), number + 1, ","
        yield piece
    yield "]"


def telegram(megabytes: int) -> Iterator[str]:
    """One chat, a message a line."""
    yield '{"name": "Olha", "type": "personal_chat", "id": 1, "messages": [\n'
    length, number, between = 0, 0, ""
    while length < megabytes * MEGABYTE:
        message: dict[str, Any] = {
            "id": number, "type": "message", "date_unixtime": str(1700000000 + number),
            "from_id": "user123", "text": f"{WORDS} {number}",
        }  # fmt: skip
        piece = between + json.dumps(message)
        length, number, between = length + len(piece), number + 1, ",\n"
        yield piece
    yield "\n]}"


def write(path: Path, pieces: Iterator[str], *, zipped: bool) -> Opened:
    """Write a file of these pieces, alone or in an archive."""
    if not zipped:
        with path.open("w", encoding="utf-8") as target:
            target.writelines(pieces)
    else:
        with (
            zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
            archive.open("export.json", "w", force_zip64=True) as entry,
        ):
            for piece in pieces:
                entry.write(piece.encode())
    return Opened(path.name, partial(path.open, "rb"))


@pytest.mark.parametrize("megabytes", SIZES)
@pytest.mark.parametrize("pieces", [chatgpt, telegram])
def test_a_large_file_is_read_in_bounded_memory(
    tmp_path: Path, pieces: Callable[[int], Iterator[str]], megabytes: int
) -> None:
    file = write(tmp_path / "export", pieces(megabytes), zipped=pieces is telegram)
    reading = Reading(123, "Europe/Kyiv", NOON)
    tracemalloc.start()
    found = sum(isinstance(one, Record) for one in read_file(file, reading))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found > 700 * megabytes
    assert peak < 2 * MEGABYTE


@pytest.mark.proof
@pytest.mark.timeout(900)
async def test_many_messages_are_stored_searched_and_taken_back(
    person: Person, tmp_path: Path
) -> None:
    bringer = Bringer(person)
    file = write(tmp_path / "export.zip", chatgpt(20), zipped=True)
    reply = await bringer.screens.read(bringer.caller, file)
    await bringer.tap(reply, say("import_search", "ru"))
    await bringer.work()
    [(stored,)] = person.rows("SELECT total FROM imports WHERE owner_id = %(owner)s")
    assert stored > 10_000
    assert await person.find("радугу над морем", kinds=("message",))
    await bringer.undo()
    assert person.rows("SELECT 1 FROM messages WHERE import_owner_id = %(owner)s") == []
