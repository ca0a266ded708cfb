"""Proxies of a network that blocks: which one, if any, leads to an address."""

from contextlib import suppress
from ipaddress import ip_address, ip_network
from typing import Annotated
from urllib.parse import quote, unquote, urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, SecretStr

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
        default_port = PORTS[scheme]
        port = default_port
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
        """Hosts of ``NO_PROXY`` need none; shared proxies do not lead back to this machine."""
        parts, direct = urlsplit(url), self.no_proxy
        shared = {"https": self.https_proxy}.get(parts.scheme, self.http_proxy)
        proxy = own or shared or self.all_proxy
        if own is None:
            direct = f"{direct},{LOOPBACK}"
        if proxy is None or _is_listed(direct, parts.hostname or "", parts.port):
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


def _is_listed(hosts: str, host: str, port: int | None) -> bool:
    """Return True if ``NO_PROXY`` lists the host: by a name, ``.domain``, network or ``*``."""
    for entry in hosts.lower().replace(",", " ").split():
        name = entry.removeprefix("*").removeprefix(".")
        if entry == "*" or name in (host, f"{host}:{port}") or host.endswith(f".{name}"):
            return True
        with suppress(ValueError):
            if ip_address(host) in ip_network(entry, strict=False):
                return True
    return False
