"""Chats: who blocks the bot, groups that move, who may do what in a group, strangers."""

from __future__ import annotations

import logging

from aiogram import Bot, F, Router
from aiogram.enums import ChatMemberStatus, ChatType
from aiogram.exceptions import AiogramError, TelegramBadRequest, TelegramForbiddenError
from aiogram.types import ChatMemberUpdated, Message, MessageGenerationStopped

from src.core import Core
from src.memory.group_moves import GroupMoveRepository
from src.queue.update_repo import UpdateOutcome, WaitingUpdate
from src.telegram.delivery import Address, Delivery
from src.telegram.errors import delivery_error
from src.telegram.updates import GROUP_ANONYMOUS_BOT, BotIdentity
from src.texts import Language, choose_language, say

logger = logging.getLogger(__name__)


async def move_group(core: Core, old_chat_id: int, new_chat_id: int) -> None:
    """Hand the old chat's memory to the new one; it may have been done before.

    Who may use the bot is the operator's decision, so a new id is never allowed by itself.

    Raises:
        StorageError: The database is away; nothing has moved.
    """
    moved = await core.client.run(
        GroupMoveRepository(core.client).migrate_owner, old_chat_id, new_chat_id
    )
    chats = {"chat": old_chat_id, "new_chat": new_chat_id}
    logger.info("a group became a supergroup", extra={**chats, "topics": moved})
    allowed = core.settings.allowed_user_ids
    if old_chat_id in allowed and new_chat_id not in allowed:
        logger.warning(
            "ALLOWED_USER_IDS names a group by an id that it has no more; its members are "
            "strangers until the new id stands there",
            extra=chats,
        )


ADMINS = frozenset({ChatMemberStatus.CREATOR, ChatMemberStatus.ADMINISTRATOR})
TIMEOUT = 15  # seconds


class ChatAdmins:
    """Asks Telegram each time: rights change, and it is asked seldom."""

    def __init__(self, bot: Bot) -> None:
        """Ask through ``bot``."""
        self._bot = bot

    async def is_admin(self, stored: WaitingUpdate) -> bool:
        """Whether the sender of an update is an admin of its chat; in a private chat he is.

        An anonymous admin writes through one of Telegram's bots.

        Raises:
            DeliveryError: Telegram cannot be asked; worth another try.
        """
        if not stored.owner.is_group or stored.user_id == GROUP_ANONYMOUS_BOT:
            return True
        try:
            member = await self._bot.get_chat_member(
                stored.owner.telegram_user_id, stored.user_id or 0, request_timeout=TIMEOUT
            )
        except (TelegramBadRequest, TelegramForbiddenError):
            return False
        except AiogramError as error:
            raise delivery_error(error) from error
        return member.status in ADMINS


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
