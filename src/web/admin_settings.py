"""The admin pages about settings: what may be changed while the bot runs, and who did what."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from src.base.errors import SettingsError
from src.pg.global_settings_repo import GlobalSettings
from src.web.admin_site import LAST, PAGE, AdminSite, Fields, address_of, number_of

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

    async def settings(
        self,
        request: Request,
        problems: Mapping[str, str] | None = None,
        values: Fields | None = None,
    ) -> Response:
        """What may be changed while the bot runs, and who changed it last."""
        current = await self._site.core.live_settings.get()
        about = {row["name"]: row for row in await self._site.rows(SELECT_DESCRIPTIONS)}
        fields = [
            about.get(name, {}) | _field(name, current, problems or {}, values or {})
            for name in GlobalSettings.model_fields
        ]
        return self._site.render(
            request, "settings.html", status=422 if problems else 200, fields=fields,
            problem=(problems or {}).get("", ""),
            changes=await self._site.rows(SELECT_CHANGES, limit=PAGE),
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

    async def change_settings(self, request: Request, form: Fields) -> str | Response:
        """Only what differs is changed; what is refused is shown as it was typed."""
        stored = (await self._site.core.live_settings.get()).model_dump()
        wanted = {name: form[name].strip() for name in stored if name in form}
        wanted |= {
            name: "true" if form.get(name) == "on" else "false"
            for name, value in stored.items()
            if isinstance(value, bool)
        }
        changed = {
            name: value for name, value in wanted.items() if value != _as_text(stored[name])
        }
        if changed:
            author = f"admin page, {address_of(request)}"
            try:
                await self._site.core.live_settings.change(author, changed)
            except SettingsError as error:
                return await self.settings(request, error.problems, form)
            await self._site.note(request, "change settings", ", ".join(changed))
        return "/settings"


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _field(
    name: str, current: GlobalSettings, problems: Mapping[str, str], values: Fields
) -> dict[str, Any]:
    """What the form needs to know of a setting."""
    field = GlobalSettings.model_fields[name]
    value = getattr(current, name)
    kind = field.annotation
    choices = getattr(kind, "__args__", ()) if kind not in (int, float, str, bool) else ()
    return {
        "name": name,
        "value": values.get(name, value),
        "default": field.default,
        "choices": choices,
        "is_switch": kind is bool,
        "is_number": kind in (int, float),
        "problem": problems.get(name, ""),
    }
