"""The log: JSON lines with ids, without secrets and without what users wrote."""

from __future__ import annotations

import asyncio
import io
import json
import logging
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


async def test_a_line_is_one_json_object_with_its_ids(lines: Lines) -> None:
    structlog.contextvars.bind_contextvars(update_id=7)
    with log_extra(conversation_id="c-1"):
        await asyncio.gather(asyncio.to_thread(logger.info, "answered", extra={"parts": 2}))
    logger.warning('first\n{"event": "forged"}', extra={"path": Path("/x"), "broken": "\udcff"})
    line, odd = lines()
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "answered",
        "level": "info",
        "logger": "src.test",
        "conversation_id": "c-1",
        "parts": 2,
        "update_id": 7,
    }
    assert odd["level"] == "warning" and "/x" in odd["path"] and "conversation_id" not in odd


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
    ours, cut, circle = ModelError("the model refused (HTTP 400)"), AppError("known"), KeyError()
    ours.__cause__, circle.__cause__, cut.__context__ = ValueError(PRIVATE), circle, KeyError()
    cut.__suppress_context__ = True
    for error in (ours, FileNotFoundError(2, "No such file", "/tmp/x"), cut, circle):
        logger.warning("failed", exc_info=error)
    assert [line["error"] for line in lines()] == [
        "ModelError: the model refused (HTTP 400) <- ValueError",
        "FileNotFoundError: [Errno 2] No such file: '/tmp/x'",
        "AppError: known",
        "KeyError",
    ]


def test_chatty_libraries_are_quiet_and_the_level_holds(lines: Lines) -> None:
    for name, level in QUIET.items():
        logging.getLogger(name).log(level - 1, PRIVATE)
    logging.getLogger("src.test").debug(PRIVATE)
    logging.warning(f"Failed to validate notification: {PRIVATE}")  # noqa: G004, LOG015  (as mcp does)
    logging.getLogger("mcp.client.stdio").error(PRIVATE)
    logging.getLogger("client").error(PRIVATE)
    assert lines() == []
    logging.getLogger("httpx").warning("heard")
    assert [line["event"] for line in lines()] == ["heard"]
