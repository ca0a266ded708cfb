"""Delivery of answers and replies: formatted, split, with buttons, retried, plain if refused."""

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from aiogram import Bot, enums, exceptions, types
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
from src.telegram.entities import utf16_length
from src.telegram.places import (
    ACT_ANYWHERE,
    Address,
    Route,
    find_refusal,
    is_refusal,
    refusal_error,
)
from src.telegram.rendering import Part
from src.texts import say
from src.texts.plain_text import is_visible, shortened
from src.texts.reply import Action, Button, Reply, ReplyFile, Rows, Times, in_rows

logger = logging.getLogger(__name__)

T = TypeVar("T")
Inline = types.InlineKeyboardMarkup
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

STOP_LABEL = "⏹"
NO_PREVIEW = types.LinkPreviewOptions(is_disabled=True)
TAKEN = "\0"  # in place of a phrase that is found, which no other one may overlap
CLOCK = re.compile(r"\d\d:\d\d")
ADDRESS = re.compile(r"(?:https?://|www\.)[^\s<>«»“”\"]+", re.IGNORECASE)
AFTER_ADDRESS = ".,:;!?…)]}'*_"


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
    return refusal_error(error)


def is_not_modified(error: BaseException | None) -> bool:
    """Return True if the edit changed nothing, which is a success."""
    return is_refusal(error, "message is not modified")


def is_unknown_method(error: BaseException) -> bool:
    """Return True if the Bot API server is too old to know the method."""
    return isinstance(error, exceptions.TelegramNotFound) or is_refusal(error, "method not found")


@dataclass(frozen=True)
class AnswerLayout:
    """Layout of an answer around its text.

    Attributes:
        keyboard: Buttons under the last message.
        max_parts: Maximum number of messages.
        ending: Appended to the last message if the answer was cut.
        note: Plain text in small print below the answer.
        lead: Plain text in small print above the answer.
        previews: Addresses that the user sent, of which a preview may be shown.
        times: Phrases in the answer that tell a moment.
    """

    keyboard: types.InlineKeyboardMarkup | None = None
    max_parts: int = rendering.MAX_PARTS
    ending: str = "…"
    note: str = ""
    lead: str = ""
    previews: frozenset[str] = frozenset()
    times: Times = ()


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
        self._deleted: set[tuple[int, int]] = set()  # topics, by chat; a cache

    def reopen(self, chat_id: int | None, thread_id: int) -> None:
        """Note that somebody has written in a topic, so that it exists."""
        self._deleted.discard((chat_id or 0, thread_id))

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
            PlaceLostError: The topic or the chat takes nothing, nor does any other place.
            TurnStoppedError: The user has stopped the answer.
        """
        parts = await self.renderer.render(
            markdown, max_parts=layout.max_parts, ending=layout.ending
        ) or [_fallback_part(markdown)]
        if layout.lead:
            parts = rendering.with_lead(layout.lead, parts)
        if layout.note:
            parts = rendering.with_note(parts, layout.note)
        parts = [with_times(_with_preview(part, layout.previews), layout.times) for part in parts]
        parts[-1] = replace(parts[-1], keyboard=layout.keyboard)
        route = Route(address, self._deleted)
        for number, part in enumerate(parts[skip:], start=skip):
            check_stopped()
            if number == 0 and edit is not None:
                sent_id = await self._edit_or_send(route, edit, part)
            else:
                sent_id = await self._send_part(route, part)
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
        times: Times = (),
    ) -> int | None:
        """Send one of the bot's own texts unformatted, with ``keyboard`` under the last part.

        With ``edit``, that message shows the first part instead and carries the keyboard. Raises
        as ``send_answer``.

        Returns:
            The number of the last message that was sent; None if an edit was enough.
        """
        route = Route(address, self._deleted)
        parts = [with_times(part, times) for part in rendering.split_text(text)]
        keyboard_index = -1 if edit is None else 0
        parts[keyboard_index] = replace(parts[keyboard_index], keyboard=keyboard)
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
            part = Part(text, [])
            try:
                await _with_quick_retries(lambda: self.send_once(address, part, receiver=receiver))
                return
            except (errors.DeliveryRefusedError, errors.PlaceLostError) as error:
                logger.info("a notice cannot be for one person alone", exc_info=error)
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
            sent = await self.send_text(
                address, reply.hinted, keyboard=keyboard, edit=replacing, times=reply.times
            )
            for file in reply.files:
                await self._send_file(Route(address, self._deleted), file)
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
        except (errors.DeliveryRefusedError, errors.PlaceLostError):
            return False  # deleted, left behind in a group that moved, or in a lost topic
        return True

    async def send_once(
        self,
        address: Address,
        part: Part,
        *,
        must_reply: bool = False,
        receiver: types.EphemeralMessageParameters | None = None,
        timeout: int = SEND_TIMEOUT,  # noqa: ASYNC109  (passed on to aiogram)
    ) -> int:
        """Send one message without retries and return its id.

        Args:
            address: Destination; with ``reply_to`` it is a reply.
            part: The message.
            must_reply: Send it only as a reply.
            receiver: The member of a group who alone sees it.
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
            link_preview_options=_preview_options(part),
            ephemeral_message_parameters=receiver,
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
            link_preview_options=_preview_options(part),
            request_timeout=timeout,
        )

    async def _edit_or_send(self, route: Route, message_id: int, part: Part) -> int:
        """Return the id of the message that shows the part: the edited one, or a new one."""
        try:
            address = route.address
            await _with_quick_retries(lambda: self.edit_once(address, message_id, part))
        except errors.PlaceLostError:
            return await self._send_part(route, part)
        except errors.AppError as error:
            if is_not_modified(error.__cause__):
                return message_id
            is_refused = isinstance(error, errors.DeliveryRefusedError)
            if not is_refused and (error.retry_after or 0.0) <= MAX_EDIT_WAIT:
                raise
            return await self._send_part(route, part)  # also follows a migrated group
        return message_id

    async def _send_part(self, route: Route, part: Part) -> int:
        async def send(address: Address) -> int:
            sent_id = UNKNOWN_ID
            for one in _adapt(part, route):
                sent_id = await self._send_formatted_or_plain(address, one)
            return sent_id

        return await self._send_along(route, send)

    async def _send_file(self, route: Route, file: ReplyFile) -> None:
        document = OpenFile(file)

        async def send(address: Address) -> None:
            fields = address.chat_fields
            await _with_quick_retries(
                lambda: self.bot.send_document(
                    **fields, document=document, request_timeout=FILE_TIMEOUT
                )
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
            if error.reason == "place_gone" and here.thread_id:
                self._deleted.add((here.chat_id, here.thread_id))
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
            return await _with_quick_retries(lambda: self.send_once(address, part))
        except errors.DeliveryRefusedError as error:
            cause = error.__cause__
            if isinstance(cause, exceptions.TelegramMigrateToChat):
                raise
            target, simpler = replace(address, reply_to=None), part
            if find_refusal(cause) is None:
                simpler = replace(part, entities=[], keyboard=None, preview=None)
            if is_refusal(cause, "can't parse entities", "entity", "entities"):
                target, simpler = address, replace(part, entities=[])
            if simpler == part and target == address:
                raise
            logger.warning("Telegram refused a message; sending a simpler one", exc_info=cause)
            return await _with_quick_retries(lambda: self.send_once(target, simpler))


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


def _adapt(part: Part, route: Route) -> list[Part]:
    """Return a part as the route's place takes it: with the words that say why it comes there.

    In another chat only the buttons stay that act on their own records.
    """
    keyboard = part.keyboard
    if route.is_elsewhere and keyboard is not None:
        rows = keyboard.inline_keyboard if isinstance(keyboard, Inline) else []
        kept = [[one for one in row if _acts_anywhere(one)] for row in rows]
        part = replace(part, keyboard=Inline(inline_keyboard=kept) if any(kept) else None)
    reason = route.reason
    return rendering.with_lead(reason, [part]) if reason else [part]


def _acts_anywhere(button: types.InlineKeyboardButton) -> bool:
    action = Action.unpack(button.callback_data or "")
    return action is not None and action.name in ACT_ANYWHERE


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
        shown = "t" if CLOCK.fullmatch(phrase) else "D"
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


def addresses_in(text: str) -> frozenset[str]:
    """Return the web addresses that stand in a text."""
    return frozenset(found.rstrip(AFTER_ADDRESS) for found in ADDRESS.findall(text))


def _with_preview(part: Part, own: frozenset[str]) -> Part:
    """Let Telegram fetch the preview of an address that the user sent, and of no other."""
    shown = addresses_in(part.text) | {one.url for one in part.entities if one.url}
    return replace(part, preview=min(own & shown, default=None))


def _preview_options(part: Part) -> types.LinkPreviewOptions:
    return NO_PREVIEW if part.preview is None else types.LinkPreviewOptions(url=part.preview)


def stop_keyboard(number: int) -> types.InlineKeyboardMarkup:
    """Return the button that stops the answer to the user's message ``number``."""
    return Inline(inline_keyboard=[[_build_button(Button(STOP_LABEL, Action("halt", (number,))))]])


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


async def best_effort(request: Awaitable[Any]) -> Exception | None:
    """Await an optional request such as ``query.answer()``; return its failure, if it failed."""
    try:
        async with asyncio.timeout(BEST_EFFORT_SECONDS):
            await request
    except (exceptions.AiogramError, TimeoutError) as error:
        return error
    return None


async def show_popup(query: types.CallbackQuery, text: str, *, stays: bool = False) -> None:
    """Show the result of a button press; ``stays`` keeps it open until the user closes it."""
    await best_effort(query.answer(shortened(text, MAX_POPUP), show_alert=stays))


async def disable_button(query: types.CallbackQuery) -> None:
    """Disable the pressed button, or remove it where the Bot API server knows no disabled ones."""
    message = query.message
    if not isinstance(message, types.Message) or message.reply_markup is None:
        return
    disabled = [
        [_disabled(one) if one.callback_data == query.data else one for one in row]
        for row in message.reply_markup.inline_keyboard
    ]
    edit, keyboard = message.edit_reply_markup, Inline(inline_keyboard=disabled)
    failure = await best_effort(edit(reply_markup=keyboard))
    if isinstance(failure, exceptions.TelegramBadRequest) and not is_not_modified(failure):
        await best_effort(edit(reply_markup=build_keyboard(remaining_rows(query))))


def _disabled(button: types.InlineKeyboardButton) -> types.InlineKeyboardButton:
    return types.InlineKeyboardButton(text=button.text, disabled=types.DisabledButton())


def remaining_rows(query: types.CallbackQuery, excluded: Rows = ()) -> Rows:
    """Return the buttons beside the pressed one, except those in ``excluded``."""
    markup = query.message.reply_markup if isinstance(query.message, types.Message) else None
    done = {query.data, *(button.action.pack() for row in excluded for button in row)}
    rows = [
        tuple(
            Button(one.text, action, one.web_app.url if one.web_app else None)
            for one in row
            if one.callback_data not in done
            and one.disabled is None
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
