"""Times as people type them: moments, recurrences with ends, counts and exceptions, typos."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice

import pytest

from src.base.zones import local_time
from src.reading.recurrences import Recurrence, next_after
from src.reading.reminder_phrases import read_reminder

ZONE = "Europe/Moscow"
NOW = datetime(2026, 11, 23, 7, tzinfo=UTC)  # a Monday, ten in the morning in Moscow

# What is said | what of | its times in Moscow: the first, the second, and the last ("…": no end),
# or "asks", if nothing may be set.
ENDS_EN = """
remind me every day at 9 until Friday to take pills |\
    take pills | 11-24 09:00, 11-25 09:00, 11-27 09:00
remind me daily at 8pm for 5 days to take antibiotics |\
    take antibiotics | 11-23 20:00, 11-24 20:00, 11-27 20:00
remind me to take antibiotics every day at 8pm for a week |\
    take antibiotics | 11-23 20:00, 11-24 20:00, 11-29 20:00
remind me for the next 3 weeks every tuesday at 7 to call the clinic |\
    call the clinic | 11-24 07:00, 12-01 07:00, 12-08 07:00
remind me every morning through december 5 to water the garden |\
    water the garden | 11-24 09:00, 11-25 09:00, 12-05 09:00
remind me every monday at 8 through march to send the invoice |\
    send the invoice | 11-30 08:00, 12-07 08:00, 2027-03-29 08:00
remind me every day at 7pm until the end of the month to log expenses |\
    log expenses | 11-23 19:00, 11-24 19:00, 11-30 19:00
remind me every day at 7pm this week to log expenses |\
    log expenses | 11-23 19:00, 11-24 19:00, 11-29 19:00
remind me every day next week at 8 to feed the cat |\
    feed the cat | 11-30 08:00, 12-01 08:00, 12-06 08:00
remind me every friday at 6pm 4 times to pay dad back |\
    pay dad back | 11-27 18:00, 12-04 18:00, 12-18 18:00
remind me every 2 hours until 6pm to drink water |\
    drink water | 11-23 12:00, 11-23 14:00, 11-23 18:00
remind me to drink water every 2 hours till 6 pm |\
    drink water | 11-23 12:00, 11-23 14:00, 11-23 18:00
remind me every hour from 12 to 5pm to stand up | stand up | 11-23 12:00, 11-23 13:00, …
remind me every hour for 3 hours to check the oven |\
    check the oven | 11-23 11:00, 11-23 12:00, 11-23 13:00
remind me every day at 9 until I am well to take pills | | asks
remind me every day at 9 before the exam to revise | | asks
remind me to stretch every day at 3pm until 2027 | stretch | 11-23 15:00, 11-24 15:00, 12-31 15:00
remind me from dec 1 until dec 5 every day at 10 to open the calendar |\
    open the calendar | 12-01 10:00, 12-02 10:00, 12-05 10:00
remind me every day from 1 to 5 december at 10 to open the calendar |\
    open the calendar | 12-01 10:00, 12-02 10:00, 12-05 10:00
remind me every day starting tomorrow at 7am for 2 weeks to journal |\
    journal | 11-24 07:00, 11-25 07:00, 12-07 07:00
remind me 3 times a day for 5 days to take pills | | asks
remind me 3 times a day at 8, 14:00 and 20:00 for 5 days to take pills |\
    take pills | 11-23 14:00, 11-23 20:00, 11-27 20:00
remind me at 8am and 8pm every day for 3 days to use the drops |\
    use the drops | 11-23 20:00, 11-24 08:00, 11-25 20:00
remind me everyday at 9 till sunday about vitamins |\
    about vitamins | 11-24 09:00, 11-25 09:00, 11-29 09:00
every night at 11 until thursday remind me to lock up |\
    lock up | 11-23 23:00, 11-24 23:00, 11-26 23:00
remind me every weekday at 9 until 4 dec to clock in |\
    clock in | 11-24 09:00, 11-25 09:00, 12-04 09:00
remind me every other day at 9 until 1 dec to water the fern |\
    water the fern | 11-24 09:00, 11-26 09:00, 11-30 09:00
remind me every day at 9 to buy a ticket for 5 days |\
    buy a ticket | 11-24 09:00, 11-25 09:00, 11-28 09:00
remind me tomorrow to rent a car for 5 days | rent a car for 5 days | 11-24 09:00
remind me at 9 tomorrow to work until friday | work until friday | 11-24 09:00
"""
EXCEPTIONS_EN = """
remind me every day except sunday at 9 to run | run | MO,TU,WE,TH,FR,SA 9
remind me to run every day at 9am except on saturday and sunday | run | MO,TU,WE,TH,FR 9
remind me every weekday except wednesday at 8 to pack lunch | pack lunch | MO,TU,TH,FR 8
remind me every day except weekends at 8 to pack lunch | pack lunch | MO,TU,WE,TH,FR 8
every day but sunday at 7 remind me to swim | swim | MO,TU,WE,TH,FR,SA 7
remind me daily at 9 apart from fri to open the shop | open the shop | MO,TU,WE,TH,SA,SU 9
remind me every day at 9 to open the shop, not on mondays | open the shop | TU,WE,TH,FR,SA,SU 9
remind me every day except holidays at 9 to open the shop | | asks
remind me every day at 9 except on 25 december to open the shop | | asks
remind me every day at 9 unless it rains to run | | asks
remind me every day at 9 to eat everything except meat |\
    eat everything except meat | MO,TU,WE,TH,FR,SA,SU 9
remind me every monday except monday at 9 to rest | | asks
"""
NTH_EN = """
remind me on the first monday of every month at 10 to pay rent |\
    pay rent | 12-07 10:00, 2027-01-04 10:00, …
remind me every last friday at 5pm to submit hours | submit hours | 11-27 17:00, 12-25 17:00, …
remind me on the 2nd tuesday of the month to descale the kettle |\
    descale the kettle | 12-08 09:00, 2027-01-12 09:00, …
remind me every month on the third thursday at 6pm about book club |\
    about book club | 12-17 18:00, 2027-01-21 18:00, …
remind me every third thursday to call aunt May | | asks
remind me on the last working day of every month to close the books | | asks
remind me every 3 weeks on friday at 9 to change the filter |\
    change the filter | 11-27 09:00, 12-18 09:00, …
remind me every other tuesday at 7am to put out recycling |\
    put out recycling | 11-24 07:00, 12-08 07:00, …
remind me on the first monday of december to renew the pass | renew the pass | 12-07 09:00
remind me on the last friday of the year at noon to rest | rest | 12-25 12:00
remind me on the first monday of next month at 9 to renew the pass | renew the pass | 12-07 09:00
"""
MOMENTS_EN = """
remind me on monday at 6pm to call mum | call mum | 11-23 18:00
remind me monday at 9 to call mum | call mum | 11-30 09:00
remind me this monday at 6 pm to call mum | call mum | 11-23 18:00
remind me next monday at 6pm to call mum | call mum | 11-30 18:00
remind me tommorow at 9 to call mum | call mum | 11-24 09:00
remind me tomorow at 9 to call mum | call mum | 11-24 09:00
remind me tmrw 9am call mum | call mum | 11-24 09:00
remind me 5 decmber at 9 to call mum | call mum | 12-05 09:00
remind me at 6 tonight to buy a sundae | buy a sundae | 11-23 18:00
"""
ENDS_RU = """
напоминай каждый день в 9 пить антибиотик 7 дней |\
    пить антибиотик | 11-24 09:00, 11-25 09:00, 11-30 09:00
каждый день в 9 пить антибиотик 7 дней, напоминай |\
    пить антибиотик | 11-24 09:00, 11-25 09:00, 11-30 09:00
напоминай каждый день в 9 в течение недели пить антибиотик |\
    пить антибиотик | 11-24 09:00, 11-25 09:00, 11-30 09:00
напоминай каждый день в 21 до пятницы пить таблетку |\
    пить таблетку | 11-23 21:00, 11-24 21:00, 11-27 21:00
напоминай ежедневно до 05.12 в 9:00 мерить давление |\
    мерить давление | 11-24 09:00, 11-25 09:00, 12-05 09:00
напоминай каждый день с 1 по 10 декабря в 8 сдавать отчёт |\
    сдавать отчёт | 12-01 08:00, 12-02 08:00, 12-10 08:00
напоминай с 1 декабря по 10 декабря каждый день в 8 сдавать отчёт |\
    сдавать отчёт | 12-01 08:00, 12-02 08:00, 12-10 08:00
напоминай каждый час до 18 вставать | вставать | 11-23 11:00, 11-23 12:00, 11-23 18:00
напоминай каждые 2 часа до 18:00 пить воду | пить воду | 11-23 12:00, 11-23 14:00, 11-23 18:00
напоминай каждый час до 6 вечера вставать | вставать | 11-23 11:00, 11-23 12:00, 11-23 18:00
напоминай каждые 2 часа с 9 до 18 пить воду | пить воду | 11-23 11:00, 11-23 13:00, …
напоминай по вторникам в 19 ближайшие 3 недели про зал |\
    про зал | 11-24 19:00, 12-01 19:00, 12-08 19:00
напоминай следующие 3 недели по вторникам в 19 про зал |\
    про зал | 11-24 19:00, 12-01 19:00, 12-08 19:00
напоминай каждую пятницу в 18 4 раза про долг | про долг | 11-27 18:00, 12-04 18:00, 12-18 18:00
напоминай каждый вечер до конца месяца записывать расходы |\
    записывать расходы | 11-23 19:00, 11-24 19:00, 11-30 19:00
напоминай каждый вечер на этой неделе записывать расходы |\
    записывать расходы | 11-23 19:00, 11-24 19:00, 11-29 19:00
напоминай каждый день на следующей неделе в 8 кормить кота |\
    кормить кота | 11-30 08:00, 12-01 08:00, 12-06 08:00
напоминай каждый понедельник в 8 до марта про счёт |\
    про счёт | 11-30 08:00, 12-07 08:00, 2027-02-22 08:00
напоминай каждый день в 9 до нового года про отчёт |\
    про отчёт | 11-24 09:00, 11-25 09:00, 12-31 09:00
напоминай каждый день в 9 до отпуска учить английский | | asks
напоминай каждый день в 9 пить таблетки пока не поправлюсь | | asks
напоминай каждый день в 9 пить таблетки две недели |\
    пить таблетки | 11-24 09:00, 11-25 09:00, 12-07 09:00
напоминай 5 дней подряд в 9 пить таблетки | пить таблетки | 11-24 09:00, 11-25 09:00, 11-28 09:00
напоминай через день в 9 до 1 декабря поливать фикус |\
    поливать фикус | 11-24 09:00, 11-26 09:00, 11-30 09:00
напоминай 2 раза в день в 9 и 21 пить сироп неделю |\
    пить сироп | 11-23 21:00, 11-24 09:00, 11-29 21:00
напомни завтра в 9 купить тур на 7 дней | купить тур на 7 дней | 11-24 09:00
напоминай каждое утро целый месяц делать зарядку |\
    делать зарядку | 11-24 09:00, 11-25 09:00, 12-23 09:00
кажый день в 9 напоминай пить воду | пить воду | 11-24 09:00, 11-25 09:00, …
"""
EXCEPTIONS_RU = """
напоминай каждый день кроме воскресенья в 9 про зарядку | про зарядку | MO,TU,WE,TH,FR,SA 9
напоминай делать зарядку каждый день в 9 кроме вс | делать зарядку | MO,TU,WE,TH,FR,SA 9
напоминай каждый день в 9 делать зарядку, кроме выходных | делать зарядку | MO,TU,WE,TH,FR 9
напоминай по будням кроме среды в 8 про обед | про обед | MO,TU,TH,FR 8
напоминай ежедневно без выходных в 9 про уколы | про уколы | MO,TU,WE,TH,FR,SA,SU 9
напоминай каждый день кроме праздников в 9 про зарядку | | asks
напоминай каждый день в 9 про зарядку кроме 31 декабря | | asks
напоминай каждый день в 9 про зарядку, если не болею | | asks
напоминай каждый день в 9 покупать всё кроме молока |\
    покупать всё кроме молока | MO,TU,WE,TH,FR,SA,SU 9
по воскресеньям не надо, а так каждый день в 9 напоминай про зарядку |\
    про зарядку | MO,TU,WE,TH,FR,SA 9
"""
NTH_RU = """
напоминай каждую последнюю пятницу в 17 сдавать табель |\
    сдавать табель | 11-27 17:00, 12-25 17:00, …
напоминай в последнюю пятницу месяца в 17 сдавать табель |\
    сдавать табель | 11-27 17:00, 12-25 17:00, …
напоминай каждый месяц во второй вторник чистить чайник |\
    чистить чайник | 12-08 09:00, 2027-01-12 09:00, …
напоминай каждый второй вторник в 7 вынести стекло | вынести стекло | 11-24 07:00, 12-08 07:00, …
напоминай каждый третий четверг звонить тёте | | asks
напоминай в последний рабочий день месяца закрыть табель | | asks
напомни в первый понедельник декабря продлить проездной | продлить проездной | 12-07 09:00
"""
MOMENTS_RU = """
напомни в понедельник в 18 позвонить маме | позвонить маме | 11-23 18:00
напомни в следующий понедельник в 18 позвонить маме | позвонить маме | 11-30 18:00
напомни 5 декбря в 9 позвонить маме | позвонить маме | 12-05 09:00
напомни сёдня в 18 позвонить маме | позвонить маме | 11-23 18:00
напомни завтра в 9 приготовить завтрак | приготовить завтрак | 11-24 09:00
"""
ALL_UK = """
нагадуй щодня о 9 робити зарядку, окрім вихідних | робити зарядку | MO,TU,WE,TH,FR 9
нагадуй по буднях за винятком середи о 8 про обід | про обід | MO,TU,TH,FR 8
нагадуй щодня крім свят о 9 про зарядку | | asks
нагадуй щодня о 9 пити антибіотик 7 днів | пити антибіотик | 11-24 09:00, 11-25 09:00, 11-30 09:00
нагадуй щодня о 9 протягом тижня пити антибіотик |\
    пити антибіотик | 11-24 09:00, 11-25 09:00, 11-30 09:00
нагадуй щодня о 9 до кінця місяця пити ліки | пити ліки | 11-24 09:00, 11-25 09:00, 11-30 09:00
нагадуй щодня о 9 по 5 грудня пити ліки | пити ліки | 11-24 09:00, 11-25 09:00, 12-05 09:00
нагадуй кожні 2 години до 18:00 пити воду | пити воду | 11-23 12:00, 11-23 14:00, 11-23 18:00
нагадуй щогодини до шостої вечора вставати | вставати | 11-23 11:00, 11-23 12:00, 11-23 18:00
нагадуй щовівторка о 19 наступні 3 тижні про зал | про зал | 11-24 19:00, 12-01 19:00, 12-08 19:00
нагадуй щоп'ятниці о 18 4 рази про борг | про борг | 11-27 18:00, 12-04 18:00, 12-18 18:00
нагадуй щодня о 9 пити ліки поки не одужаю | | asks
нагадуй щодня о 9 до відпустки вчити англійську | | asks
нагадуй кожної останньої п'ятниці о 17 здавати табель |\
    здавати табель | 11-27 17:00, 12-25 17:00, …
нагадуй останньої п'ятниці місяця о 17 здавати табель |\
    здавати табель | 11-27 17:00, 12-25 17:00, …
нагадуй щомісяця у другий вівторок чистити чайник |\
    чистити чайник | 12-08 09:00, 2027-01-12 09:00, …
нагадай у п"ятницю о 9 подзвонити мамі | подзвонити мамі | 11-27 09:00
нагадай у п ятницю о 9 подзвонити мамі | подзвонити мамі | 11-27 09:00
нагадай завтра о дев"ятій подзвонити мамі | подзвонити мамі | 11-24 09:00
нагадай у понеділок о 18 подзвонити мамі | подзвонити мамі | 11-23 18:00
нагадай у першу суботу грудня о 9 купити ялинку | купити ялинку | 12-05 09:00
"""
MORE = """
remind me 2 take my pill at 10pm every night 4 the next 21 days |\
    2 take my pill | 11-23 22:00, 11-24 22:00, 12-13 22:00
remind me monthly on the 1st through dec to report | report | 12-01 09:00
remind me every day at 8 (weekends off) to leave | leave | MO,TU,WE,TH,FR 8
remind me every monday until i say stop to report | report | 11-30 09:00, 12-07 09:00, …
remind me every monday and thursday except next monday to swim | | asks
напоминай каждый час сегодня с 14 до 20 пить воду |\
    пить воду | 11-23 14:00, 11-23 15:00, 11-23 20:00
напоминай каждый день в 8 вставать, а в выходные нет | вставать | MO,TU,WE,TH,FR 8
нагадуй з завтра до п'ятниці о 9 пити вітаміни |\
    пити вітаміни | 11-24 09:00, 11-25 09:00, 11-27 09:00
нагадуй щодня о 8 вставати, лише у будні | вставати | MO,TU,WE,TH,FR 8
remind me every sunday at 9 to plan the next 2 weeks | plan the next 2 weeks | SU 9
remind me every day at 9 to call mum before she sleeps |\
    call mum before she sleeps | MO,TU,WE,TH,FR,SA,SU 9
напоминай по понедельникам в 9 планировать всю неделю | планировать всю неделю | MO 9
напоминай каждый день в 9 отжаться 10 раз | отжаться 10 раз | MO,TU,WE,TH,FR,SA,SU 9
напоминай каждый день в 9 до еды пить таблетку | до еды пить таблетку | MO,TU,WE,TH,FR,SA,SU 9
remind me every day at 9 to meditate for 10 minutes |\
    meditate for 10 minutes | MO,TU,WE,TH,FR,SA,SU 9
remind me every day at 9 to work until 6pm | work until 6pm | MO,TU,WE,TH,FR,SA,SU 9
напоминай каждый день в 9 работать до 18 | работать до 18 | MO,TU,WE,TH,FR,SA,SU 9
напоминай раз в нед в 9 поливать | поливать | 11-30 09:00, 12-07 09:00, …
remind me meds at 9 every day for a week | meds | 11-24 09:00, 11-25 09:00, 11-30 09:00
remind me to take meds for 10 days at 9am and 9pm |\
    take meds | 11-23 21:00, 11-24 09:00, 12-02 21:00
remind me every day at 9am for the rest of the week to write |\
    write | 11-24 09:00, 11-25 09:00, 11-29 09:00
remind me mon-fri except wed at 7 to jog | jog | MO,TU,TH,FR 7
remind me every day at 6 except weekends and wednesdays to wake up | wake up | MO,TU,TH,FR 6
remind me daily at 9 except sunday and holidays to open shop | | asks
remind me every sunday at 7 pm starting next week for 3 weeks to prep |\
    prep | 12-06 19:00, 12-13 19:00, 12-20 19:00
remind me tomorrow and friday at 9 to call | | asks
remind me every month on the last day to back up | back up | 11-30 09:00, 12-31 09:00, …
remind me on the second to last friday of the month to pay | | asks
remind me fortnightly on friday at 9 to submit | submit | 11-27 09:00, 12-11 09:00, …
remind me every quarter on the 1st to pay taxes | pay taxes | 12-01 09:00, 2027-03-01 09:00, …
remind me dec 1-24 at 8 to open the calendar |\
    open the calendar | 12-01 08:00, 12-02 08:00, 12-24 08:00
remind me every year on the first monday of september to pay | | asks
remind me every 2 hours during the day to stretch | | asks
remind me on the first and third monday of the month at 9 to sweep |\
    sweep | 12-07 09:00, 12-21 09:00, …
напоминай с понедельника каждый день в 9 до конца года бегать |\
    бегать | 11-30 09:00, 12-01 09:00, 12-31 09:00
напоминай весь декабрь каждый день в 9 бегать | бегать | 12-01 09:00, 12-02 09:00, 12-31 09:00
напоминай каждое воскресенье в декабре в 10 бегать |\
    бегать | 12-06 10:00, 12-13 10:00, 12-27 10:00
напоминай каждые два часа до вечера пить воду | | asks
напоминай каждый день по 20 декабря включительно в 9 пить |\
    пить | 11-24 09:00, 11-25 09:00, 12-20 09:00
напоминай пж кажд день в 9 таблетки 5 дней | таблетки | 11-24 09:00, 11-25 09:00, 11-28 09:00
напоминай трижды в день 5 дней пить | | asks
напоминай пн ср пт в 19 про зал | про зал | MO,WE,FR 19
каждый день в 9 пить чай, в пятницу прекратить, напоминай | | asks
напоминай 1 и 15 числа каждого месяца платить | | asks
напоминай каждый день утром и вечером пить таблетки |\
    пить таблетки | 11-23 19:00, 11-24 09:00, …
напомни в след понедельник в 9 позвонить | позвонить | 11-30 09:00
нагадуй щогодини з 9 ранку до 6 вечора вставати | вставати | 11-23 11:00, 11-23 12:00, …
нагадуй щопонеділка до нового року о 9 про звіт |\
    про звіт | 11-30 09:00, 12-07 09:00, 12-28 09:00
нагадуй з 1 по 10 грудня щодня о 8 про звіт | про звіт | 12-01 08:00, 12-02 08:00, 12-10 08:00
"""
ON_PHONES = """
remind me every tues night til xmas to take out bins | | asks
remind me till friday every morning 8ish to stretch |\
    stretch | 11-24 08:00, 11-25 08:00, 11-27 08:00
remind me on the 1st and the 15th to pay rent | | asks
remind me in an hour n half to check oven | check oven | 11-23 11:30
remind me tmr arvo to call bank | call bank | 11-24 13:00
remind me tonight at 11 and tomorrow at 7 to take meds | | asks
remind me once in 2 weeks on monday to pay | pay | 11-30 09:00, 12-14 09:00, …
remind me this sat at noon bday party | bday party | 11-28 12:00
remind me half an hour before 6pm to leave | leave | 11-23 17:30
remind me mid december to order gifts | | asks
remind me on xmas eve at 5pm to wrap gifts | | asks
remind me in a fortnight to renew | renew | 12-07 10:00
remind me fri 9am dentist | dentist | 11-27 09:00
could u remind me 2nite at 8 about the match | about the match | 11-23 20:00
remind me 3x a day at 8, 14 and 20 to drink water for 2 weeks |\
    drink water | 11-23 14:00, 11-23 20:00, 12-06 20:00
remind me in 10 to turn off the tap | turn off the tap | 11-23 10:10
remind me in an hour or so to call | call | 11-23 11:00
напомни 15/12 в 10 к врачу | к врачу | 12-15 10:00
remind me 12/15 at 0900 doctor | doctor | 12-15 09:00
напомни завтра в 9-30 встать | встать | 11-24 09:30
напомни завтра на 9 столик | столик | 11-24 09:00
напомни через минут 10 про чай | про чай | 11-23 10:10
напомни чз 2ч30м про чай | про чай | 11-23 12:30
напомни в сл пт в 9 планёрка | планёрка | 12-04 09:00
remind me a week from friday to pay | pay | 12-04 09:00
remind me every 15th gym | gym | 12-15 09:00, 2027-01-15 09:00, …
нагадай через 2 год про звіт | про звіт | 11-23 12:00
нагадай завтра з ранку про звіт | про звіт | 11-24 09:00
remind me every 8h pills | pills | 11-23 18:00, 11-24 02:00, …
нагадай за годинку перевірити рис | перевірити рис | 11-23 11:00
нагадай 25-го о 12 сплатити інтернет | сплатити інтернет | 11-25 12:00
напомни послезавтра часиков в 6 вечера встретить сестру | встретить сестру | 11-25 18:00
напомни мне через час сорок выйти | выйти | 11-23 11:40
напоминай по нечетным дням поливать | | asks
напоминай два раза в неделю по пн и чт поливать | поливать | MO,TH 9
напомни в конце месяца оплатить свет | | asks
нагадуй крім вихідних о 8 будити сина | будити сина | MO,TU,WE,TH,FR 8
нагадай через годинку вимкнути плиту | вимкнути плиту | 11-23 11:00
"""
TABLES = (
    ON_PHONES,    MORE, ENDS_EN, EXCEPTIONS_EN, NTH_EN, MOMENTS_EN,
    ENDS_RU, EXCEPTIONS_RU, NTH_RU, MOMENTS_RU, ALL_UK,
)  # fmt: skip
CASES = [
    tuple(part.strip() for part in line.split("|"))
    for table in TABLES
    for line in table.strip().splitlines()
]
DAY_NAMES = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
MANY = 200  # a recurrence with more times is taken for endless


def times_of(repeats: Recurrence, first: datetime) -> list[datetime]:
    """The first times of a recurrence, counted one by one."""
    found = [first]
    try:
        while len(found) < MANY:
            found.append(next_after(repeats, found[-1], ZONE))
    except OverflowError:
        return found
    return found


def shown(moment: datetime) -> str:
    return f"{local_time(moment, ZONE):%Y-%m-%d %H:%M}".removeprefix("2026-")


def told(repeats: Recurrence | None, first: datetime, expected: str) -> str:
    """The times as the table writes them."""
    if repeats is None:
        return shown(first)
    found = times_of(repeats, first)
    if expected[0].isalpha():
        week = [local_time(moment, ZONE) for moment in islice(found, 14)]
        assert len(found) == MANY and len({one.hour for one in week}) == 1
        days = sorted({one.weekday() for one in week})
        return f"{','.join(DAY_NAMES[day] for day in days)} {week[0].hour}"
    if len(found) == 1:
        return shown(first)
    last = "…" if len(found) == MANY else shown(found[-1])
    return ", ".join([shown(found[0]), shown(found[1]), last])


@pytest.mark.parametrize(("said", "what", "expected"), CASES)
def test_a_reminder_comes_when_it_was_asked_for(said: str, what: str, expected: str) -> None:
    request = read_reminder(said, NOW, ZONE)
    if expected == "asks":
        assert request is None or (request.when is None and request.problem is not None)
        return
    assert request is not None and request.problem is None and request.when is not None
    assert told(request.repeats, request.when, expected) == expected
    assert request.what == what
