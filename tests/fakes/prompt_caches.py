"""What providers bill as cached, by their published rules; the loopback models report it.

Tokens are counted by a function of the text; whoever wants real ones passes a tokenizer.
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
    """A token for every four characters."""
    return -(-len(text) // 4)


@dataclass(frozen=True)
class Billed:
    """The tokens of a prompt: read from the cache, written to it, and neither."""

    read: int
    written: int
    fresh: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.read + self.written + self.fresh


class AnthropicCache:
    """https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching, as of 2026.

    The prompt is a row of blocks: tools, system, messages. What stands before a mark is kept when
    it has ``least`` tokens, for five minutes after its last use. A mark finds what was kept at
    its own block and at the twenty before it. At most four marks, none on an empty text.
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
        self._kept: dict[str, float] = {}

    def problem(self, request: Json) -> str:
        """Why the API refuses the request; empty when it does not."""
        marks = [block for _, block in anthropic_blocks(request) if "cache_control" in block]
        if len(marks) > self.MARKS:
            return f"A maximum of 4 blocks with cache_control may be provided. Found {len(marks)}."
        if any(block.get("type") == "text" and not block["text"].strip() for block in marks):
            return "cache_control cannot be set for empty text blocks"
        if request["messages"][0]["role"] != "user":
            return 'messages: first message must use the "user" role'
        return ""

    def bill(self, request: Json) -> Billed:
        """What the prompt costs, and from now on what it began with is kept."""
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
                if self._kept.get(hashes[place], now - 1) >= now:
                    self._kept[hashes[place]] = now + self.LIFETIME
                    read = max(read, lengths[place])
                    break
        for mark in marks:  # only now: a call finds what earlier ones have left
            written = lengths[mark]
            self._kept[hashes[mark]] = now + self.LIFETIME
        written = max(0, written - read)
        return Billed(read, written, length - read - written)


def anthropic_blocks(request: Json) -> Iterator[tuple[str, Json]]:
    """The blocks of a request in the order in which they are kept, each with where it stands."""
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
    """https://ai.google.dev/gemini-api/docs/caching, as of 2026: contents under a name.

    They hold system instruction, tools, and contents, at least ``least`` tokens of them, until
    they expire. A request that names them must not have any of its own but contents.
    """

    def __init__(
        self, least: int, count: Count = quarter, now: Callable[[], float] = time.time
    ) -> None:
        self._least = least
        self._count = count
        self.now = now
        self.kept: dict[str, Json] = {}

    def tokens(self, parts: Json) -> int:
        """Of the fields of a request or of contents that are read by the model."""
        said = [
            readable(parts[name]) for name in ("systemInstruction", "contents") if name in parts
        ]
        tools = json.dumps(parts.get("tools") or "", ensure_ascii=False)  # with names of arguments
        return sum(map(self._count, [*said, tools]))

    def create(self, body: Json) -> tuple[int, Json]:
        """The status and the body of the answer to POST cachedContents."""
        tokens = self.tokens(body)
        if tokens < self._least:
            text = f"Cached content is too small. total_token_count={tokens}, "
            return 400, google_error(400, f"{text}min_total_token_count={self._least}")
        name = f"cachedContents/{len(self.kept) + 1}"
        self.kept[name] = {**body, "name": name, "tokens": tokens}
        return 200, self.extend(name, body["ttl"])

    def extend(self, name: str, ttl: str) -> Json:
        """Keep it for so long from now; what the API says about it."""
        kept = self.kept[name]
        kept["until"] = self.now() + float(ttl.removesuffix("s"))
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(kept["until"]))
        return {
            "name": name,
            "model": kept["model"],
            "expireTime": moment,
            "usageMetadata": {"totalTokenCount": kept["tokens"]},
        }

    def find(self, name: str) -> Json | None:
        """What is kept under a name and has not expired."""
        kept = self.kept.get(name)
        return kept if kept is not None and kept["until"] > self.now() else None

    def problem(self, request: Json) -> tuple[int, str]:
        """Why the API refuses a request: status and text; 0 when it does not."""
        if request["contents"][0].get("role", "user") != "user":
            return 400, "Please ensure that multiturn requests begin with a user turn."
        name = request.get("cachedContent")
        if not name:
            return 0, ""
        if any(request.get(field) for field in ("systemInstruction", "tools", "toolConfig")):
            return 400, (
                "CachedContent can not be used with GenerateContent request setting "
                "system_instruction, tools or tool_config."
            )
        if self.find(name) is None:
            return 403, "CachedContent not found (or permission denied)"
        return 0, ""

    def bill(self, request: Json) -> Billed:
        """What the prompt costs; what is cached without being asked for is not in it."""
        kept = self.find(request.get("cachedContent") or "")
        return Billed(kept["tokens"] if kept else 0, 0, self.tokens(request))


def google_error(status: int, message: str) -> Json:
    """An error as Google's APIs report it."""
    names = {400: "INVALID_ARGUMENT", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
             429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}  # fmt: skip
    return {"error": {"code": status, "message": message, "status": names.get(status, "UNKNOWN")}}


def readable(value: Any) -> str:
    """All that a model reads of a part of a request."""
    if isinstance(value, dict):
        fields = (v for k, v in value.items() if k != "cache_control")
        return " ".join(filter(None, map(readable, fields)))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " ".join(filter(None, map(readable, value)))
    return str(value) if value is not None else ""
