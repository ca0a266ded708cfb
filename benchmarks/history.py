"""The database side: loading a history, and the statements of one plain turn."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime

from benchmarks.world import FIRST_USER, LONG_USER, percentile
from src.application import build_core
from src.config import Settings
from src.services.turn import IncomingMessage
from src.storage.conversation_repo import ConversationRepository, TelegramOrigin
from src.storage.owner import Owner
from src.storage.pg_client import PgClient
from src.storage.update_repo import NewUpdate

REPEATS = 2000


def measure_history(dsn: str) -> dict[str, float]:
    """``load_last_messages`` for a conversation of 100 and of 100,000 messages."""
    client = PgClient(dsn)
    client.open()
    conversations = ConversationRepository(client)
    numbers = {}
    for name, user in (("100", FIRST_USER), ("100000", LONG_USER)):
        conversation = conversations.get_or_create_conversation(user)
        times = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            conversations.load_last_messages(conversation)
            times.append(1000 * (time.perf_counter() - start))
        numbers[f"load_last_of_{name}_p50_ms"] = percentile(times, 0.5)
        numbers[f"load_last_of_{name}_p99_ms"] = percentile(times, 0.99)
    client.close()
    return numbers


async def count_statements(dsn: str) -> dict[str, float]:
    """What one plain turn asks of our pool, from the job's first statement to its last."""
    client = PgClient(dsn)
    client.open()
    core = build_core(Settings(), dsn, client)
    await core.warm_up()
    thanks = IncomingMessage(Owner(LONG_USER), "спасибо", datetime.now(UTC), "ru", "Europe/Moscow")
    await core.agent.answer(await core.agent.begin_turn(thanks))  # to what nobody has answered
    await core.memory.memories.settings()  # read once in some seconds, not once a turn
    core.updates.store(
        42, [NewUpdate(1, "message", {"update_id": 1}, chat_id=1, user_id=1, message_id=1)]
    )
    row = client.fetch_one("SELECT max(id) FROM telegram_updates")
    assert row is not None
    statements, transactions = client.statements, client.transactions
    stored = core.updates.find_waiting(row[0])
    assert stored is not None
    origin = TelegramOrigin(42, 1, 1, 1, update=stored.id)
    turn = await core.agent.begin_turn(replace(thanks, origin=origin))
    answer = await core.agent.answer(turn)
    await core.agent.mark_delivered(turn, answer)
    numbers = {
        "statements_per_turn": float(client.statements - statements),
        "transactions_per_turn": float(client.transactions - transactions),
    }
    client.execute("DELETE FROM procrastinate_jobs")
    client.close()
    return numbers
