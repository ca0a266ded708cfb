"""The settings on the admin page: only what somebody edited changes, however old their form is."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from src.base.errors import SettingsError
from src.pg.global_settings_repo import GlobalSettings, as_text, check_settings
from src.web.admin_pages import build_admin_app
from src.web.admin_setting_names import DAILY, GROUPS, NAMES
from src.web.admin_settings import SELECT_CHANGES
from tests.integration.person import Rig
from tests.integration.test_admin_page import PASSWORD, access, browser

SELECT = re.compile(r'<select id="(\w+)".*?<option value="([^"]*)" selected', re.S)
INPUT = re.compile(r'<input (?:id="[^"]*" |type="hidden" )*name="([\w.]+)" value="([^"]*)"')
VALUES = {
    "daily_tokens": ["0", "5", " 5 ", "1000000", "-1", "many"],
    "summaries_shown": ["3", "4", "5", "99"],
    "memory_extraction_enabled": ["true", "false"],
    "history_step": ["15", "14", "29"],
    "history_messages": ["30", "12", "29"],
    "memory_retrieve_threshold": ["0.6", "0.60", "0.5", "nan"],
}
EDITS = st.fixed_dictionaries({}, optional={n: st.sampled_from(v) for n, v in VALUES.items()})
STEPS = st.lists(
    st.tuples(st.sampled_from((0, 1)), st.sampled_from(("open", "send", "reset")), EDITS),
    min_size=2, max_size=6,
)  # fmt: skip


def fields_of(page: str) -> dict[str, str]:
    """What a browser would send of the form, untouched."""
    form = page.partition('class="settings">')[2].partition("</form>")[0]
    return {
        name: html.unescape(value) for name, value in SELECT.findall(form) + INPUT.findall(form)
    }


async def log_in(client: httpx.AsyncClient) -> None:
    assert (await client.post("/login", data={"password": PASSWORD})).status_code == 303


@pytest.fixture
async def inside(rig: Rig) -> AsyncIterator[httpx.AsyncClient]:
    async with browser(build_admin_app(rig.core, access())) as client:
        await log_in(client)
        yield client


def history(rig: Rig) -> list[tuple[str, str, str, str]]:
    """Who changed what, the newest first."""
    return [
        (row["changed_by"], row["setting"], row["old_value"], row["new_value"])
        for row in rig.client.fetch_records(SELECT_CHANGES, limit=99)
    ]


async def current(rig: Rig) -> dict[str, str]:
    """The settings as a form has them."""
    stored = await rig.core.live_settings.get()
    return {name: as_text(value) for name, value in stored.model_dump().items()}


def outcome(
    before: dict[str, str], edits: dict[str, str], form: dict[str, str]
) -> tuple[dict[str, str], int]:
    """What the settings are to be after a form, and the status of its page."""
    try:
        wanted = check_settings({**before, **edits}).model_dump()
    except SettingsError:
        return before, 422
    if any(before[name] != form[f"was.{name}"] for name in edits):
        return before, 409
    return {name: as_text(value) for name, value in wanted.items()}, 200


async def play(rig: Rig, steps: list[tuple[int, str, dict[str, str]]]) -> None:
    """Two operators, each with a tab, open, edit and send the form."""
    app = build_admin_app(rig.core, access())
    async with browser(app) as one, browser(app) as other:
        tabs = []
        for client in (one, other):
            await log_in(client)
            tabs.append(fields_of((await client.get("/settings")).text))
        whose = rig.rows("SELECT who FROM admin_actions ORDER BY id DESC LIMIT 2")[::-1]
        for which, action, typed in steps:
            client, form = (one, other)[which], {**tabs[which], **typed}
            if action == "open":
                tabs[which] = fields_of((await client.get("/settings")).text)
                continue
            edits = {
                name: form[name].strip() for name in NAMES
                if form[name].strip() != form[f"was.{name}"]
            }  # fmt: skip
            if action == "reset":
                form["reset"] = name = next(iter(typed), "summaries_shown")
                default = as_text(GlobalSettings.model_fields[name].default)
                edits = {name: default} if default != form[f"was.{name}"] else {}
            before, known = await current(rig), len(history(rig))
            response = await client.post("/settings", data=form)
            after, tabs[which] = await current(rig), fields_of(response.text)
            expected, status = outcome(before, edits, form)
            assert (after, response.status_code) == (expected, status)
            noted = history(rig)
            noted = noted[: len(noted) - known]
            assert {row[1] for row in noted} == {n for n in after if after[n] != before[n]}
            assert all(whose[which][0] in row[0] for row in noted)
            typed_now = {name: tabs[which][name] for name in edits if status != 200}
            assert typed_now.items() <= form.items(), "what was typed is kept"


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS)
@example(steps=[(1, "send", {"daily_tokens": "5"}), (0, "send", {"summaries_shown": "4"})])
@example(steps=[(1, "send", {"daily_tokens": "5"}), (0, "send", {"daily_tokens": "1000000"})])
def test_no_setting_changes_that_nobody_edited(rig: Rig, steps: Any) -> None:
    rig.client.execute("DELETE FROM global_settings")
    rig.client.execute("INSERT INTO global_settings DEFAULT VALUES")
    asyncio.run(play(rig, steps))


async def test_a_conflict_shows_both_values_and_asks(rig: Rig, inside: httpx.AsyncClient) -> None:
    form = fields_of((await inside.get("/settings")).text)
    rig.client.execute("UPDATE global_settings SET daily_tokens = 7")
    form |= {"daily_tokens": "9", "summaries_shown": "5"}
    asked = await inside.post("/settings", data=form)
    assert asked.status_code == 409
    assert "Meanwhile it was set to 7 by SQL: postgres. Save to put yours" in asked.text
    form = fields_of(asked.text)
    assert (form["daily_tokens"], form["was.daily_tokens"]) == ("9", "7")
    saved = await inside.post("/settings", data=form)
    assert "Tokens a day, all users together: 7 → 9. Summaries in a prompt: 3 → 5." in saved.text
    assert history(rig)[0][2:] in {("7", "9"), ("3", "5")}


async def test_what_is_refused_is_told_in_plain_words_above_and_beside_it(
    rig: Rig, inside: httpx.AsyncClient
) -> None:
    page = (await inside.get("/settings")).text
    form = {**fields_of(page), "history_step": "40", "summaries_shown": "many"}
    wrong = await inside.post("/settings", data=form)
    assert wrong.status_code == 422 and "Not saved" in wrong.text
    assert wrong.text.count("Write a whole number from 1 to 29.") == 2
    assert wrong.text.count("Write a whole number from 0 to 20.") == 2
    assert wrong.text.count("<details open>") == 1, "the group of both is unfolded"
    form = {**fields_of(page), "history_step": "20", "history_messages": "15"}
    together = html.unescape((await inside.post("/settings", data=form)).text)
    last = "“Last messages in a prompt, at most”"
    assert f"“Messages by which the window moves” must be less than {last}." in together
    odd = {**fields_of(page), "memory_extraction_model": "openai:a\0b"}
    assert (await inside.post("/settings", data=odd)).status_code == 422
    same = await inside.post("/settings", data=fields_of(page))
    assert "Nothing was changed." in same.text and history(rig) == []


async def test_a_changed_setting_is_marked_and_set_back(
    rig: Rig, inside: httpx.AsyncClient
) -> None:
    rig.client.execute("UPDATE global_settings SET memory_extraction_enabled = false")
    page = (await inside.get("/settings")).text
    assert page.count(">changed</span>") == 1 and "Reset to on" in page
    reset = "memory_extraction_enabled"
    form = {**fields_of(page), "reset": reset, "daily_tokens": "8"}
    back = await inside.post("/settings", data=form)
    assert "Read messages for facts in the background: off → on." in back.text
    assert fields_of(back.text)["daily_tokens"] == "8", "typed, and not saved yet"
    stored = await rig.core.live_settings.get()
    assert (stored.memory_extraction_enabled, stored.daily_tokens) == (True, 0)


def test_every_setting_has_its_words_once() -> None:
    assert sorted(name for group in GROUPS.values() for name in group) == sorted(
        GlobalSettings.model_fields
    )
    assert len(DAILY) == 10
    assert len({about.label for about in NAMES.values()}) == len(NAMES)
