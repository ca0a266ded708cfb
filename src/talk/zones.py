"""Owners' time zones: stored, read from a message, offered with buttons, set by the model."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from zlib import crc32

from pydantic import Field

from src.base.owners import Caller, Owner
from src.base.zones import find_time_zones, local_time, name_of_zone, place_of_zone
from src.history.turn_repo import Changes
from src.llm.quoting import Form, Runtime
from src.memory.turn_context import NOTHING, Finding, TurnContext
from src.pg.client import PgClient
from src.pg.user_settings_repo import UserSettingsRepository
from src.reminders.reminder_service import ReminderService
from src.texts import FALLBACK, Language, say
from src.texts.reply import Action, Button, Rows

CLOCK = "🕒"
# Numbers in a button: it stands under an answer, which stays; it denies the named zone.
IN_ANSWER, NOT_MINE = 1, 2
# Zones of most speakers of a language, for buttons.
LIKELY: dict[Language, tuple[str, ...]] = {
    "ru": ("Europe/Moscow", "Asia/Yekaterinburg", "Asia/Almaty"),
    "uk": ("Europe/Kyiv", "Europe/Warsaw", "Europe/London"),
    "en": ("Europe/London", "America/New_York", "America/Los_Angeles"),
}


def zone_label(zone: str, caller: Caller) -> str:
    """Return the zone's place and time, as in ``Прага, там сейчас 11:05``."""
    place, now = place_of_zone(zone, caller.language), local_time(caller.moment, zone)
    return say("zone_now", caller.language, zone=place, time=f"{now:%H:%M}")


def zone_action(zone: str, *numbers: int) -> Action:
    """Return the action that sets a zone, by a hash that ``SettingsScreens.set_zone`` looks up."""
    return Action("zone", (crc32(zone.encode()), *numbers))


def zone_rows(changes: Changes, caller: Caller) -> Rows:
    """Return the buttons under an answer: the zones it offers, and a denial if it names one."""
    rows: Rows = tuple(
        (Button(f"{CLOCK} {zone_label(zone, caller)}", zone_action(zone, IN_ANSWER)),)
        for zone in changes.zones
    )
    if changes.names_zone:
        return (*rows, (not_mine_button(caller.language),))
    return rows


def not_mine_button(language: Language) -> Button:
    """Return the button under the first mention of the zone."""
    return Button(say("zone_not_mine", language), Action("zones", (NOT_MINE,)))


def zone_note(caller: Caller) -> str:
    """Return the note about the bot's time zone, shown once to users who named none."""
    place = place_of_zone(caller.time_zone, caller.language)
    return f"{CLOCK} {say('zone_named', caller.language, place=place, time=f'{caller.now:%H:%M}')}"


def city_row(language: Language) -> tuple[Button, ...]:
    """Return one row of buttons: the likely cities of a language, and "another"."""
    likely = LIKELY.get(language, LIKELY[FALLBACK])
    cities = [Button(place_of_zone(z, language), zone_action(z, IN_ANSWER)) for z in likely]
    return (*cities, Button(say("zone_other", language), Action("zones")))


@dataclass(eq=False, repr=False)
class ZoneService:
    """Owners' time zones; recurring reminders move with them."""

    _settings: UserSettingsRepository
    _reminders: ReminderService
    _client: PgClient

    async def keep(self, owner: Owner, zone: str, *, guessed: str | None = None) -> int:
        """Store the owner's zone; return the number of reminders that moved.

        ``guessed`` is the previous zone, if the owner had not named it.

        Raises:
            StorageError: The database is away; a retry does the rest.
        """
        change, now = self._reminders.rows.change_zone, datetime.now(UTC)
        moved = await self._client.run(change, owner, zone, guessed=guessed, now=now)
        store = self._settings.change
        await self._client.run(store, owner.telegram_user_id, time_zone=zone)
        return moved

    async def set(self, caller: Caller, zone: str) -> str:
        """Store the zone; return the confirmation, also of moved reminders."""
        guessed = None if caller.preferences.has_zone else caller.time_zone
        moved = await self.keep(caller.owner, zone, guessed=guessed)
        text = say("zone_set", caller.language, zone=zone_label(zone, caller))
        if moved:
            return f"{text} {say('zone_moved', caller.language, count=moved)}"
        return text


def which_rows(zones: Sequence[str], caller: Caller) -> Rows:
    """Return a button for each of several zones."""
    return tuple((Button(zone_label(zone, caller), zone_action(zone)),) for zone in zones)


class SetTimeZoneArguments(Form):
    """Arguments of ``set_time_zone``."""

    place: str = Field(max_length=200)


SET_ZONE = "Set the user's own time zone, when they say where, or by which clock, they live."


async def set_time_zone(
    zones: ZoneService, runtime: Runtime, arguments: SetTimeZoneArguments
) -> tuple[dict[str, Any], Finding]:
    """Store the zone of a place as the user's own, or return why it could not be set."""
    place = arguments.place
    context: TurnContext = runtime.context
    found = await asyncio.to_thread(find_time_zones, place)
    if context.owner.is_group:
        return {"set": False, "reason": "group"}, NOTHING
    if not found:
        return {"set": False, "reason": "unknown"}, NOTHING
    if len(found) > 1:
        return {"set": False, "reason": "several"}, Finding(changes=Changes(zones=tuple(found)))
    [zone] = found
    moved = await zones.keep(context.owner, zone)
    now = f"{local_time(context.moment, zone):%Y-%m-%d %H:%M}"
    result = {"set": True, "zone": name_of_zone(zone), "time": now, "moved": moved}
    return {**result, "note": "name this zone to set_reminder in this turn"}, NOTHING
