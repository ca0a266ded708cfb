"""The local embedder: its engine dies, hangs or does not start, and nobody else notices."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import numpy as np
import pytest
import uvloop

from src.base.errors import ModelError, ModelUnavailableError, PoisonTextError
from src.base.metrics import Metrics
from src.llm.embeddings import MAX_QUERY, EmbeddingEngine, LocalEmbedder, clean_end
from src.memory.embedding_space import LOCAL_SCALE, measure_scale
from src.memory.search_index_repo import Scale
from tests.attacks.embedding_fuzz import attack, is_unharmed
from tests.e2e.bot_process import eventually

ROOT = Path(__file__).resolve().parents[3]
# What ``clean_start`` keeps from the engine, which takes a text as it is.
DEADLY = "\ufdfa" * 100
HANGS = 2.0  # seconds; a deadline that a test has to wait for
QUESTION = "Где я живу?"


@pytest.fixture
async def embedder(metrics: Metrics) -> AsyncIterator[LocalEmbedder]:
    made = LocalEmbedder(metrics)
    yield made
    await made.close()


@pytest.fixture
async def engine(metrics: Metrics) -> AsyncIterator[EmbeddingEngine]:
    made = EmbeddingEngine(metrics)
    yield made
    await made.close()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def counted(metrics: Metrics) -> tuple[float, float]:
    """Deaths of the engine, and texts of which it dies."""
    return metrics.engine_deaths._value.get(), metrics.poison_texts._value.get()


def state_of(pid: int) -> str:
    """A letter, ``T`` when it is stopped; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


async def stop(engine: EmbeddingEngine) -> int:
    """Stop the child process as it stands; returns its number."""
    pid = engine.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    await eventually(lambda: state_of(pid) == "T", "the child to stop")
    return pid


async def ask(engine: EmbeddingEngine, text: str) -> asyncio.Task[object]:
    """Ask for a vector, and return as soon as the engine has been asked."""
    task: asyncio.Task[object] = asyncio.create_task(engine.embed(text))
    await eventually(engine._lock.locked, "the engine to be asked")
    return task


async def test_the_shipped_scale_is_that_of_the_model(embedder: LocalEmbedder) -> None:
    """``python -m benchmarks.embedding_scale`` writes it anew."""
    shipped = Scale(*json.loads(LOCAL_SCALE.read_text()).values())
    measured = await measure_scale(embedder)
    assert shipped.means.keys() == measured.means.keys()
    for key, mean in measured.means.items():
        np.testing.assert_allclose(shipped.means[key], mean, atol=1e-3)
    assert shipped.unrelated_median == pytest.approx(measured.unrelated_median, abs=1e-3)
    assert shipped.unrelated_high == pytest.approx(measured.unrelated_high, abs=1e-3)


async def test_a_query_and_a_document_have_the_same_vector_of_length_one(
    embedder: LocalEmbedder,
) -> None:
    query = await embedder.embed_query(QUESTION)
    documents = await embedder.compute_documents([QUESTION, "I live in Tula", ""])
    assert documents.shape == (3, 384) and documents.dtype == query.dtype == np.float32
    assert np.array_equal(query, documents[0])
    assert np.linalg.norm(documents, axis=1) == pytest.approx(1, abs=1e-5)
    assert (await embedder.embed_documents([])).shape == (0, 0)


async def test_there_is_one_process_from_the_first_text_to_the_end(
    embedder: LocalEmbedder, metrics: Metrics
) -> None:
    assert embedder.engine.pid is None
    await embedder.embed_query("a")
    pid = embedder.engine.pid
    await embedder.embed_documents(["b", "c" * (MAX_QUERY + 1), DEADLY])
    await embedder.engine.embed(clean_end(DEADLY, MAX_QUERY))  # which does no harm when cleaned
    assert pid is not None and embedder.engine.pid == pid
    await stop(embedder.engine)  # closing does not wait for what hangs
    asked = [asyncio.create_task(embedder.embed_query(f"{number}")) for number in range(20)]
    asked.append(asyncio.create_task(embedder.embed_documents(["d", "e"])))
    await eventually(embedder.engine._lock.locked, "the engine to be asked")
    await embedder.close()
    failures = await asyncio.gather(*asked, return_exceptions=True)
    assert {type(failure) for failure in failures} == {ModelUnavailableError}
    assert state_of(pid) == "", "not even as a zombie"
    await embedder.close()
    with pytest.raises(ModelUnavailableError):
        await embedder.embed_query("e")
    assert counted(metrics) == (0, 0)


async def test_the_engine_is_told_nothing_of_the_bot(
    engine: EmbeddingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    await engine.embed("a")
    process = Path(f"/proc/{engine.pid}")
    names = {entry.partition(b"=")[0] for entry in (process / "environ").read_bytes().split(b"\0")}
    assert names == {b"OPENBLAS_NUM_THREADS", b""}
    assert len(list((process / "fd").iterdir())) == 3, "a pipe, another pipe, and /dev/null"
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    assert int(fields[3]) == engine.pid, "it leads a session of its own"
    limits = (process / "limits").read_text()
    assert "Max core file size        0" in limits, "no words of users in a file"


async def test_a_text_that_the_engine_dies_of_is_tried_twice_and_never_again(
    engine: EmbeddingEngine, metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        with pytest.raises(PoisonTextError) as caught:
            await engine.embed(DEADLY)
        assert counted(metrics) == (2, 1)
        assert DEADLY not in str(caught.value)
        assert (await engine.embed(QUESTION)).shape == (384,)
    first, second, verdict = caplog.records
    for record in (first, second):
        assert record.levelno == logging.WARNING
        assert vars(record)["status"] in (-signal.SIGABRT, -signal.SIGSEGV)
    assert verdict.levelno == logging.ERROR
    assert not any(DEADLY in str(vars(record)) for record in caplog.records)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_an_engine_that_died_between_two_texts_is_replaced(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """The bot runs on uvloop, whose closed pipes raise other errors."""

    metrics = Metrics()

    async def die_often() -> None:
        engine = EmbeddingEngine(metrics)
        expected = await engine.embed(QUESTION)
        for is_noticed in (False, True):
            pid = engine.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            if is_noticed:
                await eventually(lambda pid=pid: state_of(pid) == "", "its end")
            assert np.array_equal(await engine.embed(QUESTION), expected)
        await engine.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(die_often())
    assert counted(metrics) == (2, 0)


async def test_an_engine_that_hangs_is_replaced_and_the_text_is_no_poison(
    metrics: Metrics,
) -> None:
    """On a busy machine any text may take too long."""
    engine = EmbeddingEngine(metrics, deadline=HANGS)
    expected = await engine.embed(QUESTION)
    pid = await stop(engine)
    with pytest.raises(ModelError) as caught:
        await engine.embed(QUESTION)
    assert not isinstance(caught.value, PoisonTextError)
    assert np.array_equal(await engine.embed(QUESTION), expected)
    assert counted(metrics) == (1, 0) and state_of(pid) == ""
    await engine.close()


async def test_the_vector_of_a_cancelled_text_is_nobody_else_s(engine: EmbeddingEngine) -> None:
    expected = await engine.embed(QUESTION)
    pid = await stop(engine)
    in_hand = await ask(engine, "one")
    pending = [asyncio.create_task(engine.embed(text)) for text in ("two", QUESTION)]
    await asyncio.sleep(0)
    for task in (in_hand, pending[0]):
        task.cancel()
    await asyncio.wait([in_hand, pending[0]])
    os.kill(pid, signal.SIGCONT)
    assert np.array_equal(await pending[1], expected)
    assert engine.pid == pid


PARENT = """
import asyncio, sys
from src.llm.embeddings import LocalEmbedder
from src.base.metrics import Metrics

async def main():
    embedder = LocalEmbedder(Metrics())
    await embedder.embed_query("a")
    print(embedder.engine.pid, flush=True)
    if "end" in sys.argv:
        return
    await asyncio.sleep(3600)

asyncio.run(main())
"""


@pytest.mark.parametrize("end", ["killed", "forgets to close"])
async def test_the_child_ends_with_its_bot(end: str) -> None:
    arguments = ["end"] if end == "forgets to close" else []
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, *arguments, stdout=subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    assert parent.stdout is not None
    pid = int(await parent.stdout.readline())
    if not arguments:
        parent.kill()
    await parent.wait()
    # A zombie that waits for its foster parent is dead.
    await eventually(lambda: state_of(pid) in ("", "Z"), "the child to end")


async def test_an_engine_that_does_not_start_is_not_started_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    starts = tmp_path / "starts"
    broken = tmp_path / "python"
    broken.write_text(f"#!/bin/sh\necho >> {starts}\nexit 1\n")
    broken.chmod(0o700)
    embedder = LocalEmbedder(Metrics())
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(broken))
        for number in range(20):
            with pytest.raises(ModelUnavailableError, match="does not work"):
                await embedder.embed_query(f"вопрос {number}")
        assert starts.read_text() == "\n"
        assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.ERROR]

    async def mended() -> bool:
        try:
            return bool((await embedder.embed_query("вопрос")).any())
        except ModelUnavailableError:
            await asyncio.sleep(0.05)  # nobody tells when the pause is over
            return False

    async with asyncio.timeout(30):
        while not await mended():
            pass
    await embedder.close()


@pytest.mark.parametrize("texts", [15, pytest.param(500, marks=pytest.mark.proof)])
async def test_texts_from_all_of_unicode_do_it_no_harm(texts: int) -> None:
    """``python -m tests.attacks.embedding_fuzz`` does it with 20,000."""
    figures = await attack(texts)
    assert is_unharmed(figures), figures


async def test_a_program_that_is_not_there_is_no_engine(
    monkeypatch: pytest.MonkeyPatch, metrics: Metrics
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    engine = EmbeddingEngine(metrics)
    with pytest.raises(ModelUnavailableError, match="does not work"):
        await engine.embed("a")
    await engine.close()
    assert counted(metrics)[1] == 0, "no text is to blame"
