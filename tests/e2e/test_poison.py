"""What kills its own process is put aside, and everybody is answered or told.

Who is being answered at all three deaths is told as well: nothing shows who killed the process.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from src.texts import say
from tests.e2e.bot_command import Finished, Machine
from tests.e2e.bot_process import BotProcess, World, eventually
from tests.fakes.openai_server import ChatRequest, Reply

Json = dict[str, Any]

pytestmark = pytest.mark.timeout(900)  # it starts four processes, one after the other

LETHAL_BOT = Path(__file__).with_name("lethal_bot.py")
POISONER, FIRST = 2**41 + 700, 2**41 + 701
SORRY = {say("error_put_aside", language) for language in ("ru", "uk", "en")}
ROWS = "SELECT to_jsonb(d)::text FROM job_deaths d"
PUT_ASIDE = "SELECT count(*) FROM job_deaths WHERE put_aside_at IS NOT NULL"
DEADLINE = 300.0  # seconds until all are answered; on a quiet machine it takes fifteen


class Service:
    """A bot that is started again whenever it ends, as systemd would."""

    def __init__(self, world: World, order: Path) -> None:
        self.world = world
        self.starts = 0
        self.bot: BotProcess | None = None
        self._order = order
        self._running: asyncio.Task[None] | None = None

    def dies_by(self, way: str) -> None:
        self._order.write_text(way)

    @property
    def calls(self) -> list[str]:
        """How the tool was called so far."""
        log = self._order.with_suffix(".log")
        return log.read_text().splitlines() if log.exists() else []

    def reply(self, request: ChatRequest) -> Reply:
        """Whoever writes "poison" calls the tool, beside others who are being answered."""
        text = request.last_user_text
        if not text.startswith("poison"):
            slow = 0.5 if len(self.calls) < 2 else 0.0  # as long as he dies beside them
            return Reply(text=f"эхо: {text}", chunk_size=3, chunk_delay=slow)
        if request.messages[-1]["role"] == "tool":
            return Reply(text=f"{text}: {request.messages[-1]['content']}")
        return Reply(tool_calls=[("lethal_soon" if "soon" in text else "lethal", {})], delay=0.3)

    def start(self, **settings: str) -> None:
        self._running = asyncio.create_task(self._run(settings))

    async def _run(self, settings: dict[str, str]) -> None:
        while True:
            settings["LETHAL"] = str(self._order)
            self.bot = self.world.process(program=LETHAL_BOT, **settings)
            self.starts += 1
            await self.bot.spawn()
            await self.bot.wait_end(timeout=None)

    async def stop(self) -> None:
        assert self._running is not None
        self._running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._running


@pytest.fixture
async def service(world: World, tmp_path: Path) -> AsyncIterator[Service]:
    made = Service(world, tmp_path / "order")
    yield made
    await made.stop()


async def bot_command(world: World, folder: Path, *arguments: str) -> Finished:
    return await Machine(folder, world.settings()).run_beside(*arguments)


async def live_through(world: World, service: Service, way: str) -> None:
    """One person's message kills its process; he has an apology, all others answers or apologies.

    Raises:
        AssertionError: Not so.
    """
    world.model.reply = service.reply
    service.dies_by(way)
    service.start()
    others = range(FIRST, FIRST + 3)
    for other in others:
        await world.telegram.send_text(other, "долгий вопрос")
    await world.telegram.send_text(POISONER, "poison soon" if way == "sys.exit" else "poison")
    await world.telegram.wait_sent(POISONER, timeout=DEADLINE)
    whole = {"эхо: долгий вопрос", *SORRY}  # a beginning of it can stay beside it from a death
    for other in others:
        await world.telegram.wait_for(
            lambda other=other: whole & {*world.answers(other)}, DEADLINE, f"the answer of {other}"
        )
    assert world.answers(POISONER)[0] in SORRY
    assert len(service.calls) == 3

    await world.telegram.send_text(POISONER, "и ещё вопрос")
    await world.telegram.wait_sent(POISONER, 2, timeout=DEADLINE)
    await world.settled()
    assert world.answers(POISONER)[1] == "эхо: и ещё вопрос"
    outcomes = "SELECT outcome, payload -> 'message' ->> 'text' FROM telegram_updates ORDER BY id"
    assert world.query(outcomes)[3][0] == "put aside"
    assert service.starts == 4, "its process lives"


async def test_a_tool_that_kills_its_process_is_put_aside_shown_and_given_back(
    world: World, service: Service, tmp_path: Path
) -> None:
    await live_through(world, service, "kill")
    [(count,)] = world.query(PUT_ASIDE)  # others, too, that were being answered at all deaths
    doctor = await bot_command(world, tmp_path, "doctor")
    assert doctor.status == 1 and f"{count} put aside" in doctor.stdout
    listed = await bot_command(world, tmp_path, "jobs")
    [line] = [one for one in listed.stdout.splitlines() if f"chat {POISONER}; 3 deaths" in one]
    assert "poison" not in listed.stdout
    assert (await bot_command(world, tmp_path, "jobs", "--retry", "4711")).status == 1
    service.dies_by("not at all")
    number = line.split()[0]
    assert (await bot_command(world, tmp_path, "jobs", "--retry", number)).status == 0
    await world.telegram.wait_sent(POISONER, 3, timeout=DEADLINE)
    await world.settled()
    assert world.answers(POISONER)[2] == "poison: harmless"
    assert world.query(PUT_ASIDE) == [(count - 1,)]


def is_poisoned_document(body: Json) -> bool:
    return any(text.startswith("яд ") for text in body.get("input", ()))


def is_poisoned_digest(body: Json) -> bool:
    return "ExtractedFacts" in str(body.get("tools")) and POISON in str(body)


POISON = "эхо: яд"  # the bot's own words


@pytest.mark.proof
@pytest.mark.parametrize("kills", [is_poisoned_document, is_poisoned_digest])
async def test_a_text_that_kills_whoever_works_on_the_memory(
    world: World, service: Service, kills: Callable[[Json], bool], tmp_path: Path
) -> None:
    is_document = kills is is_poisoned_document
    world.query("UPDATE global_settings SET memory_extraction_window = 2")
    world.model.kills = kills
    service.start(EMBEDDING_MODEL="openai:fake-embedding")
    # The end of a long message is a question, its beginning a document.
    people = {POISONER: "яд" + is_document * 220 * " слово", FIRST: "мир", FIRST + 1: "труд"}
    for person, text in people.items():
        await world.telegram.send_text(person, text)
    put_aside = (
        "SELECT task_name, deaths FROM job_deaths JOIN procrastinate_jobs ON id = job_id"
        " WHERE put_aside_at IS NOT NULL"
    )
    task = "embed_documents" if is_document else "digest_conversation"
    found = await eventually(
        lambda: (task, 3) in world.query(put_aside) and world.query(put_aside),
        lambda: (
            f"the poison to be put aside: {service.starts} starts, {world.query(ROWS)},"
            f" {service.bot.logs() if service.bot else ''}"
        ),
        DEADLINE,
    )
    assert service.starts == 4, found
    left = (
        "SELECT count(*) FROM search_documents WHERE model_id IS NULL"
        if is_document
        else "SELECT count(*) FROM conversations WHERE extracted_position = 0"
    )
    for person, text in people.items():
        await world.telegram.wait_sent(person, timeout=DEADLINE)
        # A turn that began beside each death is put aside, too.
        assert world.answers(person)[0] in {f"эхо: {text}", *SORRY}
    await world.telegram.send_text(POISONER, "ещё")
    await world.telegram.wait_sent(POISONER, 2, timeout=DEADLINE)
    await world.settled()
    assert service.starts == 4, "its process lives"

    world.model.kills = None
    listed = await bot_command(world, tmp_path, "jobs")
    assert task in listed.stdout and "яд" not in listed.stdout
    assert (await bot_command(world, tmp_path, "jobs", "--retry", "all")).status == 0
    await world.telegram.send_text(FIRST, "и ещё")
    await eventually(lambda: world.query(left) == [(0,)], "the rest to be done", DEADLINE)
    await eventually(lambda: world.query("SELECT count(*) FROM job_deaths") == [(0,)], "no deaths")
