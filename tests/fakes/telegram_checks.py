"""Telegram's validation of a bot's requests."""

from __future__ import annotations

import html
import re
from typing import Any

from tests.fakes import is_integer
from tests.fakes.telegram_types import Json, Params, bad_request

MAX_TEXT_UNITS = 4096
MAX_TEXT_BYTES = 32768
MAX_CAPTION_UNITS = 1024
MAX_BUTTON_BYTES = 64
MAX_COMMANDS = 100

_COMMAND = re.compile(r"[a-z0-9_]{1,32}")
_TAG = re.compile(r"<[^>]*>")


def utf16_length(text: str) -> int:
    """Return the length in UTF-16 code units, as Telegram counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def check_text(params: Params, *, may_be_empty: bool = False) -> str:
    """Return the message's text after checking its size and its entities."""
    text = str(params.get("text") or "")
    if not text.strip() and not may_be_empty:
        raise bad_request("message text is empty")
    if len(text.encode("utf-8", "surrogatepass")) > MAX_TEXT_BYTES:
        raise bad_request("message is too long")
    if utf16_length(_visible_text(text, params.get("parse_mode"))) > MAX_TEXT_UNITS:
        raise bad_request("message is too long")
    check_entities(text, params.get("entities"))
    return text


def check_caption(params: Params) -> str:
    """Return the caption of a media message after checking its size and its entities."""
    caption = str(params.get("caption") or "")
    if utf16_length(_visible_text(caption, params.get("parse_mode"))) > MAX_CAPTION_UNITS:
        raise bad_request("message caption is too long")
    check_entities(caption, params.get("caption_entities"))
    return caption


def check_entities(text: str, entities: Any) -> None:
    """Refuse entities that are malformed, outside the text, or within a surrogate pair."""
    if not entities:
        return
    if not isinstance(entities, list):
        raise bad_request("can't parse entities: Array expected")
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    for entity in entities:
        _check_entity(units, entity)


def _check_entity(units: memoryview, entity: Any) -> None:
    if not isinstance(entity, dict) or not isinstance(entity.get("type"), str):
        raise bad_request("can't parse entities: Object with a type expected")
    offset, length = entity.get("offset"), entity.get("length")
    if not is_integer(offset) or not is_integer(length) or offset < 0 or length < 0:
        raise bad_request("can't parse entities: wrong offset or length of an entity")
    for edge, name in ((offset, "begins"), (offset + length, "ends")):
        if edge > len(units):
            raise bad_request(f"can't parse entities: entity {name} after the end of the text")
        if edge < len(units) and 0xDC00 <= units[edge] <= 0xDFFF:
            raise bad_request(
                f"can't parse entities: entity {name} in the middle of a UTF-16 symbol"
            )


def check_markup(markup: Any, *, knows_disabled: bool = True) -> Json | None:
    """Return the reply markup after checking its buttons."""
    if not markup:
        return None
    if not isinstance(markup, dict):
        raise bad_request("can't parse reply keyboard markup JSON object")
    for row in markup.get("inline_keyboard", []):
        for button in row:
            _check_button(button, knows_disabled)
    return markup


def _check_button(button: Json, knows_disabled: bool) -> None:
    if not button.get("text"):
        raise bad_request('can\'t parse inline keyboard button: field "text" must be non-empty')
    actions = ("callback_data", "web_app", "url", *(["disabled"] if knows_disabled else []))
    if not any(name in button for name in actions):
        raise bad_request("Text buttons are unallowed in the inline keyboard")
    data = button.get("callback_data")
    if data is not None and not 1 <= len(str(data).encode()) <= MAX_BUTTON_BYTES:
        raise bad_request("BUTTON_DATA_INVALID")
    if "web_app" in button:
        check_web_app(button)


def check_web_app(button: Json) -> None:
    """Refuse a button without an https URL; plain http is allowed for 127.0.0.1."""
    url = str((button.get("web_app") or {}).get("url", ""))
    if not button.get("text") or not url.startswith(("https://", "http://127.0.0.1")):
        raise bad_request("BUTTON_URL_INVALID")


def check_commands(commands: Any) -> list[Json]:
    """Return the commands, without their slashes, after checking names and descriptions."""
    if not isinstance(commands, list):
        raise bad_request("can't parse commands JSON object")
    if len(commands) > MAX_COMMANDS:
        raise bad_request("BOT_COMMANDS_TOO_MUCH")
    for command in commands:
        command["command"] = str(command.get("command", "")).removeprefix("/")
        if not _COMMAND.fullmatch(command["command"]):
            raise bad_request("BOT_COMMAND_INVALID")
        if not 1 <= len(str(command.get("description", ""))) <= 256:
            raise bad_request("BOT_COMMAND_DESCRIPTION_INVALID")
    return commands


def _visible_text(text: str, parse_mode: Any) -> str:
    """Return approximately the text that remains after parsing its entities."""
    if str(parse_mode).lower() == "html":
        return html.unescape(_TAG.sub("", text))
    return text
