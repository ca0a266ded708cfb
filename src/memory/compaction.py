"""Compaction: summaries of messages that left the window of recent ones, in portions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from uuid import UUID

from langchain_core.messages import BaseMessage

from src.base.errors import ModelReplyError
from src.history.conversation_repo import ConversationRepository, PastMessage
from src.history.new_messages import window_start
from src.llm import chat, reply
from src.memory.budget import BackgroundModel, DailyCeilings
from src.memory.digest_repo import Summary, SummaryRepository
from src.memory.prompts import MAX_SUMMARY, merge_messages, summary_messages
from src.pg.client import PgClient
from src.pg.settings_repo import GlobalSettings, GlobalSettingsRepository
from src.texts.plain_text import shortened

# The size of one background call: the usual portion, or a larger one with a long backlog. A flood
# of a thousand messages is worth a few calls, not two hundred. Messages at an ordinary pace are
# read in the usual portions, whose sizes are set by the design.

USUAL_PORTIONS = 3  # pending portions up to which the backlog is not long
MAX_PORTION_TEXT = 24_000  # characters of one call, about 8,000 tokens


def portion_size(waiting: int, usual: int, *, far: int, most: int) -> int:
    """Return how many of the ``waiting`` messages the next call reads.

    Args:
        waiting: The number of pending messages.
        usual: Messages per call while the backlog is not long.
        far: Messages above which the backlog is long.
        most: The maximum of messages per call with a long backlog.
    """
    if waiting <= max(far, USUAL_PORTIONS * usual):
        return usual
    return max(usual, ceil(waiting / ceil(waiting / most)))  # equal portions


def fitting(messages: Sequence[PastMessage], *, least: int, longest: int) -> Sequence[PastMessage]:
    """Return as many of the first ``messages`` as fit into MAX_PORTION_TEXT.

    Args:
        messages: The messages in order.
        least: The number of messages that are returned in any case.
        longest: Characters of one message that are read.
    """
    characters = 0
    for number, message in enumerate(messages):
        characters += min(len(message.text), longest)
        if characters > MAX_PORTION_TEXT and number >= least:
            return messages[:number]
    return messages


MAX_FOLDS = 20  # summaries of one job; the rest waits for the next one
FAR_BEHIND = 30  # messages; three steps of the window
MAX_FOLD = 120  # messages of one summary with a long backlog
MAX_TEXT = 1500  # characters of one message that the model reads
NEXT_TURN = 3  # messages that a turn adds at most: question, answer, tools used


@dataclass(eq=False, repr=False)
class CompactionService:
    """Summarises messages before the window in a sentence or two, with SUMMARY_MODEL."""

    _client: PgClient
    _settings: GlobalSettingsRepository
    _caller: chat.ModelCaller
    _ceilings: DailyCeilings

    def __post_init__(self) -> None:
        """Build the repositories on the client."""
        self._conversations = ConversationRepository(self._client)
        self._summaries = SummaryRepository(self._client)
        refusal = "messages were left without a summary"
        self._model = BackgroundModel(self._client, self._ceilings, refusal)

    async def compact(self, conversation_id: UUID) -> int:
        """Fold messages that leave the next turn's window; merge summaries when there are many.

        Each summary records its positions, so nothing is folded twice or skipped, even if two
        workers run at once or one dies in the middle: a summary is stored when it is complete, and
        only if no other one covers its messages.

        Returns:
            The number of stored summaries; with MAX_FOLDS there may be more to do.

        Raises:
            PostponedError: The owner has no call left in this hour; the rest waits.
            ModelError: The model is away or refuses; summaries stored so far stay.
            StorageError: The database is away.
        """
        settings = await self._client.run(self._settings.get)
        usual = settings.summary_messages
        for done in range(MAX_FOLDS):
            last = await self._client.run(self._conversations.get_last_position, conversation_id)
            last_outside = start_of_window(last + NEXT_TURN, settings) - 1
            summaries = await self._client.run(self._summaries.list_summaries, conversation_id)
            gap = first_gap(summaries, last_outside)
            if gap is None:
                is_stored = await self._merge(conversation_id, summaries, last, settings)
            else:
                first, end = gap
                size = portion_size(end - first + 1, usual, far=FAR_BEHIND, most=MAX_FOLD)
                portion = first, min(end, first + size - 1)
                _, _, is_stored = await self._fold_range(conversation_id, portion, least=usual)
            if not is_stored:
                return done
        return MAX_FOLDS

    async def fold_now(self, conversation_id: UUID, first: int, last: int) -> list[str]:
        """Summarise the messages from ``first`` to ``last`` within a turn, and store that.

        The window of the next turn starts behind them. Private messages are left out.

        Returns:
            The summaries, oldest first.

        Raises:
            PostponedError: The owner has no call left in this hour.
            ModelError: The model is away or refuses; what was stored so far stays.
            StorageError: The database is away.
        """
        texts = []
        while first <= last:
            content, end, _ = await self._fold_range(conversation_id, (first, last), least=1)
            texts.append(content)
            first = end + 1
        return [text for text in texts if text]

    async def describe(self, conversation_id: UUID) -> list[str]:
        """Return all summaries of a conversation, and one of the messages after them.

        The last one is made for the caller and not stored.

        Raises:
            PostponedError: The owner has no call left in this hour.
            ModelError: The model is away or refuses.
            StorageError: The database is away.
        """
        last = await self._client.run(self._conversations.get_last_position, conversation_id)
        summaries = await self._client.run(self._summaries.list_summaries, conversation_id)
        first = max((summary.last_position for summary in summaries), default=0) + 1
        first = max(first, last - MAX_FOLD + 1)
        load = self._conversations.list_messages
        found = await self._client.run(load, conversation_id, first, last)
        newest = fitting(found, least=1, longest=MAX_TEXT)
        texts = [summary.content for summary in summaries]
        if any(message.role == "user" for message in newest):
            texts.append(await self._summarise(conversation_id, newest, (first, last)))
        return [text for text in texts if text]

    async def _fold_range(
        self, conversation_id: UUID, positions: tuple[int, int], *, least: int
    ) -> tuple[str, int, bool]:
        """Summarise a range, or its beginning if it is too long for one call, and store that.

        Returns the summary, its last position, and whether it was stored.
        """
        first, last = positions
        load = self._conversations.list_messages
        found = await self._client.run(load, conversation_id, first, last)
        messages = fitting(found, least=least, longest=MAX_TEXT)
        if len(messages) < len(found):
            last = messages[-1].position
        content = await self._summarise(conversation_id, messages, (first, last))
        replace = partial(self._summaries.replace, conversation_id, content)
        made_of = len(messages)
        is_stored = await self._client.run(replace, first=first, last=last, made_of=made_of)
        return content, last, is_stored

    async def _merge(
        self, conversation_id: UUID, summaries: list[Summary], last: int, settings: GlobalSettings
    ) -> bool:
        """Merge the oldest consecutive summaries, if there are many, and the window moves now.

        Between two steps of the window the prompt is left unchanged, so that it stays cached.
        """
        start = start_of_window(last + 1, settings)
        past = [summary for summary in summaries if summary.last_position < start]
        if len(past) <= settings.summaries_kept:
            return False
        load = self._conversations.list_messages
        turn = await self._client.run(load, conversation_id, last - NEXT_TURN + 1, last)
        question = max((message.position for message in turn if message.role == "user"), default=0)
        if start_of_window(question, settings) >= start:
            return False
        run: list[Summary] = []
        for summary in past[:-1]:  # the newest one stays
            if run and summary.first_position != run[-1].last_position + 1:
                break
            run.append(summary)
        if len(run) < 2:
            return False
        texts = [summary.content for summary in run if summary.content]
        first, last = run[0].first_position, run[-1].last_position
        content: str | None = texts[0] if len(texts) == 1 else ""
        if len(texts) > 1:
            prompt = merge_messages(texts)
            content = await self._generate(conversation_id, prompt, 2 * MAX_SUMMARY, (first, last))
        if content is None:
            return False  # retried when there is one more summary
        merged = [summary.id for summary in run]
        replace = partial(self._summaries.replace, conversation_id, content)
        return await self._client.run(replace, first=first, last=last, merged=merged)

    async def _summarise(
        self, conversation_id: UUID, messages: Sequence[PastMessage], gap: tuple[int, int]
    ) -> str:
        if not messages:
            return ""
        records = [
            {"role": m.role, **m.voice.fields(), "text": m.text[:MAX_TEXT]} for m in messages
        ]
        prompt = summary_messages(records)
        return await self._generate(conversation_id, prompt, MAX_SUMMARY, gap) or ""

    async def _generate(
        self, conversation_id: UUID, prompt: list[BaseMessage], limit: int, gap: tuple[int, int]
    ) -> str | None:
        """Return the text of the model; None if it refuses."""

        async def call(on_usage: Callable[[reply.ModelUsage], None]) -> str:
            text = await self._caller.text(prompt, purpose="summary", on_usage=on_usage)
            if not text:
                raise ModelReplyError("the model returned an empty summary")
            return shortened(text, limit)

        return await self._model.ask(conversation_id, gap, call)


def first_gap(summaries: Sequence[Summary], last: int) -> tuple[int, int] | None:
    """Return the first range of positions up to ``last`` that no summary covers."""
    start = 1
    for summary in summaries:
        if summary.first_position > start:
            break
        start = max(start, summary.last_position + 1)
    end = min([last, *(s.first_position - 1 for s in summaries if s.first_position > start)])
    return (start, end) if start <= end else None


def start_of_window(last_position: int, settings: GlobalSettings) -> int:
    """Return the first position of the window when ``last_position`` is the newest message."""
    return window_start(
        last_position, window=settings.history_messages, step=settings.history_step
    )
