"""The index: what goes in, what stays out, what is found before it has a vector, and the plans."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg2
import pytest

from src.base.errors import (
    ModelError,
    ModelUnavailableError,
)
from src.base.owners import Owner
from src.history import conversation_repo, timeline_repo
from src.history.conversation_repo import TelegramOrigin
from src.memory import (
    digest_repo,
    forgetting_repo,
    memory_repo,
    purge_repo,
    retrieval_repo,
    search_index_repo,
)
from src.memory.embedding_space import EmbeddingSpace
from src.memory.indexer import (
    EMBED_BATCH,
    MAX_PASSAGES,
    MAX_WHOLE,
    Indexer,
    passages,
)
from src.memory.memory_repo import FactQuery
from src.memory.queries import Query
from src.memory.retrieval_repo import Hit, SearchRequest
from src.memory.retriever import PASSAGE
from src.memory.search_index_repo import Scale
from src.reading.facts import MEMORY_TYPES
from src.texts.morphology import terms
from tests.conftest import TEMPLATE, new_database
from tests.fakes.openai_server import Reply
from tests.integration.person import FAKE_EMBEDDINGS, USER, Person, Rig
from tests.integration.person import edit as edit_message
from tests.tables import nodes_of

pytestmark = pytest.mark.core(embedding_model=FAKE_EMBEDDINGS)

NOON = datetime(2026, 3, 3, 9, 0, tzinfo=UTC)
LABEL = "[Текущее время: 2026-03-03 12:00]"


class Desk(Person):
    """One conversation, and its index."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(rig, moment=NOON)
        self.id = self.conversation()

    @property
    def indexer(self) -> Indexer:
        return self.core.memory.indexer

    def add(self, text: str, role: str = "user", **changes: Any) -> int:
        """Store a message a minute after the one before; returns its id."""
        self.moment += self.pace
        content = f"{LABEL} {text}" if role == "user" else text
        values = {"said_at": self.moment, **changes}
        add = self.core.conversations.append_message
        return add(self.id, role, content, **values)  # type: ignore[arg-type]

    async def index_words(self) -> None:
        await self.indexer.index_conversation(self.id)

    async def search(self, text: str, **changes: Any) -> list[Hit]:
        query = Query(Owner(USER), text, NOON + timedelta(days=30), **changes)
        return await self.core.memory.retriever.search(query)

    async def found(self, text: str, **changes: Any) -> list[str]:
        return [hit.text for hit in await self.search(text, **changes)]

    def postings(self) -> set[str]:
        return {term for (term,) in self.rows("SELECT DISTINCT term FROM search_postings")}

    def documents(self, columns: str = "message_id") -> list[Any]:
        rows = self.rows(f"SELECT {columns} FROM search_documents ORDER BY position")
        return [row[0] if len(row) == 1 else row for row in rows]

    def unindexed(self) -> int:
        [(count,)] = self.rows("SELECT count(*) FROM unindexed_messages")
        return int(count)

    def embedded(self) -> list[list[str]]:
        return self.model.embedding_requests


@pytest.fixture
async def desk(rig: Rig) -> Desk:
    await rig.core.memory.space.model()  # which is measured only once
    rig.model.embedding_requests.clear()
    return Desk(rig)


# --- what goes in


async def test_the_time_label_is_no_word_nor_embedded_and_the_time_is_kept(desk: Desk) -> None:
    message = desk.add("У меня есть собака Рекс")
    await desk.index()
    assert desk.postings() == set(terms("У меня есть собака Рекс"))
    assert desk.embedded() == [["У меня есть собака Рекс"]]
    assert desk.documents("message_id, said_at, speaker") == [(message, desk.moment, "user")]


async def test_what_stands_deep_in_a_long_message_is_found_by_its_meaning(desk: Desk) -> None:
    filler = "Сегодня гуляли по набережной и ели мороженое. "
    message = desk.add(filler * 40 + "Ключ от сейфа лежит под горшком. " + filler * 20)
    desk.add("Купила хлеба и молока")
    await desk.index()
    [texts] = [request for request in desk.embedded() if len(request) > 2]
    assert sum("Ключ" in text for text in texts) == 1 and len(texts) == 4
    hit, *_ = await desk.search("Ключ от сейфа лежит под горшком")
    assert (hit.source_id, hit.match.starts_at > 1000) == (message, True)
    assert "Ключ от сейфа" in hit.text and len(hit.text) <= PASSAGE


def test_passages_lose_nothing_and_begin_with_a_sentence() -> None:
    text = "".join(f"Это предложение номер {number}. " for number in range(200))
    parts = passages(text)
    assert "".join(parts.values()) == text
    assert all(part.lstrip().startswith("Это") for part in parts.values())
    assert all(text[start:].startswith(part) for start, part in parts.items())
    assert passages("короткое") == {0: "короткое"} and passages("") == {0: ""}


async def test_the_answer_is_indexed_as_the_assistant_s_and_not_found_unasked(desk: Desk) -> None:
    desk.add("Какая столица Чили?")
    desk.add("Сантьяго", "assistant")
    await desk.index()
    assert desk.documents("speaker") == ["user", "assistant"]
    assert await desk.found("Сантьяго", threshold=1.0) == []
    assert "Сантьяго" in await desk.found("Сантьяго", threshold=1.0, with_assistant=True)


async def test_answers_take_no_place_among_the_candidates_of_what_was_said(desk: Desk) -> None:
    told = desk.add("Ключ лежит под горшком")
    for number in range(SearchRequest.limit + 10):
        desk.add(f"Где лежит ключ от сейфа? {number}", "assistant")
    await desk.index()
    assert [hit.source_id for hit in await desk.search("Где лежит ключ от сейфа?")] == [told]


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM messages WHERE id = %(id)s",
        "UPDATE messages SET is_private = true WHERE id = %(id)s",
        "UPDATE messages SET is_forgotten = true, forgotten_at = now() WHERE id = %(id)s",
    ],
    ids=["deleted", "private", "forgotten"],
)
async def test_what_is_gone_or_hidden_before_the_search_comes_to_it_waits_no_more(
    desk: Desk, change: str
) -> None:
    gone, left = desk.add("Ключ под горшком"), desk.add("Ключ у соседки")
    desk.rig.client.execute(change, {"id": gone})
    await desk.index_words()
    assert (desk.unindexed(), desk.documents()) == (0, [left])


async def test_messages_of_a_talk_stand_together_and_a_long_silence_parts_them(desk: Desk) -> None:
    desk.add("один")
    desk.add("два")
    await desk.index_words()
    desk.add("три")
    await desk.index()
    desk.moment += timedelta(hours=6)
    desk.add("четыре")
    await desk.index()
    first, second, third, fourth = desk.documents("position")
    assert (second - first, third - second, fourth - third) == (1, 1, 4)
    assert desk.embedded() == [["два\nтри", "один\nдва", "один"], ["четыре"]]


@pytest.mark.parametrize("text", [
    "спасибо большое 🙏", "на добраніч!", "see you tomorrow", "/memory",
])  # fmt: skip
async def test_what_nobody_looks_for_gets_no_vector_and_is_found_by_its_words(
    desk: Desk, text: str
) -> None:
    message = desk.add(text)
    desk.add("Всегда рад помочь", "assistant")
    desk.add("Спасибо, мама приезжает завтра")
    await desk.index()
    [embedded] = desk.embedded()
    assert embedded == ["Спасибо, мама приезжает завтра"]
    assert len(desk.documents()) == 3
    left = desk.rows("SELECT 1 FROM search_documents WHERE model_id IS NULL")
    assert (left, len(desk.rows("SELECT 1 FROM document_embeddings"))) == ([], 1)
    words = " ".join(terms(text))
    found = await desk.search(words or text, by_words_only=True)
    assert not words or message in {hit.source_id for hit in found}


async def test_an_hour_long_text_is_indexed_within_bounds(desk: Desk) -> None:
    desk.add("x" * 5000 + " слово" * 40_000)
    await desk.index()
    assert desk.postings() == {"слов", "x" * 40}
    assert desk.documents("length < 3000") == [True]
    [texts] = desk.embedded()
    assert len(texts) <= 1 + MAX_PASSAGES and all(len(text) <= MAX_WHOLE for text in texts)


# --- edits

ORIGIN = TelegramOrigin(bot_id=1, chat_id=USER, message_id=7, sender_id=USER)


def edit(desk: Desk, text: str) -> None:
    assert edit_message(desk.core.client, Owner(USER), ORIGIN, text) != "unknown"


async def test_an_edited_message_is_indexed_again_and_its_old_words_are_gone(desk: Desk) -> None:
    message = desk.add("Я люблю устрицы", origin=ORIGIN)
    said_at = desk.moment
    await desk.index()
    edit(desk, "Я ненавижу креветки")
    to_digest: list[UUID] = []

    async def note(conversation_id: UUID) -> None:
        to_digest.append(conversation_id)

    await desk.core.memory.digest.index_pending(note)
    assert to_digest == []
    await desk.indexer.embed_pending()
    assert desk.documents("message_id, said_at") == [(message, said_at)]
    assert desk.postings() == set(terms("Я ненавижу креветки"))
    assert await desk.found("устрицы", threshold=1.0) == []
    assert await desk.found("креветки", threshold=1.0) == ["Я ненавижу креветки"]
    assert desk.embedded()[1] == ["Я ненавижу креветки"]
    assert len(desk.rows("SELECT 1 FROM document_embeddings")) == 1
    assert desk.rig.stored() == [("user", f"{LABEL} Я ненавижу креветки")]


# --- before there is a vector


async def test_words_are_found_before_the_embedding_exists(desk: Desk) -> None:
    desk.add("У меня есть собака Рекс")
    await desk.index_words()
    [hit] = await desk.search("Как зовут мою собаку?")
    assert hit.text == "У меня есть собака Рекс"
    assert hit.match.cosine is None and hit.match.bm25 > 0
    await desk.indexer.embed_pending()
    [hit] = await desk.search("Как зовут мою собаку?")
    assert (hit.match.cosine or 0.0) > 0


async def test_words_are_found_while_the_endpoint_is_away(desk: Desk) -> None:
    desk.add("У меня есть собака Рекс")
    await desk.index()
    for failure in (Reply(status=503), Reply(status=401), Reply(status=400)):
        desk.model.embeddings_error = failure
        assert await desk.found("собака") == ["У меня есть собака Рекс"]
    counted = desk.core.metrics.registry.get_sample_value("pomni_searches_by_words_total")
    assert counted and counted >= 3


# --- embedding in batches


async def test_documents_are_embedded_in_batches_the_newest_first(desk: Desk) -> None:
    count = 2 * EMBED_BATCH + 22
    for number in range(count):
        desk.add(f"номер {number}", said_at=NOON + timedelta(days=number))
    await desk.index_words()
    assert await desk.indexer.embed_pending() == count
    assert [len(texts) for texts in desk.embedded()] == [64, 64, 22]
    told = [text for texts in desk.embedded() for text in texts]
    assert told == [f"номер {number}" for number in reversed(range(count))]
    assert await desk.indexer.embed_pending() == 0
    assert len(desk.embedded()) == 3


class FussyEndpoint:
    """An embedder that refuses a whole request because of one text in it."""

    def __init__(self, space: EmbeddingSpace, bad: str) -> None:
        self._embed = space.embed_documents
        self._bad = bad

    async def __call__(self, texts: list[str]) -> list[str]:
        if any(self._bad in text for text in texts):
            raise ModelError("the model refused the request (HTTP 400: too many tokens)")
        return await self._embed(texts)


@pytest.mark.own_database  # its embedder is spoilt for other tests
async def test_a_text_that_the_model_refuses_keeps_no_other_from_being_embedded(
    desk: Desk,
) -> None:
    """It is found by its words until another model embeds it."""
    for number in range(5):
        desk.add(f"номер {number}", said_at=NOON + timedelta(days=number))
    desk.add("😀😀😀 ромашка", said_at=NOON + timedelta(days=10))
    await desk.index_words()
    space = await desk.core.memory.space.current()
    space.embed_documents = FussyEndpoint(space, "😀")  # type: ignore[assignment,method-assign]
    assert await desk.indexer.embed_pending() == 6
    assert await desk.indexer.embed_pending() == 0
    assert desk.rows("SELECT count(*) FROM document_embeddings") == [(5,)]
    assert await desk.found("ромашка") == ["😀😀😀 ромашка"]
    [hit] = await desk.search("номер 3", limit=1)
    assert hit.text == "номер 3" and hit.match.similarity > 0.9
    embeddings, model = desk.core.memory.embeddings, await space.model()
    other = embeddings.add_model("other", Scale(model.means, 0.0, 0.1))
    assert embeddings.list_unembedded(other.id)[0].text == "😀😀😀 ромашка"


def lengths_that_differ(reply: Any, _texts: list[str]) -> Any:
    rows = [row | {"embedding": row["embedding"][: 10 + row["index"]]} for row in reply["data"]]
    return reply | {"data": rows}


SPOILT = {
    "null": lambda reply, _texts: reply | {"data": None},
    "no rows": lambda reply, _texts: reply | {"data": []},
    "one row": lambda reply, _texts: reply | {"data": reply["data"][:1] * 2},
    "null vectors": lambda reply, _texts: (
        reply | {"data": [row | {"embedding": None} for row in reply["data"]]}
    ),
    "lengths that differ": lengths_that_differ,
    "NaN": lambda reply, _texts: (
        reply | {"data": [row | {"embedding": [float("nan")] * 256} for row in reply["data"]]}
    ),
    "other numbers": lambda reply, _texts: (
        reply | {"data": [row | {"index": row["index"] + 7} for row in reply["data"]]}
    ),
    "no JSON": lambda _reply, _texts: "<html>",
}


async def test_what_a_bad_endpoint_left_over_is_embedded_when_it_is_well_again(desk: Desk) -> None:
    """No bad reply fails a search, marks a document, or stays in the cache."""
    for number, spoil in enumerate(SPOILT.values()):
        for part in "abc":
            desk.add(f"Реплика {number}{part} про ромашки")
        await desk.index_words()
        desk.model.spoil_embeddings = spoil
        with pytest.raises(ModelUnavailableError):
            await desk.indexer.embed_pending()
        assert len(await desk.search("ромашки")) == min(5, 3 * (number + 1))
        assert len(await desk.search(f"Реплика {number}b", limit=1)) == 1
    assert desk.rows("SELECT count(*) FROM document_embeddings") == [(0,)]
    desk.model.spoil_embeddings = None
    total = 3 * len(SPOILT)
    assert await desk.indexer.embed_pending() == total
    unit = (
        "SELECT count(*) FROM document_embeddings WHERE l2_norm(embedding) BETWEEN 0.99 AND 1.01"
    )
    assert desk.rows(unit) == [(total,)]
    [hit] = await desk.search("ромашки", limit=1)
    assert (hit.match.cosine or 0.0) > 0, "the query was not kept as it came"


# --- the plans of the statements, on a database of some size

OWNERS, EACH, DIMENSIONS = 30, 400, 384
# Messages with six of 3,000 words, two in a minute; a fact for every second one.
FILL = """
INSERT INTO embedding_models
    (name, dimensions, means, unrelated_median, unrelated_high, created_at)
VALUES ('test', {dimensions}, '{{}}', 0, 0.1, now() - interval '1 day'),
       ('newer', {dimensions}, '{{}}', 0, 0.1, now());
INSERT INTO conversations (owner_id, telegram_user_id)
SELECT add_owner(n, 0), n FROM generate_series(1, {owners}) n;
INSERT INTO messages (conversation_id, role, content, position, said_at, created_at)
SELECT c.id, CASE WHEN n % 2 = 1 THEN 'user' ELSE 'assistant' END, 'сообщение ' || n, n,
       now() - (1000 - n) * interval '1 hour', now() - (1000 - n) * interval '1 hour'
FROM conversations c, generate_series(1, {each}) n ORDER BY n, c.id;
INSERT INTO unindexed_messages
SELECT conversation_id, id FROM messages WHERE position >= {each} - 2;
INSERT INTO memories (owner_id, memory_type, text, subject, relation, object, importance,
                      origin, content_hash)
SELECT c.owner_id, 'user_fact', 'факт ' || n, 'user', 'other' || n, 'x', 1 + n % 10,
       'tool', 'hash' || n
FROM conversations c, generate_series(1, {each} / 2) n ORDER BY n, c.id;
INSERT INTO memory_sources (memory_id, message_id, uid, episode, quote, said_at)
SELECT f.id, m.id, 'msg-' || m.id, 'teach_msg-' || m.id, 'x', m.said_at
FROM memories f JOIN conversations c USING (owner_id)
JOIN messages m ON m.conversation_id = c.id AND m.position = 2 * substr(f.text, 6)::int - 1;
INSERT INTO entities (owner_id, name, normalised_name)
SELECT c.owner_id, 'имя' || n, 'имя' || n
FROM conversations c, generate_series(1, {each} / 4) n ORDER BY n, c.id;
INSERT INTO memory_entities SELECT f.id, e.id FROM memories f
JOIN entities e ON e.owner_id = f.owner_id
     AND e.name IN ('имя' || substr(f.text, 6)::int / 2, 'имя' || substr(f.text, 6)::int / 7);
INSERT INTO conversation_summaries (conversation_id, first_position, last_position, content)
SELECT id, 1 + 6 * n, 6 + 6 * n, 'сводка' FROM conversations, generate_series(0, 60) n;
INSERT INTO search_documents (owner_id, position, kind, message_id, speaker, said_at,
                              length, model_id)
SELECT c.owner_id, m.position, 'message', m.id, m.role, m.said_at, 6,
       CASE WHEN m.position < {each} - 2 THEN 1 END
FROM messages m JOIN conversations c ON c.id = m.conversation_id ORDER BY m.id;
INSERT INTO search_documents (owner_id, position, kind, memory_id, speaker, said_at,
                              length, model_id)
SELECT owner_id, 10000 + 4 * id, 'memory', id, 'user', created_at, 6, 1
FROM memories ORDER BY id;
INSERT INTO search_owners (owner_id, next_position, documents, terms)
SELECT owner_id, 1000000, count(*), 6 * count(*) FROM search_documents GROUP BY 1;
INSERT INTO search_postings (owner_id, term, position, frequency, length, in_talk, is_answer,
                             document_id)
SELECT owner_id, 'w' || (hashint8(id * 10 + n) & 2147483647) % 3000, position, 1, 6,
       false, speaker = 'assistant', id
FROM search_documents, generate_series(1, 6) n ON CONFLICT DO NOTHING;
CREATE TEMP TABLE vectors AS
SELECT n, array_agg(random() - 0.5)::vector::halfvec AS vector
FROM generate_series(1, 100) n, generate_series(1, {dimensions}) GROUP BY n;
INSERT INTO document_embeddings (owner_id, model_id, is_answer, position, document_id, embedding)
SELECT owner_id, 1, speaker = 'assistant', position, id, vector
FROM search_documents JOIN vectors ON n = 1 + id % 100 WHERE model_id IS NOT NULL ORDER BY id;
"""
BIG = frozenset(
    {"messages", "memories", "memory_sources", "entities", "memory_entities", "search_documents"}
    | {"search_postings", "document_embeddings", "conversation_summaries"}
)


@pytest.fixture(scope="module")
def filled(postgres_server: str) -> Iterator[psycopg2.extensions.connection]:
    """A connection to a database of 30 owners with 12,000 messages and 6,000 facts."""
    for dsn in new_database(postgres_server, TEMPLATE):
        connection = psycopg2.connect(dsn)
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("TRUNCATE embedding_models RESTART IDENTITY CASCADE")
            cursor.execute(FILL.format(owners=OWNERS, each=EACH, dimensions=DIMENSIONS))
            cursor.execute("VACUUM ANALYZE")
        yield connection
        connection.close()


def nodes_read(
    connection: psycopg2.extensions.connection, sql: str, parameters: dict[str, Any]
) -> tuple[set[str], set[str]]:
    """The indexes that a statement's plan uses, and the tables that it reads from end to end."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}", parameters)
        [(document,)] = cursor.fetchall()
    nodes = nodes_of(document[0]["Plan"])
    scanned = {node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"}
    return {node["Index Name"] for node in nodes if "Index Name" in node}, scanned


def parameters_of(connection: psycopg2.extensions.connection) -> dict[str, Any]:
    """What any of the statements may want to know, about the 25th owner."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.id::text, m.id FROM conversations c JOIN messages m"
            " ON m.conversation_id = c.id WHERE c.telegram_user_id = 25 AND m.position = 101"
        )
        [(conversation_id, message_id)] = cursor.fetchall()
    now = datetime.now(UTC)
    return {
        **Owner(25).columns(), **vars(FactQuery()), "kinds": list(MEMORY_TYPES),
        "conversation_id": conversation_id, "message_id": message_id, "ids": [message_id],
        "uid": f"msg-{message_id}", "uids": [f"msg-{message_id}"],
        "episode": f"teach_msg-{message_id}", "names": '[["барс"]]', "answers": [],
        "vector": json.dumps([0.1] * DIMENSIONS), "model": 1, "only_embedded": False,
        "numbers": [0, 1, 2], "terms": ["w5", "w50", "w500"], "entity_terms": ["имя5"],
        "starts": [now - timedelta(days=30)], "ends": [now - timedelta(days=29)],
        "before_position": 380, "near": retrieval_repo.NEAR, "share": retrieval_repo.NEAR_SHARE,
        "with_assistant": False, "with_retired": False, "asked_minutes": 10,
        "content_hash": "hash7", "subject": "user", "relation": "other7", "importance": 7,
        "memory_id": None, "contradicts": [], "ended": ["works_at"], "speaker_id": None,
        "first": 370, "last": 380, "before": 371, "window": 20, "shown": 2000, "minutes": 60,
        "after": None, "older_than": 0, "days": 400, "reads": True, "longest": 20_000,
        "position": 300, "id": 1, "since": now - timedelta(days=1), "limit": 30, "offset": 0,
    }  # fmt: skip


MANY_WORDS = {"numbers": [*range(60)], "terms": [f"w{n}" for n in range(60)]}


@pytest.mark.parametrize(("sql", "changes"), [
    (retrieval_repo.SEARCH, {}), (retrieval_repo.SEARCH, MANY_WORDS),
    (search_index_repo.SELECT_UNINDEXED, {}), (search_index_repo.SELECT_UNEMBEDDED, {}),
    (search_index_repo.SELECT_UNEMBEDDED, {"model": 2}), (digest_repo.SELECT_TO_INDEX, {}),
    (digest_repo.SELECT_SUMMARIES, {}), (digest_repo.SELECT_STATE, {}),
    (digest_repo.SELECT_UNREAD, {}), (memory_repo.SELECT_SOURCE, {}),
    (memory_repo.SELECT_SIMILAR, {}), (memory_repo.SELECT_CURRENT_SOURCE, {}),
    (memory_repo.SELECT_UID_BY_EPISODE, {}), (forgetting_repo.SELECT_FACTS, {}),
    *((sql, {"ids": None, "before": None}) for sql in memory_repo.SELECT_FACTS.values()),
    (conversation_repo.SELECT_MESSAGES, {}), (conversation_repo.SELECT_LAST_POSITION, {}),
    (conversation_repo.SELECT_LAST_MESSAGES, {}), (purge_repo.SELECT_AGED, {}),
    (timeline_repo.SELECT_BEFORE, {}), (timeline_repo.SELECT_FROM, {}),
    (timeline_repo.SELECT_SINCE, {}),
])  # fmt: skip
def test_no_statement_reads_a_large_table_from_end_to_end(
    filled: psycopg2.extensions.connection, sql: str, changes: dict[str, Any]
) -> None:
    indexes, scanned = nodes_read(filled, sql, {**parameters_of(filled), **changes})
    assert not scanned & BIG, scanned & BIG
    if sql is retrieval_repo.SEARCH:
        assert {"search_postings_once", "document_embeddings_by_owner"} <= indexes
