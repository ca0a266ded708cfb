"""Messages that came from Telegram: stored once, edited in place; and the one repository."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

from src.base.errors import AppError, ConversationGoneError
from src.base.owners import Owner
from src.history.conversation_repo import (
    ConversationRepository,
    StoredMessage,
    TelegramOrigin,
    get_conversation_repo,
    set_conversation_repo_factory,
)
from src.pg.client import PgClient
from tests.integration.person import edit

OWNER, BOT = 2**41, 555
LABEL = "[Текущее время: 2025-06-01 10:30] "


@pytest.fixture
def repo(client: PgClient) -> ConversationRepository:
    return ConversationRepository(client)


@pytest.fixture
def conversation(repo: ConversationRepository) -> UUID:
    return repo.get_or_create_conversation(OWNER)


def texts(repo: ConversationRepository, conversation: UUID) -> list[str]:
    return [message["content"] for message in repo.load_last_messages(conversation)]


def store(
    repo: ConversationRepository, conversation: UUID, text: str, origin: TelegramOrigin
) -> StoredMessage:
    owner = Owner(OWNER)
    stored = repo._client.in_transaction(
        lambda t: repo.store_message(t, owner, text, origin=origin)
    )
    assert stored.conversation_id == conversation
    return stored


def test_a_message_that_telegram_delivers_twice_is_stored_once(
    repo: ConversationRepository, conversation: UUID
) -> None:
    origin = TelegramOrigin(BOT, OWNER, 1, OWNER)
    first = store(repo, conversation, "first", origin)
    again = store(repo, conversation, "second", origin)
    assert (first.is_new, again.is_new, again.id) == (True, False, first.id)
    assert texts(repo, conversation) == ["first"]


def test_eight_threads_store_one_message_once(
    repo: ConversationRepository, conversation: UUID
) -> None:
    def add(_: int) -> tuple[int, bool]:
        stored = store(repo, conversation, "once", origin)
        return stored.id, stored.is_new

    for number in range(10):
        origin = TelegramOrigin(BOT, OWNER, number, OWNER)
        with ThreadPoolExecutor(8) as threads:
            results = list(threads.map(add, range(8)))
        assert len({stored for stored, _ in results}) == 1
        assert sum(is_new for _, is_new in results) == 1
    assert texts(repo, conversation) == ["once"] * 10


def test_the_same_number_from_another_bot_or_chat_is_another_message(
    repo: ConversationRepository, conversation: UUID
) -> None:
    for bot, chat in ((BOT, OWNER), (BOT + 1, OWNER), (BOT, -OWNER)):
        origin = TelegramOrigin(bot, chat, 1, OWNER)
        assert store(repo, conversation, f"{bot} {chat}", origin).is_new
    assert len(texts(repo, conversation)) == 3


def test_messages_without_an_origin_are_never_taken_for_each_other(
    repo: ConversationRepository, conversation: UUID
) -> None:
    ids = {repo.append_message(conversation, "user", "same") for _ in range(3)}
    assert len(ids) == 3


def test_a_message_stored_for_one_conversation_does_not_answer_for_another(
    repo: ConversationRepository, conversation: UUID
) -> None:
    origin = TelegramOrigin(BOT, OWNER, 1, OWNER)
    repo.append_message(conversation, "user", "mine", origin=origin)
    other = repo.get_or_create_conversation(OWNER + 1)
    with pytest.raises(ConversationGoneError):
        repo.append_message(other, "user", "theirs", origin=origin)
    assert texts(repo, other) == []


@pytest.mark.parametrize(("stored", "edited"), [
    (LABEL + "helo", LABEL + "hello 😀"), (LABEL, LABEL + "hello 😀"),
    ("without a label", "hello 😀"), (LABEL + LABEL + "user wrote a label", LABEL + "hello 😀"),
    (f"not first: {LABEL}x", "hello 😀"),
])  # fmt: skip
def test_an_edit_replaces_the_text_and_keeps_the_time_label(
    client: PgClient,
    repo: ConversationRepository,
    conversation: UUID,
    stored: str,
    edited: str,
) -> None:
    origin = TelegramOrigin(BOT, OWNER, 1, OWNER)
    repo.append_message(conversation, "user", stored, origin=origin)
    neighbour = TelegramOrigin(BOT, OWNER, 2, OWNER)
    repo.append_message(conversation, "user", LABEL + "next", origin=neighbour)
    assert edit(client, OWNER, origin, "hello 😀") in ("older", "last")
    assert texts(repo, conversation) == [edited, LABEL + "next"]


def test_an_edit_can_hold_anything_and_stay_in_its_place(
    client: PgClient, repo: ConversationRepository, conversation: UUID
) -> None:
    origin = TelegramOrigin(BOT, OWNER, 1, OWNER)
    repo.append_message(conversation, "user", LABEL + "a", origin=origin)
    repo.append_message(conversation, "assistant", "b")
    for text, kept in ((r"\1 \0 %s", r"\1 \0 %s"), ("a\x00b", "a\ufffdb"), ("", "")):
        assert edit(client, OWNER, origin, text) in ("older", "last")
        assert texts(repo, conversation) == [LABEL + kept, "b"]


def test_an_edit_touches_only_a_message_of_its_owner_bot_and_chat(
    client: PgClient, repo: ConversationRepository, conversation: UUID
) -> None:
    origin = TelegramOrigin(BOT, OWNER, 1, OWNER)
    repo.append_message(conversation, "user", "mine", origin=origin)
    assert edit(client, OWNER + 1, origin, "hacked") == "unknown"
    assert edit(client, OWNER, TelegramOrigin(BOT + 1, OWNER, 1, OWNER), "x") == "unknown"
    assert edit(client, OWNER, TelegramOrigin(BOT, OWNER + 1, 1, OWNER), "x") == "unknown"
    assert edit(client, OWNER, TelegramOrigin(BOT, OWNER, 2, OWNER), "x") == "unknown"
    assert texts(repo, conversation) == ["mine"]


@pytest.fixture
def no_factory() -> Iterator[None]:
    set_conversation_repo_factory(None)
    yield
    set_conversation_repo_factory(None)


@pytest.mark.usefixtures("no_factory")
def test_the_one_repository_is_made_at_the_first_call(client: PgClient) -> None:
    made: list[ConversationRepository] = []

    def make() -> ConversationRepository:
        made.append(ConversationRepository(client))
        return made[-1]

    set_conversation_repo_factory(make)
    assert made == []
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: get_conversation_repo(), range(8)))
    assert len(made) == 1
    assert all(repo is made[0] for repo in found)
    assert isinstance(get_conversation_repo().get_or_create_conversation(1), UUID)


@pytest.mark.usefixtures("no_factory")
def test_without_a_factory_there_is_no_repository() -> None:
    with pytest.raises(AppError, match="set_conversation_repo_factory"):
        get_conversation_repo()
