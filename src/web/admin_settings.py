"""Admin page of the settings that change while the bot runs.

Its form saves only edited fields, and reports concurrent changes of the same field.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Self, get_args

from starlette.requests import Request
from starlette.responses import Response

from src.base.errors import SettingsConflictError, SettingsError
from src.pg.client import Record
from src.pg.settings_repo import GlobalSettings, as_text
from src.web.admin_site import PAGE, AdminSite, Fields, Values, client_address
from src.web.admin_words import labels

SEEN = "was."  # prefix of a field's name: its value when the form was opened

# Changes of settings, newest first.
SELECT_CHANGES = """
SELECT id, changed_at, changed_by, setting, old_value, new_value
FROM global_settings_changes ORDER BY id DESC LIMIT %(limit)s
"""


@dataclass(frozen=True)
class Field:
    """Setting as a field of the form.

    Attributes:
        name: Name of the setting.
        label: Label for operators.
        unit: Unit of the number; empty: none.
        description: Purpose of the setting.
        default: Value until an operator changes it.
        choices: Allowed values; empty: any.
        is_number: True if the value is a number.
    """

    name: str
    label: str
    unit: str
    description: str
    default: str
    choices: Sequence[str]
    is_number: bool

    @classmethod
    def of_setting(cls, name: str, label: str, unit: str, description: str) -> Self:
        """Build the field of a setting."""
        about = GlobalSettings.model_fields[name]
        kind = about.annotation
        choices = get_args(kind)
        if kind is bool:
            choices = ("true", "false")
        default, is_number = as_text(about.default), kind in (int, float)
        return cls(name, label, unit, description, default, choices, is_number)


@dataclass(frozen=True)
class Submission:
    """Result of submitting the form.

    Attributes:
        form: Input that is not saved.
        done: Notice for the operator.
        refused: Error because of which nothing was changed.
    """

    form: Fields = field(default_factory=dict)
    done: str = ""
    refused: SettingsError | None = None

    @property
    def status(self) -> int:
        """HTTP status of the page that follows."""
        if isinstance(self.refused, SettingsConflictError):
            return 409
        return 422 if self.refused else 200

    def view(self, one: Field, value: str, problems: Mapping[str, str]) -> dict[str, Any]:
        """Return a field for the template; unsaved input stays, with the value seen then."""
        typed = _find_edits(self.form, [one.name]).get(one.name, value)
        seen = value
        if typed != value and not (self.status == 409 and one.name in problems):
            seen = self.form[SEEN + one.name]
        about = {"typed": typed, "seen": seen, "is_default": value == one.default}
        return {**vars(one), **about, "problem": problems.get(one.name, "")}


UNSENT = Submission()  # the page was opened without one


async def change_settings(site: AdminSite, request: Request, form: Fields) -> Response:
    """Save the edited settings, or reset one; refused input stays in the form."""
    known, reset = fields(), form.get("reset", "")
    names: Sequence[str] = tuple(known)
    if reset in known:
        names, form = [reset], {**form, reset: known[reset].default}
    edits = _find_edits(form, names)
    if not edits:
        return await show_settings(site, request, Submission(done="Nothing was changed."))
    seen = {name: form[SEEN + name] for name in edits}
    author = f"admin page, {request.state.session.name}, {client_address(request)}"
    try:
        saved = (await site.core.live_settings.change(author, edits, seen)).as_texts()
    except SettingsError as error:
        return await show_settings(site, request, Submission(form, refused=error))
    changed = [name for name in edits if saved[name] != seen[name]]
    if changed:
        await site.note(request, "change settings", ", ".join(changed))
    lines = (f"{known[name].label}: {_say(seen[name])} → {_say(saved[name])}." for name in changed)
    unsaved = {name: value for name, value in form.items() if name not in edits}
    return await show_settings(site, request, Submission(unsaved, "Saved. " + " ".join(lines)))


async def show_settings(site: AdminSite, request: Request, sent: Submission = UNSENT) -> Response:
    """Show the settings and their last changes, with the result of a submission."""
    known, current = fields(), (await site.core.live_settings.get()).as_texts()
    changes = await site.rows(SELECT_CHANGES, limit=PAGE)
    problems = _describe_problems(sent.refused, current, changes)
    groups = {
        title: [sent.view(known[name], current[name], problems) for name in names]
        for title, names in labels()["settings"].items()
    }
    values: Values = {"groups": groups, "names": known, "changes": changes, "say": _say}
    space = site.core.memory.space
    serving, coming = await space.current(), await space.coming()
    embedding = f"{serving.name} serves."
    if coming is not None:
        count = site.core.memory.embeddings.count_embedded
        done, total = await site.run(count, coming.name)
        embedding = (
            f"{serving.name} serves until every document is embedded by {coming.name}: "
            f"{done:,} of {total:,} are."
        )
    values |= {"sent": sent, "problems": problems, "embedding": embedding}
    return site.render(request, "settings.html", status=sent.status, **values)


def _find_edits(form: Fields, names: Sequence[str]) -> dict[str, str]:
    """Return the fields whose value differs from when the form was opened."""
    return {
        name: form[name].strip()
        for name in names
        if SEEN + name in form and name in form and form[name].strip() != form[SEEN + name]
    }


def _describe_problems(
    refused: SettingsError | None, current: Fields, changes: Sequence[Record]
) -> Mapping[str, str]:
    """Return problems in plain words, by field; a conflict with both values and the remedy."""
    if refused is None:
        return {}
    if not isinstance(refused, SettingsConflictError):
        known = fields()
        problems = dict(refused.problems)
        for setting in sorted(known, key=len, reverse=True):
            label = f"“{known[setting].label}”"
            problems = {name: text.replace(setting, label) for name, text in problems.items()}
        return {name: f"{text}." for name, text in problems.items()}
    authors = {one["setting"]: one["changed_by"] for one in reversed(changes)}
    problems = {}
    for name in refused.problems:
        now = _say(current[name])
        problems[name] = (
            f"Meanwhile it was set to {now} by {authors.get(name, 'somebody')}. Save to put yours "
            f"in its place, or set {now} to leave it."
        )
    return problems


@cache
def fields() -> Mapping[str, Field]:
    """Return the field of each setting by its name, in the order of the page."""
    groups: Mapping[str, Mapping[str, tuple[str, str, str]]] = labels()["settings"]
    return {
        name: Field.of_setting(name, *about)
        for group in groups.values()
        for name, about in group.items()
    }


def _say(value: str) -> str:
    return {"true": "on", "false": "off", "": "(environment)"}.get(value, value)
