"""The image: what its build copies, its steps, the start in it; and the settings of Compose."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from docker.utils.build import exclude_paths
from psycopg2.extensions import parse_dsn

from bot import parse_arguments
from tests.pages import ROOT, page
from tests.unit.settings_environment import load

DOCKERFILE = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
STEPS = [
    tuple(line.split(maxsplit=1)) for line in DOCKERFILE.replace("\\\n", "").splitlines() if line
]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
BY_DIGEST = re.compile(r"[\w/.-]+:[\w.-]+@sha256:[0-9a-f]{64}")


def words_of(instruction: str) -> list[list[str]]:
    return [shlex.split(text) for name, text in STEPS if name == instruction]


def commands() -> list[list[str]]:
    texts = (text for name, text in STEPS if name == "RUN")
    return [shlex.split(command) for text in texts for command in text.split("&&")]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder /app of the image: what each COPY takes out of the context."""
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    context = {name for name in exclude_paths(str(ROOT), rules) if (ROOT / name).is_file()}
    folder = tmp_path_factory.mktemp("app")
    for *sources, target in words_of("COPY"):
        for source in sources:
            names = {n for n in context if n == source or n.startswith(f"{source}/")}
            assert names, f".dockerignore leaves nothing of {source} for the Dockerfile"
            for name in names:
                inside = Path(name).name if name == source else Path(name).relative_to(source)
                place = folder / target / inside
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, place)
    return folder


def environment(folder: Path) -> dict[str, str]:
    """The variables of the image, with another folder for the data."""
    given = dict(word.split("=", 1) for words in words_of("ENV") for word in words)
    return {"PATH": os.environ["PATH"], **given, "DATA_DIR": str(folder)}


def test_the_context_has_what_is_copied_and_nothing_secret(image: Path) -> None:
    names = {path.relative_to(image).as_posix() for path in image.rglob("*") if path.is_file()}
    tracked = {
        path.relative_to(ROOT).as_posix()
        for folder in ("src", "migrations")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert tracked <= names
    assert not any(".env" in name or "__pycache__" in name for name in names)


def test_steps_that_need_no_root_run_and_the_bot_asks_for_its_token(
    image: Path, tmp_path: Path
) -> None:
    done = {"pip": "make proof", "useradd": "needs root", "install": "needs root"}
    for command in commands():
        if command[0] in done:
            continue
        assert command[0] == "python", f"nobody tests {command[0]}"
        subprocess.run([sys.executable, *command[1:]], cwd=image, check=True, timeout=120)
    assert list(image.glob("src/**/*.pyc")) and list(image.glob("__pycache__/bot.*.pyc"))
    [[_, script]], [[command_line]] = map(words_of_json, ("ENTRYPOINT", "CMD"))
    end = subprocess.run(
        [sys.executable, script, command_line], cwd=image, env=environment(tmp_path), text=True,
        capture_output=True, check=False, timeout=120,
    )  # fmt: skip
    assert (end.returncode, end.stdout) == (2, "")
    assert re.fullmatch("TELEGRAM_BOT_TOKEN: it is missing. Open @BotFather .*\n", end.stderr)


def words_of_json(instruction: str) -> list[list[str]]:
    return [json.loads(text) for name, text in STEPS if name == instruction]


def test_the_health_check_asks_the_port_of_the_bot() -> None:
    [[check]] = [[text] for name, text in STEPS if name == "HEALTHCHECK"]
    program = json.loads(check.partition("CMD ")[2])
    compile(program[2], "HEALTHCHECK", "exec")
    assert ":8080/healthz" in program[2] and words_of("EXPOSE") == [["8080"]]


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_pip_takes_the_locks_of_the_image(image: Path) -> None:
    """It downloads every file and checks its hash, and installs nothing."""
    [pip] = [command for command in commands() if command[0] == "pip"]
    arguments = [*pip[1:], "--dry-run", "--ignore-installed"]
    subprocess.run([sys.executable, "-m", "pip", *arguments], cwd=image, check=True)


def test_images_of_others_are_pinned_by_digest() -> None:
    bases = [words[0] for words in words_of("FROM")]
    images = [service["image"] for service in COMPOSE["services"].values() if "image" in service]
    assert len(bases) == 1 and len(images) == 1
    for name in (*bases, *images):
        assert BY_DIGEST.fullmatch(name), name


def interpolate(value: Any, variables: dict[str, str]) -> Any:
    """Replace variables as Compose does: ``${NAME:-default}``, ``${NAME:?message}``."""
    if isinstance(value, dict):
        return {key: interpolate(each, variables) for key, each in value.items()}
    if not isinstance(value, str):
        return value

    def replace(found: re.Match[str]) -> str:
        given = variables.get(found["name"]) or found["default"]
        assert given is not None, found["message"]
        return given

    form = r"\$\{(?P<name>\w+)(?::-(?P<default>[^}]*)|:\?(?P<message>[^}]*))\}"
    return re.sub(form, replace, value)


@pytest.mark.parametrize("password", ["k3/Jf+9=", "a@b:c/d?e#f%", "пароль 'в' кавычках"])
def test_any_password_reaches_both_ends_unchanged(
    monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    given = {"POSTGRES_PASSWORD": password}
    server = interpolate(COMPOSE["services"]["postgres"]["environment"], given)
    for service in ("bot", "worker"):
        variables = interpolate(COMPOSE["services"][service]["environment"], given)
        settings = load(monkeypatch, **{name: str(value) for name, value in variables.items()})
        assert parse_dsn(settings.database_dsn or "") == {
            "host": "postgres",
            "port": "5432",
            "dbname": server["POSTGRES_DB"],
            "user": server["POSTGRES_USER"],
            "password": server["POSTGRES_PASSWORD"],
        }
    assert server["POSTGRES_PASSWORD"] == password


def test_an_address_in_env_is_not_that_of_the_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of the file reach the container as variables; the composed ones replace them."""
    given = {"DATABASE_URL": "postgresql://u@localhost/x", "HTTP_PORT": "9", "TIMEZONE": "UTC"}
    composed = interpolate(COMPOSE["services"]["bot"]["environment"], {"POSTGRES_PASSWORD": "p"})
    settings = load(monkeypatch, **{**given, **{n: str(v) for n, v in composed.items()}})
    assert parse_dsn(settings.database_dsn or "")["host"] == "postgres"
    assert (settings.http_port, settings.timezone) == (8080, "UTC")
    with pytest.raises(AssertionError, match=r"set POSTGRES_PASSWORD in \.env"):
        interpolate(COMPOSE["services"]["bot"]["environment"], {})


def test_data_is_in_named_volumes_and_a_model_of_the_host_has_a_name() -> None:
    volumes = {}
    for name, service in COMPOSE["services"].items():
        for volume in service["volumes"]:
            source, _, target = volume.partition(":")
            assert source in COMPOSE["volumes"], f"{volume} is not a named volume"
            volumes[name, target] = source
    [[data]] = words_of("VOLUME")
    assert volumes["bot", data] == volumes["worker", data]
    assert ("postgres", "/var/lib/postgresql") in volumes
    for service in ("bot", "worker"):
        assert "host.docker.internal:host-gateway" in COMPOSE["services"][service]["extra_hosts"]
        assert COMPOSE["services"][service]["environment"]["DATA_DIR"] == data


RECIPES = [line for line in page("operating.md").commands() if line.startswith("docker compose")]
OF_COMPOSE = {"up", "stop", "build", "logs", "ps", "run", "exec"}


@pytest.mark.parametrize("line", RECIPES)
def test_recipes_name_services_and_commands_that_exist(line: str) -> None:
    _, _, action, *rest = shlex.split(line)
    assert action in OF_COMPOSE
    if action not in ("run", "exec"):
        return
    options = {"--user", "-v", "-e"}  # with a value
    while rest[0].startswith("-"):
        rest = rest[2:] if rest[0] in options else rest[1:]
    service, *command = rest
    assert service in COMPOSE["services"]
    if service == "postgres":
        assert command[0] in ("psql", "createdb") and command[1:3] == ["-U", "pomni"]
    else:
        assert parse_arguments(command).command == command[0]
