"""The offline model: it stores, asks the tools, quotes, and never pretends to be more."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from src.graph.tools.current_time import build_current_time
from src.llm.chat import ModelCaller
from src.llm.offline import OfflineChatModel, answer, is_question
from src.storage.turn_repo import ModelUsage
from src.texts import Language, say

TOOLS = ("search_messages", "current_time")
LABEL = "[Текущее время: 2026-11-21 14:05] "


def prompt(text: str, *more: BaseMessage) -> list[BaseMessage]:
    earlier = [HumanMessage(f"{LABEL}Где мои ключи?"), AIMessage("Не знаю.")]
    return [SystemMessage("static"), *earlier, HumanMessage(LABEL + text), *more]


def found(*texts: str) -> ToolMessage:
    messages = [
        {"uid": f"msg-{number}", "said_at": "2026-11-20T09:07:00+03:00", "text": text}
        for number, text in enumerate(texts)
    ]
    return tool_result(json.dumps({"messages": messages}), "search_messages")


def tool_result(text: str, name: str, *, failed: bool = False) -> ToolMessage:
    status = "error" if failed else "success"
    return ToolMessage(text, name=name, tool_call_id="1", status=status)


def reply(messages: Sequence[BaseMessage], tools: Sequence[str] = TOOLS) -> str:
    message = answer(messages, tools)
    assert message.tool_calls == []
    return str(message.text)


@pytest.mark.parametrize(
    "text",
    [
        "Как меня зовут?",
        "как меня зовут",
        "— Где я живу",
        "Напомни, что я говорил",
        "Меня зовут Анна, да?",
        "Як мене звати",
        "Коли мій день народження",
        "What is my name",
        "tell me about my cat",
    ],
)
def test_questions_are_known_by_their_mark_or_first_word(text: str) -> None:
    assert is_question(text)


@pytest.mark.parametrize(
    "text",
    [
        "Меня зовут Анна",
        "Какао я не люблю",
        "Что-то я устал",
        "Как-то раз я был в Омске.",
        "Мене звати Олена",
        "Island life suits me",
        "My name is Ann",
        "",
    ],
)
def test_statements_are_no_questions(text: str) -> None:
    assert not is_question(text)


@pytest.mark.parametrize(
    ("text", "language"),
    [("Меня зовут Анна", "ru"), ("Мене звати Олена", "uk"), ("My name is Ann", "en")],
)
def test_a_statement_is_stored_and_the_reply_says_what_this_model_is(
    text: str, language: Language
) -> None:
    expected = f"{say('offline_stored', language)} {say('offline_note', language)}"
    assert reply(prompt(text)) == expected


@pytest.mark.parametrize("text", ["Как меня зовут?", "Як мене звати?", "What is my name?"])
def test_a_question_calls_the_search_with_the_user_s_words(text: str) -> None:
    [call] = answer(prompt(text), TOOLS).tool_calls
    assert (call["name"], call["args"]) == ("search_messages", {"query": text, "limit": 10})
    assert call["id"] != answer(prompt(text), TOOLS).tool_calls[0]["id"]


@pytest.mark.parametrize("text", ["Который час?", "котра година", "What time is it?"])
def test_a_question_about_the_time_calls_the_clock(text: str) -> None:
    [call] = answer(prompt(text), TOOLS).tool_calls
    assert (call["name"], call["args"]) == ("current_time", {})


@pytest.mark.parametrize(
    ("question", "language", "quoted"),
    [
        ("Как меня зовут?", "ru", "• 20.11.2026 09:07: «Меня зовут Анна»"),
        ("Як мене звати?", "uk", "• 20.11.2026 09:07: «Меня зовут Анна»"),
        ("What is my name?", "en", "• 20.11.2026 09:07: “Меня зовут Анна”"),
    ],
)
def test_what_the_search_found_is_quoted_with_its_date(
    question: str, language: Language, quoted: str
) -> None:
    text = reply(prompt(question, found("Меня зовут Анна")))
    assert text == f"{say('offline_quote_one', language)}\n\n{quoted}"


def test_questions_are_never_quoted_and_three_quotes_are_enough() -> None:
    text = reply(prompt("Где кот?", found("Где мой кот?", "кот дома", "кот спит", "к", "о")))
    assert text.count("•") == 3 and "кот дома" in text and "Где мой" not in text
    only_questions = reply(prompt("Где кот?", found("Где мой кот?", "как кот")))
    assert only_questions.startswith(say("offline_unknown", "ru"))


def test_the_time_is_told() -> None:
    result = tool_result("2026-11-21 14:05, Saturday", "current_time")
    expected = say("offline_time", "ru", time="2026-11-21 14:05, Saturday")
    assert reply(prompt("Который час?", result)) == expected


@pytest.mark.parametrize(
    "result",
    [
        found(),
        tool_result("not json", "search_messages"),
        tool_result("The tool failed.", "search_messages", failed=True),
        tool_result("The tool failed.", "current_time", failed=True),
    ],
)
def test_without_anything_found_it_says_that_it_does_not_know(result: ToolMessage) -> None:
    expected = f"{say('offline_unknown', 'ru')} {say('offline_note', 'ru')}"
    assert reply(prompt("Где кот?", result)) == expected


def test_without_tools_it_does_not_know() -> None:
    for question in ("Где кот?", "Который час?"):
        assert reply(prompt(question), ()).startswith(say("offline_unknown", "ru"))


def test_results_of_an_earlier_turn_are_not_quoted_again() -> None:
    earlier = [HumanMessage("Где кот?"), found("кот дома"), AIMessage("дома")]
    assert answer([*earlier, HumanMessage("Где пёс?")], TOOLS).tool_calls
    assert "кот" not in reply([*earlier, HumanMessage("Пёс во дворе")])


async def test_it_works_through_the_interface_of_a_real_model() -> None:
    caller = ModelCaller(OfflineChatModel(), "offline", timeout=5)
    shown: list[str] = []
    usage: list[ModelUsage] = []

    async def ask(text: str) -> AIMessage:
        return await caller.stream(
            caller.with_tools([build_current_time()]),
            prompt(text),
            purpose="answer",
            on_text=shown.append,
            on_usage=usage.append,
        )

    assert (await ask("Который час?")).tool_calls[0]["name"] == "current_time"
    assert shown == []
    stored = await ask("Меня зовут Анна")
    assert shown == [stored.text] and stored.text.startswith("Запомнил.")
    assert [(u.purpose, u.model, u.prompt_tokens) for u in usage] == [("answer", "offline", 0)] * 2
    plain = await OfflineChatModel().ainvoke([HumanMessage("Где кот?")])
    assert plain.text.startswith(say("offline_unknown", "ru")), "no tools were bound"
