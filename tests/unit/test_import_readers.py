"""Readers of other programs' files, with every trap of their formats."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, BinaryIO, cast

import pytest

from src.base.zones import local_time
from src.imports import files
from src.imports.files import UnreadableFileError
from src.imports.formats import read_file
from src.imports.records import Broken, Opened, Reading, Record

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
READING = Reading(123, "Europe/Kyiv", NOW)
Json = dict[str, Any]


def opened(content: str | bytes, name: str = "file") -> Opened:
    data = content.encode() if isinstance(content, str) else content
    return Opened(name, lambda: cast("BinaryIO", io.BytesIO(data)))


def zipped(entries: dict[str, str | bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            info = zipfile.ZipInfo(name)  # always of the same time
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
    return target.getvalue()


def read(content: str | bytes, name: str = "file") -> list[Record]:
    return [one for one in read_file(opened(content, name), READING) if isinstance(one, Record)]


def broken(content: str | bytes, name: str = "file") -> list[str]:
    return [
        one.title for one in read_file(opened(content, name), READING) if isinstance(one, Broken)
    ]


def texts(content: str | bytes, name: str = "file", kind: str = "message") -> list[str]:
    return [one.text for one in read(content, name) if one.kind == kind]


def node(parent: str | None, role: str, *parts: Any, **changes: Any) -> Json:
    message = {
        "author": {"role": role, "name": None},
        "content": {"content_type": "text", "parts": list(parts)},
        "recipient": "all",
        "metadata": {},
        **changes,
    }
    return {"message": message, "parent": parent}


def conversation(**changes: Any) -> Json:
    mapping = {
        "root": {"message": None, "parent": None, "children": ["a"]},
        "a": node("root", "system", ""),
        "profile": node(
            "a", "user", "My profile",
            content={"content_type": "user_editable_context", "user_profile": "I am secret"},
            metadata={"is_visually_hidden_from_conversation": True},
        ),
        "hidden": node(
            "profile", "user", "hidden words",
            metadata={"is_visually_hidden_from_conversation": True},
        ),
        "context": node(
            "hidden", "system",
            content={
                "content_type": "model_editable_context",
                "model_set_context": "1. [2024-05-03]. User has a dog named Rex.\n"
                                     "2. [2024-06-01]. User is a nurse.",
            },
        ),
        "q": node("context", "user", "Where do I live? I live in Kyiv", create_time=1714731000.5),
        "abandoned": node("q", "assistant", "an abandoned answer"),
        "abandoned_q": node("abandoned", "user", "an abandoned question"),
        "bio": node("q", "assistant", "User lives in Kyiv.", recipient="bio"),
        "ans": node("bio", "assistant", "Noted"),
        "q2": node(
            "ans", "user", {"content_type": "image_asset_pointer", "asset_pointer": "x"},
            "And this picture?",
            content={"content_type": "multimodal_text", "parts": [
                {"content_type": "image_asset_pointer", "asset_pointer": "file://x"},
                "And this picture?",
                {"content_type": "audio_transcription", "text": "said aloud"},
            ]},
        ),
        "code": node("q2", "assistant", content={"content_type": "code", "text": "print()"}),
    }  # fmt: skip
    return {
        "title": "Home",
        "create_time": 1714730000,
        "conversation_id": "c1",
        "current_node": "code",
        "mapping": mapping,
        **changes,
    }


CHATGPT = json.dumps([conversation()])


def test_chatgpt_reads_the_users_own_words_of_the_current_branch() -> None:
    assert texts(CHATGPT) == ["Where do I live? I live in Kyiv", "And this picture?\nsaid aloud"]
    question = read(CHATGPT)[0]
    assert (question.title, question.conversation) == ("Home", "c1")
    assert question.said_at == datetime.fromtimestamp(1714731000.5, UTC)


def test_chatgpt_offers_what_it_remembered_with_its_dates() -> None:
    found = [(one.text, one.said_at) for one in read(CHATGPT) if one.kind == "memory"]
    assert [text for text, _ in found] == [
        "User has a dog named Rex.", "User is a nurse.", "User lives in Kyiv.",
    ]  # fmt: skip
    assert found[0][1] == datetime(2024, 5, 3, 12, tzinfo=UTC)


def shown(text: str, day: int) -> Json:
    content = {"content_type": "model_editable_context", "model_set_context": text}
    return node(None, "system", content=content, create_time=1714731000 + day * 86400)


def test_of_chatgpts_lists_of_memories_the_newest_counts_and_what_came_after_it() -> None:
    older = shown("1. [2024-03-02]. Is vegetarian.\n\n2. [2024-03-03]. Buys an oven.", 0)
    newer = shown("1. [2024-03-03]. Buys an oven.\n\n2. [2024-03-04]. Builds with:\n- JDK 21", 9)
    late = node("newer", "assistant", "Has a cat.", recipient="bio", create_time=1716000000)
    early = node("a", "assistant", "Was told before.", recipient="bio", create_time=1714731001)
    order = node("late", "assistant", "Forget that the user buys an oven.", recipient="bio",
                 create_time=1716000001)  # fmt: skip
    mapping = {
        "newer": newer | {"parent": "a"}, "late": late, "order": order, "a": older, "b": early,
        "empty": shown("", 20) | {"parent": "order"},
    }  # fmt: skip
    content = json.dumps([conversation(mapping=mapping, current_node="empty")])
    assert texts(content, "", "memory") == [
        "Buys an oven.",
        "Builds with:\n- JDK 21",
        "Has a cat.",
    ]


@pytest.mark.parametrize("nothing", [0, None, 0.0])
def test_a_message_without_a_time_is_of_its_conversation_s(nothing: float | None) -> None:
    mapping = {"q": node(None, "user", "words", create_time=nothing)}
    [one] = read(json.dumps([conversation(mapping=mapping, current_node="q")]))
    assert one.said_at == datetime.fromtimestamp(1714730000, UTC)


def test_nodes_without_parents_are_in_the_order_of_their_times() -> None:
    mapping = {
        name: {"message": node(None, "user", name, create_time=time)["message"]}
        for name, time in (("second", 1714731002), ("first", 1714731001))
    }
    content = json.dumps([conversation(mapping=mapping, current_node="lost")])
    assert texts(content) == ["first", "second"]


@pytest.mark.parametrize("wrong", [
    None, 7, "text", {"title": "Bad"}, {"title": "Bad", "mapping": None},
    {"title": "Bad", "mapping": [1]}, {"title": "Bad", "mapping": {"a": 7}, "current_node": "a"},
])  # fmt: skip
def test_one_bad_conversation_loses_only_itself(wrong: Any) -> None:
    good = conversation(conversation_id="c2", title="Good")
    content = json.dumps([conversation(), wrong, good])
    assert len(texts(content)) == 4
    if isinstance(wrong, dict) and wrong.get("mapping", 0) != {"a": 7}:
        assert broken(content) == ["Bad"]


def test_chatgpt_reads_parts_a_loop_and_a_missing_current_node() -> None:
    parts = {
        "conversations-000.json": CHATGPT,
        "conversations-001.json": json.dumps([conversation(conversation_id="c2")]),
        "user.json": '{"id": "u", "email": "me@example.com"}',
        "message_feedback.json": '[{"id": "f", "content": "{}"}]',
        "chat.html": "<html>all of it</html>",
        "dalle/pic.png": b"\x89PNG",
    }
    assert len(texts(zipped(parts))) == 4
    looping = conversation()
    looping["mapping"]["q"]["parent"] = "code"
    assert len(texts(json.dumps([looping]))) == 2
    lost = conversation(current_node=None)
    for number, one in enumerate(lost["mapping"].values()):
        if one["message"]:
            one["message"].setdefault("create_time", 1714731001 + number)
    del lost["mapping"]["abandoned_q"], lost["mapping"]["abandoned"]
    assert "And this picture?\nsaid aloud" in texts(json.dumps([lost]))


def test_a_file_that_breaks_off_keeps_what_came_before() -> None:
    content = json.dumps([conversation(), conversation(conversation_id="c2")])
    assert len(texts(content[:-200])) == 2
    assert broken(content[:-200]) == ["file"]


@pytest.mark.parametrize("unit", ["слово ", "слово", 'he said "no", then\\', "line\n", "\\"])
@pytest.mark.parametrize("is_ascii", [True, False])
def test_a_string_that_is_far_too_long_is_cut(
    monkeypatch: pytest.MonkeyPatch, unit: str, is_ascii: bool
) -> None:
    monkeypatch.setattr(files, "MAX_STRING", 100_000)
    monkeypatch.setattr(files, "MAX_HELD", 100_000)
    long = conversation(mapping={"q": node(None, "user", unit * 120_000)})
    content = json.dumps([long, conversation(conversation_id="c2")], ensure_ascii=is_ascii)
    first, *others = texts(content)
    assert 5_000 < len(first) < 500_000 and first in (unit * 120_000).strip()
    assert others == texts(CHATGPT) and broken(content) == []


def damaged(archive: bytes, name: str) -> bytes:
    """The archive with wrong bytes in one entry."""
    start = archive.index(name.encode()) + len(name) + 20
    return archive[:start] + bytes(20) + archive[start + 20 :]


@pytest.mark.parametrize(("name", "left"), [
    ("a.json", {"notes", "mem0"}), ("b.md", {"chatgpt", "notes", "mem0"}),
    ("c.jsonl.gz", {"chatgpt", "notes"}),
])  # fmt: skip
def test_a_damaged_entry_loses_only_itself(name: str, left: set[str]) -> None:
    archive = zipped({
        "a.json": CHATGPT, "b.md": "Built a boat, " + CHATGPT, "d.md": "Rowed to the island",
        "c.jsonl.gz": gzip.compress(json.dumps({"content": CHATGPT}).encode()),
    })  # fmt: skip
    found = list(read_file(opened(damaged(archive, name), "a.zip"), READING))
    assert [one for one in found if isinstance(one, Broken)] == [Broken(name, is_end=True)]
    assert {one.source for one in found if isinstance(one, Record)} == left


def test_an_entry_packed_in_an_unknown_way_loses_only_itself() -> None:
    archive = zipped({"a.json": CHATGPT, "d.md": "Rowed to the island"})
    method = archive.index(b"PK\x01\x02") + 10
    packed = archive[:8] + b"\x09\x00" + archive[10:method] + b"\x09\x00" + archive[method + 2 :]
    assert broken(packed, "a.zip") == ["a.json"]
    assert texts(packed, "a.zip") == ["Rowed to the island"]


CLAUDE = {
    "conversations.json": json.dumps([
        {
            "uuid": "c1", "name": "Trip", "created_at": "2025-01-02T03:04:05.123456Z",
            "chat_messages": [
                {
                    "uuid": "m1", "sender": "human", "text": "",
                    "content": [
                        {"type": "thinking", "thinking": "hm"},
                        {"type": "text", "text": "I fly to Rome"},
                        {"type": "tool_result", "content": "no"},
                    ],
                    "created_at": "2025-01-02T03:05:00Z",
                    "attachments": [
                        {"file_name": "", "extracted_content": "a pasted plan"},
                        {"file_name": "report.pdf", "extracted_content": "words of a report"},
                    ],
                    "files": [],
                },
                {"uuid": "m2", "sender": "assistant", "text": "Nice", "content": []},
                {"uuid": "m3", "sender": "human", "text": "Yes", "content": None},
            ],
        },
        {"uuid": "c2", "name": "Bad", "chat_messages": None},
    ]),
    "memories.json": json.dumps([{
        "conversations_memory":
            "**Work**\n\nAnna is a nurse. She works nights.\n\n- Rows\n\nShe sails.\n",
        "project_memories": {"p1": "Anna builds a boat"}, "account_uuid": "x",
    }]),
    "projects.json": json.dumps([{
        "uuid": "p1", "name": "Boat", "description": "My boat", "prompt_template": "Be brief",
        "created_at": "2025-02-02T00:00:00Z",
        "docs": [{"uuid": "d1", "filename": "plan.md", "content": "Ten planks"}],
    }]),
    "users.json": json.dumps([{"uuid": "u", "full_name": "Anna"}]),
}  # fmt: skip


def test_claude_reads_blocks_attachments_memories_and_projects() -> None:
    found = read(zipped(CLAUDE))
    own = [one.text for one in found if one.kind == "message" and not one.details]
    assert own == ["I fly to Rome\na pasted plan", "Yes"]
    files_ = [(one.details["origin"], one.text) for one in found if one.details]
    assert files_ == [
        ("report.pdf", "words of a report"), ("Boat", "My boat"), ("Boat", "Be brief"),
        ("plan.md", "Ten planks"),
    ]  # fmt: skip
    memories = [one.text for one in found if one.kind == "memory"]
    assert memories == [
        "Anna is a nurse. She works nights.", "Rows", "She sails.", "Anna builds a boat",
    ]  # fmt: skip
    assert broken(zipped(CLAUDE)) == ["Bad"]
    assert found[0].said_at == datetime(2025, 1, 2, 3, 5, tzinfo=UTC)


def test_of_claudes_edited_question_the_later_one_counts() -> None:
    root = "00000000-0000-4000-8000-000000000000"
    messages = [
        {"uuid": id_, "sender": sender, "text": id_, "parent_message_uuid": parent}
        for id_, sender, parent in (
            ("first", "human", root), ("an answer", "assistant", "first"),
            ("replaced", "human", "an answer"), ("another", "assistant", "replaced"),
            ("edited", "human", "an answer"), ("last", "assistant", "edited"),
        )
    ]  # fmt: skip
    content = [{"uuid": "c", "name": "x", "chat_messages": messages}]
    assert texts(json.dumps(content)) == ["first", "edited"]
    starter = {"uuid": "p", "name": "How to", "is_starter_project": True, "docs": [],
               "prompt_template": "General tips"}  # fmt: skip
    assert texts(json.dumps([starter]), "projects.json") == []


def test_of_lists_of_memories_in_several_parts_the_newest_counts() -> None:
    newer = conversation(mapping={"s": shown("1. [2025-10-01]. Lives in Lviv.", 9)})
    older = conversation(conversation_id="c2", mapping={
        "s": shown("1. [2024-01-01]. Lives in Poltava.", 0),
        "b": node("s", "assistant", "Has a parrot.", recipient="bio", create_time=1714731001),
    })  # fmt: skip
    parts = {"conversations-000.json": newer, "conversations-001.json": older}
    archive = zipped({name: json.dumps([one]) for name, one in parts.items()})
    assert texts(archive, "export.zip", "memory") == ["Lives in Lviv."]


def test_gemini_of_takeout_has_the_prompts_alone() -> None:
    acts = [
        {"header": header, "title": title, "time": "2026-03-04T05:06:07.123Z",
         "products": [header], "activityControls": ["x"], **answer}
        for header, title, answer in (
            ("Gemini Apps", "Prompted my sister is a nurse", {"safeHtmlItem": [{"html": "<p>"}]}),
            ("Gemini Apps", "Gave feedback: Good response", {}),
            ("Приложения Gemini", "Моя сестра врач", {"safeHtmlItem": [{"html": "<p>"}]}),
            ("Search", "Searched for flights", {}),
        )
    ]  # fmt: skip
    acts.insert(1, {"header": "Gemini Apps", "title": "Bad"})
    archive = zipped({"Takeout/My Activity/Gemini Apps/MyActivity.json": json.dumps(acts)})
    assert texts(archive, "takeout.zip") == ["my sister is a nurse", "Моя сестра врач"]
    assert broken(archive, "takeout.zip") == ["Bad"]
    assert read(archive)[0].said_at == datetime(2026, 3, 4, 5, 6, 7, 123000, tzinfo=UTC)


ONE_CHAT = r"""{
 "name": "Olha", "type": "personal_chat", "id": 4242,
 "messages": [
  {"id": 1, "type": "service", "date": "2024-05-01T10:00:00", "actor": "Olha", "action": "phone_call", "actor_id": "user9"},
  {"id": 2, "type": "message", "date": "2024-05-01T10:00:00", "date_unixtime": "1714546800", "from": "Me", "from_id": "user123", "text": "hello \xd0\x96 and \x41", "text_entities": []},
  {"id": 3, "type": "message", "date": "2024-05-01T10:01:00", "date_unixtime": "1714546860", "from": null, "from_id": "user9", "text": "from a deleted account", "text_entities": []},
  {"id": 4, "type": "message", "date": "2024-05-01T10:02:00", "from": "Me", "from_id": "user123", "text": ["see ", {"type": "link", "text": "https://x.org", "href": "h"}, " please"],
   "text_entities": [{"type": "custom_emoji", "text": "x", "document_id": stickers/AnimatedSticker.tgs
   }]},
  {"id": 5, "type": "message", "date": "2024-05-01T10:03:00", "from": "Me", "from_id": "user123", "forwarded_from": null, "text": "a forwarded word"},
  {"id": 6, "type": "message", "date": "2024-05-01T10:04:00", "from": "Me", "from_id": "user123", "via_bot": "@gif", "text": "of a bot"},
  {"id": 7, "type": "message", "date": "2024-05-01T10:05:00", "from": "Me", "from_id": "user123", "photo": "(File not included. Change data exporting settings to download.)", "text": ""}
 ]
}"""  # noqa: E501


def test_telegram_reads_only_what_the_user_wrote() -> None:
    own = [one for one in read(ONE_CHAT) if not one.who]
    assert [one.text for one in own] == ["hello Ж and A", "see https://x.org please"]
    assert own[0].said_at == datetime.fromtimestamp(1714546800, UTC)
    assert own[1].said_at == datetime(2024, 5, 1, 7, 2, tzinfo=UTC)  # 10:02 in Kyiv
    assert (own[0].title, own[0].source_id) == ("Olha", "4242:2")
    others = [(one.who, one.text) for one in read(ONE_CHAT) if one.who]
    assert others == [("user9", "from a deleted account")]


def test_telegram_reads_all_chats_as_the_one_who_exported_them() -> None:
    message = {"id": 1, "type": "message", "date": "2024-05-01T10:00:00", "text": "mine"}
    chats = [
        {"name": "A", "type": "personal_chat", "id": 1,
         "messages": [{**message, "from_id": "user77"}, {**message, "id": 2, "from_id": "user5"},
                      {**message, "id": 3, "from_id": "channel77"}]},
        {"type": "saved_messages", "id": 77, "messages": [{**message, "from_id": "user77"}]},
        {"name": "Bad", "type": "personal_chat", "id": 3,
         "messages": [{"type": "message", "from_id": "user77", "text": "no date", "id": 1}]},
    ]  # fmt: skip
    export = {
        "about": "x", "personal_information": {"user_id": 77, "first_name": "Me"},
        "contacts": {"list": [{"name": "A", "date": "x"}]},
        "chats": {"about": "y", "list": chats}, "left_chats": {"list": []},
    }  # fmt: skip
    content = json.dumps(export).replace("77", "123")
    own = [(one.title, one.conversation) for one in read(content) if not one.who]
    assert own == [("A", "1"), ("Saved Messages", "123")]
    assert broken(content) == ["Bad"]
    assert [one.who for one in read(json.dumps(export))] == ["user77", "user5", "user77"]
    in_folder = zipped({"DataExport/result.json": content, "DataExport/a.html": "<html>"})
    assert len(read(in_folder)) == 3


WHATSAPP = (
    "\u200e[13/05/2024, 9:15:02\u202fPM] Anna: \u200eMessages are end-to-end encrypted.\n"
    "[13/05/2024, 9:15:02\u202fPM] Anna: Hello\nsecond line: with a colon\n"
    "\u200e[13/05/2024, 9:16:00\u202fPM] Boris: \u200eimage omitted\n"
    "[14/05/2024, 12:00:00\u202fAM] ~\u202fBoris: midnight \u200e<This message was edited>\n"
    "\u200e[14/05/2024, 12:01:00\u202fAM] Anna: our house \u200e<attached: 3-PHOTO.jpg>\n"
    "\u200e[14/05/2024, 12:02:00\u202fAM] Anna: our cat \u200eimage omitted\n"
)


def test_whatsapp_of_an_iphone() -> None:
    found = read(WHATSAPP, "_chat.txt")
    assert [(one.who, one.text) for one in found] == [
        ("Anna", "Hello\nsecond line: with a colon"), ("Boris", "midnight"),
        ("Anna", "our house"), ("Anna", "our cat"),
    ]  # fmt: skip
    assert found[0].said_at == datetime(2024, 5, 13, 18, 15, 2, tzinfo=UTC)
    assert found[1].said_at == datetime(2024, 5, 13, 21, 0, tzinfo=UTC)


@pytest.mark.parametrize(("lines", "days"), [
    (["05/13/24, 10:00 - A: x"], [13]),
    (["5/6/24, 10:00 p. m. - A: x", "13/6/24, 10:00 - A: x"], [5, 13]),
    (["01/02/2024, 10:00 - A: x", "02/02/2024, 10:00 - A: x", "01/03/2024, 10:00 - A: x"],
     [1, 2, 1]),
    (["05.06.2024, 10:00 - A: x"], [5]),
    (["2024-06-05, 10:00 - A: x"], [5]),
    (["05/05/24, 10:00 - A: x"], [5]),
])  # fmt: skip
def test_whatsapp_decides_the_order_of_day_and_month_over_the_whole_file(
    lines: list[str], days: list[int]
) -> None:
    found = read("\n".join(lines), "WhatsApp Chat with A.txt")
    assert [one.said_at.day for one in found if one.said_at] == days
    assert all("other_order" not in one.details for one in found)


@pytest.mark.parametrize(("clock", "hours"), [
    ("9:02:11\u202fAM", 6), ("9:02:11 p. m.", 18), ("9:02:11 дп", 6), ("9:02:11 пп", 18),
    ("12:02:11 дп", 21), ("21:02:11", 18),
])  # fmt: skip
def test_whatsapp_has_clocks_of_twelve_hours(clock: str, hours: int) -> None:
    [one] = read(f"[2024-06-15, {clock}] Оля: кава <Сообщение изменено>", "_chat.txt")
    assert one.said_at is not None and one.said_at.hour == hours
    assert one.text == "кава"


def test_whatsapp_has_one_form_of_lines_in_a_file() -> None:
    plan = "план:\n14.05.2024 10:00 - музей\n15.05.2024 11:00 - пляж"
    second = "13.05.2024, 21:16 - Бо: @\u2068Дана\u2069"
    cut = f"конец другого\n13.05.2024, 21:15 - Дана: {plan}\n{second}"
    assert texts(cut, "chat.txt") == [plan, "@Дана"]
    french = "31/05/2024 à 21:15 - Дана: привіт\n31/05/2024 à 21:16 - Бо: люблю <3"
    assert texts(french, "chat.txt") == ["привіт", "люблю <3"]
    german = "13.05.24, 21:18 - Дана: кава <Diese Nachricht wurde bearbeitet.>"
    assert texts(german, "chat.txt") == ["кава"]


def test_whatsapp_asks_where_nothing_tells_the_order() -> None:
    [one] = read("05/06/2024, 10:00 - Anna: x", "a.txt")
    assert one.said_at == datetime(2024, 6, 5, 7, tzinfo=UTC)
    assert one.details["other_order"] == "2024-05-06T07:00:00+00:00"


@pytest.mark.parametrize("text", [
    "<Media omitted>", "<Без медиафайлов>", "<Медіафайли пропущено>", "<Multimedia omitido>",
    "IMG-20240513-WA0001.jpg (file attached)", "PTT-1.opus (файл добавлен)",
    "This message was deleted", "Вы удалили данное сообщение", "Це повідомлення видалено",
    "\u200eфото отсутствует", "Это сообщение удалено", "null", "<Сообщение изменено>",
    "План отпуска.pdf (файл добавлен)", "Договор.pdf • \u200e3 стр. \u200eдокумент отсутствует",
    "Аудиозвонок, 5 мин", "Diese Nachricht wurde gelöscht.", "Live location shared",
    "\u200eОПРОС:\n\u200eВАРИАНТ: Рим (1 голос)", "\u200eАудиозвонок. \u200e5 мин",
    "Ожидание сообщения. Это может занять некоторое время.",
])  # fmt: skip
def test_whatsapp_leaves_out_the_words_of_the_program(text: str) -> None:
    content = f"13.05.2024, 10:00 - Анна: {text}\n13.05.2024, 10:01 - Анна: слово"
    assert texts(content, "chat.txt") == ["слово"]


def test_the_same_words_twice_in_a_minute_are_two_messages() -> None:
    line = "13.05.2024, 10:00 - Анна: ага\n"
    ids = {one.source_id for one in read(line * 2, "chat.txt")}
    assert len(ids) == 2
    assert ids == {one.source_id for one in read(line * 2, "Чат WhatsApp с Анна (1).txt")}
    assert len(read(zipped({"Чат WhatsApp с Анна.txt": line}), "Чат.zip")) == 1


PASTED = """Here is what I know about you:

**Personal**
- Name: Anna
- Lives in **Kyiv**,
  near the river
* [2024-03-05] - Has a dog named Rex
1. Works as a nurse (2025-01-02)

## Likes
• Tea without sugar. — Evidence: "no sugar". Date: [2025-02-03]
"""


def test_a_pasted_list_is_what_is_to_be_confirmed() -> None:
    found = [one for one in read(PASTED, "") if one.kind == "memory"]
    assert [one.text for one in found] == [
        "Name: Anna", "Lives in Kyiv, near the river", "Has a dog named Rex",
        "Works as a nurse", "Tea without sugar.",
    ]  # fmt: skip
    assert [one.said_at.date().isoformat() for one in found if one.said_at] == [
        "2024-03-05", "2025-01-02", "2025-02-03",
    ]  # fmt: skip
    assert len(read(PASTED, "gemini.md")) == len(read(PASTED, "memory.txt")) == len(found)


GEMINI = """Demographics Information

The user's name is Marta.
- Evidence: User said "call me Marta". Date: [2026-01-05].

The user lives in Graz.
- Evidence: User said "here in Graz". Date: [2026-02-06].
"""


@pytest.mark.parametrize(("pasted", "entries"), [
    (GEMINI, ["The user's name is Marta.", "The user lives in Graz."]),
    ("1. Demographics\n- Is Marta\n- Lives in Graz\n\n2. Interests\n- Likes curling",
     ["Is Marta", "Lives in Graz", "Likes curling"]),
    ("| Тема | Факт | Дата |\n|:--|:--:|--:|\n| Работа | Пекарь | 2025-04-01 |\n| Дочь | Варя |",
     ["Работа: Пекарь", "Дочь: Варя"]),
    ("- **Работа:**\n  - Пекарь\n  - Встаёт в 4\n- Живёт в Твери",
     ["Работа: Пекарь", "Работа: Встаёт в 4", "Живёт в Твери"]),
    ("> - Работает пекарем\n>   - с 2019 года\n> - Поёт",
     ["Работает пекарем: с 2019 года", "Поёт"]),
    ("1. Работа\n   - Пекарь.\n2. Семья\n   - Варя", ["Работа: Пекарь.", "Семья: Варя"]),
    ("| # | Факт |\n|---|---|\n| 1 | Пекарь |\n| 2 | Возраст | 36 |", ["Пекарь", "Возраст: 36"]),
    ("### Work\nYou are a baker in Tver.\n\nYou rise at 4.\n\n### Family\n- Daughter Varya\n\n"
     "Want me to update anything?",
     ["You are a baker in Tver.", "You rise at 4.", "Daughter Varya"]),
    ("You live in Leeds. You have a dog.", ["You live in Leeds. You have a dog."]),
    ("Вас звати Соломія.\nВи граєте на бандурі.\nЩось змінити?",
     ["Вас звати Соломія.", "Ви граєте на бандурі."]),
    ("🏠 Дом\n+ Живёт в Твери\n+ Снимает двушку", ["Живёт в Твери", "Снимает двушку"]),
    ("Sure! Here is what I know.\n\n- Drives a Skoda\n- Has a sister\n\nTell me to forget any.",
     ["Drives a Skoda", "Has a sister"]),
])  # fmt: skip
def test_an_answer_of_an_assistant_is_a_list_in_any_form(pasted: str, entries: list[str]) -> None:
    assert texts(pasted, "", "memory") == entries
    assert texts(pasted, "answer.txt", "memory") == entries


def test_an_entry_is_of_the_date_in_its_brackets() -> None:
    pasted = (
        "- [5 березня 2024] Грає\n- Пекарь [15 июня 2025]\n[2025-01] - Began\n[unknown] - Sails\n"
        "- Married (12 June 2015)"
    )
    found = [(one.text, one.said_at and f"{one.said_at:%F}") for one in read(pasted, "")]
    assert found == [
        ("Грає", "2024-03-05"), ("Пекарь", "2025-06-15"), ("Began", "2025-01-01"), ("Sails", None),
        ("Married (12 June 2015)", None),
    ]  # fmt: skip


def test_a_fenced_list_and_plain_lines() -> None:
    fenced = "```\n[unknown] - Likes tea\n[2025-01-01] - Has a cat\n```"
    assert texts(fenced, "", "memory") == ["Likes tea", "Has a cat"]
    assert texts("Likes tea\nHas a cat", "me.txt", "memory") == ["Likes tea", "Has a cat"]


def test_numbers_that_json_has_not_lose_nothing() -> None:
    row = '{"id": "%s", "memory": "%s", "score": %s}'
    likes, says = row % (1, "Likes rye", "NaN"), row % (2, '\\": NaN, and -Infinity', "-Infinity")
    content = f'{{"results": [{likes}, {says}]}}'
    assert texts(content, "x", "memory") == ["Likes rye", '": NaN, and -Infinity']


def test_mem0_and_openmemory() -> None:
    rows = [
        {"id": "1", "memory": "Likes tea", "hash": "h", "created_at": "2024-07-01T00:00:00-07:00",
         "metadata": None, "user_id": "u"},
        {"id": "2", "memory": None}, {"id": "3", "memory": "Gone", "event": "DELETE"}, 7,
    ]  # fmt: skip
    assert texts(json.dumps(rows), "x", "memory") == ["Likes tea"]
    for name in ("results", "items"):
        assert texts(json.dumps({name: rows}), "x", "memory") == ["Likes tea"]
    states = [
        {"id": "a", "content": "Has a cat", "state": "active", "created_at": 1719792000},
        {"id": "b", "content": "Was deleted", "state": "deleted", "created_at": 1719792000},
    ]
    whole = {"user": {"id": "u"}, "apps": [], "categories": [], "memories": states}
    lines = gzip.compress("\n".join(json.dumps(one) for one in states).encode())
    archive = zipped({"memories.json": json.dumps(whole), "memories.jsonl.gz": lines})
    found = read(archive)
    assert {one.text for one in found} == {"Has a cat"}
    assert len({one.source_id for one in found}) == 1
    assert texts(lines, "memories.jsonl.gz", "memory") == ["Has a cat"]
    one, two = json.dumps({"content": "One"}), json.dumps({"content": "Two"})
    cut = f'{one}\n{{"content": "bro\n\n{two}'
    assert texts(cut, "memories.jsonl", "memory") == ["One", "Two"]
    assert len(broken(cut, "memories.jsonl")) == 1


def vault() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in {
            "Vault/Daily/2024-05-13.md": "Met [[Anna Petrova|Anna]] and ![[photo.png]] [[Rome]]",
            "Vault/Idea.md": "---\ntags: [boat]\ndate: 2023-01-02\n---\nBuild a boat",
            "Vault/Bad.md": "---\ntags: [unclosed\nno end of it",
            "Vault/.obsidian/app.md": "settings", "Vault/.trash/old.md": "gone",
            "Vault/Templates/day.md": "{{date}}", "__MACOSX/Vault/._Idea.md": "x",
            "Vault/logseq/bak/pages/old.md": "old",
        }.items():  # fmt: skip
            archive.writestr(zipfile.ZipInfo(name, (2022, 3, 4, 10, 0, 0)), content)
        link = zipfile.ZipInfo("Vault/link.md")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    return target.getvalue()


def test_an_obsidian_vault() -> None:
    found = {one.title: one for one in read(vault(), "vault.zip")}
    assert {title: one.text for title, one in found.items()} == {
        "2024-05-13": "Met Anna and photo.png Rome",
        "Idea": "tags: [boat]\ndate: 2023-01-02\n\nBuild a boat",
        "Bad": "---\ntags: [unclosed\nno end of it",
    }
    days = {title: one.said_at.date().isoformat() for title, one in found.items() if one.said_at}
    assert days == {"2024-05-13": "2024-05-13", "Idea": "2023-01-02", "Bad": "2022-03-04"}


def test_a_vault_of_windows_with_a_folder_of_templates_and_days_of_its_own() -> None:
    data = zipped({
        "Diary/03.05.2024.md": "roofed the sauna", "Patterns/Day.md": "{{date}}",
        "X/Health.md": "pressure", ".obsidian/templates.json": '{"folder": "Patterns"}',
    })  # fmt: skip
    for encoding in ("cp866", "cp1251"):
        health = "Здоровье".encode(encoding)
        named = data.replace(b"X/Health", health)  # a name of eight bytes, not marked as UTF-8
        found = {one.title: one for one in read(named, "vault.zip")}
        assert set(found) == {"03.05.2024", "Здоровье"}
    assert found["03.05.2024"].said_at == datetime(2024, 5, 3, 9, tzinfo=UTC)


@pytest.mark.parametrize(("name", "properties", "day"), [
    ("May 15th, 2024.md", "", "2024-05-15"), ("17 мая 2024.md", "", "2024-05-17"),
    ("202405131030 Boat.md", "", "2024-05-13"), ("Daily/2024/05/14.md", "", "2024-05-14"),
    ("a.md", "date: 2024-05-13", "2024-05-13"), ("a.md", "date: 13.07.2024", "2024-07-13"),
    ("a.md", 'created: "[[2024-05-13]]"', "2024-05-13"),
    ("a.md", "creation date: 2024-06-14 23:30", "2024-06-14"),
    ("a.md", "date modified: 2026-01-01\ndate created: Monday, May 13th 2024, 9:15:02 am",
     "2024-05-13"),
    ("1984 and 5 more.md", "tags: [x]", "2022-03-04"), ("5 мая.md", "", "2022-03-04"),
])  # fmt: skip
def test_a_note_is_of_the_day_that_its_name_or_its_properties_tell(
    name: str, properties: str, day: str
) -> None:
    target, zone = io.BytesIO(), "America/New_York"
    with zipfile.ZipFile(target, "w") as archive:
        info = zipfile.ZipInfo(f"Vault/{name}", (2022, 3, 4, 10, 0, 0))
        archive.writestr(info, f"---\n{properties}\n---\nwords")
    [note] = read_file(opened(target.getvalue(), "v.zip"), replace(READING, time_zone=zone))
    assert isinstance(note, Record) and note.said_at is not None
    assert local_time(note.said_at, zone).date().isoformat() == day


def test_archives_that_people_sent_each_other_are_not_opened() -> None:
    sent = zipped({"Plan.md": "somebody's words"})
    chat = {"_chat.txt": WHATSAPP, "00000007-plan.zip": sent}
    assert {one.source for one in read(zipped(chat), "chat.zip")} == {"whatsapp"}


def test_notions_archive_of_archives_has_its_dates_and_no_numbers_in_titles() -> None:
    number = "1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d"
    pages = {
        "Дача": ("Created: May 13, 2024 9:15 AM\nTags: дом", f"[Гвозди](a%20{number}.md)"),
        "Сад": ("Дата создания: 13 мая 2024 г. 9:15", "[сайт](https://x.example/a.md)"),
        "Хата": ("Створено: 2024/05/13 9:15", "тепла"), "Без даты": ("Tags: x", "слова"),
    }  # fmt: skip
    part = zipped({
        f"Private/{title} {number}.md": f"# {title}\n\n{head}\n\n{body}\n"
        for title, (head, body) in pages.items()
    })  # fmt: skip
    export = zipped({"Part-1.zip": part, "Part-2.zip": part[:300], "index.html": "<html>"})
    found = {one.title: one for one in read(export, "Export.zip")}
    assert set(found) == set(pages) and broken(export, "Export.zip") == ["Part-2.zip"]
    assert found["Дача"].text.endswith("Гвозди") and "(https" in found["Сад"].text
    assert {one.said_at and f"{one.said_at:%F}" for one in found.values()} == {"2024-05-13", None}


def test_a_text_in_an_encoding_of_windows_is_read() -> None:
    text = "**Робота**\n\nАндрій — зубний технік у Чернівцях, має власну лабораторію з 2018 року."
    [one] = texts(text.encode("cp1251"), "memory.txt", "memory")
    assert one.startswith("Андрій — зубний технік")


def test_an_empty_export_is_no_page() -> None:
    parts = {"conversations.json": "[]", "chat.html": "<html>nothing</html>"}
    assert read(zipped(parts)) == []


def test_an_export_of_another_account_says_so() -> None:
    message = {"uid": "msg-1", "role": "user", "text": "x", "said_at": "2024-01-02"}
    for number, who in ((123, ""), (5, "Telegram 5")):
        export = {"format": "pomni-export", "telegram_user_id": number, "messages": [message]}
        assert [one.who for one in read(json.dumps(export))] == [who]


def test_an_export_of_a_group_holds_words_of_others() -> None:
    message = {"uid": "msg-1", "role": "user", "text": "x", "said_at": "2024-01-02T00:00:00Z"}
    for owner, found in ((7, ["x"]), (-7, [])):
        export = {"format": "pomni-export", "telegram_user_id": owner, "messages": [message]}
        assert texts(json.dumps(export)) == found


def test_a_note_that_quotes_a_chat_is_a_note() -> None:
    quoted = "13.05.2024, 10:00 - Анна: так\n13.05.2024, 10:01 - Борис: нет"
    note = f"Спорили о даче.\nВот что было.\n\n{quoted}\n\nПомирились.\nУра."
    assert texts(zipped({"V/Дача.md": note}), "v.zip") == [note]


def test_a_long_note_is_cut_between_paragraphs() -> None:
    content = "\n\n".join(f"paragraph {n} " + "x" * 500 for n in range(20))
    parts = texts(f"# Long\n\n{content}", "long.md")
    assert len(parts) > 3 and all(part.startswith(("# Long", "paragraph")) for part in parts)


@pytest.mark.parametrize(("content", "name", "key"), [
    ("<!DOCTYPE html><html></html>", "messages.html", "import_html"),
    (zipped({"messages.html": "<!DOCTYPE html>"}), "export.zip", "import_html"),
    (b"\x89PNG\r\n\x1a\n\0\0", "a.png", "import_unknown"),
    ('{"a": 1}', "a.json", "import_unknown"), ("{", "a.json", "import_unknown"),
    (b"PK\x03\x04broken", "a.zip", "import_broken_zip"),
    (zipped({"a.json": "0" * 50_000_000}), "a.zip", "import_too_big"),
    (zipped({"a.zip": zipped({"a.json": "0" * 50_000_000})}), "a.zip", "import_too_big"),
    (zipped({f"{n}.zip": "x" for n in range(101)}), "a.zip", "import_too_big"),
    ("# Что помнит Помни, 1 мая\n\n- Гребёт\n- Поёт\n", "pomni-2026-05-01.md", "import_unknown"),
    (zipped({"pic.png": "x"}), "a.zip", "import_unknown"), ("text", "a.bin", "import_unknown"),
])  # fmt: skip
def test_an_unreadable_file_is_refused(content: str | bytes, name: str, key: str) -> None:
    with pytest.raises(UnreadableFileError) as refused:
        assert list(read_file(opened(content, name), READING)) == ["nothing"]
    assert refused.value.text_key == key


def test_json_is_mended_over_any_borders_of_its_chunks() -> None:
    text = json.dumps([{"a": 'Привіт \\ \n " слово', "b": "x" * 50}] * 40, ensure_ascii=True)
    wrong = text.replace("слово", "\\x41")
    for size in (7, 64, 1000):
        mended = files.MendedJson(cast("BinaryIO", io.BytesIO(wrong.encode())))
        out = b""
        while part := mended.read(size):
            out += part
        assert json.loads(out) == json.loads(text)
    assert files.mend_json(r'{"a": "\\x41 \\\x41 \q \ud83d\ude00 \xd0\x96"}') == (
        r'{"a": "\\x41 \\\u0041 \\q \ud83d\ude00 \u0416"}'
    )
