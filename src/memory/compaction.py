"""Compaction: what leaves the window of recent messages is summarised, portion by portion."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from uuid import UUID

from langchain_core.messages import BaseMessage

from src.base.errors import ModelReplyError
from src.history.conversation_repo import ConversationRepository, PastMessage
from src.history.new_messages import window_start
from src.llm.chat import ModelCaller
from src.llm.reply import ModelUsage
from src.memory.budget import BackgroundModel, DailyCeilings
from src.memory.digest_repo import Summary, SummaryRepository
from src.memory.prompts import MAX_SUMMARY, merge_messages, summary_messages
from src.pg.client import PgClient
from src.pg.global_settings_repo import GlobalSettings, GlobalSettingsRepository
from src.texts.plain_text import shortened

# How much one background call reads: the usual portion, or more when it is far behind.
#
# A flood of a thousand messages is worth a few calls, not two hundred. What was said at an
# ordinary pace is read in the usual portions, of which the design gives the sizes.

USUAL_PORTIONS = 3  # so many may wait before it counts as being far behind
MAX_PORTION_TEXT = 24_000  # characters of one call, about 8,000 tokens


def portion_size(waiting: int, usual: int, *, far: int, most: int) -> int:
    """How many of the ``waiting`` messages the next call reads.

    Args:
        waiting: Messages that wait to be read.
        usual: Messages that one call reads when it is not far behind.
        far: From more than so many waiting messages on it is far behind.
        most: Messages that one call reads at most then.
    """
    if waiting <= max(far, USUAL_PORTIONS * usual):
        return usual
    return max(usual, ceil(waiting / ceil(waiting / most)))  # equal portions


def fitting(messages: Sequence[PastMessage], *, least: int, longest: int) -> Sequence[PastMessage]:
    """As many of the first ``messages`` as one call may read, in characters.

    Args:
        messages: In their order.
        least: So many are taken in any case.
        longest: Characters of one message that are read.
    """
    characters = 0
    for number, message in enumerate(messages):
        characters += min(len(message.text), longest)
        if characters > MAX_PORTION_TEXT and number >= least:
            return messages[:number]
    return messages


MAX_FOLDS = 20  # of one job; the rest waits for the next one
FAR_BEHIND = 30  # messages; three steps of the window
MAX_FOLD = 120  # messages that one summary takes in when it is far behind
MAX_TEXT = 1500  # characters of one message that the model reads
NEXT_TURN = 3  # messages that a turn adds at most: question, answer, tools used


@dataclass(eq=False, repr=False)
class CompactionService:
    """Summarises with SUMMARY_MODEL what lies before the window, in a sentence or two."""

    _client: PgClient
    _settings: GlobalSettingsRepository
    _caller: ModelCaller
    _ceilings: DailyCeilings

    def __post_init__(self) -> None:
        """Build what it needs on the client."""
        self._conversations = ConversationRepository(self._client)
        self._summaries = SummaryRepository(self._client)
        refusal = "messages were left without a summary"
        self._model = BackgroundModel(self._client, self._ceilings, refusal)

    async def compact(self, conversation_id: UUID) -> int:
        """Fold messages that leave the next turn's window; merge summaries when there are many.

        Positions are recorded with each summary, so nothing is folded twice or skipped, also
        when two workers do this at once or one dies in the middle: a summary is stored when it
        is complete, and only if nothing covers its messages yet.

        Returns:
            How many summaries were written; with MAX_FOLDS there may be more to do.

        Raises:
            PostponedError: The owner has no call left in this hour; the rest waits.
            ModelError: The model is away or refuses; what is done stays.
            StorageError: The database is away.
        """
        settings = await self._client.run(self._settings.get)
        for done in range(MAX_FOLDS):
            if not await self._fold_next(conversation_id, settings):
                return done
        return MAX_FOLDS

    async def describe(self, conversation_id: UUID) -> list[str]:
        """What a conversation has been about so far: its summaries, and one of what follows them.

        The last one is made for the one who asks, and not stored.

        Raises:
            PostponedError: The owner has no call left in this hour.
            ModelError: The model is away or refuses.
            StorageError: The database is away.
        """
        last = await self._client.run(self._conversations.get_last_position, conversation_id)
        summaries = await self._client.run(self._summaries.list_summaries, conversation_id)
        first = max((summary.last_position for summary in summaries), default=0) + 1
        first = max(first, last - MAX_FOLD + 1)
        found = await self._load(conversation_id, first, last)
        newest = fitting(found, least=1, longest=MAX_TEXT)
        texts = [summary.content for summary in summaries]
        if any(message.role == "user" for message in newest):
            texts.append(await self._summarise(conversation_id, newest, (first, last)))
        return [text for text in texts if text]

    async def _fold_next(self, conversation_id: UUID, settings: GlobalSettings) -> bool:
        last = await self._client.run(self._conversations.get_last_position, conversation_id)
        left = start_of_window(last + NEXT_TURN, settings) - 1
        summaries = await self._client.run(self._summaries.list_summaries, conversation_id)
        gap = first_gap(summaries, left)
        if gap is None:
            past = await self._summaries_to_merge(conversation_id, summaries, last, settings)
            return await self._merge(conversation_id, past)
        return await self._fold(conversation_id, gap, settings.summary_messages)

    async def _fold(self, conversation_id: UUID, gap: tuple[int, int], usual: int) -> bool:
        """Summarise the first messages of a gap."""
        first, last = gap
        size = portion_size(last - first + 1, usual, far=FAR_BEHIND, most=MAX_FOLD)
        last = min(last, first + size - 1)
        found = await self._load(conversation_id, first, last)
        messages = fitting(found, least=usual, longest=MAX_TEXT)
        if len(messages) < len(found):
            last = messages[-1].position
        content = await self._summarise(conversation_id, messages, (first, last))
        replace = partial(self._summaries.replace, conversation_id, content)
        return await self._client.run(replace, first=first, last=last, made_of=len(messages))

    async def _load(self, conversation_id: UUID, first: int, last: int) -> list[PastMessage]:
        load = self._conversations.list_messages
        return await self._client.run(load, conversation_id, first, last)

    async def _summaries_to_merge(
        self,
        conversation_id: UUID,
        summaries: Sequence[Summary],
        last: int,
        settings: GlobalSettings,
    ) -> list[Summary]:
        """Summaries before the next turn's window, if there are many and the window moves now.

        Between two steps of the window the prompt stays as it is, so that it stays cached.
        """
        start = start_of_window(last + 1, settings)
        past = [summary for summary in summaries if summary.last_position < start]
        if len(past) <= settings.summaries_kept:
            return []
        turn = await self._load(conversation_id, last - NEXT_TURN + 1, last)
        asked = max((message.position for message in turn if message.role == "user"), default=0)
        moves = start_of_window(asked, settings) < start
        return past if moves else []

    async def _merge(self, conversation_id: UUID, summaries: Sequence[Summary]) -> bool:
        """Merge the oldest consecutive summaries; the newest stays as it is."""
        run = _first_run(summaries[:-1])
        if len(run) < 2:
            return False
        texts = [summary.content for summary in run if summary.content]
        first, last = run[0].first_position, run[-1].last_position
        content: str | None = texts[0] if len(texts) == 1 else ""
        if len(texts) > 1:
            prompt = merge_messages(texts)
            content = await self._ask(conversation_id, prompt, 2 * MAX_SUMMARY, (first, last))
        if content is None:
            return False  # retried when there is one more of them
        merged = [summary.id for summary in run]
        replace = partial(self._summaries.replace, conversation_id, content)
        return await self._client.run(replace, first=first, last=last, merged=merged)

    async def _summarise(
        self, conversation_id: UUID, messages: Sequence[PastMessage], gap: tuple[int, int]
    ) -> str:
        """A sentence or two; nothing for messages without text."""
        if not messages:
            return ""
        records = [
            {"role": m.role, **m.voice.fields(), "text": m.text[:MAX_TEXT]} for m in messages
        ]
        prompt = summary_messages(records)
        return await self._ask(conversation_id, prompt, MAX_SUMMARY, gap) or ""

    async def _ask(
        self, conversation_id: UUID, prompt: list[BaseMessage], limit: int, gap: tuple[int, int]
    ) -> str | None:
        """The model's text; None when it refuses."""

        async def question(on_usage: Callable[[ModelUsage], None]) -> str:
            text = await self._caller.text(prompt, purpose="summary", on_usage=on_usage)
            if not text:
                raise ModelReplyError("the model returned an empty summary")
            return shortened(text, limit)

        return await self._model.ask(conversation_id, gap, question)


def first_gap(summaries: Sequence[Summary], last: int) -> tuple[int, int] | None:
    """The first positions up to ``last`` that no summary covers."""
    start = 1
    for summary in summaries:
        if summary.first_position > start:
            break
        start = max(start, summary.last_position + 1)
    after = [s.first_position for s in summaries if s.first_position > start]
    end = min([last, *(position - 1 for position in after)])
    return (start, end) if start <= end else None


def start_of_window(last_position: int, settings: GlobalSettings) -> int:
    """Where the window begins when this is the newest message."""
    return window_start(
        last_position, window=settings.history_messages, step=settings.history_step
    )


def _first_run(summaries: Sequence[Summary]) -> list[Summary]:
    """The first summaries that follow each other without a gap."""
    run: list[Summary] = []
    for summary in summaries:
        if run and summary.first_position != run[-1].last_position + 1:
            break
        run.append(summary)
    return run
