"""The console: every line of stdin is a message of one user, the reply goes to stdout."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from io import TextIOWrapper
from typing import TextIO

from src.errors import AppError
from src.services.agent_service import AgentService, IncomingMessage
from src.services.command_service import CommandService, parse_command
from src.storage.pg_client import storable
from src.texts import Language, detect_language, say

logger = logging.getLogger(__name__)

CONSOLE_USER_ID = 1
BLUE, GREY, RESET = "\x1b[36m", "\x1b[2m", "\x1b[0m"


@dataclass
class ConsoleStreams:
    """Where the console reads and writes; on a terminal it shows a prompt and colours."""

    source: TextIO
    target: TextIO

    @property
    def is_terminal(self) -> bool:
        """Whether a person sits in front of it."""
        return self.source.isatty() and self.target.isatty()


class Console:
    """Talks with one user through text streams."""

    def __init__(
        self,
        agent: AgentService,
        commands: CommandService,
        *,
        user_id: int,
        time_zone: str,
        as_json: bool = False,
        streams: ConsoleStreams | None = None,
    ) -> None:
        """Talk as ``user_id``; with ``as_json`` each reply is one JSON object a line."""
        self._agent = agent
        self._commands = commands
        self._user_id = user_id
        self._time_zone = time_zone
        self._as_json = as_json
        self._streams = streams or _standard_streams()
        self._language: Language = "ru"

    async def run(self) -> None:
        """Answer line after line, until the input ends."""
        if self._streams.is_terminal:
            self._write(f"{GREY}{say('console_hello', self._language)}{RESET}\n\n")
        while (line := await self._read()) is not None:
            text = storable(line).strip()
            if text:
                await self._answer(text)
        if self._streams.is_terminal:
            self._write("\n")

    async def _read(self) -> str | None:
        if self._streams.is_terminal:
            self._write(f"{BLUE}>{RESET} ")
        line = await asyncio.to_thread(self._streams.source.readline)
        return line.removesuffix("\n") if line else None

    async def _answer(self, text: str) -> None:
        command = parse_command(text)
        if command is not None:
            reply = await self._commands.run(command.name, self._user_id, language=self._language)
            self._reply(reply)
            return
        self._language = detect_language(text, self._language)
        try:
            await self._run_turn(text)
        except AppError as error:
            logger.error("no answer", exc_info=error)  # noqa: TRY400  (logged in our own way)
            self._reply(say(error.text_key, self._language))

    async def _run_turn(self, text: str) -> None:
        turn = await self._agent.begin_turn(
            IncomingMessage(
                self._user_id, text, datetime.now(UTC), self._language, self._time_zone
            )
        )
        answer = await self._agent.answer(turn)
        self._reply(answer.text, tools=answer.tools)
        await self._agent.mark_delivered(turn, answer)

    def _reply(self, reply: str, tools: tuple[str, ...] = ()) -> None:
        if self._as_json:
            record = {
                "reply": reply,
                "sources": [],
                "tools": list(tools),
                "intent": None,
                "mode": "assistant",
            }
            self._write(json.dumps(record, ensure_ascii=False) + "\n")
        elif self._streams.is_terminal:
            self._write(f"{reply}\n\n")
        else:
            self._write(f"{reply}\n")

    def _write(self, text: str) -> None:
        self._streams.target.write(text)
        self._streams.target.flush()


def _standard_streams() -> ConsoleStreams:
    """Stdin and stdout as UTF-8, whatever the locale says; broken bytes become U+FFFD."""
    for stream in (sys.stdin, sys.stdout):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")
    return ConsoleStreams(sys.stdin, sys.stdout)
