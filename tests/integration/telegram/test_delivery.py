"""Sending an answer to the end, whatever Telegram says."""

from __future__ import annotations

from typing import Any

import pytest
from aiogram import Bot

from src.base.errors import (
    AppError,
    ChatUnavailableError,
    DeliveryError,
    DeliveryRefusedError,
    DeliveryUnknownError,
    PlaceLostError,
)
from src.telegram.delivery import Address, Delivery
from src.telegram.rendering import render
from src.telegram.requests import QUICK_RETRIES
from tests.fakes.telegram_server import FakeTelegram

USER = 2**41 + 7
GROUP = -1_001_234_567_890
LONG = "\n\n".join(f"абзац {number} " + "слово " * 100 for number in range(20))


@pytest.fixture
def moves() -> list[tuple[int, int]]:
    """The migrations that the delivery reported."""
    return []


@pytest.fixture
def delivery(bot: Bot, moves: list[tuple[int, int]]) -> Delivery:
    async def note(old: int, new: int) -> None:
        moves.append((old, new))

    return Delivery(bot, note)


async def send_answer(delivery: Delivery, address: Address, markdown: str, **options: Any) -> int:
    """Send an answer; returns the number of its messages."""
    parts = await render(markdown)
    await delivery.send_answer(address, parts, **options)
    return len(parts)


def refuse(fake: FakeTelegram, method: str, description: str, times: int = 1) -> None:
    fake.fail_next(method, status=400, description=f"Bad Request: {description}", times=times)


async def test_a_long_answer_comes_in_order_and_tells_of_each_part(
    fake: FakeTelegram, delivery: Delivery
) -> None:
    arrived: list[tuple[int, int]] = []

    async def note(parts: int) -> None:
        arrived.append((parts, len(fake.sent_to(USER))))

    count = await send_answer(delivery, Address(USER), LONG, on_part=note)
    sent = "".join(message.text for message in fake.sent_to(USER))
    assert count == len(fake.sent_to(USER)) >= 3
    assert arrived == [(number, number) for number in range(1, count)]
    assert [sent.index(f"абзац {number} ") for number in range(20)] == sorted(
        sent.index(f"абзац {number} ") for number in range(20)
    )


async def test_refused_formatting_goes_as_plain_text(
    fake: FakeTelegram, delivery: Delivery
) -> None:
    refuse(fake, "sendMessage", "can't parse entities: Can't find end of the entity")
    await send_answer(delivery, Address(USER), "это **важно**")
    [sent] = fake.sent_to(USER)
    assert sent.text == "это важно" and sent.entities == []


async def test_the_shown_beginning_becomes_the_first_part(
    fake: FakeTelegram, bot: Bot, delivery: Delivery
) -> None:
    shown = await bot.send_message(GROUP, "нача")
    count = await send_answer(delivery, Address(GROUP), LONG, edit=shown.message_id)
    messages = fake.sent_to(GROUP)
    assert len(messages) == count and messages[0].message_id == shown.message_id
    assert messages[0].text.startswith("абзац 0") and len(messages[0].edits) == 1


async def test_an_edit_that_changes_nothing_is_a_success(
    fake: FakeTelegram, bot: Bot, delivery: Delivery
) -> None:
    shown = await bot.send_message(GROUP, "ответ")
    assert await send_answer(delivery, Address(GROUP), "ответ", edit=shown.message_id) == 1
    assert [call.status for call in fake.calls_of("editMessageText")] == [400]
    assert len(fake.sent_to(GROUP)) == 1
    wait = {"retry_after": 10**12}
    fake.fail_next("editMessageText", status=429, description="Too Many", parameters=wait)
    await send_answer(delivery, Address(GROUP), "начало", edit=shown.message_id)
    texts = [sent.text for sent in fake.sent_to(GROUP)]
    assert texts == ["ответ", "начало"], "an edit that may not be made for long is replaced"


@pytest.mark.parametrize("edit", [999_999, None])
async def test_a_message_that_cannot_be_edited_is_replaced_by_a_new_one(
    fake: FakeTelegram, delivery: Delivery, edit: int | None
) -> None:
    own = edit or await fake.send_text(USER, "не моё", chat_id=GROUP, chat_type="supergroup")
    await send_answer(delivery, Address(GROUP), "ответ", edit=own)
    assert [sent.text for sent in fake.sent_to(GROUP)] == ["ответ"]
    assert [call.ok for call in fake.calls_of("editMessageText")] == [False]


async def test_the_beginning_of_an_answer_that_comes_anew_is_taken_away(
    fake: FakeTelegram, bot: Bot, delivery: Delivery
) -> None:
    shown = await bot.send_message(GROUP, "нача")
    refuse(fake, "editMessageText", "message is too strange")
    await send_answer(delivery, Address(GROUP), "начало", edit=shown.message_id)
    assert [sent.text for sent in fake.sent_to(GROUP) if not sent.deleted] == ["начало"]


async def test_telegram_fetches_no_preview(fake: FakeTelegram, delivery: Delivery) -> None:
    await send_answer(delivery, Address(USER), "[тут](https://evil.example/?q=secret)")
    await delivery.send_text(Address(USER), "⏰ https://example.org")
    await delivery.send_notice(Address(GROUP, person=USER), "https://example.org")
    assert {str(one.link_preview) for one in fake.sent} == {"{'is_disabled': True}"}


async def test_a_long_flood_wait_is_the_queue_s(fake: FakeTelegram, delivery: Delivery) -> None:
    fake.fail_next(
        "sendMessage", status=429, description="Too Many", parameters={"retry_after": 77}
    )
    with pytest.raises(DeliveryError) as caught:
        await send_answer(delivery, Address(USER), "ответ")
    assert caught.value.retry_after == 77
    assert len(fake.calls_of("sendMessage")) == 1


async def test_a_failing_telegram_is_tried_quickly_and_then_left_to_the_queue(
    fake: FakeTelegram, delivery: Delivery
) -> None:
    fake.fail_next("sendMessage", times=2)
    await send_answer(delivery, Address(USER), "раз")
    assert [sent.text for sent in fake.sent_to(USER)] == ["раз"]
    fake.fail_next("sendMessage", times=QUICK_RETRIES + 1)
    with pytest.raises(DeliveryError) as caught:
        await send_answer(delivery, Address(USER), "два")
    assert not isinstance(caught.value, DeliveryUnknownError)
    assert [sent.text for sent in fake.sent_to(USER)] == ["раз"]


@pytest.mark.parametrize(("address", "reason", "error"), [
    (Address(USER), "chat not found", ChatUnavailableError),
    (Address(USER), "user is deactivated", ChatUnavailableError),
    (Address(USER), "PEER_ID_INVALID", ChatUnavailableError),
    (Address(USER), "message is too strange", DeliveryRefusedError),
    (Address(GROUP, 5), "TOPIC_CLOSED", PlaceLostError),
    (Address(GROUP, 5), "CHAT_WRITE_FORBIDDEN", PlaceLostError),
])  # fmt: skip
async def test_each_refusal_is_told_from_the_others(
    fake: FakeTelegram, delivery: Delivery, address: Address, reason: str, error: type[AppError]
) -> None:
    fake.refuse_sends(address.chat_id, 400, f"Bad Request: {reason}")
    with pytest.raises(error):
        await send_answer(delivery, address, "ответ")


@pytest.mark.parametrize("edit", [None, 5])
async def test_a_group_that_moved_gets_its_answer_in_its_new_place(
    fake: FakeTelegram, delivery: Delivery, moves: list[tuple[int, int]], edit: int | None
) -> None:
    for method in ("sendMessage", "editMessageText"):
        fake.fail_next(
            method,
            status=400,
            description="Bad Request: group chat was upgraded to a supergroup chat",
            parameters={"migrate_to_chat_id": GROUP},
        )
    await send_answer(delivery, Address(-17, 0, 3), "ответ", edit=edit)
    assert [sent.text for sent in fake.sent_to(GROUP)] == ["ответ"]
    assert moves == [(-17, GROUP)]


async def test_a_private_chat_never_becomes_a_group(
    fake: FakeTelegram, delivery: Delivery, moves: list[tuple[int, int]]
) -> None:
    fake.fail_next(
        "sendMessage", status=400, description="upgraded", parameters={"migrate_to_chat_id": GROUP}
    )
    with pytest.raises(DeliveryRefusedError):
        await send_answer(delivery, Address(USER), "ответ")
    assert moves == [] and fake.sent == []


@pytest.mark.parametrize("trouble", ["drop", "garbage"])
async def test_an_unanswered_request_is_unknown_and_not_repeated(
    fake: FakeTelegram, delivery: Delivery, trouble: str
) -> None:
    if trouble == "drop":
        fake.drop_next("sendMessage", when="after")
    else:
        fake.garbage_next("sendMessage")
    with pytest.raises(DeliveryUnknownError):
        await send_answer(delivery, Address(USER), "ответ")
    assert len(fake.calls_of("sendMessage")) == 1


async def test_no_connection_is_certain_and_tried_again_quickly(
    fake: FakeTelegram, delivery: Delivery
) -> None:
    await fake.stop()
    with pytest.raises(DeliveryError) as caught:
        await send_answer(delivery, Address(USER), "ответ")
    assert not isinstance(caught.value, DeliveryUnknownError)
    await fake.start()
    await send_answer(delivery, Address(USER), "ответ")
    assert len(fake.sent_to(USER)) == 1
