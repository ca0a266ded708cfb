"""Setup of aiogram: bot, dispatcher, commands, webhook."""

import asyncio
import logging
from typing import Any

from aiogram import Bot, Dispatcher, exceptions, types
from aiogram.client.telegram import TelegramAPIServer

from src.base.config import Settings
from src.base.errors import ConfigError, DeliveryError, describe_outage
from src.base.metrics import Metrics
from src.core import Core
from src.talk.commands import COMMANDS, Features, Place, offered
from src.telegram.delivery import Delivery
from src.telegram.handlers import Handlers
from src.telegram.receiver import UNKNOWN_TOKEN
from src.telegram.requests import TelegramSession, ThrottleMiddleware
from src.telegram.updates import ALLOWED_UPDATES, BotIdentity
from src.texts import LANGUAGES, say

logger = logging.getLogger(__name__)

# Menus of commands: their scope, the place, and whether its users are admins there.
MENUS: tuple[tuple[types.BotCommandScopeUnion | None, Place, bool], ...] = (
    (None, "private", True),
    (types.BotCommandScopeAllGroupChats(), "group", False),
    (types.BotCommandScopeAllChatAdministrators(), "group", True),
)
FIRST_PAUSE, MAX_PAUSE = 1.0, 300.0  # seconds between attempts to configure Telegram
MENU_LABEL = "Pomni"  # Telegram has one label for all users, so it is not translated


def build_bot(settings: Settings, metrics: Metrics) -> Bot:
    """Create the bot of the token on the configured Bot API server."""
    if settings.telegram_bot_token is None:
        raise ConfigError(["TELEGRAM_BOT_TOKEN: it is missing. Get one from @BotFather"])
    address = settings.telegram_api_base
    session = TelegramSession(
        settings.telegram_proxy_to(address), api=TelegramAPIServer.from_base(address)
    )
    session.middleware(ThrottleMiddleware(settings.telegram_rate_limit, metrics))
    return Bot(settings.telegram_bot_token.get_secret_value(), session=session)


def build_dispatcher(core: Core, delivery: Delivery, identity: BotIdentity) -> Dispatcher:
    """Create the dispatcher with all handlers, which reply through ``delivery``."""
    dispatcher = Dispatcher(disable_fsm=True)
    Handlers(core, delivery, identity).register(dispatcher)
    return dispatcher


async def get_identity(bot: Bot) -> BotIdentity:
    """Ask Telegram for the bot's identity.

    Raises:
        ConfigError: The token is wrong.
        DeliveryError: Telegram cannot be reached.
    """
    try:
        me = await bot.get_me()
    except exceptions.TelegramUnauthorizedError as error:
        raise ConfigError([UNKNOWN_TOKEN]) from error
    except exceptions.AiogramError as error:
        raise DeliveryError(f"Telegram did not answer getMe ({describe_outage(error)})") from error
    return BotIdentity(
        me.id, me.username or "", me.first_name, reads_all=bool(me.can_read_all_group_messages)
    )


async def configure_telegram(bot: Bot, settings: Settings) -> None:
    """Set or delete the webhook, and set the commands in each language and the menu button.

    Raises:
        AiogramError: Telegram refused or cannot be reached.
    """
    if settings.telegram_webhook_url and settings.telegram_webhook_secret:
        await bot.set_webhook(
            settings.telegram_webhook_url,
            secret_token=settings.telegram_webhook_secret.get_secret_value(),
            allowed_updates=ALLOWED_UPDATES,
        )
    else:
        await bot.delete_webhook(drop_pending_updates=False)
    features = Features.of(settings)
    for language in LANGUAGES:
        code = None if language == "en" else language  # English is the default
        for scope, place, is_admin in MENUS:
            menu = {
                entry.name: say(f"command_{entry.name}", language)
                for entry in offered(COMMANDS.values(), features, place, is_admin=is_admin)
            }
            fields: dict[str, Any] = {"scope": scope, "language_code": code}
            shown = await bot.get_my_commands(**fields)
            # Telegram takes few changes at a time, so what stands there is not set again.
            if [(one.command, one.description) for one in shown] != list(menu.items()):
                commands = [
                    types.BotCommand(command=name, description=description)
                    for name, description in menu.items()
                ]
                await bot.set_my_commands(commands, **fields)
    await _set_menu_button(bot, settings.app_url)


async def configure_until_done(bot: Bot, settings: Settings) -> None:
    """Run ``configure_telegram`` until Telegram takes it; a 429 waits as long as it says."""
    pause = FIRST_PAUSE
    while True:
        try:
            return await configure_telegram(bot, settings)
        except exceptions.AiogramError as error:
            logger.warning("Telegram did not take the commands or webhook", exc_info=error)
            wait = pause
            if isinstance(error, exceptions.TelegramRetryAfter):
                wait = max(pause, error.retry_after)
        await asyncio.sleep(wait)
        pause = min(MAX_PAUSE, pause * 2)


async def _set_menu_button(bot: Bot, app_url: str | None) -> None:
    """Without an app, reset only a button of our own."""
    if app_url is not None:
        button = types.MenuButtonWebApp(text=MENU_LABEL, web_app=types.WebAppInfo(url=app_url))
        await bot.set_chat_menu_button(menu_button=button)
        return
    current = await bot.get_chat_menu_button()
    if isinstance(current, types.MenuButtonWebApp) and current.text == MENU_LABEL:
        default = types.MenuButtonDefault()
        await bot.set_chat_menu_button(menu_button=default)
