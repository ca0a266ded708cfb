"""Settings and prices on the admin page: only what was edited changes, however old a form is."""

from __future__ import annotations

import html
import re
from decimal import Decimal
from typing import get_args

from src.pg.records import Part
from src.pg.settings_repo import GlobalSettings
from src.web.admin_settings import SELECT_CHANGES, fields
from src.web.admin_words import labels
from tests.integration.admin_browser import Browser
from tests.integration.person import Rig

SELECT = re.compile(r'<select id="(\w+)".*?<option value="([^"]*)" selected', re.S)
INPUT = re.compile(r'<input (?:id="[^"]*" |type="hidden" )*name="([^"]+)" value="([^"]*)"')


def fields_of(page: str) -> dict[str, str]:
    """What a browser would send of the form, untouched."""
    form = page.partition('class="settings">')[2].partition("</form>")[0]
    return {
        html.unescape(name): html.unescape(value)
        for name, value in SELECT.findall(form) + INPUT.findall(form)
    }


def history(rig: Rig) -> list[tuple[str, str, str, str]]:
    return [
        (row["changed_by"], row["setting"], row["old_value"], row["new_value"])
        for row in rig.client.fetch_records(SELECT_CHANGES, limit=99)
    ]


async def test_a_form_that_was_open_for_long_changes_only_what_was_edited_in_it(
    inside: Browser,
) -> None:
    opened = fields_of((await inside.get("/settings")).text)
    mine, theirs = {"summaries_shown": "4"}, {"daily_tokens": "5"}
    for edited in (theirs, mine):
        assert (await inside.post("/settings", data={**opened, **edited})).status_code == 200
    now = fields_of((await inside.get("/settings")).text)
    assert {
        name: now[name] for name in now if now[name] != opened[name] and "was." not in name
    } == mine | theirs


async def test_the_prices_of_a_model_are_saved_refused_or_removed_together(
    rig: Rig, inside: Browser
) -> None:
    page = (await inside.get("/prices?model=x:a")).text
    form = {"token": fields_of(page)["token"], "model": "x:a"}
    half = await inside.post("/prices", data={**form, "prompt": "0,5"})
    assert half.status_code == 422 and "Write all three prices of a model" in half.text
    assert 'value="0.5"' in half.text, "what was typed stays"
    for wrong in ("x", "-1", "1e3", "1.1234567"):
        wrong_prices = {"prompt": wrong, "cached": "0", "completion": "2"}
        refused = await inside.post("/prices", data={**form, **wrong_prices})
        assert refused.status_code == 422 and "Write numbers such as" in refused.text
    nonsense = await inside.post("/prices", data={**form, "model": "a\0b", "prompt": "1"})
    assert nonsense.status_code == 422 and "Write a model without spaces" in nonsense.text
    prices = "SELECT model, prompt, cached, completion FROM model_prices"
    assert rig.rows(prices) == []
    whole = {"prompt": "0,5", "cached": "0", "completion": "2"}
    assert "Saved: x:a." in (await inside.post("/prices", data={**form, **whole})).text
    assert rig.rows(prices) == [("x:a", Decimal("0.5"), 0, 2)]
    await inside.post("/prices", data={**form, **whole, "reset": "reset"})
    assert rig.rows(prices) == []
    assert (await inside.get("/audit")).text.count("change prices") == 2


async def test_a_conflict_shows_both_values_and_asks(rig: Rig, inside: Browser) -> None:
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
    rig: Rig, inside: Browser
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


async def test_a_changed_setting_is_marked_and_set_back(rig: Rig, inside: Browser) -> None:
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
    groups = labels()["settings"]
    assert sorted(name for group in groups.values() for name in group) == sorted(
        GlobalSettings.model_fields
    )
    assert len(groups[""]) == 10
    assert len({field.label for field in fields().values()}) == len(fields())
    helps = [field.description for field in fields().values()]
    assert all(text.endswith(".") and len(text) > 40 for text in helps)
    assert len(set(helps)) == len(helps)


def test_every_part_of_the_bot_has_its_label() -> None:
    assert labels()["parts"].keys() == set(get_args(Part))
