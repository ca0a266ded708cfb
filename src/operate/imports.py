"""Imports by an operator: ``bot.py import``."""

from pathlib import Path

from src.base.errors import AppError
from src.base.owners import Caller, Owner
from src.core import Core
from src.imports.files import UnreadableFileError, find_file
from src.imports.import_repo import Import
from src.queue.job_repo import JobRepository
from src.texts import say

MEMORIES_WAIT = "The user keeps or drops what is remembered of them in the chat, by /import."


async def import_file(
    core: Core, user_id: int, path: Path, *, facts: bool, speaker: str | None, dates: str | None
) -> str:
    """Read a file and store it; return what was done, in English.

    What another assistant remembers waits until the user keeps it in the chat.

    Args:
        core: The core.
        user_id: Whose file it is.
        path: The file.
        facts: True to read the messages for facts.
        speaker: Which speaker of a chat the user is.
        dates: ``day`` or ``month``: what is first in dates that can be read in two ways.

    Raises:
        AppError: The file cannot be imported, or an argument is missing.
    """
    caller, run = await _find_caller(core, user_id), core.client.run
    if not caller.preferences.memory_on:
        raise AppError("the memory of this user is off, by their own wish")
    file = find_file(str(path))
    if file is None:
        raise AppError(f"there is no file {path}")
    try:
        found = await core.imports.read(caller, file)
    except UnreadableFileError as error:
        raise AppError(say(error.text_key, "en")) from error
    await _answer_questions(core, found, speaker, dates)
    current = await run(core.imports.rows.find, caller.owner, found.id)
    summary = await core.commands.imports.screen(caller, current or found)
    contents = await run(core.imports.rows.count, caller.owner, found.id)
    await run(core.imports.rows.choose, caller.owner, found.id, reads_facts=facts)
    done = await core.commands.imports.run_to_end(caller, summary)
    if await run(JobRepository(core.client).seconds_since_heartbeat) is None:
        await core.memory.indexer.embed_pending()  # no bot runs that would do it
    parts = [summary.text]
    if contents.left:
        parts.append(done.text.partition("\n\n")[0])
    if contents.memories:
        parts.append(MEMORIES_WAIT)
    return "\n\n".join(parts)


async def _answer_questions(
    core: Core, found: Import, speaker: str | None, dates: str | None
) -> None:
    rows, run = core.imports.rows, core.client.run
    if found.names and found.own_name is None:
        shown = {name: who for who, name in found.names.items()}
        if speaker not in shown:
            raise AppError(f"say who the user is: --speaker with one of {', '.join(shown)}")
        await run(rows.set_own_name, found.owner, found.id, shown[speaker])
    if found.days_first is None:
        if dates is None:
            raise AppError("the dates can be read in two ways: --dates day, or --dates month")
        await run(rows.set_order, found.owner, found.id, days_first=dates == "day")


async def undo_import(core: Core, user_id: int) -> str:
    """Take the last import of a user back; return what was done.

    Raises:
        AppError: There is none.
    """
    caller = await _find_caller(core, user_id)
    last = await core.client.run(core.imports.rows.find_last, caller.owner, has_something=True)
    if last is None:
        raise AppError(f"there is no import of the user {user_id}")
    await core.client.run(core.imports.rows.take_back, caller.owner, last.id)
    screen = await core.commands.imports.screen(caller, last)
    return (await core.commands.imports.run_to_end(caller, screen)).text


async def _find_caller(core: Core, user_id: int) -> Caller:
    caller = await core.client.run(core.load_caller, Owner(user_id))
    return caller.with_preferences(language="en")
