"""Questions to the user about disputed facts: asking, settling, expiry; their checkpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, cast

from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from src.base.errors import ConversationGoneError, StorageRejectedError, StorageUnavailableError
from src.base.owners import Caller, Owner, Preferences
from src.history.turn_repo import NO_CHANGES, Changes
from src.memory.memories import Memories
from src.memory.question_repo import ConflictQuestion, QuestionRepository
from src.memory.turn_context import TurnContext, changes_of
from src.pg.client import PgClient
from src.pg.connection import LIBPQ_OPTIONS
from src.talk import main_graph, strict
from src.talk.turn_state import ConversationState, Resolution, Settlement
from src.texts import choose_language, say

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from psycopg_pool import AsyncConnectionPool

# LangGraph's checkpointer uses psycopg, as the queue does, and holds a lock around each of its
# calls, so it cannot use more than one connection.

POOL_TIMEOUT = 8.0  # seconds to wait for the connection, as for a statement
IDLE_SECONDS = 60.0  # before an idle connection is closed: questions are rare


class CheckpointStore:
    """LangGraph's checkpointer, connected on demand; migration 0105 creates its tables."""

    def __init__(
        self, dsn: str, serde: SerializerProtocol, *, timeout: float = POOL_TIMEOUT
    ) -> None:
        """Create it unconnected; ``timeout`` is how long to wait for a connection, in seconds."""
        self._dsn = dsn
        self._timeout = timeout
        self._serde = serde
        self._opening = asyncio.Lock()
        self._pool: AsyncConnectionPool[Any] | None = None

    async def open(self) -> BaseCheckpointSaver[str]:
        """Return a checkpointer, which connects at its first query."""
        # Imported late: the console has no psycopg, and most processes never ask a question.
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
        """Close the pool if it was opened."""
        if self._pool is not None:
            await self._pool.close()


@contextmanager
def checkpoint_errors() -> Iterator[None]:
    """Translate the errors of the checkpointer's connection into ours.

    Raises:
        ConversationGoneError: The question was deleted while its run was paused or resumed.
        StorageError: The database is away, or refused a statement.
    """
    import psycopg  # late, as in ``CheckpointStore.open``
    from psycopg_pool import PoolClosed, PoolTimeout

    try:
        yield
    except psycopg.errors.ForeignKeyViolation as error:
        raise ConversationGoneError("the question was deleted") from error
    except (psycopg.OperationalError, PoolTimeout, PoolClosed) as error:
        raise StorageUnavailableError("the connection for checkpoints broke") from error
    except psycopg.Error as error:
        name = type(error).__name__
        message = f"PostgreSQL refused a checkpoint: {name}"
        raise StorageRejectedError(message, error.sqlstate) from error


PAUSE = "confirm_conflicts"  # the node that asks


class QuestionService:
    """Pauses the graph with a question, and resumes it with the user's decision.

    LangGraph's checkpoint has the state of the paused run, with no words but those in question.
    A row of ``open_questions`` has its owner and its expiry.
    """

    def __init__(self, client: PgClient, memories: Memories, checkpoints: CheckpointStore) -> None:
        """Ask about ``memories``, and pause in ``checkpoints``; nothing connects yet."""
        self._client = client
        self._memories = memories
        self._checkpoints = checkpoints
        self._questions = QuestionRepository(client)

    async def ask(self, context: TurnContext, state: ConversationState) -> str:
        """Pause over the facts that a turn has set aside; a retry replaces the first question.

        Args:
            context: Context of the turn.
            state: Final state of the turn, with ``disputed_facts`` and ``disputes``.

        Returns:
            The text of the question.

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
        initial: ConversationState = {"extracted_facts": facts, "conflicts": conflicts}
        # One checkpoint, at the pause: nothing is stored before it that could be lost.
        await self._run_graph(initial, context, thread, durability="exit")
        return strict.question_text(facts, conflicts, context.language)

    async def settle(self, caller: Caller, answer_id: int, resolution: Resolution) -> Settlement:
        """Resume the run that an answer asks about; the caller has to ``close`` it afterwards.

        It is idempotent, and may be retried after a crash at any point: the first decision stays.

        Args:
            called: The user who decides. In a group only the author of the message may.
            answer_id: The answer that asks; an untrusted number.
            resolution: The decision.

        Raises:
            ConversationGoneError: The question was deleted meanwhile.
            StorageError: The database is away.
        """
        question = await self._client.run(self._questions.find, caller.owner, answer_id)
        gone_text = say("conflict_gone", caller.language)
        if question is None:
            return Settlement("gone", gone_text, gone_text)
        if question.is_over:
            return Settlement("over", "", question.text, question.changes)
        if question.thread is None:
            return Settlement("gone", gone_text, f"{question.text}\n\n{gone_text}")
        if caller.asker not in (None, question.sender_id):
            refusal = say("conflict_not_yours", choose_language(question.language))
            return Settlement("not_theirs", refusal, f"{question.text}\n\n{refusal}")
        return await self._resume(caller, question, resolution)

    async def close(self, owner: Owner, settlement: Settlement, *, is_shown: bool = False) -> None:
        """Close the question once its outcome is told, or about to be; idempotent.

        Args:
            owner: Its owner.
            settlement: Its outcome.
            is_shown: True if the outcome stands below the question already; else a job adds it
                there.

        Raises:
            StorageError: The database is away.
        """
        if settlement.thread is not None:
            await self._client.run(
                self._questions.close, owner, settlement.thread, settlement.said,
                changes=settlement.changes, keeps_both=settlement.keeps_both, is_shown=is_shown,
            )  # fmt: skip

    async def expire(self, time_zone: str) -> int:
        """Close questions without an answer for a week, keep the known facts, return their number.

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
                preferences = Preferences(language, time_zone)
                caller = Caller(entry.owner, preferences, now)  # no member to check
                settlement = await self.settle(caller, entry.answer_id, "old")
            await self.close(entry.owner, settlement)
        return len(expired)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._checkpoints.close()

    async def _resume(
        self, caller: Caller, question: ConflictQuestion, resolution: Resolution
    ) -> Settlement:
        thread, context = question.thread or "", _build_context(caller, question)
        values, next_nodes = await self._load_state(thread)
        if PAUSE in next_nodes or not values:  # else it is decided, but the outcome is not told
            if question.is_expired:
                return _settle_with(question, say("conflict_expired", context.language))
            if question.is_stale or not values:  # no values: the process died before the pause
                return _settle_with(question, say("conflict_gone", context.language))
            history = await self._client.run(self._questions.list_denying, caller.owner, thread)
            command: Command[str] = Command(resume=resolution, update={"history": history})
            values = await self._run_graph(command, context, thread, durability="sync")
        elif next_nodes:
            values = await self._run_graph(None, context, thread, durability="sync")
        changes = changes_of(values.get("outcomes", ()))
        keeps_both = values.get("resolution") == "both"
        return _settle_with(question, values["answer"], changes=changes, keeps_both=keeps_both)

    async def _load_state(self, thread: str) -> tuple[ConversationState, Sequence[str]]:
        """Return the state of a run and its next nodes; both are empty if it never paused."""
        graph = await self._open_graph()
        with checkpoint_errors():
            snapshot = await graph.aget_state(_config(thread))
        return cast("ConversationState", snapshot.values), snapshot.next

    async def _run_graph(
        self,
        graph_input: ConversationState | Command[str] | None,
        context: TurnContext,
        thread: str,
        *,
        durability: Literal["exit", "sync"],
    ) -> ConversationState:
        # A resumed run checkpoints each step ("sync"), so that a retry continues after it.
        graph = await self._open_graph()
        with checkpoint_errors():
            state = await graph.ainvoke(
                graph_input, context=context, config=_config(thread), durability=durability
            )
        return cast("ConversationState", state)

    async def _open_graph(self) -> main_graph.Graph:
        return main_graph.build_question_graph(self._memories, await self._checkpoints.open())


def _config(thread: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread}}


def _build_context(caller: Caller, question: ConflictQuestion) -> TurnContext:
    return TurnContext(
        owner=caller.owner,
        conversation_id=question.conversation_id,
        message_id=question.message_id,
        text=question.told,
        moment=question.said_at,
        preferences=replace(
            caller.preferences, language=choose_language(question.language), mode="strict"
        ),
        speaker_id=caller.asker,
    )


def _settle_with(
    question: ConflictQuestion,
    said: str,
    *,
    changes: Changes = NO_CHANGES,
    keeps_both: bool = False,
) -> Settlement:
    shown, all_changes = f"{question.text}\n\n{said}", question.changes + changes
    return Settlement("settled", said, shown, all_changes, question.thread, keeps_both)
