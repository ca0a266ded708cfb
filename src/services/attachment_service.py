"""Attachments as words: speech is written down, pictures are described, documents are read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from src.errors import (
    AppError,
    DocumentBrokenError,
    DocumentTooLargeError,
    ModelError,
    PostponedError,
    TransientError,
)
from src.llm.chat import ModelCaller
from src.llm.model_usage import ModelUsage
from src.llm.prompts.picture import MAX_DESCRIPTION, picture_messages
from src.llm.transcription import Transcriber
from src.media.attachments import MAX_PICTURE, Attachment, Enclosed, picture_type
from src.media.document_reader import MAX_BYTES, DocumentReader
from src.services.daily_ceilings import DailyCeilings
from src.storage.pg_client import PgClient
from src.storage.turn_repo import TurnRepository
from src.texts import Language, say

logger = logging.getLogger(__name__)

AT_ONCE = 4  # attachments, of at most MAX_BYTES each
MAX_DOCUMENT = 20_000  # characters of a document that a message keeps, some 6,000 tokens
LANGUAGE_NAMES = {"ru": "Russian", "uk": "Ukrainian", "en": "English"}
Fetch = Callable[[], Awaitable[bytes]]


@dataclass(frozen=True)
class Heard:
    """What an attachment says.

    Attributes:
        spoken: The user's own words, where he spoke them.
        enclosed: Words that are not his own: a document's, or what a picture shows.
        problem: The sentence for the user, where it could not be had.
    """

    spoken: str = ""
    enclosed: Enclosed | None = None
    problem: str = ""


class AttachmentService:
    """Turns attachments into words, a few at a time."""

    def __init__(
        self,
        client: PgClient,
        ceilings: DailyCeilings,
        *,
        transcriber: Transcriber | None,
        vision: ModelCaller | None,
        reader: DocumentReader | None = None,
    ) -> None:
        """Without ``transcriber`` or ``vision`` the user is told what is missing."""
        self._client = client
        self._turns = TurnRepository(client)
        self._ceilings = ceilings
        self._transcriber = transcriber
        self._vision = vision
        self._reader = reader or DocumentReader()
        self._places = asyncio.Semaphore(AT_ONCE)

    async def read(
        self,
        attachment: Attachment,
        fetch: Fetch,
        *,
        caption: str,
        language: Language,
        conversation_id: UUID,
    ) -> Heard:
        """What an attachment says, or why that cannot be had.

        Args:
            attachment: What it is.
            fetch: Brings its bytes; raises ``AppError``.
            caption: What the user wrote with it.
            language: Of the sentences, and of a description without a caption.
            conversation_id: Whose owner pays.

        Raises:
            TransientError: Worth another try.
        """
        if problem := self._hopeless(attachment, language):
            return Heard(problem=problem)
        async with self._places:
            try:
                await self._ceilings.check_background(conversation_id)
            except PostponedError:
                return Heard(problem=say("attachment_limit", language))
            try:
                data = await fetch()
                if len(data) > MAX_BYTES:
                    raise DocumentTooLargeError("more bytes than Telegram said")
                if attachment.kind == "document" and picture_type(data) is None:
                    return await self._read_document(data, attachment, language)
                if attachment.kind == "sound":
                    return await self._listen(data, attachment, language)
                work = partial(self._look, data, caption, language)
                return await self._paid(work, conversation_id)
            except TransientError:
                raise
            except AppError as error:
                logger.info(
                    "an attachment could not be read",
                    extra={"kind": attachment.kind, "error": type(error).__name__},
                )
                return Heard(problem=_sentence(error, attachment, language))

    def _hopeless(self, attachment: Attachment, language: Language) -> str:
        """Why it need not be fetched."""
        if attachment.size > MAX_BYTES:
            return say(DocumentTooLargeError.text_key, language)
        if attachment.kind == "sound" and self._transcriber is None:
            return say("sound_unheard", language)
        if attachment.kind == "picture" and self._vision is None:
            return say("picture_unseen", language)
        return ""

    async def _listen(self, data: bytes, attachment: Attachment, language: Language) -> Heard:
        assert self._transcriber is not None
        text = await self._transcriber.transcribe(data, attachment.name)
        return Heard(spoken=text) if text else Heard(problem=say("sound_silent", language))

    async def _look(
        self,
        data: bytes,
        caption: str,
        language: Language,
        on_usage: Callable[[ModelUsage], None],
    ) -> Heard:
        mime_type = picture_type(data)
        if mime_type is None:
            raise DocumentBrokenError("it is no picture that a model sees")
        if self._vision is None:
            return Heard(problem=say("picture_unseen", language))
        if len(data) > MAX_PICTURE:
            raise DocumentTooLargeError("the picture is too large for a model")
        messages = picture_messages(
            data, mime_type, asked=caption, language=LANGUAGE_NAMES[language]
        )
        text = await self._vision.text(messages, purpose="picture", on_usage=on_usage)
        if not text:
            return Heard(problem=say("picture_unseen", language))
        return Heard(enclosed=Enclosed(say("picture_name", language), text[:MAX_DESCRIPTION]))

    async def _read_document(
        self, data: bytes, attachment: Attachment, language: Language
    ) -> Heard:
        found = await self._reader.read(data, file_name=attachment.name)
        text = found.text[:MAX_DOCUMENT]
        is_cut = found.is_cut or len(found.text) > MAX_DOCUMENT
        problem = say("document_cut", language, count=len(text)) if is_cut else ""
        return Heard(enclosed=Enclosed(attachment.name, text), problem=problem)

    async def _paid(
        self,
        work: Callable[[Callable[[ModelUsage], None]], Awaitable[Heard]],
        conversation_id: UUID,
    ) -> Heard:
        """Make a call whose tokens are recorded, whatever comes of it."""
        usage: list[ModelUsage] = []
        try:
            return await work(usage.append)
        finally:
            await self._client.run(self._turns.add_usage, conversation_id, tuple(usage))


def _sentence(error: AppError, attachment: Attachment, language: Language) -> str:
    """What the user is told; a model may simply not take pictures, or sounds."""
    if isinstance(error, ModelError):
        key = "sound_unheard" if attachment.kind == "sound" else "picture_unseen"
        return say(key, language)
    return say(error.text_key, language)
