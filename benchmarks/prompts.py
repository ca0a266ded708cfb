"""Prompt figures: the share covered by a provider's cache, and the length.

    python -m benchmarks.prompts            the figures, and one prompt as the model sees it
    python -m benchmarks.prompts --example  the prompt alone, for docs/memory.md
    python -m benchmarks.prompts --save     also write benchmarks/results/caches.json

A user talks to the assistant for 200 turns, in Russian, Ukrainian and English. Facts are saved by
the tool now and then, and the background works after every turn as it does in the bot. The
requests that reach the model's server are measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import psycopg2

from benchmarks.chat_texts import (
    ANSWERS,
    EXAMPLE,
    EXAMPLE_SUMMARIES,
    FACTS,
    REMARKS,
    STORIES,
    ToldFact,
    language_at,
)
from src.base.config import Settings
from src.base.owners import Caller, Owner, Preferences
from src.core import Core, open_core
from src.llm.tokens import TOKENS_PER_MESSAGE, TokenCounter
from src.memory.prompts import MERGE_PROMPT, SUMMARY_PROMPT
from src.pg.client import PgClient
from src.pg.embedded import EmbeddedPostgres
from src.talk.prompt import SYSTEM_PROMPT
from src.talk.turn_state import IncomingMessage, Turn
from tests.fakes.openai_server import ChatRequest, FakeOpenAI, Reply, text_of
from tests.fakes.other_models import FakeOtherModels, as_chat_request
from tests.fakes.prompt_caches import AnthropicCache, readable
from tests.oracle import Oracle

MODEL = "openai:gpt-5-mini"
OTHERS = {"anthropic": "anthropic:claude-sonnet-4-6", "google": "google_genai:gemini-2.5-flash"}
TURNS = 200
USER = 2**41
# OpenAI, "Prompt caching": prompts of 1,024 tokens or more are cached, in steps of 128, until
# unused for five to ten minutes. Google caches implicitly too, without guarantee and steps.
CACHED_FROM, CACHED_STEP = 1024, 128
CACHED_SECONDS = 600
# Relative prices of tokens: read from a cache (all three providers), and written to Anthropic's.
READ, WRITTEN = 0.1, 1.25
SAVED = Path(__file__).parent / "results" / "caches.json"
MEMORY_BLOCKS = frozenset({"user_facts", "history_summary", "memories"})

# Insert a long conversation: messages with positions and times, the newest one now.
INSERT_MESSAGES = """
WITH stored AS (
    INSERT INTO messages (conversation_id, role, content, position, said_at, created_at)
    SELECT %(conversation)s, CASE WHEN n %% 2 = 1 THEN 'user' ELSE 'assistant' END,
           CASE WHEN n %% 2 = 1 THEN '[Текущее время: 2026-01-01 12:00] ' ELSE '' END
               || 'Реплика ' || n || '. ' || %(text)s, n, moment, moment
    FROM generate_series(1, %(messages)s) n,
         LATERAL (SELECT now() - (%(messages)s - n + 1) * interval '1 minute') AS t (moment)
    RETURNING conversation_id, id, position
)
INSERT INTO unindexed_messages SELECT conversation_id, id FROM stored WHERE position <= %(found)s
"""
# Insert facts of all degrees of importance.
INSERT_FACTS = """
INSERT INTO memories (owner_id, memory_type, text, subject, relation, object, importance,
                      origin, content_hash)
SELECT add_owner(%(user)s, 0), 'user_fact', 'Факт ' || n || ': ' || %(text)s, 'user', 'other', 'x',
       1 + n %% 10, 'tool', 'bench ' || n
FROM generate_series(1, %(facts)s) n
"""
# Insert summaries of all but the newest 30 messages: a merged one, then one per six messages.
INSERT_SUMMARIES = """
INSERT INTO conversation_summaries (conversation_id, first_position, last_position, content)
SELECT %(conversation)s, first, last, left(%(text)s, CASE first WHEN 1 THEN 1000 ELSE 500 END)
FROM (SELECT 1 AS first, %(messages)s - 60 AS last
      UNION ALL SELECT n, n + 5 FROM generate_series(%(messages)s - 59, %(messages)s - 30, 6) n
     ) AS parts
WHERE %(messages)s > 60
"""


class Voice:
    """Model that gives answers of realistic length and saves the fact that was just told."""

    def __init__(self) -> None:
        self._chance = random.Random(11)
        self.turn = 0
        self.fact: ToldFact | None = None

    def message(self, turn: int) -> str:
        """Return the user's message of a turn: a fact, a remark, or one to four sentences."""
        self.turn = turn
        self.fact = next((fact for fact in FACTS if fact.turn == turn), None)
        if self.fact is not None:
            return f"{self.fact.said}."
        language = language_at(turn)
        if self._chance.random() < 0.3:
            return self._chance.choice(REMARKS[language])
        count = self._chance.choice((1, 1, 2, 2, 3, 4))
        return " ".join(self._chance.sample(STORIES[language], count))

    def reply(self, request: ChatRequest) -> Reply:
        """Return the model's reply to any request."""
        if any(tool["function"]["name"] == "ExtractedFacts" for tool in request.tools):
            return Reply(tool_calls=[("ExtractedFacts", {"facts": []})])
        if request.system_text in (SUMMARY_PROMPT, MERGE_PROMPT):
            length = 320 if request.system_text == SUMMARY_PROMPT else 640
            return Reply(text=_gist(text_of(request.messages[-1]["content"]), length))
        if self.fact is not None and request.messages[-1]["role"] != "tool":
            fact, self.fact = self.fact, None
            return Reply(tool_calls=[("save_user_fact", _arguments(fact))])
        sentences = ANSWERS[language_at(self.turn)]
        return Reply(text=" ".join(self._chance.sample(sentences, self._chance.choice((1, 2, 4)))))


def _arguments(fact: ToldFact) -> dict[str, object]:
    return {
        "text": fact.said,
        "quote": fact.said,
        "relation": fact.relation,
        "object": fact.object,
        "importance": fact.importance,
    }


def _gist(quoted: str, length: int) -> str:
    """Return about ``length`` characters of the texts to be summarized."""
    records = [json.loads(line) for line in quoted.splitlines() if line.startswith("{")]
    texts = [str(record.get("text") or record.get("summary") or "") for record in records]
    share = length // max(1, len(texts))
    return "; ".join(text[:share].rpartition(" ")[0] or text[:share] for text in texts)


# --- the chat


@dataclass(frozen=True)
class Asked:
    """Request for an answer, tool rounds included, and its time in the talk, in seconds."""

    request: ChatRequest
    at: float


async def simulate(
    core: Core, model: FakeOpenAI | FakeOtherModels, *, turns: int = TURNS
) -> list[Asked]:
    """Talk for ``turns`` turns; return the requests for answers, in order."""
    voice, chance = Voice(), random.Random(12)
    moment = datetime(2026, 9, 1, 6, 0, tzinfo=UTC)
    asked: list[Asked] = []

    def reply(request: ChatRequest) -> Reply:
        if SYSTEM_PROMPT in request.system_text:
            asked.append(Asked(request, moment.timestamp()))
        return voice.reply(request)

    if isinstance(model, FakeOpenAI):
        model.reply = reply
    else:
        model.reply = lambda body: reply(as_chat_request(body))
    for turn in range(1, turns + 1):
        moment += timedelta(minutes=chance.choice((1, 2, 3, 5, 20, 90, 600)))
        await _talk(core, voice.message(turn), moment)
    return asked


async def _talk(core: Core, text: str, moment: datetime) -> UUID:
    """Run a turn and the background work after it."""
    caller = Caller(Owner(USER), Preferences("ru", "Europe/Moscow"), moment)
    turn = Turn(IncomingMessage(caller, text))
    await core.agent.run_turn(turn)
    await core.memory.digest.digest_turn(turn.conversation_id)
    return turn.conversation_id


def cache_figures(asked: Sequence[Asked]) -> dict[str, float]:
    """Return the shares that OpenAI's cache would cover, from each request and the previous one.

    ``prompt_cached_share`` counts whole blocks as OpenAI does, ``prompt_shared_share`` tokens,
    and ``..._with_pauses`` excludes what expires in the pauses of the chat. The tools'
    descriptions are a part of the prompt; ``..._of_messages`` are the shares without them.
    """
    counter = Oracle(MODEL)
    requests = [entry.request for entry in asked]
    prompts = [rendered(request) for request in requests]
    messages = [prompt[1:] for prompt in prompts]
    return {
        "prompt_requests": float(len(requests)),
        "prompt_tokens_mean": sum(_tokens(prompt, counter) for prompt in prompts) / len(prompts),
        "prompt_tokens_of_tools": float(_tokens(prompts[0][:1], counter)),
        "prompt_tokens_of_system": float(_tokens(prompts[0][1:2], counter)),
        "prompt_tokens_of_memory_mean": _mean([memory_tokens(r, counter) for r in requests]),
        "prompt_cached_share": cached_share(prompts, counter, in_blocks=in_blocks),
        "prompt_cached_share_with_pauses": cached_share(
            prompts, counter, in_blocks=in_blocks, moments=[entry.at for entry in asked]
        ),
        "prompt_shared_share": cached_share(prompts, counter),
        "prompt_cached_share_of_messages": cached_share(messages, counter, in_blocks=in_blocks),
        "prompt_shared_share_of_messages": cached_share(messages, counter),
    }


def cached_share(
    prompts: Sequence[Sequence[str]],
    counter: TokenCounter,
    *,
    in_blocks: Callable[[int], int] = int,
    moments: Sequence[float] = (),
) -> float:
    """Return the share of all tokens that are in a common prefix with the previous prompt.

    With ``moments``, a prompt expires after CACHED_SECONDS.
    """
    shared = [shared_tokens(*pair, counter) for pair in pairwise(prompts)]
    if moments:
        rests = [later - earlier for earlier, later in pairwise(moments)]
        shared = [
            tokens if rest <= CACHED_SECONDS else 0
            for tokens, rest in zip(shared, rests, strict=True)
        ]
    return sum(map(in_blocks, shared)) / sum(_tokens(prompt, counter) for prompt in prompts)


@dataclass(frozen=True)
class CacheFigures:
    """Shares of one provider, in percent.

    Attributes:
        name: The provider and its rules.
        share: Prompt tokens that are read from its cache.
        cost: Cost of the prompts, relative to their cost without a cache.
        share_with_pauses: Share in a chat with pauses, in which entries expire.
        cost_with_pauses: Cost in such a chat.
    """

    name: str
    share: int
    cost: int
    share_with_pauses: int
    cost_with_pauses: int


def prefix_cache_figures(name: str, asked: Sequence[Asked], counter: TokenCounter) -> CacheFigures:
    """Return the figures of a cache without marks: OpenAI's, or Google's if it always hits."""
    blocks = in_blocks if name.startswith("OpenAI") else int
    as_parts = rendered if name.startswith("OpenAI") else rendered_for_google
    prompts = [as_parts(entry.request) for entry in asked]
    moments = [entry.at for entry in asked]
    shares = [
        cached_share(prompts, counter, in_blocks=blocks),
        cached_share(prompts, counter, in_blocks=blocks, moments=moments),
    ]
    figures = [(round(100 * share), round(100 - 100 * share * (1 - READ))) for share in shares]
    return CacheFigures(name, *figures[0], *figures[1])


def anthropic_figures(name: str, asked: Sequence[Asked], least: int) -> CacheFigures:
    """Return the figures of Anthropic's cache, for models that cache from ``least`` tokens on."""
    counter, figures = Oracle(OTHERS["anthropic"]), []
    for has_pauses in (False, True):
        now = [0.0]
        cache = AnthropicCache(least, counter.count, lambda now=now: now[0])
        billed = []
        for entry in asked:
            now[0] = entry.at if has_pauses else 0.0
            billed.append(cache.bill(entry.request.raw))
        total = sum(b.total for b in billed)
        cost = sum(WRITTEN * b.written + READ * b.read + b.fresh for b in billed) / total
        figures.append((round(100 * sum(b.read for b in billed) / total), round(100 * cost)))
    return CacheFigures(name, *figures[0], *figures[1])


def cache_table(figures: Sequence[CacheFigures]) -> str:
    """Return the figures as the table of docs/memory.md."""
    rows = [
        "| prompt tokens read from the cache, and the cost of all beside that without a cache "
        "| without pauses | with the chat's pauses (1 to 600 minutes) |",
        "|---|---|---|",
    ]
    rows += [
        f"| {one.name} | {one.share} % (cost {one.cost} %) "
        f"| {one.share_with_pauses} % (cost {one.cost_with_pauses} %) |"
        for one in figures
    ]
    return "\n".join(rows)


def _mean(numbers: Sequence[int]) -> float:
    return sum(numbers) / len(numbers)


def rendered(request: ChatRequest) -> list[str]:
    """Return the parts of a request in the order of the model: tools, then messages."""
    parts = [json.dumps(request.tools, ensure_ascii=False)]
    for message in request.messages:
        head = f"{message['role']}\n{message.get('name', '')}\n"
        calls = json.dumps(message["tool_calls"]) if message.get("tool_calls") else ""
        parts.append(f"{head}{text_of(message.get('content'))}{calls}")
    return parts


def rendered_for_google(request: ChatRequest) -> list[str]:
    """Return the parts of a request to Google in the order of the model."""
    raw = request.raw
    beginning = readable(raw["tools"]) + readable(raw["systemInstruction"])
    return [beginning, *(readable(content) for content in raw["contents"])]


def shared_tokens(before: Sequence[str], after: Sequence[str], counter: TokenCounter) -> int:
    """Return the number of tokens in the common prefix of both prompts."""
    equal = 0
    while equal < min(len(before), len(after)) and before[equal] == after[equal]:
        equal += 1
    tokens = _tokens(after[:equal], counter)
    if equal < min(len(before), len(after)):
        tokens += counter.count(_common_start(before[equal], after[equal]))
    return tokens


def _common_start(one: str, other: str) -> str:
    length = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    return one[:length] if length is not None else min(one, other, key=len)


def in_blocks(tokens: int) -> int:
    """Return how many of the shared tokens a cache of whole blocks covers."""
    if tokens < CACHED_FROM:
        return 0
    return tokens - (tokens - CACHED_FROM) % CACHED_STEP


def _tokens(parts: Sequence[str], counter: TokenCounter) -> int:
    return sum(counter.count(part) + TOKENS_PER_MESSAGE for part in parts)


# --- the length of the context


def fill_chat(client: PgClient, conversation_id: UUID, user: int, messages: int) -> None:
    """Fill a conversation with messages, 300 facts and summaries of maximum length.

    The oldest forty messages are left for the indexer, so that searches find something.
    """
    story = " ".join(STORIES["ru"])
    parameters = {
        "conversation": str(conversation_id),
        "user": user,
        "messages": messages,
        "found": min(40, messages - 30),
        "facts": 300,
        "text": story,
    }
    client.execute(INSERT_MESSAGES, {**parameters, "text": story[:900]})
    client.execute(INSERT_FACTS, {**parameters, "text": story[:380]})
    client.execute(INSERT_SUMMARIES, parameters)


def memory_tokens(request: ChatRequest, counter: TokenCounter) -> int:
    """Return the tokens of a request's memory blocks."""
    blocks = [m for m in request.messages if m.get("name") in MEMORY_BLOCKS]
    texts = [f"{m['role']}\n{m['name']}\n{text_of(m['content'])}" for m in blocks]
    return _tokens(texts, counter)


async def context_figures(core: Core, model: FakeOpenAI) -> dict[str, float]:
    """Measure the memory's part of the prompt after 10, 1,000 and 100,000 messages."""
    counter, figures = Oracle(MODEL), {}
    model.reply = Voice().reply
    for number, messages in enumerate((10, 1_000, 100_000), start=1):
        user = USER + number
        conversation_id = core.conversations.get_or_create_conversation(user)
        fill_chat(core.client, conversation_id, user, messages)
        await core.memory.indexer.index_conversation(conversation_id)
        await core.memory.indexer.embed_pending()
        question = "Что я рассказывал про стиральную машину, дачу и велосипед?"
        caller = Caller(Owner(user), Preferences("ru", "Europe/Moscow"), datetime.now(UTC))
        await core.agent.run_turn(Turn(IncomingMessage(caller, question)))
        request = model.requests[-1]
        figures[f"context_tokens_after_{messages}"] = float(memory_tokens(request, counter))
        prompt = _tokens(rendered(request)[1:], counter)
        figures[f"whole_prompt_tokens_after_{messages}"] = float(prompt)
    return figures


# --- one prompt, for docs/memory.md


async def example_prompt(core: Core, model: FakeOpenAI) -> str:
    """Return the last request of a short chat as the model reads it, its history shortened."""
    moment = datetime(2026, 3, 2, 7, 0, tzinfo=UTC)
    summaries = iter(EXAMPLE_SUMMARIES)

    def reply(request: ChatRequest) -> Reply:
        if any(tool["function"]["name"] == "ExtractedFacts" for tool in request.tools):
            return Reply(tool_calls=[("ExtractedFacts", {"facts": []})])
        if request.system_text == SUMMARY_PROMPT:
            return Reply(text=next(summaries))
        if request.messages[-1]["role"] != "tool" and fact is not None:
            return Reply(tool_calls=[("save_user_fact", _arguments(fact))])
        return Reply(text=answer)

    model.reply = reply
    for text, answer, fact in EXAMPLE:  # noqa: B007  (``reply`` reads them)
        moment += timedelta(hours=7)
        await _talk(core, text, moment)
    messages = [r for r in model.requests if SYSTEM_PROMPT in r.system_text][-1].messages
    history = [n for n, m in enumerate(messages) if m["role"] != "system"]
    left_out = range(history[2], history[-3])
    shown = [_shown(m) for n, m in enumerate(messages) if n not in left_out]
    shown.insert(left_out.start, f"… {len(left_out)} more messages …")
    return "\n\n".join(shown)


def _shown(message: dict[str, Any]) -> str:
    head = f"── {message['role']} {message.get('name', '')}".rstrip()
    return f"{head}\n{text_of(message.get('content')).strip()}"


# --- running it


def measure_prompts(dsn: str, *, turns: int = TURNS) -> dict[str, float]:
    """Measure everything in a new database on the server of ``dsn``; 200 turns take four minutes.

    Most of the time goes to the local embedder, which decides what is found and so what a prompt
    holds.
    """
    return asyncio.run(_measure(dsn, turns))


async def _measure(dsn: str, turns: int) -> dict[str, float]:
    async with _bot(dsn) as (core, model):
        return cache_figures(await simulate(core, model, turns=turns)) | await context_figures(
            core, model
        )


async def measure_caches(dsn: str, turns: int) -> list[CacheFigures]:
    """Measure the caches of all providers in a new database on the server of ``dsn``."""
    async with _bot(dsn) as (core, model):
        asked = await simulate(core, model, turns=turns)
        figures = [prefix_cache_figures("OpenAI, in steps of 128 tokens", asked, Oracle(MODEL))]
    async with FakeOtherModels() as server:
        async with _core(dsn, "anthropic", server) as core:
            asked = await simulate(core, server, turns=turns)
            figures += [
                anthropic_figures("Anthropic, models that cache from 1,024 tokens", asked, 1024),
                anthropic_figures("Anthropic, from 4,096 (Haiku 4.5)", asked, 4096),
            ]
        async with _core(dsn, "google", server) as core:
            asked = await simulate(core, server, turns=turns)
            counter = Oracle(OTHERS["google"])
            figures.append(prefix_cache_figures("Google, if it always hits", asked, counter))
    return figures


async def _show_example(dsn: str) -> str:
    async with _bot(dsn) as (core, model):
        return await example_prompt(core, model)


@asynccontextmanager
async def _bot(dsn: str) -> AsyncIterator[tuple[Core, FakeOpenAI]]:
    """Run a bot without Telegram on a new database, with a model with OpenAI's API."""
    async with FakeOpenAI() as model, _core(dsn, "openai", model) as core:
        yield core, model


@asynccontextmanager
async def _core(
    dsn: str, provider: str, model: FakeOpenAI | FakeOtherModels
) -> AsyncIterator[Core]:
    """Run a bot without Telegram on a new database, with a model of ``provider``."""
    with _new_database(dsn) as address:
        values: dict[str, Any] = {
            "llm_model": OTHERS.get(provider, MODEL),
            f"{provider}_base_url": model.url,
            f"{provider}_api_key": "bench-key",
            "database_url": address,
            "embedding_model": "local",
            "llm_calls": "tools",
        }
        async with open_core(Settings(**values)) as core:
            await core.warm_up()
            yield core


@contextmanager
def _new_database(dsn: str) -> Iterator[str]:
    """Create a database on the server of ``dsn`` for the block, and drop it afterwards."""
    name = "pomni_prompts"
    connection = psycopg2.connect(dsn)
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            cursor.execute(f"CREATE DATABASE {name} TEMPLATE template0")
            yield urlsplit(dsn)._replace(path=f"/{name}").geturl()
            cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        connection.close()


def main() -> None:
    """Print the figures and the example."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prompts")
    parser.add_argument("--example", action="store_true", help="only the prompt")
    parser.add_argument("--save", action="store_true", help=f"also write {SAVED.name}")
    parser.add_argument("--turns", type=int, default=TURNS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pomni-bench-") as folder:
        server = EmbeddedPostgres(Path(folder))
        dsn = server.start()
        try:
            if not arguments.example:
                caches = asyncio.run(measure_caches(dsn, arguments.turns))
                print(f"{cache_table(caches)}\n")
                if arguments.save:
                    SAVED.write_text(json.dumps([vars(one) for one in caches], indent=1) + "\n")
                for name, value in measure_prompts(dsn, turns=arguments.turns).items():
                    print(f"{name:36}{value:10.3f}" if value < 10 else f"{name:36}{value:10.0f}")
                print()
            print(asyncio.run(_show_example(dsn)))
        finally:
            server.stop()


if __name__ == "__main__":
    main()
