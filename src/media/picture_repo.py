"""Pictures that were described, to be looked at again."""

from __future__ import annotations

from uuid import UUID

from src.base.owners import Owner
from src.pg.client import Repository

# A picture of the owner's: that of a message, or else the newest but so many of the conversation.
SELECT_PICTURE = """
SELECT m.file_id, message_text(m.content)
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE c.owner_id = %(owner)s AND m.file_id IS NOT NULL AND NOT m.is_forgotten
  AND CASE WHEN %(uid)s = '' THEN c.id = %(conversation_id)s ELSE 'msg-' || m.id = %(uid)s END
ORDER BY m.created_at DESC, m.id DESC LIMIT 1 OFFSET %(back)s
"""


class PictureRepository(Repository):
    """Finds pictures that were described; the method blocks (see ``PgClient.run``)."""

    def find(
        self, owner: Owner, conversation_id: UUID, *, uid: str = "", back: int = 0
    ) -> tuple[str, str] | None:
        """The file id of a picture and its description; None: there is none.

        Args:
            owner: Whose it is.
            conversation_id: Where the newest one is looked for.
            uid: Of the message that describes it; empty: the newest one.
            back: So many pictures before the newest one.
        """
        row = self._client.fetch_one(
            SELECT_PICTURE, owner, conversation_id=str(conversation_id), uid=uid,
            back=0 if uid else max(0, back),
        )  # fmt: skip
        return None if row is None else (str(row[0]), str(row[1]))
