"""A private chat with topics: one memory of the person, a history and reminders for each topic."""

from __future__ import annotations

import io
import json

import pytest

from src.base.owners import Owner
from src.base.zones import place_of_zone
from src.telegram.delivery import Delivery
from src.telegram.tasks import ReminderTasks
from src.texts import say
from tests.fakes.telegram_people import Sender
from tests.integration.person import NOON
from tests.integration.phone import USER, Phone
from tests.tables import rows_of

HOME, SEA = "Я живу в Одессе", "У меня аллергия на водоросли"
SEVEN, EIGHT = (Sender(chat_id=USER, thread_id=topic) for topic in (7, 8))


pytestmark = pytest.mark.core(llm_model="offline")


@pytest.fixture
async def phone(phone: Phone) -> Phone:
    """Somebody who has told something in topic 7, and writes in topic 8 now."""
    phone.place = SEVEN
    await phone.write(f"/remember {HOME}")
    await phone.write(f"/remember {SEA}")
    await phone.rig.core.memory.digest.index_pending()
    phone.place = EIGHT
    return phone


def history(phone: Phone, place: Sender) -> list[str]:
    """What was said in a topic, as the model sees it."""
    conversation = phone.rig.conversation(USER, place["thread_id"] or 0)
    return [m["content"] for m in phone.rig.core.conversations.load_last_messages(conversation)]


async def test_what_is_told_in_one_topic_is_known_and_found_in_another(phone: Phone) -> None:
    await phone.write("Где я живу?")
    assert "Одесс" in phone.last.text and phone.last.thread_id == 8
    await phone.write("/memory")
    assert HOME in phone.last.text and phone.last.thread_id == 8
    await phone.write("/search аллергия на водоросли")
    assert SEA in phone.last.text
    assert not any("водоросли" in said for said in history(phone, EIGHT)[:2])
    phone.place = Sender(chat_id=USER)
    await phone.write("/memory")
    assert HOME in phone.last.text, "so it is in the main chat"


async def test_new_wipes_the_topic_in_which_it_is_written_and_no_other(phone: Phone) -> None:
    before = history(phone, SEVEN)
    await phone.write("Слушал вчера джаз")
    assert any("джаз" in said for said in history(phone, EIGHT))
    await phone.write("/new")
    assert not any("джаз" in said for said in history(phone, EIGHT))
    assert history(phone, SEVEN) == before
    assert phone.facts()[:2] == [HOME, SEA]
    phone.place = SEVEN
    await phone.write("/forget где я живу")
    assert phone.facts()[0] == SEA
    await phone.write("/undo")
    assert phone.facts()[:2] == [HOME, SEA]


async def test_a_message_of_a_topic_is_no_reply_to_what_opened_it(phone: Phone) -> None:
    chat, created = {"id": USER, "type": "private"}, {"name": "Море", "icon_color": 1}
    opened = {"message_id": 8, "date": 1, "chat": chat, "forum_topic_created": created}
    await phone.write("/settings")
    await phone.tap(say("settings_zone", "ru"))
    await phone.send(text="Рига", reply_to_message=opened)
    assert place_of_zone("Europe/Riga", "ru") in phone.last.text and phone.last.thread_id == 8


async def test_a_reminder_comes_in_the_topic_in_which_it_was_set(phone: Phone) -> None:
    await phone.write("напомни завтра в 9 позвонить маме")
    [reminder] = phone.rig.core.reminders.rows.list_waiting(Owner(USER, 7), limit=9)
    assert reminder.owner == Owner(USER, 8), "all topics list it, and it knows its own"
    tasks = ReminderTasks(phone.rig.core, Delivery(phone.bot, lambda: False))
    await tasks.deliver(reminder.id, int(reminder.due_at.timestamp()), reminder.due_at)
    assert (phone.last.text, phone.last.thread_id) == ("⏰ позвонить маме", 8)


async def test_the_export_and_an_erasure_reach_all_topics(phone: Phone) -> None:
    await phone.write("напомни завтра в 9 позвонить маме")
    file = io.StringIO()
    phone.rig.core.exports.write_json(file, USER, NOON)
    found = json.loads(file.getvalue())
    assert [fact["text"] for fact in found["facts"]] == [HOME, SEA]
    assert {message["thread_id"] for message in found["messages"]} == {7, 8}
    assert [reminder["thread_id"] for reminder in found["reminders"]] == [8]
    await phone.rig.core.commands.forgetting.erase_owner(USER)
    assert rows_of(phone.rig.core.dsn, Owner(USER, 8)) == []
    assert history(phone, SEVEN) == [] == history(phone, EIGHT)
