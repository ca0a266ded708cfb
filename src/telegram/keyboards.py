"""Replies as Telegram shows them: buttons, those under an answer, and files."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import ExitStack
from datetime import datetime

from aiogram.exceptions import AiogramError
from aiogram.types import (
    CallbackQuery,
    ForceReply,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    Message,
    WebAppInfo,
)

from src.base.zones import day_text
from src.history.turn_repo import AnswerSource, StoredAnswer
from src.memory.memory_repo import message_number
from src.talk.command_service import choice_rows, undo_buttons
from src.telegram.delivery import Address, Delivery
from src.texts import Language, say
from src.texts.reply import Action, Button, Reply, Rows, in_rows

MAX_SOURCES = 8  # buttons; an answer that cites more is followed by the first ones
PER_ROW = 4  # of them, still readable on a phone
BEST_EFFORT = 10  # seconds for what the user can do without


def build_keyboard(rows: Rows) -> InlineKeyboardMarkup | None:
    """The buttons as Telegram takes them, or None when there are none."""
    if not rows:
        return None
    return InlineKeyboardMarkup(inline_keyboard=[[_button(one) for one in row] for row in rows])


def answer_rows(
    answer: StoredAnswer, *, now: datetime, language: Language, time_zone: str
) -> Rows:
    """The buttons under an answer.

    Args:
        answer: With its sources, and with what its turn changed.
        now: Days of this year go without it (aware).
        language: Of the labels.
        time_zone: The owner's, a tz database name: it decides which day it was.
    """
    sources = [
        Button(
            f"{numbers} {day_text(source.said_at, now, language, time_zone)}",
            Action("source", (message_number(source.uid) or 0,)),
        )
        for numbers, source in _with_messages(answer)[:MAX_SOURCES]
    ]
    rows = in_rows(sources, PER_ROW) + in_rows(undo_buttons(answer.changes, language), 1)
    if answer.asks == "erase_all":
        words = enumerate(("no", "yes"))
        asked = [
            Button(say(f"erase_{word}", language), Action("erase", (n,))) for n, word in words
        ]
        rows += (tuple(reversed(asked)),)
    if answer.asks == "conflict":
        rows += choice_rows(answer.id, language)
    return rows


async def stop_waiting(query: CallbackQuery) -> None:
    """Take the waiting sign off a button; it goes by itself when Telegram does not hear us."""
    with contextlib.suppress(AiogramError, TimeoutError):
        async with asyncio.timeout(BEST_EFFORT):
            await query.answer()


async def remove_button(query: CallbackQuery) -> None:
    """Take a button away that has done its work, as far as Telegram still lets us."""
    message = query.message
    if not isinstance(message, Message) or message.reply_markup is None:
        return
    rows = [
        [button for button in row if button.callback_data != query.data]
        for row in message.reply_markup.inline_keyboard
    ]
    rest = [row for row in rows if row]
    keyboard = InlineKeyboardMarkup(inline_keyboard=rest) if rest else None
    with contextlib.suppress(AiogramError, TimeoutError):
        async with asyncio.timeout(BEST_EFFORT):
            await message.edit_reply_markup(reply_markup=keyboard)


def _button(button: Button) -> InlineKeyboardButton:
    if button.url is not None:
        return InlineKeyboardButton(text=button.label, web_app=WebAppInfo(url=button.url))
    return InlineKeyboardButton(text=button.label, callback_data=button.action.pack())


def _with_messages(answer: StoredAnswer) -> list[tuple[str, AnswerSource]]:
    """The sources that are messages, each message once, with all its numbers: ``[1][3]``.

    A summary has no place to lead to.
    """
    by_uid: dict[str, list[AnswerSource]] = {}
    for source in answer.sources:
        if message_number(source.uid) is not None:
            by_uid.setdefault(source.uid, []).append(source)
    return [("".join(f"[{s.number}]" for s in told), told[0]) for told in by_uid.values()]


async def show_reply(
    delivery: Delivery, address: Address, reply: Reply, *, replacing: int | None = None
) -> None:
    """Send a reply, or let it take the place of the message ``replacing``.

    Raises:
        DeliveryError: It did not arrive; worth another try.
        ChatUnavailableError: Nothing can be sent to this chat.
    """
    with ExitStack() as files:
        for file in reply.files:
            files.enter_context(file.content)
        await _show_text(delivery, address, reply, replacing)
        for file in reply.files:
            await delivery.send_file(address, file)


async def _show_text(
    delivery: Delivery, address: Address, reply: Reply, replacing: int | None
) -> None:
    if reply.asks or reply.corrects is not None:
        await delivery.send_text(address, reply.text, keyboard=ForceReply(selective=True))
        return
    keyboard = build_keyboard(reply.rows)
    if replacing is None:
        await delivery.send_text(address, reply.hinted, keyboard=keyboard)
    else:
        await delivery.show_screen(address, replacing, reply.hinted, keyboard=keyboard)
