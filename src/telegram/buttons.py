"""Buttons under messages: of answers and replies, shown, pressed, disabled."""

from typing import Any

from aiogram import exceptions, types

from src.base.owners import Caller
from src.history.turn_repo import StoredAnswer
from src.memory.memory_repo import message_number
from src.talk.notes import undo_buttons, wish_rows
from src.talk.questions import choice_rows
from src.talk.settings import zone_rows
from src.talk.turn_state import IncomingMessage
from src.telegram.requests import best_effort, is_not_modified
from src.texts import say
from src.texts.plain_text import shortened
from src.texts.reply import Action, Button, Rows, in_rows

Inline = types.InlineKeyboardMarkup

STOP_LABEL = "⏹"
MAX_SOURCES = 8  # buttons; further sources of an answer get none
SOURCES_PER_ROW = 4  # source buttons in a row, still readable on a phone
MAX_POPUP = 195  # characters; Telegram takes 200


def stop_keyboard(number: int) -> types.InlineKeyboardMarkup | None:
    """Return the button that stops the answer to the user's message ``number``."""
    return build_keyboard(((Button(STOP_LABEL, Action("halt", (number,))),),))


def build_keyboard(rows: Rows) -> types.InlineKeyboardMarkup | None:
    """Return the buttons as Telegram's markup, or None without buttons."""
    if not rows:
        return None
    keyboard = []
    for row in rows:
        shown = []
        for button in row:
            does: dict[str, Any] = {"callback_data": button.action.pack()}
            if button.url is not None:
                does = {"web_app": types.WebAppInfo(url=button.url)}
            shown.append(types.InlineKeyboardButton(text=button.label, **does))
        keyboard.append(shown)
    return types.InlineKeyboardMarkup(inline_keyboard=keyboard)


def answer_rows(answer: StoredAnswer, caller: Caller) -> Rows:
    """Return the buttons under an answer: sources, undo and zone buttons, a choice.

    The sources are messages, each with all its numbers: ``[1][3]``. There are no buttons for
    summaries, as there is no message to show for them.
    """
    language = caller.language
    numbers: dict[int, str] = {}
    days: dict[int, str] = {}
    for source in answer.sources:
        message = message_number(source.uid)
        if message is not None:
            numbers[message] = f"{numbers.get(message, '')}[{source.number}]"
            days.setdefault(message, caller.day(source.said_at))
    sources = [
        Button(f"{numbers[message]} {day}", Action("source", (message,)))
        for message, day in days.items()
    ]
    rows = in_rows(sources[:MAX_SOURCES], SOURCES_PER_ROW) + in_rows(
        undo_buttons(answer.changes, language), 1
    )
    rows += zone_rows(answer.changes, caller) + wish_rows(answer.changes, language)
    if answer.asks == "erase_all":
        choices = (("erase_yes", 1), ("erase_no", 0))
        rows += (tuple(Button(say(key, language), Action("erase", (n,))) for key, n in choices),)
    if answer.asks == "conflict":
        rows += choice_rows(answer.id, language)
    return rows


def turn_rows(incoming: IncomingMessage) -> Rows:
    """Return the buttons that depend on the user's message: delete it, switch the memory on."""
    rows: Rows = ()
    if incoming.teaching is not None and not incoming.preferences.memory_on:
        label = say("memory_switch_on", incoming.language)
        rows += ((Button(label, Action("remembering", (0,))),),)
    if incoming.is_masked and incoming.origin is not None:
        number, secret = incoming.origin.message_id, incoming.revealed_secret
        if secret is not None and secret.telegram_message_id is not None:
            number = secret.telegram_message_id
        action = Action("unsend", (abs(number),))
        rows += ((Button(say("unsend_button", incoming.language), action),),)
    return rows


async def show_popup(query: types.CallbackQuery, text: str, *, stays: bool = False) -> None:
    """Show the result of a button press; ``stays`` keeps it open until the user closes it."""
    await best_effort(query.answer(shortened(text, MAX_POPUP), show_alert=stays))


async def disable_button(query: types.CallbackQuery) -> None:
    """Disable the pressed button, or remove it where the Bot API server knows no disabled ones."""
    message = query.message
    if not isinstance(message, types.Message) or message.reply_markup is None:
        return
    rows = [list(row) for row in message.reply_markup.inline_keyboard]
    for row in rows:
        for index, one in enumerate(row):
            if one.callback_data == query.data:
                off = types.DisabledButton()
                row[index] = types.InlineKeyboardButton(text=one.text, disabled=off)
    edit, keyboard = message.edit_reply_markup, Inline(inline_keyboard=rows)
    failure = await best_effort(edit(reply_markup=keyboard))
    if isinstance(failure, exceptions.TelegramBadRequest) and not is_not_modified(failure):
        await best_effort(edit(reply_markup=build_keyboard(remaining_rows(query))))


def remaining_rows(query: types.CallbackQuery, excluded: Rows = ()) -> Rows:
    """Return the buttons beside the pressed one, except those in ``excluded``."""
    markup = None
    if isinstance(query.message, types.Message):
        markup = query.message.reply_markup
    done = {query.data, *(button.action.pack() for row in excluded for button in row)}
    rows = [
        tuple(
            Button(one.text, action, one.web_app.url if one.web_app else None)
            for one in row
            if one.callback_data not in done
            and one.disabled is None
            and (action := Action.unpack(one.callback_data or "app")) is not None
        )
        for row in (markup.inline_keyboard if markup else ())
    ]
    return tuple(filter(None, rows))
