"""Search in what was said: /search, /summary, /about, and the notes below /memory."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal, get_args

from src.base.owners import Caller
from src.base.zones import local_time
from src.history.conversation_repo import ConversationRepository
from src.memory import memories, memory_repo, queries
from src.memory.compaction import CompactionService
from src.memory.retrieval_repo import Hit
from src.memory.screens import MemoryScreens
from src.memory.thresholds import SUGGESTED
from src.offline.replies import OVERVIEW_LINES
from src.pg.client import PgClient
from src.reading import gate, lexicon, sentences, time_expressions
from src.reading.facts import WISH, fact_number, fact_uid
from src.reading.times import fold
from src.reading.words import people_in
from src.reminders.day import by_sentence, tells
from src.reminders.day_repo import DayRepository, Told
from src.texts import say
from src.texts.morphology import terms
from src.texts.plain_text import shortened
from src.texts.reply import Action, Button, Reply, in_rows

MAX_FOUND = 8  # hits of /search
MAX_NEAREST = 3  # messages offered when nothing was found
MAX_SNIPPET = 300  # characters of a hit
NEWEST = 60  # newest messages that are searched for notes
MAX_NOTE = 160  # characters of a note in a list


@dataclass(eq=False, repr=False)
class SearchScreens:
    """Replies of /search, /summary, /about, and of /memory without a model."""

    _memories: memories.Memories
    _client: PgClient
    _facts: MemoryScreens
    _compaction: CompactionService
    _has_model: bool

    async def search(self, caller: Caller) -> Reply:
        """Reply with the messages that fit (``/search the cat``), and buttons that lead there."""
        language = caller.language
        if not caller.argument:
            return Reply(say("search_usage", language))
        hits, nearest = await self.find(caller, limit=MAX_FOUND)
        if not (hits or nearest):
            return Reply(say("search_nothing", language))
        lines = [say("search_found", language, count=len(hits))]
        if not hits:
            hits, lines = nearest[:MAX_NEAREST], [say("search_nearest", language)]
        lines += [_hit_line(n, hit, caller) for n, hit in enumerate(hits, start=1)]
        buttons = [
            Button(f"{n} · {caller.day(hit.said_at)}", Action("source", (number,)))
            for n, hit in enumerate(hits, start=1)
            if (number := memory_repo.message_number(hit.uid)) is not None
        ]
        rows, hint = in_rows(buttons, 2), say("search_hint", language)
        times = tuple((caller.day(hit.said_at), hit.said_at) for hit in hits)
        return Reply("\n\n".join(lines), rows, hint, times=times)

    async def find(self, caller: Caller, *, limit: int) -> tuple[list[Hit], list[Hit]]:
        """Search what was said for the argument, best first; each message once.

        Returns:
            What has a word of it, or is a fact found by its words; the rest, near in meaning.
        """
        now = caller.now
        hits = await self._memories.retriever.search(
            queries.Query(
                caller.owner, caller.argument, now, limit=limit, with_assistant=True,
                kinds=("message", "memory"), speaker_id=caller.asker,
                threshold=SUGGESTED,
            )
        )  # fmt: skip
        matching: dict[str, Hit] = {}  # a fact and the message that told it share a uid
        nearest: dict[str, Hit] = {}
        for hit in hits:
            words = terms(time_expressions.read_time(caller.argument, hit.said_at).content)
            found = nearest
            if not words or hit.match.bm25 > 0 or hit.match.is_linked:  # a word, or its like
                found = matching
            found.setdefault(hit.uid, hit)
        own = [hit.words for hit in hits if hit.speaker != "assistant"]
        return _without_echoes(matching, own), _without_echoes(nearest, own)

    async def summary(self, caller: Caller) -> Reply:
        """Reply with a summary of this conversation, the newest messages included."""
        conversation_id = await self._client.run(
            ConversationRepository(self._client).get_or_create_conversation,
            caller.owner.telegram_user_id,
            thread_id=caller.owner.thread_id,
        )
        texts = await self._compaction.describe(conversation_id)
        if not texts:
            return Reply(say("summary_nothing", caller.language))
        return Reply("\n\n".join([say("summary_title", caller.language), *texts]))

    async def memory(self, caller: Caller) -> Reply:
        """Reply with the first page of facts; without a model also with the newest notes."""
        page = await self._facts.page(caller)
        if self._has_model or caller.owner.is_group:
            return page
        told = await self._client.run(DayRepository(self._client).list_told, caller.owner)
        newest = {one.text: one for one in reversed(told) if one.is_message}
        said = (one for one in reversed(newest.values()) if one.text not in page.text)
        notes = [
            say(
                "offline_quote", caller.language,
                text=shortened(one.text, MAX_NOTE),
                said_at=f"{local_time(one.said_at, caller.time_zone):%d.%m.%Y %H:%M}",
            )
            for one in islice(filter(tells, said), OVERVIEW_LINES)
        ]  # fmt: skip
        if not notes:
            return page
        text = "\n".join([say("memory_notes", caller.language), *notes])
        if page.rows:
            text = f"{page.text}\n\n{text}"
        return replace(page, text=text)

    async def about(self, caller: Caller) -> Reply:
        """Tell who the user is: a line for each subject, with a button for each fact and note."""
        language = caller.language
        if caller.owner.is_group:
            return Reply(say("day_in_private", language), is_personal=True)
        facts = await self._memories.get_user_facts(caller.owner)
        told = await self._client.run(DayRepository(self._client).list_told, caller.owner)
        by_subject = await asyncio.to_thread(_by_subject, facts, told)
        lines = [say("about_title", language)]
        buttons: list[Button] = []
        for subject in SUBJECTS:
            texts = []
            for entry in by_subject[subject][:MAX_OF_SUBJECT]:
                number = len(buttons) + 1
                text = shortened(entry.text, MAX_TEXT)
                texts.append(f"{number}. {text} · {caller.day(entry.said_at)}")
                buttons.append(_entry_button(entry, number))
            more = len(by_subject[subject]) - MAX_OF_SUBJECT
            if more > 0:
                texts.append(say("day_more", language, count=more))
            if texts:
                lines.append(f"{say(f'about_{subject}', language)}: {'; '.join(texts)}")
        if not buttons:
            return Reply(say("memory_empty", language))
        return Reply("\n".join(lines), in_rows(buttons, PER_ROW), say("about_hint", language))


def _hit_line(number: int, hit: Hit, caller: Caller) -> str:
    author = say("search_bot" if hit.speaker == "assistant" else "search_you", caller.language)
    if caller.owner.is_group and hit.speaker != "assistant":
        author = ""
        if hit.author.name:
            author = f", {hit.author.name}"
    others = gate.words_of(hit.author.provenance, hit.author.name, caller.language)
    if others:
        author = f", {others}"
    head = f"{caller.day(hit.said_at)}{author}"
    text = sentences.best_passage(hit.words, terms(caller.argument), MAX_SNIPPET)
    return f"{number}. {head}: {say('quoted', caller.language, text=shortened(text, MAX_SNIPPET))}"


def _without_echoes(found: Mapping[str, Hit], own: Sequence[str]) -> list[Hit]:
    """Leave out answers of the bot that only repeat what was found of the user's own words."""
    return [
        hit
        for hit in found.values()
        if hit.speaker != "assistant" or not any(words in hit.words for words in own)
    ]


# ``/about``: who the user is to the bot, in a line by subject, each with its sources.

Subject = Literal["you", "people", "pets", "work", "health", "likes", "plans", "wishes"]

SUBJECTS: tuple[Subject, ...] = get_args(Subject)  # in the order of the lines
MAX_OF_SUBJECT = 3  # facts or notes in a line
MAX_TEXT = 70  # characters of each
MAX_NOTES = 300  # newest sentences of messages that are looked through
PER_ROW = 4
PETS = {"@dog", "@cat", "@parrot", "@hamster", "@tortoise", "@horse", "@rabbit", "@pet"}
OF_RELATIONS: dict[Subject, str] = {
    "you": "name nickname age birthday gender nationality lives_in born_in address speaks"
    " native_language height weight time_zone email phone",
    "people": "married_to partner has_child has_sibling has_parent has_friend knows",
    "pets": "has_pet",
    "work": "works_as works_at studies_at studies skill",
    "health": "allergic_to condition takes_medicine diet",
    "likes": "likes dislikes hobby habit",
    "plans": "plans event",
    "wishes": WISH,
}
SUBJECT_OF = {name: subject for subject, names in OF_RELATIONS.items() for name in names.split()}
OF_KINDS: dict[str, Subject] = {
    "preference": "likes",
    "event": "plans",
    "conversation_insight": "plans",
}
# Words that tell the subject of a note, or of a fact without a known relation; tried in order.
OF_WORDS: dict[Subject, lexicon.Expression] = {
    "health": lexicon.AnyCase(r"(?<!\w)<about.health>(?!\w)"),
    "work": lexicon.AnyCase(r"(?<!\w)<about.work>(?!\w)"),
    "likes": lexicon.AnyCase(r"(?<!\w)<about.likes>(?!\w)"),
    "plans": lexicon.AnyCase(r"(?<!\w)<about.plans>(?!\w)"),
    "you": lexicon.AnyCase(r"(?<!\w)<about.you>(?!\w)"),
}


def subject_of_text(text: str) -> Subject | None:
    """Return the subject of a text by its words, or None; people and pets come first."""
    people = people_in(text)
    if people & PETS:
        return "pets"
    if any(person.startswith("@") for person in people):
        return "people"
    folded = fold(text)
    return next((subject for subject, words in OF_WORDS.items() if words.search(folded)), None)


def subject_of_fact(fact: memory_repo.StoredFact) -> Subject:
    """Return the subject of a fact: by its relation, whom it is about, its words, its kind."""
    known = SUBJECT_OF.get(fact.fact.relation)
    if known is not None and (fact.fact.subject == "user" or known == "pets"):
        return known
    if fact.fact.relation.startswith("favourite_"):
        return "likes"
    found = subject_of_text(f"{fact.fact.subject} {fact.text}")
    if found is not None:
        return found
    return OF_KINDS.get(fact.fact.memory_type, "you")


def _by_subject(
    facts: Sequence[memory_repo.StoredFact], told: Sequence[Told]
) -> dict[Subject, list[Told]]:
    """Return the facts by subject, best first, then the newest notes of subjects without any."""
    found: dict[Subject, list[Told]] = {subject: [] for subject in SUBJECTS}
    for fact in facts:
        entry = Told(fact_uid(fact.id), fact.source.uid, fact.text, fact.source.said_at)
        found[subject_of_fact(fact)].append(entry)
    lacking = {subject for subject in SUBJECTS if not found[subject]}
    for note in by_sentence([one for one in told if one.is_message][:MAX_NOTES]):
        subject = subject_of_text(note.text)
        if subject in lacking and tells(note):
            found[subject].append(note)
    return found


def _entry_button(entry: Told, number: int) -> Button:
    """Return the button that opens the card of a fact, or forgets a note."""
    if entry.is_message:
        return Button(f"🗑 {number}", Action("drop", (1, fact_number(entry.id, "msg-") or 0)))
    return Button(str(number), Action("fact", (fact_number(entry.id) or 0,)))
