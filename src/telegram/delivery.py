"""Sending answers and replies: formatted, split, with buttons, retried, plain when refused."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from aiogram import Bot, exceptions, types
from aiohttp import ClientConnectorError

from src.base import errors
from src.base.owners import Called
from src.history.turn_repo import AnswerSource, StoredAnswer
from src.memory.memory_repo import message_number
from src.talk.command_service import choice_rows, undo_buttons
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
QUICK_RETRIES = 3  # at once, for what certainly did not arrive
SHORT_WAIT = 5.0  # seconds of retry_after that are waited for on the spot
LONG_WAIT = 300.0  # seconds; who may not edit for longer gets a new message
MAX_SOURCES = 8  # buttons; an answer that cites more is followed by the first ones
PER_ROW = 4  # of them, still readable on a phone
BEST_EFFORT = 10  # seconds for what the user can do without
MAX_POPUP = 195  # characters; Telegram takes 200
UNKNOWN_ID = 0  # of a message that was sent; Telegram did not say which it is

# How Telegram says (as 400 or 403) that nothing can be sent to a chat.
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
    """The error to raise instead of aiogram's own: worth another try, unknown, or final."""
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
    """An edit that changes nothing: success."""
    return _is_refusal(error, "message is not modified")


def is_unknown_method(error: BaseException) -> bool:
    """An older Bot API server, which does not have the method."""
    return isinstance(error, exceptions.TelegramNotFound) or _is_refusal(error, "method not found")


def _is_refusal(error: BaseException | None, *parts: str) -> bool:
    """Whether Telegram answered 400 or 403 with one of these phrases."""
    if not isinstance(error, exceptions.TelegramBadRequest | exceptions.TelegramForbiddenError):
        return False
    message = error.message.lower()
    return any(part in message for part in parts)


@dataclass(frozen=True)
class Address:
    """Where an answer goes.

    Attributes:
        chat_id: The chat.
        thread_id: The topic, or 0.
        reply_to: The message that is answered, quoted in groups; None in private chats.
    """

    chat_id: int
    thread_id: int = 0
    reply_to: int | None = None

    @property
    def place(self) -> dict[str, Any]:
        """Chat and topic, as requests of Telegram's name them."""
        return {"chat_id": self.chat_id, "message_thread_id": self.thread_id or None}


@dataclass(frozen=True)
class Form:
    """What an answer looks like beside its text.

    Attributes:
        keyboard: Buttons for the last of its messages.
        max_parts: The most messages that it may take.
        ending: Says at the end of the last one that there would be more.
        note: Stands in small under all of it, as it is.
        lead: Stands in small above all of it.
    """

    keyboard: types.InlineKeyboardMarkup | None = None
    max_parts: int = rendering.MAX_PARTS
    ending: str = "…"
    note: str = ""
    lead: str = ""


class OpenFile(types.InputFile):
    """A file as aiogram sends it: read while it goes out, from its beginning each time."""

    def __init__(self, file: ReplyFile) -> None:
        """Send this one."""
        super().__init__(filename=file.name)
        self._content = file.content

    async def read(self, bot: Bot) -> AsyncGenerator[bytes, None]:  # noqa: ARG002
        """The bytes, piece by piece."""
        self._content.seek(0)
        while piece := await asyncio.to_thread(self._content.read, CHUNK):
            yield piece


class Delivery:
    """Sends answers of a bot.

    Attributes:
        bot: Sends.
        knows_drafts: Whether the server does; learnt from its first refusal.
        renderer: Formats.
    """

    def __init__(self, bot: Bot, on_migration: Callable[[int, int], Awaitable[None]]) -> None:
        """Send through ``bot``; ``on_migration(old, new)`` learns of groups that moved."""
        self.bot = bot
        self.knows_drafts = True
        self.renderer = rendering.Renderer()
        self._on_migration = on_migration

    async def send_answer(  # noqa: PLR0913  (how far an earlier attempt got)
        self,
        address: Address,
        markdown: str,
        *,
        form: Form = Form(),
        skip: int = 0,
        edit: int | None = None,
        on_part: Callable[[int], Awaitable[None]] | None = None,
        sent_ids: list[int] | None = None,
    ) -> int:
        """Send a whole answer, in as many messages as it needs.

        Args:
            address: Where to.
            markdown: What.
            form: Its buttons, and how many messages it may be.
            skip: How many of its messages have arrived already.
            edit: A message that shows the beginning of the answer and becomes its first part.
            on_part: Called with the number of messages that have arrived, while more follow.
            sent_ids: Filled with the ids of those that arrive.

        Returns:
            How many messages it took.

        Raises:
            DeliveryError: It did not arrive; worth another try.
            DeliveryUnknownError: It may have arrived.
            DeliveryRefusedError: Telegram does not want it; worth one more try, later.
            ChatUnavailableError: Nothing can be sent to this chat.
            TurnStoppedError: The user does not want the rest.
        """
        parts = await self.renderer.render(
            markdown, max_parts=form.max_parts, ending=form.ending
        ) or [_unformatted(markdown)]
        if form.lead:
            parts = rendering.with_lead(form.lead, parts)
        if form.note:
            parts = rendering.with_note(parts, form.note)
        parts[-1] = replace(parts[-1], keyboard=form.keyboard)
        for number, part in enumerate(parts[skip:], start=skip):
            check_stopped()
            if number == 0 and edit is not None:
                arrived = await self._edit(address, edit, part)
            else:
                arrived = await self._send_part(address, part)
            if sent_ids is not None and arrived != UNKNOWN_ID:
                sent_ids.append(arrived)
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
    ) -> None:
        """Send a text of our own as it stands, the last part with its buttons.

        The message ``edit`` shows the first part instead, and keeps the buttons there. Raises what
        ``send_answer`` raises.
        """
        parts = rendering.split_text(text)
        place = -1 if edit is None else 0
        parts[place] = replace(parts[place], keyboard=keyboard)
        if edit is not None:
            await self._edit(address, edit, parts.pop(0))
        for part in parts:
            await self._send_part(address, part)

    async def _send_file(self, address: Address, file: ReplyFile) -> None:
        document = OpenFile(file)
        await _with_quick_retries(
            lambda: self.bot.send_document(
                **address.place, document=document, request_timeout=FILE_TIMEOUT
            )
        )

    async def show_reply(
        self, address: Address, reply: Reply, *, replacing: int | None = None
    ) -> None:
        """Send a reply with its files, or let it take the place of the message ``replacing``.

        Where Telegram does not let us replace it, the reply is sent. Raises what ``send_answer``
        raises.
        """
        with contextlib.ExitStack() as files:
            for file in reply.files:
                files.enter_context(file.content)
            if reply.asks or reply.corrects is not None:
                force = types.ForceReply(selective=True)
                await self.send_text(address, reply.text, keyboard=force)
            else:
                keyboard = build_keyboard(reply.rows)
                await self.send_text(address, reply.hinted, keyboard=keyboard, edit=replacing)
            for file in reply.files:
                await self._send_file(address, file)

    async def change_or_leave(self, chat_id: int, message_id: int, text: str | None) -> None:
        """Let a message of ours show ``text`` and no buttons; None: the same text without them.

        Where Telegram does not let us, it stays as it is.

        Raises what ``send_answer`` raises.
        """

        async def change() -> None:
            if text is None:
                await self.bot.edit_message_reply_markup(chat_id=chat_id, message_id=message_id)
            else:
                await self.edit_once(Address(chat_id), message_id, Part(text, []))

        with contextlib.suppress(errors.DeliveryRefusedError):
            await _with_quick_retries(change)

    async def send_reply(self, address: Address, text: str) -> bool:
        """Send a sentence of our own as a reply to ``address.reply_to``, or not at all.

        Returns:
            False, with nothing sent, when Telegram does not take it: that message is gone.
        """
        part = Part(text, [])
        try:
            await _with_quick_retries(lambda: self.send_once(address, part, must_reply=True))
        except errors.DeliveryRefusedError:  # or it stayed in the group that moved
            return False
        return True

    async def send_once(
        self,
        address: Address,
        part: Part,
        *,
        must_reply: bool = False,
        timeout: int = SEND_TIMEOUT,  # noqa: ASYNC109  (it is aiogram's)
    ) -> int:
        """Send one message, once; returns its id.

        Args:
            address: Where to; with ``reply_to`` it is a reply.
            part: What.
            must_reply: Refuse to send it as anything but a reply.
            timeout: Seconds.

        Raises:
            AiogramError: Telegram refused, or cannot be reached.
        """
        reply = None
        if address.reply_to is not None:
            reply = types.ReplyParameters(
                message_id=address.reply_to,
                chat_id=address.chat_id if must_reply else None,
                allow_sending_without_reply=not must_reply,
            )
        message = await self.bot.send_message(
            **address.place,
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
        timeout: int = SEND_TIMEOUT,  # noqa: ASYNC109  (it is aiogram's)
    ) -> None:
        """Let a message of the bot's show the part, once; raises as ``send_once``."""
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

    async def _edit(self, address: Address, message_id: int, part: Part) -> int:
        """Make the message show the part; when Telegram does not let us, send it.

        Returns the id of the message that shows it.
        """
        try:
            await _with_quick_retries(lambda: self.edit_once(address, message_id, part))
        except errors.AppError as error:
            if is_not_modified(error.__cause__):
                return message_id
            is_refused = isinstance(error, errors.DeliveryRefusedError)
            if not is_refused and (error.retry_after or 0.0) <= LONG_WAIT:
                raise
            return await self._send_part(address, part)  # which follows a group that moved
        return message_id

    async def _send_part(self, address: Address, part: Part) -> int:
        """Send to the chat, or to the supergroup that it became."""
        try:
            return await self._formatted_or_plain(address, part)
        except errors.DeliveryRefusedError as error:
            migration = error.__cause__
            if not isinstance(migration, exceptions.TelegramMigrateToChat) or address.chat_id > 0:
                raise
            await self._on_migration(address.chat_id, migration.migrate_to_chat_id)
            moved = Address(migration.migrate_to_chat_id, address.thread_id)
            return await self._formatted_or_plain(moved, part)

    async def _formatted_or_plain(self, address: Address, part: Part) -> int:
        """Send the part; if Telegram refuses it for any odd reason, its bare text."""
        try:
            return await _with_quick_retries(lambda: self.send_once(address, part))
        except errors.DeliveryRefusedError as error:
            known = _is_refusal(error.__cause__, "can't parse entities", "entity", "entities")
            bare = replace(part, entities=[], keyboard=part.keyboard if known else None)
            is_bare = bare == part and address.reply_to is None
            if is_bare or isinstance(error.__cause__, exceptions.TelegramMigrateToChat):
                raise
            logger.warning(
                "Telegram refused a message; sending plain text", exc_info=error.__cause__
            )
            place = address if known else replace(address, reply_to=None)
            return await _with_quick_retries(lambda: self.send_once(place, bare))


async def _with_quick_retries(send: Callable[[], Awaitable[T]]) -> T:
    """Retry at once what certainly did not arrive; everything else is the queue's to retry.

    Raises:
        AppError: See ``Delivery.send_answer``; its cause is aiogram's.
    """
    for attempt in range(QUICK_RETRIES + 1):
        try:
            return await send()
        except exceptions.AiogramError as error:
            ours = delivery_error(error)
            is_certain = type(ours) is errors.DeliveryError
            wait = ours.retry_after if ours.retry_after is not None else 0.2 * 2**attempt
            if not is_certain or attempt == QUICK_RETRIES or wait > SHORT_WAIT:
                raise ours from error
        await wait_unless_stopped(asyncio.sleep(wait))
    raise AssertionError("unreachable")


def _unformatted(markdown: str) -> Part:
    """The message for what shows nothing when it is formatted."""
    text = markdown.strip()[: rendering.MAX_UTF16 // 2]
    return Part(text if is_visible(text) else "…", [])


def build_keyboard(rows: Rows) -> types.InlineKeyboardMarkup | None:
    """The buttons as Telegram takes them, or None when there are none."""
    if not rows:
        return None
    return types.InlineKeyboardMarkup(
        inline_keyboard=[[_button(one) for one in row] for row in rows]
    )


def answer_rows(answer: StoredAnswer, called: Called) -> Rows:
    """The buttons under an answer to ``called``: its sources, what its turn changed, a choice."""
    language, sources = called.language, []
    for numbers, source in _with_messages(answer)[:MAX_SOURCES]:
        action = Action("source", (message_number(source.uid) or 0,))
        sources.append(Button(f"{numbers} {called.day(source.said_at)}", action))
    rows = in_rows(sources, PER_ROW) + in_rows(undo_buttons(answer.changes, language), 1)
    rows += zone_rows(answer.changes, called)
    if answer.asks == "erase_all":
        choices = (("erase_yes", 1), ("erase_no", 0))
        rows += (tuple(Button(say(key, language), Action("erase", (n,))) for key, n in choices),)
    if answer.asks == "conflict":
        rows += choice_rows(answer.id, language)
    return rows


def turn_rows(incoming: IncomingMessage) -> Rows:
    """The buttons that a message itself asks for: to delete it, to switch the memory on."""
    rows: Rows = ()
    if incoming.teaching is not None and not incoming.memory_on:
        label = say("memory_switch_on", incoming.language)
        rows += ((Button(label, Action("remembering", (0,))),),)
    if incoming.is_masked and incoming.origin is not None:
        secret = incoming.gives_away
        number = abs((secret and secret.telegram_message_id) or incoming.origin.message_id)
        rows += ((Button(say("unsend_button", incoming.language), Action("unsend", (number,))),),)
    return rows


async def best_effort(request: Awaitable[Any]) -> None:
    """Make a request whose failure the user can do without, such as ``query.answer()``."""
    with contextlib.suppress(exceptions.AiogramError, TimeoutError):
        async with asyncio.timeout(BEST_EFFORT):
            await request


async def pop_up(query: types.CallbackQuery, text: str, *, stays: bool = False) -> None:
    """Tell who pressed a button what came of it; ``stays`` until they close it."""
    await best_effort(query.answer(shortened(text, MAX_POPUP), show_alert=stays))


async def remove_button(query: types.CallbackQuery) -> None:
    """Take a button away that has done its work, as far as Telegram still lets us."""
    if isinstance(query.message, types.Message) and query.message.reply_markup is not None:
        keyboard = build_keyboard(other_rows(query))
        await best_effort(query.message.edit_reply_markup(reply_markup=keyboard))


def other_rows(query: types.CallbackQuery, shown: Rows = ()) -> Rows:
    """The buttons beside the one that was pressed, as far as they are none of ``shown``."""
    markup = query.message.reply_markup if isinstance(query.message, types.Message) else None
    done = {query.data, *(button.action.pack() for row in shown for button in row)}
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


def _button(button: Button) -> types.InlineKeyboardButton:
    if button.url is not None:
        return types.InlineKeyboardButton(
            text=button.label, web_app=types.WebAppInfo(url=button.url)
        )
    return types.InlineKeyboardButton(text=button.label, callback_data=button.action.pack())


def _with_messages(answer: StoredAnswer) -> list[tuple[str, AnswerSource]]:
    """The sources that are messages, each message once, with all its numbers: ``[1][3]``.

    A summary has no place to lead to.
    """
    by_uid: dict[str, list[AnswerSource]] = {}
    for source in answer.sources:
        if message_number(source.uid) is not None:
            by_uid.setdefault(source.uid, []).append(source)
    return [("".join(f"[{s.number}]" for s in told), told[0]) for told in by_uid.values()]
