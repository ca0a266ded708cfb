"""Everything around the messages: who blocks the bot, groups that move, buttons, strangers."""

from __future__ import annotations

from aiogram import F, Router
from aiogram.enums import ChatMemberStatus, ChatType
from aiogram.types import ChatMemberUpdated, Message, MessageGenerationStopped

from src.application import Core
from src.storage.update_repo import UpdateOutcome, WaitingUpdate
from src.telegram.delivery import Address, Delivery
from src.telegram.group_moves import move_group
from src.telegram.updates import BotIdentity
from src.texts import Language, choose_language, say

GONE = (ChatMemberStatus.KICKED, ChatMemberStatus.LEFT)


def build_refusal_router() -> Router:
    """The router for strangers; it comes first."""
    router = Router(name="refusal")
    router.message.register(refuse, _is_refused)
    return router


def build_router() -> Router:
    """The router of what is not a message to answer."""
    router = Router(name="chats")
    router.message.register(follow_migration, F.migrate_to_chat_id | F.migrate_from_chat_id)
    router.my_chat_member.register(note_membership)
    router.stopped_message_generation.register(note_stop_button)
    return router


async def _is_refused(_message: Message, stored: WaitingUpdate) -> bool:
    """A coroutine, because aiogram sends plain functions to a thread."""
    return stored.kind == "refused"


async def refuse(
    _message: Message, stored: WaitingUpdate, language: Language, core: Core, delivery: Delivery
) -> UpdateOutcome:
    """Tell a stranger, once a day, that the bot is private."""
    if await core.client.run(core.updates.was_refused_lately, stored):
        return "refused silently"
    sentence = say("not_allowed", language, user_id=stored.user_id)
    await delivery.send_text(Address(*stored.owner), sentence)
    return "refused"


async def follow_migration(message: Message, core: Core) -> UpdateOutcome:
    """A group became a supergroup, as the old chat or the new one tells: its memory goes along."""
    if message.migrate_to_chat_id is not None:
        await move_group(core, message.chat.id, message.migrate_to_chat_id)
    elif message.migrate_from_chat_id is not None:
        await move_group(core, message.migrate_from_chat_id, message.chat.id)
    return "done"


async def note_membership(
    event: ChatMemberUpdated,
    stored: WaitingUpdate,
    core: Core,
    delivery: Delivery,
    identity: BotIdentity,
) -> UpdateOutcome:
    """The user blocked the bot, or came back; a group took it in, or put it out.

    A group is told how to talk to it, and what it sees there. What was said before stays.
    """
    is_gone = event.new_chat_member.status in GONE
    mark = core.user_settings.mark_inactive if is_gone else core.user_settings.mark_active
    await core.client.run(mark, event.chat.id)
    is_new = event.old_chat_member.status in GONE and not is_gone
    if is_new and event.chat.type in (ChatType.GROUP, ChatType.SUPERGROUP):
        language = choose_language(stored.language, event.from_user.language_code)
        seen = say("group_sees_all" if identity.reads_all else "group_sees_some", language)
        hello = say("group_hello", language, name=identity.name, username=identity.username)
        await delivery.send_text(Address(event.chat.id), f"{hello}\n\n{seen}")
    return "done"


async def note_stop_button(_event: MessageGenerationStopped) -> UpdateOutcome:
    """The Stop button has done its work by a job of its own (``interrupt_turn``)."""
    return "done"
