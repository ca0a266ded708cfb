"""The tools of reminders in the hands of a language model: what it orders and what it is told."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from src.base.owners import LanguageSource
from src.history.conversation_repo import TelegramOrigin
from src.reading.gate import Voice
from src.texts import say
from tests.fakes.openai_server import Reply
from tests.integration.person import Person, called, results

NINE = datetime(2026, 11, 24, 6, tzinfo=UTC)  # 9:00 in Moscow, four days after the first message


def told(person: Person, number: int = -1) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(results(person.requests[number])[-1])
    return found


def stored(person: Person) -> list[tuple[Any, ...]]:
    return person.rows(
        "SELECT id, text, due_at, recurrence, language, message_id IS NOT NULL FROM reminders"
        " WHERE owner_id = %(owner)s AND is_waiting ORDER BY id"
    )


def order(**arguments: Any) -> Reply:
    usual = {"text": "позвонить маме", "when": "2026-11-24T09:00"}
    return called("set_reminder", **{**usual, **arguments})


async def test_a_model_sets_a_reminder_and_learns_the_exact_time(person: Person) -> None:
    answer = await person.say("напомни во вторник в 9 позвонить маме", order(), "Напомню!")
    [(number, *rest)] = stored(person)
    assert rest == ["позвонить маме", NINE, None, "ru", True]
    assert told(person) == {
        "set": True, "id": f"reminder-{number}", "text": "позвонить маме",
        "time": "во вторник, 24 ноября, в 09:00",
    }  # fmt: skip
    assert answer.changes.reminders == (number,) and answer.tools == ("set_reminder",)
    again = person.core.turns.find_answer(person.conversation(), message_of(person))
    assert again is not None and again.changes.reminders == (number,), "after a crash too"


@pytest.mark.parametrize(("said", "arguments", "recurrence"), [
    ("напоминай каждый день в 9 пить антибиотик 7 дней", {"repeats": "daily"},
     "FREQ=DAILY;UNTIL=20261127T235959;BYHOUR=9;BYMINUTE=0"),
    ("напоминай каждый день кроме воскресенья в 9 пить чай", {"repeats": "daily"},
     "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR,SA;BYHOUR=9;BYMINUTE=0"),
    ("напоминай по будням кроме среды в 9 пить чай", {"repeats": "workdays"},
     "FREQ=WEEKLY;BYDAY=MO,TU,TH,FR;BYHOUR=9;BYMINUTE=0"),
    ("напоминай в первый понедельник месяца в 9 пить чай", {"repeats": "monthly"},
     "FREQ=MONTHLY;BYDAY=1MO;BYHOUR=9;BYMINUTE=0"),
    ("напоминай каждый день в 9 пить чай 7 дней", {"repeats": "daily", "until": "2026-11-30"},
     "FREQ=DAILY;UNTIL=20261130T235959;BYHOUR=9;BYMINUTE=0"),
])  # fmt: skip
async def test_an_end_that_a_model_leaves_out_is_read_from_the_words(
    person: Person, said: str, arguments: dict[str, Any], recurrence: str
) -> None:
    await person.say(said, order(**arguments), "Напомню!")
    [row] = stored(person)
    assert row[3] == recurrence


async def test_nothing_is_set_for_ever_whose_end_no_calendar_knows(person: Person) -> None:
    await person.say("напоминай каждый день в 9 пить чай, пока не поправлюсь",
                     order(repeats="daily"), "Когда прекратить?")  # fmt: skip
    assert stored(person) == [] and told(person) == {"set": False, "reason": "unclear"}


def message_of(person: Person) -> int:
    [(number,)] = person.rows(
        "SELECT m.id FROM messages m JOIN conversations c ON c.id = m.conversation_id"
        " WHERE c.telegram_user_id = %(user)s AND m.role = 'user'"
    )
    return int(number)


@pytest.mark.parametrize(("language_from", "time"), [
    ("spoken", "every Monday at 08:00 (next: 30 November)"),
    ("chosen", "каждый понедельник в 08:00 (ближайшее: 30 ноября)"),
])  # fmt: skip
async def test_it_is_told_in_the_language_of_the_request_unless_another_is_chosen(
    person: Person, language_from: LanguageSource, time: str
) -> None:
    again = order(text="water the plants", when="2026-11-30T08:00", repeats="weekly")
    said = "remind me every Monday at 8 to water the plants"
    await person.say(said, again, "Done", language_from=language_from)
    assert told(person)["time"] == time
    language = {"spoken": "en", "chosen": "ru"}[language_from]
    assert stored(person)[0][3:5] == ("FREQ=WEEKLY;BYDAY=MO;BYHOUR=8;BYMINUTE=0", language)


async def test_minutes_count_from_the_message(person: Person) -> None:
    await person.say("через 20 минут чай", order(when="", in_minutes=20), "Хорошо")
    assert told(person)["time"] == "сегодня, 20 ноября, в 09:21"


@pytest.mark.parametrize(("arguments", "reason"), [
    ({"when": ""}, "no_time"), ({"when": "2026-11-19T09:00"}, "past"),
    ({"when": "2040-01-01T09:00"}, "too_far"),
])  # fmt: skip
async def test_what_cannot_be_set_is_told_with_the_reason(
    person: Person, arguments: dict[str, Any], reason: str
) -> None:
    await person.say("напомни позвонить маме", order(**arguments), "Когда?")
    assert told(person) == {"set": False, "reason": reason} and stored(person) == []


@pytest.mark.parametrize("arguments", [
    {"when": "скоро"}, {"repeats": "often"}, {"text": ""}, {"every": -1},
    {"repeats": "hourly", "every": 7},
])  # fmt: skip
async def test_arguments_that_nobody_understands_go_back_to_the_model(
    person: Person, arguments: dict[str, Any]
) -> None:
    await person.say("напомни позвонить маме", order(**arguments), order(), "Готово")
    first = results(person.requests[-2])[-1]
    assert first.startswith("The tool refused its arguments: ") and told(person)["set"]
    assert len(stored(person)) == 1


async def test_words_of_others_set_nothing(person: Person) -> None:
    forwarded = Voice(provenance="forwarded", origin="Кто-то")
    await person.say("напомни завтра в 9 заплатить", order(), "Это не вы", voice=forwarded)
    assert told(person) == {"set": False, "reason": "not_own"} and stored(person) == []
    person.mode, understood = "strict", called("Understanding", intent="remind")
    await person.say("напомни завтра в 9 заплатить", understood, voice=forwarded)
    assert stored(person) == []


async def test_two_reminders_of_one_message_have_a_button_each(person: Person) -> None:
    both = Reply(tool_calls=[
        ("set_reminder", {"text": "чай", "when": "2026-11-24T09:00"}),
        ("set_reminder", {"text": "кофе", "when": "2026-11-24T10:00"}),
        ("set_reminder", {"text": "чай", "when": "2026-11-24T09:00"}),
    ])  # fmt: skip
    answer = await person.say("напомни завтра в 9 чай и в 10 кофе", both, "Хорошо")
    assert answer.changes.reminders == tuple(row[0] for row in stored(person))
    assert len(answer.changes.reminders) == 2, "the third is the first"


async def test_a_model_lists_and_cancels(person: Person) -> None:
    await person.say("напомни во вторник в 9 позвонить маме", order(), "Хорошо")
    [(number, *_)] = stored(person)
    listing = called("list_reminders")
    await person.say("что у меня запланировано?", listing, "Вот")
    assert told(person) == {"reminders": [{
        "id": f"reminder-{number}", "text": "позвонить маме",
        "time": "во вторник, 24 ноября, в 09:00",
    }]}  # fmt: skip
    for id_, is_cancelled in (
        ("reminder-999999", False), (f"reminder-{number}", True), (f"reminder-{number}", False),
    ):  # fmt: skip
        await person.say("отмени", called("cancel_reminder", id=id_), "Готово")
        outcome = {"text": "позвонить маме"} if is_cancelled else {"reason": "gone"}
        assert told(person) == {"cancelled": is_cancelled, **outcome}
    assert stored(person) == []


@pytest.mark.parametrize(("said", "on", "time"), [
    ("отмени", "2026-11-24", "каждый день в 09:00 (ближайшее: 25 ноября)"),
    ("24 ноября мама занята, пропусти", "", "каждый день в 09:00 (ближайшее: 25 ноября)"),
    ("до четверга не напоминай", "", "каждый день в 09:00 (ближайшее: 27 ноября)"),
])  # fmt: skip
async def test_a_model_leaves_out_days_of_what_recurs(
    person: Person, said: str, on: str, time: str
) -> None:
    await person.say("напомни во вторник в 9 позвонить маме", order(repeats="daily"), "Хорошо")
    [(number, *_)] = stored(person)
    await person.say(said, called("cancel_reminder", id=f"reminder-{number}", on=on), "Готово")
    assert told(person)["time"] == time and told(person)["skipped"].startswith("24 ноября")


async def test_a_day_of_what_recurs_that_cannot_be_moved_stays(person: Person) -> None:
    await person.say("напомни во вторник в 9 позвонить маме", order(repeats="daily"), "Хорошо")
    before = stored(person)
    past = order(when="2026-11-01T09:00", moves="звонок маме 24 ноября")
    await person.say("перенеси звонок маме 24 ноября на первое", past, "Не вышло")
    assert told(person)["reason"] == "past" and stored(person) == before


@pytest.mark.parametrize(("first", "moving", "recurrence", "time"), [
    ({}, {"when": "2026-11-27T10:00"}, None, "в пятницу, 27 ноября, в 10:00"),
    ({"repeats": "weekly"}, {"when": "2026-11-27T09:00"},
     "FREQ=WEEKLY;BYDAY=FR;BYHOUR=9;BYMINUTE=0",
     "каждую пятницу в 09:00 (ближайшее: 27 ноября)"),
    ({"repeats": "daily", "hours": [9, 21]}, {"when": "2026-11-24T10:30"},
     "FREQ=DAILY;BYHOUR=10,22;BYMINUTE=30",
     "каждый день в 10:30 и 22:30 (ближайшее: 24 ноября в 10:30)"),
    ({"repeats": "monthly"}, {"when": "2026-12-05T09:00"},
     "FREQ=MONTHLY;BYMONTHDAY=5;BYHOUR=9;BYMINUTE=0",
     "каждый месяц, 5-го числа в 09:00 (ближайшее: 5 декабря)"),
    ({}, {"when": "2026-11-27T09:00", "repeats": "weekly"},
     "FREQ=WEEKLY;BYDAY=FR;BYHOUR=9;BYMINUTE=0", "каждую пятницу в 09:00 (ближайшее: 27 ноября)"),
])  # fmt: skip
async def test_a_model_moves_a_reminder_and_what_recurs_as_a_whole(
    person: Person, first: dict[str, Any], moving: dict[str, Any],
    recurrence: str | None, time: str,
) -> None:  # fmt: skip
    await person.say("напомни во вторник в 9 позвонить маме", order(**first), "Хорошо")
    [(number, *_)] = stored(person)
    move = order(text="мама", moves=f"reminder-{number}", **moving)
    answer = await person.say("перенеси", move, "Готово")
    assert told(person) == {
        "set": True, "moved": True, "id": f"reminder-{number}", "text": "позвонить маме",
        "time": time,
    }  # fmt: skip
    [(same, text, _, rule, *_)] = stored(person)
    assert (same, text, rule) == (number, "позвонить маме", recurrence)
    assert answer.changes.reminders == (number,)


async def test_a_model_may_name_a_reminder_by_its_words(person: Person) -> None:
    await person.say("напомни во вторник в 9 позвонить маме", order(), "Хорошо")
    await person.say("и про хлеб", order(text="купить хлеб", when="2026-11-25T09:00"), "Хорошо")
    await person.say("перенеси", order(moves="мама", when="в пятницу"), "Готово")
    assert told(person)["time"] == "в пятницу, 27 ноября, в 09:00"
    await person.say("отмени", called("cancel_reminder", id="хлеб"), "Готово")
    assert told(person) == {"cancelled": True, "text": "купить хлеб"}
    await person.say("отмени", called("cancel_reminder", id="цветы"), "Какое?")
    unclear = told(person)
    assert unclear.pop("reminders")[0]["text"] == "позвонить маме"
    assert unclear == {"cancelled": False, "reason": "which"} and len(stored(person)) == 1


@pytest.mark.parametrize(("said", "left"), [
    ("all but молоко", ["молоко"]), ("all but хлеб, чай", ["хлеб", "чай"]),
    ("all but кофе", None), ("хлеб, чай", ["молоко"]), ("хлеб, кофе", ["молоко", "чай"]),
    ("3pm", ["хлеб", "чай"]), ("wednesday", ["хлеб", "молоко"]), ("11:00", None),
    ("аэропорт завтра", None),
])  # fmt: skip
async def test_several_are_cancelled_by_name_and_one_by_its_time(
    person: Person, said: str, left: list[str] | None
) -> None:
    for text, day in (("хлеб", "23T09:00"), ("молоко", "23T15:00"), ("чай", "25T10:00")):
        await person.say(f"напомни {text}", order(text=text, when=f"2026-11-{day}"), "Ок")
    await person.say("отмени", called("cancel_reminder", id=said), "Готово")
    assert told(person)["cancelled"] == (left is not None)
    assert [row[1] for row in stored(person)] == (left or ["хлеб", "молоко", "чай"])


async def test_in_a_group_nobody_moves_or_cancels_for_another(person: Person) -> None:
    person.user = -person.user

    def by(member: int) -> dict[str, Any]:
        return {"origin": TelegramOrigin(42, person.user, next_number(person), member)}

    await person.say("напомни во вторник в 9 позвонить маме", order(), "Хорошо", **by(11))
    [(number, *_)] = stored(person)
    moving = order(moves=f"reminder-{number}", when="2026-11-27T09:00")
    await person.say("перенеси", moving, "Нет", **by(12))
    assert told(person) == {"set": False, "reason": "not_yours"}
    await person.say("перенеси", moving, "Да", **by(11))
    assert told(person)["moved"]
    cancelling = called("cancel_reminder", id=f"reminder-{number}")
    await person.say("отмени", cancelling, "Нет", **by(12))
    assert told(person) == {"cancelled": False, "reason": "not_yours"}
    await person.say("отмени", cancelling, "Да", **by(11))
    assert told(person) == {"cancelled": True, "text": "позвонить маме"}


def next_number(person: Person) -> int:
    [(number,)] = person.rows("SELECT count(*) + 1 FROM messages")
    return int(number)


async def test_strict_mode_reads_the_time_by_rule(person: Person) -> None:
    person.mode, person.language = "strict", "en"
    understood = called("Understanding", intent="remind")
    answer = await person.say("remind me on Tuesday at 9 to call mum", understood)
    time = "on Tuesday, 24 November, at 09:00"
    assert answer.text == say("reminder_set", "en", text="call mum", time=time)
    assert answer.changes.reminders == tuple(row[0] for row in stored(person))
    answer = await person.say("make an alarm, you know when", understood)
    assert answer.text == say("reminder_no_time", "en") and len(stored(person)) == 1
