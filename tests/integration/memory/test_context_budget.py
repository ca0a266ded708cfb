"""What the memory adds to a prompt stays within a budget, however long the chat has run."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from langchain_core.messages import SystemMessage

from src.base.owners import Owner
from src.llm.tokens import TOKENS_OF_PRIMING, TokenCounter
from src.memory.prompts import MAX_SUMMARY
from src.memory.search_index_repo import NewDocument, add_documents
from src.pg.client import Transaction
from src.texts.morphology import terms
from tests.fakes.openai_server import ChatRequest, Reply
from tests.integration.person import Agents, Person, Rig, incoming, new_user
from tests.integration.turns import answer_turn, begin_turn
from tests.oracle import Oracle

pytestmark = pytest.mark.core(embedding_model="openai:fake-embedding")

BUDGET = 4700  # tokens, without the system prompt and the history
MEMORY_BLOCKS = ("user_facts", "history_summary", "memories")
FACTS = 300

# Texts of the user's longest stories; each is repeated until it is as long as it may be.
STORIES = {
    "ru": "Велосипед стоит в подъезде, а каретка скрипит после каждого дождя, надо бы смазать. ",
    "uk": "Велосипед стоїть у під'їзді, а каретка рипить після кожного дощу, треба б змастити. ",
    "en": "The bicycle stands in the hallway and the bottom bracket creaks after every rain. ",
}
# Messages with positions, half of them the user's, the newest now.
INSERT_MESSAGES = """
INSERT INTO messages (conversation_id, role, content, position, said_at, created_at)
SELECT %(conversation)s, CASE WHEN n %% 2 = 1 THEN 'user' ELSE 'assistant' END,
       CASE WHEN n %% 2 = 1 THEN '[Текущее время: 2026-01-01 12:00] ' ELSE '' END
           || n || '. ' || %(text)s, n, moment, moment
FROM generate_series(1, %(messages)s) n,
     LATERAL (SELECT now() - (%(messages)s - n + 1) * interval '1 minute') AS t (moment)
"""
INSERT_FACTS = """
INSERT INTO memories (owner_id, memory_type, text, subject, relation, object, importance,
                      pinned, origin, content_hash)
SELECT add_owner(%(user)s, 0), 'user_fact', left(n || '. ' || %(text)s, 390), 'user', 'other', 'x',
       1 + n %% 10, n %% 7 = 0, 'tool', n::text
FROM generate_series(1, %(facts)s) n
"""
# The messages before the newest 31, in summaries of six and one merged one before them.
INSERT_SUMMARIES = """
INSERT INTO conversation_summaries (conversation_id, first_position, last_position, content)
SELECT %(conversation)s, first, last,
       left(first || '. ' || %(text)s, CASE first WHEN 1 THEN 2 ELSE 1 END * %(longest)s)
FROM (SELECT 1 AS first, %(messages)s - 67 AS last
      UNION ALL
      SELECT n, n + 5 FROM generate_series(%(messages)s - 66, %(messages)s - 31, 6) n) AS parts
WHERE %(messages)s > 67
"""


def fill(rig: Rig, user: int, messages: int, text: str) -> UUID:
    """A person with so many messages, hundreds of facts, and a hundred things to be found."""
    conversation_id = rig.core.conversations.get_or_create_conversation(user)
    long = text * (2000 // len(text) + 1)
    parameters: dict[str, Any] = {
        "conversation": str(conversation_id),
        "user": user,
        "messages": messages,
        "facts": FACTS,
        "text": long,
        "longest": MAX_SUMMARY,
    }
    rig.client.execute(INSERT_MESSAGES, {**parameters, "text": long[:900]})
    rig.client.execute(INSERT_FACTS, parameters)
    rig.client.execute(INSERT_SUMMARIES, parameters)
    index_oldest(rig, Owner(user), conversation_id, long)
    return conversation_id


def index_oldest(rig: Rig, owner: Owner, conversation_id: UUID, text: str) -> None:
    """Index the first hundred messages and facts, and the summaries, by their words."""
    sources = [
        ("message", "SELECT id FROM messages WHERE conversation_id = %(id)s AND role = 'user'"),
        ("memory", "SELECT id FROM memories WHERE owner_id = %(owner)s"),
        ("summary", "SELECT id FROM conversation_summaries WHERE conversation_id = %(id)s"),
    ]
    parameters = {"id": str(conversation_id), **owner.columns()}
    words = terms(text)[:80]

    def add(transaction: Transaction) -> None:
        for kind, sql in sources:
            rows = transaction.fetch_all(f"{sql} ORDER BY id LIMIT 100", parameters)
            moment = datetime(2026, 1, 1, tzinfo=UTC)
            documents = [NewDocument(kind, i, "user", moment, words) for (i,) in rows]  # type: ignore[arg-type]
            if documents:
                add_documents(transaction, owner, documents)

    rig.client.in_transaction(add)


async def ask(rig: Rig, user: int, question: str) -> ChatRequest:
    now = datetime.now(UTC)
    turn = await begin_turn(rig.core.agent, incoming(question, user, moment=now))
    await answer_turn(rig.core.agent, turn)
    return rig.model.requests[-1]


def tokens_by_block(request: ChatRequest, counter: TokenCounter) -> dict[str, int]:
    """The tokens of each block of the memory, its frame included."""
    blocks = {}
    for message in request.messages:
        if message.get("name") in MEMORY_BLOCKS:
            counted = SystemMessage(message["content"], name=message["name"])
            blocks[message["name"]] = counter.count_messages([counted]) - TOKENS_OF_PRIMING
    return blocks


@pytest.mark.parametrize(("messages", "language", "model"), [
    (10, "ru", "fake-model"), (20_000, "ru", "fake-model"), (400, "uk", "claude-sonnet-4-5"),
    (400, "en", "claude-opus-5"), (400, "ru", "a-llama"),
    pytest.param(100_000, "ru", "fake-model", marks=pytest.mark.proof),
])  # fmt: skip
async def test_the_memory_s_part_stays_within_its_budget(
    agents: Agents, messages: int, language: str, model: str
) -> None:
    """However long the chat, in every language and for every tokenizer."""
    name = f"openai:{model}"  # the name behind the provider decides how tokens are counted
    rig = await agents.get(llm_model=name, embedding_model="openai:fake-embedding")
    user = new_user()
    fill(rig, user, messages, STORIES[language])
    request = await ask(rig, user, STORIES[language])
    blocks = tokens_by_block(request, Oracle(name))
    assert sum(blocks.values()) <= BUDGET, blocks
    expected = {"user_facts", "memories"} | ({"history_summary"} if messages > 100 else set())
    assert set(blocks) == expected, "every tier is there and counted"
    assert all(tokens > 300 for tokens in blocks.values())


async def test_what_a_turn_has_summarised_is_stored_and_the_next_one_summarises_nothing(
    agents: Agents,
) -> None:
    rig = await agents.get(llm_context_size=8192)
    person = Person(rig, new_user())

    def reply(request: ChatRequest) -> Reply:
        is_summary = not request.tools
        return Reply("Говорили о слонах." if is_summary else "ответ " * 160)

    rig.model.reply = reply
    made = []
    for number in range(14):
        before = len(person.requests)
        await person.say(f"{number} " + "слово " * 150)
        made.append(sum(not request.tools for request in person.requests[before:]))
    assert 0 < sum(made) <= 5, made
    assert not any(a and b for a, b in pairwise(made)), "never in two turns one after the other"
    stored = person.rows(
        "SELECT s.first_position, s.last_position FROM conversation_summaries s "
        "JOIN conversations c ON c.id = s.conversation_id WHERE c.owner_id = %(owner)s ORDER BY 1"
    )
    assert len(stored) == sum(made)
    assert all(a[1] + 1 == b[0] for a, b in pairwise(stored)), "without a gap"
    last = json.dumps(person.requests[-1].messages, ensure_ascii=False)
    assert "Говорили о слонах." in last and "13 слово" in last and "] 0 слово" not in last
