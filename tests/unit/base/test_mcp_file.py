"""The file of MCP_SERVERS: what it may say, and one line for each thing that is wrong in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from src.base.mcp_file import McpServer, read_servers
from tests.unit.settings_environment import load, problems

CANARY = "CANARY-42-secret"
GOOD: dict[str, Any] = {"command": "server"}


def read(folder: Path, servers: Any, **variables: str) -> tuple[list[McpServer], list[str]]:
    path = folder / "servers.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    found, wrong = read_servers(path, variables)
    return list(found), wrong


def test_the_usual_form_is_read(tmp_path: Path) -> None:
    servers = {
        "web": {"type": "streamable-http", "url": "https://h/mcp/", "headers": {"K": "${KEY}"}},
        "files": {"command": "npx", "args": ["-y", "pkg", "${KEY}"], "env": {"A": "b"},
                  "cwd": "/tmp", "timeout": 5, "tools": ["read"], "autoApprove": []},
        "old": {"transport": "sse", "url": "http://h/sse"},
        "off": {"command": "x", "disabled": True},
    }  # fmt: skip
    found, wrong = read(tmp_path, servers, KEY=CANARY, PATH="/bin", OPENAI_API_KEY="ours")
    assert wrong == [] and [server.name for server in found] == ["files", "old", "web"]
    files, old, web = found
    assert (files.command, files.args) == ("npx", ["-y", "pkg", CANARY])
    assert files.env == {"PATH": "/bin", "A": "b"} and files.cwd == "/tmp"
    assert (files.timeout, files.tools, files.transport) == (5, {"read"}, "stdio")
    assert (old.transport, old.url) == ("sse", "http://h/sse")
    assert (web.transport, web.url, web.headers) == ("http", "https://h/mcp/", {"K": CANARY})
    assert CANARY not in repr(found) and all(CANARY in one.secrets for one in (files, web))


@pytest.mark.parametrize("url", ["http://h/sse", "http://h/v1/sse/?key=x"])
def test_an_address_of_events_needs_no_type(tmp_path: Path, url: str) -> None:
    [server], wrong = read(tmp_path, {"a": {"url": url}})
    assert wrong == [] and (server.transport, server.url) == ("sse", url)


def test_the_file_of_another_editor_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"inputs": [], "servers": {"a": GOOD}}), encoding="utf-8-sig")
    assert [server.name for server in read_servers(path, {})[0]] == ["a"]


@pytest.mark.parametrize(("name", "entry", "problem"), [
    ("a", {}, "either a command or a url"),
    ("a", [], "no object"), ("a", {**GOOD, "args": CANARY}, "its args does not fit"),
    ("a", {**GOOD, "cwd": 7}, "its cwd does not fit"),
    ("a", {"url": f"ftp://{CANARY}"}, "not an http(s) address"),
    ("a", {"url": "http://h", "headers": {f"{CANARY} ": "x"}}, "headers cannot be sent"),
    ("a", {"url": "http://h", "type": "stdio"}, "type does not fit"),
    ("a", {"command": "x", "url": "http://h"}, "either a command or a url"),
    ("a", {"command": 5}, "its command does not fit"),
    ("a", {"url": f"http://h/{CANARY} x"}, "space"),
    ("a", {"url": "http://h", "type": CANARY}, "type does not fit"),
    ("a", {"url": "http://h", "headers": {"K": f"{CANARY}\n"}}, "headers cannot be sent"),
    ("a", {**GOOD, "env": {"K": 5}}, "its env does not fit"),
    ("a", {**GOOD, "env": [CANARY]}, "its env does not fit"),
    ("a", {**GOOD, "args": ["${ABSENT}"]}, "the variable ABSENT, which is not set"),
    ("a", {**GOOD, "args": [f"${{env:{CANARY}}}"]}, "of another kind"),
    ("a", {**GOOD, "timeout": 0}, "timeout"), ("a", {**GOOD, "timeout": True}, "timeout"),
    ("a", {**GOOD, "tools": [5]}, "tools"), (f"{CANARY} x", GOOD, "name is not fit"),
    ("a__b", GOOD, "name is not fit"), ("a" * 33, GOOD, "name is not fit"),
    ("", GOOD, "name is not fit"), ("a\n", GOOD, "name is not fit"),
])  # fmt: skip
def test_what_is_wrong_is_one_line_without_values(
    tmp_path: Path, name: str, entry: Any, problem: str
) -> None:
    found, [line] = read(tmp_path, {name: entry, "good": GOOD})
    assert line.startswith("MCP_SERVERS") and problem in line and ". " in line
    assert "\n" not in line and CANARY not in line
    assert [server.name for server in found] == ["good"]


@pytest.mark.parametrize(("content", "problem"), [
    (b"", "no mcpServers (Invalid JSON"), (b"[]", "no mcpServers"),
    (b'{"mcpServers": []}', "no mcpServers"), (b"\xff\xfe", "cannot be read"),
    (b"[" * 100_000, "no mcpServers"), (None, "cannot be read"),
])  # fmt: skip
def test_a_bad_file_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, problem: str
) -> None:
    path = tmp_path / CANARY
    if content is not None:
        path.write_bytes(content)
    [line] = problems(monkeypatch, MCP_SERVERS=str(path))
    assert line.startswith("MCP_SERVERS: ") and problem in line and CANARY not in line


def test_every_bad_server_is_named_at_once_and_no_more_than_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "servers.json"
    path.write_text(json.dumps({"mcpServers": {"a": {}, "b": 5, "c": GOOD}}))
    found = problems(monkeypatch, MCP_SERVERS=str(path), HTTP_PORT="-1")
    assert [line.partition(":")[0] for line in found] == [
        "HTTP_PORT", "MCP_SERVERS, a", "MCP_SERVERS, b",
    ]  # fmt: skip


def test_its_secrets_are_blanked_out_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "servers.json"
    servers = {
        "a": {"command": "x", "args": ["--key", "${THE_KEY}"], "env": {"K": "of-the-environment"}},
        "b": {"url": "https://u:pass-word@h/?token=of-query",
              "headers": {"Authorization": "Bearer of-header"}},
    }  # fmt: skip
    path.write_text(json.dumps({"mcpServers": servers}))
    monkeypatch.setenv("THE_KEY", "of-a-variable")
    settings = load(monkeypatch, MCP_SERVERS=str(path))
    expected = {"of-a-variable", "of-the-environment", "pass-word", "of-query", "of-header"}
    assert expected <= set(settings.secrets())
    assert not any(secret in repr(settings) + repr(settings.servers) for secret in expected)


def test_a_variable_of_the_env_file_may_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from src.base.config import load_settings

    load(monkeypatch)
    servers = tmp_path / "servers.json"
    servers.write_text(json.dumps({"mcpServers": {"a": {**GOOD, "env": {"K": "${THE_KEY_42}"}}}}))
    (tmp_path / ".env").write_text(f"MCP_SERVERS={servers}\nTHE_KEY_42=of-the-file\n")
    [server] = load_settings(str(tmp_path / ".env")).servers
    assert server.env["K"] == "of-the-file"
