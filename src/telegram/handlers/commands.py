"""Commands: /start, /help, /mode, /undo, /new, /stop."""

from __future__ import annotations

from aiogram import F, Router
from aiogram.filters import BaseFilter
from aiogram.types import Message

from src.services.command_service import CommandService, parse_command
from src.storage.update_repo import WaitingUpdate
from src.telegram.delivery import Address, Delivery
from src.telegram.updates import BotIdentity
from src.texts import Language


class IsCommand(BaseFilter):
    """A command for this bot; its name is handed to the handler as ``command``."""

    async def __call__(self, message: Message, identity: BotIdentity) -> bool | dict[str, str]:
        """Read the command the same way as the receiver did."""
        command = parse_command(message.text or "")
        if command is None or not command.is_for(identity.username):
            return False
        return {"command": command.name, "argument": command.argument}


def build_router() -> Router:
    """The router of the commands."""
    router = Router(name="commands")
    router.message.register(run_command, F.text, IsCommand())
    return router


async def run_command(
    message: Message,
    stored: WaitingUpdate,
    language: Language,
    command: str,
    argument: str,
    commands: CommandService,
    delivery: Delivery,
) -> str:
    """Run a command and say what came of it."""
    reply = await commands.run(
        command,
        message.chat.id,
        thread_id=stored.thread_id,
        language=language,
        argument=argument,
    )
    await delivery.send_text(Address(message.chat.id, stored.thread_id), reply)
    return "done"
