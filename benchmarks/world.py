"""Setup of the benchmarks: a filled database, fake servers, and bots as processes."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import psycopg2

from src.base.config import Settings
from src.core import Core
from src.memory.search_index_repo import EmbeddingModel
from src.pg.client import PgClient
from src.pg.migrations import migrate
from tests.fakes.openai_server import ChatRequest, FakeOpenAI, Reply
from tests.fakes.telegram_server import FakeTelegram
from tests.fakes.telegram_types import SentMessage

ROOT = Path(__file__).resolve().parents[1]
FIRST_USER = 2**41  # ids above 32 bits, as Telegram has them
LONG_USER = FIRST_USER - 1  # has a conversation of 100,000 messages

INDEXED = 20  # indexed messages of each user; they are far outside the window
SHOWN = 20  # messages of each user without a summary

# Fill ten thousand users with a hundred messages each, and one with a hundred thousand. The texts
# are sentences of 8 to 14 words out of 5,000, so that the posting lists are realistic. All of them
# are marked as digested, so that turns are measured and not the background work.
FILL = """
INSERT INTO conversations (owner_id, telegram_user_id, extracted_position)
SELECT add_owner({first} + n, 0), {first} + n, {long} FROM generate_series(-1, {users} - 1) n;

INSERT INTO messages (conversation_id, role, content, position, created_at, said_at)
SELECT c.id, CASE WHEN n % 2 = 0 THEN 'user' ELSE 'assistant' END,
       CASE WHEN n % 2 = 0 THEN '[Текущее время: 2026-01-01 12:00] ' ELSE '' END || (
           SELECT string_agg('слово' || (hashint8(c.telegram_user_id * 1000 + n * 20 + w)
                                         & 2147483647) % 5000, ' ')
           FROM generate_series(1, 8 + n % 7) w),
       n, said_at, said_at
FROM conversations c,
     generate_series(1, CASE WHEN c.telegram_user_id = {long_user} THEN {long} ELSE {each} END) n,
     LATERAL (SELECT now() - interval '400 days' + n * interval '1 minute' AS said_at) AS moment;

INSERT INTO conversation_summaries (conversation_id, first_position, last_position, content)
SELECT m.conversation_id, 1, max(m.position) - {shown}, 'Говорили о словах.'
FROM messages m GROUP BY m.conversation_id HAVING max(m.position) > {shown};

INSERT INTO search_documents (owner_id, position, kind, message_id, speaker, said_at,
                              length, model_id)
SELECT c.owner_id, m.position, 'message', m.id, m.role, m.said_at,
       array_length(string_to_array(message_text(m.content), ' '), 1), {model}
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.position <= {indexed};

INSERT INTO search_postings (owner_id, term, position, frequency, length, in_talk, document_id)
SELECT d.owner_id, w.term, d.position, count(*), d.length, true, d.id
FROM search_documents d JOIN messages m ON m.id = d.message_id,
     LATERAL string_to_table(message_text(m.content), ' ') AS w (term)
GROUP BY d.id, w.term;

INSERT INTO document_embeddings (owner_id, model_id, position, document_id, embedding)
SELECT d.owner_id, {model}, d.position, d.id, v.embedding
FROM search_documents d JOIN sample_vectors v ON v.id = d.id % {vectors};

INSERT INTO search_owners (owner_id, next_position, documents, terms)
SELECT owner_id, max(position) + 1, count(*), sum(length) FROM search_documents GROUP BY 1;
"""

# Unit vectors in random directions; each is used in many rows.
VECTORS = 1000
FILL_VECTORS = """
CREATE TEMP TABLE sample_vectors AS
SELECT n AS id, l2_normalize(array_agg(random() - 0.5)::halfvec) AS embedding
FROM generate_series(0, {vectors} - 1) n, generate_series(1, {dimensions}) GROUP BY n
"""


def fill_database(dsn: str, *, users: int, each: int, long: int) -> int:
    """Fill an empty database with history; return its number of messages."""
    migrate(dsn)
    model = asyncio.run(measure_embeddings(dsn))
    connection = psycopg2.connect(dsn)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off; SET work_mem = '256MB'")
        cursor.execute(FILL_VECTORS.format(vectors=VECTORS, dimensions=model.dimensions))
        cursor.execute(
            FILL.format(
                first=FIRST_USER, users=users, each=each, long=long, long_user=LONG_USER,
                model=model.id, indexed=INDEXED, shown=SHOWN, vectors=VECTORS,
            )
        )  # fmt: skip
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("SELECT count(*) FROM messages")
        count = int((cursor.fetchone() or (0,))[0])
    connection.close()
    return count


async def measure_embeddings(dsn: str) -> EmbeddingModel:
    """Return the local embedding model, measured as by the bot's first start."""
    client = PgClient(dsn)
    client.open()
    try:
        return await Core(Settings(), client).memory.space.model()
    finally:
        client.close()


@dataclass
class Timeline:
    """Times at which each numbered message was sent, reached the model and was first answered.

    All are seconds on the monotonic clock.
    """

    sent: dict[int, float] = field(default_factory=dict)
    asked: dict[int, float] = field(default_factory=dict)
    answered: dict[int, float] = field(default_factory=dict)
    answers: set[tuple[int, int]] = field(default_factory=set)  # number, id of the answer
    done: asyncio.Event = field(default_factory=asyncio.Event)
    expected: int = 0
    thinking: float = 0.0  # seconds that the model takes for an answer

    def reply(self, request: ChatRequest) -> Reply:
        """Answer as the model, with the number of the message, after ``thinking`` seconds.

        Requests of the background have no number; for them no facts are found.
        """
        try:
            number = _number(request.last_user_text)
        except ValueError:
            return Reply('{"facts": []}')
        self.asked[number] = time.monotonic()
        return Reply(f"ответ {number}", chunk_size=100, delay=self.thinking)

    def note_message(self, message: SentMessage) -> None:
        """Note a message that Telegram shows, new or edited; one without a number is ignored."""
        with suppress(ValueError):
            number = _number(message.text)
            self.answered.setdefault(number, time.monotonic())
            self.answers.add((number, message.message_id))
            if len(self.answered) >= self.expected:
                self.done.set()

    async def quiet(self, seconds: float = 30.0) -> None:
        """Wait until every message is answered, or none was for the given seconds."""
        known = -1
        while known < len(self.answered) < self.expected:
            known = len(self.answered)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.done.wait(), seconds)

    def latencies(self) -> list[float]:
        """Return the times from each answered message to its first answer, in ms."""
        return [1000 * (at - self.sent[number]) for number, at in self.answered.items()]

    def expect(self, count: int) -> None:
        """Reset for ``count`` messages, numbered from 1."""
        self.sent, self.asked, self.answered, self.answers = {}, {}, {}, set()
        self.expected = count
        self.done.clear()


def _number(text: str) -> int:
    return int(text.rsplit(" ", 1)[-1])


class World:
    """Fake Telegram and model servers, and the timeline of their messages.

    Attributes:
        people: Number of users who write in turn; the fewer, the longer their chats.
    """

    def __init__(self, people: int = 200) -> None:
        """Create the servers; entering the context starts them."""
        self.people = people
        self.timeline = Timeline()
        self.telegram = FakeTelegram(keep_calls=False)
        self.model = FakeOpenAI(keep_requests=False)
        self.model.reply = self.timeline.reply
        self.model.keeps_connections = True

    async def __aenter__(self) -> World:
        """Start the servers."""
        await self.telegram.start()
        await self.model.start()
        self.telegram.state.on_shown = self.timeline.note_message
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop the servers."""
        await self.telegram.stop()
        await self.model.stop()

    async def say(self, number: int, users: int) -> None:
        """Send message ``number`` from the next user."""
        self.timeline.sent[number] = time.monotonic()
        await self.telegram.send_text(FIRST_USER + number * 7919 % users, f"сообщение {number}")

    def environment(self, dsn: str) -> dict[str, str]:
        """Return the environment variables of a bot in this world."""
        inherited = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
        return {
            **inherited,
            "PYTHONPATH": str(ROOT),
            "TELEGRAM_BOT_TOKEN": self.telegram.token,
            "TELEGRAM_API_BASE": self.telegram.url,
            "TELEGRAM_RATE_LIMIT": "1000",
            "LLM_MODEL": "openai:bench",
            "LLM_CALLS": "tools",  # as with the provider that the fake stands for
            "OPENAI_BASE_URL": self.model.url,
            "OPENAI_API_KEY": "bench-key",
            "DATABASE_URL": dsn,
            "HTTP_PORT": "0",
            "LOG_LEVEL": "WARNING",
            "GATHER_SECONDS": "0",  # the model answers at once, unlike real ones
        }


@contextmanager
def process(
    arguments: list[str],
    environment: dict[str, str],
    folder: Path,
    interpreter: str = sys.executable,
) -> Iterator[psutil.Process]:
    """Run a Python program during the block; our own from the folder, where no ``.env`` is."""
    program, *rest = arguments
    if program == str(ROOT / "bot.py"):
        program = shutil.copy(program, folder)
    command = [interpreter, program, *rest]
    with (folder / "stderr.log").open("a") as log:
        child = subprocess.Popen(command, env=environment, cwd=folder, stderr=log)
        try:
            yield psutil.Process(child.pid)
        except BaseException:
            print((folder / "stderr.log").read_text()[-2000:])
            raise
        finally:
            child.terminate()
            child.wait(30)


def percentile(values: list[float], share: float) -> float:
    """Return the value below which ``share`` (0 to 1) of the values lie; nan for no values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")
