"""Whatever Telegram answers is a result, or the error that its status asks for."""

from __future__ import annotations

import gc
import json
import weakref
from functools import cache
from typing import Any

import pytest
from aiogram import Bot
from aiogram.exceptions import (
    AiogramError,
    ClientDecodeError,
    TelegramAPIError,
    TelegramRetryAfter,
)
from aiogram.methods import GetFile, GetMe, SendChatAction, SendMessage

from src.base.errors import DeliveryError, DeliveryNonsenseError, DeliveryRefusedError
from src.queue.workers import MAX_REQUESTED_PAUSE, retry_delay
from src.telegram.requests import FLOOD_PAUSE, UNKNOWN_ID, TelegramSession, delivery_error
from tests.attacks.status_walk import ENDLESS, FORMS, STATUSES

METHOD = SendMessage(chat_id=1, text="слова пользователя")


@cache
def bot() -> Bot:
    """One for all: each takes 30 ms to read certificates."""
    return Bot("42:TEST", TelegramSession())


def error_of(status: int, body: Any) -> AiogramError:
    """What an answer raises."""
    content = body if isinstance(body, str) else json.dumps(body)
    with pytest.raises(AiogramError) as caught:
        bot().session.check_response(bot(), METHOD, status, content)
    return caught.value


@pytest.mark.parametrize("status", STATUSES)
def test_every_form_of_every_status_is_an_error_that_a_delivery_knows(status: int) -> None:
    for form, body in {**FORMS, **ENDLESS}.items():
        if status < 300 and form.startswith("ok"):
            continue  # it is taken
        error = error_of(status, body(status).decode(errors="replace"))
        ours = delivery_error(error)
        assert isinstance(ours, DeliveryError | DeliveryRefusedError), form
        assert 0 <= retry_delay(ours, 3) <= MAX_REQUESTED_PAUSE
        assert "слова" not in f"{error} {ours}"


@pytest.mark.parametrize(("seconds", "obeyed"), [
    (7, 7), (10**12, MAX_REQUESTED_PAUSE), (1.5, FLOOD_PAUSE), (float("inf"), FLOOD_PAUSE),
    ([], FLOOD_PAUSE),
])  # fmt: skip
def test_a_wait_is_obeyed_for_a_day_at_most(seconds: Any, obeyed: int) -> None:
    error = error_of(429, {"ok": False, "parameters": {"retry_after": seconds}})
    assert isinstance(error, TelegramRetryAfter)
    assert retry_delay(delivery_error(error), 0) == obeyed


def test_a_refusal_that_comes_as_a_success_is_one() -> None:
    for status in (200, 201):
        assert isinstance(error_of(status, {"ok": False, "description": "x"}), TelegramAPIError)


@pytest.mark.parametrize(
    "result", [True, "x", {"text": "слова пользователя"}, [{"message_id": "x"}]]
)
def test_what_telegram_says_it_has_taken_is_sent_whatever_else_it_says(result: Any) -> None:
    content = json.dumps({"ok": True, "result": result})
    sent = bot().session.check_response(bot(), METHOD, 200, content).result
    assert sent is not None and sent.message_id == UNKNOWN_ID


def test_what_another_bot_deletes_at_once_was_sent() -> None:
    words = "Internal Server Error: sent message was immediately deleted and can't be returned"
    content = json.dumps({"ok": False, "error_code": 500, "description": words})
    sent = bot().session.check_response(bot(), METHOD, 500, content).result
    assert sent is not None and sent.message_id == UNKNOWN_ID


@pytest.mark.parametrize(("method", "body"), [
    (GetFile(file_id="x"), {"ok": True, "result": True}), (GetMe(), {"ok": True, "result": []}),
    (METHOD, {"result": True}), (METHOD, "<html>слова пользователя"),
])  # fmt: skip
def test_a_success_that_cannot_be_read_may_have_arrived(method: Any, body: Any) -> None:
    content = body if isinstance(body, str) else json.dumps(body)
    with pytest.raises(ClientDecodeError) as caught:
        bot().session.check_response(bot(), method, 200, content)
    assert isinstance(delivery_error(caught.value), DeliveryNonsenseError)
    assert "слова" not in str(caught.value)


def test_the_model_of_an_answer_is_built_once() -> None:
    content, method = '{"ok": true, "result": true}', SendChatAction(chat_id=1, action="typing")
    model = weakref.ref(type(bot().session.check_response(bot(), method, 200, content)))
    gc.collect()
    assert model() is not None
