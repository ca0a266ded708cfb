"""Structured logging to stderr, with ids but without message text, tokens or keys.

A terminal gets coloured lines, anything else one JSON object per line.
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
# Bot tokens (also in /bot123:ABC/getMe), keys by their beginnings, logins in addresses.
TOKEN = re.compile(
    r"\d{5,}:[A-Za-z0-9_-]{20,}|(?<=://)[^/@\s]+(?=@)"
    r"|\b(?:sk|gsk|xai|hf|pplx|nvapi|csk|AIza|AQ\.|ya29|eyJ|Bearer )[-_.\w*]{8,}"
)
FRAMES, LINKS = 5, 5  # logged per error: our innermost frames, links of its chain of causes
# Libraries whose INFO lines duplicate ours, or contain text of users.
HTTP_LIBRARIES = ("aiogram", "httpx", "httpx2", "httpcore", "httpcore2", "uvicorn")
QUIET = {
    **dict.fromkeys((*HTTP_LIBRARIES, "alembic", "pymorphy3"), logging.WARNING),
    **dict.fromkeys(("procrastinate", "psycopg.pool"), logging.ERROR),
    **dict.fromkeys(("mcp", "client"), logging.CRITICAL),  # the MCP SDK quotes servers' data
} | {
    logger: level
    for provider in PROVIDERS.values()
    for logger, level in provider.log_levels.items()
}


def configure_logging(level: str, secrets: Sequence[str] = ()) -> None:
    """Send every log line of the process through one formatter to stderr.

    Args:
        level: ``DEBUG``, ``INFO``, ``WARNING`` or ``ERROR``.
        secrets: Values to redact wherever they occur.
    """
    is_terminal = sys.stderr.isatty()
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso"),
        describe_error,
        _build_redactor(secrets),
    ]
    renderer: Any = (
        structlog.dev.ConsoleRenderer()
        if is_terminal
        else structlog.processors.JSONRenderer(ensure_ascii=False, default=repr)
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    # Drop lines of the root logger: the MCP SDK logs received messages there.
    handler.addFilter(lambda record: record.name != "root")
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for name, quiet_level in QUIET.items():
        logging.getLogger(name).setLevel(max(quiet_level, root.level))


def redact_text(text: str, secrets: Sequence[str] = ()) -> str:
    """Replace the secrets, and whatever looks like a token or a key, by asterisks."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return TOKEN.sub("***", text)


def log_extra(**ids: int | str) -> AbstractContextManager[None]:
    """Add these ids to every log line within the context, in this task and those it starts."""
    return structlog.contextvars.bound_contextvars(**ids)


def describe_error(_logger: Any, _method: str, event: Event) -> Event:
    """Replace an exception by its types and innermost frames.

    The messages of foreign exceptions are dropped: validation and database errors quote user text.
    Those of our own errors (``AppError``) and of ``OSError`` are safe, and kept.
    """
    error = event.pop("exc_info", None)
    if isinstance(error, tuple):
        error = error[1]
    elif error is True:
        error = sys.exc_info()[1]
    if isinstance(error, BaseException):
        event["error"] = " <- ".join(_describe(link) for link in islice(causes(error), LINKS))
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames[:-1] if f"{os.sep}src{os.sep}" in frame.filename]
        selected = [*(ours or frames[:-1])[-FRAMES:], *frames[-1:]]
        event["where"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in selected]
    event.pop("stack_info", None)
    return event


def _describe(error: BaseException) -> str:
    name = type(error).__name__
    if isinstance(error, AppError | OSError) and str(error):
        return f"{name}: {error}"
    return name


def _build_redactor(secrets: Sequence[str]) -> Callable[[Any, str, Event], Event]:
    def redact(value: Any) -> Any:
        if isinstance(value, str):
            return redact_text(value, secrets)
        if isinstance(value, dict):
            return {key: redact(entry) for key, entry in value.items()}
        if isinstance(value, list | tuple):
            return [redact(entry) for entry in value]
        if value is None or isinstance(value, int | float):
            return value
        return redact(repr(value))  # as the renderer would write it

    def process(_logger: Any, _method: str, event: Event) -> Event:
        return {
            key: value if key.startswith("_") else redact(value) for key, value in event.items()
        }

    return process
