"""The nightly job: what is stored twice, what contradicts itself; ages."""

from __future__ import annotations

from typing import Any

import pytest

from src.base.owners import Owner
from src.memory.consolidation import SELECT_DUE, ConsolidationRepository
from src.memory.purge_repo import PurgeRepository
from src.operate.housekeeping import Housekeeping
from src.pg.client import PgClient, Record
from tests.integration.person import FAKE_EMBEDDINGS, Agents, Person


@pytest.fixture
async def teller(client: PgClient, agents: Agents) -> Person:
    return await agents.teller(embedding_model=FAKE_EMBEDDINGS)


async def night(teller: Person) -> None:
    while await teller.core.memory.consolidation.run():
        pass


def done(teller: Person) -> list[Record]:
    return ConsolidationRepository(teller.client).list_merges(teller.owner)


def take_apart(teller: Person, owner: Owner | None = None) -> bool:
    number = done(teller)[0]["id"]
    return ConsolidationRepository(teller.client).undo(owner or teller.owner, number)


async def slip_in(teller: Person, text: str, **changes: Any) -> None:
    """Store a fact that is compared with no other: as if nothing were known yet."""
    hidden = (
        "UPDATE memories SET retired_at = now(), retired_reason = 'x' WHERE retired_at IS NULL"
    )
    teller.client.execute(hidden)
    await teller.tell(text, **changes)
    teller.client.execute(
        "UPDATE memories SET retired_at = NULL, retired_reason = NULL WHERE retired_reason = 'x'"
    )


# --- what is stored twice


async def test_what_is_stored_twice_becomes_one_with_both_sources(teller: Person) -> None:
    teller.rig.set(memory_update_threshold=0.5)
    await teller.tell("Люблю зелёный чай", importance=3)
    await slip_in(teller, "Я очень люблю зелёный чай", importance=8, pinned=True)
    await night(teller)
    [fact] = await teller.living()
    assert (fact.text, fact.fact.importance, fact.fact.pinned) == ("Люблю зелёный чай", 8, True)
    sources = "SELECT count(*) FROM memory_sources WHERE memory_id = %(id)s"
    assert teller.rows(sources, id=fact.id) == [(2,)]
    [change] = done(teller)
    assert (change["kind"], change["kept"], change["undone_at"]) == ("duplicate", fact.text, None)
    found = [hit.text for hit in await teller.find("какой чай я люблю?") if hit.kind == "memory"]
    assert found == ["Люблю зелёный чай"]


async def test_what_an_operator_takes_apart_stays_apart(teller: Person) -> None:
    teller.rig.set(memory_update_threshold=0.5)
    await teller.tell("Люблю зелёный чай", importance=3)
    await slip_in(teller, "Я очень люблю зелёный чай", importance=8, pinned=True)
    before = await teller.living()
    await night(teller)
    assert take_apart(teller, Owner(1)) is False, "it is not his"
    assert take_apart(teller) is True and take_apart(teller) is False
    assert [(f.text, f.fact.importance, f.fact.pinned) for f in await teller.living()] == [
        (f.text, f.fact.importance, f.fact.pinned) for f in before
    ]
    for _ in range(2):
        await night(teller)
    assert len(await teller.living()) == 2 and len(done(teller)) == 1
    sources = "SELECT count(*) FROM memory_sources GROUP BY memory_id"
    assert teller.rows(sources) == [(1,), (1,)]


@pytest.mark.parametrize(
    ("one", "other"),
    [("Люблю зелёный чай", "Люблю чёрный чай"), ("Есть аллергия на кошек", "Нет кошек"),
     ("Встреча в 15:00", "Встреча в 16:30"), ("Брат живёт в Туле", "Сестра живёт в Туле")],
)  # fmt: skip
async def test_what_only_looks_alike_is_left_alone(teller: Person, one: str, other: str) -> None:
    await teller.tell(one)
    await slip_in(teller, other)
    await night(teller)
    assert sorted(await teller.texts()) == sorted([one, other]) and done(teller) == []


# --- what contradicts itself


async def test_of_two_homes_the_last_one_holds(teller: Person) -> None:
    await teller.tell("Живу в Омске", relation="lives_in", object="Омск")
    await slip_in(teller, "Живу в Туле", relation="lives_in", object="Тула")
    await night(teller)
    assert await teller.texts() == ["Живу в Туле"]
    [change] = done(teller)
    assert (change["kind"], change["gone"], change["kept"]) == (
        "contradiction", "Живу в Омске", "Живу в Туле",
    )  # fmt: skip
    assert take_apart(teller) is True
    await night(teller)
    assert sorted(await teller.texts()) == ["Живу в Омске", "Живу в Туле"]
    assert teller.rows("SELECT count(valid_until) FROM memories") == [(0,)]


async def test_what_is_pinned_ends_by_no_job(teller: Person) -> None:
    await teller.tell("Живу в Омске", relation="lives_in", object="Омск", pinned=True)
    await slip_in(teller, "Живу в Туле", relation="lives_in", object="Тула")
    await night(teller)
    assert len(await teller.living()) == 2


# --- whom, and when


async def test_only_those_whose_facts_changed_are_looked_through(teller: Person) -> None:
    await teller.tell("Люблю чай")
    [due] = teller.client.fetch_all(SELECT_DUE, limit=9)
    assert due[:2] == teller.owner.row
    await night(teller)
    assert teller.client.fetch_all(SELECT_DUE, limit=9) == []
    await teller.tell("Люблю кофе")
    assert len(teller.client.fetch_all(SELECT_DUE, limit=9)) == 1


# --- ages


async def aged(teller: Person, text: str, days: int) -> None:
    said = teller.write(text)
    teller.client.execute(
        "UPDATE messages SET created_at = now() - make_interval(days => %(days)s)"
        " WHERE id = %(id)s",
        {"days": days, "id": said.message_id},
    )


def texts(teller: Person) -> list[str]:
    rows = teller.rows("SELECT message_text(content) FROM messages ORDER BY id")
    return [text for (text,) in rows]


async def test_messages_go_by_their_age_and_facts_stay(teller: Person) -> None:
    await teller.tell("Живу в Омске", relation="lives_in", object="Омск")
    teller.client.execute("UPDATE messages SET created_at = now() - interval '100 days'")
    await aged(teller, "давно", 40)
    await aged(teller, "недавно", 20)
    await teller.index()
    assert PurgeRepository(teller.client).delete_aged(days=30, reads=False) == 2
    assert texts(teller) == ["недавно"]
    assert await teller.texts() == ["Живу в Омске"]
    [hit] = [hit for hit in await teller.find("где я живу?") if hit.kind == "memory"]
    assert hit.text == "Живу в Омске" and hit.uid.startswith("msg-")
    assert teller.rows("SELECT quote FROM memory_sources") == [("Живу в Омске",)]
    lost = "SELECT count(*) FROM search_documents WHERE kind = 'message' AND message_id IS NULL"
    assert teller.rows(lost) == [(0,)]
    said = teller.write("новое")
    assert teller.rows("SELECT position FROM messages WHERE id = %(id)s", id=said.message_id) == [
        (4,)
    ]


async def test_what_is_not_read_for_facts_yet_waits_a_week(teller: Person) -> None:
    await aged(teller, "очень давно", 40)
    await aged(teller, "давно", 33)
    purge = PurgeRepository(teller.client)
    assert purge.delete_aged(days=30, reads=True) == 1 and texts(teller) == ["давно"]
    teller.client.execute("UPDATE conversations SET extracted_position = 2")
    assert purge.delete_aged(days=30, reads=True) == 1 and texts(teller) == []


async def test_by_default_messages_stay_for_ever(teller: Person) -> None:
    await aged(teller, "давно", 4000)
    core = teller.core
    keeping = Housekeeping(core)
    await keeping.delete_aged()
    assert texts(teller) == ["давно"]
    teller.rig.set(message_retention_days=3000, memory_extraction_enabled=False)
    await keeping.delete_aged()
    assert (
        texts(teller) == []
        and "pomni_messages_expired_total 1.0" in core.metrics.render().decode()
    )
