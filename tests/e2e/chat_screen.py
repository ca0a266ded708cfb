"""Screenshots of chats as on a phone, drawn by a browser."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from aiogram.types import MessageEntity
from aiogram.utils.text_decorations import html_decoration
from playwright.async_api import Browser

from tests.fakes.telegram_types import SentMessage

PHONE: Any = {"width": 390, "height": 720}
STYLE = """
body { margin: 0; padding: 10px; background: #d5e3c8;
       font: 15px/1.35 'DejaVu Sans', 'Noto Color Emoji', sans-serif;
       min-height: calc(100vh - 20px);
       display: flex; flex-direction: column; justify-content: flex-end; }
.row { max-width: 88%; margin: 3px 0; } .own { align-self: flex-end; } .bot { min-width: 70%; }
.bubble { padding: 7px 11px; border-radius: 14px; background: #fff; white-space: pre-wrap;
          overflow-wrap: anywhere; } .own .bubble { background: #e1f6cb; }
blockquote { margin: 0; padding-left: 8px; border-left: 3px solid #5a9bd5; color: #555; }
.keys { display: flex; gap: 4px; margin-top: 4px; }
.key { flex: 1; padding: 8px 4px; border-radius: 9px; background: #6d8a5dcc; color: #fff;
       text-align: center; font-size: 14px; }
"""
Shown = SentMessage | str


def draw(shown: Sequence[Shown]) -> str:
    """Return the HTML of a chat: the user's texts (on the right) and the bot's messages."""
    rows = "".join(_bot_row(m) if isinstance(m, SentMessage) else _own_row(m) for m in shown)
    return f"<!doctype html><meta charset=utf-8><style>{STYLE}</style><body>{rows}</body>"


async def take_picture(
    browser: Browser, shown: Sequence[Shown], path: Path, *, is_whole: bool = False
) -> None:
    """Save the end of the chat on a phone's screen as a PNG, or all of it (``is_whole``)."""
    page = await browser.new_page(viewport=PHONE)
    await page.set_content(draw(shown))
    await page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    await page.screenshot(path=path, full_page=is_whole)
    await page.close()


def _own_row(text: str) -> str:
    return f'<div class="row own"><div class="bubble">{escape(text)}</div></div>'


def _bot_row(message: SentMessage) -> str:
    entities = [MessageEntity.model_validate(entity) for entity in message.entities]
    text = html_decoration.unparse(message.text or "📄", entities)
    keys = "".join(
        '<div class="keys">'
        + "".join(f'<div class="key">{escape(button["text"])}</div>' for button in row)
        + "</div>"
        for row in (message.reply_markup or {}).get("inline_keyboard", [])
    )
    return f'<div class="row bot"><div class="bubble">{text}</div>{keys}</div>'
