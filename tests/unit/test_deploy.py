"""The files for systemd and nginx: linted by those programs, where there are any, and by rules."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest

from bot import parse_arguments
from src.base.config import Settings
from src.web.app_api import MAX_UPLOAD
from tests.pages import ROOT

UNIT = (ROOT / "deploy/pomni.service").read_text()
SITE = (ROOT / "deploy/nginx.conf").read_text()
DEFAULTS = {name: each.default for name, each in Settings.model_fields.items()}


def parse_unit(text: str) -> ConfigParser:
    """Parse a unit, in which each name has its case."""
    unit = ConfigParser(interpolation=None, delimiters="=", comment_prefixes=("#", ";"))
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(text)
    return unit


def test_the_unit_says_what_the_bot_needs() -> None:
    unit = parse_unit(UNIT)
    service = unit["Service"]
    program, script, *arguments = service["ExecStart"].split()
    assert program == f"{service['WorkingDirectory']}/.venv/bin/python" and script == "bot.py"
    assert parse_arguments(arguments).command == "run"
    assert service["ReadWritePaths"] == service["WorkingDirectory"]
    assert int(service["TimeoutStopSec"]) > DEFAULTS["shutdown_timeout"] + 2


@pytest.mark.parametrize(
    "fault", ["", "Restrat=always", "ExecStart=/nothing/here", "TimeoutStopSec=soon"]
)
def test_systemd_takes_the_unit_and_finds_a_fault(fault: str, tmp_path: Path) -> None:
    systemd = shutil.which("systemd-analyze")
    if systemd is None:
        pytest.skip("this machine has no systemd-analyze")
    program = tmp_path / ".venv/bin/python"
    program.parent.mkdir(parents=True)
    program.symlink_to("/bin/true")
    file = tmp_path / "pomni.service"
    text = UNIT.replace("/srv/pomni", str(tmp_path)).replace("[Install]", f"{fault}\n[Install]")
    file.write_text(text)
    done = subprocess.run(
        [systemd, "verify", "--man=no", file], capture_output=True, text=True, check=False
    )
    said = [line for line in done.stderr.splitlines() if "pomni.service" in line]
    assert bool(said) == bool(fault), done.stderr


LOCATIONS = dict(re.findall(r"location ((?:= )?\S+) \{\s*([^}]*;)\s*\}", SITE))


def choose_location(path: str) -> str:
    """What is done with a path, by nginx's rules: as the exact location says, or the longest."""
    if f"= {path}" in LOCATIONS:
        return LOCATIONS[f"= {path}"]
    return LOCATIONS[max((name for name in LOCATIONS if path.startswith(name)), key=len)]


@pytest.mark.parametrize(("path", "passed"), [
    ("/telegram/webhook", True), ("/app", True), ("/app/api/facts", True), ("/admin", True),
    ("/admin/login", True), ("/mcp", True), ("/mcp/", True), ("/mcpx", False),
    ("/metrics", False), ("/readyz", False), ("/healthz", False),
    ("/", False), ("/application", False),
])  # fmt: skip
def test_nginx_passes_on_what_is_for_others_and_nothing_else(path: str, passed: bool) -> None:
    target = f"proxy_pass http://{DEFAULTS['http_host']}:{DEFAULTS['http_port']};"
    assert choose_location(path).endswith(target if passed else "return 404;")


def test_nginx_takes_an_upload_as_long_as_the_bot_does() -> None:
    assert f"client_max_body_size {MAX_UPLOAD >> 20}m;" in choose_location("/app/api/import")


def test_nginx_tells_the_bot_who_asked_and_sends_everybody_to_https() -> None:
    redirect, server = SITE.split("\nserver {")[1:]
    assert "return 301 https://$host$request_uri;" in redirect and "proxy_pass" not in redirect
    headers = dict(re.findall(r"proxy_set_header (\S+) (\S+);", server))
    assert headers["X-Forwarded-For"] == "$remote_addr", "a client cannot add to it"
    assert headers["X-Forwarded-Proto"] == "$scheme" and headers["Host"] == "$host"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.parametrize("fault", ["", "proxy_pas http://a;"])
def test_nginx_takes_its_file_and_finds_a_fault(fault: str, tmp_path: Path) -> None:
    nginx, openssl = shutil.which("nginx"), shutil.which("openssl")
    if nginx is None or openssl is None:
        pytest.skip("this machine has no nginx or no openssl")
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=bot.example.org",
         "-keyout", "privkey.pem", "-out", "fullchain.pem"],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    site = SITE.replace("/etc/letsencrypt/live/bot.example.org", str(tmp_path))
    site = re.sub(r"listen \[.*\n", "", site)  # not every machine has IPv6
    site = re.sub(r"listen \d+", lambda _: f"listen 127.0.0.1:{free_port()}", site)
    (tmp_path / "site.conf").write_text(site.replace("location / {", f"location / {{ {fault}"))
    main = "events {} http { access_log off; include site.conf; }"
    (tmp_path / "nginx.conf").write_text(main)
    done = subprocess.run(
        [nginx, "-t", "-e", "stderr", "-p", tmp_path, "-c", tmp_path / "nginx.conf"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ("syntax is ok" in done.stderr) == (not fault), done.stderr
