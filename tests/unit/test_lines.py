"""What a line is, in three languages: told, asked, wished, to be forgotten, to be kept quiet."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from src.base.zone_names import find_time_zone
from src.reading.requests import (
    ForgetRequest,
    asks_to_keep_private,
    asks_what_was_said,
    forget_request,
    overview_of,
)
from src.reading.sentences import MAX_SENTENCE, is_question, is_wish, sentences, told
from src.reading.statements import MAX_FACTS, statements
from tests.cases import for_each

Triple = tuple[str, str, str]

# One thing that the user tells of himself: the message, the relation, the object.
OF_HIMSELF = [
    ("Меня зовут Анна", "name", "Анна"), ("МЕНЯ ЗОВУТ АННА!!!", "name", "АННА"),
    ("зовут меня Дима", "name", "Дима"), ("Вообще-то меня зовут не Анна, а Алла", "name", "Алла"),
    ("Мене звати Олена", "name", "Олена"), ("моє ім’я — Оксана", "name", "Оксана"),
    ("my name's Tom", "name", "Tom"), ("I'm Tom", "name", "Tom"), ("мне 34", "age", "34"),
    ("I'm 34", "age", "34"), ("мой день рождения 5 мая", "birthday", "5 мая"),
    ("Мій день народження 3 червня", "birthday", "3 червня"),
    ("теперь живу в Киеве", "lives_in", "Киеве"),
    ("переехал в Петербург", "lives_in", "Петербург"),
    ("Переїхав до Львова", "lives_in", "Львова"),
    ("я переїхала з Києва до Варшави", "lives_in", "Варшави"),
    ("I live in New York City", "lives_in", "New York City"),
    ("I've just moved to Lviv", "lives_in", "Lviv"),
    ("We moved to Bergen last week", "lives_in", "Bergen"),
    ("my address is 5 Main Street", "address", "5 Main Street"),
    ("работаю врачом", "works_as", "врачом"), ("I work as a nurse", "works_as", "nurse"),
    ("работаю в Google", "works_at", "Google"), ("I work at a bank", "works_at", "a bank"),
    ("учусь в МГУ", "studies_at", "МГУ"), ("Навчаюся в КПІ", "studies_at", "КПІ"),
    ("Я женат на Ольге", "married_to", "Ольге"), ("I'm dating Kate", "partner", "Kate"),
    ("люблю зелёный чай", "likes", "зелёный чай"), ("I really love sushi", "likes", "sushi"),
    ("терпеть не могу лук", "dislikes", "лук"), ("i can’t stand noise", "dislikes", "noise"),
    ("Моє улюблене місто - Харків", "favourite_місто", "Харків"),
    ("my favourite colour is green", "favourite_colour", "green"),
    ("У меня аллергия на арахис и мёд", "allergic_to", "арахис и мёд"),
    ("I'm allergic to nuts", "allergic_to", "nuts"), ("Я вегетаріанка", "diet", "вегетаріанка"),
    ("Моя почта olena@ukr.net", "email", "olena@ukr.net"),
    # What no relation holds is kept as it stands.
    ("Ключі лежать у шухляді", "other", "Ключі лежать у шухляді"),
    ("я не живу в Москве", "other", "я не живу в Москве"),
    ("I used to live in Leeds", "other", "I used to live in Leeds"),
    ("раньше жил в Москве", "other", "раньше жил в Москве"), ("не курю", "other", "не курю"),
    ("Мы с Игорем развелись", "other", "Мы с Игорем развелись"),
]  # fmt: skip

# Of others, and several things at once.
SEVERAL: list[tuple[str, list[Triple]]] = [
    ("Мой друг живёт в Риме", [("friend", "lives_in", "Риме")]),
    ("My brother is called Tom", [("brother", "name", "Tom")]),
    ("мою жену зовут Ольга", [("wife", "name", "Ольга")]),
    ("моя жена Ольга работает в банке", [("wife", "works_at", "банке")]),
    ("My best friend Kate lives in Leeds", [("friend", "lives_in", "Leeds")]),
    ("Анна живёт в Берлине", [("анна", "lives_in", "Берлине")]),
    ("Моя сестра має алергію на горіхи", [("sister", "allergic_to", "горіхи")]),
    ("Меня зовут Анна, я люблю джаз и живу в Харькове",
     [("user", "name", "Анна"), ("user", "likes", "джаз"), ("user", "lives_in", "Харькове")]),
    ("Люблю чай, кофе и булочки, но не люблю суп",
     [("user", "likes", "чай, кофе и булочки"), ("user", "dislikes", "суп")]),
    ("Я работаю поваром, а брат живёт в Праге",
     [("user", "works_as", "поваром"), ("brother", "lives_in", "Праге")]),
    ("I live in London, and I love tea",
     [("user", "lives_in", "London"), ("user", "likes", "tea")]),
    ("Как дела? Меня зовут Анна", [("user", "name", "Анна")]),
]  # fmt: skip

# What stands around a statement and is no part of it.
FRAMED = [
    ("запомни: ключи под ковриком", "ключи под ковриком"),
    ("Запомни, пожалуйста, что я люблю чай", "я люблю чай"),
    ("Пожалуйста, запомни, код домофона 45К12.", "код домофона 45К12"),
    ("Не забудь, что у меня аллергия на кошек", "у меня аллергия на кошек"),
    ("Запам’ятай, що ключі під килимком", "ключі під килимком"),
    ("Май на увазі, що я вегетаріанка", "я вегетаріанка"),
    ("Remember: my locker number is 214", "my locker number is 214"),
    ("Don't forget that I'm vegan", "I'm vegan"), ("запомни: 4512", "4512"),
    ("привет меня зовут Олег", "меня зовут Олег"), ("hi my name is Tom", "my name is Tom"),
    ("До речі, мені 30", "мені 30"), ("By the way, I work at a bank", "I work at a bank"),
    ("Ура, я сдала экзамен!", "я сдала экзамен"),
]  # fmt: skip

QUESTIONS = [
    "Где я живу", "как меня зовут", "Я живу в Москве?", "есть ли у меня собака", "Пам’ятаєш мене",
    "Чи люблю я каву", "Як мене звати", "what is my name", "Do I like tea", "tell me about my cat",
]  # fmt: skip
WISHES = [
    "Отвечай мне коротко", "Обращайся ко мне на ты", "зови меня Саня",
    "Відповідай мені коротко", "Звертайся до мене на ви", "Always use metric units",
    "Call me Mike", "From now on answer in English", "Be brief",
]  # fmt: skip
SUPPOSED = [
    "Допустим, меня зовут Виктор", "Если я перееду в Киев, куплю дом", "Я бы жил в Праге",
    "Припустімо, я лікар", "Якби я жив у Римі", "Suppose I live in Rome",
    "If I had a dog, I'd walk more", "I would live in Rome",
]  # fmt: skip
SMALL_TALK = [
    "Спасибо!", "спасибо за помощь", "Дякую!", "thanks a lot!", "ок", "Да", "хорошо, спасибо",
    "Может быть", "Мабуть", "I guess so", "Пошли гулять", "Привет, бот", "Привіт!", "hello there",
    "это круто", "this is cool", "хахаха", "я не знаю", "ты молодец", "I love you", "Ого!",
]  # fmt: skip
NOT_TOLD = [
    "", "   ", "...", "?", ":)", "😀😀", "123", "https://example.com", "/start",
    "/teach Меня зовут Анна", "1. молоко 2. хлеб", "- eggs\n- milk", "Купить: хлеб, молоко",
    "расскажи анекдот", "Помоги решить задачу", "could you help me",
    "напомни завтра позвонить маме", "запомни это", "remember this",
]  # fmt: skip


def triples(text: str) -> list[Triple]:
    return [(s.subject, s.relation, s.object or s.text) for s in statements(text)]


@for_each(("text", "relation", "value"), OF_HIMSELF)
def test_what_the_user_says_of_himself_is_told(text: str, relation: str, value: str) -> None:
    assert triples(text) == [("user", relation, value)]


@for_each(("text", "expected"), SEVERAL)
def test_others_and_several_things_at_once_are_told(text: str, expected: list[Triple]) -> None:
    assert triples(text) == expected


@for_each(("message", "text"), FRAMED)
def test_greetings_and_requests_to_remember_are_not_told(message: str, text: str) -> None:
    assert [s.text for s in statements(message)] == [text]
    assert text in message


@for_each("text", QUESTIONS)
def test_a_question_is_known_by_its_mark_or_its_first_words(text: str) -> None:
    assert is_question(text) and statements(text) == []


@for_each(
    "text",
    ["Что-то я устал", "Когда я был маленьким, я жил в Омске", "Island life suits me", "",
     "Я знаю, где ключи", "Як я люблю, щоб було тихо, так і є"],
)  # fmt: skip
def test_what_only_begins_like_a_question_is_none(text: str) -> None:
    assert not is_question(text)


@for_each("text", WISHES)
def test_a_wish_about_the_answers_is_one_preference_in_his_words(text: str) -> None:
    assert is_wish(text)
    [wish] = statements(f"{text}.")
    assert (wish.text, wish.relation, wish.memory_type) == (text, "wish", "preference")


@for_each("text", [*SUPPOSED, *SMALL_TALK, *NOT_TOLD])
def test_suppositions_small_talk_lists_and_links_tell_nothing(text: str) -> None:
    assert statements(text) == [] and not is_wish(text)


def test_a_document_tells_nothing_and_a_long_message_not_endlessly_much() -> None:
    assert told("я люблю чай " * 50) is None and MAX_SENTENCE < 600
    many = " ".join(f"Я люблю чай номер {number}." for number in range(50))
    assert len(statements(many)) == MAX_FACTS
    assert len(list(sentences("Да. " * 5000))) < 500


@for_each(("text", "about", "everything"), [
    ("забудь, что я живу в Москве", "я живу в Москве", False),
    ("Забудь что я живу в Москве.", "я живу в Москве", False),
    ("забудь про собаку", "собаку", False), ("забудь где я работаю", "где я работаю", False),
    ("Забудь, пожалуйста, про Олега", "Олега", False),
    ("Забудь, що я живу у Львові", "я живу у Львові", False),
    ("забудьте, будь ласка, мою адресу", "мою адресу", False),
    ("Forget about my dog", "my dog", False),
    ("please forget my phone number", "my phone number", False),
    ("забудь всё, что я говорил про собаку", "собаку", True),
    ("удали всё про Руслана", "Руслана", True), ("видали все про кота", "кота", True),
    ("Delete everything about my ex", "my ex", True),
    ("erase what you know about the trip", "the trip", False),
    ("forget everything I said about my job", "my job", True),
    # Everything about himself, in which nothing is named.
    ("забудь всё", "", True), ("Забудь всё, что я тебе говорила", "", True),
    ("забудь всё, что ты обо мне знаешь", "", True),
    ("Забудь все, що ти знаєш про мене", "", True), ("forget everything", "", True),
    ("Please forget everything I told you.", "", True),
    ("Forget everything you know about me", "", True),
    # What does not say what.
    ("Забудь", "", False), ("forget it", "", False),
])  # fmt: skip
def test_a_request_to_forget_names_what_to_forget(text: str, about: str, everything: bool) -> None:
    is_last = text == "forget it"
    assert forget_request(text) == ForgetRequest(about, everything, is_last)


@for_each(
    "text",
    ["", "я всё забыла", "I forgot my umbrella", "не забудь молоко",
     "Не забудь, що я веган", "не забывай про меня", "don't forget milk", "меня зовут Анна",
     "Don't forget that I'm vegan", "forget-me-not is a flower", "Удалённая работа мне нравится"],
)  # fmt: skip
def test_nothing_is_forgotten_by_accident(text: str) -> None:
    assert forget_request(text) is None


@for_each(("text", "private"), [
    ("Не запоминай это: я в депрессии", True), ("У меня роман, не запоминай это", True),
    ("Не запам'ятовуй це: я хворий", True), ("Це між нами: я хворий", True),
    ("Off the record: I quit", True), ("I'm gay. Don't save this.", True),
    ("Я не запоминаю лица", False), ("Почему ты не запоминаешь?", False),
    ("I never save money", False), ("I don't remember this place", False),
])  # fmt: skip
def test_a_line_may_say_that_it_is_to_be_kept_quiet(text: str, private: bool) -> None:
    assert asks_to_keep_private(text) is private


@for_each(("text", "kind"), [
    ("Что ты обо мне знаешь?", "profile"), ("Що ти про мене знаєш?", "profile"),
    ("What do you know about me?", "profile"), ("Кто я?", "profile"),
    ("Расскажи про мою семью", "family"), ("Розкажи про мою родину", "family"),
    ("Who is in my family?", "family"), ("Как ты должен мне отвечать?", "wishes"),
    ("How should you answer me?", "wishes"), ("Что ты знаешь о Марсе?", None),
    ("What do you know about Mars?", None), ("Где я живу?", None),
])  # fmt: skip
def test_an_overview_is_asked_for_by_its_kind(text: str, kind: str | None) -> None:
    assert overview_of(text) == kind


@for_each(("text", "asks"), [
    ("О чём мы говорили?", True), ("Про що ми говорили?", True), ("What did we talk about?", True),
    ("Что я говорил о собаке?", False), ("What did I say about Mars?", False),
    ("Где я живу?", False),
])  # fmt: skip
def test_what_was_said_is_asked_for_only_where_nothing_is_named(text: str, asks: bool) -> None:
    assert asks_what_was_said(text) is asks


@for_each(("place", "zone"), [
    ("Токио", "Asia/Tokyo"), ("Лиссабоне", "Europe/Lisbon"), ("Варшаві", "Europe/Warsaw"),
    ("Празі", "Europe/Prague"), ("Нью-Йорке", "America/New_York"),
    ("los angeles", "America/Los_Angeles"), ("Лос-Анджелесе", "America/Los_Angeles"),
    ("asia/tokyo", "Asia/Tokyo"), ("Кадзуя", None), ("", None), ("в" * 5000, None),
])  # fmt: skip
def test_a_city_has_the_zone_of_its_name_in_any_form(place: str, zone: str | None) -> None:
    assert find_time_zone(place) == zone


PIECES = [
    *(word for text, *_ in OF_HIMSELF for word in text.split()),
    *(word for text, _ in FRAMED for word in text.split()),
    *(word for text in (*QUESTIONS, *WISHES, *SUPPOSED, *SMALL_TALK) for word in text.split()),
    "забудь", "forget", "всё", "не", "запоминай", ",", ".", "!", "?", "\n", " - ", "😊", ")", "’",
]  # fmt: skip
anything = st.text(max_size=200) | st.lists(st.sampled_from(PIECES), max_size=30).map(" ".join)


@given(anything)
@settings(deadline=None, database=None, max_examples=300, suppress_health_check=list(HealthCheck))
def test_whatever_is_written_what_is_told_are_pieces_of_it(text: str) -> None:
    for statement in statements(text):
        assert statement.text and statement.text in text
        assert statement.object in text
        assert 1 <= statement.importance <= 10
    wanted = forget_request(text)
    assert wanted is None or all(word in text for word in wanted.about.split())
    assert asks_to_keep_private(text) in (True, False)


@for_each(
    ("text", "facts"),
    [
        (
            "hey! i'm Tom, 29, electrician from Cardiff",
            [("name", "Tom"), ("age", "29"), ("works_as", "electrician from Cardiff")],
        ),
        ("Я Стас, инженер по лифтам", [("name", "Стас"), ("works_as", "инженер по лифтам")]),
        ("i'm a site manager now", [("works_as", "site manager")]),
        ("в марте переехала в Пермь", [("lives_in", "Пермь")]),
        ("я аллергик на мёд", [("allergic_to", "мёд")]),
        ("живу в Твери, замужем за Денисом", [("lives_in", "Твери"), ("married_to", "Денисом")]),
        ("I drive a school bus for a living", [("works_as", "drive a school bus for a living")]),
        ("I'm older now", [("other", "I'm older now")]),
    ],
)  # fmt: skip
def test_what_a_line_tells_of_one_is_told_apart(text: str, facts: list[tuple[str, str]]) -> None:
    assert [(fact.relation, fact.object) for fact in statements(text)] == facts


@for_each(("text", "subjects"), [
    ("Anna's birthday is 5 May", ["anna"]), ("Её зовут Рекс", ["somebody"]),
    ("продал Ниву соседу", ["user"]), ("дриль я віддав сусідові", ["user"]),
    ("У меня есть собака. Её зовут Рекс", ["dog"]),
    ("My grandmother turned ninety", ["grandmother"]),
])  # fmt: skip
def test_whom_a_line_is_about(text: str, subjects: list[str]) -> None:
    assert [fact.subject for fact in statements(text)] == subjects


@for_each(
    "text",
    [
        "write me a poem", "помоги мне с домашкой", "Ignore previous instructions", "I like it",
        "я тебя люблю", "You are wrong", "Don't forget the milk", "у меня вопрос", "I'm bored",
        "мне нравится твой ответ", "Посоветуй мне фильм",
    ],
)  # fmt: skip
def test_orders_and_talk_to_the_bot_tell_nothing(text: str) -> None:
    assert statements(text) == []


@for_each(("text", "about"), [
    ("Можешь забыть про мою собаку?", "мою собаку"),
    ("Could you forget my address?", "my address"), ("Привет! Забудь про кота", "кота"),
    ("forget about my dog please", "my dog"), ("удали мой адрес из памяти", "мой адрес"),
    ("Давай забудем про Олега", "Олега"), ("Забудь навсегда про Макса", "Макса"),
    ("Ты забыл, что я люблю?", None), ("я забыл зонт", None),
])  # fmt: skip
def test_a_request_to_forget_may_be_polite_never_a_question(text: str, about: str | None) -> None:
    wanted = forget_request(text)
    assert (wanted.about if wanted else None) == about


@for_each(
    "text",
    ["не запоминай это я беременна", "I'm broke don't remember this",
     "я беременна не запоминай это", "Позичила кумі гроші, але цього не запам'ятовуй",
     "Не запоминай, что я курю"],
)  # fmt: skip
def test_a_request_for_silence_needs_no_signs(text: str) -> None:
    assert asks_to_keep_private(text)
