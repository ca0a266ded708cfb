"""A model's thoughts: in every spelling, split anywhere, never shown or kept."""

from __future__ import annotations

import re

import pytest
from langchain_core.messages import AIMessageChunk

from src.base.errors import ModelReplyError
from src.llm.reply import ModelReply
from src.llm.reply_text import ReplyText, without_thoughts

THOUGHT = "Пользователь спросил.\n\nОтвечу ему так:"
ANNOUNCED = [
    f"<think>{THOUGHT}</think>\n\n", "<THINK></THINK>", f"<seed:think>{THOUGHT}</seed:think>",
    f"[THINK]{THOUGHT}[/THINK]", f"◁think▷{THOUGHT}◁/think▷",
    f"<reasoning>{THOUGHT}</reasoning>\n", f"&lt;think&gt;{THOUGHT}&lt;/think&gt;",
    f"<|START_THINKING|>{THOUGHT}<|END_THINKING|>",
    f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>final<|message|>",
    f"<unused94>thought\n{THOUGHT}<unused95>", f"<|channel>thought\n{THOUGHT}<channel|>",
    f"<|startofthink|>{THOUGHT}<|endofthink|>", f"<|begin_think|>{THOUGHT}<|end_think|>",
    f"<think-block>{THOUGHT}</think-block>", f"<longcat_think>{THOUGHT}</longcat_think>",
    f"[REASONING]{THOUGHT}[/REASONING]\n",
    f"<｜begin▁of▁thinking｜>{THOUGHT}<｜end▁of▁thinking｜>", f"<cot>\n{THOUGHT}\n</cot>\n",
    f"<internal_reasoning>{THOUGHT}</internal_reasoning>",
    f"<reasoning_content>{THOUGHT}</reasoning_content>",
    f"<|begin_of_thought|>{THOUGHT}<|end_of_thought|><|begin_of_solution|>",
    f"<details type=\"x\">\n<summary>Thought for 4 s</summary>\n{THOUGHT}</details>",
    f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>commentary"
    "<|message|><|end|><|start|>assistant<|channel|>final <|constrain|>text<|message|>",
]  # fmt: skip


def shown_of(text: str, size: int, *, may_be_unannounced: bool = False) -> tuple[str, str]:
    """What is shown of a text in pieces, and the text of the whole message."""
    reply = ModelReply(may_think_first=may_be_unannounced)
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    shown = [reply.feed(AIMessageChunk(content=piece)) for piece in pieces]
    return "".join([*shown, reply.flush()]), str(reply.message().text)


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("thoughts", ANNOUNCED)
def test_thoughts_are_not_shown(thoughts: str, size: int) -> None:
    assert shown_of(f"{thoughts}Привет!", size) == ("Привет!", "Привет!")
    if not re.search("reasoning|<cot", thoughts):  # these only count at the start of a line
        assert "Пользователь" not in shown_of(f"Так. {thoughts}Привет!", size)[0]


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("end", ["</think>", "</thinking>", "\n</thought>", "[/THINK]"])
def test_a_closing_tag_alone_ends_thoughts_that_began_with_the_reply(end: str, size: int) -> None:
    text = f"{THOUGHT}{end}\n\nПривет!"
    assert shown_of(text, size, may_be_unannounced=True) == ("Привет!", "Привет!")
    assert shown_of(text, size)[1].strip() == "Привет!", "its beginning was shown, but is not kept"


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("thoughts", ["", f"<think>{THOUGHT}</think>\n"])
def test_an_answer_may_speak_of_the_tags_that_its_question_names(thoughts: str, size: int) -> None:
    text = "Тег <think> открывает мысли, а </think> их закрывает."
    reply = ModelReply(asked="Что значит `<think>`?")
    written = f"{thoughts}{text}"
    pieces = [written[n : n + size] for n in range(0, len(written), size)]
    shown = [reply.feed(AIMessageChunk(content=piece)) for piece in pieces]
    assert "".join([*shown, reply.flush()]) == text == reply.message().text


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_words_about_a_tag_or_a_token_are_shown(size: int) -> None:
    for asked, text in (
        ("есть ли в html тег think?", "Слово <think> в HTML не существует."),
        ("что за токен у GLM?", "Это <|user|>: начало хода."),
        ("Что значит [INST]?", "Между [INST] и [/INST] стоит запрос."),
    ):
        reply = ModelReply(asked=asked)
        pieces = [text[n : n + size] for n in range(0, len(text), size)]
        shown = [reply.feed(AIMessageChunk(content=piece)) for piece in pieces]
        assert "".join([*shown, reply.flush()]) == text == reply.message().text


def test_a_reply_that_may_begin_with_thoughts_is_shown_once_it_is_certain() -> None:
    thoughts = ReplyText(may_think_first=True)
    assert thoughts.feed("Привет") == "" and thoughts.is_thinking
    assert thoughts.flush() == ("Привет", []) and not thoughts.was_unannounced
    announced = ReplyText(may_think_first=True)
    assert announced.feed("<think>a</think>Да! ") == "Да! "


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("text", [
    "analysisThe user greets.assistantfinalHi.", "<|START_RESPONSE|>Hi.<|END_RESPONSE|>",
    "Here is my thought process:\nA greeting.\n\nHere is my response:\nHi.",
    "<|begin_of_box|>Hi.<|end_of_box|>", "<|start_header_id|>assistant<|end_header_id|>\n\nHi.",
    "Hi.<|im_end|>\n<|im_start|>user\nAnd you?", "Hi.<end_of_turn>\n<start_of_turn>user\nWho?",
    "Hi.<|endoftext|>Human: who?", "Hi.</s>", "Hi. [/INST]", "Hi.<turn|>", "Hi.<｜User｜>Who?",
    "<|channel|>commentary<|message|>Hi.<|end|>", "Hi.[|endofturn|]", "<bos>Hi.<eos>",
    "<｜begin▁of▁sentence｜><｜Assistant｜>Hi.<｜end▁of▁sentence｜>", "assistant\n\nHi.",
    "<|start_of_role|>assistant<|end_of_role|>Hi.<|end_of_text|>", "Assistant: Hi.",
    '<tool_response>\n{"saved": true}\n</tool_response>\nHi.',
    '<reasoning effort="high">A greeting.</reasoning>\nHi.',
])  # fmt: skip
def test_thoughts_of_models_without_tags_are_not_shown(text: str, size: int) -> None:
    assert shown_of(text, size)[1].strip() == "Hi."


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_blocks_and_records_of_the_prompt_are_not_shown(size: int) -> None:
    record = '{"n": 1, "id": "fact-3", "kind": "user_fact", "text": "п\'ю чай"}'
    for echoed in (
        f"<key_facts>\n{record}\n{record}\n</key_facts>",
        f"{record}\n{record}\n",
        f"<memories>{record}</memories>",
        '[{id: "fact-7", "text": "чай"}]',
        f"<history_summary>\n{record}",
        *("(n=1, id=fact-3)", '[id: "msg-12", n: 2]', "(fact-3, msg-4)", "(id=fact-3; id=msg-5)"),
    ):
        assert shown_of(f"Ви п'єте чай. {echoed}", size)[1].strip() == "Ви п'єте чай."
    for text in ('{"n": 1, "of": 2}', "the tag <memories> opens it", '`{"n": 1, "id": "fact-3"}`',
                 "f(n=1)", '{"replaces": ["fact-1"], "ids": [fact-2]}', "a (id=7)"):  # fmt: skip
        assert shown_of(text, size) == (text, text)


def test_a_reply_that_failed_on_the_way_is_no_answer() -> None:
    for reason in ("error", "ERROR", "network_error", "insufficient_system_resource",
                   "upstream_error", "MALFORMED_RESPONSE"):  # fmt: skip
        reply = ModelReply()
        reply.feed(AIMessageChunk(content="Половина ответа"))
        failed = AIMessageChunk(content="", response_metadata={"finish_reason": reason})
        with pytest.raises(ModelReplyError):
            reply.feed(failed)


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("text", [
    "Тег `<think>` открывает, `</think>` закрывает.", "```xml\n<think>\nx\n</think>\n```\nвот так",
    "<answer>да</answer>", "2 < 3, a<b", "git commit -m <reason>", "[thinking about it](http://x)",
    "analysis of the data", "Here is my plan: a, b", "> quoted", "<s>old</s> and `<|im_end|>` x",
    "<details><summary>Title</summary>Text</details>", "<rethink_it_all>x",
    "<details>\n<summary>Reasons to move</summary>\nRent.</details>", "assistant coach",
])  # fmt: skip
def test_a_literal_tag_in_code_and_other_words_stay(text: str, size: int) -> None:
    assert shown_of(text, size) == (text, text)
    assert shown_of(f"<think>{THOUGHT}", size) == ("", ""), "without an end it is no answer"
    assert without_thoughts("<think>x</think>\n<answer>\nДа.</answer><|im_end|>") == "Да."
