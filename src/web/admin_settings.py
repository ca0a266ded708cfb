"""Admin pages of the settings that change while the bot runs, and of the audit."""

from collections.abc import Mapping
from functools import cache
from typing import get_args

from starlette.requests import Request
from starlette.responses import Response

from src.pg.global_settings_repo import GlobalSettings, as_text
from src.web.admin_form import UNSENT, Field, Submission, problems_of, send, view
from src.web.admin_site import PAGE, AdminSite, Fields, ListPage, Values, client_address
from src.web.admin_words import labels

# Changes of settings, newest first.
SELECT_CHANGES = """
SELECT id, changed_at, changed_by, setting, old_value, new_value
FROM global_settings_changes ORDER BY id DESC LIMIT %(limit)s
"""

# Actions of sessions, or wrong passwords, newest first.
SELECT_ACTIONS = """
SELECT id, done_at, who, address, action, target FROM admin_actions
WHERE (action = 'wrong password') = (%(of)s = 'guesses') AND id < %(before)s
ORDER BY id DESC LIMIT %(limit)s
"""


async def change_settings(site: AdminSite, request: Request, form: Fields) -> Response:
    """Save the edited settings, or reset one; refused input stays in the form."""

    async def change(edits: Fields, seen: Fields) -> Mapping[str, str]:
        author = f"admin page, {request.state.session.name}, {client_address(request)}"
        return _format_settings(await site.core.live_settings.change(author, edits, seen))

    sent = await send(form, fields(), change, _say)
    if sent.changed:
        await site.note(request, "change settings", ", ".join(sent.changed))
    return await show_settings(site, request, sent)


async def show_settings(site: AdminSite, request: Request, sent: Submission = UNSENT) -> Response:
    """Show the settings and their last changes, with the result of a submission."""
    known, current = fields(), _format_settings(await site.core.live_settings.get())
    changes = await site.rows(SELECT_CHANGES, limit=PAGE)
    authors = {one["setting"]: one["changed_by"] for one in reversed(changes)}
    problems = problems_of(sent.refused, current, _say, authors)
    if sent.status != 409:
        problems = {name: f"{_in_plain_words(text)}." for name, text in problems.items()}
    groups = {
        title: [view(known[name], current[name], sent, problems) for name in names]
        for title, names in labels()["settings"].items()
    }
    values: Values = {"groups": groups, "names": known, "changes": changes, "say": _say}
    values |= {"sent": sent, "problems": problems, "embedding": await _describe_embedding(site)}
    return site.render(request, "settings.html", status=sent.status, **values)


async def _describe_embedding(site: AdminSite) -> str:
    space = site.core.memory.space
    serving, coming = await space.current(), space.coming()
    if coming is None:
        return f"{serving.name} serves."
    done, total = await site.run(site.core.memory.embeddings.find_progress, coming.name)
    return (
        f"{serving.name} serves until every document is embedded by {coming.name}: "
        f"{done:,} of {total:,} are."
    )


def _in_plain_words(text: str) -> str:
    """Replace the names of settings in a sentence by their labels."""
    for name in sorted(fields(), key=len, reverse=True):
        text = text.replace(name, f"“{fields()[name].label}”")
    return text


AUDIT = ListPage("audit.html", {"rows": SELECT_ACTIONS}, {"of": ("", "guesses")})


@cache
def fields() -> Mapping[str, Field]:
    """Return the field of each setting by its name, in the order of the page."""
    groups: Mapping[str, Mapping[str, tuple[str, str, str]]] = labels()["settings"]
    return {
        name: _build_field(name, *about)
        for group in groups.values()
        for name, about in group.items()
    }


def _build_field(name: str, label: str, unit: str, description: str) -> Field:
    about = GlobalSettings.model_fields[name]
    kind = about.annotation
    choices = get_args(kind)
    if kind is bool:
        choices = ("true", "false")
    default, is_number = as_text(about.default), kind in (int, float)
    return Field(name, label, default, unit, choices, is_number, description, group=name)


def _format_settings(settings: GlobalSettings) -> Mapping[str, str]:
    return {name: as_text(getattr(settings, name)) for name in fields()}


def _say(value: str) -> str:
    return {"true": "on", "false": "off", "": "(environment)"}.get(value, value)
