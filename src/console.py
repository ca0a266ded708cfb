"""Console: each line of stdin is a message of one user, replies go to stdout.

On a terminal the arrow keys recall earlier lines.
"""

import asyncio
import contextlib
import json
import logging
import sys
import termios
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import TextIOWrapper
from pathlib import Path
from typing import Self, TextIO

from src.base.errors import AppError
from src.base.owners import Caller, Mode, Owner
from src.base.zones import local_time, place_of_zone
from src.core import Core
from src.history.turn_repo import StoredAnswer
from src.imports.files import find_file
from src.pg.client import storable
from src.reading.relative_dates import resolved_dates
from src.talk import notes, turn_state
from src.talk.commands import COMMANDS, Command, parse_command
from src.talk.settings import zone_note
from src.texts import FALLBACK, Language, say
from src.texts.reply import Reply

logger = logging.getLogger(__name__)

# The history of typed lines stays in memory: a file would hold words that neither /new nor
# forgetting reaches.


@contextmanager
def restored_terminal(descriptor: int) -> Iterator[None]:
    """Restore the mode of the terminal at the end, also after an interrupt during input."""
    with contextlib.suppress(ImportError):  # missing in some Pythons: no arrow keys
        import readline  # ``input`` uses it from now on

        # Each line of a pasted text is a message, as for any other input; and there is no mode
        # to switch off in the terminal at the end.
        readline.parse_and_bind("set enable-bracketed-paste off")
    before = termios.tcgetattr(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextmanager
def in_background() -> Iterator[None]:
    """Do the work of background jobs; a failure is retried after the next message."""
    try:
        yield
    except AppError as error:
        logger.warning("not everything is in the memory yet", exc_info=error)


async def read_line(prompt: str) -> str | None:
    """Read the next line of the terminal that is stdin and stdout; None at the end of the input.

    A daemon thread reads it, which is never joined, so that Ctrl-C ends the program at once.
    """
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str | None] = loop.create_future()

    def resolve(text: str | None) -> None:
        if not line.done():
            line.set_result(text)

    def read() -> None:
        text = None
        with contextlib.suppress(EOFError):
            text = input(prompt)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(resolve, text)

    threading.Thread(target=read, name="terminal", daemon=True).start()
    return await line


CONSOLE_USER_ID = 1
BLUE, GREY, RESET = "\x1b[36m", "\x1b[2m", "\x1b[0m"


@dataclass
class ConsoleStreams:
    """Streams of the console; a terminal gets a prompt and colours."""

    source: TextIO
    target: TextIO

    @property
    def is_terminal(self) -> bool:
        """True if both streams are a terminal."""
        return self.source.isatty() and self.target.isatty()

    @classmethod
    def standard(cls) -> Self:
        """Return stdin and stdout as UTF-8 in any locale; broken bytes become U+FFFD."""
        for stream in (sys.stdin, sys.stdout):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(encoding="utf-8", errors="replace")
        return cls(sys.stdin, sys.stdout)

    async def read(self) -> str | None:
        """Read the next line; None at the end of the input."""
        if self.is_terminal:
            # Readline has to know that a colour takes no room in the line.
            colour = "\x01{}\x02" if "readline" in sys.modules else "{}"
            return await read_line(f"{colour.format(BLUE)}>{colour.format(RESET)} ")
        line = await asyncio.to_thread(self.source.readline)
        return line.removesuffix("\n") if line else None

    def write(self, text: str) -> None:
        """Write a text at once."""
        self.target.write(text)
        self.target.flush()


class Console:
    """Conversation with one user over text streams."""

    def __init__(
        self,
        core: Core,
        user_id: int,
        *,
        as_json: bool = False,
        language: Language = FALLBACK,
        streams: ConsoleStreams | None = None,
        folder: Path = Path(),
    ) -> None:
        """Talk as this user.

        Args:
            core: The rooms.
            user_id: Telegram id of the user.
            as_json: Whether each reply is one line of JSON.
            language: Language of the terminal, until the user chooses or speaks one.
            streams: Input and output; by default stdin and stdout.
            folder: Where the files of an answer are written.
        """
        self._core = core
        self._commands = replace(core.commands, is_console=True)
        self._memory = core.memory.digest
        self._owner = Owner(user_id)
        self._time_zone = core.settings.timezone
        self._as_json = as_json
        self._folder = folder
        self._streams = streams or ConsoleStreams.standard()
        self._code = self._language = language
        self._told_where_reminders_arrive = False

    async def run(self) -> None:
        """Answer line after line until the input ends."""
        if not self._streams.is_terminal:
            await self._talk()
            return
        caller = await self._load_caller()
        language = caller.language
        greeting = say("console_hello", language)
        if not self._commands.features.has_model:
            note = say("offline_note", language)
            greeting = f"{greeting}\n{note} {say('console_model', language)}"
        self._streams.write(f"{GREY}{greeting}{RESET}\n\n")
        try:
            with restored_terminal(self._streams.source.fileno()):
                await self._talk()
        finally:  # so that the shell's prompt begins a line
            self._streams.write("\n")

    async def _talk(self) -> None:
        while True:
            line = await self._streams.read()
            if line is None:
                return
            text = storable(line).strip()
            if not text:
                continue
            command = parse_command(text)
            try:
                if command is None:
                    await self._run_turn(text)
                else:
                    await self._run_command(command)
            except AppError as error:
                logger.error("no answer", exc_info=error)  # noqa: TRY400  (logged in our own way)
                self.reply(say(error.text_key, self._language))

    async def _run_command(self, command: Command) -> None:
        entry = COMMANDS.get(command.name)
        if entry is not None and entry.kind == "teach" and command.argument:
            await self._run_turn(command.argument, turn_state.Teaching())
            return
        caller = await self._load_caller()
        lacks_zone = command.name in ("remind", "brief") and not caller.preferences.has_zone
        caller = caller.with_argument(command.argument)
        caller = caller.with_preferences(has_zone=not lacks_zone)
        reply = await self._run_or_import(command, caller)
        text = reply.text
        if reply.files:
            paths = [await asyncio.to_thread(f.save, self._folder) for f in reply.files]
            where = say("console_files", self._language, paths="\n".join(map(str, paths)))
            text = f"{text}\n{where}"
        if command.name == "import" and (reply.rows or reply.asks):
            text = f"{text}\n\n{say('console_import', self._language)}"
        if command.name == "settings":
            text = f"{text}\n\n{say('console_settings', self._language)}"
        if command.name == "delete_me":
            text = say("console_delete", self._language)
        if command.name in ("remind", "brief") and reply.rows:
            text += self.reminder_note(self._language)
            if lacks_zone:  # the reply names the zone
                text = f"{text}\n{say('console_zone', self._language)}"
        self.reply(text, mode=(await self._commands.settings.get(self._owner)).mode)
        with in_background():  # what /new deleted is read, and what /undo restored is indexed
            await self._memory.read_parting()
            await self._memory.index_pending()
            await self._memory.indexer.embed_pending()

    async def _run_or_import(self, command: Command, caller: Caller) -> Reply:
        """Run a command; an import is read from a file of this machine, and stored at once."""
        imports, file = self._core.commands.imports, None
        if command.name == "import" and command.argument:
            file = find_file(command.argument)
        if file is not None:
            return await imports.read(caller, file)
        reply = await self._commands.run(command.name, caller)
        if reply.import_id is None:
            return reply
        return await imports.run_to_end(caller, reply)

    async def _run_turn(self, text: str, teaching: turn_state.Teaching | None = None) -> None:
        caller = await self._load_caller()
        incoming = turn_state.IncomingMessage(caller, text, teaching=teaching)
        turn = turn_state.Turn(incoming, _ConsoleView(self))
        try:
            outcome = await self._core.agent.run_turn(turn)
        finally:
            self._language = turn.incoming.language
        if outcome == "refused silently" and self._as_json:
            self.reply("")  # each line has its reply
        with in_background():
            await self._memory.digest_turn(turn.conversation_id)

    async def _load_caller(self) -> Caller:
        chosen = await self._commands.settings.get(self._owner)
        caller = self._core.caller(self._owner, chosen, self._code)
        self._time_zone, self._language = caller.time_zone, caller.language
        return caller

    def reminder_note(self, language: Language) -> str:
        """Return a line that tells once where reminders arrive, "" from then on."""
        if self._told_where_reminders_arrive:
            return ""
        self._told_where_reminders_arrive = True
        return f"\n{say('console_reminder', language)}"

    def reply(
        self, reply: str, answer: StoredAnswer | None = None, *, mode: Mode = "assistant"
    ) -> None:
        """Print a reply; of an answer also its sources."""
        answer = answer or StoredAnswer(0, reply, delivered=True, delivered_parts=1)
        sources = [(one, local_time(one.said_at, self._time_zone)) for one in answer.sources]
        if self._as_json:
            record = {
                "reply": reply,
                "sources": [
                    {"uid": source.uid, "text": source.text, "said_at": said_at.isoformat()}
                    for source, said_at in sources
                ],
                "tools": list(answer.tools),
                "intent": answer.intent,
                "mode": mode,
            }
            self._streams.write(json.dumps(record, ensure_ascii=False) + "\n")
            return
        listed = []
        for source, said_at in sources:
            values = {"said_at": f"{said_at:%d.%m.%Y %H:%M}", "text": source.text}
            line = say("source_line", self._language, number=source.number, **values)
            dates = resolved_dates(source.text, said_at)
            if dates:
                line = f"{line} ({', '.join(dates)})"
            if line.partition(" ")[2] not in reply:  # not quoted yet
                listed.append(line)
        if listed:
            reply = "\n".join([reply, "", say("sources_title", self._language), *listed])
        self._streams.write(f"{reply}\n\n" if self._streams.is_terminal else f"{reply}\n")


class _ConsoleView(turn_state.AnswerView):
    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    async def deliver(
        self,
        turn: turn_state.Turn,
        answer: StoredAnswer,
        on_part: Callable[[int], Awaitable[None]],  # noqa: ARG002
    ) -> int:
        """Print the answer in one part, with words for what are buttons in Telegram."""
        text, language = answer.text, turn.incoming.language
        if answer.changes.reminders:
            text += self._console.reminder_note(language)
        if answer.changes.replaced_by:
            text = f"{text}\n{say('console_undo_replaced', language)}"
        if answer.changes.forgetting is not None:
            text = f"{text}\n{say('console_undo_forgot', language)}"
        if answer.changes.zones:
            places = ", ".join(place_of_zone(zone, language) for zone in answer.changes.zones)
            text = f"{text}\n\n🕒 {say('console_zones', language, places=places)}"
        if answer.changes.names_zone:
            hint = say("console_zone", language)
            text = f"{text}\n\n{zone_note(turn.incoming.caller)} {hint}"
        offer = notes.offer_in_words(answer.changes, language)
        text = "\n\n".join(filter(None, (text, offer, turn.incoming.problem)))
        self._console.reply(text, answer, mode=turn.incoming.preferences.mode)
        return 1
