"""Secrets: refused ones leave no trace, codes of doors are kept apart and asked for by name.

Everything goes through Telegram's wire, without the queue.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from src.base.owners import Caller, Owner, Preferences
from src.memory.queries import Query
from src.reading.gate import MASK
from src.texts import LANGUAGES, say
from tests.fakes.telegram_people import Sender
from tests.fakes.telegram_server import FakeTelegram
from tests.integration.phone import NOW, USER, Phone

JPEG = b"\xff\xd8\xff\xe0 a picture"
WORD = "zq{}Kx7w"  # every password begins with it


def card(number: int) -> str:
    digits = f"41117{number:010d}"
    doubled = [int(d) * (1 + (place % 2 == 0)) for place, d in enumerate(reversed(digits))]
    check = -sum(d - 9 if d > 9 else d for d in doubled) % 10
    whole = f"{digits}{check}"
    return " ".join(whole[at : at + 4] for at in range(0, 16, 4))


def document(number: int) -> str:
    return f"4506 7{number:05d}"


TEMPLATES = [
    ("ru", "мой пароль от почты {}!", WORD), ("ru", "Пароль от госуслуг: {}", WORD),
    ("ru", "карта {} до 12/29", card), ("ru", "паспорт {}, выдан в Омске", document),
    ("ru", "Я живу в Праге. пароль\n{}\nА работаю в банке", WORD), ("ru", "апи-ключ: {}", WORD),
    ("uk", "мій пароль від пошти {}", WORD), ("uk", "Пароль до банкінгу — {}", WORD),
    ("uk", "картка {}, а кава з молоком", card), ("uk", "паспорт {}", document),
    ("uk", "мнемоніка: {} берег вітер місто", WORD), ("uk", "токен: {}", WORD),
    ("en", "my password is {} and I live in Prague", WORD), ("en", "gmail password: {}", WORD),
    ("en", "my card is {}", card), ("en", "passport number {}", document),
    ("en", "seed phrase: {} able about above", WORD), ("en", "api key = {}", WORD),
]  # fmt: skip


def canaries(count: int) -> list[tuple[str, str]]:
    """Messages, and the secret in each of them."""
    made = []
    for number, (_, text, secret) in zip(range(count), itertools.cycle(TEMPLATES), strict=False):
        told = secret(number) if callable(secret) else secret.format(number)
        made.append((text.format(told), told))
    return made


def export(phone: Phone) -> str:
    contents = []
    for file in phone.rig.core.exports.write_files(
        Caller(Owner(USER), Preferences("en", "Europe/Moscow"), NOW)
    ):
        with file.content:
            file.content.seek(0)
            contents.append(file.content.read().decode(errors="replace"))
    return "\n".join(contents)


def everything(phone: Phone) -> str:
    """Every row of every table, what was sent, and what models were asked."""
    sent = [message.text for message in phone.fake.sent_to(phone.owner.telegram_user_id)]
    return "\n".join([rows(phone), *sent, prompts(phone), export(phone)])


def rows(phone: Phone) -> str:
    tables = phone.rig.rows(
        "SELECT table_schema, table_name FROM information_schema.tables"
        " WHERE table_type = 'BASE TABLE' AND table_schema = 'public'"
    )
    return "\n".join(str(phone.rig.rows(f'SELECT * FROM "{table}"')) for _, table in tables)


def prompts(phone: Phone) -> str:
    return "\n".join(str(request.raw) for request in phone.rig.model.requests)


async def remember_turns(phone: Phone) -> None:
    await phone.rig.core.memory.digest.digest_turn(phone.rig.conversation(USER))


def tells_of_a_mask(phone: Phone) -> bool:
    """Whether the last answer says, in the language of its message, that a secret was masked."""
    return any(say("secret_masked", language) in phone.last.text for language in LANGUAGES)


@pytest.mark.parametrize("count", [80, pytest.param(200, marks=pytest.mark.proof)])
async def test_refused_secrets_are_nowhere_but_in_telegram(
    phone: Phone, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    told = canaries(count)
    for number, at in enumerate(range(0, count, 20)):
        text = "\n\n".join(text for text, _ in told[at : at + 20])
        await phone.write(f"/remember {text}" if number % 4 == 0 else text)
        assert tells_of_a_mask(phone)
        assert MASK in prompts(phone) or number == 0
    await remember_turns(phone)
    await phone.write("Что ты обо мне знаешь?")
    left = everything(phone) + caplog.text
    assert [secret for _, secret in told if secret in left] == []
    assert "живу в Праге" in left and "кава з молоком" in left, "only the secret is masked"


@pytest.mark.parametrize("text", ["мой пароль от почты {}!", "api key = {}"])
async def test_a_refused_secret_is_not_stored_while_its_message_waits(
    phone: Phone, text: str
) -> None:
    """The update is rewritten in the transaction that stores the message."""
    phone.rig.model.reply = lambda _request: payloads(phone)  # the model looks at that moment
    await phone.write(text.format("zq1Kx7w"))
    assert "zq1Kx7w" not in everything(phone)


def payloads(phone: Phone) -> str:
    return str(phone.rig.rows("SELECT payload FROM telegram_updates"))


APART = [  # what was written, which of it is edited into what, and which holds the secret
    (("мой новый ник от почты", "qwerty123!"), 0, "мой новый пароль от почты:", 1),
    (("пароль от почты сменила, новый:", "потом скажу"), 1, "qwerty123!", 1),
    (("qwerty123!", "это мой ник"), 1, "это мой пароль от почты", 0),
]


@pytest.mark.parametrize(("written", "edited", "text", "holder"), APART)
async def test_what_only_an_edit_makes_a_secret_is_masked_and_said_to_be(
    phone: Phone, written: tuple[str, str], edited: int, text: str, holder: int
) -> None:
    numbers = [await phone.write(one) for one in written]
    await phone.write("ещё я люблю чай")
    await phone.fake.edit_text(USER, numbers[edited], text)
    await phone.work()
    secret = "qwerty123!"
    assert secret not in str(phone.rig.rows("SELECT content FROM messages"))
    assert phone.last.text == say("secret_masked", "ru")
    await phone.tap(say("unsend_button", "ru"))
    deleted = phone.fake.calls_of("deleteMessage")[-1].params["message_id"]
    assert deleted == numbers[holder]
    await remember_turns(phone)
    assert secret not in rows(phone) + export(phone)


KEPT = [
    ("/remember код от домофона {}", "какой код от домофона?"),
    ("код от домофона {}", "какой код от домофона?"),
    ("запомни, что пароль от вайфая {}", "напомни пароль от вайфая"),
    ("Remember: the garage code is {}", "I need the code of the garage"),
    ("код від під'їзду {}, запам'ятай його", "який код від під'їзду?"),
    ("changed it!! remember that the gate code at my mums is {}", "whats mums gate code"),
    ("запиши код до камери схову {}", "який код до камери схову"),
]


@pytest.mark.parametrize(("told", "asked", "codes"), [
    *((*one, 2) for one in KEPT[::3]),
    *(pytest.param(*one, 10, marks=pytest.mark.proof) for one in KEPT),
])  # fmt: skip
async def test_a_code_is_kept_and_shown_when_asked_for_by_name(
    phone: Phone, told: str, asked: str, codes: int
) -> None:
    for number in range(codes):
        code = f"45{number}12К"
        await phone.write(told.format(code))
        assert MASK in phone.last.text and code not in phone.last.text
        assert len(phone.facts()) == 1, "a new code takes the place of the old one"
        for question in ("Что ты обо мне знаешь?", "Как дела?", "/memory", "Где я живу?"):
            await phone.write(question)
        await remember_turns(phone)
        assert code not in prompts(phone)
        assert code not in "".join(m.text for m in phone.fake.sent_to(USER))
        await phone.write(asked)
        assert code in str(phone.rig.model.requests[-1].raw)
        phone.rig.model.requests.clear()
        await phone.write("Спасибо")
        assert code not in prompts(phone)
        assert code not in str(phone.rig.rows("SELECT content FROM messages"))
    assert code in export(phone)
    search = phone.rig.core.memory.retriever.search
    assert code in str(await search(Query(phone.owner, asked, NOW)))
    assert await search(Query(Owner(USER + 1), asked, NOW)) == [], "nobody else's"


async def test_a_code_told_beside_other_things_is_kept_apart_from_them(phone: Phone) -> None:
    await phone.write("Мы переехали. Код от подъезда 4512К. Хозяйку зовут Нина")
    assert "Код от подъезда ••••" in phone.last.text and "4512" not in prompts(phone)
    await remember_turns(phone)
    await phone.write("код от подъезда?")
    assert "4512К" in str(phone.rig.model.requests[-1].raw)
    hits = await phone.rig.core.memory.retriever.search(
        Query(phone.owner, "как зовут хозяйку", NOW)
    )
    assert "Нина" in str(hits) and "4512" not in str(hits)


async def test_the_neighbours_of_a_code_are_found_without_it(phone: Phone) -> None:
    await phone.write("/remember код почтомата 4512К, он у аптеки на Садовой")
    await remember_turns(phone)
    search = phone.rig.core.memory.retriever.search
    hits = str(await search(Query(phone.owner, "где почтомат?", NOW)))
    assert "у аптеки на Садовой" in hits and "4512" not in hits
    assert "Садовой" not in str(await search(Query(phone.owner, "когда отпуск?", NOW)))


@pytest.mark.parametrize("text", [
    "какой код от домофона 4512К или 4513К?", "не запоминай: код от домофона 4512К",
    "напомни завтра в 9 код от домофона 4512К", "забудь код от домофона 4512К",
])  # fmt: skip
async def test_a_code_in_a_question_or_an_order_is_no_fact(phone: Phone, text: str) -> None:
    await phone.write(text)
    await remember_turns(phone)
    assert phone.facts() == []
    assert phone.rig.rows("SELECT 1 FROM search_documents WHERE kind = 'message'"
                          " AND speaker = 'user'") == []  # fmt: skip


@pytest.mark.parametrize("text", ["Я люблю чай", "мой пароль: qwerty123"])
async def test_while_the_memory_is_off_remember_offers_to_switch_it_on(
    phone: Phone, text: str
) -> None:
    phone.rig.core.user_settings.change(Owner(USER).telegram_user_id, memory_on=False)
    await phone.write(f"/remember {text}")
    assert phone.last.text.startswith(say("remember_off", "ru")) and phone.facts() == []
    await phone.tap(say("memory_switch_on", "ru"))
    await phone.write("/remember Я люблю чай")
    assert phone.facts() == ["Я люблю чай"]


async def test_a_correction_keeps_the_words_even_where_only_a_sign_differs(phone: Phone) -> None:
    await phone.write("/remember Мой врач доктор иванов")
    for right in ("Мой врач — доктор Иванов.", "Мой врач: д-р Иванов, тел. 21-03-04. По ср."):
        fact = phone.rig.rows("SELECT id FROM memories WHERE retired_at IS NULL")[0][0]
        await phone.press(f"correct:{fact}")
        await phone.fake.send_text(USER, right, reply_to=phone.last.message_id)
        await phone.work()
        assert phone.facts() == [right]


async def test_a_code_that_took_another_s_place_is_not_shown_beside_it(phone: Phone) -> None:
    await phone.write("/remember код от домофона 45112К")
    await phone.write("/remember код от домофона 45212К")
    await remember_turns(phone)
    retriever = phone.rig.core.memory.retriever
    for question, is_shown in (("кто звонил насчёт дома?", False), ("код от домофона?", True)):
        query = Query(Owner(USER), question, NOW, threshold=-1.0, limit=20)
        hits = await retriever.search(query)
        assert ("45212К" in str(hits)) is is_shown, question


@pytest.mark.parametrize(("first", "second"), [
    ("мой пароль от почты", "qwerty123!"), ("мій пін-код від картки", "4821"),
    ("my password is", "sunflower"), ("my seed phrase", "able " * 11 + "zoo"),
])  # fmt: skip
async def test_a_secret_in_a_message_of_its_own_is_masked(
    phone: Phone, first: str, second: str
) -> None:
    await phone.write(first)
    await phone.write(second)
    assert tells_of_a_mask(phone)
    await remember_turns(phone)
    alone = rf"(?<!\d){re.escape(second)}(?!\d)"  # not as a part of a time or a number
    assert not re.search(alone, everything(phone))
    assert phone.rig.rows(
        "SELECT message_text(content) FROM messages WHERE role = 'user' ORDER BY id OFFSET 1"
    ) == [("••••",)]


@pytest.mark.parametrize(("first", "second"), [
    ("мой пароль от почты", "спасибо"), ("Какой пароль лучше?", "qwerty123"),
    ("пароль от вайфая в лавке romashka", "поставщик молока тимур приедет к нам во вторник днем"),
    ("Купи хлеб", "qwerty123!"),
])  # fmt: skip
async def test_what_only_follows_the_word_stays(phone: Phone, first: str, second: str) -> None:
    await phone.write(first)
    await phone.write(second)
    assert second in prompts(phone) and not tells_of_a_mask(phone)


@pytest.mark.parametrize(("first", "second"), [
    ("plum7tree!", "thats my bank password btw"), ("4821", "це мій пін до картки"),
    ("слива77дом", "это был пароль от почты"),
])  # fmt: skip
async def test_a_secret_is_masked_when_the_next_message_says_that_it_was_one(
    phone: Phone, first: str, second: str
) -> None:
    await phone.write(first)
    await phone.write(second)
    assert tells_of_a_mask(phone)
    await remember_turns(phone)
    assert phone.rig.rows(
        "SELECT message_text(content) FROM messages WHERE role = 'user' ORDER BY id"
    ) == [(MASK,), (second,)]
    assert first not in str(phone.rig.model.requests[-1].raw)
    assert not re.search(rf"(?<!\d){re.escape(first)}(?!\d)", rows(phone) + export(phone))


async def test_a_code_in_a_message_of_its_own_is_remembered_nowhere(phone: Phone) -> None:
    await phone.write("код от домофона")
    await phone.write("4512К")
    await remember_turns(phone)
    assert phone.rig.rows("SELECT is_private FROM messages WHERE role = 'user' ORDER BY id") == [
        (False,), (True,),
    ]  # fmt: skip


SECRET = "мой пароль от почты qwerty123!"
FILE = {"file_id": "file", "file_unique_id": "f"}


@pytest.mark.parametrize("content", [
    {"voice": {**FILE, "duration": 3}}, {"document": {**FILE, "file_name": "note.txt"}},
    {"document": {**FILE, "file_name": f"{SECRET[:-1]}.txt", "file_id": "rent"}},
    {"document": {**FILE, "file_name": "a.txt", "file_id": "rent"}, "caption": SECRET},
    {"photo": [{**FILE, "file_id": "photo", "width": 9, "height": 9}], "caption": SECRET},
    {"text": SECRET, "forward_origin": {"type": "hidden_user", "date": 1,
                                        "sender_user_name": "X"}},
    {"text": f"/remind завтра в 9 проверить почту, {SECRET}"}, {"text": f"/search {SECRET}"},
    {"text": f"напомни завтра в 9: {SECRET}"}, {"text": f"/forget {SECRET}"},
    {"text": "что это?", "quote": {"text": SECRET, "position": 0}, "reply_to_message": {
        "message_id": 1, "date": 1, "chat": {"id": USER, "type": "private"}, "text": SECRET,
        "from": {"id": USER, "is_bot": False, "first_name": "X"}}},
    {"poll": {"id": "1", "question": SECRET, "options": [], "total_voter_count": 0,
              "is_closed": False, "is_anonymous": True, "type": "regular",
              "allows_multiple_answers": False, "allows_revoting": False}},
])  # fmt: skip
@pytest.mark.parametrize("group", [0, pytest.param(-1_001_234_567_894, marks=pytest.mark.proof)])
@pytest.mark.core(transcription_model="whisper-1")
async def test_in_whatever_way_it_comes_it_is_masked(
    phone: Phone, fake: FakeTelegram, content: Any, group: int
) -> None:
    fake.state.files |= {"file": SECRET.encode(), "rent": b"rent", "photo": JPEG}
    if group and "text" in content and not content["text"].startswith("/"):
        content = {**content, "text": f"Помни, {content['text']}"}
    place = Sender(chat_id=group, chat_type="supergroup") if group else Sender()
    await fake.send_message(USER, **place, **content)
    await phone.work()
    phone.place = Sender(chat_id=group or USER)
    await phone.rig.core.memory.digest.digest_turn(
        phone.rig.core.conversations.get_or_create_conversation(group or USER)
    )
    assert "qwerty123" not in everything(phone)
