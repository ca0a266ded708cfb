"""Delivery of answers and replies: formatted, split, with buttons, retried, plain if refused.

A message that its place does not take goes to the next one.
"""

import contextlib
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

from aiogram import Bot, enums, exceptions, types

from src.base import errors
from src.base.owners import Caller
from src.telegram import rendering, requests
from src.telegram.buttons import Inline, build_keyboard
from src.telegram.rendering import Part, utf16_length
from src.texts import Language, say
from src.texts.reply import Reply, ReplyFile, Times

logger = logging.getLogger(__name__)

T = TypeVar("T")
Keyboard = types.InlineKeyboardMarkup | types.ForceReply

FILE_TIMEOUT = 300  # seconds, for 50 MB on a slow line
MAX_EDIT_WAIT = 300.0  # seconds; if edits are forbidden for longer, a new message is sent

TAKEN = "\0"  # in place of a phrase that is found, which no other one may overlap
CLOCK = re.compile(r"\d\d:\d\d")
# Buttons whose record is found wherever they are pressed (``RecordRepository``); of a message that
# goes to another chat the others would act on what is there.
ACT_ANYWHERE = frozenset({"later", "done", "norepeat"})


@dataclass(frozen=True)
class Address:
    """Destination of an answer.

    Attributes:
        chat_id: The chat.
        thread_id: The topic, or 0.
        reply_to: Message to reply to, in groups; None in private chats.
        person: In a group, the member for whom it is; they get it in private if the group cannot.
        language: Language of the words that say why it comes elsewhere.
    """

    chat_id: int
    thread_id: int = 0
    reply_to: int | None = None
    person: int | None = None
    language: Language = "en"

    @classmethod
    def of(cls, caller: Caller, reply_to: int | None = None) -> Self:
        """Return the address of a caller: their chat and topic."""
        return cls(*caller.owner, reply_to, caller.asker, caller.language)

    @property
    def private_chat(self) -> int | None:
        """The private chat of a group's member; None for one who writes as a channel or group."""
        if self.chat_id < 0 and self.person is not None and self.person > 0:
            return self.person
        return None

    @property
    def chat_fields(self) -> dict[str, Any]:
        """Chat and topic as arguments of Telegram's methods."""
        return {"chat_id": self.chat_id, "message_thread_id": self.thread_id or None}


class Route:
    """Way of one answer: to its address, or to the next place that takes it.

    Attributes:
        address: Where it goes now.
        lost: The first place of the way that took nothing, if any.
        is_told: True if a message has arrived here, with the words that say why it comes here.
        has_migrated: True if its group became a supergroup meanwhile.
    """

    def __init__(self, address: Address) -> None:
        """Start at ``address``."""
        self.address = address
        self.lost: errors.PlaceLostError | None = None
        self.is_told = self.has_migrated = False
        self._chat_id = address.chat_id

    @property
    def is_elsewhere(self) -> bool:
        """True if it goes to another chat than meant."""
        return self.address.chat_id != self._chat_id

    @property
    def reason(self) -> str:
        """The words that say why a message comes here, until they have arrived."""
        if self.lost is None or self.is_told:
            return ""
        ending = ""
        if self.is_elsewhere:
            ending = "_group"
        return say(f"{self.lost.reason}{ending}", self.address.language)

    def adapt(self, part: Part) -> list[Part]:
        """Return a part as the place takes it: with the words that say why it comes there.

        In another chat only the buttons stay that act on their own records.
        """
        keyboard = part.keyboard
        if self.is_elsewhere and keyboard is not None:
            rows = keyboard.inline_keyboard if isinstance(keyboard, Inline) else []
            names = tuple(f"{name}:" for name in ACT_ANYWHERE)
            kept = [
                [one for one in row if (one.callback_data or "").startswith(names)] for row in rows
            ]
            part = replace(part, keyboard=Inline(inline_keyboard=kept) if any(kept) else None)
        reason = self.reason
        if reason:
            return rendering.with_lead(reason, [part])
        return [part]

    def leave(self, lost: errors.PlaceLostError) -> None:
        """Go on to the general topic, then to the person in private.

        Raises:
            PlaceLostError: Nothing is left; it tells of the first place of the way.
        """
        here = self.address
        if self.lost is None:
            self.lost = lost
        self.is_told = False
        if here.thread_id and lost.scope == "topic":
            self.address = replace(here, thread_id=0, reply_to=None)
        elif here.private_chat is not None:
            self.address = Address(here.private_chat, language=here.language)
        else:
            raise self.lost

    def migrate(self, chat_id: int) -> None:
        """Follow a group that became a supergroup; its old messages cannot be replied to."""
        self.address = replace(self.address, chat_id=chat_id, reply_to=None)
        self._chat_id, self.has_migrated = chat_id, True


class Delivery:
    """Sends answers of a bot.

    Attributes:
        bot: The bot that sends.
    """

    def __init__(self, bot: Bot, on_migration: Callable[[int, int], Awaitable[None]]) -> None:
        """Send through ``bot``; await ``on_migration(old, new)`` when a group has moved."""
        self.bot = bot
        self._on_migration = on_migration

    async def send_answer(
        self,
        address: Address,
        parts: Sequence[Part],
        *,
        skip: int = 0,
        edit: int | None = None,
        on_part: Callable[[int], Awaitable[None]] | None = None,
        sent_ids: list[int] | None = None,
    ) -> None:
        """Send a whole answer in as many messages as it has.

        Args:
            address: Destination.
            parts: Its messages.
            skip: Number of them that have arrived in an earlier attempt.
            edit: Id of a message that shows the beginning of the answer and becomes its first
                part.
            on_part: Awaited with the number of arrived messages while more follow; what it raises
                ends the answer there.
            sent_ids: List to which the ids of arrived messages are appended.

        Raises:
            DeliveryError: It did not arrive; worth a retry.
            DeliveryUnknownError: It may have arrived.
            DeliveryRefusedError: Telegram refused it; worth one more attempt, later.
            ChatUnavailableError: Nothing can be sent to this chat.
            PlaceLostError: The topic or the chat takes nothing, nor does any other place.
        """
        route = Route(address)
        for number, part in enumerate(parts[skip:], start=skip):
            if number == 0 and edit is not None:
                sent_id = await self._edit_or_send(route, edit, part)
            else:
                sent_id = await self._send_part(route, part)
            if sent_ids is not None and sent_id != requests.UNKNOWN_ID:
                sent_ids.append(sent_id)
            if on_part is not None and number + 1 < len(parts):
                await on_part(number + 1)

    async def send_text(
        self,
        address: Address,
        text: str,
        *,
        keyboard: Keyboard | None = None,
        edit: int | None = None,
        times: Times = (),
        route: Route | None = None,
    ) -> int | None:
        """Send one of the bot's own texts unformatted, with ``keyboard`` under the last part.

        With ``edit``, that message shows the first part instead and carries the keyboard; with
        ``route``, it goes the way that was found before. Raises as ``send_answer``.

        Returns:
            The number of the last message that was sent; None if an edit was enough.
        """
        route = route or Route(address)
        parts = [with_times(part, times) for part in rendering.split_text(text)]
        last_shown = 0 if edit is not None else -1
        parts[last_shown] = replace(parts[last_shown], keyboard=keyboard)
        if edit is not None:
            await self._edit_or_send(route, edit, parts.pop(0))
        last = None
        for part in parts:
            last = await self._send_part(route, part)
        return last

    async def send_notice(self, address: Address, text: str) -> None:
        """Send one of the bot's own sentences that concerns only ``address.person``.

        In a group nobody else sees it, where the Bot API server knows such messages. Raises as
        ``send_answer``.
        """
        if address.private_chat is not None:
            receiver = types.EphemeralMessageParameters(receiver_user_id=address.private_chat)
            if await self.try_to_send(address, text, receiver=receiver):
                return
        await self.send_text(address, text)

    async def show_reply(
        self, address: Address, reply: Reply, *, replacing: int | None = None
    ) -> int | None:
        """Send a reply with its files, or replace the message ``replacing`` with it.

        If Telegram refuses the edit, the reply is sent. Raises as ``send_answer``.

        Returns:
            The number of the message with the end of its text, unless that replaced another.
        """
        if reply.is_personal:
            await self.send_notice(address, reply.text)
            return None
        with contextlib.ExitStack() as files:
            for file in reply.files:
                files.enter_context(file.content)
            keyboard: Keyboard | None = build_keyboard(reply.rows)
            if reply.awaits_words:
                keyboard, replacing = types.ForceReply(selective=True), None
            route = Route(address)
            sent = await self.send_text(
                address,
                reply.hinted,
                keyboard=keyboard,
                edit=replacing,
                times=reply.times,
                route=route,
            )
            for file in reply.files:
                await self._send_file(route, file)
        return sent

    async def try_to_change(self, chat_id: int, message_id: int, text: str | None) -> None:
        """Change a message to ``text`` without buttons; None keeps its text.

        If Telegram refuses the edit, the message stays as it is. Raises otherwise as
        ``send_answer``.
        """
        with contextlib.suppress(errors.DeliveryRefusedError):
            if text is None:
                keep_text = self.bot.edit_message_reply_markup
                await requests.with_quick_retries(
                    keep_text, chat_id=chat_id, message_id=message_id
                )
            else:
                part = Part(text, [])
                await requests.with_quick_retries(
                    self.edit_once, Address(chat_id), message_id, part
                )

    async def try_to_send(self, address: Address, text: str, **how: Any) -> bool:
        """Send one of the bot's own sentences in one way (see ``send_once``), or not.

        Returns:
            False, with nothing sent, if Telegram does not take it so.
        """
        try:
            await requests.with_quick_retries(self.send_once, address, Part(text, []), **how)
        except (errors.DeliveryRefusedError, errors.PlaceLostError) as error:
            logger.info("Telegram does not take a message so", exc_info=error)
            return False
        return True

    async def send_once(
        self,
        address: Address,
        part: Part,
        *,
        must_reply: bool = False,
        receiver: types.EphemeralMessageParameters | None = None,
    ) -> int:
        """Send one message without retries and return its id.

        Args:
            address: Destination; with ``reply_to`` it is a reply.
            part: The message.
            must_reply: Send it only as a reply.
            receiver: The member of a group who alone sees it.

        Raises:
            AiogramError: Telegram refused it or cannot be reached.
        """
        reply = None
        if address.reply_to is not None:
            reply = types.ReplyParameters(
                message_id=address.reply_to,
                chat_id=address.chat_id if must_reply else None,
                allow_sending_without_reply=not must_reply,
            )
        message = await self.bot.send_message(
            **address.chat_fields,
            text=part.text,
            entities=part.entities or None,
            reply_markup=part.keyboard,
            reply_parameters=reply,
            link_preview_options=rendering.NO_PREVIEW,
            ephemeral_message_parameters=receiver,
        )
        return message.message_id

    async def edit_once(self, address: Address, message_id: int, part: Part) -> None:
        """Change one of the bot's messages, without retries; raises as ``send_once``."""
        keyboard = None
        if isinstance(part.keyboard, Inline):
            keyboard = part.keyboard
        await self.bot.edit_message_text(
            text=part.text,
            chat_id=address.chat_id,
            message_id=message_id,
            entities=part.entities or None,
            reply_markup=keyboard,
            link_preview_options=rendering.NO_PREVIEW,
        )

    async def _edit_or_send(self, route: Route, message_id: int, part: Part) -> int:
        """Return the id of the message that shows the part: the edited one, or a new one.

        The new one takes the place of the other, which is deleted if Telegram allows it.
        """
        chat_id = route.address.chat_id
        try:
            await requests.with_quick_retries(self.edit_once, route.address, message_id, part)
        except errors.AppError as error:
            if requests.is_not_modified(error.__cause__):
                return message_id
            is_refused = isinstance(error, errors.DeliveryRefusedError | errors.PlaceLostError)
            if not is_refused and (error.retry_after or 0.0) <= MAX_EDIT_WAIT:
                raise
        else:
            return message_id
        sent_id = await self._send_part(route, part)  # also follows a migrated group
        await requests.best_effort(self.bot.delete_message(chat_id, message_id))
        return sent_id

    async def _send_part(self, route: Route, part: Part) -> int:
        async def send(address: Address) -> int:
            sent_id = requests.UNKNOWN_ID
            for one in route.adapt(part):
                sent_id = await self._send_formatted_or_plain(address, one)
            return sent_id

        return await self._send_along(route, send)

    async def _send_file(self, route: Route, file: ReplyFile) -> None:
        file.content.seek(0)
        document = types.BufferedInputFile(file.content.read(), file.name)

        async def send(address: Address) -> None:
            await requests.with_quick_retries(
                self.bot.send_document,
                **address.chat_fields,
                document=document,
                caption=route.reason or None,
                request_timeout=FILE_TIMEOUT,
            )

        await self._send_along(route, send)

    async def _send_along(self, route: Route, send: Callable[[Address], Awaitable[T]]) -> T:
        """Await ``send`` for the route's place, then for the next ones until one takes it.

        A group that became a supergroup is followed.

        Raises:
            AppError: As ``send_answer``.
        """
        while True:
            try:
                result = await send(route.address)
            except errors.AppError as error:
                await self._leave(route, error)
            else:
                route.is_told = True
                return result

    async def _leave(self, route: Route, error: errors.AppError) -> None:
        """Go on to the next place of a route; raise ``error`` if there is none."""
        here, moved = route.address, error.__cause__
        may_move = here.chat_id < 0 and not route.has_migrated
        if isinstance(error, errors.PlaceLostError):
            route.leave(error)
        elif isinstance(moved, exceptions.TelegramMigrateToChat) and may_move:
            await self._on_migration(here.chat_id, moved.migrate_to_chat_id)
            route.migrate(moved.migrate_to_chat_id)
        elif isinstance(error, errors.ChatUnavailableError) and route.is_elsewhere and route.lost:
            raise route.lost from None  # the group is not gone, whatever the person did
        elif isinstance(error, errors.DeliveryRefusedError) and here.private_chat is not None:
            route.leave(errors.PlaceLostError("chat", "place_mute"))  # whatever it means
        else:
            raise error

    async def _send_formatted_or_plain(self, address: Address, part: Part) -> int:
        """Send a part; without its reply if that is gone, else without what may be refused."""
        try:
            return await requests.with_quick_retries(self.send_once, address, part)
        except errors.DeliveryRefusedError as error:
            cause = error.__cause__
            if isinstance(cause, exceptions.TelegramMigrateToChat):
                raise
            target, simpler = replace(address, reply_to=None), part
            if requests.find_refusal(cause) is None:
                simpler = replace(part, entities=[], keyboard=None)
            if requests.is_refusal(cause, "can't parse entities", "entity", "entities"):
                target, simpler = address, replace(part, entities=[])
            if simpler == part and target == address:
                raise
            logger.warning("Telegram refused a message; sending a simpler one", exc_info=cause)
            return await requests.with_quick_retries(self.send_once, target, simpler)


def with_times(part: Part, times: Times) -> Part:
    """Return a part in which the phrases that tell a moment follow each reader's clock.

    The phrases are looked for from the end, as a user's words may contain them before.
    """
    entities, left = list(part.entities), part.text
    for phrase, moment in reversed(times):
        start = left.rfind(phrase)
        if start < 0:
            continue
        left = f"{left[:start]}{TAKEN * len(phrase)}{left[start + len(phrase) :]}"
        shown = "D"
        if CLOCK.fullmatch(phrase):
            shown = "t"
        if shown == "D" and CLOCK.search(phrase):
            shown = "wDt"
        entities.append(
            types.MessageEntity(
                type=enums.MessageEntityType.DATE_TIME,
                offset=utf16_length(part.text[:start]),
                length=utf16_length(phrase),
                unix_time=int(moment.timestamp()),
                date_time_format=shown,
            )
        )
    return replace(part, entities=entities)
