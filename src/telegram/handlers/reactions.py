"""A 👎 on an answer that rests on memories: offer to forget them."""

from __future__ import annotations

from aiogram import Router
from aiogram.types import MessageReactionUpdated

from src.application import Core
from src.storage.update_repo import UpdateOutcome, WaitingUpdate
from src.telegram.delivery import Address, Delivery
from src.telegram.handlers.commands import called_by
from src.telegram.replies import show_reply
from src.texts import choose_language


def build_router() -> Router:
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
