"""With the key of one provider: ``doctor``, and what is kept of a long chat."""

from __future__ import annotations

from src.pg.client import PgClient
from tests.fakes.other_models import FakeOtherModels
from tests.integration.person import FAKE_EMBEDDINGS, open_rig


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
