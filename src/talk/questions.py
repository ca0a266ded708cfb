"""Questions that wait for the user: asked, answered and expired; the graph's state meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, cast

from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from src.base.errors import ConversationGoneError, StorageRejectedError, StorageUnavailableError
from src.base.owners import Called, Owner
from src.history.turn_repo import NO_CHANGES, Changes
from src.memory.memories import Memories
from src.memory.question_repo import Question, QuestionRepository
from src.memory.turn_context import TurnContext, changes_of
from src.pg.client import PgClient
from src.pg.connection import LIBPQ_OPTIONS
from src.talk.main_graph import Graph, build_question_graph
from src.talk.strict import question_text
from src.talk.turn_state import ConversationState, Resolution, Settlement
from src.texts import choose_language, say

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from psycopg_pool import AsyncConnectionPool

# LangGraph's checkpointer on our PostgreSQL: a connection that is made when a turn pauses.
#
# The library speaks psycopg, as the queue does, and holds a lock around each of its calls, so one
# connection is all that it can use.

POOL_TIMEOUT = 8.0  # seconds to wait for the connection, as for a statement
IDLE_SECONDS = 60.0  # after which it is closed: questions are rare


class CheckpointStore:
    """Opens the checkpointer when it is first needed; its tables are those of migration 0105."""

    def __init__(
        self, dsn: str, serde: SerializerProtocol, *, timeout: float = POOL_TIMEOUT
    ) -> None:
        """Nothing is connected yet; ``timeout`` is how long to wait for it, in seconds."""
        self._dsn = dsn
        self._timeout = timeout
        self._serde = serde
        self._opening = asyncio.Lock()
        self._pool: AsyncConnectionPool[Any] | None = None

    async def open(self) -> BaseCheckpointSaver[str]:
        """A checkpointer; it connects when it is asked something."""
        # Imported here: the console has no psycopg, and most processes never ask a question.
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
        from psycopg.rows import dict_row

        from src.pg.async_connection import QueueConnection, limit, queue_pool

        async with self._opening:
            if self._pool is None:
                self._pool = queue_pool(
                    conninfo=self._dsn,
                    min_size=0,
                    max_size=1,
                    timeout=self._timeout,
                    max_idle=IDLE_SECONDS,
                    connection_class=QueueConnection,
                    configure=limit,
                    open=False,
                    kwargs={
                        "application_name": "pomni questions", "row_factory": dict_row,
                        **LIBPQ_OPTIONS,
                    },
                )  # fmt: skip
                await self._pool.open()
        return AsyncPostgresSaver(self._pool, serde=self._serde)

    async def close(self) -> None:
        """Close what was opened."""
        if self._pool is not None:
            await self._pool.close()


@contextmanager
def checkpoint_errors() -> Iterator[None]:
    """What the library's connection raises, as ours.

    Raises:
        ConversationGoneError: The question was deleted while its run was paused or resumed.
        StorageError: The database is away, or refused a statement.
    """
    import psycopg  # see ``CheckpointStore.open``
    from psycopg_pool import PoolClosed, PoolTimeout

    try:
        yield
    except psycopg.errors.ForeignKeyViolation as error:
        raise ConversationGoneError("the question was deleted") from error
    except (psycopg.OperationalError, PoolTimeout, PoolClosed) as error:
        raise StorageUnavailableError("the connection for checkpoints broke") from error
    except psycopg.Error as error:
        name = type(error).__name__
        told = f"PostgreSQL refused a checkpoint: {name}"
        raise StorageRejectedError(told, error.sqlstate) from error


PAUSE = "confirm_conflicts"  # the node that asks


class QuestionService:
    """Pauses the graph with a question, and resumes it with the answer.

    The state of the paused run stands in LangGraph's checkpoint, and holds no words but those in
    question. A question of its own row says to whom it belongs and when it is over.
    """

    def __init__(self, client: PgClient, memories: Memories, checkpoints: CheckpointStore) -> None:
        """Ask about ``memories``; pause in ``checkpoints``. Nothing is connected yet."""
        self._client = client
        self._memories = memories
        self._checkpoints = checkpoints
        self._questions = QuestionRepository(client)

    async def ask(self, context: TurnContext, state: ConversationState) -> str:
        """Pause over what a turn has set aside; a second call for it begins anew.

        Args:
            context: Of the turn.
            state: Its end, with ``disputed_facts`` and ``disputes``.

        Returns:
            The question.

        Raises:
            ConversationGoneError: The message was deleted meanwhile.
            StorageError: The database is away.
        """
        thread = f"{context.conversation_id}:{context.message_id}"
        pairs = {(d["said_in"], d["memory_id"]) for d in state["disputes"]}
        await self._client.run(
            self._questions.open, context.owner, thread, context.message_id,
            language=context.language, pairs=pairs,
        )  # fmt: skip
        facts, conflicts = state["disputed_facts"], state["disputes"]
        begun: ConversationState = {"extracted_facts": facts, "conflicts": conflicts}
        # One checkpoint, of the pause: nothing is stored before it that could be lost.
        await self._run(begun, context, thread, durability="exit")
        return question_text(facts, conflicts, context.language)

    async def settle(self, called: Called, answer_id: int, resolution: Resolution) -> Settlement:
        """Resume what an answer of the bot's asks; ``close`` has to follow.

        It may be called again after a crash at any point: what was stored is not stored twice,
        and the first decision stays.

        Args:
            called: Who decides, and whose question it is: in a group only the author of the
                message may.
            answer_id: The answer that asks; anybody may have sent any number.
            resolution: What holds.

        Raises:
            ConversationGoneError: It was deleted in the middle.
            StorageError: The database is away.
        """
        question = await self._client.run(self._questions.find, called.owner, answer_id)
        gone = say("conflict_gone", called.language)
        if question is None:
            return Settlement("gone", gone, gone)
        if question.is_over:
            return Settlement("over", "", question.text, question.changes)
        if question.thread is None:
            return Settlement("gone", gone, f"{question.text}\n\n{gone}")
        if called.asker not in (None, question.sender_id):
            refusal = say("conflict_not_yours", choose_language(question.language))
            return Settlement("not_his", refusal, f"{question.text}\n\n{refusal}")
        return await self._resume(called, question, resolution)

    async def close(self, owner: Owner, settlement: Settlement, *, is_shown: bool = False) -> None:
        """End the question, when what came of it is said, or about to be; a second call is none.

        Args:
            owner: Whose it is.
            settlement: What came of it.
            is_shown: Whether it stands below the question already; else Telegram is told.

        Raises:
            StorageError: The database is away.
        """
        if settlement.thread is not None:
            await self._client.run(
                self._questions.close, owner, settlement.thread, settlement.said,
                changes=settlement.changes, keeps_both=settlement.keeps_both, is_shown=is_shown,
            )  # fmt: skip

    async def expire(self, time_zone: str) -> int:
        """Close what nobody has answered for a week: what was known stays; returns how many.

        ``time_zone`` is the default one.

        Raises:
            StorageError: The database is away.
        """
        expired = await self._client.run(self._questions.list_expired)
        for entry in expired:
            if entry.answer_id is None:  # the process died before it asked
                settlement = Settlement("gone", "", "", thread=entry.thread)
            else:
                language, now = choose_language(entry.language), datetime.now(UTC)
                nobody = Called(entry.owner, language, now, time_zone)
                settlement = await self.settle(nobody, entry.answer_id, "old")
            await self.close(entry.owner, settlement)
        return len(expired)

    async def aclose(self) -> None:
        """Close the connection, if there is one."""
        await self._checkpoints.close()

    async def _resume(
        self, called: Called, question: Question, resolution: Resolution
    ) -> Settlement:
        thread, context = question.thread or "", _context(called, question)
        values, coming = await self._state(thread)
        if PAUSE in coming or not values:  # else it is decided, and not told yet
            if question.is_expired:
                return _ended(question, say("conflict_expired", context.language))
            if question.is_stale or not values:  # or the process died before the run was paused
                return _ended(question, say("conflict_gone", context.language))
            told = await self._client.run(self._questions.list_told, called.owner, thread)
            command: Command[str] = Command(resume=resolution, update={"history": told})
            values = await self._run(command, context, thread, durability="sync")
        elif coming:
            values = await self._run(None, context, thread, durability="sync")
        changes = changes_of(values.get("outcomes", ()))
        kept_both = values.get("resolution") == "both"
        return _ended(question, values["answer"], changes=changes, keeps_both=kept_both)

    async def _state(self, thread: str) -> tuple[ConversationState, Sequence[str]]:
        """What a run has come to, and the nodes that come next; empty where it never paused."""
        graph = await self._graph()
        with checkpoint_errors():
            snapshot = await graph.aget_state(_config(thread))
        return cast("ConversationState", snapshot.values), snapshot.next

    async def _run(
        self,
        begun: ConversationState | Command[str] | None,
        context: TurnContext,
        thread: str,
        *,
        durability: Literal["exit", "sync"],
    ) -> ConversationState:
        # Each step of a resumed run is kept ("sync"): a second attempt goes on behind them.
        graph = await self._graph()
        with checkpoint_errors():
            state = await graph.ainvoke(
                begun, context=context, config=_config(thread), durability=durability
            )
        return cast("ConversationState", state)

    async def _graph(self) -> Graph:
        return build_question_graph(self._memories, await self._checkpoints.open())


def _config(thread: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread}}


def _context(called: Called, question: Question) -> TurnContext:
    return TurnContext(
        owner=called.owner,
        conversation_id=question.conversation_id,
        message_id=question.message_id,
        text=question.told,
        moment=question.said_at,
        time_zone=called.time_zone,
        language=choose_language(question.language),
        mode="strict",
        speaker_id=called.asker,
    )


def _ended(
    question: Question, said: str, *, changes: Changes = NO_CHANGES, keeps_both: bool = False
) -> Settlement:
    shown, made = f"{question.text}\n\n{said}", question.changes + changes
    return Settlement("settled", said, shown, made, question.thread, keeps_both)
