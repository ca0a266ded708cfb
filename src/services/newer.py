"""Whether something newer of a chat waits behind a message: asked here, and nowhere else."""

from __future__ import annotations

from src.services.turn_state import IncomingMessage
from src.storage.pg_client import PgClient, Transaction
from src.storage.update_repo import Behind, UpdateRepository


class Newer:
    """Knows what came after a message, and whether that changes what becomes of it.

    A message that came with no stored update (the console's) has nothing behind it but what it
    says itself.
    """

    def __init__(self, client: PgClient, updates: UpdateRepository) -> None:
        """Look among ``updates``."""
        self._client = client
        self._updates = updates

    def hold(self, transaction: Transaction, incoming: IncomingMessage) -> Behind:
        """What waits behind a message, which stays as it was read until the transaction ends.

        What is taught is answered for itself: what comes next answers none of it. It blocks.

        Raises:
            ConversationGoneError: The message was erased meanwhile.
            QuestionMovedError: It was changed by an erasure, and is to be read again.
        """
        origin, behind = incoming.origin, Behind(incoming.newer)
        if origin is not None and origin.update is not None:
            behind = self._updates.hold(transaction, origin.update, origin.revision)
        return behind if incoming.teaching is None else Behind()

    async def answers(self, incoming: IncomingMessage) -> bool:
        """Whether a later message of the chat is answered instead of this one.

        Raises:
            StorageError: The database is away.
        """
        update = incoming.update
        if update is None:
            return incoming.newer is not None
        return await self._client.run(self._updates.find_newer, update) is not None

    async def wipes(self, incoming: IncomingMessage) -> bool:
        """Whether a /new waits, which is about to delete the message and what answers it.

        Raises:
            StorageError: The database is away.
        """
        update = incoming.update
        if update is None:
            return False
        found = await self._client.run(self._updates.find_newer, update, kinds=("new",))
        return found is not None
