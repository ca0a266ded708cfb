"""``initData`` as Telegram hands it to a page: who opened it, signed with the bot's token."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import quote, unquote


def signed(
    token: str, user_id: int, moment: datetime, *, language_code: str = "ru", **fields: str
) -> str:
    """Somebody opens the page of the bot of ``token``; ``fields`` go beside or instead."""
    user = {
        "id": user_id, "first_name": "Аня 😀", "last_name": "", "language_code": language_code,
        "allows_write_to_pm": True, "photo_url": "https://t.me/i/userpic/320/x.svg",
    }  # fmt: skip
    usual = {
        "query_id": "AAHdF6IQAAAAAN0XohDhrOrc",
        "user": json.dumps(user, ensure_ascii=False),
        "auth_date": str(int(moment.timestamp())),
        "signature": "zL-ucjNyREiHDE8aihFwpfR9aggP2xiAo3NSpfe-p7",
    }
    raw = {name: quote(value, safe="") for name, value in (usual | fields).items()}
    pairs = "&".join(f"{name}={value}" for name, value in raw.items())
    return f"{pairs}&hash={sign(raw, token)}"


def sign(raw: Mapping[str, str], token: str) -> str:
    """The sum of percent-encoded fields."""
    told = "\n".join(f"{name}={unquote(value)}" for name, value in sorted(raw.items()))
    key = hmac.new(b"WebAppData", token.encode(), hashlib.sha256).digest()
    return hmac.new(key, told.encode(), hashlib.sha256).hexdigest()
