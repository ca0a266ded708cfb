"""Errors of any provider's SDK as our own two: worth another try, or not."""

from __future__ import annotations

import httpx

from src.errors import AppError, ModelError, ModelSetupError, ModelUnavailableError

TRANSIENT_STATUS = frozenset({408, 409, 425, 429})
SETUP_STATUS = frozenset({401, 402, 403, 404})
# A quota that is used up answers 429 too, and no retry fills it.
EXHAUSTED_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
MAX_RETRY_AFTER = 300.0  # seconds; a longer wait than this is not waited for


def model_error(error: Exception) -> AppError:
    """The error to raise instead of an SDK's own.

    The SDKs differ in their classes but agree on ``status_code`` (OpenAI, Anthropic) or ``code``
    (Google) as HTTP's number, and build on httpx for everything below HTTP.
    """
    if isinstance(error, AppError):
        return error
    status = _status(error)
    name = type(error).__name__
    if status is None:
        if _is_network(error):
            return ModelUnavailableError(f"the model could not be reached ({name})")
        return ModelError(f"the model call failed ({name})")
    if status in SETUP_STATUS or getattr(error, "code", None) in EXHAUSTED_CODES:
        return ModelSetupError(f"the provider refuses the bot (HTTP {status}, {name})")
    if status not in TRANSIENT_STATUS and status < 500:
        return ModelError(f"the model refused the request (HTTP {status}, {name})")
    unavailable = ModelUnavailableError(f"the model is unavailable (HTTP {status}, {name})")
    unavailable.retry_after = _retry_after(error)
    return unavailable


def _status(error: Exception) -> int | None:
    for attribute in ("status_code", "code"):
        value = getattr(error, attribute, None)
        if isinstance(value, int) and 100 <= value < 600:
            return value
    return None


def _is_network(error: BaseException) -> bool:
    names = ("Timeout", "Connection", "RemoteProtocol")
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, httpx.TransportError | TimeoutError | OSError):
            return True
        if any(part in type(seen).__name__ for part in names):
            return True
        seen = seen.__cause__
    return False


def _retry_after(error: Exception) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", {})
    try:
        seconds = float(headers.get("retry-after", ""))
    except (TypeError, ValueError):
        return None
    return seconds if 0 < seconds <= MAX_RETRY_AFTER else None
