"""What the references of an answer lead to."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from src.memory.retrieval_repo import Hit
from src.memory.search_index_repo import DocumentKind
from src.talk.graph_run import StreamedReferences, resolve_citations
from tests.cases import for_each

NOW = datetime(2026, 11, 20, tzinfo=UTC)


def hit(number: int, kind: DocumentKind = "message", speaker: str = "user") -> Hit:
    return Hit(kind, number, number, f"msg-{number}", speaker, NOW, "текст")


def test_a_reference_leads_to_what_the_user_said_or_it_goes() -> None:
    shown = [hit(1), hit(2, "summary"), hit(3, speaker="assistant"), hit(4, "memory")]
    text, sources = resolve_citations(
        "Да [1], так [2], эдак [3], всегда [4, 5].", shown, asked="?"
    )
    assert text == "Да [1], так, эдак, всегда [2]."
    assert [(s.number, s.uid, s.message_id, s.memory_id) for s in sources] == [
        (1, "msg-1", 1, None),
        (2, "msg-4", 4, 4),
    ]


def test_sources_are_numbered_as_the_answer_mentions_them() -> None:
    shown = [hit(number) for number in range(1, 8)]
    text, sources = resolve_citations(
        "Кот [6], пёс [2][6], рыба [fact-9], ёж [msg-7] [3].", shown, asked="?"
    )
    assert text == "Кот [1], пёс [2][1], рыба, ёж [3] [4]."
    assert [(s.number, s.uid) for s in sources] == [
        (1, "msg-6"), (2, "msg-2"), (3, "msg-7"), (4, "msg-3"),
    ]  # fmt: skip


ANSWERS = [
    "Кот [6], пёс [2][6], рыба [fact-9], ёж [msg-7] [3].",
    "Кот [2, 7; 1] и [ссылка](https://b.example/[1]) и [4](https://b.example).",
    "Код `a[0]` и `b[7]`: [5]\n```py\nx[3] = y[9]\n```\nи ещё [3] [9]", "```\nx[1]",
    "м`ясо [3] і п`ять [9] `", "Открытая [скобка [7 и всё", "Пробелы   [9]   и [1]", "[7]", "",
    "Дважды [3][3] [3], `x` [3], [3]\n[3]",
]  # fmt: skip


@for_each("answer", ANSWERS)
@for_each("size", [1, 2, 3, 7, 1000])
def test_a_growing_answer_shows_what_the_whole_will_say(answer: str, size: int) -> None:
    shown = [hit(number) for number in range(1, 8)]
    pieces: list[str] = []
    growing = StreamedReferences(pieces.append, lambda: shown, asked="?")
    for start in range(0, len(answer), size):
        growing.feed(answer[start : start + size])
    growing.flush()
    assert "".join(pieces) == resolve_citations(answer, shown, asked="?")[0]


@for_each("piece", ["`", "[", "a[", " ", "[1", "``", "`a"])
def test_a_growing_answer_holds_little_back(piece: str) -> None:
    pieces: list[str] = []
    growing = StreamedReferences(pieces.append, list, asked="?")
    for _ in range(5_000):
        growing.feed(f"{piece}слово")
    fed = len(f"{piece}слово") * 5_000
    assert fed - len("".join(pieces)) <= 70


def test_brackets_that_the_user_wrote_are_no_references() -> None:
    shown = [replace(hit(1), text="У меня 3 кота, список [2] в файле"), hit(2)]
    text, sources = resolve_citations(
        "«У меня 3 кота, список [2] в файле» [1], а ещё [2]", shown, asked="?"
    )
    assert text == "«У меня 3 кота, список [2] в файле» [1], а ещё [2]"
    assert [s.uid for s in sources] == ["msg-1", "msg-2"]
    asked = "Запомни: пункты [4] и [5] важны"
    text, _ = resolve_citations("Запомнил: пункты [4] и [5] важны", [], asked=asked)
    assert text.endswith("[4] и [5] важны")
