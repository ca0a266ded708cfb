"""Full-text search in what a user said, in Russian, Ukrainian and English."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from src.llm.prompts.time_label import add_time_label
from src.storage.conversation_repo import ConversationRepository
from src.storage.message_search_repo import (
    MAX_WORDS,
    MIN_PREFIX,
    SEARCH_MESSAGES,
    MessageSearchRepository,
    query_words,
)
from src.storage.pg_client import PgClient

MOMENT = datetime(2025, 6, 1, 10, 30, tzinfo=UTC)

# Twenty thousand messages of one conversation; every thousandth of them speaks of a cat.
INSERT_MANY = """
INSERT INTO messages (conversation_id, role, content)
SELECT %(id)s, 'user', 'note ' || n || CASE WHEN n %% 1000 = 0 THEN ' about a cat' ELSE '' END
FROM generate_series(1, 20000) AS n
"""


@pytest.fixture
def repo(client: PgClient) -> ConversationRepository:
    return ConversationRepository(client)


@pytest.fixture
def search(client: PgClient) -> MessageSearchRepository:
    return MessageSearchRepository(client)


@pytest.fixture
def conversation(repo: ConversationRepository) -> UUID:
    return repo.get_or_create_conversation(7)


def say(repo: ConversationRepository, conversation: UUID, *texts: str) -> list[int]:
    return [
        repo.append_message(conversation, "user", add_time_label(text, MOMENT, "UTC"))
        for text in texts
    ]


@pytest.mark.parametrize(
    ("said", "query"),
    [
        ("Моя собака любит гулять", "собаки"),
        ("Мы купили новые книги", "книга"),
        ("Я живу в Санкт-Петербурге", "где я живу, в санкт-петербург?"),
        ("Мене звати Оксана, я люблю каву", "Оксану"),
        ("Я народилася в Києві, на вулиці Лісовій", "вулиця"),
        ("My cats are sleeping", "Where does the cat sleep?"),
        ("I went running yesterday", "RUN"),
        ("deploy the Kubernetes cluster", "kubernet"),
        ("Номер договора 4471-АБ", "4471"),
        ("ёлка стоит у окна", "Ёлку"),
    ],
)
def test_other_forms_of_a_word_are_found(
    repo: ConversationRepository,
    search: MessageSearchRepository,
    conversation: UUID,
    said: str,
    query: str,
) -> None:
    say(repo, conversation, "что-то совсем другое / something else entirely", said)
    assert [found.text for found in search.search(conversation, query)] == [said]


def test_a_word_that_was_not_said_is_not_found(
    repo: ConversationRepository, search: MessageSearchRepository, conversation: UUID
) -> None:
    say(repo, conversation, "cats and dogs", "кошки и собаки")
    assert search.search(conversation, "elephant слон бегемота") == []


def test_a_found_message_tells_what_was_said_and_when(
    repo: ConversationRepository,
    search: MessageSearchRepository,
    client: PgClient,
    conversation: UUID,
) -> None:
    (row_id,) = say(repo, conversation, "a cat")
    client.execute("UPDATE messages SET created_at = '2025-01-02T03:04:05Z'")
    (found,) = search.search(conversation, "cat")
    assert (found.uid, found.text) == (f"msg-{row_id}", "a cat")
    assert found.said_at == datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert found.score > 0


def test_the_best_match_comes_first_and_of_equals_the_newest(
    repo: ConversationRepository, search: MessageSearchRepository, conversation: UUID
) -> None:
    say(repo, conversation, "red cat old", "red cat new", "blue dog", "red cat, black dog")
    found = [message.text for message in search.search(conversation, "cat dog red")]
    assert found == ["red cat, black dog", "red cat new", "red cat old", "blue dog"]


def test_the_number_of_results_is_bounded(
    repo: ConversationRepository, search: MessageSearchRepository, conversation: UUID
) -> None:
    say(repo, conversation, *[f"cat {number}" for number in range(25)])
    sizes = {limit: len(search.search(conversation, "cat", limit=limit)) for limit in (-1, 0, 99)}
    assert sizes == {-1: 1, 0: 1, 99: 20}
    assert len(search.search(conversation, "cat")) == 5


def test_only_messages_older_than_the_given_one_are_found(
    repo: ConversationRepository, search: MessageSearchRepository, conversation: UUID
) -> None:
    first, second, third = say(repo, conversation, "cat one", "cat two", "cat three")

    def before(message_id: int) -> set[str]:
        return {m.text for m in search.search(conversation, "cat", before_id=message_id)}

    assert before(third) == {"cat one", "cat two"}
    assert before(second) == {"cat one"}
    assert before(first) == set()


def test_messages_of_other_conversations_are_never_found(
    repo: ConversationRepository, search: MessageSearchRepository, conversation: UUID
) -> None:
    for owner, thread in ((8, 0), (-7, 0), (7, 1)):
        other = repo.get_or_create_conversation(owner, thread_id=thread)
        say(repo, other, "my secret password is swordfish")
    say(repo, conversation, "I have no cat")
    for query in ("secret", "swordfish", "пароль password", "my' OR '1'='1", "'); DROP"):
        assert search.search(conversation, query) == []


def test_only_what_the_user_said_is_searched(
    repo: ConversationRepository, search: MessageSearchRepository, conversation: UUID
) -> None:
    for role in ("assistant", "system", "tool"):
        repo.append_message(conversation, role, "a cat")
    assert search.search(conversation, "cat") == []


def test_the_time_label_is_neither_searched_nor_shown(
    repo: ConversationRepository, search: MessageSearchRepository, conversation: UUID
) -> None:
    say(repo, conversation, "a cat")
    for query in ("текущее время", "2025-06-01", "2025", "10:30"):
        assert search.search(conversation, query) == []
    say(repo, conversation, "в какое время поезд 2025")
    texts = [found.text for found in search.search(conversation, "текущее время 2025")]
    assert texts == ["в какое время поезд 2025"]


def test_an_edited_message_is_found_by_its_new_words_only(
    repo: ConversationRepository,
    search: MessageSearchRepository,
    client: PgClient,
    conversation: UUID,
) -> None:
    say(repo, conversation, "a cat")
    client.execute("UPDATE messages SET content = replace(content, 'cat', 'dog')")
    assert search.search(conversation, "cat") == []
    assert len(search.search(conversation, "dog")) == 1


@pytest.mark.parametrize(
    "query",
    [
        "'); DROP TABLE messages; --",
        "&|!:*",
        "cat & ! | ( :* <-> ) \\ '' \"",
        "",
        " \n\t ",
        "%s %(x)s %",
        "\x00\ud800",
        "😀 👩‍👩‍👧‍👦",
        "что где what when",
        "x" * 10_000,
        "ы " * 5_000,
        " ".join(f"слово{number}" for number in range(1_200)),
        'not or and -minus "unclosed',
        "a_b __ -1e999999 10.5 a@b.com http://x.y/z?a=b /etc/passwd мʼята ﷺ ² ½",
    ],
    ids=range(14),
)
def test_a_hostile_query_finds_nothing_and_breaks_nothing(
    repo: ConversationRepository,
    search: MessageSearchRepository,
    conversation: UUID,
    query: str,
) -> None:
    say(repo, conversation, "кошка и пёс")
    assert search.search(conversation, query) == []
    assert len(search.search(conversation, f"пёс {query}")) == 1


def test_a_query_keeps_its_first_words_once_each() -> None:
    assert query_words("Cat cat CAT, dog_dog! the cat's") == ["cat", "dog", "the", "s"]
    assert query_words("Что я говорил про Київ, where is it?") == [
        "что",
        "я",
        "про",
        "київ",
        "is",
        "it",
    ]
    assert query_words(" ".join(map(str, range(1_000)))) == [str(n) for n in range(MAX_WORDS)]


def test_a_monster_of_a_message_can_be_stored_and_found(
    repo: ConversationRepository, search: MessageSearchRepository, conversation: UUID
) -> None:
    words = " ".join(chr(0x20000 + number) for number in range(30_000))
    say(repo, conversation, f"whale {words}", "w" * 300_000, "a-b/c.d@" * 50_000)
    assert len(search.search(conversation, "whale")) == 1


def test_the_search_uses_its_index_among_20000_messages(
    repo: ConversationRepository,
    search: MessageSearchRepository,
    client: PgClient,
    conversation: UUID,
) -> None:
    client.execute(INSERT_MANY, {"id": str(conversation)})
    client.execute("ANALYZE messages")
    parameters = {
        "conversation_id": str(conversation),
        "words": ["cat", "kitten"],
        "min_prefix": MIN_PREFIX,
        "limit": 20,
        "before_id": None,
    }
    plan = client.fetch_all("EXPLAIN " + SEARCH_MESSAGES, parameters)
    assert any("messages_by_terms" in line for (line,) in plan), plan
    assert len(search.search(conversation, "cats", limit=20)) == 20
