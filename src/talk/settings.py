"""Users' own settings: time zone, screens, and the language that they speak."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Self, get_args
from zlib import crc32

import pytz

from src.base.owners import AnswerLength, Caller, Mode, Owner, Preferences
from src.base.zones import find_time_zones, local_time, locale_of, place_of_zone, zone_at
from src.history.turn_repo import Changes
from src.pg.client import PgClient
from src.pg.settings_repo import UserSettings, UserSettingsRepository
from src.reading import lexicon
from src.reading.sentences import is_question
from src.reminders.reminder_service import ReminderService
from src.texts import (
    CLEAR_WORDS,
    CYRILLIC,
    FALLBACK,
    LANGUAGES,
    Language,
    clear_language,
    detect_language,
    say,
)
from src.texts.morphology import dictionary_language
from src.texts.reply import ASK_ZONE, Action, Button, Reply, Rows, in_rows

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


# The page of settings.

LENGTHS: tuple[AnswerLength, ...] = get_args(AnswerLength)
TICK = "✓ "
# A one-word message that is neither a place nor a question about one.
NOT_A_PLACE = lexicon.AnyCase(
    r"\W*(?:<reminder.greeting>|<answers.yes>|<answers.no>|<requests.please>|<reminder.ending>)\W*"
)
MAX_PLACE_WORDS = 3  # words of a message that may name a place
MAX_CITY = 100  # characters that are searched for a time zone
# Field of ``Preferences`` and values of each setting, by the action of its buttons, which hold the
# index of a value. A time zone is typed instead. Sentences: ``settings_mode``, ``mode_strict``, ….
CHOICES: Mapping[str, tuple[str, Sequence[Any]]] = {
    "mode": ("mode", get_args(Mode)),
    "language": ("language", LANGUAGES),
    "zone": ("time_zone", ()),
    "length": ("answer_length", LENGTHS),
    "remembering": ("memory_on", (True, False)),
    "asking": ("follow_ups", (True, False)),
}
SETTING_KINDS = tuple(CHOICES)


@dataclass(frozen=True)
class Choice:
    """Current state of one setting.

    Attributes:
        title: Its title.
        action: Action of the buttons that choose; their number is the index of a label.
        labels: Labels of its values, in the order of CHOICES; for the time zone only the current
            one.
        chosen: Index of the current value's label.
    """

    title: str
    action: str
    labels: tuple[str, ...]
    chosen: int

    @classmethod
    def of(cls, kind: str, caller: Caller) -> Self:
        """Return the state of a setting for a caller."""
        title = say(f"settings_{kind}", caller.language)
        if kind == "zone":
            return cls(title, kind, (zone_label(caller.time_zone, caller),), 0)
        column, values = CHOICES[kind]
        labels = []
        for value in values:
            if kind == "language":  # by its own name
                labels.append(str(locale_of(value).languages.get(value, value)).capitalize())
            else:
                name = {True: "on", False: "off"}.get(value, value)
                labels.append(say(f"{kind}_{name}", caller.language))
        chosen = values.index(getattr(caller.preferences, column))
        return cls(title, kind, tuple(labels), chosen)

    @property
    def line(self) -> str:
        """Title and current value."""
        return f"{self.title}: {self.labels[self.chosen]}"


@dataclass(eq=False, repr=False)
class SettingsScreens:
    """The page of settings and its buttons; in a group the settings are the group's."""

    _settings: UserSettingsRepository
    _zones: ZoneService
    _client: PgClient

    async def get(self, owner: Owner) -> UserSettings:
        """Return the owner's settings."""
        return await self._client.run(self._settings.get, owner.telegram_user_id)

    async def change(self, owner: Owner, **chosen: Any) -> None:
        """Change the named columns of ``UserSettings``."""
        await self._client.run(self._settings.change, owner.telegram_user_id, **chosen)

    async def page(self, caller: Caller) -> Reply:
        """Show all settings (``/settings``), or set the time zone of a city or an offset."""
        if caller.argument:
            return await self.find_zone(caller, caller.argument)
        choices = list_choices(caller)
        buttons = [Button(one.title, Action("choose", (n,))) for n, one in enumerate(choices)]
        lines = [say("settings_title", caller.language), "", *(one.line for one in choices)]
        hint = say("settings_hint", caller.language)
        return Reply("\n".join(lines), in_rows(buttons, 1), hint, is_screen=True)

    async def mode(self, caller: Caller) -> Reply:
        """Set the mode (``/mode strict``, ``/mode assistant``), or reply with the current one."""
        mode, owner = lexicon.values("settings.mode").get(caller.argument.lower()), caller.owner
        if mode is None:
            current = await self.get(owner)
            it_is = say(f"mode_is_{current.mode}", caller.language)
            unknown = say("mode_unknown", caller.language)
            return Reply(f"{unknown}\n{it_is}" if caller.argument else it_is)
        await self.change(owner, mode=mode)
        return Reply(say(f"mode_set_{mode}", caller.language))

    async def choose(self, caller: Caller, index: int) -> Reply:
        """Show the values of a setting, given by its index in SETTING_KINDS."""
        if index >= len(SETTING_KINDS):
            return await self.page(caller)
        kind = SETTING_KINDS[index]
        if kind == "zone":
            text = f"{CLOCK} {say('zone_ask', caller.language)}"
            return Reply(text, asks=ASK_ZONE)
        choice = Choice.of(kind, caller)
        labels = [f"{TICK if n == choice.chosen else ''}{t}" for n, t in enumerate(choice.labels)]
        buttons = [Button(label, Action(choice.action, (n,))) for n, label in enumerate(labels)]
        back = Button(say("settings_back", caller.language), Action("settings"))
        return Reply(choice.title, (*in_rows(buttons, 1), (back,)), is_screen=True)

    async def choose_value(self, caller: Caller, kind: str, number: int) -> Reply:
        """Store a value by its index in CHOICES; show the page, in the language just chosen."""
        column, values = CHOICES[kind]
        if number < len(values):
            chosen = {column: values[number]}
            await self.change(caller.owner, **chosen)
            caller = caller.with_preferences(**chosen)
        return await self.page(caller)

    async def set_zone(self, caller: Caller, name_hash: int, place: int = 0) -> Reply:
        """Set the zone whose name has this hash; under an answer (``place``) the answer stays."""
        zone = next((z for z in pytz.all_timezones if crc32(z.encode()) == name_hash), None)
        if zone is None:
            return Reply.closing_note(say("tap_unknown", caller.language))
        if place == IN_ANSWER and caller.preferences.has_zone and caller.time_zone == zone:
            label = zone_label(zone, caller)
            return Reply.closing_note(say("zone_set", caller.language, zone=label))
        reply = await self._set_zone_or_ask(caller, zone)
        if place == IN_ANSWER:
            return reply
        return reply.as_screen()

    async def offer_cities(self, caller: Caller, place: int) -> Reply:
        """Offer likely cities, and ask for another one."""
        text = f"{CLOCK} {say('zone_pick', caller.language)}"
        if place == NOT_MINE:
            change, user = self._settings.change, caller.owner.telegram_user_id
            await self._client.run(change, user, time_zone=None)  # reminders move with theirs
        elif place != IN_ANSWER:
            return Reply(text, asks=ASK_ZONE)
        return Reply(text, (city_row(caller.language),), asks=ASK_ZONE)

    async def find_zone(self, caller: Caller, text: str) -> Reply:
        """Set the zone of a city, an offset or a zone name; if ambiguous, ask which."""
        found = await asyncio.to_thread(find_time_zones, text[:MAX_CITY])
        if len(found) > 1:
            buttons = [Button(zone_label(zone, caller), zone_action(zone)) for zone in found]
            return Reply(say("zone_which", caller.language), in_rows(buttons, 1))
        return await self._set_zone_or_ask(caller, next(iter(found), None))

    async def find_zone_at(self, caller: Caller, latitude: float, longitude: float) -> Reply:
        """Set the zone of a location."""
        zone = await asyncio.to_thread(zone_at, latitude, longitude)
        return await self._set_zone_or_ask(caller, zone)

    async def _set_zone_or_ask(self, caller: Caller, zone: str | None) -> Reply:
        if zone is None:
            text = f"{CLOCK} {say('zone_unknown', caller.language)}"
            return Reply(text, asks=ASK_ZONE)
        back = Button(say("settings_back", caller.language), Action("settings"))
        return Reply(await self._zones.set(caller, zone), ((back,),))


def list_choices(caller: Caller) -> list[Choice]:
    """List all settings with the caller's values; in a group nobody is asked how it went."""
    kinds = [kind for kind in SETTING_KINDS if kind != "asking" or not caller.owner.is_group]
    return [Choice.of(kind, caller) for kind in kinds]


def may_name_place(text: str) -> bool:
    """Return True if a message after that question may name a place, known or not."""
    words = text.split()
    if not words or len(words) > MAX_PLACE_WORDS or is_question(text):
        return False
    is_word = len(words) == 1 and NOT_A_PLACE.fullmatch(text) is None
    return is_word or bool(find_time_zones(text))


async def follow_language(
    client: PgClient, owner: Owner, preferences: Preferences, text: str
) -> Preferences:
    """Return the preferences with the language of a text, and store it if it is clear.

    A short or mixed text changes nothing, nor does any once the owner has chosen a language. The
    time zone stays.

    Raises:
        StorageError: The database is away.
    """
    if preferences.language_from == "chosen":
        return preferences
    language, is_cyrillic = clear_language(text), CYRILLIC.search(text.lower()) is not None
    if language is None and is_cyrillic:
        language = dictionary_language(text)
    is_guess = preferences.language_from == "guessed"
    if language is None and is_guess and is_cyrillic and preferences.language == FALLBACK:
        language = dictionary_language(text, least=1) or detect_language(text)
        if len(text.split()) < CLEAR_WORDS:
            return replace(preferences, language=language)
    if language is None:
        return preferences
    if is_guess or language != preferences.language:
        change = UserSettingsRepository(client).change
        await client.run(change, owner.telegram_user_id, spoken_language=language)
    return replace(preferences, language=language, language_from="spoken")
