"""Addresses that settings hold: ``DATABASE_URL``, and those of servers.

A wrong ``DATABASE_URL`` is refused in our words before libpq refuses it in its own, which quote
pieces of it.
"""

import re
from typing import Annotated
from urllib.parse import urlsplit

from psycopg import Error
from psycopg.conninfo import conninfo_to_dict
from pydantic import AfterValidator

# A password with ``@``, ``/`` or ``?`` in it moves the borders between the parts of an address, so
# that a piece of the password stands where the host, the port or a parameter is expected. What
# libpq says of it quotes that piece, and a host's name goes out to be looked up.

ENCODE = "write special characters in the password percent-encoded (@ as %40)"
# A name, an IPv4 or IPv6 address, or a socket's folder (percent-encoded, or after an @ of Linux).
HOST = re.compile(r"(\[[0-9A-Fa-f:.]+(%25[\w.]+)?\]|[\w.-]*|(%2[Ff]|%40)[\w.%~+-]*)(:\d{0,5})?")
DATABASE = re.compile(r"[^/@:?#\s]*")


def find_url_problem(url: str) -> str | None:
    """What is wrong with the parts of an address, without a piece of it; None when nothing is.

    Whether the values of its parameters are libpq's, ``connect`` finds out.
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
    found = HOST.fullmatch(host)
    port = (found.group(4) or "").lstrip(":") if found else ""
    return found is not None and (port == "" or 0 < int(port) <= 65535)


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
