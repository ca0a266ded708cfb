"""Names in short lines; notes that go on with another one, or put it right."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage

from src.memory.line_kinds import kind_of
from src.offline.model import answer
from src.offline.replies import corrects, near, quote_found
from src.texts import say
from tests.unit.test_offline import prompt


def record(number: int, text: str, similarity: float = 0.5) -> dict[str, Any]:
    return {
        "n": number, "uid": f"msg-{number}", "id": f"msg-{number}", "text": text,
        "said_at": f"2026-11-21 14:{number:02}", "similarity": similarity,
    }  # fmt: skip


def quoted(question: str, *records: dict[str, Any]) -> list[str]:
    return sorted(str(one["text"]) for one in near(records, question))


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
    ("question", "name", "other"),
    [
        ("как меня зовут", "я дима", "я устал"),
        ("как меня зовут", "здарова я тимур вожу еду", "я рада что все хорошо"),
        ("whats my name", "hey im priya, nurse, on nights", "hey im tired, long shift"),
        ("як мене звати", "хай, я оля, тестувальниця", "хай, я вдома, сплю"),
    ],
)
def test_a_short_line_answers_who_one_is(question: str, name: str, other: str) -> None:
    assert quoted(question, record(1, name), record(3, other)) == [name]


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
    ("question", "others", "own"),
    [
        ("what is my shoe size", "jakes shoe size is 44", "my shoe size is 38"),
        ("where do i work", "my sister works at a bank", "i work at a bakery"),
        ("коли день народження у марічки", "у тараса день народження 4 січня",
         "у марічки день народження 22 листопада"),
        ("where does my brother live", "my sister lives in leeds", "my brother lives in york"),
    ],
)  # fmt: skip
def test_what_is_told_of_another_answers_nothing(question: str, others: str, own: str) -> None:
    told = record(1, own, 0.85), record(3, others, 0.85)
    assert quoted(question, *told) == [own]
    assert quoted(question, told[1]) == []


@pytest.mark.parametrize(
    ("question", "note", "other"),
    [
        ("where are my dahlais", "my dahlias are under the fleece", "my roses are in the shed"),
        ("чого боїтся злата", "злата боїться пилососа", "марко бігає"),
        ("как моего кта зовут", "кота зовут пельмень", "карта в машине"),
    ],
)
def test_a_misspelt_word_is_the_one_that_was_told(question: str, note: str, other: str) -> None:
    assert quoted(question, record(1, note, 0.7), record(9, other, 0.5)) == [note]
    assert quoted(question, record(9, other, 0.7)) == []


@pytest.mark.parametrize(
    ("question", "older", "newer"),
    [
        ("Where does the choir meet these days?", "choir meets on Tuesdays at St Olave's",
         "They have thrown us out, choir now meets in the Methodist hall"),
        ("где у нас репетиция в последнее время", "репетиция теперь на Барнова",
         "больше не в Мурино репетиция, а в Шушарах"),
    ],
)  # fmt: skip
def test_the_name_of_a_place_is_no_person(question: str, older: str, newer: str) -> None:
    told = record(1, older, 0.7), record(9, newer, 0.7)
    assert quoted(question, *told) == sorted([older, newer])


def test_a_pet_name_is_the_same_person() -> None:
    told = record(1, "тимурка с шахмат ушёл, теперь карате у юрия палыча", 0.83)
    assert quoted("к кому тимур на карате ходит", told) == [told["text"]]
    assert quoted("к кому марк на карате ходит", told) == []


@pytest.mark.parametrize(
    ("question", "note"),
    [
        ("Where do I live?", "We moved to Lisbon last spring"),
        ("where do i live", "so we got the keys, moved to a flat in walthamstow"),
        ("где я живу", "снимаем двушку на уралмаше"),
        ("звідки я", "я з полтави, вчуся в харкові"),
        ("how old am i", "my name is margaret and i am 78"),
    ],
)
def test_who_and_where_one_is_is_quoted_whatever_the_words(question: str, note: str) -> None:
    assert quoted(question, record(1, note, 0.3), record(9, "купил чайник", 0.3)) == [note]


def test_where_another_lives_is_not_where_the_user_does() -> None:
    of_another = record(3, "Oliver lives in Vienna", 0.6)
    assert quoted("where do I live?", of_another) == []


def test_a_question_that_was_asked_before_is_no_answer() -> None:
    asked = {**record(1, "who is theos teacher", 0.9), "kind": "unsure"}
    assert quoted("whos theos teacher", asked) == []
    note = {**record(3, "did couch to 5k with ewa", 0.9), "kind": "note"}
    assert quoted("who did i do couch to 5k with", note) == [note["text"]]


def test_what_is_far_below_the_nearest_stays_out() -> None:
    near_one = record(1, "spare key is under the green pot", 0.85)
    assert quoted("where is the spare key", near_one, record(9, "the shed is locked", 0.8)) == [
        near_one["text"]
    ]


@pytest.mark.parametrize(
    ("question", "note"),
    [
        ("какой торт ольге", "ольге на юбилей медовик"),
        ("по каким дням полина лазает", "полина ходит на скалы по вторникам"),
        ("де мій обєктив", "об'єктив лежить у колеги"),
    ],
)
def test_a_name_a_day_and_a_place_bring_a_note_over_the_threshold(
    question: str, note: str
) -> None:
    assert quoted(question, record(1, note, 0.74)) == [note]
    assert quoted(question, record(1, "мука опять подорожала", 0.74)) == []


def test_what_puts_right_stands_beside_the_note_about_the_same() -> None:
    text = beside("love thai food", "whats my wifi password", "actually i hate thai food now")
    assert say("offline_beside", "en", text="love thai food") in text


def test_what_puts_right_stands_beside_what_shares_most_with_it() -> None:
    first = record(1, "у віталіка день народження 8 лютого", 0.9)
    other = record(3, "віталік збирає платівки", 0.5)
    right = record(5, "ой ні, у віталіка не 8 а 9 лютого", 0.5)
    found = quoted("коли день народження у віталіка", first, other, right)
    assert sorted(found) == sorted([first["text"], right["text"]])


def test_what_puts_right_an_answer_is_quoted_with_what_was_answered() -> None:
    price, hour = record(1, "a dozen eggs is 3.20"), record(2, "the farm shop opens at 8")
    asked, right = record(4, "how much is a dozen eggs"), record(6, "no, it's 3.60 since monday")
    found = quoted("how much is a dozen eggs then", price, hour, asked, right)
    assert found == ["a dozen eggs is 3.20", "no, it's 3.60 since monday"]


@pytest.mark.parametrize(
    "line", ["oh wait no, its friday", "haha jk, its blue", "ой ні, у середу"]
)
def test_what_puts_right_may_begin_with_a_sigh_or_a_laugh(line: str) -> None:
    assert corrects(line)


def test_it_never_stands_beside_a_question() -> None:
    text = beside("where do i work", "actually i hate thai food now")
    assert text == say("offline_noted", "en")


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


@pytest.mark.parametrize(
    ("question", "note"),
    [
        ("где работаю теперь", "короче ушёл и оттуда, устроился на склад к озону"),
        ("в какой фирме я работаю", "работаю теперь в полюсе"),
        ("where do i work now", "new job at the harbour, finally"),
        ("де працюю зараз", "змінила роботу, тепер у пекарні"),
    ],
)
def test_a_new_job_answers_where_one_works(question: str, note: str) -> None:
    assert quoted(question, record(1, note, 0.6)) == [note]


@pytest.mark.parametrize(
    "line", ["я переплутав, до 23 числа", "перепутала, в среду", "my bad, its on the 9th"]
)
def test_a_mix_up_puts_right(line: str) -> None:
    assert corrects(line)


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
