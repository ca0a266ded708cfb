"""What the commands do and say; Telegram and the console share it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from src.mcp_servers.servers import McpServers
from src.memory.memories import Memories
from src.services.agent_service import AgentService
from src.services.tools_page import tools_page
from src.storage.owner import Owner
from src.storage.pg_client import PgClient
from src.storage.undo_repo import Undone
from src.storage.update_repo import UpdateKind
from src.storage.user_settings_repo import Mode, UserSettingsRepository
from src.texts import Language, say

PATTERN = re.compile(r"/([A-Za-z0-9_]{1,32})(?:@([A-Za-z0-9_]{3,64}))?(?:\s+(.*))?$", re.DOTALL)
# What a user may write after /mode.
MODES: dict[str, Mode] = {
    "strict": "strict",
    "строгий": "strict",
    "строго": "strict",
    "суворий": "strict",
    "суворо": "strict",
    "assistant": "assistant",
    "обычный": "assistant",
    "ассистент": "assistant",
    "звичайний": "assistant",
    "асистент": "assistant",
}


@dataclass(frozen=True)
class Command:
    """``/name@addressee argument``; the name in lower case."""

    name: str
    addressee: str | None = None
    argument: str = ""

    def is_for(self, username: str) -> bool:
        """Whether a bot of this name is meant: by name, or because no name is given."""
        return self.addressee is None or self.addressee.lower() == username.lower()


@dataclass(frozen=True)
class Called:
    """A command with who called it.

    Attributes:
        owner: Whose memory it is about: the person, or the group.
        language: The language of the reply.
        argument: What stands after the name.
        member: In a group, who called it.
    """

    owner: Owner
    language: Language
    argument: str = ""
    member: int | None = None


@dataclass(frozen=True)
class CommandEntry:
    """A command of the bot: all that the rest of the program knows of it.

    Its texts are ``command_<name>`` (Telegram's menu), ``help_<name>`` (/help) and its replies.

    Attributes:
        name: Without the slash.
        run: Does its work and returns the reply.
        kind: The kind of its updates; ``new`` and ``stop`` end the answer that is being written.
        is_at_once: Whether its reply may come in the middle of an answer: it changes nothing.
        is_in_help: Whether /help names it.
        deletes_messages: Whether a job reads, for facts, what it deleted.
    """

    name: str
    run: Callable[[CommandService, Called], Awaitable[str]]
    kind: UpdateKind = "command"
    is_at_once: bool = False
    is_in_help: bool = True
    deletes_messages: bool = False


def undone_text(undone: Undone, language: Language) -> str:
    """What the user is told when something was taken back."""
    restored = "; ".join(undone.restored)
    if undone.text is None:
        return say("undo_forgot_done", language, restored=restored)
    return say("undo_done", language, text=undone.text, restored=restored)


def parse_command(text: str) -> Command | None:
    """The command that a text begins with, or None."""
    match = PATTERN.match(text)
    return Command(match[1].lower(), match[2], (match[3] or "").strip()) if match else None


def help_page(language: Language) -> str:
    """What the bot can do, and every command; the page's own comes last."""
    names = [entry.name for entry in COMMANDS.values() if entry.is_in_help]
    names.sort(key=lambda name: name == "help")
    lines = [f"/{name} — {say(f'help_{name}', language)}" for name in names]
    return say("help", language, commands="\n".join(lines))


class CommandService:
    """Runs the commands of a user."""

    def __init__(
        self,
        agent: AgentService,
        memories: Memories,
        user_settings: UserSettingsRepository,
        client: PgClient,
        *,
        has_model: bool = True,
        servers: McpServers | None = None,
    ) -> None:
        """Use the agent's conversations, the memory, and the users' settings.

        Without a language model /start says so.
        """
        self.has_model = has_model
        self._agent = agent
        self._memories = memories
        self._user_settings = user_settings
        self._client = client
        self._servers = servers

    async def run(
        self,
        command: str,
        telegram_user_id: int,
        *,
        language: Language,
        thread_id: int = 0,
        argument: str = "",
        member: int | None = None,
    ) -> str:
        """Run a command and return the reply.

        Args:
            command: Its name, without the slash.
            telegram_user_id: The owner: the person, or the group's negative chat id.
            language: The language of the reply.
            thread_id: The topic of a forum group, else 0.
            argument: What stands after the name.
            member: In a group, who called it.
        """
        entry = COMMANDS.get(command)
        if entry is None:
            return say("unknown_command", language)
        owner = Owner(telegram_user_id, thread_id)
        return await entry.run(self, Called(owner, language, argument, member))

    async def get_mode(self, telegram_user_id: int) -> Mode:
        """The mode that the user chose."""
        settings = await self._client.run(self._user_settings.get, telegram_user_id)
        return settings.mode

    async def say_start(self, called: Called) -> str:
        """Greet, and say when there is no language model."""
        if self.has_model:
            return say("start", called.language)
        return f"{say('start', called.language)}\n\n{say('offline_note', called.language)}"

    async def say_help(self, called: Called) -> str:
        """Show what the bot can do."""
        return help_page(called.language)

    async def tools(self, called: Called) -> str:
        """Show what the bot can use: its own tools, and those of servers."""
        states = [] if self._servers is None else self._servers.states()
        return tools_page(states, called.language)

    async def mode(self, called: Called) -> str:
        """``/mode strict`` and ``/mode assistant`` set it; ``/mode`` alone says which it is."""
        mode = MODES.get(called.argument.lower())
        if mode is None:
            current = await self.get_mode(called.owner.telegram_user_id)
            it_is = say(f"mode_is_{current}", called.language)
            return f"{say('mode_unknown', called.language)}\n{it_is}" if called.argument else it_is
        await self._client.run(self._user_settings.set_mode, called.owner.telegram_user_id, mode)
        return say(f"mode_set_{mode}", called.language)

    async def undo(self, called: Called) -> str:
        """Take back the last replacement, or the last forgetting."""
        undone = await self._memories.undo(called.owner, asker=called.member)
        if undone is None:
            return say("undo_nothing", called.language)
        return undone_text(undone, called.language)

    async def new(self, called: Called) -> str:
        """Wipe the conversation; facts survive it, and the reply says how many."""
        await self._agent.start_new_conversation(called.owner)
        facts = await self._memories.count(called.owner)
        if not facts:
            return say("new_done", called.language)
        return (
            f"{say('new_done', called.language)} {say('new_facts', called.language, count=facts)}"
        )

    async def stop(self, called: Called) -> str:
        """Say whether an answer was stopped: the command did it on its arrival."""
        stopped = await self._agent.was_stopped(called.owner)
        return say("stop_done" if stopped else "stop_nothing", called.language)


# In the order of Telegram's menu.
COMMANDS: Mapping[str, CommandEntry] = {
    entry.name: entry
    for entry in (
        CommandEntry("start", CommandService.say_start, is_at_once=True, is_in_help=False),
        CommandEntry("help", CommandService.say_help, is_at_once=True),
        CommandEntry("mode", CommandService.mode),
        CommandEntry("tools", CommandService.tools, is_at_once=True),
        CommandEntry("undo", CommandService.undo),
        CommandEntry("new", CommandService.new, kind="new", deletes_messages=True),
        CommandEntry("stop", CommandService.stop, kind="stop"),
    )
}
