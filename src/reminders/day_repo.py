"""Repository of a person's day: what was told with a date, briefs, and questions how it went.

Briefs and follow-ups are rows of ``reminders`` of their own kinds, so the plan, the jobs and the
moves to another clock are those of reminders. They are never sent twice: each is marked as
delivered, with its day, before it is sent.
"""

from dataclasses import dataclass
from datetime import date, datetime
from typing import NamedTuple

from src.base.owners import Owner
from src.pg import locks
from src.pg.client import Repository, Transaction
from src.reading.facts import FACT_UID
from src.reminders.reminder_repo import OWN, REMINDER_UID, NewReminder, Reminder, defer, job_key

MAX_FACTS = 500  # newest facts that are read for dates
MAX_NOTES = 500  # newest messages
MAX_PERIOD = 200  # messages of one day
MAX_ASKED = 200  # follow-ups of an owner that are read
PAGE = 1000  # owners read at once
QUESTION_DAYS = 7  # for which a question about two facts is open

# What holds, and what the user typed, without private and forgotten ones.
FACTS = """
SELECT 'fact-' || f.id, f.uid, f.text, f.said_at,
       CASE WHEN f.memory_type = 'event' OR f.valid_from > f.said_at THEN f.valid_from END,
       f.valid_until, f.relation = 'birthday'
FROM facts f
WHERE f.owner_id = %(owner)s AND f.retired_at IS NULL AND f.memory_type <> 'private'
"""
TYPED = """
SELECT 'msg-' || m.id, 'msg-' || m.id, left(message_text(m.content), 500), m.said_at,
       NULL, NULL, false
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE c.owner_id = %(owner)s AND m.role = 'user' AND m.provenance = 'typed'
  AND NOT m.is_forgotten AND NOT m.is_private
"""

# Select facts, then messages, each the newest first.
SELECT_TOLD = f"""
({FACTS} ORDER BY f.id DESC LIMIT %(facts)s)
UNION ALL
({TYPED} ORDER BY m.said_at DESC, m.id DESC LIMIT %(notes)s)
"""

# Select what the user typed in a period, in order.
SELECT_SAID = f"""{TYPED}
  AND m.said_at >= %(since)s AND m.said_at < %(until)s
ORDER BY m.said_at, m.id LIMIT %(limit)s
"""

# Select the newest open question which of two facts is right.
SELECT_QUESTION = """
SELECT 'msg-' || a.id, 'msg-' || a.id, left(a.content, 500), a.created_at, NULL, NULL, false
FROM messages a JOIN conversations c ON c.id = a.conversation_id
WHERE c.owner_id = %(owner)s AND a.asks = 'conflict' AND a.question IS NOT NULL
  AND NOT a.is_forgotten AND NOT a.is_private
  AND a.created_at > %(now)s::timestamptz - make_interval(days => %(days)s)
ORDER BY a.id DESC LIMIT 1
"""

# Select reminders that came in a period, which may remind of an event.
SELECT_CAME = """
SELECT 'reminder-' || r.id, '', r.text, r.delivered_at, NULL, NULL, false
FROM reminders r
WHERE r.owner_id = %(owner)s AND r.kind = 'reminder' AND r.cancelled_at IS NULL
  AND r.delivered_at >= %(since)s AND r.delivered_at < %(until)s
ORDER BY r.delivered_at, r.id LIMIT 100
"""

# Select the brief of an owner while it is on.
SELECT_BRIEF = f"{OWN} AND r.kind = 'brief' AND r.is_waiting"

# Switch the brief on, or move it; the day of the last one stays.
UPSERT_BRIEF = """
INSERT INTO reminders (owner_id, thread_id, text, due_at, recurrence, time_zone, language,
                            kind)
VALUES (%(owner)s, %(thread_id)s, %(text)s, %(due_at)s, %(recurrence)s, %(time_zone)s,
        %(language)s, 'brief')
ON CONFLICT (owner_id) WHERE kind = 'brief' DO UPDATE
SET thread_id = EXCLUDED.thread_id, due_at = EXCLUDED.due_at, recurrence = EXCLUDED.recurrence,
    time_zone = EXCLUDED.time_zone, language = EXCLUDED.language, is_waiting = true,
    attempts = 0, cancelled_at = NULL
"""

# Switch the brief off.
UPDATE_STOPPED = """
UPDATE reminders SET is_waiting = false, cancelled_at = now()
WHERE owner_id = %(owner)s AND kind = 'brief' AND is_waiting
"""

# Select people whom the bot may ask how something went, by the number of the owner.
SELECT_FOLLOWED = """
SELECT o.id, o.telegram_user_id FROM user_settings s JOIN owners o ON o.id = s.owner_id
WHERE s.follow_ups AND s.memory_on AND s.inactive_since IS NULL AND o.blocked_at IS NULL
  AND o.telegram_user_id > 0 AND o.id > %(after)s
ORDER BY o.id LIMIT %(limit)s
"""

# Select the newest follow-ups, and those of things about which the user wants no more.
SELECT_ASKED = """
SELECT about, day, cancelled_at IS NOT NULL FROM reminders
WHERE owner_id = %(owner)s AND kind = 'follow_up'
ORDER BY cancelled_at IS NULL, id DESC LIMIT %(limit)s
"""

# Insert a follow-up; none if there is one of that day.
INSERT_FOLLOW_UP = """
INSERT INTO reminders (owner_id, text, due_at, time_zone, language, kind, day, about)
VALUES (%(owner)s, %(text)s, %(due_at)s, %(time_zone)s, %(language)s, 'follow_up', %(day)s,
        %(about)s)
ON CONFLICT DO NOTHING
RETURNING id
"""

# Ask no more about what a follow-up asked: about this one, or the last one since a time.
UPDATE_MUTED = """
UPDATE reminders SET is_waiting = false, cancelled_at = now()
WHERE owner_id = %(owner)s AND id = (
    SELECT id FROM reminders
    WHERE owner_id = %(owner)s AND kind = 'follow_up' AND delivered_at IS NOT NULL
      AND (%(id)s::bigint IS NULL OR id = %(id)s)
      AND (%(since)s::timestamptz IS NULL OR delivered_at > %(since)s)
    ORDER BY delivered_at DESC, id DESC LIMIT 1)
"""

# Record that one did not arrive: Telegram has refused it, or could not be reached.
UPDATE_RESTORED = """
UPDATE reminders
SET delivered_at = NULL, due_at = %(due_at)s, is_waiting = true,
    day = CASE WHEN kind = 'follow_up' THEN day END
WHERE id = %(id)s AND cancelled_at IS NULL
"""


@dataclass(frozen=True)
class Told:
    """Text of a user, as it is stored: a fact, a message, or the subject of a reminder.

    Attributes:
        id: ``fact-12``, ``msg-12`` or ``reminder-12``.
        uid: ``msg-<id>`` of the message that told it, if there is one.
        text: The text.
        said_at: When it was said; of a reminder, when it came.
        valid_from: Day of an event, or of something that begins after it was told.
        valid_until: End of a fact's validity.
        is_birthday: True for a fact about a birthday.
    """

    id: str
    uid: str
    text: str
    said_at: datetime
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    is_birthday: bool = False

    @property
    def is_message(self) -> bool:
        """True for a message."""
        return self.id.startswith("msg-")

    @property
    def is_reminder(self) -> bool:
        """True for a reminder."""
        return self.id.startswith(REMINDER_UID)


class Asked(NamedTuple):
    """Follow-up: what it is about, its day, and whether the user wants no more of it."""

    about: str
    day: date
    is_muted: bool


class DayRepository(Repository):
    """Repository of days, briefs and follow-ups; its methods block (see ``PgClient.run``)."""

    def list_told(self, owner: Owner) -> list[Told]:
        """Return current facts and the messages that told none of them; any may name a day."""
        found = self._all(Told, SELECT_TOLD, owner, facts=MAX_FACTS, notes=MAX_NOTES)
        of_facts = {one.uid for one in found if one.id.startswith(FACT_UID)}
        return [one for one in found if one.id.startswith(FACT_UID) or one.uid not in of_facts]

    def list_said(self, owner: Owner, since: datetime, until: datetime) -> list[Told]:
        """Return what the owner typed in a period (aware, half-open), in order."""
        period = {"since": since, "until": until, "limit": MAX_PERIOD}
        return self._all(Told, SELECT_SAID, owner, **period)

    def list_came(self, owner: Owner, since: datetime, until: datetime) -> list[Told]:
        """Return the reminders that came in a period (aware, half-open), in order."""
        return self._all(Told, SELECT_CAME, owner, since=since, until=until)

    def find_question(self, owner: Owner, now: datetime) -> Told | None:
        """Return the newest open question which of two facts is right, or None."""
        return self._first(Told, SELECT_QUESTION, owner, now=now, days=QUESTION_DAYS)

    def find_brief(self, owner: Owner) -> Reminder | None:
        """Return the brief of an owner, or None if it is off."""
        return self._first(Reminder.from_row, SELECT_BRIEF, owner)

    def set_brief(self, owner: Owner, new: NewReminder, *, now: datetime) -> Reminder:
        """Switch the brief on, or move it to another time."""

        def work(transaction: Transaction) -> Reminder:
            locks.lock_reminders(transaction, owner)
            transaction.execute(UPSERT_BRIEF, owner, **new.columns())
            brief = DayRepository(transaction).find_brief(owner)
            assert brief is not None, "it was just stored"
            defer(transaction, now, brief.id)
            return brief

        return self._client.in_transaction(work)

    def stop_brief(self, owner: Owner) -> bool:
        """Switch the brief off; return False if it was not on."""
        return self._client.execute(UPDATE_STOPPED, owner) > 0

    def list_followed(self, after: int = 0) -> list[tuple[int, int]]:
        """Return a page of people with follow-ups: the owner's number and the Telegram id."""
        return [
            (row[0], row[1])
            for row in self._client.fetch_all(SELECT_FOLLOWED, after=after, limit=PAGE)
        ]

    def list_asked(self, owner: Owner) -> list[Asked]:
        """Return the follow-ups: those about which the user wants no more first."""
        return self._all(Asked, SELECT_ASKED, owner, limit=MAX_ASKED)

    def add_follow_up(
        self, owner: Owner, new: NewReminder, about: str, day: date, *, now: datetime
    ) -> bool:
        """Store a follow-up, and its job; return False if there is one of that day.

        Args:
            owner: The person to ask.
            new: When to ask, and in which language; its text says nothing of the user.
            about: The fact, message or reminder.
            day: The day of the question on the owner's clock.
            now: The current time, aware.
        """

        def work(transaction: Transaction) -> bool:
            values = new.columns() | {"about": about, "day": day}
            row = transaction.fetch_one(INSERT_FOLLOW_UP, owner, **values)
            if row is None:
                return False
            defer(transaction, now, row[0])
            return True

        return self._client.in_transaction(work)

    def mute(
        self, owner: Owner, number: int | None = None, *, since: datetime | None = None
    ) -> bool:
        """End the questions about a thing; return False if none was asked.

        Args:
            owner: The person who was asked.
            number: The follow-up; None for the last one.
            since: When it came at the earliest; None for any time.
        """
        return self._client.execute(UPDATE_MUTED, owner, id=number, since=since) > 0

    def restore(self, number: int, due: int) -> None:
        """Record that a brief or follow-up did not arrive, and may be sent again."""
        self._client.execute(UPDATE_RESTORED, job_key(number, due))
