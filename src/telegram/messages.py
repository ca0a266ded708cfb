"""Messages: the turn in Telegram, and its growing answer: drafts in private chats, else edits.

Showing the growth is best effort: whatever goes wrong with it is passed over, because the final
message is stored and sent by itself.
"""

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC
from functools import partial

from aiogram import types
from aiogram.enums import ChatAction
from aiogram.exceptions import AiogramError, TelegramRetryAfter

from src.base.errors import AppError
from src.core import Core
from src.history.conversation_repo import TelegramOrigin
from src.history.turn_repo import StoredAnswer
from src.media.attachments import Attachment, Heard
from src.memory.screens import corrected_by
from src.pg.client import storable
from src.queue.update_repo import UpdateOutcome, WaitingUpdate
from src.reading.gate import redact
from src.reading.voices import clean_name
from src.talk.change_notes import describe_changes
from src.talk.command_service import COMMANDS, parse_command
from src.talk.edits import take_edit
from src.talk.turn_state import AnswerView, IncomingMessage, Teaching, Turn
from src.talk.zones import zone_note
from src.telegram import delivery
from src.telegram.delivery import Address, Delivery
from src.telegram.incoming import Arrived, author_of, fetch_file, read_content, read_voice
from src.telegram.rendering import MAX_UTF16, Part, keep_words
from src.telegram.updates import BotIdentity, answered_by
from src.texts import say

logger = logging.getLogger(__name__)

# Telegram cuts a long paste into messages of 4096 units that arrive within moments, and sends an
# album as separate updates: wait so many seconds for the rest before deciding who answers.
SETTLE_SECONDS = 0.7
LONG_PASTE = 3900  # characters from which a message may be a piece of something longer
MAX_DRAFT_ID = 2**31 - 1
DRAFT_SECONDS = 0.5  # between two drafts
EDIT_SECONDS = 1.5  # between two edits of a message
DRAFT_REMINDER = 25.0  # seconds after which an unchanged draft is sent again; it lasts 30
TYPING_AFTER = 0.4  # seconds of silence before "typing…" is shown
TYPING_EVERY = 4.5  # seconds; Telegram shows it for at most 5
TYPING_MAX = 1800.0  # seconds; a turn that takes longer looks stuck anyway
SLOW_AFTER = 60.0  # seconds without a word of a server of one's own, after which a line says so
REQUEST_TIMEOUT = 10  # seconds
# UTF-16 units of the answer that one frame formats: its end in a draft, which leaves room for what
# the formatting adds, its beginning in a message, which may well be more than fits.
DRAFT_WINDOW, EDIT_WINDOW = MAX_UTF16 - 500, 2 * MAX_UTF16


class AnswerStream(AnswerView):
    """One answer on its way: ``feed`` it, and ``close`` it before the final message."""

    def __init__(self, delivery: Delivery, address: Address, draft_id: int, is_slow: bool) -> None:
        """Stream to ``address``.

        Args:
            delivery: Sends, formats, and knows whether drafts may be used in a private chat.
            address: Where to; a group's id is negative.
            draft_id: Names the draft; a press of its Stop button brings it back.
            is_slow: Whether a line may stand where the answer will, while nothing of it is there
                for a minute.
        """
        super().__init__()
        self._delivery = delivery
        self._bot = delivery.bot
        self._address = address
        self._draft_id = draft_id
        self._is_slow = is_slow
        self._on_message: Callable[[int], Awaitable[None]] | None = None
        self.message_id: int | None = None
        self._uses_drafts = address.chat_id > 0 and delivery.knows_drafts
        self._pieces: list[str] = []
        self._news = asyncio.Event()
        self._shown: Part | None = None
        self._quiet_until = 0.0
        self._slow_line = ""
        self._closed = False
        self._sending = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self, turn: Turn, on_message: Callable[[int], Awaitable[None]]) -> None:
        """Begin; "typing…" appears when the model takes its time.

        Args:
            turn: What is answered; a message from an earlier attempt at it is edited.
            on_message: Told the id of the message that is being edited, as soon as there is one.
        """
        self._on_message, self.message_id = on_message, turn.shown_in
        self._tasks = [
            asyncio.create_task(self._show_typing()),
            asyncio.create_task(self._show_growth()),
        ]
        if self._is_slow:
            line = say("model_slow", turn.incoming.language)
            self._tasks.append(asyncio.create_task(self._show_slowness(line)))

    def feed(self, text: str) -> None:
        """The next piece of the answer."""
        if not self._closed:
            self._pieces.append(text)
            self._news.set()

    async def close(self) -> None:
        """Stop showing; when this returns, no draft or edit is under way any more."""
        self._closed = True
        async with self._sending:
            pass
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _show_growth(self) -> None:
        """A frame after each piece, but not too often, and now and then one without news."""
        interval = DRAFT_SECONDS if self._uses_drafts else EDIT_SECONDS
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DRAFT_REMINDER):
                    await self._news.wait()
            await asyncio.sleep(max(interval, self._quiet_until - time.monotonic()))
            is_reminder = not self._news.is_set()
            self._news.clear()
            part = await self._delivery.renderer.render_start(self._window())
            if part is not None and (part != self._shown or (is_reminder and self._uses_drafts)):
                await self._show(part)

    async def _show_slowness(self, line: str) -> None:
        await asyncio.sleep(SLOW_AFTER)
        self._slow_line = line
        self._news.set()

    def _window(self) -> str:
        """The piece of the answer that a frame shows."""
        text = storable("".join(self._pieces))
        units = (text if text.strip() else self._slow_line).encode("utf-16-le")
        piece = units[-2 * DRAFT_WINDOW :] if self._uses_drafts else units[: 2 * EDIT_WINDOW]
        return piece.decode("utf-16-le", "ignore")

    async def _show(self, part: Part) -> None:
        async with self._sending:
            if self._closed:
                return
            try:
                await (self._send_draft(part) if self._uses_drafts else self._send_or_edit(part))
                self._shown = part
            except TelegramRetryAfter as error:
                self._quiet_until = time.monotonic() + error.retry_after
                self._news.set()
            except AiogramError as error:
                self._note(error)
            except AppError as error:
                logger.warning("the growing answer is not shown", exc_info=error)

    def _note(self, error: AiogramError) -> None:
        if delivery.is_not_modified(error):
            return
        if self._uses_drafts and delivery.is_unknown_method(error):
            self._delivery.knows_drafts = False
            logger.warning("this Bot API server knows no drafts; answers are edited instead")
        self._quiet_until = time.monotonic() + EDIT_SECONDS * 2
        self._news.set()

    async def _send_draft(self, part: Part) -> None:
        if not self._delivery.knows_drafts:
            return
        await self._bot.send_message_draft(
            **self._address.place,
            draft_id=self._draft_id,
            text=part.text,
            entities=part.entities or None,
            can_stop=True,
            request_timeout=REQUEST_TIMEOUT,
        )

    async def _send_or_edit(self, part: Part) -> None:
        """Into a message of its own, or the one of an earlier attempt."""
        if self.message_id is not None:
            await self._delivery.edit_once(
                self._address, self.message_id, part, timeout=REQUEST_TIMEOUT
            )
            return
        self.message_id = await self._delivery.send_once(
            self._address, part, timeout=REQUEST_TIMEOUT
        )
        if self._on_message is not None and self.message_id != delivery.UNKNOWN_ID:
            await self._on_message(self.message_id)

    async def _show_typing(self) -> None:
        """Best effort, until the answer stands there; an error costs one of many."""
        deadline = time.monotonic() + TYPING_MAX
        await asyncio.sleep(TYPING_AFTER)
        while time.monotonic() < deadline:
            pause = TYPING_EVERY
            try:
                await self._bot.send_chat_action(
                    **self._address.place,
                    action=ChatAction.TYPING,
                    request_timeout=REQUEST_TIMEOUT,
                )
            except TelegramRetryAfter as error:
                pause = max(pause, error.retry_after)
            except AiogramError as error:
                logger.debug("typing is not shown", exc_info=error)
            await asyncio.sleep(pause)


class TurnHandler:
    """Messages to answer: who answers them, and where that is shown."""

    def __init__(self, core: Core, delivery: Delivery, identity: BotIdentity) -> None:
        """Show and deliver through ``delivery``."""
        self.delivery = delivery
        self.is_slow = core.settings.is_own_server(core.settings.chat_model_name)
        self.core = core
        self._identity = identity
        core.attachments.fetch = partial(fetch_file, delivery.bot)

    async def answer_text(self, message: types.Message, it: Arrived) -> UpdateOutcome:
        """Answer a text; raises what ``AgentService.run_turn`` raises, as all of these do."""
        text = without_address(message.text or "", self._identity)
        if len(text) >= LONG_PASTE:
            await asyncio.sleep(SETTLE_SECONDS)
        return await self._run(_incoming(message, text, it), it)

    async def teach(self, message: types.Message, text: str, it: Arrived) -> UpdateOutcome:
        """Remember a text as it stands; a turn without a model."""
        return await self._run(_incoming(message, text, it, Teaching()), it)

    async def answer_content(self, message: types.Message, it: Arrived) -> UpdateOutcome:
        """Answer what a message holds beside, or instead of, a text: said, shown or written.

        A part of an album leaves the answer to the last of them. A second attempt finds what the
        first one stored, and does not read the attachment again.
        """
        content = read_content(message, it.called.language)
        text = without_address(content.text, self._identity)
        incoming = _incoming(message, text, it)
        find = self.core.conversations.find_text
        known = await self.core.client.run(find, incoming.owner, incoming.origin)
        heard = Heard(problem=say(content.problem, it.called.language) if content.problem else "")
        if content.attachment is not None and known is None:
            heard = await self._read(content.attachment, incoming)
        if it.stored.media_group_id is not None and it.stored.newer is None:
            await asyncio.sleep(SETTLE_SECONDS)
        text = known or "\n".join(filter(None, (text, heard.spoken)))
        if text or heard.enclosed is not None:
            return await self._run(with_heard(incoming, text, heard), it)
        if await self.core.agent.is_left_to_newer(incoming):
            return "left to a later message"
        await self.delivery.send_text(Address(*it.called.owner), heard.problem)
        return "explained"

    async def take_edit(self, message: types.Message, it: Arrived) -> UpdateOutcome:
        """History and memory follow the new words; the last message is answered anew, in place."""
        text = without_address(message.text or message.caption or "", self._identity)
        teaching = None
        if (command := parse_command(text)) is not None:
            entry = COMMANDS.get(command.name)
            if entry is None or entry.kind != "teach":
                return "ignored"  # what a command did is done
            text, teaching = command.argument, Teaching()
        incoming = _incoming(message, text, it, teaching)
        outcome = await self.core.client.run(
            take_edit, self.core.client, incoming.owner, incoming.origin, incoming.text,
            is_own=incoming.voice.is_own,
        )  # fmt: skip
        if outcome.secret is not None:
            masked = replace(incoming.noting_mask(), gives_away=outcome.secret)
            rows = delivery.build_keyboard(delivery.turn_rows(masked))
            await self.delivery.send_text(self._address(it), masked.problem, keyboard=rows)
        if outcome.what != "last":
            return "done" if outcome.what == "older" else "ignored"
        if leftover := list(outcome.leftover):
            chat_id = incoming.owner.telegram_user_id
            await delivery.best_effort(self.delivery.bot.delete_messages(chat_id, leftover))
        return await self._run(incoming, it)

    async def _read(self, attachment: Attachment, incoming: IncomingMessage) -> Heard:
        return await self.core.attachments.read(
            attachment,
            caption=redact(incoming.text),
            language=incoming.language,
            conversation_id=await self.core.agent.conversation_of(incoming.owner),
        )

    async def _run(self, incoming: IncomingMessage, it: Arrived) -> UpdateOutcome:
        """A turn; in groups the answer quotes the message.

        Unless the message stayed in the old chat of a group that moved.
        """
        draft_id = (it.stored.message_id or 1) % MAX_DRAFT_ID or 1
        view = TelegramView(self, self._address(it), draft_id)
        return await self.core.agent.run_turn(Turn(incoming, view, it.control))

    def _address(self, it: Arrived) -> Address:
        owner, stored = it.called.owner, it.stored
        is_quoting = owner.is_group and owner.telegram_user_id == stored.chat_id
        return Address(*owner, reply_to=stored.message_id if is_quoting else None)


class TelegramView(AnswerStream):
    """Where one answer appears: drafts or a growing message, then the messages of the answer."""

    def __init__(self, turns: TurnHandler, address: Address, draft_id: int) -> None:
        """Show at ``address``; a press of the Stop button brings ``draft_id`` back."""
        super().__init__(turns.delivery, address, draft_id, turns.is_slow)
        self._turns = turns

    async def deliver(
        self, turn: Turn, answer: StoredAnswer, on_part: Callable[[int], Awaitable[None]]
    ) -> int:
        """Send what has not arrived yet; see ``AnswerView.deliver``."""
        incoming, core = turn.incoming, self._turns.core
        rows = (*delivery.answer_rows(answer, incoming.called), *delivery.turn_rows(incoming))
        changes = await describe_changes(core.client, turn, answer)
        clock = zone_note(incoming.called) if answer.changes.names_zone else ""
        form = delivery.Form(
            delivery.build_keyboard(rows),
            max_parts=core.memory.settings.last_known.answer_max_parts,
            ending=say("cut_long", incoming.language),
            note="\n".join(filter(None, (incoming.problem, changes, clock))),
            lead=say("heard", incoming.language, text=incoming.heard) if incoming.heard else "",
        )
        return await self._turns.delivery.send_answer(
            self._address,
            keep_words(answer.text, [incoming.text, *(s.text for s in answer.sources)]),
            form=form,
            skip=answer.delivered_parts,
            edit=self.message_id or turn.shown_in,
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
    origin = said.origin and replace(said.origin, file_id=heard.enclosed.file_id)
    return replace(said, text=heard.enclosed.text, voice=voice, origin=origin)


def _incoming(
    message: types.Message, text: str, it: Arrived, teaching: Teaching | None = None
) -> IncomingMessage:
    """The message as the service takes it."""
    stored, called = it.stored, it.called
    return IncomingMessage(
        owner=called.owner,
        text=text,
        moment=message.date.astimezone(UTC),
        language=called.language,
        time_zone=called.time_zone,
        has_zone=called.has_zone,
        mode=stored.mode,
        answer_length=stored.answer_length,
        memory_on=stored.memory_on,
        has_reminders=stored.has_reminders,
        has_past=stored.has_past,
        origin=_origin(message, stored),
        voice=read_voice(message),
        newer=stored.newer,
        teaching=teaching or _correction(message, stored),
    )


def _origin(message: types.Message, stored: WaitingUpdate) -> TelegramOrigin:
    """Where the message comes from, and of whom else its words are."""
    sender = message.from_user
    entities = message.entities or ()
    return TelegramOrigin(
        stored.bot_id,
        message.chat.id,
        message.message_id,
        sender.id if sender else 0,
        author_id=author_of(message.forward_origin)[0],
        mentions=tuple(
            (entity.user.id, entity.extract_from(message.text or ""))
            for entity in entities
            if entity.user is not None
        ),
        update=stored.id,
        revision=stored.revision,
        job=stored.job,
    )


def _correction(message: types.Message, stored: WaitingUpdate) -> Teaching | None:
    """Of what fact a message says what is right, as the answer to our question."""
    asked = answered_by(message, stored.bot_id)
    corrects = corrected_by(asked.text or "") if asked else None
    return None if corrects is None else Teaching(corrects)


def without_address(text: str, identity: BotIdentity) -> str:
    """The text without the name of the bot, which is an address and not content.

    The spaces before ``@name`` go with it. They are taken away afterwards: an expression that
    begins with them looks at a run of spaces once for each of them.
    """
    mention = rf"@{re.escape(identity.username)}\b[,:]?"
    *before, last = re.split(mention, text, flags=re.IGNORECASE)
    bare = "".join([*(part.rstrip() for part in before), last]).strip()
    if called := identity.address.match(bare):
        bare = bare[called.end() :]
    return bare or text
