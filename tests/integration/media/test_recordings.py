"""Recordings are known by what they hold, and the speech model is sent a name of ours."""

from __future__ import annotations

from typing import Any

import pytest

from src.media.attachments import sound_ending
from tests.integration.phone import Phone

pytestmark = pytest.mark.core(transcription_model="whisper-1")
SPEECH = "Мою дочь зовут Вера"
OGG, M4A = b"OggS\0\2", b"\0\0\0\x20ftypM4A \0\0"


@pytest.mark.parametrize(("content", "start", "ending"), [
    ({"document": "voice.opus"}, OGG, "ogg"), ({"document": "report.pdf"}, OGG, "ogg"),
    ({"document": None}, M4A, "m4a"), ({"document": "a.bin"}, b"ID3\4\0", "mp3"),
    ({"audio": "x"}, b"\xff\xfb\x90\0\0\0", "mp3"), ({"audio": "x"}, b"\xff\xf3\x40\xc0\0", "mp3"),
    ({"document": "x.txt"}, b"RIFF\0\0\0\0WAVEfmt ", "wav"), ({"audio": "x"}, b"fLaC\0", "flac"),
    ({"video_note": None}, b"\0\0\0\x20ftypisom\0\0", "mp4"), ({"audio": "x"}, b"#!AMR\n", "amr"),
    ({"audio": "x"}, b"\x1aE\xdf\xa3\1", "webm"), ({"audio": "x"}, b"\xff\xf1\x50\x80\0", "aac"),
    ({"audio": "../../etc/passwd"}, OGG, "ogg"), ({"audio": "голос"}, OGG, "ogg"),
    ({"voice": None}, M4A, "m4a"),
])  # fmt: skip
async def test_a_recording_is_heard_whatever_its_name(
    phone: Phone, content: dict[str, Any], start: bytes, ending: str
) -> None:
    phone.fake.state.files["sound"] = start + SPEECH.encode()
    [(kind, name)] = content.items()
    file = {"file_id": "sound", "file_unique_id": "d", "duration": 3, "length": 240}
    assert await phone.send(**{kind: {**file, "file_name": name, "mime_type": "x/y"}}) == ["done"]
    assert phone.heard()[-1][0] == "typed" and SPEECH in phone.heard()[-1][1]
    assert phone.rig.model.transcribed[-1][0] == f"recording.{ending}"


@pytest.mark.parametrize("data", [
    "является".encode("cp1251"), "ятаган".encode("cp1251"), "привет".encode("utf-16"), b"ID: 5",
    b"", b"%PDF-1.7", b"PK\3\4", b"\xff\xd8\xff\xe0", b"\0\0\0\x20ftypheic\0\0",
    b"\0\0\0\x20ftypavif", b"RIFF\0\0\0\0WEBP", b"RIFF\0\0\0\0AVI ",
])  # fmt: skip
def test_texts_and_pictures_are_no_recordings(data: bytes) -> None:
    assert sound_ending(data) is None
