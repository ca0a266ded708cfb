"""Records and errors of the fake Bot API."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web

When = Literal["before", "after"]
Params = dict[str, Any]
Json = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One request of the bot.

    Attributes:
        method: The Bot API method, spelled as documented.
        params: Parsed parameters; files appear as their names.
        at: `time.monotonic()` when the answer was ready.
        ok: True if the answer was `"ok": true`.
        status: HTTP status of the answer; 0 without an answer.
        error: Description of the error, or empty.
    """

    method: str
    params: Params
    at: float
    ok: bool
    status: int = 200
    error: str = ""


@dataclass(eq=False)
class SentMessage:
    """A message of the bot in its current state.

    Attributes:
        text: The current text (a media message's caption, a rich message's source).
        edits: Texts set by edits, oldest first.
        first: The original text.
        at: `time.monotonic()` when it was sent.
        link_preview: Current options of its link preview.
        receiver: The only member who sees it, if it is ephemeral.
    """

    message_id: int
    chat_id: int
    text: str
    entities: list[Json] = field(default_factory=list)
    thread_id: int | None = None
    reply_to: int | None = None
    reply_markup: Json | None = None
    at: float = 0.0
    method: str = "sendMessage"
    parse_mode: str | None = None
    edits: list[str] = field(default_factory=list)
    deleted: bool = False
    link_preview: Json | None = None
    receiver: int | None = None
    first: str = field(init=False)

    def __post_init__(self) -> None:
        self.first = self.text

    @property
    def shown(self) -> list[str]:
        """All texts that the message has had, oldest first."""
        return [self.first, *self.edits]


@dataclass(frozen=True)
class Draft:
    """One frame of a streamed draft."""

    chat_id: int
    draft_id: int
    text: str
    entities: list[Json]
    thread_id: int | None
    can_stop: bool
    at: float


class ApiError(Exception):
    """An error response of the Bot API."""

    def __init__(self, status: int, description: str, parameters: Json | None = None) -> None:
        super().__init__(description)
        self.status = status
        self.description = description
        self.parameters = parameters

    def response(self) -> web.Response:
        body: Json = {"ok": False, "error_code": self.status, "description": self.description}
        if self.parameters is not None:
            body["parameters"] = self.parameters
        return json_response(body, self.status)


def bad_request(reason: str) -> ApiError:
    """Return a 400 error with the usual prefix."""
    return ApiError(400, f"Bad Request: {reason}")


def json_response(body: Any, status: int = 200) -> web.Response:
    return web.Response(
        text=json.dumps(body, ensure_ascii=False), status=status, content_type="application/json"
    )
