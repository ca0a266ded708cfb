"""Database figures: loading a history, and the statements of one plain turn."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime

from benchmarks.world import FIRST_USER, LONG_USER, percentile
from src.base.config import Settings
from src.base.owners import Caller, Owner, Preferences
from src.core import Core
from src.history.conversation_repo import ConversationRepository, TelegramOrigin
from src.memory.digest_repo import SummaryRepository
from src.memory.memories import KEY_FACTS
from src.memory.memory_repo import MemoryRepository
from src.pg.client import PgClient
from src.queue.update_repo import NewUpdate
from src.talk.turn_state import IncomingMessage, Turn

REPEATS = 2000
INSERT_FACTS = """
INSERT INTO memories (owner_id, memory_type, text, subject, relation, object, importance,
                      origin, content_hash)
SELECT add_owner(%(first)s + n %% 1000, 0), 'user_fact', 'Факт ' || n, 'user', 'other', 'x', 9,
       'tool', 'b' || n
FROM generate_series(1, 20000) n
"""


def measure_history(dsn: str) -> dict[str, float]:
    """Measure ``load_last_messages`` for a conversation of 100 and of 100,000 messages.

    Also measure what a cache of key facts and summaries would save, with 20 facts per owner among
    20,000.
    """
    client = PgClient(dsn)
    client.open()
    client.execute(INSERT_FACTS, {"first": FIRST_USER})
    client.execute("ANALYZE memories")
    conversations, summaries = ConversationRepository(client), SummaryRepository(client)
    first = conversations.get_or_create_conversation(FIRST_USER)
    long = conversations.get_or_create_conversation(LONG_USER)
    numbers: dict[str, float] = {}
    for name, read in (
        ("load_last_of_100", lambda: conversations.load_last_messages(first)),
        ("load_last_of_100000", lambda: conversations.load_last_messages(long)),
        ("key_facts", lambda: MemoryRepository(client).list_facts(Owner(FIRST_USER), KEY_FACTS)),
        ("summaries", lambda: summaries.list_summaries(first)),
    ):
        times = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            read()
            times.append(1000 * (time.perf_counter() - start))
        numbers[f"{name}_p50_ms"] = percentile(times, 0.5)
        numbers[f"{name}_p99_ms"] = percentile(times, 0.99)
    client.execute("DELETE FROM memories")
    client.close()
    return numbers


async def count_statements(dsn: str) -> dict[str, float]:
    """Count the statements of one plain turn in our pool; its update came through the queue's."""
    client = PgClient(dsn)
    client.open()
    core = Core(Settings(), client)
    await core.warm_up()
    caller = Caller(Owner(LONG_USER), Preferences("ru", "Europe/Moscow"), datetime.now(UTC))
    thanks = IncomingMessage(caller, "спасибо")
    await core.agent.run_turn(Turn(thanks))  # answers the filled, unanswered message
    await core.memory.memories.settings()  # cached for seconds, so not part of each turn
    core.updates.store(
        42, [NewUpdate(1, "message", {"update_id": 1}, chat_id=1, user_id=1, message_id=1)]
    )
    row = client.fetch_one("SELECT max(id) FROM telegram_updates")
    assert row is not None
    statements, transactions = client.statements, client.transactions
    origin = TelegramOrigin(42, 1, 1, 1, update=row[0])
    await core.agent.run_turn(Turn(replace(thanks, origin=origin)))
    numbers = {
        "statements_per_turn": float(client.statements - statements),
        "transactions_per_turn": float(client.transactions - transactions),
    }
    client.execute("DELETE FROM procrastinate_jobs")
    client.close()
    return numbers
