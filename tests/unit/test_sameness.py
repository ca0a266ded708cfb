"""Two texts are the same fact only when they say the same; similarity alone proves nothing."""

from __future__ import annotations

import hashlib
import math

from hypothesis import given
from hypothesis import strategies as st

from src.reading.facts import content_hash, is_same, normalise
from tests.cases import for_each

DIFFERENT = """Встреча в 15:00 | Встреча в 16:30
Пью таблетки в 8 утра | Пью таблетки в 9 утра
Живу в квартире 12 | Живу в квартире 21
Живу в доме 12 | Нет, в доме 12а
Дом 12 | Дом 12а
Мешкаю в будинку 7 | Мешкаю в будинку 7б
I live at number 12 | I live at number 12a
У меня есть аллергия на арахис | У меня нет аллергии на арахис
Мой брат живёт в Киеве | Моя сестра живёт в Киеве
Жену зовут Анна | Жену зовут Аня
Живу в Киеве | Живу в Одессе
Тренировка во вторник | Тренировка в четверг
Отпуск в июне | Отпуск в июле
Люблю кофе | Не люблю кофе
Люблю кошек | Ненавижу кошек
Болит левое колено | Болит правое колено
У меня двое детей | У меня трое детей
Принимаю таблетки до обеда | Принимаю таблетки после обеда
Гуляю с собакой утром | Гуляю с собакой вечером
Никогда не ем мясо | Ем мясо
Кофе с сахаром | Кофе без сахара
Купил машину | Продал машину
Начал курить | Бросил курить
Брат приехал | Брат уехал
Мой старший брат врач | Мой младший брат врач
Брат старше сестры | Сестра старше брата
Переехал из Киева в Одессу | Переехал из Одессы в Киев
Живу под Киевом | Живу в Киеве
Дочери 12 лет, сыну 15 лет | Дочери 15 лет, сыну 12 лет
Яблоки по 50, груши по 70 | Груши по 50, яблоки по 70
Яблок 50 груш 70 | 50 груш 70 яблок
Чай утром, кофе вечером | Утром кофе, вечером чай
Чай люблю, кофе — не | Не чай люблю, а кофе
Не люблю чай | Люблю чай не
Мама доверяет папе | Папа маме доверяет
Олег помогает Ивану | Олегу помогает Иван
Ребёнка зовут Александр | Ребёнка зовут Александра
Мой сосед играет на трубе | Моя соседка играет на трубе
Мой знакомый работает в школе | Моя знакомая работает в школе
У меня есть кошка | У меня есть кошки
У меня есть брат | У меня есть братья
Работал в банке | Работаю в банке
Приехал в Киев | Приеду в Киев
Машина красная | Машина красивая
Температура 5 | Температура -5
Купил пол | Купил поле
Зарплата 1000 долларов | Зарплата 1000 евро
Зарплата $100 | Зарплата €100
Пишите на ivan.petrov@example.com | Пишите на ivan-petrov@example.com
Второй сын Иван | Два сын Иван
Живу тут двадцать пять лет | Живу тут двадцать лет
Живемо в Києві | Живу в Києві
У мене є кіт | У мене немає кота
Мій брат лікар | Моя сестра лікар
Люблю каву | Не люблю каву
Працюю в Києві | Працюю у Львові
Поїзд о 15:00 | Поїзд о 16:30
П'ю ліки до обіду | П'ю ліки після обіду
Сину п'ять років | Сину шість років
Болить ліва нога | Болить права нога
Приїжджаю у вівторок | Приїжджаю у четвер
My flight is at 3:00 pm | My flight is at 4:30 pm
My flight is at 7 am | My flight is at 7 pm
My flight is at 7 am | My flight is at 7
I am allergic to nuts | I am not allergic to nuts
I can swim | I can't swim
My brother is a doctor | My sister is a doctor
My wife is Anna | My wife is Anya
I live in Kyiv | I live in Lviv
I lived in Kyiv | I live in Kyiv
I am a teacher | I was a teacher
The gym is on Monday | The gym is on Friday
I like cats | I dislike cats
I have two children | I have three children
I take it before lunch | I take it after lunch
My left knee hurts | My right knee hurts
I started smoking | I stopped smoking
I bought a car | I sold a car
I have a dog | I have dogs
I called Anna | Anna called me
I called Anna | Anna called
Anna is older than Boris | Boris is older than Anna
I like tea but not coffee | I like coffee but not tea
I know C++ | I know C#
We live in Kyiv | I live in Kyiv
I drive a BMW X5 | I drive a BMW X6
You | Me""".splitlines()

SAME = """Я люблю кофе | люблю кофе
Люблю кофе | Кофе люблю
Люблю  кофе | Люблю кофе!
Я очень люблю кофе | Люблю кофе
аллергия на арахис | аллергия на арахис у меня
У меня аллергия на арахис | Аллергия на арахис у меня
Аллергия на рыбу | Аллергию на рыбу
Нет аллергии на арахис | Нет аллергии на арахис у меня
Живу в Киеве | Я сейчас живу в Киеве
Живу в Одессе | Пользователь живёт в Одессе
Ещё люблю чай | Еще люблю чай
Люблю «Войну и мир» | Люблю "Войну и мир"
Встреча в 15:00 | Встреча в 15.00
Вес 70,5 кг | Вес 70.5 кг
Мне 30 лет | Мне тридцать лет
Зарплата двадцать пять тысяч | Зарплата 25 тысяч
Моя жена — врач | Жена врач
Живу в Києві | Живу у Києві
У мене алергія на арахіс | Алергія на арахіс у мене
Працюю в школі | Користувач працює в школі
Маму звати Ганна, ім’я гарне | Маму звати Ганна, ім'я гарне
Я дуже люблю каву | Люблю каву
Мені п’ять років | Мені 5 років
I live in Kyiv | I live in Kyiv now.
I'm allergic to peanuts | I am allergic to peanuts
I am allergic to peanut | I am allergic to peanuts
I don't eat meat | I do not eat meat
I can't swim | I cannot swim
I have two children | I have 2 children
On Mondays I play tennis | I play tennis on Mondays
I call my mother every Sunday | Every Sunday I call my mother
I've a cat | I have a cat
My car is a “Tesla” | my car is a Tesla
He llo | He\u200b llo""".splitlines()


def pairs(lines: list[str]) -> list[tuple[str, str]]:
    return [(left, right) for left, _, right in (line.partition(" | ") for line in lines)]


@for_each(("left", "right"), pairs(DIFFERENT))
def test_a_small_edit_makes_another_fact_however_similar(left: str, right: str) -> None:
    assert not is_same(left, right, similarity=0.999)
    assert not is_same(right, left, similarity=0.999)


@for_each(("left", "right"), pairs(SAME))
def test_the_same_words_in_another_dress_are_the_same_fact(left: str, right: str) -> None:
    assert is_same(left, right, similarity=0.97)
    assert is_same(right, left, similarity=0.97)


def test_the_lists_are_long_enough() -> None:
    assert len(set(DIFFERENT)) == len(DIFFERENT) >= 30
    assert len(set(SAME)) == len(SAME) >= 20


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


@for_each(("text", "normal"), [
    ("  Ещё   ЁЖ! ", "еще еж"), ("м’ята, м'ята, мʼята", "м'ята м'ята м'ята"),
    ("«Анна» — врач…", "анна врач"), ("15:00, 12.05.2020 и 1,5", "15.00 12.05.2020 и 1.5"),
    ("от -5 до +5, 5-6", "от -5 до + 5 5 6"), ("C++ и C#, #тег", "c++ и c# тег"),
    ("a.b-c@example.com.", "a.b-c@example.com"), ("100% за $5 ☕", "100 % за $ 5 ☕"),
    ("ко\u00adфе\u200b", "кофе"), ("ﬁne Ｆｕｌｌ ½", "fine full 1 ⁄ 2"), ("о'", "о"), ("", ""),
])  # fmt: skip
def test_normalising_keeps_what_tells_facts_apart(text: str, normal: str) -> None:
    assert normalise(text) == normal


def test_the_hash_is_that_of_the_normalised_text() -> None:
    assert content_hash("Люблю кофе!") == content_hash(" люблю  КОФЕ ")
    assert content_hash("Люблю кофе") == hashlib.sha256("люблю кофе".encode()).hexdigest()
    assert content_hash("Люблю кофе") != content_hash("Люблю чай")
    assert len(content_hash("\ud800")) == 64


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
