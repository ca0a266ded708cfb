"""Addresses that settings hold: ``DATABASE_URL``, and those of servers.

A wrong ``DATABASE_URL`` is refused in our words before libpq refuses it in its own, which quote
pieces of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator

# ``DATABASE_URL``: refused in our words before libpq refuses it in its own, which quote pieces.
#
# A password with ``@``, ``/`` or ``?`` in it moves the borders between the parts of an address, so
# that a piece of the password stands where the host, the port or a parameter is expected.

ENCODE = "write special characters in the password percent-encoded (@ as %40)"
BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
# A name, an IPv4 or IPv6 address, or a socket's folder (percent-encoded, or after an @ of Linux).
HOST = re.compile(r"(\[[0-9A-Fa-f:.]+(%25[\w.]+)?\]|[\w.-]*|(%2[Ff]|%40)[\w.%~+-]*)(:\d{0,5})?")
DATABASE = re.compile(r"[^/@:?#\s]*")

SSL_MODES = "disable allow prefer require verify-ca verify-full"
SERVERS = "any read-write read-only primary standby prefer-standby"
TEXTS = """
host hostaddr dbname user password passfile options application_name fallback_application_name
service servicefile client_encoding sslcert sslkey sslpassword sslrootcert sslcrl sslcrldir
sslkeylogfile krbsrvname gsslib requirepeer require_auth scram_client_key scram_server_key
oauth_issuer oauth_client_id oauth_client_secret oauth_scope min_protocol_version
max_protocol_version
"""
NUMBERS = """
connect_timeout keepalives_idle keepalives_interval keepalives_count tcp_user_timeout
"""
SWITCHES = "keepalives sslcompression sslsni gssdelegation requiressl"


def _one_of(words: str) -> re.Pattern[str]:
    return re.compile("|".join(words.split()))


# libpq's parameters, and the values that each takes.
PARAMETERS: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(TEXTS.split(), re.compile(r"[^\x00]*")),
    **dict.fromkeys(NUMBERS.split(), re.compile(r"-?\d{1,9}")),
    **dict.fromkeys(SWITCHES.split(), re.compile(r"[01]")),
    **dict.fromkeys(
        ["ssl_min_protocol_version", "ssl_max_protocol_version"], re.compile(r"TLSv1(\.[0-3])?|")
    ),
    "port": re.compile(r"\d{1,5}(,\d{1,5})*"),
    "sslmode": _one_of(SSL_MODES),
    "ssl": _one_of("true"),  # JDBC's form, which libpq takes too
    "sslnegotiation": _one_of("postgres direct"),
    "sslcertmode": _one_of("disable allow require"),
    "channel_binding": _one_of("disable prefer require"),
    "gssencmode": _one_of("disable prefer require"),
    "target_session_attrs": _one_of(SERVERS),
    "load_balance_hosts": _one_of("disable random"),
}


def find_url_problem(url: str) -> str | None:
    """What is wrong with an address, without a piece of it; None when libpq will take it."""
    scheme, _, rest = url.partition("://")
    if scheme not in ("postgresql", "postgres"):
        return "it does not begin with postgresql://"
    if not rest.isprintable() or " " in rest or BAD_PERCENT.search(rest) or not _is_text(rest):
        return ENCODE
    address, _, query = rest.partition("?")
    authority, _, database = address.partition("/")
    login, at, hosts = authority.rpartition("@")
    if "@" in login or (at and not login.partition(":")[0]):
        return ENCODE
    if not all(map(_is_host, hosts.split(","))) or not DATABASE.fullmatch(database):
        return ENCODE
    return _find_query_problem(query) if "?" in rest else None


def _find_query_problem(query: str) -> str | None:
    for pair in query.split("&") if query else []:
        name, equals, value = pair.partition("=")
        if name not in PARAMETERS or not equals or "?" in value:
            return f"after the ? stands something that is no parameter of libpq; {ENCODE}"
        if not PARAMETERS[name].fullmatch(unquote(value)):
            return f"its parameter {name} has a value that libpq does not know"
        if name == "port" and not all(map(_is_port, value.split(","))):
            return "its port is not between 1 and 65535"
    return None


def _is_host(host: str) -> bool:
    found = HOST.fullmatch(host)
    port = (found.group(4) or "").lstrip(":") if found else ""
    return found is not None and (port == "" or _is_port(port))


def _is_port(text: str) -> bool:
    return text.isdecimal() and 0 < int(text) <= 65535


def _is_text(text: str) -> bool:
    """Whether it is UTF-8, also once it is decoded, and holds no NUL."""
    try:
        decoded = unquote(text, errors="strict")
        decoded.encode()
    except UnicodeError:
        return False
    return "\x00" not in decoded


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
