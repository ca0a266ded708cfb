"""What the user wrote stands in Telegram as he wrote it, whatever it means in Markdown."""

from __future__ import annotations

from src.telegram.rendering import keep_words, render
from tests.cases import for_each

OWN = [
    "Меня зовут __init__", "цена *5* и **7**, ~~нет~~ ||да|| 2*3*4",
    "у меня $5 и $6, \\(x\\), \\[y\\]", "- молоко\n- хлеб\n# заголовок\n> цитата\n1. раз\n+ два",
    "<b>x</b> &amp; [a](http://b.example) ![i](u)", "C:\\new\\_x", "a`b`c",
    "x^2 = {3} === --- 1. два", "https://b.example/c_d_e?x=1&y=2#z_z_", "@user_name_x #tag_a_",
    "| a | b |\n|---|---|\n| 1 | 2 |",
]  # fmt: skip


@for_each("said", OWN)
@for_each("answer", ["Запомнил: {}", "• 22.11.2026 05:08: «{}» [1]"])
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


@for_each(
    "answer", ["**Да** и _нет_", "`__init__` и ```\n__init__ = 1\n```", "Скобки (x) и [1]", ""]
)
def test_formatting_of_the_model_s_own_and_code_stay(answer: str) -> None:
    assert keep_words(answer, ["Что такое __init__ (x)?", "Обычный текст"]) == answer


@for_each("piece", ["_", "__a__ ", "*" * 3, "a_b\n", "`", "\\", "[", "<x> "])
def test_hostile_words_are_kept(piece: str) -> None:
    text = piece * 10_000
    kept = keep_words(text, [text])
    assert kept.replace("\\", "") == text.replace("\\", "")
