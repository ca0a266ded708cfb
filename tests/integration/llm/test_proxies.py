"""Every client of a model goes through the proxy, which alone resolves the servers' names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from src.base.config import Settings
from src.llm import chat, embeddings, endpoints
from src.llm.batch import get_llm_provider
from tests.fakes.batch_servers import SERVERS
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.other_models import FakeOtherModels
from tests.fakes.proxies import FakeProxy
from tests.integration.memory.test_batch_providers import JOB, request, submit
from tests.integration.memory.test_rerank import FakeRerank

LOGIN = ("user", "p@ss/w:rd%1")


@pytest.fixture(params=[("socks5", None), ("socks5", LOGIN), ("http", None), ("http", LOGIN)])
async def proxy(request: pytest.FixtureRequest) -> AsyncIterator[FakeProxy]:
    async with FakeProxy(*request.param) as opened:
        yield opened
        assert opened.reached[0].startswith("models.test:")


def settings_for(proxy: FakeProxy, port: int) -> Settings:
    base = f"http://models.test:{port}"
    return Settings(
        model_proxy=proxy.url, llm_timeout=20,  # type: ignore[call-arg]
        openai_api_key="key-key", anthropic_api_key="key-key", google_api_key="key-key",
        openai_base_url=f"{base}/v1", anthropic_base_url=base, google_base_url=base,
        transcription_model="whisper-1", rerank_url=f"{base}/v1/rerank",
    )  # fmt: skip


async def ask(settings: Settings, name: str) -> str:
    model = chat.build_provider_model(settings, name)
    caller = chat.ModelCaller(model, name, timeout=20)
    messages = [HumanMessage("кто?")]
    answer = await caller.text(messages, purpose="turn", on_usage=lambda _usage: None)
    opened: Any = model
    if name.startswith("openai:"):
        await opened.root_async_client.close()
    elif name.startswith("anthropic:"):
        await opened._async_client.close()
    else:  # the SDK does not close a client that it was given
        await opened.client._api_client._async_httpx_client.aclose()
    return answer


async def test_chat_embeddings_and_speech_of_openai_s_protocol(proxy: FakeProxy) -> None:
    async with FakeOpenAI() as server:
        settings = settings_for(proxy, server.port)
        assert await ask(settings, "openai:m") == "эхо: кто?"
        embedder = embeddings.OpenAIEmbedder("openai:m", settings)
        assert len(await embedder.embed_query("кот")) > 0
        await embedder.close()
        transcriber = endpoints.build_transcriber(settings)
        assert transcriber is not None and await transcriber.transcribe(b"sound", "a.ogg")
    assert len(proxy.reached) == 3


@pytest.mark.parametrize("name", ["anthropic:claude-m", "google_genai:gemini-m"])
async def test_chat_of_other_providers(proxy: FakeProxy, name: str) -> None:
    async with FakeOtherModels("привет") as server:
        assert await ask(settings_for(proxy, server.port), name) == "привет"


@pytest.mark.parametrize("name", list(SERVERS))
async def test_batches(proxy: FakeProxy, name: str) -> None:
    async with SERVERS[name]() as server:
        server.reply = lambda _words: {"facts": []}
        provider = get_llm_provider(name, settings_for(proxy, server.port))
        batch_id = await submit(provider, request(), job=JOB)
        server.finish()
        assert len(await provider.get_batch_results(batch_id)) == 1
        await provider.close()


async def test_reranking(proxy: FakeProxy) -> None:
    async with FakeRerank() as server:
        reranker = endpoints.build_reranker(settings_for(proxy, server.port))
        assert reranker is not None and await reranker.order("q", ["a", "b"]) == [1, 0]
        await reranker.close()
