"""Tool calls that a model writes as text, because it or its server knows no better.

A reply is such calls when nothing else stands in it: JSON objects with a ``name`` that was offered
and with ``arguments`` or ``parameters``, each bare, in a fenced block or in ``<tool_call>``. JSON
among prose is text, and so is what stands in the prompt word for word: words of others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from itertools import product
from json import JSONDecoder
from typing import Any, NoReturn

MAX_HELD = 20_000  # characters that may be calls; what is longer is text
WRAPS = ("", "```", "```json", "```tool_call", "<tool_call>")
# What may stand between two calls, before the first and after the last.
BETWEEN = re.compile(r"(?:[\s,;]|```(?:json|tool_call)?|</?tool_call>)*")


def _refuse(_constant: str) -> NoReturn:
    raise ValueError("NaN and Infinity are no JSON")


JSON = JSONDecoder(parse_constant=_refuse)
WHITE_OR_ESCAPE = re.compile(r"[\s\\]+")
ARGUMENTS = ("arguments", "parameters")

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
        return ("", calls) if calls else (text, [])

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
    """The calls that a whole text is.

    None when anything else stands in it, or one is malformed, or was copied from ``prompt``.
    """
    calls: list[TextCall] = []
    written: list[str] = []
    try:
        place = _skip(text, 0)
        while place < len(text):
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
        if not isinstance(call, dict) or call.get("name") not in offered:
            raise TypeError
        arguments = next((call[key] for key in ARGUMENTS if key in call), None)
        if isinstance(arguments, str):
            arguments = JSON.decode(arguments)
        if not isinstance(arguments, dict):
            raise TypeError
        yield call["name"], arguments


@lru_cache(maxsize=32)
def _openings(offered: frozenset[str]) -> tuple[str, ...]:
    """How calls begin, without spaces."""
    keys = [f'"{key}":' for key in (*ARGUMENTS, "function")]
    heads = [*(f'"name":"{name}"' for name in offered), '"type":"function"', *keys]
    return tuple("".join(parts) for parts in product(WRAPS, ("{", "[{"), heads))


def _bare(text: str) -> str:
    """Without spaces and escapes, so that words in a quote are found."""
    return WHITE_OR_ESCAPE.sub("", text)
