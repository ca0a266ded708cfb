"""Everything that is kept of an owner, in two files: one to read, one for programs.

``docs/export.md`` describes the JSON file. Both are written record by record, so that a history of
years takes no more memory than one of a day.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from io import TextIOWrapper
from itertools import groupby
from typing import Any, BinaryIO, Literal, TextIO, cast

from src.facts.fact import MEMORY_TYPES
from src.services.reply import ReplyFile
from src.storage.export_repo import PARTS, ExportRepository
from src.storage.owner import Owner
from src.texts import Language, say
from src.texts.days import long_day
from src.time_zones import local_time

FORMAT, VERSION = "pomni-export", 1
LARGEST = 45_000_000  # bytes of a file as it is; Telegram takes 50 MB, a larger one is packed

Record = dict[str, Any]


class ExportService:
    """Writes exports; the methods block (see ``PgClient.run``)."""

    def __init__(self, repository: ExportRepository) -> None:
        """Read from ``repository``."""
        self._repository = repository

    def write_files(
        self, owner: Owner, moment: datetime, *, language: Language, time_zone: str
    ) -> tuple[ReplyFile, ...]:
        """Both files. They have no name on the disk, so that nothing stays there of them.

        Args:
            owner: The person, or the group and topic.
            moment: Now (aware).
            language: Of the headings in the file to read.
            time_zone: In which it tells the time.
        """
        write = partial(self.write_file, language=language, time_zone=time_zone)
        return write("json", owner, moment), write("md", owner, moment)

    def write_file(
        self,
        form: Literal["json", "md"],
        owner: Owner,
        moment: datetime,
        *,
        language: Language,
        time_zone: str,
    ) -> ReplyFile:
        """One of the two: for programs, or to read; see ``write_files``."""
        target = _new_file()
        if form == "json":
            thread = owner.thread_id if owner.is_group else None
            self.write_json(target, owner.telegram_user_id, moment, thread_id=thread)
        else:
            self.write_markdown(target, owner, moment, language=language, time_zone=time_zone)
        return _packed(f"pomni-{local_time(moment, time_zone):%Y-%m-%d}.{form}", target)

    def write_json(
        self,
        target: TextIO,
        telegram_user_id: int,
        moment: datetime,
        *,
        thread_id: int | None = None,
    ) -> None:
        """One JSON object, a record a line; the schema is in ``docs/export.md``."""
        owner = Owner(telegram_user_id, thread_id or 0)
        head = {
            "format": FORMAT,
            "version": VERSION,
            "exported_at": moment.isoformat(),
            "telegram_user_id": telegram_user_id,
            "settings": self._repository.get_settings(owner),
        }
        target.write(json.dumps(head, ensure_ascii=False)[:-1])
        for part in PARTS:
            target.write(f',\n"{part}": [')
            records = self._repository.read(part, telegram_user_id, thread_id)
            for number, record in enumerate(records):
                target.write(",\n" if number else "\n")
                target.write(json.dumps(record, ensure_ascii=False))
            target.write("\n]")
        target.write("}\n")

    def write_markdown(
        self,
        target: TextIO,
        owner: Owner,
        moment: datetime,
        *,
        language: Language,
        time_zone: str,
    ) -> None:
        """What holds now, kind by kind, then what was said, day by day."""
        thread = owner.thread_id if owner.is_group else None
        day = long_day(local_time(moment, time_zone), language)
        target.write(f"# {say('export_title', language, day=day)}\n")
        for kind in MEMORY_TYPES:
            facts = self._repository.read("facts", owner.telegram_user_id, thread)
            living = (f for f in facts if f["kind"] == kind and "retired_at" not in f)
            with _heading(target, say(f"kind_{kind}", language)) as write:
                for fact in living:
                    write(f"- {_plain(fact['text'])} ({fact['saved_at'][:10]})")
        reminders = self._repository.read("reminders", owner.telegram_user_id, thread)
        with _heading(target, say("export_reminders", language)) as write:
            for reminder in reminders:
                if reminder["is_waiting"]:
                    due = local_time(datetime.fromisoformat(reminder["due_at"]), time_zone)
                    write(f"- {_plain(reminder['text'])} ({due:%Y-%m-%d %H:%M})")
        messages = self._repository.read("messages", owner.telegram_user_id, thread)
        for date, said in groupby(_timed(messages, time_zone), key=lambda entry: entry[0].date()):
            target.write(f"\n## {long_day(date, language)}\n\n")
            for at, message in said:
                target.write(f"**{_speaker(message, language)}** {at:%H:%M}\n")
                target.writelines(f"> {line}\n" for line in message["text"].splitlines() or [""])
                target.write("\n")


@contextmanager
def _heading(target: TextIO, title: str) -> Iterator[Any]:
    """A writer of lines under a heading, which stands there only if there is a line."""
    is_written = False

    def write(line: str) -> None:
        nonlocal is_written
        if not is_written:
            target.write(f"\n## {title}\n\n")
        is_written = True
        target.write(f"{line}\n")

    yield write


def _timed(messages: Iterable[Record], time_zone: str) -> Iterator[tuple[datetime, Record]]:
    for message in messages:
        if message["role"] in ("user", "assistant"):
            yield local_time(datetime.fromisoformat(message["said_at"]), time_zone), message


def _speaker(message: Record, language: Language) -> str:
    if message["role"] == "assistant":
        return say("export_bot", language)
    return _plain(message.get("speaker") or say("export_you", language))


def _plain(text: str) -> str:
    return " ".join(text.split())


def _new_file() -> TextIOWrapper:
    return TextIOWrapper(tempfile.TemporaryFile(), encoding="utf-8")


def _packed(name: str, written: TextIOWrapper) -> ReplyFile:
    """The file, in a zip where it would be too large for Telegram."""
    content = cast("BinaryIO", written.detach())
    if content.tell() <= LARGEST:
        return ReplyFile(name, content)
    packed = tempfile.TemporaryFile()  # noqa: SIM115  (the caller closes it)
    content.seek(0)
    with (
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open(name, "w", force_zip64=True) as target,
    ):
        shutil.copyfileobj(content, target)
    content.close()
    return ReplyFile(f"{name}.zip", cast("BinaryIO", packed))
