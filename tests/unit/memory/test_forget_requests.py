"""What a request to forget means, and what shall not be remembered."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from src.memory.forget_matching import Statement, is_meant, read_request
from src.reading.reminder_phrases import read_reminder
from src.reading.requests import (
    asks_to_forget_all,
    asks_to_keep_private,
    forget_request,
    without_plain_reason,
)
from src.reading.words import MAX_TEXT, mend_orders
from src.reminders.rules import CancelOrder, read_change
from tests.attacks.forgetting import attack, by_rules


@pytest.mark.parametrize(("text", "about"), [
    ("а вот про браслет забудь плиз, брат читает", "браслет"), ("убери запись про ссуду", "ссуду"),
    ("то что я говорил про ссуду забудь лучше", "ссуду"), ("не надо помнить про веру", "веру"),
    ("ой забудь про ссуду это секрет", "ссуду"), ("всё про бывшую удали пж", "бывшую"),
    ("прибери запис про позику", "позику"), ("забудь те що я писала про віру", "віру"),
    ("про віру не згадуй більше", "віру"), ("forget what i said about vera plss", "vera"),
    ("nvm forget abt the raffle", "the raffle"), ("the thing about vera, forget it", "vera"),
    ("what i said about the raffle, forget that please", "the raffle"),
    ("get rid of the note about vera", "vera"),
    # Why a thing is to be forgotten is no part of it.
    ("забудь про билет в музей, сдал вчера", "билет в музей"),
    ("забудь про позику сестрі, вона вже повернула", "позику сестрі"),
    ("forget the ladder, borrowed another one", "the ladder"),
    ("forget my locker (I moved)", "my locker"), ("забудь Машу, Пашу и Дашу", "Машу, Пашу и Дашу"),
    ("forget that I like tea, cocoa and milk", "I like tea, cocoa and milk"),
    # The order may stand behind its reason.
    ("он вернул забудь про его долг", "его долг"),
    ("he paid me back forget about the 20 quid", "the 20 quid"),
    ("сдал пропуск забудь про него", "сдал пропуск"), ("то що казала про Ігоря забудь", "Ігоря"),
    ("that thing about Anna, delete it", "Anna"), ("резину вычеркни, продал", "резину"),
    ("колодки, забудь", "колодки"), ("жоржини викинь з памяті, вимерзли", "жоржини"),
    ("frget about the boat", "the boat"),
    # An item is crossed off a list, perhaps because it is bought.
    ("cross off milk", "milk"), ("take the beer off the list", "the beer"),
    ("got the eggs, cross them off", "the eggs"), ("tick the milk off too", "the milk"),
    ("лампочки купила вычеркни", "лампочки"), ("убери масло из списка", "масло"),
    ("вычеркни соль тоже", "соль"), ("цвяхи купив, викресли", "цвяхи"),
    ("прибери сало зі списку", "сало"),
    # What stays is no part of it either.
    ("forget the code but remember where the key is", "the code"),
    ("can you forget the code, i still need the key?", "the code"),
    ("forget only the code and keep the rest", "the code"), ("забудь код, ключ оставь", "код"),
    ("забудь только код, ключ ещё нужен", "код"), ("код забудь, все остальное пусть будет", "код"),
    ("забудь лише код, решту не чіпай", "код"), ("забудь код проте ключ пам'ятай", "код"),
])  # fmt: skip
def test_people_ask_to_forget_in_many_ways(text: str, about: str) -> None:
    wanted = forget_request(text)
    assert wanted is not None and wanted.about == about


@pytest.mark.parametrize("text", [
    "о таком не забыть, вот это был вечер", "убери посуду потом", "это не забыть",
    "все дела не забыть сделать", "i drop the kids at school", "надо убрать запись к врачу",
    "about tomorrow, forget it i'll go alone", "прибери в кімнаті",
    # A report of forgetting.
    "i can't forget about him", "не могу забыть про нее", "she told me to forget about it",
    "мама просила забыть про него", "мама сказала забудь", "ключи не забудь", "купил хлеб, забудь",
    "не можу забути про неї", "take friday off", "i crossed off the milk", "не вычеркивай сыр",
    "мама сказала викресли цвяхи",
])  # fmt: skip
def test_what_is_not_to_be_forgotten_is_no_request(text: str) -> None:
    assert forget_request(text) is None


@pytest.mark.parametrize(("text", "told"), [
    ("забудь що я зустрічаюсь з ігорем", "я зустрічаюсь з тренером ігорем нікому не кажи"),
    ("forget that i date igor", "i date igor dont tell anyone"),
    ("forget that ruth owes me 60", "my aunt ruth owes me 60 quid"),
    ("забудь что я курю", "не поверишь, я курю опять"),
])  # fmt: skip
def test_what_else_a_sentence_denies_is_not_what_is_meant(text: str, told: str) -> None:
    assert is_meant(read_request(text), Statement(told, is_fact=False))
    assert not is_meant(
        read_request("forget that i eat meat"), Statement("i dont eat meat", is_fact=False)
    )


@pytest.mark.parametrize(("seed", "typed"), [(3, True), (4, True), (5, False), (6, False)])
def test_no_random_request_destroys_a_wrong_fact_and_few_miss_the_right_one(
    seed: int, typed: bool
) -> None:
    result = attack(100, seed, by_rules, typed=typed)
    assert result["destroyed"] == []
    assert len(list(result["missed"])) <= 5 - 2 * typed  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "text",
    [
        "Забудь всё, что я говорил", "удали всё обо мне", "Забудь меня",
        "Видали все, що ти про мене знаєш", "Delete everything about me",
        "erase what you know about me", "forget all of it",
    ],
)  # fmt: skip
def test_everything_is_meant(text: str) -> None:
    assert asks_to_forget_all(text)


@pytest.mark.parametrize(
    "text",
    ["Delete everything about my ex", "Удали всё про Руслана", "Видали все про кота",
     "erase everything about the trip"],
)  # fmt: skip
def test_everything_about_something_is_not_everything(text: str) -> None:
    assert not asks_to_forget_all(text)
    wanted = forget_request(text)
    assert wanted is not None and wanted.everything and len(read_request(text).words) == 1


@pytest.mark.parametrize(("about", "thing"), [
    ("бабуся поїхала в Карпати вона вже вдома", "бабуся поїхала в Карпати"),
    ("Gran went to Bath she is home", "Gran went to Bath"),
    ("the umbrella is in the hall, the lady came for it", "the umbrella is in the hall"),
    ("the gate C code boss says no", "the gate C code"),
    ("сметану из списка соседка дала", "сметану"),
    ("адресу складу не треба її тут", "адресу складу"),
    ("она живёт в Сочи", ""), ("мой размер", ""),
])  # fmt: skip
def test_what_may_be_a_reason_is_left_out_where_nothing_is_found(about: str, thing: str) -> None:
    assert without_plain_reason(about) == thing


def test_a_number_is_the_code_that_is_to_be_forgotten() -> None:
    request = read_request("forget the shed alarm code")
    assert is_meant(request, Statement("the alarm in the shed is 9120", is_fact=False))
    assert not is_meant(request, Statement("the shed alarm is red", is_fact=False))


@pytest.mark.parametrize(("text", "told"), [
    ("forget my debt to Ned", "I owe Ned 40"), ("забудь про борг Назару", "я винен Назару 500"),
    ("forget the plumber's phone", "Plumber: tel. 020 7946 0000"),
    ("forget that i owe ned money", "i owe ned 40 from cards"),
    ("забудь що я позичила насті гроші", "я позичила насті 900 до середи"),
])  # fmt: skip
def test_a_debt_is_what_is_owed_and_a_phone_a_number(text: str, told: str) -> None:
    assert is_meant(read_request(text), Statement(told))
    for other in ("ned is 40", "дрель стоит 900", "долг платежом красен", "лёва живёт в доме 3"):
        assert not is_meant(read_request(text), Statement(other, is_fact=False))


@pytest.mark.parametrize("text", [
    "forget the thing about Halloran", "delete the note on Halloran",
    "забудь историю про Халлоран", "забудь ту нотатку про Халлоран",
])  # fmt: skip
def test_what_a_story_is_about_is_meant_and_not_the_story(text: str) -> None:
    assert [word.text for word in read_request(text).words] in (["halloran"], ["халлоран"])


@pytest.mark.parametrize(
    "text",
    [
        "Не запоминай это: я в депрессии", "Не надо это запоминать, но я курю",
        "У меня роман, не запоминай это", "Между нами: я курю", "Don't remember this: I'm broke",
        "I'm gay. Don't save this.", "Off the record: I quit", "Не запам'ятовуй це: я хворий",
        "Я звільняюся, але не записуй це", "Це між нами: я хворий",
    ],
)  # fmt: skip
def test_a_message_may_say_itself_that_it_is_private(text: str) -> None:
    assert asks_to_keep_private(text)


@pytest.mark.parametrize(
    "text",
    [
        "Я не запоминаю лица", "I don't remember this place", "I never save money",
        "Почему ты не запоминаешь?", "Не сохраняй файл, он битый",
        "Между нами говоря, хороший фильм", "Забудь, что я курю", "I don't remember",
        "Don't remember that I like jazz",
    ],
)  # fmt: skip
def test_what_only_sounds_private_is_remembered(text: str) -> None:
    assert not asks_to_keep_private(text)


NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)


@pytest.mark.parametrize("typed", [
    "remid me tomorrow at 9 to call mum", "rmeind me tomorrow at 9 to call mum",
    "reamind me tomorrow at 9 to call mum",
    "напомини завтра в 9 чай", "нпаомни завтра в 9 чай", "нагдай завтра о 9 купити хліб",
    "napomni zavtra v 9 kupit hleb", "nagadai zavtra o 9 hlib",
    "pls remind me tomorrow at 9 to call mum", "ping me tomorrow at 9 about mum",
    "слуш напомни завтра в 9 про счет", "маякни завтра о 9 про каву",
])  # fmt: skip
def test_a_misspelt_order_is_read(typed: str) -> None:
    request = read_reminder(typed, NOW, "UTC")
    assert request is not None and request.problem is None
    assert request.when == datetime(2026, 11, 29, 9, tzinfo=UTC)


@pytest.mark.parametrize("text", [
    "rewind the tape tomorrow at 9", "he reminds me of my dad", "forge ahead", "", "🙂" * 200,
    "напоминает отца", "забудка", "not moving", "cancels often", "забудь код під'їзду",
    f"remid me {'x' * MAX_TEXT}",
])  # fmt: skip
def test_what_is_no_slip_stays(text: str) -> None:
    assert mend_orders(text) == text


@pytest.mark.parametrize(("text", "about"), [
    ("стекло отмени", "стекло"), ("зважитись скасуй", "зважитись"), ("dentist cancel", "dentist"),
    ("отбой по стоматологу", "стоматологу"), ("скасуй оте про банк", "банк"),
    ("kill the reminder about rent", "rent"), ("get rid of the rent reminder", "rent"),
    ("отмнеи напоминание про врача", "врача"),
])  # fmt: skip
def test_an_order_to_cancel_may_stand_at_the_end(text: str, about: str) -> None:
    assert read_change(text) == CancelOrder(id=about)
