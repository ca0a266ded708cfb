"""Indexing of messages: terms in the transaction, vectors in batches afterwards."""

import logging
import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from uuid import UUID

from src.base import errors
from src.memory import search_index_repo as index
from src.memory.digest_repo import DigestState, ExtractionRepository
from src.memory.embedding_space import EmbeddingSpace, ServingSpace
from src.pg.client import PgClient
from src.reading import gate, sentences
from src.texts.morphology import terms

logger = logging.getLogger(__name__)


TALK_GAP = timedelta(hours=6)  # a longer silence ends a talk
INDEX_BATCH = 200  # messages of one transaction
EMBED_BATCH = 64  # documents of one request to the embedder
REEMBED_BATCHES = 20  # batches of one job, so that other jobs get their turn
PROBE = "Проверка связи, connection check"  # a text that no embedder refuses
# Characters of the previous message that are embedded with a message. The previous one is often a
# long answer of the bot, which must not crowd out the message itself.
MAX_BEFORE = 100
MIN_BEFORE = 80  # characters of an answer; "Noted." and the like say nothing about what follows
MAX_PLEASANTRY = 60
MAX_WHOLE = 1400  # characters of a message in its first vector; the model reads 1,500
PASSAGE = 800  # approximate characters of each further vector
MAX_PASSAGES = 7
SENTENCE_ENDS = ("\n", ". ", "! ", "? ")


@dataclass(eq=False, repr=False)
class Indexer:
    """Service that fills the search index from stored messages.

    Vectors are computed in ``space``.
    """

    _client: PgClient
    space: ServingSpace

    def __post_init__(self) -> None:
        """Build the repositories on the client."""
        self._states = ExtractionRepository(self._client)
        self._index = index.SearchIndexRepository(self._client)
        self._embeddings = index.EmbeddingRepository(self._client)

    async def index_conversation(self, conversation_id: UUID) -> DigestState | None:
        """Index every new message of a conversation; return its digest state.

        Returns:
            The state; None if the conversation was deleted.

        Raises:
            StorageError: The database is away; what is indexed stays indexed.
        """
        state = await self._client.run(self._states.find_state, conversation_id)
        while state is not None and await self.index_some(state) == INDEX_BATCH:
            pass
        return state

    async def index_some(self, state: DigestState) -> int:
        """Index the oldest new messages of a conversation; return how many.

        The time label is not a term of the message; the time has a column of its own.

        Raises:
            StorageError: The database is away; nothing is indexed.
        """
        return await self._client.run(self._index_some, state)

    def _index_some(self, state: DigestState) -> int:
        messages = self._index.list_unindexed(state.conversation_id, INDEX_BATCH)
        if messages:
            documents, ids = _build_documents(messages), [message.id for message in messages]
            self._index.add_messages(state.owner, state.conversation_id, documents, ids)
        return len(messages)

    async def embed_pending(self, limit: float = math.inf) -> int:
        """Embed documents without a vector of the serving model; return how many.

        Args:
            limit: Number of documents after which no further batch is begun.

        Raises:
            ModelError: The endpoint refuses everything; finished batches stay stored.
            ModelUnavailableError: The endpoint is away, or the local model does not start.
            StorageError: The database is away.
        """
        space = await self.space.current()
        model = await space.model()
        done, is_full = 0, True
        while is_full and done < limit:
            batch = await self._client.run(self._embeddings.list_unembedded, model.id, EMBED_BATCH)
            if batch:
                await self._embed(space, batch)
            done += len(batch)
            is_full = len(batch) == EMBED_BATCH
        return done

    async def change_model(self) -> bool:
        """Give some documents a vector of the wanted model; return True if more may be left.

        Raises:
            TransientError: The database or the endpoint is away.
        """
        space = await self.space.coming()
        if space is None:
            return False
        batches = 0
        try:
            async for done, total in self.reembed(space):
                log = {"model": space.name, "done": done, "documents": total}
                logger.info("embedded anew", extra=log)
                batches += 1
                if batches == REEMBED_BATCHES:
                    return True
        except errors.ModelError as error:
            log = {"model": space.name}
            logger.warning("it embeds nothing: the model before serves", extra=log, exc_info=error)
        return False

    async def reembed(self, space: EmbeddingSpace) -> AsyncIterator[tuple[int, int]]:
        """Embed documents of earlier models with this one; their old vectors serve meanwhile.

        Documents without any vector are left to the serving model.

        Yields:
            After each batch the number of documents that the model has embedded, and of all.

        Raises:
            ModelError: The endpoint refuses everything; finished batches stay stored.
            ModelUnavailableError: The endpoint is away, or the local model does not start.
            StorageError: The database is away.
        """
        model = await space.model()
        await self._client.run(self._embeddings.choose_model, model.id)
        done, total = await self._client.run(self._embeddings.count_embedded, model.name)
        while True:
            batch = await self._client.run(
                self._embeddings.list_unembedded, model.id, EMBED_BATCH, only_embedded=True
            )
            if not batch:
                return
            await self._embed(space, batch)
            done += len(batch)
            yield done, total

    async def _embed(
        self, space: EmbeddingSpace, batch: Sequence[index.UnembeddedDocument]
    ) -> None:
        """Store the vectors of a batch.

        A text that the model refuses keeps none of the others from being found by meaning; until
        the model changes, it is found by its words alone.
        """
        texts = {
            (document.id, start): text
            for document in batch
            for start, text in embedded_texts(document).items()
        }
        vectors: list[str] = []
        try:
            vectors = await space.embed_documents([*texts.values()])
        except errors.ModelSetupError:
            raise
        except (errors.ModelError, errors.BadVectorsError) as error:
            await space.embedder.embed_documents([PROBE])  # raises if no text is to blame
            if len(batch) > 1:
                for document in batch:
                    await self._embed(space, [document])
                return
            texts = {}
            logger.warning("a document is found by words alone", exc_info=error)
        ids = [document.id for document in batch]
        model_id, found = (await space.model()).id, dict(zip(texts, vectors, strict=True))
        await self._client.run(self._embeddings.add_vectors, model_id, found, ids)

    async def delete_unused_vectors(self) -> int:
        """Delete models without documents; return how many.

        Raises:
            ModelError: The current model is not measured, and its endpoint is away.
            StorageError: The database is away.
        """
        model = await self.space.model()
        return await self._client.run(self._embeddings.delete_other_models, model.id)


def _build_documents(messages: Sequence[index.UnindexedMessage]) -> list[index.NewDocument]:
    previous = messages[0].last_said_at
    documents = []
    for message in messages:
        if message.said_at is None or gate.holds_secret(message.text):
            continue  # deleted, or never indexed
        is_continued = continues_talk(previous, message.said_at)
        speaker = message.speaker or message.role
        if speaker.lower() in index.UNNAMED_SPEAKERS:
            speaker = message.role
        document = index.NewDocument(
            "message",
            message.id,
            speaker,
            message.said_at,
            terms(message.text),
            is_continued=is_continued,
            asks=is_mere_question(speaker, message.text),
        )
        documents.append(document)
        previous = message.said_at
    return documents


def is_mere_question(speaker: str, text: str) -> bool:
    """Return True for a message in which the user tells nothing; among people, questions count."""
    return speaker == "user" and sentences.asks_only(text)


def continues_talk(previous: datetime | None, said_at: datetime) -> bool:
    """Return True if a message of ``said_at`` continues the talk of the previous one."""
    return previous is not None and abs(said_at - previous) <= TALK_GAP


def embedded_texts(document: index.UnembeddedDocument) -> dict[int, str]:
    """Return the texts to embed for a document, by their start in its text, in characters.

    The first is the end of the previous message and the document's own text. The rest of a long
    text follows in passages. Where several people talk, names precede the texts. No texts for
    documents that are rarely searched for, and then found by their words: the bot's messages,
    the user's mere questions, pleasantries, commands.
    """
    speaker, text = document.speaker, document.text
    if speaker == "assistant" or is_mere_question(speaker, text) or is_small_talk(text):
        return {}
    texts = {
        start: _add_speaker(document.speaker, passage)
        for start, passage in passages(document.text).items()
    }
    is_answer = document.before_speaker == "assistant"
    if document.before and not (is_answer and len(document.before) < MIN_BEFORE):
        before = _add_speaker(document.before_speaker, document.before[-MAX_BEFORE:])
        texts[0] = f"{before}\n{texts[0]}"
    return texts


def is_small_talk(text: str) -> bool:
    """Return True if a message is only a greeting, thanks, a farewell or a command."""
    is_short = len(text) <= MAX_PLEASANTRY
    return text.startswith("/") or (is_short and sentences.PLEASANTRY.fullmatch(text) is not None)


def passages(text: str) -> dict[int, str]:
    """Return a text's beginning and passages of equal length of the rest, by their start."""
    rest = len(text) - MAX_WHOLE
    count = min(max(math.ceil(rest / PASSAGE), 0), MAX_PASSAGES)
    starts = [0]
    for part in range(count):  # each begins after a sentence or line, if one ends shortly before
        start = MAX_WHOLE + rest * part // count
        ends = (text.rfind(mark, start - PASSAGE // 4, start) + 1 for mark in SENTENCE_ENDS)
        starts.append(max(ends) or start)
    starts.append(len(text))
    return {start: text[start:end][:MAX_WHOLE] for start, end in pairwise(starts)}


def _add_speaker(speaker: str, text: str) -> str:
    return text if speaker in index.UNNAMED_SPEAKERS else f"{speaker}: {text}"
