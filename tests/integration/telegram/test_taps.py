"""Taps: each button in a table; pressed once, pressed twice, and pressed after a death.

A death is an action that was done, and then nothing of it was shown: its job comes again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from src.base.errors import DeliveryError
from src.talk.commands import ACTIONS
from src.telegram.delivery import Delivery
from src.telegram.receiver import GetRawUpdates
from src.telegram.tasks import ReminderTasks
from src.telegram.updates import AllowList
from src.texts import say
from src.texts.reply import Action
from tests.fakes.telegram_people import Sender
from tests.fakes.telegram_types import SentMessage
from tests.integration.memory.test_memory_commands import open_card
from tests.integration.phone import STRANGER, USER, Phone, buttons, never
from tests.integration.polling import build_intake
from tests.integration.reminding import DAILY, arrive, set_reminder

pytestmark = pytest.mark.core(llm_model="offline")
GROUP = -1_001_234_567_895
CAT = "Мою кошку зовут Муся"
Scene = Callable[[Phone], Awaitable[SentMessage]]


def after(*lines: str) -> Scene:
    """What the bot says to the last of these lines."""

    async def scene(phone: Phone) -> SentMessage:
        for line in lines:
            await phone.write(line)
        return phone.last

    return scene


async def card(phone: Phone) -> SentMessage:
    await phone.write(f"/remember {CAT}")
    return await open_card(phone, "Муся")


async def pinned_card(phone: Phone) -> SentMessage:
    shown = await card(phone)
    return await phone.tap(say("pin_button", "ru"), under=shown)


async def forgotten(phone: Phone) -> SentMessage:
    shown = await card(phone)
    return await phone.tap(say("forget_button", "ru"), under=shown)


async def doubt(phone: Phone) -> SentMessage:
    await after("/mode strict", "Меня зовут Анна")(phone)
    phone.rig.client.execute("UPDATE memories SET pinned = true")
    return await after("Меня зовут Ольга")(phone)


async def sure(phone: Phone) -> SentMessage:
    await after(f"/remember {CAT}", "/delete_me")(phone)
    return await phone.tap(say("delete_yes_1", "ru"))


async def wiping(phone: Phone) -> SentMessage:
    await after(f"/remember {CAT}", "/new")(phone)
    return await phone.tap(say("forget_facts_button", "ru"))


async def rung(phone: Phone) -> SentMessage:
    return await arrive(phone, await set_reminder(phone))


async def ringing(phone: Phone) -> SentMessage:
    return await arrive(phone, await set_reminder(phone, "таблетки", repeats=DAILY))


async def asked(phone: Phone) -> SentMessage:
    now = datetime(2026, 3, 4, 9, 30, tzinfo=UTC)
    phone.rig.core.user_settings.change(USER, follow_ups=True)
    await phone.said("завтра экзамен", now - timedelta(days=2))
    await phone.rig.core.follow_ups.plan(now)
    sql = "SELECT id, extract(epoch FROM due_at)::bigint FROM reminders WHERE is_waiting"
    [(number, due)] = phone.rig.rows(sql)
    await ReminderTasks(phone.rig.core, Delivery(phone.bot, never)).deliver(number, due, now)
    return phone.last


async def choosing(phone: Phone) -> SentMessage:
    await phone.write("/settings")
    return await phone.tap(say("settings_language", "ru"))


REPLACED = after("/remember Я живу в Одессе", "/remember Я живу во Львове")
BROTHERS = after(
    "/remember Мой брат живёт в Вене", "/remember Мой брат любит шахматы", "/forget про брата"
)
NEW = after(f"/remember {CAT}", "/new")
ERASING = after(f"/remember {CAT}", "Забудь всё, что знаешь обо мне")
REMINDER = "напомни завтра в 9 позвонить маме"

# A button: how it comes about, its action, and what stands on it, where several have that action.
ONCE: list[tuple[str, Scene, str, str]] = [
    ("facts", card, "facts", ""), ("fact", after(f"/remember {CAT}", "/memory"), "fact", ""),
    ("pin", card, "pin", ""), ("unpin", pinned_card, "unpin", ""),
    ("forget", card, "forget", ""), ("drop", BROTHERS, "drop", "шахматы"),
    ("undo", REPLACED, "undo", ""), ("recall", forgotten, "undo", ""),
    ("replace", doubt, "settle", "Заменить"), ("both", doubt, "settle", "оба"),
    ("old", doubt, "settle", "прежнее"),
    ("erase", ERASING, "erase", say("erase_yes", "ru")),
    ("keep", ERASING, "erase", say("erase_no", "ru")),
    ("delete", sure, "delete", say("delete_yes_2", "ru")),
    ("delete not", sure, "delete", say("erase_no", "ru")),
    ("wipe", wiping, "wipe", say("wipe_yes", "ru")),
    ("wipe ask", NEW, "wipe", ""), ("wipe not", wiping, "wipe", say("erase_no", "ru")),
    ("unremind", after(REMINDER), "unremind", ""),
    ("unremind listed", after(REMINDER, "/reminders"), "unremind", ""),
    ("done", rung, "done", ""), ("later", rung, "later", say("later_hour", "ru")),
    ("done, goes on", ringing, "done", ""), ("norepeat", ringing, "norepeat", ""),
    ("nobrief", after("/brief 8:00"), "nobrief", ""), ("mute", asked, "mute", ""),
    ("wish", after("Где мой паспорт?", "короче"), "wish", "коротко"),
    ("settings", choosing, "settings", ""),
    ("choose", after("/settings"), "choose", say("settings_mode", "ru")),
    ("language", choosing, "language", "English"),
    ("zone", after("/start"), "zone", "Москва"),
    ("unsend", after("мой пароль от почты qwerty123!"), "unsend", ""),
]  # fmt: skip
# What only shows or asks something shows it again.
AGAIN: list[tuple[str, Scene, str, str]] = [
    ("see", NEW, "see", ""), ("correct", card, "correct", ""), ("source", card, "source", ""),
    ("zones", after("/start"), "zones", ""),
    ("choose zone", after("/settings"), "choose", say("settings_zone", "ru")),
]  # fmt: skip
# Buttons that name a page or a value; ``language`` and ``facts`` stand for them.
LIKE_OTHERS = {"reminders", "mode", "length", "remembering", "asking"}
# Tried beside their features: test_memory_server.py, test_page_outside.py, test_imports.py.
ELSEWHERE = {"lend", "allow", "revoke", "leave", "import"}


def data_of(message: SentMessage, action: str, label: str) -> str:
    return next(
        data
        for row in buttons(message)
        for text, data in row
        if data.split(":")[0] == action and label in text
    )


def shown(phone: Phone) -> list[tuple[str, list[list[tuple[str, str]]]]]:
    """All that stands in the chat of the bot's."""
    return [(one.text, buttons(one)) for one in phone.fake.sent_to(USER)]


def test_every_button_is_in_the_table() -> None:
    tried = {action for _, _, action, _ in (*ONCE, *AGAIN)}
    assert tried | LIKE_OTHERS | ELSEWHERE == {*ACTIONS, "source", "unsend"}


@pytest.mark.parametrize(("scene", "action", "label"), [
    pytest.param(*row, id=name) for name, *row in (*ONCE, *AGAIN)
])  # fmt: skip
async def test_a_second_tap_shows_what_the_first_did(
    phone: Phone, scene: Scene, action: str, label: str
) -> None:
    under = await scene(phone)
    data = data_of(under, action, label)
    await phone.press(data, under=under)
    first, facts = shown(phone), phone.facts()
    assert phone.popups[-1].strip()
    await phone.press(data, under=under)
    assert phone.popups[-1].strip() and phone.facts() == facts
    is_repeated = any((scene, action, label) == (s, a, t) for _, s, a, t in AGAIN)
    assert shown(phone) == (first + first[-1:] if is_repeated else first)


@pytest.mark.parametrize(("scene", "action", "label"), [
    pytest.param(*row, id=name) for name, *row in ONCE
    if name not in {"undo", "recall", "unremind", "zone", "unsend", "erase", "wish"}
])  # fmt: skip
async def test_a_tap_after_a_death_shows_what_was_done(
    phone: Phone, scene: Scene, action: str, label: str
) -> None:
    """Those left out say in a pop-up that it is done; an erasure takes the tap along."""
    under = await scene(phone)
    data = data_of(under, action, label)
    undone = await phone.rig.core.commands.press(
        Action.unpack(data), phone.rig.called(USER, "ru", moment=datetime.now(UTC))
    )
    expected = undone.hinted
    kept = [[(b.label, b.action.pack()) for b in row] for row in undone.rows]
    await phone.press(data, under=under)
    assert under.text == expected and buttons(under)[: len(kept)] == kept
    assert phone.popups[-1].strip()


@pytest.mark.parametrize(("scene", "action", "label"), [
    pytest.param(*row, id=name) for name, *row in ONCE
    if name in {"undo", "recall", "unremind", "wish"}
])  # fmt: skip
async def test_a_button_with_nothing_left_to_do_goes(
    phone: Phone, scene: Scene, action: str, label: str
) -> None:
    under = await scene(phone)
    data, text = data_of(under, action, label), under.text
    await phone.rig.core.commands.press(Action.unpack(data), phone.rig.called(USER, "ru"))
    before = len(phone.fake.sent_to(USER))
    await phone.press(data, under=under)
    assert data not in str(buttons(under)) and under.text == text
    assert len(phone.fake.sent_to(USER)) == before and phone.popups[-1] == phone.told


async def test_what_was_decided_can_still_be_taken_back_after_a_second_tap(phone: Phone) -> None:
    question = await doubt(phone)
    data = data_of(question, "settle", "Заменить")
    for _ in range(2):
        await phone.press(data, under=question)
    assert phone.facts() == ["Меня зовут Ольга"]
    await phone.tap(say("undo_button", "ru"), under=question)
    assert phone.facts() == ["Меня зовут Анна"] and buttons(question) == []
    await phone.press(data, under=question)
    assert buttons(question) == [], "nothing is left to take back"


async def test_of_a_list_to_forget_the_others_stay(phone: Phone) -> None:
    listed = await BROTHERS(phone)
    await phone.tap("шахматы", under=listed)
    await phone.tap("Вене", under=listed)
    assert phone.facts() == []
    [[(first, _)], [(second, _)]] = buttons(listed)
    assert first == second == say("undo_forgot_button", "ru")
    for row in buttons(listed):
        await phone.press(row[0][1], under=listed)
    assert len(phone.facts()) == 2 and buttons(listed) == []


async def test_a_stranger_in_a_group_is_told_so_and_changes_nothing(phone: Phone) -> None:
    phone.place = Sender(chat_id=GROUP, chat_type="supergroup")
    await phone.write("/remember Встречаемся по вторникам")
    under = await open_card(phone, "вторникам")
    before = (under.text, buttons(under))
    data = data_of(under, "forget", "")
    await phone.fake.press_button(STRANGER, under.message_id, data, chat_id=GROUP)
    [raw] = [
        one
        for one in await phone.bot(GetRawUpdates(offset=phone.offset, timeout=0))
        if "callback_query" in one
    ]
    await build_intake(phone.rig.client, AllowList(frozenset({USER}))).store([raw])
    phone.offset = raw["update_id"] + 1
    assert await phone.work() == ["refused silently"]
    assert phone.popups[-1] == say("not_allowed", "ru", user_id=STRANGER)
    assert (under.text, buttons(under)) == before and len(phone.facts()) == 1


async def test_another_members_tap_in_a_group_takes_no_button_away(phone: Phone) -> None:
    phone.place = Sender(chat_id=GROUP, chat_type="supergroup")
    for words in ("/remember Ключ у Олега", "Помни, пароль от почты: Qwerty!2345"):
        await phone.write(words)
        under = phone.last
        [[(_, data)]] = before = buttons(under)
        await phone.fake.press_button(STRANGER, under.message_id, data, chat_id=GROUP)
        await phone.work()
        assert phone.popups[-1] == say("tap_others", "ru") and buttons(under) == before
        await phone.press(data, under=under)
        assert phone.popups[-1] != say("tap_others", "ru") and not buttons(under)


FORGED = [
    "", "?", "x" * 64, "nonsense", "nonsense:1", "forget", "forget:-1", "forget:1:2:3:4:5",
    "fact:99999999999999999999", "settle:0:0", "drop:1:1", "undo:0", "undo:0:0", "later:1:99:1",
    "zone:1", "choose:99", "mode:99", "length:9",
    "remembering:5", "reminders:99999999", "unremind:5:0", "source:x",
    "source:msg-1", "unsend:x", "set_zone:3", "page:2", "ФАКТ:1", "erase:1",
]  # fmt: skip


async def test_forged_and_outdated_data_get_one_sentence(phone: Phone) -> None:
    await phone.write("/help")
    before = len(phone.fake.sent_to(USER))
    for data in FORGED:
        taps = len(phone.popups)
        assert await phone.press(data) == ["done"]
        [told] = phone.popups[taps:]
        assert told.strip() and "\n" not in told
    told_in_chat = phone.fake.sent_to(USER)[before:]
    assert len(told_in_chat) <= 1, "a question that is gone says so below itself"


async def test_a_tap_that_has_to_wait_says_so(phone: Phone) -> None:
    """Telegram does not say whether they may: it is asked once more, by another attempt."""
    phone.place = Sender(chat_id=GROUP, chat_type="supergroup")
    await phone.write("/help")
    phone.fake.fail_next("getChatMember", status=502)
    with pytest.raises(DeliveryError):
        await phone.press("mode:0")
    assert phone.popups[-1] == say("tap_later", "ru")
