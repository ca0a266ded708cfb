"""Which facts the rules retire, and which stand although they share a word."""

from __future__ import annotations

from src.reading.contradictions import replaces
from src.reading.facts import WISH, Fact
from tests.cases import for_each


@for_each(("old", "new"), [
    ("Always answer briefly when I ask about code", "Give all details when I ask about code"),
    ("Отвечай коротко", "Отвечай подробно"),
    ("Відповідай коротко, якщо питаю про код", "Відповідай детально, якщо питаю про код"),
])  # fmt: skip
def test_a_later_wish_for_the_same_questions_replaces_an_earlier_one(old: str, new: str) -> None:
    assert replaces(Fact(text=new, relation=WISH), Fact(text=old, relation=WISH))


@for_each(("old", "new"), [
    ("Always explain terms in detail when I ask about wills",
     "Always include version details when I ask about tools"),
    ("Отвечай подробно, когда спрашиваю о коде", "Отвечай коротко, когда спрашиваю о погоде"),
    ("Відповідай коротко", "Відповідай детально, якщо питаю про код"),
])  # fmt: skip
def test_wishes_for_other_questions_stand_side_by_side(old: str, new: str) -> None:
    assert not replaces(Fact(text=new, relation=WISH), Fact(text=old, relation=WISH))


@for_each(("old", "new"), [
    ("I want to start with simple events like coin tosses, so help me with the chance of heads, "
     "I'm thinking it's one to two, but I'm not sure", "Sure, I get the concept now"),
    ("I calculate the chance of two heads in a row with the product of both single chances, step "
     "by step, each time in a table", "The paradox is about 23 people, but I don't calculate"),
    ("Хочу начать с простых задач про монеты и кости, чтобы понять вероятность, но я не уверен",
     "Уверен, что понял независимость"),
    ("Хочу почати з простих задач про монети, щоб зрозуміти ймовірність, але я не певен",
     "Певен, що зрозумів незалежність"),
])  # fmt: skip
def test_a_long_text_is_not_denied_by_what_stands_at_its_end(old: str, new: str) -> None:
    assert not replaces(Fact(text=new), Fact(text=old))


@for_each(("old", "new"), [
    ("I love coffee in the morning", "I don't love coffee in the morning any more"),
    ("У меня есть собака Рекс, гуляем каждое утро", "У меня больше нет собаки"),
    ("Я не люблю каву", "Я люблю каву"),
])  # fmt: skip
def test_what_is_denied_itself_is_replaced(old: str, new: str) -> None:
    assert replaces(Fact(text=new), Fact(text=old))
