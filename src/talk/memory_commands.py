"""The commands about what is remembered: forget, search, summary, privacy, erase everything."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from src.base.owners import Called
from src.base.zones import local_time
from src.history.turn_repo import TurnRepository
from src.memory.compaction import CompactionService
from src.memory.forgetter import Forgotten, Named
from src.memory.memories import NEAR, Memories
from src.memory.memory_repo import message_number
from src.memory.retriever import Hit, Query
from src.pg.client import PgClient
from src.privacy.export import ExportService
from src.reading.sentences import best_passage
from src.reading.time_expressions import read_time
from src.talk.turn import AgentService
from src.texts import Language, say
from src.texts.morphology import terms
from src.texts.plain_text import shortened
from src.texts.reply import Action, Button, Reply, in_rows

MAX_FOUND = 8  # of a search
MAX_SNIPPET = 300  # characters of each
MAX_CHOICES = 8  # buttons of what a request to forget may mean
MAX_LABEL = 40  # characters of one
CONFIRM_SECONDS = 600  # for so long a question whether to erase counts


class MemoryCommands:
    """What users type to look into their memory, and to empty it."""

    def __init__(
        self,
        agent: AgentService,
        memories: Memories,
        compaction: CompactionService,
        exports: ExportService,
        client: PgClient,
    ) -> None:
        """Search and forget in ``memories``; erase, summarise and export the rest."""
        self._agent = agent
        self._memories = memories
        self._compaction = compaction
        self._exports = exports
        self._client = client
        self._turns = TurnRepository(client)

    async def forget(self, called: Called) -> Reply:
        """``/forget the cat``: forget what is surely meant, else ask which of several."""
        language = called.language
        if not called.argument:
            return Reply(say("forget_usage", language))
        found = await self._memories.forget(
            called.owner, about=called.argument, speaker_id=called.asker
        )
        if found.texts:
            return forgotten_reply(found, language)
        if found.ask:
            return _listed(say("forget_which", language), found.ask)
        if found.nearest:
            text = f"{say('forgot_nothing', language)} {say('forget_nearest', language)}"
            return _listed(text, found.nearest)
        return Reply(say("forgot_nothing", language))

    async def offer_to_forget(self, called: Called, sent_message: int) -> Reply | None:
        """What the answer in a Telegram message cited, to be forgotten one by one.

        None where it cited nothing, or is no answer of ours in this conversation.
        """
        cited = await self._client.run(self._turns.list_cited, called.owner, sent_message)
        if not cited:
            return None
        named = [Named(uid, text) for uid, text in cited]
        return _listed(say("disliked", called.language), named)

    async def drop(self, called: Called, kind: int, number: int) -> Reply:
        """Forget what was chosen: a fact (0) or a message (1)."""
        uid = f"{'msg' if kind else 'fact'}-{number}"
        found = await self._memories.forget(called.owner, [uid], speaker_id=called.asker)
        if not found.texts:
            return Reply(say("memory_gone", called.language), is_screen=True)
        return forgotten_reply(found, called.language).in_place()

    async def search(self, called: Called) -> Reply:
        """``/search the cat``: where it was said, with buttons that lead there."""
        language = called.language
        if not called.argument:
            return Reply(say("search_usage", language))
        hits = await self.find(called, limit=MAX_FOUND)
        if not hits:
            return Reply(say("search_nothing", language))
        lines = [say("search_found", language, count=len(hits))]
        lines += [_found_line(place, hit, called) for place, hit in enumerate(hits, start=1)]
        buttons = [
            Button(f"{place} · {called.day(hit.said_at)}", Action("source", (number,)))
            for place, hit in enumerate(hits, start=1)
            if (number := message_number(hit.uid)) is not None
        ]
        return Reply("\n\n".join(lines), in_rows(buttons, 2), say("search_hint", language))

    async def find(self, called: Called, *, limit: int) -> list[Hit]:
        """What was said that fits the argument, best first; each message once."""
        now = local_time(called.moment, called.time_zone)
        hits = await self._memories.retriever.search(
            Query(
                called.owner, called.argument, now, limit=limit, with_assistant=True,
                kinds=("message", "memory"), speaker_id=called.asker, threshold=NEAR,
            )
        )  # fmt: skip
        spoken = [hit for hit in hits if _speaks_of(hit, called.argument)]
        once: dict[str, Hit] = {}  # a fact and the message that told it lead to the same place
        for hit in spoken or hits:  # what only means the same, where no word is
            once.setdefault(hit.uid, hit)
        return list(once.values())

    async def summary(self, called: Called) -> Reply:
        """``/summary``: what this conversation has been about, the newest messages included."""
        conversation_id = await self._agent.conversation_of(called.owner)
        texts = await self._compaction.describe(conversation_id)
        if not texts:
            return Reply(say("summary_nothing", called.language))
        return Reply("\n\n".join([say("summary_title", called.language), *texts]))

    async def export(self, called: Called) -> Reply:
        """``/export``: everything in two files, one to read and one for programs."""
        files = await self._client.run(self._exports.write_files, called)
        return Reply(say("export_done", called.language), files=files)

    async def delete_me(self, called: Called) -> Reply:
        """``/delete_me`` asks twice; this is the first time."""
        if called.owner.is_group:
            return Reply(say("forget_group", called.language))
        return self._ask(called, "delete_ask", 1)

    async def confirm_deletion(self, called: Called, step: int, asked: int) -> Reply:
        """A button under one of the two questions; 0 is no.

        Args:
            called: Who pressed it.
            step: Which question it answers with yes.
            asked: When that was asked, in seconds since 1970.
        """
        language = called.language
        if step not in (1, 2) or called.owner.is_group:
            return Reply(say("erase_kept", language), is_screen=True)
        if not -60 <= datetime.now(UTC).timestamp() - asked <= CONFIRM_SECONDS:
            return Reply(say("delete_late", language), is_screen=True)
        if step == 1:
            return self._ask(called, "delete_ask_again", 2).in_place()
        await self._agent.erase(called.owner.telegram_user_id)
        return Reply(say("erase_done", language), is_screen=True)

    def _ask(self, called: Called, key: str, step: int) -> Reply:
        asked = int(datetime.now(UTC).timestamp())
        language = called.language
        return Reply(
            say(key, language),
            (
                (Button(say(f"delete_yes_{step}", language), Action("delete", (step, asked))),),
                (Button(say("erase_no", language), Action("delete", (0, asked))),),
            ),
        )


def forgotten_reply(found: Forgotten, language: Language) -> Reply:
    """What was forgotten, and a button that takes it back."""
    text = "\n".join(say("forgot", language, text=text) for text in found.texts)
    if found.number is None:
        return Reply(text)
    label = say("undo_forgot_button", language)
    return Reply(text, ((Button(label, Action("recall", (found.number,))),),))


def _listed(text: str, named: Sequence[Named]) -> Reply:
    """What may be meant, with a button for each that forgets it."""
    chosen = named[:MAX_CHOICES]
    lines = [f"{place}. {shortened(one.text, MAX_SNIPPET)}" for place, one in enumerate(chosen, 1)]
    buttons = []
    for place, one in enumerate(chosen, 1):
        kind, _, number = one.id.partition("-")
        action = Action("drop", (int(kind == "msg"), int(number)))
        buttons.append((Button(f"🗑 {place}. {shortened(one.text, MAX_LABEL)}", action),))
    return Reply("\n".join([text, *lines]), tuple(buttons))


def _found_line(place: int, hit: Hit, called: Called) -> str:
    who = say("search_bot" if hit.speaker == "assistant" else "search_you", called.language)
    if called.owner.is_group and hit.speaker != "assistant":
        who = ""
    said = f"{called.day(hit.said_at)}{who}"
    text = best_passage(hit.words, terms(called.argument), MAX_SNIPPET)
    return f"{place}. {said}: {say('quoted', called.language, text=shortened(text, MAX_SNIPPET))}"


def _speaks_of(hit: Hit, wanted: str) -> bool:
    """Whether it has a word of what is looked for, or is a fact about it.

    A search by time alone has no words.
    """
    words = frozenset(terms(read_time(wanted, hit.said_at).content))
    is_fact_of_it = hit.kind == "memory" and (hit.bm25 > 0 or hit.hops is not None)
    return not words or is_fact_of_it or bool(words.intersection(terms(hit.words)))
