"""Answers as Telegram messages: formatted first, split second, nothing lost up to the bounds."""

from __future__ import annotations

import pytest
from aiogram.types import MessageEntity

from src.telegram import rendering
from src.telegram.rendering import MAX_ENTITIES, MAX_PARTS, MAX_UTF16, Part
from tests.attacks.markdown import attack
from tests.fakes.telegram_checks import check_entities, utf16_length


async def render(markdown: str) -> list[Part]:
    """An answer as messages, as many as it takes."""
    return await rendering.render(markdown, max_parts=100)


def kinds(part: Part) -> list[str]:
    return [entity.type for entity in part.entities]


def covered(part: Part, entity: MessageEntity) -> str:
    """The text under an entity, counted as Telegram counts."""
    return entity.extract_from(part.text)


def check(parts: list[Part]) -> None:
    """What Telegram itself would check."""
    for part in parts:
        assert part.text.strip()
        assert utf16_length(part.text) <= MAX_UTF16
        check_entities(part.text, [entity.model_dump() for entity in part.entities])


@pytest.mark.parametrize("character", ["ж", "👋", "a"])
async def test_a_text_of_exactly_one_message_is_not_split(character: str) -> None:
    count = MAX_UTF16 // utf16_length(character)
    parts = await render(character * count)
    assert [part.text for part in parts] == [character * count]


@pytest.mark.parametrize("word", ["слово ", "👨‍👩‍👧‍👦 ", "😀", "a", "строка\n"])
async def test_a_long_text_is_split_on_utf16_units_and_stays_whole(word: str) -> None:
    text = word * (3 * MAX_UTF16 // utf16_length(word))
    parts = await render(text)
    check(parts)
    assert len(parts) >= 3
    assert "".join("".join(part.text for part in parts).split()) == "".join(text.split())
    assert not any("\ud800" <= c <= "\udfff" for part in parts for c in part.text)


async def test_code_stays_code_on_both_sides_of_a_split() -> None:
    lines = [f"print({number})  # строка кода" for number in range(300)]
    fence = "```python\n" + "\n".join(lines) + "\n```"
    parts = await render(f"До.\n\n{fence}\n\nПосле.")
    check(parts)
    assert len(parts) >= 2
    code = "\n".join(
        covered(part, entity) for part in parts for entity in part.entities if entity.type == "pre"
    )
    assert all("pre" in kinds(part) for part in parts)
    assert {entity.language for part in parts for entity in part.entities} == {"python"}
    assert [line for line in code.splitlines() if line.strip()] == lines
    assert "```" not in "".join(part.text for part in parts)


@pytest.mark.parametrize("markdown", ["", " ", "\n\n", "\u200b"])
async def test_nothing_to_say_gives_no_empty_message(markdown: str) -> None:
    assert all(part.text.strip() for part in await render(markdown))


@pytest.mark.parametrize(
    "markdown", ["слово " * 30_000, "+ + + " * 7000, "> - " * 7000, "**ж** " * 9000, "x" * 99_999]
)
async def test_too_much_is_cut_and_the_last_message_says_so(markdown: str) -> None:
    ending = "(Это не всё. 😀)"
    parts = await rendering.render(markdown, max_parts=4, ending=ending)
    check(parts)
    assert len(parts) == 4
    assert [part.text.endswith(f"\n\n{ending}") for part in parts] == [False] * 3 + [True]


async def test_a_message_has_as_many_entities_as_telegram_looks_at() -> None:
    parts = await rendering.render("**ж** " * 600)
    assert [len(part.entities) for part in parts] == [MAX_ENTITIES]
    assert covered(parts[0], parts[0].entities[-1]) == "ж"
    [part] = await rendering.render("**ж** " * 600 + "[дом](https://example.org)")
    assert len(part.entities) == MAX_ENTITIES and covered(part, part.entities[0]) == "дом"


@pytest.mark.parametrize("markdown", ["\ud800 **a**", "$" + "\\frac{" * 6 + "x$"])
async def test_what_cannot_be_formatted_is_shown(markdown: str) -> None:
    assert await rendering.render(markdown)


async def test_hostile_texts_become_messages_that_telegram_takes() -> None:
    result = await attack(30, seed=3)
    assert result.texts == 30 and result.violations == []
    assert result.most_parts <= MAX_PARTS
