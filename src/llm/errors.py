"""Mapping of all providers' SDK errors to ours: worth a retry, or not."""

from typing import Any

from src.base import errors

TRANSIENT_STATUS = frozenset({408, 409, 425, 429})
SETUP_STATUS = frozenset({401, 402, 403, 404, 407})  # 407: of a proxy, for its login
# An exhausted quota is reported as 429 too, but a retry does not help.
EXHAUSTED_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
# Codes of refusals in errors without an HTTP status.
REFUSED_CODES = frozenset(
    {"invalid_request_error", "invalid_prompt", "content_filter", "content_policy_violation"}
    | {"context_length_exceeded", "request_too_large", "string_above_max_length"}
)
SETUP_CODES = EXHAUSTED_CODES | frozenset(
    {"authentication_error", "permission_error", "not_found_error", "billing_error"}
    | {"invalid_api_key", "model_not_found"}
)
MAX_RETRY_AFTER = 300.0  # seconds; a longer request to wait is ignored
# Parts of class names of network errors in Python, httpx, its successor, aiohttp and the SDKs.
NETWORK_NAMES = ("OSError", "Timeout", "Connection", "Transport", "Protocol", "RequestError",
                 "Payload")  # fmt: skip


def model_error(error: Exception) -> errors.AppError:
    """Return the error to raise instead of an SDK's.

    The SDKs' classes differ, but all have the HTTP status in ``status_code`` (OpenAI, Anthropic)
    or ``code`` (Google), and use httpx or aiohttp for the network. LangChain wraps some errors, so
    the status may be that of a cause.
    """
    if isinstance(error, errors.AppError):
        return error
    name = type(error).__name__
    source = next((link for link in errors.causes(error) if _status(link) is not None), None)
    if source is None:
        if _is_network_error(error):
            return errors.ModelUnavailableError(f"the model could not be reached ({name})")
        return errors.ModelError(f"the model call failed ({name})")
    status = _status(source) or 0
    if status < 300:  # Anthropic's SDK: an error in mid-stream
        body = getattr(source, "body", None)
        return reported_error(body.get("error", body) if isinstance(body, dict) else body)
    if status in SETUP_STATUS or status < 400 or _codes(source) & EXHAUSTED_CODES:
        return errors.ModelSetupError(f"the provider refuses the bot (HTTP {status}, {name})")
    if status not in TRANSIENT_STATUS and status < 500:
        return errors.ModelError(f"the model refused the request (HTTP {status}, {name})")
    unavailable = errors.ModelUnavailableError(f"the model is unavailable (HTTP {status}, {name})")
    unavailable.retry_after = _retry_after(source)
    return unavailable


def reported_error(problem: Any) -> errors.AppError:
    """Return the error to raise for one that a provider reports inside a successful response.

    Args:
        problem: Its ``error``: a text, or an object with ``code``, ``type``, ``status`` of any
            type.
    """
    fields = problem if isinstance(problem, dict) else {}
    values = [fields.get(name) for name in ("code", "type", "status")]
    codes = {value for value in values if isinstance(value, str)}
    status = next((number for value in values if (number := _as_status(value))), 500)
    if codes & SETUP_CODES or status in SETUP_STATUS:
        return errors.ModelSetupError("the provider refuses the bot in mid-reply")
    if codes & REFUSED_CODES or (status < 500 and status not in TRANSIENT_STATUS):
        return errors.ModelError("the model refused the request in mid-reply")
    return errors.ModelReplyError("the provider reported an error in mid-reply")


def _as_status(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) == 3:
        value = int(value)
    return value if type(value) is int and 400 <= value < 600 else None


def _status(error: BaseException) -> int | None:
    if type(error).__module__ == "aiohttp.http_exceptions":
        return None  # a malformed response, whose ``code`` was not sent by the server
    for attribute in ("status_code", "code"):
        value = getattr(error, attribute, None)
        if isinstance(value, int) and 100 <= value < 600:
            return int(value)
    return None


def _codes(error: BaseException) -> set[str]:
    values = (getattr(error, "code", None), getattr(error, "type", None))
    return {value for value in values if isinstance(value, str)}


def _is_network_error(error: BaseException) -> bool:
    names = (base.__name__ for link in errors.causes(error) for base in type(link).__mro__)
    return any(part in name for name in names for part in NETWORK_NAMES)


def _retry_after(error: BaseException) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", {})
    try:
        seconds = float(headers.get("retry-after", ""))
    except (TypeError, ValueError):
        return None
    return seconds if 0 < seconds <= MAX_RETRY_AFTER else None
