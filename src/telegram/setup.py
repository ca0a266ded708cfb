"""The aiogram side of the bot: session, dispatcher, commands, webhook."""

from __future__ import annotations

import logging
from typing import Any

from aiogram import Bot, Dispatcher
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import AiogramError, TelegramUnauthorizedError
from aiogram.types import (
    BotCommand,
    BotCommandScopeAllGroupChats,
    MenuButtonDefault,
    MenuButtonWebApp,
    WebAppInfo,
)

from src.base.config import Settings
from src.base.errors import ConfigError, DeliveryError
from src.base.metrics import Metrics
from src.talk.command_service import COMMANDS
from src.telegram import buttons, chats, commands, messages
from src.telegram.session import LanguageMiddleware, TelegramSession, ThrottleMiddleware
from src.telegram.updates import ALLOWED_UPDATES, BotIdentity
from src.texts import LANGUAGES, say

logger = logging.getLogger(__name__)

STARTUP_TIMEOUT = 15  # seconds for each request at start
MENU_LABEL = "Pomni"  # Telegram has one for everybody, so it is in no language


def build_bot(settings: Settings, metrics: Metrics) -> Bot:
    """The bot of the token, on the Bot API server of the settings."""
    if settings.telegram_bot_token is None:
        raise ConfigError(["TELEGRAM_BOT_TOKEN: it is missing. Get one from @BotFather"])
    session = TelegramSession(api=TelegramAPIServer.from_base(settings.telegram_api_base))
    session.middleware(ThrottleMiddleware(settings.telegram_rate_limit, metrics))
    return Bot(settings.telegram_bot_token.get_secret_value(), session=session)


def build_dispatcher(**dependencies: Any) -> Dispatcher:
    """The dispatcher with all routers; ``dependencies`` reach the handlers by name."""
    dispatcher = Dispatcher(disable_fsm=True, **dependencies)
    for router in (
        chats.build_refusal_router(),
        commands.build_router(),
        buttons.build_router(),
        chats.build_router(),
        commands.build_reaction_router(),
        commands.build_zone_router(),
        messages.build_router(),
    ):
        router.message.middleware(LanguageMiddleware())
        router.edited_message.middleware(LanguageMiddleware())
        router.callback_query.middleware(LanguageMiddleware())
        dispatcher.include_router(router)
    return dispatcher


async def get_identity(bot: Bot) -> BotIdentity:
    """Who we are, from Telegram.

    Raises:
        ConfigError: The token is wrong.
        DeliveryError: Telegram cannot be reached.
    """
    try:
        me = await bot.get_me(request_timeout=STARTUP_TIMEOUT)
    except TelegramUnauthorizedError as error:
        raise ConfigError(
            ["TELEGRAM_BOT_TOKEN: Telegram does not know this token. Copy it from @BotFather"]
        ) from error
    except AiogramError as error:
        raise DeliveryError(f"Telegram did not answer getMe ({type(error).__name__})") from error
    return BotIdentity(
        me.id, me.username or "", me.first_name, reads_all=bool(me.can_read_all_group_messages)
    )


async def describe_bot(settings: Settings) -> str:
    """The bot of the token, as the doctor shows it: ``@name (id)``; raises as ``get_identity``."""
    bot = build_bot(settings, Metrics())
    try:
        identity = await get_identity(bot)
    finally:
        await bot.session.close()
    return f"@{identity.username} ({identity.id})"


async def announce(bot: Bot, settings: Settings) -> None:
    """Tell Telegram how to reach us, show the commands in each language, and the menu button.

    Raises:
        AiogramError: Telegram refused, or cannot be reached.
    """
    if settings.telegram_webhook_url and settings.telegram_webhook_secret:
        await bot.set_webhook(
            settings.telegram_webhook_url,
            secret_token=settings.telegram_webhook_secret.get_secret_value(),
            allowed_updates=ALLOWED_UPDATES,
            request_timeout=STARTUP_TIMEOUT,
        )
    else:
        await bot.delete_webhook(drop_pending_updates=False, request_timeout=STARTUP_TIMEOUT)
    for language in LANGUAGES:
        code = None if language == "en" else language  # English is everybody else's
        for scope in (None, BotCommandScopeAllGroupChats()):
            menu = [
                BotCommand(command=entry.name, description=say(f"command_{entry.name}", language))
                for entry in COMMANDS.values()
                if scope is None or entry.is_for_groups
            ]
            await bot.set_my_commands(
                menu, scope=scope, language_code=code, request_timeout=STARTUP_TIMEOUT
            )
    await _show_menu_button(bot, settings.app_url)


async def _show_menu_button(bot: Bot, app_url: str | None) -> None:
    """Let the button beside the text field open the page; without one take away ours alone."""
    if app_url is not None:
        button = MenuButtonWebApp(text=MENU_LABEL, web_app=WebAppInfo(url=app_url))
        await bot.set_chat_menu_button(menu_button=button, request_timeout=STARTUP_TIMEOUT)
        return
    shown = await bot.get_chat_menu_button(request_timeout=STARTUP_TIMEOUT)
    if isinstance(shown, MenuButtonWebApp) and shown.text == MENU_LABEL:
        usual = MenuButtonDefault()
        await bot.set_chat_menu_button(menu_button=usual, request_timeout=STARTUP_TIMEOUT)
