"""Addresses of servers, as settings hold them."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator


def check_http_url(value: str) -> str:
    """The address without a slash at its end.

    Raises:
        ValueError: It is no http(s) address.
    """
    try:
        parts = urlsplit(value)
        is_address = parts.port != 0 and parts.scheme in ("http", "https") and parts.hostname
    except ValueError:  # its text quotes the value, which may hold a password
        is_address = None
    if not is_address:
        raise ValueError("it is not an http(s) address")
    return value.rstrip("/")


HttpUrl = Annotated[str, AfterValidator(check_http_url)]
