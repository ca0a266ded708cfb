"""``/about``: who the user is to the bot, in a line by subject, each with its sources."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from src.base.owners import Caller
from src.memory import memories
from src.memory.memory_repo import StoredFact, message_number
from src.pg.client import PgClient
from src.reading import lexicon
from src.reading.facts import WISH, fact_uid
from src.reading.times import fold
from src.reading.words import people_in
from src.reminders.day import by_sentence, tells
from src.reminders.day_repo import DayRepository, Told
from src.texts import Language, say
from src.texts.plain_text import shortened
from src.texts.reply import Action, Button, Reply, in_rows

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


def subject_of_fact(fact: StoredFact) -> Subject:
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


@dataclass(frozen=True)
class _Entry:
    """Fact or note in a line.

    Attributes:
        told: Its text and day.
        action: Effect of its button: the card of a fact, or the forgetting of a note.
        sign: What stands before the number on the button.
    """

    told: Told
    action: Action
    sign: str = ""


@dataclass(eq=False, repr=False)
class AboutScreen:
    """The page of ``/about``: facts by subject, and notes where facts lack."""

    _memories: memories.Memories
    _client: PgClient

    async def page(self, caller: Caller) -> Reply:
        """Return at most a line for each subject, with a button for each fact and note."""
        language = caller.language
        if caller.owner.is_group:
            return Reply(say("day_in_private", language), is_personal=True)
        facts = await self._memories.get_user_facts(caller.owner)
        told = await self._client.run(DayRepository(self._client).list_told, caller.owner)
        by_subject = await asyncio.to_thread(_sort, facts, told)
        lines = [say("about_title", language)]
        buttons: list[Button] = []
        for subject in SUBJECTS:
            texts = []
            for entry in by_subject[subject][:MAX_OF_SUBJECT]:
                number = len(buttons) + 1
                text = shortened(entry.told.text, MAX_TEXT)
                texts.append(f"{number}. {text} · {caller.day(entry.told.said_at)}")
                buttons.append(Button(f"{entry.sign}{number}", entry.action))
            if texts:
                lines.append(f"{_title(subject, language)}: {'; '.join(texts)}")
        if not buttons:
            return Reply(say("memory_empty", language))
        return Reply("\n".join(lines), in_rows(buttons, PER_ROW), say("about_hint", language))


def _sort(facts: Sequence[StoredFact], told: Sequence[Told]) -> dict[Subject, list[_Entry]]:
    """Return the facts by subject, best first, then the newest notes of subjects without any."""
    found: dict[Subject, list[_Entry]] = {subject: [] for subject in SUBJECTS}
    for fact in facts:
        entry = Told(fact_uid(fact.id), fact.source.uid, fact.text, fact.source.said_at)
        found[subject_of_fact(fact)].append(_Entry(entry, Action("fact", (fact.id,))))
    lacking = {subject for subject in SUBJECTS if not found[subject]}
    for note in _notes(told):
        subject = subject_of_text(note.text)
        if subject in lacking and tells(note):
            number = message_number(note.id) or 0
            found[subject].append(_Entry(note, Action("drop", (1, number)), "🗑 "))
    return found


def _notes(told: Sequence[Told]) -> Iterator[Told]:
    messages = [one for one in told if one.id.startswith("msg-")]
    yield from by_sentence(messages[:MAX_NOTES])


def _title(subject: Subject, language: Language) -> str:
    return say(f"about_{subject}", language)
