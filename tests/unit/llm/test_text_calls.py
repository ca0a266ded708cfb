"""Tool calls written as text: what is one, what stays text, and that none is ever shown."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessageChunk

from src.llm.reply import ModelReply
from src.llm.reply_text import MAX_HELD
from src.llm.text_calls import UNREADABLE
from tests.fakes.openai_server import call_text

OFFERED = dict.fromkeys(("save_user_fact", "current_time", "set_reminder"), ())
TIME = '{"name": "current_time", "arguments": {}}'
SAVE: tuple[str, dict[str, Any]] = ("save_user_fact", {"quote": "Я живу в Одессе"})
X = ("save_user_fact", {"quote": "x"})
REMIND = ("set_reminder", {"text": "call mum", "when": "at 9"})
GIVEN = json.dumps(REMIND[1])
SAVED = json.dumps({"name": SAVE[0], "arguments": SAVE[1]}, ensure_ascii=False)


def reply_of(text: str, size: int, prompt: tuple[str, ...] = ()) -> tuple[list[str], ModelReply]:
    """What is shown of a text that comes in pieces, and the whole reply."""
    reply = ModelReply(OFFERED, prompt)
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    shown = [reply.feed(AIMessageChunk(content=piece)) for piece in pieces]
    return [*shown, reply.flush()], reply


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(("text", "calls"), [
    (call_text(SAVE[0], **SAVE[1]), [SAVE]), (call_text(SAVE[0], "tag", **SAVE[1]), [SAVE]),
    (f"[{SAVED},\n{TIME}]", [SAVE, ("current_time", {})]),
    (f"{SAVED}\n{TIME}", [SAVE, ("current_time", {})]),
    (f"```json\n{TIME}\n```\n\n```json\n{SAVED}\n```", [("current_time", {}), SAVE]),
    ('{"type": "function", "function": {"name": "current_time", "arguments": "{}"}}',
     [("current_time", {})]),
    ('{ "parameters" : {"time_zone": "Киев"}, "name" : "current_time" }',
     [("current_time", {"time_zone": "Киев"})]),
    (f"<tools>\n{SAVED}\n</tools>", [SAVE]),
    (f"{{{SAVED}}}\n{{{TIME}}}\nОдесса.", [SAVE, ("current_time", {})]),
    ('```json\n{"function": "current_time", "arguments": {}}\n```', [("current_time", {})]),
    ('{"name": "current_time"}', [("current_time", {})]),
    ("{'name': 'current_time', 'arguments': {},}", [("current_time", {})]),
    ('{"save_user_fact": {"quote": "x"}}', [X]),
    (f'{{"tool_calls": [{{"id": "a", "type": "function", "function": {SAVED}}}]}}', [SAVE]),
    ('<function=save_user_fact>{"quote": "x"}</function>', [X]),
    ("<tool_call>\n<function=save_user_fact>\n<parameter=quote>\nx\n</parameter>\n</function>\n"
     "</tool_call>", [X]),
    ("<tools><function><name>set_reminder</name><arguments><text>хлеб</text><when>в 9</when>"
     "</arguments></function></tools>", [("set_reminder", {"text": "хлеб", "when": "в 9"})]),
    ("<tools>\n<function>\n<name>save_user_fact</name>\n<arguments>\n<facts>\n<fact>\n<text>a</text>\n"
     "<quote>b</quote>\n<replaces/>\n</fact>\n</facts>\n</arguments>\n</function>\n</tools>",
     [("save_user_fact", {"facts": {"fact": {"text": "a", "quote": "b"}}})]),
    ('<function_calls><invoke name="save_user_fact"><parameter name="quote">x</parameter>'
     "</invoke></function_calls>", [X]),
    ('<｜DSML｜function_calls><｜DSML｜invoke name="save_user_fact"><｜DSML｜parameter '
     'name="quote" string="true">x</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>',
     [X]),
    ('[invoke name="save_user_fact"][parameter name="quote"]x[/parameter][/invoke]', [X]),
    ('&lt;invoke name="save_user_fact"&gt;&lt;parameter name="quote"&gt;x&lt;/parameter&gt;'
     "&lt;/invoke&gt;", [X]),
    ("‹invoke name='current_time'›‹/invoke›", [("current_time", {})]),
    (f"[TOOL_CALLS][{SAVED}]", [SAVE]), ('[TOOL_CALLS]save_user_fact[ARGS]{"quote": "x"}', [X]),
    (f"[TOOL_REQUEST]{SAVED}[END_TOOL_REQUEST]", [SAVE]),
    ("<tool_call>save_user_fact\n<arg_key>quote</arg_key>\n<arg_value>x</arg_value>\n</tool_call>",
     [X]),
    ("<|tool_calls_section_begin|><|tool_call_begin|>functions.save_user_fact:0"
     '<|tool_call_argument_begin|>{"quote": "x"}<|tool_call_end|><|tool_calls_section_end|>', [X]),
    ("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>save_user_fact\n```json\n"
     '{"quote": "x"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>', [X]),
    ("<|channel|>commentary to=functions.save_user_fact <|constrain|>json<|message|>"
     '{"quote": "x"}<|call|>', [X]),
    (f"<|python_tag|>{SAVED}", [SAVE]),
    ('Action: save_user_fact\nAction Input: {"quote": "x"}', [X]),
    ('[save_user_fact(quote="x"), current_time()]', [X, ("current_time", {})]),
    ('```tool_code\nprint(default_api.save_user_fact(quote="x (y)"))\n```',
     [("save_user_fact", {"quote": "x (y)"})]),
    ('```python\nsave_user_fact(quote="x")\n```\nDone!', [X]),
    ('```py\nresult = save_user_fact(\n    quote="x",\n)\nprint(result)\n```', [X]),
    ("<save_user_fact><quote>x</quote></save_user_fact>", [X]),
    (f"<think>{TIME}? no</think>{SAVED}", [SAVE]),
    ("<|python_start|>set_reminder(text='call mum', when='at 9')<|python_end|>", [REMIND]),
    ('<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "set_reminder", '
     f'"parameters": {GIVEN}}}]', [REMIND]),
    (f'functools[{{"name": "set_reminder", "arguments": {GIVEN}}}]', [REMIND]),
    ("<start_function_call>call:set_reminder"
     "{text:<escape>call mum<escape>,when:<escape>at 9<escape>}", [REMIND]),
    (f"set_reminder\n{GIVEN}", [REMIND]),
    (f"<|recipient|>set_reminder\n<|content|>{GIVEN}<|stop|>", [REMIND]),
    (f"✿FUNCTION✿: set_reminder\n✿ARGS✿: {GIVEN}", [REMIND]),
    (f">>>set_reminder\n{GIVEN}", [REMIND]),
    ("<|python_tag|>set_reminder.call(text='call mum', when='at 9')", [REMIND]),
    ('[save_user_fact(facts=[{"quote": "x"}]), current_time()]',
     [("save_user_fact", {"facts": [{"quote": "x"}]}), ("current_time", {})]),
    (f"<function=set_reminder({GIVEN})</function>", [REMIND]),
    (f"<|start|>assistant to=functions.set_reminder<|channel|>commentary json<|message|>{GIVEN}",
     [REMIND]),
    (f"analysisRemind.assistantcommentary to=functions.set_reminder json{GIVEN}", [REMIND]),
    (f"commentary to=functions.set_reminder json{GIVEN}", [REMIND]),
    (f'{{"functionCall": {{"name": "set_reminder", "args": {GIVEN}}}}}', [REMIND]),
    ('{"name": "set_reminder", "text": "call mum", "when": "at 9"}', [REMIND]),
    (f'{{"role": "assistant", "content": null, "tool_calls": [{SAVED}]}}', [SAVE]),
    ("```yaml\nname: set_reminder\narguments:\n  text: call mum\n  when: at 9\n```", [REMIND]),
    ("Tool: set_reminder\nParameters:\n- text: call mum\n- when: 'at 9'", [REMIND]),
    (f"Tool call: set_reminder\nArguments: {GIVEN}", [REMIND]),
    ("<tool_call>\nset_reminder(text='call mum', when='at 9')\n</tool_call>", [REMIND]),
    ("<tool_call>\n<function=set_reminder>\n<parameter=text>\ncall mum\n<parameter=when>\nat 9\n"
     "</function>\n</tool_call>", [REMIND]),
    (f"<tool_call name=\"set_reminder\" arguments='{GIVEN}' />", [REMIND]),
    ('{name: "set_reminder", arguments: {text: "call mum", when: "at 9"}}', [REMIND]),
    ("{“name”: “set_reminder”, “arguments”: {“text”: “call mum”, “when”: “at 9”}}", [REMIND]),
    (json.dumps({"name": "set_reminder", "arguments": json.dumps(GIVEN)}), [REMIND]),
    ('{\n  // at nine\n  "name": "Set_Reminder", "arguments": ' + GIVEN + "}", [REMIND]),
    ("functions.set_reminder({text: 'call mum', when: 'at 9'})", [REMIND]),
    ("set_reminder(text='call mum', when='at 9', repeats=null)",
     [("set_reminder", {**REMIND[1], "repeats": None})]),
    (f"function<｜tool▁sep｜>set_reminder\n```json\n{GIVEN}\n```<｜tool▁call▁end｜>", [REMIND]),
    (f"```function\n{SAVED}\n```", [SAVE]),
    (f"<think>He asks.\n<tool_call>\n{SAVED}\n</tool_call>", [SAVE]),
    ("current_time()", [("current_time", {})]),
    ('<invoke name="current_time"></invoke>\n<invoke name="save_user_fact">'
     '<parameter name="quote">x</parameter></invoke>', [("current_time", {}), X]),
    (f"Action: set_reminder\nAction Input: {GIVEN}\nDone. Next: current_time", [REMIND]),
    ("<|tool_call:begin|>x1<|tool_call:name|>save_user_fact<|tool_call:args|>"
     '{"quote": "x"}<|tool_call:end|>', [X]),
    ("<longcat_tool_call>save_user_fact\n<longcat_arg_key>quote</longcat_arg_key>\n"
     "<longcat_arg_value>x</longcat_arg_value>\n</longcat_tool_call>", [X]),
    ("<use_mcp_tool>\n<server_name>y</server_name>\n<tool_name>save_user_fact</tool_name>\n"
     '<arguments>\n{"quote": "x"}\n</arguments>\n</use_mcp_tool>', [X]),
    ("<tool_code>\nprint(default_api.save_user_fact(quote='x'))\n</tool_code>", [X]),
    ('< | DSML | function_calls>\n< | DSML | invoke name="save_user_fact">\n< | DSML | parameter '
     'name="quote" string="true">x</ | DSML | parameter>\n</ | DSML | invoke>', [X]),
    ('<function=save_user_fact,{"quote": "x"}</function>', [X]),
    ('<save_user_fact quote="x" />', [X]), ('<tool name="save_user_fact" quote="x"/>', [X]),
    ('<action>save_user_fact</action>\n<action_input>{"quote": "x"}</action_input>', [X]),
    ('<|channel|>analysis to=functions.save_user_fact <|constrain|>json<|message|>{"quote": "x"}',
     [X]),
    ('**save_user_fact**\n```json\n{"quote": "x"}\n```', [X]),
    ('@save_user_fact {"quote": "x"}', [X]), ('call:save_user_fact{"quote": "x"}', [X]),
    ('[{"index": 0, "id": "c", "type": "function", "function": '
     '{"name": "save_user_fact", "arguments": {"quote": "x"}}}]', [X]),
    ('<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>',
     [("get_weather", {"city": "Rome"})]),
    ('{"name": "get_weather", "args": {"city": "Rome"}}', [("get_weather", {"city": "Rome"})]),
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
@pytest.mark.parametrize("call", [f"```json\n{TIME}\n```", TIME, f"<tool_call>{TIME}</tool_call>"])
def test_calls_behind_words_are_made_and_only_the_words_are_shown(call: str, size: int) -> None:
    shown, reply = reply_of(f"Сейчас посмотрю.\n{call}\nГотово!", size)
    assert "".join(shown) == "Сейчас посмотрю.\n" == reply.message().text
    assert [one["name"] for one in reply.message().tool_calls] == ["current_time"]


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("text", [
    '<tool_call>{"name": "save_user_fact", "arguments": {"quote": "Я жи', TIME[:-2],
    '{"name": "current_time", "arguments": "Киев"}', '{"name": "current_time", "arguments": [1]}',
    '{"name": "current_time", "arguments": {"a": NaN}}',
    "<function=save_user_fact>я забыл</function>",
])  # fmt: skip
def test_a_call_that_cannot_be_read_is_not_shown_but_corrected(text: str, size: int) -> None:
    shown, reply = reply_of(text, size)
    assert "".join(shown) == "" == reply.message().text
    assert [list(call["args"]) for call in reply.message().tool_calls] == [[UNREADABLE]]


PARAMETERS = {"save": ("text", "quote", "object"), "remind": ("text", "when")}


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(("text", "calls"), [
    ('{"text": "a", "quote": "b"}', ["save"]),
    ('```json\n{"text": "a", "when": "6 pm"}\n```', ["remind"]),
    ('{"object": "a"}\n{"when": "b"}', ["save", "remind"]),
    ('save("a", "b")', ["save"]), ("remind('a', when='6 pm')", ["remind"]), ("save(a, b)", []),
    ('[{"quote": "a"}, {"quote": "b"}]', ["save", "save"]),
    ('{"text": "which of them?"}', []),
    ('{"text": "a", "price": 3}', []),
    ('{"when": "a"} is what you asked for.', []),
])  # fmt: skip
def test_arguments_alone_are_a_call_of_the_only_tool_that_takes_them(
    text: str, calls: list[str], size: int
) -> None:
    reply = ModelReply(PARAMETERS)
    pieces = [text[n : n + size] for n in range(0, len(text), size)]
    shown = "".join(reply.feed(AIMessageChunk(content=piece)) for piece in pieces) + reply.flush()
    assert [call["name"] for call in reply.message().tool_calls] == calls
    assert shown == ("" if calls else text)


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_markup_without_a_call_is_not_shown(size: int) -> None:
    for text in (
        "<tool_call>нет</tool_call>",
        "<tool_call",
        "<tools><function><name>rm_rf</name></tools>",
    ):
        shown, reply = reply_of(text, size)
        assert "".join(shown) == "" and reply.message().tool_calls == []


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("text", [
    "```json\n```", '{"name": ["current_time"]}', '{"name": "Анна", "age": 7}', "{}",
    "```python\nprint(1)\n```", "", '{"arguments": ' + "[" * 5000, "[1] так вы сказали",
    "<b>так</b> 3 < 5", "a [link](http://x) b", "git commit -m <reason>", "[think about it] x",
    "A version:\n\n```python\ndef set_reminder(text, when):\n    pass\n\n"
    "set_reminder(text='x')\n```\nRun it.", "```js\ncurrent_time({})\n```\nand `x`",
    "Qwen writes `<tool_call>` and `</tool_call>`, Mistral `[TOOL_CALLS]`.",
    "Use `set_reminder(text='x')` or ``` alone", "Mistral writes [TOOL_CALLS] and a list.",
    'Qwen:\n```xml\n<tool_call>\n{"name": "weather"}\n</tool_call>\n```\nIt is run.',
    "name: Anna\nage: 7", "Tool: hammer. **Name:** Anna", "I have set_reminder: it reminds.",
    "name: set_reminder\ndescription: reminds\nparameters:\n  text: a text",
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
    for text, first in (("привет всем", 0), ("```python\nprint(1)", 16), ("[1] так", 2),
                        ("<b>так</b>", 2), ('{"name": "Анна", "q": [', 22)):  # fmt: skip
        shown, _ = reply_of(text, 1)
        assert shown.index(next(filter(None, shown))) <= first, text


def test_a_call_that_stands_in_the_prompt_is_a_quote() -> None:
    for prompt in (f"повтори: {TIME}", json.dumps({"text": f"он прислал {TIME}"})):
        for text in (TIME, f"```json\n{TIME}\n```", f"{SAVED}\n{TIME}"):
            shown, reply = reply_of(text, 5, (prompt,))
            assert "".join(shown) == text and reply.message().tool_calls == []


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(("asked", "text"), [
    ("How is getUser called in JSON?", '{"name": "getUser", "arguments": {"id": 5}}'),
    ("Чем открывается вызов, каким тегом?", "<tools> открывает список, </tools> его закрывает."),
    ("What is a step of BPEL in XML?", '<invoke name="callBank" partnerLink="bank"/>\nThis one.'),
])  # fmt: skip
def test_an_answer_about_markup_is_shown(asked: str, text: str, size: int) -> None:
    reply = ModelReply(OFFERED, asked=asked)
    pieces = [text[n : n + size] for n in range(0, len(text), size)]
    shown = "".join(reply.feed(AIMessageChunk(content=piece)) for piece in pieces) + reply.flush()
    assert shown == text and reply.message().tool_calls == []


def test_a_call_of_a_tool_that_the_question_names_is_an_example() -> None:
    reply = ModelReply(OFFERED, asked="How does a call of current_time look?")
    for text in (f"So:\n```json\n{TIME}\n```\nIt takes a zone.", TIME, "current_time()"):
        assert reply.feed(AIMessageChunk(content=text)) + reply.flush() == text
    assert reply.message().tool_calls == []


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
