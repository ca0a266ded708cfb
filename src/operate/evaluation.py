"""``python bot.py eval FILE``: how well the retriever finds the annotated evidence (LoCoMo).

Conversations are stored under throw-away owners, every question is asked of the retriever (no
model answers), and everything is deleted again.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal

from src.base.errors import AppError
from src.base.owners import Owner
from src.core import MemoryRoom
from src.history.conversation_repo import ConversationRepository
from src.history.new_messages import add_time_label
from src.memory.retriever import Query
from src.memory.search_index_repo import NewDocument, SearchIndexRepository
from src.pg.client import PgClient
from src.privacy.erasure_repo import ErasureRepository
from src.texts.morphology import terms

CATEGORIES = (1, 2, 3, 4)  # 5 asks for what is not in the conversation
ASSISTANTS = frozenset({"assistant", "bot"})  # speakers who are the bot
MANY = 3  # pieces of evidence, and more
CUTS = (5, 10, 20)
SESSION = re.compile(r"session_(\d+)")
EVIDENCE = re.compile(r"D\d+:\d+")
TIME = "%I:%M %p on %d %B, %Y"  # 1:56 pm on 8 May, 2023
# Ids of no Telegram user: they have at most 52 bits.
FIRST_THROW_AWAY = 2**60


@dataclass(frozen=True)
class Turn:
    """One message of a conversation, with its id there (``D1:3``: session 1, message 3)."""

    dia_id: str
    session: int
    speaker: str
    text: str
    said_at: datetime

    @property
    def role(self) -> Literal["user", "assistant"]:
        """``assistant`` of the bot, ``user`` of everybody else."""
        return "assistant" if self.speaker.lower() in ASSISTANTS else "user"


@dataclass(frozen=True)
class Question:
    """A question, and the ids of the messages that answer it."""

    text: str
    category: int
    evidence: frozenset[str]

    @property
    def pieces(self) -> str:
        """How many messages answer it: ``1``, ``2`` or ``3+``."""
        count = len(self.evidence)
        return str(count) if count < MANY else f"{MANY}+"


@dataclass(frozen=True)
class Conversation:
    """A conversation in LoCoMo's format, read."""

    turns: Sequence[Turn]
    questions: Sequence[Question]


@dataclass
class Scores:
    """Sums over questions, of one category or of all."""

    questions: int = 0
    sums: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, found: Sequence[str], evidence: frozenset[str]) -> None:
        """One question: the ids that were found, best first, and those that answer it."""
        self.questions += 1
        for cut in CUTS:
            hits = len(evidence & set(found[:cut]))
            self.sums[f"recall@{cut}"] += hits / len(evidence)
            self.sums[f"any@{cut}"] += hits > 0
            self.sums[f"all@{cut}"] += hits == len(evidence)
        sessions = {session_of(dia_id) for dia_id in evidence}
        nearest = list(dict.fromkeys(session_of(dia_id) for dia_id in found))[:5]
        self.sums["session_any@5"] += bool(sessions & set(nearest))

    def percentages(self) -> dict[str, float]:
        """The figures in percent, with the number of questions."""
        names = [f"{kind}@{cut}" for kind in ("recall", "any", "all") for cut in CUTS]
        result: dict[str, float] = {"questions": self.questions}
        for name in [*names, "session_any@5"]:
            result[name] = round(100 * self.sums[name] / max(self.questions, 1), 2)
        return result


@dataclass
class Report:
    """The scores of all questions, by category, and by how many messages answer them."""

    overall: Scores = field(default_factory=Scores)
    categories: dict[str, Scores] = field(default_factory=lambda: defaultdict(Scores))
    evidence: dict[str, Scores] = field(default_factory=lambda: defaultdict(Scores))

    def add(self, question: Question, found: Sequence[str]) -> None:
        """One question, and the ids that were found, best first."""
        parts = (self.overall, self.categories[str(question.category)])
        for scores in (*parts, self.evidence[question.pieces]):
            scores.add(found, question.evidence)

    def percentages(self) -> dict[str, Any]:
        """All figures, ready for JSON."""
        groups = {"categories": self.categories, "evidence": self.evidence}
        return {"overall": self.overall.percentages()} | {
            name: {key: group[key].percentages() for key in sorted(group)}
            for name, group in groups.items()
        }


class Evaluation:
    """Stores conversations, asks, measures, deletes."""

    def __init__(
        self, client: PgClient, conversations: ConversationRepository, memory: MemoryRoom
    ) -> None:
        """Ask the retriever of ``memory``; everything is stored as the bot stores it."""
        self._client = client
        self._conversations = conversations
        self._index = memory.index
        self._indexer = memory.indexer
        self._retriever = memory.retriever
        self._erasure = ErasureRepository(client)

    async def run(
        self, path: Path, *, say: Callable[[str], None] = lambda _line: None
    ) -> dict[str, Any]:
        """Evaluate a file; returns the figures, ready for JSON.

        Args:
            path: A JSON file in LoCoMo's format.
            say: Gets a line about the progress now and then.

        Raises:
            AppError: The file cannot be read or is not in that format.
        """
        conversations = load_conversations(path)
        report = Report()
        times: list[float] = []
        for number, conversation in enumerate(conversations, start=1):
            size = len(conversation.turns)
            say(f"conversation {number} of {len(conversations)}, {size} messages")
            owner = Owner(FIRST_THROW_AWAY + secrets.randbelow(2**60))
            try:
                store = partial(store_conversation, self._conversations, self._index)
                ids = await self._client.run(store, owner, conversation)
                await self._indexer.embed_pending()
                for question in conversation.questions:
                    found, seconds = await self._ask(owner, question, ids, conversation)
                    times.append(1000 * seconds)
                    report.add(question, found)
            finally:
                await self._client.run(self._erasure.erase, owner.telegram_user_id)
        return {
            "conversations": len(conversations),
            **report.percentages(),
            "milliseconds": {"p50": percentile(times, 0.5), "p95": percentile(times, 0.95)},
        }

    async def _ask(
        self, owner: Owner, question: Question, ids: Mapping[str, str], conversation: Conversation
    ) -> tuple[list[str], float]:
        """The ids that the retriever finds, best first, and the seconds that it took."""
        now = conversation.turns[-1].said_at + timedelta(days=1)
        start = time.perf_counter()
        hits = await self._retriever.search(Query(owner, question.text, now, limit=max(CUTS)))
        seconds = time.perf_counter() - start
        return list(dict.fromkeys(ids[hit.uid] for hit in hits if hit.uid in ids)), seconds


def store_conversation(
    conversations: ConversationRepository,
    index: SearchIndexRepository,
    owner: Owner,
    conversation: Conversation,
) -> dict[str, str]:
    """Store and index the messages; returns the uid of each with its id in the file."""
    conversation_id = conversations.get_or_create_conversation(owner.telegram_user_id)
    ids, documents, previous = {}, [], None
    for turn in conversation.turns:
        text = turn.text
        if turn.role == "user":
            text = add_time_label(text, turn.said_at, "UTC")
        message = conversations.append_message(
            conversation_id, turn.role, text, said_at=turn.said_at
        )
        ids[f"msg-{message}"] = turn.dia_id
        speaker = turn.speaker if turn.role == "user" else "assistant"
        documents.append(
            NewDocument(
                "message", message, speaker, turn.said_at, terms(turn.text),
                is_continued=turn.session == previous,
            )
        )  # fmt: skip
        previous = turn.session
    index.add_messages(owner, conversation_id, documents, [d.source_id for d in documents])
    return ids


def load_conversations(path: Path) -> list[Conversation]:
    """Read a file in LoCoMo's format.

    Raises:
        AppError: It cannot be read, is something else, or asks nothing.
    """
    try:
        samples = json.loads(path.read_text(encoding="utf-8"))
        samples = samples if isinstance(samples, list) else [samples]
        conversations = [_conversation(sample) for sample in samples]
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


def session_of(dia_id: str) -> str:
    """``D1`` of ``D1:3``."""
    return dia_id.partition(":")[0]


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile, rounded to hundredths; 0 of nothing."""
    if not values:
        return 0.0
    return round(sorted(values)[min(len(values) - 1, int(share * len(values)))], 2)


def _conversation(sample: Mapping[str, Any]) -> Conversation:
    turns = list(_turns(sample["conversation"]))
    if not turns:
        raise ValueError("a conversation has no messages")
    known = {turn.dia_id for turn in turns}
    questions = []
    for entry in sample["qa"]:
        evidence = frozenset(EVIDENCE.findall(" ".join(entry.get("evidence") or ()))) & known
        if entry["category"] in CATEGORIES and evidence:
            questions.append(Question(str(entry["question"]), entry["category"], evidence))
    return Conversation(turns, questions)


def _turns(conversation: Mapping[str, Any]) -> Iterator[Turn]:
    numbers = sorted(
        int(match[1]) for name in conversation if (match := SESSION.fullmatch(name)) is not None
    )
    for number in numbers:
        written = conversation[f"session_{number}_date_time"]
        start = datetime.strptime(written, TIME).replace(tzinfo=UTC)
        for place, entry in enumerate(conversation[f"session_{number}"]):
            text = str(entry.get("text") or "")
            if caption := entry.get("blip_caption"):
                text = f"{text} [photo: {caption}]".strip()
            moment = start + timedelta(seconds=20 * place)
            yield Turn(entry["dia_id"], number, str(entry["speaker"]), text, moment)
