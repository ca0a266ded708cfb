"""A ``Reply`` of the services as Telegram shows it."""

from __future__ import annotations

from contextlib import ExitStack

from aiogram.types import ForceReply

from src.services.reply import Reply
from src.telegram.delivery import Address, Delivery
from src.telegram.keyboards import build_keyboard


async def show_reply(
    delivery: Delivery, address: Address, reply: Reply, *, replacing: int | None = None
) -> None:
    """Send a reply, or let it take the place of the message ``replacing``.

    Raises:
        DeliveryError: It did not arrive; worth another try.
        ChatUnavailableError: Nothing can be sent to this chat.
    """
    with ExitStack() as files:
        for file in reply.files:
            files.enter_context(file.content)
        await _show_text(delivery, address, reply, replacing)
        for file in reply.files:
            await delivery.send_file(address, file)


async def _show_text(
    delivery: Delivery, address: Address, reply: Reply, replacing: int | None
) -> None:
    if reply.asks or reply.corrects is not None:
        await delivery.send_text(address, reply.text, keyboard=ForceReply(selective=True))
        return
    keyboard = build_keyboard(reply.rows)
    if replacing is None:
        await delivery.send_text(address, reply.hinted, keyboard=keyboard)
    else:
        await delivery.show_screen(address, replacing, reply.hinted, keyboard=keyboard)
