"""What must never be stored: card numbers, passwords, keys and numbers of documents.

Every check looks for a secret, not for the mere mention of one: "забыл пароль" may be stored,
"пароль от почты: ..." may not. A doubtful case is refused; the user can write the fact without
the secret. All expressions are linear: their repetitions are bounded or cannot overlap.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

from stdnum import iban, luhn

from src.language import lexicon
from src.language.plain_text import INVISIBLE, TYPOGRAPHY, single_spaced

CARD_DIGITS = range(13, 20)  # ISO/IEC 7812: a card number has 13 to 19 digits
MIN_GROUP = 3  # digits; card numbers are written in groups of 4, 5 or 6, the last may be shorter
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

# Keys that show what they are by how they begin.
KEYS = re.compile(
    r"\bsk-[\w-]{12,}|\b[sprw]k_(?:live|test)_\w{8,}|\bgh[opsur]_\w{16,}|\bgithub_pat_\w{16,}"
    r"|\bglpat-[\w-]{12,}|\bxox[abeprs]-[\w-]{8,}|\b(?:AKIA|ASIA)[A-Z0-9]{12,}|\bAIza[\w-]{24,}"
    r"|\bya29\.[\w-]{16,}|\bhf_\w{16,}|\bnpm_\w{24,}|\beyJ[\w-]{8,}|\b\d{5,12}:AA[\w-]{8,}"
    r"|\b\d{8,12}:[\w-]{30,}|-----BEGIN [A-Z ]{0,30}PRIVATE KEY|\bbearer\s+[\w.~+/-]{16,}"
    r"|://[^\s/:@]{1,64}:[^\s/@]{1,64}@",
    re.ASCII,
)

_PASSWORD = r"\b<secrets.password>"
# After "пароль": words that tell something about the password instead of being it.
_TALK = r"(?!(?:<secrets.talk>|<secrets.talk_whole>\b)\w*)"

# Words that announce a secret, and the secret after them.
WORDED = tuple(
    lexicon.Expression(source, re.IGNORECASE)
    for source in (
        # "пароль от вайфая: ...", "my password is ...", "пароль — ..."
        rf"{_PASSWORD}\b[^.!?\n:=]{{0,40}}?\s*[:=]\s*\S",
        rf"{_PASSWORD}\b(?:\s+<secrets.for>)?(?:\s+[\w'-]+){{0,3}}?\s+(?:<secrets.is>|-)\s+\S",
        # "пароль от вайфая солнышко2020", "password hunter2", "пароль 1234": a digit, or quotes
        rf"{_PASSWORD}(?:\s+<secrets.for>\s+[\w'-]+(?:\s+[^\W\d]+)?)?\s+"
        r"(?:[\"']\S|(?!1password)(?=\S{0,30}\d)\S{4,})",
        # "пароль от вайфая солнышко", "мой пароль солнышко", "пароль qwerty"
        r"(?:^|[.!?,;:\n] ?|\b<secrets.own>\s+)<secrets.bare_password>\s+<secrets.for>\s+[\w'-]+"
        rf"\s+{_TALK}\w{{3,}}",
        rf"\b<secrets.mine>\s+<secrets.password>\s+{_TALK}\w{{3,}}",
        rf"\b<secrets.bare_password>\s+(?!wi|vpn|apple|google){_TALK}[a-z]{{4,}}\b",
        # PIN and CVV, before and after the number; codes of phones, safes and banks
        r"\b<secrets.pin>\b(?:[\s-]*<secrets.pin_code>)?(?:\s+<secrets.pin_between>)*"
        r"\s*[:=-]?\s*\d[\d ]{2,8}\b",
        r"\b<secrets.pin_joined>-?<secrets.code_tail>[^.!?\n\d]{0,30}\d{4,8}\b",
        r"\b\d{4,8}\s*(?:-|<secrets.is_this>)?\s*(?:my|<secrets.mine>)?\s*<secrets.pin>\b",
        r"\b<secrets.cvv>\b[^.!?\n\d]{0,30}\d{3,4}\b",
        r"\b\d{3,4}\s*(?:-|<secrets.is_this>)?\s*(?:my|<secrets.mine>)?\s*(?:cv[vc]2?)\b",
        r"\b<secrets.code>\s+<secrets.code_for>\s+(?:<secrets.my>\s+)?<secrets.locked>"
        r"[^.!?\n\d]{0,20}\d{3,}",
        # "api key: ...", "токен - ..."
        r"\b<secrets.key>\w{0,2}\s*(?:[:=-]|<secrets.seed_is>)\s*(?=\S{0,60}\d)\S{6,}",
        r"[?&](?:token|access_token|api_?key|key|password|secret|sig)=[^\s&]{6,}",
        # Recovery words of a wallet
        r"\b<secrets.seed>(?:[^.!?\n:=]{0,30}(?:[:=]|\s-\s|\b<secrets.seed_is>\b)\s*\w"
        r"|(?:[\s,]+\w+){8})",
        # Numbers of documents
        r"\b<secrets.document>\b[^.!?\n+\d]{0,40}"
        r"(?:\d[\s-]?){2,6}(?:[^\w+.!?\n]{0,3}<secrets.number>?\s?(?:\d[\s-]?)){4}",
        r"(?<!\d)\d{3}-\d{3}-\d{3}[ -]\d{2}(?!\d)",
        r"\biban\b\W{0,5}[a-z]{2}\d{2}",
    )
)


def holds_secret(text: str) -> bool:
    """Whether the text holds a number, a word or a key that lets others in or pay."""
    visible = INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    seen = single_spaced(visible.translate(TYPOGRAPHY))
    undated = DATE.sub("/", seen)
    return (
        KEYS.search(seen) is not None
        or any(pattern.search(undated) for pattern in WORDED)
        or any(_holds_card(match.group()) for match in DIGIT_GROUPS.finditer(undated))
        or any(_is_iban(match.group()) for match in IBAN.finditer(seen))
        or any(_looks_random(match.group()) for match in TOKEN.finditer(seen))
    )


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
