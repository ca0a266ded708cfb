"""``initData``: what Telegram tells a page about who opened it, signed with the bot's token."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl

from src.errors import AppError

MAX_CHARACTERS = 8192  # Telegram's has about 700
MAX_FIELDS = 50  # Telegram's has five to ten
MAX_AGE = 24 * 3600  # seconds since the page was opened
MAX_AHEAD = 60  # seconds that Telegram's clock may be before ours
MAX_ID = 2**52  # Telegram: ids have at most 52 significant bits
MAX_DIGITS = 12  # of a moment, in seconds since 1970


class UnverifiedError(AppError):
    """Nothing proves who opened the page."""

    text_key = "app_unauthorized"


class ExpiredError(UnverifiedError):
    """The page was opened too long ago."""

    text_key = "app_expired"


@dataclass(frozen=True)
class Visitor:
    """Who opened the page.

    Attributes:
        user_id: The Telegram id.
        is_bot: Whether it is a bot.
        language_code: The language of the Telegram application, an IETF tag.
    """

    user_id: int
    is_bot: bool = False
    language_code: str | None = None


def read_init_data(text: str, token: str, now: datetime) -> Visitor:
    """Who opened the page, if Telegram says so.

    aiogram's ``check_webapp_signature`` does the same sum and compares in constant time, too, but
    it takes the last of two fields of one name, leaves empty fields unsigned, replaces bytes that
    are no UTF-8, fails with a TypeError at a hash beyond ASCII, and looks at no age.

    Args:
        text: As Telegram handed it to the page: percent-encoded, ASCII.
        token: The bot's, whose page it is.
        now: Against which its age is held (aware).

    Raises:
        UnverifiedError: It is forged, malformed, or meant for another bot.
        ExpiredError: It is older than MAX_AGE.
    """
    fields = _fields(text)
    given = fields.pop("hash", "")
    if not hmac.compare_digest(_sign(fields, token).encode(), given.encode()):
        raise UnverifiedError("the signature of initData is not Telegram's")
    _check_age(fields.get("auth_date", ""), now)
    return _visitor(fields.get("user", ""))


def _fields(text: str) -> dict[str, str]:
    """The fields by name, each of which stands there once."""
    if len(text) > MAX_CHARACTERS or not text.isascii():
        raise UnverifiedError("initData is too long, or no ASCII")
    try:
        pairs = parse_qsl(
            text, keep_blank_values=True, strict_parsing=True, errors="strict",
            max_num_fields=MAX_FIELDS,
        )  # fmt: skip
    except ValueError as error:
        raise UnverifiedError("initData is no query string of UTF-8") from error
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise UnverifiedError("a field of initData stands there twice")
    return fields


def _sign(fields: Mapping[str, str], token: str) -> str:
    """The sum that Telegram would have made.

    Source: https://core.telegram.org/bots/webapps#validating-data-received-via-the-mini-app
    """
    signed = "\n".join(f"{name}={value}" for name, value in sorted(fields.items()))
    key = hmac.new(b"WebAppData", token.encode(), hashlib.sha256).digest()
    return hmac.new(key, signed.encode(), hashlib.sha256).hexdigest()


def _check_age(moment: str, now: datetime) -> None:
    if not (moment.isascii() and moment.isdigit() and len(moment) <= MAX_DIGITS):
        raise UnverifiedError("initData does not say when the page was opened")
    age = now.timestamp() - int(moment)
    if age < -MAX_AHEAD:
        raise UnverifiedError("initData is from the future")
    if age > MAX_AGE:
        raise ExpiredError("initData is too old")


def _visitor(user: str) -> Visitor:
    try:
        told: Any = json.loads(user)
    except (ValueError, RecursionError) as error:
        raise UnverifiedError("initData does not say who opened the page") from error
    number = told.get("id") if isinstance(told, dict) else None
    if type(number) is not int or not 0 < number < MAX_ID:
        raise UnverifiedError("initData names nobody")
    code = told.get("language_code")
    is_bot = told.get("is_bot", False) is not False
    return Visitor(number, is_bot, code if isinstance(code, str) else None)
