"""A person's day by rule: reminders, texts with its date, an open question, a year ago."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from typing import Literal

from babel.dates import format_date
from dateutil.relativedelta import relativedelta

from src.base.owners import Caller
from src.base.zones import DAY, SECOND, first_moment, local_time, locale_of
from src.memory import line_kinds
from src.memory.memory_repo import message_number
from src.memory.queries import Query
from src.memory.retriever import Retriever
from src.pg.client import PgClient
from src.reading import gate, lexicon
from src.reading.facts import PRIVATE
from src.reading.relative_dates import YEARLY, has_past_verb, resolve_dates, when_valid
from src.reading.requests import asks_to_keep_private
from src.reading.sentences import is_question, sentences
from src.reading.time_expressions import TimeQuery, read_time
from src.reading.times import fold
from src.reading.words import VALUES, Word, content_words, lemmas_of, names_in, shared
from src.reminders import rules
from src.reminders.day_repo import DayRepository, Told
from src.reminders.reminder_repo import Reminder, ReminderRepository, next_time
from src.texts import CYRILLIC, Language, say
from src.texts.morphology import parts_of_speech
from src.texts.plain_text import shortened
from src.texts.reply import Action, Button, Reply, in_rows

DateKind = Literal["event", "deadline", "birthday", "off"]

MAX_LINE = 160  # characters of a text in a line
MAX_REMINDERS = 8
MAX_DATED = 6
MAX_YEAR_AGO = 2
MIN_WORDS_YEAR_AGO = 3  # content words of a message that is worth a look after a year
MAX_KNOWN = 3  # lines below a reminder
SEARCHED = 40  # hits among which they are
PHONE = VALUES["lines.phone"]
ENOUGH_WORDS = 0.5  # share of a reminder's things that a line must name
SHARED_WORDS = 2  # of a reminder and the text that tells its day
CALENDAR = lexicon.Expression(r"\d|<time.month>")
FAR = timedelta(days=40)  # after which only a text with a number or a month can mean today
LONGEST_DAY = timedelta(hours=26)  # the day on which the clocks go back, and some
SIGNS: dict[DateKind, str] = {"event": "📌", "deadline": "⌛", "birthday": "🎂", "off": "🚫"}
CALLED_OFF = lexicon.AnyCase(r"(?<!\w)(?:<day.called_off>|<day.put_off>)(?!\w)")

_LEAD = r"\W*(?:(?>(?:<lines.question_and>|<lines.ask_me>)(?!\w))\W+)*"
ASKS = lexicon.AnyCase(rf"{_LEAD}<day.asks>(?>(?: <lines.question_end>)(?!\w))*\W*")
# "And on Friday?" behind such a question, without its day.
ASKS_ON = lexicon.AnyCase(rf"{_LEAD}(?:<day.asks>|<lines.question_and>)?\W*")
# "Что ещё на сегодня осталось": a day has only what is still to come.
STILL = lexicon.AnyCase(r"(?:^| )<day.still>(?!\w)")
MAX_DAYS = 7  # that are shown together


@dataclass(frozen=True)
class Dated:
    """Text with its day.

    Attributes:
        told: The text.
        day: The day that it names, on the owner's clock.
        kind: ``event``; ``deadline``: something holds or is due until then; ``birthday``: it
            comes every year; ``off``: something of that day does not take place.
    """

    told: Told
    day: date
    kind: DateKind


def read_date(told: Told, time_zone: str) -> Dated | None:
    """Return the single day that a text names, or that its fact begins on or holds until.

    Args:
        told: The text.
        time_zone: The owner's zone, a tz database name.
    """
    folded, said_at = fold(told.text), local_time(told.said_at, time_zone)
    named = when_valid(told.text, said_at, is_event=True, is_note=True)
    if named.start is not None and named.end is not None:
        day = local_time(named.start, time_zone).date()
        is_day = named.end - named.start <= LONGEST_DAY
        is_yearly = told.is_birthday or YEARLY.search(folded)
        if is_day and is_yearly and CALENDAR.search(folded):
            return Dated(told, day, "birthday")
        limit = when_valid(told.text, said_at, is_event=False, is_note=True).end
        if is_day or (limit is not None and named.start > said_at):
            return Dated(told, day, "event")
        if limit is None:
            return None
        return Dated(told, local_time(limit - SECOND, time_zone).date(), "deadline")
    if told.valid_from is not None:
        return Dated(told, local_time(told.valid_from, time_zone).date(), "event")
    if told.valid_until is not None:
        return Dated(told, local_time(told.valid_until - SECOND, time_zone).date(), "deadline")
    return None


def tells(told: Told) -> bool:
    """Return True for a fact, and for a message that tells something: no question, no order."""
    text = told.text
    if not told.is_message:
        return True
    if is_question(text) or asks_to_keep_private(text) or gate.holds_secret(text):
        return False
    if asks_what_is_on(text, told.said_at):
        return False
    is_note = line_kinds.kind_of(text) in (line_kinds.NOTE, line_kinds.UNSURE)
    is_order = rules.read_change(text) is not None or rules.asks_for_reminder(text)
    return is_note and not is_order


def asks_what_is_on(text: str, now: datetime) -> bool:
    """Return True for a question what is on a day or more: "plans for tomorrow"."""
    return _is_of_day(read_time(text[: rules.MAX_QUESTION], now, ahead=True))


def _is_of_day(found: TimeQuery) -> bool:
    content = STILL.sub("", fold(found.content))
    return len(found.periods) == 1 and ASKS.fullmatch(content) is not None


def read_days(text: str, caller: Caller, before: Sequence[str] = ()) -> list[date]:
    """Return the days of a question what is on ("что у меня завтра?"); none for other texts.

    A weekday or a date is the coming one, and a week begins today.

    Args:
        text: The message.
        caller: The caller, whose clock counts.
        before: The user's messages before it; behind such a question "and on Friday?" is one.
    """
    if len(text) > rules.MAX_QUESTION:
        return []
    now = caller.now
    found = read_time(text, now, ahead=True)
    if len(found.periods) != 1:
        return []
    if not _is_of_day(found):
        asked_before = read_days(before[-1], caller, before[:-1]) if before else []
        if not asked_before or ASKS_ON.fullmatch(fold(found.content)) is None:
            return []
    [period] = found.periods
    first, last = period.start.date(), (period.end - SECOND).date()
    days = [first + DAY * number for number in range((last - first).days + 1)]
    return [day for day in days if day >= now.date()] if len(days) <= MAX_DAYS else []


def by_sentence(told: Sequence[Told]) -> list[Told]:
    """Return facts as they are, and each sentence of a message on its own."""
    parts = []
    for one in told:
        if one.is_message:
            parts += [replace(one, text=text) for text in sentences(one.text)]
        else:
            parts.append(one)
    return parts


def days_of_what(told: Sequence[Told], what: str, caller: Caller) -> set[date]:
    """Return the coming days of texts that name what a reminder is about.

    They share two words with it: "gran's birthday is on 9 December", "two days before gran's
    birthday to order flowers".
    """
    days = set()
    for one in by_sentence(told):
        if len(shared(one.text, what)) < SHARED_WORDS or not tells(one):
            continue
        dated = read_date(one, caller.time_zone)
        if dated is None:
            continue
        today = caller.now.date()
        coming = [dated.day]
        if dated.kind == "birthday":
            coming = [birthday_in(year, dated.day) for year in (today.year, today.year + 1)]
        days.update([day for day in coming if day >= today][:1])
    return days


def calls_off(text: Told, event: Told) -> bool:
    """Return True if a text says, later, that an event does not take place, or not then.

    It names at least half of the event's words.
    """
    if text.said_at <= event.said_at or CALLED_OFF.search(fold(text.text)) is None:
        return False
    words = content_words(read_time(event.text, event.said_at).content)
    things = [word for word in words if not word.text.isdecimal()]
    return _name_enough(content_words(text.text), things)


def is_on(dated: Dated, day: date) -> bool:
    """Return True if a text is about a day: every year for a birthday, else that day alone."""
    if dated.kind == "birthday":
        return birthday_in(day.year, dated.day) == day
    return dated.day == day


def birthday_in(year: int, born: date) -> date:
    """Return a birthday in a year; one on 29 February is on the 28th in most."""
    day: date = born + relativedelta(year=year)
    return day


def day_bounds(day: date, time_zone: str) -> tuple[datetime, datetime]:
    """Return the moments (UTC) at which a day of a zone begins and ends."""
    start, end = (datetime.combine(one, time()) for one in (day, day + DAY))
    return first_moment(start, time_zone), first_moment(end, time_zone)


@dataclass(eq=False, repr=False)
class DayService:
    """Describes a person's day, and what is known about the subject of a reminder.

    Attributes:
        rows: Repository of days, briefs and follow-ups.
    """

    _client: PgClient
    _reminders: ReminderRepository
    _retriever: Retriever

    def __post_init__(self) -> None:
        """Build the repository on the client."""
        self.rows = DayRepository(self._client)

    async def describe(self, caller: Caller, days: Sequence[date] = ()) -> Reply | None:
        """Return the page of a day, or of the days on which anything is; None if nothing is.

        With the memory off it holds reminders alone.

        Args:
            caller: The caller.
            days: Days on the caller's clock; none for today, which has an open question, too.
        """
        days = days or [caller.now.date()]
        listed = await self._client.run(self._reminders.list_waiting, caller.owner)
        dated: list[Dated] = []
        if caller.preferences.memory_on:
            told = await self._client.run(self.rows.list_told, caller.owner)
            dated = await asyncio.to_thread(_dated_on, told, days, caller)
        pages: list[str] = []
        sources: list[tuple[int, datetime]] = []
        for day in days:
            lines = _reminder_lines(listed, caller, day)
            for line, source in await self._told_lines(dated, caller, day):
                number = message_number(source.uid)
                if number is not None:
                    sources.append((number, source.said_at))
                    line = f"{line} [{len(sources)}]"
                lines.append(line)
            if lines:
                pages.append("\n".join([f"📅 {title_of(day, caller.language)}", *lines]))
        if not pages:
            return None
        buttons = [
            Button(f"[{n}] {caller.day(said_at)}", Action("source", (number,)))
            for n, (number, said_at) in enumerate(sources, start=1)
        ]
        return Reply("\n\n".join(pages), in_rows(buttons, 3))

    async def _told_lines(
        self, dated: Sequence[Dated], caller: Caller, day: date
    ) -> list[tuple[str, Told]]:
        lines, language = [], caller.language
        events = [one for one in dated if is_on(one, day)]
        events.sort(key=lambda one: one.kind != "birthday")
        for event in events[:MAX_DATED]:
            said_at, text = local_time(event.told.said_at, caller.time_zone), event.told.text
            if said_at.date() != caller.now.date():
                text = resolve_dates(text, said_at, language)  # "tomorrow" was said yesterday
            text = shortened(text, MAX_LINE)
            if event.kind == "deadline":
                text = say("day_deadline", language, text=text)
            lines.append((f"{SIGNS[event.kind]} {text}", event.told))
        if len(events) > MAX_DATED:
            text = say("day_more", language, count=len(events) - MAX_DATED)
            lines.append((f"📌 {text}", events[MAX_DATED].told))
        if not caller.preferences.memory_on or day != caller.now.date():
            return lines
        found = await self._client.run(self.rows.find_question, caller.owner, caller.moment)
        if found is not None:
            text = shortened(found.text, MAX_LINE)
            lines.append((f"❓ {say('day_question', language, text=text)}", found))
        bounds = day_bounds(day - relativedelta(years=1), caller.time_zone)
        said = await self._client.run(self.rows.list_said, caller.owner, *bounds)
        worth = [one for one in said if tells(one)]
        worth = [one for one in worth if len(content_words(one.text)) >= MIN_WORDS_YEAR_AGO]
        longest = sorted(worth, key=lambda one: len(one.text), reverse=True)[:MAX_YEAR_AGO]
        for one in sorted(longest, key=lambda one: one.said_at):
            text = say("day_year_ago", language, text=shortened(one.text, MAX_LINE))
            lines.append((f"🕰 {text}", one))
        return lines

    async def known_about(self, caller: Caller, reminder: Reminder) -> str:
        """Return at most three lines of what the user said about a reminder's subject, or "".

        A line must name at least half of its people and things, and say more than the reminder;
        telephone numbers come first.
        """
        things = _things(reminder.text)
        if caller.owner.is_group or not (caller.preferences.memory_on and things):
            return ""
        now = caller.now
        names = " ".join(word.text for word in things)
        query = Query(caller.owner, names, now, SEARCHED, kinds=("message", "memory"))
        found = []
        for hit in await self._retriever.search(query):
            told = Told(hit.uid, hit.uid, hit.text, hit.said_at)
            is_own = (
                hit.speaker != "assistant" and hit.author.provenance == "typed" and not hit.retired
            )
            if not is_own or hit.memory_type == PRIVATE or hit.is_over(now):
                continue
            is_about = _speaks_of(hit.text, things, reminder.text, now)
            if is_about and not _is_of_another(hit.text, reminder.text) and tells(told):
                found.append(told)
        if not found:
            return ""
        found.sort(key=lambda one: PHONE.search(one.text) is None)
        lines = [say("reminder_known", caller.language)]
        for one in found[:MAX_KNOWN]:
            quote = say("quoted", caller.language, text=shortened(one.text, MAX_LINE))
            lines.append(f"• {quote} ({caller.day(one.said_at)})")
        return "\n".join(lines)


def _reminder_lines(waiting: Sequence[Reminder], caller: Caller, day: date) -> list[str]:
    """Return a line for each reminder of a day; one that recurs has its first time of the day."""
    start, end = day_bounds(day, caller.time_zone)
    is_today = start <= caller.moment
    lines = []
    for one in waiting:
        due: datetime | None = one.due_at
        if one.due_at < start and not is_today:
            due = next_time(one, start - SECOND, caller.time_zone)
        if due is not None and due < end:
            time = f"{local_time(due, caller.time_zone):%H:%M}"
            lines.append((due, f"⏰ {time} {shortened(one.text, MAX_LINE)}"))
    shown = [line for _, line in sorted(lines)[:MAX_REMINDERS]]
    if len(lines) > MAX_REMINDERS:
        more = say("day_more", caller.language, count=len(lines) - MAX_REMINDERS)
        shown.append(f"⏰ {more} → /reminders")
    return shown


def _dated_on(told: Sequence[Told], days: Sequence[date], caller: Caller) -> list[Dated]:
    """Return what is on those days, each text once, and behind it what calls it off."""
    found: dict[str, Dated] = {}
    parts = by_sentence(told)
    for one in parts:
        if caller.moment - one.said_at > FAR and CALENDAR.search(fold(one.text)) is None:
            continue  # no "tomorrow" reaches so far
        dated = read_date(one, caller.time_zone)
        if dated is None or not any(is_on(dated, day) for day in days) or not tells(one):
            continue
        is_new = local_time(one.said_at, caller.time_zone).date() == dated.day
        if not (is_new and has_past_verb(fold(one.text))):
            found.setdefault(fold(one.text), dated)
            for other in [part for part in parts if calls_off(part, one)]:
                found.setdefault(fold(other.text), Dated(other, dated.day, "off"))
    return list(found.values())


def title_of(day: date, language: Language) -> str:
    """Return a day in words: "Saturday, 28 November"."""
    return str(format_date(day, "EEEE, d MMMM", locale=locale_of(language)))


def _things(text: str) -> list[Word]:
    """Return the words of a reminder that name people and things, without what is to be done."""
    words = content_words(text)
    if len(words) > 1 and not CYRILLIC.search(words[0].text) and words[0].start == 0:
        words = words[1:]  # an English order begins with its verb
    tags = [parts_of_speech(word.text) for word in words]
    are_verbs = [bool(one & {"VERB", "INFN"}) and "NOUN" not in one for one in tags]
    return [word for word, is_verb in zip(words, are_verbs, strict=True) if not is_verb]


def _speaks_of(text: str, things: Sequence[Word], reminder: str, now: datetime) -> bool:
    """Return True if a text names enough of these things, and says more than the reminder.

    An adjective names its noun: "мамин номер" speaks of "мама".
    """
    said = content_words(read_time(text, now).content)
    known = lemmas_of(reminder)
    has_more = any(word.lemmas.isdisjoint(known) for word in said)
    return has_more and _name_enough(said, things)


def _is_of_another(text: str, reminder: str) -> bool:
    """Return True if a text names others than a reminder does: "сестра Лена", not Катя."""
    meant, named = names_in(reminder), names_in(text)
    return bool(meant and named) and meant.isdisjoint(named)


def _name_enough(said: Sequence[Word], things: Sequence[Word]) -> bool:
    """Return True if words name at least half of these things."""
    lemmas = frozenset[str]().union(*(word.lemmas for word in said))
    forms = [thing.lemmas | {f"{one[:-1]}ин" for one in thing.lemmas} for thing in things]
    named = sum(not one.isdisjoint(lemmas) for one in forms)
    return named > 0 and named >= ENOUGH_WORDS * len(things)
