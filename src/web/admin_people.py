"""The admin pages about one owner: what was said, what is known, what would be recalled."""

from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from src.base.owners import Owner
from src.memory.ranking import LEXICAL_WEIGHT, LINK_BONUS
from src.memory.retriever import Query
from src.talk.turn_state import IncomingMessage
from src.texts import choose_language
from src.web.admin_site import (
    LAST,
    PAGE,
    AdminSite,
    number_of,
    owner_of,
    read_owner,
)

MAX_QUESTION = 500  # characters

FIRST = -LAST  # before every id

# Owners by their ids; what they have is looked up for the page's few alone.
SELECT_OWNERS = """
SELECT c.telegram_user_id, c.thread_id, c.created_at, m.created_at AS last_at,
       coalesce(m.position, 0) AS messages
FROM (SELECT * FROM conversations
      WHERE (telegram_user_id, thread_id) > (%(user)s, %(thread_id)s)
      ORDER BY telegram_user_id, thread_id LIMIT %(limit)s) AS c
LEFT JOIN LATERAL (SELECT created_at, position FROM messages WHERE conversation_id = c.id
                   ORDER BY position DESC, id DESC LIMIT 1) AS m ON true
ORDER BY c.telegram_user_id, c.thread_id
"""

# A page of a conversation, upwards from a position; with how each message ended. An answer is
# stored by one statement with what it cost, so both have the same moment.
SELECT_BUBBLES = """
SELECT m.id, m.position, m.role, message_text(m.content) AS text, m.created_at, m.speaker,
       m.is_forgotten, m.is_private,
       CASE WHEN m.failed_at IS NOT NULL THEN 'given up'
            WHEN m.stopped_at IS NOT NULL THEN 'stopped'
            WHEN m.role = 'assistant' AND m.delivered_at IS NULL THEN 'not delivered'
            ELSE '' END AS state,
       ARRAY(SELECT CASE WHEN s.memory_id IS NOT NULL THEN 'fact-' || s.memory_id
                         ELSE 'msg-' || s.message_id END
             FROM answer_sources s WHERE s.answer_id = m.id ORDER BY s.number) AS sources,
       ARRAY(SELECT t.name FROM tool_results t
             WHERE t.message_id = m.reply_to_id ORDER BY t.id) AS tools,
       u.prompt, u.completion
FROM messages m JOIN conversations c ON c.id = m.conversation_id
LEFT JOIN LATERAL (SELECT sum(prompt_tokens) AS prompt, sum(completion_tokens) AS completion
                   FROM model_usage
                   WHERE owner_id = c.owner_id AND created_at = m.created_at
                     AND m.role = 'assistant') AS u ON true
WHERE c.telegram_user_id = %(user)s AND c.thread_id = %(thread_id)s
  AND m.position < %(before)s
ORDER BY m.position DESC, m.id DESC LIMIT %(limit)s
"""

# What an owner's data weighs: rows, counted up to ten thousand.
WEIGH = """
WITH said AS (SELECT m.content FROM messages m JOIN conversations c ON c.id = m.conversation_id
              WHERE c.owner_id = %(owner)s LIMIT 10000),
     known AS (SELECT 1 FROM facts WHERE owner_id = %(owner)s LIMIT 10000),
     vectors AS (SELECT 1 FROM document_embeddings WHERE owner_id = %(owner)s LIMIT 10000)
SELECT (SELECT count(*) FROM said) AS "messages",
       (SELECT coalesce(sum(octet_length(content)), 0) FROM said) AS "bytes of messages",
       (SELECT count(*) FROM known) AS "facts", (SELECT count(*) FROM vectors) AS "vectors"
"""


class PeoplePages:
    """What is kept of each owner, and what an operator may do with it."""

    def __init__(self, site: AdminSite) -> None:
        """Draw on ``site``."""
        self._site = site
        self._client = site.core.client

    def routes(self) -> list[Route]:
        """Their addresses."""
        owner = "/users/{user}/{thread:int}"
        read = self._site.read
        return [
            self._site.shown("/users", self.users),
            read(owner, self.conversation, "talk"),
            read(owner + "/recall", self.recall, "recall"),
        ]

    async def users(self, request: Request) -> Response:
        """Owners by id."""
        wanted = request.query_params.get("id", "").strip()
        after = read_owner(request.query_params.get("after", ""))
        if wanted:
            found = read_owner(wanted)
            after = Owner(found.telegram_user_id, -1) if found else after
        owners = await self._site.rows(SELECT_OWNERS, after or Owner(FIRST), limit=PAGE)
        if wanted:
            owners = [line for line in owners if str(line["telegram_user_id"]) == wanted]
        return self._site.render(
            request, "users.html", owners=owners, wanted=wanted,
            more=owners[-1] if len(owners) == PAGE else None,
        )  # fmt: skip

    async def conversation(self, request: Request) -> Response:
        """The messages as bubbles, the newest page first."""
        owner, before = owner_of(request), number_of(request, "before")
        newest_first = await self._site.rows(
            SELECT_BUBBLES, owner, before=before or LAST, limit=PAGE
        )
        [weight] = await self._site.rows(WEIGH, owner)
        return self._site.render(
            request, "conversation.html", owner=owner, bubbles=newest_first[::-1], before=before,
            more=newest_first[-1]["position"] if len(newest_first) == PAGE else None,
            weight=weight,
        )  # fmt: skip

    async def recall(self, request: Request) -> Response:
        """What would be recalled for a question, and which channel found it."""
        owner = owner_of(request)
        question = request.query_params.get("q", "")[:MAX_QUESTION]
        hits: list[Any] = []
        prompt: list[Any] = []
        overview = None
        settings = await self._site.core.live_settings.get()
        if question.strip():
            query = Query(
                owner, question, datetime.now(UTC), limit=20,
                threshold=settings.memory_retrieve_threshold,
            )  # fmt: skip
            overview = query.overview()
            hits = await self._site.core.memory.retriever.search(query)
            prompt = await self._site.core.agent.preview_prompt(
                await self._pretend(owner, question)
            )
        return self._site.render(
            request, "recall.html", owner=owner, question=question, hits=hits, overview=overview,
            prompt=prompt,
            tokens=self._site.core.counter.count_messages(prompt),
            limit=settings.memory_retrieve_limit, lexical=LEXICAL_WEIGHT, links=LINK_BONUS,
        )  # fmt: skip

    async def _pretend(self, owner: Owner, question: str) -> IncomingMessage:
        """The question as if the owner asked it now."""
        known = await self._client.run(self._site.core.user_settings.get, owner.telegram_user_id)
        return IncomingMessage(
            owner, question, datetime.now(UTC), choose_language(known.language),
            known.time_zone or self._site.zone, known.mode,
        )  # fmt: skip
