"""Settings: an operator's, which change while the bot runs, and the screens of the user's own."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args
from zlib import crc32

import pytz
from babel import Locale

from src.base.config import Settings
from src.base.errors import SettingsError
from src.base.owners import Called, Owner
from src.base.providers import PROVIDERS, Provider, find_batch_provider, find_provider
from src.base.zone_names import find_time_zones
from src.base.zones import zone_at
from src.pg.client import PgClient
from src.pg.global_settings_repo import GlobalSettings, GlobalSettingsRepository, check_settings
from src.pg.user_settings_repo import AnswerLength, Mode, UserSettings, UserSettingsRepository
from src.reading import lexicon
from src.reading.sentences import is_question
from src.talk.zones import (
    CLOCK,
    IN_ANSWER,
    NOT_MINE,
    ZoneService,
    city_row,
    which_rows,
    zone_label,
)
from src.texts import LANGUAGES, Language, choose_language, say
from src.texts.reply import Action, Button, Reply, in_rows


@dataclass(eq=False, repr=False)
class SettingsService:
    """Checks a change against the environment (keys, providers), and makes it."""

    _client: PgClient
    _repo: GlobalSettingsRepository
    _environment: Settings  # which does not change while the bot runs

    async def get(self) -> GlobalSettings:
        """The settings as they are in the database now.

        Raises:
            StorageError: The database is away.
        """
        return await self._client.run(self._repo.refresh)

    async def change(
        self, actor: str, values: Mapping[str, Any], seen: Mapping[str, str] | None = None
    ) -> GlobalSettings:
        """Check a change, and make it: see ``GlobalSettingsRepository.change``."""
        current = await self.get()
        wanted = check_settings({**current.model_dump(), **values})
        if problems := self._find_problems(wanted, values.keys()):
            raise SettingsError(problems)
        return await self._client.run(self._repo.change, actor, values, seen)

    def _find_problems(self, wanted: GlobalSettings, changed: Any) -> dict[str, str]:
        """What the bot could not work with, among the settings that are changed."""
        problems = {
            "memory_extraction_provider": self._key_problem(
                find_batch_provider(wanted.memory_extraction_provider)
            ),
            "memory_extraction_model": _model_problem(wanted)
            or self._key_problem(find_provider(wanted.memory_extraction_model)),
            "embedding_provider": self._key_problem(find_provider(wanted.embedding_name)),
        }
        return {name: text for name, text in problems.items() if text and name in changed}

    def _key_problem(self, provider: Provider | None) -> str:
        """What is missing to call a provider; empty when nothing is, or none is called."""
        if provider is None or provider.is_configured(self._environment):
            return ""
        return f"{provider.key_variable} is not set: put it into .env and restart the bot"


def _model_problem(wanted: GlobalSettings) -> str:
    """Whether ``memory_extraction_model`` names a model of the right provider."""
    model, provider = wanted.memory_extraction_model, wanted.memory_extraction_provider
    if not model:
        return ""
    named = find_provider(model) if ":" in model else None
    if provider == "immediate":
        names = ", ".join(PROVIDERS)
        return "" if named else f"write provider:model, with one of the providers {names}"
    if named is not None and named != find_batch_provider(provider):
        return f"it is not a model of {provider}"
    return ""


LENGTHS: tuple[AnswerLength, ...] = get_args(AnswerLength)
TICK = "✓ "
# A single word that names no place, and asks for none.
NO_PLACE = lexicon.AnyCase(
    r"\W*(?:<reminder.greeting>|<answers.yes>|<answers.no>|<requests.please>|<reminder.ending>)\W*"
)
MAX_PLACE_WORDS = 3  # of a message that may name a place
MAX_CITY = 100  # characters of what may be a time zone
# What ``UserSettings`` calls each, and the values to choose from, by the number in the button; a
# zone is named in words.
CHOICES: Mapping[str, tuple[str, Sequence[Any]]] = {
    "mode": ("mode", get_args(Mode)),
    "language": ("language", LANGUAGES),
    "zone": ("time_zone", ()),
    "length": ("answer_length", LENGTHS),
    "memory": ("memory_on", (True, False)),
}
WHAT = tuple(CHOICES)


@dataclass(frozen=True)
class Choice:
    """One of WHAT as it stands.

    Attributes:
        title: What it is called.
        action: Of the buttons that choose; the number of a label is theirs.
        labels: What there is to choose from, as CHOICES has it; of the zone only the present one.
        chosen: The number of the label that holds.
    """

    title: str
    action: str
    labels: tuple[str, ...]
    chosen: int

    @property
    def line(self) -> str:
        """What it is called, and what holds."""
        return f"{self.title}: {self.labels[self.chosen]}"


@dataclass(eq=False, repr=False)
class SettingsScreens:
    """The page of settings, and what its buttons do; in a group they are the group's."""

    _settings: UserSettingsRepository
    _zones: ZoneService
    _client: PgClient

    async def get(self, owner: Owner) -> UserSettings:
        """What the owner chose."""
        return await self._client.run(self._settings.get, owner.telegram_user_id)

    async def change(self, owner: Owner, **chosen: Any) -> None:
        """Change what is named, as ``UserSettings`` calls it; the rest stays."""
        await self._client.run(self._settings.change, owner.telegram_user_id, **chosen)

    async def page(self, called: Called) -> Reply:
        """``/settings`` shows all of them; with a city or an offset it sets the zone."""
        if called.argument:
            return await self.find_zone(called, called.argument)
        return self._page(await self.get(called.owner), called)

    async def choose(self, called: Called, what: int) -> Reply:
        """What there is to choose from for one of WHAT."""
        language, kind = called.language, WHAT[what] if what < len(WHAT) else ""
        if kind == "zone":
            return Reply(f"{CLOCK} {say('zone_ask', language)}", asks=True)
        known = await self.get(called.owner)
        if not kind:
            return self._page(known, called)
        choice = _choice(kind, known, called)
        labels = [f"{TICK if n == choice.chosen else ''}{t}" for n, t in enumerate(choice.labels)]
        buttons = [Button(label, Action(choice.action, (n,))) for n, label in enumerate(labels)]
        back = Button(say("settings_back", language), Action("settings"))
        return Reply(choice.title, (*in_rows(buttons, 1), (back,)), is_screen=True)

    async def list_choices(self, called: Called) -> list[Choice]:
        """All of WHAT, in the language that the owner chose."""
        return _choices(await self.get(called.owner), called)

    async def choose_value(self, called: Called, kind: str, number: int) -> Reply:
        """Choose a value of CHOICES; the page comes in the language that holds then."""
        column, values = CHOICES[kind]
        if number < len(values):
            await self.change(called.owner, **{column: values[number]})
        return self._page(await self.get(called.owner), called)

    async def set_zone(self, called: Called, name_hash: int, place: int = 0) -> Reply:
        """Choose the zone whose name has this hash; under an answer (``place``) that stays."""
        zone = next((z for z in pytz.all_timezones if crc32(z.encode()) == name_hash), None)
        if zone is None:
            return Reply.gone(say("tap_unknown", called.language))
        if place == IN_ANSWER and called.has_zone and called.time_zone == zone:
            label = zone_label(zone, called)
            return Reply.gone(say("zone_set", called.language, zone=label))
        reply = await self._set_found(called, zone)
        return reply if place == IN_ANSWER else reply.in_place()

    async def offer_cities(self, called: Called, place: int) -> Reply:
        """Likely cities, and how to name another."""
        text = f"{CLOCK} {say('zone_pick', called.language)}"
        if place == NOT_MINE:
            await self._zones.doubt(called.owner)
        elif place != IN_ANSWER:
            return Reply(text, asks=True)
        return Reply(text, (city_row(called.language),))

    async def find_zone(self, called: Called, text: str) -> Reply:
        """Set the zone that a city, an offset or a name means; of several, ask which."""
        zones = await asyncio.to_thread(find_time_zones, text[:MAX_CITY])
        if len(zones) > 1:
            return Reply(say("zone_which", called.language), which_rows(zones, called))
        return await self._set_found(called, next(iter(zones), None))

    async def find_zone_at(self, called: Called, latitude: float, longitude: float) -> Reply:
        """Set the zone of a place; that of the open sea is only offered."""
        zone = await asyncio.to_thread(zone_at, latitude, longitude)
        if zone is not None and zone.startswith("Etc/"):
            text = f"{CLOCK} {say('zone_sea', called.language)}"
            return Reply(text, which_rows([zone], called))
        return await self._set_found(called, zone)

    async def _set_found(self, called: Called, zone: str | None) -> Reply:
        """Set the zone that was found, with a way back to the page; of none, ask again."""
        if zone is None:
            return Reply(f"{CLOCK} {say('zone_unknown', called.language)}", asks=True)
        back = Button(say("settings_back", called.language), Action("settings"))
        return Reply(await self._zones.set(called, zone), ((back,),))

    def _page(self, known: UserSettings, called: Called) -> Reply:
        choices = _choices(known, called)
        buttons = [
            Button(choice.title, Action("choose", (n,))) for n, choice in enumerate(choices)
        ]
        title = say("settings_title", choose_language(known.language, called.language))
        text = "\n".join([title, "", *(choice.line for choice in choices)])
        return Reply(text, in_rows(buttons, 1), is_screen=True)


def _choices(known: UserSettings, called: Called) -> list[Choice]:
    called = replace(called, language=choose_language(known.language, called.language))
    return [_choice(kind, known, called) for kind in WHAT]


def _choice(kind: str, known: UserSettings, called: Called) -> Choice:
    language = called.language
    title = say(f"settings_{kind}", language)
    if kind == "zone":
        zone = zone_label(known.time_zone or called.time_zone, called)
        return Choice(title, kind, (zone,), 0)
    column, values = CHOICES[kind]
    chosen = getattr(known, column)
    if kind == "language":
        chosen = choose_language(chosen, language)
    labels = tuple(_label(kind, value, language) for value in values)
    return Choice(title, "remembering" if kind == "memory" else kind, labels, values.index(chosen))


def asks_for_zone(prompt: str) -> bool:
    """Whether a text of ours asks for a time zone, so that the answer to it names one."""
    return prompt.startswith(CLOCK)


def names_place(text: str) -> bool:
    """Whether a message after our question may be the name of a place, known or not."""
    words = text.split()
    if not words or len(words) > MAX_PLACE_WORDS or is_question(text):
        return False
    is_word = len(words) == 1 and NO_PLACE.fullmatch(text) is None
    return is_word or bool(find_time_zones(text))


def _label(kind: str, value: Any, language: Language) -> str:
    if kind == "language":
        return str(Locale(value).display_name).capitalize()  # in the language itself
    if kind == "memory":
        return say("memory_on" if value else "memory_off", language)
    return say(f"mode_name_{value}" if kind == "mode" else f"length_{value}", language)
