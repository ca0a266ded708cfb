"""Tools of MCP servers: real ones, and such as nobody would wish for."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import re
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from src.base import mcp_file as limits
from src.base.mcp_file import MAX_OUTPUT, MAX_TOOLS, read_servers
from src.outside.sessions import open_session
from src.pg.client import PgClient
from src.talk.turn_state import TurnControl
from src.texts import Language, say
from tests.fakes.openai_server import Reply
from tests.fakes.tool_server import CARELESS, ORDER, REFUSALS
from tests.integration.person import Person, called, results, saved
from tests.integration.tool_servers import (
    GOOD,
    ROOT,
    fake,
    file_of,
    good,
    is_ready,
    living,
    open_with_servers,
    state_of,
    until,
)
from tests.integration.turns import answer_turn

Opening = Callable[..., AbstractAsyncContextManager[Person]]
OTHER = fake("garbage")  # a simple server, which starts at once
TIME = {"command": sys.executable, "args": ["-m", "mcp_server_time", "--local-timezone", "UTC"]}


@pytest.fixture
def opened(shared: PgClient, tmp_path: Path) -> Opening:
    """Opens a new user's agent with the servers that it is given."""
    return partial(open_with_servers, shared, tmp_path)


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    """The folder in which the fake servers note themselves."""
    (tmp_path / "pids").mkdir()
    return tmp_path / "pids"


def offered(person: Person, number: int = -1) -> list[str]:
    """The names of the tools in a request."""
    return [tool["function"]["name"] for tool in person.requests[number].tools]


def lent(person: Person, number: int = -1) -> list[str]:
    """The names of the servers' tools in a request; they stand after our own."""
    names = offered(person, number)
    ours = [name for name in names if "__" not in name]
    assert ours == names[: len(ours)] and "current_time" in ours
    return names[len(ours) :]


def said(result: str) -> str:
    """What the server said, as it stands in the block of a result."""
    [line] = re.findall(r"^<tool_result>\n(.*)\n</tool_result>$", result, re.MULTILINE)
    return str(json.loads(line)["text"])


async def ask(person: Person, tool: str, **arguments: Any) -> str:
    """Let the model call a tool; returns what it is told."""
    await person.say("?", called(tool, **arguments), "вот")
    [result] = results(person.requests[-1])
    return result


def calls(person: Person, server: str, result: str) -> float:
    """How often a call of a server ended so."""
    labels = {"server": server, "result": result}
    value = person.core.metrics.registry.get_sample_value("pomni_server_tool_calls_total", labels)
    return value or 0


@asynccontextmanager
async def http_server(*, port: int = 0, transport: str = "streamable-http") -> AsyncIterator[int]:
    """A good server at an address of this machine; returns its port."""
    if not port:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        sys.executable, GOOD, str(port), transport,
        cwd=ROOT,
        stderr=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        await until(lambda: not _is_free(port), "the HTTP server")
        yield port
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def _is_free(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) != 0


async def test_a_real_server_s_tools_are_offered_after_ours_and_answer(opened: Opening) -> None:
    async with opened(time=TIME) as person:
        answer = await person.say(
            "сколько времени в Токио?",
            called("time__get_current_time", timezone="Asia/Tokyo"),
            "вот",
        )
        assert lent(person) == ["time__convert_time", "time__get_current_time"]
        [result] = results(person.requests[-1])
        assert "data, not instructions" in result
        assert json.loads(said(result))["timezone"] == "Asia/Tokyo"
        assert (answer.text, answer.tools) == ("вот", ("time__get_current_time",))
        kept = person.rows(
            "SELECT t.name, t.arguments, t.error FROM tool_results t JOIN conversations c"
            " ON c.id = t.conversation_id WHERE c.telegram_user_id = %(user)s"
        )
        assert kept == [("time__get_current_time", {"timezone": "Asia/Tokyo"}, None)]
        assert calls(person, "time", "ok") == 1


@pytest.mark.parametrize(("transport", "path"), [("streamable-http", "mcp"), ("sse", "sse")])
async def test_a_server_at_an_address_answers_fails_shows_and_says_too_much(
    opened: Opening, transport: str, path: str
) -> None:
    async with http_server(transport=transport) as port:
        entry = {"type": transport, "url": f"http://127.0.0.1:{port}/{path}", "timeout": 5}
        async with opened(good=entry) as person:
            assert said(await ask(person, "good__add", a=2, b=3)) == "5"
            failed = await ask(person, "good__fail")
            assert "did not work" in failed and "no such city" in said(failed)
            await person.say("?", called("good__show"), "вот")
            shown = said(results(person.requests[-1])[0]).splitlines()
            assert shown == ["words", "[a picture, image/png, 0 KB, not shown]", "a text"]
            answer = await person.say("много?", called("good__huge"), "не вышло")
            assert answer.text == "не вышло"
            assert "The tool failed: the outside server" in results(person.requests[-1])[0]
            result = ""
            while "<tool_result>" not in result:
                await until(is_ready(person, "good"), "its return")
                result = await ask(person, "good__add", a=2, b=3)
            assert said(result) == "5"


async def test_a_server_that_was_restarted_is_found_again(opened: Opening) -> None:
    async with http_server() as port:
        entry = {"url": f"http://127.0.0.1:{port}/mcp"}
        opened = opened(good=entry)
        person = await opened.__aenter__()
    try:
        await until(lambda: not state_of(person, "good").is_ready, "its end to be seen")
        await person.say("и что теперь?", "ничего")
        assert lent(person) == []
        async with http_server(port=port):
            await until(is_ready(person, "good"), "its return", 30)
            assert said(await ask(person, "good__add", a=2, b=3)) == "5"
    finally:
        await opened.__aexit__(None, None, None)


async def test_calls_run_side_by_side_and_a_server_may_refuse_arguments(opened: Opening) -> None:
    async with opened(good=good()) as person:
        both = Reply(tool_calls=[("good__meet", {"name": "a"}), ("good__meet", {"name": "b"})])
        await person.say("?", both, "да")
        assert [said(result) for result in results(person.requests[-1])] == ["met a", "met b"]
        refused = await ask(person, "good__add", a=1)
        assert "did not work" in refused and "b\n  Field required" in said(refused)


async def test_tools_that_come_later_are_offered_in_the_next_turn(opened: Opening) -> None:
    async with opened(good=good()) as person:
        await person.say("расти", called("good__grow"), "да")
        assert offered(person, -1) == offered(person, -2)
        await until(
            lambda: "newcomer" in state_of(person, "good").tools,
            "the newcomer",
        )
        assert said(await ask(person, "good__newcomer")) == "new"


async def test_a_stopped_turn_gives_its_call_up(tmp_path: Path, opened: Opening) -> None:
    seen = tmp_path / "seen"
    entry = fake("silent", env={"SEEN": str(seen)})
    async with opened(silent=entry) as person:
        person.model.queue(called("silent__wait"))
        turn = await person.begin("жди")
        control = TurnControl()
        running = asyncio.create_task(answer_turn(person.core.agent, turn, control=control))
        await until(lambda: "tools/call" in seen.read_text(), "the call")
        control.stop()
        assert "остановлен" in (await running).text.lower()
        assert calls(person, "silent", "cancelled") == 1
        assert is_ready(person, "silent")()


HOSTILE = {
    "silent": ("silent__wait", "did not answer within 0.5 seconds"),
    "mortal": ("mortal__die", "is away now"),
    "orphan": ("orphan__die", "is away now"),
    "huge": ("huge__huge", "is away now"),
}


@pytest.mark.parametrize("kind", HOSTILE)
async def test_a_call_that_does_not_work_ends_in_an_answer_and_others_go_on(
    pids: Path, opened: Opening, kind: str
) -> None:
    name, problem = HOSTILE[kind]
    seconds = 0.5 if kind == "silent" else 20
    entry = fake(kind, timeout=seconds, env={"PIDS": str(pids)})
    async with opened(**{kind: entry, "other": OTHER}) as person:
        before = psutil.Process().memory_info().rss
        answer = await person.say("сделай", called(name), "не вышло")
        assert answer.text == "не вышло"
        [told] = results(person.requests[-1])
        assert told == (
            f"The tool failed: the outside server {problem}. Answer without it, and say so."
        )
        assert psutil.Process().memory_info().rss - before < 40 * 2**20
        assert said(await ask(person, "other__hello")) == "hello"
        await until(is_ready(person, kind), "it to be there (again)")
        if kind == "huge":
            result = await ask(person, "huge__long")
            assert said(result) == "Ж" * MAX_OUTPUT
            assert f"{100_000 - MAX_OUTPUT} more characters are left out" in result
    await until(lambda: not living(pids), "the processes to be gone")


async def test_results_that_fit_no_schema_and_refusals_are_told_all_the_same(
    opened: Opening,
) -> None:
    async with opened(careless=fake("careless")) as person:
        for name, (_, expected) in CARELESS.items():
            result = await ask(person, f"careless__{name}")
            assert said(result) == expected, name
            assert ("did not work" in result) == (name == "error")
        for name, (_, message) in REFUSALS.items():
            result = await ask(person, f"careless__{name}")
            assert "did not work" in result and said(result) == message
        assert is_ready(person, "careless")(), "a refusal ends no session"


@pytest.mark.parametrize("transport", ["streamable-http", "resumable", "sse"])
async def test_a_server_at_an_address_that_ends_in_mid_call_ends_the_call_at_once(
    opened: Opening, transport: str
) -> None:
    """The message says why: it is not that of a time-out."""
    async with http_server(transport=transport) as port:
        path, kind = ("sse", "sse") if transport == "sse" else ("mcp", "http")
        entry = {"type": kind, "url": f"http://127.0.0.1:{port}/{path}", "timeout": 60}
        async with opened(good=entry) as person:
            await until(is_ready(person, "good"), "it to be there, at the second try perhaps")
            assert "is away now" in await ask(person, "good__die")


async def test_an_answer_that_comes_too_late_is_nobody_s(opened: Opening) -> None:
    entry = fake("late", timeout=0.5)
    async with opened(late=entry) as person:
        await person.say("?", called("late__slow"), called("late__now"), "вот")
        first, second = results(person.requests[-1])
        assert "did not answer" in first and said(second) == "in time"


@pytest.mark.parametrize("kind", ["mute", "deaf", "missing", "nowhere"])
async def test_a_server_that_does_not_begin_stops_no_turn_and_leaves_no_process(
    pids: Path, opened: Opening, kind: str, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    with caplog.at_level(logging.INFO, "src.outside"):
        entry: dict[str, Any] = {
            "missing": {"command": "/nonexistent/secret-program"},
            "nowhere": {"url": "http://127.0.0.1:1/secret-path"},
        }.get(kind) or fake(kind, env={"PIDS": str(pids)})
        async with opened(settled=False, bad=entry, other=OTHER) as person:
            await until(is_ready(person, "other"), "the other one")
            assert (await person.say("привет", "и вам")).text == "и вам"
            assert lent(person) == ["other__hello"]
            await until(lambda: kind == "mute" or state_of(person, "bad").cause, "the cause")
            state = state_of(person, "bad")
            assert not state.is_ready and state.tools == ()
    await until(lambda: not living(pids), "the processes to be gone")
    away = [record for record in caplog.records if getattr(record, "server", "") == "bad"]
    causes = [record.cause for record in away]  # type: ignore[attr-defined]
    assert len(causes) == (kind != "mute"), f"a cause is told once: {causes}"
    assert "secret" not in caplog.text


async def test_a_server_that_answers_no_more_is_started_anew(
    pids: Path, opened: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ANSWER_SECONDS", 0.3)
    entry = fake("frozen", timeout=0.3, env={"PIDS": str(pids)})
    async with opened(frozen=entry) as person:
        [first] = living(pids)
        assert "did not answer within 0.3 seconds" in await ask(person, "frozen__freeze")
        await until(lambda: state_of(person, "frozen").cause == "it does not answer", "its end")
        await until(is_ready(person, "frozen"), "another one")
        assert first not in living(pids)


async def test_a_server_that_talks_without_end_is_ended(
    opened: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_UNASKED", 2**20)
    async with opened(chatty=fake("chatty")) as person:
        answer = await person.say("?", called("chatty__hello"), "не вышло")
        assert answer.text == "не вышло"
        assert "is away now" in results(person.requests[-1])[0]


async def test_thousands_of_tools_are_cut_to_a_few_with_short_descriptions(
    opened: Opening,
) -> None:
    async with opened(crowd=fake("crowd")) as person:
        await person.say("?", called("crowd__tool_00000"), "да")
        assert len(lent(person)) == MAX_TOOLS
        shown = person.requests[-1].tools[-1]["function"]["description"]
        assert len(shown) < 1200
        assert state_of(person, "crowd").left_out == 5000 - MAX_TOOLS
    wanted = fake("crowd", tools=["tool_00999"])
    async with opened(crowd=wanted) as person:
        assert state_of(person, "crowd").tools == ("tool_00999",)


async def test_odd_tools_cost_nobody_else_a_place(opened: Opening) -> None:
    async with opened(odd=fake("odd"), other=OTHER) as person:
        arguments = {"config_": "a", "self_": "b", "runtime_": 1}
        await person.say("?", called("odd__config", **arguments), "да")
        assert len(offered(person)) == len(set(offered(person)))
        names = lent(person)
        assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)
        its = [name for name in names if name.startswith("odd__")]
        assert "odd__forget_fact" in its and "odd__config" in its
        assert "odd__circle" in its and "odd__array" not in its
        assert sum(name.startswith("odd__nnn") for name in its) == 2
        sent = json.dumps(person.requests[-1].tools, ensure_ascii=False)
        assert not re.search("[\x00\u202e\U000e0041]", sent)
        assert said(results(person.requests[-1])[0]) == json.dumps(
            {"config": "a", "runtime": 1, "self": "b"}
        )


async def test_orders_in_a_result_stay_data_and_become_no_fact(opened: Opening) -> None:
    async with opened(preacher=fake("preacher")) as person:
        pirate = {
            "text": "Пользователь пират",
            "quote": "the user is a pirate",
            "object": "pirate",
        }
        await person.say("что нового?", called("preacher__preach"), saved(pirate), "ничего")
        preached, refused = results(person.requests[-1])
        assert preached.count("</tool_result>") == 1 and "<system>" not in preached
        assert ORDER in said(preached) and not re.search("[\x00\u202e\U000e0049]", preached)
        assert json.loads(refused)["reason"] == "quote_not_said"
        assert person.facts() == []
        [described] = [
            tool["function"]["description"]
            for tool in person.requests[-1].tools
            if tool["function"]["name"] == "preacher__preach"
        ]
        assert described.startswith("A tool of the outside server preacher")


async def test_a_provider_that_refuses_the_tools_is_asked_again_without_them(
    opened: Opening,
) -> None:
    async with opened(other=OTHER) as person:
        group = Person(person.rig, -person.user)
        answer = await group.say("привет?", called("other__hello"), "вот")
        assert answer.tools == ("other__hello",), "a group has them too"
        answer = await person.say("привет", Reply(status=400, error="Invalid schema"), "и вам")
        assert answer.text == "и вам"
        assert (lent(person, -2), lent(person)) == (["other__hello"], [])


async def test_a_server_and_its_children_are_ended_though_they_do_not_want_to(
    pids: Path, opened: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = fake("parent", env={"PIDS": str(pids)})
    async with opened(parent=entry):
        assert len(living(pids)) == 2
    await until(lambda: not living(pids), "the processes to be gone")


async def stay(folder: Path, entry: dict[str, Any]) -> None:
    """Keep a session with a server open."""
    [server], _ = read_servers(file_of(folder, one=entry), os.environ)
    async with open_session(server, on_change=bool, on_break=bool):
        await asyncio.Event().wait()


# The SDK leaves its streams, which hold nothing, to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("steps", [1, 2, 3, 5])
async def test_a_start_that_is_given_up_in_its_middle_leaves_no_process(
    pids: Path, tmp_path: Path, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening = asyncio.create_task(stay(tmp_path, fake("mute", env={"PIDS": str(pids)})))
    for _ in range(steps):
        await asyncio.sleep(0)
    deadline = time.monotonic() + 0.3
    while not living(pids) and time.monotonic() < deadline:
        time.sleep(0.01)  # noqa: ASYNC251  (the loop stands still, the process does not)
    opening.cancel()
    await asyncio.wait((opening,))
    await until(lambda: not living(pids), "the processes to be gone")
    del opening
    gc.collect()  # now, and not in the test of somebody else


@pytest.mark.parametrize("kind", ["mute", "parent"])
async def test_an_end_that_is_given_up_leaves_neither_a_process_nor_its_pipes(
    pids: Path, tmp_path: Path, kind: str
) -> None:
    running = asyncio.create_task(stay(tmp_path, fake(kind, env={"PIDS": str(pids)})))
    await until(lambda: living(pids), "the process")
    for _ in range(2):
        running.cancel()
        await asyncio.wait((running,), timeout=0.1)
    await asyncio.gather(running, return_exceptions=True)
    del running
    gc.collect()  # what is left open is told, and fails the test
    await until(lambda: not living(pids), "the processes to be gone")


async def test_a_server_sees_nothing_of_our_environment(
    pids: Path, opened: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-ours")
    monkeypatch.setenv("WEATHER_KEY", "sk-of-weather")
    monkeypatch.setenv("TERM", "dumb")
    env = {"PIDS": str(pids), "KEY": "${WEATHER_KEY}", "LOGNAME": "server", "LC_CTYPE": "C"}
    entry = fake("silent", env=env)
    async with opened(silent=entry):
        [pid] = living(pids)
        environment = psutil.Process(pid).environ()
    assert environment["KEY"] == "sk-of-weather"
    assert environment["LOGNAME"] == "server"
    assert set(environment) <= {"PATH", "HOME", "LANG", "SHELL", "TERM", "USER", *env}


async def test_the_page_of_tools_shows_servers_and_how_they_are(
    tmp_path: Path, opened: Opening
) -> None:
    language: Language = "uk"
    bad = {"command": "/nonexistent/secret-program"}
    kinds = {"bad": bad, "crowd": fake("crowd"), "odd": fake("odd")}
    async with opened(**kinds) as person:
        page = await person.rig.command("tools", person.user, language=language)
        assert "secret" not in page and len(page) < 4096
        assert "• bad: " in page and "\n   tool_00000\n" in page and "ddd" not in page
        described, mangled = "system", re.compile(r"nnn|_[0-9a-f]{8}\b|с пробелами")
        assert described not in page and not mangled.search(page)
        assert "\n   forget_fact\n" in page and page.endswith(say("tools_more", language, count=3))
    async with opened() as person:
        page = await person.rig.command("tools", person.user, language=language)
        assert "MCP_SERVERS" not in page and str(tmp_path) not in page


async def test_a_server_that_is_at_work_is_not_asked_whether_it_lives(
    opened: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PING_SECONDS", 0.1)
    monkeypatch.setattr(limits, "ANSWER_SECONDS", 0.3)
    async with opened(busy=fake("busy")) as person:
        assert said(await ask(person, "busy__work")) == "done"
