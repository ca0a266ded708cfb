"""Buttons under an answer: where its sources were said, and one to bring a replaced fact back."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import datetime
from typing import Annotated

from aiogram.exceptions import AiogramError
from aiogram.filters.callback_data import CallbackData
from aiogram.types import CallbackQuery, InlineKeyboardButton, InlineKeyboardMarkup, Message
from babel.dates import format_date, format_skeleton
from pydantic import Field

from src.storage.memory_rows import message_number
from src.storage.turn_repo import AnswerSource, StoredAnswer
from src.texts import Language, say
from src.time_zones import local_time

MAX_SOURCES = 8  # buttons; an answer that cites more is followed by the first ones
PER_ROW = 4  # of them, still readable on a phone
MAX_UNDO = 4  # buttons; /undo reaches the rest
BEST_EFFORT = 10  # seconds for what the user can do without


class SourceButton(CallbackData, prefix="source"):
    """Leads to the message ``uid`` (``msg-<id>``); at most 29 of the 64 bytes that there are."""

    uid: str


class UndoButton(CallbackData, prefix="undo"):
    """Takes back the replacement by the fact ``memory_id``, a bigint whoever sends it."""

    memory_id: Annotated[int, Field(gt=0, lt=2**63)]


class RecallButton(CallbackData, prefix="recall"):
    """Takes back the forgetting ``number``, a bigint whoever sends it."""

    number: Annotated[int, Field(gt=0, lt=2**63)]


class EraseButton(CallbackData, prefix="erase"):
    """Says yes or no to the question whether to erase everything."""

    agreed: bool


def build_keyboard(
    answer: StoredAnswer, *, now: datetime, language: Language, time_zone: str
) -> InlineKeyboardMarkup | None:
    """The buttons of an answer, or None when it needs none.

    Args:
        answer: With its sources, and with what it replaced.
        now: Days of this year go without it (aware).
        language: Of the labels.
        time_zone: The owner's, a tz database name: it decides which day it was.
    """
    sources = [
        InlineKeyboardButton(
            text=f"{numbers} {day_text(source.said_at, now, language, time_zone)}",
            callback_data=SourceButton(uid=source.uid).pack(),
        )
        for numbers, source in _with_messages(answer)[:MAX_SOURCES]
    ]
    rows = [sources[start : start + PER_ROW] for start in range(0, len(sources), PER_ROW)]
    rows += [[button] for button in _undo_buttons(answer, language)]
    if answer.asks == "erase_all":
        rows.append(_erase_buttons(language))
    return InlineKeyboardMarkup(inline_keyboard=rows) if rows else None


def day_text(moment: datetime, now: datetime, language: Language, time_zone: str) -> str:
    """The day of a moment as people say it: ``3 марта``, with the year unless it is this one."""
    day = local_time(moment, time_zone)
    if day.year == local_time(now, time_zone).year:
        return str(format_skeleton("MMMMd", day, locale=language))
    return str(format_date(day, "long", locale=language))


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


def _with_messages(answer: StoredAnswer) -> list[tuple[str, AnswerSource]]:
    """The sources that are messages, each message once, with all its numbers: ``[1][3]``.

    A summary has no place to lead to.
    """
    by_uid: dict[str, list[AnswerSource]] = {}
    for source in answer.sources:
        if message_number(source.uid) is not None:
            by_uid.setdefault(source.uid, []).append(source)
    return [("".join(f"[{s.number}]" for s in told), told[0]) for told in by_uid.values()]


def _undo_buttons(answer: StoredAnswer, language: Language) -> list[InlineKeyboardButton]:
    ids = answer.replaced_by[:MAX_UNDO]
    label = say("undo_button", language)
    recall = []
    if answer.forgetting is not None:
        data = RecallButton(number=answer.forgetting).pack()
        text = say("undo_forgot_button", language)
        recall = [InlineKeyboardButton(text=text, callback_data=data)]
    return recall + [
        InlineKeyboardButton(
            text=f"{label} ({number})" if len(ids) > 1 else label,
            callback_data=UndoButton(memory_id=memory_id).pack(),
        )
        for number, memory_id in enumerate(ids, start=1)
    ]


def _erase_buttons(language: Language) -> list[InlineKeyboardButton]:
    return [
        InlineKeyboardButton(
            text=say(f"erase_{word}", language),
            callback_data=EraseButton(agreed=word == "yes").pack(),
        )
        for word in ("yes", "no")
    ]
