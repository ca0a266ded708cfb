"""Tasks of the queue that handle or interrupt updates, send reminders and close questions."""

import asyncio
import logging
import time
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Literal, cast

from aiogram import Dispatcher, types
from aiogram.dispatcher.event.bases import UNHANDLED
from procrastinate import App, JobContext
from procrastinate.job_context import AbortReason
from procrastinate.jobs import Job

from src.base import errors
from src.base.metrics import Metrics
from src.base.owners import Caller
from src.base.zones import local_time
from src.core import Core
from src.memory.question_repo import SHOW_ENDING, QuestionRepository
from src.pg.settings_repo import UserSettings
from src.queue import job_repo
from src.queue.update_repo import UpdateKind, UpdateOutcome, WaitingUpdate
from src.queue.workers import BackOff, schedule
from src.reminders.reminder_repo import REMIND, DueReminder
from src.reminders.screens import LATE, arrival
from src.talk.turn_state import TurnControl
from src.telegram.delivery import Address, Delivery
from src.telegram.incoming import Context, looks_like_part
from src.telegram.rendering import split_text
from src.texts import say

logger = logging.getLogger(__name__)

MODEL_ATTEMPTS = 6  # then the bot apologises, after pauses of 1 + 2 + 4 + 8 + 16 seconds
APOLOGY_KINDS: tuple[UpdateKind, ...] = ("message", "teach", "command", "new", "stop")
DELIVERY_SECONDS = 86_400.0  # during which an answer is retried if Telegram cannot be reached
EXTRA_ATTEMPTS = 1  # retries after a refusal for an unknown reason, or an unparsable response
UNEXPLAINED = (errors.DeliveryRefusedError, errors.DeliveryNonsenseError)
UNREACHABLE = (errors.ChatUnavailableError, errors.PlaceLostError)


class UpdateTasks:
    """Tasks that handle stored updates."""

    def __init__(self, core: Core, dispatcher: Dispatcher, delivery: Delivery) -> None:
        """Feed ``dispatcher`` with updates; apologise through ``delivery``."""
        self._core, self._run = core, core.client.run
        self._updates = core.updates
        self._dispatcher = dispatcher
        self._delivery = delivery
        self._questions = QuestionRepository(core.client)

    def register(self, app: App) -> None:
        """Register the tasks under the names in the stored jobs."""
        people, control, retry = job_repo.PEOPLE_QUEUE, job_repo.CONTROL_QUEUE, BackOff()
        app.task(name="handle_update", queue=people, pass_context=True, retry=retry)(
            self.handle_update
        )
        app.task(name="interrupt_turn", queue=control, pass_context=True, retry=retry)(
            self.interrupt_turn
        )
        app.task(name="apologise", queue=control, retry=retry)(self.apologise)
        app.task(name=SHOW_ENDING, queue=control, retry=retry)(self.show_ending)

    async def handle_update(
        self,
        context: JobContext,
        update: int,
        message_id: int | None = None,  # noqa: ARG002  (for interrupt_turn)
    ) -> None:
        """Feed one stored update to the dispatcher, in an asyncio task of its own.

        A user's Stop cancels this job, but ends only the generation: the turn finishes with the
        text so far. A shutdown also cancels the turn, which is retried later.

        Args:
            context: Context of the job.
            update: Row id in ``telegram_updates``.
            message_id: Telegram's id of the message, compared by ``interrupt_turn``.
        """
        control = TurnControl()
        work = asyncio.ensure_future(self._handle_stored(context.job, update, control))
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
        work.result()

    async def interrupt_turn(
        self, context: JobContext, lock: str, before: int, draft_id: int | None = None
    ) -> None:
        """Stop the running answer of a chat (/stop, /new, the Stop button).

        This job does not take the chat's lock, so it need not wait. A job that is pending for a
        retry would block the chat until then, so it is cancelled.

        Args:
            context: Context of the job.
            lock: Lock of the chat.
            before: Row id of the interrupting update; later ones are left alone.
            draft_id: Restricts a Stop button to the answer of this draft.
        """
        manager = context.app.job_manager
        find = self._updates.list_interruptible
        for job, is_running, update in await self._run(
            find, lock, before=before, draft_id=draft_id
        ):
            if is_running:
                await manager.cancel_job_by_id_async(job, abort=True)
            elif await manager.cancel_job_by_id_async(job, delete_job=True):
                await self._run(self._core.turns.mark_delivery_stopped, update)
                await self._run(self._updates.mark_handled, update, "stopped")

    async def apologise(self, update: int) -> None:
        """Tell the sender of an update that it was put aside.

        Args:
            update: Row id in ``telegram_updates``.
        """
        stored = await self._run(self._updates.find_waiting, update, put_aside=True)
        # None: it has been requeued in between.
        if stored is not None and stored.kind in (*APOLOGY_KINDS, "callback"):
            await self._apologise(stored, errors.PutAsideError.text_key)

    async def show_ending(self, answer: int) -> None:
        """Show a question as it is stored now: decided by words, or expired after a week.

        Its buttons are removed; if Telegram refuses the edit, the message stays as it is.

        Args:
            answer: Id of the answer that asks.

        Raises:
            TransientError: Telegram or the database is unavailable; worth a retry.
        """
        ended = await self._run(self._questions.find_ended, answer)
        if ended is None:
            return
        message_id = ended.sent_message_ids[-1]
        is_one = len(ended.sent_message_ids) == len(split_text(ended.text)) == 1
        text = None
        if is_one:
            text = ended.text
        try:
            await self._delivery.try_to_change(ended.chat_id, message_id, text)
        except (errors.ChatUnavailableError, errors.PlaceLostError):
            logger.info("the end of a question is shown to nobody", extra={"answer": answer})

    async def _handle_stored(self, job: Job, update: int, control: TurnControl) -> None:
        start = time.monotonic()
        stored = await self._run(self._updates.find_waiting, update)
        if stored is None:
            return  # its process died after it was handled, before the job was finished
        log = {"update": stored.id, "kind": stored.kind, "chat": stored.chat_id}
        seconds = self._core.settings.gather_seconds
        pause = min(seconds, seconds - stored.age)  # clocks may differ a bit
        if pause > 0 and looks_like_part(stored):
            await asyncio.sleep(pause)
            stored = await self._run(self._updates.find_waiting, update)
            if stored is None:
                return  # closed in between
        try:
            outcome = await self.feed(stored, control)
        except Exception as error:
            if await self._may_retry(error, stored, control, job.attempts):
                log["attempt"] = job.attempts
                logger.warning("will try again", extra=log, exc_info=error)
                raise
            outcome = await self._give_up(error, stored, control)
        if outcome != "done" or stored.kind != "message":
            await self._run(self._updates.mark_handled, stored.id, outcome)
        milliseconds = round((time.monotonic() - start) * 1000)
        logger.info("handled", extra={**log, "outcome": outcome, "ms": milliseconds})

    async def feed(self, stored: WaitingUpdate, control: TurnControl) -> UpdateOutcome:
        """Pass an update with its context to the handlers; raises as they do."""
        chosen, caller = await self._load_caller(stored)
        if chosen.is_inactive and stored.kind != "member":
            await self._run(self._core.user_settings.mark_active, stored.chat_id)
        update = types.Update.model_validate(stored.payload, context={"bot": self._delivery.bot})
        result = await self._dispatcher.feed_update(
            self._delivery.bot, update, context=Context(stored, caller, control)
        )
        if result is UNHANDLED:
            return "ignored"
        return cast("UpdateOutcome | None", result) or "done"

    async def _load_caller(self, stored: WaitingUpdate) -> tuple[UserSettings, Caller]:
        chosen = await self._run(self._core.user_settings.get, stored.owner.telegram_user_id)
        language = stored.sender_language
        return chosen, self._core.caller(stored.owner, chosen, language, member=stored.user_id)

    async def _may_retry(
        self, error: Exception, stored: WaitingUpdate, control: TurnControl, attempts: int
    ) -> bool:
        _count_error(error, self._core.metrics)
        if not isinstance(error, errors.TransientError) or control.stopped:
            return False
        if isinstance(error, errors.StorageError) and not error.is_refusal:
            return True
        if isinstance(error, UNEXPLAINED):
            return await self._run(self._updates.count_refusal, stored.id) <= EXTRA_ATTEMPTS
        if isinstance(error, errors.DeliveryError):
            return stored.age < DELIVERY_SECONDS
        return attempts + 1 < MODEL_ATTEMPTS

    async def _give_up(
        self, error: Exception, stored: WaitingUpdate, control: TurnControl
    ) -> UpdateOutcome:
        """Apologise for a final failure; its message stays in the history.

        Raises:
            DeliveryError: The apology was not delivered either; worth a retry, for a day.
        """
        if isinstance(error, errors.ConversationGoneError):
            return "wiped"
        if isinstance(error, UNREACHABLE):
            return await self._note_unreachable(error, stored)
        if isinstance(error, errors.TransientError) and control.stopped:
            await self._run(self._core.turns.mark_delivery_stopped, stored.id)
            return "stopped"  # the user does not want this answer any more
        log = {"update": stored.id, "kind": stored.kind, "chat": stored.chat_id}
        logger.error("gave up on an update", extra=log, exc_info=error)
        self._core.metrics.turns.labels("failed").inc()
        if stored.kind == "message":
            mark = self._core.turns.mark_failed
            await self._run(mark, stored.bot_id, stored.chat_id, stored.message_id)
        if stored.kind not in APOLOGY_KINDS:
            return "failed"
        key = getattr(error, "text_key", errors.AppError.text_key)
        return await self._apologise(stored, key)

    async def _apologise(self, stored: WaitingUpdate, key: str) -> UpdateOutcome:
        """Tell the user what went wrong; return the update's outcome.

        Raises:
            DeliveryError: It was not delivered; worth a retry.
        """
        _, caller = await self._load_caller(stored)
        try:
            await self._delivery.send_text(Address.of(caller), say(key, caller.language))
        except UNREACHABLE as error:
            return await self._note_unreachable(error, stored)
        except errors.AppError as error:
            passes = isinstance(error, errors.DeliveryError) and not isinstance(error, UNEXPLAINED)
            if passes and stored.age < DELIVERY_SECONDS:
                raise
            log = {"update": stored.id}
            logger.warning("the apology did not arrive either", extra=log, exc_info=error)
        return "failed"

    async def _note_unreachable(self, error: Exception, stored: WaitingUpdate) -> UpdateOutcome:
        """Close a chat that is gone; of a lost topic, the others of its chat are not concerned."""
        if isinstance(error, errors.ChatUnavailableError):
            await self._run(self._core.user_settings.mark_inactive, stored.chat_id)
            await self._run(self._updates.close_chat, stored.bot_id, stored.chat_id)
        return "chat unavailable"


# Tasks of reminders: plan those that are due soon, and send each at its time.
#
# ``src/reminders/reminder_repo.py`` explains the plan. A reminder is sent, then marked: if the
# process dies in between, it is sent again. It is retried until Telegram accepts it; a late one
# comes with an apology.

PLAN = "plan_reminders"
PLAN_PRIORITY = job_repo.REMINDER_PRIORITY + 1
ReminderOutcome = Literal["on time", "late", "left out", "unreachable", "failed"]
PLAN_FOLLOW_UPS = "plan_follow_ups"


class ReminderTasks:
    """Tasks that plan and send reminders."""

    def __init__(self, core: Core, delivery: Delivery) -> None:
        """Send through ``delivery``."""
        self._core, self._run = core, core.client.run
        self._rows = core.reminders.rows
        self._delivery = delivery

    def register(self, app: App) -> None:
        """Register the tasks under the names in the stored jobs, and the planner's times."""
        queue = job_repo.CONTROL_QUEUE
        app.task(name=REMIND, queue=queue, retry=BackOff())(self.remind)
        # Planning precedes all due reminders, so that none is late because of a late plan.
        schedule("* * * * *", app, queue, PLAN, self.plan_now, priority=PLAN_PRIORITY)
        schedule("*/30 * * * *", app, job_repo.BACKGROUND_QUEUE, PLAN_FOLLOW_UPS, self.plan_asking)

    async def plan_now(self) -> None:
        """Defer jobs for reminders due within two minutes, at a start also for overdue ones."""
        try:
            planned = await self._core.reminders.plan(datetime.now(UTC))
            if planned:
                logger.info("planned reminders", extra={"reminders": planned})
        except errors.StorageError as error:
            logger.warning("reminders are planned a minute later", exc_info=error)

    async def plan_asking(self) -> None:
        """Store the follow-ups of today."""
        try:
            await self._core.follow_ups.plan(datetime.now(UTC))
        except errors.StorageError as error:
            logger.warning("follow-ups are planned half an hour later", exc_info=error)

    async def remind(self, reminder: int, due: int) -> None:
        """Send one reminder; see ``deliver``."""
        await self.deliver(reminder, due, datetime.now(UTC))

    async def deliver(self, reminder: int, due: int, now: datetime) -> ReminderOutcome | None:
        """Send a due reminder and mark it; return None if it is not due any more.

        Args:
            reminder: Id of the reminder.
            due: Its planned time, in seconds since 1970.
            now: Current time, aware.

        Raises:
            TransientError: It did not arrive; worth a retry.
        """
        found = await self._run(self._rows.find_due, reminder, due)
        if found is None:
            return None
        outcome = await self._send_reminder(found, due, now)
        self._core.metrics.reminders.labels(outcome).inc()
        log = {"reminder": reminder, "chat": found.reminder.owner.telegram_user_id}
        logger.info("reminded", extra={**log, "outcome": outcome})
        return outcome

    async def _send_reminder(self, found: DueReminder, due: int, now: datetime) -> ReminderOutcome:
        reminder, mark = found.reminder, self._rows.mark_delivered
        # Of a chat that is unreachable, unless it was moved meanwhile.
        cancel = partial(self._rows.cancel, reminder.owner, reminder.id, due_at=reminder.due_at)
        if found.is_inactive:
            await self._run(cancel)
            return "unreachable"
        address = Address(*reminder.owner, found.reply_to, reminder.asker_id, found.language)
        try:
            is_sent = await self._show(address, found, due, now)
        except errors.ChatUnavailableError:
            chat_id = reminder.owner.telegram_user_id
            await self._run(self._core.user_settings.mark_inactive, chat_id)
            await self._run(cancel)
            return "unreachable"
        except errors.PlaceLostError:
            await self._run(mark, reminder.id, due, now=now, is_sent=False)
            return "unreachable"
        except Exception as error:
            if not await self._is_hopeless(error, reminder.id, due):
                raise
            log = {"reminder": reminder.id}
            logger.error("gave up on a reminder", extra=log, exc_info=error)  # noqa: TRY400
            await self._run(mark, reminder.id, due, now=now, is_sent=False)
            return "failed"
        await self._run(mark, reminder.id, due, now=now, is_sent=is_sent)
        if not is_sent:
            return "left out"
        if now - reminder.due_at > LATE:
            return "late"
        return "on time"

    async def _show(self, address: Address, found: DueReminder, due: int, now: datetime) -> bool:
        """Send a reminder; of the bot's own messages, return False if one is not to be sent.

        Those are recorded before they are sent, so that none comes twice, whatever happens.
        """
        reminder, core = found.reminder, self._core
        settings = await self._run(core.user_settings.get, reminder.owner.telegram_user_id)
        caller = replace(core.caller(reminder.owner, settings, found.language), moment=now)
        if reminder.kind == "reminder":
            known = await core.day.known_about(caller, reminder)
            await self._delivery.show_reply(address, arrival(found, now, known))
            return True
        if reminder.kind == "brief":
            reply = await core.briefs.compose(reminder, caller)
        else:
            reply = await core.follow_ups.compose(found, caller)
        day = local_time(now, caller.time_zone).date()
        mark, restore = self._rows.mark_delivered, core.day.rows.restore
        if reply is None or not await self._run(mark, reminder.id, due, now=now, day=day):
            return False
        try:
            await self._delivery.show_reply(address, reply)
        except errors.DeliveryUnknownError as error:  # it may have arrived
            logger.warning("a brief or question may be lost", exc_info=error)
        except errors.AppError:
            await self._run(restore, reminder.id, due)
            raise
        return True

    async def _is_hopeless(self, error: Exception, reminder: int, due: int) -> bool:
        _count_error(error, self._core.metrics)
        if isinstance(error, errors.TransientError) and not isinstance(error, UNEXPLAINED):
            return False
        failures = await self._run(self._rows.count_failure, reminder, due)
        return failures > EXTRA_ATTEMPTS


def _count_error(error: Exception, metrics: Metrics) -> None:
    metrics.errors.labels(
        type(error).__name__ if isinstance(error, errors.AppError) else "defect"
    ).inc()
