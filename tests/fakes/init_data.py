"""``initData`` as Telegram passes it to a web app: the user, signed with the bot's token."""

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
    """Return the signed initData of a user; ``fields`` add to or replace the usual ones."""
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
    """Return the signature of percent-encoded fields."""
    check_string = "\n".join(f"{name}={unquote(value)}" for name, value in sorted(raw.items()))
    key = hmac.new(b"WebAppData", token.encode(), hashlib.sha256).digest()
    return hmac.new(key, check_string.encode(), hashlib.sha256).hexdigest()
