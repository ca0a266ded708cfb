"""Validation of addresses and keys in settings: ``DATABASE_URL``, URLs of servers, API keys.

A malformed ``DATABASE_URL`` is refused with our own message before libpq sees it: libpq's messages
quote parts of it.
"""

import re
from typing import Annotated, Any
from urllib.parse import urlsplit

from psycopg import Error
from psycopg.conninfo import conninfo_to_dict
from pydantic import AfterValidator, BeforeValidator, SecretStr

# An unescaped ``@``, ``/`` or ``?`` in a password shifts the parts of the address: a piece of the
# password is parsed as the host, the port or a parameter. libpq would quote that piece in its
# error message, and look up a host of that name.

ENCODE = "write special characters in the password percent-encoded (@ as %40)"
# A name, an IPv4 or IPv6 address, or a socket directory (percent-encoded, or abstract: @name).
HOST = re.compile(r"(\[[0-9A-Fa-f:.]+(%25[\w.]+)?\]|[\w.-]*|(%2[Ff]|%40)[\w.%~+-]*)(:\d{0,5})?")
DATABASE = re.compile(r"[^/@:?#\s]*")


def find_url_problem(url: str) -> str | None:
    """Return the problem with a database URL, quoting no part of it; None if it is well-formed.

    The values of its parameters are not checked: ``connect`` does that.
    """
    scheme, _, rest = url.partition("://")
    if scheme not in ("postgresql", "postgres"):
        return "it does not begin with postgresql://"
    address, _, query = rest.partition("?")
    authority, _, database = address.partition("/")
    login, at, hosts = authority.rpartition("@")
    is_odd = not rest.isprintable() or " " in rest or "?" in query
    if is_odd or "@" in login + query.partition("=")[0] or (at and not login.partition(":")[0]):
        return ENCODE
    if not all(map(_is_host, hosts.split(","))) or not DATABASE.fullmatch(database):
        return ENCODE
    try:
        conninfo_to_dict(url)
    except (Error, UnicodeError):
        return ENCODE
    return None


def _is_host(host: str) -> bool:
    match = HOST.fullmatch(host)
    if match is None:
        return False
    port = (match[4] or "").lstrip(":")
    return port == "" or 0 < int(port) <= 65535


def check_http_url(value: str) -> str:
    """Return an http(s) address without its trailing slash.

    Raises:
        ValueError: It is not an http(s) address.
    """
    try:
        parts = urlsplit(value)
        is_address = parts.port != 0 and parts.scheme in ("http", "https") and parts.hostname
    except ValueError:  # its message quotes the value, which may hold a password
        is_address = None
    if not is_address:
        raise ValueError("it is not an http(s) address")
    return value.rstrip("/")


# What copying adds to a value: white space, line ends, quotes, invisible characters.
COPIED = re.compile(r"[\s\x00-\x1f\u00ad\u200b-\u200f\u2060\ufeff\"'`“”„«»]+")


def clean_copied(value: Any) -> Any:
    """Return a key, address or name without what copying adds; None if nothing is left.

    Raises:
        ValueError: It has letters of other alphabets, which no such value has.
    """
    if not isinstance(value, str):
        return value
    cleaned = COPIED.sub("", value)
    if not cleaned.isascii():
        raise ValueError("it has letters other than a-z, which may look like them")
    return cleaned or None


HttpUrl = Annotated[str, BeforeValidator(clean_copied), AfterValidator(check_http_url)]
Key = Annotated[SecretStr | None, BeforeValidator(clean_copied)]
