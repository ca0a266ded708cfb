"""Handlers of updates: commands, buttons, reactions, chats, strangers; messages are turns."""

import logging
from dataclasses import replace

from aiogram import Router, types
from aiogram.enums import ChatMemberStatus, ChatType
from aiogram.exceptions import AiogramError, TelegramBadRequest, TelegramForbiddenError

from src.base.errors import AppError
from src.base.owners import Called
from src.core import Core
from src.memory.group_moves import GroupMoveRepository
from src.memory.memory_repo import SourceMessage
from src.queue.job_repo import MemoryJobRepository
from src.queue.update_repo import UpdateOutcome, WaitingUpdate
from src.talk.command_service import COMMANDS, FOR_ADMINS, Command, parse_command
from src.talk.settings import asks_for_zone, names_place
from src.telegram import delivery
from src.telegram.delivery import Address, Delivery
from src.telegram.incoming import Arrived
from src.telegram.messages import TurnHandler
from src.telegram.updates import GROUP_ANONYMOUS_BOT, BotIdentity, answered_by
from src.texts import say
from src.texts.reply import Action, Reply

logger = logging.getLogger(__name__)

ADMINS = frozenset({ChatMemberStatus.CREATOR, ChatMemberStatus.ADMINISTRATOR})
GONE = (ChatMemberStatus.KICKED, ChatMemberStatus.LEFT)
ADMIN_TIMEOUT = 15  # seconds


class Handlers:
    """What each kind of update is handled by; messages to answer are ``TurnHandler``'s."""

    def __init__(self, core: Core, delivery: Delivery, identity: BotIdentity) -> None:
        """Reply through ``delivery``, as the bot of ``identity``."""
        self._core = core
        self._run = core.client.run
        self._bot = delivery.bot
        self._delivery = delivery
        self._identity = identity
        self._turns = TurnHandler(core, delivery, identity)

    def register(self, router: Router) -> None:
        """Add the handlers; the first whose filters match takes an update, refusals come first."""
        router.message.register(self.refuse, is_refused)
        router.message.register(self.run_command, self.is_command)
        router.message.register(self.follow_migration, tells_migration)
        router.message.register(self.take_zone, answers_zone_question)
        router.message.register(self._turns.answer_text, has_text)
        router.message.register(self._turns.answer_content)
        router.edited_message.register(self._turns.take_edit, has_words)
        router.callback_query.register(self.refuse_tap, is_refused)
        router.callback_query.register(self.press_button)
        router.my_chat_member.register(self.note_membership)
        router.stopped_message_generation.register(note_stop_button)
        router.message_reaction.register(self.take_dislike)

    async def refuse(self, _message: types.Message, it: Arrived) -> UpdateOutcome:
        """Tell a stranger, once a day, that the bot is private."""
        if await self._run(self._core.updates.was_refused_lately, it.stored):
            return "refused silently"
        sentence = say("not_allowed", it.called.language, user_id=it.stored.user_id)
        await self._delivery.send_text(Address(*it.called.owner), sentence)
        return "refused"

    async def refuse_tap(self, query: types.CallbackQuery, it: Arrived) -> UpdateOutcome:
        """Tell a stranger who pressed a button in somebody else's chat the same."""
        sentence = say("not_allowed", it.called.language, user_id=it.stored.user_id)
        await delivery.pop_up(query, sentence, stays=True)
        return "refused silently"

    async def is_command(self, message: types.Message) -> bool | dict[str, Command]:
        """A command for this bot, read as the receiver reads it; handed on as ``command``."""
        command = parse_command(message.text or "")
        if command is None or not command.is_for(self._identity.username):
            return False
        return {"command": command}

    async def run_command(
        self, message: types.Message, it: Arrived, command: Command
    ) -> UpdateOutcome:
        """Run a command and send its reply; one that teaches a text is a turn without a model."""
        entry = COMMANDS.get(command.name)
        kind = entry.kind if entry is not None else "command"
        if kind == "teach" and (taught := command.argument or _own(message)):
            return await self._turns.teach(message, taught, it)
        called = it.called.asking(command.argument)
        if entry is not None and entry.is_for_admins:
            called = await self._with_rights(it.stored, called)
        reply = await self._core.commands.run(command.name, called)
        if kind == "new":  # a job reads for facts what it deleted
            await self._run(MemoryJobRepository(self._core.client).defer_indexing)
        await self._show(called, reply)
        return "asked for zone" if asks_for_zone(reply.text) else "done"

    async def take_zone(self, message: types.Message, it: Arrived) -> UpdateOutcome:
        """Set the zone that is meant, or ask again."""
        settings, place = self._core.commands.settings, message.location
        if place is not None:
            reply = await settings.find_zone_at(it.called, place.latitude, place.longitude)
        else:
            reply = await settings.find_zone(it.called, message.text or "")
        await self._show(it.called, reply)
        return "asked for zone" if asks_for_zone(reply.text) else "explained"

    async def take_dislike(
        self, reaction: types.MessageReactionUpdated, it: Arrived
    ) -> UpdateOutcome:
        """Show what the answer cited, with a button for each; nothing where it cited nothing.

        Only dislikes are stored (``updates.classify``).
        """
        offer = self._core.commands.offer_to_forget
        reply = await offer(it.called, reaction.message_id)
        if reply is None:
            return "ignored"
        await self._show(it.called, reply)
        return "done"

    async def press_button(self, query: types.CallbackQuery, it: Arrived) -> UpdateOutcome:
        """Do what the button stands for: ``command_service.ACTIONS``, or one of Telegram's own.

        A pop-up says what came of it; that alone, where nothing in the chat changes.
        """
        # Buttons of earlier versions name a source as references do: msg-12.
        action = Action.unpack((query.data or "").replace(":msg-", ":"))
        called, ours = it.called, {"source": self._show_source, "unsend": self._unsend}
        try:
            if action is not None and action.name in ours:
                return await ours[action.name](query, it, action.number(0))
            if action is not None and action.name in FOR_ADMINS:
                called = await self._with_rights(it.stored, called)
            reply = await self._core.commands.press(action, called)
        except AppError:  # another attempt does it; the button does not seem stuck
            await delivery.pop_up(query, say("tap_later", called.language))
            raise
        await delivery.pop_up(query, reply.tapped, stays=reply.is_note)
        if reply.keeps_others:
            reply = replace(reply, rows=(*reply.rows, *delivery.other_rows(query, reply.rows)))
        if not reply.is_note:
            screen = query.message.message_id if query.message and reply.is_screen else None
            await self._show(called, reply, replacing=screen)
        if not (reply.is_screen or reply.keeps_button or reply.asks or reply.corrects):
            await delivery.remove_button(query)
        return "asked for zone" if asks_for_zone(reply.text) else "done"

    async def _show_source(
        self, query: types.CallbackQuery, it: Arrived, number: int
    ) -> UpdateOutcome:
        """Reply to the source message; quote it when it is gone from the chat but still stored."""
        called, address, language = it.called, Address(*it.called.owner), it.called.language
        find = self._core.memory.memories.facts.find_source
        source = await self._run(find, called.owner, f"msg-{number}")
        if source is None:
            await delivery.pop_up(query, say("source_gone", language), stays=True)
            return "done"
        there = _place_of(source, address, it.stored.bot_id)
        here = say("source_here_bot" if source.is_bots else "source_here", language)
        if there is None or not await self._delivery.send_reply(there, here):
            key = "source_quote_bot" if source.is_bots else "source_quote"
            quote = say(key, language, said_at=called.day(source.said_at), text=source.text)
            await self._delivery.send_text(address, quote)
        await delivery.pop_up(query, say("tap_source", language, day=called.day(source.said_at)))
        return "done"

    async def _unsend(self, query: types.CallbackQuery, it: Arrived, number: int) -> UpdateOutcome:
        """Delete a message in which a secret was masked, where Telegram lets us.

        In a group it is the sender's own: the one that the answer under which the button stands
        replies to.
        """
        shown, is_gone = query.message, False
        answered = shown.reply_to_message if isinstance(shown, types.Message) else None
        is_own = answered is not None and answered.message_id == number
        is_own = is_own and answered is not None and answered.from_user == query.from_user
        if number and (is_own or not it.called.owner.is_group):
            chat_id = it.stored.chat_id or 0
            try:
                await self._bot.delete_message(chat_id, number, request_timeout=ADMIN_TIMEOUT)
                is_gone = True
            except AiogramError as error:
                is_gone = "message to delete not found" in str(error)
        sentence = say("unsend_done" if is_gone else "unsend_failed", it.called.language)
        await delivery.pop_up(query, sentence, stays=not is_gone)
        await delivery.remove_button(query)
        return "done"

    async def follow_migration(self, message: types.Message) -> UpdateOutcome:
        """A group became a supergroup, as the old chat or the new one tells: move its memory."""
        if message.migrate_to_chat_id is not None:
            await move_group(self._core, message.chat.id, message.migrate_to_chat_id)
        elif message.migrate_from_chat_id is not None:
            await move_group(self._core, message.migrate_from_chat_id, message.chat.id)
        return "done"

    async def note_membership(self, event: types.ChatMemberUpdated, it: Arrived) -> UpdateOutcome:
        """The user blocked or unblocked the bot; a group added or removed it.

        A group is told how to talk to it, and what it sees there. What was said before stays.
        """
        is_gone = event.new_chat_member.status in GONE
        settings, bot, language = self._core.user_settings, self._identity, it.called.language
        await self._run(settings.mark_inactive if is_gone else settings.mark_active, event.chat.id)
        is_new = event.old_chat_member.status in GONE and not is_gone
        if is_new and event.chat.type in (ChatType.GROUP, ChatType.SUPERGROUP):
            seen = say("group_sees_all" if bot.reads_all else "group_sees_some", language)
            hello = say("group_hello", language, name=bot.name, username=bot.username)
            await self._delivery.send_text(Address(event.chat.id), f"{hello}\n\n{seen}")
        return "done"

    async def _show(self, called: Called, reply: Reply, *, replacing: int | None = None) -> None:
        await self._delivery.show_reply(Address(*called.owner), reply, replacing=replacing)

    async def _with_rights(self, stored: WaitingUpdate, called: Called) -> Called:
        """Who calls, and whether they are an admin of the chat; in a private chat everybody is.

        An anonymous admin writes through one of Telegram's bots. Telegram is asked each time:
        rights change, and it is asked seldom.

        Raises:
            DeliveryError: Telegram cannot be asked; worth another try.
        """
        if not called.owner.is_group or stored.user_id == GROUP_ANONYMOUS_BOT:
            return called
        chat_id, user_id = called.owner.telegram_user_id, stored.user_id or 0
        try:
            member = await self._bot.get_chat_member(
                chat_id, user_id, request_timeout=ADMIN_TIMEOUT
            )
        except (TelegramBadRequest, TelegramForbiddenError):
            return replace(called, is_admin=False)
        except AiogramError as error:
            raise delivery.delivery_error(error) from error
        return replace(called, is_admin=member.status in ADMINS)


# aiogram runs filters that are plain functions, its own ``F`` among them, in a thread, so these
# are coroutines.


async def is_refused(_event: types.TelegramObject, it: Arrived) -> bool:
    """A stranger's message, or tap."""
    return it.stored.kind == "refused"


async def has_text(message: types.Message) -> bool:
    """A message of text."""
    return bool(message.text)


async def has_words(message: types.Message) -> bool:
    """A message of text, or with a caption."""
    return bool(message.text or message.caption)


async def tells_migration(message: types.Message) -> bool:
    """What the old chat of a group, or its new one, says of the move."""
    return message.migrate_to_chat_id is not None or message.migrate_from_chat_id is not None


async def answers_zone_question(message: types.Message, it: Arrived) -> bool:
    """What answers our question for a time zone: a reply to it, or the next message.

    Not a reply, it is a place on the map, or a few words that may be its name.
    """
    if it.stored.zone_asked and message.reply_to_message is None:
        return message.location is not None or names_place(message.text or "")
    asked = answered_by(message, it.stored.bot_id)
    has_place = message.text is not None or message.location is not None
    return asked is not None and has_place and asks_for_zone(asked.text or "")


async def note_stop_button(_event: types.MessageGenerationStopped) -> UpdateOutcome:
    """The Stop button has done its work by a job of its own (``interrupt_turn``)."""
    return "done"


def _own(message: types.Message) -> str:
    """The text of the message to which the sender replies, if the words are the sender's own."""
    answered = message.reply_to_message
    if answered is None or answered.from_user is None or message.from_user is None:
        return ""
    is_own = answered.from_user.id == message.from_user.id and answered.forward_origin is None
    return (answered.text or "").strip() if is_own else ""


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
