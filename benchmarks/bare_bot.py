"""Bare handler to compare Pomni with: aiogram and the same model, without storage."""

from __future__ import annotations

import asyncio
import os

from aiogram import Bot, Dispatcher, F
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.types import Message
from langchain_openai import ChatOpenAI


def connect() -> tuple[Bot, ChatOpenAI]:
    """Return the bot and the model, connected to the fakes named by the environment."""
    api = TelegramAPIServer.from_base(os.environ["TELEGRAM_API_BASE"])
    bot = Bot(os.environ["TELEGRAM_BOT_TOKEN"], session=AiohttpSession(api=api))
    model = ChatOpenAI(
        model="bench",
        base_url=os.environ["OPENAI_BASE_URL"],
        api_key=os.environ["OPENAI_API_KEY"],
        stream_usage=True,
    )
    return bot, model


async def main() -> None:
    """Poll for messages and answer them."""
    bot, model = connect()
    dispatcher = Dispatcher()

    @dispatcher.message(F.text)
    async def answer(message: Message) -> None:
        text = "".join([str(piece.text) async for piece in model.astream(message.text)])
        await message.answer(text)

    await dispatcher.start_polling(bot)


if __name__ == "__main__":
    asyncio.run(main())
