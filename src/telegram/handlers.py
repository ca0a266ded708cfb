"""Handlers of commands, imports, buttons, reactions, memberships; messages run turns."""

import logging
from dataclasses import replace
from io import BytesIO
from typing import BinaryIO, cast

from aiogram import Router, enums, exceptions, types

from src.base.errors import AppError, DocumentError
from src.base.owners import Caller
from src.core import Core
from src.history.conversation_repo import TelegramOrigin
from src.imports.import_repo import Import
from src.imports.lists import is_list
from src.imports.records import Opened
from src.media.document_reader import MAX_BYTES
from src.memory.group_moves import GroupMoveRepository
from src.memory.memory_repo import SourceMessage
from src.queue.job_repo import JobRepository
from src.queue.update_repo import UpdateKind, UpdateOutcome, WaitingUpdate
from src.reading.gate import redact
from src.talk.commands import ADMIN_ACTIONS, COMMANDS, Command
from src.talk.record_repo import RecordRepository
from src.talk.settings import may_name_place
from src.talk.turn_state import Teaching
from src.telegram import buttons
from src.telegram.delivery import Address, Delivery
from src.telegram.incoming import Context, fetch_file, sender_id_of
from src.telegram.messages import TurnHandler
from src.telegram.rendering import Part
from src.telegram.requests import best_effort, delivery_error
from src.telegram.updates import BotIdentity, asked_by_bot, command_of, text_of
from src.texts import say
from src.texts.reply import Action, Reply

logger = logging.getLogger(__name__)

ADMINS = frozenset({enums.ChatMemberStatus.CREATOR, enums.ChatMemberStatus.ADMINISTRATOR})
ORDERS: tuple[UpdateKind, ...] = ("command", "new", "stop")
ABSENT = (enums.ChatMemberStatus.KICKED, enums.ChatMemberStatus.LEFT)


class Handlers:
    """Handlers by kind of update; ``TurnHandler`` handles messages to answer.

    They return the update's outcome; None stands for ``done``.
    """

    def __init__(self, core: Core, delivery: Delivery, identity: BotIdentity) -> None:
        """Reply through ``delivery`` as the bot of ``identity``."""
        self._core = core
        self._run = core.client.run
        self._bot = delivery.bot
        self._delivery = delivery
        self._identity = identity
        self._turns = TurnHandler(core, delivery, identity)
        self._records = RecordRepository(core.client)

    def register(self, router: Router) -> None:
        """Register the handler of each kind of update."""
        router.message.register(self.take_message)
        router.edited_message.register(self.take_edit)
        router.callback_query.register(self.take_tap)
        router.my_chat_member.register(self.note_membership)
        router.message_reaction.register(self.take_dislike)

    async def take_message(self, message: types.Message, context: Context) -> UpdateOutcome | None:
        """Run a command, take what answers a question of the bot's, or answer the message."""
        stored, command = context.stored, self._find_command(message)
        if stored.kind == "refused":
            return await self._refuse(context)
        if stored.kind == "media":  # a part of an album that names the bot nowhere
            return "ignored"
        if command is not None:
            return await self.run_command(message, context, command)
        old_id, new_id = message.migrate_from_chat_id, message.migrate_to_chat_id
        if old_id is not None or new_id is not None:
            await move_group(self._core, old_id or message.chat.id, new_id or message.chat.id)
            return None
        if _answers_zone_question(message, stored):
            return await self._take_zone(message, context)
        if brings_import(message, stored):
            return await self._take_import(message, context)
        return await self._turns.answer(message, context)

    async def _refuse(self, context: Context) -> UpdateOutcome:
        """Tell a stranger, once a day, that the bot is private."""
        if await self._run(self._core.updates.was_refused_lately, context.stored):
            return "refused silently"
        sentence = say("not_allowed", context.caller.language, user_id=context.stored.user_id)
        await self._delivery.send_notice(Address.of(context.caller), sentence)
        return "refused"

    def _find_command(self, message: types.Message) -> Command | None:
        """Return the command for this bot, parsed as the receiver parses it."""
        command = command_of(message, self._identity)
        if command is None or not command.is_for(self._identity.username):
            return None
        return command

    async def take_edit(self, message: types.Message, context: Context) -> UpdateOutcome | None:
        """Apply an edit; a command runs if nothing of its message was heard before."""
        heard = await self._run(self._core.updates.heard_as, context.stored.id)
        command = self._find_command(message)
        if command is not None and heard is None:  # the message named no bot
            return await self.run_command(message, context, command)
        is_order = command is not None and _kind_of(command) != "teach"
        if is_order and heard == "edit":
            return "ignored"  # an edit ran it, or answered what it was before
        if is_order or heard in ORDERS:  # an edit neither runs a command nor undoes its effects
            sentence = say("command_edited", context.caller.language)
            await self._delivery.send_notice(Address.of(context.caller), sentence)
            return "explained"
        return await self._turns.take_edit(message, context, command, is_heard=heard is not None)

    async def run_command(
        self, message: types.Message, context: Context, command: Command
    ) -> UpdateOutcome | None:
        """Run a command and send its reply; a command that teaches a text is a turn."""
        entry, kind = COMMANDS.get(command.name), _kind_of(command)
        replied = await self._find_replied_text(message, context)
        text = command.argument or replied
        if kind == "teach" and (text or message.voice is not None):
            return await self._turns.answer(message, context, text=text, teaching=Teaching())
        if command.name == "import" and find_document(message) is not None:
            await self._take_import(message, context)
            return None
        caller = replace(context.caller, argument=command.argument, replied=redact(replied))
        if entry is not None and entry.is_for_admins:
            caller = await self._check_rights(context.stored, caller)
        reply = await self._core.commands.run(command.name, caller)
        if kind == "new":  # a job extracts facts from the deleted messages
            await self._run(JobRepository(self._core.client).defer_indexing)
        if reply.text:
            await self._reply(context.stored, caller, reply)
        return None

    async def _find_replied_text(self, message: types.Message, context: Context) -> str:
        """Return the sender's own words to which a message replies, or the part that it quotes."""
        answered, stored = message.reply_to_message, context.stored
        if answered is None or answered.forward_origin is not None:
            return ""
        sender = sender_id_of(message)
        if sender_id_of(answered) != sender:
            return ""
        if message.quote is not None:
            return message.quote.text.strip()
        if answered.voice is None:
            return text_of(answered).strip()
        said = TelegramOrigin(stored.bot_id, stored.chat_id, answered.message_id, sender)
        find = self._core.conversations.find_text
        return await self._run(find, context.caller.owner, said) or ""

    async def _take_zone(self, message: types.Message, context: Context) -> UpdateOutcome:
        """Set the time zone that the user names, or ask again."""
        settings, caller, location = self._core.commands.settings, context.caller, message.location
        if location is not None:
            reply = await settings.find_zone_at(caller, location.latitude, location.longitude)
        else:
            reply = await settings.find_zone(caller, message.text or "")
        await self._reply(context.stored, caller, reply)
        return "explained"

    async def _take_import(self, message: types.Message, context: Context) -> UpdateOutcome:
        """Read the file or the list that the user brings, and reply with what it holds."""
        caller = context.caller
        reply = await read_import(self._core, self._delivery, message, caller)
        await self._reply(context.stored, caller, reply)
        return "explained"

    async def take_dislike(
        self, reaction: types.MessageReactionUpdated, context: Context
    ) -> UpdateOutcome | None:
        """Show the sources of the disliked answer with a button for each, if it cited any.

        Only dislikes are stored (``updates.classify``).
        """
        reply = await self._core.commands.forgetting.offer_to_forget(
            context.caller, reaction.message_id
        )
        if reply is None:
            return "ignored"
        await self._reply(context.stored, context.caller, reply)
        return None

    async def take_tap(self, query: types.CallbackQuery, context: Context) -> UpdateOutcome | None:
        """Run the button's action: one of ``commands.ACTIONS`` or of Telegram's own.

        A pop-up shows the result, and nothing else if nothing in the chat changes.
        """
        if context.stored.kind == "refused":
            words = say("not_allowed", context.caller.language, user_id=context.stored.user_id)
            await buttons.show_popup(query, words, stays=True)
            return "refused silently"
        try:
            action = Action.unpack(query.data or "")
            context = await self._move_to_record(query, context, action)
            if action is not None and action.name == "source":
                await self._show_source(query, context, action.number(0))
            elif action is not None and action.name == "unsend":
                await self._unsend(query, context, action.number(0))
            elif action is not None and action.name == "halt":  # ``interrupt_turn`` has done it
                await buttons.show_popup(query, say("stop_done", context.caller.language))
            else:
                await self._press(query, context, action)
        except AppError:  # the job is retried; meanwhile the button must not look stuck
            await buttons.show_popup(query, say("tap_later", context.caller.language))
            raise
        return None

    async def _press(
        self, query: types.CallbackQuery, context: Context, action: Action | None
    ) -> None:
        caller = context.caller
        if action is not None and action.name in ADMIN_ACTIONS:
            caller = await self._check_rights(context.stored, caller)
        reply = await self._core.commands.press(action, caller)
        closes_button = reply.is_note and not reply.keeps_button
        if caller.owner.is_group and closes_button and _is_for_another(query):
            reply = Reply.note(say("tap_others", caller.language))
        await buttons.show_popup(query, reply.popup_text, stays=reply.is_note)
        if reply.keeps_others:
            reply = replace(reply, rows=(*reply.rows, *buttons.remaining_rows(query, reply.rows)))
        if not reply.is_note:
            screen = None
            if query.message and reply.is_screen:
                screen = query.message.message_id
            await self._reply(context.stored, caller, reply, replacing=screen)
        if not (reply.is_screen or reply.keeps_button or reply.awaits_words):
            await buttons.disable_button(query)

    async def _move_to_record(
        self, query: types.CallbackQuery, context: Context, action: Action | None
    ) -> Context:
        """Return the context with the chat and topic of the record that the button acts on."""
        if action is None:
            return context
        caller, find, old_message = context.caller, self._records.find_home, None
        if isinstance(query.message, types.InaccessibleMessage):
            old_message = query.message.message_id
        home = await self._run(find, caller.owner, caller.member, action, old_message=old_message)
        return replace(context, caller=replace(caller, owner=home))

    async def _show_source(
        self, query: types.CallbackQuery, context: Context, number: int
    ) -> None:
        """Reply to the source message; quote it if it exists only in the database."""
        caller = context.caller
        address, language = Address.of(caller), caller.language
        find = self._core.memory.memories.facts.find_source
        source = await self._run(find, caller.owner, f"msg-{number}")
        if source is None:
            await buttons.show_popup(query, say("source_gone", language), stays=True)
            return
        target = _reply_address(source, address, context.stored.bot_id)
        sentence = say("source_here_bot" if source.is_bots else "source_here", language)
        send = self._delivery.try_to_send
        if target is None or not await send(target, sentence, must_reply=True):
            key = "source_quote"
            if source.is_bots:
                key = "source_quote_bot"
            day = said_at = caller.day(source.said_at)
            if source.imported_from is not None:
                said_at = f"{day}, {say('words_of_imported', language, name=source.imported_from)}"
            quote = say(key, language, said_at=said_at, text=source.text)
            await self._delivery.send_text(address, quote, times=((day, source.said_at),))
        popup = say("tap_source", language, day=caller.day(source.said_at))
        await buttons.show_popup(query, popup)

    async def _unsend(self, query: types.CallbackQuery, context: Context, number: int) -> None:
        """Delete a message in which a secret was redacted, if Telegram allows it.

        In a group the message must be the sender's own, answered by the message with the button.
        """
        is_group, is_gone = context.caller.owner.is_group, False
        if is_group and _is_for_another(query):
            sentence = say("tap_others", context.caller.language)
            await buttons.show_popup(query, sentence, stays=True)
            return
        answered = _answered(query)
        is_own = not is_group or (answered is not None and answered.message_id == number)
        if number and is_own:
            try:
                await self._bot.delete_message(context.stored.chat_id, number)
                is_gone = True
            except exceptions.AiogramError as error:
                is_gone = "message to delete not found" in str(error)
        sentence = say("unsend_done" if is_gone else "unsend_failed", context.caller.language)
        await buttons.show_popup(query, sentence, stays=not is_gone)
        await buttons.disable_button(query)

    async def note_membership(self, event: types.ChatMemberUpdated, context: Context) -> None:
        """Store that the user blocked or unblocked the bot, or a group removed or added it.

        A group that adds the bot is told how to address it and which messages it sees. Its history
        stays.
        """
        is_gone = event.new_chat_member.status in ABSENT
        settings, bot, language = self._core.user_settings, self._identity, context.caller.language
        await self._run(settings.mark_inactive if is_gone else settings.mark_active, event.chat.id)
        is_new = event.old_chat_member.status in ABSENT and not is_gone
        if is_new and event.chat.type in (enums.ChatType.GROUP, enums.ChatType.SUPERGROUP):
            seen = say("group_sees_all" if bot.reads_all else "group_sees_some", language)
            hello = say("group_hello", language, name=bot.name, username=bot.username)
            await self._delivery.send_text(Address(event.chat.id), f"{hello}\n\n{seen}")

    async def _reply(
        self, stored: WaitingUpdate, caller: Caller, reply: Reply, *, replacing: int | None = None
    ) -> None:
        address = Address.of(caller)
        if stored.chat_id == stored.user_id and caller.owner.is_group:
            address = Address(stored.chat_id)  # pressed under a group's reminder, in private
        sent = await self._delivery.show_reply(address, reply, replacing=replacing)
        if sent is not None and reply.asks is not None:
            await self._run(self._core.updates.set_asked, stored.id, sent, reply.asks)
        shown = sent or replacing
        if reply.import_id is not None and shown is not None:
            place = address.chat_id, address.thread_id, shown
            show_in, language = self._core.imports.rows.show_in, caller.language
            await self._run(show_in, caller.owner, reply.import_id, place, language)

    async def _check_rights(self, stored: WaitingUpdate, caller: Caller) -> Caller:
        """Return the caller with ``is_admin`` of the chat; in a private chat it is always true.

        An anonymous admin writes as the group. Nothing is cached, as rights change and are needed
        seldom.

        Raises:
            DeliveryError: Telegram cannot be asked; worth a retry.
        """
        if not caller.owner.is_group or stored.user_id == stored.chat_id:
            return caller
        chat_id, user_id = caller.owner.telegram_user_id, stored.user_id or 0
        try:
            member = await self._bot.get_chat_member(chat_id, user_id)
        except (exceptions.TelegramBadRequest, exceptions.TelegramForbiddenError):
            return replace(caller, is_admin=False)
        except exceptions.AiogramError as error:
            raise delivery_error(error) from error
        return replace(caller, is_admin=member.status in ADMINS)


def _answered(query: types.CallbackQuery) -> types.Message | None:
    """Return the message to which the one with the button replies, if that is known."""
    if isinstance(query.message, types.Message):
        return query.message.reply_to_message
    return None


def _is_for_another(query: types.CallbackQuery) -> bool:
    answered = _answered(query)
    return answered is not None and sender_id_of(answered) != query.from_user.id


def _kind_of(command: Command) -> UpdateKind:
    entry = COMMANDS.get(command.name)
    if entry is None:
        return "command"
    return entry.kind


def _answers_zone_question(message: types.Message, stored: WaitingUpdate) -> bool:
    """Return True for an answer to the question for a time zone: a reply, or the next message.

    A message that is no reply must be a location or a few words that may name a place.
    """
    if stored.asked_before == "zone" and message.reply_to_message is None:
        return message.location is not None or may_name_place(message.text or "")
    has_place = message.text is not None or message.location is not None
    return has_place and asked_by_bot(stored).get("asks") == "zone"


def _reply_address(source: SourceMessage, address: Address, bot_id: int) -> Address | None:
    """None if a reply is impossible: a migrated group's messages stay in its old chat."""
    is_here = source.chat_id == address.chat_id and source.bot_id == bot_id
    if source.telegram_message_id is None or not is_here:
        return None
    return replace(address, reply_to=source.telegram_message_id)


async def move_group(core: Core, old_chat_id: int, new_chat_id: int) -> None:
    """Move the old chat's memory to the new one; idempotent.

    The new id is not allowed automatically: the operator decides who may use the bot.

    Raises:
        StorageError: The database is unavailable; nothing has moved.
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


# Imports: files that come with /import or after it, and the growing progress.


def find_document(message: types.Message) -> types.Document | None:
    """Return the document of a message, else that of the message to which it replies."""
    if message.document is not None:
        return message.document
    answered = message.reply_to_message
    return answered.document if answered is not None else None


def brings_import(message: types.Message, stored: WaitingUpdate) -> bool:
    """Return True for what comes after /import: a reply to its question, else a file or a list."""
    if message.document is None and not message.text:
        return False
    if asked_by_bot(stored).get("asks") == "import":
        return True
    if stored.asked_before != "import" or message.reply_to_message is not None:
        return False
    text = message.text or ""
    return message.document is not None or is_list(text) or text.count("\n") > 1


async def read_import(
    core: Core, delivery: Delivery, message: types.Message, caller: Caller
) -> Reply:
    """Read the file or the list of a message; return what it holds, with the choices.

    Raises:
        DeliveryError: Telegram cannot be reached; worth a retry.
    """
    screens, document = core.commands.imports, find_document(message)
    if document is None:
        return await screens.command(caller.with_argument(message.text or ""))
    if (document.file_size or 0) > MAX_BYTES:
        return screens.refuse_large(caller.language)
    try:
        data = await fetch_file(delivery.bot, document.file_id)
    except DocumentError as error:
        if error.text_key == "error_document_too_large":
            return screens.refuse_large(caller.language)
        return Reply(say(error.text_key, caller.language))
    file = Opened(document.file_name or "file", lambda: cast("BinaryIO", BytesIO(data)))
    return await screens.read(caller, file)


class ImportProgress:
    """Progress of imports, shown by edits of the message with their choices."""

    def __init__(self, core: Core, delivery: Delivery) -> None:
        """Edit through ``delivery``."""
        self._core, self._delivery = core, delivery

    async def show(self, import_: Import) -> None:
        """Show an import as it is now; what Telegram refuses is left as it is."""
        chat_id, thread_id, message_id = import_.shown_in
        if chat_id is None or message_id is None:
            return
        core, run = self._core, self._core.client.run
        chosen = await run(core.user_settings.get, import_.owner.telegram_user_id)
        caller = core.caller(import_.owner, chosen, import_.language)
        caller = caller.with_preferences(language=import_.language)
        found = await run(core.imports.rows.find, import_.owner, import_.id)
        reply = Reply(say("import_undone", caller.language, name=import_.title))
        if found is not None:
            reply = await core.commands.imports.screen(caller, found)
        part = replace(Part(reply.text, []), keyboard=buttons.build_keyboard(reply.rows))
        await best_effort(self._delivery.edit_once(Address(chat_id, thread_id), message_id, part))
