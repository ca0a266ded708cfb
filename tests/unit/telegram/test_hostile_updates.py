"""Whatever arrives, ``classify`` neither raises nor lets through what cannot be handled."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, get_args

import pytest
from aiogram.types import Update
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from src.queue.update_repo import NewUpdate, UpdateKind
from src.telegram.updates import (
    MAX_ID,
    MAX_UPDATE_ID,
    AllowList,
    BotIdentity,
    classify,
    replied_message,
)
from tests.hostile_updates import BOT_ID, BOT_NAME, ODD_VALUES, VALID, mutate

HOSTILE = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
KINDS = frozenset(get_args(UpdateKind))
BOT = BotIdentity(BOT_ID, BOT_NAME)

any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
# sampled_from draws evenly, where integers() prefers 0, which is the update's number.
change = st.tuples(st.sampled_from(range(97)), st.sampled_from(range(len(ODD_VALUES))))
changes = st.lists(change, max_size=3)
mutations = st.builds(mutate, st.sampled_from(VALID), changes)
fields = st.sampled_from(
    (
        "message",
        "edited_message",
        "callback_query",
        "my_chat_member",
        "stopped_message_generation",
        "message_reaction",
    )
)
around_json = st.builds(
    lambda number, field, value: {"update_id": number, field: value},
    st.integers(),
    fields,
    any_json,
)
accesses = st.sampled_from((AllowList(), AllowList(frozenset({1}))))


def check_storable(update: NewUpdate) -> None:
    """What is stored has a known kind, ids that fit, and a payload that can be read again."""
    assert update.kind in KINDS
    assert abs(update.update_id) <= MAX_UPDATE_ID
    for number in (update.chat_id, update.user_id, update.message_id, update.draft_id):
        assert number is None or abs(number) <= MAX_ID
    assert abs(update.thread_id) <= MAX_ID
    assert update.media_group_id is None or len(update.media_group_id) <= 100
    text = json.dumps(vars(update), allow_nan=False, ensure_ascii=False)
    assert "\\u0000" not in text
    text.encode()
    Update.model_validate(json.loads(text)["payload"])


@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=pytest.mark.proof)])
def test_mutated_updates_do_no_harm(count: int) -> None:
    results: Counter[str] = Counter()

    @seed(1)
    @settings(HOSTILE, max_examples=count)
    @given(mutations, accesses)
    def check(raw: Any, access: AllowList) -> None:
        found = classify(raw, BOT, access)
        results[found.kind if found else "nothing"] += 1
        if found is not None:
            check_storable(found)
            answered = replied_message(found, BOT)
            assert answered is None or all(abs(number) <= MAX_ID for number in answered)

    check()
    assert results.total() >= count
    assert set(results) == KINDS | {"nothing"}, "the updates were not varied"
    assert results.total() - results["nothing"] >= count // 10, "hardly any update was kept"


@pytest.mark.parametrize("count", [60, pytest.param(5_000, marks=pytest.mark.proof)])
def test_any_json_does_no_harm(count: int) -> None:
    @settings(HOSTILE, max_examples=count)
    @given(around_json | any_json, accesses)
    def check(raw: Any, access: AllowList) -> None:
        found = classify(raw, BOT, access)
        if found is not None:
            check_storable(found)

    check()
