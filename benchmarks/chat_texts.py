"""Texts of the simulated user of ``benchmarks/prompts.py`` and the assistant, in three languages.

Messages are composed of these sentences; a real chat has as many short remarks as long stories.
Each fact is a message of its own, and the model saves it with its tool.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Language = Literal["ru", "uk", "en"]


@dataclass(frozen=True)
class ToldFact:
    """Fact as the user tells it; ``said`` is quoted in full."""

    turn: int
    said: str
    relation: str
    object: str
    importance: int


REMARKS: dict[Language, tuple[str, ...]] = {
    "ru": (
        "Спасибо!", "Понял, так и сделаю.", "А подробнее?", "Хорошо, давай второй вариант.",
        "Нет, это не то.", "Напомни, на чём мы остановились?", "Да, именно.",
        "А сколько это стоит?", "Можно короче?", "Отлично, то что нужно.",
    ),
    "uk": (
        "Дякую!", "Зрозумів, так і зроблю.", "А докладніше?", "Гаразд, нехай буде другий варіант.",
        "Ні, це не те.", "Нагадай, на чому ми зупинилися?", "Так, саме це.",
        "А скільки це коштує?",
    ),
    "en": (
        "Thanks!", "Got it, I'll do that.", "Could you say more?", "Let's take the second option.",
        "No, that's not it.", "Where did we leave off?", "Yes, exactly.",
        "How much would it cost?",
    ),
}  # fmt: skip

STORIES: dict[Language, tuple[str, ...]] = {
    "ru": (
        "Вчера допоздна сидели с коллегами над отчётом, и всё равно не сошлись цифры за сентябрь.",
        "Подумываю взять отпуск в начале декабря и съездить на неделю к морю, пока недорого.",
        "Дочка просит щенка, а я не уверен, что мы потянем прогулки по утрам.",
        "Сломалась стиральная машина: гудит, но барабан не крутится, вода сливается нормально.",
        "Читаю сейчас книгу про историю мостов, очень затягивает, особенно глава о разводных.",
        "Хочу наконец выучить испанский, но каждый раз бросаю через пару недель.",
        "На выходных ездили на дачу, собрали последние яблоки и укрыли розы лапником.",
        "Мне предложили перейти в другой отдел, денег чуть больше, но и ответственности тоже.",
        "Купил велосипед с рук, у него скрипит каретка и тормозит только задний тормоз.",
        "Собираемся позвать гостей на день рождения жены, человек двенадцать, готовить буду сам.",
        "По утрам болит спина, особенно если накануне долго сидел за компьютером.",
        "Сосед сверху опять делает ремонт и сверлит по воскресеньям с девяти утра.",
        "Составь, пожалуйста, список того, что взять с собой в поход на три дня.",
        "Как вежливо отказать начальнику, который просит выйти в субботу?",
        "Посоветуй, что приготовить на ужин из курицы, риса и того, что обычно есть дома.",
        "Объясни простыми словами, чем ипотека с плавающей ставкой отличается от обычной.",
    ),
    "uk": (
        "Учора до пізньої ночі сиділи з колегами над звітом, а цифри за вересень так і не "
        "зійшлися.",
        "Думаю взяти відпустку на початку грудня й поїхати на тиждень у гори.",
        "Донька просить цуценя, а я не певен, що ми впораємося з ранковими прогулянками.",
        "Зламалася пральна машина: гуде, але барабан не обертається, хоча вода зливається.",
        "Читаю зараз книжку про історію залізниць, дуже цікаво, надто розділ про вузькоколійки.",
        "На вихідних їздили до батьків, копали картоплю й латали паркан.",
        "Мені запропонували перейти в інший відділ, грошей трохи більше, але й клопоту теж.",
        "Порадь, що приготувати на вечерю з гарбуза, квасолі й того, що зазвичай є вдома.",
        "Поясни простими словами, чим депозит відрізняється від державних облігацій.",
        "Як увічливо відмовити сусідові, який щотижня просить позичити машину?",
    ),
    "en": (
        "We stayed late over the quarterly report again and the September numbers still "
        "don't add up.",
        "I'm thinking of taking a week off in early December and going somewhere warm.",
        "My washing machine hums but the drum won't turn, although the water drains just fine.",
        "I'm reading a book about the history of bridges, and the chapter on drawbridges is "
        "great.",
        "They offered me a move to another team: slightly more money, a lot more responsibility.",
        "I bought a used bicycle, the bottom bracket creaks and only the rear brake works.",
        "Please make me a packing list for a three-day hike in cold weather.",
        "What's a polite way to tell my manager that I can't come in on Saturday?",
        "Explain in plain words how a variable-rate mortgage differs from a fixed one.",
        "My back hurts in the morning, especially after a long day at the computer.",
    ),
}  # fmt: skip

ANSWERS: dict[Language, tuple[str, ...]] = {
    "ru": (
        "Давай разберёмся по порядку.",
        "Похоже, дело в том, что две таблицы считают месяц по-разному: одна по дате счёта, "
        "другая по дате оплаты.",
        "Я бы начал с самого простого и проверил, не изменилось ли что-нибудь за последнюю "
        "неделю.",
        "Если коротко: да, это возможно, но потребует около двух часов и немного терпения.",
        "Вот что стоит сделать:\n\n1. Записать, что именно происходит и когда.\n2. Проверить "
        "кабель и фильтр.\n3. Если не помогло, позвать мастера.",
        "Обрати внимание на погоду: в начале месяца там часто дожди, так что лучше взять "
        "лёгкую куртку.",
        "Можно сказать так: «Мне жаль, но в эту субботу я не смогу, давайте найдём другой выход».",
        "Тридцати минут в день достаточно, если заниматься каждый день и не пытаться выучить "
        "всё сразу.",
        "Для двенадцати человек хватит двух горячих блюд, трёх закусок и большого салата.",
        "Если боль не пройдёт за неделю или станет сильнее, лучше показаться врачу.",
        "Хочешь, я составлю план на неделю, чтобы не держать всё в голове?",
    ),
    "uk": (
        "Розберімося по черзі.",
        "Схоже, дві таблиці рахують місяць по-різному: одна за датою рахунку, друга за датою "
        "оплати.",
        "Я б почав із найпростішого й перевірив, чи нічого не змінилося за останній тиждень.",
        "Якщо коротко: так, це можливо, але потрібно десь дві години й трохи терпіння.",
        "Ось що варто зробити:\n\n1. Записати, що саме відбувається й коли.\n2. Перевірити "
        "кабель і фільтр.\n3. Якщо не допоможе, викликати майстра.",
        "Можна сказати так: «Мені шкода, але цього разу не зможу, пошукаймо інший вихід».",
        "Якщо біль не мине за тиждень або посилиться, краще піти до лікаря.",
        "Хочеш, я складу план на тиждень, щоб не тримати все в голові?",
    ),
    "en": (
        "Let's take it step by step.",
        "It looks as if the two tables count the month differently: one by invoice date, the "
        "other by payment.",
        "I would start with the simplest thing and check whether anything changed in the "
        "last week.",
        "In short: yes, it is possible, but it takes about two hours and some patience.",
        "Here is what I would do:\n\n1. Write down what happens and when.\n2. Check the "
        "cable and the filter.\n3. If that does not help, call a technician.",
        "You could say: \"I'm sorry, I can't make it this Saturday, let's find another way.\"",
        "If the pain doesn't go away within a week or gets worse, please see a doctor.",
        "Would you like me to draw up a plan for the week?",
    ),
}  # fmt: skip

# Facts of some turns; from importance 7 on, a fact is always in the prompt.
FACTS = (
    ToldFact(3, "Меня зовут Андрей", "name", "Андрей", 9),
    ToldFact(9, "У меня аллергия на арахис", "allergic_to", "арахис", 9),
    ToldFact(21, "Я работаю инженером на заводе", "works_as", "инженер", 7),
    ToldFact(34, "Я люблю зелёный чай без сахара", "likes", "зелёный чай", 4),
    ToldFact(48, "Мою дочку зовут Вера", "has_child", "Вера", 8),
    ToldFact(63, "У нас дача под Калугой", "owns", "дача под Калугой", 5),
    ToldFact(77, "Мой брат живёт в Риге", "lives_in", "Рига", 6),
    ToldFact(90, "По средам я хожу в бассейн", "habit", "бассейн по средам", 4),
    ToldFact(104, "Я живу в Туле", "lives_in", "Тула", 7),
    ToldFact(126, "Моя мама мешкає в Полтаві", "lives_in", "Полтава", 6),
    ToldFact(143, "Я не їм м'яса по п'ятницях", "diet", "без м'яса по п'ятницях", 6),
    ToldFact(165, "My boss is called Helen", "name", "Helen", 5),
    ToldFact(182, "I am learning Spanish", "studies_at", "Spanish", 5),
)
# A short chat for docs/memory.md: the user's message, the answer, and the saved fact.
EXAMPLE: tuple[tuple[str, str, ToldFact | None], ...] = (
    ("Привет! Меня зовут Андрей.", "Приятно познакомиться, Андрей!",
     ToldFact(0, "Меня зовут Андрей", "name", "Андрей", 9)),
    ("У меня аллергия на арахис, имей в виду.", "Запомнил: никакого арахиса.",
     ToldFact(0, "У меня аллергия на арахис", "allergic_to", "арахис", 9)),
    ("В отпуск в мае хотим поехать в Грузию, на машине, через Верхний Ларс.",
     "Хороший маршрут; в мае перевал обычно уже открыт.", None),
    ("Жена любит горы, а я море, поэтому спорим.", "В Грузии хватит и того, и другого.", None),
    ("Сколько ехать от Тулы?", "Около 1 700 километров, удобнее за два дня.", None),
    ("Велосипед скрипит, каретка, наверное.", "Похоже; проверь, нет ли люфта.", None),
    ("Люфт есть.", "Тогда каретку лучше заменить.", None),
    ("Сколько стоит каретка?", "От тысячи рублей, с работой около двух с половиной.", None),
    ("Сам справлюсь?", "Да, если есть съёмник; минут сорок.", None),
    ("Съёмник куплю.", "Под квадрат или под шлицы, посмотри на старую.", None),
    ("Дочка просит щенка.", "А кто будет гулять по утрам?", None),
    ("Обещает, что сама.", "Договоритесь на пробный месяц с соседской собакой.", None),
    ("Хорошая мысль!", "Удачи!", None),
    ("Начальник зовёт выйти в субботу.", "Можно отказаться вежливо и сразу.", None),
    ("Как?", "«Мне жаль, в эту субботу не смогу».", None),
    ("Спасибо.", "Пожалуйста!", None),
    ("Напомни, куда мы собирались в отпуск в мае?", "", None),
)  # fmt: skip
EXAMPLE_SUMMARIES = (
    "Пользователь представился Андреем и предупредил, что у него аллергия на арахис.",
    "Пользователь хочет в мае поехать в отпуск в Грузию на машине через Верхний Ларс; жена любит "
    "горы, а он море; от Тулы туда около 1 700 километров.",
    "У велосипеда пользователя скрипит каретка, в ней есть люфт.",
)

# The language from each turn on.
LANGUAGES: tuple[tuple[int, Language], ...] = ((0, "ru"), (120, "uk"), (160, "en"))


def language_at(turn: int) -> Language:
    """Return the language of a turn."""
    return next(language for start, language in reversed(LANGUAGES) if turn >= start)
