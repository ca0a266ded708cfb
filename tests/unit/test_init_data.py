"""``initData``: only what Telegram signed for this bot, lately and for a person, says who asks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest
from aiogram.utils.web_app import check_webapp_signature
from hypothesis import given
from hypothesis import strategies as st

from src.web.app_gate import (
    MAX_AGE,
    MAX_AHEAD,
    MAX_CHARACTERS,
    ExpiredError,
    UnverifiedError,
    Visitor,
    read_init_data,
)
from tests.fakes.init_data import sign, signed

TOKEN = "123456:ABC-def_token"
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
ANNA = 2**41 + 9


def read(text: str, token: str = TOKEN) -> Visitor:
    return read_init_data(text, token, NOW)


def opened(**changes: str) -> str:
    """Somebody opens the page now."""
    return signed(TOKEN, ANNA, NOW, **changes)


def resigned(raw: str) -> str:
    """Fields as they stand there, percent-encoded, with the sum that belongs to them."""
    return f"{raw}&hash={sign(dict(part.split('=', 1) for part in raw.split('&')), TOKEN)}"


def test_who_opened_the_page_is_read() -> None:
    assert read(opened()) == Visitor(ANNA, "ru")
    assert check_webapp_signature(TOKEN, opened()), "it is signed as aiogram, too, expects it"
    assert read(opened(start_param="day & ночь=1+1 %41\n")) == Visitor(ANNA, "ru")
    assert read(opened(chat_type="", signature="x_-" * 30)).user_id == ANNA
    for user in ('{"id": 7, "language_code": 5}', '{"id": 7}', '{"id": 7, "language_code": null}'):
        assert read(opened(user=user)) == Visitor(7)


MOMENT = f"auth_date={int(NOW.timestamp())}"


@pytest.mark.parametrize("text", [
    # Signed, but without a person or a moment.
    *map(resigned, ("user=%7B%22id%22%3A7%7D", MOMENT, f"{MOMENT}&user=",
                    f"{MOMENT}&user={quote('[' * 2000)}")),
    *(opened(user=user) for user in (
        '"7"', "[]", '{"id": "7"}', '{"id": true}', "{}",
        '{"id": 0}', '{"id": -100123}', f'{{"id": {2**52}}}',
        f'{{"id": {"9" * 4000}}}', '{"id": NaN}', '{"id": 7', '{"id": 1e400}')),
    *(opened(auth_date=moment) for moment in (
        "", "now", "1e9", "１７００００００００", "9" * 13, "9" * 5000, "1.5")),
    # Of another bot.
    *(signed(token, ANNA, NOW) for token in ("123456:ABC-def_toke", "654321:ABC-def_token", "")),
])  # fmt: skip
def test_what_names_no_person_at_a_moment_to_this_bot_is_refused(text: str) -> None:
    with pytest.raises(UnverifiedError):
        read(text)


def test_every_change_of_a_character_is_noticed() -> None:
    text = opened()
    for place in range(len(text)):
        changed = "x" if text[place] != "x" else "y"
        with pytest.raises(UnverifiedError):
            read(text[:place] + changed + text[place + 1 :])
    for end in range(len(text)):
        with pytest.raises(UnverifiedError):
            read(text[:end])


@pytest.mark.parametrize("spoil", [
    lambda text: text + "&more=1", lambda text: text + "&user=%7B%22id%22%3A7%7D",
    lambda text: text + "&hash=" + "0" * 64, lambda text: text[: text.index("&hash=")],
    lambda text: text[:-64] + text[-64:].upper().replace("0", "A"), lambda text: text + "&%FF=%FF",
    lambda text: text + "é", lambda text: text + "\ud800", lambda text: "tma " + text,
    lambda _text: "a" * 1_000_000, lambda _text: "&".join(f"f{number}=1" for number in range(500)),
    lambda _text: "%" * 8000,
])  # fmt: skip
def test_what_telegram_did_not_sign_is_refused(spoil: object) -> None:
    with pytest.raises(UnverifiedError):
        read(spoil(opened()))  # type: ignore[operator]


def test_a_page_is_good_for_a_day_and_for_a_clock_that_is_a_minute_late() -> None:
    def at(seconds: int) -> str:
        return signed(TOKEN, ANNA, NOW + timedelta(seconds=seconds))

    assert read(at(-MAX_AGE)).user_id == read(at(MAX_AHEAD)).user_id == ANNA
    with pytest.raises(ExpiredError):
        read(at(-MAX_AGE - 1))
    with pytest.raises(UnverifiedError) as early:
        read(at(MAX_AHEAD + 1))
    assert not isinstance(early.value, ExpiredError)
    with pytest.raises(UnverifiedError) as forged:
        read(signed("1:x", ANNA, NOW - timedelta(days=9)))
    assert not isinstance(forged.value, ExpiredError), "of what is forged no age is told"


def test_what_is_too_long_is_not_looked_at() -> None:
    assert len(opened(start_param="x" * 6000)) < MAX_CHARACTERS
    assert read(opened(start_param="x" * 6000)).user_id == ANNA
    with pytest.raises(UnverifiedError, match="too long"):
        read(opened(start_param="x" * MAX_CHARACTERS))


@given(st.text(max_size=300))
def test_no_text_is_anything_but_refused(text: str) -> None:
    with pytest.raises(UnverifiedError):
        read(text)
    with pytest.raises(UnverifiedError):
        read(f"user={text}&auth_date={text}&hash={text}")
