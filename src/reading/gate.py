"""Gate of the memory: checks for imitations, secrets, and facts that the user did not state.

Card numbers, passwords, keys and document numbers are not stored, nor imitations of our labels.
"""

import re
import unicodedata
from bisect import bisect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from stdnum import iban, luhn

from src.reading import lexicon
from src.reading.facts import Fact
from src.reading.words import content, read_numbers, shared
from src.texts.morphology import terms
from src.texts.plain_text import INVISIBLE, TYPOGRAPHY, between, normalise, plain, single_spaced

# Imitations of markup that only the program writes: its blocks, labels and roles.
#
# They are recognised by their form, not by their intent: a tag, a label in brackets, a role at the
# beginning of a line, a tool call. In the history they are escaped; a fact with one is refused.

MAX_MARK = 80  # characters of a possible mark that are compared
ESCAPE = "‹"
# Tag characters are invisible and spell ASCII; only flags (U+1F3F4 and tags) have a use for them.
SMUGGLED = re.compile("(?<![\U0001f3f4\U000e0020-\U000e007e])[\U000e0020-\U000e007f]+")
OWN_TAGS = (
    r"(?:memories|key_facts|persona|wishes|history_summary|context|messages|conversation|searched"
    r"|instructions?|<marks.role>)"
)
# Start of a mark in folded text.
MARK = lexicon.Expression(
    rf"<\s*/?\s*{OWN_TAGS}\b|<\s*\||<\s*/?s>|<<\s*sys|\[\s*/?\s*inst\s*\]|\[\s*<marks.label>\b"
)
ROLE_LINE = lexicon.Expression(
    r"\s*(?:#{1,6}\s*(?:<marks.role>|instructions?)\b|<marks.role>\s*:)"
)
SPACES = re.compile(r"[^\S\n]+")
SIGNS = re.compile(r"[<\[＜［﹤]")
LINE_START = re.compile(r"(?:\A|(?<=[\n\r\x0b\x0c\x85\u2028\u2029]))(?=[ \t\xa0]{0,40}\S)")
ANY_TAG = re.compile(r"<\s*/?\s*[^\W\d][\w':.-]{0,40}(?:\s[^<>]{0,80})?/?>")
TOOL_CALL = re.compile(r"[\"']?\b(?:arguments|parameters|args)[\"']?\s*:\s*\{")


def disarm(text: str) -> str:
    """Return a message with our tags, labels and roles disarmed: ``‹memories>``."""
    text = SMUGGLED.sub("", text)
    cuts = {m.start(): 1 for m in SIGNS.finditer(text) if MARK.match(_fold_from(text, m.start()))}
    starts = [m.start() for m in LINE_START.finditer(text)]
    cuts |= {at: 0 for at in starts if ROLE_LINE.match(_fold_from(text, at)) and at not in cuts}
    return ESCAPE.join(between(text, [(at, at + length) for at, length in sorted(cuts.items())]))


def imitates(text: str) -> bool:
    """Return True if a text contains markup that only the program writes; a fact never does."""
    folded = _fold(text)
    return (
        SMUGGLED.search(text) is not None
        or disarm(text) != text
        or ANY_TAG.search(folded) is not None
        or TOOL_CALL.search(folded) is not None
    )


def _fold_from(text: str, start: int) -> str:
    return _fold(text[start : start + MAX_MARK])


def _fold(text: str) -> str:
    visible = INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    return SPACES.sub(" ", unicodedata.normalize("NFKC", visible).casefold())


# Secrets, which are never stored: card numbers, passwords, keys and document numbers.
#
# Every check looks for a secret, not for the mention of one: "забыл пароль" can be stored, "пароль
# от почты: ..." cannot. A doubtful case is refused; the user can write the fact without the
# secret. All expressions are linear: their repetitions are bounded or cannot overlap.

CARD_DIGITS = range(13, 20)  # ISO/IEC 7812: a card number has 13 to 19 digits
MIN_GROUP = 3  # digits; card numbers are written in groups of 4, 5 or 6, the last may be shorter
LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # those of ``str.splitlines``
MIN_RANDOM = 20  # characters; shorter tokens are user names and product models
RANDOM_CHANGES = 0.3  # share of neighbours of different kinds; CamelCase words have 0.2

DATE = re.compile(
    r"(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)|(?<!\d)\d{1,2}\.\d{1,2}\.\d{4}(?!\d)"
    r"|(?<!\d)\d{1,2} [^\W\d_]{3,9} (?:19|20)\d\d(?!\d)"  # 20 November 2026, resolved
)
DIGIT_GROUPS = re.compile(r"(?<!\d)\d+(?:[\s._-]{1,3}\d+)+|(?<!\d)\d{13,19}(?!\d)")
IBAN = re.compile(
    r"(?<!\w)[a-z]{2}\d{2}"
    r"(?:[a-z0-9]{11,30}|(?:[ -][a-z0-9]{4}){2,7}(?:[ -][a-z0-9]{1,3})?)(?!\w)",
    re.IGNORECASE | re.ASCII,
)
TOKEN = re.compile(r"[A-Za-z0-9+=_-]{20,}")

# Keys with a known prefix, each with the text attached to it.
KEYS = re.compile(
    r"(?:\bsk-[\w-]{12,}|\b[sprw]k_(?:live|test)_\w{8,}|\bgh[opsur]_\w{16,}|\bgithub_pat_\w{16,}"
    r"|\bglpat-[\w-]{12,}|\bxox[abeprs]-[\w-]{8,}|\b(?:AKIA|ASIA)[A-Z0-9]{12,}|\bAIza[\w-]{24,}"
    r"|\bya29\.[\w-]{16,}|\bhf_\w{16,}|\bnpm_\w{24,}|\beyJ[\w-]{8,}|\b\d{5,12}:AA[\w-]{8,}"
    r"|\b\d{8,12}:[\w-]{30,}|\bbearer\s+[\w.~+/-]{16,}|://[^\s/:@]{1,64}:[^\s/@]{1,64}@)"
    r"[^\s\"'<>,]*"
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?s:.*?)(?:-----END[^-\n]{0,40}-----|\Z)",
    re.ASCII,
)

_PASSWORD = r"\b<secrets.password>"
# After "пароль": words about the password, not the password itself.
_TALK = r"(?!(?:<secrets.talk>[^\W\d_]*|<secrets.talk_whole>)(?![^\s.,;:!?]))"
# A plain word is the password if nothing follows: "мой пароль солнышко", not "… кто-то узнал".
_LAST = r"(?=\s*(?:[.!?,;\n]|$)|\s+<secrets.after>\s)"

# Words that announce a secret, and the secret after them, which begins at the group ``v``.
PASSWORDS = lexicon.AnyCase.each(
    # "пароль от вайфая: ...", "my password is ...", "пароль — ..."
    rf"{_PASSWORD}\b[^•.!?\n:=]{{0,40}}?\s*[:=]\s*(?P<v>\S)",
    rf"{_PASSWORD}\b(?!\s+<secrets.talk>)(?:\s+<secrets.for>)?(?:\s+[\w'-]+){{0,6}}?"
    rf"\s+(?:(?:-\s+)?<secrets.is>|-(?!\s+<secrets.is>))\s+{_TALK}(?P<v>\S)",
    # "пароль от вайфая солнышко2020", "password hunter2", "пароль 1234": a digit, or quotes
    rf"{_PASSWORD}(?:\s+<secrets.for>\s+(?:the\s+)?[\w'-]+"
    r"(?:(?:\s+<lines.question_preposition>(?:\s+the)?)?\s+[^\W\d]+)?)?\s+"
    r"(?P<v>[\"']\S|(?!1password)(?=\S{0,30}\d)\S{4,})",
    # "пароль рута Qw7zz!mars": letters and digits together, after the thing it opens
    rf"{_PASSWORD}(?:\s+(?!<secrets.talk>)[^\W\d_]+){{1,3}}?"
    r"\s+(?P<v>(?=\S{0,30}\d)(?=\S{0,30}[^\W\d_])(?!\d{1,2}[^\W\d_]+(?![^\s.,!?]))\S{6,})",
    # "пароль от вайфая солнышко", "мой пароль солнышко", "пароль qwerty"
    r"(?:^|[.!?,;:\n] ?|\b<secrets.own>\s+)<secrets.bare_password>\s+<secrets.for>\s+[\w'-]+"
    rf"\s+(?P<v>{_TALK}\w{{3,}}){_LAST}",
    rf"\b<secrets.mine>\s+<secrets.password>\s+(?P<v>{_TALK}\w{{3,}}){_LAST}",
    rf"\b<secrets.bare_password>\s+(?!wi|vpn|apple|google)(?P<v>{_TALK}[a-z]{{4,}}\b)",
)
_CARD = r"[2-6](?:[ -]?\d){14,18}"
WORDED = lexicon.AnyCase.each(
    # PIN and CVV, before and after the number; codes of phones, safes and banks
    r"\b<secrets.pin>(?:-?<secrets.code_tail>)?\b[^•.!?\n\d]{0,30}(?P<v>\d[\d ]{2,8}\b)",
    r"\b(?P<v>\d{4,8})\s*(?:-|<secrets.is_this>)?\s*(?:my|<secrets.mine>)?\s*<secrets.pin>\b",
    r"\b<secrets.cvv>\b[^•.!?\n\d]{0,30}(?P<v>\d{3,4}\b)",
    r"\b(?P<v>\d{3,4})\s*(?:-|<secrets.is_this>)?\s*(?:my|<secrets.mine>)?\s*(?:cv[vc]2?)\b",
    r"\b<secrets.code>\s+<secrets.code_for>\s+(?:<secrets.my>\s+)?<secrets.locked>"
    r"[^•.!?\n\d]{0,20}(?P<v>\d{3,})",
    # "api key: ...", "токен - ..."
    r"\b<secrets.key>\w{0,2}\s*(?:[:=-]|<secrets.seed_is>)\s*(?P<v>(?=\S{0,60}\d)\S{6,})",
    r"[?&](?:token|access_token|api_?key|key|password|secret|sig)=(?P<v>[^\s&]{6,})",
    # Card numbers, even with a wrong check digit because of a typo
    rf"\b<secrets.card>\b[^•.!?\n\d]{{0,30}}(?P<v>{_CARD})(?![ -]?\d)",
    rf"(?<!\d)(?P<v>{_CARD})(?!\d)[^•.!?\n\d]{{1,15}}\b<secrets.card>\b",
    # Document numbers
    r"\b<secrets.document>\b[^•.!?\n+\d]{0,40}"
    r"(?P<v>(?>\d[\s-]?){2,6}(?>[^\w+.!?\n]{0,3}<secrets.number>?\s?\d[\s-]?){4,16})",
    r"(?<!\d)(?P<v>\d{3}-\d{3}-\d{3}[ -]\d{2})(?!\d)",
    r"\biban\b\W{0,5}(?P<v>[a-z]{2}\d{2}(?> ?[a-z]{0,4}\d[a-z\d]*){0,9})",
)
# Recovery words of a wallet: some words after a sign, or many of them.
_WORDS = r"(?>[\s\d,;.)-]{0,6}[^\W\d]\w*)"
SEEDS = lexicon.AnyCase(
    rf"\b<secrets.seed>(?:[^•.!?\n:=]{{0,30}}"
    rf"(?:[:=]|(?:\s-\s+)?\b<secrets.seed_is>\b|\s-\s(?!\s*<secrets.seed_is>\b))"
    rf"\s*(?=\w)(?![^\W\d]{{1,2}}\b){_TALK}(?P<v>{_WORDS}{{1,24}})"
    r"|(?P<w>(?:[\s,]+\w+){8,24}))"
)
# Household codes for a door, a locker, a suitcase; no dialling codes or error codes.
_CODE = r"[#*]?\d[\w#*-]*|[^\W\d_]\d[\w#*-]*"
_LONG_CODE = rf"(?!(?:19|20)\d\d\b)(?=\S{{3}})(?:{_CODE})(?![^\s.,;!?)(]|[.,]\d)"
_KEEP = r"(?=\s*(?:[.!?,;)\n(]|$)|\s+(?:<secrets.after>|<secrets.for>|<lines.remember>)(?!\w))"
DOORS = lexicon.AnyCase.each(
    r"\b<secrets.code>\b[^•.!?\n\d]{0,20}?\b<secrets.door>\b[^•.!?\n\d]{0,25}?"
    rf"(?<!\w)(?P<v>{_CODE})",
    rf"\b<secrets.door>\b[^•.!?\n\d]{{0,15}}?\b<secrets.code>\b[^•.!?\n\d]{{0,16}}?(?<!\w)(?P<v>{_CODE})",
    rf"\b<secrets.door>\s<secrets.code>\b[^•.!?\n\d]{{0,25}}?(?<!\w)(?P<v>{_LONG_CODE})",
    # "The locker code at work is 2087": not a year
    r"\b(?:<secrets.door>\s<secrets.code>|<secrets.code>\s<secrets.door>)\b"
    r"[^•.!?\n\d]{0,25}?\s(?:<secrets.is>|<secrets.is_this>|[-:=])\s*(?P<v>\d{4})(?!\w)",
    rf"\b<secrets.door>\b[^•.!?\n]{{0,40}}?\b<secrets.opens>\b[^•.!?\n\d]{{0,15}}?"
    rf"(?<!\w)(?P<v>{_LONG_CODE})",
    rf"\b<secrets.keypad>\b[^•.!?\n\d]{{0,25}}?(?<!\w)(?P<v>{_LONG_CODE}){_KEEP}",
    rf"\b<secrets.code>\s(?P<v>{_CODE})\s[^•.!?\n\d]{{0,12}}?\b<secrets.door>\b",
    rf"(?<![\w-])(?:(?P<public><secrets.public>)[ -])?<secrets.code>(?![\w-])"
    r"(?:\s+(?!<secrets.public>\b)[^\W\d][\w'-]*(?:\.\.+|…)?){0,7}?"
    rf"\s*[:=-]?\s+(?P<v>{_LONG_CODE}){_KEEP}",
    rf"(?<![\w.,:-])(?P<v>{_LONG_CODE})\s*(?:-|<secrets.is_this>)\s*(?:(?!<secrets.public>\b)"
    r"[^\W\d][\w'-]*\s+){0,4}?<secrets.code>(?!\s+<secrets.public>)(?![\w-])",
    r"\b<secrets.wifi>\b[^•.!?\n\d]{0,30}?\s(?P<v>(?=[^\W\d_]\S{0,40}\d)\w{6,})",
)
# After a number too short for a code, which names the place: "on ward 9 is 7714".
CODE_AFTER = re.compile(rf"[^•!?\n]{{0,40}}?(?<![\w.,:-])(?P<v>{_LONG_CODE})")
SHORT_CODE = 2  # characters
HOUSEHOLD = lexicon.AnyCase(r"\b(?:<secrets.wifi>|<secrets.door>)\b")
PAYS = lexicon.AnyCase(r"\b<secrets.locked>\b")
SECRET_WORD = lexicon.AnyCase(r"\b(?:<secrets.password>|<secrets.code>|<secrets.pin>)\b")
WIFI = lexicon.AnyCase(r"\b<secrets.wifi>\b")
DOOR = lexicon.AnyCase(r"\b<secrets.door>\b")
NEAR = 40  # characters before a password that may name the thing it opens
PASSWORD_END = lexicon.AnyCase(r"[,;.!?]?\s+<secrets.after>\s|[,;.!?](?:\s|$)|\n")
WORD_END = lexicon.Expression(r"\S*")
TAIL = lexicon.Expression(r"(?:\s(?=\S{0,60}\d)\S+)*")

# Messages that may be a secret: one word, groups of digits, the words of a wallet.
WORDS = re.compile(r"(?:[^\W\d_]+ ){7,23}[^\W\d_]+")
LONE_SECRET = re.compile(rf"\S{{4,64}}|\d[\d -]{{2,24}}|{WORDS.pattern}")
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
        start: Start offset.
        end: End offset (exclusive).
        is_household: A door code or a wifi password: stored at the user's request.
    """

    start: int
    end: int
    is_household: bool = False


def holds_secret(text: str) -> bool:
    """Return True if the text contains a secret: a number, a password or a key."""
    return bool(_find_secrets(_visible(text)))


def redact(text: str, *, household: bool = False) -> str:
    """Replace each secret with ``MASK``; household secrets only if ``household``."""
    for _ in range(MAX_PASSES):
        visible, offsets = _with_offsets(text)
        every = _find_secrets(visible)
        secrets = [secret for secret in every if household or not secret.is_household]
        if not secrets:
            again = _visible(text)
            left = every if again == visible else _find_secrets(again)
            return MASK if any(household or not secret.is_household for secret in left) else text
        cuts = [(offsets[secret.start], offsets[secret.end - 1] + 1) for secret in secrets]
        text = MASK.join(between(unicodedata.normalize("NFC", text), cuts))
    return MASK


def may_be_secret(text: str) -> bool:
    """Return True if a message may be a secret that the previous message announced."""
    seen = _visible(text).strip()
    return LONE_SECRET.fullmatch(seen) is not None and NO_SECRET.fullmatch(seen) is None


def read_announced_secret(before: str, text: str) -> Secret | None:
    """Return the secret of a message after one that announced it: "мой пароль", "qwerty123".

    A plain word is a secret only after a colon, a dash or "is", or in another alphabet.
    """
    visible, announcement = _visible(text).strip(), _visible(before).strip()[-MAX_ANNOUNCED:]
    if MASK in announcement or announcement.endswith("?") or not may_be_secret(text):
        return None
    is_other = visible.isascii() and not announcement.isascii()
    if PLAIN_WORD.fullmatch(visible) and not is_other and not ANNOUNCED.search(announcement):
        return None
    announcement = announcement.rstrip(" :-.,!")
    joined = f"{announcement}: {visible}"
    if WORDS.fullmatch(visible) and SEEDS.search(joined) is None:
        return None
    found = [secret for secret in _find_secrets(joined) if secret.start > len(announcement)]
    return found[-1] if found else None


def refers_back(text: str) -> bool:
    """Return True if a message describes the previous one: "that's my password"."""
    return THIS_IS.match(_visible(text)) is not None


def secrets_of(text: str) -> list[str]:
    """Return the secrets in a text, as written."""
    visible, offsets = _with_offsets(text)
    composed, found = unicodedata.normalize("NFC", text), _find_secrets(visible)
    return [composed[offsets[one.start] : offsets[one.end - 1] + 1] for one in found]


def names_private(text: str, name: str) -> bool:
    """Return True if a text asks for the private fact of this name, by its code and its door.

    Args:
        text: The user's text.
        name: The name of the fact, masked.
    """
    if WIFI.search(text) is not None and WIFI.search(name) is not None:
        return True
    if SECRET_WORD.search(text) is None:
        return False
    asked, named = (SECRET_WORD.sub(" ", one) for one in (text, name))
    if (doors := _doors(asked)) and _doors(named):
        return not doors.isdisjoint(_doors(named))
    return bool(shared(asked, named)) or not content(named)


def _doors(text: str) -> set[str]:
    return {term for match in DOOR.finditer(text) for term in terms(match.group())}


def _visible(text: str) -> str:
    visible = INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    return single_spaced(visible.translate(TYPOGRAPHY))


def _with_offsets(text: str) -> tuple[str, list[int]]:
    """Return the text as ``_visible`` does, and for each character its offset in the NFC text."""
    characters: list[str] = []
    offsets: list[int] = []
    for offset, raw in enumerate(unicodedata.normalize("NFC", text)):
        folded = unicodedata.normalize("NFKC", raw)
        for one in INVISIBLE.sub("", folded).translate(TYPOGRAPHY):
            character = ("\n" if one in LINE_ENDS else " ") if one.isspace() else one
            if character.isspace() and (not characters or characters[-1].isspace()):
                if characters and character == "\n":
                    characters[-1] = "\n"
                continue
            characters.append(character)
            offsets.append(offset)
    return "".join(characters), offsets


def _find_secrets(text: str) -> list[Secret]:
    undated = DATE.sub(lambda match: "/" * len(match.group()), text)
    codes = [m for door in DOORS for m in door.finditer(undated)]
    codes += [m for one in codes if (m := _code_after(one)) is not None]
    house = [Secret(*_span(m), True) for m in codes if not m.groupdict().get("public")]
    worded = _passwords(undated)
    worded += [
        Secret(*_span(m), _is_household(m.group()))
        for pattern in WORDED
        for m in pattern.finditer(undated)
    ]
    worded += [Secret(*_span(m, m.lastgroup or "v")) for m in SEEDS.finditer(undated)]
    sure = [Secret(*m.span()) for m in KEYS.finditer(text)]
    sure += [Secret(*m.span()) for m in DIGIT_GROUPS.finditer(undated) if _holds_card(m.group())]
    sure += [Secret(*m.span()) for m in IBAN.finditer(text) if _is_iban(m.group())]
    random = [Secret(*m.span()) for m in TOKEN.finditer(text) if _looks_random(m.group())]
    announced = [one for one in [*house, *worded] if not text.startswith(MASK, one.start)]
    return _merge(announced, sure, random)


def _code_after(door: re.Match[str]) -> re.Match[str] | None:
    start, end = _span(door)
    return CODE_AFTER.match(door.string, end) if end - start <= SHORT_CODE else None


def _passwords(text: str) -> list[Secret]:
    """Return the passwords; none announced by a match that spans the first secret."""
    found = []
    for match in (match for pattern in PASSWORDS for match in pattern.finditer(text)):
        before = text[max(0, match.start() - NEAR) : match.start("v")]
        found.append((match.start(), Secret(*_password_span(match), _is_household(before))))
    starts = sorted(secret.start for _, secret in found)
    return [secret for start, secret in found if starts[bisect(starts, start)] == secret.start]


def _merge(
    announced: Sequence[Secret], sure: Sequence[Secret], random: Sequence[Secret]
) -> list[Secret]:
    """Merge overlapping secrets; a certain one (a card) wins, whatever announces it."""
    ranked = [(one, n) for n, kind in enumerate((random, announced, sure)) for one in kind]
    merged: list[tuple[Secret, int]] = []
    for one, rank in sorted(ranked, key=lambda pair: pair[0].start):
        if merged and one.start < merged[-1][0].end:
            last, before = merged.pop()
            is_household = one.is_household and last.is_household
            if rank != before:
                is_household = (one if rank > before else last).is_household
            one = Secret(last.start, max(last.end, one.end), is_household)
            rank = max(rank, before)
        merged.append((one, rank))
    return [one for one, _ in merged]


def _span(match: re.Match[str], name: str = "v") -> tuple[int, int]:
    """Return the position of a secret, extended to the end of its last word."""
    start, end = match.span(name)
    text = match.string[start:end].rstrip(" -")
    start += len(text) - len(text.lstrip())
    end = match.start(name) + len(text)
    while end < len(match.string) and match.string[end].isalnum():
        end += 1
    return start, end


def _is_household(text: str) -> bool:
    return HOUSEHOLD.search(text) is not None and PAYS.search(text) is None


def _password_span(match: re.Match[str]) -> tuple[int, int]:
    start, text = match.start("v"), match.string
    if text[start] in "\"'" and (closing := text.find(text[start], start + 1)) > 0:
        return start, closing + 1
    end = WORD_END.behind(text, start)
    first = text[start:end]
    if first.rstrip(".,;!?").isalpha():
        stop = PASSWORD_END.search(text, start)
        return start, stop.start() if stop else len(text)
    if (bare := first.rstrip(".,;")) and bare != first:
        return start, start + len(bare)
    return start, TAIL.behind(text, end)


def _holds_card(digits: str) -> bool:
    groups = re.findall(r"\d+", digits)
    for first in range(len(groups)):
        number = ""
        for group in groups[first : first + len(CARD_DIGITS)]:
            number += group
            if len(number) in CARD_DIGITS and number[0] in "23456" and luhn.is_valid(number):
                return True
            if len(group) < MIN_GROUP or len(number) >= CARD_DIGITS.stop:
                break
    return False


def _is_iban(text: str) -> bool:
    """Return True for an IBAN with correct length and check digits.

    The last group may be a word that follows the number, so it counts with and without it.
    """
    without_tail = re.split(r"[ -](?=\w*$)", text)[0]
    return any(iban.is_valid(one, check_country=False) for one in (text, without_tail))


def _looks_random(token: str) -> bool:
    """Return True if upper case, lower case and digits alternate as in keys and encoded text.

    Entropy tells little about a few dozen characters: a long word has as much as a key.
    """
    kinds = [
        "digit" if character.isdigit() else "upper" if character.isupper() else "lower"
        for character in token
        if character.isalnum()
    ]
    if len(kinds) < MIN_RANDOM:
        return False
    changes = sum(left != right for left, right in pairwise(kinds))
    return changes >= RANDOM_CHANGES * len(kinds)


# Checks of the facts that a model proposes.
#
# A model invents, mixes things up and can be manipulated. These checks need no model and ignore
# the wording: a stored fact was said by the user, in their alphabet, with their numbers; it holds
# no secret and imitates no markup. That the user typed the words follows from their provenance
# (``MemoryWriter``).

Reason = Literal[
    "bad_dates", "empty", "too_long", "quote_not_said", "secret", "imitation", "question",
    "other_script", "number_not_said",
]  # fmt: skip

MIN_TEXT = 3  # characters; a shorter text says nothing
MAX_TEXT = 400  # one sentence, perhaps two
MAX_WHOLE = 4096  # of a message stored verbatim; Telegram's limit
MAX_QUOTE = 1000
MAX_PART = 400  # characters of the subject, the relation and the object
EDGES = " \"'.,;:!?()-…"  # signs that models add to quotes and drop from them

# Words that turn 7 o'clock into 19:00.
AFTERNOON = lexicon.Expression(r"\b<gate.afternoon>\b")
THOUSANDS = re.compile(r"(?<=\d)[ '](?=\d{3}(?!\d))")
ZERO_MINUTES = re.compile(r"(?<=\d)[:.]00(?!\d)")


def refusal_reason(
    candidate: Fact, said: str, *, allowed_numbers: frozenset[str] = frozenset()
) -> Reason | None:
    """Return the reason not to store a fact, or None.

    Args:
        candidate: The fact as the model proposes it.
        said: The user's message, without the time label.
        allowed_numbers: Unsaid but correct numbers, such as those of the date that "завтра" was
            resolved to: "2026-03-01", or its parts.

    Secrets come before every other reason, because a "secret" must not be written anywhere, not
    even to the list of refused facts.
    """
    parts = (candidate.text, candidate.subject, candidate.relation, candidate.object)
    if any(MASK in part or holds_secret(part) for part in (*parts, candidate.quote)):
        return "secret"
    is_whole = plain(candidate.text) == plain(candidate.quote) == plain(said)
    if (reason := _shape_problem(candidate, MAX_WHOLE if is_whole else MAX_TEXT)) is not None:
        return reason
    if not _contains_quote(plain(candidate.quote).strip(EDGES), plain(said)):
        return "quote_not_said"
    if any(map(imitates, (*parts, candidate.quote))):
        return "imitation"
    if _is_question(candidate):
        return "question"
    if not _is_same_alphabet(candidate.text, candidate.quote, said):
        return "other_script"
    numbers = _possible_numbers(candidate.quote, said) | _numbers_in(" ".join(allowed_numbers))
    written = (candidate.text, THOUSANDS.sub("", plain(candidate.text)))
    return None if any(_numbers_in(text) <= numbers for text in written) else "number_not_said"


def _shape_problem(candidate: Fact, longest: int) -> Reason | None:
    start, end = candidate.valid_from, candidate.valid_until
    if start and end and ((start.utcoffset() is None) != (end.utcoffset() is None) or start > end):
        return "bad_dates"
    parts = (candidate.subject, candidate.relation, candidate.object)
    if (
        len(candidate.text) > longest
        or len(candidate.quote) > max(longest, MAX_QUOTE)
        or max(map(len, parts)) > MAX_PART
    ):
        return "too_long"
    has_words = any(map(str.isalpha, candidate.text)) and plain(candidate.quote).strip(EDGES)
    return None if has_words and len(normalise(candidate.text)) >= MIN_TEXT else "empty"


def _contains_quote(quote: str, said: str) -> bool:
    """Return True if the quote is in the message, at word boundaries.

    Both are normalised by ``plain``.
    """
    before = r"(?<![^\W_])" if quote[0].isalnum() else ""
    after = r"(?![^\W_])" if quote[-1].isalnum() else ""
    return re.search(f"{before}{re.escape(quote)}{after}", said) is not None


def _is_question(candidate: Fact) -> bool:
    if candidate.text.rstrip().endswith("?"):
        return True
    quote = plain(candidate.quote)
    return quote.endswith("?") and not re.search(r"[.!?,;:]", quote[:-1])


def _is_same_alphabet(text: str, quote: str, said: str) -> bool:
    """Return True if the fact is written in the alphabet of the quote.

    Common words (names, brands) do not count; if the quote has no others, the rest of the message
    counts. A fact with letters that only Russian has does not come from a quote with letters that
    only Ukrainian has, nor vice versa.
    """
    words, quoted = set(normalise(text).split()), set(normalise(quote).split())
    ours, theirs = "".join(words - quoted), "".join(quoted - words)
    if _main_script(theirs) is None:
        theirs = "".join(set(normalise(said).split()) - words)
    if len({_main_script(ours), _main_script(theirs)} - {None}) > 1:
        return False
    written, heard = _languages_by_letters(ours), _languages_by_letters(theirs)
    return len(written) != 1 or not heard or not written.isdisjoint(heard)


def _languages_by_letters(letters: str) -> frozenset[str]:
    own = lexicon.by_language("language.letters")
    return frozenset(code for code, listed in own if not set(letters).isdisjoint(listed.split()))


def _main_script(text: str) -> str | None:
    scripts = Counter(unicodedata.name(c, "?").split()[0] for c in text if c.isalpha())
    # Sorted, because the words come from sets: a tie must not depend on the process.
    return max(sorted(scripts), key=lambda script: scripts[script], default=None)


def _numbers_in(text: str) -> set[str]:
    """Return the numbers in digits, without leading zeros; 15:00 is 15."""
    return {run.lstrip("0") or "0" for run in re.findall(r"\d+", ZERO_MINUTES.sub("", text))}


def _possible_numbers(quote: str, said: str) -> set[str]:
    """Return all numbers the user may have meant: digits, words, 7 in the evening as 19."""
    text = plain(f"{quote} {said}")
    read = " ".join(read_numbers(normalise(text).split(), ordinals=True))
    numbers = _numbers_in(text) | _numbers_in(THOUSANDS.sub("", text)) | _numbers_in(read)
    if AFTERNOON.search(text):
        numbers |= {str(int(hour) + 12) for hour in numbers if len(hour) < 3 and int(hour) < 12}
    return numbers
