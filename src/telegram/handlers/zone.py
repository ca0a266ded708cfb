"""The answer to our question for a time zone: a city, an offset, or a location."""

from __future__ import annotations

from aiogram import Router
from aiogram.filters import BaseFilter
from aiogram.types import Message

from src.application import Core
from src.services.settings_screens import asks_for_zone
from src.storage.update_repo import UpdateOutcome, WaitingUpdate
from src.telegram.delivery import Address, Delivery
from src.telegram.handlers.commands import called_by
from src.telegram.replies import show_reply
from src.texts import Language


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


def build_router() -> Router:
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
