"""Messages: the turn in Telegram, and what is said to everything that is not text."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC
from functools import partial

from aiogram import Bot, F, Router
from aiogram.exceptions import AiogramError
from aiogram.types import Message

from src.core import Core
from src.history.conversation_repo import TelegramOrigin
from src.history.turn_repo import StoredAnswer
from src.media.attachments import Attachment, Heard
from src.memory.screens import corrected_by
from src.queue.update_repo import UpdateOutcome, WaitingUpdate
from src.reading.voices import clean_name
from src.talk.command_service import COMMANDS, parse_command
from src.talk.corrections import ChangeNotes
from src.talk.turn_state import AnswerView, IncomingMessage, Teaching, Turn, TurnControl
from src.telegram.answer_stream import AnswerStream, DraftSupport
from src.telegram.attachments import Content, fetch_file, read_content
from src.telegram.delivery import Address, Delivery, Form
from src.telegram.keyboards import answer_rows, build_keyboard
from src.telegram.rendering import keep_words
from src.telegram.updates import BotIdentity
from src.telegram.voices import author_of, read_voice
from src.texts import Language, choose_language, say

# Telegram cuts a long paste into messages of 4096 units that arrive within moments, and sends an
# album as separate updates: wait so many seconds for the rest before deciding who answers.
SETTLE_SECONDS = 0.7
LONG_PASTE = 3900  # characters from which a message may be a piece of something longer
MAX_DRAFT_ID = 2**31 - 1
DELETE_SECONDS = 10  # for what nobody waits for


def build_router() -> Router:
    """The router of messages; it comes after the commands."""
    router = Router(name="messages")
    router.message.register(answer_message, F.text)
    router.message.register(answer_content)
    router.edited_message.register(take_edit, F.text | F.caption)
    return router


class TurnHandler:
    """What ``answer_message`` needs, built once: who answers, and where that is shown."""

    def __init__(self, core: Core, bot: Bot, delivery: Delivery) -> None:
        """Show through ``bot``, deliver through ``delivery``."""
        self.bot = bot
        self.delivery = delivery
        self.drafts = DraftSupport(delivery.renderer)
        self.settings = core.memory.settings
        self.notes = ChangeNotes(core.pages, core.client)
        self._agent = core.agent
        self._edits = core.edits
        self._client = core.client
        self._attachments = core.attachments
        self._find_text = core.conversations.find_text
        self._time_zone = core.settings.timezone

    def incoming(
        self, message: Message, text: str, stored: WaitingUpdate, language: Language
    ) -> IncomingMessage:
        """The message as the service takes it."""
        return IncomingMessage(
            owner=stored.owner,
            text=text,
            moment=message.date.astimezone(UTC),
            language=language,
            time_zone=stored.time_zone or self._time_zone,
            mode=stored.mode,
            answer_length=stored.answer_length,
            memory_on=stored.memory_on,
            origin=_origin(message, stored),
            voice=read_voice(message),
            newer=stored.newer,
            teaching=_correction(message, stored),
        )

    async def run(
        self, incoming: IncomingMessage, stored: WaitingUpdate, control: TurnControl
    ) -> UpdateOutcome:
        """Answer one message; in groups the answer quotes it.

        Unless the message stayed in the old chat of a group that moved.

        Raises:
            TransientError: Worth another try; nothing is done twice then.
        """
        owner = incoming.owner
        is_quoting = owner.is_group and owner.telegram_user_id == stored.chat_id
        address = Address(*owner, reply_to=stored.message_id if is_quoting else None)
        view = TelegramView(self, address, (stored.message_id or 1) % MAX_DRAFT_ID or 1)
        return await self._agent.run_turn(Turn(incoming, view, control))

    async def answer_content(
        self, message: Message, content: Content, stored: WaitingUpdate, control: TurnControl
    ) -> UpdateOutcome:
        """Answer what a message holds beside, or instead of, a text.

        A part of an album leaves the answer to the last of them. A second attempt finds what the
        first one stored, and does not read the attachment again.

        Raises:
            TransientError: Worth another try.
        """
        language = choose_language(stored.language, stored.sender_language)
        incoming = self.incoming(message, content.text, stored, language)
        assert incoming.origin is not None
        known = await self._client.run(self._find_text, incoming.owner, incoming.origin)
        heard = Heard(problem=say(content.problem, language) if content.problem else "")
        if content.attachment is not None and known is None:
            heard = await self._read(content.attachment, incoming)
        if stored.media_group_id is not None and stored.newer is None:
            await asyncio.sleep(SETTLE_SECONDS)
        text = known or "\n".join(filter(None, (content.text, heard.spoken)))
        if text or heard.enclosed is not None:
            return await self.run(with_heard(incoming, text, heard), stored, control)
        if await self._agent.is_left_to_newer(incoming):
            return "left to a later message"
        await self.delivery.send_text(Address(*stored.owner), heard.problem)
        return "explained"

    async def _read(self, attachment: Attachment, incoming: IncomingMessage) -> Heard:
        return await self._attachments.read(
            attachment,
            partial(fetch_file, self.bot, attachment.file_id),
            caption=incoming.text,
            language=incoming.language,
            conversation_id=await self._agent.conversation_of(incoming.owner),
        )

    async def edit(
        self, incoming: IncomingMessage, stored: WaitingUpdate, control: TurnControl
    ) -> UpdateOutcome:
        """Take what a message says now; raises what ``run`` raises."""
        assert incoming.origin is not None
        outcome = await self._client.run(
            self._edits.take, incoming.owner, incoming.origin, incoming.text,
            is_own=incoming.voice.is_own,
        )  # fmt: skip
        if outcome.what == "last":
            await self._delete(incoming.owner.telegram_user_id, outcome.leftover)
            return await self.run(incoming, stored, control)
        return "done" if outcome.what == "older" else "ignored"

    async def _delete(self, chat_id: int, messages: Sequence[int]) -> None:
        """Take messages of ours away, as far as Telegram lets us."""
        if messages:
            with contextlib.suppress(AiogramError, TimeoutError):
                await self.bot.delete_messages(
                    chat_id, list(messages), request_timeout=DELETE_SECONDS
                )


class TelegramView(AnswerView):
    """Where one answer appears: drafts or a growing message, then the messages of the answer."""

    def __init__(self, turns: TurnHandler, address: Address, draft_id: int) -> None:
        """Show at ``address``; a press of the Stop button brings ``draft_id`` back."""
        super().__init__()
        self._turns = turns
        self._address = address
        self._draft_id = draft_id
        self._stream: AnswerStream | None = None

    async def open(self, turn: Turn, on_message: Callable[[int], Awaitable[None]]) -> None:
        """Begin to show the answer."""
        self._stream = AnswerStream(
            self._turns.bot,
            self._address,
            drafts=self._turns.drafts,
            draft_id=self._draft_id,
            on_message=on_message,
            message_id=turn.shown_in,
        )
        await self._stream.open()

    def feed(self, text: str) -> None:
        """The next piece of it."""
        if self._stream is not None:
            self._stream.feed(text)

    async def close(self) -> None:
        """No draft or edit is under way any more when this returns."""
        if self._stream is not None:
            await self._stream.close()

    async def _note(self, turn: Turn, answer: StoredAnswer) -> str:
        """What stands in small under an answer."""
        changes = await self._turns.notes.describe(turn, answer)
        return "\n".join(filter(None, (turn.incoming.problem, changes)))

    async def deliver(
        self, turn: Turn, answer: StoredAnswer, on_part: Callable[[int], Awaitable[None]]
    ) -> int:
        """Send what has not arrived yet; see ``AnswerView.deliver``."""
        incoming = turn.incoming
        rows = answer_rows(
            answer, now=incoming.moment, language=incoming.language, time_zone=incoming.time_zone
        )
        form = Form(
            build_keyboard(rows),
            max_parts=self._turns.settings.last_known.answer_max_parts,
            ending=say("cut_long", incoming.language),
            note=await self._note(turn, answer),
            lead=say("heard", incoming.language, text=incoming.heard) if incoming.heard else "",
        )
        return await self._turns.delivery.send_answer(
            self._address,
            keep_words(answer.text, [incoming.text, *(s.text for s in answer.sources)]),
            form=form,
            skip=answer.delivered_parts,
            edit=self._stream.message_id if self._stream else turn.shown_in,
            on_part=on_part,
            sent_ids=self.sent_ids,
        )


def with_heard(incoming: IncomingMessage, text: str, heard: Heard) -> IncomingMessage:
    """The message with what was heard, seen or read in it.

    Where the sender wrote nothing himself, the words of others are all that it says.
    """
    said = replace(incoming, text=text, heard=heard.spoken, problem=heard.problem)
    if heard.enclosed is None or text:
        return replace(said, enclosed=heard.enclosed)
    name = clean_name(heard.enclosed.name)
    voice = replace(incoming.voice, provenance="file", origin=name)
    return replace(said, text=heard.enclosed.text, voice=voice)


async def answer_message(
    message: Message,
    stored: WaitingUpdate,
    language: Language,
    control: TurnControl,
    identity: BotIdentity,
    turn_handler: TurnHandler,
) -> UpdateOutcome:
    """Answer a text."""
    text = without_address(message.text or "", identity)
    if len(text) >= LONG_PASTE:
        await asyncio.sleep(SETTLE_SECONDS)
    incoming = turn_handler.incoming(message, text, stored, language)
    return await turn_handler.run(incoming, stored, control)


async def answer_content(
    message: Message,
    stored: WaitingUpdate,
    language: Language,
    control: TurnControl,
    identity: BotIdentity,
    turn_handler: TurnHandler,
) -> UpdateOutcome:
    """Answer a message that is no text: what is said, shown or written in it."""
    content = read_content(message, language)
    content = replace(content, text=without_address(content.text, identity))
    return await turn_handler.answer_content(message, content, stored, control)


async def take_edit(
    message: Message,
    stored: WaitingUpdate,
    language: Language,
    control: TurnControl,
    identity: BotIdentity,
    turn_handler: TurnHandler,
) -> UpdateOutcome:
    """History and memory follow the new words; the last message is answered again, in place."""
    text = without_address(message.text or message.caption or "", identity)
    command = parse_command(text)
    teaching = None
    if command is not None:
        entry = COMMANDS.get(command.name)
        if entry is None or not entry.teaches:
            return "ignored"  # what a command did is done
        text, teaching = command.argument, Teaching()
    incoming = turn_handler.incoming(message, text, stored, language)
    if teaching is not None:
        incoming = replace(incoming, teaching=teaching)
    return await turn_handler.edit(incoming, stored, control)


def _origin(message: Message, stored: WaitingUpdate) -> TelegramOrigin:
    """Where the message comes from, and of whom else its words are."""
    sender = message.from_user
    entities = message.entities or ()
    return TelegramOrigin(
        stored.bot_id,
        message.chat.id,
        message.message_id,
        sender.id if sender else 0,
        author_id=author_of(message.forward_origin),
        mentions=tuple(
            (entity.user.id, entity.extract_from(message.text or ""))
            for entity in entities
            if entity.user is not None
        ),
        update=stored.id,
        revision=stored.revision,
    )


def _correction(message: Message, stored: WaitingUpdate) -> Teaching | None:
    """Of what fact a message says what is right, as the answer to our question."""
    asked = message.reply_to_message
    if asked is None or asked.from_user is None or asked.from_user.id != stored.bot_id:
        return None
    corrects = corrected_by(asked.text or "")
    return None if corrects is None else Teaching(corrects)


def without_address(text: str, identity: BotIdentity) -> str:
    """The text without the name of the bot, which is an address and not content.

    The spaces before ``@name`` go with it. They are taken away afterwards: an expression that
    begins with them looks at a run of spaces once for each of them.
    """
    mention = rf"@{re.escape(identity.username)}\b[,:]?"
    *before, last = re.split(mention, text, flags=re.IGNORECASE)
    bare = "".join([*(part.rstrip() for part in before), last]).strip()
    if identity.name:
        bare = identity.address.sub("", bare, count=1) if identity.address.match(bare) else bare
    return bare or text
