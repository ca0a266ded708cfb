"""Beginnings of prompts that a provider keeps under a name; all processes use them together."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from src.storage.repository import Repository

CLAIM_SECONDS = 60  # after which a process that claimed and was not heard of is given up

SELECT_CONTENT = """
SELECT name, expires_at FROM cached_contents
WHERE content_hash = %(content_hash)s AND name IS NOT NULL AND expires_at > now()
"""
CLAIM = """
INSERT INTO cached_contents AS c (content_hash, model) VALUES (%(content_hash)s, %(model)s)
ON CONFLICT (content_hash) DO UPDATE
SET model = EXCLUDED.model, name = NULL, expires_at = NULL, claimed_at = now()
WHERE coalesce(c.expires_at <= now(), c.claimed_at < now() - make_interval(secs => %(seconds)s))
RETURNING content_hash
"""
SAVE = """
UPDATE cached_contents SET name = %(name)s, expires_at = %(expires_at)s
WHERE content_hash = %(content_hash)s
"""
FORGET = "DELETE FROM cached_contents WHERE content_hash = %(content_hash)s AND name = %(name)s"
PRUNE = """
DELETE FROM cached_contents
WHERE coalesce(expires_at, claimed_at) < now() - interval '1 day'
"""


@dataclass(frozen=True)
class CachedContent:
    """What is kept: its name at the provider, and until when."""

    name: str
    expires_at: datetime


class CachedContentRepository(Repository):
    """Reads and writes ``cached_contents``; it blocks."""

    def find(self, content_hash: str) -> CachedContent | None:
        """What is kept of these contents and has not expired."""
        row = self._client.fetch_one(SELECT_CONTENT, {"content_hash": content_hash})
        return CachedContent(*row) if row else None

    def claim(self, content_hash: str, model: str) -> bool:
        """Whether the caller is the one to have it kept: it is not, and nobody else is at it."""
        parameters = {"content_hash": content_hash, "model": model, "seconds": CLAIM_SECONDS}
        return self._client.fetch_one(CLAIM, parameters) is not None

    def save(self, content_hash: str, content: CachedContent) -> None:
        """Note what is kept, or until when it is kept now."""
        self._client.execute(SAVE, {"content_hash": content_hash, **vars(content)})

    def forget(self, content_hash: str, name: str) -> None:
        """It is kept no more; another one that has taken its place stays."""
        self._client.execute(FORGET, {"content_hash": content_hash, "name": name})

    def prune(self) -> int:
        """Delete the rows of what has expired a day ago; returns how many."""
        return self._client.execute(PRUNE)
