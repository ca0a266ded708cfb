"""Prompt caches that bill by the providers' published rules, for the loopback models.

Tokens are counted by a function of the text; pass a tokenizer for real counts.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
Count = Callable[[str], int]


def quarter(text: str) -> int:
    """Return one token per four characters, rounded up."""
    return -(-len(text) // 4)


@dataclass(frozen=True)
class Billed:
    """Tokens of a prompt: read from the cache, written to it, and uncached."""

    read: int
    written: int
    fresh: int

    @property
    def total(self) -> int:
        """Sum of all tokens."""
        return self.read + self.written + self.fresh


class AnthropicCache:
    """https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching, as of 2026.

    The prompt is a sequence of blocks: tools, system, messages. A prefix that ends at a mark is
    cached for five minutes after its last use if it has ``least`` tokens. A mark matches prefixes
    cached at its own block and at the twenty blocks before it. A request may have at most four
    marks, none on an empty text.
    """

    LOOK_BACK = 20
    MARKS = 4
    LIFETIME = 300.0

    def __init__(
        self, least: int, count: Count = quarter, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._least = least
        self._count = count
        self._now = now
        self._expires_at: dict[str, float] = {}

    def problem(self, request: Json) -> str:
        """Return the error message for an invalid request, else an empty string."""
        marks = [block for _, block in anthropic_blocks(request) if "cache_control" in block]
        if len(marks) > self.MARKS:
            return f"A maximum of 4 blocks with cache_control may be provided. Found {len(marks)}."
        if any(block.get("type") == "text" and not block["text"].strip() for block in marks):
            return "cache_control cannot be set for empty text blocks"
        if request["messages"][0]["role"] != "user":
            return 'messages: first message must use the "user" role'
        return ""

    def bill(self, request: Json) -> Billed:
        """Return the cost of a prompt, and cache its marked prefixes."""
        blocks = list(anthropic_blocks(request))
        hashes, lengths, digest, length = [], [], hashlib.sha256(), 0
        for place, block in blocks:
            text = json.dumps({k: v for k, v in block.items() if k != "cache_control"})
            digest.update(f"{place}{text}".encode())
            length += self._count(readable(block))
            hashes.append(digest.hexdigest())
            lengths.append(length)
        marks = [
            n
            for n, (_, block) in enumerate(blocks)
            if "cache_control" in block and lengths[n] >= self._least
        ]
        now, read, written = self._now(), 0, 0
        for mark in marks:
            for place in range(mark, max(-1, mark - self.LOOK_BACK - 1), -1):
                if self._expires_at.get(hashes[place], now - 1) >= now:
                    self._expires_at[hashes[place]] = now + self.LIFETIME
                    read = max(read, lengths[place])
                    break
        for mark in marks:  # after the lookup: a call only matches prefixes of earlier calls
            written = lengths[mark]
            self._expires_at[hashes[mark]] = now + self.LIFETIME
        written = max(0, written - read)
        return Billed(read, written, length - read - written)


def anthropic_blocks(request: Json) -> Iterator[tuple[str, Json]]:
    """Yield (place, block) of a request in the order of caching."""
    for tool in request.get("tools", ()):
        yield "tools", tool
    system = request.get("system") or ()
    if isinstance(system, str):
        system = [{"type": "text", "text": system}]
    for block in system:
        yield "system", block
    for number, message in enumerate(request["messages"]):
        content = message["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        for block in content:
            yield f"{number} {message['role']}", block


class GoogleCache:
    """Counts prompts as https://ai.google.dev/gemini-api/docs/caching does; caches nothing."""

    def __init__(self, count: Count = quarter) -> None:
        self._count = count

    def problem(self, request: Json) -> tuple[int, str]:
        """Return status and message for an invalid request; status 0 for a valid one."""
        if request["contents"][0].get("role", "user") != "user":
            return 400, "Please ensure that multiturn requests begin with a user turn."
        return 0, ""

    def bill(self, request: Json) -> Billed:
        """Return the cost of a prompt; implicit caching is not modelled."""
        names = ("systemInstruction", "contents")
        texts = [readable(request[name]) for name in names if name in request]
        tools = json.dumps(request.get("tools") or "", ensure_ascii=False)
        return Billed(0, 0, sum(map(self._count, [*texts, tools])))


def google_error(status: int, message: str) -> Json:
    """Return an error in Google's format."""
    names = {400: "INVALID_ARGUMENT", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
             429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}  # fmt: skip
    return {"error": {"code": status, "message": message, "status": names.get(status, "UNKNOWN")}}


def readable(value: Any) -> str:
    """Return all text in a part of a request that the model reads."""
    if isinstance(value, dict):
        fields = (v for k, v in value.items() if k != "cache_control")
        return " ".join(filter(None, map(readable, fields)))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " ".join(filter(None, map(readable, value)))
    return str(value) if value is not None else ""
