"""Export of all data of one owner, streamed into files."""

import json
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import partial
from io import TextIOWrapper
from itertools import groupby
from typing import BinaryIO, Literal, TextIO, cast

from src.base.owners import Caller, Owner
from src.base.zones import local_time, long_day
from src.pg.client import PgClient, Record, Repository
from src.reading import facts, gate
from src.texts import Language, say
from src.texts.reply import ReplyFile

FileFormat = Literal["json", "md"]

# The owner's settings and names.
SELECT_SETTINGS = """
SELECT coalesce(to_jsonb(s), '{}')
       - ARRAY['owner_id', 'created_at', 'updated_at', 'inactive_since', 'refused_until']
       || jsonb_strip_nulls(jsonb_build_object('name', o.name, 'username', o.username))
FROM owners o LEFT JOIN user_settings s ON s.owner_id = o.id
WHERE o.id = %(owner)s AND (s.owner_id IS NOT NULL OR o.name IS NOT NULL)
"""

# Whether there is a row of the owner, in any topic.
HAS_OWNER = "SELECT EXISTS (SELECT 1 FROM owners WHERE telegram_user_id = %(user)s)"

# Messages of each topic in order, without forgotten ones.
SELECT_MESSAGES = """
SELECT 'msg-' || m.id AS uid, nullif(greatest(c.thread_id, 0), 0) AS thread_id, m.role,
       message_text(m.content) AS text, coalesce(m.said_at, m.created_at) AS said_at,
       m.telegram_message_id, m.sender_id, m.speaker, 'msg-' || m.reply_to_id AS answers,
       m.provenance, m.origin, m.quoted, m.edited_at, nullif(m.is_private, false) AS is_private
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE c.telegram_user_id = %(user)s AND NOT m.is_forgotten
  AND (%(thread_id)s::bigint IS NULL OR c.thread_id = %(thread_id)s)
ORDER BY c.thread_id, m.position, m.id
"""

# Current and retired facts with all their sources; ``replaced_by`` names the successor.
SELECT_FACTS = """
SELECT 'fact-' || f.id AS id, nullif(f.thread_id, 0) AS thread_id, f.memory_type AS kind,
       f.text, f.subject, f.relation, f.object, f.importance, f.confidence, f.pinned, f.speaker,
       f.created_at AS saved_at, f.valid_from, f.valid_until, f.retired_at, f.retired_reason,
       'fact-' || f.superseded_by AS replaced_by,
       (SELECT p.private_text FROM private_facts p WHERE p.id = f.id) AS private_text,
       (SELECT jsonb_agg(jsonb_build_object('uid', s.uid, 'quote', s.quote,
                                            'said_at', s.said_at) ORDER BY s.id)
        FROM memory_sources s WHERE s.memory_id = f.id) AS sources
FROM facts f
WHERE f.telegram_user_id = %(user)s
  AND (%(thread_id)s::bigint IS NULL OR f.thread_id = %(thread_id)s)
ORDER BY f.id
"""

# Summaries of older messages.
SELECT_SUMMARIES = """
SELECT nullif(greatest(c.thread_id, 0), 0) AS thread_id, s.content AS text,
       s.created_at AS made_at
FROM conversation_summaries s JOIN conversations c ON c.id = s.conversation_id
WHERE c.telegram_user_id = %(user)s AND s.content <> ''
  AND (%(thread_id)s::bigint IS NULL OR c.thread_id = %(thread_id)s)
ORDER BY s.id
"""

# The owner's reminders: waiting, delivered and cancelled.
SELECT_REMINDERS = """
SELECT 'reminder-' || r.id AS id, nullif(r.kind, 'reminder') AS kind, r.day, r.about,
       nullif(r.thread_id, 0) AS thread_id, r.text, r.due_at, r.recurrence, r.time_zone,
       r.is_waiting, r.asker_id, 'msg-' || r.message_id AS message,
       'reminder-' || r.snooze_of AS snooze_of, r.created_at, r.delivered_at, r.cancelled_at
FROM reminders r JOIN owners o ON o.id = r.owner_id
WHERE o.telegram_user_id = %(user)s
  AND (%(thread_id)s::bigint IS NULL OR r.thread_id = %(thread_id)s)
ORDER BY r.id
"""

# Connections of other assistants, without their tokens.
SELECT_CONNECTIONS = """
SELECT t.name, t.may_remember, t.created_at, t.last_used_at
FROM memory_tokens t JOIN owners o ON o.id = t.owner_id
WHERE o.telegram_user_id = %(user)s
  AND (%(thread_id)s::bigint IS NULL OR o.thread_id = %(thread_id)s)
ORDER BY t.id
"""

# Model calls and their tokens by day.
SELECT_USAGE = """
SELECT (u.created_at AT TIME ZONE 'UTC')::date AS day, model, count(*) AS calls,
       sum(prompt_tokens + completion_tokens) AS tokens
FROM model_usage u JOIN owners o ON o.id = u.owner_id
WHERE o.telegram_user_id = %(user)s GROUP BY 1, 2
ORDER BY day, model
"""

# Each row as JSON, without what it has not.
AS_JSON = "SELECT jsonb_strip_nulls(to_jsonb(part)) FROM ({}) AS part"

# The parts of the JSON file, in its order.
PARTS = {
    "facts": SELECT_FACTS,
    "messages": SELECT_MESSAGES,
    "summaries": SELECT_SUMMARIES,
    "reminders": SELECT_REMINDERS,
    "connections": SELECT_CONNECTIONS,
    "usage": SELECT_USAGE,
}


class ExportRepository(Repository):
    """Reads all data of an owner; every method blocks (see ``PgClient.run``)."""

    _client: PgClient

    def has_owner(self, telegram_user_id: int) -> bool:
        """Return True if anything is stored of a person or group, in any topic."""
        return self._client.fetch_all(HAS_OWNER, user=telegram_user_id) == [(True,)]

    def get_settings(self, owner: Owner) -> Record:
        """Return the owner's settings and names; empty if there are none."""
        return self._first(dict, SELECT_SETTINGS, Owner(owner.telegram_user_id)) or {}

    def read(
        self, part: str, telegram_user_id: int, thread_id: int | None = None
    ) -> Iterator[Record]:
        """Yield the records of one of ``PARTS`` in order, with few of them in memory at a time.

        Args:
            part: The name of the part.
            telegram_user_id: The owner.
            thread_id: A topic of a group; None for all topics.
        """
        owner = {"user": telegram_user_id, "thread_id": thread_id}
        return (record for (record,) in self._client.stream(AS_JSON.format(PARTS[part]), owner))


# Two files: JSON for programs (``docs/export.md`` describes it), Markdown to read. Both are
# written record by record, so that a history of years takes no more memory than one of a day.

FORMAT, VERSION = "pomni-export", 1
LARGEST = 45_000_000  # bytes; a larger file is zipped, since Telegram takes 50 MB


class ExportService(ExportRepository):
    """Writes exports; every method blocks (see ``PgClient.run``)."""

    def write_files(self, caller: Caller) -> tuple[ReplyFile, ...]:
        """Write both files (see ``write_file``)."""
        return self.write_file("json", caller), self.write_file("md", caller)

    def write_file(self, form: FileFormat, caller: Caller) -> ReplyFile:
        """Write one file, without a name on the disk, so that it leaves no trace.

        Args:
            form: The format.
            caller: The owner and the time, and for Markdown the language and time zone.
        """
        owner = caller.owner
        target = TextIOWrapper(_open_temporary(), encoding="utf-8")
        if form == "json":
            self.write_json(target, owner.telegram_user_id, caller.moment, _topic(owner))
        else:
            self.write_markdown(target, caller)
        name, content = f"pomni-{caller.now:%Y-%m-%d}.{form}", target.detach()
        if content.tell() <= LARGEST:
            return ReplyFile(name, content)
        archive_file = _open_temporary()
        content.seek(0)
        with (
            content,
            zipfile.ZipFile(archive_file, "w", zipfile.ZIP_DEFLATED) as archive,
            archive.open(name, "w", force_zip64=True) as entry,
        ):
            shutil.copyfileobj(content, entry)
        return ReplyFile(f"{name}.zip", archive_file)

    def write_json(
        self, target: TextIO, telegram_user_id: int, moment: datetime, thread_id: int | None = None
    ) -> None:
        """Write one JSON object with a record per line; the schema is in ``docs/export.md``."""
        head = {
            "format": FORMAT,
            "version": VERSION,
            "exported_at": moment.isoformat(),
            "telegram_user_id": telegram_user_id,
            "settings": self.get_settings(Owner(telegram_user_id)),
        }
        target.write(json.dumps(head, ensure_ascii=False)[:-1])
        for part in PARTS:
            target.write(f',\n"{part}": [')
            separator = "\n"
            for record in self.read(part, telegram_user_id, thread_id):
                target.write(separator + json.dumps(record, ensure_ascii=False))
                separator = ",\n"
            target.write("\n]")
        target.write("}\n")

    def write_markdown(self, target: TextIO, caller: Caller) -> None:
        """Write current facts by kind, waiting reminders, then messages by day."""
        owner, language, zone = caller.owner, caller.language, caller.time_zone
        read = partial(self.read, telegram_user_id=owner.telegram_user_id, thread_id=_topic(owner))
        day = long_day(local_time(caller.moment, zone), language)
        target.write(f"# {say('export_title', language, day=day)}\n")
        for kind in facts.MEMORY_TYPES:
            current = (f for f in read("facts") if f["kind"] == kind and "retired_at" not in f)
            lines = (
                f"- {_one_line(fact['text'])} ({_to_local(fact['saved_at'], zone):%Y-%m-%d})"
                for fact in current
            )
            _write_section(target, say(f"kind_{kind}", language), lines)
        reminders = (
            f"- {_one_line(one['text'])} ({_to_local(one['due_at'], zone):%Y-%m-%d %H:%M})"
            for one in read("reminders")
            if one["is_waiting"] and "kind" not in one
        )
        _write_section(target, say("export_reminders", language), reminders)
        spoken = (one for one in read("messages") if one["role"] in ("user", "assistant"))
        timed = ((_to_local(one["said_at"], zone), one) for one in spoken)
        for date, messages in groupby(timed, key=lambda entry: entry[0].date()):
            target.write(f"\n## {long_day(date, language)}\n\n")
            for at, message in messages:
                target.write(f"**{_speaker(message, language)}** {at:%H:%M}\n")
                target.writelines(f"> {line}\n" for line in message["text"].splitlines() or [""])
                target.write("\n")


def _open_temporary() -> BinaryIO:
    return cast("BinaryIO", tempfile.TemporaryFile())


def _topic(owner: Owner) -> int | None:
    """Return the exported topic of a group; None for a person, whose topics are all exported."""
    if owner.is_group:
        return owner.thread_id
    return None


def _write_section(target: TextIO, title: str, lines: Iterable[str]) -> None:
    for number, line in enumerate(lines):
        if number == 0:
            target.write(f"\n## {title}\n\n")
        target.write(f"{line}\n")


def _to_local(moment: str, time_zone: str) -> datetime:
    return local_time(datetime.fromisoformat(moment), time_zone)


def _speaker(message: Record, language: Language) -> str:
    if message["role"] == "assistant":
        return say("export_bot", language)
    speaker, name = message.get("speaker"), message.get("origin")
    provenance = gate.words_of(message.get("provenance", "typed"), name, language)
    if provenance:
        return _one_line(": ".join(filter(None, (speaker, provenance))))
    return _one_line(speaker or say("export_you", language))


def _one_line(text: str) -> str:
    return " ".join(text.split())
