"""Assembly of a model's reply from its chunks, and the usage of a call.

Models write anything, and servers split anywhere: half a character at the end of a chunk,
arguments that are not JSON, two calls with one id, a call without a name. The assembled message
can be stored, sent, logged and put into the next prompt: its text is safe to show, and its calls
are safe to run.
"""

import json
import math
import re
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import AIMessage, ToolCall
from langchain_core.messages.ai import UsageMetadata, add_usage
from langchain_core.messages.base import merge_content

from src.base.errors import ModelReplyError
from src.base.metrics import Metrics
from src.llm.loose_json import parse, read_object
from src.llm.reply_text import ReplyText
from src.llm.text_calls import ARGUMENTS, MAX_SHOWN, UNREADABLE, find_name

MAX_REPLY = 200_000  # characters of text and arguments; the rest is not read
MAX_BLANK = 400  # characters of whitespace, which a small model may write forever
MAX_CALLS = 32  # per reply; further ones are dropped
MAX_ARGUMENTS = 20_000  # characters of JSON per call; no tool of ours needs a tenth of it
# Blocks of content that duplicate the text and the calls of a reply.
REPEATED = frozenset({"text", "tool_use", "tool_call", "function_call", "input_json_delta"})

Ending = Literal["", "length", "filter"]
# Finish reasons of incomplete replies, and of those that failed: these are asked for again.
FILTERED = re.compile("filter|refus|safety|recitation|prohibited|spii|sensitive|b(lock|lack)list")
ENDINGS: tuple[tuple[Ending, re.Pattern[str]], ...] = (
    ("length", re.compile("length|max.*tokens|context_window")),
    ("filter", FILTERED),
)
FAILURE = re.compile("error|overload|^fail|abort|cancel|timeout|insufficient|malformed")
# Controls other than whitespace, noncharacters, and surrogates.
UNSOUND = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
    + "".join(f"{chr(0x10000 * p + 0xFFFE)}{chr(0x10000 * p + 0xFFFF)}" for p in range(1, 17))
    + "]"
)
UNSAFE_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")  # characters that providers refuse in a tool's name
ID = re.compile(r"[A-Za-z0-9_-]{1,40}")  # ids of calls; OpenAI's have at most 40 characters


def new_id() -> str:
    """Return an id for a call; Mistral takes none that is longer or shorter."""
    return uuid.uuid4().hex[:9]


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

    @property
    def uncached_tokens(self) -> int:
        """Tokens of the prompt that the provider has read anew."""
        prompt, cached = self.prompt_tokens or 0, self.cached_tokens or 0
        return prompt - cached

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


def at(value: Any, *path: str | int) -> Any:
    """Return the entry of a JSON value at a path; None if the path does not exist."""
    for step in path:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return None
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
    id: str | None
    name: str = ""
    arguments: str = ""


class ModelReply:
    """Assembles the chunks of one reply into a ``message``.

    Attributes:
        is_coming: True after the first token, even one of hidden reasoning.
        is_finished: True after the provider has reported the end of the reply.
        usage: Usage reported by the provider, if any.
        first_ms: Milliseconds until the first token.
    """

    def __init__(
        self,
        offered: Mapping[str, Collection[str]] | None = None,
        prompt: Iterable[str] = (),
        *,
        known: Collection[str] = (),
        asked: str = "",
        may_think_first: bool = False,
        is_form: bool = False,
    ) -> None:
        """Expect a reply.

        Args:
            offered: Names of the tools that it may call, with the names of their parameters.
            prompt: The texts that it answers.
            known: Names of other tools, whose calls are not shown either.
            asked: What the user wrote: a text that calls tools which they name is an example.
            may_think_first: True if it may begin with thoughts that no tag announces.
            is_form: True if it is JSON, which some models write into their thoughts alone.
        """
        self.is_coming = False
        self.is_finished = False
        self._offered, self._is_form = offered or {}, is_form
        named = {**dict.fromkeys(known, ()), **self._offered}
        named = {name: keys for name, keys in named.items() if name not in asked}
        self._text = ReplyText(named, tuple(prompt), may_think_first=may_think_first, asked=asked)
        self.usage: UsageMetadata | None = None
        self.first_ms = 0
        self._blocks: list[Any] = []
        self._calls: list[_PartialCall] = []
        self._open_calls: dict[Any, _PartialCall] = {}  # by what pieces continue them
        self._pending_surrogate = ""
        self._length = 0  # characters of text and arguments
        self._blank = 0  # characters of trailing whitespace
        self._ending: Ending = ""
        self._is_silent = False  # True while nothing arrives but fields that are not shown

    @property
    def is_full(self) -> bool:
        """True if the reply, or its trailing whitespace, is so long that the rest is not read."""
        return self._length > MAX_REPLY or self._blank >= MAX_BLANK

    @property
    def is_thinking(self) -> bool:
        """True while thoughts arrive, or what may be some."""
        return self._is_silent or self._text.is_thinking

    @property
    def thought_first(self) -> bool:
        """True if it began with thoughts that no tag announced."""
        return self._text.was_unannounced

    def feed(self, piece: AIMessage) -> str:
        """Add a chunk; return its text as it may be shown.

        Raises:
            ModelReplyError: The provider says that the reply failed.
        """
        self.is_coming = True
        metadata = piece.response_metadata
        reason = metadata.get("finish_reason") or metadata.get("stop_reason")
        if reason:
            self.is_finished = True
            ending = str(reason).lower()
            if FAILURE.search(ending):
                raise ModelReplyError("the provider ended the reply with an error")
            found = (name for name, pattern in ENDINGS if pattern.search(ending))
            self._ending = next(found, self._ending)
        if piece.usage_metadata:
            self.usage = add_usage(self.usage, piece.usage_metadata)
        if isinstance(piece.content, list):
            self._blocks.append(piece.content)
        calls: Any = getattr(piece, "tool_call_chunks", None) or [
            {**call, "args": json.dumps(call["args"]), "index": None} for call in piece.tool_calls
        ]
        for chunk in calls:
            self._add_call(chunk)
        self._is_silent = not (calls or reason or piece.usage_metadata or piece.text)
        return self._add_text(str(piece.text))

    def flush(self) -> str:
        """Return the rest of the text at the end of the reply; drop an incomplete character.

        Text that consists of calls is not returned. If the provider sent calls too, those in the
        text are dropped as duplicates.
        """
        start = self._text.feed(sanitize(self._pending_surrogate))
        rest, calls = self._text.flush()
        self._pending_surrogate = ""
        if self._offered and not self._calls:
            for n, (name, args) in enumerate(calls):
                if not isinstance(args, str):
                    args = json.dumps(args, ensure_ascii=False)
                self._add_call({"index": n, "name": name, "args": args})
        return start + rest

    def message(self) -> AIMessage:
        """Return the whole reply: text, and calls with valid arguments and unique ids.

        The text is in ``content``, beside blocks that are no text (a provider needs its model's
        reasoning back between two calls). See ``ending_of``.
        """
        text = self._text.kept
        if self._is_form and not self._ending:
            text = text or "".join(self._text.thoughts)
        merged = merge_content([], *self._blocks)
        blocks = [b for b in merged if isinstance(b, dict) and b.get("type") not in REPEATED]
        content: Any = text
        if blocks:
            content = [*blocks, {"type": "text", "text": text}]
        if self._length > MAX_REPLY:
            self._ending = "length"
        calls: dict[str, ToolCall] = {}
        for call in self._calls:
            id_ = call.id
            if not id_ or id_ in calls or not ID.fullmatch(id_):
                id_ = new_id()
            name = find_name(call.name, self._offered)
            name = UNSAFE_IN_NAME.sub("_", name)[:64] or "unnamed"
            arguments = _unwrap(read_arguments(call.arguments), name, self._offered)
            calls[id_] = ToolCall(name=name, args=arguments, id=id_, type="tool_call")
        ending = {"ending": self._ending}
        return AIMessage(content=content, tool_calls=[*calls.values()], response_metadata=ending)

    def _add_text(self, text: str) -> str:
        """Add a piece of text; hold back a trailing surrogate until its pair arrives."""
        if text.strip():
            self._blank = 0
        self._blank += len(text) - len(text.rstrip())
        text = text[: max(0, MAX_REPLY - self._length + 1)]
        self._length += len(text)
        text, self._pending_surrogate = self._pending_surrogate + text, ""
        if "\ud800" <= text[-1:] <= "\udbff":
            text, self._pending_surrogate = text[:-1], text[-1]
        return self._text.feed(sanitize(text))

    def _add_call(self, chunk: Mapping[str, Any]) -> None:
        """Add a piece of a call; it continues the last one with its index, or with its id."""
        id_, key = chunk.get("id") or None, chunk.get("index")
        if key is None:
            key = id_
        call = self._open_calls.get(key)
        is_another = bool(id_ and chunk.get("name") and id_ != getattr(call, "id", id_))
        if call is None or is_another:
            if len(self._calls) == MAX_CALLS:
                return
            call = self._open_calls[key] = _PartialCall(id_)
            self._calls.append(call)
        call.id = call.id or id_
        call.name = call.name or str(chunk.get("name") or "")
        call.arguments += str(chunk.get("args") or "")
        self._length += len(str(chunk.get("args") or ""))


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
        arguments = read_object(text) if text else {}
        if arguments is None:
            raise TypeError
        checked: dict[str, Any] = _sanitize_value(arguments)
        return checked
    except (ValueError, TypeError, RecursionError):
        return {UNREADABLE: sanitize(text[:MAX_SHOWN])}


def _unwrap(
    arguments: dict[str, Any], name: str, offered: Mapping[str, Collection[str]]
) -> dict[str, Any]:
    """Return arguments out of an object with nothing else: ``{"arguments": {…}}``."""
    for key in (name, "properties", *ARGUMENTS):
        if arguments.keys() == {key} and key not in offered.get(name, ()):
            inner = parse(arguments[key])
            if isinstance(inner, dict):
                return inner
    return arguments


def _sanitize_value(value: Any) -> Any:
    """Return a JSON value with valid texts.

    Raises:
        ValueError: A number is not finite.
    """
    if isinstance(value, str):
        return sanitize(value)
    if isinstance(value, dict):
        return {sanitize(name): _sanitize_value(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_sanitize_value(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("no number of JSON")
    return value
