"""One bot as a process, seen by people in Telegram; each test is another person."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from src.talk.commands import COMMANDS, Place, offered
from src.telegram.buttons import STOP_LABEL
from src.texts import LANGUAGES, Language, say
from tests.e2e.bot_process import World, eventually
from tests.fakes.openai_server import Reply, call_text
from tests.fakes.telegram_people import Sender
from tests.help_pages import WITH_MODEL
from tests.integration.phone import buttons

_people = itertools.count(2**41 + 1)

INACTIVE = """
SELECT inactive_since IS NOT NULL FROM user_settings WHERE owner_id = add_owner(%s, 0)
"""


@pytest.fixture
def person() -> int:
    """A person who has not written yet; the number needs 42 bits."""
    return next(_people)


async def test_an_answer_grows_in_one_message_with_a_stop_button(
    shared_world: World, person: int
) -> None:
    telegram, model = shared_world.telegram, shared_world.model
    other = person + 2**20  # the first reply of a model shows whether it begins with thoughts
    await telegram.send_text(other, "привет")
    await telegram.wait_sent(other)
    gate = asyncio.Event()
    model.queue(Reply(text="слово " * 20, chunk_size=60, gate=gate, gate_after_chunks=1))
    asked = await telegram.send_text(person, "расскажи")
    [answer] = await telegram.wait_sent(person)
    assert answer.text == ("слово " * 10).strip()
    assert buttons(answer) == [[(STOP_LABEL, f"halt:{asked}")]]
    gate.set()
    await shared_world.settled()
    assert answer.text == ("слово " * 20).strip() and answer.reply_markup is None
    assert telegram.drafts == [] and len(telegram.sent_to(person)) == 1
    assert shared_world.history(person) == [("user", "расскажи"), ("assistant", answer.text)]
    assert shared_world.undelivered() == []


async def test_a_burst_is_answered_once_by_its_last_one(shared_world: World, person: int) -> None:
    telegram, model = shared_world.telegram, shared_world.model
    gate = asyncio.Event()
    model.queue(Reply(text="о первом", gate=gate))
    await telegram.send_text(person, "первое")
    await model.wait_for(lambda: model.waiting_at_gate)
    before = model.request_count
    for number in range(4):
        await telegram.send_text(person, f"быстро {number}")
    await telegram.wait_for(lambda: not telegram.pending_updates)
    [answer] = await telegram.wait_sent(person)
    gate.set()
    await shared_world.settled()
    assert answer.text == "эхо: быстро 3"
    assert shared_world.answers(person) == ["эхо: быстро 3"]
    assert model.request_count == before + 1
    seen = str(model.requests[-1].messages)
    sent = ("первое", *(f"быстро {number}" for number in range(4)))
    assert all(text in seen for text in sent), "none of them is lost"


async def test_the_menu_of_commands_is_set_in_each_language(shared_world: World) -> None:
    telegram = shared_world.telegram
    languages: dict[str, Language] = {"" if one == "en" else one: one for one in LANGUAGES}
    scopes = ("default", "all_group_chats", "all_chat_administrators")
    await telegram.wait_for(lambda: len(telegram.commands) == len(scopes) * len(languages))
    assert set(telegram.commands) == {(scope, code) for scope in scopes for code in languages}
    for (scope, code), menu in telegram.commands.items():
        place: Place = "private" if scope == "default" else "group"
        is_admin = scope != "all_group_chats"
        entries = offered(COMMANDS.values(), WITH_MODEL, place, is_admin=is_admin)
        names = [entry.name for entry in entries]
        assert [entry["command"] for entry in menu] == names
        described = [say(f"command_{name}", languages[code]) for name in names]
        assert [entry["description"] for entry in menu] == described


@pytest.mark.parametrize("way", ["command", "button"])
async def test_stop_keeps_what_was_written(shared_world: World, person: int, way: str) -> None:
    telegram, model = shared_world.telegram, shared_world.model
    gate = asyncio.Event()
    model.queue(Reply(text="Начало. Конец.", chunk_size=8, gate=gate, gate_after_chunks=1))
    asked = await telegram.send_text(person, "расскажи")
    [growing] = await telegram.wait_sent(person)
    assert growing.text == "Начало."
    abandoned = model.abandoned
    if way == "command":
        await telegram.send_text(person, "/stop")
    else:
        [[(_, data)]] = buttons(growing)
        assert data == f"halt:{asked}"
        await telegram.press_button(person, growing.message_id, data)
    await model.wait_for(lambda: model.abandoned > abandoned)
    await shared_world.settled()
    kept = f"Начало.\n\n{say('stopped_early', 'ru')}"
    assert shared_world.answers(person) == [kept.replace("_", "")], "one notice is enough"
    assert "Конец" not in growing.text and growing.reply_markup is None
    assert [role for role, _ in shared_world.history(person)] == ["user", "assistant"]


async def test_messages_around_new_in_one_batch(shared_world: World, person: int) -> None:
    telegram, model = shared_world.telegram, shared_world.model
    gate = asyncio.Event()
    model.queue(Reply(text="подожди", gate=gate))
    await telegram.send_text(person, "занят")
    await model.wait_for(lambda: model.waiting_at_gate)
    for text in ("до", "/new", "после"):
        await telegram.send_text(person, text)
    await telegram.wait_sent(person, 2)
    await shared_world.settled()
    gate.set()
    assert shared_world.answers(person) == [say("new_done", "ru"), "эхо: после"]
    assert shared_world.history(person) == [("user", "после"), ("assistant", "эхо: после")]
    assert "до" not in str(model.requests[-1].messages).split()


async def test_a_blocked_bot_is_inactive_until_the_next_message_or_the_end_of_the_block(
    shared_world: World, person: int
) -> None:
    telegram = shared_world.telegram
    telegram.block(person)
    await telegram.send_text(person, "ты тут?")
    await eventually(
        lambda: shared_world.query(INACTIVE, person) == [(True,)], "the chat to be inactive"
    )
    await shared_world.settled()
    telegram.unblock(person)
    await telegram.send_text(person, "а теперь?")
    await telegram.wait_sent(person)
    assert shared_world.answers(person) == ["эхо: а теперь?"]
    assert shared_world.query(INACTIVE, person) == [(False,)]
    for status, expected in (("kicked", True), ("member", False)):  # as Telegram tells of it
        await telegram.change_bot_membership(person, status)
        await eventually(
            lambda expected=expected: shared_world.query(INACTIVE, person) == [(expected,)],
            f"inactive to be {expected}",
        )


async def test_in_a_group_only_what_is_addressed_to_the_bot_is_answered_and_stored(
    shared_world: World, person: int
) -> None:
    telegram, group, name = shared_world.telegram, -1_001_000_000_001, "@pomni_test_bot"
    place = Sender(chat_id=group, chat_type="supergroup")
    await telegram.send_text(person, "пойдём обедать?", **place)
    await telegram.send_text(person, "/start@another_bot", **place)
    asked = await telegram.send_text(person, f"{name}, где обед?", **place)
    [answer] = await telegram.wait_sent(group)
    again = await telegram.send_text(next(_people), "а ужин?", **place, reply_to=answer.message_id)
    await telegram.wait_sent(group, 2)
    await shared_world.settled()
    assert shared_world.answers(group) == ["эхо: где обед?", "эхо: а ужин?"]
    assert [sent.reply_to for sent in telegram.sent_to(group)] == [asked, again]
    assert "обедать" not in str(shared_world.history(group))


async def test_the_prompt_is_read_ahead_and_a_call_that_is_text_is_never_seen(
    shared_world: World, person: int
) -> None:
    told = "Меня зовут Зоряна"
    await shared_world.model.wait_for(lambda: shared_world.model.read_ahead)
    call = call_text("save_user_fact", text=told, quote=told)
    shared_world.model.queue(Reply(text=call, chunk_size=2, chunk_delay=0.02), "Запомнил.")
    await shared_world.telegram.send_text(person, told)
    await shared_world.telegram.wait_sent(person)
    await shared_world.settled()
    ahead = shared_world.model.read_ahead[0]
    asked = next(r for r in shared_world.model.requests if r.last_user_text == told)
    assert ahead.tools == asked.tools and ahead.messages[0] == asked.messages[0]
    shown = [text for sent in shared_world.telegram.sent_to(person) for text in sent.shown]
    assert not any("name" in text or "`" in text or "{" in text for text in shown), shown
    assert shown[-1].startswith("Запомнил.")
    facts = "SELECT text FROM facts WHERE telegram_user_id = %s"
    assert shared_world.query(facts, person) == [(told,)]
