"""Two texts are the same fact only when they say the same; similarity alone proves nothing."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.reading.facts import content_hash, is_same, normalise

DIFFERENT = """Встреча в 15:00 | Встреча в 16:30
Живу в квартире 12 | Живу в квартире 21
Дом 12 | Дом 12а
I live at number 12 | I live at number 12a
У меня есть аллергия на арахис | У меня нет аллергии на арахис
Мой брат живёт в Киеве | Моя сестра живёт в Киеве
Жену зовут Анна | Жену зовут Аня
Тренировка во вторник | Тренировка в четверг
Люблю кофе | Не люблю кофе
Болит левое колено | Болит правое колено
У меня двое детей | У меня трое детей
Принимаю таблетки до обеда | Принимаю таблетки после обеда
Никогда не ем мясо | Ем мясо
Кофе с сахаром | Кофе без сахара
Начал курить | Бросил курить
Брат старше сестры | Сестра старше брата
Переехал из Киева в Одессу | Переехал из Одессы в Киев
Живу под Киевом | Живу в Киеве
Дочери 12 лет, сыну 15 лет | Дочери 15 лет, сыну 12 лет
Яблок 50 груш 70 | 50 груш 70 яблок
Чай утром, кофе вечером | Утром кофе, вечером чай
Не люблю чай | Люблю чай не
Мама доверяет папе | Папа маме доверяет
Ребёнка зовут Александр | Ребёнка зовут Александра
Мой знакомый работает в школе | Моя знакомая работает в школе
У меня есть кошка | У меня есть кошки
Приехал в Киев | Приеду в Киев
Машина красная | Машина красивая
Температура 5 | Температура -5
Зарплата 1000 долларов | Зарплата 1000 евро
Зарплата $100 | Зарплата €100
Пишите на ivan.petrov@example.com | Пишите на ivan-petrov@example.com
Живу тут двадцать пять лет | Живу тут двадцать лет
Люблю каву | Не люблю каву
П'ю ліки до обіду | П'ю ліки після обіду
My flight is at 7 am | My flight is at 7 pm
My flight is at 7 am | My flight is at 7
I am allergic to nuts | I am not allergic to nuts
I can swim | I can't swim
My wife is Anna | My wife is Anya
I lived in Kyiv | I live in Kyiv
The gym is on Monday | The gym is on Friday
I take it before lunch | I take it after lunch
I started smoking | I stopped smoking
I have a dog | I have dogs
I called Anna | Anna called me
I called Anna | Anna called
I like tea but not coffee | I like coffee but not tea
Anna is older than Boris | Boris is older than Anna
I know C++ | I know C#
I drive a BMW X5 | I drive a BMW X6
You | Me""".splitlines()

SAME = """Я люблю кофе | люблю кофе
Люблю кофе | Кофе люблю
Я очень люблю кофе | Люблю кофе
аллергия на арахис | аллергия на арахис у меня
Аллергия на рыбу | Аллергию на рыбу
Живу в Киеве | Я сейчас живу в Киеве
Живу в Одессе | Пользователь живёт в Одессе
Ещё люблю чай | Еще люблю чай
Люблю «Войну и мир» | Люблю "Войну и мир"
Встреча в 15:00 | Встреча в 15.00
Мне 30 лет | Мне тридцать лет
Моя жена — врач | Жена врач
Живу в Києві | Живу у Києві
Працюю в школі | Користувач працює в школі
Маму звати Ганна, ім’я гарне | Маму звати Ганна, ім'я гарне
I live in Kyiv | I live in Kyiv now.
I'm allergic to peanuts | I am allergic to peanuts
I don't eat meat | I do not eat meat
I can't swim | I cannot swim
On Mondays I play tennis | I play tennis on Mondays
My car is a “Tesla” | my car is a Tesla
He llo | He\u200b llo""".splitlines()


def pairs(lines: list[str]) -> list[tuple[str, str]]:
    return [(left, right) for left, _, right in (line.partition(" | ") for line in lines)]


@pytest.mark.parametrize(("left", "right"), pairs(DIFFERENT))
def test_a_small_edit_makes_another_fact_however_similar(left: str, right: str) -> None:
    assert not is_same(left, right, similarity=0.999)
    assert not is_same(right, left, similarity=0.999)


@pytest.mark.parametrize(("left", "right"), pairs(SAME))
def test_the_same_words_in_another_dress_are_the_same_fact(left: str, right: str) -> None:
    assert is_same(left, right, similarity=0.97)
    assert is_same(right, left, similarity=0.97)


def test_words_alone_are_not_enough_either() -> None:
    assert not is_same("Люблю кофе", "Кофе люблю", similarity=0.94)
    assert is_same("Люблю кофе", "Кофе люблю", similarity=0.94, threshold=0.9)
    assert not is_same("Люблю кофе", "Кофе люблю", similarity=math.nan)


def test_equal_texts_are_the_same_without_an_embedding() -> None:
    assert is_same("Люблю кофе.", "люблю КОФЕ", similarity=0.0)
    assert is_same("", " … ", similarity=0.0)


def test_facts_about_different_people_differ() -> None:
    left, right = "Очень любит кофе", "Любит кофе"
    assert is_same(left, right, similarity=0.99, subjects=("мой брат", "brother"))
    assert is_same(left, right, similarity=0.99, subjects=("я", "user"))
    assert not is_same(left, right, similarity=0.99, subjects=("брат", "сестра"))
    assert not is_same(left, right, similarity=0.99, subjects=("user", "Олег"))


@pytest.mark.parametrize(("text", "normal"), [
    ("  Ещё   ЁЖ! ", "еще еж"), ("м’ята, м'ята, мʼята", "м'ята м'ята м'ята"),
    ("«Анна» — врач…", "анна врач"), ("15:00, 12.05.2020 и 1,5", "15.00 12.05.2020 и 1.5"),
    ("от -5 до +5, 5-6", "от -5 до + 5 5 6"), ("C++ и C#, #тег", "c++ и c# тег"),
    ("a.b-c@example.com.", "a.b-c@example.com"), ("100% за $5 ☕", "100 % за $ 5 ☕"),
    ("ко\u00adфе\u200b", "кофе"), ("ﬁne Ｆｕｌｌ ½", "fine full 1 ⁄ 2"), ("о'", "о"), ("", ""),
])  # fmt: skip
def test_normalising_keeps_what_tells_facts_apart(text: str, normal: str) -> None:
    assert normalise(text) == normal


WORDS = st.sampled_from(
    (
        "я", "не", "люблю", "кофе", "чай", "в", "Киеве", "Киев", "5", "два", "и", "у меня", "a",
        "cat",
    )
) | st.sampled_from(("cats", "don't", "n't", "from", ",", "I've"))  # fmt: skip
TEXTS = st.text(max_size=60) | st.lists(WORDS, max_size=6).map(" ".join)


@given(TEXTS, TEXTS)
def test_sameness_has_no_direction_and_never_raises(left: str, right: str) -> None:
    assert is_same(left, right, similarity=1.0) == is_same(right, left, similarity=1.0)
    assert is_same(left, left, similarity=0.0)
    if normalise(left) == normalise(right):
        assert content_hash(left) == content_hash(right)
