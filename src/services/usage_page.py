"""``/usage``: what one wrote and spent, and what is left."""

from __future__ import annotations

from src.services.called import Called
from src.services.daily_ceilings import DailyCeilings
from src.services.reply import Reply
from src.storage.global_settings_repo import GlobalSettingsRepository
from src.storage.pg_client import PgClient
from src.texts import say


class UsagePage:
    """Shows a user his own figures; in a group, the group's tokens and his own messages."""

    def __init__(
        self, ceilings: DailyCeilings, settings: GlobalSettingsRepository, client: PgClient
    ) -> None:
        """The figures come from ``ceilings``, the limits from ``settings``."""
        self._ceilings = ceilings
        self._settings = settings
        self._client = client

    async def page(self, called: Called) -> Reply:
        """Messages and tokens of today, tokens of thirty days, and the limits that there are."""
        settings = await self._client.run(self._settings.get)
        owner = called.owner.telegram_user_id
        spent = await self._ceilings.sum_spent(called.member or owner, owner)
        language = called.language
        lines = [say("usage_title", language)]
        if settings.daily_messages_per_user:
            limit = settings.daily_messages_per_user
            lines.append(say("usage_messages", language, count=spent.messages, limit=limit))
        lines.append(say("usage_tokens", language, count=_grouped(spent.tokens)))
        lines.append(say("usage_month", language, count=_grouped(spent.tokens_in_month)))
        if settings.daily_tokens_per_user:
            limit_text = _grouped(settings.daily_tokens_per_user)
            lines.append(say("usage_token_limit", language, limit=limit_text))
        if settings.messages_per_minute_per_user:
            limit = settings.messages_per_minute_per_user
            lines.append(say("usage_minute", language, limit=limit))
        has_limits = settings.daily_messages_per_user or settings.daily_tokens_per_user
        if not has_limits and not settings.messages_per_minute_per_user:
            lines.append(say("usage_unlimited", language))
        return Reply("\n".join(lines))


def _grouped(number: int) -> str:
    """With narrow spaces between thousands, as all three languages read them."""
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")
