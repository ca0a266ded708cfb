"""Assembly of a model's reply from its chunks, and the usage of a call.

The text is safe to show, and the calls are safe to run.
"""

import json
import math
import re
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from json import JSONDecoder
from typing import Any, Literal, NoReturn

from langchain_core.messages import AIMessage, AIMessageChunk, ToolCall
from langchain_core.messages.ai import UsageMetadata, add_usage
from langchain_core.messages.base import merge_content

from src.base.metrics import Metrics


@dataclass(frozen=True)
class ModelUsage:
    """Usage of one model call: milliseconds, and token counts (None if implausible).

    ``first_ms`` is the time until the first token; ``error`` is the reason of a failure.
    """

    purpose: str
    model: str
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    duration_ms: int
    first_ms: int = 0
    error: str | None = None

    def count(self, metrics: Metrics) -> None:
        """Add it to the metrics of the process."""
        for kind, tokens in (
            ("prompt", self.prompt_tokens),
            ("cached", self.cached_tokens),
            ("completion", self.completion_tokens),
        ):
            metrics.tokens.labels(self.model, kind).inc(tokens or 0)
        if self.error is None:
            metrics.models.labels(self.purpose).observe(self.duration_ms / 1000)


# Tool calls that a model writes as text, because it or its server lacks support for calls.
#
# A reply consists of calls if it starts with them: JSON objects with the name of an offered tool
# and with arguments, under any of the usual keys, each bare, in a fenced block or in
# ``<tool_call>``, also in double braces, as in Qwen's template. Prose after calls guesses their
# results, and is dropped. JSON after prose is text, and so is JSON copied from the prompt: it
# quotes others. A block of the prompt at the start of a reply is dropped as well.

MAX_HELD = 20_000  # characters that may be calls; a longer reply is text
WRAPPERS = ("", "```", "```json", "```tool_call", "<tool_call>", "<tools>")
# Separators between calls, before the first and after the last.
SEPARATORS = re.compile(r"(?:[\s,;}]|\{(?=\s*\{)|```(?:json|tool_call)?|</?tool_call>|</?tools>)*")
ECHOED = ("<key_facts>", "<memories>", "<wishes>", "<history_summary>")
ECHO = re.compile(rf"\s*(?:{'|'.join(ECHOED)}).*?(?:</\w+>|\Z)\s*", re.DOTALL)


def _refuse(_constant: str) -> NoReturn:
    raise ValueError("NaN and Infinity are no JSON")


JSON = JSONDecoder(parse_constant=_refuse)
WHITE_OR_ESCAPE = re.compile(r"[\s\\]+")
ARGUMENTS = ("arguments", "parameters", "args", "input")
NAME_KEYS = ("name", "function", "tool", "tool_name", "action")

TextCall = tuple[str, dict[str, Any]]


class HeldText:
    """Passes on the text of a reply, but holds back a start that may become calls."""

    def __init__(self, offered: Collection[str], prompt: Iterable[str] = ()) -> None:
        """Detect calls of the tools ``offered``, unless copied from ``prompt``."""
        self._offered = frozenset(offered)
        self._prompt = prompt
        self._held: list[str] = []
        self._length = 0
        self._compact = ""  # the start without whitespace, until it is classified
        self._is_text = not offered
        self._has_begun = False

    def feed(self, text: str) -> str:
        """Add a chunk; return the text that is certain not to be calls."""
        if self._is_text or not text:
            return text
        self._held.append(text)
        self._length += len(text)
        if self._length > MAX_HELD or not self._could_be_calls(text):
            return self._release()
        return ""

    def flush(self) -> tuple[str, list[TextCall]]:
        """Return the rest at the end of the reply: text, or the calls that it contains."""
        text = self._release()
        if not self._has_begun or self._length > MAX_HELD:
            return text, []
        calls = read_text_calls(text, self._offered, self._prompt)
        echo = ECHO.match(text)
        rest = text[echo.end() :] if echo is not None else text
        return ("", calls) if calls else (rest, [])

    def _release(self) -> str:
        self._is_text = True
        text, self._held = "".join(self._held), []
        return text

    def _could_be_calls(self, text: str) -> bool:
        if self._has_begun:
            return True
        self._compact += "".join(text.split())
        openings = _openings(self._offered)
        self._has_begun = self._compact.startswith(openings)
        return self._has_begun or any(o.startswith(self._compact) for o in openings)


def read_text_calls(
    text: str, offered: Collection[str], prompt: Iterable[str] = ()
) -> list[TextCall]:
    """Return the calls that a text starts with.

    Empty if anything else precedes them, or if one is malformed or copied from ``prompt``.
    """
    calls: list[TextCall] = []
    sources: list[str] = []
    try:
        position = _skip(text, 0)
        while position < len(text) and not (calls and text[position] not in "{["):
            value, end = JSON.raw_decode(text, position)
            calls += _calls_in(value, offered)
            sources.append(_strip_blanks(text[position:end]))
            position = _skip(text, end)
    except (ValueError, TypeError, RecursionError):
        return []
    prompt_text = _strip_blanks("\n".join(prompt)) if calls else ""
    return [] if any(source in prompt_text for source in sources) else calls


def _skip(text: str, position: int) -> int:
    between = SEPARATORS.match(text, position)
    return position if between is None else between.end()


def _calls_in(value: Any, offered: Collection[str]) -> Iterator[TextCall]:
    """Yield the calls in an object, or in a list of them.

    Raises:
        TypeError: It is anything else.
        ValueError: Arguments given as text, as in OpenAI's protocol, are not JSON.
    """
    for entry in value if isinstance(value, list) else [value]:
        call = entry.get("function", entry) if isinstance(entry, dict) else None
        call = entry if isinstance(call, str) else call
        if not isinstance(call, dict):
            raise TypeError
        name = next((call[key] for key in NAME_KEYS if key in call), None)
        if not isinstance(name, str) or name not in offered:
            raise TypeError
        arguments = next((call[key] for key in ARGUMENTS if key in call), None)
        if isinstance(arguments, str):
            arguments = JSON.decode(arguments)
        if not isinstance(arguments, dict):
            raise TypeError
        yield name, arguments


@lru_cache(maxsize=32)
def _openings(offered: frozenset[str]) -> tuple[str, ...]:
    """Return the possible starts of calls and of echoed blocks, without whitespace."""
    keys = [f'"{key}":' for key in (*ARGUMENTS, "function")]
    names = (f'"{key}":"{name}"' for key, name in product(NAME_KEYS, offered))
    heads = [*names, '"type":"function"', *keys]
    calls = ("".join(parts) for parts in product(WRAPPERS, ("{", "[{", "{{"), heads))
    return (*calls, *ECHOED)


def _strip_blanks(text: str) -> str:
    """Remove whitespace and escapes, so that quoted JSON is found in a prompt."""
    return WHITE_OR_ESCAPE.sub("", text)


# Assembly of a reply from its chunks.
#
# Models write anything, and servers split anywhere: half a character at the end of a chunk,
# arguments that are not JSON, two calls with one id, a call without a name. The assembled message
# can be stored, sent, logged and put into the next prompt.

MAX_TEXT = 200_000  # characters of text that are kept; later calls are still read
MAX_REPLY = 2_000_000  # characters of text and arguments; the rest is not read
MAX_BLANK = 400  # characters of whitespace, which a small model may write forever
MAX_CALLS = 32  # per reply; further ones are dropped
MAX_ARGUMENTS = 20_000  # characters of JSON per call; no tool of ours needs a tenth of it
MAX_DEPTH = 20  # of lists and objects in arguments
MAX_SHOWN = 200  # characters of unreadable arguments that are returned to the model
# Blocks of content that duplicate the text and the calls of a reply.
REPEATED = frozenset({"text", "tool_use", "tool_call", "function_call", "input_json_delta"})
# The only argument of a call with unreadable arguments; no tool has an argument of this name.
UNREADABLE = "unreadable arguments"

Ending = Literal["", "length", "filter"]
# Finish reasons of incomplete replies, of OpenAI, Anthropic and Google.
ENDINGS: dict[str, Ending] = {
    **dict.fromkeys(("length", "max_tokens", "model_length"), "length"),
    **dict.fromkeys(("content_filter", "refusal", "safety", "recitation", "blocklist"), "filter"),
    **dict.fromkeys(("prohibited_content", "spii"), "filter"),
}
# Controls other than whitespace, noncharacters, and surrogates.
UNSOUND = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
    + "".join(f"{chr(0x10000 * p + 0xFFFE)}{chr(0x10000 * p + 0xFFFF)}" for p in range(1, 17))
    + "]"
)
UNSAFE_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")  # characters that providers refuse in a tool's name
ID = re.compile(r"[A-Za-z0-9_-]{1,40}")  # ids of calls; OpenAI's have at most 40 characters


def at(value: Any, *path: str | int) -> Any:
    """Return the entry of a JSON value at a path; None if the path does not exist."""
    for step in path:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and len(value) > step else None
        else:
            value = value.get(step) if isinstance(value, Mapping) else None
    return value


def sanitize(text: str) -> str:
    """Replace with U+FFFD all that databases, terminals or messengers cannot store.

    Two adjacent surrogates that form a character become that character.
    """
    if UNSOUND.search(text) is None:
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return UNSOUND.sub("\ufffd", joined)


@dataclass
class _PartialCall:
    index: Any
    id: str | None
    name: str
    arguments: list[str] = field(default_factory=list)


class ModelReply:
    """Assembles the chunks of one reply into a ``message``.

    Attributes:
        is_coming: True after the first token, even one of hidden reasoning.
        is_finished: True after the provider has reported the end of the reply.
        usage: Usage reported by the provider, if any.
        first_ms: Milliseconds until the first token of a complete reply; 0 before its end.
    """

    def __init__(self, offered: Collection[str] = (), prompt: Iterable[str] = ()) -> None:
        """Expect the reply to ``prompt``, with the tools ``offered``."""
        self.is_coming = False
        self.is_finished = False
        self._held = HeldText(offered, prompt)
        self.usage: UsageMetadata | None = None
        self.first_ms = 0
        self._texts: list[str] = []
        self._blocks: list[Any] = []
        self._calls: list[_PartialCall] = []
        self._pending_surrogate = ""
        self._room = MAX_REPLY
        self._blank = 0  # characters of trailing whitespace
        self._room_for_text = MAX_TEXT
        self._ending: Ending = ""

    @property
    def is_full(self) -> bool:
        """True if the reply, or its trailing whitespace, is so long that the rest is not read."""
        return self._room <= 0 or self._blank >= MAX_BLANK

    @property
    def has_begun(self) -> bool:
        """True if any text or call has arrived."""
        return self._room < MAX_REPLY

    def feed(self, piece: AIMessage) -> str:
        """Add a chunk; return its text as it may be shown."""
        self.is_coming = True
        metadata = piece.response_metadata
        reason = metadata.get("finish_reason") or metadata.get("stop_reason")
        if reason:
            self.is_finished = True
            self._ending = ENDINGS.get(str(reason).lower(), self._ending)
        if piece.usage_metadata:
            self.usage = add_usage(self.usage, piece.usage_metadata)
        if isinstance(piece.content, list):
            self._blocks.append(piece.content)
        chunks: Any = piece.tool_call_chunks if isinstance(piece, AIMessageChunk) else ()
        for chunk in chunks or _as_chunks(piece):
            self._add_call(chunk)
        return self._add_text(str(piece.text))

    def flush(self) -> str:
        """Return the rest of the text at the end of the reply; drop an incomplete character.

        Text that consists of calls is not returned. If the provider sent calls too, those in the
        text are dropped as duplicates.
        """
        start = self._held.feed(sanitize(self._pending_surrogate))
        rest, calls = self._held.flush()
        self._pending_surrogate = ""
        if not self._calls:
            for name, args in calls:
                arguments = json.dumps(args, ensure_ascii=False)
                self._add_call({"name": name, "args": arguments})
        self._texts.append(start + rest)
        return start + rest

    def message(self) -> AIMessage:
        """Return the whole reply: text, and calls with valid arguments and unique ids.

        The text is in ``content``, beside blocks that are no text (a provider needs its model's
        reasoning back between two calls). See ``ending_of``.
        """
        text = "".join(self._texts)
        merged = merge_content([], *self._blocks) if self._blocks else []
        blocks = [b for b in merged if isinstance(b, dict) and b.get("type") not in REPEATED]
        content: Any = [*blocks, {"type": "text", "text": text}] if blocks else text
        return AIMessage(
            content=content,
            tool_calls=list(self._tool_calls()),
            response_metadata={"ending": "length" if self._room_for_text <= 0 else self._ending},
        )

    def _add_text(self, text: str) -> str:
        """Add a piece of text; hold back a trailing surrogate until its pair arrives."""
        self._room -= len(text)
        trailing = len(text) - len(text.rstrip())
        self._blank = self._blank + trailing if trailing == len(text) else trailing
        text = text[: max(0, self._room_for_text)]
        self._room_for_text -= len(text)
        text = self._pending_surrogate + text
        surrogate = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        self._pending_surrogate = surrogate
        released = self._held.feed(sanitize(text[: len(text) - len(surrogate)]))
        self._texts.append(released)
        return released

    def _add_call(self, chunk: Mapping[str, Any]) -> None:
        name, arguments = str(chunk.get("name") or ""), str(chunk.get("args") or "")
        index, id_ = chunk.get("index"), chunk.get("id") or None
        call = next((c for c in reversed(self._calls) if _continues(c, index, id_, name)), None)
        if call is None:
            if len(self._calls) == MAX_CALLS:
                return
            call = _PartialCall(index, id_, "")
            self._calls.append(call)
        call.id = call.id or id_
        call.name = call.name or name
        call.arguments.append(arguments)
        self._room -= len(arguments)

    def _tool_calls(self) -> Iterator[ToolCall]:
        ids: set[str] = set()
        for call in self._calls:
            own_id = call.id if call.id and ID.fullmatch(call.id) else None
            id_ = own_id if own_id and own_id not in ids else f"call_{uuid.uuid4().hex}"
            ids.add(id_)
            name = UNSAFE_IN_NAME.sub("_", call.name)[:64] or "unnamed"
            arguments = read_arguments("".join(call.arguments))
            yield ToolCall(name=name, args=arguments, id=id_, type="tool_call")


def ending_of(message: AIMessage) -> Ending:
    """Return why a reply is incomplete (length limit, filter); empty if it is complete."""
    ending: Ending = message.response_metadata.get("ending", "")
    return ending


def read_arguments(text: str) -> dict[str, Any]:
    """Parse the arguments of a call; if invalid, return their start as ``UNREADABLE``.

    Truncated JSON is not completed: an incomplete call must not run.
    """
    try:
        if len(text) > MAX_ARGUMENTS:
            raise ValueError("too long")
        arguments = JSON.decode(text or "{}")
        if not isinstance(arguments, dict):
            raise TypeError
        return {sanitize(name): _sanitize_value(value) for name, value in arguments.items()}
    except (ValueError, TypeError, RecursionError):
        return {UNREADABLE: sanitize(text[:MAX_SHOWN])}


def _sanitize_value(value: Any, depth: int = 1) -> Any:
    """Return a JSON value with valid texts.

    Raises:
        ValueError: It is nested too deeply, or a number is not finite.
    """
    if isinstance(value, str):
        return sanitize(value)
    if depth > MAX_DEPTH or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError("no value")
    if isinstance(value, dict):
        return {sanitize(name): _sanitize_value(entry, depth + 1) for name, entry in value.items()}
    if isinstance(value, list):
        return [_sanitize_value(entry, depth + 1) for entry in value]
    return value


def _continues(call: _PartialCall, index: Any, id_: str | None, name: str) -> bool:
    """Return True if a piece continues a call: by number, by id, or because it has neither."""
    if id_ and call.id and id_ != call.id:
        return False
    if index is not None:
        return bool(call.index == index)
    return bool(id_ and id_ == call.id) or not (id_ or name)


def _as_chunks(piece: AIMessage) -> list[dict[str, Any]]:
    return [
        {"name": call["name"], "args": json.dumps(call["args"]), "id": call["id"], "index": None}
        for call in piece.tool_calls
    ]
