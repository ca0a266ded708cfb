"""A group became a supergroup: its memory goes along, and the operator learns the new id."""

from __future__ import annotations

import logging

from src.application import Core

logger = logging.getLogger(__name__)


async def move_group(core: Core, old_chat_id: int, new_chat_id: int) -> None:
    """Hand the old chat's memory to the new one; it may have been done before.

    Who may use the bot is the operator's decision, so a new id is never allowed by itself.

    Raises:
        StorageError: The database is away; nothing has moved.
    """
    moved = await core.client.run(core.conversations.migrate_owner, old_chat_id, new_chat_id)
    chats = {"chat": old_chat_id, "new_chat": new_chat_id}
    logger.info("a group became a supergroup", extra={**chats, "conversations": moved})
    allowed = core.settings.allowed_user_ids
    if old_chat_id in allowed and new_chat_id not in allowed:
        logger.warning(
            "ALLOWED_USER_IDS names a group by an id that it has no more; its members are "
            "strangers until the new id stands there",
            extra=chats,
        )
