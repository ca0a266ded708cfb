"""Logs: structured, on stderr, with ids; never message text, a token or a key.

On a terminal they are coloured lines, elsewhere one JSON object a line.
"""

import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any

import structlog

from src.base.errors import AppError, causes
from src.base.providers import PROVIDERS

Event = MutableMapping[str, Any]
TOKEN = re.compile(r"\d{5,}:[A-Za-z0-9_-]{20,}")  # also in /bot123:ABC/getMe
FRAMES, LINKS = 5, 5  # how many of our innermost frames of an error are logged, and of its causes
# Libraries whose INFO lines repeat what ours say, or say it with text of users.
HTTP_LIBRARIES = ("aiogram", "httpx", "httpx2", "httpcore", "httpcore2", "uvicorn")
QUIET = {
    **dict.fromkeys((*HTTP_LIBRARIES, "alembic"), logging.WARNING),
    **dict.fromkeys(("procrastinate", "telegramify_markdown", "psycopg.pool"), logging.ERROR),
    **dict.fromkeys(("mcp", "client"), logging.CRITICAL),  # it quotes what servers send, as both
} | {
    logger: level
    for provider in PROVIDERS.values()
    for logger, level in provider.log_levels.items()
}


def configure_logging(level: str, secrets: Sequence[str] = ()) -> None:
    """Send every log line of the process through one formatter to stderr.

    Args:
        level: ``DEBUG``, ``INFO``, ``WARNING`` or ``ERROR``.
        secrets: Values that are blanked out wherever they turn up.
    """
    on_terminal = sys.stderr.isatty()
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso"),
        describe_error,
        _blank_out(secrets),
    ]
    renderer: Any = (
        structlog.dev.ConsoleRenderer()
        if on_terminal
        else structlog.processors.JSONRenderer(ensure_ascii=False, default=repr)
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    handler.addFilter(_is_named)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for name, quiet_level in QUIET.items():
        logging.getLogger(name).setLevel(max(quiet_level, root.level))


def _is_named(record: logging.LogRecord) -> bool:
    """Whether a line has a logger: the MCP SDK says without one what it has received."""
    return record.name != "root"


def log_extra(**ids: int | str) -> AbstractContextManager[None]:
    """Every log line written meanwhile, in this task and those that it starts, has these ids."""
    return structlog.contextvars.bound_contextvars(**ids)


def describe_error(_logger: Any, _method: str, event: Event) -> Event:
    """Replace an exception by its types and innermost frames.

    The texts of foreign exceptions are dropped: validation and database errors quote what a
    user wrote. Our own errors (``AppError``) and errors of the system are safe, and kept.
    """
    error = event.pop("exc_info", None)
    if isinstance(error, tuple):
        error = error[1]
    elif error is True:
        error = sys.exc_info()[1]
    if isinstance(error, BaseException):
        event["error"] = " <- ".join(_name(link) for link in islice(causes(error), LINKS))
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames[:-1] if f"{os.sep}src{os.sep}" in frame.filename]
        shown = [*(ours or frames[:-1])[-FRAMES:], *frames[-1:]]
        event["where"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in shown]
    event.pop("stack_info", None)
    return event


def _name(error: BaseException) -> str:
    name = type(error).__name__
    safe = isinstance(error, AppError | OSError) and str(error)
    return f"{name}: {error}" if safe else name


def _blank_out(secrets: Sequence[str]) -> Callable[[Any, str, Event], Event]:
    def blank(value: Any) -> Any:
        if isinstance(value, str):
            for secret in secrets:
                value = value.replace(secret, "***")
            return TOKEN.sub("***", value)
        if isinstance(value, dict):
            return {key: blank(entry) for key, entry in value.items()}
        if isinstance(value, list | tuple):
            return [blank(entry) for entry in value]
        if value is None or isinstance(value, int | float):
            return value
        return blank(repr(value))  # as it would be rendered

    def process(_logger: Any, _method: str, event: Event) -> Event:
        return {
            key: value if key.startswith("_") else blank(value) for key, value in event.items()
        }

    return process
