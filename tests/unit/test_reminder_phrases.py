"""Requests for reminders in three languages, and what only looks like one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from src.base.zones import local_time
from src.reading.reminder_moments import ReminderRequest, read_new_time
from src.reading.reminder_phrases import read_reminder, requests_in
from src.reminders.rules import reminder_calls
from tests.cases import for_random

ZONE = "Europe/Moscow"
NOW = datetime(2026, 11, 23, 7, tzinfo=UTC)  # a Monday, ten in the morning in Moscow

# What is said | what of | the first time in Moscow | how it comes again | what is wrong with it.
REQUESTS_RU = """
напомни завтра в 9 ой нет в 10 позвонить маме | позвонить маме | 2026-11-24 10:00 |  |
напомни завтра в 5 встать | встать | 2026-11-24 05:00 |  |
напомни завтра в 1500 забрать посылку | забрать посылку | 2026-11-24 15:00 |  |
напомни завтра взять кредит в 1500 рублей | взять кредит в 1500 рублей | 2026-11-24 09:00 |  |
напомни через полчаса снять суп | снять суп | 2026-11-23 10:30 |  |
напомни в половине девятого выйти | выйти | 2026-11-24 08:30 |  |
напомни без пятнадцати девять выйти | выйти | 2026-11-24 08:45 |  |
напомни завтра купить билеты на пятницу | купить билеты на пятницу | 2026-11-24 09:00 |  |
напомни купить билеты на пятницу | купить билеты на пятницу |  |  | no_time
напоминай каждые 5 минут |  |  |  | too_often
напомни в 25:99 встать | встать |  |  | no_time
напомни вчера купить хлеб | купить хлеб |  |  | past
напомни сегодня купить хлеб | купить хлеб |  |  | no_time
напомни через неделю в пятницу оплатить | оплатить |  |  | no_time
напомни мне в следующую пятницу в 20:00 про матч | про матч | 2026-12-04 20:00 |  |
напомни в 12 ночи спать | спать | 2026-11-24 00:00 |  |
напомни каждое 5 число платить за интернет |\
    платить за интернет | 2026-12-05 09:00 | FREQ=MONTHLY;BYMONTHDAY=5;BYHOUR=9;BYMINUTE=0 |
напомни каждый год 8 марта купить цветы |\
    купить цветы | 2027-03-08 09:00 | FREQ=YEARLY;BYMONTH=3;BYMONTHDAY=8;BYHOUR=9;BYMINUTE=0 |
Напомни через 3 дня в 10 утра полить цветы | полить цветы | 2026-11-26 10:00 |  |
напомни в полдень пообедать | пообедать | 2026-11-23 12:00 |  |
напомни через несколько минут перезвонить | перезвонить | 2026-11-23 10:03 |  |
напоминай в последний день месяца сдать отчёт |\
    сдать отчёт | 2026-11-30 09:00 |\
    FREQ=MONTHLY;BYMONTHDAY=28,29,30,31;BYHOUR=9;BYMINUTE=0;BYSETPOS=-1 |
мне нужно напоминание на завтра 10 утра про врача | про врача | 2026-11-24 10:00 |  |
Завтра в 15:00 стоматолог. Напомни за час. | стоматолог | 2026-11-24 14:00 |  |
Напомни мне в пн в 9 про планёрку | про планёрку | 2026-11-30 09:00 |  |
напомни 2026-12-01 в 10:00 про налог | про налог | 2026-12-01 10:00 |  |
напомни на следующей неделе в среду про налог | про налог | 2026-12-02 09:00 |  |
напомни в выходные помыть машину | помыть машину | 2026-11-28 09:00 |  |
напоминай каждые полгода проходить осмотр |\
    проходить осмотр | 2027-05-23 09:00 |\
    DTSTART:20261124T090000 RRULE:FREQ=MONTHLY;INTERVAL=6;BYMONTHDAY=23;BYHOUR=9;BYMINUTE=0 |
разбуди меня завтра в 5:40 | разбуди меня | 2026-11-24 05:40 |  |
напомни завтра в 9.30 встать | встать | 2026-11-24 09:30 |  |
напомни через год 5 марта проверить | проверить |  |  | no_time
напомни сегодня в 2 ночи проверить | проверить | 2026-11-24 02:00 |  |
напомни сегодня в 9 утра позвонить | позвонить |  |  | past
напомни в 2030 году проверить капсулу | проверить капсулу | 2030-01-01 09:00 |  |
напомни летом купить велосипед | летом купить велосипед |  |  | no_time
напоминай каждые 5 часов пить таблетки | пить таблетки |  |  | no_time
напоминай каждые 100 лет |  |  |  | too_far
напоминай раз в 2 недели по пятницам в 17:00 про отчёт |\
    про отчёт | 2026-11-27 17:00 |\
    DTSTART:20261127T170000 RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=FR;BYHOUR=17;BYMINUTE=0 |
напоминай каждые выходные поливать цветы |\
    поливать цветы | 2026-11-28 09:00 | FREQ=WEEKLY;BYDAY=SA,SU;BYHOUR=9;BYMINUTE=0 |
напомни 29 февраля поздравить Олю | поздравить Олю | 2028-02-29 09:00 |  |
напомни 5.03.2020 в 10:00 что-то | что-то |  |  | past
напомни мне через 999999999999999999 минут |  |  |  | too_far
напомни ч/з час выйти | выйти | 2026-11-23 11:00 |  |
напомни сег в 8 вечера футбол | футбол | 2026-11-23 20:00 |  |
напоминай мне по утрам и вечерам мерить давление |\
    мерить давление | 2026-11-23 19:00 | FREQ=DAILY;BYHOUR=9,19;BYMINUTE=0 |
напомни за день до др кати в 8 вечера купить подарок |\
    за день до др кати купить подарок |  |  | no_day
"""
REQUESTS_UK = """
за 20 хв вимкнути духовку нагадай | вимкнути духовку | 2026-11-23 10:20 |  |
нагадай завтра о 9 ой ні о 10 подзвонити мамі | подзвонити мамі | 2026-11-24 10:00 |  |
нагадай о пів на дев'яту вийти | вийти | 2026-11-24 08:30 |  |
нагадай за 20 хвилин вимкнути праску | вимкнути праску | 2026-11-23 10:20 |  |
у пʼятницу о 3 дня нагадай купити хліб | купити хліб | 2026-11-27 15:00 |  |
нагадай за півгодини зняти суп | зняти суп | 2026-11-23 10:30 |  |
нагадай через півтори години перевірити пошту | перевірити пошту | 2026-11-23 11:30 |  |
нагадай о пів на дев'яту вечора вийти | вийти | 2026-11-23 20:30 |  |
нагадай за чверть дев'ята вийти | вийти | 2026-11-24 08:45 |  |
нагадуй щомісяця 1 числа платити за квартиру |\
    платити за квартиру | 2026-12-01 09:00 | FREQ=MONTHLY;BYMONTHDAY=1;BYHOUR=9;BYMINUTE=0 |
нагадуй раз на тиждень поливати квіти |\
    поливати квіти | 2026-11-30 09:00 | FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0 |
кинь нагадування на завтра 19:15 дзвінок з кайлом | дзвінок з кайлом | 2026-11-24 19:15 |  |
нагадай купити молоко | купити молоко |  |  | no_time
нагадуй щодня о 9 та 21 пити ліки |\
    пити ліки | 2026-11-23 21:00 | FREQ=DAILY;BYHOUR=9,21;BYMINUTE=0 |
нагадай опівдні пообідати | пообідати | 2026-11-23 12:00 |  |
нагадай на вихідних помити машину | помити машину | 2026-11-28 09:00 |  |
нагадуй щороку 8 березня купити квіти |\
    купити квіти | 2027-03-08 09:00 | FREQ=YEARLY;BYMONTH=3;BYMONTHDAY=8;BYHOUR=9;BYMINUTE=0 |
Нагадай мені, будь ласка, про ліки о 21:00 | про ліки | 2026-11-23 21:00 |  |
нагадай через 3 дні о 10 ранку полити квіти | полити квіти | 2026-11-26 10:00 |  |
нагадай за чверть до дев'ятої вечора вийти | вийти | 2026-11-23 20:45 |  |
нагадай у травні про дачу | про дачу | 2027-05-01 09:00 |  |
нагадай післязавтра вдень забрати посилку | забрати посилку | 2026-11-25 13:00 |  |
нагадай учора купити хліб | купити хліб |  |  | past
нагадуй щохвилини дихати | дихати |  |  | too_often
нагадай через двадцять років усміхнутися | усміхнутися |  |  | too_far
У мене завтра зустріч, нагадай о 9 | У мене зустріч | 2026-11-24 09:00 |  |
нагадай о 25:99 встати | встати |  |  | no_time
щоранку нагадуй мені робити зарядку |\
    робити зарядку | 2026-11-24 09:00 | FREQ=DAILY;BYHOUR=9;BYMINUTE=0 |
нагадай годин через дві вийти | вийти | 2026-11-23 12:00 |  |
нагадай наступної п'ятниці про матч | про матч | 2026-12-04 09:00 |  |
нагадуй по вівторках і четвергах о 19:00 про тренування |\
    про тренування | 2026-11-24 19:00 | FREQ=WEEKLY;BYDAY=TU,TH;BYHOUR=19;BYMINUTE=0 |
нагадай за 10 хвилин до зустрічі о 15:00 | за 10 хвилин до зустрічі | 2026-11-23 14:50 |  |
нагадай завтра о п'ятнадцятій тридцять про дзвінок | про дзвінок | 2026-11-24 15:30 |  |
нагадай через пів годинки борщ | борщ | 2026-11-23 10:30 |  |
нагадай за 2 дні до дн бабусі замовити торт | за 2 дні до дн бабусі замовити торт |  |  | no_day
"""
REQUESTS_EN = """
remind me tomorrow at 3pm no wait 4pm to call mum | call mum | 2026-11-24 16:00 |  |
remind me at 9 and 18 to feed the cat | feed the cat |  |  | no_time
remind me on 12/1 at 8:15 to pay | pay |  |  | no_time
remind me Thursday week at 10 to call the vet | call the vet |  |  | no_time
remind me every morning and evening to take drops |\
    take drops | 2026-11-23 19:00 | FREQ=DAILY;BYHOUR=9,19;BYMINUTE=0 |
n remind me wed at 2pm to pay | pay | 2026-11-25 14:00 |  |
wake me up tomorrow at 6 for the ferry | wake me up for the ferry | 2026-11-24 06:00 |  |
remind me sunday 11 to ring nana | ring nana | 2026-11-29 11:00 |  |
remind me at half past eight to leave | leave | 2026-11-24 08:30 |  |
Set a daily reminder at 9 to stretch |\
    stretch | 2026-11-24 09:00 | FREQ=DAILY;BYHOUR=9;BYMINUTE=0 |
remind me in 10^9 years to wake up | wake up |  |  | too_far
remind me on 31 February to pay | pay |  |  | no_time
remind me every other Friday at 6pm to call dad |\
    call dad | 2026-11-27 18:00 |\
    DTSTART:20261127T180000 RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=FR;BYHOUR=18;BYMINUTE=0 |
Remind me that I have a meeting tomorrow at 10 | I have a meeting | 2026-11-24 10:00 |  |
remind me in 3 days at 10am to water the plants | water the plants | 2026-11-26 10:00 |  |
remind me on Mondays at 9 about the standup |\
    about the standup | 2026-11-30 09:00 | FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0 |
remind me twice a day to take pills | take pills |  |  | no_time
remind me on the last day of every month to file the report |\
    file the report | 2026-11-30 09:00 |\
    FREQ=MONTHLY;BYMONTHDAY=28,29,30,31;BYHOUR=9;BYMINUTE=0;BYSETPOS=-1 |
I have a dentist appointment tomorrow at 3 pm, remind me an hour before the appointment |\
    I have a dentist appointment an hour before the appointment | 2026-11-24 14:00 |  |
remind me at quarter to nine to leave | leave | 2026-11-24 08:45 |  |
remind me this weekend to wash the car | wash the car | 2026-11-28 09:00 |  |
remind me to buy milk | buy milk |  |  | no_time
remind me yesterday to buy milk | buy milk |  |  | past
remind me every minute to breathe | breathe |  |  | too_often
remind me the day after tomorrow at 9 to call | call | 2026-11-25 09:00 |  |
remind me in 20 years to smile | smile |  |  | too_far
remind me every 90 minutes to stand up | stand up |  |  | no_time
remind me at 9:00 am and 9:00 pm to take pills | take pills | 2026-11-24 09:00 |  |
remind me May 3 to call | call | 2027-05-03 09:00 |  |
remind me on the 31st to pay | pay | 2026-12-31 09:00 |  |
remind me to do laundry on 5/12/2026 | do laundry | 2026-12-05 09:00 |  |
remind me on Mon and Wed at 7 to run |\
    run | 2026-11-25 07:00 | FREQ=WEEKLY;BYDAY=MO,WE;BYHOUR=7;BYMINUTE=0 |
remind me thurs dentist | dentist | 2026-11-26 09:00 |  |
remind me sat morning feed the cat | feed the cat | 2026-11-28 09:00 |  |
pls remind me mon 8.45am pay council tax | pay council tax | 2026-11-30 08:45 |  |
remind me tues half past 12 to eat | eat | 2026-11-24 12:30 |  |
remind me 20 mins take the pizza out | take the pizza out | 2026-11-23 10:20 |  |
last friday of month at 5pm remind me do timesheet |\
    do timesheet | 2026-11-27 17:00 | FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17;BYMINUTE=0 |
remind me 2 days before grans bday at 6pm to order flowers |\
    2 days before grans bday to order flowers |  |  | no_day
remind me 2 days before grans bday at 6pm to order flowers 9 december |\
    2 days before grans bday to order flowers | 2026-12-07 18:00 |  |
"""
REQUESTS_MIXED = """
Could you remind me about the rent on the first of every month? |\
    about the rent | 2026-12-01 09:00 | FREQ=MONTHLY;BYMONTHDAY=1;BYHOUR=9;BYMINUTE=0 |
напомни первого числа заплатить | заплатить | 2026-12-01 09:00 |  |
нужно напоминание на 9 утра: врач | врач | 2026-11-24 09:00 |  |
напомни про дедлайн за день до 5 декабря | про дедлайн | 2026-12-04 09:00 |  |
Завтра экзамен, напомни утром взять паспорт | экзамен, взять паспорт | 2026-11-24 09:00 |  |
напомни через 15 минут, что суп на плите | суп на плите | 2026-11-23 10:15 |  |
Напомни мне за 2 часа до вылета в пятницу в 17:40 | за 2 часа до вылета | 2026-11-27 15:40 |  |
remind me 10 minutes before my 3 pm meeting | 10 minutes before my meeting | 2026-11-23 14:50 |  |
"""
OTHER_RU = """
Напомни, что завтра в 9 к врачу
remind me of what Anna said at 9
I told you to remind me tomorrow at 9
You should remind me tomorrow at 9
Ты забыл напомнить мне вчера в 9
Напомни ей завтра в 9 позвонить
напомни мне про завтрашнюю встречу
напомни!!! завтра!!! в 9!!! позвонить!!!
через 5 минут
напомни на 3 часа раньше
когда ты мне напомнишь?
напомни, как зовут мою сестру
напомни мне мой адрес
напомни, что у меня завтра
напомни, что было вчера
напомни расписание на понедельник
напомни, о чём мы говорили в пятницу
напомни наш разговор в пятницу
Не напоминай мне об этом завтра
какие у меня напоминания на завтра?
напоминание о встрече не пришло
напомни, во сколько у меня встреча завтра
напомни про Лиссабон в марте
напомни, пожалуйста, какой завтра день
Если пойдёт дождь, напомни взять зонт
напомни рецепт борща
напомни дату свадьбы
напомни, кто звонил вчера
напомни, какие у меня дела на завтра
напомни адрес стоматолога, к которому я иду завтра в 9
напомни мне о нашей поездке в прошлом году
напомни, был ли я в Париже в 2024 году
Ты напомнил мне завтра купить хлеб?
Телефон напоминает мне каждый день в 9
Напомните, пожалуйста, как вас зовут
Отмени напоминание завтра в 9
Спасибо, что напомнил!
Надо напомнить Ане про завтра
напомни, сколько стоит билет на пятницу
напомни мне, во сколько вставать завтра
Можешь напомнить мой адрес?
напомни прошлогодние планы на 5 марта
напомни день рождения мамы
напомни, завтра среда?
напомни мне завтрашнее расписание
Завтра напомни?
"""
OTHER_UK = """
нагадай, коли день народження в мами
нагадай, що я казав про Львів
нагадай, де я живу
нагадай, що я казав учора
нагадай, про що ми говорили в п'ятницю
він нагадав мені про зустріч
коли ти мені нагадаєш?
не нагадуй мені про це завтра
нагадай номер телефону мами
нагадай, чи був я в Києві торік
нагадай мої плани на завтра
нагадай про мою поїздку до Львова
чому ти не нагадав мені вчора о 9?
які нагадування в мене на завтра?
Чи можеш нагадати, де я живу?
нагадай, хто дзвонив учора
Мама сказала: нагадай мені завтра о 9
Дякую, що нагадав!
нагадай, який завтра день
нагадай
Якщо піде дощ, нагадай взяти парасолю
нагадай день народження мами
"""
OTHER_EN = """
it reminds me of home
These photos remind me of home every day
remind me about our conversation on Friday
remind me who called yesterday at 9
don't remind me about it tomorrow
remind me where we meet tomorrow at 9
Will you remind me?
did you remind me to call mum tomorrow?
remind me how old I am
remind me
remind me where I live
remind me of my address
remind me who I met in Lisbon
remind me whether I paid the bill yesterday
remind me about what we discussed on Friday
remind me about the talk we had on Monday
She said remind me tomorrow at 9
My phone will remind me tomorrow at 9
Do you remind me every day?
When will you remind me about the meeting tomorrow?
Can you remind me what I planned for tomorrow?
Please remind me my wife's birthday
cancel my reminder tomorrow at 9
I set a reminder for tomorrow
It always reminds me of summer
remind me, is the shop open tomorrow?
Don't let me forget
If I forget, remind me
Songs that remind me of you every night
"""

ALL_REQUESTS = REQUESTS_RU + REQUESTS_UK + REQUESTS_EN + REQUESTS_MIXED
ALL_OTHER = OTHER_RU + OTHER_UK + OTHER_EN


def rows(table: str) -> list[str]:
    return [line for line in table.splitlines() if line]


def read(text: str, now: datetime = NOW, zone: str = ZONE) -> ReminderRequest:
    found = read_reminder(text, now, zone)
    assert found is not None, text
    return found


def shown(found: ReminderRequest) -> list[str]:
    """A request as the tables have it."""
    when = f"{local_time(found.when, ZONE):%Y-%m-%d %H:%M}" if found.when else ""
    rule = " ".join(found.repeats.to_text().split()) if found.repeats else ""
    return [found.what, when, rule, found.problem or ""]


@pytest.mark.parametrize("row", rows(ALL_REQUESTS))
def test_a_request_says_what_and_when(row: str) -> None:
    text, *expected = (" ".join(cell.split()) for cell in row.split("|"))
    assert shown(read(text)) == expected


@pytest.mark.parametrize("text", rows(ALL_OTHER))
def test_what_asks_the_memory_or_tells_is_no_request(text: str) -> None:
    assert read_reminder(text, NOW, ZONE) is None


MEMORY_QUESTIONS = """
напомни {}как зовут мою сестру
напомни мне {}кто мой врач
напомни {}когда у мамы день рождения
напомни {}мой адрес
нагадай {}як звати мою сестру
нагадай {}мою адресу
remind me {}what I said about Lisbon
remind me {}who my doctor is
remind me {}my address
"""


@pytest.mark.parametrize(("text", "what"), [
    ("ше нагадай завтра о 7 ранку взяти перепустку", "взяти перепустку"),
    ("і ще нагадай завтра о 9 купити хліб", "купити хліб"),
    ("нагадай ше завтра о 9 купити хліб", "купити хліб"),
    ("и еще напомни в 7 вечера полить цветы", "полить цветы"),
    ("тоже напомни завтра в 9 купить хлеб", "купить хлеб"),
    ("plus remind me tomorrow at 8 to call mum", "call mum"),
])  # fmt: skip
def test_one_more_is_no_part_of_what_is_reminded_of(text: str, what: str) -> None:
    request = read_reminder(text, NOW, ZONE)
    assert request is not None and request.what == what


@pytest.mark.parametrize(("text", "requests"), [
    ("remind me tomorrow at 8 to call mum and on friday to pay rent",
     ["remind me tomorrow at 8 to call mum", "remind me on friday to pay rent"]),
    ("remind me tomorrow at 8 to call mum and at 9 to pay rent",
     ["remind me tomorrow at 8 to call mum", "remind me tomorrow at 9 to pay rent"]),
    ("remind me monday to call and on tuesday to write and on friday to pay",
     ["remind me monday to call", "remind me on tuesday to write", "remind me on friday to pay"]),
    ("remind me tonight at 11 and tomorrow at 7 to take meds",
     ["remind me tonight at 11 to take meds", "remind me tomorrow at 7 to take meds"]),
    ("напомни завтра в 9 и в 18 выпить лекарство",
     ["напомни завтра в 9 выпить лекарство", "напомни завтра в 18 выпить лекарство"]),
    ("напоминай каждый день в 8:30 и в 20:00 пить чай",
     ["напоминай каждый день в 8:30 пить чай", "напоминай каждый день в 20:00 пить чай"]),
    ("remind me fri 9am dentist and mon 10am vet",
     ["remind me fri 9am dentist", "remind me mon 10am vet"]),
    ("напомни в 9 позвонить, а в 10 написать", ["напомни в 9 позвонить", "напомни в 10 написать"]),
    ("нагадай завтра о 8 подзвонити мамі і о 10 сплатити рахунок",
     ["нагадай завтра о 8 подзвонити мамі", "нагадай завтра о 10 сплатити рахунок"]),
    ("remind me to call mum at 5 and dad at 6",
     ["remind me to call mum at 5", "remind me to call dad at 6"]),
    ("tomorrow remind me to pick up Ann at 5, Bob at 6 and drive home at 7",
     ["remind me to pick up Ann tomorrow at 5", "remind me to pick Bob tomorrow at 6",
      "remind me to drive home tomorrow at 7"]),
    ("remind me to call mum at 5 and dad on friday at 6",
     ["remind me to call mum at 5", "remind me to call dad on friday at 6"]),
    ("напомни про врача в 5 и про рынок в 6 завтра",
     ["напомни про врача завтра в 5", "напомни про рынок в 6 завтра"]),
    ("нагадай подзвонити мамі о 5, а татові о 6",
     ["нагадай подзвонити мамі о 5", "нагадай подзвонити татові о 6"]),
    ("remind me tuesday at 9 call the vet, at 11 get the parcel and 3:30pm gym",
     ["remind me tuesday at 9 call the vet", "remind me tuesday at 11 get the parcel",
      "remind me tuesday 3:30pm gym"]),
    ("remind me mon 9am bank, wed noon lunch with sam",
     ["remind me mon 9am bank", "remind me wed noon lunch with sam"]),
    ("напомни в пн в 9 позвонить, во вт в 18:30 забрать торт и в ср в 13 к врачу",
     ["напомни в пн в 9 позвонить", "напомни во вт в 18:30 забрать торт",
      "напомни в ср в 13 к врачу"]),
    ("нагадай завтра о 9 таблетки, о 18 спорт",
     ["нагадай завтра о 9 таблетки", "нагадай завтра о 18 спорт"]),
    ("напоминай каждый день в 9 пить чай и в 21 пить таблетки",
     ["напоминай каждый день в 9 пить чай", "напоминай каждый день в 21 пить таблетки"]),
    ("remind me:\nsun 10pm bins out\n\nmonday 6pm wash the kit",
     ["remind me sun 10pm bins out", "remind me monday 6pm wash the kit"]),
    ("нагадай завтра\n- о 9 подати заявку\n- о 17 забрати пальто",
     ["нагадай завтра о 9 подати заявку", "нагадай завтра о 17 забрати пальто"]),
    ("Напомни мне:\n1. 5 декабря в 12 поздравить Степана\n2) в пн в 9 сдать анализы",
     ["Напомни мне 5 декабря в 12 поздравить Степана", "Напомни мне в пн в 9 сдать анализы"]),
    ("remind me on dec 3, 10 and 17 at 9 to call Ann",
     ["remind me on dec 3 at 9 to call Ann", "remind me on dec 10 at 9 to call Ann",
      "remind me on dec 17 at 9 to call Ann"]),
    ("remind me on the 1st and 15th of march to pay Ann",
     ["remind me on the 1st of march to pay Ann", "remind me on the 15th of march to pay Ann"]),
    ("напомни 3 и 10 декабря в 9 сдать форму",
     ["напомни 3 декабря в 9 сдать форму", "напомни 10 декабря в 9 сдать форму"]),
    ("напомни в пн и чт полить фикус", ["напомни в пн полить фикус", "напомни в чт полить фикус"]),
    ("напомни в пятницу и в субботу позвонить",
     ["напомни в пятницу позвонить", "напомни в субботу позвонить"]),
    ("нагадай завтра та в п'ятницю о 8 про збори",
     ["нагадай завтра о 8 про збори", "нагадай в п'ятницю о 8 про збори"]),
    ("remind me tomorrow at 9, 13 and 18 drops",
     ["remind me tomorrow at 9 drops", "remind me tomorrow at 13 drops",
      "remind me tomorrow at 18 drops"]),
    ("wake up at 7:00 7:15 and 7:30 tomorrow, remind me",
     ["wake up at 7:00 tomorrow, remind me", "wake up at 7:15 tomorrow, remind me",
      "wake up at 7:30 tomorrow, remind me"]),
])  # fmt: skip
def test_one_sentence_may_ask_for_two_reminders(text: str, requests: list[str]) -> None:
    assert requests_in(text) == requests
    assert len(reminder_calls(text, [HumanMessage(text)])) == len(requests)


@pytest.mark.parametrize(("text", "before", "what"), [
    ("remind me about it tomorrow at 9", "council tax is 140", "council tax is 140"),
    ("напомни об этом завтра в 9", "помыть окна", "помыть окна"),
    ("нагадай про це завтра о 9", "де мої ключі?", "про це"),
    ("remind me about the tax tomorrow at 9", "council tax is 140", "about the tax"),
])  # fmt: skip
def test_it_is_what_was_said_before(text: str, before: str, what: str) -> None:
    talk = [HumanMessage(before), AIMessage("ok"), HumanMessage(text)]
    [(_, order)] = reminder_calls(text, talk)
    assert order["text"] == what


@pytest.mark.parametrize("text", [
    "напоминай каждый день в 9 и в 21 пить таблетки", "remind me to buy milk and bread at 9",
    "remind me to call mum and on friday we eat", "remind me to call the 5 o'clock man at 6",
    "remind me tomorrow at 9 that lunch is at 12 and dinner at 6", "напомни завтра в 9",
    "напомни завтра в 9 купить 3, 4 и 5 том", "привет", "",
    "remind me tomorrow to pay for monday and tuesday", "напомни купить билеты на пн и вт",
    "remind me tomorrow at 9 call ann, at 11 she leaves", "напомни в 9 встать, в 11 приедет мама",
    "remind me tomorrow at 9\nto call ann", "remind me:\nsun 10pm bins out\nbuy milk",
    "remind me at 9 about the concert, at 7 in the park", "напомни в 9 сказать Ане, в 11 ужин",
])  # fmt: skip
def test_one_request_stays_one(text: str) -> None:
    assert requests_in(text) == [text]


@pytest.mark.parametrize("question", rows(MEMORY_QUESTIONS))
@pytest.mark.parametrize("filler", ["", "пожалуйста, ", "please, "])
@pytest.mark.parametrize("time", ["", " завтра", " у п'ятницю", " on Friday", " at 9", "?"])
def test_a_question_to_the_memory_is_none_with_any_time_behind_it(
    question: str, filler: str, time: str
) -> None:
    assert read_reminder(question.format(filler) + time, NOW, ZONE) is None


@pytest.mark.parametrize("text", [
    "Он написал: «напомни завтра в 9 позвонить»", "«Напомни завтра в 9» — сказал он",
    '"remind me tomorrow at 9" was his last', "They always remind me to call at 9 tomorrow",
    "Вона просила: нагадай завтра о 9 подзвонити", "", " ", "\u200b", "напомина", "🔔", "9:00",
])  # fmt: skip
def test_what_others_said_is_no_request(text: str) -> None:
    assert read_reminder(text, NOW, ZONE) is None


@pytest.mark.parametrize("text", [
    "my boss reminded me at 9 that the invoice is late",
    "просил же её: напомни мне про ключи завтра", "смены пн ср пт с 8 до 17",
])  # fmt: skip
def test_a_line_like_an_order_that_tells_what_was_is_none(text: str) -> None:
    assert reminder_calls(text, [HumanMessage(text)], kind="remind") == []


@pytest.mark.parametrize(("text", "hour"), [
    ("напомни вечером поесть", 19), ("напомни утром поесть", 9), ("напомни днём поесть", 13),
    ("напомни ночью поесть", 23), ("нагадай увечері поїсти", 19), ("нагадай вранці поїсти", 9),
    ("нагадай вдень поїсти", 13), ("нагадай вночі поїсти", 23), ("remind me tonight to eat", 19),
    ("remind me in the morning to eat", 9), ("remind me in the afternoon to eat", 13),
    ("remind me at night to eat", 23), ("напомни завтра поесть", 9),
])  # fmt: skip
def test_a_part_of_the_day_has_an_hour(text: str, hour: int) -> None:
    when = read(text).when
    assert when is not None and local_time(when, ZONE).hour == hour


@pytest.mark.parametrize(("text", "at", "expected"), [
    ("напомни в 9 поесть", "2026-11-23 08:00", "2026-11-23 09:00"),
    ("напомни в 9 поесть", "2026-11-23 09:00", "2026-11-24 09:00"),
    ("напомни сегодня в 9 поесть", "2026-11-23 09:00", "2026-11-23 21:00"),
    ("напомни сегодня вечером поесть", "2026-11-23 20:10", "2026-11-23 21:00"),
    ("напомни вечером поесть", "2026-11-23 20:10", "2026-11-24 19:00"),
    ("напомни в полночь поесть", "2026-11-23 20:10", "2026-11-24 00:00"),
    ("напомни завтра в полночь поесть", "2026-11-23 20:10", "2026-11-25 00:00"),
    ("напомни в субботу поесть", "2026-11-28 10:00", "2026-12-05 09:00"),
    ("напомни в выходные поесть", "2026-11-29 10:00", None),
    ("напомни 31 числа поесть", "2026-11-23 10:00", "2026-12-31 09:00"),
    ("напомни каждое 31 число поесть", "2027-01-31 10:00", "2027-02-28 09:00"),
    ("напомни через месяц поесть", "2027-01-31 10:00", "2027-02-28 10:00"),
    ("напомни через 10 лет поесть", "2026-11-23 10:00", "2036-11-23 10:00"),
])  # fmt: skip
def test_a_time_that_has_passed_comes_later(text: str, at: str, expected: str | None) -> None:
    now = datetime.fromisoformat(f"{at}+03:00")
    when = read(text, now).when
    assert (f"{local_time(when, ZONE):%Y-%m-%d %H:%M}" if when else None) == expected


# What is said of one for tomorrow at an hour | to which hour it moves; a day keeps it.
NEW_TIMES = """
18 | at 7 | 2026-11-24 19:00
18 | в 9 | 2026-11-24 21:00
18 | о 7:30 | 2026-11-24 07:30
18 | friday at 7 | 2026-11-27 07:00
18 | в пятницу | 2026-11-27 18:00
9 | at 3 | 2026-11-24 15:00
6 | в 5 | 2026-11-24 05:00
9 | в 6 | 2026-11-24 18:00
7 | at 6 | 2026-11-24 06:00
"""


@pytest.mark.parametrize("row", rows(NEW_TIMES))
def test_another_hour_is_in_the_same_half_of_the_day(row: str) -> None:
    hour, said, expected = row.split(" | ")
    due = datetime(2026, 11, 24, int(hour) - 3, tzinfo=UTC)
    found = read_new_time(said, due, NOW, ZONE)
    assert found and found.when and f"{local_time(found.when, ZONE):%Y-%m-%d %H:%M}" == expected


def test_hours_pass_on_any_clock_and_days_keep_the_hour() -> None:
    before = datetime(2026, 3, 28, 20, tzinfo=UTC)  # Berlin's clocks go forward that night
    hours = read("remind me in 12 hours to eat", before, "Europe/Berlin").when
    day = read("remind me in a day to eat", before, "Europe/Berlin").when
    assert hours == datetime(2026, 3, 29, 8, tzinfo=UTC)
    assert day == datetime(2026, 3, 29, 19, tzinfo=UTC)


def test_what_cannot_be_seen_changes_nothing() -> None:
    plain = read("напомни завтра в 9 позвонить маме")
    hidden = "на\u200bпомни\u200f зав\u00adтра в\ufeff 9 позво\u2060нить\u202e маме\u202c"
    assert read(hidden) == plain
    assert read("напомни  завтра\n\tв\u00a09   позвонить маме") == plain


def test_case_and_lines_of_the_text_stay() -> None:
    text = "НАПОМНИ ЗАВТРА В 9 Купить:\n- Хлеб «Бородинский»!\n- молоко, 2 л"
    assert read(text).what == "Купить:\n- Хлеб «Бородинский»!\n- молоко, 2 л"


def test_only_a_short_text_is_a_request() -> None:
    assert read_reminder("напомни завтра в 9 " + "а" * 100_000, NOW, ZONE) is None


WORDS = sorted(
    {word for row in rows(ALL_REQUESTS + ALL_OTHER) for word in row.split("|")[0].split()}
)


@for_random(
    st.lists(st.sampled_from(WORDS), max_size=12),
    st.integers(0, 15 * 365 * 86_400),
    st.sampled_from(["Europe/Kyiv", "Pacific/Apia", "America/New_York", "Asia/Kathmandu"]),
    few=120,
    many=400,
)
def test_no_words_break_it_and_every_time_is_to_come(
    words: list[str], seconds: int, zone: str
) -> None:
    now = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    found = read_reminder(" ".join(["напомни", *words]), now, zone)
    if found is None:
        return
    if found.when is None:
        assert found.problem is not None and found.repeats is None
    else:
        assert found.when > now and found.when.utcoffset() == UTC.utcoffset(None)
        assert found.problem in (None, "no_text") and (found.problem is None) == bool(found.what)


@for_random(st.text(max_size=60), few=60, many=200)
def test_no_characters_break_it(text: str) -> None:
    read_reminder(f"напомни завтра в 9 {text}", NOW, ZONE)
    read_reminder(f"{text} remind me in {text} minutes", NOW, ZONE)
