"""``python bot.py eval FILE``: measures how well the retriever finds annotated evidence (LoCoMo).

Conversations are stored under temporary owners, each question is given to the retriever (no
model answers), and everything is deleted afterwards.
"""

import json
import re
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, Self

import numpy

from src.base.errors import AppError
from src.base.owners import Owner
from src.core import Core
from src.history import conversation_repo, new_messages
from src.memory import queries, search_index_repo
from src.memory.indexer import is_mere_question
from src.memory.prompts import fit_memories
from src.privacy.erasure_repo import ErasureRepository
from src.texts.morphology import terms

CATEGORIES = (1, 2, 3, 4)  # questions of category 5 have no answer in the conversation
ASSISTANTS = frozenset({"assistant", "bot"})  # names of speakers that stand for the bot
PIECES = ("1", "2", "3+")  # groups by the number of pieces of evidence
CUTS = (5, 10, 20)
BUDGETS = (1000, 3000, 7000)  # tokens of a prompt's memories; see ``memory_context_tokens``
SESSION = re.compile(r"session_(\d+)")
EVIDENCE = re.compile(r"D\d+:\d+")
TIME = "%I:%M %p on %d %B, %Y"  # 1:56 pm on 8 May, 2023
# Telegram ids have at most 52 bits, so these belong to no user.
FIRST_TEMPORARY_ID = 2**60


@dataclass(frozen=True)
class LocomoTurn:
    """Message of a conversation; ``dia_id`` is its id there (``D1:3``: session 1, message 3)."""

    dia_id: str
    session: int
    speaker: str
    text: str
    said_at: datetime

    @property
    def role(self) -> Literal["user", "assistant"]:
        """``assistant`` for the bot, ``user`` for all others."""
        if self.speaker.lower() in ASSISTANTS:
            return "assistant"
        return "user"

    @classmethod
    def parse_all(cls, conversation: Mapping[str, Any]) -> Iterator[Self]:
        """Yield the messages of a conversation in the file."""
        matches = map(SESSION.fullmatch, conversation)
        for number in sorted(int(match[1]) for match in matches if match is not None):
            date_time = conversation[f"session_{number}_date_time"]
            start = datetime.strptime(date_time, TIME).replace(tzinfo=UTC)
            for index, entry in enumerate(conversation[f"session_{number}"]):
                text = str(entry.get("text") or "")
                if entry.get("blip_caption"):
                    text = f"{text} [photo: {entry['blip_caption']}]".strip()
                moment = start + timedelta(seconds=20 * index)
                yield cls(entry["dia_id"], number, str(entry["speaker"]), text, moment)


@dataclass(frozen=True)
class LocomoQuestion:
    """Question, and the ids of the messages that answer it."""

    text: str
    category: int
    evidence: frozenset[str]

    @property
    def pieces(self) -> str:
        """Number of messages that answer it: ``1``, ``2`` or ``3+``."""
        return PIECES[min(len(self.evidence), len(PIECES)) - 1]


@dataclass(frozen=True)
class LocomoConversation:
    """Conversation in LoCoMo's format."""

    turns: Sequence[LocomoTurn]
    questions: Sequence[LocomoQuestion]

    @classmethod
    def parse(cls, sample: Mapping[str, Any]) -> Self:
        """Build it from an entry of the file.

        Raises:
            ValueError: It has no messages; other errors, if it is malformed.
        """
        turns = list(LocomoTurn.parse_all(sample["conversation"]))
        if not turns:
            raise ValueError("a conversation has no messages")
        ids = {turn.dia_id for turn in turns}
        questions = []
        for entry in sample["qa"]:
            evidence = frozenset(EVIDENCE.findall(" ".join(entry.get("evidence") or ()))) & ids
            if entry["category"] in CATEGORIES and evidence:
                question = LocomoQuestion(str(entry["question"]), entry["category"], evidence)
                questions.append(question)
        return cls(turns, questions)


class Report:
    """Measures of all questions, grouped by category and by number of pieces of evidence."""

    def __init__(self) -> None:
        """Start without questions."""
        self._groups: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)

    def add(
        self, question: LocomoQuestion, found: Sequence[str], shown: Mapping[int, Sequence[str]]
    ) -> None:
        """Measure how well the messages that were found cover the evidence of a question.

        Args:
            question: The question.
            found: Ids of messages, best first.
            shown: Ids of the messages that a prompt shows, by its tokens for memories.
        """
        evidence, measures = question.evidence, dict[str, float]()
        for cut in CUTS:
            hits = len(evidence.intersection(found[:cut]))
            measures[f"recall@{cut}"] = hits / len(evidence)
            measures[f"any@{cut}"] = float(hits > 0)
            measures[f"all@{cut}"] = float(hits == len(evidence))
        for tokens, dia_ids in shown.items():
            measures[f"shown@{tokens}"] = len(evidence.intersection(dia_ids)) / len(evidence)
        category = str(question.category)
        for group in (("overall", ""), ("categories", category), ("evidence", question.pieces)):
            self._groups[group].append(measures)

    def percentages(self) -> dict[str, Any]:
        """Return the means in percent and the numbers of questions, ready for JSON."""
        figures: dict[str, Any] = {"overall": {}, "categories": {}, "evidence": {}}
        for (kind, key), scores in sorted(self._groups.items()):
            means = {name: round(100 * fmean(s[name] for s in scores), 2) for name in scores[0]}
            figures[kind][key] = {"questions": len(scores), **means}
        return {**figures, "overall": figures["overall"].get("", {})}


async def evaluate(
    core: Core, path: Path, *, say: Callable[[str], None] = lambda _line: None
) -> dict[str, Any]:
    """Measure the retriever on the conversations of a file; return figures, ready for JSON.

    Args:
        core: Stores and searches as in the running bot.
        path: JSON file in LoCoMo's format.
        say: Receives lines about the progress.

    Raises:
        AppError: The file cannot be read or is not in that format.
    """
    conversations, run = load_conversations(path), core.client.run
    report, times = Report(), list[float]()
    for number, conversation in enumerate(conversations, start=1):
        size = len(conversation.turns)
        say(f"conversation {number} of {len(conversations)}, {size} messages")
        owner = Owner(FIRST_TEMPORARY_ID + secrets.randbelow(2**60))
        try:
            store = partial(store_conversation, core.conversations, core.memory.index)
            ids = await run(store, owner, conversation)
            await core.memory.indexer.embed_pending()
            now = conversation.turns[-1].said_at + timedelta(days=1)
            for question in conversation.questions:
                start = time.perf_counter()
                query = queries.Query(owner, question.text, now, limit=max(CUTS))
                hits = await core.memory.retriever.search(query)
                times.append(1000 * (time.perf_counter() - start))
                shown = {}
                for tokens in BUDGETS:
                    found = await core.memory.retriever.search(replace(query, tokens=tokens))
                    fitting = fit_memories(found, core.counter, tokens, "UTC")
                    shown[tokens] = [ids[hit.uid] for hit in fitting]
                report.add(question, [ids[hit.uid] for hit in hits], shown)
        finally:
            await run(ErasureRepository(core.client).erase, owner.telegram_user_id)
    return {
        "conversations": len(conversations),
        **report.percentages(),
        "milliseconds": {f"p{n}": round(float(numpy.percentile(times, n)), 2) for n in (50, 95)},
    }


def store_conversation(
    conversations: conversation_repo.ConversationRepository,
    index: search_index_repo.SearchIndexRepository,
    owner: Owner,
    conversation: LocomoConversation,
) -> dict[str, str]:
    """Store and index the messages; return their ids in the file by uid."""
    conversation_id = conversations.get_or_create_conversation(owner.telegram_user_id)
    ids, documents, previous = {}, [], None
    for turn in conversation.turns:
        text, speaker = turn.text, "assistant"
        if turn.role == "user":
            text, speaker = new_messages.add_time_label(text, turn.said_at, "UTC"), turn.speaker
        message = conversations.append_message(
            conversation_id, turn.role, text, said_at=turn.said_at
        )
        ids[f"msg-{message}"] = turn.dia_id
        said, is_continued = (speaker, turn.said_at), turn.session == previous
        document = search_index_repo.NewDocument(
            "message",
            message,
            *said,
            terms(turn.text),
            is_continued=is_continued,
            asks=is_mere_question(speaker, turn.text),
        )
        documents.append(document)
        previous = turn.session
    index.add_messages(owner, conversation_id, documents, [d.source_id for d in documents])
    return ids


def load_conversations(path: Path) -> list[LocomoConversation]:
    """Load a file in LoCoMo's format.

    Raises:
        AppError: It cannot be read, has another format, or no question with evidence.
    """
    try:
        samples = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(samples, list):
            samples = [samples]
        conversations = [LocomoConversation.parse(sample) for sample in samples]
    except (OSError, UnicodeDecodeError) as error:
        raise AppError(f"{path} cannot be read ({type(error).__name__})") from error
    except (json.JSONDecodeError, RecursionError) as error:
        raise AppError(f"{path} is no JSON") from error
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise AppError(
            f"{path} is not in LoCoMo's format ({type(error).__name__}: {str(error)[:80]})"
        ) from error
    if not any(conversation.questions for conversation in conversations):
        raise AppError(
            f"{path} holds no question to ask: none of category 1 to 4 whose evidence is there"
        )
    return conversations
