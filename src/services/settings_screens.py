"""What a user chooses: mode, language, time zone, length of answers, memory on or off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, get_args
from zlib import crc32

import pytz

from src.language.zone_names import find_time_zones
from src.reminders.reminder_service import ReminderService
from src.services.called import Called
from src.services.reply import Action, Button, Reply, Rows
from src.storage.pg_client import PgClient
from src.storage.user_settings_repo import (
    AnswerLength,
    Mode,
    UserSettings,
    UserSettingsRepository,
)
from src.texts import LANGUAGES, choose_language, say
from src.time_zones import local_time, name_of_zone, zone_at

MODES: tuple[Mode, ...] = get_args(Mode)
LENGTHS: tuple[AnswerLength, ...] = get_args(AnswerLength)
LANGUAGE_NAMES = {"ru": "Русский", "uk": "Українська", "en": "English"}
TICK, CLOCK = "✓ ", "🕒"
MAX_CITY = 100  # characters of what may be a time zone
WHAT = ("mode", "language", "zone", "length", "memory")


class SettingsScreens:
    """The page of settings, and what its buttons do; in a group they are the group's."""

    def __init__(
        self,
        settings: UserSettingsRepository,
        reminders: ReminderService,
        client: PgClient,
        *,
        time_zone: str,
    ) -> None:
        """Keep them in ``settings``; who chose no zone lives in ``time_zone``.

        ``reminders`` move with a new zone.
        """
        self._settings = settings
        self._client = client
        self._reminders = reminders
        self._time_zone = time_zone

    async def page(self, called: Called) -> Reply:
        """``/settings`` shows all of them; with a city or an offset it sets the zone."""
        if called.argument:
            return await self.find_zone(called, called.argument)
        known = await self._get(called)
        return self._page(known, called)

    async def choose(self, called: Called, what: int) -> Reply:
        """What there is to choose from for one of WHAT."""
        known = await self._get(called)
        language, kind = called.language, WHAT[what] if what < len(WHAT) else ""
        if kind == "mode":
            labels = [say(f"mode_name_{mode}", language) for mode in MODES]
            rows = _options("mode", labels, MODES.index(known.mode))
        elif kind == "language":
            chosen = LANGUAGES.index(choose_language(known.language, language))
            rows = _options("language", [LANGUAGE_NAMES[one] for one in LANGUAGES], chosen)
        elif kind == "length":
            labels = [say(f"length_{length}", language) for length in LENGTHS]
            rows = _options("length", labels, LENGTHS.index(known.answer_length))
        elif kind == "memory":
            labels = [say("memory_on", language), say("memory_off", language)]
            rows = _options("remembering", labels, int(not known.memory_on))
        elif kind == "zone":
            return Reply(f"{CLOCK} {say('zone_ask', language)}", asks=True)
        else:
            return self._page(known, called)
        back = Button(say("settings_back", language), Action("settings"))
        return Reply(say(f"settings_{kind}", language), (*rows, (back,)), is_screen=True)

    async def set_mode(self, called: Called, number: int) -> Reply:
        """Choose one of MODES."""
        return await self._set(called, MODES, number, self._settings.set_mode)

    async def set_language(self, called: Called, number: int) -> Reply:
        """Choose one of LANGUAGES; the page comes in it."""
        return await self._set(called, LANGUAGES, number, self._settings.set_language)

    async def set_length(self, called: Called, number: int) -> Reply:
        """Choose one of LENGTHS."""
        return await self._set(called, LENGTHS, number, self._settings.set_answer_length)

    async def set_memory(self, called: Called, number: int) -> Reply:
        """Switch the memory on (0) or off (1)."""
        return await self._set(called, (True, False), number, self._settings.set_memory_on)

    async def set_zone(self, called: Called, name_hash: int) -> Reply:
        """Choose the zone whose name has this hash; see ``find_zone``."""
        zone = next((z for z in pytz.all_timezones if crc32(z.encode()) == name_hash), None)
        if zone is None:
            return Reply(say("zone_unknown", called.language))
        return (await self._keep_zone(called, zone)).in_place()

    async def find_zone(self, called: Called, text: str) -> Reply:
        """Set the zone that a city, an offset or a name means; of several, ask which."""
        zones = await asyncio.to_thread(find_time_zones, text[:MAX_CITY])
        if not zones:
            return Reply(f"{CLOCK} {say('zone_unknown', called.language)}", asks=True)
        if len(zones) == 1:
            return await self._keep_zone(called, zones[0])
        rows = tuple(
            (Button(_zone_label(zone, called), Action("zone", (crc32(zone.encode()),))),)
            for zone in zones
        )
        return Reply(say("zone_which", called.language), rows)

    async def find_zone_at(self, called: Called, latitude: float, longitude: float) -> Reply:
        """Set the zone of a place."""
        zone = await asyncio.to_thread(zone_at, latitude, longitude)
        if zone is None:
            return Reply(f"{CLOCK} {say('zone_unknown', called.language)}", asks=True)
        return await self._keep_zone(called, zone)

    async def _keep_zone(self, called: Called, zone: str) -> Reply:
        owner = called.owner.telegram_user_id
        await self._client.run(self._settings.set_time_zone, owner, zone)
        await self._reminders.change_zone(called.owner, zone)
        text = say("zone_set", called.language, zone=_zone_label(zone, called))
        return Reply(text, ((Button(say("settings_back", called.language), Action("settings")),),))

    async def _set(
        self,
        called: Called,
        values: Sequence[Any],
        number: int,
        keep: Callable[[int, Any], None],
    ) -> Reply:
        if number < len(values):
            owner = called.owner.telegram_user_id
            await self._client.run(keep, owner, values[number])
        known = await self._get(called)
        return self._page(known, called)

    async def _get(self, called: Called) -> UserSettings:
        return await self._client.run(self._settings.get, called.owner.telegram_user_id)

    def _page(self, known: UserSettings, called: Called) -> Reply:
        language = choose_language(known.language, called.language)
        zone = known.time_zone or self._time_zone
        now = local_time(called.moment, zone)
        values = (
            say(f"mode_name_{known.mode}", language),
            LANGUAGE_NAMES[language],
            say("zone_now", language, zone=name_of_zone(zone), time=f"{now:%H:%M}"),
            say(f"length_{known.answer_length}", language),
            say("memory_on" if known.memory_on else "memory_off", language),
        )
        titles = [say(f"settings_{kind}", language) for kind in WHAT]
        lines = [f"{title}: {value}" for title, value in zip(titles, values, strict=True)]
        rows = tuple((Button(t, Action("choose", (n,))),) for n, t in enumerate(titles))
        text = "\n".join([say("settings_title", language), "", *lines])
        return Reply(text, rows, is_screen=True)


def asks_for_zone(prompt: str) -> bool:
    """Whether a text of ours asks for a time zone, so that the answer to it names one."""
    return prompt.startswith(CLOCK)


def _options(action: str, labels: Sequence[str], chosen: int) -> Rows:
    return tuple(
        (Button(f"{TICK if n == chosen else ''}{label}", Action(action, (n,))),)
        for n, label in enumerate(labels)
    )


def _zone_label(zone: str, called: Called) -> str:
    now = local_time(called.moment, zone)
    return say("zone_now", called.language, zone=name_of_zone(zone), time=f"{now:%H:%M}")
