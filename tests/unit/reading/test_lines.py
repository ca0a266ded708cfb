"""What a line says, in three languages: told, asked, to be remembered, forgotten, kept quiet."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from src.reading.plain_facts import MAX_FACTS, plain_facts, to_remember
from src.reading.requests import (
    ForgetRequest,
    asks_for_questions,
    asks_to_keep_private,
    asks_what_was_said,
    forget_request,
    overview_of,
)
from src.reading.sentences import PIECE, asks_only, best_passage, is_question
from src.texts.morphology import terms

# What is told beyond doubt: the message, the relation, its value.
PLAIN = [
    ("Меня зовут Анна", "name", "Анна"), ("Мене звати Олена", "name", "Олена"),
    ("моє ім’я — Оксана", "name", "Оксана"), ("hi my name is Tom", "name", "Tom"),
    ("my name is tom", "name", "tom"), ("Меня зовут Рустем", "name", "Рустем"),
    ("мой день рождения 5 мая", "birthday", "5 мая"),
    ("Мій день народження 3 червня", "birthday", "3 червня"),
    ("my birthday is on the 3rd of June", "birthday", "the 3rd of June"),
]  # fmt: skip
# What tells as much, or more, in words that may mean something else: it is a note.
DOUBTFUL = [
    "Допустим, меня зовут Виктор", "Suppose I live in Rome", "we moved to a new flat",
    "my landlord lives in Malta", "мой друг живёт в Риме", "I'm Tom",
    "I live in Leeds with my two cats", "my birthday was great", "у мамы день рождения 3 июня",
    "I moved to Linux", "Переехал на Windows", "Переїхали на понеділок", "Меня зовут Домой",
    "мене звати додому", "Мене звуть вечеряти", "My name is not John", "my name is important",
    "Меня зовут не Иван", "My name isn't Bob", "we moved to the new office",
    "я живу в Киеве", "I live in Leeds", "раньше жил в Омске", "Где я живу?",
    "спасибо", "", "   ", "...", "https://example.com", "/start", "я люблю чай " * 50,
]  # fmt: skip
# What stands behind a request to remember.
FRAMED = [
    ("запомни: ключи под ковриком", "ключи под ковриком"),
    ("Пожалуйста, запомни, код домофона 45К12.", "код домофона 45К12."),
    ("Не забудь, что у меня аллергия на кошек", "у меня аллергия на кошек"),
    ("Запам’ятай, що ключі під килимком", "ключі під килимком"),
    ("Май на увазі, що я вегетаріанка", "я вегетаріанка"),
    ("remember that the alarm code changed", "the alarm code changed"),
    ("Don't forget that I'm vegan", "I'm vegan"), ("запомни: 4512", "4512"),
    ("привет, запомни что у меня кот", "у меня кот"), ("remember when we met?", None),
    ("do you remember my name", None), ("запомни", None), ("я запомнил", None),
    ("Помни, что у меня кот", "у меня кот"), ("помни що ключ у Олі", "ключ у Олі"),
    ("Помни где ключ", None), ("помни", None),
]  # fmt: skip
QUESTIONS = [
    "секатор мне вернули или нет", "драбину віддали чи ні", "Где я живу", "Я живу в Москве?",
    "есть ли у меня собака", "Пам’ятаєш мене", "Чи люблю я каву", "what is my name",
    "tell me about my cat", "у гриши на что аллергия напомни", "shopping list what was on it",
    "летняя резина где", "вылет во скок", "машина у меня щас какая", "лікар о котрій приймає",
    "вайфай у бабусі який пароль", "hostel name what was it", "till when can i unload here",
    "from whom did i borrow it", "under which name is it", "чё там с машиной", "из-за чего ссора",
    "що там назару не можна, чого він не переносить", "о котрій зустріч", "зі скількох відкрито",
]  # fmt: skip


@pytest.mark.parametrize(("text", "relation", "value"), PLAIN)
def test_what_is_told_beyond_doubt_is_a_fact(text: str, relation: str, value: str) -> None:
    [fact] = plain_facts(text)
    assert (fact.subject, fact.relation, fact.object) == ("user", relation, value)
    assert fact.text in text


@pytest.mark.parametrize("text", DOUBTFUL)
def test_what_may_mean_something_else_is_no_fact(text: str) -> None:
    assert plain_facts(text) == []


def test_a_sentence_of_several_facts_tells_each_and_more_words_tell_none() -> None:
    told = plain_facts("My name is Emily, my birthday is on 5 May. And I love tea!")
    assert [(fact.relation, fact.text) for fact in told] == [
        ("name", "My name is Emily"), ("birthday", "my birthday is on 5 May"),
    ]  # fmt: skip
    [name] = plain_facts("My name is Emily, I live in Leeds and I love tea")
    assert name.text == "My name is Emily"
    assert plain_facts("My name is Emily, or so they say") == []
    assert len(plain_facts("Меня зовут Анна. " * 50)) == MAX_FACTS


@pytest.mark.parametrize(("message", "text"), FRAMED)
def test_what_is_to_be_remembered_stands_behind_the_request(
    message: str, text: str | None
) -> None:
    assert to_remember(message) == text


@pytest.mark.parametrize("text", QUESTIONS)
def test_a_question_is_known_by_its_mark_or_its_first_words(text: str) -> None:
    assert is_question(text)


@pytest.mark.parametrize(
    "text",
    [
        "Что-то я устал", "Когда я был маленьким, я жил в Омске", "Island life suits me", "",
        "Я знаю, где ключи", "Як я люблю, щоб було тихо, так і є", "кафе где мы были",
        "позвоню когда приеду", "забула де ключі", "the guy who fixed the boiler", "no idea when",
        "from when i was five we lived here", "from what i hear its closed",
    "кто что взял: палатка у мишки, лыжи у стаса", "who has what: ann the tent, bob the drill",
    ],
)  # fmt: skip
def test_what_only_begins_like_a_question_is_none(text: str) -> None:
    assert not is_question(text)


@pytest.mark.parametrize(("text", "about", "everything"), [
    ("забудь, что я живу в Москве", "я живу в Москве", False),
    ("forget the ladder thing", "the ladder", False),
    ("короче забудь про лестницу уже отдал", "лестницу", False),
    ("забудь про ту історію з драбиною", "драбиною", False),
    ("забудь где я работаю", "где я работаю", False),
    ("Забудь, пожалуйста, про Олега", "Олега", False),
    ("забудьте, будь ласка, мою адресу", "мою адресу", False),
    ("забудь всё, что я говорил про собаку", "собаку", True),
    ("видали все про кота", "кота", True), ("Delete everything about my ex", "my ex", True),
    ("erase what you know about the trip", "the trip", False), ("забудь всё", "", True),
    ("забудь всё, что ты обо мне знаешь", "", True),
    ("Забудь все, що ти знаєш про мене", "", True), ("Забудь", "", False),
    ("forget it", "", False),
])  # fmt: skip
def test_a_request_to_forget_names_what_to_forget(text: str, about: str, everything: bool) -> None:
    is_last = text == "forget it"
    assert forget_request(text) == ForgetRequest(about, everything, is_last)


@pytest.mark.parametrize(
    "text",
    [
        "", "я всё забыла", "I forgot my umbrella", "не забудь молоко", "Не забудь, що я веган",
        "Don't forget that I'm vegan", "forget-me-not is a flower",
        "Удалённая работа мне нравится",
    ],
)  # fmt: skip
def test_nothing_is_forgotten_by_accident(text: str) -> None:
    assert forget_request(text) is None


@pytest.mark.parametrize(("text", "kind"), [
    ("Что ты обо мне знаешь?", "profile"), ("Що ти про мене знаєш?", "profile"),
    ("What do you know about me?", "profile"), ("Кто я?", "profile"),
    ("Расскажи про мою семью", "family"), ("Who is in my family?", "family"),
    ("Как ты должен мне отвечать?", "wishes"), ("Что ты знаешь о Марсе?", None),
    ("Где я живу?", None),
])  # fmt: skip
def test_an_overview_is_asked_for_by_its_kind(text: str, kind: str | None) -> None:
    assert overview_of(text) == kind


@pytest.mark.parametrize(("text", "asks"), [
    ("О чём мы говорили?", True), ("Про що ми говорили?", True), ("What did we talk about?", True),
    ("Что я говорил о собаке?", False), ("What did I say about Mars?", False),
    ("Где я живу?", False),
])  # fmt: skip
def test_what_was_said_is_asked_for_only_where_nothing_is_named(text: str, asks: bool) -> None:
    assert asks_what_was_said(text) is asks


PIECES = [
    *(word for text, *_ in PLAIN for word in text.split()),
    *(word for text, _ in FRAMED for word in text.split()),
    *(word for text in (*QUESTIONS, *DOUBTFUL) for word in text.split()),
    "забудь", "forget", "всё", "не", "запоминай", ",", ".", "!", "?", "\n", " - ", "😊", ")", "’",
]  # fmt: skip
anything = st.text(max_size=200) | st.lists(st.sampled_from(PIECES), max_size=30).map(" ".join)


@given(anything)
@settings(deadline=None, database=None, max_examples=300, suppress_health_check=list(HealthCheck))
def test_whatever_is_written_what_is_told_are_pieces_of_it(text: str) -> None:
    for fact in plain_facts(text):
        assert fact.text and fact.text in text
        assert fact.object in text
    remembered = to_remember(text)
    assert remembered is None or remembered in text
    wanted = forget_request(text)
    assert wanted is None or all(word in text for word in wanted.about.split())
    assert asks_to_keep_private(text) in (True, False)


@pytest.mark.parametrize(("text", "about"), [
    ("Можешь забыть про мою собаку?", "мою собаку"),
    ("Could you forget my address?", "my address"), ("Привет! Забудь про кота", "кота"),
    ("forget about my dog please", "my dog"), ("удали мой адрес из памяти", "мой адрес"),
    ("Давай забудем про Олега", "Олега"), ("Забудь навсегда про Макса", "Макса"),
    ("Ты забыл, что я люблю?", None), ("я забыл зонт", None),
])  # fmt: skip
def test_a_request_to_forget_may_be_polite_never_a_question(text: str, about: str | None) -> None:
    wanted = forget_request(text)
    assert (wanted.about if wanted else None) == about


MERE_QUESTIONS = ["когда готова виза?", "Hi! How do I cook rice?", "Олег звонил?", "а где ключи"]
TELLING_QUESTIONS = [
    "переживаю за визу, когда она будет?", "did you know that I have a dog?",
    "Есть кошка. Где корм?", "я тебе говорил что у меня кошка?", "виза готова",
    "I'm worried about the exam, how do I prepare?",
]  # fmt: skip
WHAT_ONE_ASKED = ["что я спрашивал про визу?", "що я питала вчора", "what did I ask about it?"]


def test_a_mere_question_tells_nothing() -> None:
    assert [text for text in MERE_QUESTIONS if not asks_only(text)] == []
    assert [text for text in TELLING_QUESTIONS if asks_only(text)] == []


def test_what_one_asked_is_asked_for() -> None:
    assert all(map(asks_for_questions, WHAT_ONE_ASKED))
    assert not asks_for_questions("спроси маму про визу")


FILLER = {
    "ru": "Стороны обязуются уважать друг друга и решать споры миром. ",
    "uk": "Сторони зобов'язуються поважати одна одну й вирішувати спори миром. ",
    "en": "Both sides promise to respect each other and to settle quarrels in peace. ",
}
TOLD = {
    "ru": ("Плата за квартиру — 30 000 рублей в месяц.", "Какая плата за квартиру?"),
    "uk": ("Плата за квартиру — 12 000 гривень на місяць.", "Яка плата за квартиру?"),
    "en": ("The rent is 900 euros a month.", "How much is the rent?"),
}


@pytest.mark.parametrize("language", FILLER)
@pytest.mark.parametrize(("before", "after"), [(0, 80), (40, 40), (80, 0), (299, 1)])
def test_the_passage_holds_the_sentence_that_answers(
    language: str, before: int, after: int
) -> None:
    sentence, question = TOLD[language]
    text = FILLER[language] * before + sentence + " " + FILLER[language] * after
    passage = best_passage(text, terms(question), 400)
    assert sentence in passage and len(passage) <= 400
    assert passage.startswith("… ") == (before > 0)
    assert passage.endswith(" …") == (after > 1), passage


def test_a_rare_word_counts_more_than_one_that_stands_everywhere() -> None:
    text = "Кошка спит. Кошка ест. " * 100 + "Кошку зовут Матильда. " + "Кошка играет. " * 100
    assert "Матильда" in best_passage(text, terms("Матильда кошка"), 200)


def test_without_any_of_the_words_it_is_the_beginning() -> None:
    text = "Первое предложение. " + FILLER["ru"] * 50
    assert best_passage(text, terms("велосипед"), 200).startswith("Первое предложение.")


def test_a_short_text_stays_as_it_is() -> None:
    assert best_passage(" Коротко.\n", ["коро"], 200) == " Коротко.\n"


@given(st.text(max_size=600))
def test_pieces_lose_nothing(text: str) -> None:
    assert "".join(PIECE.findall(text)) == text


@given(st.text(alphabet="аб .!?…\nx", min_size=101, max_size=2000), st.text(max_size=20))
def test_any_passage_is_a_part_of_the_text_and_no_longer_than_asked(text: str, word: str) -> None:
    passage = best_passage(text, terms(word), 100)
    assert len(passage) <= 100
    assert passage.removeprefix("… ").removesuffix(" …") in text
