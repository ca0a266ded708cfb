"""Commands, the answer to our question for a time zone, and a 👎 on an answer.

``src/talk/command_service.py`` has the table of commands.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from aiogram import F, Router
from aiogram.filters import BaseFilter
from aiogram.types import Message, MessageReactionUpdated

from src.base.owners import Called
from src.core import Core
from src.queue.job_repo import MemoryJobRepository
from src.queue.update_repo import UpdateOutcome, WaitingUpdate
from src.talk.command_service import COMMANDS, Command, parse_command
from src.talk.settings import asks_for_zone
from src.talk.turn import Teaching, TurnControl
from src.telegram.chats import ChatAdmins
from src.telegram.delivery import Address, Delivery
from src.telegram.keyboards import show_reply
from src.telegram.messages import TurnHandler
from src.telegram.updates import BotIdentity
from src.texts import Language, choose_language


class IsCommand(BaseFilter):
    """A command for this bot; it is handed to the handler as ``command``."""

    async def __call__(self, message: Message, identity: BotIdentity) -> bool | dict[str, Command]:
        """Read the command the same way as the receiver did."""
        command = parse_command(message.text or "")
        if command is None or not command.is_for(identity.username):
            return False
        return {"command": command}


class IsTeaching(BaseFilter):
    """A command that is a message to remember; its text is handed on as ``taught``."""

    async def __call__(self, message: Message, command: Command) -> bool | dict[str, str]:
        """Take what stands after it, or one's own message to which it replies."""
        entry = COMMANDS.get(command.name)
        if entry is None or not entry.teaches:
            return False
        text = command.argument or _own_text(message)
        return {"taught": text} if text else False


def build_router() -> Router:
    """The router of the commands."""
    router = Router(name="commands")
    router.message.register(teach, F.text, IsCommand(), IsTeaching())
    router.message.register(run_command, F.text, IsCommand())
    return router


def called_by(stored: WaitingUpdate, language: Language, core: Core) -> Called:
    """Who calls, as the services take it."""
    return Called(
        stored.owner,
        language,
        datetime.now(UTC),
        stored.time_zone or core.settings.timezone,
        member=stored.user_id,
    )


async def teach(
    message: Message,
    stored: WaitingUpdate,
    language: Language,
    taught: str,
    control: TurnControl,
    turn_handler: TurnHandler,
) -> UpdateOutcome:
    """Remember a text as it stands; a turn without a model."""
    incoming = turn_handler.incoming(message, taught, stored, language)
    return await turn_handler.run(replace(incoming, teaching=Teaching()), stored, control)


async def run_command(
    _message: Message,
    stored: WaitingUpdate,
    language: Language,
    command: Command,
    turn_handler: TurnHandler,
    core: Core,
    admins: ChatAdmins,
) -> UpdateOutcome:
    """Run a command and say what came of it."""
    entry = COMMANDS.get(command.name)
    called = replace(called_by(stored, language, core), argument=command.argument)
    if entry is not None and entry.is_for_admins:
        called = replace(called, is_admin=await admins.is_admin(stored))
    reply = await core.commands.run(command.name, called)
    if entry is not None and entry.deletes_messages:  # which a job reads for facts
        await core.client.run(MemoryJobRepository(core.client).defer_indexing)
    await show_reply(turn_handler.delivery, Address(*stored.owner), reply)
    return "done"


def _own_text(message: Message) -> str:
    """The text of the message to which one replies, if it is one's own words."""
    answered = message.reply_to_message
    is_own = (
        answered is not None
        and answered.from_user is not None
        and message.from_user is not None
        and answered.from_user.id == message.from_user.id
        and answered.forward_origin is None
    )
    return ((answered.text or "") if answered and is_own else "").strip()


class AnswersZoneQuestion(BaseFilter):
    """A reply to that question of ours, in words or with a place."""

    async def __call__(self, message: Message, stored: WaitingUpdate) -> bool:
        """Look at what it replies to."""
        asked = message.reply_to_message
        is_ours = asked is not None and asked.from_user is not None
        if asked is None or not is_ours or asked.from_user is None:
            return False
        has_place = message.text is not None or message.location is not None
        return (
            asked.from_user.id == stored.bot_id and has_place and asks_for_zone(asked.text or "")
        )


def build_zone_router() -> Router:
    """The router of these answers; it comes before that of messages."""
    router = Router(name="zone")
    router.message.register(take_zone, AnswersZoneQuestion())
    return router


async def take_zone(
    message: Message, stored: WaitingUpdate, language: Language, core: Core, delivery: Delivery
) -> UpdateOutcome:
    """Set the zone that is meant, or ask again."""
    called = called_by(stored, language, core)
    settings = core.commands.settings
    place = message.location
    if place is not None:
        reply = await settings.find_zone_at(called, place.latitude, place.longitude)
    else:
        reply = await settings.find_zone(called, message.text or "")
    await show_reply(delivery, Address(*stored.owner), reply)
    return "explained"


def build_reaction_router() -> Router:
    """The router of reactions; only dislikes are stored (``updates.classify``)."""
    router = Router(name="reactions")
    router.message_reaction.register(take_dislike)
    return router


async def take_dislike(
    reaction: MessageReactionUpdated, stored: WaitingUpdate, core: Core, delivery: Delivery
) -> UpdateOutcome:
    """Show what the answer cited, with a button for each; say nothing where it cited nothing."""
    user = reaction.user
    language = choose_language(stored.language, user.language_code if user else None)
    called = called_by(stored, language, core)
    reply = await core.commands.memory.offer_to_forget(called, reaction.message_id)
    if reply is None:
        return "ignored"
    await show_reply(delivery, Address(*stored.owner), reply)
    return "done"
