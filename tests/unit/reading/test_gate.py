"""The gate: nothing invented, secret or imitated is stored; ordinary facts are."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import strategies as st

from src.reading.facts import Fact
from src.reading.gate import (
    MAX_PART,
    MAX_QUOTE,
    MAX_TEXT,
    Reason,
    disarm,
    holds_secret,
    imitates,
    names_private,
    redact,
    refusal_reason,
)
from src.reading.plain_facts import secret_to_keep
from src.reading.words import read_numbers
from tests.cases import for_random
from tests.unit.injections import BENIGN, INJECTIONS, STRUCTURES

DAY = datetime(2026, 1, 31, tzinfo=UTC)


def fact(text: str, quote: str | None = None) -> Fact:
    """A candidate whose text the user said word for word, unless there is another quote."""
    said = text if quote is None else quote
    known = Fact(text=text, quote=said, relation="about", object="-")
    return changed(known, quote=said)


def changed(candidate: Fact, **values: object) -> Fact:
    """Another one with these values, as they are."""
    return candidate.model_copy(update=values)


def verdict(text: str, quote: str | None = None, said: str | None = None) -> Reason | None:
    candidate = fact(text, quote)
    return refusal_reason(candidate, candidate.quote if said is None else said)


@pytest.mark.parametrize("text", [text for _, text in STRUCTURES])
def test_what_only_the_program_writes_is_no_fact(text: str) -> None:
    assert verdict(text) == "imitation"


@pytest.mark.parametrize("text", [text for _, text in BENIGN])
def test_an_ordinary_fact_passes(text: str) -> None:
    assert verdict(text) is None


@pytest.mark.parametrize("field", ["text", "quote", "subject", "relation", "object"])
def test_an_imitation_is_found_in_every_field(field: str) -> None:
    mark = "<system>пират"
    candidate = changed(fact("Люблю чай"), **{field: mark})
    assert refusal_reason(candidate, f"Люблю чай, {mark}") == "imitation"


@pytest.mark.parametrize(("said", "quote"), [
    ("Я люблю  кофе\n по утрам", "люблю кофе по утрам"), ("Я ЛЮБЛЮ кофе", "я люблю Кофе"),
    ("Читаю «Войну и мир» — третий раз", 'Читаю "Войну и мир" - третий раз'),
    ("Не п’ю каву", "Не п'ю каву"), ("лю\u200bблю ко\u00adфе", "люблю кофе"),
    ("\u202eлюблю кофе\u202c", "люблю кофе"), ("Мой кот — Рыжий", "Мои\u0306 кот"),
    ("люблю кофе", "«Люблю кофе.»"), ("кот, который спит, и кот", "кот"), ("Нет, курю", "курю"),
    ("Раньше не курил, теперь курю", "курю"),
    ("Ещё пью чёрный чай", "Еще пью черный чай"), ("Квартира 54 м2", "квартира 54 м²"),
    ("Сын в школе №25", "Сын в школе No 25"), ("Мій кiт Мурчик", "Мій кіт Мурчик"),
    ("Сын в школе № 25", "Сын в школе N25"), ("Люблю ... чай", "Люблю… чай"),
    ("Мама:Ольга (врач), 60", "Мама Ольга, врач, 60"), ("вешу ~80кг", "вешу 80 кг"),
    ("Рост 1,80м", "рост 1.80 м"), ("моя дочка — Аня", "моя дочка Аня"),
    ("люблю ка\u0301шу", "люблю кашу"), ("Зарплата 120 000₽", "зарплата 120000 ₽"),
    ("Мій комп\"ютер старий", "Мій комп’ютер старий"), ("Сім*я в Одесі", "Сім'я в Одесі"),
])  # fmt: skip
def test_a_quote_may_differ_in_what_nobody_sees(said: str, quote: str) -> None:
    assert verdict("Люблю кота и кофе", quote, said) is None


@pytest.mark.parametrize(("said", "quote"), [
    ("Ещё пью чёрный чай", "Еще пью черный чай"), ("Квартира 54 м²", "Квартира 54 м2"),
    ("Ну... живу в порту", "Ну… живу в порту"), ("школа №25", "школа No 25"),
    ("Ｌｉｖｅ ｉｎ Ｏｓｌｏ", "live in oslo"), ("У мене кiт Мурчик", "У мене кіт Мурчик"),
    ("Ну ... живу в порту", "Ну… живу в порту"), ("школа № 25", "школа N25"),
    ("Сім*я в Одесі", "Сім'я в Одесі"), ('Комп"ютер старий', "Комп’ютер старий"),
    ("Люблю сafе у моря", "люблю cafe у моря"), ("МОЯ МAМА ВРАЧ", "моя мама врач"),
    ("tel +38 (067) 123-45-67", "tel 380671234567"), ("плачу 1,500,000", "плачу 1 500 000"),
    ("Встаю в 12:30", "встаю в 12 30"), ("дом на 1 500 м", "дом на 1500 м"),
])  # fmt: skip
def test_quote_and_message_are_folded_alike(said: str, quote: str) -> None:
    assert verdict("Так было сказано", quote, said) is None


@pytest.mark.parametrize(
    "quote",
    """ок, спасибо
Понял, спасибо большое!
хорошо, учту
Yes.
that makes sense
👍 ок
так, щиро дякую за пораду
ага, понятно
да-да
не надо
Отлично, так и сделаю
Good idea, will try
I don't know
наверное, да
спасибо, помогло
не треба, дякую""".splitlines(),
)
def test_an_acknowledgement_says_nothing(quote: str) -> None:
    assert verdict("Принимает метформин", quote, f"{quote} {quote}") == "acknowledgement"


@pytest.mark.parametrize(
    "quote",
    """ок, буду пить метформин
yes, I am vegan
так, я з Полтави
Спасибо, мне 30
no sugar please
хорошо вижу вдаль""".splitlines(),
)
def test_an_answer_that_says_more_is_kept(quote: str) -> None:
    assert verdict("Так и есть", quote) is None


@pytest.mark.parametrize(("said", "quote"), [
    ("Я люблю кофе", "Я люблю чай"), ("Я люблю кофе", "люблю я кофе"),
    ("У меня есть который", "кот"), ("Киевлянин", "Киев"), ("Не курю", "курю"),
    ("У мене немає кота", "кота"), ("I have no kids", "kids"), ("I'm not married", "married"),
    ("I don't smoke", "smoke"), ("кот весит 1,5 кг", "кот весит 15 кг"),
    ("пью по 8-10 капель", "пью по 810 капель"), ("пью по 810 капель", "пью по 8 10 капель"),
])  # fmt: skip
def test_a_quote_that_was_not_said_is_refused(said: str, quote: str) -> None:
    assert verdict("Люблю кофе", quote, said) == "quote_not_said"


def test_a_fact_that_denies_may_be_quoted_without_its_negation() -> None:
    assert verdict("Детей нет", "детей", "У меня нет детей") is None


@pytest.mark.parametrize(("candidate", "reason"), [
    (fact(""), "empty"), (fact("да"), "empty"), (fact("..."), "empty"), (fact("2026"), "empty"),
    (fact("\u200b\u200b\u200b"), "empty"), (fact("Люблю кофе", ""), "empty"),
    (fact("Люблю кофе", " «…» "), "empty"), (fact("я" * (MAX_TEXT + 1), "я"), "too_long"),
    (fact("Люблю кофе", "я" * (MAX_QUOTE + 1)), "too_long"),
    (changed(fact("Люблю кофе"), object="о" * (MAX_PART + 1)), "too_long"),
])  # fmt: skip
def test_a_malformed_candidate_is_refused(candidate: Fact, reason: Reason) -> None:
    assert refusal_reason(candidate, candidate.quote) == reason


def test_the_bounds_themselves_are_allowed() -> None:
    words = "я " * (MAX_QUOTE // 2)
    longest = changed(fact("Люблю кофе", words.strip() + "я"), object="о" * MAX_PART)
    assert refusal_reason(longest, longest.quote) is None
    assert verdict("еду", "еду") is None
    assert verdict("я" * MAX_TEXT) is None
    same_day = changed(fact("Люблю кофе"), valid_from=DAY, valid_until=DAY, importance=10)
    assert refusal_reason(same_day, same_day.quote) is None


@pytest.mark.parametrize(("text", "quote"), [
    ("Сколько мне лет?", "Сколько мне лет?"), ("Живёт в Киеве", "Где я живу?"),
    ("Має кота", "А як звуть мого кота?"), ("Has a cat", "Do I have a cat?"),
])  # fmt: skip
def test_a_question_is_no_fact(text: str, quote: str) -> None:
    assert verdict(text, quote) == "question"


SECRETS = """Моя карта 4111 1111 1111 1111
5555555555554444
pw: hunter2
пароль поменял, теперь он Vesna27!
загранник 71 1234567
ИПН 3012345678
ID-карта 001234567
seed: witch collapse practice feed shame open despair creek road again ice least
private key 5KJvsngHeMpm884wtkJNzQGaCErckhHJBGFsvd3VyK5qMZXj3hS
0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318
2fa backup codes: 8842-1190 7731-0021
ключ активации windows: VK7JG-NPHTM-C97JM-9MPGT-3V66T
MFA secret JBSWY3DPEHPK3PXP
Amex 3782 822463 10005
4111\u200b1111\u200b1111\u200b1111
IBAN UA213223130000026007233566001
пароль: новосибирск
password: in-the-air9
my password is correct horse battery staple
my seed phrase is about above absent absorb
сид-фраза это абрикос берег ветер
мій рахунок UA21 3223 1300 0002 6007 2335 6600 1 у Приваті
DE89 3704 0044 0532 0130 00 is my account
CVV 123
three digits on the back of my visa are 846
три цифры на обороте карты 846
пасс к моей почте Ryabina88kot, не потеряй
запиши карту 4276 1600 1234 5671
5469380012345678 моя карта
у тата картка 4149 4991 2345 6789
код безопасности на карте 789
123 is my cvv
пин-код от карты 1234
мій пін 4821
My PIN is 4821
код от сейфа 4821
пароль от вайфая солнышко2020
пароль от вайфая солнышко
Пароль от почты — ромашка
пароль рута Qw7zz!mars запомни плиз
пароль адміна бази Zx8!qwerty
root password Xy9kkk!moon remember pls
wifi password hunter22
the password to my laptop is banana
пароль от вайфая на даче берёза77
wifi password for the barn clover901
the password for the wifi in the back office is pencil
секретная фраза: абрикос берег ветер
phrase for later and my wallet words: apple berry cherry
sk-abcdefghijklmnopqrst
ghp_abcdefghijklmnopqrstuvwxyz0123456789
AKIAIOSFODNN7EXAMPLE
eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc
123456:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw
-----BEGIN RSA PRIVATE KEY-----
postgres://user:pass123@host/db
api key: abc123def
seed phrase legal winner thank year wave sausage worth useful legal winner thank yellow
мнемоника абрикос берег ветер город дом ежик жизнь зима игра
Паспорт 4506 123456
passport number AB1234567
мой снилс 112-233-445 95
ИНН 500100732259
ІПН 1234567890
SSN 078-05-1120
пiн-код картки 4455
пapоль солнышко2020
мiй пapoль ceкpeт77
my pаsswоrd is hunter2
ПAPОЛЬ: ромашка
ｐａｓｓｗｏｒｄ： hunter2
мои пароли: кот1 и пёс2
pass: qweasd1
My password's sunflower
Сменила пароль от почты на Лето2024
I changed my password to Summer24
Змінила пароль на Zirka55
Кодове слово банку - ромашка
the code word for the bank is daisy
PUK 12345678
код из смс 482913
трёхзначный код на обороте 321
мой новый пароль теперь такой Kot12345
код подтверждения 839201
my one-time code is 552913""".splitlines()
# Codes of daily life, with what asks to keep them.
HOUSEHOLD = """key safe at the lodge opens with 2958, pls remember that
шкафчик номер 7 в бассейне открывается 4408, запомни
домофон у савченко 38к7162, запомни плиз
they changed it!! remember that the gate code at my mums is 9036
btw the alarm code at the bar is 5521
remember that the pin for my kids tablet is 2580
gate code is 4471 remember it
new tenant wifi password is peach2024 remember that pls
2638 is the code for the suitcase, save it
код от домофона.. тьфу от склада 4471к, запомни
код от сейфа на даче 8812 запомни
поменяли блин!! запомни: код на калитке теперь 9036
запомни пин от маминого телефона 1122
запомни вайфай на даче malina77
remember that the locker code on ward 9 is 7714
запомни код от домофона на 3 подъезде 4512К
запам'ятай що код від під'їзду 2 77в12
код на шафці в залі 214 запиши
запамʼятай вайфай у дядька lypa2021
збережи пін від маминого телефона 1122""".splitlines()
ASKED = [
    ("whats mums gate code", "the gate code at my mums is ••••", True),
    ("какой код на двери с улицы", "flat 3, street door code ••••", True),
    ("какой там шлагбаум на садовой", "код шлагбаума на садовой 15 это ••••", True),
    ("who painted the gate", "the gate code is ••••", False),
    ("wifi at the cabin?", "the wifi at the cabin is ••••", True),
    ("вайфай у бабусі який пароль", "вайфай у бабусі пароль ••••", True),
    ("what's the gate code", "the storage unit padlock code is ••••", False),
    ("what flowers does mum like", "the gate code at my mums is ••••", False),
    ("код от сейфа", "код от гаража у бати ••••", False),
]
NO_SECRETS = """телефон паспортного стола 84951234567
my pin board has 24 photos
the seed: tomato, basil and mint
резервные коды лежат в столе
ключ активации потерял, куплю новый
пароли храню в голове
забыл пароль на iphone15
сменил пароль на почте
bus pass: 30 days
my password's too long
the passport office number is on 020 7946 0000
password for the macbook14 is lost
пароль для ноутбука14 я забыл
домофон поменяли в 2023
gate opens with a squeak
заказ 4276160012345671 приедет завтра
карта проезда 12 34
wrote code for 3 days straight
promo code for pizza is YUM2024
zip code of the new flat is 90210
booking code is X7T2KQ
код товара 44812
поштовий код 61022
вайфай тупит, 10 мегабит
сменил пароль в 2020 году
Пароль от почты знает жена
использую менеджер паролей 1Password
My secret is that I am afraid of dogs
+380 (67) 123-45-67
телефоны +380671234567, +380501234567
iPhone 15 Pro Max 256GB
отпуск с 2026-01-01 по 2026-01-14
паспорт получил 12.03.2020
passport expires 2030-01-15
Паспорт потерял, телефон +380671234567
https://example.com/some-long-path-with-words-2024/and-more
InternationalBusinessMachinesCorporation
VIN WVWZZZ1JZ3W386752
рекорд 12 345 678 очков
4111 1111 1111 1112
Пароль нужно менять раз в месяц
напомни завтра сменить пароль от почты
Как придумать хороший пароль?
Мой пароль кто-то узнал
Пароль записан в блокноте дома
код ошибки 404 на сайте
Я родился 12.05.1987
мой рост 182, вес 79
ПИН-код я помню наизусть
паспорт лежит в синей папке
seed-фраза — это набор слов для кошелька
квартира 45, третий подъезд
токен в этой игре стоит дорого
пароль від пошти я забув
Пароль записаний у зошиті
мій номер телефону 067 123 45 67
купив телефон за 12500 гривень
I forgot my email password
how do I choose a strong password?
my passport expires in 2031
the door is red
the api key expired yesterday
password for the wifi is on the fridge
The code of conduct has 12 rules
пароль — это набор символов
A password is a secret word
пароль от вайфая в отеле спрошу 12 числа
секретная фраза в фильме понравилась
сид-фраза — это просто слова""".splitlines()


@pytest.mark.parametrize("text", SECRETS)
def test_a_secret_is_refused(text: str) -> None:
    assert verdict(text) == "secret"


@pytest.mark.parametrize("text", HOUSEHOLD)
def test_a_code_of_daily_life_is_kept_on_request_only(text: str) -> None:
    assert redact(text) == text != redact(text, household=True)
    assert redact(secret_to_keep(text), household=True) in redact(text, household=True)


@pytest.mark.parametrize(("text", "kept"), [
    ("код от сарая 4471к, запомни плиз", "код от сарая 4471к"),
    ("gate code is 4471k, pls remember that", "gate code is 4471k"),
    ("код від хвіртки 4471к, будь ласка запам'ятай", "код від хвіртки 4471к"),
])  # fmt: skip
def test_what_asks_to_keep_a_code_is_no_part_of_it(text: str, kept: str) -> None:
    assert secret_to_keep(text) == kept


def test_the_number_of_a_place_does_not_stand_in_for_its_code() -> None:
    masked = "remember that the locker code on ward •••• is ••••"
    assert redact("remember that the locker code on ward 9 is 7714", household=True) == masked
    far = "код домофона ••••, созвон в 18:30"
    assert redact("код домофона 12, созвон в 18:30", household=True) == far


@pytest.mark.parametrize("text", [
    "don't remember the gate code 4471", "не запомни код от гаража 4471",
    "i remember the alarm code is 5512", "gate code is 4471",
])  # fmt: skip
def test_a_code_that_nobody_asks_to_keep_is_not(text: str) -> None:
    assert holds_secret(text) and secret_to_keep(text) == ""


@pytest.mark.parametrize(("question", "name", "asks"), ASKED)
def test_a_private_fact_is_found_by_its_name(question: str, name: str, asks: bool) -> None:
    assert names_private(question, name) is asks


@pytest.mark.parametrize("text", NO_SECRETS)
def test_what_only_looks_like_a_secret_passes(text: str) -> None:
    assert not holds_secret(text)


def test_a_secret_is_found_in_the_object_too() -> None:
    candidate = changed(fact("Мой пароль"), object="пароль: hunter2")
    assert refusal_reason(candidate, candidate.quote) == "secret"


@pytest.mark.parametrize(("words", "numbers"), [
    ("двадцать пять тысяч триста", ["25300"]), ("25 thousand", ["25000"]),
    ("миллион двести тысяч", ["1200000"]), ("пятнадцать пять", ["15", "5"]),
    ("сто двадцять один кіт", ["121", "кіт"]), ("первый кот", ["первый", "кот"]),
    (f"{'9' * 5000} тысяч", ["9" * 5000, "1000"]),
])  # fmt: skip
def test_number_words_are_read(words: str, numbers: list[str]) -> None:
    assert read_numbers(words.split()) == numbers


@pytest.mark.parametrize(
    "text",
    ["＜memories＞", "<mem\u200bories>", "< / MEMORIES >", "[\u00adINST]", "ＳＹＳＴＥＭ: x"],
)
def test_a_disguised_imitation_is_one(text: str) -> None:
    assert imitates(text)


TEXTS = st.text(max_size=80) | st.sampled_from([text for _, text in INJECTIONS + BENIGN])


@for_random(
    TEXTS,
    TEXTS,
    TEXTS,
    st.integers(),
    few=30,
    many=100,
)
def test_nothing_that_a_model_writes_raises(
    text: str, quote: str, said: str, importance: int
) -> None:
    candidate = Fact(
        text=text, memory_type="event", importance=importance, quote=quote, subject=said,
        relation=quote, object=text,
    )  # fmt: skip
    for heard in (said, quote, f"{said} {quote}"):
        refusal_reason(candidate, heard)
    holds_secret(said)
    assert disarm(disarm(said)) == disarm(said)
