"""The files for systemd and nginx: linted by those programs, where there are any, and by rules."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from configparser import ConfigParser
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bot import parse_arguments
from src.base.config import Settings
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


@dataclass
class Directive:
    """One directive of nginx, with those in its block."""

    words: list[str]
    inside: list[Directive] = field(default_factory=list)

    def all_named(self, name: str) -> list[Directive]:
        """The directives of a name in this block."""
        return [each for each in self.inside if each.words[0] == name]


def parse_site(text: str) -> Directive:
    """Parse a file of nginx; a brace or semicolon too few or too many is an error."""
    tokens = iter(re.findall(r"[{};]|[^\s{};]+", re.sub(r"#.*", "", text)))
    return Directive([""], list(_parse_block(tokens, nested=False)))


def _parse_block(tokens: Iterator[str], *, nested: bool) -> Iterator[Directive]:
    words: list[str] = []
    for token in tokens:
        if token == "}":
            assert nested and not words, f"unexpected }} after {words}"
            return
        if token == ";":
            yield Directive(words)
            words = []
        elif token == "{":
            yield Directive(words, list(_parse_block(tokens, nested=True)))
            words = []
        else:
            words.append(token)
    assert not nested and not words, "the file ends within a block"


def choose_location(server: Directive, path: str) -> Directive:
    """The location for a path, by nginx's rules: the exact one, else the longest prefix."""
    locations = {tuple(each.words[1:]): each for each in server.all_named("location")}
    if ("=", path) in locations:
        return locations["=", path]
    prefixes = [words for words in locations if len(words) == 1 and path.startswith(words[0])]
    return locations[max(prefixes, key=lambda words: len(words[0]))]


@pytest.mark.parametrize(("path", "passed"), [
    ("/telegram/webhook", True), ("/app", True), ("/app/api/facts", True), ("/admin", True),
    ("/admin/login", True), ("/metrics", False), ("/readyz", False), ("/healthz", False),
    ("/", False), ("/application", False),
])  # fmt: skip
def test_nginx_passes_on_what_is_for_others_and_nothing_else(path: str, passed: bool) -> None:
    site = parse_site(SITE)
    redirect, server = site.all_named("server")
    assert redirect.all_named("return")[0].words[1:] == ["301", "https://$host$request_uri"]
    location = choose_location(server, path)
    target = f"http://{DEFAULTS['http_host']}:{DEFAULTS['http_port']}"
    passes = [each.words for each in location.all_named("proxy_pass")]
    assert passes == ([["proxy_pass", target]] if passed else [])
    headers = {each.words[1]: each.words[2] for each in server.all_named("proxy_set_header")}
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
