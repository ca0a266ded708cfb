"""What people bring: shown first, stored once, found with its origin, taken back."""

from __future__ import annotations

import io
import json
import re
import zipfile
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from src.base.owners import Owner
from src.core import REMINDERS
from src.imports.service import ImportService
from src.memory.digest_repo import DigestState
from src.memory.indexer import Indexer
from src.memory.writer import SourceText
from src.privacy.erasure_repo import ErasureRepository
from src.texts import LANGUAGES, say
from tests.conftest import query
from tests.fakes.openai_server import Reply as Answer
from tests.integration.imports.bringing import Bringer, chat, opened, with_memories
from tests.integration.person import NOON, Person
from tests.tables import columns_that_hold

pytestmark = pytest.mark.core(llm_model="offline")


@pytest.fixture
def bringer(person: Person) -> Bringer:
    return Bringer(person)


async def test_a_file_that_breaks_off_says_so(bringer: Bringer) -> None:
    content = json.dumps([chat("c1", "I live in Kyiv"), chat("c2", "and a cat")])
    for cut in (content[:-40], content.replace('"and a cat"', '"and" a cat"')):
        reply = await bringer.bring(cut, "part.json")
        assert say("import_breaks_off", "ru", name="part.json") in reply.text


async def test_imported_words_are_found_with_their_origin_and_date(bringer: Bringer) -> None:
    await bringer.person.say("Привет")
    await bringer.store([chat("c1", "Моего кота зовут Барсик", "Он рыжий")])
    assert bringer.said() == [
        ("Моего кота зовут Барсик", "2024-05-03", "ChatGPT"),
        ("Он рыжий", "2024-05-03", "ChatGPT"),
    ]
    found = await bringer.rig.command("search", bringer.person.user, argument="Барсик")
    assert "3 мая 2024\u202fг., из ChatGPT: «Моего кота зовут Барсик»" in found
    answer = await bringer.person.say("Как зовут моего кота?")
    assert "Барсик" in answer.text and "из ChatGPT" in answer.text
    assert {source.text for source in answer.sources} == {"Моего кота зовут Барсик", "Он рыжий"}


async def test_imported_words_stand_outside_the_conversation_and_outlive_it(
    bringer: Bringer,
) -> None:
    person = bringer.person
    await person.say("Привет")
    await bringer.store([chat("c1", "Моего кота зовут Барсик")])
    history = person.core.conversations.load_last_messages(person.conversation())
    assert not any("Барсик" in message["content"] for message in history)
    await bringer.rig.command("new", person.user)
    found = await person.find("кота Барсик", kinds=("message",))
    assert [hit.author.name for hit in found] == ["ChatGPT"]
    await person.core.memory.digest.index_pending()
    summaries = person.rows(
        "SELECT 1 FROM conversation_summaries s JOIN conversations c"
        " ON c.id = s.conversation_id WHERE c.owner_id = %(owner)s"
    )
    assert summaries == []


async def test_importing_twice_adds_nothing_and_later_more_only_what_is_new(
    bringer: Bringer,
) -> None:
    await bringer.store([chat("c1", "one", "two")])
    again = await bringer.bring([chat("c1", "one", "two")])
    assert say("import_known", "ru", messages="2") in again.text
    await bringer.tap(again, say("import_search", "ru"))
    await bringer.work()
    assert (await bringer.current()).text == say("import_done_none", "ru", name="ChatGPT")
    await bringer.store([chat("c1", "one", "two", "three")])
    assert [text for text, *_ in bringer.said()] == ["one", "two", "three"]
    await bringer.undo()
    assert [text for text, *_ in bringer.said()] == ["one", "two"]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_memories_become_facts_only_after_the_tap(bringer: Bringer, language: Any) -> None:
    bringer.person.language = language
    told = with_memories(chat("c1", "Hello"), "User lives in Kyiv.", "User has a dog named Rex.")
    reply = await bringer.bring([told])
    assert "User has a dog named Rex." in reply.text and say("import_drop", language) in str(reply)
    await bringer.tap(reply, say("import_search", language))
    await bringer.work()
    assert bringer.person.facts() == []
    await bringer.tap(await bringer.current(), say("import_keep", language, count=2))
    await bringer.work()
    assert bringer.person.facts() == ["User lives in Kyiv.", "User has a dog named Rex."]
    quotes = bringer.person.rows(
        "SELECT s.quote, m.origin FROM memory_sources s JOIN messages m ON m.id = s.message_id"
        " JOIN facts f ON f.id = s.memory_id WHERE f.owner_id = %(owner)s ORDER BY s.id"
    )
    assert quotes == [("User lives in Kyiv.", "ChatGPT"), ("User has a dog named Rex.", "ChatGPT")]
    asked_again = await bringer.bring([told])
    assert "Rex" not in asked_again.text


async def test_dropped_memories_are_gone(bringer: Bringer) -> None:
    reply = await bringer.bring([with_memories(chat("c1", "Hello"), "User likes tea.")])
    await bringer.tap(reply, say("import_drop", "ru"))
    await bringer.work()
    assert bringer.person.facts() == [] == bringer.said()
    screen = await bringer.current()
    assert "tea" not in screen.text
    await bringer.tap(screen, say("import_search", "ru"))
    await bringer.work()
    assert [text for text, _, _ in bringer.said()] == ["Hello"]
    alone = await bringer.bring("- Likes coffee\n- Has a cat", "memory.txt")
    dropped = await bringer.tap(alone, say("import_drop", "ru"))
    assert dropped.text == say("import_cancelled", "ru")


@pytest.mark.parametrize(("label", "said"), [
    ("import_memories_alone", ["User likes tea."]),
    ("import_search", ["Hello", "User likes tea."]),
])  # fmt: skip
async def test_memories_are_kept_with_messages_and_without(
    bringer: Bringer, label: str, said: list[str]
) -> None:
    reply = await bringer.bring([with_memories(chat("c1", "Hello"), "User likes tea.")])
    kept = await bringer.tap(reply, say("import_keep", "ru", count=1))
    await bringer.work()
    assert bringer.said() == [], "the messages are not decided about"
    await bringer.tap(kept, say(label, "ru"))
    await bringer.work()
    assert [text for text, _, _ in bringer.said()] == said
    assert bringer.person.facts() == ["User likes tea."]


async def test_a_pasted_list_is_shown_and_kept(bringer: Bringer) -> None:
    text = "Here is what I know:\n- Lives in Kyiv\n- Has a dog named Rex"
    reply = await bringer.screens.command(bringer.caller.with_argument(text))
    assert "• Has a dog named Rex" in reply.text
    await bringer.tap(reply, say("import_keep", "ru", count=2))
    await bringer.work()
    assert bringer.person.facts() == ["Lives in Kyiv", "Has a dog named Rex"]
    await bringer.undo()
    assert bringer.person.facts() == []


async def test_a_long_list_has_pages(bringer: Bringer) -> None:
    text = "\n".join(f"- Fact number {n} of mine" for n in range(40))
    reply = await bringer.screens.command(bringer.caller.with_argument(text))
    assert "Fact number 14 " in reply.text and "Fact number 15 " not in reply.text
    second = await bringer.tap(reply, "›")
    assert "Fact number 15 " in second.text and "Fact number 14 " not in second.text


async def test_the_summary_counts_the_users_own_messages_and_files_apart(bringer: Bringer) -> None:
    attached = {"file_name": "a.pdf", "extracted_content": "words of others"}
    message = {"uuid": "m", "sender": "human", "text": "mine", "attachments": [attached],
               "created_at": "2025-03-04T00:00:00Z"}  # fmt: skip
    reply = await bringer.bring([{"uuid": "c", "name": "x", "chat_messages": [message]}])
    counts = say("import_messages", "ru", conversations="1", years="2025", messages="1")
    assert f"{counts}\n{say('import_files', 'ru', count='1')}" in reply.text
    message["text"] = ""
    alone = await bringer.bring([{"uuid": "c", "name": "x", "chat_messages": [message]}])
    await bringer.tap(alone, say("import_search", "ru"))
    await bringer.work()
    assert [text for text, *_ in bringer.said()] == ["words of others"]


async def test_a_note_in_another_folder_is_no_other_note(bringer: Bringer) -> None:
    for folder in ("Vault", "Vault 2"):
        target = io.BytesIO()
        with zipfile.ZipFile(target, "w") as archive:
            archive.writestr(f"{folder}/a.md", "Rowed to the island")
        await bringer.store(target.getvalue(), "vault.zip")
    assert len(bringer.said()) == 1


async def test_one_of_many_speakers_is_named_in_words(bringer: Bringer) -> None:
    lines = [f"13.05.2024, 10:{n} - Имя{n}: слово {n}" for n in range(10, 60)]
    await bringer.bring("\n".join(lines), "chat.txt")
    await bringer.screens.command(bringer.caller.with_argument("me Имя37"))
    await bringer.screens.command(bringer.caller.with_argument("search"))
    await bringer.work()
    assert [text for text, *_ in bringer.said()] == ["слово 37"]


async def test_who_one_is_is_asked_and_others_words_go(bringer: Bringer) -> None:
    lines = "13.05.2024, 10:00 - Анна: мой кот Барсик\n13.05.2024, 10:01 - Борис: чужие слова"
    reply = await bringer.bring(lines, "Чат WhatsApp с Анна.txt")
    assert reply.text == say("import_who", "ru")
    summary = await bringer.tap(reply, "Анна")
    assert columns_that_hold(bringer.rig.client.dsn, "чужие слова") == set()
    await bringer.tap(summary, say("import_search", "ru"))
    await bringer.work()
    assert bringer.said() == [("мой кот Барсик", "2024-05-13", "WhatsApp")]


async def test_the_order_of_dates_is_asked(bringer: Bringer) -> None:
    reply = await bringer.bring("05/06/2024, 10:00 - Анна: мой кот", "a.txt")
    assert reply.text == say("import_who", "ru"), "a chat may have words of others alone"
    reply = await bringer.tap(reply, "Анна")
    assert reply.text == say("import_dates", "ru")
    summary = await bringer.tap(reply, say("import_month_first", "ru"))
    await bringer.tap(summary, say("import_search", "ru"))
    await bringer.work()
    assert bringer.said() == [("мой кот", "2024-05-06", "WhatsApp")]


class DyingIndexer(Indexer):
    """An indexer whose process dies at every second call."""

    calls = 0

    async def index_conversation(self, conversation_id: UUID) -> DigestState | None:
        self.calls += 1
        if self.calls % 2:
            raise ConnectionAbortedError
        return await super().index_conversation(conversation_id)


async def test_a_killed_import_goes_on_and_doubles_nothing(bringer: Bringer) -> None:
    core = bringer.person.core
    texts = [f"message number {n}" for n in range(1300)]
    chats = [chat(f"c{n}", *texts[n : n + 100], start=1700000000 + n) for n in range(0, 1300, 100)]
    reply = await bringer.bring(chats)
    await bringer.tap(reply, say("import_search", "ru"))
    dying = DyingIndexer(core.client, core.memory.space)
    writer = core.memory.memories.writer
    bringer.service = ImportService(core.client, dying, writer, REMINDERS)
    deaths = 0
    for _ in range(200):
        try:
            await bringer.work()
            break
        except ConnectionAbortedError:
            deaths += 1
    assert deaths >= 3
    assert sorted(text for text, *_ in bringer.said()) == sorted(texts)
    while await core.memory.digest.index_pending():
        pass
    documents = bringer.person.rows(
        "SELECT count(*) FROM search_documents WHERE owner_id = %(owner)s AND kind = 'message'"
    )
    assert documents == [(1300,)]


async def test_an_undo_leaves_nothing(bringer: Bringer) -> None:
    person, canary = bringer.person, "кенарь4711"
    await person.tell("Я живу в Омске", relation="lives_in", object="Омск")
    told = with_memories(chat("c1", f"Мой {canary} поёт"), f"User has a bird named {canary}.")
    reply = await bringer.bring([told])
    await bringer.tap(reply, say("import_search", "ru"))
    await bringer.tap(await bringer.current(), say("import_keep", "ru", count=1))
    await bringer.work()
    await person.core.memory.indexer.embed_pending()
    imported = person.rows("SELECT id, content, said_at FROM messages WHERE content LIKE %(like)s",
                           like=f"%{canary} поёт")  # fmt: skip
    [(number, text, said_at)] = imported
    said = SourceText(number, text, said_at)
    assert (await person.tell(f"У меня есть {canary}", said=said, quote=text)).memory_id
    assert canary in (await person.say(f"Кто такой {canary[:6]}?")).text
    assert columns_that_hold(bringer.rig.client.dsn, canary)
    await bringer.undo()
    assert columns_that_hold(bringer.rig.client.dsn, canary) == set()
    assert person.facts() == ["Я живу в Омске"]
    assert person.rows("SELECT 1 FROM imports WHERE owner_id = %(owner)s") == []


async def test_what_a_fact_of_an_import_replaced_holds_again(bringer: Bringer) -> None:
    person = bringer.person
    await person.remember({"text": "Я живу в Омске", "relation": "lives_in", "object": "Омск"})
    await bringer.store([chat("c1", "Я живу в Киеве")])
    [(number, text, _said_at)] = person.rows(
        "SELECT id, content, said_at FROM messages WHERE import_owner_id = %(owner)s"
    )
    said = SourceText(number, text, NOON)
    outcome = await person.tell("Я живу в Киеве", said=said, relation="lives_in", object="Киев")
    assert outcome.kind == "update" and person.facts() == ["Я живу в Киеве"]
    await bringer.undo()
    assert person.facts() == ["Я живу в Омске"]


async def test_with_the_memory_off_nothing_is_brought(bringer: Bringer) -> None:
    caller = bringer.caller.with_preferences(memory_on=False)
    assert (await bringer.screens.command(caller)).text == say("import_memory_off", "ru")
    refused = await bringer.screens.read(caller, opened(json.dumps([chat("c1", "x")])))
    assert refused.text == say("import_memory_off", "ru")


async def test_in_a_group_nothing_is_brought(bringer: Bringer) -> None:
    called = replace(bringer.caller, owner=Owner(-(2**41) - bringer.person.user, 3))
    for reply in (
        await bringer.screens.command(called.with_argument("- Lives in Kyiv\n- Likes tea")),
        await bringer.screens.read(called, opened(json.dumps([chat("c1", "x")]))),
    ):
        assert reply.text == say("import_group", "ru")


async def test_erasing_takes_everything(bringer: Bringer) -> None:
    canary = "кенарь4712"
    await bringer.store([chat("c1", f"Мой {canary} поёт")])
    await bringer.bring([chat("c2", f"И ещё {canary}")])
    ErasureRepository(bringer.rig.client).erase(bringer.person.user)
    assert columns_that_hold(bringer.rig.client.dsn, canary) == set()


async def test_a_foreign_import_is_out_of_reach(bringer: Bringer) -> None:
    reply = await bringer.bring([chat("c1", "x")])
    assert reply.import_id is not None
    for choice in range(10):
        refused = await bringer.screens.press(
            bringer.rig.called(bringer.person.user + 1, "ru"), reply.import_id, choice, 0
        )
        assert refused.text == say("import_gone", "ru")
    assert (await bringer.current()).text == reply.text


async def test_the_export_tells_where_words_come_from(bringer: Bringer) -> None:
    await bringer.store([chat("c1", "Мой кот")])
    exports = bringer.person.core.exports
    [message] = exports.read("messages", bringer.person.user)
    assert (message["provenance"], message["origin"]) == ("imported", "ChatGPT")
    assert "thread_id" not in message


@pytest.mark.core(llm_model="openai:fake-model")
async def test_facts_are_read_where_the_user_wants_it(person: Person) -> None:
    bringer = Bringer(person)
    bringer.rig.set(memory_extraction_window=2)
    query(
        bringer.rig.client.dsn,
        "INSERT INTO model_prices (model, prompt, completion)"
        " VALUES ('openai:fake-model', 100, 400) ON CONFLICT DO NOTHING RETURNING 1",
    )
    reply = await bringer.bring([chat("c1", "Я живу в Киеве", "Мой кот Барсик")])
    labels = [button.label for row in reply.rows for button in row]
    assert any(re.search(r"≈ \d+\.\d\d USD", label) for label in labels)
    await bringer.tap(reply, "≈")
    await bringer.work()
    [(conversation,)] = person.rows("SELECT id FROM conversations WHERE owner_id = %(owner)s"
                                    " AND import_id IS NOT NULL")  # fmt: skip
    uid = person.rows("SELECT min(id) FROM messages WHERE import_owner_id = %(owner)s")[0][0]
    fact = {"text": "Живёт в Киеве", "quote": "Я живу в Киеве", "message": f"msg-{uid}",
            "relation": "lives_in", "object": "Киев"}  # fmt: skip
    person.model.queue(Answer(json.dumps({"facts": [fact]})))
    await person.core.memory.digest.digest(conversation)
    assert person.facts() == ["Живёт в Киеве"]
    await bringer.undo()
    assert person.facts() == []
