"""Tasks of the queue: handle updates or interrupt their answers, send reminders, end questions."""

import asyncio
import logging
import time
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Literal, cast

from aiogram import Dispatcher
from aiogram.types import Update
from procrastinate import App, JobContext
from procrastinate.job_context import AbortReason

from src.base import errors
from src.base.metrics import Metrics
from src.core import Core
from src.memory.question_repo import SHOW_ENDING, QuestionRepository
from src.queue.job_repo import COMMANDS_QUEUE, CONTROL_QUEUE, REMINDERS_QUEUE, TURNS_QUEUE
from src.queue.update_repo import UpdateKind, UpdateOutcome, WaitingUpdate
from src.queue.woken_worker import FETCHED_UPDATE, FINISHED
from src.queue.workers import BackOff, every
from src.reminders.reminder_repo import REMIND, DueReminder
from src.reminders.screens import LATE, arrival
from src.talk.turn_state import TurnControl
from src.telegram.delivery import Address, Delivery
from src.telegram.incoming import Arrived
from src.telegram.rendering import split_text
from src.texts import choose_language, say

logger = logging.getLogger(__name__)

MODEL_ATTEMPTS = 6  # then the bot apologises: 1 + 2 + 4 + 8 + 16 s of waiting in all
APOLOGY_KINDS: tuple[UpdateKind, ...] = ("message", "media", "teach", "command", "new", "stop")
DELIVERY_DAYS = 1.0  # how long an answer is offered to a Telegram that does not take it
MORE_CHANCES = 1  # for what is refused, or fails, without a reason that we know
NONSENSE_CHANCES = 2  # more, for what is answered in a way that is not understood


class UpdateTasks:
    """Handles stored updates; every object it needs is handed in."""

    def __init__(self, core: Core, dispatcher: Dispatcher, delivery: Delivery) -> None:
        """Feed ``dispatcher`` with updates; apologise through ``delivery``."""
        self._core, self._run = core, core.client.run
        self._updates = core.updates
        self._dispatcher = dispatcher
        self._delivery = delivery
        self._questions = QuestionRepository(core.client)

    def register(self, app: App) -> None:
        """Tell the queue about the tasks, under the names that the stored jobs carry."""
        for name, queue, work in (
            ("handle_update", TURNS_QUEUE, self.handle_update),
            ("interrupt_turn", CONTROL_QUEUE, self.interrupt_turn),
            ("apologise", CONTROL_QUEUE, self.apologise),
        ):
            app.task(name=name, queue=queue, pass_context=True, retry=BackOff())(work)
        app.task(name=SHOW_ENDING, queue=COMMANDS_QUEUE, retry=BackOff())(self.show_ending)

    async def handle_update(
        self,
        context: JobContext,
        update: int,
        message_id: int | None = None,  # noqa: ARG002  (it is there for interrupt_turn)
    ) -> None:
        """Feed one stored update to the dispatcher, in a task of its own.

        A user's Stop cancels this job; that ends the generation only, and the turn finishes with
        what there is. A shutdown cancels it too; then the turn is left as it is and tried again.
        The job ends with the update, in the transaction that says that it is handled.

        Args:
            context: The queue's.
            update: Row id in ``telegram_updates``.
            message_id: Telegram's number of the message, for ``interrupt_turn`` to compare.
        """
        control = TurnControl()
        work = asyncio.ensure_future(self._handle(context, update, control))
        while not work.done():
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:
                if work.done():
                    break
                if context.abort_reason() is not AbortReason.USER_REQUEST:
                    work.cancel()
                    await asyncio.gather(work, return_exceptions=True)
                    raise
                control.stop()
        context.additional_context[FINISHED] = work.result()

    async def interrupt_turn(
        self, context: JobContext, lock: str, before: int, draft_id: int | None = None
    ) -> None:
        """Stop the running answer of a chat (/stop, /new, the Stop button).

        It goes without the chat's lock, so it cuts in. A job that waits for its next attempt
        would block the chat until then: it is cancelled.

        Args:
            context: The queue's.
            lock: The chat's lock.
            before: Row id of the update that asks for it; later ones are left alone.
            draft_id: With the Stop button: only the answer of this draft.
        """
        manager = context.app.job_manager
        find = partial(self._updates.list_interruptible, lock, before=before, draft_id=draft_id)
        for job, is_running, update in await self._run(find):
            if is_running:
                await manager.cancel_job_by_id_async(job, abort=True)
            elif await manager.cancel_job_by_id_async(job, delete_job=True):
                await self._run(self._end_stopped, update)

    def _end_stopped(self, update: int) -> None:
        """End an update whose job waited for a retry."""
        self._core.turns.mark_delivery_stopped(update)
        self._updates.mark_handled(update, "stopped")

    async def apologise(self, context: JobContext, update: int) -> None:  # noqa: ARG002
        """Tell the sender of an update that it is put aside.

        Args:
            context: The queue's.
            update: Row id in ``telegram_updates``.
        """
        stored = await self._run(self._updates.find_put_aside, update)
        if stored is None:
            return  # it was given back meanwhile
        if stored.kind in (*APOLOGY_KINDS, "callback"):
            await self._apologise(stored, errors.PutAsideError.text_key)

    async def show_ending(self, answer: int) -> None:
        """Show a question as it is stored: decided in words, or by nobody for a week.

        Its buttons go; where Telegram does not let us change it, it stays.

        Args:
            answer: The id of the answer that asks.

        Raises:
            TransientError: Telegram or the database is away; worth another try.
        """
        ended = await self._run(self._questions.find_ended, answer)
        if ended is None:
            return
        is_one = len(ended.sent_message_ids) == len(split_text(ended.text)) == 1
        try:
            await self._delivery.change_or_leave(
                ended.owner.telegram_user_id,
                ended.sent_message_ids[-1],
                ended.text if is_one else None,
            )
        except errors.ChatUnavailableError:
            logger.info("the end of a question is shown to nobody", extra={"answer": answer})

    async def _handle(self, context: JobContext, update: int, control: TurnControl) -> bool:
        """Whether the job ended with the update; else there was nothing to handle."""
        start, attempts = time.monotonic(), context.job.attempts
        fetched = context.additional_context.get(FETCHED_UPDATE)
        stored = WaitingUpdate.from_json(fetched) if fetched else None
        stored = stored or await self._run(self._updates.find_waiting, update)
        if stored is None:
            return False
        stored = replace(stored, job=context.job.id)
        log = {"update": stored.id, "kind": stored.kind, "chat": stored.chat_id}
        try:
            outcome = await self.feed(stored, control)
        except Exception as error:
            if await self._may_retry(error, stored, control, attempts):
                log["attempt"] = attempts
                logger.warning("will try again", extra=log, exc_info=error)
                raise
            outcome = await self._conclude(error, stored, control)
        if outcome != "done" or stored.kind != "message":
            await self._run(self._updates.mark_handled, stored.id, outcome, job=stored.job)
        milliseconds = round((time.monotonic() - start) * 1000)
        logger.info("handled", extra={**log, "outcome": outcome, "ms": milliseconds})
        return True

    async def feed(self, stored: WaitingUpdate, control: TurnControl) -> UpdateOutcome:
        """Let the handlers have an update, and tell them who calls; raises what they raise."""
        if stored.is_inactive and stored.kind != "member" and stored.chat_id is not None:
            await self._run(self._core.user_settings.mark_active, stored.chat_id)
        update = Update.model_validate(stored.payload, context={"bot": self._delivery.bot})
        called = self._core.called(
            stored.owner, stored, stored.sender_language, member=stored.user_id
        )
        result = await self._dispatcher.feed_update(
            self._delivery.bot, update, it=Arrived(stored, called, control)
        )
        return cast("UpdateOutcome", result) if isinstance(result, str) else "ignored"

    async def _may_retry(
        self, error: Exception, stored: WaitingUpdate, control: TurnControl, attempts: int
    ) -> bool:
        """Whether another attempt makes sense, and is wanted."""
        _count(error, self._core.metrics)
        if not isinstance(error, errors.TransientError) or control.stopped:
            return False
        if isinstance(error, errors.StorageError):
            return not error.is_refusal or attempts < MODEL_ATTEMPTS
        if isinstance(error, errors.DeliveryRefusedError | errors.DeliveryNonsenseError):
            refusals: int = await self._run(self._updates.count_refusal, stored.id)
            is_nonsense = isinstance(error, errors.DeliveryNonsenseError)
            return refusals <= (NONSENSE_CHANCES if is_nonsense else MORE_CHANCES)
        if isinstance(error, errors.DeliveryError):
            return stored.age_days < DELIVERY_DAYS
        return attempts + 1 < MODEL_ATTEMPTS

    async def _conclude(
        self, error: Exception, stored: WaitingUpdate, control: TurnControl
    ) -> UpdateOutcome:
        """End an update that failed for good: apologise; its message stays in the history.

        Raises:
            DeliveryError: The apology did not go out either; worth another try, for a day.
        """
        if isinstance(error, errors.ConversationGoneError):
            return "wiped"
        if isinstance(error, errors.ChatUnavailableError):
            return await self._leave_chat(stored)
        if isinstance(error, errors.TransientError) and control.stopped:
            await self._run(self._core.turns.mark_delivery_stopped, stored.id)
            return "stopped"  # the user does not want this answer any more
        log = {"update": stored.id, "kind": stored.kind, "chat": stored.chat_id}
        logger.error("gave up on an update", extra=log, exc_info=error)
        self._core.metrics.turns.labels("failed").inc()
        if stored.kind == "message":
            await self._run(
                self._core.turns.mark_failed, stored.bot_id, stored.chat_id, stored.message_id
            )
        if stored.kind not in APOLOGY_KINDS:
            return "failed"
        key = error.text_key if isinstance(error, errors.AppError) else "error_internal"
        return await self._apologise(stored, key)

    async def _apologise(self, stored: WaitingUpdate, key: str) -> UpdateOutcome:
        """Say what went wrong to whoever waits for an answer; returns the update's outcome.

        Raises:
            DeliveryError: It did not go out; worth another try.
        """
        if stored.chat_id is None:
            return "failed"
        sentence = say(key, choose_language(stored.language, stored.sender_language))
        try:
            await self._delivery.send_text(Address(stored.chat_id, stored.thread_id), sentence)
        except errors.ChatUnavailableError:
            return await self._leave_chat(stored)
        except errors.DeliveryError as error:
            is_nonsense = isinstance(error, errors.DeliveryNonsenseError)
            if stored.age_days < DELIVERY_DAYS and not is_nonsense:
                raise
            logger.warning("the apology did not arrive either", extra={"update": stored.id})
        except errors.AppError as error:
            log = {"update": stored.id}
            logger.warning("the apology was refused too", extra=log, exc_info=error)
        return "failed"

    async def _leave_chat(self, stored: WaitingUpdate) -> UpdateOutcome:
        """The user blocked the bot: nothing of what waits there can be answered."""
        if stored.chat_id is not None:
            await self._run(self._core.user_settings.mark_inactive, stored.chat_id)
            await self._run(
                self._updates.mark_chat_handled, stored.bot_id, stored.chat_id, "chat unavailable"
            )
        return "chat unavailable"


# The tasks of reminders: plan those that are due soon, and send each when its time has come.
#
# ``src/reminders/reminder_repo.py`` says why there is a plan. A reminder is sent, then marked: a
# process killed between the two sends it again. It is retried until Telegram takes it; when late,
# it comes with an apology.

PLAN = "plan_reminders"
Outcome = Literal["on time", "late", "unreachable", "failed"]


class ReminderTasks:
    """Sends what is due; every object it needs is handed in."""

    def __init__(self, core: Core, delivery: Delivery) -> None:
        """Send through ``delivery``."""
        self._core, self._run = core, core.client.run
        self._rows = core.reminders.rows
        self._delivery = delivery

    def register(self, app: App) -> None:
        """Tell the queue about the tasks and their times, under the names of the stored jobs."""
        queue = REMINDERS_QUEUE
        app.task(name=REMIND, queue=queue, pass_context=True, retry=BackOff())(self.remind)
        # Before all that is due: it is late only for what is planned late.
        every("* * * * *", app, queue, PLAN, self.plan_now, priority=1)

    async def plan_now(self) -> None:
        """Make jobs for what is due within two minutes; at every start some may be due already."""
        try:
            if planned := await self._core.reminders.plan(datetime.now(UTC)):
                logger.info("planned reminders", extra={"reminders": planned})
        except errors.StorageError as error:
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
        found = await self._run(self._rows.find_due, reminder, due)
        if found is None:
            return None
        outcome = await self._send(found, due, now)
        self._core.metrics.reminders.labels(outcome).inc()
        log = {"reminder": reminder, "chat": found.reminder.owner.telegram_user_id}
        logger.info("reminded", extra={**log, "outcome": outcome})
        return outcome

    async def _send(self, found: DueReminder, due: int, now: datetime) -> Outcome:
        reminder, mark = found.reminder, self._rows.mark_delivered
        if found.is_inactive:
            await self._run(self._rows.mark_unreachable, reminder.id, due)
            return "unreachable"
        address = Address(*reminder.owner, reply_to=found.reply_to)
        try:
            await self._delivery.show_reply(address, arrival(found, now))
        except errors.ChatUnavailableError:
            chat_id = reminder.owner.telegram_user_id
            await self._run(self._core.user_settings.mark_inactive, chat_id)
            await self._run(self._rows.mark_unreachable, reminder.id, due)
            return "unreachable"
        except Exception as error:
            if not await self._is_hopeless(error, reminder.id, due):
                raise
            log = {"reminder": reminder.id}
            logger.error("gave up on a reminder", extra=log, exc_info=error)  # noqa: TRY400
            await self._run(mark, reminder.id, due, now=now, is_sent=False)
            return "failed"
        await self._run(mark, reminder.id, due, now=now)
        return "late" if now - reminder.due_at > LATE else "on time"

    async def _is_hopeless(self, error: Exception, reminder: int, due: int) -> bool:
        """Whether trying again makes no sense: what may pass is tried for ever, the rest twice."""
        _count(error, self._core.metrics)
        if isinstance(error, errors.TransientError) and not isinstance(
            error, errors.DeliveryRefusedError | errors.DeliveryNonsenseError
        ):
            return False
        failures = await self._run(self._rows.count_failure, reminder, due)
        return failures > MORE_CHANCES


def _count(error: Exception, metrics: Metrics) -> None:
    metrics.errors.labels(
        type(error).__name__ if isinstance(error, errors.AppError) else "defect"
    ).inc()
