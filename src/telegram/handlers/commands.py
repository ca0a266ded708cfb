"""Commands; ``src/services/command_service.py`` has the table of them."""

from __future__ import annotations

from aiogram import F, Router
from aiogram.filters import BaseFilter
from aiogram.types import Message

from src.application import Core
from src.services.command_service import COMMANDS, Command, parse_command
from src.storage.memory_job_repo import MemoryJobRepository
from src.storage.update_repo import UpdateOutcome, WaitingUpdate
from src.telegram.delivery import Address, Delivery
from src.telegram.updates import BotIdentity
from src.texts import Language


class IsCommand(BaseFilter):
    """A command for this bot; it is handed to the handler as ``command``."""

    async def __call__(self, message: Message, identity: BotIdentity) -> bool | dict[str, Command]:
        """Read the command the same way as the receiver did."""
        command = parse_command(message.text or "")
        if command is None or not command.is_for(identity.username):
            return False
        return {"command": command}


def build_router() -> Router:
    """The router of the commands."""
    router = Router(name="commands")
    router.message.register(run_command, F.text, IsCommand())
    return router


async def run_command(
    _message: Message,
    stored: WaitingUpdate,
    language: Language,
    command: Command,
    delivery: Delivery,
    core: Core,
) -> UpdateOutcome:
    """Run a command and say what came of it."""
    owner = stored.owner
    reply = await core.commands.run(
        command.name,
        owner.telegram_user_id,
        thread_id=owner.thread_id,
        language=language,
        argument=command.argument,
        member=stored.user_id,
    )
    entry = COMMANDS.get(command.name)
    if entry is not None and entry.deletes_messages:  # which a job reads for facts
        await core.client.run(MemoryJobRepository(core.client).defer_indexing)
    await delivery.send_text(Address(*owner), reply)
    return "done"
