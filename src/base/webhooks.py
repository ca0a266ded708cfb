"""Telegram's view of the webhook: its address, and whether the last calls arrived."""

import time
from dataclasses import dataclass
from urllib.parse import urlsplit

PATH = "/telegram/webhook"
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


def find_problem(state: WebhookState, url: str | None) -> str | None:
    """Return what is wrong, with a remedy after a semicolon; None if Telegram can deliver.

    Args:
        state: Telegram's answer.
        url: The configured address; None to poll.
    """
    host = urlsplit(state.url).hostname
    if url is None:
        if not state.url:
            return None
        return f"a webhook at {host} keeps updates from polling; start the bot, which removes it"
    if not urlsplit(url).path.endswith(PATH):
        return f"the webhook's address lacks our path; end TELEGRAM_WEBHOOK_URL in {PATH}"
    if not state.url:
        return "no webhook is set; start the bot, which sets it"
    if state.url != url:
        return f"the webhook leads to {host}; stop the other program, and start the bot again"
    if state.pending and time.time() - state.failed_at < RECENT:
        return (
            f"{state.pending} updates wait, as Telegram's call failed: "
            f"{state.failure}; look at the proxy, its certificate and its port"
        )
    return None
