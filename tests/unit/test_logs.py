"""The log: JSON lines with ids, without secrets and without what users wrote."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import structlog
from pydantic import BaseModel

from src.base.errors import AppError, ModelError, StorageRejectedError
from src.base.logs import QUIET, configure_logging, log_extra
from src.pg.client import PgClient

TOKEN = "1234567890:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"
KEY = "sk-proj-very-secret-key"
PRIVATE = "СЕКРЕТНЫЙ ТЕКСТ"

Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lines]:
    """Configure the log on a captured stderr; the function returns the lines so far."""
    root = logging.getLogger()
    before = root.handlers, root.level
    levels = {name: logging.getLogger(name).level for name in QUIET}
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    configure_logging("INFO", [KEY])
    yield lambda: [json.loads(line) for line in stderr.getvalue().splitlines()]
    root.handlers, root.level = before
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    structlog.contextvars.clear_contextvars()


logger = logging.getLogger("src.test")


async def test_lines_of_a_run_have_its_ids_also_in_what_it_starts(lines: Lines) -> None:
    with log_extra(conversation_id="c-1", message_id=7):
        await asyncio.gather(asyncio.to_thread(logger.info, "searched"))
    logger.info("idle")
    searched, idle = lines()
    assert (searched["conversation_id"], searched["message_id"]) == ("c-1", 7)
    assert "conversation_id" not in idle


def test_a_line_is_one_json_object_with_its_ids(lines: Lines) -> None:
    structlog.contextvars.bind_contextvars(update_id=7)
    logger.info("answered", extra={"conversation_id": "c-1", "parts": 2})
    [line] = lines()
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "answered",
        "level": "info",
        "logger": "src.test",
        "conversation_id": "c-1",
        "parts": 2,
        "update_id": 7,
    }


def test_what_the_mcp_sdk_says_of_messages_is_not_logged(lines: Lines) -> None:
    logging.warning(f"Failed to validate notification: {PRIVATE}")  # noqa: G004, LOG015  (as it does)
    logging.getLogger("mcp.client.stdio").error(PRIVATE)
    logging.getLogger("client").error(PRIVATE)
    assert lines() == []


def test_a_newline_in_an_event_does_not_make_a_second_line(lines: Lines) -> None:
    logger.warning('first\n{"event": "forged"}')
    assert [line["level"] for line in lines()] == ["warning"]


@pytest.mark.parametrize("secret", [TOKEN, KEY])
def test_a_secret_never_appears_wherever_it_stands(lines: Lines, secret: str) -> None:
    logger.info("to https://api.telegram.org/bot%s/getMe", secret)
    logger.info("nested", extra={"deep": {"list": [secret, (f"x{secret}",)]}, "plain": secret})
    try:
        raise AppError(f"refused: {secret}")
    except AppError:
        logger.exception("failed")
    logger.info("object", extra={"path": Path(f"/bot{secret}/x")})
    found = lines()
    assert len(found) == 4 and secret not in json.dumps(found, ensure_ascii=False)
    assert all("***" in json.dumps(line) for line in found)


def test_the_text_of_a_foreign_error_never_appears(lines: Lines) -> None:
    class Form(BaseModel):
        age: int

    def fill_in(value: Any) -> None:
        Form(age=value)

    try:
        fill_in(PRIVATE)
    except ValueError as error:
        assert PRIVATE in str(error)
        logger.warning("bad form", exc_info=error)
    [line] = lines()
    assert PRIVATE not in json.dumps(line, ensure_ascii=False)
    assert line["error"] == "ValidationError"
    assert [frame.rpartition(" ")[2] for frame in line["where"]][1:2] == ["fill_in"]
    assert __file__ in line["where"][0] and len(line["where"]) <= 4


def test_a_database_error_is_logged_without_the_row_that_it_quotes(
    lines: Lines, client: PgClient
) -> None:
    insert = "INSERT INTO conversations (id, telegram_user_id) VALUES (gen_random_uuid(), %(v)s)"
    try:
        client.execute(insert, {"v": PRIVATE})
    except StorageRejectedError as error:
        assert isinstance(error.__cause__, psycopg2.Error) and PRIVATE in str(error.__cause__)
        logger.exception("not stored")
    [line] = lines()
    assert PRIVATE not in json.dumps(line, ensure_ascii=False)
    assert line["error"].startswith("StorageRejectedError: PostgreSQL refused a statement")
    assert line["error"].endswith(" <- InvalidTextRepresentation")


def test_the_text_of_our_own_and_of_system_errors_is_kept(lines: Lines) -> None:
    try:
        try:
            raise ValueError(PRIVATE)
        except ValueError as error:
            raise ModelError("the model refused the request (HTTP 400)") from error
    except ModelError as error:
        logger.warning("no answer", exc_info=error)
    logger.warning("no file", exc_info=FileNotFoundError(2, "No such file", "/tmp/x"))
    first, second = lines()
    expected = "ModelError: the model refused the request (HTTP 400) <- ValueError"
    assert first["error"] == expected
    assert second["error"] == "FileNotFoundError: [Errno 2] No such file: '/tmp/x'"


def test_a_cause_that_was_cut_off_stays_out_and_circles_end(lines: Lines) -> None:
    try:
        try:
            raise KeyError(PRIVATE)
        except KeyError:
            raise AppError("known") from None
    except AppError as error:
        logger.warning("cut", exc_info=error)
    one, two = RuntimeError("1"), RuntimeError("2")
    one.__cause__, two.__cause__ = two, one
    logger.warning("circle", exc_info=one)
    cut, circle = lines()
    assert cut["error"] == "AppError: known"
    assert circle["error"] == "RuntimeError <- RuntimeError"


def test_values_that_json_does_not_know_do_not_break_a_line(lines: Lines) -> None:
    logger.info("odd", extra={"path": Path("/x"), "broken": "\udcff"})
    [line] = lines()
    assert "/x" in line["path"]


def test_chatty_libraries_are_quiet_and_the_level_holds(lines: Lines) -> None:
    for name, level in QUIET.items():
        logging.getLogger(name).log(level - 1, PRIVATE)
    logging.getLogger("src.test").debug(PRIVATE)
    assert lines() == []
    logging.getLogger("httpx").warning("heard")
    assert [line["event"] for line in lines()] == ["heard"]


BROKEN_PIPE_OF_BYTES = """
import logging
from src.base.logs import configure_logging
configure_logging("INFO")
logging.getLogger("x").info("слово \\udcff")
"""


def test_the_log_of_a_real_process_goes_to_stderr_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BROKEN_PIPE_OF_BYTES],
        env={"PYTHONPATH": str(Path(__file__).resolve().parents[2]), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert (done.returncode, done.stdout) == (0, b"")
    [line] = done.stderr.decode("ascii").splitlines()
    assert "x" in line and "Traceback" not in line
