"""Requests for reminders in three languages, and what only looks like one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from src.base.zones import local_time
from src.reading.reminder_moments import ReminderRequest, read_new_time
from src.reading.reminder_phrases import read_reminder, requests_in
from src.reminders.rules import reminder_calls
from tests.cases import for_each, for_random
from tests.unit.test_time_expressions import calls_in

ZONE = "Europe/Moscow"
NOW = datetime(2026, 11, 23, 7, tzinfo=UTC)  # a Monday, ten in the morning in Moscow

# What is said | what of | the first time in Moscow | how it comes again | what is wrong with it.
REQUESTS_RU = """
напомни завтра в 9 позвонить маме | позвонить маме | 2026-11-24 09:00 |  |
напомни мне через 20 минут выключить плиту | выключить плиту | 2026-11-23 10:20 |  |
напомни 5 марта в 18:30 про концерт | про концерт | 2027-03-05 18:30 |  |
в пятницу вечером напомни купить хлеб | купить хлеб | 2026-11-27 19:00 |  |
напомни каждый понедельник в 8 про отчёт |\
    про отчёт | 2026-11-30 08:00 | FREQ=WEEKLY;BYDAY=MO;BYHOUR=8;BYMINUTE=0 |
каждый день в 7 утра напоминай пить таблетки |\
    пить таблетки | 2026-11-24 07:00 | FREQ=DAILY;BYHOUR=7;BYMINUTE=0 |
напоминай по будням в 9 делать зарядку |\
    делать зарядку | 2026-11-24 09:00 | FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9;BYMINUTE=0 |
напоминай раз в неделю поливать цветы |\
    поливать цветы | 2026-11-30 09:00 | FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0 |
напомни завтра в 9 ой нет в 10 позвонить маме | позвонить маме | 2026-11-24 10:00 |  |
напомни завтра, нет, послезавтра в 9 полить цветы | полить цветы | 2026-11-25 09:00 |  |
напомни в пятницу в 8, точнее в субботу в 9, сдать ключ | сдать ключ | 2026-11-28 09:00 |  |
напоминай каждый день в 8 вернее в 9 пить воду |\
    пить воду | 2026-11-24 09:00 | FREQ=DAILY;BYHOUR=9;BYMINUTE=0 |
напомни завтра в 9 что нет хлеба | нет хлеба | 2026-11-24 09:00 |  |
напомни через полчаса снять суп | снять суп | 2026-11-23 10:30 |  |
напомни через час-полтора проверить почту | проверить почту | 2026-11-23 11:00 |  |
напомни в половине девятого выйти | выйти | 2026-11-24 08:30 |  |
напомни без пятнадцати девять выйти | выйти | 2026-11-24 08:45 |  |
напомни в 9 позвонить | позвонить | 2026-11-24 09:00 |  |
напомни в 9 вечера позвонить | позвонить | 2026-11-23 21:00 |  |
Напомни, пожалуйста, купить хлеб завтра в 18:00! | купить хлеб | 2026-11-24 18:00 |  |
Напомни купить завтра хлеб | купить хлеб | 2026-11-24 09:00 |  |
Напомни позвонить маме | позвонить маме |  |  | no_time
Напомни завтра |  | 2026-11-24 09:00 |  | no_text
поставь напоминание на завтра в 9: позвонить Ане | позвонить Ане | 2026-11-24 09:00 |  |
Поставь напоминание |  |  |  | no_text
Привет! Напомни в субботу утром про рынок, пожалуйста. | про рынок | 2026-11-28 09:00 |  |
У меня завтра встреча, напомни в 9 | У меня встреча | 2026-11-24 09:00 |  |
напомни завтра купить билеты на пятницу | купить билеты на пятницу | 2026-11-24 09:00 |  |
напомни купить билеты на пятницу | купить билеты на пятницу |  |  | no_time
напомни за час до встречи завтра в 15:00 | за час до встречи | 2026-11-24 14:00 |  |
напоминай каждую секунду дышать | дышать |  |  | too_often
напоминай каждые 5 минут |  |  |  | too_often
напомни в 25:99 встать | встать |  |  | no_time
напомни вчера купить хлеб | купить хлеб |  |  | past
напомни сегодня в 8 позвонить | позвонить | 2026-11-23 20:00 |  |
напомни сегодня купить хлеб | купить хлеб |  |  | no_time
напоминай каждые 3 часа пить воду |\
    пить воду | 2026-11-23 13:00 | FREQ=DAILY;BYHOUR=1,4,7,10,13,16,19,22;BYMINUTE=0 |
пить таблетки каждый день в 9 и 21, напоминай |\
    пить таблетки | 2026-11-23 21:00 | FREQ=DAILY;BYHOUR=9,21;BYMINUTE=0 |
напоминай через день в 8 бегать |\
    бегать | 2026-11-24 08:00 |\
    DTSTART:20261124T080000 RRULE:FREQ=DAILY;INTERVAL=2;BYHOUR=8;BYMINUTE=0 |
напомни через неделю в пятницу оплатить | оплатить | 2026-12-04 10:00 |  |
Напоминание: завтра в 9 позвонить маме | позвонить маме | 2026-11-24 09:00 |  |
Можешь напомнить мне завтра в 9 позвонить маме? | позвонить маме | 2026-11-24 09:00 |  |
Не забудь напомнить мне вечером про лекарства | про лекарства | 2026-11-23 19:00 |  |
напомни мне в следующую пятницу в 20:00 про матч | про матч | 2026-12-04 20:00 |  |
Напомни 24.12 в 10:00 заказать торт | заказать торт | 2026-12-24 10:00 |  |
напомни в 12 ночи спать | спать | 2026-11-24 00:00 |  |
напомни через 1,5 часа позвонить | позвонить | 2026-11-23 11:30 |  |
напомни каждое 5 число платить за интернет |\
    платить за интернет | 2026-12-05 09:00 | FREQ=MONTHLY;BYMONTHDAY=5;BYHOUR=9;BYMINUTE=0 |
напомни каждый год 8 марта купить цветы |\
    купить цветы | 2027-03-08 09:00 | FREQ=YEARLY;BYMONTH=3;BYMONTHDAY=8;BYHOUR=9;BYMINUTE=0 |
Напомни мне завтра в 9, что надо позвонить маме | надо позвонить маме | 2026-11-24 09:00 |  |
напомни об отчёте в пятницу | об отчёте | 2026-11-27 09:00 |  |
Напомни мне позвонить врачу в среду в 14:30 | позвонить врачу | 2026-11-25 14:30 |  |
Напомни через неделю оплатить счёт | оплатить счёт | 2026-11-30 10:00 |  |
Напомни через 3 дня в 10 утра полить цветы | полить цветы | 2026-11-26 10:00 |  |
напомни первого января поздравить всех | поздравить всех | 2027-01-01 09:00 |  |
Напомни послезавтра вечером про ужин | про ужин | 2026-11-25 19:00 |  |
напомни мне ночью выключить насос | выключить насос | 2026-11-23 23:00 |  |
Напомни завтра днём забрать посылку | забрать посылку | 2026-11-24 13:00 |  |
напомни в полдень пообедать | пообедать | 2026-11-23 12:00 |  |
напомни в полночь загадать желание | загадать желание | 2026-11-24 00:00 |  |
напомни к 18:00 собраться | собраться | 2026-11-23 18:00 |  |
напомни через месяц продлить подписку | продлить подписку | 2026-12-23 10:00 |  |
напомни в 7 утра встать | встать | 2026-11-24 07:00 |  |
напомни двадцатого декабря купить ёлку | купить ёлку | 2026-12-20 09:00 |  |
напомни через пару часов проверить духовку | проверить духовку | 2026-11-23 12:00 |  |
напомни через несколько минут перезвонить | перезвонить | 2026-11-23 10:03 |  |
напоминай мне каждую пятницу вечером выносить мусор |\
    выносить мусор | 2026-11-27 19:00 | FREQ=WEEKLY;BYDAY=FR;BYHOUR=19;BYMINUTE=0 |
напоминай каждый месяц 15 числа передавать показания |\
    передавать показания | 2026-12-15 09:00 | FREQ=MONTHLY;BYMONTHDAY=15;BYHOUR=9;BYMINUTE=0 |
напоминай каждый вторник и четверг в 19:00 про тренировку |\
    про тренировку | 2026-11-24 19:00 | FREQ=WEEKLY;BYDAY=TU,TH;BYHOUR=19;BYMINUTE=0 |
напоминай по вторникам и четвергам в 19 про тренировку |\
    про тренировку | 2026-11-24 19:00 | FREQ=WEEKLY;BYDAY=TU,TH;BYHOUR=19;BYMINUTE=0 |
напоминай в последний день месяца сдать отчёт |\
    сдать отчёт | 2026-11-30 09:00 |\
    FREQ=MONTHLY;BYMONTHDAY=28,29,30,31;BYHOUR=9;BYMINUTE=0;BYSETPOS=-1 |
напоминай ежедневно в 22:00 писать дневник |\
    писать дневник | 2026-11-23 22:00 | FREQ=DAILY;BYHOUR=22;BYMINUTE=0 |
напоминай каждый час пить воду |\
    пить воду | 2026-11-23 11:00 |\
    FREQ=DAILY;BYHOUR=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23;BYMINUTE=0 |
каждое утро напоминай мне делать зарядку |\
    делать зарядку | 2026-11-24 09:00 | FREQ=DAILY;BYHOUR=9;BYMINUTE=0 |
напоминай каждые два дня поливать кактус |\
    поливать кактус | 2026-11-24 09:00 |\
    DTSTART:20261124T090000 RRULE:FREQ=DAILY;INTERVAL=2;BYHOUR=9;BYMINUTE=0 |
напоминай раз в месяц менять фильтр |\
    менять фильтр | 2026-12-23 09:00 | FREQ=MONTHLY;BYMONTHDAY=23;BYHOUR=9;BYMINUTE=0 |
поставь напоминание на 18:00 забрать ребёнка | забрать ребёнка | 2026-11-23 18:00 |  |
создай напоминание: завтра в 8:00 — вынести мусор | вынести мусор | 2026-11-24 08:00 |  |
скинь напоминалку завтра в 5 утра проверить подкачку | проверить подкачку | 2026-11-24 05:00 |  |
мне нужно напоминание на завтра 10 утра про врача | про врача | 2026-11-24 10:00 |  |
Слушай, напомни мне через час про пирог | про пирог | 2026-11-23 11:00 |  |
Ты можешь мне завтра напомнить про паспорт? | про паспорт | 2026-11-24 09:00 |  |
напомнишь мне завтра в 9 позвонить маме? | позвонить маме | 2026-11-24 09:00 |  |
Надо купить молоко, напомни вечером | Надо купить молоко | 2026-11-23 19:00 |  |
Завтра в 15:00 стоматолог. Напомни за час. | стоматолог | 2026-11-24 14:00 |  |
Мама приедет. Напомни завтра в 9 купить торт | купить торт | 2026-11-24 09:00 |  |
тьфу, завтра. напомни завтра в 18:00 заправиться | заправиться | 2026-11-24 18:00 |  |
Купи молоко. Напомни мне про это завтра в 9 | Купи молоко. про это | 2026-11-24 09:00 |  |
Напомни мне в пн в 9 про планёрку | про планёрку | 2026-11-30 09:00 |  |
напомни 01.12.2026 в 10:00 про налог | про налог | 2026-12-01 10:00 |  |
напомни 2026-12-01 в 10:00 про налог | про налог | 2026-12-01 10:00 |  |
напомни на следующей неделе в среду про налог | про налог | 2026-12-02 09:00 |  |
напомни в выходные помыть машину | помыть машину | 2026-11-28 09:00 |  |
напомни завтра в 9 и в 18 выпить лекарство | выпить лекарство | 2026-11-24 09:00 |  |
напоминай каждую вторую пятницу месяца про отчёт |\
    про отчёт | 2026-12-11 09:00 | FREQ=MONTHLY;BYDAY=2FR;BYHOUR=9;BYMINUTE=0 |
напоминай каждые полгода проходить осмотр |\
    проходить осмотр | 2027-05-23 09:00 |\
    DTSTART:20261124T090000 RRULE:FREQ=MONTHLY;INTERVAL=6;BYMONTHDAY=23;BYHOUR=9;BYMINUTE=0 |
напоминай каждые пол-года проходить осмотр |\
    проходить осмотр | 2027-05-23 09:00 |\
    DTSTART:20261124T090000 RRULE:FREQ=MONTHLY;INTERVAL=6;BYMONTHDAY=23;BYHOUR=9;BYMINUTE=0 |
напомни мне, пожалуйста, завтра вечером, часов в восемь, позвонить бабушке |\
    позвонить бабушке | 2026-11-24 20:00 |  |
напомни о том, что завтра в 9 врач | врач | 2026-11-24 09:00 |  |
напомни 8 марта |  | 2027-03-08 09:00 |  | no_text
напомни позвонить в 9 магазинов | позвонить в 9 магазинов |  |  | no_time
напомни завтра прочитать 3 главы и 5 статей | прочитать 3 главы и 5 статей | 2026-11-24 09:00 |  |
напомни завтра в 9.30 встать | встать | 2026-11-24 09:30 |  |
напомни купить 2.5 кг картошки завтра | купить 2.5 кг картошки | 2026-11-24 09:00 |  |
напомни завтра купить 10 яиц и 2 литра молока в 18 |\
    купить 10 яиц и 2 литра молока | 2026-11-24 18:00 |  |
напомни оплатить 5000 рублей 10 декабря | оплатить 5000 рублей | 2026-12-10 09:00 |  |
напомни через год 5 марта проверить | проверить |  |  | no_time
напомни через 2 недели в понедельник в 10 оплатить | оплатить | 2026-12-07 10:00 |  |
напомни сегодня вечером |  | 2026-11-23 19:00 |  | no_text
напомни в воскресенье в 2 ночи перевести часы | перевести часы | 2026-11-29 02:00 |  |
напомни сегодня в 2 ночи проверить | проверить | 2026-11-24 02:00 |  |
напомни в понедельник в 18:00 про созвон | про созвон | 2026-11-23 18:00 |  |
напомни сегодня в 9 утра позвонить | позвонить |  |  | past
напомни 23 ноября в 9 утра позвонить | позвонить |  |  | past
напомни мне в мае про дачу | про дачу | 2027-05-01 09:00 |  |
напомни в 2030 году проверить капсулу | проверить капсулу | 2030-01-01 09:00 |  |
напомни летом купить велосипед | летом купить велосипед |  |  | no_time
напомни про дедлайн за день до 5 декабря | про дедлайн | 2026-12-04 09:00 |  |
напомни до пятницы сдать отчёт | до пятницы сдать отчёт |  |  | no_time
напоминай платить за квартиру каждый месяц 10 числа в 12:00 |\
    платить за квартиру | 2026-12-10 12:00 | FREQ=MONTHLY;BYMONTHDAY=10;BYHOUR=12;BYMINUTE=0 |
напоминай каждые 5 часов пить таблетки | пить таблетки |  |  | no_time
напоминай каждые 100 лет |  |  |  | too_far
напоминай раз в 2 недели по пятницам в 17:00 про отчёт |\
    про отчёт | 2026-11-27 17:00 |\
    DTSTART:20261127T170000 RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=FR;BYHOUR=17;BYMINUTE=0 |
напоминай 2 раза в день в 9 и в 21 пить таблетки |\
    пить таблетки | 2026-11-23 21:00 | FREQ=DAILY;BYHOUR=9,21;BYMINUTE=0 |
напоминай каждые выходные поливать цветы |\
    поливать цветы | 2026-11-28 09:00 | FREQ=WEEKLY;BYDAY=SA,SU;BYHOUR=9;BYMINUTE=0 |
напомни в час ночи выпить таблетку | выпить таблетку | 2026-11-24 01:00 |  |
напомни 29 февраля поздравить Олю | поздравить Олю | 2028-02-29 09:00 |  |
напомни 5.03.2020 в 10:00 что-то | что-то |  |  | past
напомни в 9 позвонить, а в 10 написать | позвонить, а в 10 написать | 2026-11-24 09:00 |  |
напомни завтра в 9 что-нибудь приятное | что-нибудь приятное | 2026-11-24 09:00 |  |
/напомни завтра в 9 позвонить | позвонить | 2026-11-24 09:00 |  |
Помни, напомни мне завтра в 9 позвонить | позвонить | 2026-11-24 09:00 |  |
через 5 минут напомни |  | 2026-11-23 10:05 |  | no_text
Напомни через 5 минут. |  | 2026-11-23 10:05 |  | no_text
напомни мне через 999999999999999999 минут |  |  |  | too_far
напоминай мне иногда улыбаться | иногда улыбаться |  |  | no_time
напомни завтра: 1) хлеб; 2) молоко | 1) хлеб; 2) молоко | 2026-11-24 09:00 |  |
"""
REQUESTS_UK = """
нагадай післязавтра о дев'ятій зателефонувати мамі | зателефонувати мамі | 2026-11-25 09:00 |  |
нагадуй щовівторка о 10:15 виносити сміття |\
    виносити сміття | 2026-11-24 10:15 | FREQ=WEEKLY;BYDAY=TU;BYHOUR=10;BYMINUTE=15 |
нагадай завтра о 9 ой ні о 10 подзвонити мамі | подзвонити мамі | 2026-11-24 10:00 |  |
нагадай у суботу об 11 ні краще о 12 купити квитки | купити квитки | 2026-11-28 12:00 |  |
нагадай о пів на дев'яту вийти | вийти | 2026-11-24 08:30 |  |
нагадай за годину вимкнути праску | вимкнути праску | 2026-11-23 11:00 |  |
нагадай за 20 хвилин вимкнути праску | вимкнути праску | 2026-11-23 10:20 |  |
нагадай мені в неділю ввечері подзвонити бабусі | подзвонити бабусі | 2026-11-29 19:00 |  |
щодня о 8 та о 20 нагадуй пити ліки |\
    пити ліки | 2026-11-23 20:00 | FREQ=DAILY;BYHOUR=8,20;BYMINUTE=0 |
Нагадай завтра о 9 зателефонувати мамі | зателефонувати мамі | 2026-11-24 09:00 |  |
нагадай мені через годину вимкнути духовку | вимкнути духовку | 2026-11-23 11:00 |  |
нагадай 5 березня о 18:30 про концерт | про концерт | 2027-03-05 18:30 |  |
у п'ятницю ввечері нагадай купити хліб | купити хліб | 2026-11-27 19:00 |  |
у пʼятницу о 3 дня нагадай купити хліб | купити хліб | 2026-11-27 15:00 |  |
нагадай в пятницю о девятій купити хліб | купити хліб | 2026-11-27 09:00 |  |
нагадуй щопонеділка о 8 про звіт |\
    про звіт | 2026-11-30 08:00 | FREQ=WEEKLY;BYDAY=MO;BYHOUR=8;BYMINUTE=0 |
щодня о сьомій ранку нагадуй пити ліки |\
    пити ліки | 2026-11-24 07:00 | FREQ=DAILY;BYHOUR=7;BYMINUTE=0 |
нагадуй у будні о дев'ятій робити зарядку |\
    робити зарядку | 2026-11-24 09:00 | FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9;BYMINUTE=0 |
нагадай за півгодини зняти суп | зняти суп | 2026-11-23 10:30 |  |
нагадай через півтори години перевірити пошту | перевірити пошту | 2026-11-23 11:30 |  |
нагадай о пів на дев'яту вечора вийти | вийти | 2026-11-23 20:30 |  |
нагадай за чверть дев'ята вийти | вийти | 2026-11-24 08:45 |  |
нагадуй щомісяця 1 числа платити за квартиру |\
    платити за квартиру | 2026-12-01 09:00 | FREQ=MONTHLY;BYMONTHDAY=1;BYHOUR=9;BYMINUTE=0 |
нагадуй раз на тиждень поливати квіти |\
    поливати квіти | 2026-11-30 09:00 | FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0 |
нагадуй кожні дві години пити воду |\
    пити воду | 2026-11-23 12:00 | FREQ=DAILY;BYHOUR=0,2,4,6,8,10,12,14,16,18,20,22;BYMINUTE=0 |
постав нагадування на завтра на 9:00: подзвонити Олі | подзвонити Олі | 2026-11-24 09:00 |  |
кинь нагадування на завтра 19:15 дзвінок з кайлом | дзвінок з кайлом | 2026-11-24 19:15 |  |
Чи можеш нагадати мені завтра про лікаря? | про лікаря | 2026-11-24 09:00 |  |
Можеш нагадати мені завтра про лікаря? | про лікаря | 2026-11-24 09:00 |  |
не забудь нагадати мені ввечері про ліки | про ліки | 2026-11-23 19:00 |  |
нагадай купити молоко | купити молоко |  |  | no_time
нагадай завтра вранці про зустріч, будь ласка | про зустріч | 2026-11-24 09:00 |  |
нагадай у середу о 14:30 подзвонити лікарю | подзвонити лікарю | 2026-11-25 14:30 |  |
нагадуй щодня о 9 та 21 пити ліки |\
    пити ліки | 2026-11-23 21:00 | FREQ=DAILY;BYHOUR=9,21;BYMINUTE=0 |
нагадай опівдні пообідати | пообідати | 2026-11-23 12:00 |  |
нагадай двадцять першого грудня купити ялинку | купити ялинку | 2026-12-21 09:00 |  |
нагадай на вихідних помити машину | помити машину | 2026-11-28 09:00 |  |
нагадуй щороку 8 березня купити квіти |\
    купити квіти | 2027-03-08 09:00 | FREQ=YEARLY;BYMONTH=3;BYMONTHDAY=8;BYHOUR=9;BYMINUTE=0 |
Нагадай мені, будь ласка, про ліки о 21:00 | про ліки | 2026-11-23 21:00 |  |
Нагадай через тиждень оплатити рахунок | оплатити рахунок | 2026-11-30 10:00 |  |
нагадай через 3 дні о 10 ранку полити квіти | полити квіти | 2026-11-26 10:00 |  |
нагадай першого січня всіх привітати | всіх привітати | 2027-01-01 09:00 |  |
нагадуй мені щосуботи о 12 дзвонити дідусю |\
    дзвонити дідусю | 2026-11-28 12:00 | FREQ=WEEKLY;BYDAY=SA;BYHOUR=12;BYMINUTE=0 |
нагадуй щогодини пити воду |\
    пити воду | 2026-11-23 11:00 |\
    FREQ=DAILY;BYHOUR=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23;BYMINUTE=0 |
нагадай за чверть до дев'ятої вечора вийти | вийти | 2026-11-23 20:45 |  |
нагадай завтра |  | 2026-11-24 09:00 |  | no_text
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
нагадай о 23:59 вимкнути світло | вимкнути світло | 2026-11-23 23:59 |  |
нагадай у понеділок вранці про звіт | про звіт | 2026-11-30 09:00 |  |
нагадуй по вівторках і четвергах о 19:00 про тренування |\
    про тренування | 2026-11-24 19:00 | FREQ=WEEKLY;BYDAY=TU,TH;BYHOUR=19;BYMINUTE=0 |
нагадай за 10 хвилин до зустрічі о 15:00 | за 10 хвилин до зустрічі | 2026-11-23 14:50 |  |
нагадай завтра о п'ятнадцятій тридцять про дзвінок | про дзвінок | 2026-11-24 15:30 |  |
нагадай 31 грудня о 23:00 відкрити шампанське | відкрити шампанське | 2026-12-31 23:00 |  |
"""
REQUESTS_EN = """
remind me tomorrow at 9 am to call mum | call mum | 2026-11-24 09:00 |  |
remind me tomorrow at 3pm no wait 4pm to call mum | call mum | 2026-11-24 16:00 |  |
remind me on friday at 15:00 no sorry on saturday at 16:00 to pack | pack | 2026-11-28 16:00 |  |
remind me at 5pm tomorrow, actually friday, to pay rent | pay rent | 2026-11-27 17:00 |  |
remind me in two hours to check the oven | check the oven | 2026-11-23 12:00 |  |
every Monday at 8 remind me to send the report |\
    send the report | 2026-11-30 08:00 | FREQ=WEEKLY;BYDAY=MO;BYHOUR=8;BYMINUTE=0 |
remind me on 3 May at noon about the exam | about the exam | 2027-05-03 12:00 |  |
every weekday at 9 remind me to stand up |\
    stand up | 2026-11-24 09:00 | FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9;BYMINUTE=0 |
remind me every month on the 1st to pay rent |\
    pay rent | 2026-12-01 09:00 | FREQ=MONTHLY;BYMONTHDAY=1;BYHOUR=9;BYMINUTE=0 |
remind me at half past eight to leave | leave | 2026-11-24 08:30 |  |
set a reminder for 5pm to stretch | stretch | 2026-11-23 17:00 |  |
Set a daily reminder at 9 to stretch |\
    stretch | 2026-11-24 09:00 | FREQ=DAILY;BYHOUR=9;BYMINUTE=0 |
Can you remind me tomorrow to call mum? | call mum | 2026-11-24 09:00 |  |
remind me an hour before the meeting at 15:00 | an hour before the meeting | 2026-11-23 14:00 |  |
remind me in 10^9 years to wake up | wake up |  |  | too_far
remind me on 31 February to pay | pay |  |  | no_time
remind me every other Friday at 6pm to call dad |\
    call dad | 2026-11-27 18:00 |\
    DTSTART:20261127T180000 RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=FR;BYHOUR=18;BYMINUTE=0 |
Remind me next Tuesday to renew the passport | renew the passport | 2026-12-01 09:00 |  |
remind me tonight to lock the door | lock the door | 2026-11-23 19:00 |  |
remind me every year on 5 March to buy flowers |\
    buy flowers | 2027-03-05 09:00 | FREQ=YEARLY;BYMONTH=3;BYMONTHDAY=5;BYHOUR=9;BYMINUTE=0 |
Remind me that I have a meeting tomorrow at 10 | I have a meeting | 2026-11-24 10:00 |  |
remind me to call the doctor on Wednesday at 2:30 pm | call the doctor | 2026-11-25 14:30 |  |
remind me in a week to pay the bill | pay the bill | 2026-11-30 10:00 |  |
remind me in 3 days at 10am to water the plants | water the plants | 2026-11-26 10:00 |  |
Remind me tomorrow morning to take out the trash | take out the trash | 2026-11-24 09:00 |  |
please remind me on Friday evening to buy bread | buy bread | 2026-11-27 19:00 |  |
Could you please remind me at 6 pm to pick up the kids? | pick up the kids | 2026-11-23 18:00 |  |
remind me every day at 10 pm to write the diary |\
    write the diary | 2026-11-23 22:00 | FREQ=DAILY;BYHOUR=22;BYMINUTE=0 |
remind me every Tuesday and Thursday at 7pm about training |\
    about training | 2026-11-24 19:00 | FREQ=WEEKLY;BYDAY=TU,TH;BYHOUR=19;BYMINUTE=0 |
remind me on Mondays at 9 about the standup |\
    about the standup | 2026-11-30 09:00 | FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0 |
remind me on weekdays at 8:45 to log in |\
    log in | 2026-11-24 08:45 | FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=8;BYMINUTE=45 |
every morning remind me to stretch | stretch | 2026-11-24 09:00 | FREQ=DAILY;BYHOUR=9;BYMINUTE=0 |
remind me every 2 hours to drink water |\
    drink water | 2026-11-23 12:00 | FREQ=DAILY;BYHOUR=0,2,4,6,8,10,12,14,16,18,20,22;BYMINUTE=0 |
remind me once a week to water the plants |\
    water the plants | 2026-11-30 09:00 | FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0 |
remind me twice a day to take pills | take pills |  |  | no_time
remind me on the 15th at noon to send the numbers | send the numbers | 2026-12-15 12:00 |  |
remind me on the last day of every month to file the report |\
    file the report | 2026-11-30 09:00 |\
    FREQ=MONTHLY;BYMONTHDAY=28,29,30,31;BYHOUR=9;BYMINUTE=0;BYSETPOS=-1 |
remind me in half an hour to take out the soup | take out the soup | 2026-11-23 10:30 |  |
remind me in an hour and a half to check the mail | check the mail | 2026-11-23 11:30 |  |
I have a dentist appointment tomorrow at 3 pm, remind me an hour before the appointment |\
    I have a dentist appointment an hour before the appointment | 2026-11-24 14:00 |  |
Don't forget to remind me tonight about the pills | about the pills | 2026-11-23 19:00 |  |
set a reminder for tomorrow at 8: take out the trash | take out the trash | 2026-11-24 08:00 |  |
I'd like a reminder on Sunday to call grandma | call grandma | 2026-11-29 09:00 |  |
remind me at quarter to nine to leave | leave | 2026-11-24 08:45 |  |
remind me at 21:15 to leave | leave | 2026-11-23 21:15 |  |
remind me next week to book the flight | book the flight | 2026-11-30 09:00 |  |
remind me on December 24 at 10:00 to order the cake | order the cake | 2026-12-24 10:00 |  |
remind me on 24/12/2026 at 10 to order the cake | order the cake | 2026-12-24 10:00 |  |
remind me this weekend to wash the car | wash the car | 2026-11-28 09:00 |  |
remind me to buy milk | buy milk |  |  | no_time
hey, remind me in 5 min to call back | call back | 2026-11-23 10:05 |  |
remind me yesterday to buy milk | buy milk |  |  | past
remind me every second Monday to pay |\
    pay | 2026-11-30 09:00 |\
    DTSTART:20261130T090000 RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;BYHOUR=9;BYMINUTE=0 |
remind me every minute to breathe | breathe |  |  | too_often
remind me the day after tomorrow at 9 to call | call | 2026-11-25 09:00 |  |
remind me in 20 years to smile | smile |  |  | too_far
remind me on the first Monday of every month to report |\
    report | 2026-12-07 09:00 | FREQ=MONTHLY;BYDAY=1MO;BYHOUR=9;BYMINUTE=0 |
remind me every 90 minutes to stand up | stand up |  |  | no_time
remind me by Friday to submit the report | submit the report | 2026-11-27 09:00 |  |
remind me at 9:00 am and 9:00 pm to take pills | take pills | 2026-11-24 09:00 |  |
remind me daily at 9 to take pills |\
    take pills | 2026-11-24 09:00 | FREQ=DAILY;BYHOUR=9;BYMINUTE=0 |
remind me in an hour |  | 2026-11-23 11:00 |  | no_text
remind me about the dentist at 5 | about the dentist | 2026-11-23 17:00 |  |
remind me of the meeting tomorrow at 9 | of the meeting | 2026-11-24 09:00 |  |
Tomorrow at 9 remind me what I need to buy | what I need to buy | 2026-11-24 09:00 |  |
remind me May 3 to call | call | 2027-05-03 09:00 |  |
remind me Friday at 3pm call John | call John | 2026-11-27 15:00 |  |
remind me on the 31st to pay | pay | 2026-12-31 09:00 |  |
remind me every 31st to pay |\
    pay | 2026-11-30 09:00 | FREQ=MONTHLY;BYMONTHDAY=28,29,30,31;BYHOUR=9;BYMINUTE=0;BYSETPOS=-1 |
remind me to call mom every Sunday at 5pm |\
    call mom | 2026-11-29 17:00 | FREQ=WEEKLY;BYDAY=SU;BYHOUR=17;BYMINUTE=0 |
remind me to take a break every 90 minutes | take a break |  |  | no_time
remind me to do the laundry tomorrow | do the laundry | 2026-11-24 09:00 |  |
remind me to do laundry on 5/12/2026 | do laundry | 2026-12-05 09:00 |  |
remind me 5 minutes before 9 to leave | leave | 2026-11-24 08:55 |  |
remind me ten minutes before the train at 18:40 |\
    ten minutes before the train | 2026-11-23 18:30 |  |
remind me on Mon and Wed at 7 to run |\
    run | 2026-11-25 07:00 | FREQ=WEEKLY;BYDAY=MO,WE;BYHOUR=7;BYMINUTE=0 |
remind me every month to pay |\
    pay | 2026-12-23 09:00 | FREQ=MONTHLY;BYMONTHDAY=23;BYHOUR=9;BYMINUTE=0 |
"""
REQUESTS_MIXED = """
Добрый день! Не могли бы вы напомнить мне завтра в 12 о созвоне? |\
    о созвоне | 2026-11-24 12:00 |  |
Напомни мне про то, что в субботу в 12 день рождения у Пети |\
    день рождения у Пети | 2026-11-28 12:00 |  |
напоминай с понедельника по пятницу в 9 про зал |\
    про зал | 2026-11-24 09:00 | FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9;BYMINUTE=0 |
напоминай каждый день до 5 декабря в 9 пить |\
    пить | 2026-11-24 09:00 | FREQ=DAILY;UNTIL=20261205T235959;BYHOUR=9;BYMINUTE=0 |
Could you remind me about the rent on the first of every month? |\
    about the rent | 2026-12-01 09:00 | FREQ=MONTHLY;BYMONTHDAY=1;BYHOUR=9;BYMINUTE=0 |
remind me every 1st of the month to pay |\
    pay | 2026-12-01 09:00 | FREQ=MONTHLY;BYMONTHDAY=1;BYHOUR=9;BYMINUTE=0 |
напоминай первого числа каждого месяца платить |\
    платить | 2026-12-01 09:00 | FREQ=MONTHLY;BYMONTHDAY=1;BYHOUR=9;BYMINUTE=0 |
напомни первого числа заплатить | заплатить | 2026-12-01 09:00 |  |
нужно напоминание на 9 утра: врач | врач | 2026-11-24 09:00 |  |
remind me Monday to Friday at 9 to train |\
    train | 2026-11-24 09:00 | FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9;BYMINUTE=0 |
remind me from Monday to Friday at 9 to train |\
    train | 2026-11-24 09:00 | FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9;BYMINUTE=0 |
напомни про дедлайн за день до 5 декабря | про дедлайн | 2026-12-04 09:00 |  |
нагадуй з понеділка по п'ятницю о 9 про зал |\
    про зал | 2026-11-24 09:00 | FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9;BYMINUTE=0 |
Завтра экзамен, напомни утром взять паспорт | экзамен, взять паспорт | 2026-11-24 09:00 |  |
напомни через 15 минут, что суп на плите | суп на плите | 2026-11-23 10:15 |  |
Напомни мне за 2 часа до вылета в пятницу в 17:40 | за 2 часа до вылета | 2026-11-27 15:40 |  |
remind me 10 minutes before my 3 pm meeting | 10 minutes before my meeting | 2026-11-23 14:50 |  |
нагадай мені за годину до вильоту о 17:40 | за годину до вильоту | 2026-11-23 16:40 |  |
I need you to remind me tomorrow at 9 to call | call | 2026-11-24 09:00 |  |
"""
OTHER_RU = """
Напомни, что завтра в 9 к врачу
remind me of what Anna said at 9
I told you to remind me tomorrow at 9
Thanks for reminding me tomorrow at 9
You should remind me tomorrow at 9
помнишь, ты обещал напомнить мне завтра в 9?
Ты забыл напомнить мне вчера в 9
Завтра он мне напомнит в 9 позвонить
Напомни ей завтра в 9 позвонить
напомни мне про завтрашнюю встречу
напомни
напомни!!! завтра!!! в 9!!! позвонить!!!
через 5 минут
напомни через 5
напомни на 3 часа раньше
когда ты мне напомнишь?
он напомнил мне о встрече
напомни, как зовут мою сестру
напомни мне, где я живу
напомни мне мой адрес
напомни имя моей сестры
напомни, что у меня завтра
напомни, что было вчера
напомни мои планы на завтра
напомни расписание на понедельник
напомни про мою поездку в Лиссабон
напомни, о чём мы говорили в пятницу
напомни наш разговор в пятницу
Мама сказала: напомни мне завтра в 9
Не напоминай мне об этом завтра
какие у меня напоминания на завтра?
удали напоминание на завтра
напоминание о встрече не пришло
почему ты не напомнил мне вчера в 9?
напомни, во сколько у меня встреча завтра
напомни про Лиссабон в марте
напомни, пожалуйста, какой завтра день
я поставил напоминание на завтра в 9
Если пойдёт дождь, напомни взять зонт
напомни мне номер машины
напомни рецепт борща
Вчера я просил напомнить про врача
напомни дату свадьбы
напомни мне, как называется тот фильм
напомни, кто звонил вчера
Напомни, что я просил купить завтра
напомни, какие у меня дела на завтра
Напомни-ка, где лежат ключи
напомни адрес стоматолога, к которому я иду завтра в 9
напомни мне о нашей поездке в прошлом году
напомни, был ли я в Париже в 2024 году
Ты напомнил мне завтра купить хлеб?
Телефон напоминает мне каждый день в 9
Она напоминает мне сестру
Напомните, пожалуйста, как вас зовут
это напомнило мне о доме
Отмени напоминание завтра в 9
Покажи мои напоминания
Спасибо, что напомнил!
Я завтра сам напомню тебе в 9
Надо напомнить Ане про завтра
напомни, сколько стоит билет на пятницу
напомни мне, во сколько вставать завтра
Ты можешь напомнить, как меня зовут?
Можешь напомнить мой адрес?
Можешь напомнить, что у меня завтра в 9?
напомни прошлогодние планы на 5 марта
напомни день рождения мамы
напомни, завтра среда?
напомни мне завтрашнее расписание
Завтра напомни?
"""
OTHER_UK = """
нагадай, коли день народження в мами
нагадай мені, скільки мені років
нагадай, що я казав про Львів
нагадай, як звати мою сестру
нагадай, де я живу
нагадай мені мою адресу
нагадай, що я казав учора
нагадай, про що ми говорили в п'ятницю
він нагадав мені про зустріч
це нагадує мені дім
коли ти мені нагадаєш?
не нагадуй мені про це завтра
нагадай, скільки коштує квиток
нагадай номер телефону мами
нагадай, чи був я в Києві торік
нагадай мої плани на завтра
нагадай про мою поїздку до Львова
чому ти не нагадав мені вчора о 9?
хто мені нагадає завтра?
які нагадування в мене на завтра?
Я поставив нагадування на завтра
Чи можеш нагадати, де я живу?
нагадай рецепт борщу
нагадай, хто дзвонив учора
нагадай, о котрій у мене зустріч завтра
Мама сказала: нагадай мені завтра о 9
Дякую, що нагадав!
скасуй нагадування завтра о 9
нагадай, який завтра день
нагадай
Якщо піде дощ, нагадай взяти парасолю
Можеш нагадати мою адресу?
нагадай день народження мами
"""
OTHER_EN = """
it reminds me of home
remind me what I said about Lisbon
These photos remind me of home every day
They remind me to drink water every day at 9
remind me about our conversation on Friday
remind me who called yesterday at 9
don't remind me about it tomorrow
stop reminding me every day
remind me where we meet tomorrow at 9
Will you remind me?
What time did you remind me?
did you remind me to call mum tomorrow?
remind me of my sister's birthday
remind me how old I am
remind me
Remind me again, which day is the dentist?
remind me where I live
remind me how to cook borscht
remind me of my address
remind me what time the meeting is tomorrow
remind me who I met in Lisbon
remind me why I quit smoking
remind me whether I paid the bill yesterday
remind me about my trip to Lisbon
remind me about what we discussed on Friday
remind me about the talk we had on Monday
He reminded me to call tomorrow at 9
She said remind me tomorrow at 9
My phone will remind me tomorrow at 9
Why didn't you remind me yesterday at 9?
Do you remind me every day?
When will you remind me about the meeting tomorrow?
Can you remind me what I planned for tomorrow?
could you remind me which doctor I see tomorrow at 9
Please remind me my wife's birthday
remind John tomorrow at 9
cancel my reminder tomorrow at 9
what reminders do I have for tomorrow?
I set a reminder for tomorrow
It always reminds me of summer
remind me our wifi password
remind me, is the shop open tomorrow?
You remind me of my brother
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


@for_each("row", rows(ALL_REQUESTS))
def test_a_request_says_what_and_when(row: str) -> None:
    text, *expected = (" ".join(cell.split()) for cell in row.split("|"))
    assert shown(read(text)) == expected


@for_each("text", rows(ALL_OTHER))
def test_what_asks_the_memory_or_tells_is_no_request(text: str) -> None:
    assert read_reminder(text, NOW, ZONE) is None


@for_each("tables", [
    (REQUESTS_RU, OTHER_RU), (REQUESTS_UK, OTHER_UK), (REQUESTS_EN, OTHER_EN),
])  # fmt: skip
def test_there_are_many_phrases_of_each_language(tables: tuple[str, str]) -> None:
    assert sum(len(rows(table)) for table in tables) >= 60


MEMORY_QUESTIONS = """
напомни {}как зовут мою сестру
напомни {}где я живу
напомни мне {}кто мой врач
напомни {}что я говорил про Лиссабон
напомни {}когда у мамы день рождения
напомни {}во сколько у меня встреча
напомни {}мой адрес
нагадай {}як звати мою сестру
нагадай {}де я живу
нагадай {}що я казав про Львів
нагадай {}о котрій у мене зустріч
нагадай {}мою адресу
remind me {}what I said about Lisbon
remind me {}where I live
remind me {}who my doctor is
remind me {}when my sister was born
remind me {}my address
"""


@for_each(("text", "what"), [
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


@for_each(("text", "requests"), [
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
    ("напомни про врача в 5 и про рынок в 6 завтра",
     ["напомни про врача завтра в 5", "напомни про рынок в 6 завтра"]),
    ("нагадай подзвонити мамі о 5, а татові о 6",
     ["нагадай подзвонити мамі о 5", "нагадай подзвонити татові о 6"]),
])  # fmt: skip
def test_one_sentence_may_ask_for_two_reminders(text: str, requests: list[str]) -> None:
    assert requests_in(text) == requests
    assert len(reminder_calls(text, [HumanMessage(text)])) == len(requests)


@for_each("text", [
    "напоминай каждый день в 9 и в 21 пить таблетки", "remind me to buy milk and bread at 9",
    "remind me to call mum and on friday we eat", "remind me to call the 5 o'clock man at 6",
    "remind me tomorrow at 9 that lunch is at 12 and dinner at 6", "напомни завтра в 9", "привет", "",
    "напомни в пятницу и в субботу позвонить",
])  # fmt: skip
def test_one_request_stays_one(text: str) -> None:
    assert requests_in(text) == [text]


@for_each("question", rows(MEMORY_QUESTIONS))
@for_each("filler", ["", "пожалуйста, ", "please, ", "будь ласка, ", "еще раз, "])
@for_each("time", [
    "", " завтра", " в пятницу", " в 9", " в марте", " о 9", " у п'ятницю", " tomorrow",
    " on Friday", " at 9", " yesterday", " вчера", " в 2024 году", "?",
])  # fmt: skip
def test_a_question_to_the_memory_is_none_with_any_time_behind_it(
    question: str, filler: str, time: str
) -> None:
    assert read_reminder(question.format(filler) + time, NOW, ZONE) is None


@for_each("text", [
    "Он написал: «напомни завтра в 9 позвонить»", "«Напомни завтра в 9» — сказал он",
    '"remind me tomorrow at 9" was his last', "They always remind me to call at 9 tomorrow",
    "Вона просила: нагадай завтра о 9 подзвонити", "", " ", "\u200b", "напомина", "🔔", "9:00",
])  # fmt: skip
def test_what_others_said_is_no_request(text: str) -> None:
    assert read_reminder(text, NOW, ZONE) is None


@for_each(("text", "hour"), [
    ("напомни вечером поесть", 19), ("напомни утром поесть", 9), ("напомни днём поесть", 13),
    ("напомни ночью поесть", 23), ("нагадай увечері поїсти", 19), ("нагадай вранці поїсти", 9),
    ("нагадай вдень поїсти", 13), ("нагадай вночі поїсти", 23), ("remind me tonight to eat", 19),
    ("remind me in the morning to eat", 9), ("remind me in the afternoon to eat", 13),
    ("remind me at night to eat", 23), ("напомни завтра поесть", 9),
])  # fmt: skip
def test_a_part_of_the_day_has_an_hour(text: str, hour: int) -> None:
    when = read(text).when
    assert when is not None and local_time(when, ZONE).hour == hour


@for_each(("text", "at", "expected"), [
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
18 | at 7 am | 2026-11-24 07:00
18 | friday at 7 | 2026-11-27 07:00
18 | в пятницу | 2026-11-27 18:00
9 | о 7 | 2026-11-24 07:00
9 | at 3 | 2026-11-24 15:00
6 | в 7 | 2026-11-24 07:00
6 | в 5 | 2026-11-24 05:00
9 | at 5 | 2026-11-24 17:00
9 | в 6 | 2026-11-24 18:00
7 | at 6 | 2026-11-24 06:00
8 | о 6 | 2026-11-24 06:00
"""


@for_each("row", rows(NEW_TIMES))
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


@for_each("digits", ["٩:٣٠", "९:३०", "９：３０", "۹:۳۰"])
def test_digits_of_other_scripts_are_numbers(digits: str) -> None:
    assert shown(read(f"напомни завтра в {digits} встать"))[1] == "2026-11-24 09:30"


def test_case_and_lines_of_the_text_stay() -> None:
    text = "НАПОМНИ ЗАВТРА В 9 Купить:\n- Хлеб «Бородинский»!\n- молоко, 2 л"
    assert read(text).what == "Купить:\n- Хлеб «Бородинский»!\n- молоко, 2 л"


HOSTILE = [
    "напомни ", "напомни завтра ", "remind me ", "every monday ", "каждый понедельник и ", "в 9 ",
    "через 2 часа ", "9:", "1", "31.12.2026 ", "можешь мне ", "с половиной ", "за час до ", "-",
    "щопонеділка, ", "двадцать ", "\u200b", ", ", "пожалуйста, ", "\n", "если ", "10^9 ", "а ",
]  # fmt: skip


@for_each("token", HOSTILE)
@for_each("length", [1_000, 100_000])
def test_a_long_text_of_one_kind_is_read_in_few_steps(token: str, length: int) -> None:
    text = ("напомни " + token * length)[:length]
    read_reminder(text, NOW, ZONE)  # the expressions that it needs are compiled once
    assert calls_in(lambda: read_reminder(text, NOW, ZONE)) < 40_000


def test_only_a_short_text_is_a_request() -> None:
    assert read_reminder("напомни завтра в 9 " + "а" * 100_000, NOW, ZONE) is None


WORDS = sorted(
    {word for row in rows(ALL_REQUESTS + ALL_OTHER) for word in row.split("|")[0].split()}
)


@for_random(
    st.lists(st.sampled_from([*WORDS, *HOSTILE]), max_size=12),
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
