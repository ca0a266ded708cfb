"""Settings and prices on the admin page: only what was edited changes, however old a form is."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from src.memory import memory_repo
from src.pg.failure_log import Part
from src.pg.global_settings_repo import GlobalSettings, as_text
from src.web.admin_pages import build_admin_app
from src.web.admin_prices import KINDS
from src.web.admin_settings import SELECT_CHANGES, fields
from src.web.admin_words import labels
from tests.integration.admin_browser import Browser, access, browser, log_in
from tests.integration.person import Rig

Form = dict[str, str]

SELECT = re.compile(r'<select id="(\w+)".*?<option value="([^"]*)" selected', re.S)
INPUT = re.compile(r'<input (?:id="[^"]*" |type="hidden" )*name="([^"]+)" value="([^"]*)"')
VALUES = {
    "daily_tokens": ["0", "5", " 5 ", "1000000", "-1", "many"],
    "summaries_shown": ["3", "4", "5", "99"],
    "memory_extraction_enabled": ["true", "false"],
    "history_step": ["15", "14", "29"],
    "history_messages": ["30", "12", "29"],
    "memory_retrieve_threshold": ["0.6", "0.60", "0.5", "nan"],
}
PRICES = {
    "prompt.x:a": ["1", "2", "1,0", "", "free"], "cached.x:a": ["0", "0.5", ""],
    "completion.x:a": ["3", "", "1e9"], "completion.y:b/c.": ["4", "0.000001", "\0"],
    "model": ["x:a", "z:new", "", "a b", "a\0b"],
    "prompt.": ["5", ""], "cached.": ["6", ""], "completion.": ["7", ""],
}  # fmt: skip


def steps(values: dict[str, list[str]]) -> Any:
    """What two operators do, one after the other, and what each edits before."""
    edits = st.fixed_dictionaries({}, optional={n: st.sampled_from(v) for n, v in values.items()})
    actions = st.sampled_from(("open", "send", "reset"))
    return st.lists(st.tuples(st.sampled_from((0, 1)), actions, edits), min_size=2, max_size=6)


def fields_of(page: str) -> Form:
    """What a browser would send of the form, untouched."""
    form = page.partition('class="settings">')[2].partition("</form>")[0]
    return {
        html.unescape(name): html.unescape(value)
        for name, value in SELECT.findall(form) + INPUT.findall(form)
    }


def history(rig: Rig) -> list[tuple[str, str, str, str]]:
    """Who changed what, the newest first."""
    return [
        (row["changed_by"], row["setting"], row["old_value"], row["new_value"])
        for row in rig.client.fetch_records(SELECT_CHANGES, limit=99)
    ]


async def settings_now(rig: Rig) -> dict[str, str]:
    """The settings as a form has them."""
    stored = await rig.core.live_settings.get()
    return {name: as_text(value) for name, value in stored.model_dump().items()}


async def prices_now(rig: Rig) -> dict[str, str]:
    """The prices as a form has them; of a model that has none nothing."""
    rows = rig.rows("SELECT model, prompt, cached, completion FROM model_prices")
    return {
        f"{kind}.{model}": f"{price.normalize():f}"
        for model, *prices in rows for kind, price in zip(KINDS, prices, strict=True)
    }  # fmt: skip


def same(one: str, other: str) -> bool:
    """Whether two texts are the same value, as ``0.60`` and ``0.6``."""
    try:
        return Decimal(one.replace(",", ".")) == Decimal(other.replace(",", "."))
    except InvalidOperation:
        return one == other


@dataclass(frozen=True)
class Kind:
    """A page whose form is played with: its values now, and what is reset."""

    path: str
    now: Callable[[Rig], Awaitable[Form]]
    resets: Callable[[Form], tuple[str, Form]]
    restores: str


SETTINGS = Kind(
    "/settings", settings_now,
    lambda typed: (
        name := next(iter(typed), "summaries_shown"),
        {name: as_text(GlobalSettings.model_fields[name].default)},
    ),
    "DELETE FROM global_settings; INSERT INTO global_settings DEFAULT VALUES",
)  # fmt: skip
PRICE_LIST = Kind(
    "/prices", prices_now,
    lambda _typed: ("x:a", {f"{kind}.x:a": "" for kind in KINDS}),
    "DELETE FROM model_prices;"
    " INSERT INTO model_prices VALUES ('x:a', 1, 0, 3), ('y:b/c.', 0.25, 0.025, 2)",
)  # fmt: skip
EXAMPLES: tuple[tuple[Kind, list[tuple[int, str, Form]]], ...] = (
    (SETTINGS, [(1, "send", {"daily_tokens": "5"}), (0, "send", {"summaries_shown": "4"})]),
    (SETTINGS, [(1, "send", {"daily_tokens": "5"}), (0, "send", {"daily_tokens": "1000000"})]),
    (PRICE_LIST, [(1, "send", {"prompt.x:a": "2"}), (0, "send", {"cached.x:a": "0.5"})]),
    (PRICE_LIST, [(1, "reset", {}), (0, "send", {"prompt.x:a": "2"}), (0, "send", {})]),
    (PRICE_LIST, [(0, "send", {"model": "a\0b"}),
                  (1, "send", {"prompt.": "5", "model": "z:new"})]),
)  # fmt: skip


def of_the_new(form: Form) -> Form:
    """A form of prices with the blank row as that of the model that it names."""
    model = form.get("model", "").strip()
    if not re.fullmatch(r"[\w:/.-]+", model):
        return form
    rows = {f"{was}{kind}.": f"{was}{kind}.{model}" for kind in KINDS for was in ("", "was.")}
    return {rows.get(name, name): value for name, value in form.items() if name != "model"}


async def play(rig: Rig, kind: Kind, steps: list[tuple[int, str, Form]]) -> None:
    """Two operators, each with a tab, open, edit and send the form."""
    app = build_admin_app(rig.core, access())
    rig.client.execute(kind.restores)
    async with browser(app) as one, browser(app) as other:
        tabs = []
        for client in (one, other):
            await log_in(client)
            tabs.append(fields_of((await client.get(kind.path)).text))
        for which, action, typed in steps:
            client, form = (one, other)[which], {**tabs[which], **typed}
            if action == "open":
                tabs[which] = fields_of((await client.get(kind.path)).text)
                continue
            told, form = form, of_the_new(form)
            sent = {name: form[name].strip() for name in form if f"was.{name}" in form}
            if action == "reset":
                told["reset"], defaults = kind.resets(typed)
                sent = {name: value for name, value in defaults.items() if name in sent}
            edits = {name: text for name, text in sent.items() if text != form[f"was.{name}"]}
            before, known = await kind.now(rig), len(history(rig))
            response = await client.post(kind.path, data=told)
            status = response.status_code
            after, tabs[which] = await kind.now(rig), fields_of(response.text)
            names = before.keys() | after.keys()
            changed = {name for name in names if before.get(name) != after.get(name)}
            is_stale = any(before.get(name, "") != form[f"was.{name}"] for name in edits)
            if status == 200:
                assert changed <= edits.keys() and not is_stale
                assert all(same(after.get(name, ""), text) for name, text in edits.items())
            else:
                assert not changed and (status == 422 or (status == 409 and is_stale))
                kept = {name: tabs[which].get(name) for name in edits}
                assert kept.items() <= {**form, **edits}.items(), "what was typed is kept"
            if kind is SETTINGS:
                assert {row[1] for row in history(rig)[: len(history(rig)) - known]} == changed


@pytest.mark.parametrize("tries", [3, pytest.param(30, marks=pytest.mark.proof)])
@pytest.mark.parametrize("kind", [SETTINGS, PRICE_LIST], ids=["settings", "prices"])
def test_nothing_changes_that_nobody_edited(rig: Rig, kind: Kind, tries: int) -> None:
    @settings(max_examples=tries, deadline=None)
    @given(steps(VALUES if kind is SETTINGS else PRICES))
    def check(steps: Any) -> None:
        asyncio.run(play(rig, kind, steps))

    for of, example in EXAMPLES:
        if of is kind:
            asyncio.run(play(rig, kind, example))
    check()


async def test_a_price_that_is_none_is_a_sentence_and_a_model_loses_all_of_them(
    rig: Rig, inside: Browser
) -> None:
    form = fields_of((await inside.get("/prices?model=x:a")).text)
    half = await inside.post("/prices", data={**form, "prompt.x:a": "0,5"})
    assert half.status_code == 422 and half.text.count("Write all three prices of a model") == 2
    whole = {"prompt.x:a": "0,5", "cached.x:a": "0", "completion.x:a": "2"}
    saved = await inside.post("/prices", data={**form, **whole})
    assert "Saved. Prompt of x:a: no price → 0.5. Cached of x:a: no price → 0." in saved.text
    rig.client.execute("UPDATE model_prices SET prompt = 7")
    stale = await inside.post("/prices", data={**fields_of(saved.text), "prompt.x:a": "9"})
    assert (
        stale.status_code == 409 and "Meanwhile it was set to 7. Save to put yours" in stale.text
    )
    nonsense = await inside.post("/prices", data={**form, "model": "a\0b", "prompt.": "1"})
    assert nonsense.status_code == 422 and "Write a model without spaces" in nonsense.text
    form = {**fields_of((await inside.get("/prices")).text), "reset": "x:a"}
    assert "Prompt of x:a: 7 → no price." in (await inside.post("/prices", data=form)).text
    assert await prices_now(rig) == {}
    audit = (await inside.get("/audit")).text
    assert audit.count("change prices") == 2


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


def test_every_kind_of_fact_and_part_of_the_bot_has_its_label() -> None:
    assert labels()["fact_kinds"].keys() == set(memory_repo.KINDS)
    assert labels()["parts"].keys() == set(get_args(Part))
