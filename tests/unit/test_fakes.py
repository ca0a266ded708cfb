"""The fake Telegram refuses what the real one refuses, so that no test passes with it wrongly."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import (
    TelegramBadRequest,
)
from aiogram.types import (
    BotCommand,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    InputRichMessage,
    MessageEntity,
    ReplyParameters,
)

from tests.fakes.telegram_server import FakeTelegram

USER = 7_000_000_001
GROUP = -1_001_234_567_890


@pytest.fixture
async def fake() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram() as server:
        yield server


@pytest.fixture
async def bot(fake: FakeTelegram) -> AsyncIterator[Bot]:
    session = AiohttpSession(api=TelegramAPIServer.from_base(fake.url), timeout=5)
    yield Bot(fake.token, session=session)
    await session.close()


async def test_offset_confirms_older_updates(fake: FakeTelegram, bot: Bot) -> None:
    ids = [fake.update_id_of(await fake.send_text(USER, str(number))) for number in range(4)]

    assert [update.update_id for update in await bot.get_updates(limit=2)] == ids[:2]
    assert [update.update_id for update in await bot.get_updates()] == ids
    assert [update.update_id for update in await bot.get_updates(offset=ids[2])] == ids[2:]
    assert len(fake.pending_updates) == 2 and fake.confirmed_offset == ids[2]
    await fake.wait_confirmed(ids[1], timeout=10)
    assert [update.update_id for update in await bot.get_updates(offset=-1)] == ids[3:]
    with pytest.raises(AssertionError, match="confirmation of update"):
        await fake.wait_confirmed(ids[3], timeout=0.01)


async def test_sent_messages_are_recorded_with_their_edits(fake: FakeTelegram, bot: Bot) -> None:
    question = await fake.send_text(USER, "как дела?")
    shown: list[str] = []
    fake.state.on_shown = lambda message: shown.append(message.text)
    bold = [MessageEntity(type="bold", offset=0, length=2)]
    reply = ReplyParameters(message_id=question)
    sent = await bot.send_message(USER, "[1]", entities=bold, reply_parameters=reply)
    await bot.edit_message_text("раз", chat_id=USER, message_id=sent.message_id)
    with pytest.raises(TelegramBadRequest, match="message is not modified: specified new"):
        await bot.edit_message_text("раз", chat_id=USER, message_id=sent.message_id)
    with pytest.raises(TelegramBadRequest, match="message to edit not found"):
        await bot.edit_message_text("раз", chat_id=USER, message_id=999)
    with pytest.raises(TelegramBadRequest, match="message can't be edited"):
        await bot.edit_message_text("раз", chat_id=USER, message_id=question)
    with pytest.raises(TelegramBadRequest, match="message to be replied not found"):
        await bot.send_message(USER, "x", reply_parameters=ReplyParameters(message_id=999))

    [message] = await fake.wait_sent(USER, 1, timeout=10)
    assert (message.text, message.edits, message.reply_to) == ("раз", ["раз"], question)
    assert shown == ["[1]", "раз"]
    assert fake.calls_of("sendMessage")[0].params["text"] == "[1]"
    assert [call.ok for call in fake.calls_of("editMessageText")] == [True, False, False, False]
    await bot.delete_message(USER, sent.message_id)
    assert message.deleted


@pytest.mark.parametrize(("text", "entity", "error"), [
    (" ", None, "message text is empty"), ("😀" * 2049, None, "message is too long"),
    ("😀ab", (2, 3), "can't parse entities: entity ends after the end"),
    ("😀ab", (1, 2), "can't parse entities: entity begins in the middle"),
    ("a😀b", (0, 2), "can't parse entities: entity ends in the middle"),
])  # fmt: skip
async def test_telegram_s_checks_of_text_and_entities_hold(
    bot: Bot, text: str, entity: tuple[int, int] | None, error: str
) -> None:
    entities = [MessageEntity(type="bold", offset=entity[0], length=entity[1])] if entity else None
    with pytest.raises(TelegramBadRequest, match=error):
        await bot.send_message(USER, text, entities=entities)


async def test_long_callback_data_and_bad_commands_are_refused(
    fake: FakeTelegram, bot: Bot
) -> None:
    button = InlineKeyboardButton(text="да", callback_data="я" * 33)
    with pytest.raises(TelegramBadRequest, match="BUTTON_DATA_INVALID"):
        await bot.send_message(
            USER, "x", reply_markup=InlineKeyboardMarkup(inline_keyboard=[[button]])
        )
    with pytest.raises(TelegramBadRequest, match="BOT_COMMAND_INVALID"):
        await bot.set_my_commands([BotCommand(command="новый", description="x")])
    await bot.set_my_commands(
        [BotCommand(command="/new", description="Новый")], language_code="ru"
    )
    assert fake.commands["default", "ru"] == [{"command": "new", "description": "Новый"}]
    assert (await bot.get_my_commands(language_code="ru"))[0].command == "new"
    await bot.set_my_description("о боте")
    assert (await bot.get_my_description()).description == "о боте"


async def test_drafts_are_private_and_end_with_the_message(fake: FakeTelegram, bot: Bot) -> None:
    for text in ("", "при", "привет"):
        assert await bot.send_message_draft(USER, draft_id=1, text=text) is True
    assert [draft.text for draft in fake.visible_drafts(USER)] == ["привет"]
    await bot.send_message(USER, "привет!")
    assert fake.visible_drafts(USER) == [] and len(fake.drafts) == 3
    with pytest.raises(TelegramBadRequest, match="TEXTDRAFT_PEER_INVALID"):
        await bot.send_message_draft(GROUP, draft_id=1, text="x")
    with pytest.raises(TelegramBadRequest, match="draft_id"):
        await bot.send_message_draft(USER, draft_id=0, text="x")
    rich = await bot.send_rich_message(USER, InputRichMessage(markdown="# да"))
    assert fake.sent[-1].text == "# да" and rich.rich_message
