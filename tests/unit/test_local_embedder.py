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
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from src.base.errors import ModelError, ModelUnavailableError, PoisonTextError
from src.base.metrics import Metrics
from src.llm.embeddings import (
    DOCUMENTS,
    ENVIRONMENT,
    MAX_QUERY,
    QUERIES,
    EmbeddingLane,
    LaneSettings,
    LocalEmbedder,
    clean_end,
)
from src.memory.embedding_space import LOCAL_SCALE, measure_scale
from src.memory.search_index_repo import Scale
from tests.attacks.embedding_fuzz import CHECKED, attack, is_checked, is_unharmed
from tests.cases import for_each
from tests.e2e.bot_process import eventually

ROOT = Path(__file__).resolve().parents[2]
# What ``embedding_text`` keeps from the engine; its lane takes it as it is.
DEADLY = "\ufdfa" * 100
HANGS = 2.0  # seconds; a deadline that a test has to wait for


@pytest.fixture
async def embedder() -> AsyncIterator[LocalEmbedder]:
    made = LocalEmbedder(Metrics())
    yield made
    await made.close()


async def test_the_shipped_scale_is_that_of_the_model(embedder: LocalEmbedder) -> None:
    """``python -m benchmarks.embedding_scale`` writes it anew."""
    shipped = Scale(*json.loads(LOCAL_SCALE.read_text()).values())
    measured = await measure_scale(embedder)
    assert shipped.means.keys() == measured.means.keys()
    for key, mean in measured.means.items():
        np.testing.assert_allclose(shipped.means[key], mean, atol=1e-3)
    assert shipped.unrelated_median == pytest.approx(measured.unrelated_median, abs=1e-3)
    assert shipped.unrelated_high == pytest.approx(measured.unrelated_high, abs=1e-3)


@pytest.fixture
async def lane(metrics: Metrics) -> AsyncIterator[EmbeddingLane]:
    made = EmbeddingLane(LaneSettings("lane", deadline=30.0), metrics)
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


async def stop(lane: EmbeddingLane) -> int:
    """Stop the child process as it stands; returns its number."""
    assert lane.pid is not None
    os.kill(lane.pid, signal.SIGSTOP)
    await eventually(lambda: state_of(lane.pid or 0) == "T", "the child to stop")
    return lane.pid


async def test_both_lanes_give_the_same_vector_of_length_one(embedder: LocalEmbedder) -> None:
    query = await embedder.queries.embed("Где я живу?")
    documents = await embedder.embed_documents(["Где я живу?", "I live in Tula", ""])
    assert documents.shape == (3, 384) and documents.dtype == query.dtype == np.float32
    assert np.array_equal(query, documents[0])
    assert np.linalg.norm(documents, axis=1) == pytest.approx(1, abs=1e-5)
    assert (await embedder.embed_documents([])).shape == (0, 0)


async def test_each_lane_has_a_process_from_first_text_to_end(embedder: LocalEmbedder) -> None:
    assert (embedder.queries.pid, embedder.documents.pid) == (None, None)
    await embedder.embed_query("a")
    first = embedder.queries.pid
    await embedder.embed_query("b")
    assert first == embedder.queries.pid and embedder.documents.pid is None
    await embedder.embed_documents(["c"])
    assert embedder.documents.pid is None, "one short text goes with the queries"
    await embedder.embed_documents(["d" * (MAX_QUERY + 1)])
    second = embedder.documents.pid
    assert first and second and first != second
    await embedder.close()
    assert (state_of(first), state_of(second)) == ("", ""), "not even as zombies"
    await embedder.close()
    with pytest.raises(ModelUnavailableError):
        await embedder.embed_query("d")


async def test_a_lane_that_rests_has_no_process_until_the_next_text(metrics: Metrics) -> None:
    lane = EmbeddingLane(LaneSettings("lane", deadline=30.0, idle=0.0), metrics)
    before = await lane.embed("a")
    await eventually(lambda: lane.pid is None, "the child to be ended")
    assert np.array_equal(before, await lane.embed("a"))
    await lane.close()
    assert lane.pid is None and counted(metrics) == (0, 0)


async def test_the_engine_is_told_nothing_of_the_bot(embedder: LocalEmbedder) -> None:
    await embedder.embed_documents(["a", "b"])
    process = Path(f"/proc/{embedder.documents.pid}")
    assert (process / "environ").read_bytes() == b"OMP_NUM_THREADS=1\x00"
    assert len(list((process / "fd").iterdir())) == 4, "its socket, three times, and /dev/null"
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    assert int(fields[3]) == embedder.documents.pid, "it leads a session of its own"
    assert int(fields[16]) == min(19, os.nice(0) + DOCUMENTS.niceness)
    if (group := process / "autogroup").exists() and os.geteuid() == 0:  # others: one in 0.1 s
        assert group.read_text().endswith(f" nice {DOCUMENTS.niceness}\n"), "so does its session"
    limits = (process / "limits").read_text()
    assert "Max core file size        0" in limits, "no words of users in a file"


async def test_a_text_that_the_engine_dies_of_is_tried_twice_and_never_again(
    lane: EmbeddingLane, metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        with pytest.raises(PoisonTextError) as caught:
            await lane.embed(DEADLY)
        assert counted(metrics) == (2, 1)
        assert DEADLY not in str(caught.value)
        assert (await lane.embed("Где я живу?")).shape == (384,)
    [record] = caplog.records
    assert record.levelno == logging.ERROR and DEADLY not in str(vars(record))
    assert vars(record)["status"] in (-signal.SIGABRT, -signal.SIGSEGV)


async def test_the_cleaned_text_does_it_no_harm(embedder: LocalEmbedder) -> None:
    await embedder.embed_query("a")
    before = embedder.queries.pid
    query = await embedder.queries.embed(clean_end(DEADLY, MAX_QUERY))
    [document] = await embedder.embed_documents([DEADLY])
    assert query.shape == document.shape == (384,)
    assert embedder.queries.pid == before


async def test_what_was_in_hand_when_the_engine_was_killed_is_embedded_by_the_next(
    lane: EmbeddingLane, metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    expected = await lane.embed("Где я живу?")
    for deaths in (1, 2):
        pid = await stop(lane)
        asked = asyncio.create_task(lane.embed("Где я живу?"))
        await asyncio.sleep(0)  # it is in the stopped process's hand, or will be
        os.kill(pid, signal.SIGKILL)
        assert np.array_equal(await asked, expected)
        assert counted(metrics) == (deaths, 0)
        assert lane.pid != pid and state_of(pid) == ""
    assert len(caplog.records) == 2
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


async def test_an_engine_that_hangs_is_replaced(metrics: Metrics) -> None:
    lane = EmbeddingLane(LaneSettings("lane", deadline=30.0), metrics)
    expected = await lane.embed("Где я живу?")
    lane._settings = replace(lane._settings, deadline=HANGS)
    pid = await stop(lane)
    asked = asyncio.create_task(lane.embed("Где я живу?"))
    await eventually(lambda: lane.pid not in (None, pid), "another one to start")
    assert np.array_equal(await asked, expected)
    assert counted(metrics)[1] == 0 and state_of(pid) == ""
    await lane.close()


async def test_a_text_that_takes_too_long_twice_is_no_poison(
    lane: EmbeddingLane, metrics: Metrics
) -> None:
    """On a busy machine any text may."""
    usual = lane._settings
    lane._settings = replace(usual, deadline=1e-6)
    with pytest.raises(ModelError) as caught:
        await lane.embed("Где я живу? " * 100)
    assert not isinstance(caught.value, PoisonTextError) and counted(metrics) == (2, 0)
    lane._settings = usual
    assert (await lane.embed("Где я живу?")).shape == (384,)


async def test_the_newest_text_goes_first_and_nobody_s_text_is_passed_over(
    lane: EmbeddingLane,
) -> None:
    await lane.embed("warm")
    pid = await stop(lane)
    ended: list[str] = []

    async def ask(text: str) -> None:
        await lane.embed(text)
        ended.append(text)

    tasks = [asyncio.create_task(ask("first"))]
    await asyncio.sleep(0)
    await eventually(lambda: not lane._waiting, "the first to be taken")
    tasks += [asyncio.create_task(ask(text)) for text in ("old", "given up", "new")]
    await asyncio.sleep(0)
    tasks[2].cancel()
    await asyncio.gather(tasks[2], return_exceptions=True)
    os.kill(pid, signal.SIGCONT)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert ended == ["first", "new", "old"]


async def test_a_query_does_not_wait_for_a_document_that_hangs(embedder: LocalEmbedder) -> None:
    await embedder.embed_documents(["a", "b"])
    await stop(embedder.documents)
    hanging = asyncio.create_task(embedder.embed_documents(["c", "d"]))
    for number in range(10):
        await embedder.embed_query(f"вопрос {number}")
    assert not hanging.done()
    await embedder.close()
    with pytest.raises(ModelUnavailableError):
        await hanging


async def test_closing_does_not_wait_for_what_hangs(embedder: LocalEmbedder) -> None:
    await asyncio.gather(embedder.embed_query("a"), embedder.embed_documents(["b", "c"]))
    pids = [await stop(embedder.queries), await stop(embedder.documents)]
    asked = [asyncio.create_task(embedder.embed_query(f"{number}")) for number in range(20)]
    asked.append(asyncio.create_task(embedder.embed_documents(["d", "e"])))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    async with asyncio.timeout(DOCUMENTS.deadline / 4):  # far below the lanes' own deadlines
        await embedder.close()
    failures = await asyncio.gather(*asked, return_exceptions=True)
    assert {type(failure) for failure in failures} == {ModelUnavailableError}
    assert [state_of(pid) for pid in pids] == ["", ""]


PARENT = """
import asyncio, sys
from src.llm.embeddings import LocalEmbedder
from src.base.metrics import Metrics

async def main():
    embedder = LocalEmbedder(Metrics())
    await embedder.embed_query("a")
    await embedder.embed_documents(["b", "c"])
    print(embedder.queries.pid, embedder.documents.pid, flush=True)
    if "end" in sys.argv:
        return
    await asyncio.sleep(3600)

asyncio.run(main())
"""


@for_each("end", ["killed", "killed while they hang", "forgets to close"])
async def test_the_children_end_with_their_bot(end: str) -> None:
    arguments = ["end"] if end == "forgets to close" else []
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, *arguments, stdout=subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    assert parent.stdout is not None
    pids = [int(pid) for pid in (await parent.stdout.readline()).split()]
    assert len(pids) == 2
    if end == "killed while they hang":
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
    if not arguments:
        parent.kill()
    await parent.wait()
    await eventually(lambda: not any(map(is_alive, pids)), "the children to end")


def is_alive(pid: int) -> bool:
    """A zombie that waits for its foster parent is dead."""
    return state_of(pid) not in ("", "Z")


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
        assert starts.read_text().count("\n") < 3
        assert len(caplog.records) == 1

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


@pytest.mark.parametrize(
    "executable", ["/nowhere/python", "/bin/cat"], ids=["not there", "says something else"]
)
async def test_whatever_starts_instead_of_the_engine_is_no_engine(
    executable: str, monkeypatch: pytest.MonkeyPatch, metrics: Metrics
) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    lane = EmbeddingLane(QUERIES, metrics)
    with pytest.raises(ModelUnavailableError, match="does not work"):
        await lane.embed("a")
    await lane.close()
    assert counted(metrics) == (0, 0), "no text is to blame"


@pytest.mark.skipif(not is_checked(), reason="this system has no checking malloc")
async def test_the_fuzz_notices_what_does_not_end_the_engine_by_itself(metrics: Metrics) -> None:
    lane = EmbeddingLane(LaneSettings("lane", 60.0, environment=ENVIRONMENT | CHECKED), metrics)
    with pytest.raises(PoisonTextError):
        await lane.embed("\ufdfa" * 8)
    await lane.close()


@pytest.mark.parametrize("texts", [15, pytest.param(500, marks=pytest.mark.proof)])
async def test_texts_from_all_of_unicode_do_it_no_harm(texts: int) -> None:
    """``python -m tests.attacks.embedding_fuzz`` does it with 20,000."""
    figures = await attack(texts)
    assert is_unharmed(figures), figures


def test_the_program_needs_nothing_but_python() -> None:
    source = (ROOT / "src/llm/embedding_child.py").read_text()
    check = "import runpy, sys; runpy.run_path(sys.argv[1]); print('numpy' in sys.modules)"
    arguments: list[str | Callable[..., object]] = [sys.executable, "-I", "-S", "-c", check]
    done = subprocess.run(
        [*map(str, arguments), str(ROOT / "src/llm/embedding_child.py")],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert "numpy" not in source.partition('"""\n\nfrom')[2] and done.stdout == "False\n"
