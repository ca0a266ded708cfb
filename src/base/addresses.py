"""Addresses: of database and servers in settings, with their keys; of proxies; of the webhook.

A malformed ``DATABASE_URL`` is refused with our own message before libpq sees it: libpq's messages
quote parts of it.
"""

import re
import time
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Annotated, Any
from urllib.parse import quote, unquote, urlsplit

from psycopg import Error
from psycopg.conninfo import conninfo_to_dict
from pydantic import AfterValidator, BaseModel, BeforeValidator, SecretStr

# An unescaped ``@``, ``/`` or ``?`` in a password shifts the parts of the address: a piece of the
# password is parsed as the host, the port or a parameter. libpq would quote that piece in its
# error message, and look up a host of that name.

ENCODE = "write special characters in the password percent-encoded (@ as %40)"
UNKNOWN_PARAMETER = "libpq does not know a parameter after its ?, such as pgbouncer; leave it out"
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
    for host in hosts.split(","):
        match = HOST.fullmatch(host)
        if match is None or not 0 < int((match[4] or "").lstrip(":") or 5432) <= 65535:
            return ENCODE
    if not DATABASE.fullmatch(database):
        return ENCODE
    try:
        conninfo_to_dict(url)
    except (Error, UnicodeError) as error:
        return UNKNOWN_PARAMETER if "query parameter" in str(error) else ENCODE
    return None


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


def check_https_url(value: str) -> str:
    """Return an address that Telegram calls, without its trailing slash.

    Raises:
        ValueError: It is neither https nor on this machine.
    """
    address = check_http_url(value)
    is_local = urlsplit(address).hostname in ("localhost", "127.0.0.1", "::1")
    if not (is_local or address.startswith("https://")):
        raise ValueError("Telegram calls only https addresses")
    return address


def parse_networks(values: tuple[str, ...]) -> tuple[str, ...]:
    """Return addresses and networks in the form of networks.

    Raises:
        ValueError: One of them is neither.
    """
    try:
        return tuple(str(ip_network(value, strict=False)) for value in values)
    except ValueError:
        raise ValueError("it is no list of addresses and networks") from None


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
HttpsUrl = Annotated[str, AfterValidator(check_https_url)]
Key = Annotated[SecretStr | None, BeforeValidator(clean_copied)]

# Proxies of a network that blocks.

# A SOCKS proxy always resolves the names: a network that blocks forges them first.
SOCKS = dict.fromkeys(("socks", "socks5", "socks5h"), "socks5")
PORTS = {"http": 80, "https": 443, "socks5": 1080}
LOOPBACK = "localhost,127.0.0.0/8,::1"
LEAST_SECRET = 6  # characters; shorter ones would blank out half of a log


def _normalize(value: SecretStr) -> SecretStr:
    """Return ``scheme://user:password@host:port`` with all its parts percent-encoded."""
    try:
        parts = urlsplit(value.get_secret_value().strip())
        scheme = SOCKS.get(parts.scheme, parts.scheme)
        port = PORTS[scheme]
        if parts.port is not None:
            port = parts.port
    except (ValueError, KeyError):
        raise ValueError("it is not the address of a proxy") from None
    # A piece of a password with an unescaped / ? or # would be taken for the host.
    if not (port and parts.hostname) or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("it is not the address of a proxy")
    login = ":".join(quote(unquote(part or ""), "") for part in (parts.username, parts.password))
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return SecretStr(f"{scheme}://{login}@{host}:{port}".replace("//:@", "//"))


def _with_scheme(value: object) -> object:
    """Return ``host:port`` as other programs read it in ``HTTPS_PROXY``."""
    if isinstance(value, str) and "://" not in value:
        return f"http://{value}"
    return value


ProxyUrl = Annotated[SecretStr, AfterValidator(_normalize)]
SharedProxyUrl = Annotated[ProxyUrl, BeforeValidator(_with_scheme)]


class ProxySettings(BaseModel):
    """The bot's own proxies, and those that all programs of a machine share."""

    telegram_proxy: ProxyUrl | None = None
    model_proxy: ProxyUrl | None = None
    https_proxy: SharedProxyUrl | None = None
    http_proxy: SharedProxyUrl | None = None
    all_proxy: SharedProxyUrl | None = None
    no_proxy: str = ""

    def telegram_proxy_to(self, url: str) -> str | None:
        """Return the proxy, with its login, that leads to a Bot API server; None: direct."""
        return self._find(self.telegram_proxy, url)

    def model_proxy_to(self, url: str) -> str | None:
        """Return the proxy, with its login, that leads to a model's server; None: direct."""
        return self._find(self.model_proxy, url)

    def _find(self, own: SecretStr | None, url: str) -> str | None:
        """Find the proxy to an address, ``own`` or a shared one.

        ``NO_PROXY`` lists hosts that need none, by a name, ``.domain``, network or ``*``. Shared
        proxies do not lead back to this machine.
        """
        parts, direct = urlsplit(url), self.no_proxy
        shared = {"https": self.https_proxy}.get(parts.scheme, self.http_proxy)
        proxy = own or shared or self.all_proxy
        if own is None:
            direct = f"{direct},{LOOPBACK}"
        if proxy is None:
            return None
        host = parts.hostname or ""
        for entry in direct.lower().replace(",", " ").split():
            name = entry.removeprefix("*").removeprefix(".")
            if entry == "*" or name in (host, f"{host}:{parts.port}") or host.endswith(f".{name}"):
                return None
            with suppress(ValueError):
                if ip_address(host) in ip_network(entry, strict=False):
                    return None
        return proxy.get_secret_value()

    def proxy_passwords(self) -> list[str]:
        """Return the passwords of all proxies, as written and decoded, for the log to redact."""
        proxies = (value for name, value in self if name.endswith("_proxy") and name != "no_proxy")
        written = {urlsplit(url.get_secret_value()).password or "" for url in proxies if url}
        forms = written | {unquote(password) for password in written}
        return [password for password in forms if len(password) >= LEAST_SECRET]


def without_login(proxy: str) -> str:
    """Return the address of a proxy as people may see it."""
    scheme, _, rest = proxy.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


# Telegram's view of the webhook: its address, and whether the last calls arrived.

WEBHOOK_PATH = "/telegram/webhook"
RECENT = 900.0  # seconds; Telegram keeps the last error for ever


@dataclass(frozen=True)
class WebhookState:
    """Telegram's answer to ``getWebhookInfo``.

    Attributes:
        url: Address of the webhook; empty without one.
        pending: Number of updates that wait.
        failed_at: Time of the last failed call, in seconds since 1970.
        failure: Its error.
    """

    url: str
    pending: int = 0
    failed_at: float = 0.0
    failure: str | None = None

    def find_problem(self, url: str | None) -> str | None:
        """Return what is wrong, with a remedy after a semicolon; None if Telegram can deliver.

        Args:
            url: The configured address; None to poll.
        """
        host = urlsplit(self.url).hostname
        if url is None:
            if not self.url:
                return None
            return f"a webhook at {host} keeps updates from polling; start the bot, which ends it"
        if not urlsplit(url).path.endswith(WEBHOOK_PATH):
            return f"its address lacks our path; end TELEGRAM_WEBHOOK_URL in {WEBHOOK_PATH}"
        if not self.url:
            return "no webhook is set; start the bot, which sets it"
        if self.url != url:
            return f"the webhook leads to {host}; stop the other program, and start the bot again"
        if self.pending and time.time() - self.failed_at < RECENT:
            return (
                f"{self.pending} updates wait, as Telegram's call failed: "
                f"{self.failure}; look at the proxy, its certificate and its port"
            )
        return None
