"""Forms that save only edited fields, and report concurrent changes of the same field."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from src.base.errors import SettingsConflictError, SettingsError
from src.web.admin_site import Fields

SEEN = "was."  # prefix of a field's name: its value when the form was opened

# Saves edits, given the values that were seen before; returns the new values. All are by name.
Change = Callable[[Mapping[str, str], Mapping[str, str]], Awaitable[Mapping[str, str]]]
Say = Callable[[str], str]  # formats a value for display


@dataclass(frozen=True)
class Field:
    """Field of a form.

    Attributes:
        name: Name in the form.
        label: Label for operators.
        default: Value until an operator changes it.
        unit: Unit of the number; empty: none.
        choices: Allowed values; empty: any.
        is_number: True if the value is a number.
        description: Purpose of the field.
        group: Name by which the form resets the field.
    """

    name: str
    label: str
    default: str
    unit: str = ""
    choices: Sequence[str] = ()
    is_number: bool = True
    description: str = ""
    group: str = ""


@dataclass(frozen=True)
class Submission:
    """Result of submitting a form.

    Attributes:
        form: Input that is not saved.
        changed: Names of the changed fields.
        done: Notice for the operator.
        refused: Error because of which nothing was changed.
    """

    form: Fields = field(default_factory=dict)
    changed: Sequence[str] = ()
    done: str = ""
    refused: SettingsError | None = None

    @property
    def status(self) -> int:
        """HTTP status of the page that follows."""
        if isinstance(self.refused, SettingsConflictError):
            return 409
        if self.refused:
            return 422
        return 200


UNSENT = Submission()  # the page was opened without one


async def send(form: Fields, fields: Mapping[str, Field], change: Change, say: Say) -> Submission:
    """Save the edited fields, or those to reset; input that is refused stays in the result."""
    reset = form.get("reset", "")
    chosen = {name: one for name, one in fields.items() if reset in ("", one.group)}
    if reset:
        form = {**form, **{name: one.default for name, one in chosen.items()}}
    edits = edits_of(form, chosen)
    if not edits:
        return Submission(done="Nothing was changed.")
    seen = {name: form[SEEN + name] for name in edits}
    try:
        saved = await change(edits, seen)
    except SettingsError as error:
        return Submission(form, refused=error)
    changed = [name for name in edits if saved[name] != seen[name]]
    lines = (f"{fields[name].label}: {say(seen[name])} → {say(saved[name])}." for name in changed)
    done = "Saved. " + " ".join(lines)
    if not reset:
        return Submission(changed=changed, done=done)
    unsaved = {name: value for name, value in form.items() if name not in edits}
    return Submission(unsaved, changed, done)


def problems_of(
    refused: SettingsError | None,
    current: Mapping[str, str],
    say: Say,
    authors: Mapping[str, str] = {},
) -> dict[str, str]:
    """Return problems in plain words, by field; a conflict with both values and the remedy."""
    if refused is None:
        return {}
    if not isinstance(refused, SettingsConflictError):
        return dict(refused.problems)
    problems = {}
    for name in refused.problems:
        now, who = say(current[name]), f" by {authors[name]}" if name in authors else ""
        problems[name] = (
            f"Meanwhile it was set to {now}{who}. Save to put yours in its place, "
            f"or set {now} to leave it."
        )
    return problems


def view(one: Field, value: str, sent: Submission, problems: Mapping[str, str]) -> dict[str, Any]:
    """Return the template variables of a field; unsaved input stays, with the value seen then."""
    typed = edits_of(sent.form, {one.name: one}).get(one.name, value)
    seen = value
    if typed != value and not (sent.status == 409 and one.name in problems):
        seen = sent.form[SEEN + one.name]
    return {
        **vars(one),
        "value": value,
        "typed": typed,
        "seen": seen,
        "is_default": value == one.default,
        "problem": problems.get(one.name, ""),
    }


def edits_of(form: Fields, fields: Mapping[str, Field]) -> dict[str, str]:
    """Return the fields whose value differs from when the form was opened."""
    return {
        name: form[name].strip()
        for name in fields
        if SEEN + name in form and name in form and form[name].strip() != form[SEEN + name]
    }
