"""Messages that came from Telegram: stored once, edited in place; and the one repository."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
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


def test_eight_threads_store_one_message_once(
    repo: ConversationRepository, conversation: UUID
) -> None:
    def add(_: int) -> tuple[int, bool]:
        stored = store(repo, conversation, "once", origin)
        return stored.id, stored.is_new

    for bot, chat in ((BOT, OWNER), (BOT + 1, OWNER), (BOT, -OWNER)):
        origin = TelegramOrigin(bot, chat, 1, OWNER)
        with ThreadPoolExecutor(8) as threads:
            results = list(threads.map(add, range(8)))
        assert len({stored for stored, _ in results}) == 1
        assert sum(is_new for _, is_new in results) == 1
    assert texts(repo, conversation) == ["once"] * 3
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
    assert edit(client, OWNER + 1, origin, "hacked") == "unknown"
    assert edit(client, OWNER, replace(origin, bot_id=BOT + 1), "hacked") == "unknown"
    assert edit(client, OWNER, replace(origin, chat_id=OWNER + 1), "hacked") == "unknown"
    assert edit(client, OWNER, origin, "hello 😀") in ("older", "last")
    assert texts(repo, conversation) == [edited, LABEL + "next"]


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
