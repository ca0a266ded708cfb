"""Our own export, imported: the next export says the same."""

from __future__ import annotations

import io
import json
import random
import re
import zipfile
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from src.base.owners import Owner
from src.memory.memory_repo import FactQuery
from src.reading.gate import Voice
from src.reading.recurrences import Recurrence
from src.reminders.reminder_repo import NewReminder
from src.texts import say
from tests.integration.imports.bringing import Bringer, opened
from tests.integration.person import Person, Rig, new_user

pytestmark = pytest.mark.core(llm_model="offline")

CITIES = ("Киев", "Омск", "Рига", "Львов", "Прага", "Тбилиси")
NAMES = ("Барсик", "Рекс", "Мурка", "Анна", "Олег", "Ира")
DUE = datetime(2033, 3, 4, 9, tzinfo=UTC)
EVERY_DAY = Recurrence("daily", (9,))
LEFT_OUT = ("exported_at", "telegram_user_id", "usage")


async def live(person: Person, seed: int) -> None:
    """Let somebody live a life: talk, tell, move, pin, forget, set reminders and settings."""
    choose = random.Random(seed)
    for city in choose.sample(CITIES, 3):
        await person.tell(
            f"Я живу в городе {city}",
            relation="lives_in",
            object=city,
            importance=choose.randint(1, 7),
        )
    for name in choose.sample(NAMES, choose.randint(1, 4)):
        fact = f"У меня есть {name}"
        await person.tell(fact, object=name, confidence=choose.choice((0.7, 1.0)))
        if choose.random() < 0.5:
            await person.tell(fact, object=name)  # a second source
    start = datetime(2031, 1, 1, tzinfo=UTC) + timedelta(days=seed)
    await person.tell("Я еду в отпуск", memory_type="event", valid_from=start,
                      valid_until=start + timedelta(days=7))  # fmt: skip
    facts = await person.living()
    person.core.memory.memories.facts.set_pinned(person.owner, facts[0].id, pinned=True)
    await person.say("Привет")
    await person.say(f"Где живёт {choose.choice(NAMES)}?")
    quoted = Voice("forwarded", origin="Борис", quoted="что-то")
    message = person.write('пересланные \\x41 слова "в кавычках"\nи строка', voice=quoted)
    for number, again in enumerate((None, EVERY_DAY)):
        new = NewReminder(
            f"дело {seed} {number}", DUE + timedelta(days=number), again, "Europe/Kyiv", "ru",
            message_id=message.message_id,
        )  # fmt: skip
        assert person.core.reminders.rows.add(person.owner, new, now=person.moment)
    gone = NewReminder("отменено", DUE, None, "Europe/Kyiv", "ru", message_id=None)
    set_ = person.core.reminders.rows.add(person.owner, gone, now=person.moment)
    assert set_ is not None
    person.core.reminders.rows.cancel(person.owner, set_.id)
    if choose.random() < 0.5:
        await person.core.memory.memories.forget(person.owner, [f"fact-{facts[-1].id}"])
    person.core.user_settings.change(
        person.user, language="uk", time_zone="Europe/Riga", answer_length="short", follow_ups=True
    )
    brief = NewReminder("brief", DUE, EVERY_DAY, "Europe/Riga", "uk")
    person.core.day.rows.set_brief(person.owner, brief, now=person.moment)


def export(rig: Rig, user: int) -> str:
    target = io.StringIO()
    rig.core.exports.write_json(target, user, datetime.now(UTC))
    return target.getvalue()


def carried(exported: str, bringer: Bringer) -> str:
    """An export of the same person, from another bot."""
    return re.sub(r'("telegram_user_id": )\d+', rf"\g<1>{bringer.person.user}", exported)


def canonical(exported: str) -> dict[str, Any]:
    """An export without the numbers that every bot gives out itself."""
    whole = json.loads(exported)
    known = {}
    for message in whole["messages"]:
        known[message["uid"]] = f"{message['role']} {message['said_at']} {message['text']}"
    for fact in whole["facts"]:
        known[fact["id"]] = f"{fact['saved_at']} {fact['text']}"
    for reminder in whole["reminders"]:
        known[reminder["id"]] = f"{reminder['created_at']} {reminder['text']}"

    def renamed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: renamed(one) for key, one in value.items()}
        if isinstance(value, list):
            return [renamed(one) for one in value]
        return known.get(value, value) if isinstance(value, str) else value

    found: dict[str, Any] = renamed({k: v for k, v in whole.items() if k not in LEFT_OUT})
    return found


@pytest.mark.parametrize(
    "seed", [1, 2, 3, *(pytest.param(n, marks=pytest.mark.proof) for n in range(4, 21))]
)
async def test_export_import_export_is_equal(person: Person, seed: int) -> None:
    await live(person, seed)
    first = export(person.rig, person.user)
    other = Bringer(Person(person.rig, new_user()))
    if seed % 2:
        target = io.BytesIO()
        with zipfile.ZipFile(target, "w") as archive:
            archive.writestr("pomni.json", carried(first, other))
        reply = await other.bring(target.getvalue(), "pomni.zip")
    else:
        reply = await other.bring(carried(first, other))
    await other.tap(reply, say("import_take", "ru"))
    await other.work()
    second = export(person.rig, other.person.user)
    assert canonical(second) == canonical(first)
    found = await other.person.find("Я живу в городе", kinds=("memory",))
    assert found and person.core.memory.memories.facts.list_facts(
        other.person.owner, FactQuery(is_pinned=True)
    )


async def test_importing_an_export_into_the_same_memory_adds_nothing(person: Person) -> None:
    await live(person, 1)
    first = export(person.rig, person.user)
    bringer = Bringer(person)
    await bringer.tap(await bringer.bring(first), say("import_take", "ru"))
    await bringer.work()
    assert canonical(export(person.rig, person.user)) == canonical(first)
    assert (await bringer.current()).text == say("import_done_none", "ru", name="Pomni")


async def test_an_undo_takes_all_of_an_export_back(person: Person) -> None:
    await live(person, 1)
    other = Bringer(Person(person.rig, new_user()))
    person.core.user_settings.change(other.person.user, answer_length="long")
    before = export(person.rig, other.person.user)
    reply = await other.bring(export(person.rig, person.user))
    assert reply.text == say("import_who", "ru"), "it is another account's"
    reply = await other.tap(reply, f"Telegram {person.user}")
    await other.tap(reply, say("import_take", "ru"))
    await other.work()
    assert other.person.facts()
    await other.undo()
    assert canonical(export(person.rig, other.person.user)) == canonical(before)


@pytest.mark.parametrize("wrong", [
    {"messages": [{"role": "admin", "uid": "msg-1", "text": "x", "said_at": "2024-01-01"}]},
    {"messages": [{"role": "user", "uid": "msg-1", "text": 7, "said_at": "2024-01-01"}]},
    {"messages": [{"role": "user", "uid": "msg-1", "text": "x", "said_at": "never"}]},
    {"facts": [{"id": "fact-1", "text": "x", "kind": "odd", "saved_at": "2024-01-01"}]},
    {"facts": [{"id": "fact-1", "text": "x", "saved_at": "2024-01-01", "sources": [{}]}]},
    {"reminders": [{"id": "r", "text": "x", "created_at": "2024-01-01", "due_at": "2024-01-01",
                    "time_zone": "Nowhere", "is_waiting": True}]},
    {"reminders": [{"id": "r", "text": "x", "created_at": "2024-01-01"}]},
    {"settings": {"mode": "admin"}},
])  # fmt: skip
async def test_a_wrong_row_of_an_export_loses_only_itself(
    person: Person, wrong: dict[str, Any]
) -> None:
    good = {"uid": "msg-2", "role": "user", "text": "good", "said_at": "2024-01-02"}
    parts = {"format": "pomni-export", "version": 1, **wrong}
    parts["messages"] = [*parts.get("messages", []), good]
    bringer = Bringer(person)
    reply = await bringer.screens.read(bringer.caller, opened(json.dumps(parts)))
    await bringer.tap(reply, say("import_take", "ru"))
    await bringer.work()
    assert [text for text, *_ in bringer.said()] == ["good"]
    assert Owner(person.user) == person.owner


async def test_a_reminder_whose_time_has_passed_does_not_come_at_once(person: Person) -> None:
    old = {"text": "old", "created_at": "2024-01-01", "due_at": "2024-01-02T09:00:00+00:00",
           "time_zone": "Europe/Kyiv", "is_waiting": True}  # fmt: skip
    reminders = [
        {**old, "id": "reminder-1"},
        {**old, "id": "reminder-2", "text": "daily", "recurrence": EVERY_DAY.to_text()},
    ]
    whole = {"format": "pomni-export", "reminders": reminders}
    bringer = Bringer(person)
    await bringer.tap(await bringer.bring(json.dumps(whole)), say("import_take", "ru"))
    await bringer.work()
    waiting = person.core.reminders.rows.list_waiting(person.owner, limit=10)
    assert [one.text for one in waiting] == ["daily"]
    assert waiting[0].due_at > datetime.now(UTC)
