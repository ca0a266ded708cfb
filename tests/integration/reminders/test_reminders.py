"""Reminders in the database: set, counted, put off, moved to another clock, planned, done."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from src.base.owners import Caller, Owner, Preferences
from src.pg.client import PgClient
from src.privacy.erasure_repo import ErasureRepository
from src.reading.recurrences import Recurrence
from src.reading.reminder_moments import ReminderRequest
from src.reminders.reminder_repo import AHEAD, MAX_WAITING, Reminder, ReminderRepository
from src.reminders.reminder_service import ReminderService, format_result
from tests.integration.person import new_user

NOW = datetime(2026, 11, 23, 12, 5, tzinfo=UTC)  # 14:05 in Kyiv, a Monday
TOMORROW = datetime(2026, 11, 24, 7, 0, tzinfo=UTC)  # 9:00 in Kyiv
DAILY = Recurrence("daily", (9,))
JOBS = """
SELECT args ->> 'reminder', (args ->> 'due')::bigint, extract(epoch FROM scheduled_at)::bigint
FROM procrastinate_jobs WHERE task_name = 'remind' AND status = 'todo'
  AND (args ->> 'reminder')::bigint = ANY(%(ids)s) ORDER BY id
"""


class Desk:
    """Somebody's reminders, and the time, which stands still."""

    def __init__(self, client: PgClient) -> None:
        self.client = client
        self.owner = Owner(new_user())
        self.repository = ReminderRepository(client)
        self.service = ReminderService(client)

    def asking(self, **changes: Any) -> Caller:
        usual: dict[str, Any] = {"moment": NOW, "time_zone": "Europe/Kyiv", "language": "ru"}
        given = {**usual, **changes}
        preferences = Preferences(given.pop("language"), given.pop("time_zone"))
        return Caller(self.owner, preferences, **given)

    async def set(
        self,
        text: str = "позвонить маме",
        when: datetime | None = TOMORROW,
        repeats: Recurrence | None = None,
        **asking: Any,
    ) -> Reminder:
        request = ReminderRequest(text, when, repeats)
        asked = await self.service.set(self.asking(**asking), request)
        assert asked.reminder is not None, asked.refusal
        return asked.reminder

    async def say(self, words: str, **asking: Any) -> str:
        request = self.asking(**asking)
        return format_result(await self.service.set_by_words(request, words), request)

    def again(self, reminder: Reminder) -> Reminder:
        found = self.repository.find(self.owner, reminder.id)
        assert found is not None
        return found

    def deliver(self, reminder: Reminder, now: datetime) -> datetime | None:
        due = epoch(reminder.due_at)
        if not self.repository.mark_delivered(reminder.id, due, now=now):
            return None
        after = self.again(reminder)
        return after.due_at if after.is_waiting else None

    def put_off(self, reminder: Reminder, later: datetime) -> Reminder | None:
        return self.repository.snooze(
            self.owner, reminder.id, later, time_zone="Europe/Kyiv", now=TOMORROW
        )

    def jobs(self, *reminders: Reminder) -> list[tuple[str, int, int]]:
        ids = [reminder.id for reminder in reminders]
        return [tuple(row) for row in self.client.fetch_all(JOBS, {"ids": ids})]  # type: ignore[misc]


def epoch(moment: datetime) -> int:
    return int(moment.timestamp())


@pytest.fixture
def desk(client: PgClient) -> Desk:
    return Desk(client)


async def test_hostile_texts_are_kept_as_far_as_they_can(desk: Desk) -> None:
    reminder = await desk.set("чай\x00\ud800 {time} %s" + "x" * 5000)
    assert reminder.text.startswith("чай�� {time} %s") and len(reminder.text) == 1000


async def test_a_turn_that_runs_again_sets_nothing_twice(desk: Desk) -> None:
    first = await desk.set()
    assert (await desk.set()).id == first.id
    assert (await desk.set("позвонить папе")).id != first.id
    assert (await desk.set(repeats=DAILY)).id != first.id
    assert desk.repository.cancel(desk.owner, first.id)
    assert (await desk.set()).id != first.id, "after it was cancelled it may be wanted again"


async def test_nobody_has_more_than_so_many_however_many_are_asked_for_at_once(desk: Desk) -> None:
    await asyncio.gather(*(desk.set(str(number)) for number in range(MAX_WAITING - 3)))
    asked = await asyncio.gather(
        *(desk.service.set(desk.asking(), ReminderRequest(f"и {n}", TOMORROW)) for n in range(8))
    )
    assert sorted(str(one.refusal) for one in asked) == ["None"] * 3 + ["too_many"] * 5
    assert len(desk.repository.list_waiting(desk.owner, limit=3000)) == MAX_WAITING
    other = Desk(desk.client)
    await other.set()


# Jobs


async def test_what_is_due_soon_has_a_job_from_the_start_the_rest_gets_one_in_time(
    desk: Desk,
) -> None:
    present = datetime.now(UTC).replace(microsecond=0)
    soon = await desk.set("a", present + timedelta(seconds=30), moment=present)
    later = await desk.set("b", present + timedelta(hours=1), moment=present)
    expected = (str(soon.id), epoch(soon.due_at), epoch(soon.due_at))
    assert desk.jobs(soon, later) == [expected]
    await desk.service.plan(later.due_at - AHEAD)
    assert len(desk.jobs(later)) == 0
    await desk.service.plan(later.due_at - AHEAD + timedelta(seconds=1))
    await desk.service.plan(later.due_at - AHEAD + timedelta(seconds=2))
    assert [job[0] for job in desk.jobs(soon, later)] == [str(soon.id), str(later.id)]


async def test_a_lost_job_is_found_and_a_plan_has_room_for_all(desk: Desk) -> None:
    due = NOW + timedelta(minutes=1)
    desk.client.execute(
        "INSERT INTO reminders (owner_id, text, due_at, time_zone, language)"
        " SELECT add_owner(%(owner)s, 0), 'чай', %(due)s, 'UTC', 'ru'"
        " FROM generate_series(1, 2100)",
        {"owner": desk.owner.telegram_user_id, "due": due},
    )
    assert await desk.service.plan(NOW) >= 2100
    assert await desk.service.plan(NOW) == 0
    ids = [one.id for one in desk.repository.list_waiting(desk.owner, limit=3000)]
    assert len(desk.client.fetch_all(JOBS, {"ids": ids})) == 2100
    desk.client.execute("DELETE FROM procrastinate_jobs WHERE task_name = 'remind'")
    assert await desk.service.plan(NOW) >= 2100
    desk.client.execute("UPDATE reminders SET is_waiting = false")


async def test_two_processes_that_plan_at_once_make_one_job_each(desk: Desk) -> None:
    reminders = [await desk.set(str(number), TOMORROW) for number in range(20)]
    await asyncio.gather(*(desk.service.plan(TOMORROW) for _ in range(4)))
    await desk.service.plan(TOMORROW)
    assert len(desk.jobs(*reminders)) == 20


# Delivery


async def test_what_comes_once_is_over_and_what_recurs_has_its_next_time(desk: Desk) -> None:
    once, daily = await desk.set(), await desk.set(repeats=DAILY)
    assert desk.deliver(once, TOMORROW) is None
    assert desk.deliver(daily, TOMORROW) == TOMORROW + timedelta(days=1)
    assert not desk.again(once).is_waiting and desk.again(daily).is_waiting
    assert desk.repository.find_due(once.id, epoch(TOMORROW)) is None
    assert desk.repository.find_due(daily.id, epoch(TOMORROW)) is None, "that time is over"


async def test_after_an_outage_only_the_next_regular_time_follows(desk: Desk) -> None:
    week_later = TOMORROW + timedelta(days=7, hours=3)
    assert desk.deliver(await desk.set(repeats=DAILY), week_later) == TOMORROW + timedelta(days=8)
    clock_behind = TOMORROW - timedelta(days=3)
    other = await desk.set("чай", repeats=DAILY)
    assert desk.deliver(other, clock_behind) == TOMORROW + timedelta(days=1)
    until = datetime.fromisoformat("2026-11-25T23:59:59")
    ending = await desk.set(repeats=Recurrence("daily", (9,), until=until))
    assert desk.deliver(ending, TOMORROW) == TOMORROW + timedelta(days=1)
    assert desk.deliver(desk.again(ending), TOMORROW + timedelta(days=1)) is None
    assert not desk.again(ending).is_waiting


# Undo


async def test_a_move_is_undone_to_the_time_before_unless_that_is_over(desk: Desk) -> None:
    soon = NOW + timedelta(minutes=1)
    for first, now, expected in ((TOMORROW, NOW, [TOMORROW]), (soon, TOMORROW, [])):
        reminder = await desk.set(str(first), first)
        request = ReminderRequest(reminder.text, TOMORROW + timedelta(days=9))
        await desk.service.set(desk.asking(), request, moves=reminder)
        again = desk.repository.undo(desk.owner, now=now)
        assert [one.due_at for one in again] == expected


async def test_a_recurring_one_that_fell_due_meanwhile_is_undone_too(desk: Desk) -> None:
    daily = await desk.set(repeats=DAILY)
    assert desk.repository.cancel(desk.owner, daily.id)
    again = desk.repository.undo(desk.owner, now=TOMORROW + timedelta(minutes=5))
    assert [one.id for one in again] == [daily.id]
    assert desk.deliver(daily, TOMORROW) == TOMORROW + timedelta(days=1)


async def test_a_cancellation_is_undone_for_ten_minutes_and_by_its_member_alone(
    desk: Desk,
) -> None:
    reminder = await desk.set()
    assert desk.repository.cancel(desk.owner, reminder.id, asker=7)
    assert desk.repository.undo(desk.owner, now=NOW, asker=8) == []
    late = "UPDATE changes SET made_at = made_at - interval '601 seconds'"
    desk.client.execute(late)
    assert desk.repository.undo(desk.owner, now=NOW, asker=7) == []


# Zones


async def test_another_clock_moves_what_recurs_and_nothing_else(desk: Desk) -> None:
    once, daily = await desk.set(), await desk.set(repeats=DAILY)
    moved = desk.repository.change_zone(desk.owner, "America/New_York", now=NOW)
    assert moved == 1
    assert desk.again(once).due_at == TOMORROW
    assert desk.again(daily).due_at == datetime(2026, 11, 23, 14, tzinfo=UTC)  # 9:00 there, today
    assert {desk.again(one).time_zone for one in (once, daily)} == {"America/New_York"}
    soon = datetime(2026, 11, 23, 13, 59, tzinfo=UTC)
    tea = await desk.set("чай", repeats=DAILY)
    desk.repository.change_zone(desk.owner, "America/New_York", now=soon)
    due = epoch(desk.again(tea).due_at)
    assert (str(tea.id), due, due) in desk.jobs(tea), "what comes in the next minutes has its job"
    assert desk.repository.change_zone(desk.owner, "America/New_York", now=NOW) == 0


async def test_what_was_set_by_a_guessed_clock_moves_too(desk: Desk) -> None:
    once, named = await desk.set(), await desk.set("чай", time_zone="Europe/London")
    soon = await desk.set("плита", NOW + timedelta(minutes=10, seconds=7))
    change = desk.repository.change_zone
    assert change(desk.owner, "America/New_York", guessed="Europe/Kyiv", now=NOW) == 1
    assert desk.again(once).due_at == TOMORROW + timedelta(hours=7)
    assert (desk.again(named).due_at, desk.again(soon).due_at) == (named.due_at, soon.due_at)


async def test_another_clock_across_a_change_of_the_clocks(desk: Desk) -> None:
    """In March the United States change their clocks two weeks before Europe does."""
    now = datetime(2027, 3, 13, 12, tzinfo=UTC)
    daily = await desk.set("чай", datetime(2027, 3, 14, 7, tzinfo=UTC), DAILY, moment=now)
    desk.repository.change_zone(desk.owner, "America/New_York", now=now)
    [first] = desk.repository.list_waiting(desk.owner, limit=2)
    assert first.due_at == datetime(2027, 3, 13, 14, tzinfo=UTC)  # winter time
    assert desk.deliver(first, first.due_at) == datetime(2027, 3, 14, 13, tzinfo=UTC)  # summer
    desk.repository.change_zone(desk.owner, "Europe/Kyiv", now=first.due_at)
    assert desk.again(daily).due_at == datetime(2027, 3, 14, 7, tzinfo=UTC)


async def test_what_is_due_already_comes_although_the_clock_changes(desk: Desk) -> None:
    daily = await desk.set(repeats=DAILY)
    late = TOMORROW + timedelta(minutes=1)
    desk.repository.change_zone(desk.owner, "Asia/Tokyo", now=late)
    assert desk.again(daily).due_at == TOMORROW
    assert desk.deliver(daily, late) == datetime(2026, 11, 25, 0, tzinfo=UTC)  # 9:00 in Tokyo


# Owners


async def test_reminders_survive_new_and_go_with_an_erasure(desk: Desk) -> None:
    await desk.set()
    group = Owner(-desk.owner.telegram_user_id)
    his = await desk.service.set(
        Caller(group, Preferences("ru", "UTC"), NOW, member=desk.owner.telegram_user_id),
        ReminderRequest("его", TOMORROW),
    )
    other = await desk.service.set(
        Caller(group, Preferences("ru", "UTC"), NOW, member=5), ReminderRequest("её", TOMORROW)
    )
    assert his.reminder is not None and other.reminder is not None
    ErasureRepository(desk.client).erase(desk.owner.telegram_user_id)
    assert desk.repository.list_waiting(desk.owner, limit=10) == []
    left = desk.repository.list_waiting(group, limit=10)
    assert [one.id for one in left] == [other.reminder.id]


async def test_what_is_long_over_is_deleted_what_waits_stays(desk: Desk) -> None:
    over, cancelled, recent, waiting = [await desk.set(str(number)) for number in range(4)]
    long_ago = datetime(2026, 1, 1, tzinfo=UTC)
    desk.deliver(over, long_ago)
    desk.deliver(recent, datetime.now(UTC))
    desk.repository.cancel(desk.owner, cancelled.id)
    desk.client.execute(
        "UPDATE reminders SET cancelled_at = %(then)s WHERE id = %(id)s",
        {"id": cancelled.id, "then": long_ago},
    )
    assert desk.repository.prune(days=60) >= 2
    left = [desk.repository.find(desk.owner, one.id) for one in (over, cancelled)]
    assert left == [None, None]
    assert desk.again(recent) and desk.again(waiting)
