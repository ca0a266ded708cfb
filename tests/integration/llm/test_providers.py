"""With the key of one provider: ``doctor``, and what is kept of a long chat."""

from __future__ import annotations

import pytest

from src.base.config import Settings
from src.operate.doctor import run_doctor
from src.pg.client import PgClient
from tests.fakes.other_models import FakeOtherModels
from tests.integration.person import FAKE_EMBEDDINGS, open_rig

PROVIDERS = {"anthropic": "anthropic:claude", "google": "google_genai:gemini"}


async def test_the_provider_is_told_to_keep_the_beginning_of_a_chat(client: PgClient) -> None:
    async with FakeOtherModels("Здравствуйте, Анна") as model:
        settings = {"anthropic_api_key": "key", "anthropic_base_url": model.url}
        settings |= {"llm_model": "anthropic:claude-sonnet-4-6"}
        settings |= {"embedding_model": FAKE_EMBEDDINGS}
        async with open_rig(client, **settings) as rig:
            for number in range(9):
                answer = await rig.tell(f"Это сообщение номер {number}")
                assert answer.text == "Здравствуйте, Анна"
    assert "cache_control" in str(model.requests[-1]) and model.billed[-1].read > 1024


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_key_is_enough_for_doctor_to_call_the_model(
    dsn: str, provider: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with FakeOtherModels("готово") as model:
        key = {f"{provider}_api_key": "key-key", f"{provider}_base_url": model.url}
        assert await run_doctor(Settings(**{"database_url": dsn, **key})) == 1
    printed = capsys.readouterr().out
    assert f"model        {PROVIDERS[provider]}" in printed and "does not call tools" in printed
    assert printed.count("MEND") == 1  # this one
    assert len(model.requests) == 1
