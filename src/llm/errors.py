"""Mapping of all providers' SDK errors to ours: worth a retry, or not.

The table of their wordings, with a remedy for each, is ``failures.toml``.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from src.base import errors

TABLE = Path(__file__).with_name("failures.toml")
NETWORK, REPLY, OTHER = "network", "reply", "other"  # origins other than an HTTP status
# Fields of error bodies that tell a failure, in their order in clues; others may quote users.
CODES = ("code", "type", "status", "reason", "param")
FIELDS = (*CODES, "message", "error", "detail", "details", "loc", "msg", "metadata", "raw")
STATUS = re.compile("[45][0-9][0-9]")
MAX_DEPTH = 5  # of objects in an error body
MAX_CLUE = 4000  # characters
MAX_RETRY_AFTER = 300.0  # seconds; a longer request to wait is ignored
# Parts of class names of network errors in Python, httpx, its successor, aiohttp and the SDKs.
NETWORK_NAMES = re.compile("OSError|Timeout|Connection|Transport|Protocol|RequestError|Payload")
# Errors by the kinds of ``failures.toml`` that no retry mends.
LASTING: Mapping[str, tuple[type[errors.ModelError], str]] = {
    "setup": (errors.ModelSetupError, "the provider refuses the bot"),
    "filtered": (errors.ModelFilteredError, "the provider's filter refused the request"),
    "refused": (errors.ModelRefusedError, "the model refused the request"),
}


class ReportedError(Exception):
    """An error that a provider reports inside a successful response.

    Attributes:
        body: Its ``error``: a text, or an object with ``code``, ``type``, ``status`` of any type.
    """

    def __init__(self, body: Any) -> None:
        """Keep the body out of the message, as it may quote a user."""
        super().__init__()
        self.body = body


@dataclass(frozen=True)
class Failure:
    """Row of ``failures.toml``, which describes the fields."""

    name: str
    clue: re.Pattern[str]
    kind: str
    mend: str


@dataclass(frozen=True)
class Report:
    """Words about a failure; not for logs, as a provider may quote a user.

    Attributes:
        origin: The HTTP status, or ``network``, ``reply``, ``other``.
        words: Codes and sentences of the server, or names and messages of the network's errors.
        is_reply: True if it came inside a successful response, even with a status of its own.
    """

    origin: str
    words: tuple[str, ...]
    is_reply: bool = False

    @property
    def failure(self) -> Failure:
        """Row of the table."""
        clue = " ".join([self.origin, *self.words])[:MAX_CLUE].replace("\n", " ")
        return next(failure for failure in failures() if failure.clue.search(clue))

    @property
    def said(self) -> str:
        """The server's own sentence: the longest of its words; empty if it sent none."""
        if self.origin == OTHER:
            return ""
        return max(self.words, key=len, default="")


@cache
def failures() -> tuple[Failure, ...]:
    """Return the rows of the table, the particular before the general."""
    rows = tomllib.loads(TABLE.read_text("utf-8")).items()
    return tuple(
        Failure(name, re.compile(row["clue"], re.IGNORECASE), row["kind"], row["mend"])
        for name, row in rows
    )


def read_report(error: BaseException) -> Report:
    """Return what an error and its causes tell.

    The SDKs' classes differ, but all have the HTTP status in ``status_code`` (OpenAI, Anthropic)
    or ``code`` (Google), and use httpx or aiohttp for the network. LangChain wraps some errors, so
    the status may be that of a cause.
    """
    links = list(errors.causes(error))
    for link in links:
        status = _status(link)
        if status is not None:
            body = getattr(link, "body", None) or getattr(link, "details", None) or str(link)
            words = tuple(_read_words(body))
            if status < 300:  # also Anthropic's SDK: an error in mid-stream
                return Report(next(filter(STATUS.fullmatch, words), REPLY), words, is_reply=True)
            return Report(str(status), words)
    messages = tuple(f"{type(link).__name__}: {link}" for link in links)
    names = " ".join(base.__name__ for link in links for base in type(link).__mro__)
    if NETWORK_NAMES.search(names):
        return Report(NETWORK, messages)
    return Report(OTHER, messages)


def model_error(error: Exception) -> errors.AppError:
    """Return the error to raise instead of an SDK's."""
    if isinstance(error, errors.AppError):
        return error
    report, name = read_report(error), type(error).__name__
    if report.origin == NETWORK:
        return errors.ModelUnavailableError(f"the model could not be reached ({name})")
    if report.origin == OTHER:
        return errors.ModelError(f"the model call failed ({name})")
    origin = "in mid-reply" if report.is_reply else f"HTTP {report.origin}"
    where = f"({origin}, {report.failure.name})"
    if report.failure.kind in LASTING:
        kind, problem = LASTING[report.failure.kind]
        return kind(f"{problem} {where}")
    if report.is_reply:
        return errors.ModelReplyError(f"the provider reported an error {where}")
    unavailable = errors.ModelUnavailableError(f"the model is unavailable {where}")
    unavailable.retry_after = next(filter(None, map(_retry_after, errors.causes(error))), None)
    return unavailable


def _read_words(body: Any, depth: int = 0) -> Iterator[str]:
    """Yield the texts and numbers of an error body, whatever its form."""
    if isinstance(body, str | int):
        yield str(body)
    elif depth < MAX_DEPTH and isinstance(body, list):
        for entry in body[:MAX_DEPTH]:
            yield from _read_words(entry, depth + 1)
    elif depth < MAX_DEPTH and isinstance(body, dict):
        for name in FIELDS:
            yield from _read_words(body.get(name), depth + 1)


def _status(error: BaseException) -> int | None:
    if type(error).__module__ == "aiohttp.http_exceptions":
        return None  # a malformed response, whose ``code`` was not sent by the server
    if isinstance(error, ReportedError):
        return 200
    for attribute in ("status_code", "code"):
        value = getattr(error, attribute, None)
        if isinstance(value, int) and 100 <= value < 600:
            return int(value)
    return None


def _retry_after(error: BaseException) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", {})
    try:
        seconds = float(headers.get("retry-after", ""))
    except (AttributeError, TypeError, ValueError):
        return None
    if 0 < seconds <= MAX_RETRY_AFTER:
        return seconds
    return None
