"""Lost topics, closed chats and old buttons: a message finds another place, others stay."""

from __future__ import annotations

from datetime import timedelta

import pytest

from src.base.config import OFFLINE_MODEL
from src.base.errors import DeliveryError
from src.base.owners import Owner
from src.reading.recurrences import Recurrence
from src.reminders.reminder_repo import Reminder
from src.telegram.delivery import Delivery
from src.telegram.tasks import ReminderTasks
from src.texts import LANGUAGES, Language, say
from tests.fakes.telegram_people import Sender
from tests.fakes.telegram_server import FakeTelegram
from tests.fakes.telegram_types import SentMessage
from tests.integration.phone import LATE, USER, Phone, buttons, never
from tests.integration.reminding import DAILY, NINE, arrive, set_reminder, waiting

GROUP = -1_001_234_567_877
TOPIC, OTHER = 5, 6
IN_TOPIC = Sender(chat_id=GROUP, chat_type="supergroup", thread_id=TOPIC)
TO_BOT = "@pomni_test_bot"
pytestmark = pytest.mark.core(llm_model=OFFLINE_MODEL)
MUTED = [
    "Bad Request: not enough rights to send text messages to the chat",
    "Bad Request: CHAT_WRITE_FORBIDDEN", "Bad Request: NEW_REASON_OF_2027",
    "Bad Request: group chat was upgraded to a supergroup chat",
]  # fmt: skip
GONE = [
    "Forbidden: bot was kicked from the supergroup chat", "Bad Request: chat not found",
    "Bad Request: CHANNEL_PRIVATE",
]  # fmt: skip


@pytest.fixture
async def phone(phone: Phone) -> Phone:
    phone.place = IN_TOPIC
    return phone


class Keeper:
    def __init__(self, phone: Phone) -> None:
        self.phone = phone
        self.tasks = ReminderTasks(phone.rig.core, Delivery(phone.bot, never))

    async def set(
        self, text: str, thread: int = TOPIC, repeats: Recurrence | None = None
    ) -> Reminder:
        before, self.phone.place = self.phone.place, Sender(IN_TOPIC, thread_id=thread)
        reminder = await set_reminder(self.phone, text, repeats=repeats, asker=USER)
        self.phone.place = before
        return reminder

    async def ring(self, reminder: Reminder) -> str | None:
        """The reminder is due; return the outcome."""
        due = int(reminder.due_at.timestamp())
        return await self.tasks.deliver(reminder.id, due, reminder.due_at)


@pytest.fixture
def keeper(phone: Phone) -> Keeper:
    return Keeper(phone)


def lose(fake: FakeTelegram, chat: int, how: str) -> None:
    (fake.close_topic if how == "closed" else fake.delete_topic)(chat, TOPIC)


def is_inactive(phone: Phone) -> bool:
    rows = phone.rig.rows("SELECT 1 FROM user_settings WHERE inactive_since IS NOT NULL")
    return bool(rows)


@pytest.mark.parametrize("how", ["closed", "gone"])
async def test_a_reminder_of_a_lost_topic_comes_in_the_general_one_and_others_stay(
    phone: Phone, keeper: Keeper, how: str
) -> None:
    lost, other = await keeper.set("хлеб"), await keeper.set("чай", OTHER)
    later = await keeper.set("соль", OTHER, DAILY)
    lose(phone.fake, GROUP, how)
    assert await keeper.ring(lost) == "on time" == await keeper.ring(other)
    bread, tea = phone.fake.sent_to(GROUP)
    assert bread.text == f"{say(f'place_{how}', 'ru')}\n\n⏰ хлеб" and not bread.thread_id
    assert (tea.text, tea.thread_id) == ("⏰ чай", OTHER)
    assert [text for text, _ in waiting(phone)] == ["соль"] and not is_inactive(phone)
    assert await keeper.ring(later) == "on time"


@pytest.mark.parametrize("how", ["closed", "gone"])
@pytest.mark.parametrize("language", LANGUAGES)
async def test_without_a_general_topic_it_comes_in_private_and_its_buttons_work_there(
    phone: Phone, keeper: Keeper, how: str, language: Language
) -> None:
    phone.rig.core.user_settings.change(GROUP, language=language)
    reminder = await keeper.set("хлеб", repeats=DAILY)
    lose(phone.fake, GROUP, how)
    phone.fake.close_topic(GROUP)
    assert await keeper.ring(reminder) == "on time"
    [told] = phone.fake.sent_to(USER)
    assert told.text == f"{say(f'place_{how}_group', language)}\n\n⏰ хлеб"
    assert phone.fake.sent_to(GROUP) == []
    phone.place = Sender(chat_id=USER)
    await phone.press(f"done:{reminder.id}", under=told)
    assert told.text.startswith("✅ хлеб")
    [[(_, data)]] = buttons(told)
    await phone.press(data, under=told)
    assert waiting(phone) == [] and len(phone.fake.sent_to(USER)) == 1


@pytest.mark.parametrize("description", MUTED)
async def test_where_the_bot_may_not_write_the_person_hears_in_private_and_nothing_is_lost(
    phone: Phone, keeper: Keeper, description: str
) -> None:
    daily, later = await keeper.set("хлеб", repeats=DAILY), await keeper.set("чай", OTHER)
    phone.fake.refuse_sends(GROUP, 400, description)
    assert await keeper.ring(daily) == "on time"
    [told] = phone.fake.sent_to(USER)
    assert told.text == f"{say('place_mute_group', 'ru')}\n\n⏰ хлеб"
    phone.fake.allow_sends(GROUP)
    assert await keeper.ring(later) == "on time" and not is_inactive(phone)
    [tea] = phone.fake.sent_to(GROUP)
    assert tea.text == "⏰ чай"
    assert waiting(phone) == [("хлеб", NINE + timedelta(days=1))]


async def test_a_person_who_cannot_be_written_to_loses_one_reminder_and_the_group_none(
    phone: Phone, keeper: Keeper
) -> None:
    daily, other = await keeper.set("хлеб", repeats=DAILY), await keeper.set("чай", OTHER)
    phone.fake.close_topic(GROUP, TOPIC)
    phone.fake.close_topic(GROUP)
    phone.fake.block(USER)
    assert await keeper.ring(daily) == "unreachable"
    assert await keeper.ring(other) == "on time" and not is_inactive(phone)
    assert waiting(phone) == [("хлеб", NINE + timedelta(days=1))]


@pytest.mark.parametrize("description", GONE)
async def test_a_group_that_is_gone_gets_nothing_more(
    phone: Phone, keeper: Keeper, description: str
) -> None:
    phone.rig.core.user_settings.change(GROUP, language="ru")
    reminder = await keeper.set("хлеб", repeats=DAILY)
    phone.fake.refuse_sends(GROUP, 403 if "Forbidden" in description else 400, description)
    assert await keeper.ring(reminder) == "unreachable"
    assert is_inactive(phone) and waiting(phone) == [] and phone.fake.sent_to(USER) == []


@pytest.mark.parametrize(("status", "description"), [
    (400, "Bad Request: SLOWMODE_WAIT_7"), (429, "Too Many Requests: SLOWMODE_WAIT_7"),
])  # fmt: skip
async def test_slow_mode_is_waited_out(
    phone: Phone, keeper: Keeper, status: int, description: str
) -> None:
    reminder = await keeper.set("хлеб")
    parameters = {"retry_after": 7} if status == 429 else None
    phone.fake.fail_next(
        "sendMessage", status=status, description=description, parameters=parameters
    )
    with pytest.raises(DeliveryError) as caught:
        await keeper.ring(reminder)
    assert caught.value.retry_after == 7
    assert await keeper.ring(reminder) == "on time" and len(phone.fake.sent_to(GROUP)) == 1


# Answers


@pytest.mark.parametrize("how", ["closed", "gone"])
async def test_an_answer_and_a_reply_to_a_command_find_the_general_topic(
    phone: Phone, how: str
) -> None:
    lose(phone.fake, GROUP, how)
    asked = await phone.fake.send_text(USER, f"{TO_BOT} запомни: ключ под ковриком", **IN_TOPIC)
    assert await phone.work() == ["done"]
    [answer] = phone.fake.sent_to(GROUP)
    assert answer.text.startswith(say(f"place_{how}", "ru"))
    assert not answer.thread_id and answer.reply_to is None and asked
    await phone.write(f"/remind{TO_BOT} завтра в 9 чай")
    told = phone.fake.sent_to(GROUP)[-1]
    assert told.text.startswith(say(f"place_{how}", "ru")) and "чай" in told.text
    [[(label, _)]] = buttons(told)
    await phone.tap(label, under=told)
    assert waiting(phone) == [], "a button in the general topic acts on the topic's own reminder"


async def test_a_private_topic_that_is_gone_is_answered_in_the_main_chat(phone: Phone) -> None:
    phone.place = Sender(chat_id=USER, thread_id=TOPIC)
    phone.fake.delete_topic(USER, TOPIC)
    await phone.write("/help")
    assert phone.last.text.startswith(say("place_gone", "ru")) and not phone.last.thread_id


async def test_a_reply_target_that_is_gone_costs_only_the_reply(
    phone: Phone, keeper: Keeper
) -> None:
    phone.fake.fail_next(
        "sendMessage", status=400, description="Bad Request: message to be replied not found"
    )
    await phone.write(f"{TO_BOT} напомни завтра в 9 чай")
    assert buttons(phone.last) and phone.last.thread_id == TOPIC


# Old buttons


@pytest.mark.parametrize("place", [IN_TOPIC, Sender(chat_id=USER, thread_id=TOPIC)])
@pytest.mark.parametrize("label", ["reminder_done_button", "later_hour"])
async def test_an_old_button_acts_on_its_reminder_and_answers_in_its_topic(
    phone: Phone, place: Sender, label: str
) -> None:
    phone.place = place
    rung = await arrive(phone, await set_reminder(phone, asker=USER))
    [data] = [data for row in buttons(rung) for name, data in row if name == say(label, "ru")]
    phone.fake.state.delete(rung.chat_id, rung.message_id)
    phone.fake.state.messages[rung.chat_id, rung.message_id] = {
        "chat": phone.fake.state.chat(rung.chat_id)
    }
    del phone.fake.state.sent_by_key[rung.chat_id, rung.message_id]  # it cannot be edited
    await phone.press(data, under=rung, is_old=True)
    assert len(waiting(phone)) == (label == "later_hour")
    assert phone.last is not rung and phone.last.thread_id == TOPIC
    assert phone.popups[-1] != say("reminder_gone", "ru")


# Notices, previews, clocks


@pytest.mark.parametrize("is_modern", [True, False])
async def test_a_notice_for_one_member_is_seen_by_them_alone_where_telegram_can(
    phone: Phone, is_modern: bool
) -> None:
    phone.fake.state.is_modern = is_modern
    await phone.write(f"/settings{TO_BOT}")
    assert phone.last.text == say("only_admins", "ru")
    assert phone.last.receiver == (USER if is_modern else None)
    assert phone.last.thread_id == TOPIC


async def test_a_refused_notice_comes_as_an_ordinary_message(phone: Phone) -> None:
    phone.fake.fail_next(
        "sendMessage", status=400, description="Bad Request: USER_NOT_PARTICIPANT"
    )
    await phone.write(f"/settings{TO_BOT}")
    [shown] = phone.fake.sent_to(GROUP)
    assert shown.text == say("only_admins", "ru") and shown.receiver is None


async def test_a_pressed_button_is_disabled_and_goes_where_the_server_is_too_old(
    phone: Phone,
) -> None:
    phone.place = Sender(chat_id=USER)
    for is_modern in (True, False):
        phone.fake.state.is_modern = is_modern
        await phone.write("/remind завтра в 9 чай")
        told = phone.last
        [[(label, data)]] = buttons(told)[:1]
        await phone.press(data, under=told)
        rows = (told.reply_markup or {}).get("inline_keyboard", [])
        disabled = [one for row in rows for one in row if "disabled" in one]
        assert [one["text"] for one in disabled] == ([label] if is_modern else [])


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_times_of_reminders_follow_the_reader_s_clock(
    phone: Phone, language: Language
) -> None:
    phone.place = Sender(chat_id=USER)
    phone.rig.core.user_settings.change(USER, language=language)
    await phone.write("/remind tomorrow at 9 tea 09:00 😀")
    [(_, due)] = waiting(phone)
    [entity] = times_of(phone.last)
    assert entity["unix_time"] == int(due.timestamp()) and entity["date_time_format"] == "wDt"
    assert told_by(phone.last, entity).endswith("09:00")
    [reminder] = phone.rig.core.reminders.rows.list_waiting(Owner(USER), limit=9)
    late = await arrive(phone, reminder, late=timedelta(hours=1))
    [entity] = times_of(late)
    assert entity["date_time_format"] == "t" and entity["offset"] > len("⏰ tea 09:00 😀")
    await phone.write("/remind every Monday at 8 plants")
    assert [one["date_time_format"] for one in times_of(phone.last)] == ["D", "t"]
    await phone.write("/reminders")
    assert len(times_of(phone.last)) == 2


def times_of(message: SentMessage) -> list[dict[str, int | str]]:
    return [one for one in message.entities if one["type"] == "date_time"]


def told_by(message: SentMessage, entity: dict[str, int | str]) -> str:
    start, length = int(entity["offset"]), int(entity["length"])
    units = message.text.encode("utf-16-le")[2 * start : 2 * (start + length)]
    return units.decode("utf-16-le")


async def test_a_citation_carries_its_time(phone: Phone) -> None:
    phone.place = Sender(chat_id=USER)
    original, _ = await phone.said("Ключ от дачи под ковриком")
    await phone.rig.core.memory.digest.index_pending()
    await phone.write("Где ключ от дачи?")
    [entity] = times_of(phone.last)
    assert told_by(phone.last, entity) == "03.03.2026 01:30"
    assert (entity["unix_time"], entity["date_time_format"]) == (int(LATE.timestamp()), "wDt")
    [[(_, data), *_], *_] = buttons(phone.last)
    phone.fake.state.delete(USER, original)
    await phone.press(data)
    [entity] = times_of(phone.last)
    assert entity["date_time_format"] == "D" and "3 марта" in told_by(phone.last, entity)
