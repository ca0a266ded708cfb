"""The gate before the memory: what may be stored of the facts that a model proposes.

Card numbers, passwords, keys and numbers of documents are not, nor what imitates our labels.
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

# Imitations of what only the program writes: its blocks, labels and roles.
#
# They are recognised by their form, not by what they want: a tag, a label in brackets, a role at
# the beginning of a line, a call of a tool. In the history they are escaped; no fact holds one.

LOOKED_AT = 80  # characters after a sign in which an imitation shows
ESCAPE = "‹"
# Tag characters are invisible and spell ASCII; only flags (U+1F3F4 and tags) have a use for them.
SMUGGLED = re.compile("(?<![\U0001f3f4\U000e0020-\U000e007e])[\U000e0020-\U000e007f]+")
OWN_TAGS = (
    r"(?:memories|key_facts|persona|wishes|history_summary|context|messages|conversation|searched"
    r"|instructions?|<marks.role>)"
)
# As the folded text reads from the sign on.
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


def escaped(text: str) -> str:
    """A message in which our tags, labels and roles are none: ``<memories>`` is ``‹memories>``."""
    text = SMUGGLED.sub("", text)
    cuts = {m.start(): 1 for m in SIGNS.finditer(text) if MARK.match(_folded(text, m.start()))}
    starts = [m.start() for m in LINE_START.finditer(text)]
    cuts |= {at: 0 for at in starts if ROLE_LINE.match(_folded(text, at)) and at not in cuts}
    return ESCAPE.join(between(text, [(at, at + length) for at, length in sorted(cuts.items())]))


def imitates(text: str) -> bool:
    """Whether a text holds what only the program writes; a fact never does."""
    folded = _fold(text)
    return (
        SMUGGLED.search(text) is not None
        or escaped(text) != text
        or ANY_TAG.search(folded) is not None
        or TOOL_CALL.search(folded) is not None
    )


def _folded(text: str, start: int) -> str:
    return _fold(text[start : start + LOOKED_AT])


def _fold(text: str) -> str:
    """The text without invisible characters, of one width and case, with single spaces."""
    visible = INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    return SPACES.sub(" ", unicodedata.normalize("NFKC", visible).casefold())


# What must never be stored: card numbers, passwords, keys and numbers of documents.
#
# Every check looks for a secret, not for the mere mention of one: "забыл пароль" may be stored,
# "пароль от почты: ..." may not. A doubtful case is refused; the user can write the fact without
# the secret. All expressions are linear: their repetitions are bounded or cannot overlap.

CARD_DIGITS = range(13, 20)  # ISO/IEC 7812: a card number has 13 to 19 digits
MIN_GROUP = 3  # digits; card numbers are written in groups of 4, 5 or 6, the last may be shorter
LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # as ``str.splitlines`` knows them
MIN_RANDOM = 20  # characters; shorter tokens are user names and models of things
RANDOM_CHANGES = 0.3  # share of neighbours of different kinds; words in CamelCase have 0.2

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

# Keys that show what they are by how they begin; each with what goes on with it.
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
# After "пароль": words that tell something about the password instead of being it.
_TALK = r"(?!(?:<secrets.talk>[^\W\d_]*|<secrets.talk_whole>)(?![^\s.,;:!?]))"
# A plain word is the password where nothing follows: "мой пароль солнышко", not "… кто-то узнал".
_LAST = r"(?=\s*(?:[.!?,;\n]|$)|\s+<secrets.after>\s)"

# Words that announce a secret, and the secret after them, which begins where the group ``v`` does.
PASSWORDS = lexicon.AnyCase.each(
    # "пароль от вайфая: ...", "my password is ...", "пароль — ..."
    rf"{_PASSWORD}\b[^•.!?\n:=]{{0,40}}?\s*[:=]\s*(?P<v>\S)",
    rf"{_PASSWORD}\b(?!\s+<secrets.talk>)(?:\s+<secrets.for>)?(?:\s+[\w'-]+){{0,6}}?"
    rf"\s+(?:(?:-\s+)?<secrets.is>|-(?!\s+<secrets.is>))\s+{_TALK}(?P<v>\S)",
    # "пароль от вайфая солнышко2020", "password hunter2", "пароль 1234": a digit, or quotes
    rf"{_PASSWORD}(?:\s+<secrets.for>\s+(?:the\s+)?[\w'-]+"
    r"(?:(?:\s+<lines.question_preposition>(?:\s+the)?)?\s+[^\W\d]+)?)?\s+"
    r"(?P<v>[\"']\S|(?!1password)(?=\S{0,30}\d)\S{4,})",
    # "пароль рута Qw7zz!mars": letters and digits together, behind what it opens
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
    # Numbers of cards, also one with a slip in it, whose check digit is wrong
    rf"\b<secrets.card>\b[^•.!?\n\d]{{0,30}}(?P<v>{_CARD})(?![ -]?\d)",
    rf"(?<!\d)(?P<v>{_CARD})(?!\d)[^•.!?\n\d]{{1,15}}\b<secrets.card>\b",
    # Numbers of documents
    r"\b<secrets.document>\b[^•.!?\n+\d]{0,40}"
    r"(?P<v>(?>\d[\s-]?){2,6}(?>[^\w+.!?\n]{0,3}<secrets.number>?\s?\d[\s-]?){4,16})",
    r"(?<!\d)(?P<v>\d{3}-\d{3}-\d{3}[ -]\d{2})(?!\d)",
    r"\biban\b\W{0,5}(?P<v>[a-z]{2}\d{2}(?> ?[a-z]{0,4}\d[a-z\d]*){0,9})",
)
# Recovery words of a wallet: some words behind a sign, or many of them.
_WORDS = r"(?>[\s\d,;.)-]{0,6}[^\W\d]\w*)"
SEEDS = lexicon.AnyCase(
    rf"\b<secrets.seed>(?:[^•.!?\n:=]{{0,30}}"
    rf"(?:[:=]|(?:\s-\s+)?\b<secrets.seed_is>\b|\s-\s(?!\s*<secrets.seed_is>\b))"
    rf"\s*(?=\w)(?![^\W\d]{{1,2}}\b){_TALK}(?P<v>{_WORDS}{{1,24}})"
    r"|(?P<w>(?:[\s,]+\w+){8,24}))"
)
# Codes of daily life: what opens a door, a locker, a suitcase; not that of a city or of an error.
_CODE = r"[#*]?\d[\w#*-]*|[^\W\d_]\d[\w#*-]*"
_LONG_CODE = rf"(?!(?:19|20)\d\d\b)(?=\S{{3}})(?:{_CODE})(?![^\s.,;!?)(]|[.,]\d)"
_KEEP = r"(?=\s*(?:[.!?,;)\n(]|$)|\s+(?:<secrets.after>|<secrets.for>|<lines.remember>)(?!\w))"
DOORS = lexicon.AnyCase.each(
    r"\b<secrets.code>\b[^•.!?\n\d]{0,20}?\b<secrets.door>\b[^•.!?\n\d]{0,25}?"
    rf"(?<!\w)(?P<v>{_CODE})",
    rf"\b<secrets.door>\b[^•.!?\n\d]{{0,15}}?\b<secrets.code>\b[^•.!?\n\d]{{0,16}}?(?<!\w)(?P<v>{_CODE})",
    rf"\b<secrets.door>\s<secrets.code>\b[^•.!?\n\d]{{0,25}}?(?<!\w)(?P<v>{_LONG_CODE})",
    # "The locker code at work is 2087": no year
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
# Behind what is too short for a code, and tells where it opens: "on ward 9 is 7714".
CODE_BEHIND = re.compile(rf"[^•!?\n]{{0,40}}?(?<![\w.,:-])(?P<v>{_LONG_CODE})")
SHORT_CODE = 2  # characters
HOUSEHOLD = lexicon.AnyCase(r"\b(?:<secrets.wifi>|<secrets.door>)\b")
PAYS = lexicon.AnyCase(r"\b<secrets.locked>\b")
SECRET_WORD = lexicon.AnyCase(r"\b(?:<secrets.password>|<secrets.code>|<secrets.pin>)\b")
WIFI = lexicon.AnyCase(r"\b<secrets.wifi>\b")
DOOR = lexicon.AnyCase(r"\b<secrets.door>\b")
NEAR = 40  # characters before a password in which the thing that it opens may be named
AFTER = lexicon.AnyCase(r"[,;.!?]?\s+<secrets.after>\s|[,;.!?](?:\s|$)|\n")
WORD_END = lexicon.Expression(r"\S*")
TAIL = lexicon.Expression(r"(?:\s(?=\S{0,60}\d)\S+)*")

# A message that may be a secret: one word, digits in groups, the words of a wallet.
WORDS = re.compile(r"(?:[^\W\d_]+ ){7,23}[^\W\d_]+")
ALONE = re.compile(rf"\S{{4,64}}|\d[\d -]{{2,24}}|{WORDS.pattern}")
PUBLIC = re.compile(r"\d{1,2}[:.]\d\d|[\w.+-]+@[\w-]+\.\w+|\w+://\S*|[#@/]\S*")
PLAIN_WORD = re.compile(r"\W*[^\W\d_]+(?:[-'][^\W\d_]+)*\W*")
ANNOUNCED = lexicon.AnyCase(r"(?:[:=-]|\b<secrets.is>)$")
THIS_IS = lexicon.AnyCase(r"\W*(?:<lines.opener>[ ,]+)*<secrets.this_is>(?![\w'-])")
MAX_ANNOUNCED = 200  # characters of a message that may announce a secret at its end

MASK = "••••"  # stands in a message in the place of a secret
MAX_PASSES = 5  # what is left behind one secret may read as another


@dataclass(frozen=True)
class Secret:
    """Where a secret stands in a text.

    Attributes:
        start: Of its first character.
        end: Behind its last.
        is_household: The code of a door, the password of a wifi: kept when the user asks for it.
    """

    start: int
    end: int
    is_household: bool = False


def holds_secret(text: str) -> bool:
    """Whether the text holds a number, a word or a key that lets others in or pay."""
    return bool(_found(_seen(text)))


def redact(text: str, *, household: bool = False) -> str:
    """The text with ``MASK`` in the place of each secret; what is ``household`` only if asked."""
    for _ in range(MAX_PASSES):
        written, places = _mapped(text)
        everything = _found(written)
        found = [one for one in everything if household or not one.is_household]
        if not found:
            seen = _seen(text)
            left = everything if seen == written else _found(seen)
            return MASK if any(household or not one.is_household for one in left) else text
        cuts = [(places[one.start], places[one.end - 1] + 1) for one in found]
        text = MASK.join(between(unicodedata.normalize("NFC", text), cuts))
    return MASK


def is_alone(text: str) -> bool:
    """Whether a message may be a secret that the message before it announced."""
    seen = _seen(text).strip()
    return ALONE.fullmatch(seen) is not None and PUBLIC.fullmatch(seen) is None


def completes(before: str, text: str) -> Secret | None:
    """The secret that a message is, after one that announced it: "мой пароль", "qwerty123".

    A plain word is one only after a colon, a dash or "is", or in another alphabet.
    """
    seen, told = _seen(text).strip(), _seen(before).strip()[-MAX_ANNOUNCED:]
    if MASK in told or told.endswith("?") or not is_alone(text):
        return None
    is_other = seen.isascii() and not told.isascii()
    if PLAIN_WORD.fullmatch(seen) and not is_other and not ANNOUNCED.search(told):
        return None
    told = told.rstrip(" :-.,!")
    both = f"{told}: {seen}"
    if WORDS.fullmatch(seen) and SEEDS.search(both) is None:
        return None
    found = [one for one in _found(both) if one.start > len(told)]
    return found[-1] if found else None


def refers_back(text: str) -> bool:
    """Whether a message says what the one before it is: "that's my password"."""
    return THIS_IS.match(_seen(text)) is not None


def secrets_of(text: str) -> list[str]:
    """The secrets of a text, as written."""
    written, places = _mapped(text)
    whole = unicodedata.normalize("NFC", text)
    return [whole[places[one.start] : places[one.end - 1] + 1] for one in _found(written)]


def asks_for(text: str, name: str) -> bool:
    """Whether a text asks for a private fact by its name: the code, and of which door.

    Args:
        text: What the user says.
        name: The fact, masked.
    """
    if WIFI.search(text) is not None and WIFI.search(name) is not None:
        return True
    if SECRET_WORD.search(text) is None:
        return False
    asked, told = (SECRET_WORD.sub(" ", one) for one in (text, name))
    if (doors := _doors(asked)) and _doors(told):
        return not doors.isdisjoint(_doors(told))
    return bool(shared(asked, told)) or not content(told)


def _doors(text: str) -> set[str]:
    return {term for match in DOOR.finditer(text) for term in terms(match.group())}


def _seen(text: str) -> str:
    visible = INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    return single_spaced(visible.translate(TYPOGRAPHY))


def _mapped(text: str) -> tuple[str, list[int]]:
    """The text as ``_seen`` has it, and for each character its place in the NFC of the text."""
    written: list[str] = []
    places: list[int] = []
    for place, raw in enumerate(unicodedata.normalize("NFC", text)):
        folded = unicodedata.normalize("NFKC", raw)
        for one in INVISIBLE.sub("", folded).translate(TYPOGRAPHY):
            character = ("\n" if one in LINE_ENDS else " ") if one.isspace() else one
            if character.isspace() and (not written or written[-1].isspace()):
                if written and character == "\n":
                    written[-1] = "\n"
                continue
            written.append(character)
            places.append(place)
    return "".join(written), places


def _found(seen: str) -> list[Secret]:
    """The secrets of a text as ``_seen`` leaves it, apart from each other and in order."""
    undated = DATE.sub(lambda match: "/" * len(match.group()), seen)
    opened = [m for door in DOORS for m in door.finditer(undated)]
    opened += [m for one in opened if (m := _code_behind(one)) is not None]
    house = [Secret(*_span(m), True) for m in opened if not m.groupdict().get("public")]
    worded = _passwords(undated)
    worded += [
        Secret(*_span(m), _is_household(m.group()))
        for pattern in WORDED
        for m in pattern.finditer(undated)
    ]
    worded += [Secret(*_span(m, m.lastgroup or "v")) for m in SEEDS.finditer(undated)]
    sure = [Secret(*m.span()) for m in KEYS.finditer(seen)]
    sure += [Secret(*m.span()) for m in DIGIT_GROUPS.finditer(undated) if _holds_card(m.group())]
    sure += [Secret(*m.span()) for m in IBAN.finditer(seen) if _is_iban(m.group())]
    random = [Secret(*m.span()) for m in TOKEN.finditer(seen) if _looks_random(m.group())]
    announced = [one for one in [*house, *worded] if not seen.startswith(MASK, one.start)]
    return _merged(announced, sure, random)


def _code_behind(door: re.Match[str]) -> re.Match[str] | None:
    start, end = _span(door)
    return CODE_BEHIND.match(door.string, end) if end - start <= SHORT_CODE else None


def _passwords(text: str) -> list[Secret]:
    """What follows the word; not what a second match announces across the first secret."""
    found = [
        (
            match.start(),
            Secret(*_password_span(text, match), _is_household(_before(text, match))),
        )
        for pattern in PASSWORDS
        for match in pattern.finditer(text)
    ]
    starts = sorted(one.start for _, one in found)
    return [one for begin, one in found if starts[bisect(starts, begin)] == one.start]


def _merged(
    announced: Sequence[Secret], sure: Sequence[Secret], random: Sequence[Secret]
) -> list[Secret]:
    """One secret where several overlap; a card is one whatever it is announced as."""
    kinds = [(one, 0) for one in random] + [(one, 1) for one in announced]
    merged: list[tuple[Secret, int]] = []
    for one, rank in sorted([*kinds, *((one, 2) for one in sure)], key=lambda pair: pair[0].start):
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
    """Where the secret stands; what a word goes on with belongs to it."""
    start, end = match.span(name)
    text = match.string[start:end].rstrip(" -")
    start += len(text) - len(text.lstrip())
    end = match.start(name) + len(text)
    while end < len(match.string) and match.string[end].isalnum():
        end += 1
    return start, end


def _is_household(told: str) -> bool:
    return HOUSEHOLD.search(told) is not None and PAYS.search(told) is None


def _before(text: str, match: re.Match[str]) -> str:
    return text[max(0, match.start() - NEAR) : match.start("v")]


def _password_span(text: str, match: re.Match[str]) -> tuple[int, int]:
    """A password: in quotes, one word with signs or digits in it, or words up to a sign."""
    start = match.start("v")
    if text[start] in "\"'" and (closing := text.find(text[start], start + 1)) > 0:
        return start, closing + 1
    end = WORD_END.behind(text, start)
    first = text[start:end]
    if first.rstrip(".,;!?").isalpha():
        stop = AFTER.search(text, start)
        return start, stop.start() if stop else len(text)
    if (bare := first.rstrip(".,;")) and bare != first:
        return start, start + len(bare)
    return start, TAIL.behind(text, end)


def _holds_card(digits: str) -> bool:
    """Whether neighbouring groups of digits make up the number of a payment card."""
    groups = re.findall(r"\d+", digits)
    for first in range(len(groups)):
        number = ""
        for last in groups[first : first + len(CARD_DIGITS)]:
            number += last
            if len(number) in CARD_DIGITS and number[0] in "23456" and luhn.is_valid(number):
                return True
            if len(last) < MIN_GROUP or len(number) >= CARD_DIGITS.stop:
                break
    return False


def _is_iban(found: str) -> bool:
    """Whether it is an account number of a country that has them, with the right check digits.

    The last group may be a word that only follows the number, so it counts with and without.
    """
    shorter = re.split(r"[ -](?=\w*$)", found)[0]
    return any(iban.is_valid(number, check_country=False) for number in (found, shorter))


def _looks_random(token: str) -> bool:
    """Whether upper case, lower case and digits alternate as only in keys and encoded text.

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


# The gate before the memory: which facts that a model proposes may be stored.
#
# A model invents, mixes things up and can be talked into things. These checks need no model and
# look at no wording: what is stored was said by the user, in their alphabet, with their
# numbers; it is no secret, and imitates nothing that only the program writes. That the user typed
# the words is known by their provenance (``MemoryWriter``).

Reason = Literal[
    "bad_dates", "empty", "too_long", "quote_not_said", "secret", "imitation", "question",
    "other_script", "number_not_said",
]  # fmt: skip

MIN_TEXT = 3  # characters; a shorter text says nothing
MAX_TEXT = 400  # one sentence, perhaps two
MAX_WHOLE = 4096  # of a whole message that is to be remembered as it stands; Telegram's limit
MAX_QUOTE = 1000
MAX_PART = 400  # characters of the subject, the relation and the object
EDGES = " \"'.,;:!?()-…"  # around a quote, where models add and drop signs

# Words that make 7 o'clock 19:00.
AFTERNOON = lexicon.Expression(r"\b<gate.afternoon>\b")
THOUSANDS = re.compile(r"(?<=\d)[ '](?=\d{3}(?!\d))")
ZERO_MINUTES = re.compile(r"(?<=\d)[:.]00(?!\d)")


def refuse(
    candidate: Fact, said: str, *, allowed_numbers: frozenset[str] = frozenset()
) -> Reason | None:
    """Why the fact may not be stored; None when it may.

    Args:
        candidate: The fact as the model proposes it.
        said: The user's message, without the time label.
        allowed_numbers: Numbers that were not said and are right nevertheless, such as those of
            the date that "завтра" was resolved to: "2026-03-01", or its parts.

    Secrets come before every other reason, because a "secret" must not be written anywhere, not
    even to the list of refused facts.
    """
    parts = (candidate.text, candidate.subject, candidate.relation, candidate.object)
    if any(MASK in part or holds_secret(part) for part in (*parts, candidate.quote)):
        return "secret"
    is_whole = plain(candidate.text) == plain(candidate.quote) == plain(said)
    if (reason := _shape(candidate, MAX_WHOLE if is_whole else MAX_TEXT)) is not None:
        return reason
    if not _was_said(plain(candidate.quote).strip(EDGES), plain(said)):
        return "quote_not_said"
    if any(map(imitates, (*parts, candidate.quote))):
        return "imitation"
    if _only_asks(candidate):
        return "question"
    if not _same_alphabet(candidate.text, candidate.quote, said):
        return "other_script"
    numbers = _said_numbers(candidate.quote, said) | _digits(" ".join(allowed_numbers))
    written = (candidate.text, THOUSANDS.sub("", plain(candidate.text)))
    return None if any(_digits(text) <= numbers for text in written) else "number_not_said"


def _shape(candidate: Fact, longest: int) -> Reason | None:
    """What is wrong with the fields by themselves."""
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


def _was_said(quote: str, said: str) -> bool:
    """Whether the quote stands in the message, beginning and ending where words do.

    Both are as ``plain`` leaves them.
    """
    start = said.find(quote)
    while start >= 0:
        end = start + len(quote)
        cut_before = start > 0 and said[start - 1].isalnum() and quote[0].isalnum()
        cut_after = said[end : end + 1].isalnum() and quote[-1].isalnum()
        if not cut_before and not cut_after:
            return True
        start = said.find(quote, start + 1)
    return False


def _only_asks(candidate: Fact) -> bool:
    """Whether the fact, or all that the user said of it, is a question by its mark."""
    if candidate.text.rstrip().endswith("?"):
        return True
    quote = plain(candidate.quote)
    return quote.endswith("?") and not re.search(r"[.!?,;:]", quote[:-1])


def _same_alphabet(text: str, quote: str, said: str) -> bool:
    """Whether the fact is written in the alphabet of the quote.

    Words that both have (names, brands) count on neither side; when the quote has no others, the
    rest of the message counts. A fact with letters that only Russian has does not come from a
    quote with letters that only Ukrainian has, nor the other way round.
    """
    words, quoted = set(normalise(text).split()), set(normalise(quote).split())
    ours, theirs = "".join(words - quoted), "".join(quoted - words)
    if _script(theirs) is None:
        theirs = "".join(set(normalise(said).split()) - words)
    if None not in (_script(ours), _script(theirs)) and _script(ours) != _script(theirs):
        return False
    written, heard = _languages(ours), _languages(theirs)
    return len(written) != 1 or not heard or not written.isdisjoint(heard)


def _languages(letters: str) -> frozenset[str]:
    """The languages of which letters there are that no other language has."""
    own = lexicon.by_language("language.letters")
    return frozenset(code for code, listed in own if not set(letters).isdisjoint(listed.split()))


def _script(text: str) -> str | None:
    """The script of most letters, as Unicode names it ("CYRILLIC"); None without letters."""
    letters = Counter(character for character in text if character.isalpha())
    scripts: Counter[str] = Counter()
    for letter, times in letters.items():
        scripts[unicodedata.name(letter, "?").split()[0]] += times
    return max(scripts, key=lambda script: scripts[script], default=None)


def _digits(text: str) -> set[str]:
    """The numbers in digits of a text, without zeros before them; 15:00 is 15."""
    return {run.lstrip("0") or "0" for run in re.findall(r"\d+", ZERO_MINUTES.sub("", text))}


def _said_numbers(quote: str, said: str) -> set[str]:
    """Every number that the user may have meant: digits, words, 7 in the evening as 19."""
    text = plain(f"{quote} {said}")
    read = " ".join(read_numbers(normalise(text).split(), ordinals=True))
    numbers = _digits(text) | _digits(THOUSANDS.sub("", text)) | _digits(read)
    if AFTERNOON.search(text):
        numbers |= {str(int(hour) + 12) for hour in numbers if len(hour) < 3 and int(hour) < 12}
    return numbers
