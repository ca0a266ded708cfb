"""Gate of the memory: provenance, imitations of our marks, secrets, and facts nobody stated.

Card numbers, passwords, keys and document numbers are not stored, nor imitations of our labels.
"""

import re
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from stdnum import iban, luhn

from src.reading import lexicon
from src.reading.facts import Fact
from src.reading.words import content, shared
from src.texts import LANGUAGES, Language, detect_language, say
from src.texts.morphology import terms, words
from src.texts.plain_text import NFC, between, normalise, plain, plain_with_offsets, quote_pattern

# Imitations of markup that only the program writes: its blocks, labels and roles.
#
# They are recognised by their form, not by their intent: a tag, a label in brackets, a role at the
# beginning of a line, a tool call. In the history they are escaped; a fact with one is refused.

ESCAPE = "‹"
# Tag characters are invisible and spell ASCII; only flags (U+1F3F4 and tags) have a use for them.
SMUGGLED = re.compile("(?<![\U0001f3f4\U000e0020-\U000e007e])[\U000e0020-\U000e007f]+")
MARK = lexicon.Expression(
    r"<\s*/?\s*(?:memories|key_facts|persona|wishes|history_summary|context|messages|conversation"
    r"|searched|instructions?|<marks.role>)\b|<\s*\||<\s*/?s>|<<\s*sys|\[\s*/?\s*inst\s*\]"
    r"|\[\s*<marks.label>\b"
)
ROLE_LINE = lexicon.Expression(
    r"(?m)^\s{0,40}(?:#{1,6}\s*(?:<marks.role>|instructions?)\b|<marks.role>\s*:)"
)
# Further marks that no fact has: tags, and the arguments of a tool call.
FOREIGN_MARK = re.compile(
    r"<\s*/?\s*[^\W\d][\w':.-]{0,40}(?:\s[^<>]{0,80})?/?>"
    r"|[\"']?\b(?:arguments|parameters|args)[\"']?\s*:\s*\{"
)


def disarm(text: str) -> str:
    """Return a message with our tags, labels and roles disarmed: ``‹memories>``."""
    text = SMUGGLED.sub("", text)
    folded, offsets = plain_with_offsets(text)
    cuts = {offsets[match.start()]: 0 for match in ROLE_LINE.finditer(folded)}
    cuts |= {offsets[match.start()]: 1 for match in MARK.finditer(folded)}
    return ESCAPE.join(between(NFC(text), [(at, at + cuts[at]) for at in sorted(cuts)]))


def imitates(text: str) -> bool:
    """Return True if a text contains markup that only the program writes; a fact never does."""
    folded, _ = plain_with_offsets(text)
    marks = (MARK, ROLE_LINE, FOREIGN_MARK)
    return SMUGGLED.search(text) is not None or any(mark.search(folded) for mark in marks)


# Provenance of a message's words, and how models see it.
#
# Only words that a user typed make facts and wishes. Forwarded messages, quoted messages and those
# of other group members are shown to the model as theirs.

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
    """Return a name as stored and shown: one line, without our marks and marks of direction."""
    marks = r"[\[\]<>{}«»“”\"\x00-\x1f:\u200e\u200f\u202a-\u202e\u2066-\u2069]"
    cleaned = re.sub(marks, " ", name or "")
    return " ".join(cleaned.split())[:MAX_NAME].strip() or None


def clean_quote(text: str | None) -> str | None:
    """Return the words that a message replies to as stored: their beginning and CUT, if long."""
    words = (text or "").strip()
    if len(words) > MAX_QUOTED:
        words = words[: MAX_QUOTED - len(CUT)] + CUT
    return words or None


# Secrets, which are never stored: card numbers, passwords, keys and document numbers.
#
# Every check looks for a secret, not for the mention of one: "забыл пароль" can be stored, "пароль
# от почты: ..." cannot. A doubtful case is refused; the user can write the fact without the
# secret. All expressions are linear: their repetitions are bounded or cannot overlap.

CARD_DIGITS = range(13, 20)  # ISO/IEC 7812: a card number has 13 to 19 digits
MIN_GROUP = 3  # digits; card numbers are written in groups of 4, 5 or 6, the last may be shorter
DATE = re.compile(
    r"(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)|(?<!\d)\d{1,2}\.\d{1,2}\.\d{4}(?!\d)"
    r"|(?<!\d)\d{1,2} [^\W\d_]{3,9} (?:19|20)\d\d(?!\d)"  # 20 November 2026, resolved
)
DIGIT_GROUPS = re.compile(r"(?<!\d)\d+(?:[\s._-]{1,3}\d+)+|(?<!\d)\d{13,19}(?!\d)")
IBAN = re.compile(
    r"(?<!\w)[a-z]{2}\d{2}"
    r"(?:[a-z0-9]{11,30}|(?:[ -][a-z0-9]{4}){2,7}(?:[ -][a-z0-9]{1,3})?)(?!\w)",
    re.ASCII,
)
# Keys with a known prefix, each with the text attached to it; all in lower case.
KEYS = re.compile(
    r"(?:\bsk-[\w-]{12,}|\b[sprw]k_(?:live|test)_\w{8,}|\bgh[opsur]_\w{16,}|\bgithub_pat_\w{16,}"
    r"|\bglpat-[\w-]{12,}|\bxox[abeprs]-[\w-]{8,}|\b(?:akia|asia)[a-z0-9]{16}\b|\baiza[\w-]{24,}"
    r"|\bya29\.[\w-]{16,}|\bhf_\w{16,}|\bnpm_\w{24,}|\beyj[\w-]{8,}|\b\d{5,12}:aa[\w-]{8,}"
    r"|\b0x[0-9a-f]{64}\b|\b\d{8,12}:[\w-]{30,}|\bbearer\s+[\w.~+/-]{16,}|://[^\s/:@]{1,64}:[^\s/@]{1,64}@)"
    r"[^\s\"'<>,]*"
    r"|-----begin [a-z ]{0,30}private key(?s:.*?)(?:-----end[^-\n]{0,40}-----|\Z)",
    re.ASCII,
)

_PASSWORD = r"\b<secrets.password>(?:'s)?\b"
_FOR = r"(?:\s+<secrets.for>(?>(?:\s+<secrets.my>)?)\s+[\w'-]+"
# After "пароль": words about the password, not the password itself.
_TALK = r"(?!(?:<secrets.talk>[^\W\d_]*|<secrets.talk_whole>)(?![^\s.,;:!?]))"
_CHANGED_TO = (
    r"(?:\s[^•.!?\n]{0,40}?)?,?\s<secrets.changed_to>\s+(?P<v>[\"']\S|(?=\S{0,30}\d)\S{4,})"
)
# A plain word is the password if nothing follows: "мой пароль солнышко", not "… кто-то узнал".
_LAST = r"(?=\s*(?:[.!?,;\n]|$)|\s+<secrets.after>\s)"
# Words that announce a password, and the password, which begins at the group ``v``.
PASSWORDS = lexicon.AnyCase.each(
    # "пароль от вайфая: ...", "my password is ...", "пароль — ..."
    rf"{_PASSWORD}[^•.!?\n:=]{{0,40}}?\s*[:=]\s*(?P<v>\S)",
    rf"{_PASSWORD}(?!\s+<secrets.talk>)(?:\s+<secrets.for>)?(?:\s+[\w'-]+){{0,6}}?"
    rf"\s+(?:(?:-\s+)?<secrets.is>|-(?!\s+<secrets.is>))\s+{_TALK}(?P<v>\S)",
    # "пароль от вайфая солнышко2020", "password hunter2", "пароль 1234": a digit, or quotes
    rf"{_PASSWORD}{_FOR}(?:(?:\s+<lines.question_preposition>(?:\s+the)?)?\s+[^\W\d]+)?)?\s+"
    r"(?P<v>[\"']\S|(?!1password)(?=\S{0,30}\d)\S{4,})",
    # "сменила пароль от почты на Лето2024", "my password's sunflower"
    rf"\b<secrets.changed>\s[^•.!?\n]{{0,30}}?{_PASSWORD}{_CHANGED_TO}",
    rf"{_PASSWORD}[^•.!?\n]{{0,40}}?\s<secrets.changed>{_CHANGED_TO}",
    rf"\b<secrets.password>'s\s+{_TALK}(?P<v>\S)",
    # "пароль рута Qw7zz!mars": letters and digits together, after the thing it opens
    rf"{_PASSWORD}{_FOR})?(?:\s+(?!(?:<secrets.talk>|<secrets.for>(?!\w)))[^\W\d_]+){{0,3}}?"
    r"\s+(?P<v>(?=\S{0,30}\d)(?=\S{0,30}[^\W\d_])(?!\d{1,2}[^\W\d_]+(?![^\s.,!?]))\S{6,})",
    # "пароль от вайфая солнышко", "мой пароль солнышко", "пароль qwerty"
    r"(?:^|[.!?,;:\n] ?|\b<secrets.own>\s+)<secrets.bare_password>\s+<secrets.for>\s+[\w'-]+"
    rf"\s+(?P<v>{_TALK}\w{{3,}}){_LAST}",
    rf"\b<secrets.mine>\s+<secrets.password>\s+(?P<v>{_TALK}\w{{3,}}){_LAST}",
    rf"\b<secrets.bare_password>\s+(?!wi|vpn|apple|google)(?P<v>{_TALK}[a-z]{{4,}}\b)",
)
_CARD = r"[2-6](?:[ -]?\d){14,18}"
_WORDS = r"(?>[\s\d,;.)-]{0,6}[^\W\d]\w*)"
# Codes of daily life, for a door, a locker, a suitcase; no years, dialling codes or error codes.
_CODE = r"(?<!\w)(?:[#*]?\d[\w#*-]*|[^\W\d_]\d[\w#*-]*)"
_LONG_CODE = rf"(?<![\w.,:-])(?!(?:19|20)\d\d\b)(?=\S{{3}}){_CODE}(?![^\s.,;!?)(]|[.,]\d)"
_KEEP = r"(?=\s*(?:[.!?,;)\n(]|$)|\s+(?:<secrets.after>|<secrets.for>|<lines.remember>)(?!\w))"
# Further secrets that words announce: a group ``v`` or ``w``, or ``d`` for the code of a door.
WORDED = lexicon.AnyCase.each(
    # PIN and CVV, before and after the number; codes of phones and banks
    r"\b(?:<secrets.pin>(?:-?<secrets.code_tail>)?|<secrets.cvv>|<secrets.code>\s+"
    r"<secrets.code_for>\s+(?:<secrets.my>\s+)?<secrets.locked>)\b[^•.!?\n\d]{0,30}"
    r"(?P<v>\d(?: ?\d){2,8}\b)",
    r"\b(?P<v>\d{3,8})\s*(?:-|<secrets.is_this>)?\s*(?:my|<secrets.mine>)?\s*"
    r"(?:<secrets.pin>|cv[vc]2?)\b",
    # "api key: ...", "токен - ...", "private key 5KJ…": without a sign a long one
    r"\b<secrets.key>\w{0,2}(?:\s[^\W\d]+)?\s*(?:[:=-]|<secrets.seed_is>|(?=\s\S{16}))"
    r"\s*(?P<v>(?=\S{0,60}\d)\S{6,})",
    r"[?&](?:token|access_token|api_?key|key|password|secret|sig)=(?P<v>[^\s&]{6,})",
    # Recovery words of a wallet: some words after a sign, or many of them
    rf"\b<secrets.seed>(?:[^•.!?\n:=]{{0,30}}"
    rf"(?:[:=]|(?:\s-\s+)?\b<secrets.seed_is>\b|\s-\s(?!\s*<secrets.seed_is>\b))"
    rf"\s*(?=\w)(?![^\W\d]{{1,2}}\b){_TALK}(?P<v>{_WORDS}{{1,24}})"
    r"|(?P<w>(?:[\s,]+\w+){8,24}))",
    # Card numbers, even with a wrong check digit because of a typo
    rf"\b<secrets.card>\b[^•.!?\n\d]{{0,30}}(?P<v>{_CARD})(?![ -]?\d)",
    rf"(?<!\d)(?P<v>{_CARD})(?!\d)[^•.!?\n\d]{{1,15}}\b<secrets.card>\b",
    # Document numbers
    r"\b<secrets.document>\b[^•.!?\n+\d]{0,40}"
    r"(?P<v>(?>\d[\s-]?){2,6}(?>[^\w+.!?\n]{0,3}<secrets.number>?\s?\d[\s-]?){4,16})",
    r"\biban\b\W{0,5}(?P<v>[a-z]{2}\d{2}(?> ?[a-z]{0,4}\d[a-z\d]*){0,9})",
    # Doors: "the gate code at number 52 is 6617", "шкафчик открывается 4408", "4471 is the code"
    r"\b(?:<secrets.code>\b[^•.!?\n\d]{0,20}?\b<secrets.door>|<secrets.door>\b[^•.!?\n\d]{0,15}?"
    rf"\b<secrets.code>)\b[^•.!?\n\d]{{0,25}}?(?P<d>{_CODE})",
    rf"\b(?:<secrets.door>\b[^•.!?\n]{{0,40}}?\b<secrets.opens>|<secrets.keypad>)\b"
    rf"[^•.!?\n\d]{{0,25}}?(?P<d>{_LONG_CODE}){_KEEP}",
    rf"\b<secrets.code>\s(?P<d>{_CODE})\s[^•.!?\n\d]{{0,12}}?\b<secrets.door>\b",
    r"(?<![\w-])(?:(?P<public><secrets.public>)[ -])?<secrets.code>(?![\w-])"
    r"(?:\s+(?!<secrets.public>\b)[^\W\d][\w'-]*(?:\.\.+)?){0,7}?"
    rf"\s*[:=-]?\s+(?P<d>{_LONG_CODE}){_KEEP}",
    rf"(?P<d>{_LONG_CODE})\s*(?:-|<secrets.is_this>)\s*(?:(?!<secrets.public>\b)"
    r"[^\W\d][\w'-]*\s+){0,4}?<secrets.code>(?!\s+<secrets.public>)(?![\w-])",
    r"\b<secrets.wifi>\b[^•.!?\n\d]{0,30}?\s(?P<d>(?=[^\W\d_]\S{0,40}\d)\w{6,})",
)
# After a number too short for a code, which names the place: "on ward 9 is 7714".
CODE_AFTER = re.compile(rf"[^•!?\n]{{0,40}}?(?P<d>{_LONG_CODE})")
SHORT_CODE = 2  # characters
# What a code or a password opens, if no money is behind it.
HOUSEHOLD = lexicon.AnyCase(
    r"(?s)(?!.*\b<secrets.locked>\b).*\b(?:<secrets.wifi>|<secrets.door>)\b"
)
SEED = lexicon.AnyCase(r"\b<secrets.seed>")
SECRET_WORD = lexicon.AnyCase(r"\b(?:<secrets.password>|<secrets.code>|<secrets.pin>)\b")
WIFI = lexicon.AnyCase(r"\b<secrets.wifi>\b")
DOOR = lexicon.AnyCase(r"\b<secrets.door>\b")
NEAR = 40  # characters before a password that may name the thing it opens
# A password: in quotes; all words of a plain one; one word, and those after it with a digit.
PASSWORD = lexicon.AnyCase(
    r"(?P<quote>[\"']).{0,99}?(?P=quote)|(?=[^\W\d_]+[.,;!?]*(?!\S))(?s:.*?)"
    r"(?=[,;.!?]?\s+<secrets.after>\s|[,;.!?](?:\s|$)|\n|\Z)"
    r"|\S{1,99}?(?=[.,;]{1,9}(?!\S))|\S*(?:\s(?=\S{0,60}\d)\S+)*"
)

# Messages that may be a secret: one word, groups of digits, the words of a wallet.
WALLET_WORDS = re.compile(r"(?:[^\W\d_]+ ){7,23}[^\W\d_]+")
LONE_SECRET = re.compile(rf"\S{{4,64}}|\d[\d -]{{2,24}}|{WALLET_WORDS.pattern}")
NO_SECRET = re.compile(r"\d{1,2}[:.]\d\d|[\w.+-]+@[\w-]+\.\w+|\w+://\S*|[#@/]\S*")
PLAIN_WORD = re.compile(r"\W*[^\W\d_]+(?:[-'][^\W\d_]+)*\W*")
ANNOUNCED = lexicon.AnyCase(r"(?:[:=-]|\b<secrets.is>)$")
THIS_IS = lexicon.AnyCase(r"\W*(?:<lines.opener>[ ,]+)*<secrets.this_is>(?![\w'-])")
MAX_ANNOUNCED = 200  # characters of a message that may announce a secret at its end

MASK = "••••"  # replaces a secret in a message
MAX_PASSES = 5  # the text around a masked secret may read as another secret


@dataclass(frozen=True)
class Secret:
    """Position of a secret in a text.

    Attributes:
        start: Start offset, in the text in NFC.
        end: End offset (exclusive).
        is_household: A door code or a wifi password, which is kept as a private fact.
    """

    start: int
    end: int
    is_household: bool = False


def find_secrets(text: str) -> list[Secret]:
    """Return the secrets in a text, in order; none overlap."""
    folded, offsets = plain_with_offsets(text)
    undated = DATE.sub(lambda match: "/" * len(match.group()), folded)
    found = [Secret(*m.span()) for m in KEYS.finditer(folded)]
    for match in DIGIT_GROUPS.finditer(undated):
        groups = re.findall(r"\d+", match[0])
        runs = (groups[at : at + size] for at in range(len(groups)) for size in range(1, 7))
        cards = ("".join(run) for run in runs if all(len(one) >= MIN_GROUP for one in run[:-1]))
        if any(len(n) in CARD_DIGITS and n[0] in "23456" and luhn.is_valid(n) for n in cards):
            found.append(Secret(*match.span()))
    for match in IBAN.finditer(folded):
        # The last group may be a word that follows the number, so it counts with and without it.
        written = (match[0], re.split(r"[ -](?=\w*$)", match[0])[0])
        if any(iban.is_valid(one, check_country=False) for one in written):
            found.append(Secret(*match.span()))
    announced = [*_passwords(undated), *_worded(undated)]
    found += [one for one in announced if not undated.startswith(MASK, one.start)]
    merged: list[Secret] = []
    for one in sorted(found, key=lambda secret: secret.start):
        if merged and one.start < merged[-1].end:
            last = merged.pop()
            is_household = one.is_household and last.is_household
            one = Secret(last.start, max(last.end, one.end), is_household)
        merged.append(one)
    return [replace(s, start=offsets[s.start], end=offsets[s.end - 1] + 1) for s in merged]


def holds_secret(text: str) -> bool:
    """Return True if the text contains a secret: a number, a password or a key."""
    return bool(find_secrets(text))


def redact(text: str, *, household: bool = False) -> str:
    """Replace each secret with ``MASK``; household secrets only if ``household``."""
    for _ in range(MAX_PASSES):
        found = [one for one in find_secrets(text) if household or not one.is_household]
        if not found:
            return text
        text = MASK.join(between(NFC(text), [(one.start, one.end) for one in found]))
    return MASK


def secrets_of(text: str) -> list[str]:
    """Return the secrets in a text, as written."""
    return [NFC(text)[one.start : one.end] for one in find_secrets(text)]


def may_be_secret(text: str) -> bool:
    """Return True if a message may be a secret that the previous message announced."""
    seen = plain(text)
    return LONE_SECRET.fullmatch(seen) is not None and NO_SECRET.fullmatch(seen) is None


def read_announced_secret(before: str, text: str) -> Secret | None:
    """Return the secret of a message after one that announced it: "мой пароль", "qwerty123".

    A plain word is a secret only after a colon, a dash or "is", or in another alphabet.
    """
    seen, announcement = plain(text), plain(before)[-MAX_ANNOUNCED:]
    if MASK in announcement or announcement.endswith("?") or not may_be_secret(text):
        return None
    is_other = seen.isascii() and not announcement.isascii()
    if PLAIN_WORD.fullmatch(seen) and not is_other and not ANNOUNCED.search(announcement):
        return None
    announcement = announcement.rstrip(" :-.,!")
    if WALLET_WORDS.fullmatch(seen) and SEED.search(announcement) is None:
        return None
    found = find_secrets(f"{announcement}: {seen}")
    return next((one for one in reversed(found) if one.start > len(announcement)), None)


def refers_back(text: str) -> bool:
    """Return True if a message describes the previous one: "that's my password"."""
    return THIS_IS.match(plain(text)) is not None


def names_private(text: str, name: str) -> bool:
    """Return True if a text asks for the private fact of this name, by its code and its door.

    Words for doors are not compared between alphabets.

    Args:
        text: The user's text.
        name: The name of the fact, masked.
    """
    if WIFI.search(text) is not None and WIFI.search(name) is not None:
        return True
    if DOOR.search(text) is not None and len(shared(text, name)) == len(content(text)):
        return True  # "домофон на садовой?"
    if SECRET_WORD.search(text) is None:
        return False
    asked, named = (SECRET_WORD.sub(" ", plain(one)) for one in (text, name.replace(MASK, "")))
    doors, others = ([terms(m[0]) for m in DOOR.finditer(one)] for one in (asked, named))
    if doors and others and asked.isascii() == named.isascii():
        return any(one in others for one in doors)
    return bool(doors and others) or bool(shared(asked, named)) or not content(named)


def _passwords(text: str) -> list[Secret]:
    """Return the passwords; none announced by a match that spans the first secret."""
    found = []
    for match in (match for pattern in PASSWORDS for match in pattern.finditer(text)):
        start = match.start("v")
        opens = HOUSEHOLD.match(text[max(0, match.start() - NEAR) : start])
        password = Secret(start, PASSWORD.behind(text, start), opens is not None)
        found.append((match.start(), password))
    starts = sorted(secret.start for _, secret in found)
    return [secret for start, secret in found if starts[bisect(starts, start)] == secret.start]


def _worded(text: str) -> Iterator[Secret]:
    """Yield the other secrets that words announce; a code may follow the number of its place."""
    for match in (match for pattern in WORDED for match in pattern.finditer(text)):
        kind, matches = match.lastgroup or "v", [match]
        if match.groupdict().get("public"):
            continue
        if kind == "d" and len(match[kind]) <= SHORT_CODE:
            matches += filter(None, [CODE_AFTER.match(text, match.end(kind))])
        for one in matches:
            start, end = one.start(kind), one.start(kind) + len(one[kind].rstrip(" -"))
            start += len(one[kind]) - len(one[kind].lstrip())
            while end < len(text) and text[end].isalnum():
                end += 1
            yield Secret(start, end, kind == "d" or HOUSEHOLD.match(match.group()) is not None)


# Checks of the facts that a model proposes.
#
# The model reads, the gate guards provenance: the quote stands in the user's words and says more
# than "ok, thanks"; no field holds a secret or imitates markup. What the fact says is not compared
# with the quote: a number may be written otherwise, and a date in another form. That the user
# typed the words follows from their provenance (``MemoryWriter``).

Reason = Literal[
    "empty", "too_long", "quote_not_said", "secret", "imitation", "question",
    "acknowledgement",
]  # fmt: skip

MIN_TEXT = 3  # characters; a shorter text says nothing
MAX_TEXT = 400  # one sentence, perhaps two
MAX_WHOLE = 4096  # of a message stored verbatim; Telegram's limit
MAX_QUOTE = 1000
MAX_PART = 400  # characters of the subject, the relation and the object
ONE_QUESTION = re.compile(r"[^.!?,;:]*\?")
DENYING = lexicon.AnyCase(r"\b<change.negation>\b|n't\b")
CUT_OFF = lexicon.AnyCase(r"(?:\b<change.negation>|n't) $")  # before a quote
MAX_NEGATION = 20  # characters


def refusal_reason(candidate: Fact, said: str) -> Reason | None:
    """Return the reason not to store a fact, or None.

    Args:
        candidate: The fact as the model proposes it.
        said: The user's message, without the time label.

    Secrets come before every other reason, because a "secret" must not be written anywhere, not
    even to the list of refused facts.
    """
    fact, quote, heard = candidate, plain(candidate.quote), plain(said)
    parts = (fact.text, fact.subject, fact.relation, fact.object, fact.quote)
    if any(MASK in part or holds_secret(part) for part in parts):
        return "secret"
    longest = MAX_WHOLE if plain(fact.text) == quote == heard else MAX_TEXT
    bounds = (longest, MAX_PART, MAX_PART, MAX_PART, max(longest, MAX_QUOTE))
    if any(len(part) > bound for part, bound in zip(parts, bounds, strict=True)):
        return "too_long"
    is_empty = len(normalise(fact.text)) < MIN_TEXT or not any(map(str.isalpha, fact.text))
    if is_empty or not any(map(str.isalnum, quote)):
        return "empty"
    # Whole words of the message are the quote, and no "not" is cut off before it; a fact that
    # denies something itself may do so: "no kids" is quoted as "kids".
    denies = DENYING.search(plain(fact.text)) is not None
    found = quote_pattern(quote).finditer(heard)
    before = (heard[max(0, match.start() - MAX_NEGATION) : match.start()] for match in found)
    if not any(denies or CUT_OFF.search(words) is None for words in before):
        return "quote_not_said"
    if any(map(imitates, parts)):
        return "imitation"
    if fact.text.rstrip().endswith("?") or ONE_QUESTION.fullmatch(quote) is not None:
        return "question"
    says_nothing = lexicon.words("gate.acknowledging").issuperset(words(quote.replace("-", " ")))
    return "acknowledgement" if says_nothing else None
