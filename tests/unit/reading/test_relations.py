"""Relations in one vocabulary, subjects as one person, and what replaces what."""

from __future__ import annotations

import pytest

from src.reading.facts import Fact, canonical_relation, canonical_subject, is_update


def fact(subject: str, relation: str, value: str) -> Fact:
    return Fact(text="text", subject=subject, relation=relation, object=value)


@pytest.mark.parametrize(("written", "name"), [
    ("lives in", "lives_in"), ("живёт в", "lives_in"), ("мешкає у", "lives_in"),
    ("місто проживання", "місто_проживання"), ("имя", "name"), ("ім'я", "name"),
    ("My name", "name"), ("employer", "works_at"), ("роботодавець", "works_at"),
    ("job title", "works_as"), ("date of birth", "birthday"), ("вік", "age"),
    ("is allergic to", "allergic_to"), ("Любит", "likes"), ("не любить", "dislikes"),
    ("has_daughter", "has_child"), ("дружина", "married_to"), ("номер телефона", "phone"),
    ("размер обуви", "shoe_size"), ("часовий пояс", "time_zone"),
    ("рідна мова", "native_language"), ("столица", "столица"), ("", ""), ("…", ""),
])  # fmt: skip
def test_a_relation_has_one_name(written: str, name: str) -> None:
    assert canonical_relation(written) == name


@pytest.mark.parametrize(("written", "name"), [
    ("user", "user"), ("Я", "user"), ("мене", "user"), ("Пользователь", "user"),
    ("The user", "user"), ("брат", "brother"), ("брата", "brother"), ("my brother", "brother"),
    ("брат пользователя", "brother"), ("моя сестра", "sister"), ("мати", "mother"),
    ("дружина", "wife"), ("жена брата", "wife brother"), ("старший брат", "старший brother"),
    ("Олёна-Мария", "олена мария"), ("мой", "мой"), ("", ""),
])  # fmt: skip
def test_a_subject_has_one_name(written: str, name: str) -> None:
    assert canonical_subject(written) == name


@pytest.mark.parametrize(("new", "old", "replaces"), [
    (("user", "lives_in", "Одесса"), ("я", "город", "Киев"), True),
    (("user", "employer", "Google"), ("user", "место работы", "Яндекс"), False),
    (("мой брат", "lives in", "Lviv"), ("brother", "живёт в", "Kyiv"), True),
    (("user", "улюблене місто", "Львів"), ("user", "улюбленого міста", "Київ"), False),
    (("user", "улюблене місто", "Львів"), ("user", "улюблене місто", "Київ"), True),
    (("user", "lives_in", "Киев"), ("user", "lives_in", " киев."), False),
    (("user", "lives_in", "Киев"), ("брат", "lives_in", "Одесса"), False),
    (("user", "has_child", "Оля"), ("user", "has_child", "Ваня"), False),
    (("Київ", "столиця", "Україна"), ("Київ", "столиця", "Русь"), False),
    (("brother", "name", "Олег"), ("brother", "name", "Иван"), False),
])  # fmt: skip
def test_only_another_value_of_a_single_relation_replaces_a_fact(
    new: tuple[str, str, str], old: tuple[str, str, str], replaces: bool
) -> None:
    assert is_update(fact(*new), fact(*old)) is replaces
