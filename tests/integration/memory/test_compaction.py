"""The second tier: what left the window is folded into summaries, once, whatever dies when."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from typing import Any, NamedTuple

import pytest

from src.base.errors import AppError, ModelSetupError, ModelUnavailableError, StorageError
from src.base.owners import Owner
from src.core import build_caller
from src.history.new_messages import window_start
from src.llm.chat import ModelCaller
from src.memory.compaction import CompactionService
from src.memory.digest_repo import (
    ExtractionRepository,
    Summary,
    SummaryRepository,
    choose_for_prompt,
)
from src.memory.prompts import MAX_SUMMARY, MERGE_PROMPT, SUMMARY_PROMPT
from src.memory.tasks import needs_digest
from src.pg.client import PgClient
from src.pg.settings_repo import GlobalSettingsRepository
from tests.fakes.openai_server import ChatRequest, Reply
from tests.integration.person import FAKE_EMBEDDINGS, USER, Person, Rig, records

pytestmark = pytest.mark.core(embedding_model=FAKE_EMBEDDINGS)

STEP = 10  # of the window, in these talks
LABEL = "[Текущее время: 2026-11-21 12:05]"


class Past(NamedTuple):
    start: int
    summaries: tuple[str, ...]


class Talk(Person):
    """One conversation, in which message 7 says "№7", and the summaries of it.

    The fake model's summaries name the numbers that they were made from, as "1-6".
    """

    def __init__(self, rig: Rig) -> None:
        super().__init__(rig)
        self.id, self.last, self.service = self.conversation(), 0, self.worker()
        rig.model.reply = summarise

    def worker(
        self, caller: ModelCaller | None = None, client: PgClient | None = None
    ) -> CompactionService:
        """A compaction of its own, as another process would have."""
        client = client or self.client
        return CompactionService(
            client, GlobalSettingsRepository(client),
            caller or build_caller(self.core.settings), self.core.ceilings,
        )  # fmt: skip

    def add(self, count: int = 1) -> None:
        """The next messages: question, answer, question, answer, ..."""
        for _ in range(count):
            self.last += 1
            user = self.last % 2 == 1
            text = f"{LABEL} №{self.last}" if user else f"№{self.last}"
            self.rig.fill(self.id, ("user" if user else "assistant", text))

    async def add_and_compact(self, turns: int) -> None:
        """Turn by turn: a question and an answer, then the background."""
        for _ in range(turns):
            self.add(2)
            await self.service.compact(self.id)

    def summaries(self) -> list[Summary]:
        return SummaryRepository(self.client).list_summaries(self.id)

    def ranges(self) -> list[tuple[int, int]]:
        return [(summary.first_position, summary.last_position) for summary in self.summaries()]

    def past(self) -> Past:
        settings = GlobalSettingsRepository(self.client).get()
        last = self.core.conversations.load_last_messages(self.id)[-1]["position"]
        start = window_start(last, step=settings.history_step)
        found = SummaryRepository(self.client).list_summaries(self.id)
        shown = choose_for_prompt(found, start, limit=settings.summaries_shown)
        return Past(start, tuple(summary.content for summary in shown))

    def documents(self) -> list[int]:
        sql = "SELECT summary_id FROM search_documents WHERE kind = 'summary' ORDER BY summary_id"
        return [number for (number,) in self.rows(sql)]

    def message_id(self, position: int) -> int:
        sql = "SELECT id FROM messages WHERE position = %(position)s"
        return int(self.rows(sql, position=position)[0][0])

    def set(self, **settings: Any) -> None:
        """A service made afterwards reads it."""
        self.rig.set(**settings)
        self.service = self.worker()


@pytest.fixture
def talk(rig: Rig) -> Talk:
    rig.set(history_step=STEP)
    return Talk(rig)


def numbers_asked(request: ChatRequest) -> list[int]:
    """The numbers of the messages that a summary was asked for."""
    return [int(record["text"].removeprefix("№")) for record in records(request, "messages")]


def summarise(request: ChatRequest) -> str:
    """The numbers of the messages, or of the summaries, as ranges: "1-6", "1-6 9-10"."""
    if request.system_text == MERGE_PROMPT:
        texts = " ".join(record["summary"] for record in records(request, "history_summary"))
        return as_ranges(numbers_in(texts))
    assert request.system_text == SUMMARY_PROMPT
    return as_ranges(numbers_asked(request))


def as_ranges(numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return " ".join(f"{first}-{last}" for first, last in runs)


def numbers_in(text: str) -> list[int]:
    pairs = re.findall(r"(\d+)-(\d+)", text)
    return [n for first, last in pairs for n in range(int(first), int(last) + 1)]


def assert_sound(talk: Talk) -> None:
    """Gapless from the first message on, in order, and each says what it covers."""
    expected = 1
    for summary in talk.summaries():
        assert summary.first_position == expected
        assert summary.last_position >= summary.first_position
        covered = list(range(summary.first_position, summary.last_position + 1))
        assert numbers_in(summary.content) == covered
        expected = summary.last_position + 1


@pytest.mark.parametrize("messages", [150, pytest.param(400, marks=pytest.mark.proof)])
async def test_hundreds_of_messages_turn_by_turn_are_summarised_once_each(
    talk: Talk, messages: int
) -> None:
    """Turns of two messages, of three (tools ran), and of one (stopped).

    Between two steps of the window the shown summaries stay, else the provider's cache would
    lose the whole history with them.
    """
    chance, before = random.Random(4), Past(1, ())
    while talk.last < messages:
        size = chance.choice((2, 2, 3, 1, 2))
        talk.add()
        past = talk.past()
        assert len(past.summaries) <= 3
        assert past.start != before.start or past.summaries == before.summaries
        before = past
        newest = [number for summary in past.summaries[-2:] for number in numbers_in(summary)]
        assert newest == list(range(past.start))[-len(newest) :] or not newest
        assert bool(newest) == (past.start > 1), "what left the window is in the summaries"
        if newest:
            assert 1 in numbers_in(past.summaries[0]), "the oldest tells how it all began"
        talk.add(size - 1)
        await talk.service.compact(talk.id)
        assert_sound(talk)
        assert talk.summaries()[-1:] == [] or talk.ranges()[-1][1] >= past.start - 1
    folds = [r for r in talk.model.requests if r.system_text == SUMMARY_PROMPT]
    asked = Counter(number for request in folds for number in numbers_asked(request))
    last = talk.ranges()[-1][1]
    assert asked == Counter(range(1, last + 1))
    assert last == window_start(talk.last + 3, step=STEP) - 1
    assert {len(numbers_asked(request)) for request in folds} == {6, 4}


async def test_the_background_looks_at_a_talk_only_when_there_is_something_to_fold(
    talk: Talk,
) -> None:
    talk.set(memory_extraction_enabled=False)
    settings = GlobalSettingsRepository(talk.client).get()
    for _ in range(100):
        talk.add(2)
        state = ExtractionRepository(talk.client).find_state(talk.id)
        assert state is not None
        is_asked = needs_digest(state, settings)
        assert is_asked == (await talk.service.compact(talk.id) > 0)
    assert any(request.system_text == MERGE_PROMPT for request in talk.model.requests)


async def test_a_portion_of_long_messages_is_bounded_in_characters(talk: Talk) -> None:
    talk.model.reply = lambda _request: "сводка"
    talk.rig.fill(talk.id, *[("user", f"№{n} {'долго ' * 300}") for n in range(1, 121)])
    await talk.service.compact(talk.id)
    sizes = [len(records(request, "messages")) for request in talk.model.requests]
    folds = [size for size in sizes if size]
    assert sum(folds) == 100 and set(folds[:3]) == {16}, "16 x 1,500 characters"
    ranges = talk.ranges()
    assert [first for first, _ in ranges] == [1, *(last + 1 for _, last in ranges[:-1])]


# --- what dies in the middle


REFUSE_COMMITS = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
AS $$ BEGIN RAISE EXCEPTION 'the commit fails'; END $$;
CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON conversation_summaries
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse();
"""


@pytest.mark.own_database
async def test_a_commit_that_fails_takes_everything_back(talk: Talk) -> None:
    talk.add(28)
    before, documents = talk.summaries(), talk.documents()
    talk.client.execute(REFUSE_COMMITS)
    with pytest.raises(StorageError):
        await talk.service.compact(talk.id)
    assert (talk.summaries(), talk.documents()) == (before, documents)
    talk.client.execute("DROP TRIGGER refuse ON conversation_summaries")
    assert await talk.service.compact(talk.id) > 0
    assert talk.summaries() != before and talk.documents() != documents
    assert_sound(talk)


async def test_two_workers_at_once_store_everything_once(talk: Talk) -> None:
    talk.add(28)
    gate = asyncio.Event()
    talk.model.reply = lambda request: Reply(text=summarise(request), gate=gate)
    other = PgClient(talk.client.dsn)
    other.open()
    try:
        workers = [talk.worker(), talk.worker(client=other)]
        running = asyncio.gather(*(worker.compact(talk.id) for worker in workers))
        await talk.model.wait_for(lambda: talk.model.waiting_at_gate == 2)
        gate.set()
        await running
        while any([await worker.compact(talk.id) for worker in workers]):
            assert_sound(talk)
    finally:
        other.close()
    assert_sound(talk)
    assert talk.documents() == [summary.id for summary in talk.summaries()]
    assert talk.ranges() == [(1, 6), (7, 10)]


# --- what the user takes back


async def test_the_summary_of_a_forgotten_message_is_written_anew_without_it(talk: Talk) -> None:
    await talk.add_and_compact(14)
    memories = talk.core.memory.memories
    await memories.forget(Owner(USER), [f"msg-{talk.message_id(3)}"])
    assert talk.ranges() == [(7, 10)]
    assert len(talk.documents()) == 1
    await talk.service.compact(talk.id)
    assert talk.ranges() == [(1, 6), (7, 10)]
    assert numbers_asked(talk.model.requests[-1]) == [1, 2, 4, 5, 6]
    assert [summary.content for summary in talk.summaries()] == ["1-2 4-6", "7-10"]


async def test_a_merged_summary_forgets_as_well(talk: Talk) -> None:
    await talk.add_and_compact(70)
    first = talk.summaries()[0]
    assert first.last_position > 20, "it is a merged one"
    asked = len(talk.model.requests)
    await talk.core.memory.memories.forget(Owner(USER), [f"msg-{talk.message_id(9)}"])
    assert first.id not in [summary.id for summary in talk.summaries()]
    while await talk.service.compact(talk.id):
        pass
    later = talk.model.requests[asked:]
    again = [n for r in later if r.system_text == SUMMARY_PROMPT for n in numbers_asked(r)]
    assert again == [n for n in range(1, first.last_position + 1) if n != 9]
    known = [n for summary in talk.summaries() for n in numbers_in(summary.content)]
    assert sorted(known) == [n for n in range(1, talk.ranges()[-1][1] + 1) if n != 9]


async def test_what_is_forgotten_while_the_model_reads_it_stays_out(talk: Talk) -> None:
    talk.add(28)
    gate = asyncio.Event()
    talk.model.queue(Reply(text="1-6", gate=gate))
    working = asyncio.create_task(talk.service.compact(talk.id))
    await talk.model.wait_for(lambda: talk.model.waiting_at_gate)
    await talk.core.memory.memories.forget(Owner(USER), [f"msg-{talk.message_id(3)}"])
    gate.set()
    await working
    await talk.service.compact(talk.id)
    assert [summary.content for summary in talk.summaries()] == ["1-2 4-6", "7-10"]


# --- the numbers are settings


async def test_the_operator_s_numbers_change_what_is_folded_and_shown(talk: Talk) -> None:
    talk.set(summary_messages=4, summaries_shown=2, history_step=5)
    await talk.add_and_compact(14)
    assert talk.ranges() == [(1, 4), (5, 5)]
    talk.add(10)
    await talk.service.compact(talk.id)
    talk.add()
    assert talk.past().start == 11
    assert talk.past().summaries == ("1-4", "6-9"), "the oldest, and the newest before the window"
    assert len(talk.past().summaries) == 2
    talk.set(summaries_shown=0)
    assert talk.past().summaries == ()


# --- what the model does not do


async def test_a_model_that_refuses_leaves_an_empty_summary_and_goes_on(talk: Talk) -> None:
    talk.add(28)
    talk.model.queue(Reply(status=400, error="content policy"))
    await talk.service.compact(talk.id)
    assert [summary.content for summary in talk.summaries()] == ["", "7-10"]
    assert talk.ranges() == [(1, 6), (7, 10)]
    assert talk.documents() == [talk.summaries()[1].id], "nothing to find in an empty one"
    talk.add(3)
    assert talk.past().summaries == ("7-10",)


@pytest.mark.parametrize(("reply", "error"), [
    (Reply(status=503), ModelUnavailableError), (Reply(text="  "), ModelUnavailableError),
    (Reply(status=401), ModelSetupError),
])  # fmt: skip
async def test_a_model_that_is_away_changes_nothing_and_is_asked_again(
    talk: Talk, reply: Reply, error: type[AppError]
) -> None:
    talk.add(28)
    talk.model.queue(reply)
    with pytest.raises(error):
        await talk.service.compact(talk.id)
    assert (talk.ranges(), talk.documents()) == ([], [])
    await talk.service.compact(talk.id)
    assert_sound(talk)
    assert talk.ranges() == [(1, 6), (7, 10)]


async def test_a_chatty_model_is_cut_to_size(talk: Talk) -> None:
    talk.add(28)
    talk.model.queue("Пользователь говорил о даче. " * 60, "слово" * 400)
    await talk.service.compact(talk.id)
    [sentences, word] = [summary.content for summary in talk.summaries()]
    assert MAX_SUMMARY / 2 < len(sentences) <= MAX_SUMMARY and sentences.endswith("о даче.")
    assert len(word) <= MAX_SUMMARY + 1 and word.endswith("…")
