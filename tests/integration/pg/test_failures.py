"""What failed, as the operator finds it: lines of the log, and calls of models."""

from __future__ import annotations

import logging

import pytest

from src.base import errors
from src.base.owners import Owner
from src.pg.records import FailureLog, RecordsRepository
from tests.fakes.openai_server import Reply
from tests.integration.person import Person, Rig

UNAVAILABLE = errors.ModelUnavailableError("the model is unavailable (HTTP 429, RateLimitError)")
SECRET = "мой кот Барсик"


@pytest.mark.parametrize(("logger", "extra", "error", "part", "reason"), [
    ("src.telegram.tasks", {"chat": 5, "update": 7}, UNAVAILABLE, "model", str(UNAVAILABLE)),
    ("src.memory.tasks", {"task": "embed_documents"}, UNAVAILABLE, "embeddings", str(UNAVAILABLE)),
    ("src.memory.embedding_space", {}, UNAVAILABLE, "embeddings", str(UNAVAILABLE)),
    ("src.talk.prompt", {}, errors.StorageUnavailableError("away"), "database", "away"),
    ("src.telegram.tasks", {}, errors.DeliveryError("no answer"), "telegram", "no answer"),
    ("src.telegram.tasks", {}, ValueError(SECRET), "other", "defect (ValueError)"),
    ("src.outside.servers", {"cause": "it does not answer"}, None, "tools", "it does not answer"),
    ("procrastinate.worker", {"job": {"id": 9}}, KeyError(SECRET), "queue", "defect (KeyError)"),
])  # fmt: skip
async def test_a_warning_is_kept_with_its_part_and_reason_and_no_text_of_users(
    rig: Rig, logger: str, extra: dict[str, object], error: Exception | None, part: str,
    reason: str,
) -> None:  # fmt: skip
    rig.rows("SELECT add_owner(5, 0)")
    log = FailureLog(rig.client)
    said = logging.getLogger(logger)
    for _ in range(3):
        about = (type(error), error, None) if error is not None else None
        log.handle(said.makeRecord(logger, logging.WARNING, "", 1, "so it is", (), about,
                                   extra=extra))  # fmt: skip
    log.handle(said.makeRecord("src.web.admin_site", logging.WARNING, "", 1, "a guess", (), None))
    await log.flush_waiting()
    await log.flush_waiting()
    [row] = rig.client.fetch_records(
        "SELECT part, reason, times, update_id, job_id, o.telegram_user_id AS person"
        " FROM failures LEFT JOIN owners o ON o.id = owner_id"
    )
    assert (row["part"], row["reason"], row["times"]) == (part, reason, 3)
    assert (row["person"], row["update_id"]) == ((5, 7) if "chat" in extra else (None, None))
    assert row["job_id"] == (9 if "job" in extra else None)


@pytest.mark.own_database
async def test_what_a_database_that_is_away_did_not_take_is_stored_when_it_is_back(
    rig: Rig,
) -> None:
    log = FailureLog(rig.client)
    said = logging.getLogger("src.pg.embedded")
    log.handle(said.makeRecord(said.name, logging.WARNING, "", 1, "it is gone", (), None))
    rig.client.close()
    await log.flush_waiting()
    rig.client.open()
    await log.flush_waiting()
    assert rig.rows("SELECT part, event FROM failures") == [("database", "it is gone")]


async def test_a_call_that_failed_is_a_row_with_its_reason_and_costs_no_budget(
    person: Person,
) -> None:
    person.model.queue(Reply(status=500))
    with pytest.raises(errors.ModelUnavailableError):
        await person.say("привет")
    await person.say("привет", "ответ")
    failed, answered = person.rows(
        "SELECT purpose, error, prompt_tokens > 0 FROM model_usage "
        "WHERE owner_id = %(owner)s ORDER BY id"
    )
    assert answered == ("answer", None, True)
    assert failed[0] == "answer" and "HTTP 500" in failed[1]
    records = RecordsRepository(person.client)
    person.client.execute(
        "UPDATE model_usage SET created_at = created_at - interval '2 days' "
        "WHERE owner_id = %(owner)s",
        Owner(person.user),
    )
    records.roll_up(zone="UTC")
    assert person.rows(
        "SELECT purpose, sum(calls), sum(failed) FROM model_usage_days GROUP BY 1"
    ) == [("answer", 1, 1)]
    for facts in (3, 4):
        records.count_growth(zone="UTC", facts=facts)
    [(people, messages, facts, is_sized)] = person.rows(
        "SELECT people, messages, facts, bytes > 0 FROM growth_days"
    )
    assert (people, facts, is_sized) == (person.rows("SELECT count(*) FROM owners")[0][0], 4, True)
    assert messages >= 2
