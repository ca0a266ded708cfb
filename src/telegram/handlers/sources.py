"""The buttons under an answer: show where something was said, take a replacement back."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from aiogram import Router
from aiogram.types import CallbackQuery

from src.application import Core
from src.services.command_service import undone_text
from src.storage.memory_rows import SourceMessage
from src.storage.update_repo import UpdateOutcome, WaitingUpdate
from src.telegram.delivery import Address, Delivery
from src.telegram.keyboards import (
    EraseButton,
    RecallButton,
    SourceButton,
    UndoButton,
    day_text,
    remove_button,
    stop_waiting,
)
from src.texts import Language, say


def build_router() -> Router:
    """The router of these buttons; it comes before the one of all buttons."""
    router = Router(name="sources")
    router.callback_query.register(show_source, SourceButton.filter())
    router.callback_query.register(take_back, UndoButton.filter())
    router.callback_query.register(take_back, RecallButton.filter())
    router.callback_query.register(answer_erasure, EraseButton.filter())
    return router


async def show_source(
    query: CallbackQuery,
    callback_data: SourceButton,
    stored: WaitingUpdate,
    language: Language,
    core: Core,
    delivery: Delivery,
) -> UpdateOutcome:
    """Reply to the message that is meant; quote it where it is gone, as far as it is kept."""
    await stop_waiting(query)
    address = Address(*stored.owner)
    source = await core.memory.memories.find_source(stored.owner, callback_data.uid)
    if source is None:
        await delivery.send_text(address, say("source_gone", language))
        return "done"
    there = _there(address, source, stored.bot_id)
    if there is not None and await delivery.send_reply(there, say("source_here", language)):
        return "done"
    time_zone = stored.time_zone or core.settings.timezone
    day = day_text(source.said_at, datetime.now(UTC), language, time_zone)
    quote = say("source_quote", language, said_at=day, text=source.text)
    await delivery.send_text(address, quote)
    return "done"


async def take_back(
    query: CallbackQuery,
    callback_data: UndoButton | RecallButton,
    stored: WaitingUpdate,
    language: Language,
    core: Core,
    delivery: Delivery,
) -> UpdateOutcome:
    """Let a replaced fact hold again, or remember what was forgotten while that is possible."""
    await stop_waiting(query)
    memories, asker = core.memory.memories, stored.user_id
    if isinstance(callback_data, UndoButton):
        undone = await memories.undo(stored.owner, callback_data.memory_id, asker=asker)
    else:
        undone = await memories.undo_forgetting(stored.owner, callback_data.number, asker=asker)
    nothing = say("undo_nothing", language)
    sentence = nothing if undone is None else undone_text(undone, language)
    return await _conclude(query, delivery, stored, sentence)


async def answer_erasure(
    query: CallbackQuery,
    callback_data: EraseButton,
    stored: WaitingUpdate,
    language: Language,
    core: Core,
    delivery: Delivery,
) -> UpdateOutcome:
    """Erase everything, or nothing; in a group only the group's memory is asked about."""
    await stop_waiting(query)
    key = await core.agent.confirm_erasure(stored.owner, agreed=callback_data.agreed)
    return await _conclude(query, delivery, stored, say(key, language))


async def _conclude(
    query: CallbackQuery, delivery: Delivery, stored: WaitingUpdate, sentence: str
) -> UpdateOutcome:
    """Say what came of it, where the button stands, whatever it says, and take it away."""
    await delivery.send_text(Address(*stored.owner), sentence)
    await remove_button(query)
    return "done"


def _there(address: Address, source: SourceMessage, bot_id: int) -> Address | None:
    """Where to reply; a group that moved left its messages behind, another bot numbered others."""
    is_here = source.chat_id == address.chat_id and source.bot_id == bot_id
    if source.telegram_message_id is None or not is_here:
        return None
    return replace(address, reply_to=source.telegram_message_id)
