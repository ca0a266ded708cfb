"""Whose words a message holds, and how a model is shown that.

Only what a user typed himself makes facts and wishes. What he forwards, what he replies to and
what other members of a group say is shown to the model as theirs.
"""

import re
from dataclasses import dataclass
from typing import Literal

from src.reading import lexicon
from src.reading.gate import escaped
from src.texts import LANGUAGES, Language, detect_language, say

Provenance = Literal["typed", "forwarded", "bot", "file"]

MAX_NAME = 64  # characters; Telegram has 64 for each part of a name
MAX_QUOTED = 500  # characters of what a message replies to: enough to know it again
UNKNOWN = "?"  # whose name is not known


@dataclass(frozen=True)
class Voice:
    """Whose words a message holds.

    Attributes:
        provenance: ``typed`` by the sender, ``forwarded`` by him, of another ``bot`` through
            which he wrote, or of a ``file``.
        speaker: What the sender is called, in a group.
        origin: What the one is called whose words they are, when they are not the sender's.
        quoted: The words to which he replies; whosever they are, not said here.
        quoted_author_id: Who wrote these, if that is known.
        is_private: Whether the sender wants his words remembered nowhere.
    """

    provenance: Provenance = "typed"
    speaker: str | None = None
    origin: str | None = None
    quoted: str | None = None
    quoted_author_id: int | None = None
    is_private: bool = False

    @property
    def is_own(self) -> bool:
        """Whether the sender typed the words himself."""
        return self.provenance == "typed"

    def shown(self, text: str) -> str:
        """The message as a model reads it in the history: its marks, and no imitations of them."""
        # In the message's own language, so that it reads the same in every turn.
        marks = lexicon.of_language("marks.message", detect_language(text))
        parts = []
        if self.speaker:
            parts.append(marks["speaker"].format(name=self.speaker))
        if not self.is_own:
            parts.append(marks[self.provenance].format(name=self.origin or UNKNOWN))
        if self.quoted:
            quoted = " ".join(escaped(self.quoted).split()).replace("]", ")")
            parts.append(marks["quoted"].format(text=quoted))
        return " ".join([*parts, escaped(text)])

    def fields(self) -> dict[str, str]:
        """The same for a record in a block of data, where nothing can be imitated."""
        found = {"speaker": self.speaker} if self.speaker else {}
        if not self.is_own:
            found[f"{self.provenance}_from"] = self.origin or UNKNOWN
        if self.quoted:
            found["in_reply_to"] = self.quoted
        return found


TYPED = Voice()


def words_of(provenance: Provenance, name: str | None, language: Language) -> str:
    """Whose words they are that the sender did not type, as users are told; else nothing.

    Args:
        provenance: Of the words.
        name: What their author is called, or their file.
        language: Of the sentence.
    """
    if provenance == "typed":
        return ""
    if provenance == "file" and name in {say("picture_name", one) for one in LANGUAGES}:
        return say("words_of_picture", language)
    return say(f"words_of_{provenance}", language, name=name or UNKNOWN)


def clean_name(name: str | None) -> str | None:
    """A name as it is stored and shown: one line, without the signs of our marks."""
    bare = re.sub(r"[\[\]<>{}«»“”\"\x00-\x1f:]", " ", name or "")
    return " ".join(bare.split())[:MAX_NAME].strip() or None


def clean_quote(text: str | None) -> str | None:
    """What is stored of the words to which a message replies."""
    return (text or "").strip()[:MAX_QUOTED] or None
