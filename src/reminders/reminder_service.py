"""Reminder service: set, move and cancel, and reminder times in natural language."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from itertools import chain
from typing import Any, Literal

from babel.dates import format_date
from babel.lists import format_list
from babel.units import format_unit

from src.base.owners import Caller
from src.base.zones import DAY, SECOND, local_time, locale_of, place_of_zone
from src.pg.client import PgClient, storable
from src.reading import facts, lexicon
from src.reading.recurrences import DAY_HOURS, MAX_SKIPS, ORDINALS, Recurrence, next_after
from src.reading.reminder_moments import Problem, ReminderRequest, read_new_time
from src.reading.requests import pick_option
from src.reading.time_expressions import Period
from src.reading.times import WEEKEND, WORKDAYS
from src.reading.words import shared
from src.reminders import reminder_repo, rules
from src.reminders.day import days_of_what
from src.reminders.day_repo import DayRepository
from src.texts import Language, say
from src.texts.morphology import terms
from src.texts.reply import Times

FEW_TIMES = 4  # per day that are listed; more are written as "every three hours"
LAST_DAY = 31
END_OF_DAY = time(23, 59)
PERIODS = {"daily": "day", "weekly": "week", "monthly": "month", "yearly": "year"}
ENGLISH_ENDINGS = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}


def describe_reminder_time(
    when: datetime,
    repeats: Recurrence | None,
    *,
    language: Language,
    time_zone: str,
    now: datetime,
) -> str:
    """Return a reminder's time in words.

    Examples: ``завтра, 24 ноября, в 09:00``; ``every Monday at 08:00 (next: 30 November)``.

    Args:
        when: Next time (aware).
        repeats: Recurrence, or None.
        language: Language of the words.
        time_zone: Zone of the user, a tz database name.
        now: Current time (aware); decides what is today, and whether the year is added.
    """
    local, today = local_time(when, time_zone), local_time(now, time_zone)
    clock, date = f"{local:%H:%M}", _date(local, today, language)
    if repeats is None:
        days = (local.date() - today.date()) // DAY
        if days in (0, 1):
            day = say("reminder_tomorrow" if days else "reminder_today", language, date=date)
        else:
            number = local.weekday()
            weekday = say(f"on_weekday_{number}", language)
            day = say("reminder_on_day", language, day=weekday, date=date)
        text = say("reminder_once", language, day=day, time=clock)
    else:
        if len(repeats.hours) > 1:
            date = say("reminder_date_time", language, date=date, time=clock)
        habit, until = _habit(repeats, language), repeats.until
        if until is not None:
            end = _date(until, today, language)
            if until.time() < END_OF_DAY:
                end = say("reminder_date_time", language, date=end, time=f"{until:%H:%M}")
            habit = say("habit_until", language, habit=habit, date=end)
        text = say("reminder_repeated", language, habit=habit, next=date)
    for better, [original] in lexicon.of_language("reminder.respelt", language, {}).items():
        text = text.replace(original, better)
    return text


def _date(local: datetime, today: datetime, language: Language) -> str:
    """Return ``24 ноября``, with the year unless it is the current one."""
    date = str(format_date(local, "d MMMM", locale=locale_of(language)))
    if local.year == today.year:
        return date
    return say("date_of_year", language, date=date, year=local.year)


def _habit(repeats: Recurrence, language: Language) -> str:
    """Return ``каждый понедельник в 08:00`` or ``every 3 hours``."""
    hours = repeats.hours
    step = DAY_HOURS // len(hours)
    is_even = len(hours) > FEW_TIMES and hours == tuple(range(hours[0], DAY_HOURS, step))
    if is_even and repeats.frequency == "daily" and repeats.interval == 1:
        if step == 1:
            return say("every_hour", language)
        return say("every_so_often", language, period=_period(step, "hour", language))
    times = _join([f"{hour:02}:{repeats.minute:02}" for hour in hours], language)
    return say("habit_at", language, days=_days(repeats, language), times=times)


def _days(repeats: Recurrence, language: Language) -> str:
    """Return ``каждый понедельник`` or ``раз в 2 недели, по понедельникам``."""
    unit = PERIODS[repeats.frequency]
    if repeats.interval == 1:
        often = say(f"every_{unit}", language)
    else:
        period = _period(repeats.interval, unit, language)
        often = say("every_so_often", language, period=period)
    match repeats.frequency:
        case "daily":
            return often
        case "weekly" if repeats.interval == 1:
            return _weekdays(repeats.weekdays, language)
        case "weekly":
            where = _join([say(f"on_weekday_{n}", language) for n in repeats.weekdays], language)
        case "monthly" if repeats.nth:
            # "В понедельник, первый в месяце" or "on the first and third Monday".
            number = repeats.weekdays[0]
            forms = lexicon.of_language("limit.nth_words", language, {})
            words = next(words.split() for days, words in forms.items() if str(number) in days)
            nth = _join([words[ORDINALS.index(ordinal)] for ordinal in repeats.nth], language)
            weekday = say(f"on_weekday_{number}", language)
            where = say("on_nth_weekday", language, day=weekday, nth=nth)
        case "monthly" if repeats.day == LAST_DAY:
            where = say("on_last_day", language)
        case "monthly":
            ending = ENGLISH_ENDINGS.get(repeats.day, "th") if language == "en" else ""
            where = say("on_day_of_month", language, day=f"{repeats.day}{ending}")
        case _:
            day = datetime(2024, repeats.month, repeats.day, tzinfo=UTC)  # of a leap year
            date = str(format_date(day, "d MMMM", locale=locale_of(language)))
            where = say("on_date", language, date=date)
    return say("often_where", language, often=often, where=where)


def _period(number: int, unit: str, language: Language) -> str:
    return str(format_unit(number, f"duration-{unit}", locale=locale_of(language)))


def _weekdays(weekdays: tuple[int, ...], language: Language) -> str:
    if weekdays == WORKDAYS:
        return say("every_workday", language)
    if weekdays == WEEKEND:
        return say("every_weekend", language)
    if len(weekdays) == 1:
        return say(f"every_weekday_{weekdays[0]}", language)
    names = [say(f"in_weekday_{number}", language) for number in weekdays]
    return say("in_weekdays", language, days=_join(names, language))


def _join(names: list[str], language: Language) -> str:
    return str(format_list(names, locale=locale_of(language)))


Refusal = Problem | Literal["too_many", "not_own", "gone", "not_yours", "which"]

MAX_DAYS = 3654  # ten years, the limit of the readers of phrases, and one day


@dataclass(frozen=True)
class ReminderResult:
    """Result of a request.

    Attributes:
        reminder: Reminder that was set, moved or cancelled; None after a refusal.
        refusal: Reason for a refusal, or None.
        done: Requested action.
        others: Other reminders that were cancelled too; after the refusal ``which``, the
            candidates.
        skipped: Times that are left out, of a recurring reminder or of several of one name.
    """

    reminder: reminder_repo.Reminder | None = None
    refusal: Refusal | None = None
    done: Literal["set", "moved", "done", "cancelled", "skipped"] = "set"
    others: tuple[reminder_repo.Reminder, ...] = ()
    skipped: Sequence[datetime] = ()


class ReminderService:
    """Reminders of all owners; ``src/telegram/tasks.py`` delivers them.

    Attributes:
        run: Calls a method of ``rows`` from a coroutine.
        rows: Repository of the reminders.
    """

    def __init__(self, client: PgClient) -> None:
        """Store with ``client``."""
        self.run = client.run
        self.rows = reminder_repo.ReminderRepository(client)
        self._days = DayRepository(client)

    async def set(
        self,
        caller: Caller,
        asked: ReminderRequest,
        *,
        message_id: int | None = None,
        moves: reminder_repo.Reminder | None = None,
    ) -> ReminderResult:
        """Set a reminder, or move one.

        Args:
            caller: The caller, and the time of the call, from which "in ten minutes" counts.
            asked: Subject and time; a recurring reminder does not come before that time.
            message_id: Message that asks, if it is stored.
            moves: Reminder to move.

        Raises:
            StorageError: The database is away; a retry sets nothing twice.
        """
        text = storable(asked.what).strip()[: rules.MAX_TEXT].strip()
        due = _first_time(caller, asked.when, asked.repeats)
        refusal = asked.problem or _refusal(caller, text, due)
        if due is None or refusal is not None:
            return ReminderResult(refusal=refusal)
        new = reminder_repo.NewReminder(
            text, due, asked.repeats, caller.time_zone, caller.language, caller.asker, message_id
        )
        now, owner = datetime.now(UTC), caller.owner
        if moves is not None:
            moved = await self.run(self.rows.move, owner, moves.id, new, now=now)
            return ReminderResult(moved, None if moved is not None else "gone", "moved")
        reminder = await self.run(self.rows.add, owner, new, now=now)
        return ReminderResult(reminder, None if reminder is not None else "too_many")

    async def set_by_words(
        self, caller: Caller, words: str, *, message_id: int | None = None
    ) -> ReminderResult:
        """Set the reminder in a phrase, with or without "remind me"; no model is used.

        A phrase that says only when is about the caller's words to which it replies.
        """
        request = rules.read_words(words, caller.moment, caller.time_zone)
        if request is None:
            return ReminderResult(refusal="no_time")
        if request.problem == "no_text" and caller.replied:
            request = replace(request, what=caller.replied, problem=None)
        caller = caller.with_preferences(time_zone=request.time_zone or caller.time_zone)
        return await self.set(caller, request, message_id=message_id)

    async def apply_order(
        self,
        caller: Caller,
        order: rules.ReminderOrder | rules.CancelOrder,
        *,
        said_before: str = "",
        reason: str = "",
        message_id: int | None = None,
    ) -> ReminderResult:
        """Set, move or cancel as ordered; a recurring reminder moves as a whole.

        Args:
            caller: The caller, and the time of the call.
            order: The order; it names a reminder by its id or by words of it.
            said_before: The bot's last answer: "move it" means the reminder it mentioned.
            reason: What is said beside "cancel it", and may name the reminder.
            message_id: Message that asks, if it is stored.

        Raises:
            ValueError: The order's times are invalid.
        """
        if isinstance(order, rules.CancelOrder):
            found = await self._find(caller, order.id, said_before, reason)
            days = rules.named_days(order.on or reason, caller.now)
            return await self._cancel(caller, replace(found, done="cancelled"), days)
        zone = order.own_zone() or caller.time_zone
        if not order.moves:
            asked = order.request(caller.moment, zone, None)
            if asked.problem == "no_day":
                when = f"{order.when} {await self._told_day(caller, asked.what)}"
                order = order.model_copy(update={"when": when})
                asked = order.request(caller.moment, zone, None)
            setter = caller.with_preferences(time_zone=asked.time_zone or zone)
            return await self.set(setter, asked, message_id=message_id)
        found = await self._find(caller, order.moves, said_before)
        known = found.reminder
        if known is None:
            return found
        if found.others:
            return ReminderResult(refusal="which", others=(known, *found.others))
        times = reminder_repo.times_in(known, rules.named_days(order.moves, caller.now))
        if known.repeats is not None and times:  # "move tomorrow's pills to 11"
            asked = order.request(caller.moment, zone, times[0])
            return await self._move_times(caller, known, times, asked)
        asked = order.request(caller.moment, zone, known.due_at)
        repeats = asked.repeats
        if repeats is None and known.repeats is not None and asked.when is not None:
            own_zone = known.repeats.zone or zone
            old, new = local_time(known.due_at, own_zone), local_time(asked.when, own_zone)
            repeats = known.repeats.shifted_by(old, new)
        asked = replace(asked, what=known.text, repeats=repeats)
        return await self.set(caller.with_preferences(time_zone=zone), asked, moves=known)

    async def _move_times(
        self,
        caller: Caller,
        known: reminder_repo.Reminder,
        times: Sequence[datetime],
        asked: ReminderRequest,
    ) -> ReminderResult:
        """Set a reminder at another time for some of a recurring one's, then leave these out."""
        result = await self.set(caller, replace(asked, what=known.text, repeats=None))
        if result.refusal is None:
            await self._skip(caller, known, times)
        return result

    async def _cancel(
        self, caller: Caller, found: ReminderResult, days: Period | None
    ) -> ReminderResult:
        """Cancel what was found; of what recurs only the times on the days, if any are named."""
        if found.reminder is None:
            return found
        times = [] if found.others else reminder_repo.times_in(found.reminder, days)
        if times and found.reminder.repeats is not None:
            return await self._skip(caller, found.reminder, times)
        ids = [one.id for one in (found.reminder, *found.others)]
        await self.run(self.rows.cancel, caller.owner, *ids, asker=caller.asker)
        return replace(found, skipped=times)

    async def _skip(
        self, caller: Caller, known: reminder_repo.Reminder, times: Sequence[datetime]
    ) -> ReminderResult:
        """Leave out times of a recurring reminder; one with no others is cancelled."""
        assert known.repeats is not None
        skips = (local_time(at, known.zone).replace(tzinfo=None) for at in times)
        repeats = replace(known.repeats, skips=(*known.repeats.skips, *skips)[-MAX_SKIPS:])
        rest = replace(known, repeats=repeats)
        due = reminder_repo.next_time(rest, known.due_at - SECOND, known.time_zone)
        if due is None:
            await self.run(self.rows.cancel, caller.owner, known.id, asker=caller.asker)
            return ReminderResult(known, done="cancelled")
        new = reminder_repo.NewReminder(
            known.text, due, repeats, known.time_zone, known.language, caller.asker
        )
        move = self.rows.move
        moved = await self.run(move, caller.owner, known.id, new, now=datetime.now(UTC))
        if moved is None:
            return ReminderResult(refusal="gone")
        return ReminderResult(moved, done="skipped", skipped=times)

    async def _told_day(self, caller: Caller, what: str) -> str:
        """Return the day (ISO 8601) of the thing that a reminder is before; "" if unsure."""
        if not caller.preferences.memory_on:
            return ""
        told = await self.run(self._days.list_told, caller.owner)
        days = await asyncio.to_thread(days_of_what, told, what, caller)
        return days.pop().isoformat() if len(days) == 1 else ""

    async def _find(
        self, caller: Caller, said: str, said_before: str, reason: str = ""
    ) -> ReminderResult:
        """Find a reminder by id, by words of it, as ``IT`` or ``ALL``; return it or a refusal.

        Words, a place in the list, or a time match only reminders that the caller is allowed to
        change; each of several names must match one. ``IT`` is the one that the reason names, else
        the one that the bot mentioned last; behind ``ALL_BUT`` stand the names of those to be
        spared.
        """
        waiting = await self.run(self.rows.list_waiting, caller.owner)
        own = tuple(one for one in waiting if one.may_be_changed_by(caller.asker))
        number = facts.fact_number(said, reminder_repo.REMINDER_UID)
        if number is not None:
            found = next((one for one in waiting if one.id == number), None)
            refusal: Refusal = "gone" if found is None else "not_yours"
            return ReminderResult(found) if found in own else ReminderResult(refusal=refusal)
        if said == rules.IT:
            named = [_named(reason, own) or tuple(o for o in own if o.text in said_before) or own]
        elif said == rules.ALL:
            named = [(one,) for one in own]
        else:
            named = _find_all_named(said, own, caller)
        if not named or any(len(few) != 1 for few in named):
            return ReminderResult(refusal="which", others=next(iter(named), ()) or own)
        first, *others = dict.fromkeys(chain(*named))
        return ReminderResult(first, others=tuple(others))

    async def follow(self, caller: Caller, text: str) -> ReminderResult | None:
        """Change the reminder of which a message tells news; None for other messages.

        What is done is cancelled, unless it recurs. Of what will not be the times on those days
        are left out.
        """
        days, is_past = rules.days_without(text, caller.now), rules.tells_of_past(text)
        if days is None and not is_past:
            return None
        waiting = await self.run(self.rows.list_waiting, caller.owner)
        on_days = [one for one in waiting if reminder_repo.times_in(one, days)]
        held = [one for one in on_days if one.repeats or rules.is_off(one.text, text)]
        named = _named(rules.denied(text), held) or (held if rules.skips(text) else [])
        if len(named) == 1:
            return await self._cancel(caller, ReminderResult(named[0], done="cancelled"), days)
        done = [one for one in waiting if one.repeats is None and rules.is_done(one.text, text)]
        if len(done) != 1 or not is_past:
            return None
        await self.run(self.rows.cancel, caller.owner, done[0].id, asker=caller.asker)
        return ReminderResult(done[0], done="done")

    async def undo(
        self, caller: Caller, number: int | None = None, *, reminder: int | None = None
    ) -> list[reminder_repo.Reminder]:
        """Undo a cancellation or a move: of this number, or the last one of a reminder."""
        return await self.run(
            self.rows.undo,
            caller.owner,
            now=datetime.now(UTC),
            number=number,
            reminder=reminder,
            asker=caller.member,
        )

    async def plan(self, now: datetime) -> int:
        """Make jobs for all reminders due soon; return their number."""
        planned = 0
        while found := await self.run(self.rows.defer_soon, now):
            planned += found
        return planned


def _find_all_named(
    said: str, own: Sequence[reminder_repo.Reminder], caller: Caller
) -> list[tuple[reminder_repo.Reminder, ...]]:
    """Return the reminders of each name, or each one that is not to be spared (``ALL_BUT``)."""
    names = said.removeprefix(rules.ALL_BUT).split(", ")
    named = [_find_named(name, own, caller) for name in names]
    if said.startswith(rules.ALL_BUT):
        spared = [*chain(*named)]
        return [(one,) for one in own if one not in spared and all(named)]
    # "Cancel the vet and tell Tom": what names none behind the first is no name.
    return [named[0], *filter(None, named[1:])]


def _find_named(
    name: str, own: Sequence[reminder_repo.Reminder], caller: Caller
) -> tuple[reminder_repo.Reminder, ...]:
    """Return the reminders of a name, of a place in the list ("the second"), or of a time."""
    in_list = pick_option(name, [one.text for one in own])
    named = _named(name, own) or _named(in_list, own)
    days, when = rules.named_days(name, caller.now), rules.bare_time(name)
    few = named or (own if when else ())
    on_days = tuple(one for one in few if reminder_repo.times_in(one, days))
    if named or not when:
        return on_days or named
    at_time = []
    for one in own:
        found = read_new_time(when, one.due_at, caller.moment, caller.time_zone)
        if found is not None and found.when == one.due_at:
            at_time.append(one)
    return tuple(at_time) or on_days


def _named(
    said: str, reminders: Sequence[reminder_repo.Reminder]
) -> tuple[reminder_repo.Reminder, ...]:
    """Return the reminders that share most words, or beginnings of words, with a text."""
    sought = set(terms(said))
    scores = {
        one: (len(shared(said, one.text)), len(sought & set(terms(one.text)))) for one in reminders
    }
    best = max(scores.values(), default=(0, 0))
    return tuple(one for one, score in scores.items() if score == best != (0, 0))


def format_result(asked: ReminderResult, caller: Caller) -> str:
    """Return the answer to a request, without a model."""
    return rules.describe_reminder(payload(asked, caller), caller.language)


def payload(asked: ReminderResult, caller: Caller) -> dict[str, Any]:
    """Return the result of a request as the tools' payload."""
    key = "cancelled" if asked.done == "cancelled" else "set"
    if asked.reminder is None:
        others = {"reminders": payloads(asked.others, caller)} if asked.refusal == "which" else {}
        return {key: False, "reason": asked.refusal, **others}
    if asked.done == "cancelled":
        day = f": {describe_time(asked.reminder, caller)}" if asked.skipped else ""
        names = "; ".join(one.text for one in (asked.reminder, *asked.others))
        return {key: True, "text": f"{names}{day}"}
    changed: dict[str, Any] = {} if asked.done == "set" else {asked.done: True}
    if asked.skipped:
        changed = {"skipped": _describe_days(asked, caller)}
    return {key: True, **changed, **payloads([asked.reminder], caller)[0]}


def _describe_days(asked: ReminderResult, caller: Caller) -> str:
    """Return the first and the last day that a reminder leaves out, in words."""
    times = [local_time(one, caller.time_zone) for one in asked.skipped]
    edges = (_date(one, caller.now, caller.language) for one in (times[0], times[-1]))
    return " – ".join(dict.fromkeys(edges))


def payloads(reminders: Iterable[reminder_repo.Reminder], caller: Caller) -> list[dict[str, str]]:
    """Return reminders as the tools' payload."""
    return [{"id": r.uid, "text": r.text, "time": describe_time(r, caller)} for r in reminders]


def describe_time(reminder: reminder_repo.Reminder, caller: Caller) -> str:
    """Return a reminder's time in words, with the place if its zone is not the caller's."""
    zone = reminder.zone
    time = describe_reminder_time(
        reminder.due_at, reminder.repeats, language=caller.language, time_zone=zone,
        now=caller.moment,
    )  # fmt: skip
    return time if zone == caller.time_zone else f"{time} ({place_of_zone(zone, caller.language)})"


def time_marks(reminder: reminder_repo.Reminder, caller: Caller, *, in_text: str = "") -> Times:
    """Return the phrases of a reminder's time, as a text tells it, that follow a reader's clock.

    Args:
        reminder: The reminder.
        caller: The caller to whom the text is written.
        in_text: The text, if a model wrote it: it may tell only the hour.
    """
    zone, language = reminder.zone, caller.language
    local, today = local_time(reminder.due_at, zone), local_time(caller.moment, zone)
    clock, date = f"{local:%H:%M}", _date(local, today, language)
    if reminder.repeats is not None:
        return ((clock, reminder.due_at), (date, reminder.due_at))
    whole = describe_reminder_time(
        reminder.due_at, None, language=language, time_zone=zone, now=caller.moment
    )
    is_told = not in_text or whole in in_text
    return ((whole if is_told else clock, reminder.due_at),)


def _first_time(
    caller: Caller, when: datetime | None, repeats: Recurrence | None
) -> datetime | None:
    if when is None:
        return None
    due = when.astimezone(UTC).replace(microsecond=0)
    if repeats is None:
        return due
    try:
        return next_after(repeats, max(due - SECOND, caller.moment), caller.time_zone)
    except OverflowError:
        if repeats.until is not None:
            return caller.moment  # its end has passed
        return datetime.max.replace(tzinfo=UTC)


def _refusal(caller: Caller, text: str, due: datetime | None) -> Refusal | None:
    if text in ("", rules.NO_TEXT):
        return "no_text"
    if due is None:
        return "no_time"
    if due <= caller.moment:
        return "past"
    return "too_far" if due > caller.moment + timedelta(days=MAX_DAYS) else None
