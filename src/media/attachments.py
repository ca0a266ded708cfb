"""What a message brings beside its words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

AttachmentKind = Literal["sound", "picture", "document"]
# Formats that models see, by how their files begin.
PICTURES = {
    b"\xff\xd8\xff": "image/jpeg",
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
MAX_PICTURE = 8 << 20  # bytes; providers take 5 to 20 MB, in base64 a third more


@dataclass(frozen=True)
class Attachment:
    """A file of a message, as Telegram names it.

    Attributes:
        kind: ``sound`` is listened to, a ``picture`` looked at, a ``document`` read.
        file_id: Under which the bot may fetch it.
        size: Bytes, as far as Telegram says.
        name: What it is called, with its ending.
    """

    kind: AttachmentKind
    file_id: str
    size: int
    name: str


@dataclass(frozen=True)
class Enclosed:
    """What is read out of an attachment: words that the sender did not type.

    Attributes:
        name: What it is read from: a file's name, "photo".
        text: The words.
    """

    name: str
    text: str


def picture_type(data: bytes) -> str | None:
    """The mime type of a picture that models see; None for anything else."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((mime for start, mime in PICTURES.items() if data.startswith(start)), None)
