"""Forms that bend: a bad entry loses only itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

from src.base.errors import ModelError
from src.base.metrics import Metrics
from src.llm.forms import read_form
from src.memory.prompts import ExtractedFacts, Understanding
from src.talk.forms import WantedForm

A, B = {"text": "Живёт в Праге", "quote": "я в Праге"}, {"text": "Есть кот", "quote": "мой кот"}


def dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize(("reply", "texts"), [
    (dumped({"facts": [A, B]}), [A, B]), (f"Вот:\n{dumped({'facts': [A]})}\nЭто всё.", [A]),
    (dumped([A, B]), [A, B]), (dumped({"facts": A}), [A]),
    (dumped({"facts": {"1": A, "2": B}}), [A, B]), (dumped({"facts": None}), []), ("[]", []),
    (dumped({"facts": [A, None, "строка", {"quote": "без текста"}, 7, B]}), [A, B]),
    (f'{{"facts": [{dumped(A)},],}}', [A]), (dumped(A), [A]),
    (f'<think>{{"facts": []}}</think>{dumped({"facts": [A]})}', [A]),
    (f'Сначала {{"facts": []}}, нет:\n{dumped({"facts": [A]})}', [A]),
    (dumped({"name": "ExtractedFacts", "arguments": {"facts": [A]}}), [A]),
    (dumped({"name": "ExtractedFacts", "arguments": dumped({"facts": [A]})}), [A]),
    (dumped({"ExtractedFacts": {"facts": [A]}}), [A]), ({"facts": [A]}, [A]),
    (dumped({"facts": [{**A, "importance": "очень"}]}), [A]),
    (f"{dumped(A)}\n{dumped(B)}", [A, B]), (f"1. {dumped(A)}\n2. {dumped(B)}", [A, B]),
    (dumped({"facts": {"facts": [A, B]}}), [A, B]), (dumped({"facts": {"item": [A]}}), [A]),
    (dumped({"result": {"facts": [A]}}), [A]), (dumped({"data": [A, B]}), [A, B]),
    (dumped({"ExtractedFacts": [A]}), [A]), (dumped({"facts": dumped([A, B])}), [A, B]),
    (dumped(dumped({"facts": [A]})), [A]), (dumped({"arguments": str({"facts": [A]})}), [A]),
    (dumped({"facts": {"facts": []}}), []),
    (f"{dumped({'facts': [A]})}\nЭто {{1}} факт.", [A]),
    (f"Вид {{…}}:\n{dumped({'facts': [A]})}", [A]),
    (f'{{"facts": [{dumped(A)}, {{"text": "Ест', [A]),
    (str({"facts": [{**A, "pinned": True, "object": None}]}), [A]),
    ([{"facts": [A]}, {"facts": [B]}], [A, B]), (dumped([{"facts": [A]}, {"facts": [B]}]), [A, B]),
    (dumped({"fact1": A, "fact2": B}), [A, B]), (dumped({"ok": True, "out": {"facts": [A]}}), [A]),
    (dumped({"content": None, "tool_calls": [{"id": "1", "function": {
        "name": "ExtractedFacts", "arguments": dumped({"facts": [A]})}}]}), [A]),
    (dumped({"facts": [{"fact": A["text"], "quote": A["quote"]}]}), [A]),
])  # fmt: skip
def test_what_can_be_read_is_read(reply: Any, texts: list[dict[str, str]]) -> None:
    found = read_form(reply, ExtractedFacts)
    assert [fact.text for fact in found.facts] == [fact["text"] for fact in texts]


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "ничего",
        "{",
        '{"facts": 1}',
        "нет фактов [1]",
        'эхо: {"uid": "msg-1", "role": "user", "text": "Живёт в Праге"}',
        '{"a": 1}',
        "[" * 3000,
        '{"facts": ["живёт в Праге"]}',
    ],
)
def test_anything_else_is_no_form(reply: str) -> None:
    with pytest.raises(ModelError):
        read_form(reply, ExtractedFacts)


def test_entries_of_a_wish_may_be_objects_and_their_time_may_have_another_name() -> None:
    found = read_form({"facts": [{"text": "мій кіт"}, "пес"], "forget": None, "reminders": [
        {"text": "погодувати", "time": "о 9"}, {"text": "гуляти", "when": None}]},
        WantedForm)  # fmt: skip
    assert found.facts == ["мій кіт", "пес"]
    assert [(one.text, one.when) for one in found.reminders] == [
        ("погодувати", "о 9"),
        ("гуляти", ""),
    ]


def test_a_bad_entry_costs_a_form_of_several_fields_nothing_else() -> None:
    found = read_form({"intent": "solve", "answer": "да", "facts": ["слово"]}, Understanding)
    assert (found.intent, found.answer, found.facts) == ("solve", "да", [])


def test_what_was_dropped_is_counted() -> None:
    metrics = Metrics()
    read_form(dumped({"facts": [A, None, {}]}), ExtractedFacts, metrics)
    text = metrics.render().decode()
    assert 'pomni_forms_total{result="read"} 1.0' in text
    assert 'pomni_forms_total{result="entry dropped"} 2.0' in text
