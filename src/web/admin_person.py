"""The admin page about one owner: what would be recalled for a question."""

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
from src.web.admin_site import AdminSite, owner_of

MAX_QUESTION = 500  # characters


class PersonPages:
    """One owner."""

    def __init__(self, site: AdminSite) -> None:
        """Draw on ``site``."""
        self._site = site
        self._client = site.core.client

    def routes(self) -> list[Route]:
        """Their addresses."""
        owner = "/users/{user}/{thread:int}"
        return [self._site.read(owner + "/recall", self.recall, "recall")]

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
