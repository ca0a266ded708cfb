"""What an operator changes while the bot runs: bounds, history, every process hears of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from annotated_types import Ge, Le
from pydantic import SecretStr

from src.base.config import Settings
from src.base.errors import SettingsError, StorageRejectedError
from src.pg.client import PgClient
from src.pg.settings_repo import (
    GlobalSettings,
    GlobalSettingsRepository,
    SettingsService,
    check_settings,
)
from src.web.admin_settings import SELECT_CHANGES

pytestmark = pytest.mark.own_database


def bounds() -> list[tuple[str, float, float]]:
    """Of each number: its name, the least and the most."""
    found = []
    for name, field in GlobalSettings.model_fields.items():
        least = [mark.ge for mark in field.metadata if isinstance(mark, Ge)]
        most = [mark.le for mark in field.metadata if isinstance(mark, Le)]
        if least and most:
            found.append((name, float(str(least[0])), float(str(most[0]))))
    return found


def service(client: PgClient, **environment: Any) -> SettingsService:
    stored = GlobalSettingsRepository(client)
    return SettingsService(client, stored, Settings(**environment))


def test_the_database_has_the_bounds_that_the_program_has(client: PgClient) -> None:
    assert len(bounds()) == sum(
        field.annotation in (int, float) for field in GlobalSettings.model_fields.values()
    )
    # Without what compares two columns, which has a test of its own.
    client.execute("ALTER TABLE global_settings DROP CONSTRAINT history_step_within_history")
    for name, least, most in bounds():
        change = f"UPDATE global_settings SET {name} = %(value)s"
        step = 0.01 if GlobalSettings.model_fields[name].annotation is float else 1
        for value in (least, most):
            client.execute(change, {"value": value})
        for value in (least - step, most + step):
            with pytest.raises(SettingsError, match=name):
                check_settings({name: value})
            with pytest.raises(StorageRejectedError):
                client.execute(change, {"value": value})


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"summaries_shown": "many"}, "summaries_shown"), ({"history_step": ""}, "history_step"),
        ({"history_step": 20, "history_messages": 15}, ""), ({"no_such_setting": 1}, "no_such"),
        ({"memory_extraction_provider": "nobody"}, "memory_extraction_provider"),
        ({"memory_extraction_model": "a b"}, "memory_extraction_model"),
        ({"memory_extraction_model": "m" * 201}, "memory_extraction_model"),
        ({"embedding_provider": "openai"}, ""), ({"embedding_model": "x"}, ""),
        ({"memory_retrieve_threshold": "nan"}, "memory_retrieve_threshold"),
        ({"daily_tokens": 1e300}, "daily_tokens"), ({"answer_max_parts": None}, "answer_max"),
    ],
)  # fmt: skip
async def test_what_is_out_of_bounds_is_named_and_changes_nothing(
    client: PgClient, values: dict[str, Any], name: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        await service(client).change("somebody", values)
    assert any(problem.startswith(name) for problem in caught.value.problems)
    assert all(caught.value.problems.values())
    assert await service(client).get() == GlobalSettings()
    assert client.fetch_records(SELECT_CHANGES, limit=9) == []


async def test_each_change_is_kept_with_who_made_it_also_from_psql(client: PgClient) -> None:
    settings = service(client)
    values = {"summaries_shown": "5", "memory_extraction_enabled": "false", "history_step": 15}
    changed = await settings.change("the page, from 127.0.0.1", values)
    assert (changed.summaries_shown, changed.memory_extraction_enabled) == (5, False)
    client.execute("UPDATE global_settings SET summaries_shown = 4")
    client.execute("UPDATE global_settings SET summaries_shown = 4")

    changes = [
        (entry["changed_by"], entry["setting"], entry["old_value"], entry["new_value"])
        for entry in client.fetch_records(SELECT_CHANGES, limit=9)
    ]
    assert changes == [
        ("SQL: postgres", "summaries_shown", "5", "4"),
        ("the page, from 127.0.0.1", "summaries_shown", "3", "5"),
        ("the page, from 127.0.0.1", "memory_extraction_enabled", "true", "false"),
    ]


async def test_a_provider_without_a_key_is_refused_with_what_to_do(client: PgClient) -> None:
    batch = {"memory_extraction_provider": "anthropic"}
    with pytest.raises(SettingsError, match="ANTHROPIC_API_KEY is not set"):
        await service(client).change("somebody", batch)
    with pytest.raises(SettingsError, match="OPENAI_API_KEY is not set"):
        await service(client).change(
            "somebody", {"embedding_provider": "openai", "embedding_model": "small"}
        )
    with_key = service(client, anthropic_api_key=SecretStr("key"))
    assert (await with_key.change("me", batch)).memory_extraction_provider == "anthropic"
    with pytest.raises(SettingsError, match="not a model of anthropic"):
        await with_key.change("me", {"memory_extraction_model": "openai:gpt-5-mini"})
    # What has nothing to do with it may change though the key went away meanwhile.
    assert (await service(client).change("me", {"summaries_shown": 2})).summaries_shown == 2


async def test_two_operators_at_once_lose_neither_change(client: PgClient) -> None:
    settings = service(client)
    await asyncio.gather(
        *(settings.change("a", {"summaries_kept": 7 + n}) for n in range(5)),
        *(settings.change("b", {"summary_messages": 7 + n}) for n in range(5)),
    )
    final = await settings.get()
    changes = client.fetch_records(SELECT_CHANGES, limit=99)
    newest = {entry["setting"]: entry["new_value"] for entry in reversed(changes)}
    assert newest == {
        "summaries_kept": str(final.summaries_kept),
        "summary_messages": str(final.summary_messages),
    }
    assert {final.summaries_kept, final.summary_messages}.isdisjoint({3, 6})


def test_the_settings_are_not_read_for_each_turn(client: PgClient) -> None:
    settings = GlobalSettingsRepository(client)
    assert settings.get().summaries_shown == 3
    client.execute("UPDATE global_settings SET summaries_shown = 4")
    assert settings.get().summaries_shown == 3
    assert settings.refresh().summaries_shown == 4
