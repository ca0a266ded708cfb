"""The console: every line of stdin is a message of one user, the reply goes to stdout.

On a terminal the arrow keys recall what was typed before.
"""

import asyncio
import contextlib
import json
import logging
import shutil
import sys
import termios
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from src.base.errors import AppError
from src.base.owners import Called, Owner
from src.base.zones import local_time, place_of_zone
from src.core import Core
from src.history.turn_repo import AnswerSource, StoredAnswer
from src.pg.client import storable
from src.pg.user_settings_repo import Mode, UserSettings
from src.reading.relative_dates import resolved_dates
from src.talk.command_service import COMMANDS, Command, parse_command
from src.talk.turn_state import AnswerView, IncomingMessage, Teaching, Turn
from src.talk.zones import zone_note
from src.texts import Language, detect_language, say
from src.texts.reply import ReplyFile

logger = logging.getLogger(__name__)

# Lines that a person types on a terminal: the arrow keys recall what was typed before.
#
# What is recalled lives in the process alone and is written nowhere: a file of it would hold words
# that neither /new nor forgetting reaches.

NOT_SHOWN = "\x01{}\x02"  # tells readline that a colour takes no room in the line


def prompt_of(sign: str, colour: str, reset: str) -> str:
    """A coloured sign to type behind."""
    if "readline" not in sys.modules:
        return f"{colour}{sign}{reset} "
    return f"{NOT_SHOWN.format(colour)}{sign}{NOT_SHOWN.format(reset)} "


@contextmanager
def kept_terminal(descriptor: int) -> Iterator[None]:
    """Leave the terminal as it was, also when interrupted while the user types."""
    with contextlib.suppress(ImportError):  # some Pythons come without: no arrow keys there
        import readline  # from now on ``input`` uses it

        # A pasted text is as many messages as it has lines, as everywhere in the console; and
        # the terminal needs no telling at the end that nobody expects a paste any more.
        readline.parse_and_bind("set enable-bracketed-paste off")
    before = termios.tcgetattr(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


async def read_line(prompt: str) -> str | None:
    """The next line of the terminal that is stdin and stdout; None when the input ends.

    It is read in a thread that nobody waits for: Ctrl-C ends the program, not only the line.
    """
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str | None] = loop.create_future()

    def tell(text: str | None) -> None:
        if not line.done():
            line.set_result(text)

    def read() -> None:
        text = None
        with contextlib.suppress(EOFError):
            text = input(prompt)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(tell, text)

    threading.Thread(target=read, name="terminal", daemon=True).start()
    return await line


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
        core: Core,
        user_id: int,
        *,
        as_json: bool = False,
        streams: ConsoleStreams | None = None,
    ) -> None:
        """Talk as this user; with ``as_json`` each reply is one JSON object a line."""
        self._core = core
        self._agent = core.agent
        self._commands = core.commands
        self._memory = core.memory.digest
        self._owner = Owner(user_id)
        self._time_zone = core.settings.timezone
        self._as_json = as_json
        self._streams = streams or _standard_streams()
        self._language: Language = "ru"

    async def run(self) -> None:
        """Answer line after line, until the input ends."""
        if not self._streams.is_terminal:
            await self._talk()
            return
        self._write(f"{GREY}{self._hello()}{RESET}\n\n")
        try:
            with kept_terminal(self._streams.source.fileno()):
                await self._talk()
        finally:  # what the shell says next begins a line
            self._write("\n")

    def _hello(self) -> str:
        hello = say("console_hello", self._language)
        if self._commands.has_model:
            return hello
        return f"{hello}\n{say('offline_note', self._language)}"

    async def _talk(self) -> None:
        while (line := await self._read()) is not None:
            text = storable(line).strip()
            if text:
                await self._answer(text)

    async def _read(self) -> str | None:
        if self._streams.is_terminal:
            return await read_line(prompt_of(">", BLUE, RESET))
        line = await asyncio.to_thread(self._streams.source.readline)
        return line.removesuffix("\n") if line else None

    async def _answer(self, text: str) -> None:
        command = parse_command(text)
        if command is not None:
            await self._run_command(command)
            return
        try:
            await self._run_turn(text)
        except AppError as error:
            logger.error("no answer", exc_info=error)  # noqa: TRY400  (logged in our own way)
            self._reply(say(error.text_key, self._language))

    async def _run_command(self, command: Command) -> None:
        entry = COMMANDS.get(command.name)
        if entry is not None and entry.kind == "teach" and command.argument:
            await self._run_turn(command.argument, Teaching())
            return
        called, _ = await self._called()
        is_untold = command.name == "remind" and not called.has_zone
        called = replace(called, argument=command.argument, has_zone=not is_untold)
        reply = await self._commands.run(command.name, called)
        for file in reply.files:
            await asyncio.to_thread(_keep_file, file)
        text = reply.text
        if command.name == "remind" and reply.rows:
            text = f"{text}\n{say('console_reminder', self._language)}"
            if is_untold:  # it names the zone
                text = f"{text}\n{say('console_zone', self._language)}"
        self._reply(text, mode=(await self._commands.settings.get(self._owner)).mode)
        await self._in_background(self._after_command())

    async def _after_command(self) -> None:
        """Read what /new deleted; index what /undo brought back."""
        await self._memory.read_parting()
        await self._memory.index_pending()
        await self._memory.indexer.embed_pending()

    async def _run_turn(self, text: str, teaching: Teaching | None = None) -> None:
        self._language = detect_language(text, self._language)
        called, known = await self._called()
        incoming = IncomingMessage(
            self._owner, text, called.moment, called.language, called.time_zone, known.mode,
            teaching=teaching, answer_length=known.answer_length, memory_on=known.memory_on,
            has_zone=called.has_zone, has_reminders=known.has_reminders,
        )  # fmt: skip
        turn = Turn(incoming, _ConsoleView(self._reply))
        await self._agent.run_turn(turn)
        await self._in_background(self._memory.remember_turn(turn.conversation_id))

    async def _called(self) -> tuple[Called, UserSettings]:
        """Who sits here, now, and what they chose."""
        known = await self._commands.settings.get(self._owner)
        called = self._core.called(self._owner, known, self._language)
        self._time_zone = called.time_zone
        return called, known

    async def _in_background(self, work: Awaitable[None]) -> None:
        """Do what jobs do in the bot; a failure is retried with the next message."""
        try:
            await work
        except AppError as error:
            logger.warning("not everything is in the memory yet", exc_info=error)

    def _reply(
        self, reply: str, answer: StoredAnswer | None = None, *, mode: Mode = "assistant"
    ) -> None:
        sources = answer.sources if answer else ()
        if self._as_json:
            record = {
                "reply": reply,
                "sources": [
                    {
                        "uid": source.uid,
                        "text": source.text,
                        "said_at": self._local(source).isoformat(),
                    }
                    for source in sources
                ],
                "tools": list(answer.tools) if answer else [],
                "intent": answer.intent if answer else None,
                "mode": mode,
            }
            self._write(json.dumps(record, ensure_ascii=False) + "\n")
            return
        lines = [reply]
        if answer and sources:
            lines += ["", say("sources_title", self._language)]
            lines += [self._source_line(source) for source in sources]
        end = "\n\n" if self._streams.is_terminal else "\n"
        self._write("\n".join(lines) + end)

    def _source_line(self, source: AnswerSource) -> str:
        said_at = self._local(source)
        line = say(
            "source_line",
            self._language,
            number=source.number,
            said_at=f"{said_at:%d.%m.%Y %H:%M}",
            text=source.text,
        )
        dates = resolved_dates(source.text, said_at)
        return f"{line} ({', '.join(dates)})" if dates else line

    def _local(self, source: AnswerSource) -> datetime:
        return local_time(source.said_at, self._time_zone)

    def _write(self, text: str) -> None:
        self._streams.target.write(text)
        self._streams.target.flush()


class _ConsoleView(AnswerView):
    """Shows an answer when it is whole."""

    def __init__(self, reply: Callable[..., None]) -> None:
        super().__init__()
        self._reply = reply

    async def deliver(
        self,
        turn: Turn,
        answer: StoredAnswer,
        on_part: Callable[[int], Awaitable[None]],  # noqa: ARG002
    ) -> int:
        """Write it, in one part."""
        text = answer.text
        if answer.changes.reminders:
            text = f"{text}\n{say('console_reminder', turn.incoming.language)}"
        if answer.changes.zones:
            language = turn.incoming.language
            places = ", ".join(place_of_zone(zone, language) for zone in answer.changes.zones)
            text = f"{text}\n\n🕒 {say('console_zones', language, places=places)}"
        if answer.changes.names_zone:
            hint = say("console_zone", turn.incoming.language)
            text = f"{text}\n\n{zone_note(turn.incoming.called)} {hint}"
        if turn.incoming.problem:
            text = f"{text}\n\n{turn.incoming.problem}"
        self._reply(text, answer, mode=turn.incoming.mode)
        return 1


def _keep_file(file: ReplyFile) -> None:
    """Put a file of a reply where the console was started; an older one of that name goes."""
    with file.content, Path(file.name).open("wb") as target:
        file.content.seek(0)
        shutil.copyfileobj(file.content, target)


def _standard_streams() -> ConsoleStreams:
    """Stdin and stdout as UTF-8, whatever the locale says; broken bytes become U+FFFD."""
    for stream in (sys.stdin, sys.stdout):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")
    return ConsoleStreams(sys.stdin, sys.stdout)
