"""Questions the day after how something went: which events have a stake, when and whom to ask."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Literal, get_args

from src.base.owners import Caller
from src.base.zones import DAY, local_time
from src.memory.memories import Memories
from src.pg.client import PgClient
from src.reading import lexicon
from src.reading.facts import FACT_UID, PRIVATE, fact_number
from src.reading.relative_dates import YEARLY, has_past_verb
from src.reading.times import fold
from src.reading.words import shared
from src.reminders.day import (
    CALLED_OFF,
    DayService,
    by_sentence,
    calls_off,
    day_bounds,
    read_date,
    tells,
)
from src.reminders.day_repo import PAGE, Told
from src.reminders.reminder_repo import REMINDER_UID, DueReminder, NewReminder, ReminderRepository
from src.texts import say
from src.texts.plain_text import shortened
from src.texts.reply import Action, Button, Reply

PLAN_HOURS = range(11, 13)  # on the user's clock, in which the bot looks for an event
HOURS = range(11, 20)  # and in which it asks, if Telegram was away
WEEK = 7 * DAY
MAX_A_WEEK = 3
BEFORE = 7 * DAY  # a reminder may come so long before its event
OPEN = timedelta(hours=36)  # in which "don't ask about this" means the last question
MAX_QUOTE = 120  # characters
FOLLOW_UP = "follow-up"  # text of the row, which says nothing of the user
# The words of an event that is worth a question; the first that fits counts.
Stake = Literal[
    "surgery", "interview", "exam", "court", "flight", "move", "wedding", "talk", "date", "doctor"
]
STAKES: dict[Stake, lexicon.Expression] = {
    stake: lexicon.AnyCase(rf"(?<![\w-])<day.stakes.{stake}>(?![\w-])")
    for stake in get_args(Stake)
}
NO_ASKING = lexicon.AnyCase(
    r"\W*(?:<day.no_asking>|<day.no_asking>\W+<day.of>\W+(?P<thing>[^.!?]{2,40}))\W*"
)
Settle = Callable[[int], Caller]


def stake_of(text: str) -> Stake | None:
    """Return what an event is (doctor, interview, …), or None if it is worth no question."""
    folded = fold(text)
    return next((stake for stake, words in STAKES.items() if words.search(folded)), None)


def asks_no_more(text: str) -> bool:
    """Return True if a whole message asks for no more questions about this, or about an event."""
    found = NO_ASKING.fullmatch(fold(text).replace(",", ""))
    return found is not None and (found["thing"] is None or stake_of(found["thing"]) is not None)


def is_same_thing(one: str, other: str) -> bool:
    """Return True if two texts are about the same thing: one stake, and words in common.

    Words of the stake itself do not count, unless a text has no others.
    """
    stake = stake_of(one)
    if stake is None or stake != stake_of(other):
        return False
    rest, others = (STAKES[stake].sub(" ", fold(text)) for text in (one, other))
    return bool(shared(rest, others)) or not shared(rest, rest) or not shared(others, others)


def choose_event(told: Sequence[Told], muted: Sequence[str], day: date, zone: str) -> Told | None:
    """Return the event of a day about which to ask, or None.

    Left out are events that were called off, that the user has told of since, or wants no
    question about.

    Args:
        told: Facts, messages and reminders.
        muted: Texts of what the user wants no question about.
        day: The day of the event.
        zone: The owner's zone, a tz database name.
    """
    parts = by_sentence(told)
    for event in [one for one in parts if stake_of(one.text) is not None]:
        is_open = event.is_reminder or (tells(event) and not _is_told_behind(event, day, zone))
        if not is_open or _day_of(event, zone) != day or CALLED_OFF.search(fold(event.text)):
            continue
        is_settled = any(_settles(one, event, day, zone) for one in parts)
        if not is_settled and not any(is_same_thing(event.text, text) for text in muted):
            return event
    return None


def _day_of(told: Told, zone: str) -> date | None:
    """Return the day that a text names; a reminder without one is of the day when it came.

    What comes every year is no event to ask about: "our wedding anniversary".
    """
    if YEARLY.search(fold(told.text)):
        return None
    dated = read_date(told, zone)
    if dated is not None:
        return dated.day
    return local_time(told.said_at, zone).date() if told.is_reminder else None


def _settles(other: Told, event: Told, day: date, zone: str) -> bool:
    """Return True if another text calls an event off, or tells of it when it was over."""
    if calls_off(other, event):
        return True
    is_later = other.said_at > event.said_at and not other.is_reminder
    if not is_later or stake_of(other.text) != stake_of(event.text):
        return False
    if CALLED_OFF.search(fold(other.text)):
        return True
    return _day_of(other, zone) in (None, day) and _is_told_behind(other, day, zone)


def _is_told_behind(told: Told, day: date, zone: str) -> bool:
    """Return True if a text was said after a day, or on it in the past tense."""
    start, end = day_bounds(day, zone)
    return told.said_at >= end or (told.said_at >= start and has_past_verb(fold(told.text)))


class FollowUpService:
    """Plans follow-ups, and composes the question when it is due."""

    def __init__(
        self,
        client: PgClient,
        day: DayService,
        memories: Memories,
        reminders: ReminderRepository,
        settle: Settle,
    ) -> None:
        """Ask the owners whose settings, as ``settle`` returns them, want it."""
        self._run, self._rows, self._settle = client.run, day.rows, settle
        self._facts, self._reminders = memories.facts, reminders

    async def plan(self, now: datetime) -> int:
        """Store a follow-up for each person to be asked today; return their number.

        Args:
            now: The current time, aware.
        """
        planned, after = 0, 0
        while True:
            people = await self._run(self._rows.list_followed, after)
            for owner_id, person in people:
                caller = await self._run(self._settle, person)
                planned += await self._plan_one(caller, now)
                after = owner_id
            if len(people) < PAGE:
                return planned

    async def _plan_one(self, caller: Caller, now: datetime) -> bool:
        owner, zone = caller.owner, caller.time_zone
        local = local_time(now, zone)
        if local.hour not in PLAN_HOURS:
            return False
        today = local.date()
        asked = await self._run(self._rows.list_asked, owner)
        this_week = [one.day for one in asked if today - one.day < WEEK]
        if today in this_week or len(this_week) >= MAX_A_WEEK:
            return False
        told = await self._run(self._rows.list_told, owner)
        start, end = day_bounds(today - DAY, zone)
        told += await self._run(self._rows.list_came, owner, start - BEFORE, end)
        found = [await self._find(caller, one.about) for one in asked if one.is_muted]
        muted = [one.text for one in found if one is not None]
        event = await asyncio.to_thread(choose_event, told, muted, today - DAY, zone)
        if event is None:
            return False
        due = now.astimezone(UTC).replace(microsecond=0)
        new = NewReminder(FOLLOW_UP, due, None, zone, caller.language)
        return await self._run(self._rows.add_follow_up, owner, new, event.id, today, now=now)

    async def compose(self, found: DueReminder, caller: Caller) -> Reply | None:
        """Return the question of a due follow-up; None if it is not to be asked any more."""
        planned = local_time(found.reminder.due_at, caller.time_zone)
        is_fitting = caller.now.hour in HOURS and caller.now.date() == planned.date()
        may_ask = caller.preferences.follow_ups and caller.preferences.memory_on
        if not (may_ask and is_fitting) or found.about is None:
            return None
        event = await self._find(caller, found.about, is_current=True)
        stake = stake_of(event.text) if event is not None else None
        if event is None or stake is None:
            return None
        language = caller.language
        quote = say("quoted", language, text=shortened(event.text, MAX_QUOTE))
        button = Button(say("follow_up_mute", language), Action("mute", (found.reminder.id,)))
        return Reply(f"{say(f'follow_up_{stake}', language)}\n{quote}", ((button,),))

    async def mute(self, caller: Caller, number: int) -> Reply:
        """Answer the button that ends the questions about a thing."""
        if not await self._run(self._rows.mute, caller.owner, number):
            return Reply.closing_note(say("reminder_gone", caller.language))
        return Reply(say("follow_up_muted", caller.language), is_screen=True)

    async def mute_last(self, caller: Caller) -> bool:
        """End the questions about what was asked last; return False if nothing was lately."""
        return await self._run(self._rows.mute, caller.owner, since=caller.moment - OPEN)

    async def _find(self, caller: Caller, about: str, *, is_current: bool = False) -> Told | None:
        """Return what a follow-up is about; None if it is forgotten, deleted, or not current."""
        owner = caller.owner
        if about.startswith(REMINDER_UID):
            number = fact_number(about, REMINDER_UID) or 0
            reminder = await self._run(self._reminders.find, owner, number)
            if reminder is None:
                return None
            return Told(about, "", reminder.text, reminder.due_at)
        if about.startswith(FACT_UID):
            fact = await self._run(self._facts.find_fact, owner, fact_number(about) or 0)
            if (
                fact is None
                or fact.fact.memory_type == PRIVATE
                or (is_current and fact.retirement)
            ):
                return None
            return Told(about, fact.source.uid, fact.text, fact.source.said_at)
        source = await self._run(self._facts.find_source, owner, about)
        if source is None:
            return None
        return Told(about, about, source.text, source.said_at)
