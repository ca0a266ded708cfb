"""Keeps the warnings and errors of the log for the operator's pages: what failed, when and why."""

import asyncio
import json
import logging
from collections import deque
from contextlib import suppress
from typing import Any, Literal

from src.base import errors
from src.base.logs import TOKEN
from src.pg.client import PgClient, Repository

Part = Literal["telegram", "queue", "database", "model", "embeddings", "tools", "other"]
# By the error, the first that is met;
ERRORS: dict[Part, tuple[type[errors.AppError], ...]] = {
    "database": (errors.StorageError,),
    "model": (errors.ModelError, errors.ModelUnavailableError),
    "tools": (errors.ToolServerError,),
    "telegram": (errors.DeliveryError, errors.DeliveryRefusedError),
}
# by the logger, where the error does not tell.
LOGGERS: dict[str, Part] = {
    "src.llm.embeddings": "embeddings",
    "src.memory.embedding_space": "embeddings",
    "src.memory.indexer": "embeddings",
    "src.memory.retriever": "embeddings",
    "src.telegram": "telegram",
    "src.app": "telegram",
    "src.outside": "tools",
    "src.pg": "database",
    "src.queue": "queue",
    "procrastinate": "queue",
}
EMBEDDING_TASKS = ("embed_documents", "reembed")
SPOKEN_OF = ("src.web",)  # who looks at a page sees it
FLUSH_SECONDS = 5.0
MAX_WAITING = 1000  # failures that a database which is away has not taken

# What failed, the same within a flush once. Whose it is, by their chat or conversation.
INSERT_FAILURES = """
INSERT INTO failures (failed_at, part, event, reason, times, owner_id, update_id, job_id)
SELECT to_timestamp(max(f.at)), f.part, f.event, f.reason, count(*),
       coalesce((SELECT c.owner_id FROM conversations c WHERE c.id = f.conversation::uuid),
                (SELECT o.id FROM owners o WHERE o.telegram_user_id = f.chat
                 ORDER BY o.thread_id LIMIT 1)),
       f.update, f.job
FROM jsonb_to_recordset(%(failures)s::jsonb) AS f (
    at float8, part text, event text, reason text, chat bigint, conversation text,
    update bigint, job bigint)
GROUP BY f.part, f.event, f.reason, f.chat, f.conversation, f.update, f.job
ORDER BY max(f.at)
"""


class FailureRepository(Repository):
    """Stores what failed; every method blocks."""

    def add(self, failures: list[dict[str, Any]]) -> None:
        """Store failures as ``describe_failure`` makes them."""
        self._client.execute(INSERT_FAILURES, failures=json.dumps(failures))


class FailureLog(logging.Handler):
    """Hears what the process logs, and stores it some seconds later, all of it together."""

    def __init__(self, client: PgClient) -> None:
        """Store with ``client``; nothing is heard before ``run``."""
        super().__init__(logging.WARNING)
        self._client = client
        self._repository = FailureRepository(client)
        self._waiting: deque[dict[str, Any]] = deque(maxlen=MAX_WAITING)

    def emit(self, record: logging.LogRecord) -> None:
        """See ``logging``; any thread calls it."""
        if (failure := describe_failure(record)) is not None:
            self._waiting.append(failure)

    async def run(self) -> None:
        """Hear and store until cancelled."""
        logging.getLogger().addHandler(self)
        try:
            while True:
                await asyncio.sleep(FLUSH_SECONDS)
                await self.flush_waiting()
        finally:
            logging.getLogger().removeHandler(self)
            await self.flush_waiting()

    async def flush_waiting(self) -> None:
        """Store what was heard; where the database is away it waits."""
        failures = list(self._waiting)
        if not failures:
            return
        with suppress(errors.StorageError):
            await self._client.run(self._repository.add, failures)
            for _ in failures:
                self._waiting.popleft()


def describe_failure(record: logging.LogRecord) -> dict[str, Any] | None:
    """A line of the log as a row of ``failures``; None for a line that tells of none.

    Its texts are ours: of an error that is not, only the name of its type is taken.
    """
    if not record.name.startswith(("src.", "procrastinate")) or record.name.startswith(SPOKEN_OF):
        return None
    error = record.exc_info[1] if record.exc_info else None
    known, job = vars(record), vars(record).get("job")
    is_of_queue = record.name.startswith("procrastinate")
    event = "job failed" if is_of_queue else record.getMessage()
    reason = _reason(error) if error is not None else str(known.get("cause") or event)
    return {
        "at": record.created,
        "part": part_of(record, error),
        "event": TOKEN.sub("***", event)[:200],
        "reason": TOKEN.sub("***", reason)[:200],
        "chat": _number(known.get("chat", known.get("chat_id"))),
        "conversation": known.get("conversation_id"),
        "update": _number(known.get("update")),
        "job": _number(job.get("id") if isinstance(job, dict) else job),
    }


def part_of(record: logging.LogRecord, error: BaseException | None) -> Part:
    """Which part of the bot a line is about."""
    chain = list(errors.causes(error)) if error is not None else []
    named = next((part for start, part in LOGGERS.items() if record.name.startswith(start)), None)
    for part, kinds in ERRORS.items():
        if any(isinstance(one, kinds) for one in chain):
            is_embedding = named == "embeddings" or vars(record).get("task") in EMBEDDING_TASKS
            return "embeddings" if part == "model" and is_embedding else part
    if named == "telegram" and chain and not isinstance(chain[0], errors.AppError):
        return "other"  # a defect of ours, met while an update was handled
    return named or "other"


def _reason(error: BaseException) -> str:
    if isinstance(error, errors.AppError) and str(error):
        return str(error).splitlines()[0]
    return f"defect ({type(error).__name__})"


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and abs(value) < 2**63 else None
