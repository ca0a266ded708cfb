"""Handlers of all but messages to answer: commands, buttons, reactions, chats, strangers."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime

from aiogram import Bot, F, Router
from aiogram.enums import ChatMemberStatus, ChatType
from aiogram.exceptions import AiogramError, TelegramBadRequest, TelegramForbiddenError
from aiogram.types import (
    CallbackQuery,
    ChatMemberUpdated,
    Message,
    MessageGenerationStopped,
    MessageReactionUpdated,
)

from src.base.owners import Called
from src.core import Core
from src.memory.group_moves import GroupMoveRepository
from src.memory.memory_repo import SourceMessage
from src.queue.job_repo import MemoryJobRepository
from src.queue.update_repo import UpdateOutcome, WaitingUpdate
from src.talk.command_service import COMMANDS, FOR_ADMINS, Command, parse_command
from src.talk.settings import asks_for_zone
from src.talk.turn_state import Teaching, TurnControl
from src.telegram.delivery import (
    Address,
    Delivery,
    best_effort,
    delivery_error,
    remove_button,
)
from src.telegram.messages import TurnHandler
from src.telegram.updates import GROUP_ANONYMOUS_BOT, BotIdentity
from src.texts import Language, say
from src.texts.reply import Action

logger = logging.getLogger(__name__)

ADMINS = frozenset({ChatMemberStatus.CREATOR, ChatMemberStatus.ADMINISTRATOR})
GONE = (ChatMemberStatus.KICKED, ChatMemberStatus.LEFT)
ADMIN_TIMEOUT = 15  # seconds


def register(router: Router) -> None:
    """Add the handlers; the first whose filters match takes an update, refusals come first."""
    router.message.register(refuse, is_refused)
    router.message.register(teach, F.text, is_command, is_teaching)
    router.message.register(run_command, F.text, is_command)
    router.message.register(follow_migration, F.migrate_to_chat_id | F.migrate_from_chat_id)
    router.message.register(take_zone, answers_zone_question)
    router.callback_query.register(show_source, F.data.startswith("source:"))
    router.callback_query.register(press_button)
    router.my_chat_member.register(note_membership)
    router.stopped_message_generation.register(note_stop_button)
    router.message_reaction.register(take_dislike)


class ChatAdmins:
    """Asks Telegram each time: rights change, and it is asked seldom."""

    def __init__(self, bot: Bot) -> None:
        """Ask through ``bot``."""
        self._bot = bot

    async def is_admin(self, stored: WaitingUpdate) -> bool:
        """Whether the sender is an admin of the chat; in a private chat everybody is.

        An anonymous admin writes through one of Telegram's bots.

        Raises:
            DeliveryError: Telegram cannot be asked; worth another try.
        """
        if not stored.owner.is_group or stored.user_id == GROUP_ANONYMOUS_BOT:
            return True
        try:
            member = await self._bot.get_chat_member(
                stored.owner.telegram_user_id, stored.user_id or 0, request_timeout=ADMIN_TIMEOUT
            )
        except (TelegramBadRequest, TelegramForbiddenError):
            return False
        except AiogramError as error:
            raise delivery_error(error) from error
        return member.status in ADMINS


async def is_refused(_message: Message, stored: WaitingUpdate) -> bool:
    """A stranger's message; a coroutine, because aiogram runs plain functions in a thread."""
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


async def is_command(message: Message, identity: BotIdentity) -> bool | dict[str, Command]:
    """A command for this bot, read as the receiver reads it; handed on as ``command``."""
    command = parse_command(message.text or "")
    if command is None or not command.is_for(identity.username):
        return False
    return {"command": command}


async def is_teaching(message: Message, command: Command) -> bool | dict[str, str]:
    """A command that is a message to remember; its text is handed on as ``taught``.

    The text is what follows the command, or the sender's own message to which it replies.
    """
    entry = COMMANDS.get(command.name)
    if entry is None or not entry.teaches:
        return False
    text = command.argument or _own_text(message)
    return {"taught": text} if text else False


def _own_text(message: Message) -> str:
    """The text of the message to which the sender replies, if the words are the sender's own."""
    answered = message.reply_to_message
    if answered is None or answered.from_user is None or message.from_user is None:
        return ""
    is_own = answered.from_user.id == message.from_user.id and answered.forward_origin is None
    return (answered.text or "").strip() if is_own else ""


def called_by(stored: WaitingUpdate, language: Language, core: Core) -> Called:
    """Who calls, as the services take it."""
    return Called(
        stored.owner,
        language,
        datetime.now(UTC),
        stored.time_zone or core.settings.timezone,
        member=stored.user_id,
    )


async def teach(
    message: Message,
    stored: WaitingUpdate,
    language: Language,
    taught: str,
    control: TurnControl,
    turn_handler: TurnHandler,
) -> UpdateOutcome:
    """Remember a text as it stands; a turn without a model."""
    incoming = turn_handler.incoming(message, taught, stored, language)
    return await turn_handler.run(replace(incoming, teaching=Teaching()), stored, control)


async def run_command(
    _message: Message,
    stored: WaitingUpdate,
    language: Language,
    command: Command,
    delivery: Delivery,
    core: Core,
    admins: ChatAdmins,
) -> UpdateOutcome:
    """Run a command and send its reply."""
    entry = COMMANDS.get(command.name)
    called = replace(called_by(stored, language, core), argument=command.argument)
    if entry is not None and entry.is_for_admins:
        called = replace(called, is_admin=await admins.is_admin(stored))
    reply = await core.commands.run(command.name, called)
    if entry is not None and entry.deletes_messages:  # which a job reads for facts
        await core.client.run(MemoryJobRepository(core.client).defer_indexing)
    await delivery.show_reply(Address(*stored.owner), reply)
    return "done"


async def answers_zone_question(message: Message, stored: WaitingUpdate) -> bool:
    """A reply to our question for a time zone, in words or with a place."""
    asked = message.reply_to_message
    if asked is None or asked.from_user is None or asked.from_user.id != stored.bot_id:
        return False
    has_place = message.text is not None or message.location is not None
    return has_place and asks_for_zone(asked.text or "")


async def take_zone(
    message: Message, stored: WaitingUpdate, language: Language, core: Core, delivery: Delivery
) -> UpdateOutcome:
    """Set the zone that is meant, or ask again."""
    called = called_by(stored, language, core)
    settings = core.commands.settings
    place = message.location
    if place is not None:
        reply = await settings.find_zone_at(called, place.latitude, place.longitude)
    else:
        reply = await settings.find_zone(called, message.text or "")
    await delivery.show_reply(Address(*stored.owner), reply)
    return "explained"


async def take_dislike(
    reaction: MessageReactionUpdated,
    stored: WaitingUpdate,
    language: Language,
    core: Core,
    delivery: Delivery,
) -> UpdateOutcome:
    """Show what the answer cited, with a button for each; nothing where it cited nothing.

    Only dislikes are stored (``updates.classify``).
    """
    called = called_by(stored, language, core)
    reply = await core.commands.memory.offer_to_forget(called, reaction.message_id)
    if reply is None:
        return "ignored"
    await delivery.show_reply(Address(*stored.owner), reply)
    return "done"


async def press_button(
    query: CallbackQuery,
    stored: WaitingUpdate,
    language: Language,
    core: Core,
    delivery: Delivery,
    admins: ChatAdmins,
) -> UpdateOutcome:
    """Do what the button stands for (``command_service.ACTIONS``); show a screen or a reply.

    An unknown or outdated button only loses its loading indicator.
    """
    await best_effort(query.answer())
    action = Action.unpack(query.data or "")
    if action is None:
        return "done"
    called = called_by(stored, language, core)
    if action.name in FOR_ADMINS:
        called = replace(called, is_admin=await admins.is_admin(stored))
    reply = await core.commands.press(action, called)
    if reply is None:
        return "done"
    screen = query.message.message_id if query.message is not None and reply.is_screen else None
    await delivery.show_reply(Address(*stored.owner), reply, replacing=screen)
    stays = reply.is_screen or reply.keeps_button or reply.asks
    if not (stays or reply.corrects is not None):
        await remove_button(query)
    return "done"


async def show_source(
    query: CallbackQuery, stored: WaitingUpdate, language: Language, core: Core, delivery: Delivery
) -> UpdateOutcome:
    """Reply to the source message; quote it when it is gone from the chat but still stored."""
    await best_effort(query.answer())
    # Buttons of earlier versions name the message as references do: msg-12.
    action = Action.unpack((query.data or "").replace(":msg-", ":"))
    if action is None:
        return "done"
    address = Address(*stored.owner)
    find = core.memory.memories.facts.find_source
    source = await core.client.run(find, stored.owner, f"msg-{action.number(0)}")
    if source is None:
        await delivery.send_text(address, say("source_gone", language))
        return "done"
    there = _place_of(source, address, stored.bot_id)
    here = say("source_here_bot" if source.is_bots else "source_here", language)
    if there is None or not await delivery.send_reply(there, here):
        day = called_by(stored, language, core).day(source.said_at)
        key = "source_quote_bot" if source.is_bots else "source_quote"
        quote = say(key, language, said_at=day, text=source.text)
        await delivery.send_text(address, quote)
    return "done"


def _place_of(source: SourceMessage, address: Address, bot_id: int) -> Address | None:
    """Where to reply; a group that moved left its messages behind, another bot numbered others."""
    is_here = source.chat_id == address.chat_id and source.bot_id == bot_id
    if source.telegram_message_id is None or not is_here:
        return None
    return replace(address, reply_to=source.telegram_message_id)


async def move_group(core: Core, old_chat_id: int, new_chat_id: int) -> None:
    """Hand the old chat's memory to the new one; idempotent.

    Who may use the bot is the operator's decision, so a new id is never allowed by itself.

    Raises:
        StorageError: The database is away; nothing has moved.
    """
    moves = GroupMoveRepository(core.client)
    moved = await core.client.run(moves.migrate_owner, old_chat_id, new_chat_id)
    chats = {"chat": old_chat_id, "new_chat": new_chat_id}
    logger.info("a group became a supergroup", extra={**chats, "topics": moved})
    allowed = core.settings.allowed_user_ids
    if old_chat_id in allowed and new_chat_id not in allowed:
        logger.warning(
            "ALLOWED_USER_IDS names a group by an id that it has no more; its members are "
            "strangers until the new id stands there",
            extra=chats,
        )


async def follow_migration(message: Message, core: Core) -> UpdateOutcome:
    """A group became a supergroup, as the old chat or the new one tells: move its memory."""
    if message.migrate_to_chat_id is not None:
        await move_group(core, message.chat.id, message.migrate_to_chat_id)
    elif message.migrate_from_chat_id is not None:
        await move_group(core, message.migrate_from_chat_id, message.chat.id)
    return "done"


async def note_membership(
    event: ChatMemberUpdated,
    language: Language,
    core: Core,
    delivery: Delivery,
    identity: BotIdentity,
) -> UpdateOutcome:
    """The user blocked or unblocked the bot; a group added or removed it.

    A group is told how to talk to it, and what it sees there. What was said before stays.
    """
    is_gone = event.new_chat_member.status in GONE
    mark = core.user_settings.mark_inactive if is_gone else core.user_settings.mark_active
    await core.client.run(mark, event.chat.id)
    is_new = event.old_chat_member.status in GONE and not is_gone
    if is_new and event.chat.type in (ChatType.GROUP, ChatType.SUPERGROUP):
        seen = say("group_sees_all" if identity.reads_all else "group_sees_some", language)
        hello = say("group_hello", language, name=identity.name, username=identity.username)
        await delivery.send_text(Address(event.chat.id), f"{hello}\n\n{seen}")
    return "done"


async def note_stop_button(_event: MessageGenerationStopped) -> UpdateOutcome:
    """The Stop button has done its work by a job of its own (``interrupt_turn``)."""
    return "done"
