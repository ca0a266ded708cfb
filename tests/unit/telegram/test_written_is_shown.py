"""What a model writes is what Telegram shows: only markup goes, no word and no sign beside it."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from src.telegram.rendering import convert, keep_words, render, render_start
from src.texts.plain_text import is_visible
from tests.fakes.telegram_checks import check_entities

# An answer and how it is shown, if not as it was written.
ANSWERS = [
    (written, shown or written)
    for written, _, shown in (
        answer.partition("\n▶\n")
        for answer in Path(__file__)
        .with_name("written_answers.txt")
        .read_text("utf-8")
        .rstrip("\n")
        .split("\n■\n")
    )
]
MARKS = "$ 5$ $x ~ ~5 <b> </b> < > <!-- * ** _ __ | || ` ``` \\ \\( $$ & [ ] ![ ( ) ~~ #"
INSERTS = (
    *MARKS.split(),
    *("😀", "слово", "[1]", "[1]: x", "1) ", "\t", "    ", "\n", "\n\n", "\n> ", "\n- ", "\n7. "),
    *("\n# ", "\n---\n"),
)
# What is not shown as it stands: addresses of links, languages of code, characters by name, what
# formulas and lines of tables are marked with.
MARKUP = re.compile(
    r"(?<=\])\((?:\"[^\"\n]*\"|\([^()\n]*\)|[^\"\n)])*\)|(?:```|~~~)[^\n]*|&#?\w+;|<(?=\w+:|\S+@)"
    r"|<br ?/?>|\$\$|\\|^[-=:| \t>]+$",
    re.MULTILINE,
)
SIGNS = "€₴₽$%@=/{}^;?,.:'\"<+&№«»—−×≥"


def visible(written: str) -> str:
    """Return letters, digits and signs that are no markup, whatever stands beside them."""
    text = MARKUP.sub("", written)
    return "".join(char for char in text if char.isalnum() or char in SIGNS)


def first_missing(wanted: str, shown: str) -> str:
    """Return the rest of ``wanted`` from its first character that is not in ``shown`` in order."""
    characters = iter(shown)
    for place, character in enumerate(wanted):
        if character not in characters:
            return wanted[place : place + 20]
    return ""


def mutations(number: int) -> Iterator[str]:
    """Yield answers that are cut, joined, nested, or have other signs in them."""
    numbers = random.Random(number)
    for written, _ in ANSWERS:
        other, _ = numbers.choice(ANSWERS)
        place = numbers.randrange(len(written))
        lines = written.splitlines()
        yield written[:place]
        yield written + numbers.choice(("\n", "\n\n", " ")) + other
        yield "\n".join(f"> {line}" for line in lines)
        yield "- " + "\n  ".join(lines)
        yield written[:place] + numbers.choice(INSERTS) + written[place:]


@pytest.mark.parametrize("written, shown", ANSWERS)
async def test_an_answer_is_shown_as_a_reader_expects(written: str, shown: str) -> None:
    assert "\n".join(part.text for part in await render(written)) == shown


@pytest.mark.parametrize(
    "number", [1, *(pytest.param(number, marks=pytest.mark.proof) for number in range(2, 60))]
)
def test_every_letter_and_sign_arrives_in_order(number: int) -> None:
    written = [*mutations(number), *(answer for answer, _ in ANSWERS)]
    assert len(written) >= 300
    for text in written:
        assert first_missing(visible(text), convert(text)[0]) == "", text


async def test_every_beginning_of_an_answer_is_a_message() -> None:
    for written, _ in ANSWERS:
        for end in range(1, len(written), 9):
            part = await render_start(written[:end])
            text = "" if part is None else part.text
            assert first_missing(visible(written[:end]), text) == ""
            check_entities(text, part and [entity.model_dump() for entity in part.entities])


@pytest.mark.parametrize("written, shown, found", [
    ("# **Да**\nнет", "Да\nнет", {("bold", "Да")}),
    ("Да\n---\nнет", "Да\n———\nнет", set()),
    ("> а\n> > б\n\nв", "а\n> б\n\nв", {("blockquote", "а\n> б")}),
    ("- ```c++\n  a\n  ```", "-\u0020\na", {("pre", "a")}),
    ("\\(x^2\\) и $$\\pi_1$$", "x^2 и \\pi_1", {("code", "x^2"), ("code", "\\pi_1")}),
    ("**<b>** ~~5~~ *a*", "<b> 5 a", {("bold", "<b>"), ("strikethrough", "5"), ("italic", "a")}),
    ("| [а](https://b.example) |\n|---|", "а\n-\nа: https://b.example", {("pre", "а\n-")}),
    ("[а [1]](https://b.example)", "а [1]", {("text_link", "а [1]")}),
    ("[1](https://b.example)", "[1]", {("text_link", "[1]")}),
    ("[`a` **b**](https://b.example)", "a b", {("text_link", "a b"), ("bold", "b")}),
    ("[`a`](b.md)", "a (b.md)", {("code", "a")}),
    ("[![а](https://b.example/i)](https://b.example)", "🖼 а", {("text_link", "🖼 а")}),
    ("- а\r\n\r\n|в|\r\n|-|\r\n|г|\r\n\r\nд", "- а\n\nв\n-\nг\n\nд", {("pre", "в\n-\nг")}),
    ("[а](b.md) [](c.md) <d@e.example>", "а (b.md) c.md d@e.example", set()),
])  # fmt: skip
def test_markup_becomes_entities(written: str, shown: str, found: set[tuple[str, str]]) -> None:
    text, entities = convert(written)
    assert text == shown
    assert {(entity.type, entity.extract_from(text)) for entity in entities} >= found
    assert {entity.type for entity in entities} == {kind for kind, _ in found}


def test_an_address_with_two_parameters_is_opened_as_it_is_meant() -> None:
    for sign in ("&", "&amp;"):
        [link] = convert(f"[а](https://b.example/?x=1{sign}copy=2)")[1]
        assert link.url == "https://b.example/?x=1&copy=2"


@pytest.mark.parametrize(
    "written",
    [
        *("> - " * 2000, "+ + + " * 1024, "1. " * 2000, "- 1. > " * 900, "- \n" * 4000),
        "|a" * 900 + "|\n" + "|-" * 900 + "|\n" + "|b|\n" * 20,
        "|" + "a" * 4000 + "|\n|-|\n" + "|b|\n" * 800,
        *("\\[" + "\\sqrt{" * 900, "$$" * 4000, "~" * 9000, "``` " * 900),
    ],
)
def test_a_text_does_not_grow(written: str) -> None:
    assert len(convert(written)[0]) <= 4 * len(written) + 1000


def test_a_table_of_nothing_is_no_table() -> None:
    with pytest.raises(ValueError, match="too many"):
        convert("|a" * 900 + "|\n" + "|-" * 900 + "|\n" + "|b|\n" * 900)


def test_stand_ins_that_somebody_sends_vanish() -> None:
    assert convert("a\ufdd00\ufdd1b <c>")[0] == "a0b <c>"


OWN = [
    "Меня зовут __init__", "цена *5* и **7**, ~~нет~~ ||да|| 2*3*4",
    "у меня $5 и $6, \\(x\\), \\[y\\]", "- молоко\n- хлеб\n# заголовок\n> цитата\n1. раз\n+ два",
    "<b>x</b> &amp; [a](http://b.example) ![i](u)", "C:\\new\\_x", "a`b`c",
    "x^2 = {3} === --- 1. два", "https://b.example/c_d_e?x=1&y=2#z_z_", "@user_name_x #tag_a_",
    "| a | b |\n|---|---|\n| 1 | 2 |", "```\ncode **x**\n```", "вот:\n```py\nx = __y__",
]  # fmt: skip


@pytest.mark.parametrize("said", OWN)
@pytest.mark.parametrize("answer", ["Запомнил: {}", "• 22.11.2026 05:08: «{}» [1]"])
async def test_a_quote_is_shown_as_it_was_written(said: str, answer: str) -> None:
    markdown = answer.replace("{}", said)
    [part] = await render(keep_words(markdown, [said]))
    assert part.text == markdown
    assert {entity.type for entity in part.entities} <= {"url", "mention", "hashtag"}


async def test_a_part_of_what_he_wrote_keeps_its_underscores() -> None:
    said = "Мои файлы — __init__, __main__.py и *всё*."
    answer = "**Нашёл**: «__init__», __main__.py, *всё*."
    [part] = await render(keep_words(answer, [said]))
    assert part.text == "Нашёл: «__init__», __main__.py, *всё*."
    assert [entity.type for entity in part.entities] == ["bold"]


@pytest.mark.parametrize(
    "answer", ["**Да** и _нет_", "`__init__` и ```\n__init__ = 1\n```", "Скобки (x) и [1]", ""]
)
def test_formatting_of_the_model_s_own_and_code_stay(answer: str) -> None:
    assert keep_words(answer, ["Что такое __init__ (x)?", "Обычный текст"]) == answer


@pytest.mark.parametrize("text", [
    "", " \t\r\n\u00a0\u2003\u3000", "\u200b\u200c\u200d\u2060\ufeff",
    "\u200e\u200f\u202a\u202e\u2066\u2069\u061c", "\u115f\u1160\u3164\uffa0", "\u2800\u2800",
    "\u17b4\u17b5\u2064\U0001d159\U0001d173\U000e0001\U000e0041", "\x00\x1f\x7f\x85\u2028\u2029",
    "\ud800", "\ufdd0\uffff\U0010fffe",
])  # fmt: skip
def test_nothing_of_it_is_seen(text: str) -> None:
    assert not is_visible(text)
    assert is_visible(f"{text}.{text}")


@pytest.mark.parametrize(
    "text", ["a", "ж", "0", ".", "|", "—", "😀", "❤️", "👨‍👩‍👧", "\U0001fae8", "한", "ﷺ", "\ufffd"]
)
def test_it_is_seen(text: str) -> None:
    assert is_visible(text)
