"""Batch extraction for many users with three providers under all faults.

    python -m tests.attacks.batches [--windows 1000] [--faults 0.2] [--seed 1]

Results are shuffled, doubled, foreign, swapped, malformed or missing. Batches fail, expire and are
cancelled. Calls end in 429 and 500, also after they took effect. The process dies between any two
steps. Users are erased and the provider is changed in the meantime. Prints one JSON line. The exit
status is 1 when a window was not effectively read exactly once, a fact came from a foreign window,
or a text remained with a provider.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from uuid import UUID

from src.core import build_caller
from src.llm.batch import CLASSES, LLMProvider
from src.memory.batch_extraction import BatchExtractionService
from src.memory.extraction import ExtractionService
from src.pg.client import PgClient
from src.privacy.erasure_repo import ErasureRepository
from tests.attacks.frame import own_postgres, run_attack
from tests.conftest import open_client
from tests.fakes.batch_servers import SERVERS, BatchServer, Ending, Fault
from tests.fakes.openai_server import Reply
from tests.integration.person import FAKE_EMBEDDINGS, Rig, fact, open_rig

FIRST_USER = 2**41
FAULTS: tuple[Fault, ...] = (
    "missing", "twice", "foreign", "malformed", "text", "error", "expired", "empty", "swapped",
)  # fmt: skip
ENDINGS: tuple[Ending, ...] = (
    "completed",
    "completed",
    "completed",
    "failed",
    "expired",
    "cancelled",
)
STATUSES = (429, 500, 503, 529)
MAX_ROUNDS = 400
HARMLESS = ("ok", "twice", "foreign", "text")


class Death(BaseException):
    """Death of the process."""


class Mortal:
    """Wrapper whose awaited calls tick a clock before and after; a tick can kill the process."""

    def __init__(self, inner: Any, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if not asyncio.iscoroutinefunction(value):
            return value

        async def call(*args: Any, **kwargs: Any) -> Any:
            self._clock.tick()
            result = await value(*args, **kwargs)
            self._clock.tick()
            return result

        return call


class Clock:
    """Countdown of steps until the process dies; negative: never."""

    def __init__(self) -> None:
        self.left = -1
        self.steps = 0

    def tick(self) -> None:
        """Count one step.

        Raises:
            Death: No steps are left.
        """
        self.steps += 1
        if self.left == 0:
            self.left = -1
            raise Death
        self.left -= self.left > 0


def read(words: str) -> dict[str, Any]:
    """Extract the facts of a window as a good model does: each user message is a fact."""
    block = words.partition("<messages>\n")[2].partition("\n</messages>")[0]
    said = [json.loads(line) for line in block.splitlines()]
    return {
        "facts": [
            {**fact(entry["text"]), "message": entry["uid"], "relation": "has_pet"}
            for entry in said
            if entry["role"] == "user"
        ]
    }


class Scene:
    """Users with one message each, and the services that extract its fact."""

    def __init__(self, rig: Rig, servers: dict[str, BatchServer], *, seed: int) -> None:
        self.rig = rig
        self.servers = servers
        self.random = random.Random(seed)
        self.clock = Clock()
        self.users: dict[int, UUID] = {}
        self.erased: set[int] = set()
        self.deaths = 0
        self.share = 0.0
        self._opened: list[LLMProvider] = []
        self.service = self._build()
        for server in servers.values():
            server.reply = read
            server.fault_of = self._fault

    def tell(self, count: int, first: int = 0) -> None:
        """Store one message about a pet for each of ``count`` users."""
        for number in range(first, first + count):
            user = FIRST_USER + number
            self.users[user] = self.rig.conversation(user)
            self.rig.fill(
                self.users[user], ("user", self.words(user)), ("assistant", f"Понял {number}")
            )
        self.rig.client.execute("UPDATE messages SET created_at = now() - interval '2 hours'")

    def words(self, user: int) -> str:
        """Return the message of a user."""
        return f"У меня кот по имени Барсик{user - FIRST_USER}"

    async def run(self, act: Callable[[], None] = lambda: None) -> None:
        """Run steps until nothing is left to extract.

        Raises:
            AssertionError: Work was left after ``MAX_ROUNDS`` rounds.
        """
        for _round in range(MAX_ROUNDS):
            act()
            await self.step()
            for server in self.servers.values():
                server.finish(ending=self.random.choice(ENDINGS) if self.share else "completed")
            self.rig.client.execute(
                "UPDATE batch_jobs SET created_at = created_at - interval '25 hours'"
                " WHERE status = 'failed'"
            )
            if self.is_over():
                return
        raise AssertionError(
            f"no end: {self.rig.rows('SELECT status, error_message FROM batch_jobs')}"
        )

    async def step(self) -> None:
        """Run the periodic job once, and extract online the windows that failed too often."""
        try:
            await self.service.poll()
            await self.service.gather()
            given_up = await self.rig.core.memory.digest.list_silent()
            for conversation_id in given_up:
                self.rig.model.reply = self._read_online
                await self.extraction.extract(conversation_id)
        except Death:
            self.deaths += 1
            self.service = self._build()

    def is_over(self) -> bool:
        """Return True if all windows were extracted and no batch is open."""
        [(unread,)] = self.rig.rows(
            "SELECT count(*) FROM conversations c JOIN messages m ON m.conversation_id = c.id"
            " WHERE m.position > c.extracted_position"
        )
        [(open_jobs,)] = self.rig.rows(
            "SELECT count(*) FROM batch_jobs WHERE status NOT IN ('completed', 'failed')"
        )
        return not unread and not open_jobs

    def check(self) -> Counter[str]:
        """Return the number of violations by kind."""
        violations: Counter[str] = Counter()
        facts: dict[int, set[int]] = {}
        for user, number, text, said_to in self.rig.rows(
            "SELECT f.telegram_user_id, f.id, f.text, c.telegram_user_id FROM facts f"
            " LEFT JOIN memory_sources s ON s.memory_id = f.id"
            " LEFT JOIN messages m ON m.id = s.message_id"
            " LEFT JOIN conversations c ON c.id = m.conversation_id"
        ):
            facts.setdefault(user, set()).add(number)
            violations["foreign"] += text != self.words(user) or said_to != user
        for user in self.users:
            user_facts = facts.get(user, set())
            expected = 0 if user in self.erased else 1
            violations["lost"] += len(user_facts) < expected
            violations["double"] += len(user_facts) > expected
        violations["waiting"] += len(
            self.rig.rows("SELECT 1 FROM batch_requests WHERE status = 'waiting'")
        )
        for server in self.servers.values():
            violations["left at the provider"] += server.holds("Барсик")
        return +violations

    def erase(self, user: int) -> None:
        """Erase a user."""
        self.erased.add(user)
        ErasureRepository(self.rig.client).erase(user)

    async def close(self) -> None:
        for provider in self._opened:
            await provider.close()

    def _build(self) -> BatchExtractionService:
        """Build the services as a new process does."""
        client: Any = Mortal(self.rig.client, self.clock)
        core = self.rig.core
        stored = core.memory.settings
        self.extraction = ExtractionService(
            client, core.memory.memories, lambda _name: build_caller(core.settings),
            core.ceilings, "Europe/Moscow",
        )  # fmt: skip
        return BatchExtractionService(
            client, stored, self.extraction, core.ceilings, core.metrics, core.settings,
            self._provider,
        )  # fmt: skip

    def _provider(self, name: str, _settings: Any) -> LLMProvider:
        provider = CLASSES[name]("key", self.servers[name].url)  # type: ignore[attr-defined]
        self._opened.append(provider)
        mortal: Any = Mortal(provider, self.clock)
        return mortal  # type: ignore[no-any-return]

    def _fault(self, _words: str) -> Fault:
        return self.random.choice(FAULTS) if self.random.random() < self.share else "ok"

    def _read_online(self, request: Any) -> Reply:
        words = str(request.messages[-1]["content"])
        return Reply(tool_calls=[("ExtractedFacts", read(words))])


def misfortunes(scene: Scene) -> None:
    """Inject random faults between two steps."""
    rng = scene.random
    for name, server in scene.servers.items():
        if rng.random() < scene.share:
            method = rng.choice(["GET", "POST", "DELETE"])
            part = "Batch" if name == "google" and method == "POST" else "batch"
            failure = (method, part, rng.choice(STATUSES), rng.random() < 0.5)
            server.failures = [failure]
    if rng.random() < scene.share:
        scene.clock.left = rng.randrange(1, 200)
    if rng.random() < scene.share:
        name = rng.choice([*scene.servers, "immediate"])
        scene.rig.set(memory_extraction_provider=name if name != "immediate" else "openai")
    left = [user for user in scene.users if user not in scene.erased]
    if len(left) > 1 and rng.random() < scene.share:
        scene.erase(rng.choice(left))


@asynccontextmanager
async def open_scene(client: PgClient, *, seed: int, share: float) -> AsyncIterator[Scene]:
    """Open a scene with three providers and without users."""
    async with AsyncExitStack() as stack:
        rig = await stack.enter_async_context(open_rig(client, embedding_model=FAKE_EMBEDDINGS))
        servers = {
            name: await stack.enter_async_context(kind(seed)) for name, kind in SERVERS.items()
        }
        scene = Scene(rig, servers, seed=seed)
        scene.share = share
        rig.set(memory_extraction_provider="openai")
        yield scene
        await scene.close()


async def attack(client: PgClient, windows: int, faults: float, seed: int) -> dict[str, Any]:
    """Run extraction with all faults; returns the report."""
    async with open_scene(client, seed=seed, share=faults) as scene:
        scene.tell(windows)
        await scene.run(lambda: misfortunes(scene))
        states = dict(
            scene.rig.rows("SELECT status, count(*)::int FROM batch_requests GROUP BY 1")
        )
        return {
            "windows": windows, "erased": len(scene.erased), "deaths": scene.deaths,
            "batches": scene.rig.rows("SELECT count(*) FROM batch_jobs")[0][0],
            "requests": states, "wrong": dict(scene.check()),
        }  # fmt: skip


async def main(windows: int, faults: float, seed: int) -> dict[str, Any]:
    """Run the attack on its own PostgreSQL."""
    async with own_postgres() as own:
        for client in open_client(own.dsn):
            return {"seed": seed, **await attack(client, windows, faults, seed)}
    raise AssertionError


if __name__ == "__main__":
    options = {"--windows": 1000, "--faults": 0.2, "--seed": 1}
    run_attack(main, options, wrong=["wrong"])
