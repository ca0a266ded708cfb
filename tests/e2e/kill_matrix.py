"""Users at different points of their turns when the bot is killed, and the expected outcomes.

Each point is an async generator: it brings one user to the point, yields ``DEAD`` if something
must be done before the restart, yields ``ALIVE``, and checks the outcome.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal

import psycopg2

from src.texts import say
from tests.e2e.bot_process import World, eventually
from tests.fakes.openai_server import ChatRequest, Reply, echo
from tests.fakes.telegram_people import Sender
from tests.fakes.telegram_types import SentMessage
from tests.integration.person import called, denied, fact, forms, taught

Point = Literal["dead", "alive"]
Life = AsyncIterator[Point]
DEAD: Point = "dead"
ALIVE: Point = "alive"
KYIV, LVIV = (
    fact(f"Я живу у місті {city}", relation="lives_in", object=city) for city in ("Київ", "Львів")
)
BROTHER = "Мій брат живе в Одесі"
HOUSE = "Будинок із червоним дахом."
OF_USER = "JOIN conversations c ON c.id = m.conversation_id WHERE c.telegram_user_id = %s"


class Script:
    """Replies of the model by the last user text; an echo by default."""

    def __init__(self) -> None:
        self.replies: dict[str, deque[Reply | str]] = defaultdict(deque)

    def __call__(self, request: ChatRequest) -> Reply | str:
        [form] = forms([request])
        if form == "Understanding":
            return taught(LVIV if LVIV["text"] in str(request.messages[-1]) else KYIV)
        if form == "Conflicts":
            return denied()
        if any(tool["function"]["name"] == "ExtractedFacts" for tool in request.tools):
            return called("ExtractedFacts", facts=[])
        if "image_url" in str(request.messages[-1]):
            return HOUSE
        replies = self.replies[request.last_user_text]
        return replies.popleft() if replies else echo(request)


class Someone:
    """One user of the matrix."""

    def __init__(self, world: World, script: Script, user: int) -> None:
        self.world = world
        self.telegram = world.telegram
        self.model = world.model
        self.script = script
        self.id = user
        self.group = -1_001_000_000_000 - user % 1000

    async def says(self, text: str, *replies: Reply | str, **sender: Any) -> int:
        """Write a message that gets these model replies; returns the message id."""
        self.script.replies[text.removeprefix("@pomni_test_bot ")].extend(replies)
        return await self.telegram.send_text(self.id, text, language_code="uk", **sender)

    async def write(self, text: str, count: int, **sender: Any) -> SentMessage:
        """Write a message, and return the bot's last message once it has sent ``count``."""
        await self.says(text, **sender)
        await self.telegram.wait_sent(self.id, count)
        await self.is_handled()
        return self.sent[-1]

    async def press(self, message: SentMessage, data: str) -> None:
        """Press a button, and wait until the press is handled."""
        update = await self.telegram.press_button(self.id, message.message_id, data)
        await self.telegram.wait_confirmed(update)
        await self.is_handled()

    async def is_handled(self) -> None:
        """Return once no update of the user is pending."""
        waiting = "SELECT 1 FROM telegram_updates WHERE user_id = %s AND handled_at IS NULL"
        await eventually(
            lambda: not self.telegram.pending_updates and not self.world.query(waiting, self.id),
            "the person's updates",
        )

    async def meets(self, call: str, **fault: Any) -> None:
        """Let the next such call in the user's chat hang."""
        self.telegram.hang_next(call, chat_id=self.id, **fault)

    async def hangs(self, call: str) -> None:
        """Return once such a call in the user's chat hangs."""
        await self.telegram.wait_for(
            lambda: any(
                made.error == "hang" and made.params.get("chat_id") == self.id
                for made in self.telegram.calls_of(call)
            ),
            what=f"{call} to hang",
        )

    @property
    def sent(self) -> list[SentMessage]:
        return self.telegram.sent_to(self.id)

    @property
    def answers(self) -> list[str]:
        return self.world.answers(self.id)

    @property
    def facts(self) -> list[str]:
        sql = (
            "SELECT text FROM facts WHERE telegram_user_id = %s AND retired_at IS NULL ORDER BY id"
        )
        return [text for (text,) in self.world.query(sql, self.id)]

    def count(self, sql: str, owner: int | None = None) -> int:
        """Return the number of rows that a query finds for an owner (``%s``)."""
        return len(self.world.query(sql, owner or self.id))

    def undelivered(self) -> int:
        return self.count(
            f"SELECT 1 FROM messages m {OF_USER} AND role = 'assistant' AND delivered_at IS NULL"
        )

    def asked(self, text: str) -> int:
        """Return the number of model requests with this last user text."""
        return sum(request.last_user_text == text for request in self.model.requests)


def data_of(message: SentMessage, key: str) -> str:
    """Return the data of the button whose label has this text key."""
    rows = (message.reply_markup or {})["inline_keyboard"]
    [data] = [b["callback_data"] for row in rows for b in row if b["text"] == say(key, "uk")]
    return str(data)


def locked(world: World, table: str) -> psycopg2.extensions.connection:
    """Block writes to a table until the returned connection is closed."""
    blocker = psycopg2.connect(world.dsn)
    with blocker.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {table} IN SHARE MODE")
    return blocker


async def wait_for_lock(world: World, table: str) -> None:
    waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = %s::regclass"
    await eventually(lambda: world.query(waits, table), f"a write to {table} to wait")


# Messages and answers


async def before_the_message_was_stored(one: Someone) -> Life:
    blocker = locked(one.world, "telegram_updates")
    await one.says("раз, не збережене")
    await wait_for_lock(one.world, "telegram_updates")
    yield DEAD
    assert len(one.telegram.pending_updates) == 1, "it was not confirmed"
    blocker.close()
    yield ALIVE
    await one.telegram.wait_sent(one.id)
    assert one.world.history(one.id) == [
        ("user", "раз, не збережене"), ("assistant", "эхо: раз, не збережене"),
    ]  # fmt: skip
    assert one.answers == ["эхо: раз, не збережене"]


async def before_the_answer_began(one: Someone, pieces: int = 0) -> Life:
    first, second = f"раз, {pieces}", f"два, {pieces}"
    unfinished = Reply(
        text="незаконченное", chunk_size=3, gate=asyncio.Event(), gate_after_chunks=pieces
    )
    waiting = one.model.waiting_at_gate
    await one.says(first, unfinished)
    await one.model.wait_for(lambda: one.asked(first) and one.model.waiting_at_gate > waiting)
    later = await one.says(second)
    await one.telegram.wait_confirmed(one.telegram.update_id_of(later))
    yield ALIVE
    assert one.answers == [f"эхо: {second}"], "the later message answers for both"
    said = [text for role, text in one.world.history(one.id) if role == "user"]
    assert said == [first, second] and not one.undelivered()


async def in_mid_stream(one: Someone) -> Life:
    async for point in before_the_answer_began(one, 2):
        yield point


async def before_the_answer_was_sent(one: Someone, when: str = "before") -> Life:
    text = f"раз, {when}"
    await one.meets("sendMessage", when=when, text=f"эхо: {text}")
    await one.says(text)
    await one.hangs("sendMessage")
    assert one.undelivered() == 1, "it was stored before it was sent"
    yield ALIVE
    sent = 2 if when == "after" else 1  # an answer that may not have arrived is sent again
    assert one.answers == [f"эхо: {text}"] * sent
    assert one.world.history(one.id) == [("user", text), ("assistant", f"эхо: {text}")]
    assert one.asked(text) == 1, "the model is not asked again"


async def after_the_answer_was_sent(one: Someone) -> Life:
    async for point in before_the_answer_was_sent(one, "after"):
        yield point


async def between_the_parts_of_a_long_answer(one: Someone) -> Life:
    paragraphs = [f"абзац {number} " + "слово " * 100 for number in range(20)]
    await one.meets("sendMessage", text="абзац 19 ")
    await one.says("розкажи довго", Reply(text="\n\n".join(paragraphs), chunk_size=500))
    await one.hangs("sendMessage")
    parts = f"SELECT 1 FROM messages m {OF_USER} AND delivered_parts >= 2"
    await eventually(lambda: one.count(parts), "the count of parts")
    yield ALIVE
    whole = "".join(one.answers)
    assert all(whole.count(f"абзац {number} ") == 1 for number in range(20))
    assert one.asked("розкажи довго") == 1 and not one.undelivered()


async def while_a_message_shows_the_growing_answer_in_a_group(one: Someone) -> Life:
    place = Sender(chat_id=one.group, chat_type="supergroup")
    growing = Reply(text="Начало и конец", chunk_size=6, gate=asyncio.Event(), gate_after_chunks=1)
    await one.says("@pomni_test_bot розкажи у групі", growing, **place)
    shown = f"SELECT 1 FROM messages m {OF_USER} AND stream_message_id IS NOT NULL"
    await eventually(lambda: one.count(shown, one.group), "the message to be remembered")
    assert len(one.telegram.sent_to(one.group)) == 1
    yield ALIVE
    assert one.world.answers(one.group) == ["эхо: розкажи у групі"], "one message shows it"


# Questions with buttons


async def ask(one: Someone) -> SentMessage:
    """Teach a city, pin it, and teach another; returns the bot's question."""
    await one.write("/mode strict", 1)
    await one.write(KYIV["text"], 2)
    one.world.query("UPDATE memories SET pinned = true WHERE owner_id = add_owner(%s, 0)", one.id)
    question = await one.write(LVIV["text"], 3)
    expected = say("conflict_pinned", "uk", old=KYIV["text"], new=LVIV["text"])
    assert question.text == f"{expected}\n{say('conflict_ask', 'uk')}"
    assert one.facts == [KYIV["text"]]
    return question


def check_replaced(one: Someone, question: SentMessage) -> None:
    """Check that the new fact replaced the old one and that the question is closed."""
    expected = say("taught_update", "uk", text=LVIV["text"], old=KYIV["text"])
    assert question.text.endswith(expected) and one.facts == [LVIV["text"]]
    assert one.count("SELECT 1 FROM facts WHERE telegram_user_id = %s") == 2
    check_closed(one)
    assert len(one.sent) == 3, "it stands where the question stood"


def check_closed(one: Someone) -> None:
    """Check that no question of the user is open."""
    waits = f"SELECT 1 FROM messages m {OF_USER} AND m.question IS NOT NULL"
    assert one.count(waits) == 0


async def between_a_question_and_the_press(one: Someone) -> Life:
    question = await ask(one)
    yield ALIVE
    demanded = [form for form in forms(one.model.requests) if form != "text"]
    await one.press(question, data_of(question, "conflict_replace"))
    check_replaced(one, question)
    assert [form for form in forms(one.model.requests) if form != "text"] == demanded
    await one.press(question, data_of(question, "undo_button"))
    assert one.facts == [KYIV["text"]]


async def while_a_press_is_at_work(one: Someone) -> Life:
    question = await ask(one)
    blocker = locked(one.world, "memories")
    data = data_of(question, "conflict_replace")
    await one.telegram.press_button(one.id, question.message_id, data)
    await wait_for_lock(one.world, "memories")
    yield DEAD
    blocker.close()
    yield ALIVE
    check_replaced(one, question)


async def before_what_came_of_a_press_is_shown(one: Someone, when: str = "before") -> Life:
    question = await ask(one)
    await one.meets("editMessageText", when=when)
    data = data_of(question, "conflict_replace")
    await one.telegram.press_button(one.id, question.message_id, data)
    await one.hangs("editMessageText")
    assert one.facts == [LVIV["text"]]
    yield ALIVE
    check_replaced(one, question)


async def after_what_came_of_a_press_is_shown(one: Someone) -> Life:
    async for point in before_what_came_of_a_press_is_shown(one, "after"):
        yield point


async def between_a_question_and_an_answer_in_words(one: Someone) -> Life:
    question = await ask(one)
    yield ALIVE
    answer = await one.write("Залиш обидва", 4)
    await one.telegram.wait_for(lambda: question.text.endswith(answer.text))
    assert question.reply_markup is None
    assert answer.text == say("taught_beside", "uk", text=LVIV["text"], old=KYIV["text"])
    assert one.facts == [KYIV["text"], LVIV["text"]]
    check_closed(one)


# Memory, pictures, reminders


async def before_it_says_what_it_remembered(one: Someone) -> Life:
    await one.meets("sendMessage")
    await one.says(f"/remember {BROTHER}")
    await one.hangs("sendMessage")
    yield ALIVE
    assert one.facts == [BROTHER]
    assert one.answers[-1] == say("taught_new", "uk", text=BROTHER)
    await one.press(one.sent[-1], data_of(one.sent[-1], "undo_saved_button"))
    assert one.facts == [], "the buttons came again, too"


async def before_an_answer_with_a_note_was_sent(one: Someone) -> Life:
    call = {"text": BROTHER, "quote": BROTHER, "subject": "brother", "relation": "lives_in",
            "object": "Одеса", "importance": 7}  # fmt: skip
    await one.meets("sendMessage")
    await one.says(BROTHER, called("save_user_fact", **call), "Гарне місто!")
    await one.hangs("sendMessage")
    yield ALIVE
    answer = one.sent[-1]
    assert answer.text == f"Гарне місто!\n\n{say('note_saved', 'uk', text=BROTHER)}"
    assert [entity["type"] for entity in answer.entities] == ["blockquote"]
    assert one.world.history(one.id)[1] == ("assistant", "Гарне місто!"), (
        "the model sees none of it"
    )
    await one.press(answer, data_of(answer, "undo_saved_button"))
    assert one.facts == []


async def before_the_answer_to_a_picture_was_sent(one: Someone) -> Life:
    caption = "Це мій новий дім"
    one.telegram.state.files["photo"] = b"\xff\xd8\xff\xe0 a house"
    photo = [{"file_id": "photo", "file_unique_id": "p", "width": 9, "height": 9}]
    one.script.replies[caption].append("Гарний дім!")
    await one.meets("sendMessage")
    await one.telegram.send_message(one.id, photo=photo, caption=caption, language_code="uk")
    await one.hangs("sendMessage")
    yield ALIVE
    looks = ["image_url" in str(request.messages[-1]) for request in one.model.requests]
    assert one.answers == ["Гарний дім!"]
    assert sum(looks) == 1 and one.asked(caption) == 1, "it was looked at once"
    said = [text for role, text in one.world.history(one.id) if role == "user"]
    assert said == [HOUSE, caption]
    assert HOUSE.split()[0] not in str([process.lines for process in one.world.processes])


WAITING = "SELECT 1 FROM reminders WHERE is_waiting AND owner_id = add_owner(%s, 0)"


async def between_due_and_sent(one: Someone) -> Life:
    await one.meets("sendMessage", text="⏰ зняти чайник")
    await one.says("/remind через секунду зняти чайник")
    await one.hangs("sendMessage")
    assert len(one.answers) == 1 and one.count(WAITING) == 1, "it is sent before it is noted"
    yield ALIVE
    await one.telegram.wait_sent(one.id, 2)
    await eventually(lambda: not one.count(WAITING), "the delivery to be noted")
    assert one.answers[1:] == ["⏰ зняти чайник"]


async def days_before_reminders_came_due(one: Someone) -> Life:
    await one.telegram.send_text(one.id, "/remind завтра в 9 позвонить маме")
    await one.telegram.send_text(one.id, "/remind каждый день в 9 таблетки")
    await one.telegram.wait_sent(one.id, 2)
    await one.is_handled()
    yield DEAD
    one.world.query(
        "UPDATE reminders SET due_at = date_trunc('second', now()) - interval '3 days 1 hour'"
        " WHERE owner_id = add_owner(%s, 0)",
        one.id,
    )
    yield ALIVE
    texts = sorted(message.text for message in (await one.telegram.wait_sent(one.id, 4))[2:])
    assert [text.partition("\n\n")[0] for text in texts] == ["⏰ позвонить маме", "⏰ таблетки"]
    assert all("\n\nИзвините, опоздал: это было на " in text for text in texts)
    left = f"{WAITING} AND recurrence IS NOT NULL AND due_at > now()"
    await eventually(lambda: one.count(left) == 1, "the next regular time")
    assert one.count(WAITING) == 1, "it alone"
    assert len(one.sent) == 4, "what was missed does not come one by one"


# Points that block other users run last, one after another.
LAST: tuple[Callable[[Someone], Life], ...] = (
    while_a_press_is_at_work,
    before_the_message_was_stored,
)
POINTS: tuple[Callable[[Someone], Life], ...] = (
    *(
        found
        for found in list(globals().values())
        if inspect.isasyncgenfunction(found) and found not in LAST
    ),
    *LAST,
)
