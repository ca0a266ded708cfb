"""Voices, pictures, documents and the rest: each a sensible reading, or a sentence."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from src.base.errors import DeliveryError, ModelUnavailableError
from src.base.owners import Caller, Preferences
from src.media.attachments import MAX_DOCUMENT, sound_ending
from src.memory.prompts import memory_record
from src.memory.queries import Query
from src.texts import LANGUAGES, Language, say
from tests.fakes.openai_server import Reply
from tests.integration.phone import NOW, STRANGER, USER, Phone, buttons

JPEG = b"\xff\xd8\xff\xe0 a picture"
SPEECH = "Мою дочь зовут Вера"
CAPTION = "Это мой новый дом в Сочи"
SEEN = "Двухэтажный дом с красной крышей; на табличке «Дом 7»."
PHOTO = [
    {"file_id": "small", "file_unique_id": "s", "width": 90, "height": 60, "file_size": 900},
    {"file_id": "photo", "file_unique_id": "p", "width": 1280, "height": 900, "file_size": 90_000},
]


pytestmark = pytest.mark.core(transcription_model="whisper-1")


@pytest.fixture
async def phone(phone: Phone) -> Phone:
    phone.fake.state.files |= {
        "photo": JPEG, "voice": SPEECH.encode(), "text": "Срок аренды — до мая".encode(),
    }  # fmt: skip
    return phone


def voice(**fields: Any) -> dict[str, Any]:
    return {"voice": {"file_id": "voice", "file_unique_id": "v", "duration": 3, **fields}}


def document(name: str, file_id: str = "text", **fields: Any) -> dict[str, Any]:
    file = {"file_id": file_id, "file_unique_id": "d", "file_name": name, **fields}
    return {"document": file}


# What is spoken


@pytest.mark.parametrize("kind", ["voice", "audio", "video_note", "video"])
async def test_speech_is_shown_kept_as_own_words_and_answered(phone: Phone, kind: str) -> None:
    more = {"width": 1, "height": 1, "length": 1}
    assert await phone.send(**{kind: {**voice()["voice"], **more}}) == ["done"]
    assert phone.heard() == [("typed", SPEECH)]
    heard = say("heard", "ru", text=SPEECH)
    assert phone.last.text == f"{heard}\n\nэхо: {SPEECH}"
    assert phone.last.entities[0]["type"] == "blockquote"
    assert phone.rig.stored(USER)[1] == ("assistant", f"эхо: {SPEECH}")
    assert phone.rig.model.transcribed[0][1] == "whisper-1"
    await phone.rig.core.memory.digest.digest_turn(phone.rig.conversation(USER))
    await phone.write("/search как зовут дочь")
    assert SPEECH in phone.last.text


async def test_what_was_spoken_is_kept_by_a_reply_to_it(phone: Phone) -> None:
    spoken = await phone.fake.send_message(USER, **voice(), **phone.place)
    await phone.work()
    await phone.write("/remember", reply_to=spoken)
    assert phone.facts() == [SPEECH]


async def test_a_long_speech_stands_before_the_answer_and_silence_is_said(phone: Phone) -> None:
    phone.fake.state.files["voice"] = b"  "
    await phone.send(**voice())
    assert phone.last.text == say("sound_silent", "ru") and phone.heard() == []
    phone.fake.state.files["voice"] = ("слово " * 900).encode()
    phone.rig.model.queue("Понял.")
    await phone.send(**voice())
    _, *shown, answer = [message.text for message in phone.fake.sent_to(USER)]
    assert len(shown) == 2 and answer == "Понял."


@pytest.mark.parametrize(("status", "key"), [(413, "sound_refused"), (401, "sound_locked")])
async def test_a_refusal_of_the_endpoint_has_its_own_sentence_and_is_logged(
    phone: Phone, caplog: pytest.LogCaptureFixture, status: int, key: str
) -> None:
    phone.rig.model.transcription_status = status
    for language in LANGUAGES:
        assert await phone.send(**voice(), language_code=language) == ["explained"]
        assert phone.last.text == say(key, language) and phone.heard() == []
    warned = [r for r in caplog.records if r.name == "src.media.attachments" and r.levelno >= 30]
    [cause] = {str(vars(record)["cause"]) for record in warned}
    assert f"HTTP {status}" in cause


# What is shown


async def test_a_picture_is_described_beside_its_caption(phone: Phone) -> None:
    phone.rig.model.queue(SEEN, "Поздравляю с новосельем!")
    await phone.send(photo=PHOTO, caption=CAPTION)
    assert phone.heard() == [("file", SEEN), ("typed", CAPTION)]
    looking, answering = phone.rig.model.requests
    [words, image] = looking.messages[-1]["content"]
    assert CAPTION in words["text"] if isinstance(words, dict) else CAPTION in words
    assert image["image_url"]["url"].startswith("data:image/jpeg;base64,")
    assert SEEN in str(answering.messages) and CAPTION in str(answering.messages)
    assert phone.last.text == "Поздравляю с новосельем!" and phone.facts() == []


async def test_a_picture_can_be_talked_about_later_and_led_to(phone: Phone) -> None:
    phone.rig.model.queue("Чек из аптеки на 345 гривен.", "Вижу чек.")
    message = await phone.fake.send_message(USER, photo=PHOTO)
    await phone.work()
    assert phone.heard() == [("file", "Чек из аптеки на 345 гривен.")]
    await phone.rig.core.memory.digest.digest_turn(phone.rig.conversation(USER))
    await phone.write("/search чек из аптеки")
    assert "345 гривен" in phone.last.text
    found = phone.last
    led_to = []
    for row in buttons(found):
        for _, data in row:
            await phone.press(data, under=found)
            led_to.append(phone.last.reply_to)
    assert message in led_to and None not in led_to


def looking(**arguments: Any) -> Reply:
    return Reply(tool_calls=[("look_at_picture", {"question": "Что ещё на фото?", **arguments})])


def looked(phone: Phone) -> dict[str, Any]:
    """What the tool told the model that answers."""
    [*_, result] = [m for m in phone.rig.model.requests[-1].messages if m["role"] == "tool"]
    found: dict[str, Any] = json.loads(result["content"])
    return found


@pytest.mark.parametrize("content", [
    {"photo": PHOTO}, {"photo": PHOTO, "caption": CAPTION}, document("IMG.heic.jpg", "photo"),
])  # fmt: skip
async def test_a_picture_is_looked_at_again(phone: Phone, content: dict[str, Any]) -> None:
    phone.rig.model.queue(SEEN, "Красивый дом!")
    await phone.send(**content)
    phone.rig.model.queue(looking(), "Слева собака.", "Ещё собака.")
    await phone.write("А что ещё на фото?")
    assert phone.last.text == "Ещё собака."
    assert looked(phone) == {"seen": True, "answer": "Слева собака."}
    [words, image] = phone.rig.model.requests[-2].messages[-1]["content"]
    assert "Что ещё на фото?" in str(words) and image["type"] == "image_url"
    purposes = phone.rig.rows("SELECT count(*) FROM model_usage WHERE purpose = 'picture'")
    assert purposes == [(2,)]


async def test_an_earlier_picture_is_looked_at_by_its_place_or_its_message(phone: Phone) -> None:
    phone.fake.state.files["second"] = JPEG + b" of a cat"
    phone.rig.model.queue(SEEN, "Красивый дом!", "Кот.", "Красивый кот!")
    await phone.send(photo=PHOTO)
    await phone.send(photo=[{**PHOTO[1], "file_id": "second"}])
    [(first,)] = phone.rig.rows("SELECT min(id) FROM messages WHERE file_id IS NOT NULL")
    for arguments in ({"back": 1}, {"uid": f"msg-{first}"}, {"uid": f"msg-{first}", "back": 3}):
        phone.rig.model.queue(looking(**arguments), "Дом.", "Дом.")
        await phone.write("Что на первом фото?")
        url = phone.rig.model.requests[-2].messages[-1]["content"][1]["image_url"]["url"]
        assert base64.b64decode(url.partition(",")[2]) == JPEG
    for arguments in ({"back": 2}, {"uid": "msg-999999999"}, {"uid": "x"}):
        phone.rig.model.queue(looking(**arguments), "Нет такого.")
        await phone.write("А на третьем?")
        assert looked(phone) == {"seen": False}


async def test_of_a_picture_that_is_gone_the_description_serves(phone: Phone) -> None:
    phone.rig.model.queue(SEEN, "Красивый дом!", looking(), Reply(status=400), "Дом.")
    await phone.send(photo=PHOTO)
    await phone.write("А что ещё на фото?")
    assert looked(phone) == {"seen": False, "description": SEEN}, "the model refused to look"
    del phone.fake.state.files["photo"]
    phone.rig.model.queue(looking(), "Больше не вижу.")
    await phone.write("А что ещё на фото?")
    assert looked(phone) == {"seen": False, "description": SEEN}


async def test_nobody_looks_at_a_picture_that_was_erased_or_is_another_s(phone: Phone) -> None:
    phone.rig.model.queue(SEEN, "Красивый дом!")
    await phone.send(photo=PHOTO)
    [(first,)] = phone.rig.rows("SELECT min(id) FROM messages WHERE file_id IS NOT NULL")
    phone.rig.model.queue(looking(uid=f"msg-{first}"), "Нет.")
    await phone.fake.send_text(STRANGER, "Что на фото?")
    await phone.work()
    assert looked(phone) == {"seen": False}
    await phone.write("/new")
    phone.rig.model.queue(looking(), "Нет.")
    await phone.write("Что на фото?")
    assert looked(phone) == {"seen": False}
    assert phone.rig.rows("SELECT 1 FROM messages WHERE file_id IS NOT NULL") == []


async def test_the_search_and_the_export_say_whose_words_they_are(phone: Phone) -> None:
    seen, read, forwarded = "Чек: оренда.", "Оренда до травня", "Оренда моя"
    own, language = "Оренда скінчилась", "uk"
    origin = {"type": "hidden_user", "sender_user_name": "Оля", "date": 0}
    phone.fake.state.files["text"] = read.encode()
    phone.rig.model.queue(seen, "1.", "2.", "3.", "4.")
    await phone.send(photo=PHOTO, language_code=language)
    await phone.send(**document("договор.txt"), language_code=language)
    await phone.send(text=forwarded, forward_origin=origin, language_code=language)
    await phone.send(text=own, language_code=language)
    await phone.rig.core.memory.digest.digest_turn(phone.rig.conversation(USER))
    await phone.send(text="/search оренда", language_code=language)
    whose = {
        seen: say("words_of_picture", language),
        read: say("words_of_file", language, name="договор.txt"),
        forwarded: say("words_of_forwarded", language, name="Оля"),
    }
    for text, words in whose.items():
        assert f", {words}: {say('quoted', language, text=text)}" in phone.last.text
    quote = say("quoted", language, text=own)
    assert f"{say('search_you', language)}: {quote}" in phone.last.text
    called = Caller(phone.owner, Preferences(language, "Europe/Moscow"), NOW)
    with phone.rig.core.exports.write_file("md", called).content as file:
        file.seek(0)
        lines = file.read().decode().splitlines()
    for text, words in {**whose, own: say("export_you", language)}.items():
        assert lines[lines.index(f"> {text}") - 1].startswith(f"**{words}** ")


async def test_a_model_that_takes_no_pictures_is_told_of_the_caption(phone: Phone) -> None:
    phone.rig.model.queue(Reply(status=400), "Какой дом?")
    await phone.send(photo=PHOTO, caption=CAPTION)
    assert phone.last.text == f"Какой дом?\n\n{say('picture_unseen', 'ru')}"
    assert phone.heard() == [("typed", CAPTION)]


async def test_a_second_attempt_looks_at_nothing_twice(phone: Phone) -> None:
    phone.rig.model.queue(SEEN, Reply(status=503))
    with pytest.raises(ModelUnavailableError):
        await phone.send(photo=PHOTO, caption=CAPTION)
    phone.rig.model.queue("Поздравляю!")
    assert await phone.work() == ["done"] and len(phone.rig.model.requests) == 3
    assert phone.heard() == [("file", SEEN), ("typed", CAPTION)]


# What is written in files


async def test_a_document_is_read_as_words_of_others(phone: Phone) -> None:
    phone.rig.model.queue("Это договор.")
    await phone.send(**document("договор.txt"))
    assert phone.heard() == [("file", "Срок аренды — до мая")] and phone.facts() == []
    assert phone.last.text == "Это договор."
    await phone.write("/new")
    phone.rig.model.queue("До мая.")
    await phone.send(**document("договор.txt"), caption="До какого срока?")
    assert phone.heard() == [("file", "Срок аренды — до мая"), ("typed", "До какого срока?")]
    asked = str(phone.rig.model.requests[-1].messages)
    assert "договор.txt" in asked and "до мая" in asked


async def test_of_a_long_document_the_beginning_is_read(phone: Phone) -> None:
    phone.fake.state.files["text"] = ("строка\n" * 5000).encode()
    phone.rig.model.queue("Много строк.")
    await phone.send(**document("много.txt"))
    assert len(phone.heard()[0][1]) == MAX_DOCUMENT
    assert phone.last.text.endswith(say("document_cut", "ru", count=MAX_DOCUMENT))


LEASE = {
    "ru": ("договор.txt", "Арендатор платит 30 000 рублей в месяц.", "Сколько платит арендатор?"),
    "uk": ("угода.txt", "Орендар платить 12 000 гривень на місяць.", "Скільки платить орендар?"),
    "en": ("lease.txt", "The tenant pays 900 euros a month.", "How much does the tenant pay?"),
}


@pytest.mark.core(llm_model="offline")
@pytest.mark.parametrize(("language", "count"), [
    ("ru", 20), ("uk", 20), ("en", 20),
    *(pytest.param(language, 400, marks=pytest.mark.proof) for language in LANGUAGES),
])  # fmt: skip
async def test_without_a_model_a_document_is_quoted_where_it_answers(
    phone: Phone, language: Language, count: int
) -> None:
    name, told, question = LEASE[language]
    clauses = "".join(f"{number}. § {number}.{number} !\n" for number in range(count))
    phone.fake.state.files["text"] = f"{clauses}{told}\n{clauses}".encode()
    await phone.send(**document(name), language_code=language)
    read = say("offline_file", language, name=name)
    assert phone.last.text.startswith(read) and phone.facts() == []
    await phone.rig.core.memory.digest.digest_turn(phone.rig.conversation(USER))
    await phone.write(question, language_code=language)
    assert f"{name}: … " in phone.last.text and told in phone.last.text
    assert buttons(phone.last), "it leads to the file"


async def test_a_document_is_found_by_its_name_and_shown_as_a_file(phone: Phone) -> None:
    phone.fake.state.files["text"] = "Багет 2 шт. Итого 180".encode()
    await phone.send(**document("чек из пекарни.txt"))
    await phone.write("Купила цветы")
    memory = phone.rig.core.memory
    await memory.digest.digest_turn(phone.rig.conversation(USER))
    hits = await memory.retriever.search(Query(phone.owner, "что было в том чеке?", NOW))
    assert (hits[0].author.name, hits[0].author.provenance) == ("чек из пекарни.txt", "file")
    record = memory_record(1, hits[0], "Europe/Moscow")
    assert record["from_file"] == "чек из пекарни.txt" and "words_of" not in record


@pytest.mark.parametrize(("content", "key"), [
    (document("a.zip", size=0, file_size=30 << 20), "error_document_too_large"),
    (document("a.pdf", "broken"), "error_document_broken"),
    (document("gone.txt", "gone"), "error_document_broken"),
    (document("lost.txt", "lost"), "error_document_broken"),
    (document("big.txt", "big"), "error_document_too_large"),
    (document("empty.txt", "empty"), "error_document_without_text"),
])  # fmt: skip
async def test_a_file_that_cannot_be_read_gets_its_sentence(
    phone: Phone, content: dict[str, Any], key: str
) -> None:
    phone.fake.state.files |= {
        "broken": b"%PDF-1.7 nothing", "big": b"x" * (21 << 20), "empty": b"", "lost": b"x",
    }  # fmt: skip
    phone.fake.state.lost_files = {"lost"}
    assert await phone.send(**content) == ["explained"]
    assert phone.last.text == say(key, "ru") and phone.heard() == []
    assert phone.rig.model.requests == []


async def test_a_file_that_does_not_come_is_fetched_again(phone: Phone) -> None:
    phone.fake.fail_next("getFile", status=502)
    with pytest.raises(DeliveryError):
        await phone.send(**document("договор.txt"))
    assert await phone.work() == ["done"] and phone.heard()


# Everything else


@pytest.mark.core(llm_model="offline")
@pytest.mark.parametrize(("content", "key"), [
    (voice(), "sound_unheard"), ({"photo": PHOTO}, "picture_unseen"),
    (document("scan.png", "photo"), "picture_unseen"),
    (document("x.opus", "voice"), "sound_unheard"),
    ({"story": {"chat": {"id": 5, "type": "private"}, "id": 1}}, "unseen_story"),
])  # fmt: skip
async def test_without_a_model_a_sentence_says_what_is_missing(
    phone: Phone, content: dict[str, Any], key: str
) -> None:
    phone.fake.state.files["voice"] = b"OggS\0\2"
    await phone.send(**content)
    assert phone.last.text == say(key, "ru") and phone.heard() == []


# Recordings are known by what they hold, and the speech model is sent a name of ours


OGG, M4A = b"OggS\0\2", b"\0\0\0\x20ftypM4A \0\0"


@pytest.mark.parametrize(("content", "start", "ending"), [
    ({"document": "voice.opus"}, OGG, "ogg"), ({"document": "report.pdf"}, OGG, "ogg"),
    ({"document": None}, M4A, "m4a"), ({"document": "a.bin"}, b"ID3\4\0", "mp3"),
    ({"audio": "x"}, b"\xff\xfb\x90\0\0\0", "mp3"), ({"audio": "x"}, b"\xff\xf3\x40\xc0\0", "mp3"),
    ({"document": "x.txt"}, b"RIFF\0\0\0\0WAVEfmt ", "wav"), ({"audio": "x"}, b"fLaC\0", "flac"),
    ({"video_note": None}, b"\0\0\0\x20ftypisom\0\0", "mp4"), ({"audio": "x"}, b"#!AMR\n", "amr"),
    ({"audio": "x"}, b"\x1aE\xdf\xa3\1", "webm"), ({"audio": "x"}, b"\xff\xf1\x50\x80\0", "aac"),
    ({"audio": "../../etc/passwd"}, OGG, "ogg"), ({"audio": "голос"}, OGG, "ogg"),
    ({"voice": None}, M4A, "m4a"),
])  # fmt: skip
async def test_a_recording_is_heard_whatever_its_name(
    phone: Phone, content: dict[str, Any], start: bytes, ending: str
) -> None:
    phone.fake.state.files["sound"] = start + SPEECH.encode()
    [(kind, name)] = content.items()
    file = {"file_id": "sound", "file_unique_id": "d", "duration": 3, "length": 240}
    assert await phone.send(**{kind: {**file, "file_name": name, "mime_type": "x/y"}}) == ["done"]
    assert phone.heard()[-1][0] == "typed" and SPEECH in phone.heard()[-1][1]
    assert phone.rig.model.transcribed[-1][0] == f"recording.{ending}"


@pytest.mark.parametrize("data", [
    "является".encode("cp1251"), "ятаган".encode("cp1251"), "привет".encode("utf-16"), b"ID: 5",
    b"", b"%PDF-1.7", b"PK\3\4", b"\xff\xd8\xff\xe0", b"\0\0\0\x20ftypheic\0\0",
    b"\0\0\0\x20ftypavif", b"RIFF\0\0\0\0WEBP", b"RIFF\0\0\0\0AVI ",
])  # fmt: skip
def test_texts_and_pictures_are_no_recordings(data: bytes) -> None:
    assert sound_ending(data) is None
