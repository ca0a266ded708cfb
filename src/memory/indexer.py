"""Fills the search index: words at once, vectors in batches afterwards."""

import logging
import math
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import count, islice, pairwise
from uuid import UUID

from src.base.errors import BadVectorsError, ModelError, ModelSetupError, PoisonTextError
from src.memory import search_index_repo as index
from src.memory.digest_repo import DigestState, ExtractionRepository
from src.memory.embedding_space import EmbeddingSpace, ServingSpace
from src.pg.client import PgClient, Transaction
from src.reading.gate import holds_secret
from src.reading.sentences import PLEASANTRY
from src.texts.morphology import terms

logger = logging.getLogger(__name__)


TALK_GAP = timedelta(hours=6)  # a longer silence ends a talk
INDEX_BATCH = 200  # messages of one transaction
INDEX_CONVERSATIONS = 8  # of one transaction, in which their turns wait for it
EMBED_BATCH = 64  # documents of one request to the embedder
REEMBED_BATCHES = 20  # of one job: others take their turns
REFUSED_SECONDS = 600.0  # of back-off after an embedding model refused everything
# Characters that are embedded of the message before, which is often a long answer of the bot's: it
# must not crowd out the message itself.
MAX_BEFORE = 100
MIN_BEFORE = 80  # of an answer: "Noted." and its like say nothing of what comes next
MAX_PLEASANTRY = 60
MAX_WHOLE = 1400  # of a message in its first vector; the model reads 1,500
PASSAGE = 800  # of each further one, about
MAX_PASSAGES = 7
SENTENCE_ENDS = ("\n", ". ", "! ", "? ")


class Indexer:
    """Fills the search index from stored messages."""

    def __init__(self, client: PgClient, space: ServingSpace) -> None:
        """Embed in ``space``."""
        self._client = client
        self._states = ExtractionRepository(client)
        self._embeddings = index.EmbeddingRepository(client)
        self._space = space
        self._refused_until = float("-inf")

    async def index_conversation(self, conversation_id: UUID) -> DigestState | None:
        """Index every new message of a conversation; returns how far it is digested otherwise.

        None when it is gone.

        Raises:
            StorageError: The database is away; what went in stays in.
        """
        state = await self._client.run(self._states.find_state, conversation_id)
        if state is not None:
            await self.index_conversations([state])
        return state

    async def index_conversations(self, waiting: Sequence[DigestState]) -> None:
        """Index every new message of some conversations, a few of them in each transaction.

        The time label is not a word of the message; the time is kept beside it.

        Args:
            waiting: The conversations by their ids, the order in which they are locked.

        Raises:
            StorageError: The database is away; what went in stays in.
        """
        while waiting:
            waiting = await self._client.run(
                self._client.in_transaction, partial(self._index_some, waiting)
            )

    async def embed_pending(self) -> int:
        """Embed every document without a vector of the serving model; returns how many.

        What the model does not take is set aside, and tried again later.

        Raises:
            ModelError: The endpoint refuses everything; what is done stays done.
            ModelUnavailableError: It is away, or the local model does not start.
            StorageError: The database is away.
        """
        space = await self._space.current()
        model = await space.model()
        done = 0
        is_full = True
        while is_full and (
            batch := await self._client.run(
                self._embeddings.list_unembedded, model.id, EMBED_BATCH
            )
        ):
            done += await self._embed(space, batch)
            is_full = len(batch) == EMBED_BATCH
        return done

    async def find_coming(self) -> EmbeddingSpace | None:
        """The space of the wanted model while another one serves, else None.

        For a while also None after that model has refused everything.

        Raises:
            StorageError: The database is away.
        """
        if time.monotonic() < self._refused_until:
            return None
        await self._space.current()
        return self._space.coming()

    async def change_model(self) -> bool:
        """Give some documents a vector of the wanted model; returns whether more may be left.

        Raises:
            TransientError: The database or the endpoint is away.
        """
        space = await self.find_coming()  # a job may have been due before the model refused
        if space is None:
            return False

        def report(done: int, total: int) -> None:
            log = {"model": space.name, "done": done, "documents": total}
            logger.info("embedded anew", extra=log)

        try:
            return await self.reembed(space, batches=REEMBED_BATCHES, on_progress=report)
        except ModelError as error:
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

        Documents without any are left to the serving model. The progress stands in
        ``embedding_models``.

        Args:
            space: Of the model that is wanted.
            batches: How many to do at most; None does all.
            on_progress: Called after each batch: how many documents have a vector of the model,
                and how many there are.

        Returns:
            Whether something may be left.

        Raises:
            ModelError: The endpoint refuses everything; what is done stays done.
            ModelUnavailableError: It is away, or the local model does not start.
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
        """Store the vectors of a batch; returns how many there were.

        A text that the model refuses must not keep the others of its batch from being found.
        """
        try:
            await self._store_vectors(space, batch)
        except ModelSetupError:
            raise
        except (ModelError, BadVectorsError) as error:
            await space.probe()  # fails when the embedder, not a document, is to blame
            done = sum([await self._embed_alone(space, document) for document in batch])
            log = {"documents": len(batch) - done}
            logger.warning("found by words alone for now", extra=log, exc_info=error)
            return done
        return len(batch)

    async def _embed_alone(
        self, space: EmbeddingSpace, document: index.UnembeddedDocument
    ) -> bool:
        try:
            await self._store_vectors(space, [document])
        except ModelSetupError:
            raise
        except (ModelError, BadVectorsError) as error:
            fail = partial(
                self._embeddings.add_failure, is_hopeless=isinstance(error, PoisonTextError)
            )
            await self._client.run(fail, (await space.model()).id, document.id)
            return False
        return True

    async def _store_vectors(
        self, space: EmbeddingSpace, batch: Sequence[index.UnembeddedDocument]
    ) -> None:
        model_id = (await space.model()).id
        of_each = {document.id: embedded_texts(document) for document in batch}
        texts = {
            (id_, start): text for id_, found in of_each.items() for start, text in found.items()
        }
        vectors = await space.embed_documents([*texts.values()])
        by_place = dict(zip(texts, vectors, strict=True))
        without = [id_ for id_, found in of_each.items() if not found]
        await self._client.run(self._embeddings.add_vectors, model_id, by_place, without)

    async def delete_unused_vectors(self) -> int:
        """Delete models without documents; returns how many.

        Raises:
            ModelError: The current model is not measured, and its endpoint is away.
            StorageError: The database is away.
        """
        model = await (await self._space.current()).model()
        return await self._client.run(self._embeddings.delete_other_models, model.id)

    def _index_some(
        self, waiting: Sequence[DigestState], transaction: Transaction
    ) -> Sequence[DigestState]:
        """Index new messages of the first of ``waiting``; returns those that may have more."""
        repository = index.SearchIndexRepository(transaction)
        left, known = INDEX_BATCH, []
        for state in waiting[:INDEX_CONVERSATIONS]:
            messages = repository.list_unindexed(state.conversation_id, left)
            documents = _documents(messages, self._space.known_model_id())
            known.append((state, documents, [message.id for message in messages]))
            left -= len(messages)
            if not left:
                break
        for state, documents, ids in known:  # nothing is locked before
            repository.add_messages(state.owner, state.conversation_id, documents, ids)
        return waiting[len(known) - (not left) :]


def _documents(
    messages: Sequence[index.UnindexedMessage], model_id: int | None
) -> list[index.NewDocument]:
    """What of the messages goes into the index; the model has nothing to do with answers."""
    previous = messages[0].last_said_at if messages else None
    documents = []
    for message in messages:
        if message.said_at is None or holds_secret(message.text):
            continue  # it is gone, or never indexed
        is_continued = continues_talk(previous, message.said_at)
        known = (message.id, _speaker(message), message.said_at, terms(message.text))
        done_by = model_id if message.role == "assistant" else None
        documents.append(
            index.NewDocument("message", *known, is_continued=is_continued, model_id=done_by)
        )
        previous = message.said_at
    return documents


def _speaker(message: index.UnindexedMessage) -> str:
    """The speaker's name; the role where there is none."""
    name = message.speaker or message.role
    return message.role if name.lower() in index.UNNAMED_SPEAKERS else name


def continues_talk(previous: datetime | None, said_at: datetime) -> bool:
    """Whether a message of ``said_at`` continues the talk of the previous one."""
    return previous is not None and abs(said_at - previous) <= TALK_GAP


def embedded_texts(document: index.UnembeddedDocument) -> dict[int, str]:
    """What is embedded, by the character of the text at which it begins.

    The end of the message before, and its own text; of a long one what does not fit once more, in
    passages; names where several talk. Nothing of what is asked for rarely, and found by its words
    then: what the bot said, pleasantries, commands.
    """
    if document.speaker == "assistant" or is_small_talk(document.text):
        return {}
    texts = {
        start: _spoken(document.speaker, passage)
        for start, passage in passages(document.text).items()
    }
    is_answer = document.before_speaker == "assistant"
    if document.before and not (is_answer and len(document.before) < MIN_BEFORE):
        before = _spoken(document.before_speaker, document.before[-MAX_BEFORE:])
        texts[0] = f"{before}\n{texts[0]}"
    return texts


def is_small_talk(text: str) -> bool:
    """Whether a message is a greeting, thanks, a farewell or a command, and nothing else."""
    is_short = len(text) <= MAX_PLEASANTRY
    return text.startswith("/") or (is_short and PLEASANTRY.fullmatch(text) is not None)


def passages(text: str) -> dict[int, str]:
    """A text's beginning, and of what follows parts at like distances, by where they begin."""
    rest = len(text) - MAX_WHOLE
    count = min(max(math.ceil(rest / PASSAGE), 0), MAX_PASSAGES)
    ends = [MAX_WHOLE + rest * part // count for part in range(count)]
    starts = [0, *(_behind_sentence(text, end) for end in ends), len(text)]
    return {start: text[start:end][:MAX_WHOLE] for start, end in pairwise(starts)}


def _behind_sentence(text: str, end: int) -> int:
    """Where the last sentence or line ends shortly before ``end``; there, if none does."""
    return max(text.rfind(mark, end - PASSAGE // 4, end) + 1 for mark in SENTENCE_ENDS) or end


def _spoken(speaker: str, text: str) -> str:
    return text if speaker in index.UNNAMED_SPEAKERS else f"{speaker}: {text}"
