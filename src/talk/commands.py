"""Commands as data; pages that tell of the bot: /start, /help, /tools, /usage, /privacy."""

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, Self

from src.base.config import OFFLINE_MODEL, Settings
from src.base.owners import Caller
from src.memory import budget, memories
from src.outside.servers import McpServers
from src.queue.update_repo import UpdateKind
from src.talk.zones import city_row
from src.texts import Language, format_number, say
from src.texts.reply import Reply

Place = Literal["private", "group", "console"]
EVERYWHERE: tuple[Place, ...] = ("private", "group", "console")
PATTERN = re.compile(r"/((?a:\w){1,32})(?:@((?a:\w){3,64}))?[:,;.!?…]*(?:\s+(.*))?$", re.DOTALL)


@dataclass(frozen=True)
class Command:
    """Parsed ``/name@addressee argument``; the name is in lower case."""

    name: str
    addressee: str | None = None
    argument: str = ""

    def is_for(self, username: str) -> bool:
        """Return True if it is addressed to the bot of this user name, or to none."""
        return self.addressee is None or self.addressee.lower() == username.lower()


def parse_command(text: str) -> Command | None:
    """Return the command at the beginning of a text, or None."""
    match = PATTERN.match(text)
    if match is None:
        return None
    return Command(match[1].lower(), match[2], (match[3] or "").strip())


@dataclass(frozen=True)
class Features:
    """Parts of the bot that the operator may leave out.

    Attributes:
        has_model: True if there is a language model.
        has_app: True if Telegram can open the memory as a page.
        hears: True if speech is transcribed.
        sees: True if a model looks at pictures.
        has_page: True if that page also opens outside Telegram.
        lends: True if other assistants may read the memory.
    """

    has_model: bool
    has_app: bool
    hears: bool
    sees: bool
    has_page: bool = False
    lends: bool = False

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the features that the settings switch on."""
        return cls(
            has_model=settings.chat_model_name != OFFLINE_MODEL,
            has_app=settings.app_url is not None,
            hears=settings.transcription_model is not None,
            sees=(settings.vision_model or settings.chat_model_name) != OFFLINE_MODEL,
            has_page=settings.page_url is not None,
            lends=settings.memory_server,
        )


@dataclass(frozen=True)
class CommandEntry:
    """Entry of the command table: all that the rest of the program knows of a command.

    Its texts are ``command_<name>`` (Telegram's menu), ``help_<name>`` (/help) and its replies.
    Menu and help offer it only where it works.

    Attributes:
        name: Its name without the slash.
        run: Runs it for the service of the commands, and returns the reply.
        kind: Kind of its updates. ``new`` and ``stop`` end the answer being written; the text
            after ``teach`` is a message, remembered as written.
        is_at_once: True if it changes nothing, so that its reply may come during an answer.
        is_in_help: True if /help lists it.
        is_for_admins: True if in a group only its admins may use it.
        places: Where it is offered.
        needs: Returns True if the bot has what it needs.
    """

    name: str
    run: Callable[[Any, Caller], Awaitable[Reply]]
    kind: UpdateKind = "command"
    is_at_once: bool = False
    is_in_help: bool = True
    is_for_admins: bool = False
    places: tuple[Place, ...] = EVERYWHERE
    needs: Callable[[Features], bool] = lambda _: True


def offered(
    entries: Iterable[CommandEntry], features: Features, place: Place, *, is_admin: bool = True
) -> list[CommandEntry]:
    """Return the commands that work for a user in a place, in the order of the menu."""
    return [
        entry
        for entry in entries
        if place in entry.places
        and entry.needs(features)
        and (is_admin or place != "group" or not entry.is_for_admins)
    ]


MAX_LINES = 12  # tools listed of one server


def help_page(
    entries: Iterable[CommandEntry], features: Features, place: Place, language: Language
) -> str:
    """Return the page of /help: what the bot can do, and the commands that work here."""
    commands = [say("help_commands", language)]
    listed = [entry for entry in offered(entries, features, place) if entry.is_in_help]
    for entry in sorted(listed, key=lambda entry: entry.name == "help"):
        line = f"/{entry.name} — {say(f'help_{entry.name}', language)}"
        if entry.is_for_admins and place == "group":
            line = f"{line} {say('help_admins', language)}"
        commands.append(line)
    abilities = [say("help_talk" if features.has_model else "help_notes", language)]
    if place != "console":
        abilities.append(say("help_reads", language, kinds=_read_kinds(features, language)))
    abilities.append(say("help_abilities", language))
    parts = [say("help", language), "\n".join(abilities)]
    if place != "console":
        parts.append(say("help_edit", language))
    parts.append("\n".join(commands))
    if place == "group":
        parts.append(say("help_group", language))
    return "\n\n".join(parts)


def _read_kinds(features: Features, language: Language) -> str:
    """Return what may be sent beside text."""
    kinds = [say("reads_files", language)]
    if features.sees:
        kinds.insert(0, say("reads_photos", language))
    if features.hears:
        kinds.insert(0, say("reads_voices", language))
    return ", ".join(kinds)


@dataclass(eq=False, repr=False)
class Pages:
    """Replies of the commands that tell of the bot."""

    _memories: memories.Memories
    _ceilings: budget.DailyCeilings
    _servers: McpServers
    _features: Features

    def start(self, caller: Caller) -> Reply:
        """Return the reply of /start, which also says whether a language model is connected."""
        start = say("start", caller.language)
        model = say("start_model" if self._features.has_model else "offline_note", caller.language)
        if caller.preferences.has_zone or caller.owner.is_group:
            return Reply(f"{start}\n\n{model}")
        question = say("zone_start", caller.language)
        return Reply(f"{start}\n\n{model}\n\n{question}", (city_row(caller.language),))

    def tools(self, caller: Caller, place: Place) -> Reply:
        """Return the page of /tools: our own tools that are there, then those of each server.

        Descriptions of servers are left out: they are words of others, meant for a model. So are
        odd names, which are only counted.
        """
        language = caller.language
        lines = [say("tools_own", language)]
        if caller.preferences.memory_on:
            lines.append(say("tools_memory", language))
        lines.append(say("tools_time", language))
        if place != "console":
            kinds = _read_kinds(self._features, language)
            lines.append(say("tools_reads", language, kinds=kinds))
        states = self._servers.states()
        if states:
            lines.append(f"\n{say('tools_servers', language)}")
        for state in states:
            if not state.is_ready:
                key = "tools_away" if state.cause else "tools_connecting"
                lines.append(f"\n• {state.name}: {say(key, language)}")
                continue
            count = say("tools_ready", language, count=len(state.tools))
            names = list(filter(None, state.tools))[:MAX_LINES]
            lines += [f"\n• {state.name}: {count}", *(f"   {name}" for name in names)]
            rest = len(state.tools) - len(names)
            if rest:
                lines.append(f"   {say('tools_more', language, count=rest)}")
        return Reply("\n".join(lines))

    async def usage(self, caller: Caller) -> Reply:
        """Reply with today's messages and tokens, the month's tokens, and the limits.

        In a group these are the group's tokens and the member's own messages.
        """
        settings, language = await self._memories.settings(), caller.language
        owner = caller.owner.telegram_user_id
        spent = await self._ceilings.sum_spent(caller.member or owner, owner)
        lines = [say("usage_title", language)]
        limit = settings.daily_messages_per_user
        if limit:
            lines.append(say("usage_messages", language, count=spent.messages, limit=limit))
        lines.append(say("usage_tokens", language, count=format_number(spent.tokens, language)))
        in_month = format_number(spent.tokens_in_month, language)
        lines.append(say("usage_month", language, count=in_month))
        tokens = settings.daily_tokens_per_user
        if tokens:
            lines.append(say("usage_token_limit", language, limit=format_number(tokens, language)))
        rate = settings.messages_per_minute_per_user
        if rate:
            lines.append(say("usage_minute", language, limit=rate))
        if not (limit or tokens or rate):
            lines.append(say("usage_unlimited", language))
        return Reply("\n".join(lines), is_personal=True)

    async def say_privacy(self, caller: Caller) -> Reply:
        """Reply with what is stored, who sees it, and how it is erased."""
        settings = await self._memories.settings()
        days = settings.message_retention_days
        kept = ""
        if days:
            kept = say("privacy_days", caller.language, days=days)
        model = say(
            "privacy_model" if self._features.has_model else "privacy_offline", caller.language
        )
        return Reply(say("privacy", caller.language, model=model, kept=kept).strip())
