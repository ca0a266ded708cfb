"""Handling of messages: each is read, taken through a turn, and answered in its place."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, timedelta
from functools import partial

from aiogram import types

from src.base.errors import AppError, ConversationGoneError, TransientError
from src.base.zones import local_time
from src.core import Core
from src.history.conversation_repo import TelegramOrigin
from src.history.new_messages import new_messages
from src.history.turn_repo import StoredAnswer
from src.media.attachments import MediaText
from src.queue.update_repo import UpdateOutcome
from src.reading import lexicon
from src.reading.gate import clean_name, redact
from src.reminders.reminder_service import time_marks
from src.talk import edits, notes
from src.talk.commands import Command
from src.talk.settings import zone_note
from src.talk.turn_state import IncomingMessage, Teaching, Turn
from src.telegram import buttons, delivery, rendering
from src.telegram.answer_stream import AnswerStream
from src.telegram.delivery import Address, Delivery
from src.telegram.incoming import (
    Content,
    Context,
    fetch_file,
    forward_author,
    may_be_comment,
    read_content,
    read_voice,
    replied_author_id,
    sender_id_of,
)
from src.telegram.requests import best_effort
from src.telegram.updates import BotIdentity, asked_by_bot, is_addressed, text_of
from src.telegram.words import part_of
from src.texts import say
from src.texts.reply import Times

UNREAD = "📎"  # words of a message whose file cannot be read
CITED_AT = "%d.%m.%Y %H:%M"  # time of a quotation, as answers without a model write it
# "Помни, что …": here the name of the bot is an order.
ORDER = lexicon.AnyCase(r"<lines.remember>[\s,:—–-]*<lines.that>\b[^?]*\Z")
WITHOUT_ANSWER: tuple[UpdateOutcome, ...] = ("wiped", "left to a later message")


class TurnHandler:
    """Handlers of messages to answer; each runs a turn and shows its answer."""

    def __init__(self, core: Core, delivery: Delivery, identity: BotIdentity) -> None:
        """Show and deliver through ``delivery``."""
        self.delivery = delivery
        self.is_slow = core.settings.is_own_server(core.settings.chat_model_name)
        self.streaming = core.settings.streaming
        self.core = core
        self._identity = identity
        core.attachments.fetch = partial(fetch_file, delivery.bot)

    async def answer(
        self,
        message: types.Message,
        context: Context,
        *,
        text: str | None = None,
        teaching: Teaching | None = None,
    ) -> UpdateOutcome:
        """Answer a message; raises as ``AgentService.run_turn``.

        A retry finds the stored text of the first attempt and does not read a file again.

        Args:
            message: The message.
            context: Its context.
            text: Its words without a command, if it begins with one.
            teaching: Set if they are remembered as written.
        """
        language = context.caller.language
        content = read_content(message, self.delivery.bot.id, language)
        if text is not None:
            content = replace(content, text=text)
        words = without_address(content.text, self._identity)
        incoming = _build_incoming(message, words, context, teaching)
        heard = MediaText(problem=content.problem)
        if content.attachment is not None:
            find = self.core.conversations.find_text
            stored_text = await self.core.client.run(find, incoming.owner, incoming.origin)
            if stored_text is None:
                heard = await self._read_file(content, incoming)
            words = stored_text or "\n".join(filter(None, (words, heard.spoken)))
        if content.is_replied and heard.enclosed is not None:
            author = replied_author_id(message)
            heard = replace(heard, enclosed=replace(heard.enclosed, author_id=author))
        if not words and heard.enclosed is None:
            if await self.core.agent.is_continued(incoming):
                return "left to a later message"
            conversation_id = await self.core.agent.get_or_create_conversation(incoming.owner)
            load = self.core.conversations.load_last_messages
            # An earlier message that was left to this one needs an answer.
            if not new_messages(await self.core.client.run(load, conversation_id, 1)):
                await self.delivery.send_notice(Address.of(context.caller), heard.problem)
                return "explained"
            words = UNREAD
        return await self._run_turn(with_attachment(incoming, words, heard), message, context)

    async def _read_file(self, content: Content, incoming: IncomingMessage) -> MediaText:
        assert content.attachment is not None
        conversation_id = await self.core.agent.get_or_create_conversation(incoming.owner)
        return await self.core.attachments.read(
            content.attachment,
            caption=redact(incoming.text),
            language=incoming.language,
            conversation_id=conversation_id,
            is_own=not content.is_replied,
        )

    async def _hear_again(
        self, message: types.Message, incoming: IncomingMessage
    ) -> IncomingMessage:
        """Return an edited caption with what its recording says, if that was heard before."""
        content = read_content(message, self.delivery.bot.id, incoming.language)
        file = content.attachment
        if file is None or file.kind == "picture" or content.is_replied:
            return incoming
        find = self.core.conversations.find_text
        if await self.core.client.run(find, incoming.owner, incoming.origin) is None:
            return incoming
        heard = await self._read_file(content, incoming)
        text = "\n".join(filter(None, (incoming.text, heard.spoken)))
        return replace(incoming, text=text, heard=heard.spoken)

    async def take_edit(
        self, message: types.Message, context: Context, command: Command | None, *, is_heard: bool
    ) -> UpdateOutcome:
        """Apply an edit to history and memory; answer the last message again, in place.

        A message that was not heard is answered like a new one: it names the bot only now, or has
        words only now.
        """
        text = without_address(text_of(message), self._identity)
        argument = teaching = None
        if command is not None:
            text = argument = command.argument
            teaching = Teaching()
        incoming = _build_incoming(message, text, context, teaching)
        incoming = await self._hear_again(message, incoming)
        take = partial(edits.take_edit, self.core.client, is_own=incoming.voice.is_own)
        outcome = await self.core.client.run(take, incoming.owner, incoming.origin, incoming.text)
        if outcome.secret is not None:
            masked = replace(incoming.with_mask_note(), revealed_secret=outcome.secret)
            rows = buttons.build_keyboard(buttons.turn_rows(masked))
            await self.delivery.send_text(self._address(context), masked.problem, keyboard=rows)
        is_new = outcome.what == "unknown" and not is_heard
        if outcome.what == "caption" or (is_new and is_addressed(message, self._identity)):
            return await self.answer(message, context, text=argument, teaching=teaching)
        if outcome.what == "older":
            return "done"
        if outcome.what != "last":
            return "ignored"
        if outcome.leftover:
            chat_id, leftover = incoming.owner.telegram_user_id, list(outcome.leftover)
            await best_effort(self.delivery.bot.delete_messages(chat_id, leftover))
        return await self._run_turn(incoming, message, context)

    async def _run_turn(
        self, incoming: IncomingMessage, message: types.Message, context: Context
    ) -> UpdateOutcome:
        """In groups the answer replies to the message, unless that stayed in a migrated chat."""
        view = TelegramView(self, self._address(context), context.stored.message_id or 1)
        turn = Turn(incoming, view, context.control)
        if may_be_comment(message):
            pause = timedelta(seconds=self.core.settings.gather_seconds)
            view.answer_after = context.stored.received_at + pause
        try:
            outcome = await self.core.agent.run_turn(turn)
        except AppError as error:
            is_gone = isinstance(error, ConversationGoneError)
            is_unwanted = is_gone and not isinstance(error, TransientError)
            await view.withdraw(is_unwanted=is_unwanted)
            raise
        if not view.is_delivered:
            await view.withdraw(is_unwanted=outcome in WITHOUT_ANSWER)
        return outcome

    def _address(self, context: Context) -> Address:
        owner, stored = context.caller.owner, context.stored
        is_quoting = owner.is_group and owner.telegram_user_id == stored.chat_id
        return Address.of(context.caller, stored.message_id if is_quoting else None)


class TelegramView(AnswerStream):
    """View of one answer: drafts or a growing message, then the messages of the answer.

    Attributes:
        is_delivered: True once the answer is whole in its place.
    """

    def __init__(self, turns: TurnHandler, address: Address, number: int) -> None:
        """Show at ``address`` the answer to the user's message ``number``."""
        super().__init__(turns.delivery, address, number, turns.is_slow, streaming=turns.streaming)
        self._turns = turns
        self.is_delivered = False

    async def deliver(
        self, turn: Turn, answer: StoredAnswer, on_part: Callable[[int], Awaitable[None]]
    ) -> int:
        """Send the parts that have not arrived yet; see ``AnswerView.deliver``."""
        incoming, core = turn.incoming, self._turns.core
        changed, changes = await notes.describe_changes(core.client, turn, answer)
        rows = buttons.answer_rows(replace(answer, changes=changes), incoming.caller)
        rows = (*rows, *buttons.turn_rows(incoming))
        zone_hint = ""
        if answer.changes.names_zone:
            zone_hint = zone_note(incoming.caller)
        parts = await rendering.render(
            rendering.keep_words(answer.text, [incoming.text, *(s.text for s in answer.sources)]),
            max_parts=core.memory.settings.last_known.answer_max_parts,
            ending=say("cut_long", incoming.language),
        )
        if incoming.heard:
            lead = say("heard", incoming.language, text=incoming.heard)
            parts = rendering.with_lead(lead, parts)
        offer = notes.offer_of(answer.changes, incoming.language)
        note = "\n".join(filter(None, (incoming.problem, changed, zone_hint, offer)))
        if note:
            parts = rendering.with_note(parts, note)
        times = await self._read_times(incoming, answer)
        parts = [delivery.with_times(part, times) for part in parts]
        parts[-1] = replace(parts[-1], keyboard=buttons.build_keyboard(rows))
        await self._turns.delivery.send_answer(
            self._address,
            parts,
            skip=answer.delivered_parts,
            edit=self.message_id or self.shown_in,
            on_part=on_part,
            sent_ids=self.sent_ids,
        )
        self.is_delivered = True
        return len(parts)

    async def _read_times(self, incoming: IncomingMessage, answer: StoredAnswer) -> Times:
        """Return the phrases of the answer that tell when its reminders come, or who said what."""
        zone = incoming.time_zone
        times: Times = tuple(
            (f"{local_time(one.said_at, zone):{CITED_AT}}", one.said_at) for one in answer.sources
        )
        for number in answer.changes.reminders:
            rows = self._turns.core.reminders.rows
            found = await self._turns.core.client.run(rows.find, incoming.owner, number)
            if found is not None:
                times += time_marks(found, incoming.caller, in_text=answer.text)
        return times


def with_attachment(incoming: IncomingMessage, text: str, heard: MediaText) -> IncomingMessage:
    """Return the message with the content of its attachment.

    If the sender wrote nothing, the content of the file is its text, as words of others.
    """
    changed = replace(incoming, text=text, heard=heard.spoken, problem=heard.problem)
    if heard.enclosed is None or text:
        return replace(changed, enclosed=heard.enclosed)
    name = clean_name(heard.enclosed.name)
    voice = replace(incoming.voice, provenance="file", origin=name)
    origin = changed.origin
    if origin is not None:
        origin = replace(origin, file_id=heard.enclosed.file_id)
    return replace(changed, text=heard.enclosed.text, voice=voice, origin=origin)


def _build_incoming(
    message: types.Message, text: str, context: Context, teaching: Teaching | None = None
) -> IncomingMessage:
    stored, moment = context.stored, message.date.astimezone(UTC)
    mentions = tuple(
        (entity.user.id, part_of(text_of(message), entity.offset, entity.length))
        for entity in message.entities or message.caption_entities or ()
        if entity.user is not None
    )
    origin = TelegramOrigin(
        stored.bot_id,
        message.chat.id,
        message.message_id,
        sender_id_of(message),
        author_id=forward_author(message.forward_origin)[0],
        mentions=mentions,
        update=stored.id,
        revision=stored.revision,
    )
    caller = replace(context.caller, moment=moment, member=sender_id_of(message))
    asked = asked_by_bot(stored)
    if teaching is None and asked.get("asks") == "correction":
        teaching = Teaching(asked["memory_id"])
    return IncomingMessage(
        caller, text, origin=origin, voice=read_voice(message, caller.language), teaching=teaching
    )


def without_address(text: str, identity: BotIdentity) -> str:
    """Return the text without the bot's name, which only addresses the bot.

    The spaces before ``@name`` are removed, too, in a separate step: a pattern that begins with
    spaces would scan a run of spaces once for each of them.
    """
    *before, last = identity.mention_pattern.split(text)
    stripped = "".join([*(part.rstrip() for part in before), last]).strip()
    match = identity.address_pattern.match(stripped)
    if match and not ORDER.match(stripped):
        stripped = stripped[match.end() :]
    return stripped or text
