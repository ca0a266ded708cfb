"""Names in short lines; notes that go on with another one, or put it right."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage

from src.memory.line_kinds import kind_of
from src.offline.model import answer
from src.offline.replies import corrects, match_notes, quote_found
from src.texts import say
from tests.unit.test_offline import prompt


def record(number: int, text: str, similarity: float = 0.5) -> dict[str, Any]:
    return {
        "n": number, "uid": f"msg-{number}", "id": f"msg-{number}", "text": text,
        "said_at": f"2026-11-21 14:{number:02}", "similarity": similarity,
    }  # fmt: skip


def quoted(question: str, *records: dict[str, Any]) -> list[str]:
    return sorted(str(one["text"]) for one in match_notes(records, question).sure)


def beside(*lines: str) -> str:
    before: list[BaseMessage] = []
    for line in lines[:-1]:
        before += [*prompt(line)[-1:], AIMessage("ok")]
    return str(answer([*before, *prompt(lines[-1])[-1:]], ()).text)


@pytest.mark.parametrize(
    "line",
    ["im tom", "я дима", "я тарас", "катя", "call me ash", "зови меня лёха", "кот ус если чо"],
)
def test_a_line_that_tells_a_name_is_a_note(line: str) -> None:
    assert kind_of(line, None) == "note"


@pytest.mark.parametrize(
    ("question", "older", "newer"),
    [
        ("where does my sister live", "my sister lives in leeds", "she moved to york"),
        ("где живет моя сестра", "сестра живет в самаре", "она переехала в казань"),
        ("де живе моя сестра", "сестра живе в полтаві", "вона переїхала у львів"),
    ],
)
def test_what_goes_on_with_a_note_is_quoted_with_it(question: str, older: str, newer: str) -> None:
    told = record(1, older), record(3, newer)
    assert quoted(question, *told) == sorted([older, newer])
    assert quoted(question, record(1, older), record(9, newer)) == [older]


@pytest.mark.parametrize(
    ("question", "older", "newer", "is_about_it"),
    [
        ("скільки коштує масаж", "масаж коштує 450", "тьху, 540 а не 450", True),
        ("how much is the plumber", "the plumber is 80 an hour", "argh 90 not 80", True),
        ("когда приём у врача", "приём у врача в среду", "в пятницу, а не в среду", True),
        ("как зовут массажиста", "массажиста зовут Нил", "пьём чай вместо кофе", False),
    ],
)
def test_a_value_in_place_of_a_told_one_is_quoted_with_it(
    question: str, older: str, newer: str, is_about_it: bool
) -> None:
    told = [record(1, older, 0.85), record(9, newer, 0.0), record(5, "Ben is here", 0.0)]
    assert quoted(question, *told) == sorted([older, newer][: 1 + is_about_it])


def test_a_question_that_was_asked_before_is_no_answer() -> None:
    asked = {**record(1, "who is theos teacher", 0.9), "kind": "unsure"}
    assert quoted("whos theos teacher", asked) == []
    note = {**record(3, "did couch to 5k with ewa", 0.9), "kind": "note"}
    assert quoted("who did i do couch to 5k with", note) == [note["text"]]


def test_what_puts_right_stands_beside_the_note_about_the_same() -> None:
    text = beside("love thai food", "whats my wifi password", "actually i hate thai food now")
    assert say("offline_beside", "en", text="love thai food") in text
    asked = beside("where do i work", "actually i hate thai food now")
    assert asked == say("offline_noted", "en"), "never beside a question"


def test_what_puts_right_stands_beside_what_shares_most_with_it() -> None:
    first = record(1, "у віталіка день народження 8 лютого", 0.9)
    other = record(3, "віталік збирає платівки", 0.5)
    right = record(5, "ой ні, у віталіка не 8 а 9 лютого", 0.5)
    found = quoted("коли день народження у віталіка", first, other, right)
    assert sorted(found) == sorted([first["text"], right["text"]])


def test_what_puts_a_change_right_stands_beside_it_and_not_beside_what_a_reminder_follows() -> (
    None
):
    first, second = record(1, "ірина в чт о 14 манік", 0.75), record(3, "ірина в пт о 15", 0.65)
    right = record(5, "ой ні на 16:30", 0.6)
    assert quoted("коли прийде ірина", first, second, right) == sorted(
        [first["text"], second["text"], right["text"]]
    )
    reminder = record(4, "нагадай завтра о 9 купити хліб", 0.3)
    assert right["text"] not in quoted("коли прийде ірина", first, second, reminder, right)


def test_what_puts_right_stands_beside_what_is_only_near() -> None:
    told = [record(1, "донька оля народилась 12 серпня"), record(3, "ні, 13 серпня", 0.1)]
    results = [{"memories": told}]
    shown = quote_found(results, "коли др в олі", "uk", lambda _: "note") or ""
    assert shown.startswith("≈") and "13 серпня" in shown


def test_what_puts_right_an_answer_is_quoted_with_what_was_answered() -> None:
    price, hour = record(1, "a dozen eggs is 3.20"), record(2, "the farm shop opens at 8")
    asked, right = record(4, "how much is a dozen eggs"), record(6, "no, it's 3.60 since monday")
    found = quoted("how much is a dozen eggs then", price, hour, asked, right)
    assert found == ["a dozen eggs is 3.20", "no, it's 3.60 since monday"]


def test_what_goes_on_with_a_list_is_quoted_with_it() -> None:
    told = [record(1, "купить: гречку, укроп", 0.9), record(3, "ещё лампочки е27", 0.5),
            record(5, "и еще корм коту", 0.5), record(7, "ещё раз чинил кран", 0.5)]  # fmt: skip
    told.insert(3, {**record(6, "мы с братом красили забор", 0.5), "kind": "note"})
    asked = quoted("что надо купить", *told)
    assert sorted(asked) == sorted(one["text"] for one in told[:3])


def test_of_a_secret_it_does_not_say_that_it_is_noted() -> None:
    said = beside("love thai food", "my wifi password is hunter22")
    assert said == say("refused_secret", "en")


@pytest.mark.parametrize(
    ("note", "question", "right"),
    [
        ("mum is coming on the 12th", "when is mum coming", "oh wait no, its the 13th"),
        ("мама приезжает двенадцатого", "когда мама приезжает", "вернее тринадцатого"),
        ("мама приїжджає дванадцятого", "коли мама приїжджає", "точніше тринадцятого"),
    ],
)
def test_what_puts_right_after_a_question_stands_beside_what_was_asked(
    note: str, question: str, right: str
) -> None:
    assert note in beside("купил новый чайник", note, question, right)
    assert quoted(question, record(1, note), record(6, right)) == sorted([note, right])


@pytest.mark.parametrize("kind", ["question", "unsure"])
def test_what_is_told_behind_a_question_is_quoted(kind: str) -> None:
    told = record(3, "та куди ж я очки поклала... ага очки лежать у хлібниці", 0.8)
    found = [{"memories": [told]}]
    assert "«ага очки" in str(quote_found(found, "де очки", "uk", lambda _: kind))


def test_what_was_said_twice_is_quoted_once() -> None:
    told = ("I live in Leeds", "Oliver lives in Vienna", *["I moved to Bristol"] * 2)
    memories = [record(number, text, 0.9 - number / 100) for number, text in enumerate(told)]
    text = str(quote_found([{"memories": memories}], "Where do I live?", "en", kind_of))
    assert (text.count("Leeds"), text.count("Bristol")) == (1, 1)


@pytest.mark.parametrize(("similarity", "question", "note", "other"), [
    # Who one is, in a short line.
    (0.5, "как меня зовут", "я дима", "я устал"),
    (0.5, "whats my name", "hey im priya, nurse, on nights", "hey im tired, long shift"),
    (0.5, "як мене звати", "хай, я оля, тестувальниця", "хай, я вдома, сплю"),
    # Where one lives or works, whatever the words.
    (0.3, "where do i live", "so we got the keys, moved to a flat in walthamstow", "got a kettle"),
    (0.3, "где я живу", "снимаем двушку на уралмаше", "купил чайник"),
    (0.3, "звідки я", "я з полтави, вчуся в харкові", "купив чайник"),
    (0.3, "how old am i", "my name is margaret and i am 78", "i bought a kettle"),
    (0.6, "где работаю теперь", "короче ушёл и оттуда, устроился на склад к озону", "сплю"),
    (0.6, "where do i work now", "new job at the harbour, finally", "the bus was late"),
    # A name, a day or a place brings a note over the threshold.
    (0.74, "какой торт ольге", "ольге на юбилей медовик", "мука опять подорожала"),
    (0.74, "по каким дням полина лазает", "полина ходит на скалы по вторникам", "мука дорогая"),
    (0.74, "where did i leave the knife", "good knives are at my mums", "flour is dear again"),
    (0.74, "де мій обєктив", "об'єктив лежить у колеги", "мука подорожчала"),
    (0.6, "де я живу", "з тарасом розійшлись, переїхала до ірки", "оля переїхала на дачу"),
    (0.6, "где я теперь работаю", "уволилась, с понедельника озон", "купила велосипед"),
    # A misspelt word is the one that was told.
    (0.7, "where are my dahlais", "my dahlias are under the fleece", "my roses are in the shed"),
    (0.7, "чого боїтся злата", "злата боїться пилососа", "марко бігає"),
    (0.7, "как моего кта зовут", "кота зовут пельмень", "карта в машине"),
    # What is told of another answers nothing.
    (0.85, "what is my shoe size", "my shoe size is 38", "jakes shoe size is 44"),
    (0.85, "what was my ferritin", "bloods back, ferritin was 11", "jakes ferritin was 20"),
    (0.85, "where do i work", "i work at a bakery", "my sister works at a bank"),
    (0.85, "where does my brother live", "my brother lives in york", "my sister lives in leeds"),
    (0.85, "как зовут тёщу", "my mother-in-law is called Galina", "my mother is called Vera"),
    (0.85, "де живе брат", "брат живе в Одесі", "сестра живе у Львові"),
    (0.85, "who owes me money", "my sister owes me 80 quid", "i owe pete 25 for the tickets"),
    (0.85, "кому я должна", "я должна свете 3000", "олег мне должен 1500"),
    (0.85, "хто мені винен", "Ігор винен мені 1200", "я винен Андрію 700 грн"),
    (0.85, "коли день народження у марічки", "у марічки день народження 22 листопада",
     "у тараса день народження 4 січня"),
    (0.83, "к кому тимур на карате ходит", "тимурка с шахмат ушёл, теперь карате у юрия палыча",
     "марк ходит на карате"),
])  # fmt: skip
def test_what_answers_is_quoted_and_what_only_seems_to_is_not(
    similarity: float, question: str, note: str, other: str
) -> None:
    assert quoted(question, record(1, note, similarity), record(9, other, similarity)) == [note]
    assert quoted(question, record(9, other, similarity)) == []


@pytest.mark.parametrize("line", [
    "haha jk, its blue", "ой ні, у середу", "я переплутав, до 23 числа", "my bad, its on the 9th",
    "ой, 38", "*Geoff", "ой вру 2900", "i lied, its 40", "та набрехала, 300",
    "тьху, в пятницю", "тьфу 19го", "ой 140 на 90", "ой 19 мая", "упс 19 травня", "вибач, о 15:30",
    "извини 45 размер", "ой ні на 16:30",
])  # fmt: skip
def test_what_puts_right_may_begin_with_a_sigh_an_apology_or_a_star(line: str) -> None:
    assert corrects(line)


@pytest.mark.parametrize(
    "line",
    [
        "ой колено крутит к дождю",
        "*important* call the bank",
        "ой 5 рублей нашла на улице",
        "извини пожалуйста",
    ],
)
def test_a_sigh_or_a_bold_word_puts_nothing_right(line: str) -> None:
    assert not corrects(line)


@pytest.mark.parametrize(("question", "listed", "added", "other"), [
    ("whats on my shopping list", "shopping list wipes oat milk", "and coffee obvs add that",
     "hes been up since 4"),
    ("че в списке покупок", "список покупок: пилки, салфетки", "и топ добавь",
     "Света подарила конфеты"),
])  # fmt: skip
def test_what_was_added_to_a_list_stands_beside_it(
    question: str, listed: str, added: str, other: str
) -> None:
    told = record(1, listed, 0.85), record(2, added), record(3, other)
    assert quoted(question, *told) == sorted((listed, added))


@pytest.mark.parametrize(("question", "listed", "added"), [
    ("what do i still need to buy", "shopping list: screws, milk", "put salt on the list"),
    ("что ещё купить", "список в магазин: кефир, лампочки", "верни кефир в список"),
    ("що ще треба купити", "список на базар: цвяхи, віск", "додай сіль до списку"),
])  # fmt: skip
def test_what_is_to_be_bought_is_what_a_list_tells_and_what_was_added_to_it(
    question: str, listed: str, added: str
) -> None:
    told = record(1, listed, 0.3), record(2, "купив цвях, bought a screw", 0.6)
    assert quoted(question, *told, record(20, added, 0.3)) == sorted((listed, added))


def test_who_is_named_and_unknown_has_no_nearest_note() -> None:
    told = record(1, "my flat is on the third floor", 0.7), record(2, "Priya does the rota", 0.7)
    found = match_notes(told, "where does Priya live").nearest
    assert [one["text"] for one in found] == ["Priya does the rota"]


def test_a_thing_of_the_question_that_only_another_note_names_is_quoted_too() -> None:
    told = record(1, "до аэропорта беру 1500", 0.85), record(2, "до вокзала 700", 0.6)
    assert quoted("сколько беру до вокзала", *told, record(3, "машину помыл", 0.6)) == sorted(
        one["text"] for one in told
    )


@pytest.mark.parametrize(("question", "note", "other"), [
    ("when is chapter 5 due", "chapter 5 is due in may", "chapter 3 is due in april"),
    ("какой размер обуви у славика", "славік носить 45 взуття", "тарас носить 43 взуття"),
    ("сколько альпака раньше стоила", "альпака по 850", "мохер по 690"),
    ("а до этого какие смены были", "смены с 8 до 17", "я устала"),
])  # fmt: skip
def test_a_number_a_name_and_a_price_tell_notes_apart(
    question: str, note: str, other: str
) -> None:
    assert quoted(question, record(1, note, 0.79), record(9, other, 0.79)) == [note]


@pytest.mark.parametrize(("question", "was", "is_"), [
    ("when was the haircut meant to be at first", "haircut on thursday at 5",
     "haircut moved to friday"),
    ("на когда изначально была стрижка", "стрижка в четверг", "стрижку перенесли на 16:10"),
    ("а коли мав бути манікюр спочатку", "манікюр у четвер о 17:40",
     "манікюр перенесли на п'ятницю"),
])  # fmt: skip
def test_what_was_first_meant_stands_beside_what_it_was_changed_to(
    question: str, was: str, is_: str
) -> None:
    assert quoted(question, record(1, was, 0.6), record(9, is_, 0.8)) == sorted((was, is_))


def test_what_is_far_below_the_nearest_stays_out() -> None:
    told = (
        record(1, "spare key is under the green pot", 0.85),
        record(9, "the shed is locked", 0.8),
    )
    assert quoted("where is the spare key", *told) == ["spare key is under the green pot"]
