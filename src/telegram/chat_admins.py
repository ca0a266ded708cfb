"""Who may do what concerns all of a group."""

from __future__ import annotations

from aiogram import Bot
from aiogram.enums import ChatMemberStatus
from aiogram.exceptions import AiogramError, TelegramBadRequest, TelegramForbiddenError

from src.storage.update_repo import WaitingUpdate
from src.telegram.errors import delivery_error
from src.telegram.updates import GROUP_ANONYMOUS_BOT

ADMINS = frozenset({ChatMemberStatus.CREATOR, ChatMemberStatus.ADMINISTRATOR})
TIMEOUT = 15  # seconds


class ChatAdmins:
    """Asks Telegram each time: rights change, and it is asked seldom."""

    def __init__(self, bot: Bot) -> None:
        """Ask through ``bot``."""
        self._bot = bot

    async def is_admin(self, stored: WaitingUpdate) -> bool:
        """Whether the sender of an update is an admin of its chat; in a private chat he is.

        An anonymous admin writes through one of Telegram's bots.

        Raises:
            DeliveryError: Telegram cannot be asked; worth another try.
        """
        if not stored.owner.is_group or stored.user_id == GROUP_ANONYMOUS_BOT:
            return True
        try:
            member = await self._bot.get_chat_member(
                stored.owner.telegram_user_id, stored.user_id or 0, request_timeout=TIMEOUT
            )
        except (TelegramBadRequest, TelegramForbiddenError):
            return False
        except AiogramError as error:
            raise delivery_error(error) from error
        return member.status in ADMINS
