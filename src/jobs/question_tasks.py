"""Periodic task: questions that nobody has answered for a week are over."""

from __future__ import annotations

import logging

from procrastinate import App

from src.services.question_service import QuestionService
from src.storage.queue_names import HOUSEKEEPING_QUEUE

logger = logging.getLogger(__name__)

NAME = "expire_questions"


class QuestionTasks:
    """Closes questions, by whichever worker comes first."""

    def __init__(self, questions: QuestionService, time_zone: str) -> None:
        """``time_zone`` is the default one."""
        self._questions = questions
        self._time_zone = time_zone

    def register(self, app: App) -> None:
        """Tell the queue about the task and its time."""
        task = app.task(name=NAME, queue=HOUSEKEEPING_QUEUE, lock=NAME, queueing_lock=NAME)
        app.periodic(cron="47 * * * *")(task(self.expire_questions))

    async def expire_questions(self, timestamp: int) -> None:  # noqa: ARG002
        """Close them: what was known stays, and a late press says so."""
        if expired := await self._questions.expire(self._time_zone):
            logger.info("closed questions without an answer", extra={"questions": expired})
