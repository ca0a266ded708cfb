"""Reminders as everybody else uses them: set, list, cancel, snooze, move to another zone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from src.dates.recurrences import Recurrence, next_after
from src.dates.reminder_moments import Problem
from src.dates.reminder_phrases import ReminderRequest, read_reminder
from src.dates.reminder_texts import describe_reminder_time
from src.language import lexicon
from src.llm.prompts.reminder_order import MAX_TEXT
from src.storage.owner import Owner
from src.storage.pg_client import PgClient, storable
from src.storage.reminder_repo import NewReminder, Reminder, ReminderRepository
from src.texts import Language, say

Refusal = Problem | Literal["too_many", "not_own"]

MAX_DAYS = 3654  # ten years, as the readers of phrases have it, and their last day
SECOND = timedelta(seconds=1)
REMINDER_UID = "reminder-"


@dataclass(frozen=True)
class Asking:
    """Who asks for a reminder.

    Attributes:
        owner: Whose it is, and where it is sent.
        moment: When he asks (aware): "in ten minutes" counts from it.
        time_zone: The owner's, a tz database name.
        language: Of the confirmation, and of the reminder unless the owner chose another.
        asker_id: In a group, who asks.
        message_id: The message that asks, if it is stored.
    """

    owner: Owner
    moment: datetime
    time_zone: str
    language: Language
    asker_id: int | None = None
    message_id: int | None = None

    def describe(self, reminder: Reminder) -> str:
        """When a reminder comes, in words."""
        return describe_reminder_time(
            reminder.due_at, reminder.repeats, language=self.language,
            time_zone=self.time_zone, now=self.moment,
        )  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """What came of a request: a reminder, or why there is none."""

    reminder: Reminder | None = None
    refusal: Refusal | None = None


class ReminderService:
    """The reminders of all owners; their delivery is ``src/telegram/reminder_tasks.py``."""

    def __init__(self, client: PgClient, repository: ReminderRepository) -> None:
        """Store in ``repository``."""
        self._client = client
        self._repository = repository

    async def set(
        self, asking: Asking, text: str, when: datetime | None, repeats: Recurrence | None = None
    ) -> Asked:
        """Set a reminder.

        Args:
            asking: Who asks.
            text: Of what.
            when: The first time (aware); of what recurs, the first time is not before it.
            repeats: How it comes again.

        Raises:
            StorageError: The database is away; a second attempt sets nothing twice.
        """
        text = storable(text).strip()[:MAX_TEXT].strip()
        due = _first_time(asking, when, repeats)
        refusal = _refusal(asking, text, due)
        if due is None or refusal is not None:
            return Asked(refusal=refusal)
        new = NewReminder(
            text, due, repeats, asking.time_zone, asking.language, asking.asker_id,
            asking.message_id,
        )  # fmt: skip
        add = self._repository.add
        reminder = await self._client.run(add, asking.owner, new, now=datetime.now(UTC))
        return Asked(reminder, None if reminder is not None else "too_many")

    async def set_by_words(self, asking: Asking, words: str) -> Asked:
        """Set what a phrase asks for, with "remind me" in it or without; no model is asked."""
        request = _read(words, asking)
        if request is None or request.problem is not None:
            return Asked(refusal="no_time" if request is None else request.problem)
        return await self.set(asking, request.what, request.when, request.repeats)

    async def count(self, owner: Owner) -> int:
        """How many wait."""
        return await self._client.run(self._repository.count, owner)

    async def list_waiting(self, owner: Owner, *, limit: int, offset: int = 0) -> list[Reminder]:
        """Those that wait, the next one first."""
        listed = self._repository.list_waiting
        return await self._client.run(listed, owner, limit=limit, offset=offset)

    async def find(self, owner: Owner, number: int) -> Reminder | None:
        """One of the owner's, waiting or not."""
        return await self._client.run(self._repository.find, owner, number)

    async def cancel(self, owner: Owner, number: int) -> bool:
        """Let one come no more; False when it does not wait."""
        return await self._client.run(self._repository.cancel, owner, number)

    async def finish(self, reminder: Reminder) -> None:
        """It is done: what recurs goes on, but what was put off of it comes no more."""
        repository = self._repository
        cancel = repository.cancel if reminder.repeats is None else repository.cancel_snoozed
        await self._client.run(cancel, reminder.owner, reminder.id)

    async def snooze(
        self, reminder: Reminder, due_at: datetime, *, time_zone: str, now: datetime
    ) -> Reminder | None:
        """Let it come again, or later; None when it was cancelled.

        What recurs goes on as it was: this time of it comes as a reminder of its own.
        """
        return await self._client.run(
            self._repository.snooze, reminder.owner, reminder.id,
            due_at.replace(microsecond=0), time_zone=time_zone, now=now,
        )  # fmt: skip

    async def change_zone(
        self, owner: Owner, time_zone: str, *, now: datetime | None = None
    ) -> int:
        """The owner lives by another clock: what recurs comes at its hour there.

        What comes once stays at its moment. It may be called again. In a group it concerns all
        topics, as the setting does.

        Args:
            owner: Who changed his zone.
            time_zone: A name of the tz database.
            now: Aware; by default the present.

        Returns:
            How many reminders moved.
        """
        change = self._repository.change_zone
        moment = now or datetime.now(UTC)
        return await self._client.run(change, owner.telegram_user_id, time_zone, now=moment)

    async def plan(self, now: datetime) -> int:
        """Make jobs for what is due soon; returns how many."""
        planned = 0
        while found := await self._client.run(self._repository.defer_soon, now):
            planned += found
        return planned


def confirmation(asked: Asked, asking: Asking) -> str:
    """What a request is answered with where no model words it."""
    if asked.reminder is None:
        return refusal_text(asked.refusal or "no_time", asking.language)
    text, time = asked.reminder.text, asking.describe(asked.reminder)
    return say("reminder_set", asking.language, text=text, time=time)


def refusal_text(refusal: str, language: Language) -> str:
    """Why there is no reminder, and what to do instead."""
    return say(f"reminder_{refusal}", language)


def reminder_uid(reminder: Reminder) -> str:
    """The name by which models know it: ``reminder-12``."""
    return f"{REMINDER_UID}{reminder.id}"


def _first_time(
    asking: Asking, when: datetime | None, repeats: Recurrence | None
) -> datetime | None:
    """A whole second, in UTC; of what recurs, its first time from ``when`` on."""
    if when is None:
        return None
    due = when.astimezone(UTC).replace(microsecond=0)
    if repeats is None:
        return due
    try:
        return next_after(repeats, max(due - SECOND, asking.moment), asking.time_zone)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def _refusal(asking: Asking, text: str, due: datetime | None) -> Refusal | None:
    if not text:
        return "no_text"
    if due is None:
        return "no_time"
    if due <= asking.moment:
        return "past"
    return "too_far" if due > asking.moment + timedelta(days=MAX_DAYS) else None


def _read(words: str, asking: Asking) -> ReminderRequest | None:
    """The request in a phrase: as it is, or as what would stand behind an order."""
    words = words.strip()
    found = read_reminder(words, asking.moment, asking.time_zone)
    if found is not None:
        return found
    # What makes a request of a phrase that only says what and when, as people write after /remind.
    for order in (order for _, orders in lexicon.by_language("cancel.remind") for order in orders):
        request = read_reminder(f"{order}{words}", asking.moment, asking.time_zone)
        if request is not None and request.problem is None:
            return request
        found = found or request
    return found
