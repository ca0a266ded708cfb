"""``doctor``: what its table and its JSON say of each thing that the bot needs.

The remedies of each refusal are in ``test_broken_setups.py``.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from src.base.config import load_settings
from src.operate.doctor import run_doctor
from src.pg.migrations import newest_version
from tests.conftest import execute
from tests.fakes.openai_server import FakeOpenAI, Reply, call_text
from tests.fakes.proxies import FakeProxy, Fault, Kind
from tests.fakes.telegram_server import FakeTelegram
from tests.integration.old_schema import build_old_database
from tests.integration.outside.test_tool_servers import TIME
from tests.integration.tool_servers import fake, file_of
from tests.unit.settings_environment import load

SUBJECTS = [
    "database", "schema", "jobs", "queue", "clock", "telegram", "model", "embeddings", "time zone",
]  # fmt: skip
KEY = "sk-TOPSECRET"


@dataclass(frozen=True)
class Report:
    """What ``doctor`` said; ``mend`` has the lines that ask for something, by subject."""

    status: int
    text: str

    @property
    def mend(self) -> dict[str, str]:
        lines = self.text.splitlines()
        assert all(" MEND: " in line or line.endswith(" OK") for line in lines)
        return {line[:12].strip(): line for line in lines if " MEND: " in line}


Doctor = Callable[..., Awaitable[Report]]


@pytest.fixture
def doctor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], dsn: str
) -> Doctor:
    """Run the doctor with these variables, by default on a good database."""

    async def run(*, as_json: bool = False, **variables: str) -> Report:
        settings = load(monkeypatch, **{"DATABASE_URL": dsn, **variables})
        return Report(await run_doctor(settings, as_json=as_json), capsys.readouterr().out)

    return run


async def test_on_a_good_machine_there_is_nothing_to_mend(doctor: Doctor) -> None:
    report = await doctor()
    assert (report.status, report.mend) == (0, {})
    assert [line[:12].strip() for line in report.text.splitlines()] == SUBJECTS
    assert f"version {newest_version()}, the newest" in report.text
    [line] = [line for line in report.text.splitlines() if line.startswith("embeddings")]
    assert re.search(r" local, 384 dimensions, \d+ ms a query\b.*OK$", line), line


@pytest.mark.parametrize(("build", "version"), [(None, "none"), (build_old_database, "0125")])
async def test_a_schema_that_the_next_start_migrates_is_no_fault(
    doctor: Doctor, empty_dsn: str, build: Any, version: str
) -> None:
    if build is not None:
        build(empty_dsn)
    report = await doctor(DATABASE_URL=empty_dsn)
    assert (report.status, report.mend) == (0, {})
    assert f"version {version}; the next start makes it {newest_version()}" in report.text


@pytest.mark.own_database
@pytest.mark.parametrize(("version", "told"), [
    ("a1b2c3d4e5f6", "give Pomni a database of its own"), ("9999", "start the newer program"),
])  # fmt: skip
async def test_a_schema_that_cannot_be_migrated_is_a_fault(
    doctor: Doctor, dsn: str, version: str, told: str
) -> None:
    execute(dsn, f"UPDATE alembic_version SET version_num = '{version}'")
    report = await doctor()
    assert report.status == 1 and told in report.mend["schema"]


async def test_without_its_database_the_rest_is_checked(doctor: Doctor) -> None:
    report = await doctor(DATABASE_URL="postgresql://u:s3cret-word@127.0.0.1:1/x")
    assert report.status == 1 and list(report.mend) == ["database"]
    assert "DATABASE_URL" in report.text and "time zone" in report.text
    assert "s3cret-word" not in report.text


async def test_a_program_is_told_in_json_what_people_are_told(doctor: Doctor, dsn: str) -> None:
    execute(
        dsn,
        "INSERT INTO telegram_updates (bot_id, update_id, kind, payload, chat_id, received_at)"
        " VALUES (1, 1, 'message', '{}', 5, now() - interval '2 minutes')",
    )
    report = await doctor(as_json=True)
    told = json.loads(report.text)
    findings = {finding["subject"]: finding for finding in told["findings"]}
    assert (report.status, told["ok"], list(findings)) == (1, False, SUBJECTS)
    assert findings["queue"]["state"].startswith("1 wait, the oldest for 12")
    assert "start the bot" in findings["queue"]["mend"]
    assert findings["database"]["mend"] is None


async def test_the_bot_is_known_by_its_token(doctor: Doctor) -> None:
    async with FakeTelegram() as telegram:
        base = {"TELEGRAM_API_BASE": telegram.url}
        right = await doctor(TELEGRAM_BOT_TOKEN=telegram.token, **base)
        wrong = await doctor(TELEGRAM_BOT_TOKEN="42:WRONG", **base)
    gone = await doctor(TELEGRAM_BOT_TOKEN="42:WRONG", **base)
    none = await doctor(CONSOLE_FALLBACK="false")
    assert right.status == 0 and "@pomni_test_bot (42)" in right.text
    assert "getMe (ConnectError All connection attempts failed)" in gone.text
    for report, told in ((wrong, "@BotFather"), (gone, "TELEGRAM_API_BASE"),
                         (none, "TELEGRAM_BOT_TOKEN")):  # fmt: skip
        assert report.status == 1 and told in report.mend["telegram"]
        assert "42:WRONG" not in report.text


async def test_the_model_is_asked_how_fast_it_is_and_whether_it_calls_tools(
    doctor: Doctor,
) -> None:
    async with FakeOpenAI() as model:
        there = {"LLM_MODEL": "openai:x", "OPENAI_BASE_URL": model.url}
        call = call_text("note_words", words="one two three")
        model.queue(Reply(text=call, delay=0.5, chunk_delay=0.05, prompt_tokens=500))
        tools = await doctor(**there)
        [request] = model.requests
        slow = Reply(text="I cannot.", delay=1, prompt_tokens=50, completion_tokens=3)
        model.queue(slow, '{"words": ["one", "two"]}', slow, "one, two")
        forms, neither = await doctor(**there), await doctor(**there)
        asked = [request.form for request in model.requests[1:]]
    told = re.search(r": (\d+) tokens a second read, (\d+) written, calls tools", tools.text)
    assert tools.status == 0 and told is not None, tools.text
    assert 1 <= int(told[1]) <= 1000 and 1 <= int(told[2]) <= 100
    assert [tool["function"]["name"] for tool in request.tools] == ["note_words"]
    assert asked == ["", "NumbersForm"] * 2
    assert forms.status == 0 and "but fills in forms" in forms.text
    assert neither.status == 1 and "tool calls" in neither.mend["model"]
    assert "neither calls tools nor fills in forms" in neither.text


async def test_the_endpoint_of_the_embeddings_is_asked(doctor: Doctor) -> None:
    async with FakeOpenAI() as model:
        report = await doctor(
            EMBEDDING_MODEL="openai:fake", LLM_MODEL="offline", OPENAI_BASE_URL=model.url
        )
        assert report.status == 0 and model.request_count == 0
    assert f"openai:fake, {model.embedding_dimension} dimensions, " in report.text


async def test_misspelt_settings_are_shown(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, dsn: str
) -> None:
    file = tmp_path / ".env"
    file.write_text(f"DATABASE_URL={dsn}\nOPENAI_KEY={KEY}\n")
    report = Report(await run_doctor(load_settings(str(file))), capsys.readouterr().out)
    assert report.status == 1 and "OPENAI_API_KEY was probably meant" in report.mend["settings"]
    assert KEY not in report.text


FAULTS: list[tuple[Fault | str, str]] = [
    ("none", "leads to telegram.test"), ("login", "its login is refused"),
    ("name", "its name is unknown"), ("down", "nobody listens at its port"),
    ("refuse", "it refuses to lead to telegram.test"),
    ("away", "telegram.test behind it cannot be reached"),
    ("html", "it answers, but not as a proxy"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("kind", "fault", "sentence"),
    [("http", *FAULTS[0]), *(("socks5", *one) for one in FAULTS[1:])],
)
async def test_the_hop_behind_a_proxy_that_fails_is_named(
    doctor: Doctor, kind: Kind, fault: Fault, sentence: str
) -> None:
    async with FakeTelegram() as telegram, FakeProxy(kind, ("user", "p@ss/w:rd%1")) as proxy:
        url = proxy.url
        if fault in ("refuse", "away", "html"):
            proxy.fault = fault
        elif fault == "login":  # type: ignore[comparison-overlap]
            proxy.login = ("user", "another")
        elif fault == "name":  # type: ignore[comparison-overlap]
            url = url.replace("127.0.0.1", "proxy.invalid")
        elif fault == "down":  # type: ignore[comparison-overlap]
            await proxy.stop()
        report = await doctor(
            TELEGRAM_BOT_TOKEN=telegram.token,
            TELEGRAM_API_BASE=f"http://telegram.test:{telegram.port}",
            TELEGRAM_PROXY=url,
        )
    gc.collect()  # aiohttp leaves the socket of a failed proxy to it
    [line] = [line for line in report.text.splitlines() if line.startswith("proxy ")]
    assert sentence in line and ("MEND" in line) == (fault != "none")
    assert report.status == int(fault != "none")
    assert "p@ss" not in report.text and "p%40ss" not in report.text


async def test_each_tool_server_and_what_is_wrong_with_it_is_named(
    doctor: Doctor, tmp_path: Path
) -> None:
    gone = {"url": f"http://127.0.0.1:1/{KEY}"}
    servers = {"crowd": fake("crowd"), "gone": gone, "no": {"command": KEY}, "time": TIME}
    file = file_of(tmp_path, **servers)
    report = await doctor(as_json=True, MCP_SERVERS=str(file))
    found = [one for one in json.loads(report.text)["findings"] if one["subject"] == "mcp server"]
    remedy = "check its entry in MCP_SERVERS"
    crowd = 'crowd, 32 tools, 4968 more left out; of many, "tools" in its entry chooses'
    assert [(one["state"], one["mend"]) for one in found] == [
        (crowd, None),
        ("gone: its address does not answer (name, port or certificate)", remedy),
        ("no: its command is not found", remedy), ("time, 2 tools", None),
    ]  # fmt: skip
    assert report.status == 1 and KEY not in report.text
