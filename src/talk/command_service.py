"""Commands and buttons: their tables, and the replies that need no screen of their own."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

from src.base.owners import Caller
from src.history.turn_repo import StoredAnswer, TurnRepository
from src.imports.screens import ImportScreens
from src.memory import memories
from src.memory.screens import MemoryScreens
from src.outside.connections import ConnectScreens, PageScreens
from src.pg.client import PgClient
from src.privacy.export import ExportService
from src.queue import job_repo
from src.reading import gate
from src.reminders.screens import ReminderScreens
from src.talk import notes
from src.talk.commands import CommandEntry, Features, Pages, Place, help_page
from src.talk.forget_screens import ForgetScreens
from src.talk.questions import QuestionService
from src.talk.search_screens import SearchScreens
from src.talk.settings import CHOICES, SettingsScreens, follow_language
from src.talk.turn import AgentService
from src.talk.turn_state import IncomingMessage, Teaching, Turn
from src.talk.zones import not_mine_button, zone_note
from src.texts import say
from src.texts.reply import Action, Reply, in_rows


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
        CommandEntry(
            "about", lambda s, caller: s.search.about(caller), places=("private", "console")
        ),
        CommandEntry(
            "app",
            lambda s, caller: s.screens.open_app(caller),
            is_at_once=True,
            places=("private",),
            needs=lambda features: features.has_app,
        ),
        CommandEntry(
            "page",
            lambda s, caller: s.outside.page(caller),
            places=("private", "console"),
            needs=lambda features: features.has_page,
        ),
        CommandEntry("remember", CommandService.say_how_to_remember, kind="teach"),
        CommandEntry("forget", lambda s, caller: s.forgetting.forget(caller)),
        CommandEntry("search", lambda s, caller: s.search.search(caller)),
        CommandEntry("summary", lambda s, caller: s.search.summary(caller)),
        CommandEntry("remind", CommandService.remind),
        CommandEntry("reminders", lambda s, caller: s.reminders.page(caller)),
        CommandEntry(
            "today",
            lambda s, caller: s.reminders.briefs.today(caller),
            places=("private", "console"),
        ),
        CommandEntry("brief", CommandService.brief, places=("private", "console")),
        CommandEntry("settings", lambda s, caller: s.settings.page(caller), is_for_admins=True),
        CommandEntry("mode", lambda s, caller: s.settings.mode(caller)),
        CommandEntry("tools", CommandService.tools, is_at_once=True),
        CommandEntry("undo", lambda s, caller: s.forgetting.undo(caller)),
        CommandEntry(
            "new", lambda s, caller: s.forgetting.new(caller), kind="new", is_for_admins=True
        ),
        CommandEntry("stop", CommandService.stop, kind="stop", places=("private", "group")),
        CommandEntry("export", CommandService.export, is_for_admins=True),
        CommandEntry(
            "import", lambda s, caller: s.imports.command(caller), places=("private", "console")
        ),
        CommandEntry(
            "connect",
            lambda s, caller: s.connecting.connect(caller),
            places=("private", "console"),
            needs=lambda features: features.lends,
        ),
        CommandEntry(
            "usage",
            lambda s, caller: s.pages.usage(caller),
            is_at_once=True,
            needs=lambda features: features.has_model,
        ),
        CommandEntry("privacy", lambda s, caller: s.pages.say_privacy(caller), is_at_once=True),
        CommandEntry(
            "delete_me",
            lambda s, caller: s.forgetting.delete_me(caller),
            places=("private", "console"),
        ),
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
