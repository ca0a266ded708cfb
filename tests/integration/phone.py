"""A user's Telegram, connected to the whole bot except the queue."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiogram import Bot, Dispatcher

from src.base.owners import Owner
from src.history.conversation_repo import TelegramOrigin
from src.memory.writer import Outcome, SourceText
from src.reading.facts import Fact
from src.talk.turn_state import TurnControl
from src.telegram.delivery import Delivery
from src.telegram.receiver import GetRawUpdates
from src.telegram.setup import build_dispatcher
from src.telegram.tasks import UpdateTasks
from src.telegram.updates import ALLOWED_UPDATES, BotIdentity
from tests.fakes.telegram_people import Sender
from tests.fakes.telegram_server import FakeTelegram
from tests.fakes.telegram_types import SentMessage
from tests.integration.person import Agents, Rig
from tests.integration.polling import build_intake

USER, STRANGER = 2**41 + 7, 2**41 + 8
PRIVATE = Sender(chat_id=USER)
NOW = datetime(2026, 11, 21, 9, 5, tzinfo=UTC)
LATE = datetime(2026, 3, 2, 22, 30, tzinfo=UTC)  # 3 March in Moscow


@dataclass
class Phone:
    """A user's Telegram, connected to the whole bot except the queue."""

    fake: FakeTelegram
    bot: Bot
    rig: Rig
    dispatcher: Dispatcher
    place: Sender = field(default_factory=lambda: PRIVATE)
    offset: int = 0

    @property
    def owner(self) -> Owner:
        return Owner(self.place["chat_id"] or USER, self.place.get("thread_id") or 0)

    @property
    def last(self) -> SentMessage:
        """The bot's newest message in this chat."""
        return self.fake.sent_to(self.owner.telegram_user_id)[-1]

    @property
    def told(self) -> str:
        """Text of the bot's newest message, or of a pop-up after it."""
        calls = [
            call for call in self.fake.calls
            if call.method in ("sendMessage", "editMessageText") or call.params.get("show_alert")
        ]  # fmt: skip
        is_popup = calls[-1].method == "answerCallbackQuery"
        return str(calls[-1].params["text"]) if is_popup else self.last.text

    @property
    def popups(self) -> list[str]:
        """Answers to all button presses."""
        calls = self.fake.calls_of("answerCallbackQuery")
        return [str(call.params.get("text", "")) for call in calls]

    async def work(self) -> list[str]:
        """Receive and handle pending updates in order; returns their outcomes."""
        await self.receive()
        waiting = self.rig.rows("SELECT id FROM telegram_updates WHERE handled_at IS NULL")
        return [await self._handle(row_id) for (row_id,) in sorted(waiting)]

    async def receive(self) -> None:
        """Receive pending updates without handling them."""
        method = GetRawUpdates(offset=self.offset, timeout=0, allowed_updates=ALLOWED_UPDATES)
        raw = await self.bot(method)
        self.offset = max([self.offset, *(update["update_id"] + 1 for update in raw)])
        await build_intake(self.rig.client).store(raw)

    async def _handle(self, row_id: int) -> str:
        stored = self.rig.core.updates.find_waiting(row_id)
        assert stored is not None
        tasks = UpdateTasks(self.rig.core, self.dispatcher, Delivery(self.bot, never))
        outcome = await tasks.feed(stored, TurnControl())
        self.rig.core.updates.mark_handled(row_id, outcome)
        return outcome

    async def write(self, text: str, **sender: Any) -> int:
        """Write to the bot, and let it answer; returns the Telegram message id.

        Args:
            text: The message.
            **sender: Other keys of `Sender` than those of the place.
        """
        message_id = await self.fake.send_text(USER, text, **{**self.place, **sender})
        await self.work()
        return message_id

    async def send(self, **content: Any) -> list[str]:
        """Send a message with any content, and let the bot answer; returns the outcomes."""
        await self.fake.send_message(USER, **{**self.place, **content})
        return await self.work()

    async def press(
        self, data: str, *, under: SentMessage | None = None, is_old: bool = False
    ) -> list[str]:
        """Press a button, existing or not; returns the outcomes."""
        message = under or self.last
        await self.fake.press_button(
            USER, message.message_id, data, chat_id=message.chat_id, is_old=is_old
        )
        return await self.work()

    async def tap(self, label: str, *, under: SentMessage | None = None) -> SentMessage:
        """Press the button whose label contains a text; returns the bot's newest message."""
        message = under or self.last
        rows = buttons(message)
        [data] = [data for row in rows for text, data in row if label in text]
        await self.press(data, under=message)
        return self.last

    async def said(self, text: str, said_at: datetime = LATE) -> tuple[int, int]:
        """Store a message of the owner; returns its ids in Telegram and in the database."""
        message_id = await self.fake.send_text(USER, text, **self.place)
        chat, thread = self.owner
        conversations = self.rig.core.conversations
        stored = conversations.append_message(
            conversations.get_or_create_conversation(chat, thread_id=thread),
            "user",
            text,
            origin=TelegramOrigin(42, chat, message_id, USER),
            said_at=said_at,
        )
        return message_id, stored

    async def remember(self, city: str) -> Outcome:
        """Write the fact ``Я живу в городе …``; returns the outcome."""
        _, message = await self.said(f"Я живу в городе {city}", NOW)
        text = f"Я живу в городе {city}"
        fact = Fact(text=text, importance=7, relation="lives_in", object=city)
        said = SourceText(message, text, NOW)
        memories = self.rig.core.memory.memories
        return await memories.writer.remember(self.owner, fact, said, origin="teach")

    def heard(self) -> list[tuple[str, str]]:
        """Return (provenance, text) of what users sent, as it is stored."""
        sql = (
            "SELECT provenance, message_text(content) FROM messages WHERE role = 'user'"
            " ORDER BY id"
        )
        return [(str(kind), str(text)) for kind, text in self.rig.rows(sql)]

    def facts(self) -> list[str]:
        """Return the texts of the owner's current facts."""
        return [
            text
            for (text,) in self.rig.rows(
                "SELECT text FROM facts WHERE telegram_user_id = %(owner)s"
                " AND retired_at IS NULL ORDER BY id",
                owner=self.owner.telegram_user_id,
            )
        ]


async def open_phone(agents: Agents, fake: FakeTelegram, bot: Bot, **settings: Any) -> Phone:
    """Return a phone connected to the agent for these settings."""
    rig = await agents.get(timezone="Europe/Moscow", **settings)
    identity = BotIdentity(42, "pomni_test_bot", "Помни")
    dispatcher = build_dispatcher(rig.core, Delivery(bot, never), identity)
    return Phone(fake, bot, rig, dispatcher)


async def never(_old: int, _new: int) -> None:
    raise AssertionError("nothing moved")


def buttons(message: SentMessage) -> list[list[tuple[str, str]]]:
    """Return (label, data) of a message's buttons by row, without disabled ones."""
    markup = message.reply_markup or {"inline_keyboard": []}
    rows = [
        [(button["text"], button["callback_data"]) for button in row if "disabled" not in button]
        for row in markup.get("inline_keyboard", ())
    ]
    return [row for row in rows if row]


def labels(message: SentMessage) -> list[str]:
    """Return the labels of a message's buttons."""
    return [label for row in buttons(message) for label, _ in row]
