"""What a request to forget means; what shall not be remembered; what ends what."""

from __future__ import annotations

from src.memory.cutting import cut, spans
from src.memory.forget_matching import Candidate, is_meant, read_request
from src.reading.contradictions import replaces
from src.reading.facts import Fact
from src.reading.requests import (
    asks_to_forget_all,
    asks_to_keep_private,
    forget_request,
    without_plain_reason,
)
from tests.attacks.forgetting import attack, by_rules
from tests.cases import for_each


@for_each(("text", "about"), [
    ("а вот про браслет забудь плиз, брат читает", "браслет"), ("убери запись про ссуду", "ссуду"),
    ("насчет веры забудь", "веры"), ("то что я говорил про ссуду забудь лучше", "ссуду"),
    ("не надо помнить про веру", "веру"), ("про веру можешь забыть уже", "веру"),
    ("ой забудь про ссуду это секрет", "ссуду"), ("забудь нафиг про ссуду", "ссуду"),
    ("всё про бывшую удали пж", "бывшую"), ("убери из заметок про ссуду", "ссуду"),
    ("прибери запис про позику", "позику"), ("забудь краще про віру, посварились", "віру"),
    ("забудь те що я писала про віру", "віру"), ("про віру не згадуй більше", "віру"),
    ("forget what i said about vera plss", "vera"), ("nvm forget abt the raffle", "the raffle"),
    ("the thing about vera, forget it", "vera"), ("drop the note about vera", "vera"),
    ("what i said about the raffle, forget that please", "the raffle"),
    ("id like you to forget about the raffle", "the raffle"),
    ("get rid of the note about vera", "vera"),
])  # fmt: skip
def test_people_ask_to_forget_in_many_ways(text: str, about: str) -> None:
    wanted = forget_request(text)
    assert wanted is not None and wanted.about == about


@for_each("text", [
    "о таком не забыть, вот это был вечер", "убери посуду потом", "это не забыть",
    "все дела не забыть сделать", "i drop the kids at school", "надо убрать запись к врачу",
    "about tomorrow, forget it i'll go alone", "прибери в кімнаті",
])  # fmt: skip
def test_what_is_not_to_be_forgotten_is_no_request(text: str) -> None:
    assert forget_request(text) is None


@for_each(("text", "told"), [
    ("забудь що я зустрічаюсь з ігорем", "я зустрічаюсь з тренером ігорем нікому не кажи"),
    ("forget that i date igor", "i date igor dont tell anyone"),
    ("forget that ruth owes me 60", "my aunt ruth owes me 60 quid"),
    ("забудь что я курю", "не поверишь, я курю опять"),
])  # fmt: skip
def test_what_else_a_sentence_denies_is_not_what_is_meant(text: str, told: str) -> None:
    assert is_meant(read_request(text), Candidate(told, is_fact=False))
    assert not is_meant(
        read_request("forget that i eat meat"), Candidate("i dont eat meat", is_fact=False)
    )


@for_each(("seed", "typed"), [(3, True), (4, True), (5, False), (6, False)])
def test_no_random_request_destroys_a_wrong_fact_and_few_miss_the_right_one(
    seed: int, typed: bool
) -> None:
    result = attack(100, seed, by_rules, typed=typed)
    assert result["destroyed"] == []
    assert len(list(result["missed"])) <= 5 - 2 * typed  # type: ignore[call-overload]


@for_each(
    "text",
    [
        "Забудь всё", "Забудь всё, что я говорил", "удали всё обо мне", "Забудь меня",
        "Видали все, що ти про мене знаєш", "Забудь усе", "Delete everything about me",
        "erase what you know about me", "Forget everything I told you", "forget all of it",
    ],
)  # fmt: skip
def test_everything_is_meant(text: str) -> None:
    assert asks_to_forget_all(text)


@for_each(
    "text",
    ["Delete everything about my ex", "Удали всё про Руслана", "Видали все про кота",
     "erase everything about the trip"],
)  # fmt: skip
def test_everything_about_something_is_not_everything(text: str) -> None:
    assert not asks_to_forget_all(text)
    wanted = forget_request(text)
    assert wanted is not None and wanted.everything and len(read_request(text).words) == 1


@for_each(("text", "about"), [
    ("забудь про билет в музей, сдал вчера", "билет в музей"),
    ("забудь мой размер, больше не ношу такое", "мой размер"),
    ("забудь про позику сестрі, вона вже повернула", "позику сестрі"),
    ("forget the ladder, borrowed another one", "the ladder"),
    ("forget my locker (I moved)", "my locker"),
    ("забудь Машу, Пашу и Дашу", "Машу, Пашу и Дашу"),
    ("forget that I like tea, cocoa and milk", "I like tea, cocoa and milk"),
])  # fmt: skip
def test_why_a_thing_is_to_be_forgotten_is_no_part_of_it(text: str, about: str) -> None:
    wanted = forget_request(text)
    assert wanted is not None and wanted.about == about


@for_each(("about", "thing"), [
    ("бабуся поїхала в Карпати вона вже вдома", "бабуся поїхала в Карпати"),
    ("Gran went to Bath she is home", "Gran went to Bath"),
    ("the umbrella is in the hall, the lady came for it", "the umbrella is in the hall"),
    ("она живёт в Сочи", ""), ("мой размер", ""),
])  # fmt: skip
def test_what_may_be_a_reason_is_left_out_where_nothing_is_found(about: str, thing: str) -> None:
    assert without_plain_reason(about) == thing


@for_each(("text", "told"), [
    ("forget my debt to Ned", "I owe Ned 40"), ("забудь про долг Егору", "должен Егору 300"),
    ("забудь про борг Назару", "я винен Назару 500"),
    ("forget the plumber's phone", "Plumber: tel. 020 7946 0000"),
    ("забудь телефон слесаря", "Слесарь Глеб, тел. 067 111 22 33"),
    ("forget that i owe ned money", "i owe ned 40 from cards"),
    ("забудь що я позичила насті гроші", "я позичила насті 900 до середи"),
    ("забудь что я дала лёве денег", "я дала лёве 2000 на билет"),
])  # fmt: skip
def test_a_debt_is_what_is_owed_and_a_phone_a_number(text: str, told: str) -> None:
    assert is_meant(read_request(text), Candidate(told))
    for other in ("ned is 40", "дрель стоит 900", "долг платежом красен", "лёва живёт в доме 3"):
        assert not is_meant(read_request(text), Candidate(other, is_fact=False))


@for_each("text", [
    "forget the thing about Halloran", "delete the note on Halloran",
    "забудь историю про Халлоран", "забудь ту нотатку про Халлоран",
])  # fmt: skip
def test_what_a_story_is_about_is_meant_and_not_the_story(text: str) -> None:
    assert [word.text for word in read_request(text).words] in (["halloran"], ["халлоран"])


@for_each(
    "text", ["Удалённая работа мне нравится", "Сотрудник уволился", "Я забыл ключи", "Removed: 3"]
)
def test_what_only_begins_like_a_request_is_none(text: str) -> None:
    assert forget_request(text) is None


@for_each(
    "text",
    [
        "Не запоминай это: я в депрессии", "Не запоминай: мне плохо",
        "Не надо это запоминать, но я курю",
        "У меня роман, не запоминай это", "Мне страшно — не сохраняй", "Между нами: я курю",
        "Don't remember this: I'm broke", "I'm gay. Don't save this.", "Off the record: I quit",
        "Just between us, I am pregnant", "Please don't store this: x", "Don't remember: I quit",
        "Не запам'ятовуй це: я хворий", "Я звільняюся, але не записуй це", "Це між нами: я хворий",
    ],
)  # fmt: skip
def test_a_message_may_say_itself_that_it_is_private(text: str) -> None:
    assert asks_to_keep_private(text)


@for_each(
    "text",
    [
        "Я не запоминаю лица", "I don't remember this place", "Я не помню это",
        "I never save money",
        "Почему ты не запоминаешь?", "Не сохраняй файл, он битый", "keep this in mind: x",
        "Между нами говоря, хороший фильм", "Забудь, что я курю", "I don't remember",
        "Don't remember that I like jazz",
    ],
)  # fmt: skip
def test_what_only_sounds_private_is_remembered(text: str) -> None:
    assert not asks_to_keep_private(text)


def known(text: str, relation: str = "other", subject: str = "user", value: str = "") -> Fact:
    return Fact(text=text, relation=relation, subject=subject, object=value)


@for_each(("new", "old"), [
    (known("Разлюбила чай"), known("Я люблю чай")), (known("Люблю чай"), known("Не люблю чай")),
    (known("I can't stand coffee anymore"), known("I love coffee")),
    (known("Бросил курить"), known("Я курю")),
    (known("Більше не п'ю каву"), known("П'ю каву щоранку")),
    (known("I don't have a dog anymore"), known("I have a dog named Rex")),
    (known("Мы с Игорем развелись"), known("Я замужем за Игорем", "married_to")),
    (known("Уволилась"), known("Работаю поваром", "works_as")),
    (known("I quit my job"), known("I work at Google", "works_at", value="Google")),
    (known("Продал машину"), known("Езжу на Тойоте", "car", value="Тойота")),
    (known("Мурзик умер", subject="Мурзик"), known("У меня есть кот Мурзик", "has_pet")),
    (known("Отвечай подробно", "wish"), known("Отвечай коротко", "wish")),
    *((known(new, "wish"), known(old, "wish")) for new, old in (
        ("Пиши подробнее, пожалуйста", "Отвечай коротко"), ("Call me Captain", "Call me Max"),
        ("Будь краток", "Всегда пиши развёрнуто"), ("Use imperial units", "Use metric units"),
        ("Please reply in English", "Always answer in Russian"),
        ("In code reviews be brief", "In code reviews answer in detail"),
        ("Відповідай стисло", "Відповідай докладно"),
    )),
    (known("We broke up"), known("I'm dating Sam", "partner", value="Sam")),
    (known("Я звільнилася"), known("Працюю вчителькою", "works_as")),
])  # fmt: skip
def test_a_statement_ends_or_denies_what_was_said_before(new: Fact, old: Fact) -> None:
    assert replaces(new, old)


@for_each(("new", "old"), [
    (known("У меня нет собаки"), known("У меня аллергия на собак")),
    (known("Не люблю зелёный чай"), known("Люблю чай")),
    (known("Не люблю чай"), known("Моя сестра любит чай")),
    (known("Я продал квартиру"), known("Езжу на Тойоте", "car", value="Тойота")),
    (known("Уволился из Яндекса"), known("Я работаю в Гугле", "works_at", value="Гугл")),
    (known("Сестра развелась", subject="сестра"), known("Я замужем", "married_to")),
    (known("I quit smoking"), known("I work at Google", "works_at")),
    (known("I lost my keys"), known("I have a cat Tom", "has_pet", value="Tom")),
    (known("Отвечай коротко", "wish"), known("Use metric units", "wish")),
    (known("Я не ем рыбу"), known("Я ем мясо")),
    *((known(new, "wish"), known(old, "wish")) for new, old in (
        ("Always include short examples", "Keep your answers brief"),
        ("Always include a summary table", "Always include code in bullet lists"),
        ("In code reviews be brief", "Answer in detail"),
        ("Always include the language of the book", "Answer in English"),
    )),
])  # fmt: skip
def test_what_speaks_of_something_else_ends_nothing(new: Fact, old: Fact) -> None:
    assert not replaces(new, old)


def test_a_quote_is_cut_wherever_it_stands_in_whatever_dress() -> None:
    text = 'Привет! Я  ЛЮБЛЮ «джаз», и живу в Омске. я люблю "джаз"'
    assert cut(text, spans(text, 'Я люблю "джаз"')) == 'Привет! […]», и живу в Омске. […]"'
    assert cut("Я люблю джаз.", spans("Я люблю джаз.", "люблю джаз")) == ""
    assert spans("джазмен", "джаз") == [] and spans("что-то", "…") == []


@for_each(("text", "told", "other"), [
    ("forget that i hate football", "i hate football honestly", "i love football"),
    ("forget that i quit smoking", "i quit smoking in may", "i smoke"),
    ("забудь, что я ненавижу футбол", "ненавижу футбол", "люблю футбол"),
    ("забудь, що я кинув курити", "я кинув курити", "я почав курити"),
])  # fmt: skip
def test_what_one_hates_or_gave_up_is_meant_and_not_its_opposite(
    text: str, told: str, other: str
) -> None:
    request = read_request(text)
    assert is_meant(request, Candidate(told, is_fact=False))
    assert not is_meant(request, Candidate(other, is_fact=False))
