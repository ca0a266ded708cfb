"""Messages: the turn in Telegram, and what is said to everything that is not text."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from datetime import UTC
from functools import partial

from aiogram import Bot, F, Router
from aiogram.types import Message

from src.application import Core
from src.language.requests import asks_to_keep_private
from src.services.agent_service import IncomingMessage, Turn
from src.services.turn_control import TurnControl, TurnStoppedError, stoppable_delivery
from src.storage.conversation_repo import TelegramOrigin
from src.storage.turn_repo import StoredAnswer
from src.storage.update_repo import UpdateKind, WaitingUpdate
from src.telegram.answer_stream import AnswerStream, DraftSupport
from src.telegram.delivery import Address, Delivery, Form
from src.telegram.keyboards import build_keyboard
from src.telegram.own_words import keep_words
from src.telegram.updates import BotIdentity
from src.telegram.voices import author_of, read_voice
from src.texts import Language, say

# Telegram cuts a long paste into messages of 4096 units that arrive within moments, and sends an
# album as separate updates: wait so many seconds for the rest before deciding who answers.
SETTLE_SECONDS = 0.7
LONG_PASTE = 3900  # characters from which a message may be a piece of something longer
MAX_DRAFT_ID = 2**31 - 1


def build_router() -> Router:
    """The router of messages; it comes after the commands."""
    router = Router(name="messages")
    router.message.register(answer_message, F.text)
    router.message.register(explain_text_only)
    router.edited_message.register(take_edit, F.text)
    return router


@dataclass
class _Shown:
    """Where an answer is shown, and how much of it.

    Attributes:
        address: Where to.
        edit: The message that shows its beginning, if there is one.
        parts: How many of its messages have arrived.
    """

    address: Address
    edit: int | None
    parts: int


class TurnHandler:
    """What ``answer_message`` needs, built once in ``bot.py``."""

    def __init__(self, core: Core, bot: Bot, delivery: Delivery) -> None:
        """Answer through ``bot`` and ``delivery``."""
        self._bot = bot
        self._delivery = delivery
        self._agent = core.agent
        self._client = core.client
        self._updates = core.updates
        self._turns = core.turns
        self._metrics = core.metrics
        self._time_zone = core.settings.timezone
        self._settings = core.memory.settings
        self._drafts = DraftSupport(delivery.renderer)

    async def run(
        self, incoming: IncomingMessage, stored: WaitingUpdate, control: TurnControl
    ) -> str:
        """Answer one message; returns how it ended, one word for the operator.

        Raises:
            TransientError: Worth another try; nothing is done twice then.
        """
        newer: str | None = stored.newer
        turn = await self._agent.begin_turn(incoming, is_answered=newer is None)
        if turn.answer is None:
            newer = newer or await self._client.run(self._updates.find_newer, stored)
            if newer in ("new", "stop"):
                await self._agent.mark_stopped(turn)
            if newer is not None:
                return "left to a later message"
        elif await self._is_followed_by(stored, "new", "stop"):
            return await self._end_delivery(turn, turn.answer, stored)
        address = Address(
            incoming.telegram_user_id,
            incoming.thread_id,
            stored.message_id if _is_reply_possible(incoming, stored) else None,
        )
        answer, edit = await self._generate(turn, stored, control, address)
        if control.stopped and await self._is_followed_by(stored, "new"):
            return "wiped"  # nobody wants the beginning of an answer that /new is about to delete
        shown = _Shown(address, edit, answer.delivered_parts)
        try:
            with stoppable_delivery(control):
                await self._deliver(turn, answer, shown)
        except TurnStoppedError:
            return await self._end_delivery(turn, answer, stored, parts=shown.parts)
        await self._agent.mark_delivered(turn, answer, parts=shown.parts, update=stored.id)
        return "done"

    def incoming(
        self, message: Message, text: str, stored: WaitingUpdate, language: Language
    ) -> IncomingMessage:
        """The message as the service takes it."""
        return IncomingMessage(
            telegram_user_id=stored.owner_id or message.chat.id,
            text=text,
            moment=message.date.astimezone(UTC),
            language=language,
            time_zone=stored.time_zone or self._time_zone,
            mode=stored.mode,
            thread_id=stored.thread_id,
            origin=_origin(message, stored),
            voice=read_voice(message),
        )

    async def _generate(
        self, turn: Turn, stored: WaitingUpdate, control: TurnControl, address: Address
    ) -> tuple[StoredAnswer, int | None]:
        """The answer, shown while it is written; and the group message that shows it."""
        shown = await self._shown_before(turn)
        if turn.answer is not None:
            return turn.answer, shown
        stream = AnswerStream(
            self._bot,
            address,
            drafts=self._drafts,
            draft_id=(stored.message_id or 1) % MAX_DRAFT_ID or 1,
            on_message=partial(self._remember_shown, turn),
            message_id=shown,
        )
        await stream.open()
        try:
            answer = await self._agent.answer(turn, control=control, on_text=stream.feed)
        finally:
            await stream.close()
        return answer, stream.message_id

    async def _deliver(self, turn: Turn, answer: StoredAnswer, shown: _Shown) -> None:
        """Send what has not arrived yet; ``shown`` counts what has."""
        if answer.delivered:
            return
        incoming = turn.incoming

        async def remember(parts: int) -> None:
            shown.parts = parts
            await self._remember_parts(turn, answer, parts)

        form = Form(
            build_keyboard(
                answer,
                now=incoming.moment,
                language=incoming.language,
                time_zone=incoming.time_zone,
            ),
            max_parts=self._settings.last_known.answer_max_parts,
            ending=say("cut_long", incoming.language),
        )
        with self._metrics.stage("deliver"):
            shown.parts = await self._delivery.send_answer(
                shown.address,
                keep_words(answer.text, [incoming.text, *(s.text for s in answer.sources)]),
                form=form,
                skip=answer.delivered_parts,
                edit=shown.edit,
                on_part=remember,
            )

    async def _end_delivery(
        self, turn: Turn, answer: StoredAnswer, stored: WaitingUpdate, *, parts: int | None = None
    ) -> str:
        """The user stopped it: what has arrived of the answer is all that he gets."""
        await self._agent.mark_stopped(turn)
        arrived = answer.delivered_parts if parts is None else parts
        await self._agent.mark_delivered(turn, answer, parts=arrived, update=stored.id)
        return "done"

    async def _is_followed_by(self, stored: WaitingUpdate, *kinds: UpdateKind) -> bool:
        newer: str | None = await self._client.run(self._updates.find_newer, stored, kinds=kinds)
        return newer is not None

    async def _shown_before(self, turn: Turn) -> int | None:
        """The message of an interrupted attempt that is edited; asked for in retries only."""
        if turn.is_new:
            return None
        return await self._client.run(
            self._turns.find_stream_message, turn.conversation_id, turn.message_id
        )

    async def _remember_shown(self, turn: Turn, message_id: int) -> None:
        await self._client.run(
            self._turns.set_stream_message, turn.conversation_id, turn.message_id, message_id
        )

    async def _remember_parts(self, turn: Turn, answer: StoredAnswer, parts: int) -> None:
        await self._client.run(
            self._turns.mark_delivered_parts, turn.conversation_id, answer.id, parts
        )


async def answer_message(
    message: Message,
    stored: WaitingUpdate,
    language: Language,
    control: TurnControl,
    identity: BotIdentity,
    turn_handler: TurnHandler,
) -> str:
    """Answer a text."""
    text = without_mention(message.text or "", identity.username)
    if len(text) >= LONG_PASTE:
        await asyncio.sleep(SETTLE_SECONDS)
    incoming = turn_handler.incoming(message, text, stored, language)
    return await turn_handler.run(incoming, stored, control)


async def explain_text_only(
    message: Message,
    stored: WaitingUpdate,
    language: Language,
    core: Core,
    delivery: Delivery,
) -> str:
    """Say that only text is understood so far: once per album."""
    if stored.kind != "media":
        return "ignored"
    if stored.media_group_id is not None:
        find_rest = partial(core.updates.find_newer, stored, kinds=("media",), same_album=True)
        rest = await core.client.run(find_rest)
        if rest is None:
            await asyncio.sleep(SETTLE_SECONDS)
            rest = await core.client.run(find_rest)
        if rest is not None or await core.client.run(core.updates.was_album_answered, stored):
            return "left to another of the album"
    sentence = say("only_text", language)
    address = Address(stored.owner_id or message.chat.id, stored.thread_id)
    await delivery.send_text(address, sentence)
    return "done"


async def take_edit(
    message: Message,
    stored: WaitingUpdate,
    core: Core,
    identity: BotIdentity,
) -> str:
    """Keep what the user made of the message; it is not answered again."""
    origin = _origin(message, stored)
    text = without_mention(message.text or "", identity.username)
    owner = stored.owner_id or message.chat.id
    found = await core.client.run(
        core.conversations.edit_message, owner, origin, text,
        is_private=read_voice(message).is_own and asks_to_keep_private(text),
    )  # fmt: skip
    return "done" if found else "ignored"


def _is_reply_possible(incoming: IncomingMessage, stored: WaitingUpdate) -> bool:
    """Whether the answer quotes the message: in groups, unless it stayed in the old chat."""
    return incoming.telegram_user_id < 0 and incoming.telegram_user_id == stored.chat_id


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


def without_mention(text: str, username: str) -> str:
    """The text without ``@name_of_the_bot``, which is an address and not content.

    The spaces before it go with it. They are taken away afterwards: an expression that begins
    with them looks at a run of spaces once for each of them.
    """
    mention = rf"@{re.escape(username)}\b[,:]?"
    *before, last = re.split(mention, text, flags=re.IGNORECASE)
    return "".join([*(part.rstrip() for part in before), last]).strip() or text
