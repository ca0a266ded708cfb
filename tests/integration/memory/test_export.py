"""Everything of one owner in two files: whole, nobody else's, in bounded memory."""

from __future__ import annotations

import io
import json
import os
import re
import tracemalloc
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from src.base.owners import Caller, Owner, Preferences
from src.privacy import export as export_service
from src.privacy.export import PARTS
from src.texts import LANGUAGES, Language, say
from tests.integration.person import NOON
from tests.integration.phone import STRANGER, USER, Phone

pytestmark = pytest.mark.core(llm_model="offline")

DOCS = Path(__file__).resolve().parents[3] / "docs" / "export.md"


@dataclass(frozen=True)
class Exported:
    """Names, contents and sizes of the two files."""

    names: tuple[str, str]
    for_programs: bytes
    to_read: str

    @property
    def json(self) -> dict[str, Any]:
        return dict(json.loads(self.for_programs))


def export(phone: Phone, language: Language = "ru") -> Exported:
    files = phone.rig.core.exports.write_files(
        Caller(Owner(USER), Preferences(language, "Europe/Moscow"), NOON)
    )
    contents = []
    for file in files:
        with file.content:
            file.content.seek(0)
            contents.append(file.content.read())
    first, second = files
    return Exported((first.name, second.name), contents[0], contents[1].decode(errors="replace"))


def peak_of(phone: Phone) -> int:
    """Bytes of memory that writing takes at most."""
    tracemalloc.start()
    with open(os.devnull, "w", encoding="utf-8") as target:
        phone.rig.core.exports.write_json(target, USER, NOON)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


async def fill(phone: Phone) -> None:
    await phone.write("/remember Я живу в Одессе")
    [(known,)] = phone.rig.rows("SELECT id FROM memories WHERE text LIKE '%Одессе'")
    await phone.press(f"correct:{known}")
    await phone.fake.send_text(USER, "Я живу во Львове", reply_to=phone.last.message_id)
    await phone.work()
    await phone.write("Сегодня видел радугу\nнад морем")
    await phone.fake.send_text(STRANGER, "чужое слово")
    await phone.work()
    await phone.write("/export")


async def test_both_files_are_sent_and_say_what_they_are(phone: Phone) -> None:
    await fill(phone)
    sent = phone.fake.sent_to(USER)
    assert [message.method for message in sent[-3:]] == ["sendMessage"] + ["sendDocument"] * 2
    assert sent[-3].text == say("export_done", "ru")
    files = [call.params for call in phone.fake.calls_of("sendDocument")]
    names = [name for params in files for name in params.values() if "pomni" in str(name)]
    assert [bool(re.fullmatch(r"pomni-\d{4}-\d\d-\d\d\.(json|md)", name)) for name in names] == [
        True, True,
    ]  # fmt: skip


async def test_the_export_holds_everything_and_nobody_else_s(phone: Phone) -> None:
    await fill(phone)
    found = export(phone).json
    old, new, *_ = found["facts"]
    assert (old["text"], old["replaced_by"]) == ("Я живу в Одессе", new["id"])
    assert new["sources"][0]["quote"] == "Я живу во Львове" and "retired_at" not in new
    said = [message["text"] for message in found["messages"] if message["role"] == "user"]
    assert said == ["Я живу в Одессе", "Я живу во Львове", "Сегодня видел радугу\nнад морем"]
    assert new["sources"][0]["uid"] in {message["uid"] for message in found["messages"]}
    assert "чужое" not in json.dumps(found, ensure_ascii=False)
    assert found["usage"] and found["telegram_user_id"] == USER


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_file_to_read_has_facts_first_then_days(
    phone: Phone, language: Language
) -> None:
    await fill(phone)
    lines = export(phone, language).to_read.splitlines()
    assert lines[0].startswith("# " + say("export_title", language, day="").rstrip())
    kinds = lines.index("## " + say("kind_user_fact", language))
    assert lines[kinds + 2].startswith("- Я живу во Львове (")
    late = {"at": datetime(2026, 3, 2, 22, 30, tzinfo=UTC)}  # already the third in Moscow
    phone.rig.client.execute("UPDATE memories SET created_at = %(at)s", late)
    assert "- Я живу во Львове (2026-03-03)" in export(phone, language).to_read.splitlines()
    assert not any("Одессе" in line for line in lines[kinds:] if line.startswith("- "))
    at = lines.index("> Сегодня видел радугу")
    assert lines[at + 1] == "> над морем"
    assert lines[at - 1].startswith(f"**{say('export_you', language)}** ")


async def test_what_was_just_forgotten_is_not_exported(phone: Phone) -> None:
    await phone.write("/remember Мою кошку зовут Муся")
    await phone.write("/forget про кошку")
    found = export(phone)
    assert "Муся" not in found.for_programs.decode() + found.to_read


async def test_a_long_history_is_streamed(phone: Phone) -> None:
    await phone.write("привет")
    count = 8_007
    phone.rig.client.execute(
        "INSERT INTO messages (conversation_id, role, content, position, said_at)"
        " SELECT id, 'user', repeat('слово ' || n || ' ', 20), n + 100, now()"
        " FROM conversations, generate_series(1, %(count)s) n", {"count": count},
    )  # fmt: skip
    assert peak_of(phone) < len(export(phone).for_programs) / 2
    found = export(phone).json["messages"]
    assert len({message["uid"] for message in found}) == len(found) == count + 2


async def test_a_file_too_large_for_telegram_is_packed(
    phone: Phone, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(phone)
    monkeypatch.setattr(export_service, "LARGEST", 100)
    packed = export(phone)
    assert [name.rpartition(".")[2] for name in packed.names] == ["zip", "zip"]
    with zipfile.ZipFile(io.BytesIO(packed.for_programs)) as archive:
        [name] = archive.namelist()
        assert json.loads(archive.read(name))["messages"]


async def test_the_documented_fields_are_those_of_the_file(phone: Phone) -> None:
    await fill(phone)
    documented = set(re.findall(r"`([a-z_]+)`", DOCS.read_text(encoding="utf-8")))
    found = export(phone).json
    written = found.keys() | {key for part in PARTS for record in found[part] for key in record}
    assert written <= documented
