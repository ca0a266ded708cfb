"""Delivery of answers and replies: formatted, split, with buttons, retried, plain if refused."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from aiogram import Bot, exceptions, types
from aiohttp import ClientConnectorError

from src.base import errors
from src.base.owners import Caller
from src.history.turn_repo import AnswerSource, StoredAnswer
from src.memory.memory_repo import message_number
from src.talk.forget_screens import undo_buttons
from src.talk.question_screens import choice_rows
from src.talk.turn_state import IncomingMessage, check_stopped, wait_unless_stopped
from src.talk.zones import zone_rows
from src.telegram import rendering
from src.telegram.rendering import Part
from src.texts import say
from src.texts.plain_text import is_visible, shortened
from src.texts.reply import Action, Button, Reply, ReplyFile, Rows, in_rows

logger = logging.getLogger(__name__)

T = TypeVar("T")
Keyboard = types.InlineKeyboardMarkup | types.ForceReply

SEND_TIMEOUT = 30  # seconds
FILE_TIMEOUT = 300  # seconds, for 50 MB on a slow line
CHUNK = 2**16  # bytes
QUICK_RETRIES = 3  # immediate retries of requests that certainly did not arrive
MAX_QUICK_WAIT = 5.0  # seconds; a longer retry_after is left to the queue
MAX_EDIT_WAIT = 300.0  # seconds; if edits are forbidden for longer, a new message is sent
MAX_SOURCES = 8  # buttons; further sources of an answer get none
SOURCES_PER_ROW = 4  # source buttons in a row, still readable on a phone
BEST_EFFORT_SECONDS = 10  # seconds for optional requests
MAX_POPUP = 195  # characters; Telegram takes 200
UNKNOWN_ID = 0  # of a sent message whose id Telegram did not return

# Phrases in Telegram's 400 and 403 errors that mean that nothing can be sent to a chat.
UNREACHABLE = (
    "chat not found",
    "user not found",
    "user is deactivated",
    "group chat was deactivated",
    "bot was blocked",
    "bot was kicked",
    "bot is not a member",
    "can't initiate conversation",
    "can't send messages to",
    "not enough rights to send",
    "have no rights to send",
    "chat_write_forbidden",
    "peer_id_invalid",
    "topic_closed",
    "user_is_blocked",
)


def delivery_error(error: Exception) -> errors.AppError:
    """Convert aiogram's error to ours: worth a retry, of unknown effect, or final."""
    if isinstance(error, errors.AppError):
        return error
    name = type(error).__name__
    if isinstance(error, exceptions.TelegramRetryAfter):
        delayed = errors.DeliveryError(f"Telegram asks to wait {error.retry_after} s")
        delayed.retry_after = float(error.retry_after)
        return delayed
    if isinstance(error, exceptions.TelegramNetworkError) and not isinstance(
        error, exceptions.TelegramEntityTooLarge
    ):
        if isinstance(error.__cause__, ClientConnectorError):
            return errors.DeliveryError("Telegram could not be reached")
        return errors.DeliveryUnknownError(f"no answer from Telegram ({name})")
    if isinstance(error, exceptions.ClientDecodeError):
        return errors.DeliveryNonsenseError("Telegram's answer was not the Bot API's")
    if isinstance(error, exceptions.TelegramServerError | exceptions.TelegramUnauthorizedError):
        return errors.DeliveryError(f"Telegram failed ({name})")
    if _is_refusal(error, *UNREACHABLE):
        return errors.ChatUnavailableError(f"nothing can be sent to this chat ({name})")
    return errors.DeliveryRefusedError(f"Telegram refused a message ({name})")


def is_not_modified(error: BaseException | None) -> bool:
    """Return True if the edit changed nothing, which is a success."""
    return _is_refusal(error, "message is not modified")


def is_unknown_method(error: BaseException) -> bool:
    """Return True if the Bot API server is too old to know the method."""
    return isinstance(error, exceptions.TelegramNotFound) or _is_refusal(error, "method not found")


def _is_refusal(error: BaseException | None, *parts: str) -> bool:
    if not isinstance(error, exceptions.TelegramBadRequest | exceptions.TelegramForbiddenError):
        return False
    message = error.message.lower()
    return any(part in message for part in parts)


@dataclass(frozen=True)
class Address:
    """Destination of an answer.

    Attributes:
        chat_id: The chat.
        thread_id: The topic, or 0.
        reply_to: Message to reply to, in groups; None in private chats.
    """

    chat_id: int
    thread_id: int = 0
    reply_to: int | None = None

    @property
    def chat_fields(self) -> dict[str, Any]:
        """Chat and topic as arguments of Telegram's methods."""
        return {"chat_id": self.chat_id, "message_thread_id": self.thread_id or None}


@dataclass(frozen=True)
class AnswerLayout:
    """Layout of an answer around its text.

    Attributes:
        keyboard: Buttons under the last message.
        max_parts: Maximum number of messages.
        ending: Appended to the last message if the answer was cut.
        note: Plain text in small print below the answer.
        lead: Plain text in small print above the answer.
    """

    keyboard: types.InlineKeyboardMarkup | None = None
    max_parts: int = rendering.MAX_PARTS
    ending: str = "…"
    note: str = ""
    lead: str = ""


class OpenFile(types.InputFile):
    """An aiogram upload that is read in chunks, from the beginning at each attempt."""

    def __init__(self, file: ReplyFile) -> None:
        """Upload ``file``."""
        super().__init__(filename=file.name)
        self._content = file.content

    async def read(self, bot: Bot) -> AsyncGenerator[bytes, None]:  # noqa: ARG002
        """Yield the content in chunks."""
        self._content.seek(0)
        while piece := await asyncio.to_thread(self._content.read, CHUNK):
            yield piece


class Delivery:
    """Sends answers of a bot.

    Attributes:
        bot: The bot that sends.
        knows_drafts: False once the Bot API server has refused a draft as unknown.
        renderer: Converts Markdown to messages.
    """

    def __init__(self, bot: Bot, on_migration: Callable[[int, int], Awaitable[None]]) -> None:
        """Send through ``bot``; await ``on_migration(old, new)`` when a group has moved."""
        self.bot = bot
        self.knows_drafts = True
        self.renderer = rendering.Renderer()
        self._on_migration = on_migration

    async def send_answer(  # noqa: PLR0913  (how far an earlier attempt got)
        self,
        address: Address,
        markdown: str,
        *,
        layout: AnswerLayout = AnswerLayout(),
        skip: int = 0,
        edit: int | None = None,
        on_part: Callable[[int], Awaitable[None]] | None = None,
        sent_ids: list[int] | None = None,
    ) -> int:
        """Send a whole answer in as many messages as it needs.

        Args:
            address: Destination.
            markdown: The answer.
            layout: Buttons, limits and notes.
            skip: Number of its messages that have arrived in an earlier attempt.
            edit: Id of a message that shows the beginning of the answer and becomes its first
                part.
            on_part: Awaited with the number of arrived messages while more follow.
            sent_ids: List to which the ids of arrived messages are appended.

        Returns:
            The number of messages of the answer.

        Raises:
            DeliveryError: It did not arrive; worth a retry.
            DeliveryUnknownError: It may have arrived.
            DeliveryRefusedError: Telegram refused it; worth one more attempt, later.
            ChatUnavailableError: Nothing can be sent to this chat.
            TurnStoppedError: The user has stopped the answer.
        """
        parts = await self.renderer.render(
            markdown, max_parts=layout.max_parts, ending=layout.ending
        ) or [_fallback_part(markdown)]
        if layout.lead:
            parts = rendering.with_lead(layout.lead, parts)
        if layout.note:
            parts = rendering.with_note(parts, layout.note)
        parts[-1] = replace(parts[-1], keyboard=layout.keyboard)
        for number, part in enumerate(parts[skip:], start=skip):
            check_stopped()
            if number == 0 and edit is not None:
                sent_id = await self._edit_or_send(address, edit, part)
            else:
                sent_id = await self._send_part(address, part)
            if sent_ids is not None and sent_id != UNKNOWN_ID:
                sent_ids.append(sent_id)
            if on_part is not None and number + 1 < len(parts):
                await on_part(number + 1)
        return len(parts)

    async def send_text(
        self,
        address: Address,
        text: str,
        *,
        keyboard: Keyboard | None = None,
        edit: int | None = None,
    ) -> int | None:
        """Send one of the bot's own texts unformatted, with ``keyboard`` under the last part.

        With ``edit``, that message shows the first part instead and carries the keyboard. Raises
        as ``send_answer``.

        Returns:
            The number of the last message that was sent; None if an edit was enough.
        """
        parts = rendering.split_text(text)
        keyboard_index = -1 if edit is None else 0
        parts[keyboard_index] = replace(parts[keyboard_index], keyboard=keyboard)
        if edit is not None:
            await self._edit_or_send(address, edit, parts.pop(0))
        last = None
        for part in parts:
            last = await self._send_part(address, part)
        return last

    async def _send_file(self, address: Address, file: ReplyFile) -> None:
        document = OpenFile(file)
        await _with_quick_retries(
            lambda: self.bot.send_document(
                **address.chat_fields, document=document, request_timeout=FILE_TIMEOUT
            )
        )

    async def show_reply(
        self, address: Address, reply: Reply, *, replacing: int | None = None
    ) -> int | None:
        """Send a reply with its files, or replace the message ``replacing`` with it.

        If Telegram refuses the edit, the reply is sent. Raises as ``send_answer``.

        Returns:
            The number of the message with the end of its text, unless that replaced another.
        """
        with contextlib.ExitStack() as files:
            for file in reply.files:
                files.enter_context(file.content)
            if reply.awaits_words:
                force_reply = types.ForceReply(selective=True)
                sent = await self.send_text(address, reply.text, keyboard=force_reply)
            else:
                keyboard = build_keyboard(reply.rows)
                sent = await self.send_text(
                    address, reply.hinted, keyboard=keyboard, edit=replacing
                )
            for file in reply.files:
                await self._send_file(address, file)
        return sent

    async def try_to_change(self, chat_id: int, message_id: int, text: str | None) -> None:
        """Change a message to ``text`` without buttons; None keeps its text.

        If Telegram refuses the edit, the message stays as it is. Raises otherwise as
        ``send_answer``.
        """

        async def change() -> None:
            if text is None:
                await self.bot.edit_message_reply_markup(chat_id=chat_id, message_id=message_id)
            else:
                await self.edit_once(Address(chat_id), message_id, Part(text, []))

        with contextlib.suppress(errors.DeliveryRefusedError):
            await _with_quick_retries(change)

    async def send_as_reply(self, address: Address, text: str) -> bool:
        """Send one of the bot's own sentences as a reply to ``address.reply_to``, or not.

        Returns:
            False, with nothing sent, if Telegram refuses it because that message is gone.
        """
        part = Part(text, [])
        try:
            await _with_quick_retries(lambda: self.send_once(address, part, must_reply=True))
        except errors.DeliveryRefusedError:  # deleted, or left behind in a group that moved
            return False
        return True

    async def send_once(
        self,
        address: Address,
        part: Part,
        *,
        must_reply: bool = False,
        timeout: int = SEND_TIMEOUT,  # noqa: ASYNC109  (passed on to aiogram)
    ) -> int:
        """Send one message without retries and return its id.

        Args:
            address: Destination; with ``reply_to`` it is a reply.
            part: The message.
            must_reply: Send it only as a reply.
            timeout: Seconds.

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
            request_timeout=timeout,
        )
        return message.message_id

    async def edit_once(
        self,
        address: Address,
        message_id: int,
        part: Part,
        *,
        timeout: int = SEND_TIMEOUT,  # noqa: ASYNC109  (passed on to aiogram)
    ) -> None:
        """Change one of the bot's messages, without retries; raises as ``send_once``."""
        await self.bot.edit_message_text(
            text=part.text,
            chat_id=address.chat_id,
            message_id=message_id,
            entities=part.entities or None,
            reply_markup=part.keyboard
            if isinstance(part.keyboard, types.InlineKeyboardMarkup)
            else None,
            request_timeout=timeout,
        )

    async def _edit_or_send(self, address: Address, message_id: int, part: Part) -> int:
        """Return the id of the message that shows the part: the edited one, or a new one."""
        try:
            await _with_quick_retries(lambda: self.edit_once(address, message_id, part))
        except errors.AppError as error:
            if is_not_modified(error.__cause__):
                return message_id
            is_refused = isinstance(error, errors.DeliveryRefusedError)
            if not is_refused and (error.retry_after or 0.0) <= MAX_EDIT_WAIT:
                raise
            return await self._send_part(address, part)  # also follows a migrated group
        return message_id

    async def _send_part(self, address: Address, part: Part) -> int:
        """Send to the chat, or to the supergroup that it became."""
        try:
            return await self._send_formatted_or_plain(address, part)
        except errors.DeliveryRefusedError as error:
            migration = error.__cause__
            if not isinstance(migration, exceptions.TelegramMigrateToChat) or address.chat_id > 0:
                raise
            await self._on_migration(address.chat_id, migration.migrate_to_chat_id)
            new_address = Address(migration.migrate_to_chat_id, address.thread_id)
            return await self._send_formatted_or_plain(new_address, part)

    async def _send_formatted_or_plain(self, address: Address, part: Part) -> int:
        """Send a part; if Telegram refuses it for an unknown reason, send its plain text."""
        try:
            return await _with_quick_retries(lambda: self.send_once(address, part))
        except errors.DeliveryRefusedError as error:
            is_markup = _is_refusal(error.__cause__, "can't parse entities", "entity", "entities")
            plain = replace(part, entities=[], keyboard=part.keyboard if is_markup else None)
            is_plain = plain == part and address.reply_to is None
            if is_plain or isinstance(error.__cause__, exceptions.TelegramMigrateToChat):
                raise
            logger.warning(
                "Telegram refused a message; sending plain text", exc_info=error.__cause__
            )
            target = address if is_markup else replace(address, reply_to=None)
            return await _with_quick_retries(lambda: self.send_once(target, plain))


async def _with_quick_retries(send: Callable[[], Awaitable[T]]) -> T:
    """Retry at once if the request certainly did not arrive; leave all other retries to the queue.

    Raises:
        AppError: See ``Delivery.send_answer``; its cause is aiogram's error.
    """
    for attempt in range(QUICK_RETRIES + 1):
        try:
            return await send()
        except exceptions.AiogramError as error:
            failure = delivery_error(error)
            is_certain = type(failure) is errors.DeliveryError
            wait = failure.retry_after if failure.retry_after is not None else 0.2 * 2**attempt
            if not is_certain or attempt == QUICK_RETRIES or wait > MAX_QUICK_WAIT:
                raise failure from error
        await wait_unless_stopped(asyncio.sleep(wait))
    raise AssertionError("unreachable")


def _fallback_part(markdown: str) -> Part:
    text = markdown.strip()[: rendering.MAX_UTF16 // 2]
    return Part(text if is_visible(text) else "…", [])


def build_keyboard(rows: Rows) -> types.InlineKeyboardMarkup | None:
    """Return the buttons as Telegram's markup, or None without buttons."""
    if not rows:
        return None
    return types.InlineKeyboardMarkup(
        inline_keyboard=[[_build_button(button) for button in row] for row in rows]
    )


def answer_rows(answer: StoredAnswer, caller: Caller) -> Rows:
    """Return the buttons under an answer: sources, undo and zone buttons, a choice."""
    language, sources = caller.language, []
    for numbers, source in _group_by_message(answer)[:MAX_SOURCES]:
        action = Action("source", (message_number(source.uid) or 0,))
        sources.append(Button(f"{numbers} {caller.day(source.said_at)}", action))
    rows = in_rows(sources, SOURCES_PER_ROW) + in_rows(undo_buttons(answer.changes, language), 1)
    rows += zone_rows(answer.changes, caller)
    if answer.asks == "erase_all":
        choices = (("erase_yes", 1), ("erase_no", 0))
        rows += (tuple(Button(say(key, language), Action("erase", (n,))) for key, n in choices),)
    if answer.asks == "conflict":
        rows += choice_rows(answer.id, language)
    return rows


def turn_rows(incoming: IncomingMessage) -> Rows:
    """Return the buttons that depend on the user's message: delete it, switch the memory on."""
    rows: Rows = ()
    if incoming.teaching is not None and not incoming.preferences.memory_on:
        label = say("memory_switch_on", incoming.language)
        rows += ((Button(label, Action("remembering", (0,))),),)
    if incoming.is_masked and incoming.origin is not None:
        secret = incoming.revealed_secret
        number = abs((secret and secret.telegram_message_id) or incoming.origin.message_id)
        rows += ((Button(say("unsend_button", incoming.language), Action("unsend", (number,))),),)
    return rows


async def best_effort(request: Awaitable[Any]) -> None:
    """Await an optional request such as ``query.answer()``; ignore its failure."""
    with contextlib.suppress(exceptions.AiogramError, TimeoutError):
        async with asyncio.timeout(BEST_EFFORT_SECONDS):
            await request


async def show_popup(query: types.CallbackQuery, text: str, *, stays: bool = False) -> None:
    """Show the result of a button press; ``stays`` keeps it open until the user closes it."""
    await best_effort(query.answer(shortened(text, MAX_POPUP), show_alert=stays))


async def remove_button(query: types.CallbackQuery) -> None:
    """Remove the pressed button from its message if Telegram allows it."""
    if isinstance(query.message, types.Message) and query.message.reply_markup is not None:
        keyboard = build_keyboard(remaining_rows(query))
        await best_effort(query.message.edit_reply_markup(reply_markup=keyboard))


def remaining_rows(query: types.CallbackQuery, excluded: Rows = ()) -> Rows:
    """Return the buttons beside the pressed one, except those in ``excluded``."""
    markup = query.message.reply_markup if isinstance(query.message, types.Message) else None
    done = {query.data, *(button.action.pack() for row in excluded for button in row)}
    rows = [
        tuple(
            Button(one.text, action, one.web_app.url if one.web_app else None)
            for one in row
            if one.callback_data not in done
            and (action := Action.unpack(one.callback_data or "app")) is not None
        )
        for row in (markup.inline_keyboard if markup else ())
    ]
    return tuple(filter(None, rows))


def _build_button(button: Button) -> types.InlineKeyboardButton:
    if button.url is not None:
        return types.InlineKeyboardButton(
            text=button.label, web_app=types.WebAppInfo(url=button.url)
        )
    return types.InlineKeyboardButton(text=button.label, callback_data=button.action.pack())


def _group_by_message(answer: StoredAnswer) -> list[tuple[str, AnswerSource]]:
    """Group the sources that are messages by message, with all numbers of each: ``[1][3]``.

    Summaries are omitted, as there is no message to show for them.
    """
    by_uid: dict[str, list[AnswerSource]] = {}
    for source in answer.sources:
        if message_number(source.uid) is not None:
            by_uid.setdefault(source.uid, []).append(source)
    return [("".join(f"[{s.number}]" for s in told), told[0]) for told in by_uid.values()]
