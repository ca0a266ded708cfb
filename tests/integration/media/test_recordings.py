"""Recordings are known by what they hold, and the speech model is sent a name of ours."""

from __future__ import annotations

from typing import Any

import pytest
from aiogram import Bot

from src.media.attachments import sound_ending
from src.pg.client import PgClient
from src.texts import say
from tests.cases import for_each
from tests.fakes.telegram_server import FakeTelegram
from tests.integration.person import Agents
from tests.integration.phone import USER, Phone, open_phone

SPEECH = "Мою дочь зовут Вера"


@pytest.fixture
async def phone(client: PgClient, agents: Agents, fake: FakeTelegram, bot: Bot) -> Phone:
    return await open_phone(agents, fake, bot, transcription_model="whisper-1")


async def send(phone: Phone, **content: Any) -> list[str]:
    await phone.fake.send_message(USER, **content)
    return await phone.work()


def said(phone: Phone) -> list[tuple[str, str]]:
    """Provenance and text of what users sent, as it is stored."""
    sql = "SELECT provenance, message_text(content) FROM messages WHERE role = 'user' ORDER BY id"
    return [(str(kind), str(text)) for kind, text in phone.rig.rows(sql)]


OGG, MP3 = b"OggS\0\2", b"\xff\xfb\x90\0\0\0"
RECORDINGS = [
    ("voice.opus", OGG, "ogg"), ("voice.oga", OGG, "ogg"), ("recording", OGG, "ogg"),
    ("report.pdf", OGG, "ogg"), ("a.bin", b"ID3\4\0", "mp3"), ("a", MP3, "mp3"),
    ("x.txt", b"RIFF\0\0\0\0WAVEfmt ", "wav"), ("x", b"fLaC\0", "flac"),
    ("x", b"\0\0\0\x20ftypM4A \0\0", "m4a"), ("x", b"\0\0\0\x20ftypisom\0\0", "mp4"),
    ("x", b"\x1aE\xdf\xa3\1", "webm"),
]  # fmt: skip


@for_each(("name", "start", "ending"), RECORDINGS)
async def test_a_recording_sent_as_a_file_is_heard(
    phone: Phone, name: str, start: bytes, ending: str
) -> None:
    phone.fake.state.files["sound"] = start + SPEECH.encode()
    document = {"file_id": "sound", "file_unique_id": "d", "file_name": name}
    assert await send(phone, document=document) == ["done"]
    assert said(phone)[-1][0] == "typed" and SPEECH in said(phone)[-1][1]
    assert phone.rig.model.transcribed[-1][0] == f"recording.{ending}"


@for_each("name", ["x.opus", "x.oga", "голос", "../../etc/passwd", None])
async def test_names_sent_to_the_endpoint_are_ours(phone: Phone, name: str | None) -> None:
    phone.fake.state.files["sound"] = OGG + SPEECH.encode()
    audio = {"file_id": "sound", "file_unique_id": "a", "duration": 3, "file_name": name}
    assert await send(phone, audio=audio) == ["done"]
    assert phone.rig.model.transcribed[-1][0] == "recording.ogg"


@for_each("data", [
    "является".encode("cp1251"), "ятаган".encode("cp1251"), "ясно".encode("cp1251"),
    "привет".encode("utf-16"), b"ID: 5", b"", b"%PDF-1.7", b"PK\3\4", b"\xff\xd8\xff\xe0",
    b"\0\0\0\x20ftypheic\0\0", b"\0\0\0\x20ftypavif", b"RIFF\0\0\0\0WEBP", b"RIFF\0\0\0\0AVI ",
])  # fmt: skip
def test_texts_and_pictures_are_no_recordings(data: bytes) -> None:
    assert sound_ending(data) is None


async def test_a_recording_as_a_file_without_a_speech_model_has_its_sentence(
    client: PgClient, agents: Agents, fake: FakeTelegram, bot: Bot
) -> None:
    plain = await open_phone(agents, fake, bot, llm_model="offline")
    fake.state.files["sound"] = OGG
    document = {"file_id": "sound", "file_unique_id": "d", "file_name": "x.opus"}
    assert await send(plain, document=document) == ["explained"]
    assert plain.last.text == say("sound_unheard", "ru")
