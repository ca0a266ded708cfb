"""Buttons: those of replies, and those under an answer (its sources, and what takes back)."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from datetime import datetime

from aiogram.exceptions import AiogramError
from aiogram.types import CallbackQuery, InlineKeyboardButton, InlineKeyboardMarkup, Message

from src.services.reminder_screens import cancel_button
from src.services.reply import Action, Button, Rows, in_rows
from src.storage.memory_rows import message_number
from src.storage.turn_repo import AnswerSource, Changes, StoredAnswer
from src.texts import Language, say
from src.texts.days import day_text

MAX_SOURCES = 8  # buttons; an answer that cites more is followed by the first ones
PER_ROW = 4  # of them, still readable on a phone
MAX_UNDO = 4  # buttons; /memory and /undo reach the rest
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
    rows = in_rows(sources, PER_ROW) + in_rows(_undo_buttons(answer.changes, language), 1)
    if answer.asks == "erase_all":
        words = enumerate(("no", "yes"))
        asked = [
            Button(say(f"erase_{word}", language), Action("erase", (n,))) for n, word in words
        ]
        rows += (tuple(reversed(asked)),)
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


def _undo_buttons(changes: Changes, language: Language) -> list[Button]:
    """A button for each change, those that cost something first."""
    buttons = []
    if changes.forgetting is not None:
        action = Action("recall", (changes.forgetting,))
        buttons.append(Button(say("undo_forgot_button", language), action))
    for ids, key in ((changes.replaced_by, "undo_button"), (changes.saved, "undo_saved_button")):
        label = say(key, language)
        buttons += [
            Button(f"{label} ({number})" if len(ids) > 1 else label, Action("undo", (memory_id,)))
            for number, memory_id in enumerate(ids, start=1)
        ]
    reminders = [cancel_button(number, language) for number in changes.reminders]
    return [*_numbered(reminders), *buttons][:MAX_UNDO]


def _numbered(buttons: list[Button]) -> list[Button]:
    """The same, told apart by numbers where there are several."""
    if len(buttons) == 1:
        return buttons
    return [replace(one, label=f"{one.label} ({n})") for n, one in enumerate(buttons, start=1)]
