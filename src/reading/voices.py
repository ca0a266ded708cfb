"""Provenance of a message's words, and how models see it.

Only words that a user typed make facts and wishes. Forwarded messages, quoted messages and those
of other group members are shown to the model as theirs.
"""

import re
from dataclasses import dataclass
from typing import Literal

from src.reading import lexicon
from src.reading.gate import disarm
from src.texts import LANGUAGES, Language, detect_language, say

Provenance = Literal["typed", "forwarded", "bot", "file", "imported"]
OWN: tuple[Provenance, ...] = ("typed", "imported")  # the sender's own words

MAX_NAME = 64  # characters; Telegram has 64 for each part of a name
MAX_QUOTED = 4000  # characters of the replied-to message; a longer one is cut, with a sign
CUT = "…"  # end of words that are cut
UNKNOWN = "?"  # name of an unknown author


@dataclass(frozen=True)
class Voice:
    """Provenance of a message's words.

    Attributes:
        provenance: ``typed`` or ``forwarded`` by the sender, sent through another ``bot``, read
            from a ``file``, or typed by the sender elsewhere and ``imported``.
        speaker: Name of the sender, in a group.
        origin: Name of the author, if that is not the sender; of imported words, of their source.
        quoted: Words that the message replies to, whoever wrote them.
        quoted_author_id: Author of the quoted words, if known.
        is_private: True if the sender wants the words not to be remembered.
    """

    provenance: Provenance = "typed"
    speaker: str | None = None
    origin: str | None = None
    quoted: str | None = None
    quoted_author_id: int | None = None
    is_private: bool = False

    @property
    def is_own(self) -> bool:
        """True if the sender typed the words, here or elsewhere."""
        return self.provenance in OWN

    def shown(self, text: str) -> str:
        """Return the message as a model reads it in the history: marked, imitations escaped."""
        # In the message's own language, so that its text is the same in every turn.
        marks = lexicon.of_language("marks.message", detect_language(text))
        parts = []
        if self.speaker:
            parts.append(marks["speaker"].format(name=self.speaker))
        if self.provenance != "typed":
            parts.append(marks[self.provenance].format(name=self.origin or UNKNOWN))
        if self.quoted:
            quoted = " ".join(disarm(self.quoted).split()).replace("]", ")")
            parts.append(marks["quoted"].format(text=quoted))
        return " ".join([*parts, disarm(text)])

    def fields(self) -> dict[str, str]:
        """Return the same for a record in a block of data, where nothing can be imitated."""
        found = {"speaker": self.speaker} if self.speaker else {}
        if self.provenance != "typed":
            found[f"{self.provenance}_from"] = self.origin or UNKNOWN
        if self.quoted:
            found["in_reply_to"] = self.quoted
        return found


TYPED = Voice()


def words_of(provenance: Provenance, name: str | None, language: Language) -> str:
    """Return whose words the sender did not type, as users are told; "" for typed words.

    Args:
        provenance: Provenance of the words.
        name: Name of their author or file.
        language: Language of the sentence.
    """
    if provenance == "typed":
        return ""
    if provenance == "file" and name in {say("picture_name", one) for one in LANGUAGES}:
        return say("words_of_picture", language)
    return say(f"words_of_{provenance}", language, name=name or UNKNOWN)


def clean_name(name: str | None) -> str | None:
    """Return a name as stored and shown: one line, without the characters of our marks."""
    cleaned = re.sub(r"[\[\]<>{}«»“”\"\x00-\x1f:]", " ", name or "")
    return " ".join(cleaned.split())[:MAX_NAME].strip() or None


def clean_quote(text: str | None) -> str | None:
    """Return the words that a message replies to as stored: their beginning and CUT, if long."""
    words = (text or "").strip()
    if len(words) > MAX_QUOTED:
        words = words[: MAX_QUOTED - len(CUT)] + CUT
    return words or None
