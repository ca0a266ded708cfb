"""Parser of Bot API requests in all encodings: method name and parameters."""

from __future__ import annotations

import json
import re
from typing import Any

from aiogram import methods
from aiohttp import web

from tests.fakes.telegram_types import Params, bad_request

METHODS = {
    method.__api_method__.lower(): method.__api_method__
    for method in (getattr(methods, name) for name in methods.__all__)
    if isinstance(getattr(method, "__api_method__", None), str)
}
"""Names of all methods that aiogram knows, by lower-case name (the Bot API ignores case)."""

JSON_FIELDS = frozenset(
    [
        "entities", "caption_entities", "reply_markup", "reply_parameters", "commands", "scope",
        "allowed_updates", "link_preview_options", "rich_message", "media", "message_ids",
        "permissions", "reaction", "menu_button", "ephemeral_message_parameters", "options",
    ]
)  # fmt: skip
INT_FIELDS = frozenset(
    [
        "message_id", "draft_id", "offset", "limit", "timeout", "message_thread_id",
        "reply_to_message_id", "user_id", "max_connections", "cache_time", "from_message_id",
    ]
)  # fmt: skip
BOOL_FIELDS = frozenset(
    [
        "can_stop", "keep_on_stop", "drop_pending_updates", "disable_notification",
        "protect_content", "show_alert", "allow_sending_without_reply", "disable_web_page_preview",
    ]
)  # fmt: skip
_CHAT_ID = re.compile(r"-?\d+")


async def read_params(request: web.Request) -> Params:
    """Return the parameters of the query string and of the body, parsed."""
    params: Params = dict(request.query)
    if request.content_type == "application/json":
        params.update(_parse_body(await request.text()))
    elif request.can_read_body:
        params.update(await request.post())
    return {name: parse_value(name, value) for name, value in params.items()}


def parse_value(name: str, value: Any) -> Any:
    """Convert a form value to the type of its parameter.

    Raises:
        ApiError: 400, when the value has the wrong type.
    """
    if isinstance(value, web.FileField):
        return value.filename
    if not isinstance(value, str):
        return value
    if name in JSON_FIELDS:
        return _parse_json(name, value)
    if name in BOOL_FIELDS:
        return value.lower() in {"true", "yes", "1"}
    if name in INT_FIELDS:
        return _parse_int(name, value)
    if name == "chat_id" and _CHAT_ID.fullmatch(value):
        return int(value)
    return value


def _parse_body(body: str) -> Params:
    try:
        params = json.loads(body)
    except ValueError as exc:
        raise bad_request("can't parse JSON encoded request body") from exc
    if not isinstance(params, dict):
        raise bad_request("can't parse JSON encoded request body: object expected")
    return params


def _parse_json(name: str, value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError as exc:
        raise bad_request(f"can't parse {name.replace('_', ' ')} JSON object") from exc


def _parse_int(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError as exc:
        raise bad_request(f"invalid {name} specified") from exc
