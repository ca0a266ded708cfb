"""A model's reply while it arrives, and what the call cost.

Its text as it may be shown, its calls as they may be run.
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
    """One call of a model: milliseconds, and token counts (None where they make no sense).

    ``first_ms`` of the milliseconds were waited for the first token; ``error`` says why it failed.
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
        """Add it to the process's counts."""
        for kind, tokens in (
            ("prompt", self.prompt_tokens),
            ("cached", self.cached_tokens),
            ("completion", self.completion_tokens),
        ):
            metrics.tokens.labels(self.model, kind).inc(tokens or 0)
        if self.error is None:
            metrics.models.labels(self.purpose).observe(self.duration_ms / 1000)


# Tool calls that a model writes as text, because it or its server knows no better.
#
# A reply is such calls when it begins with them: JSON objects with a name that was offered and
# with arguments, under any of the usual keys, each bare, in a fenced block or in ``<tool_call>``,
# also in braces twice, as Qwen's template shows them. Prose behind them guesses their results, and
# goes; JSON behind prose is text, and so is what stands in the prompt word for word: words of
# others. A block of the prompt with which a reply begins is no answer, and goes as well.

MAX_HELD = 20_000  # characters that may be calls; what is longer is text
WRAPS = ("", "```", "```json", "```tool_call", "<tool_call>", "<tools>")
# What may stand between two calls, before the first and after the last.
BETWEEN = re.compile(r"(?:[\s,;}]|\{(?=\s*\{)|```(?:json|tool_call)?|</?tool_call>|</?tools>)*")
ECHOED = ("<key_facts>", "<memories>", "<wishes>", "<history_summary>")
ECHO = re.compile(rf"\s*(?:{'|'.join(ECHOED)}).*?(?:</\w+>|\Z)\s*", re.DOTALL)


def _refuse(_constant: str) -> NoReturn:
    raise ValueError("NaN and Infinity are no JSON")


JSON = JSONDecoder(parse_constant=_refuse)
WHITE_OR_ESCAPE = re.compile(r"[\s\\]+")
ARGUMENTS = ("arguments", "parameters", "args", "input")
NAMES = ("name", "function", "tool", "tool_name", "action")

TextCall = tuple[str, dict[str, Any]]


class HeldText:
    """Passes the text of a reply on, but for a beginning that may become calls."""

    def __init__(self, offered: Collection[str], prompt: Iterable[str] = ()) -> None:
        """Look for calls of the tools ``offered``; what ``prompt`` quotes is none."""
        self._offered = frozenset(offered)
        self._prompt = prompt
        self._held: list[str] = []
        self._length = 0
        self._compact = ""  # the beginning without its spaces, until it is known
        self._is_text = not offered
        self._has_begun = False

    def feed(self, text: str) -> str:
        """Take the next piece; return what is text for certain."""
        if self._is_text or not text:
            return text
        self._held.append(text)
        self._length += len(text)
        if self._length > MAX_HELD or not self._may_be_calls(text):
            return self._release()
        return ""

    def flush(self) -> tuple[str, list[TextCall]]:
        """The rest at the end of the reply: text, or the calls that it is."""
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

    def _may_be_calls(self, text: str) -> bool:
        if self._has_begun:
            return True
        self._compact += "".join(text.split())
        openings = _openings(self._offered)
        self._has_begun = self._compact.startswith(openings)
        return self._has_begun or any(o.startswith(self._compact) for o in openings)


def read_text_calls(
    text: str, offered: Collection[str], prompt: Iterable[str] = ()
) -> list[TextCall]:
    """The calls that a text begins with.

    None when anything else stands before them, or one is malformed, or was copied from ``prompt``.
    """
    calls: list[TextCall] = []
    written: list[str] = []
    try:
        place = _skip(text, 0)
        while place < len(text) and not (calls and text[place] not in "{["):
            value, end = JSON.raw_decode(text, place)
            calls += _calls_in(value, offered)
            written.append(_bare(text[place:end]))
            place = _skip(text, end)
    except (ValueError, TypeError, RecursionError):
        return []
    quoted = _bare("\n".join(prompt)) if calls else ""
    return [] if any(one in quoted for one in written) else calls


def _skip(text: str, place: int) -> int:
    between = BETWEEN.match(text, place)
    return place if between is None else between.end()


def _calls_in(value: Any, offered: Collection[str]) -> Iterator[TextCall]:
    """The calls in an object, or in a list of them.

    Raises:
        TypeError: It is anything else.
        ValueError: Arguments that are a text, as in OpenAI's protocol, are no JSON.
    """
    for entry in value if isinstance(value, list) else [value]:
        call = entry.get("function", entry) if isinstance(entry, dict) else None
        call = entry if isinstance(call, str) else call
        if not isinstance(call, dict):
            raise TypeError
        name = next((call[key] for key in NAMES if key in call), None)
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
    """How calls begin, and blocks of the prompt, without spaces."""
    keys = [f'"{key}":' for key in (*ARGUMENTS, "function")]
    names = (f'"{key}":"{name}"' for key, name in product(NAMES, offered))
    heads = [*names, '"type":"function"', *keys]
    calls = ("".join(parts) for parts in product(WRAPS, ("{", "[{", "{{"), heads))
    return (*calls, *ECHOED)


def _bare(text: str) -> str:
    """Without spaces and escapes, so that words in a quote are found."""
    return WHITE_OR_ESCAPE.sub("", text)


# A model's reply while it arrives: its text as it may be shown, its calls as they may be run.
#
# A model writes what it likes, and servers cut where they like: half a character at the end of a
# piece, arguments that are no JSON, two calls of one id, a call without a name. What leaves this
# module can be stored, sent, logged and put into the next prompt.

MAX_TEXT = 200_000  # characters of text that are kept; calls behind them are read all the same
MAX_REPLY = 2_000_000  # characters of text and arguments; what follows is not read
MAX_BLANK = 400  # characters of white space, which a small model may write for ever
MAX_CALLS = 32  # of one reply; what follows is as if it had not been said
MAX_ARGUMENTS = 20_000  # characters of JSON of one call; no tool of ours needs a tenth of it
MAX_DEPTH = 20  # of lists and objects in arguments
MAX_SHOWN = 200  # characters of unreadable arguments that the model gets to see again
# Blocks of a reply that are told again elsewhere: its text and its calls.
RETOLD = frozenset({"text", "tool_use", "tool_call", "function_call", "input_json_delta"})
# The one argument of a call with unreadable arguments; no tool has one of this name.
UNREADABLE = "unreadable arguments"

Ending = Literal["", "length", "filter"]
# Why a reply ended before its end, as OpenAI, Anthropic and Google put it.
ENDINGS: dict[str, Ending] = {
    **dict.fromkeys(("length", "max_tokens", "model_length"), "length"),
    **dict.fromkeys(("content_filter", "refusal", "safety", "recitation", "blocklist"), "filter"),
    **dict.fromkeys(("prohibited_content", "spii"), "filter"),
}
# Controls that are no space, noncharacters, and halves of characters.
UNSOUND = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
    + "".join(f"{chr(0x10000 * p + 0xFFFE)}{chr(0x10000 * p + 0xFFFF)}" for p in range(1, 17))
    + "]"
)
NO_NAME = re.compile(r"[^A-Za-z0-9_-]")  # what providers admit in the name of a tool
ID = re.compile(r"[A-Za-z0-9_-]{1,40}")  # and in the id of a call; OpenAI's have 40 at most


def at(value: Any, *path: str | int) -> Any:
    """The entry of a JSON value at a path, or None where the path ends."""
    for step in path:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and len(value) > step else None
        else:
            value = value.get(step) if isinstance(value, Mapping) else None
    return value


def sound(text: str) -> str:
    """The text with U+FFFD for what no database, terminal or messenger can hold.

    Two halves of a character next to each other are that character.
    """
    if UNSOUND.search(text) is None:
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return UNSOUND.sub("\ufffd", joined)


@dataclass
class _Call:
    """A call as far as it has arrived."""

    index: Any
    id: str | None
    name: str
    arguments: list[str] = field(default_factory=list)


class ModelReply:
    """Takes the pieces of one reply in; ``message`` is the whole.

    Attributes:
        is_coming: Its first token is there, be it a thought that nobody sees.
        is_finished: The provider has said that the reply is over.
        usage: What the provider counted, if it did.
    """

    def __init__(self, offered: Collection[str] = (), prompt: Iterable[str] = ()) -> None:
        """Nothing has arrived yet of the reply to ``prompt`` with the tools ``offered``."""
        self.is_coming = False
        self.is_finished = False
        self._held = HeldText(offered, prompt)
        self.usage: UsageMetadata | None = None
        self._texts: list[str] = []
        self._blocks: list[Any] = []
        self._calls: list[_Call] = []
        self._half = ""
        self._room = MAX_REPLY
        self._blank = 0  # white space at its end
        self._room_for_text = MAX_TEXT
        self._ending: Ending = ""

    @property
    def is_full(self) -> bool:
        """Whether so much has arrived, or so much of nothing, that the rest need not be read."""
        return self._room <= 0 or self._blank >= MAX_BLANK

    @property
    def has_begun(self) -> bool:
        """Whether anything of it has arrived."""
        return self._room < MAX_REPLY

    def feed(self, piece: AIMessage) -> str:
        """Take the next piece; return its text as it may be shown."""
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
        """The rest of the text at the end: half a character that stayed alone is none.

        A text that is calls is none; where the calls have come as such too, they are run once.
        """
        begun = self._held.feed(sound(self._half))
        rest, calls = self._held.flush()
        self._half = ""
        if not self._calls:
            for name, args in calls:
                written = json.dumps(args, ensure_ascii=False)
                self._add_call({"name": name, "args": written})
        self._texts.append(begun + rest)
        return begun + rest

    def message(self) -> AIMessage:
        """The whole reply: text, and calls with arguments that are objects and ids of their own.

        The text stands in ``content``; blocks that are no text stay beside it (a provider wants
        its model's thoughts back between two calls). See ``ending_of``.
        """
        text = "".join(self._texts)
        merged = merge_content([], *self._blocks) if self._blocks else []
        kept = [b for b in merged if isinstance(b, dict) and b.get("type") not in RETOLD]
        content: Any = [*kept, {"type": "text", "text": text}] if kept else text
        return AIMessage(
            content=content,
            tool_calls=list(self._tool_calls()),
            response_metadata={"ending": "length" if self._room_for_text <= 0 else self._ending},
        )

    def _add_text(self, text: str) -> str:
        """The next piece of text, sound; half a character at its end waits for the other half."""
        self._room -= len(text)
        ending = len(text) - len(text.rstrip())
        self._blank = self._blank + ending if ending == len(text) else ending
        text = text[: max(0, self._room_for_text)]
        self._room_for_text -= len(text)
        text = self._half + text
        half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        self._half = half
        shown = self._held.feed(sound(text[: len(text) - len(half)]))
        self._texts.append(shown)
        return shown

    def _add_call(self, chunk: Mapping[str, Any]) -> None:
        """A piece of a call: of the one with this number, or a new one."""
        name, arguments = str(chunk.get("name") or ""), str(chunk.get("args") or "")
        index, id_ = chunk.get("index"), chunk.get("id") or None
        known = next((c for c in reversed(self._calls) if _continues(c, index, id_, name)), None)
        if known is None:
            if len(self._calls) == MAX_CALLS:
                return
            known = _Call(index, id_, "")
            self._calls.append(known)
        known.id = known.id or id_
        known.name = known.name or name
        known.arguments.append(arguments)
        self._room -= len(arguments)

    def _tool_calls(self) -> Iterator[ToolCall]:
        ids: set[str] = set()
        for call in self._calls:
            wanted = call.id if call.id and ID.fullmatch(call.id) else None
            id_ = wanted if wanted and wanted not in ids else f"call_{uuid.uuid4().hex}"
            ids.add(id_)
            name = NO_NAME.sub("_", call.name)[:64] or "unnamed"
            arguments = read_arguments("".join(call.arguments))
            yield ToolCall(name=name, args=arguments, id=id_, type="tool_call")


def ending_of(message: AIMessage) -> Ending:
    """Why a reply ended before its end: no room left, or a filter; else empty."""
    ending: Ending = message.response_metadata.get("ending", "")
    return ending


def read_arguments(written: str) -> dict[str, Any]:
    """The arguments of a call; when they are no JSON object, their beginning as ``UNREADABLE``.

    Nothing that is half there is completed: a call whose end is missing must not run.
    """
    try:
        if len(written) > MAX_ARGUMENTS:
            raise ValueError("too long")
        read = JSON.decode(written or "{}")
        if not isinstance(read, dict):
            raise TypeError
        return {sound(name): _sound_value(value) for name, value in read.items()}
    except (ValueError, TypeError, RecursionError):
        return {UNREADABLE: sound(written[:MAX_SHOWN])}


def _sound_value(value: Any, depth: int = 1) -> Any:
    """A JSON value with sound texts.

    Raises:
        ValueError: It is nested too deeply, or a number is beyond all numbers.
    """
    if isinstance(value, str):
        return sound(value)
    if depth > MAX_DEPTH or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError("no value")
    if isinstance(value, dict):
        return {sound(name): _sound_value(entry, depth + 1) for name, entry in value.items()}
    if isinstance(value, list):
        return [_sound_value(entry, depth + 1) for entry in value]
    return value


def _continues(call: _Call, index: Any, id_: str | None, name: str) -> bool:
    """Whether a piece goes on with a call: by its number, by its id, or because it has neither."""
    if id_ and call.id and id_ != call.id:
        return False
    if index is not None:
        return bool(call.index == index)
    return bool(id_ and id_ == call.id) or not (id_ or name)


def _as_chunks(piece: AIMessage) -> list[dict[str, Any]]:
    """The calls of a message that came as a whole, as its pieces would be."""
    return [
        {"name": call["name"], "args": json.dumps(call["args"]), "id": call["id"], "index": None}
        for call in piece.tool_calls
    ]
