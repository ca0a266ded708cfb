"""Tasks that send: reminders whose time has come, and the endings of unanswered questions."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from functools import partial
from typing import Literal

from procrastinate import App, JobContext

from src.base.errors import (
    AppError,
    ChatUnavailableError,
    DeliveryRefusedError,
    StorageError,
    TransientError,
)
from src.core import Core
from src.memory.question_repo import SHOW_ENDING, QuestionRepository
from src.pg.client import PgClient
from src.queue.job_repo import COMMANDS_QUEUE, REMINDERS_QUEUE
from src.queue.workers import BackOff
from src.reminders.reminder_repo import REMIND, DueReminder, ReminderRepository
from src.reminders.screens import LATE, arrival
from src.telegram.delivery import Address, Delivery
from src.telegram.keyboards import show_reply
from src.telegram.rendering import split_text

logger = logging.getLogger(__name__)


class QuestionEndings:
    """Takes the buttons from questions that were decided in words, or by nobody for a week."""

    def __init__(self, client: PgClient, delivery: Delivery) -> None:
        """Edit through ``delivery``."""
        self._client = client
        self._questions = QuestionRepository(client)
        self._delivery = delivery

    def register(self, app: App) -> None:
        """Tell the queue about the task."""
        app.task(name=SHOW_ENDING, queue=COMMANDS_QUEUE, retry=BackOff())(self.show)

    async def show(self, answer: int) -> None:
        """Let Telegram show the question as it is stored; what cannot be changed stays.

        Args:
            answer: The id of the answer that asks.

        Raises:
            TransientError: Telegram or the database is away; worth another try.
        """
        ended = await self._client.run(self._questions.find_ended, answer)
        if ended is None:
            return
        is_one = len(ended.sent_message_ids) == len(split_text(ended.text)) == 1
        try:
            await self._delivery.change_or_leave(
                ended.owner.telegram_user_id,
                ended.sent_message_ids[-1],
                ended.text if is_one else None,
            )
        except ChatUnavailableError:
            logger.info("the end of a question is shown to nobody", extra={"answer": answer})


# The tasks of reminders: plan those that are due soon, and send each when its time has come.
#
# ``src/reminders/reminder_repo.py`` says why there is a plan. A reminder is sent, then marked: who
# is killed between the two sends it again. It is tried until Telegram takes it, and late it comes
# with an apology.

PLAN = "plan_reminders"
MORE_CHANCES = 1  # for what fails without a reason that we know
Outcome = Literal["on time", "late", "unreachable", "failed"]


class ReminderTasks:
    """Sends what is due; every object it needs is handed in."""

    def __init__(self, core: Core, delivery: Delivery) -> None:
        """Send through ``delivery``."""
        self._client = core.client
        self._reminders = core.reminders
        self._repository = ReminderRepository(core.client)
        self._user_settings = core.user_settings
        self._metrics = core.metrics
        self._delivery = delivery

    def register(self, app: App) -> None:
        """Tell the queue about the tasks and their times, under the names of the stored jobs."""
        queue = REMINDERS_QUEUE
        app.task(name=REMIND, queue=queue, pass_context=True, retry=BackOff())(self.remind)
        task = app.task(  # before all that is due: it is late only for what is planned late
            name=PLAN, queue=queue, queueing_lock=PLAN, priority=1, pass_context=True
        )
        app.periodic(cron="* * * * *")(task(self.plan))

    async def plan(self, context: JobContext, timestamp: int) -> None:  # noqa: ARG002
        """Every minute: jobs for what is due within two."""
        await self.plan_now()

    async def plan_now(self) -> None:
        """Make jobs for what is due soon, as at every start: something may be due already."""
        try:
            if planned := await self._reminders.plan(datetime.now(UTC)):
                logger.info("planned reminders", extra={"reminders": planned})
        except StorageError as error:
            logger.warning("reminders are planned a minute later", exc_info=error)

    async def remind(self, context: JobContext, reminder: int, due: int) -> None:  # noqa: ARG002
        """Send one reminder.

        Args:
            context: The queue's.
            reminder: Its id.
            due: For which of its times, in seconds since 1970.
        """
        await self.deliver(reminder, due, datetime.now(UTC))

    async def deliver(self, reminder: int, due: int, now: datetime) -> Outcome | None:
        """Send a reminder that is due, and note it; None when there is nothing to send any more.

        Args:
            reminder: Its id.
            due: For which of its times.
            now: Aware.

        Raises:
            TransientError: It did not arrive; worth another try.
        """
        found = await self._client.run(self._repository.find_due, reminder, due)
        if found is None:
            return None
        outcome = await self._send(found, due, now)
        self._metrics.reminders.labels(outcome).inc()
        log = {"reminder": reminder, "chat": found.reminder.owner.telegram_user_id}
        logger.info("reminded", extra={**log, "outcome": outcome})
        return outcome

    async def _send(self, found: DueReminder, due: int, now: datetime) -> Outcome:
        reminder = found.reminder
        if found.is_inactive:
            await self._client.run(self._repository.mark_unreachable, reminder.id, due)
            return "unreachable"
        address = Address(*reminder.owner, reply_to=found.reply_to)
        try:
            await show_reply(self._delivery, address, arrival(found, now))
        except ChatUnavailableError:
            chat_id = reminder.owner.telegram_user_id
            await self._client.run(self._user_settings.mark_inactive, chat_id)
            await self._client.run(self._repository.mark_unreachable, reminder.id, due)
            return "unreachable"
        except Exception as error:
            if not await self._is_hopeless(error, reminder.id, due):
                raise
            log = {"reminder": reminder.id}
            logger.error("gave up on a reminder", extra=log, exc_info=error)  # noqa: TRY400
            mark = partial(self._repository.mark_delivered, is_sent=False)
            await self._client.run(mark, reminder.id, due, now=now)
            return "failed"
        await self._client.run(self._repository.mark_delivered, reminder.id, due, now=now)
        return "late" if now - reminder.due_at > LATE else "on time"

    async def _is_hopeless(self, error: Exception, reminder: int, due: int) -> bool:
        """Whether trying again makes no sense: what may pass is tried for ever, the rest twice."""
        kind = type(error).__name__ if isinstance(error, AppError) else "defect"
        self._metrics.errors.labels(kind).inc()
        if isinstance(error, TransientError) and not isinstance(error, DeliveryRefusedError):
            return False
        failures = await self._client.run(self._repository.count_failure, reminder, due)
        return failures > MORE_CHANCES
