"""Connections to Telegram by a proxy."""

import asyncio
import ssl
from typing import Any

import aiohttp_socks
import certifi
from aiohttp import ClientProxyConnectionError
from aiohttp.connector import Connection

SECONDS = 15.0  # until the way to Telegram is open
# All that can go wrong before a request is sent; ValueError: a login that the protocol cannot say.
FAILURES = (
    aiohttp_socks.ProxyConnectionError, aiohttp_socks.ProxyError, aiohttp_socks.ProxyTimeoutError,
    asyncio.IncompleteReadError, OSError, ValueError,
)  # fmt: skip


class ProxyConnector(aiohttp_socks.ProxyConnector):
    """Raises an error of aiohttp that says that nothing was sent: a message is then sent again."""

    async def connect(self, req: Any, traces: Any, timeout: Any) -> Connection:  # noqa: ASYNC109
        """Return a connection by the proxy.

        Raises:
            ClientProxyConnectionError: There is none.
        """
        try:
            async with asyncio.timeout(SECONDS):
                return await super().connect(req, traces, timeout)
        except FAILURES as error:
            cause = OSError(type(error).__name__)
            raise ClientProxyConnectionError(req.connection_key, cause) from error


def build_connector(proxy: str) -> ProxyConnector:
    """Build a connector of a proxy: its address with its login."""
    tls = ssl.create_default_context()  # with SSL_CERT_FILE, for a proxy of one's own
    tls.load_verify_locations(certifi.where())
    proxy_ssl = None
    if proxy.startswith("https:"):
        proxy, proxy_ssl = proxy.replace("https:", "http:", 1), tls
    connector = ProxyConnector.from_url(proxy, rdns=True, proxy_ssl=proxy_ssl, ssl=tls)
    assert isinstance(connector, ProxyConnector)
    return connector
