"""The admin pages about settings: what may be changed while the bot runs, and who did what."""

from collections.abc import Mapping
from typing import Any, get_args

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from src.base.errors import SettingsConflictError, SettingsError
from src.pg.client import Record
from src.pg.global_settings_repo import GlobalSettings, as_text
from src.web.admin_setting_names import GROUPS, NAMES, in_plain_words
from src.web.admin_site import LAST, PAGE, AdminSite, Fields, address_of, number_of

SEEN = "was."  # before a setting's name: the value that the form was opened with

# What each setting is for.
SELECT_DESCRIPTIONS = """
SELECT attname::text AS name, col_description(attrelid, attnum) AS description
FROM pg_attribute WHERE attrelid = 'global_settings'::regclass AND attnum > 0
"""

# What was changed of them, newest first.
SELECT_CHANGES = """
SELECT id, changed_at, changed_by, setting, old_value, new_value
FROM global_settings_changes ORDER BY id DESC LIMIT %(limit)s
"""

# What was done inside, or the guesses of those outside, the newest first.
SELECT_ACTIONS = """
SELECT id, done_at, who, address, action, target FROM admin_actions
WHERE (action <> 'wrong password') = %(is_inside)s AND id < %(before)s
ORDER BY id DESC LIMIT %(limit)s
"""


class SettingsPages:
    """What an operator may set, and the audit."""

    def __init__(self, site: AdminSite) -> None:
        """Draw on ``site``."""
        self._site = site
        self._client = site.core.client

    def routes(self) -> list[Route]:
        """Their addresses."""
        return [
            self._site.shown("/settings", self.settings),
            self._site.done("/settings", self.change_settings),
            self._site.shown("/audit", self.audit),
        ]

    async def settings(self, request: Request) -> Response:
        """What may be changed while the bot runs, and who changed it last."""
        return await self._page(request)

    async def change_settings(self, request: Request, form: Fields) -> Response:
        """Change what was edited, or set one back; what is refused is shown as it was typed."""
        reset = form.get("reset", "")
        if reset in NAMES:
            form = {**form, reset: as_text(GlobalSettings.model_fields[reset].default)}
        edits = {name: form[name].strip() for name in _edited(form) if reset in ("", name)}
        if not edits:
            return await self._page(request, {}, done="Nothing was changed.")
        session = self._site.session(request)
        author = f"admin page, {session.name}, {address_of(request)}"
        seen = {name: form[SEEN + name] for name in edits}
        try:
            settings = await self._site.core.live_settings.change(author, edits, seen)
        except SettingsError as error:
            return await self._page(request, form, refused=error)
        changes = {
            name: (was, now)
            for name, was in seen.items()
            if (now := as_text(getattr(settings, name))) != was
        }
        await self._site.note(request, "change settings", ", ".join(changes))
        told = (f"{NAMES[name].label}: {_say(was)} → {_say(now)}." for name, (was, now) in
                changes.items())  # fmt: skip
        unsaved = {name: value for name, value in form.items() if name not in edits}
        return await self._page(request, unsaved if reset else {}, done="Saved. " + " ".join(told))

    async def _page(
        self,
        request: Request,
        form: Fields | None = None,
        *,
        done: str = "",
        refused: SettingsError | None = None,
    ) -> Response:
        """The form with what ``form`` has edited, and how its sending ended."""
        current = await self._site.core.live_settings.get()
        about = {row["name"]: row for row in await self._site.rows(SELECT_DESCRIPTIONS)}
        changes = await self._site.rows(SELECT_CHANGES, limit=PAGE)
        problems = _problems(refused, current, changes)
        groups = {
            title: [about[name] | _field(name, current, form or {}, problems) for name in names]
            for title, names in GROUPS.items()
        }
        status = 409 if isinstance(refused, SettingsConflictError) else 422 if refused else 200
        return self._site.render(
            request, "settings.html", status=status, groups=groups, names=NAMES, done=done,
            problems=problems, is_conflict=status == 409, changes=changes, say=_say,
            embedding=await self._embedding(),
        )  # fmt: skip

    async def _embedding(self) -> str:
        """Which embedding model serves, and how far the one that shall has got."""
        space = self._site.core.memory.space
        serving, coming = await space.current(), space.coming()
        if coming is None:
            return f"{serving.name} serves."
        done, total = await self._client.run(
            self._site.core.memory.embeddings.find_progress, coming.name
        )
        return (
            f"{serving.name} serves until every document is embedded by {coming.name}: "
            f"{done:,} of {total:,} are."
        )

    async def audit(self, request: Request) -> Response:
        """What was done inside, or the guesses of those outside."""
        is_inside = request.query_params.get("of") != "guesses"
        before = number_of(request, "before") or LAST
        rows = await self._site.rows(
            SELECT_ACTIONS, is_inside=is_inside, before=before, limit=PAGE
        )
        return self._site.render(
            request, "audit.html", rows=rows, is_done=is_inside, is_newest=before == LAST,
            more=rows[-1]["id"] if len(rows) == PAGE else None,
        )  # fmt: skip


def _edited(form: Fields) -> list[str]:
    """The settings that have another value in a form than when it was opened."""
    return [
        name
        for name in NAMES
        if SEEN + name in form and name in form and form[name].strip() != form[SEEN + name]
    ]


def _problems(
    refused: SettingsError | None, current: GlobalSettings, changes: list[Record]
) -> dict[str, str]:
    """What is wrong, by setting, in plain words."""
    if refused is None:
        return {}
    problems = {name: in_plain_words(text) + "." for name, text in refused.problems.items()}
    if isinstance(refused, SettingsConflictError):
        for name in problems:
            last = next((one for one in changes if one["setting"] == name), None)
            who = f" by {last['changed_by']}" if last else ""
            now = _say(as_text(getattr(current, name)))
            problems[name] = (
                f"Meanwhile it was set to {now}{who}. Save to put yours in its place, "
                f"or set {now} to leave it."
            )
    return problems


def _field(
    name: str, current: GlobalSettings, form: Fields, problems: Mapping[str, str]
) -> dict[str, Any]:
    """What the form needs to know of a setting; what was typed stays, with what was seen then."""
    field = GlobalSettings.model_fields[name]
    value, default = as_text(getattr(current, name)), as_text(field.default)
    typed = form[name] if name in _edited(form) else value
    is_new = typed == value or "Meanwhile" in problems.get(name, "")
    kind = field.annotation
    choices = ("true", "false") if kind is bool else get_args(kind)
    return {
        "name": name, "label": NAMES[name].label, "unit": NAMES[name].unit, "typed": typed,
        "seen": value if is_new else form[SEEN + name], "default": default,
        "is_default": value == default, "choices": choices, "is_number": kind in (int, float),
        "problem": problems.get(name, ""),
    }  # fmt: skip


def _say(value: str) -> str:
    """A value as a person reads it."""
    return {"true": "on", "false": "off", "": "(environment)"}.get(value, value)
