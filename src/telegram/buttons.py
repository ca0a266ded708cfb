"""Buttons: what they do is the service's (``command_service.ACTIONS``); here is how it shows."""

from __future__ import annotations

from dataclasses import replace

from aiogram import F, Router
from aiogram.types import CallbackQuery

from src.base.owners import Called
from src.core import Core
from src.memory.memory_repo import SourceMessage
from src.queue.update_repo import UpdateOutcome, WaitingUpdate
from src.talk.command_service import FOR_ADMINS
from src.telegram.chats import ChatAdmins
from src.telegram.commands import called_by
from src.telegram.delivery import Address, Delivery
from src.telegram.keyboards import remove_button, show_reply, stop_waiting
from src.texts import Language, say
from src.texts.reply import Action


def build_router() -> Router:
    """The router of every button."""
    router = Router(name="buttons")
    router.callback_query.register(show_source, F.data.startswith("source:"))
    router.callback_query.register(press_button)
    return router


async def press_button(
    query: CallbackQuery,
    stored: WaitingUpdate,
    language: Language,
    core: Core,
    delivery: Delivery,
    admins: ChatAdmins,
) -> UpdateOutcome:
    """Do what the button stands for: show a screen in its place, or say what came of it.

    A button that nobody knows (any more) only loses its waiting sign.
    """
    await stop_waiting(query)
    action = Action.unpack(query.data or "")
    if action is None:
        return "done"
    called = called_by(stored, language, core)
    if action.name in FOR_ADMINS:
        called = replace(called, is_admin=await admins.is_admin(stored))
    reply = await core.commands.press(action, called)
    if reply is None:
        return "done"
    message = query.message.message_id if query.message is not None else None
    await show_reply(
        delivery, Address(*stored.owner), reply, replacing=message if reply.is_screen else None
    )
    stays = reply.is_screen or reply.keeps_button or reply.asks
    if not (stays or reply.corrects is not None):
        await remove_button(query)
    return "done"


async def show_source(
    query: CallbackQuery, stored: WaitingUpdate, language: Language, core: Core, delivery: Delivery
) -> UpdateOutcome:
    """Reply to the message that is meant; quote it where it is gone, as far as it is kept."""
    await stop_waiting(query)
    # Buttons of earlier versions name the message as references do: msg-12.
    action = Action.unpack((query.data or "").replace(":msg-", ":"))
    if action is None:
        return "done"
    called = called_by(stored, language, core)
    address = Address(*stored.owner)
    uid = f"msg-{action.number(0)}"
    source = await core.client.run(core.memory.memories.facts.find_source, stored.owner, uid)
    is_bots = source is not None and source.is_bots
    here = say("source_here_bot" if is_bots else "source_here", language)
    there = _there(address, source, stored.bot_id) if source is not None else None
    if there is not None and await delivery.send_reply(there, here):
        return "done"
    await delivery.send_text(address, _quoted(source, called))
    return "done"


def _quoted(source: SourceMessage | None, called: Called) -> str:
    if source is None:
        return say("source_gone", called.language)
    day = called.day(source.said_at)
    key = "source_quote_bot" if source.is_bots else "source_quote"
    return say(key, called.language, said_at=day, text=source.text)


def _there(address: Address, source: SourceMessage, bot_id: int) -> Address | None:
    """Where to reply; a group that moved left its messages behind, another bot numbered others."""
    is_here = source.chat_id == address.chat_id and source.bot_id == bot_id
    if source.telegram_message_id is None or not is_here:
        return None
    return replace(address, reply_to=source.telegram_message_id)
