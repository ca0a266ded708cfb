"""What the commands do and say; Telegram and the console share it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from src.services.agent_service import AgentService
from src.texts import Language, say

COMMANDS = ("start", "help", "new", "stop")  # in the order of Telegram's menu
PATTERN = re.compile(r"/([A-Za-z0-9_]{1,32})(?:@([A-Za-z0-9_]{3,64}))?(?=\s|$)")


@dataclass(frozen=True)
class Command:
    """``/name@addressee``; the name in lower case."""

    name: str
    addressee: str | None = None

    def is_for(self, username: str) -> bool:
        """Whether a bot of this name is meant: by name, or because no name is given."""
        return self.addressee is None or self.addressee.lower() == username.lower()


def parse_command(text: str) -> Command | None:
    """The command that a text begins with, or None."""
    match = PATTERN.match(text)
    return Command(match[1].lower(), match[2]) if match else None


class CommandService:
    """Runs the commands of a user."""

    def __init__(self, agent: AgentService) -> None:
        """Use the agent's conversations."""
        self._agent = agent

    async def run(
        self, command: str, telegram_user_id: int, *, language: Language, thread_id: int = 0
    ) -> str:
        """Run a command and return the reply.

        Args:
            command: Its name, without the slash.
            telegram_user_id: The owner: the person, or the group's negative chat id.
            language: The language of the reply.
            thread_id: The topic of a forum group, else 0.
        """
        if command in ("start", "help"):
            return say(command, language)
        if command == "new":
            await self._agent.start_new_conversation(telegram_user_id, thread_id=thread_id)
            return say("new_done", language)
        if command == "stop":
            stopped = await self._agent.was_stopped(telegram_user_id, thread_id=thread_id)
            return say("stop_done" if stopped else "stop_nothing", language)
        return say("unknown_command", language)
