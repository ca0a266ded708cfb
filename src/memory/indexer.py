"""Indexing of messages: terms in the transaction, vectors in batches afterwards."""

import logging
import math
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import count, islice, pairwise
from uuid import UUID

from src.base import errors
from src.memory import search_index_repo as index
from src.memory.digest_repo import DigestState, ExtractionRepository
from src.memory.embedding_space import EmbeddingSpace, ServingSpace
from src.pg.client import PgClient, Transaction
from src.reading import gate, sentences
from src.texts.morphology import terms

logger = logging.getLogger(__name__)


TALK_GAP = timedelta(hours=6)  # a longer silence ends a talk
INDEX_BATCH = 200  # messages of one transaction
INDEX_CONVERSATIONS = 8  # conversations of one transaction; their turns wait for it
EMBED_BATCH = 64  # documents of one request to the embedder
REEMBED_BATCHES = 20  # batches of one job, so that other jobs get their turn
REFUSED_SECONDS = 600.0  # back-off after an embedding model refused everything
# Characters of the previous message that are embedded with a message. The previous one is often a
# long answer of the bot, which must not crowd out the message itself.
MAX_BEFORE = 100
MIN_BEFORE = 80  # characters of an answer; "Noted." and the like say nothing about what follows
MAX_PLEASANTRY = 60
MAX_WHOLE = 1400  # characters of a message in its first vector; the model reads 1,500
PASSAGE = 800  # approximate characters of each further vector
MAX_PASSAGES = 7
SENTENCE_ENDS = ("\n", ". ", "! ", "? ")


class Indexer:
    """Service that fills the search index from stored messages."""

    def __init__(self, client: PgClient, space: ServingSpace) -> None:
        """Compute vectors in ``space``."""
        self._client = client
        self._states = ExtractionRepository(client)
        self._embeddings = index.EmbeddingRepository(client)
        self._space = space
        self._refused_until = float("-inf")

    async def index_conversation(self, conversation_id: UUID) -> DigestState | None:
        """Index every new message of a conversation; return its digest state.

        Returns:
            The state; None if the conversation was deleted.

        Raises:
            StorageError: The database is away; what is indexed stays indexed.
        """
        state = await self._client.run(self._states.find_state, conversation_id)
        if state is not None:
            await self.index_conversations([state])
        return state

    async def index_conversations(self, waiting: Sequence[DigestState]) -> None:
        """Index every new message of some conversations, a few conversations per transaction.

        The time label is not a term of the message; the time has a column of its own.

        Args:
            waiting: The conversations, sorted by id: the order in which they are locked.

        Raises:
            StorageError: The database is away; what is indexed stays indexed.
        """
        while waiting:
            waiting = await self._client.run(
                self._client.in_transaction, partial(self._index_some, waiting)
            )

    async def embed_pending(self) -> int:
        """Embed every document without a vector of the serving model; return how many.

        Documents that the model refuses are retried later.

        Raises:
            ModelError: The endpoint refuses everything; finished batches stay stored.
            ModelUnavailableError: The endpoint is away, or the local model does not start.
            StorageError: The database is away.
        """
        space = await self._space.current()
        model = await space.model()
        done = 0
        while True:
            batch = await self._client.run(self._embeddings.list_unembedded, model.id, EMBED_BATCH)
            done += await self._embed(space, batch) if batch else 0
            if len(batch) < EMBED_BATCH:
                return done

    async def find_pending(self) -> EmbeddingSpace | None:
        """Return the space of the wanted model while another one serves, else None.

        None also for a while after that model has refused everything.

        Raises:
            StorageError: The database is away.
        """
        if time.monotonic() < self._refused_until:
            return None
        await self._space.current()
        return self._space.coming()

    async def change_model(self) -> bool:
        """Give some documents a vector of the wanted model; return True if more may be left.

        Raises:
            TransientError: The database or the endpoint is away.
        """
        space = await self.find_pending()  # the job may be older than the refusal
        if space is None:
            return False

        def report(done: int, total: int) -> None:
            log = {"model": space.name, "done": done, "documents": total}
            logger.info("embedded anew", extra=log)

        try:
            return await self.reembed(space, batches=REEMBED_BATCHES, on_progress=report)
        except errors.ModelError as error:
            self._refused_until = time.monotonic() + REFUSED_SECONDS
            log = {"model": space.name}
            logger.warning("it embeds nothing: the model before serves", extra=log, exc_info=error)
            return False

    async def reembed(
        self,
        space: EmbeddingSpace,
        *,
        batches: int | None = None,
        on_progress: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> bool:
        """Embed documents of earlier models with this one; their old vectors serve meanwhile.

        Documents without any vector are left to the serving model. The progress is stored in
        ``embedding_models``.

        Args:
            space: Space of the wanted model.
            batches: Maximum number of batches; None for all.
            on_progress: Called after each batch with the number of documents that have a vector of
                the model, and of all documents.

        Returns:
            True if documents may be left.

        Raises:
            ModelError: The endpoint refuses everything; finished batches stay stored.
            ModelUnavailableError: The endpoint is away, or the local model does not start.
            StorageError: The database is away.
        """
        model = await space.model()
        await self._client.run(self._embeddings.choose_model, model.id)
        done, total = await self._client.run(self._embeddings.count_embedded, model.id)
        for _ in islice(count(), batches):
            batch = await self._client.run(
                self._embeddings.list_unembedded, model.id, EMBED_BATCH, only_embedded=True
            )
            if not batch:
                return False
            done += await self._embed(space, batch)
            await self._client.run(self._embeddings.note_progress, model.id, done, total)
            on_progress(done, total)
        return True

    async def _embed(
        self, space: EmbeddingSpace, batch: Sequence[index.UnembeddedDocument]
    ) -> int:
        """Store the vectors of a batch; return how many.

        A text that the model refuses must not keep the others of its batch from being found.
        """
        error = await self._store_vectors(space, batch)
        if error is None:
            return len(batch)
        await space.probe()  # raises if the embedder is to blame, not a document
        model_id, refused = (await space.model()).id, 0
        for document in batch:
            if refusal := await self._store_vectors(space, [document]):
                refused += 1
                is_poison = isinstance(refusal, errors.PoisonTextError)
                add = self._embeddings.add_failure
                await self._client.run(add, model_id, document.id, is_hopeless=is_poison)
        log = {"documents": refused}
        logger.warning("found by words alone for now", extra=log, exc_info=error)
        return len(batch) - refused

    async def _store_vectors(
        self, space: EmbeddingSpace, batch: Sequence[index.UnembeddedDocument]
    ) -> errors.AppError | None:
        """Embed a batch and store the vectors; return the model's refusal of a text, if any."""
        model_id = (await space.model()).id
        embedded = {document.id: embedded_texts(document) for document in batch}
        texts = {
            (id_, start): text for id_, parts in embedded.items() for start, text in parts.items()
        }
        try:
            vectors = await space.embed_documents([*texts.values()])
        except errors.ModelSetupError:
            raise
        except (errors.ModelError, errors.BadVectorsError) as error:
            return error
        by_passage = dict(zip(texts, vectors, strict=True))
        without = [id_ for id_, parts in embedded.items() if not parts]
        await self._client.run(self._embeddings.add_vectors, model_id, by_passage, without)
        return None

    async def delete_unused_vectors(self) -> int:
        """Delete models without documents; return how many.

        Raises:
            ModelError: The current model is not measured, and its endpoint is away.
            StorageError: The database is away.
        """
        model = await (await self._space.current()).model()
        return await self._client.run(self._embeddings.delete_other_models, model.id)

    def _index_some(
        self, waiting: Sequence[DigestState], transaction: Transaction
    ) -> Sequence[DigestState]:
        """Index new messages of the first conversations; return those that may have more."""
        repository = index.SearchIndexRepository(transaction)
        left, found = INDEX_BATCH, []
        for state in waiting[:INDEX_CONVERSATIONS]:
            messages = repository.list_unindexed(state.conversation_id, left)
            documents = _build_documents(messages, self._space.known_model_id())
            found.append((state, documents, [message.id for message in messages]))
            left -= len(messages)
            if not left:
                break
        for state, documents, ids in found:  # no lock is taken before this
            repository.add_messages(state.owner, state.conversation_id, documents, ids)
        return waiting[len(found) - (not left) :]


def _build_documents(
    messages: Sequence[index.UnindexedMessage], model_id: int | None
) -> list[index.NewDocument]:
    """Return the documents of the messages; answers get ``model_id``: they are not embedded."""
    previous = messages[0].last_said_at if messages else None
    documents = []
    for message in messages:
        if message.said_at is None or gate.holds_secret(message.text):
            continue  # deleted, or never indexed
        is_continued = continues_talk(previous, message.said_at)
        speaker = _speaker_name(message)
        is_aside = speaker == "assistant" or is_mere_question(speaker, message.text)
        document = index.NewDocument(
            "message",
            message.id,
            speaker,
            message.said_at,
            terms(message.text),
            is_continued=is_continued,
            asks=is_aside and speaker == "user",
            model_id=model_id if is_aside else None,
        )
        documents.append(document)
        previous = message.said_at
    return documents


def is_mere_question(speaker: str, text: str) -> bool:
    """Return True for a message in which the user tells nothing; among people, questions count."""
    return speaker == "user" and sentences.asks_only(text)


def _speaker_name(message: index.UnindexedMessage) -> str:
    name = message.speaker or message.role
    return message.role if name.lower() in index.UNNAMED_SPEAKERS else name


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
    ends = [MAX_WHOLE + rest * part // count for part in range(count)]
    starts = [0, *(_sentence_end(text, end) for end in ends), len(text)]
    return {start: text[start:end][:MAX_WHOLE] for start, end in pairwise(starts)}


def _sentence_end(text: str, end: int) -> int:
    """Return the end of the last sentence or line shortly before ``end``, else ``end``."""
    return max(text.rfind(mark, end - PASSAGE // 4, end) + 1 for mark in SENTENCE_ENDS) or end


def _add_speaker(speaker: str, text: str) -> str:
    return text if speaker in index.UNNAMED_SPEAKERS else f"{speaker}: {text}"
