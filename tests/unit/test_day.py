"""Reading for the day: orders about the brief, dates of texts, stakes, corrections, subjects."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from src.base.owners import Caller, Owner, Preferences
from src.reminders.day import by_sentence, read_date, read_days, tells
from src.reminders.day_repo import Told
from src.reminders.follow_ups import asks_no_more, choose_event, is_same_thing, stake_of
from src.reminders.screens import read_order, read_times
from src.talk.notes import read_correction
from src.talk.search_screens import subject_of_text

NOW = datetime(2026, 11, 28, 9, tzinfo=UTC)  # a Saturday, 11:00 in Kyiv
KYIV = "Europe/Kyiv"
CALLER = Caller(Owner(1), Preferences("ru", KYIV), NOW)
WORKDAYS = (0, 1, 2, 3, 4)


def told(text: str, at: datetime = NOW, id_: str = "msg-1") -> Told:
    return Told(id_, "msg-1", text, at)


@pytest.mark.parametrize(("text", "day"), [
    ("что у меня завтра?", 29), ("Что сегодня по плану", 28), ("какие планы на понедельник?", 30),
    ("what's on tomorrow?", 29), ("plans for today", 28), ("what do I have on monday", 30),
    ("що в мене завтра?", 29), ("які плани на сьогодні", 28), ("а что завтра", 29),
    ("что у меня было вчера?", None), ("что у меня дома?", None), ("завтра", None),
    ("что подарить маме завтра?", None), ("what did I say about tomorrow?", None),
    ("какие планы на лето?", None), ("что у меня завтра с машиной?", None),
    ("whats on tmrw", 29), ("anything on tomorrow?", 29), ("tell me what's on tomorrow", 29),
    ("чё там завтра", 29), ("есть что на завтра", 29), ("шо в мене завтра", 29),
    ("what do i have going on tomorrow", 29), ("what's on the agenda today?", 28),
    ("есть ли у меня что-то завтра", 29), ("на завтра что-нибудь есть?", 29),
    ("whats left today", 28), ("anything else today", 28), ("what else do i have today", 28),
    ("что на сегодня осталось", 28), ("что сегодня ещё надо сделать", 28), ("шо ще сьогодні", 28),
    ("що ще на сьогодні лишилось", 28), ("what's left to pay today", None),
    ("є шось на завтра?", 29), ("what's on tv tomorrow", None), ("what about mum", None),
])  # fmt: skip
def test_a_question_what_is_on_names_its_day(text: str, day: int | None) -> None:
    assert read_days(text, CALLER) == ([date(2026, 11, day)] if day else [])


@pytest.mark.parametrize(("text", "first", "number"), [
    ("what do I have on thursday", 3, 1), ("что у меня 5 декабря?", 5, 1),
    ("what have i got on friday", 4, 1), ("що в мене 19 грудня", 19, 1),
    ("планы на 5-7 декабря", 5, 3),
])  # fmt: skip
def test_a_weekday_or_a_date_is_the_coming_one(text: str, first: int, number: int) -> None:
    days = [date(2026, 12, first + n) for n in range(number)]
    assert read_days(text, CALLER) == days


def test_what_is_left_of_a_week_is_shown_together() -> None:
    next_week = [date(2026, 11, 30), *(date(2026, 12, day) for day in range(1, 7))]
    assert read_days("что у меня на следующей неделе", CALLER) == next_week
    assert read_days("what's on this week", CALLER) == [date(2026, 11, day) for day in (28, 29)]


def test_behind_such_a_question_a_day_alone_asks_on() -> None:
    friday = [date(2026, 12, 4)]
    assert read_days("а в п'ятницю", CALLER, ["що завтра?"]) == friday
    assert read_days("and friday?", CALLER, ["whats on tmrw", "what about thursday"]) == friday
    assert read_days("а в пятницу", CALLER, ["напомни завтра в 9 позвонить маме"]) == []
    assert read_days("а в пятницу к врачу", CALLER, ["что завтра?"]) == []


@pytest.mark.parametrize(("words", "hour", "minute", "weekdays"), [
    ("8:00", 8, 0, ()), ("8", 8, 0, ()), ("at 7:30", 7, 30, ()), ("8 утра", 8, 0, ()),
    ("every weekday at 8", 8, 0, WORKDAYS), ("по будням в 8:30", 8, 30, WORKDAYS),
    ("щобудня о 7", 7, 0, WORKDAYS), ("по буднях о 8", 8, 0, WORKDAYS),
    ("every Monday at 8", 8, 0, (0,)), ("каждое утро", 9, 0, ()), ("щодня о 9", 9, 0, ()),
    ("в субботу в 9", 9, 0, (5,)), ("у вихідні о 12", 12, 0, (5, 6)),
    ("mon-fri 9", 9, 0, WORKDAYS), ("08.30", 8, 30, ()),
    ("по выходным 10", 10, 0, (5, 6)), ("weekends 10", 10, 0, (5, 6)),
    ("tue and thu 6:45", 6, 45, (1, 3)), ("вт,чт 8", 8, 0, (1, 3)), ("mornings at 8", 8, 0, ()),
    ("8 o'clock", 8, 0, ()), ("0800", 8, 0, ()), ("кожного дня о 7 ранку", 7, 0, ()),
    ("weekdays at half past seven", 7, 30, WORKDAYS),
])  # fmt: skip
def test_the_words_behind_the_command_say_when_the_brief_comes(
    words: str, hour: int, minute: int, weekdays: tuple[int, ...]
) -> None:
    order = read_times(words, CALLER)
    assert order is not None and order.repeats is not None
    found = order.repeats
    assert (found.hours, found.minute, found.weekdays) == ((hour,), minute, weekdays)


@pytest.mark.parametrize("text", [
    "brief every weekday at 8", "send me the brief every day at 8", "morning brief at 8",
    "присылай мне сводку в 8", "сводка по будням в 8", "утренняя сводка в 8, пожалуйста",
    "надсилай зведення щобудня о 8", "daily digest at 8, please", "move the brief to 8",
    "send me a brief every morning at 8", "перенеси сводку на 8", "постав зведення на 8",
    "Hey, could you send me the morning brief at 8?", "I'd like a brief every morning at 8",
    "можешь присылать сводку в 8 утра?", "можеш присилати зведення щодня о 8?",
])  # fmt: skip
def test_an_order_in_words_sets_the_brief(text: str) -> None:
    order = read_order(text, CALLER)
    assert order is not None and order.repeats is not None and order.repeats.hours == (8,)


@pytest.mark.parametrize("text", [
    "turn the brief off", "no more briefs", "don't send me the brief anymore",
    "не надсилай більше зведення", "не присылай мне больше сводку",
    "stop sending me briefs", "turn off the daily brief",
    "не присылай сводку", "больше не присылай сводки", "отключи сводку", "вимкни зведення",
    "I don't want the brief any more", "no briefs please", "unsubscribe me from the brief",
    "сводка больше не нужна", "хватит слать сводки", "перестань присылать сводку",
    "не треба більше зведень", "зупини зведення",
])  # fmt: skip
def test_an_order_in_words_switches_the_brief_off(text: str) -> None:
    order = read_order(text, CALLER)
    assert order is not None and order.repeats is None


@pytest.mark.parametrize(
    "words",
    [
        "off",
        "stop it",
        "cancel it",
        "нет, не надо",
        "отмена",
        "больше не нужно",
        "вимкни",
    ],
)
def test_many_words_behind_the_command_switch_the_brief_off(words: str) -> None:
    order = read_times(words, CALLER)
    assert order is not None and order.repeats is None


@pytest.mark.parametrize("text", [
    "The meeting was brief", "brief at 8 tomorrow", "сводка новостей в 8 каждый день", "сводка",
    "я читаю сводки каждый день в 8", "brief me on the project at 8", "каждый день в 8 зарядка",
])  # fmt: skip
def test_other_messages_are_no_orders_about_the_brief(text: str) -> None:
    assert read_order(text, CALLER) is None


@pytest.mark.parametrize(("text", "day", "kind"), [
    ("завтра собеседование в Яндексе", date(2026, 11, 29), "event"),
    ("interview at Google tomorrow at 3", date(2026, 11, 29), "event"),
    ("dentist thurs at quarter to 9", date(2026, 12, 3), "event"),
    ("записався до лікаря на середу", date(2026, 12, 2), "event"),
    ("отпуск с 3 по 10 декабря", date(2026, 12, 3), "event"),
    ("сдать отчёт до пятницы", date(2026, 12, 4), "deadline"),
    ("паспорт действует до 5 декабря 2026", date(2026, 12, 5), "deadline"),
    ("родился 12.03.1990", date(1990, 3, 12), "birthday"),
    ("Anna was born on 12 March 1990", date(1990, 3, 12), "birthday"),
    ("my sister was born December 12th, 1990", date(1990, 12, 12), "birthday"),
    ("ДР Кати — 14.02", date(2027, 2, 14), "birthday"),
    ("Anna's b-day 12/25", date(2026, 12, 25), "birthday"),
    ("Dad turns 70 on the 9th of January", date(2027, 1, 9), "birthday"),
    ("у Вовки днюха 20-го декабря", date(2026, 12, 20), "birthday"),
    ("дата рождения Пети 02.03.2015", date(2015, 3, 2), "birthday"),
    ("в субботу отмечаем день рождения Глеба", date(2026, 12, 5), "event"),
    ("купить подарок на день рождения до 5 декабря", date(2026, 12, 5), "deadline"),
    ("встреча с другом 5 декабря", date(2026, 12, 5), "event"),
    ("30.11 приём у кардиолога каб. 214", date(2026, 11, 30), "event"),
    ("рейс 9.12 в 6:15", date(2026, 12, 9), "event"),
    ("Sophie's party on sat 2pm", date(2026, 12, 5), "event"),
    ("взяла билеты в театр на 30.11", date(2026, 11, 30), "event"),
    ("parents evening friday", date(2026, 12, 4), "event"),
    ("Got tickets for Hamlet, Dec 10", date(2026, 12, 10), "event"),
    ("забронювала столик на 6 грудня", date(2026, 12, 6), "event"),
    ("через неделю отпуск", date(2026, 12, 5), "event"),
    ("вчера был у врача, следующий приём 14 декабря", date(2026, 12, 14), "event"),
    ("Yesterday I booked the vet for Tuesday", date(2026, 12, 1), "event"),
])  # fmt: skip
def test_a_text_has_the_day_that_it_names(text: str, day: date, kind: str) -> None:
    found = read_date(told(text), KYIV)
    assert found is not None and (found.day, found.kind) == (day, kind)


@pytest.mark.parametrize("text", [
    "купить хлеб", "день рождения мамы в мае", "the date of the meeting", "",
    "цена 12.12 руб", "the flat is 3.5 km away", "по пятницам бассейн",
])  # fmt: skip
def test_a_text_without_a_day_has_none(text: str) -> None:
    assert read_date(told(text), KYIV) is None


def test_each_sentence_has_its_own_day_and_questions_and_orders_tell_nothing() -> None:
    parts = by_sentence(
        [told("Сегодня устал. В пятницу экзамен, каб. 5!"), told("А. Б.", id_="fact-1")]
    )
    assert [one.text for one in parts] == ["Сегодня устал.", "В пятницу экзамен, каб. 5!", "А. Б."]
    assert tells(told("завтра экзамен")) and tells(told("завтра?", id_="fact-1"))
    for text in (
        "когда завтра экзамен?",
        "напомни завтра про экзамен",
        "не запоминай: завтра суд",
        "plans for tomorrow",
        "есть ещё что на завтра",
        "плани на завтра",
    ):
        assert not tells(told(text)), text


@pytest.mark.parametrize(("text", "stake"), [
    ("в среду к стоматологу", "doctor"), ("dentist on Tuesday", "doctor"),
    ("співбесіда завтра", "interview"), ("у брата экзамен", "exam"), ("рейс в Прагу", "flight"),
    ("operation on my knee", "surgery"), ("операция у хирурга-врача", "surgery"),
    ("date with Anna on Friday", "date"), ("суд по квартире", "court"),
    ("весілля сестри", "wedding"), ("the date of the meeting", None), ("посуда", None),
    ("купить хлеб", None), ("обсуждение", None),
    ("to the vets on tuesday", "doctor"), ("к хирургу", "doctor"),
    ("my knee op is on Friday", "surgery"), ("C-section on Monday", "surgery"),
    ("пересдача по матану", "exam"), ("IELTS on Saturday", "exam"),
    ("moving house on Saturday", "move"), ("переезжаем в пятницу", "move"), ("переїзд", "move"),
    ("tennis court 3 at six", None), ("looking forward to hearing from you", None),
    ("court hearing", "court"), ("the football pitch", None), ("pitch to investors", "talk"),
])  # fmt: skip
def test_an_event_has_a_stake_by_its_words(text: str, stake: str | None) -> None:
    assert stake_of(text) == stake


@pytest.mark.parametrize(("text", "is_order"), [
    ("не спрашивай об этом", True), ("Don’t ask me about that again", True),
    ("не питай про це", True), ("больше не спрашивай.", True),
    ("Не надо больше спрашивать об этом", True), ("please don't ask me about that", True),
    ("не спрашивай про собеседование", True), ("don't ask about the interview", True),
    ("не питай про лікаря", True), ("don't ask about the neighbours", False),
    ("I don't want to talk about it", True), ("let's not talk about this", True),
    ("no questions please", True), ("давай не будем об этом", True), ("не треба про це", True),
    ("Не спрашивайте меня больше об этом, пожалуйста", True), ("не надо", False),
    ("не спрашивай меня о погоде", False), ("спроси об этом", False),
])  # fmt: skip
def test_an_order_to_ask_no_more_is_a_whole_message(text: str, is_order: bool) -> None:
    assert asks_no_more(text) is is_order


def test_the_same_thing_has_the_stake_and_words_in_common() -> None:
    assert is_same_thing("interview at Google on Monday", "the Google interview")
    assert is_same_thing("терапевт завтра", "терапевт")
    assert not is_same_thing("interview at Google", "exam at Google")
    assert not is_same_thing("interview at Google", "interview at Yandex")


YESTERDAY = date(2026, 11, 27)
BEFORE = datetime(2026, 11, 26, 9, tzinfo=UTC)
EVENING = datetime(2026, 11, 27, 18, tzinfo=UTC)


@pytest.mark.parametrize("later", [
    told("собеседование отменили", BEFORE.replace(hour=12), "msg-2"),
    told("собеседование прошло отлично", EVENING, "msg-2"),
    told("рассказываю про собеседование", NOW, "msg-2"),
    told("собеседование сдвинули на вечер", BEFORE.replace(hour=12), "msg-2"),
    told("в Яндексе все отменилось", BEFORE.replace(hour=12), "msg-2"),
    told("завтра собеседования не будет", BEFORE.replace(hour=12), "msg-2"),
])  # fmt: skip
def test_nobody_is_asked_about_what_was_called_off_or_told(later: Told) -> None:
    event = told("завтра собеседование в Яндексе", BEFORE)
    assert choose_event([event], [], YESTERDAY, KYIV) == event
    assert choose_event([event, later], [], YESTERDAY, KYIV) is None


def test_an_event_of_its_own_day_counts_and_a_report_does_not() -> None:
    today = told("сегодня собеседование, боюсь", EVENING.replace(hour=7))
    assert choose_event([today], [], YESTERDAY, KYIV) == today
    yearly = told("завтра годовщина свадьбы", BEFORE)
    assert choose_event([yearly], [], YESTERDAY, KYIV) is None
    report = told("вчера было собеседование", NOW)
    assert choose_event([report], [], YESTERDAY, KYIV) is None


def test_a_reminder_that_came_is_an_event_unless_it_names_another_day() -> None:
    came = Told("reminder-1", "", "собеседование", EVENING)
    assert choose_event([came], [], YESTERDAY, KYIV) == came
    ahead = Told("reminder-1", "", "завтра собеседование", EVENING)
    assert choose_event([ahead], [], YESTERDAY, KYIV) is None
    assert choose_event([ahead], [], date(2026, 11, 28), KYIV) == ahead
    assert choose_event([came], ["собеседование"], YESTERDAY, KYIV) is None


@pytest.mark.parametrize(("text", "wish"), [
    ("короче", "short"), ("Покороче, пожалуйста", "short"), ("shorter", "short"),
    ("стисліше", "short"), ("подробнее!", "long"), ("in more detail", "long"), ("проще", "simple"),
    ("can you be more concise?", "short"), ("too wordy", "short"),
    ("это не то, что я спрашивал", "unknown"), ("that's not what I asked", "unknown"),
    ("це не те, що я питала", "unknown"), ("не так", "unknown"),
    ("not so", "unknown"), ("усе не так", "unknown"),
    ("нет, не так", "unknown"), ("No, that's wrong", "unknown"), ("you misunderstood", "unknown"),
    ("я не об этом спросил", "unknown"), ("ні, я не про це", "unknown"), ("👎", "unknown"),
    ("в двух словах", "short"), ("расскажи подробнее", "long"), ("eli5", "simple"),
    ("я не понял, объясни проще", "simple"), ("не розумію, поясни простіше", "simple"),
    ("wrong number", None), ("не так быстро", None), ("too long a day", None),
    ("короче, я поехал", None), ("это не так просто", None), ("", None),
])  # fmt: skip
def test_a_correction_is_a_whole_message(text: str, wish: str | None) -> None:
    assert read_correction(text) == wish


@pytest.mark.parametrize(("text", "subject"), [
    ("у меня аллергия на орехи", "health"), ("у сестры аллергия", "people"),
    ("наш кот Барсик", "pets"),
    ("работаю в Яндексе", "work"), ("I love cheese", "likes"), ("планую купити авто", "plans"),
    ("меня зовут Анна", "you"), ("дождь", None),
])  # fmt: skip
def test_a_note_has_a_subject_by_its_words(text: str, subject: str | None) -> None:
    assert subject_of_text(text) == subject
