"""Speech to text, by any endpoint that speaks OpenAI's ``/audio/transcriptions``."""

from __future__ import annotations

from openai import AsyncOpenAI

from src.config import Settings
from src.errors import ModelReplyError
from src.llm.errors import model_error

MAX_TRANSCRIPT = 20_000  # characters; an hour of talk has some 50,000
TIMEOUT = 120.0  # seconds; minutes of speech take seconds


class Transcriber:
    """Asks one endpoint; it keeps no connection open between two files."""

    def __init__(self, model: str, *, base_url: str | None, key: str) -> None:
        """Ask ``model`` at ``base_url``, by default OpenAI's."""
        self._model = model
        self._base_url = base_url
        self._key = key

    async def transcribe(self, sound: bytes, file_name: str) -> str:
        """What is said in a file; empty when nothing is.

        Args:
            sound: The file: ogg, mp3, m4a, mp4, wav, webm.
            file_name: With the ending that tells which.

        Raises:
            ModelUnavailableError: Worth another try.
            ModelError: The endpoint refused the file, or us.
        """
        try:
            async with AsyncOpenAI(
                api_key=self._key, base_url=self._base_url, max_retries=0, timeout=TIMEOUT
            ) as client:
                reply = await client.audio.transcriptions.create(
                    file=(file_name, sound), model=self._model
                )
        except Exception as error:
            raise model_error(error) from error
        text = getattr(reply, "text", None)
        if not isinstance(text, str):
            raise ModelReplyError("the transcription has no text")
        return text.strip()[:MAX_TRANSCRIPT]


def build_transcriber(settings: Settings) -> Transcriber | None:
    """The one that the settings ask for; None when they ask for none."""
    if settings.transcription_model is None:
        return None
    key = settings.transcription_api_key or settings.openai_api_key
    return Transcriber(
        settings.transcription_model.removeprefix("openai:"),
        base_url=settings.transcription_base_url or settings.openai_base_url,
        key=key.get_secret_value() if key else "none",
    )
