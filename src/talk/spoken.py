"""Language of the bot's sentences: chosen, else that of the last messages of some length."""

from dataclasses import dataclass, replace

from src.base.owners import Owner, Preferences
from src.pg.client import PgClient
from src.pg.user_settings_repo import UserSettingsRepository
from src.talk.turn_state import Turn
from src.texts import CYRILLIC, FALLBACK, clear_language, detect_language
from src.texts.morphology import dictionary_language


@dataclass(eq=False, repr=False)
class SpokenLanguages:
    """Follows the languages that owners speak; the time zone stays."""

    _client: PgClient

    async def hear(self, turn: Turn) -> None:
        """Answer in the language of the message, if it is the sender's own words.

        Raises:
            StorageError: The database is away.
        """
        incoming = turn.incoming
        if incoming.voice.is_own:
            heard = await self.follow(incoming.owner, incoming.preferences, incoming.text)
            caller = replace(incoming.caller, preferences=heard)
            turn.incoming = replace(incoming, caller=caller)

    async def follow(self, owner: Owner, preferences: Preferences, text: str) -> Preferences:
        """Return the preferences with the language of a text, and store it if it is clear.

        A short or mixed text changes nothing, nor does any once the owner has chosen a language.

        Raises:
            StorageError: The database is away.
        """
        if preferences.language_from == "chosen":
            return preferences
        language = clear_language(text, preferences.language)
        if language is None and preferences.language_from == "spoken":
            language = dictionary_language(text)  # a few words turn back what others turned
        is_guess = preferences.language_from == "guessed"
        if language is None:
            if is_guess and preferences.language == FALLBACK and CYRILLIC.search(text.lower()):
                return replace(preferences, language=detect_language(text))
            return preferences
        if is_guess or language != preferences.language:
            store = UserSettingsRepository(self._client).set_spoken
            await self._client.run(store, owner.telegram_user_id, language)
        return replace(preferences, language=language, language_from="spoken")
