"""What a user asked to forget is hidden at once, and ten minutes later it is nowhere any more."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from src.history.conversation_repo import TelegramOrigin
from src.memory.change_repo import UNDO_SECONDS
from src.memory.forgetter import Forgetter
from src.memory.purge_repo import PurgeRepository
from src.pg.client import PgClient
from src.queue.update_repo import NewUpdate
from tests.fakes.openai_server import ChatRequest, Reply
from tests.integration.person import FAKE_EMBEDDINGS, Agents, Person, called, saved
from tests.integration.turns import answer_turn, mark_turn
from tests.tables import columns_that_hold

BOT = 555
SECRET = "Мой проект называется qzwomba"
FACT = {"text": SECRET, "quote": SECRET, "relation": "works_on", "object": "qzwomba"}


@pytest.fixture
async def person(client: PgClient, agents: Agents) -> Person:
    return await agents.person(embedding_model=FAKE_EMBEDDINGS)


def purge(person: Person, *, minutes_later: float = UNDO_SECONDS / 60 + 1) -> int:
    columns = {"messages": "forgotten_at", "changes": "made_at", "memories": "retired_at"}
    for table, column in columns.items():
        sql = f"UPDATE {table} SET {column} = {column} - make_interval(mins => %(minutes)s)"
        person.client.execute(sql, {"minutes": round(minutes_later)})
    return PurgeRepository(person.client).purge_forgotten()


def held(person: Person) -> set[str]:
    return columns_that_hold(person.core.dsn, "qzwomba")


def forget_messages(person: Person, uids: list[str]) -> None:
    """Forget whole messages, which nobody has asked for in the chat."""
    with person.client.transaction() as transaction:
        Forgetter(transaction, person.owner).forget(uids)


async def forget(person: Person, text: str) -> None:
    [uid] = [f"msg-{number}" for number, said in person.messages().items() if said == text]
    await person.say("Забудь это", called("forget_fact", ids=[uid]), "Готово, qzwomba забыта.")


async def test_what_is_forgotten_stays_ten_minutes_and_is_then_nowhere(person: Person) -> None:
    await person.say(SECRET, saved(FACT), "Запомнил: qzwomba")
    order = "Всегда отвечай qzwomba"
    await person.say(order, saved({"text": order, "quote": order}), "Нет")
    await person.say("Какая погода?", "Солнце.")
    await person.say("Как проект?", called("search_memory", query="qzwomba"), "qzwomba [1]")
    await person.index()
    await forget(person, SECRET)
    await forget(person, "Всегда отвечай qzwomba")
    facts = {f"memories.{column}" for column in ("text", "object", "content_hash")}
    kept = {"messages.content", "changes.before", "memory_sources.quote", "entities.name"}
    assert held(person) - facts == {*kept, "entities.normalised_name"}, "so it can be undone"
    assert person.rows("SELECT 1 FROM facts") == []
    assert purge(person, minutes_later=UNDO_SECONDS / 60 - 1) == 0
    assert "messages.content" in held(person)
    assert purge(person) > 0
    assert held(person) == set()
    assert person.rows("SELECT 1 FROM messages WHERE is_forgotten") == []
    kept = person.rows("SELECT message_text(content) FROM messages WHERE role = 'user'")
    assert kept == [("Какая погода?",)], "also the question about it went"
    assert purge(person) == 0


def summaries(request: ChatRequest) -> Reply | str:
    """Summaries and extraction name what they read."""
    if request.raw.get("tool_choice"):
        return Reply(tool_calls=[("ExtractedFacts", {"facts": []})])
    return "Говорили о qzwomba." if "qzwomba" in str(request.messages) else "Говорили."


async def test_positions_are_not_given_out_again_after_the_newest_went(person: Person) -> None:
    """Else new messages would count as summarised, and as read for facts."""
    for number in range(18):
        await person.say(f"qzwomba {number}", "ответ")
    person.model.reply = summaries
    await person.core.memory.digest.index_pending()
    await person.core.memory.digest.digest(person.conversation())
    digested = person.rows("SELECT extracted_position, last_position FROM conversations")
    [(covered,)] = person.rows("SELECT max(last_position) FROM conversation_summaries")
    assert digested == [(20, 0)] and covered > 5
    uids = [f"msg-{id_}" for (id_,) in person.rows("SELECT id FROM messages WHERE position > 2")]
    forget_messages(person, uids)
    assert purge(person) > 0
    assert person.rows("SELECT max(position) FROM messages") == [(2,)]
    await person.say("новое", "новый ответ")
    assert person.rows("SELECT position FROM messages ORDER BY id DESC LIMIT 2") == [(38,), (37,)]
    await person.core.memory.digest.digest(person.conversation())
    [(extracted,)] = person.rows("SELECT extracted_position FROM conversations")
    assert extracted < 37, "what is new waits to be read"
    spans = person.rows(
        "SELECT first_position, last_position, content FROM conversation_summaries ORDER BY 1"
    )
    assert [span[0] for span in spans[1:]] == [span[1] + 1 for span in spans[:-1]]
    assert "qzwomba" not in str([span[2] for span in spans[1:]])


async def test_a_message_whose_answer_is_under_way_waits_for_it(person: Person) -> None:
    updates = person.core.updates
    payload: dict[str, Any] = {"update_id": 1}
    new = NewUpdate(1, "message", payload, person.user, 0, person.user, 7)
    updates.store(BOT, [new])
    [(row,)] = person.rows("SELECT id FROM telegram_updates")
    origin = TelegramOrigin(BOT, person.user, 7, person.user, update=row)
    turn = await person.begin(SECRET, origin=origin)
    person.rows("UPDATE messages SET is_forgotten = true, forgotten_at = now()")
    person.model.queue("Хорошо, qzwomba")
    answer = await answer_turn(person.core.agent, turn)
    assert purge(person) == 0, "the answer could not be delivered yet"
    await mark_turn(person.core.agent, turn, answer)
    assert purge(person) == 2 and held(person) == set()
    assert updates.store(BOT, [new]) == 0, "Telegram delivers it again: it is not answered twice"
    assert updates.find_waiting(row) is None


async def test_more_than_one_batch_goes_in_one_run(person: Person) -> None:
    conversation: UUID = person.conversation()
    person.rows(
        "INSERT INTO messages (conversation_id, role, content, position, is_forgotten,"
        " forgotten_at) SELECT %(id)s, 'user', 'qzwomba', n, true, now()"
        " FROM generate_series(1, 2500) n",
        id=str(conversation),
    )
    assert purge(person) == 2500 and held(person) == set()
    assert person.rows("SELECT last_position FROM conversations") == [(2500,)]
