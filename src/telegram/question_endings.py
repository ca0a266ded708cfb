"""The task that shows below a question how it ended, where nobody pressed a button of it."""

from __future__ import annotations

import logging

from procrastinate import App

from src.errors import ChatUnavailableError
from src.jobs.retry import BackOff
from src.storage.pg_client import PgClient
from src.storage.question_repo import SHOW_ENDING, QuestionRepository
from src.storage.queue_names import COMMANDS_QUEUE
from src.telegram.delivery import Delivery
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
