"""Imports in Telegram: files that come with /import or after it, and the growing progress."""

from dataclasses import replace
from io import BytesIO
from typing import BinaryIO, cast

from aiogram import types

from src.base.errors import DocumentError
from src.base.owners import Caller
from src.core import Core
from src.imports.import_repo import Import
from src.imports.lists import is_list
from src.imports.records import Opened
from src.media.document_reader import MAX_BYTES
from src.queue.update_repo import WaitingUpdate
from src.telegram.buttons import build_keyboard
from src.telegram.delivery import Address, Delivery
from src.telegram.incoming import fetch_file
from src.telegram.rendering import Part
from src.telegram.requests import best_effort
from src.telegram.updates import asked_by_bot
from src.texts import say
from src.texts.reply import Reply


def find_document(message: types.Message) -> types.Document | None:
    """Return the document of a message, else that of the message to which it replies."""
    if message.document is not None:
        return message.document
    answered = message.reply_to_message
    return answered.document if answered is not None else None


def brings_import(message: types.Message, stored: WaitingUpdate) -> bool:
    """Return True for what comes after /import: a reply to its question, else a file or a list."""
    if message.document is None and not message.text:
        return False
    if asked_by_bot(stored).get("asks") == "import":
        return True
    if stored.asked_before != "import" or message.reply_to_message is not None:
        return False
    text = message.text or ""
    return message.document is not None or is_list(text) or text.count("\n") > 1


async def read_import(
    core: Core, delivery: Delivery, message: types.Message, caller: Caller
) -> Reply:
    """Read the file or the list of a message; return what it holds, with the choices.

    Raises:
        DeliveryError: Telegram cannot be reached; worth a retry.
    """
    screens, document = core.commands.imports, find_document(message)
    if document is None:
        return await screens.command(caller.with_argument(message.text or ""))
    if (document.file_size or 0) > MAX_BYTES:
        return screens.refuse_large(caller.language)
    try:
        data = await fetch_file(delivery.bot, document.file_id)
    except DocumentError as error:
        if error.text_key == "error_document_too_large":
            return screens.refuse_large(caller.language)
        return Reply(say(error.text_key, caller.language))
    file = Opened(document.file_name or "file", lambda: cast("BinaryIO", BytesIO(data)))
    return await screens.read(caller, file)


class ImportProgress:
    """Progress of imports, shown by edits of the message with their choices."""

    def __init__(self, core: Core, delivery: Delivery) -> None:
        """Edit through ``delivery``."""
        self._core, self._delivery = core, delivery

    async def show(self, import_: Import) -> None:
        """Show an import as it is now; what Telegram refuses is left as it is."""
        chat_id, thread_id, message_id = import_.shown_in
        if chat_id is None or message_id is None:
            return
        core, run = self._core, self._core.client.run
        chosen = await run(core.user_settings.get, import_.owner.telegram_user_id)
        caller = core.caller(import_.owner, chosen, import_.language)
        caller = caller.with_preferences(language=import_.language)
        found = await run(core.imports.rows.find, import_.owner, import_.id)
        reply = Reply(say("import_undone", caller.language, name=import_.title))
        if found is not None:
            reply = await core.commands.imports.screen(caller, found)
        part = replace(Part(reply.text, []), keyboard=build_keyboard(reply.rows))
        await best_effort(self._delivery.edit_once(Address(chat_id, thread_id), message_id, part))
