"""Commands and buttons: their tables, their service, and the pages that tell of the bot."""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from src.base.config import OFFLINE_MODEL, Settings
from src.base.owners import Caller
from src.history.turn_repo import StoredAnswer, TurnRepository
from src.imports.screens import ImportScreens
from src.memory import budget, memories
from src.memory.screens import MemoryScreens
from src.outside.connections import ConnectScreens, PageScreens
from src.outside.servers import McpServers
from src.pg.client import PgClient
from src.privacy.export import ExportService
from src.queue import job_repo
from src.queue.update_repo import UpdateKind
from src.reading import gate
from src.reminders.screens import ReminderScreens
from src.talk import notes
from src.talk.forget_screens import ForgetScreens
from src.talk.questions import QuestionService
from src.talk.search_screens import SearchScreens
from src.talk.settings import (
    CHOICES,
    SettingsScreens,
    city_row,
    follow_language,
    not_mine_button,
    zone_note,
)
from src.talk.turn import AgentService
from src.talk.turn_state import IncomingMessage, Teaching, Turn
from src.texts import Language, format_number, say
from src.texts.reply import Action, Reply, in_rows

Place = Literal["private", "group", "console"]
EVERYWHERE: tuple[Place, ...] = ("private", "group", "console")
ALONE: tuple[Place, ...] = ("private", "console")  # places of one user
# Signs around a command: invisible ones, arrows, emoji.
SIGNS = "\u200b-\u200f\u2060-\u2064\ufe0f\u2190-\u2bff\U0001f000-\U0001faff"
PATTERN = re.compile(
    rf"(?:[{SIGNS}][\s{SIGNS}]*)?/((?a:\w){{1,32}})(?:@((?a:\w){{3,64}}))?[:,;.!?…{SIGNS}]*(?:\s+(.*))?$",
    re.DOTALL,
)


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

    def read_kinds(self, language: Language) -> str:
        """Return in words what may be sent beside text."""
        kinds = [say("reads_files", language)]
        if self.sees:
            kinds.insert(0, say("reads_photos", language))
        if self.hears:
            kinds.insert(0, say("reads_voices", language))
        return ", ".join(kinds)


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
        needs: The feature without which it is not offered, or None.
    """

    name: str
    run: Callable[[Any, Caller], Awaitable[Reply]]
    kind: UpdateKind = "command"
    is_at_once: bool = False
    is_in_help: bool = True
    is_for_admins: bool = False
    places: tuple[Place, ...] = EVERYWHERE
    needs: Literal["has_app", "has_page", "has_model", "lends"] | None = None


def offered(
    entries: Iterable[CommandEntry], features: Features, place: Place, *, is_admin: bool = True
) -> list[CommandEntry]:
    """Return the commands that work for a user in a place, in the order of the menu."""
    return [
        entry
        for entry in entries
        if place in entry.places
        and (entry.needs is None or getattr(features, entry.needs))
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
        abilities.append(say("help_reads", language, kinds=features.read_kinds(language)))
    abilities.append(say("help_abilities", language))
    parts = [say("help", language), "\n".join(abilities)]
    if place != "console":
        parts.append(say("help_edit", language))
    parts.append("\n".join(commands))
    if place == "group":
        parts.append(say("help_group", language))
    return "\n\n".join(parts)


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
            kinds = self._features.read_kinds(language)
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


@dataclass(eq=False, repr=False)
class CommandService:
    """Users' commands and the actions of their buttons; most are methods of a screen.

    Attributes:
        screens: Pages and cards of facts.
        search: What was said, found again.
        forgetting: Forgetting, undo, and what deletes for good.
        questions: Questions about facts.
        pages: What tells of the bot.
        connecting: Connections of other assistants.
        outside: The page outside Telegram.
        features: Parts of the bot that may be missing: nothing is offered that is.
        is_console: True if the users are not in Telegram.
    """

    _agent: AgentService
    _memories: memories.Memories
    _client: PgClient
    screens: MemoryScreens
    search: SearchScreens
    forgetting: ForgetScreens
    questions: QuestionService
    pages: Pages
    settings: SettingsScreens
    reminders: ReminderScreens
    connecting: ConnectScreens
    outside: PageScreens
    exports: ExportService
    imports: ImportScreens
    features: Features
    is_console: bool = False

    def place(self, caller: Caller) -> Place:
        """Return where a caller writes."""
        if self.is_console:
            return "console"
        if caller.owner.is_group:
            return "group"
        return "private"

    async def run(self, command: str, caller: Caller) -> Reply:
        """Run a command, named without its slash, and return the reply."""
        entry = COMMANDS.get(command)
        if entry is None:
            return Reply(say("unknown_command", caller.language), is_personal=True)
        if entry.is_for_admins and not caller.is_admin:
            return Reply(say("only_admins", caller.language), is_personal=True)
        heard = await follow_language(
            self._client, caller.owner, caller.preferences, caller.argument
        )
        caller = replace(caller, preferences=heard, argument=gate.redact(caller.argument))
        return await entry.run(self, caller)

    async def press(self, action: Action | None, caller: Caller) -> Reply:
        """Run a button's action; reply with a note if it is unknown."""
        if action is None or action.name not in ACTIONS:
            return Reply.closing_note(say("tap_unknown", caller.language))
        if action.name in ADMIN_ACTIONS and not caller.is_admin:
            return Reply.note(say("only_admins", caller.language))
        return await ACTIONS[action.name](self, caller, action)

    async def start(self, caller: Caller) -> Reply:
        """Reply to /start; a deep link (``t.me/<bot>?start=settings``) opens one of DEEP_LINKS."""
        if caller.argument in DEEP_LINKS:
            return await self.run(caller.argument, replace(caller, argument=""))
        return self.pages.start(caller)

    async def remind(self, caller: Caller) -> Reply:
        """Set a reminder; the first reply names the time zone by which it was read."""
        return await self._name_zone(caller, await self.reminders.remind(caller))

    async def brief(self, caller: Caller) -> Reply:
        """Switch the brief of the day on or off; the first reply names the time zone."""
        return await self._name_zone(caller, await self.reminders.briefs.brief(caller))

    async def _name_zone(self, caller: Caller, reply: Reply) -> Reply:
        if caller.preferences.has_zone or caller.owner.is_group or not reply.rows:
            return reply
        await self.settings.change(caller.owner, time_zone=caller.time_zone)  # the reply names it
        rows = (*reply.rows, (not_mine_button(caller.language),))
        return replace(reply, text=f"{reply.text}\n\n{zone_note(caller)}", rows=rows)

    async def say_help(self, caller: Caller) -> Reply:
        """Reply with the page of /help."""
        place = self.place(caller)
        return Reply(help_page(COMMANDS.values(), self.features, place, caller.language))

    async def tools(self, caller: Caller) -> Reply:
        """Reply with the page of /tools."""
        return self.pages.tools(caller, self.place(caller))

    async def say_how_to_remember(self, caller: Caller) -> Reply:
        """Reply to ``/remember`` alone; with a text it is a message (``CommandEntry.kind``)."""
        return Reply(say("remember_usage", caller.language))

    async def correct(self, caller: Caller, memory_id: int, text: str) -> StoredAnswer | None:
        """Store a correction of a fact as a message, its source, and answer it.

        Args:
            caller: The caller in a private chat, whose fact it is.
            memory_id: The fact.
            text: The corrected text.

        Returns:
            The answer, with its changes; None if the fact does not exist or is retired, and
            nothing was stored.

        Raises:
            AppError: It failed; the message may be stored.
        """
        find = self._memories.facts.find_fact
        fact = await self._client.run(find, caller.owner, memory_id)
        if fact is None or fact.retirement is not None:
            return None
        return await self._teach(caller, text, Teaching(corrects=memory_id))

    async def _teach(self, caller: Caller, text: str, teaching: Teaching) -> StoredAnswer | None:
        turn = Turn(IncomingMessage(caller, text, teaching=teaching))
        await self._agent.run_turn(turn)
        jobs = job_repo.JobRepository(self._client)
        await self._client.run(jobs.defer_indexing)  # there is no update that would defer it
        return turn.answer

    async def keep_wish(self, caller: Caller, index: int) -> Reply:
        """Keep a wish about answers, chosen by a button; the choice is stored as a message."""
        if index >= len(notes.WISHES):
            return Reply.closing_note(say("wish_dropped", caller.language))
        text = notes.wish_text(notes.WISHES[index], caller.language)
        facts = await self._memories.get_user_facts(caller.owner)
        if text in [fact.text for fact in facts]:
            return Reply.closing_note(say("tap_done_already", caller.language))
        answer = await self._teach(caller, text, Teaching(is_wish=True))
        assert answer is not None, "a taught message is always answered"
        buttons = notes.undo_buttons(answer.changes, caller.language)
        return Reply(answer.text, in_rows(buttons, 1))

    async def stop(self, caller: Caller) -> Reply:
        """Reply whether an answer was stopped; the stopping is done when the command arrives.

        The reply is empty if the answer itself shows that it was stopped.
        """
        stop = await self._client.run(TurnRepository(self._client).find_stop, caller.owner)
        if stop == "shown":  # the answer ends with a word about it
            return Reply("")
        return Reply(say("stop_nothing" if stop is None else "stop_done", caller.language))

    async def export(self, caller: Caller) -> Reply:
        """Reply with everything in two files, one to read and one for programs."""
        files = await self._client.run(self.exports.write_files, caller)
        return Reply(say("export_done", caller.language), files=files)


# In the order of Telegram's menu.
COMMANDS: Mapping[str, CommandEntry] = {
    entry.name: entry
    for entry in (
        CommandEntry("start", CommandService.start, is_at_once=True, is_in_help=False),
        CommandEntry("help", CommandService.say_help, is_at_once=True),
        CommandEntry("memory", lambda s, caller: s.search.memory(caller)),
        CommandEntry("about", lambda s, caller: s.search.about(caller), places=ALONE),
        CommandEntry(
            "app",
            lambda s, caller: s.screens.open_app(caller),
            is_at_once=True,
            places=("private",),
            needs="has_app",
        ),
        CommandEntry(
            "page", lambda s, caller: s.outside.page(caller), places=ALONE, needs="has_page"
        ),
        CommandEntry("remember", CommandService.say_how_to_remember, kind="teach"),
        CommandEntry("forget", lambda s, caller: s.forgetting.forget(caller)),
        CommandEntry("search", lambda s, caller: s.search.search(caller)),
        CommandEntry("summary", lambda s, caller: s.search.summary(caller)),
        CommandEntry("remind", CommandService.remind),
        CommandEntry("reminders", lambda s, caller: s.reminders.page(caller)),
        CommandEntry("today", lambda s, caller: s.reminders.briefs.today(caller), places=ALONE),
        CommandEntry("brief", CommandService.brief, places=ALONE),
        CommandEntry("settings", lambda s, caller: s.settings.page(caller), is_for_admins=True),
        CommandEntry("mode", lambda s, caller: s.settings.mode(caller)),
        CommandEntry("tools", CommandService.tools, is_at_once=True),
        CommandEntry("undo", lambda s, caller: s.forgetting.undo(caller)),
        CommandEntry(
            "new", lambda s, caller: s.forgetting.new(caller), kind="new", is_for_admins=True
        ),
        CommandEntry("stop", CommandService.stop, kind="stop", places=("private", "group")),
        CommandEntry("export", CommandService.export, is_for_admins=True),
        CommandEntry("import", lambda s, caller: s.imports.command(caller), places=ALONE),
        CommandEntry(
            "connect", lambda s, caller: s.connecting.connect(caller), places=ALONE, needs="lends"
        ),
        CommandEntry(
            "usage", lambda s, caller: s.pages.usage(caller), is_at_once=True, needs="has_model"
        ),
        CommandEntry("privacy", lambda s, caller: s.pages.say_privacy(caller), is_at_once=True),
        CommandEntry("delete_me", lambda s, caller: s.forgetting.delete_me(caller), places=ALONE),
    )
}

# Commands that a deep link may run.
DEEP_LINKS = frozenset({"help", "memory", "settings", "privacy", "usage", "export", "tools"})

# Actions that affect a whole group.
ADMIN_ACTIONS = frozenset({"wipe", "choose", "zones", *CHOICES})

# Handlers of buttons by the name of their action; the numbers of an action are untrusted.
ACTIONS: Mapping[str, Callable[[CommandService, Caller, Action], Awaitable[Reply]]] = {
    "facts": lambda s, who, a: s.screens.page(who, a.number(0, 1), a.number(1)),
    "fact": lambda s, who, a: s.screens.card(who, a.number(0), *a.numbers[1:3]),
    "pin": lambda s, who, a: s.screens.pin(who, a.number(0), *a.numbers[1:3]),
    "unpin": lambda s, who, a: s.screens.pin(who, a.number(0), *a.numbers[1:3], pinned=False),
    "correct": lambda s, who, a: s.screens.correct(who, a.number(0), *a.numbers[1:3]),
    "forget": lambda s, who, a: s.screens.forget(who, a.number(0), *a.numbers[1:3]),
    "drop": lambda s, who, a: s.forgetting.drop(who, a.number(0), a.number(1)),
    "see": lambda s, who, _: s.forgetting.see(who),
    "undo": lambda s, who, a: s.forgetting.press_undo(who, a.number(0), a.number(1)),
    "settle": lambda s, who, a: s.questions.press(who, a.number(0), a.number(1, 2)),
    "erase": lambda s, who, a: s.forgetting.erase(who, agreed=a.number(0) == 1),
    "delete": lambda s, who, a: s.forgetting.confirm_deletion(who, a.number(0), a.number(1)),
    "reminders": lambda s, who, a: s.reminders.page(who, a.number(0, 1)),
    "unremind": lambda s, who, a: s.reminders.cancel(who, a.number(0), a.number(1)),
    "later": lambda s, who, a: s.reminders.snooze(who, a.number(0), a.number(1), a.number(2)),
    "done": lambda s, who, a: s.reminders.finish(who, a.number(0)),
    "norepeat": lambda s, who, a: s.reminders.stop(who, a.number(0)),
    "settings": lambda s, who, _: s.settings.page(who),
    "choose": lambda s, who, a: s.settings.choose(who, a.number(0)),
    **dict.fromkeys(CHOICES, lambda s, who, a: s.settings.choose_value(who, a.name, a.number(0))),
    "wish": lambda s, who, a: s.keep_wish(who, a.number(0)),
    "nobrief": lambda s, who, _: s.reminders.briefs.stop(who),
    "mute": lambda s, who, a: s.reminders.follow_ups.mute(who, a.number(0)),
    "zone": lambda s, who, a: s.settings.set_zone(who, a.number(0), a.number(1)),
    "zones": lambda s, who, a: s.settings.offer_cities(who, a.number(0)),
    "lend": lambda s, who, a: s.connecting.press_new(who, a.number(0)),
    "allow": lambda s, who, a: s.connecting.allow(who, a.number(0), may_remember=a.number(1) == 1),
    "revoke": lambda s, who, a: s.connecting.revoke(who, a.number(0)),
    "leave": lambda s, who, _: s.outside.leave(who),
    "wipe": lambda s, who, a: s.forgetting.wipe(who, a.number(0)),
    "import": lambda s, who, a: s.imports.press(who, a.number(0), a.number(1), a.number(2)),
}
