"""The ways through proxies, hop by hop, for the doctor."""

import asyncio
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx2
from socksio import ProtocolError

from src.base.config import Settings
from src.base.errors import causes
from src.base.providers import find_provider
from src.base.proxies import without_login

SECONDS = 10.0  # for each step of a request
NOWHERE = "http://127.0.0.1:9/"  # a proxy that works refuses it, or says that nobody is there
REFUSALS = (403, 407, 502, 503, 504)  # statuses of a proxy
ADDRESS = "correct its address, or start it"
LOGIN = "correct the user and the password in its address (special characters as %40)"
KIND = "is it a proxy of this kind (http, https, socks5), and the port its own?"
RULES = "allow the host in its rules; a host that needs no proxy belongs in NO_PROXY"
BEHIND = "look at the proxy's own network; a host that needs no proxy belongs in NO_PROXY"
# The error of httpx2 and its causes, what fails ({}: the host behind the proxy), and the remedy.
NO_PROXY_ERROR = r"ProtocolError: (?!Server disc)|ProxyError|text/html|ConnectError"
NO_PROXY_STATE = "it answers, but not as a proxy to {}: a page (HTML) or another program"
PROBLEMS = (
    (r"Errno -\d", "its name is unknown", ADDRESS),
    (r"ConnectTimeout", "it cannot be reached", ADDRESS),
    (r"407|Invalid username|Requested .*but got (USER|NO ACC)", "its login is refused", LOGIN),
    (r"Requested .*but got", "it asks for no login", LOGIN),
    (r"not allowed|ProxyError: 403", "it refuses to lead to {}", RULES),
    (r"could not connect|ProxyError: 50\d", "{} behind it cannot be reached", BEHIND),
    (r"CERTIFICATE", "the certificate on the way to {} is not trusted", BEHIND),
    (r"All connection attempts", "nobody listens at its port", ADDRESS),
    (NO_PROXY_ERROR, NO_PROXY_STATE, KIND),
    (r"", "it breaks off the connection to {}", KIND),
)


async def check_proxies(settings: Settings) -> list[tuple[str, str | None]]:
    """Try each way through a proxy; return its state, and its remedy if it fails."""
    ways = dict.fromkeys(_list_ways(settings))
    return await asyncio.gather(*(_check(proxy, origin) for proxy, origin in ways))


def _list_ways(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield each proxy in use, and the origin behind it."""
    models = [settings.chat_model_name, settings.summary_model, settings.extraction_model]
    models += [settings.vision_model, settings.embedding_model]
    providers = filter(None, (find_provider(name or "") for name in models))
    urls = [provider.base_url(settings) or provider.address for provider in providers]
    urls += filter(None, (settings.transcription_base_url, settings.rerank_url))
    ways = [(settings.model_proxy_to(url), url) for url in urls]
    if settings.telegram_bot_token:
        base = settings.telegram_api_base
        ways.insert(0, (settings.telegram_proxy_to(base), base))
    for proxy, url in ways:
        if proxy is not None:
            yield proxy, f"{urlsplit(url).scheme}://{urlsplit(url).netloc}/"


async def _check(proxy: str, origin: str) -> tuple[str, str | None]:
    host, shown = urlsplit(origin).hostname, without_login(proxy)
    problem = await _find_problem(proxy, origin)
    if problem is None:
        return f"{shown} leads to {host}", None
    if "ReadTimeout" in problem:
        if "ReadTimeout" in (await _find_problem(proxy, NOWHERE) or ""):
            return f"{shown}: it does not answer", KIND
        return f"{shown}: {host} behind it does not answer", KIND
    sentence, mend = next((s, m) for pattern, s, m in PROBLEMS if re.search(pattern, problem))
    return f"{shown}: {sentence.format(host)}", mend


async def _find_problem(proxy: str, url: str) -> str | None:
    """Request an address; return the error, or the response of what is no API."""
    try:
        async with httpx2.AsyncClient(proxy=proxy, timeout=SECONDS) as client:
            response = await client.head(url)
    except (httpx2.TransportError, ProtocolError) as error:
        return " <- ".join(f"{type(link).__name__}: {link}" for link in causes(error))
    kind = response.headers.get("content-type", "")
    # An HTTP proxy passes on requests for http: itself, so that it may be the one who answers.
    is_forwarded = proxy.startswith("http") and url.startswith("http:")
    if is_forwarded and (kind.startswith("text/html") or response.status_code in REFUSALS):
        return f"ProxyError: {response.status_code} {kind}"
    return None
