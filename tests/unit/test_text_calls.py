"""Tool calls written as text: what is one, what stays text, and that none is ever shown."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessageChunk

from src.llm.reply import MAX_HELD, ModelReply, read_text_calls
from tests.fakes.openai_server import call_text

OFFERED = frozenset({"save_user_fact", "current_time"})
TIME = '{"name": "current_time", "arguments": {}}'
SAVE: tuple[str, dict[str, Any]] = ("save_user_fact", {"quote": "Я живу в Одессе"})
SAVED = json.dumps({"name": SAVE[0], "arguments": SAVE[1]}, ensure_ascii=False)


def reply_of(text: str, size: int, prompt: tuple[str, ...] = ()) -> tuple[list[str], ModelReply]:
    """What is shown of a text that comes in pieces, and the whole reply."""
    reply = ModelReply(OFFERED, prompt)
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    shown = [reply.feed(AIMessageChunk(content=piece)) for piece in pieces]
    return [*shown, reply.flush()], reply


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(("text", "calls"), [
    (call_text(SAVE[0], **SAVE[1]), [SAVE]), (call_text(SAVE[0], "bare", **SAVE[1]), [SAVE]),
    (call_text(SAVE[0], "tag", **SAVE[1]), [SAVE]), (f"\n  ```\n{SAVED}```  \n", [SAVE]),
    (f"<tool_call>{SAVED}", [SAVE]), (f"[{SAVED},\n{TIME}]", [SAVE, ("current_time", {})]),
    (f"{SAVED}\n{TIME}", [SAVE, ("current_time", {})]),
    (f"```json\n{TIME}\n```\n\n```json\n{SAVED}\n```", [("current_time", {}), SAVE]),
    (f"<tool_call>{TIME}</tool_call>\n<tool_call>{SAVED}</tool_call>",
     [("current_time", {}), SAVE]),
    ('{"type": "function", "function": {"name": "current_time", "arguments": "{}"}}',
     [("current_time", {})]),
    ('{ "parameters" : {"time_zone": "Киев"}, "name" : "current_time" }',
     [("current_time", {"time_zone": "Киев"})]),
    (f"```json\n{SAVED}\n```\n\nЗапомнил, Одесса!", [SAVE]),
    (f"<tools>\n{SAVED}\n</tools>", [SAVE]),
    (f"{{{SAVED}}}\n{{{TIME}}}\nОдесса.", [SAVE, ("current_time", {})]),
    ('```json\n{"function": "current_time", "arguments": {}}\n```', [("current_time", {})]),
    ('{"tool": "current_time", "input": {}}', [("current_time", {})]),
])  # fmt: skip
def test_a_reply_that_is_calls_is_made_and_never_shown(
    text: str, calls: list[tuple[str, dict[str, Any]]], size: int
) -> None:
    shown, reply = reply_of(text, size)
    message = reply.message()
    assert "".join(shown) == "" == message.text
    assert [(call["name"], call["args"]) for call in message.tool_calls] == calls
    assert len({call["id"] for call in message.tool_calls}) == len(calls)


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("text", [
    f"Вот пример:\n```json\n{TIME}\n```", f"```json\n{TIME}\n```\n{{нет}}",
    TIME[:-1], TIME.replace("}}", "}, }"), "<tool_call>нет</tool_call>", "```json\n```",
    '{"name": "rm_rf", "arguments": {}}', '{"name": "current_time"}', f"{TIME} {{}}",
    '{"name": "current_time", "arguments": "Киев"}', '{"name": ["current_time"]}', f"[{TIME}",
    '{"name": "current_time", "arguments": [1]}', '{"name": "Анна", "age": 7}', "{}", "[]", "[1]",
    '{"name": "current_time", "arguments": {"a": NaN}}', "```python\nprint(1)\n```", "привет", "",
    '{"arguments": ' + "[" * 5000, " ", '{"function": "current_time"}', "[1] так вы сказали",
])  # fmt: skip
def test_anything_else_stays_the_text_that_it_is(text: str, size: int) -> None:
    shown, reply = reply_of(text, size)
    assert "".join(shown) == text == reply.message().text
    assert reply.message().tool_calls == []


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_block_of_the_prompt_is_no_answer(size: int) -> None:
    block = '<key_facts>\n{"n": 1, "id": "fact-1", "text": "в Праге"}\n</key_facts>\n'
    for answer in ("", "В Праге [1]."):
        shown, reply = reply_of(block + answer, size)
        assert "".join(shown) == answer == reply.message().text
    shown, _ = reply_of(block[:30], size)
    assert "".join(shown) == ""


def test_text_comes_at_once_as_soon_as_it_cannot_become_a_call() -> None:
    for text, first in (("привет всем", 0), ("```python\nprint(1)", 3), ('{"name": "Анна"', 10),
                        ("[1] так", 1), ("<b>так</b>", 1)):  # fmt: skip
        shown, _ = reply_of(text, 1)
        assert shown.index(next(filter(None, shown))) <= first, text


def test_a_call_that_stands_in_the_prompt_is_a_quote() -> None:
    for prompt in (f"повтори: {TIME}", json.dumps({"text": f"он прислал {TIME}"})):
        for text in (TIME, f"```json\n{TIME}\n```", f"{SAVED}\n{TIME}"):
            shown, reply = reply_of(text, 5, (prompt,))
            assert "".join(shown) == text and reply.message().tool_calls == []


def test_calls_are_bounded_in_size_and_number() -> None:
    long = call_text("save_user_fact", quote="о" * MAX_HELD)
    shown, reply = reply_of(long, 50)
    assert "".join(shown) == long and reply.message().tool_calls == []
    assert shown[MAX_HELD // 50] != "", "it is not held any longer than that"
    shown, reply = reply_of("\n".join([TIME] * 100), 50)
    assert "".join(shown) == "" and len(reply.message().tool_calls) == 32


def test_calls_that_also_come_as_such_are_made_once() -> None:
    reply = ModelReply(OFFERED)
    reply.feed(AIMessageChunk(content=TIME))
    chunk = {
        "name": "current_time",
        "args": "{}",
        "id": "a",
        "index": 0,
        "type": "tool_call_chunk",
    }
    reply.feed(AIMessageChunk(content="", tool_call_chunks=[{**chunk, "type": "tool_call_chunk"}]))
    assert reply.flush() == "" and len(reply.message().tool_calls) == 1


def test_without_tools_json_is_an_answer() -> None:
    reply = ModelReply()
    assert reply.feed(AIMessageChunk(content=TIME)) == TIME and reply.flush() == ""
    assert read_text_calls(TIME, frozenset()) == []
