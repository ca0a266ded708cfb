"""Reminders in Telegram: set as a tool does it, and delivered when their time has come."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from src.base.owners import Caller, Preferences
from src.reading.recurrences import Recurrence
from src.reading.reminder_moments import ReminderRequest
from src.reminders.reminder_repo import Reminder
from src.telegram.delivery import Delivery
from src.telegram.tasks import ReminderTasks
from tests.fakes.telegram_types import SentMessage
from tests.integration.phone import Phone, never

ZONE = "Europe/Moscow"
NINE = datetime(2027, 3, 1, 6, tzinfo=UTC)  # 9:00 in Moscow
DAILY = Recurrence("daily", (9,))


def waiting(phone: Phone) -> list[tuple[str, datetime]]:
    """Return text and time of the pending reminders."""
    sql = "SELECT text, due_at FROM reminders WHERE is_waiting ORDER BY due_at, id"
    return [(text, due.astimezone(UTC)) for text, due in phone.rig.rows(sql)]


async def set_reminder(
    phone: Phone,
    text: str = "позвонить маме",
    when: datetime = NINE,
    repeats: Recurrence | None = None,
    asker: int | None = None,
) -> Reminder:
    """Set a reminder some time before it is due."""
    asking = Caller(phone.owner, Preferences("ru", ZONE), when - timedelta(hours=5), member=asker)
    asked = await phone.rig.core.reminders.set(asking, ReminderRequest(text, when, repeats))
    assert asked.reminder is not None
    return asked.reminder


def courier(phone: Phone) -> ReminderTasks:
    """Return the tasks that deliver reminders."""
    return ReminderTasks(phone.rig.core, Delivery(phone.bot, never))


async def arrive(
    phone: Phone, reminder: Reminder, *, late: timedelta = timedelta()
) -> SentMessage:
    """Deliver a reminder when its time has come; returns the message."""
    due = int(reminder.due_at.timestamp())
    assert await courier(phone).deliver(reminder.id, due, reminder.due_at + late) is not None
    return phone.last
