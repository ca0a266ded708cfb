"""Hostile updates on their way into the real database."""

from __future__ import annotations

import random

import pytest
from aiogram.types import Update

from src.base.metrics import Metrics
from src.pg.client import PgClient
from src.queue.update_repo import UpdateRepository
from src.telegram.receiver import UpdateIntake
from src.telegram.updates import AllowList, BotIdentity
from tests.hostile_updates import BOT_ID, BOT_NAME, hostile_update


@pytest.mark.parametrize(("allowed", "batches"), [(frozenset(), 50), (frozenset({1}), 10)])
async def test_hostile_updates_are_stored_readable_or_not_at_all(
    client: PgClient, allowed: frozenset[int], batches: int
) -> None:
    intake = UpdateIntake(
        client,
        UpdateRepository(client),
        BotIdentity(BOT_ID, BOT_NAME),
        AllowList(allowed),
        Metrics(),
    )
    numbers = random.Random(20_260_101)
    stored = 0
    for start in range(0, 100 * batches, 100):
        batch = [hostile_update(numbers) for _ in range(100)]
        for position, raw in enumerate(batch):
            if isinstance(raw, dict) and raw.get("update_id") == 1000:
                raw["update_id"] += start + position  # else most would be duplicates
        stored += await intake.store(batch)

    rows = client.fetch_all("SELECT kind, payload, chat_id FROM telegram_updates")
    jobs = client.fetch_one(
        "SELECT count(*) FROM procrastinate_jobs WHERE task_name = 'handle_update'"
    )
    assert len(rows) == stored and jobs == (stored,)
    assert stored > 10 * batches
    for kind, payload, chat_id in rows:
        assert kind and chat_id is not None
        Update.model_validate(payload)
