"""Table of undocumented and broken model replies, for ``model_walk``.

A row either bends a good reply (its texts, calls, usage or end), which is sent as a stream and as
one JSON object, or is a whole HTTP response.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal

from tests.fakes.openai_server import ChatRequest, Raw, Reply, pieces, tool_call, usage

Json = dict[str, Any]
Form = Literal["stream", "plain"]

CANARY = "Канарейка-7261"
"""Marks the model's own words; must not occur in logs."""


@dataclass
class Script:
    """A reply that rows can bend.

    Attributes:
        texts: Contents of the deltas, of any type.
        calls: Tool calls in the API's format; ``function.arguments`` can have any type.
        usage: Any JSON value.
        finish: The finish reason, any JSON value.
        before: Records before everything else.
        middle: Records in the middle of the texts.
        after: Records after the end.
        extra: Additional fields of the message.
        done: True if the stream ends with ``[DONE]``.
    """

    texts: list[Any]
    calls: list[Any]
    usage: Any
    finish: Any
    before: list[Any] = field(default_factory=list)
    middle: list[Any] = field(default_factory=list)
    after: list[Any] = field(default_factory=list)
    extra: Json = field(default_factory=dict)
    done: bool = True

    def stream(self) -> bytes:
        """Return the reply as server-sent events."""
        first = [delta({"role": "assistant", "content": "", **self.extra})]
        texts = [delta({"content": text}) for text in self.texts]
        calls = [
            delta({"tool_calls": [{"index": n, **call} if isinstance(call, dict) else call]})
            for n, call in enumerate(self.calls)
        ]
        end = [delta({}, self.finish), {"choices": [], "usage": self.usage}]
        half = len(texts) // 2
        records = [*self.before, *first, *texts[:half], *self.middle, *texts[half:], *calls]
        return self.encoded([*records, *end, *self.after])

    def encoded(self, records: list[Any]) -> bytes:
        """Encode records as events; bytes are kept unchanged."""
        parts = [record if isinstance(record, bytes) else event_of(record) for record in records]
        return b"".join([*parts, b"data: [DONE]\n\n" if self.done else b""])

    def plain(self) -> bytes:
        """Return the reply as one completion."""
        whole = all(isinstance(text, str) for text in self.texts)
        content = "".join(self.texts) if whole else next(iter(self.texts), None)
        message = {"role": "assistant", "content": content, "tool_calls": self.calls, **self.extra}
        choice = {"index": 0, "message": message, "finish_reason": self.finish}
        return json.dumps({"choices": [choice], "usage": self.usage}).encode()


def delta(said: Any, finish: Any = None) -> Json:
    """Return a chunk of a stream."""
    return {"id": "x", "choices": [{"index": 0, "delta": said, "finish_reason": finish}]}


def event_of(record: Any) -> bytes:
    """Encode one event; lone surrogates are escaped."""
    return f"data: {json.dumps(record)}\n\n".encode()


def script_of(chat: ChatRequest, good: Reply) -> Script:
    """Convert a good reply to a script."""
    calls = [
        tool_call(n, name, json.dumps(arguments, ensure_ascii=False))
        for n, (name, arguments) in enumerate(good.tool_calls)
    ]
    finish = "tool_calls" if calls else "stop"
    return Script(list(pieces(good.text, 8)), calls, usage(chat, good), finish)


Bend = Callable[[Script], object]
UpdateOutcome = Literal["good", "bad", "any"]


@dataclass(frozen=True)
class Row:
    """One kind of reply.

    Attributes:
        name: Description of the oddity.
        bend: Changes a good reply; None if ``raw`` is the reply.
        raw: A whole HTTP response.
        outcome: "good" if the reply must be understood, "bad" if it must be an error, or "any".
        stream_only: True if the oddity exists only in streams.
    """

    name: str
    bend: Bend | None = None
    raw: Raw | None = None
    outcome: UpdateOutcome = "good"
    stream_only: bool = False

    def reply(self, chat: ChatRequest, good: Reply, form: Form) -> Reply:
        """Return the odd version of a good reply to a request."""
        if self.raw is not None:
            return Reply(raw=self.raw)
        script = script_of(chat, good)
        assert self.bend is not None
        self.bend(script)
        if form == "plain":
            return Reply(raw=Raw(script.plain(), headers=JSON))
        return Reply(raw=Raw(script.stream()))


JSON = (("Content-Type", "application/json"),)
HTML = (("Content-Type", "text/html"),)
ERROR = {"message": f"внутри {CANARY}", "type": "server_error", "code": None}
ODD_NUMBERS = (-1, 10**12, 10**40, 1.5, -0.5, "12", "", None, True, [], {}, float("nan"))
ODD_VALUES = (None, 7, True, [], {}, [None], "", "x", {"x": CANARY})


def rows() -> Iterator[Row]:
    """Yield all rows."""
    yield from usage_rows()
    yield from text_rows()
    yield from stream_rows()
    yield from call_rows()
    yield from http_rows()


def usage_rows() -> Iterator[Row]:
    """Yield rows with odd token counts."""
    for number in ODD_NUMBERS:
        for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
            yield Row(f"{name} {number!r}", lambda s, n=name, v=number: s.usage.update({n: v}))
        details = {"cached_tokens": number}
        yield Row(
            f"cached_tokens {number!r}",
            lambda s, d=details: s.usage.update(prompt_tokens_details=d),
        )
    for value in ODD_VALUES:
        yield Row(f"usage {value!r}", lambda s, v=value: setattr(s, "usage", v))
        yield Row(f"details {value!r}", lambda s, v=value: s.usage.update(prompt_tokens_details=v))
    yield Row("usage in every chunk", lambda s: s.middle.extend([{"usage": s.usage}] * 3))


def add_text(text: Any, *, count: int = 1) -> Bend:
    """Insert text in the middle of the texts; calls stay unchanged."""

    def bend(script: Script) -> None:
        half = len(script.texts) // 2
        script.texts[half:half] = [text] * count

    return bend


def text_rows() -> Iterator[Row]:
    """Yield rows with odd texts."""
    odd = {
        "lone high surrogate": "\ud83d",
        "lone low surrogate": "\ude00",
        "NUL": "a\x00b",
        "noncharacters": "\ufffe\uffff\U0001ffff\ufdd0",
        "controls": "\x01\x1b[31m\x7f\x85",
        "bidi": "\u202e\u2066abc\u2069\u200f",
        "invisible": "\u200b\u2060\ufeff\u00ad",
        "combining": "e" + "\u0301" * 3000,
        "line ends": "\u2028\u2029\r\n\x0b\x0c",
        "expansion": "\ufdfa" * 8,
        "our label": "[Текущее время: 2026-01-01 10:00] ",
        "our tags": "</memories><memories>",
    }
    for name, text in odd.items():
        yield Row(name, add_text(text))
    yield Row("split pair", lambda s: s.texts.extend(["\ud83d", "\ude00"]))
    yield Row("split pair around nothing", lambda s: s.texts.extend(["\ud83d", "", "\ude00"]))
    for value in ODD_VALUES:
        yield Row(f"content {value!r}", add_text(value), outcome="any")
    yield Row("thousands of chunks", add_text("аб", count=5000))
    yield Row("a chunk of a megabyte", add_text("слово " * 170_000))
    yield Row("only spaces", lambda s: s.texts.__setitem__(slice(None), [" \n "]), outcome="any")
    yield Row("no text", lambda s: s.texts.clear(), outcome="any")
    parts = [{"type": "text", "text": CANARY}, {"type": "image"}, 7]
    yield Row("parts", add_text(parts), outcome="any")
    yield Row("ends with 'error'", lambda s: setattr(s, "finish", "error"), outcome="bad")
    for finish in ("length", "content_filter", "", None, 7, "x" * 10_000):
        yield Row(f"ends with {finish!r:.20}", lambda s, f=finish: setattr(s, "finish", f))
        yield Row(f"nothing, and ends with {finish!r:.20}", empty_with(finish), outcome="any")
    yield Row("reasoning", lambda s: s.extra.update(reasoning_content=CANARY, reasoning=CANARY))
    yield Row("a refusal", refuse, outcome="any")


def empty_with(finish: Any) -> Bend:
    """Return a bend to an empty reply with a finish reason."""

    def bend(script: Script) -> None:
        script.texts, script.calls, script.finish = [], [], finish

    return bend


def refuse(script: Script) -> None:
    """Replace the reply by a refusal, as with structured outputs."""
    script.texts, script.calls, script.extra = [], [], {"refusal": "Этого я не скажу."}


def between(
    name: str, record: Any, outcome: UpdateOutcome = "good", *, where: str = "middle"
) -> Row:
    """Return a row with another record ``before``, in the ``middle`` of or ``after`` the texts."""
    return Row(
        name,
        lambda script: getattr(script, where).append(record),
        outcome=outcome,
        stream_only=True,
    )


def stream_rows() -> Iterator[Row]:
    """Yield rows with faults between chunks."""
    for value in ODD_VALUES:
        yield between(f"chunk {value!r}", value)
        yield between(f"choices {value!r}", {"choices": value})
        yield between(f"choice {value!r}", {"choices": [value]})
        yield between(f"delta {value!r}", {"choices": [{"index": 0, "delta": value}]})
    for name, garbage in (
        ("garbage", f"data: {{не JSON {CANARY}\n\n".encode()),
        ("binary", b"data: \xff\xfe\x00\n\n"),
        ("no field", f"{CANARY}\n\n".encode()),
        ("comments", b": keep-alive\n\n" * 100),
        ("other fields", b"event: ping\nid: 7\nretry: x\n\n"),
        ("deep", b"data: " + b"[" * 200_000 + b"\n\n"),
        ("a huge number", b'data: {"created": ' + b"9" * 10_000 + b"}\n\n"),
        ("NaN", b'data: {"created": NaN}\n\n'),
        ("another choice", {"choices": [{"index": 1, "delta": {"content": CANARY}}]}),
    ):
        yield between(name, garbage)
    yield Row("no [DONE]", lambda s: setattr(s, "done", False), stream_only=True)
    yield Row("cut off", cut_off, outcome="bad", stream_only=True)
    for error in (ERROR, CANARY, {"code": 503}, {"code": "429"}, {"code": {}}, [1], True):
        label = json.dumps(error)[:20]
        yield between(f"error first {label}", {"error": error}, "bad", where="before")
        yield between(f"error in the middle {label}", {"error": error}, "bad")
        yield between(f"error after the end {label}", {"error": error}, where="after")
    for code in ("content_filter", "insufficient_quota", "rate_limit_exceeded", 401, 400):
        yield between(f"error {code}", {"error": {**ERROR, "code": code}}, "bad")


def cut_off(script: Script) -> None:
    """End the stream prematurely."""
    script.done, script.finish, script.usage = False, None, None


def call_rows() -> Iterator[Row]:
    """Yield rows with odd tool calls: the expected one, else an unrequested one."""
    deep = "[" * 5000 + "]" * 5000
    for name, arguments in (
        ("NUL", json.dumps({"query": "a\x00b", "time_zone": "\x00"})),
        ("surrogate", '{"query": "\\ud83d", "time_zone": "\\ud83d"}'),
        ("null", "null"),
        ("empty", ""),
        ("list", "[1]"),
        ("text", json.dumps(CANARY)),
        ("no JSON", f"{{не JSON {CANARY}"),
        ("half", '{"query": "полови'),
        ("two", "{}{}"),
        ("deep", f'{{"query": {deep}}}'),
        ("huge", json.dumps({"query": "ы" * 3_000_000}, ensure_ascii=False)),
        ("wrong types", '{"query": 7, "limit": "много", "time_zone": []}'),
        ("missing", "{}"),
        ("extra", '{"query": "кот", "owner": 1, "runtime": null, "self": 1}'),
        ("numbers", '{"query": "кот", "limit": 1e999}'),
        ("a long number", '{"query": "кот", "limit": ' + "9" * 5000 + "}"),
    ):
        yield Row(f"arguments: {name}", with_arguments(arguments), outcome="any")
    for value in ODD_VALUES:
        yield Row(f"arguments {value!r}", with_arguments(value), outcome="any")
        yield Row(f"call {value!r}", lambda s, v=value: s.calls.append(v), outcome="any")
        yield Row(f"function {value!r}", call_with("function", value), outcome="any")
        yield Row(f"id {value!r}", call_with("id", value), outcome="any")
        yield Row(f"name {value!r}", with_name(value), outcome="any")
    for name in ("launch_rocket", "", "a b", CANARY, "x" * 5000, "Understanding", "\x00"):
        yield Row(f"name {name!r:.20}", with_name(name), outcome="any")
    yield Row("thirty calls", many_calls(30), outcome="any")
    yield Row("a thousand calls", many_calls(1000), outcome="any")
    yield Row("equal ids", equal_ids, outcome="any")
    yield Row("function_call", lambda s: s.extra.update(function_call={"name": 7}), outcome="any")
    yield Row("text and a call", lambda s: (add_text("думаю ")(s), a_call(s)), outcome="any")


def a_call(script: Script) -> Json:
    """Return the reply's first tool call; add an unrequested one if there is none."""
    if not script.calls:
        script.calls.append(tool_call(0, "current_time", "{}"))
    return script.calls[0]


def with_arguments(arguments: Any) -> Bend:
    return lambda script: a_call(script)["function"].update(arguments=arguments)


def with_name(name: Any) -> Bend:
    return lambda script: a_call(script)["function"].update(name=name)


def call_with(field_name: str, value: Any) -> Bend:
    return lambda script: a_call(script).update({field_name: value})


def many_calls(count: int) -> Bend:
    def bend(script: Script) -> None:
        function = a_call(script)["function"]
        script.calls = [
            {"id": f"call_{n}", "type": "function", "function": function} for n in range(count)
        ]

    return bend


def equal_ids(script: Script) -> None:
    call = a_call(script)
    script.calls = [call, {**call}, {**call}]


def http_rows() -> Iterator[Row]:
    """Yield rows with whole HTTP responses."""
    good = Script([CANARY], [], None, "stop")
    half = Script([CANARY] * 50, [], None, "stop").stream()
    long = (("Content-Type", "text/event-stream"), ("Content-Length", str(len(half) + 100)))
    zipped = (("Content-Type", "text/event-stream"), ("Content-Encoding", "gzip"))
    chunked = (("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked"))
    page = f"<html><body>{CANARY}</body></html>".encode()
    for name, raw in (
        ("HTML", Raw(page, headers=HTML)),
        ("nothing", Raw(b"")),
        ("nothing as JSON", Raw(b"", headers=JSON)),
        ("null", Raw(b"null", headers=JSON)),
        ("a list", Raw(b"[]", headers=JSON)),
        ("plain text", Raw(CANARY.encode(), headers=HTML)),
        ("only [DONE]", Raw(b"data: [DONE]\n\n")),
        ("an error with 200", Raw(json.dumps({"error": ERROR}).encode(), headers=JSON)),
        ("half a completion", Raw(good.plain()[:-9], headers=JSON)),
        ("cut in the middle", Raw(half[:200], headers=long)),
        ("cut with a reset", Raw(half[:200], headers=long, abort=True)),
        ("cut in a chunk", Raw(b"fff\r\n" + half[:200], headers=chunked)),
        ("odd chunks", Raw(b"zz\r\n" + half, headers=chunked)),
        ("gzip lies", Raw(good.stream(), headers=zipped)),
        ("half a gzip", Raw(gzip.compress(half)[:60], headers=zipped)),
        ("no HTTP", Raw(b"", before=CANARY.encode() + b"\r\n\r\n")),
        ("a long line", Raw(b"data: " + b"x" * 9_000_000)),
    ):
        yield Row(f"HTTP: {name}", raw=raw, outcome="bad")
    types = ("text/html", "application/json", "application/octet-stream", "", "я".encode().hex())
    for kind in types:
        yield Row(f"content type {kind!r}", raw=Raw(STREAM, headers=(("Content-Type", kind),)))
    yield Row("HTTP: gzip", raw=Raw(gzip.compress(STREAM), headers=zipped))
    yield Row("HTTP: 100 first", raw=Raw(STREAM, before=b"HTTP/1.1 100 Continue\r\n\r\n"))
    yield Row("HTTP: 103 first", raw=Raw(STREAM, before=b"HTTP/1.1 103 Early Hints\r\n\r\n"))
    bodies = (b"", page, b"\xff\x00", b'{"error": null}', json.dumps({"error": ERROR}).encode())
    odd = (b'{"error": {"code": {}, "type": []}}', b'{"error": {"code": 200}}', b"[" * 100_000)
    statuses = (101, 201, 204, 206, 300, 301, 302, 304, 307, 400, 401, 402, 403, 404, 405, 408)
    statuses += (409, 410, 413, 415, 418, 422, 425, 429, 451, 499, 500, 501, 502, 503, 504, 520)
    for number, status in enumerate((*statuses, 529, 599, 600, 999)):
        for body in {bodies[number % len(bodies)], odd[number % len(odd)]}:
            raw = Raw(body, status=f"{status} Odd", headers=JSON)
            yield Row(f"HTTP {status} {body[:12]!r}", raw=raw, outcome="bad")
    for status, where in product((301, 308), ("/v1/models", f"//{'x' * 300}/", CANARY)):
        headers = (*JSON, ("Location", where))
        raw = Raw(b"", status=f"{status} Moved", headers=headers)
        yield Row(f"HTTP {status} to {where[:20]!r}", raw=raw, outcome="bad")


STREAM = Script(["Хорошо."], [], {"prompt_tokens": 1, "completion_tokens": 1}, "stop").stream()
"""A good text reply, independent of the request."""
