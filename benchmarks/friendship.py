"""``python -m benchmarks.friendship``: what holds is found after twelve weeks as after one.

Simulated people tell the bot things about ten others, tell what changed, have things forgotten,
ask the same again and again, and talk of nothing in between (``friendship.toml``). Two of three
statements become facts, as a model would store them; ``--no-facts`` is the bot without a model.
At the end of a week each person asks for a sample of what they told: the current statement is to
be among the first five hits, an earlier one never before it, a forgotten one never at all. All in
a throw-away database. The full run: ``--people 200 --messages 2000``.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import tomllib
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from src.base.config import Settings
from src.base.owners import Owner
from src.core import Core, open_core
from src.memory.queries import Query
from src.memory.retrieval_repo import Hit
from src.memory.writer import SourceText
from src.reading.facts import Fact

WORDS = Path(__file__).with_name("friendship.toml")
LANGUAGES = ("ru", "uk", "en")
START = datetime(2026, 1, 5, 8, tzinfo=UTC)
WEEKS = 12
CUT = 5
SAMPLE = 12  # questions of a person at the end of a week
FACTS = 0.67  # share of statements that become facts
# What a person does, in shares of their messages.
TELL, CHANGE, FORGET, ASK = 0.22, 0.12, 0.03, 0.4
THING = tuple[str, str]  # whose, what


@dataclass
class Told:
    """The current statement about a thing, the earlier ones, and its fact."""

    text: str
    uid: str
    earlier: list[str] = field(default_factory=list)
    fact: int | None = None


@dataclass
class Friend:
    """One simulated person."""

    core: Core
    owner: Owner
    conversation: UUID
    words: Mapping[str, Any]
    chance: random.Random
    has_facts: bool
    told: dict[THING, Told] = field(default_factory=dict)
    forgotten: dict[THING, list[str]] = field(default_factory=lambda: defaultdict(list))
    now: datetime = START

    def say(self, text: str, role: str = "user") -> int:
        """Store a message, some minutes after the last one."""
        self.now += timedelta(minutes=self.chance.randint(2, 90))
        return self.core.conversations.append_message(
            self.conversation, role, text, said_at=self.now
        )

    async def live(self, messages: int) -> None:
        """Write the messages of a week."""
        things = [(who, what) for who in self.words["who"] for what in self.words["attributes"]]
        for _ in range(messages):
            dice = self.chance.random()
            known = sorted(self.told)
            new = [thing for thing in things if thing not in self.told]
            if new and (dice < TELL or not known):
                await self.tell(self.chance.choice(new), "tell")
            elif dice < TELL + CHANGE:
                await self.tell(self.chance.choice(known), "change")
            elif dice < TELL + CHANGE + FORGET:
                await self.forget(self.chance.choice(known))
            elif dice < TELL + CHANGE + FORGET + ASK:
                self.say(self.question(self.chance.choice(known[:SAMPLE])))
                self.say("OK.", "assistant")
            else:
                line = self.chance.choice(self.words["small_talk"])
                self.say(line.format(n=self.chance.randint(2, 400)))
        await self.core.memory.indexer.index_conversation(self.conversation)
        await self.core.memory.indexer.embed_pending()

    def question(self, thing: THING) -> str:
        """How they ask for a thing."""
        who, what = thing
        asked, _ = self.words["attributes"][what]
        return str(self.words["ask"].format(question=asked, who=who))

    async def tell(self, thing: THING, how: str) -> None:
        """Tell a thing, or that it changed."""
        who, what = thing
        old = self.told.get(thing)
        values = self.words["attributes"][what][1].split(", ")
        used = [*old.earlier, old.text] if old is not None else []
        fresh = [value for value in values if not any(one.endswith(f" {value}") for one in used)]
        if not fresh:
            return
        text = self.words[how].format(what=what, who=who, value=self.chance.choice(fresh))
        message = self.say(text)
        new = Told(text, f"msg-{message}")
        new.earlier = used
        self.told[thing] = new
        if self.has_facts and self.chance.random() < FACTS:
            fact = Fact(
                text=text, quote=text, subject=who, relation=f"favourite_{what}", object=text
            )
            outcome = await self.core.memory.memories.writer.remember(
                self.owner,
                fact,
                SourceText(message, text, self.now),
                origin="extraction",
                contradicts={old.fact} if old is not None and old.fact is not None else set(),
            )
            new.fact = outcome.memory_id

    async def forget(self, thing: THING) -> None:
        """Have a thing forgotten, with what it was earlier."""
        told = self.told.pop(thing)
        await self.core.memory.indexer.index_conversation(self.conversation)
        ids = [told.uid] if told.fact is None else [f"fact-{told.fact}"]
        await self.core.memory.memories.forget(self.owner, ids)
        self.forgotten[thing].append(told.text)

    async def check(self) -> Counter[str]:
        """Ask for a sample of what holds; count what is found."""
        counts: Counter[str] = Counter()
        for thing in self.chance.sample(sorted(self.told), min(SAMPLE, len(self.told))):
            hits = await self.search(thing)
            texts = [hit.text for hit in hits]
            told = self.told[thing]
            place = texts.index(told.text) if told.text in texts else None
            stale = [n for n, text in enumerate(texts) if text in told.earlier]
            counts["asked"] += 1
            counts["found"] += place is not None
            counts["first"] += place == 0
            counts["stale"] += bool(stale) and (place is None or stale[0] < place)
        for thing, texts in self.forgotten.items():
            again = self.told.get(thing)
            told = {again.text, *again.earlier} if again is not None else set()
            hits = await self.search(thing)
            counts["forgotten"] += 1
            counts["leaked"] += any(hit.text in texts and hit.text not in told for hit in hits)
        return counts

    async def search(self, thing: THING) -> list[Hit]:
        """What the bot finds for a question."""
        query = Query(self.owner, self.question(thing), self.now, limit=CUT)
        return await self.core.memory.retriever.search(query)


async def measure(people: int, messages: int, *, has_facts: bool) -> dict[int, Counter[str]]:
    """Let people live for twelve weeks; prints a row for each week."""
    words = tomllib.loads(WORDS.read_text())
    weeks: dict[int, Counter[str]] = {}
    with tempfile.TemporaryDirectory(prefix="pomni-friends-") as folder:
        async with open_core(Settings(data_dir=Path(folder))) as core:
            await core.warm_up()
            friends = [
                Friend(
                    core,
                    Owner(number),
                    core.conversations.get_or_create_conversation(number),
                    words[LANGUAGES[number % len(LANGUAGES)]],
                    random.Random(number),
                    has_facts,
                )
                for number in range(1, people + 1)
            ]
            print("week  recall@5  first  stale before current  forgotten found")
            for week in range(1, WEEKS + 1):
                counts: Counter[str] = Counter()
                for friend in friends:
                    await friend.live(messages // WEEKS)
                    counts += await friend.check()
                    friend.now = START + timedelta(weeks=week)
                weeks[week] = counts
                asked = counts["asked"]
                shares = [100 * counts[name] / asked for name in ("found", "first", "stale")]
                leaks = f"{counts['leaked']} of {counts['forgotten']}"
                print(f"{week:4}{shares[0]:10.1f}{shares[1]:7.1f}{shares[2]:22.1f}  {leaks}")
    return weeks


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.friendship")
    parser.add_argument("--people", type=int, default=6)
    parser.add_argument("--messages", type=int, default=240, help="of each person")
    parser.add_argument("--no-facts", action="store_true", help="the bot without a model")
    given = parser.parse_args()
    asyncio.run(measure(given.people, given.messages, has_facts=not given.no_facts))


if __name__ == "__main__":
    main()
