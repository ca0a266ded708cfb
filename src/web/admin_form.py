"""Forms that change only what was edited, and ask where somebody else changed the same."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from src.base.errors import SettingsConflictError, SettingsError
from src.web.admin_site import Fields

SEEN = "was."  # before a field's name: the value that the form was opened with

# Makes edits, by name, of values that were seen; returns what has come of them, by name.
Change = Callable[[Mapping[str, str], Mapping[str, str]], Awaitable[Mapping[str, str]]]
Say = Callable[[str], str]  # a value as a person reads it


@dataclass(frozen=True)
class Field:
    """What a form may change.

    Attributes:
        name: In the form.
        label: In an operator's words.
        default: Its value as long as nobody has changed it.
        unit: Of its number; empty: it has none.
        choices: What it may be; empty: anything.
        is_number: Whether it is a number.
        description: What it is for.
        group: By which name the form resets it.
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
class Sent:
    """How the sending of a form ended.

    Attributes:
        form: What was typed and is not saved.
        changed: The names of the fields that were changed.
        done: What is said of it.
        refused: Why nothing was changed.
    """

    form: Fields = field(default_factory=dict)
    changed: Sequence[str] = ()
    done: str = ""
    refused: SettingsError | None = None

    @property
    def status(self) -> int:
        """Of the page that follows."""
        if isinstance(self.refused, SettingsConflictError):
            return 409
        return 422 if self.refused else 200


UNSENT = Sent()  # of a page that is only opened


async def send(form: Fields, fields: Mapping[str, Field], change: Change, say: Say) -> Sent:
    """Change what was edited in a form, or what it resets; of what is refused nothing is lost."""
    reset = form.get("reset", "")
    chosen = {name: one for name, one in fields.items() if reset in ("", one.group)}
    if reset:
        form = {**form, **{name: one.default for name, one in chosen.items()}}
    edits = edits_of(form, chosen)
    if not edits:
        return Sent(done="Nothing was changed.")
    seen = {name: form[SEEN + name] for name in edits}
    try:
        now = await change(edits, seen)
    except SettingsError as error:
        return Sent(form, refused=error)
    changed = [name for name in edits if now[name] != seen[name]]
    told = (f"{fields[name].label}: {say(seen[name])} → {say(now[name])}." for name in changed)
    unsaved = {name: value for name, value in form.items() if name not in edits}
    return Sent(unsaved if reset else {}, changed, "Saved. " + " ".join(told))


def problems_of(
    refused: SettingsError | None,
    current: Mapping[str, str],
    say: Say,
    authors: Mapping[str, str] = {},
) -> dict[str, str]:
    """What is wrong, by field, in plain words; of a conflict both values, and what to do."""
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


def view(one: Field, value: str, sent: Sent, problems: Mapping[str, str]) -> dict[str, Any]:
    """What the page shows of a field; what was typed stays, with what was seen then."""
    typed = edits_of(sent.form, {one.name: one}).get(one.name, value)
    is_new = typed == value or (sent.status == 409 and one.name in problems)
    return {
        **vars(one), "value": value, "typed": typed, "is_default": value == one.default,
        "seen": value if is_new else sent.form[SEEN + one.name],
        "problem": problems.get(one.name, ""),
    }  # fmt: skip


def edits_of(form: Fields, fields: Mapping[str, Field]) -> dict[str, str]:
    """The fields that have another value in a form than when it was opened."""
    return {
        name: form[name].strip()
        for name in fields
        if SEEN + name in form and name in form and form[name].strip() != form[SEEN + name]
    }
