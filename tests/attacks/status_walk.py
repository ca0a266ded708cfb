"""Every HTTP status and form of body as an answer to every Bot API method that the bot calls.

    python -m tests.attacks.status_walk

prints one JSON line: {"cases", "violations", "answered", "given_up", ...}. Each case has its own
chat: a user writes, and one method gets the case's answer, once (``passing``) or until all retries
are exhausted (``lasting``). Afterwards every update must have an outcome, no passing fault may
have lost an answer, and no answer may have arrived twice, unless a fault left its delivery
unknown. ``--share 0.1`` runs a tenth of the cases. The exit status is 1 on a violation.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from src.base.config import Settings
from src.base.errors import ConfigError, DeliveryError
from src.base.metrics import Metrics
from src.pg.client import PgClient
from src.pg.embedded import EmbeddedPostgres
from src.pg.migrations import migrate
from src.telegram.setup import build_bot, configure_telegram, get_identity
from tests.conftest import execute
from tests.e2e.bot_process import World, eventually
from tests.fakes.openai_server import ChatRequest, FakeOpenAI, Reply
from tests.fakes.telegram_faults import RawAnswer
from tests.fakes.telegram_people import Sender
from tests.fakes.telegram_server import FakeTelegram
from tests.integration.polling import QUICK, build_poller, open_bot, running, texts

FIRST_PERSON, FIRST_GROUP = 2**40 + 1, -1_002_000_000_000
STATUSES = (
    *(200, 201, 204, 206, 301, 302, 304, 307, 308, 400, 401, 402, 403, 404, 405, 406, 408, 409),
    *(410, 413, 414, 418, 422, 429, 431, 451, 499, 500, 501, 502, 503, 504, 520, 599),
)
# Number of faults, enough for the quick retries in an outage and both attempts at refused calls.
LASTING = 4
WAVE = 400  # chats that write concurrently
OUTCOME_SECONDS = 300.0  # timeout of a wave; mostly pauses between retries
A_DAY = 86_400 * 1.1  # seconds, including jitter
SLOWLY = "медленно "
BEST_EFFORT = ("sendMessageDraft", "sendChatAction")
GOES_ON = "SELECT chat_id FROM telegram_updates WHERE handled_at IS NULL"


def refusal(status: int, **fields: Any) -> bytes:
    """Return an error body of the Bot API with other ``fields``."""
    body = {"ok": False, "error_code": status, "description": "Something else", **fields}
    return json.dumps(body).encode()


def _with_parameters(parameters: Any) -> Callable[[int], bytes]:
    return lambda status: refusal(status, parameters=parameters)


def _with_retry_after(seconds: Any) -> Callable[[int], bytes]:
    return _with_parameters({"retry_after": seconds})


FORMS: dict[str, Callable[[int], bytes]] = {
    "unknown": refusal,
    "odd types": lambda status: refusal(status, error_code="x", description=[1], parameters=[]),
    "wrong code": lambda _status: refusal(10**9, result={}),
    "entities": lambda status: refusal(status, description="Bad Request: can't parse entities"),
    "not found": lambda status: refusal(status, description="Not Found"),
    "retry 1": _with_retry_after(1),
    "retry 0": _with_retry_after(0),
    "retry -5": _with_retry_after(-5),
    "retry 1.5": _with_retry_after(1.5),
    "retry text": _with_retry_after("soon"),
    "retry list": _with_retry_after([3]),
    "retry null": _with_retry_after(None),
    "retry nan": _with_retry_after(float("nan")),
    "retry inf": _with_retry_after(float("inf")),
    "migrate text": _with_parameters({"migrate_to_chat_id": "x"}),
    "html": lambda status: f"<html><h1>{status}</h1></html>".encode(),
    "empty": lambda _status: b"",
    "cut": refusal,
    "half": lambda status: refusal(status)[:20],
    "deep": lambda _status: b"[" * 50_000,
    "list": lambda _status: b"[]",
    "number": lambda _status: b"1",
    "json null": lambda _status: b"null",
    "ok with text": lambda _status: b'{"ok": true, "result": "x"}',
    "ok with list": lambda _status: b'{"ok": true, "result": [{"message_id": "x"}]}',
}
# The bot waits the maximum, a day.
ENDLESS: dict[str, Callable[[int], bytes]] = {
    "retry 10^12": _with_retry_after(10**12),
}


@dataclass(frozen=True)
class Case:
    """One status and body for one method, in its own chat."""

    number: int
    method: str
    status: int
    form: str
    lasts: bool

    @property
    def name(self) -> str:
        """Description for violations."""
        return f"{self.method} {self.status} {self.form} {'lasting' if self.lasts else 'passing'}"

    @property
    def text(self) -> str:
        """Message of the user; methods that only a growing answer calls need a slow one."""
        return f"{'' if self.method == 'sendMessage' else SLOWLY}№{self.number}"

    @property
    def is_taken(self) -> bool:
        """True if the answer reports success."""
        return self.status < 300 and self.form.startswith("ok")

    @property
    def is_endless(self) -> bool:
        """True if the answer demands a wait beyond the run."""
        return self.form in ENDLESS and self.status == 429 and self.method == "sendMessage"

    @property
    def chat_id(self) -> int:
        """Chat of the case: edits happen in groups, everything else in private chats."""
        is_group = self.method == "editMessageText"
        return FIRST_GROUP - self.number if is_group else FIRST_PERSON + self.number


@dataclass
class Result:
    """Result of a run.

    Attributes:
        answered: Number of cases with an answer.
        given_up: Number of cases without an answer but with a recorded outcome.
        waiting: Number of cases that wait for at most a day, as Telegram demanded.
    """

    cases: int = 0
    violations: list[str] = field(default_factory=list)
    answered: int = 0
    given_up: int = 0
    waiting: int = 0
    seconds: float = 0.0


def raw(status: int, form: str) -> RawAnswer:
    """Return the HTTP answer of a case."""
    content_type = "text/html" if form == "html" else "application/json"
    location = (("Location", "/elsewhere"),) if 300 <= status < 400 else ()
    body = {**FORMS, **ENDLESS}[form](status)
    return RawAnswer(status, body, content_type, location, 1000 if form == "cut" else 0)


def list_cases(share: float, seed: int) -> list[Case]:
    """Return a random share of all cases."""
    numbers = random.Random(seed)
    table = [
        (method, status, form, lasts)
        for method in ("sendMessage", "editMessageText", *BEST_EFFORT)
        for status in STATUSES
        for form in (*FORMS, *(ENDLESS if status == 429 else ()))
        for lasts in (False, True)
        if method not in BEST_EFFORT or not lasts
    ]
    chosen = [case for case in table if numbers.random() < share]
    return [Case(number, *case) for number, case in enumerate(chosen)]


async def walk_chats(world: World, cases: list[Case]) -> Result:
    """Let the user of each case write to a running bot, and judge all outcomes."""
    result = Result(cases=len(cases))
    telegram = world.telegram
    for case in cases:
        times = LASTING if case.lasts else 1
        telegram.answer_next(
            case.method, raw(case.status, case.form), times, chat_id=case.chat_id,
            when="after" if case.is_taken else "before",
        )  # fmt: skip
        await write(world, case)
    now = {case.chat_id for case in cases if not case.is_endless}
    with contextlib.suppress(AssertionError):  # missing outcomes are reported below
        await eventually(
            lambda: (
                not telegram.pending_updates and not now & {row[0] for row in world.query(GOES_ON)}
            ),
            "every update to have an outcome",
            OUTCOME_SECONDS,
        )
    for case in cases:
        result.violations += [f"{case.name}: {what}" for what in judge(world, case, result)]
    return result


def slow_or_not(request: ChatRequest) -> Reply:
    """Answer with an echo, slowly if the message asks for it."""
    text = request.last_user_text
    if text.startswith(SLOWLY):
        return Reply(text=f"эхо: {text}", chunk_size=6, chunk_delay=0.6)
    return Reply(text=f"эхо: {text}")


async def write(world: World, case: Case) -> None:
    """Send the user's message."""
    text = case.text
    if case.chat_id > 0:
        await world.telegram.send_text(case.chat_id, text)
        return
    group = Sender(chat_id=case.chat_id, chat_type="supergroup")
    await world.telegram.send_text(FIRST_PERSON, f"@pomni_test_bot {text}", **group)


def judge(world: World, case: Case, result: Result) -> Iterator[str]:
    """Yield violations in the outcome of a case."""
    answer = f"эхо: {case.text}"
    # A refused edit leaves the beginning of the answer, which can be all of it.
    most = 2 if case.method == "editMessageText" else 1
    answers = [text for text in world.answers(case.chat_id) if text == answer]
    [(handled, outcome, seconds)] = world.query(
        "SELECT u.handled_at IS NOT NULL, u.outcome,"
        " (SELECT extract(epoch FROM j.scheduled_at - now()) FROM procrastinate_jobs j"
        "  WHERE j.args ->> 'update' = u.id::text AND j.status = 'todo')"
        " FROM telegram_updates u WHERE u.chat_id = %s",
        case.chat_id,
    )
    result.answered += bool(answers)
    if len(answers) > most:
        yield f"{len(answers)} answers"
    if not handled and case.is_endless:
        result.waiting += 1
        if seconds is None or not 0 < seconds <= A_DAY:
            yield f"it waits for {seconds} seconds"
    elif not handled:
        yield "no outcome"
    elif not answers and case.lasts and outcome == "failed":
        result.given_up += 1
    elif not answers:
        yield f"no answer, and the outcome {outcome}"


async def walk_buttons(world: World, share: float, seed: int) -> Result:
    """Check that button presses are handled although their confirmation fails."""
    numbers = random.Random(seed)
    table = [(status, form) for status in STATUSES for form in FORMS]
    chosen = [case for case in table if numbers.random() < share]
    person = FIRST_PERSON - 1
    await world.telegram.send_text(person, "привет")
    [sent, *_] = await world.telegram.wait_sent(person, timeout=60)
    for status, form in chosen:
        world.telegram.answer_next("answerCallbackQuery", raw(status, form))
        await world.telegram.press_button(person, sent.message_id, "long gone")
    await eventually(lambda: not world.telegram.pending_updates, "the presses to arrive", 60)
    await world.settled(OUTCOME_SECONDS)
    rows = world.query("SELECT outcome FROM telegram_updates WHERE kind = 'callback'")
    wrong = [f"a button: {outcome}" for (outcome,) in rows if outcome != "done"]
    return Result(len(chosen), wrong, answered=len(rows) - len(wrong))


async def walk_polling(fake: FakeTelegram, client: PgClient, share: float, seed: int) -> Result:
    """Check that the poller receives the next message after odd answers to getUpdates."""
    numbers = random.Random(seed)
    result = Result()
    timing = replace(QUICK, unauthorized=60)
    async with open_bot(fake) as bot, running(build_poller(bot, client, timing)):
        for status in STATUSES:
            forms = [form for form in (*FORMS, *ENDLESS) if numbers.random() < share]
            for form in forms:
                fake.answer_next("getUpdates", raw(status, form))
            result.cases += len(forms)
            await fake.send_text(FIRST_PERSON, str(status))
            try:
                await fake.wait_for(lambda: not fake.pending_updates, timeout=60)
                result.answered += len(forms)
            except AssertionError:
                result.violations.append(f"getUpdates {status} {forms}: it receives no more")
                return result
    if texts(client.dsn) != [str(status) for status in STATUSES]:
        result.violations.append("getUpdates: a message was lost, or came twice")
    return result


async def walk_start(fake: FakeTelegram, share: float, seed: int) -> Result:
    """Check that each request of the start succeeds or fails with a retryable error."""
    numbers = random.Random(seed)
    result = Result()
    values: dict[str, Any] = {"telegram_bot_token": fake.token, "telegram_api_base": fake.url}
    polling = Settings(**values)
    webhook = Settings(
        **values, telegram_webhook_url="https://bot.example/", telegram_webhook_secret="x" * 20
    )
    bot = build_bot(polling, Metrics())
    starts: dict[str, Callable[[], Any]] = {
        "getMe": lambda: get_identity(bot),
        "deleteWebhook": lambda: announce_or_tell(bot, polling),
        "setWebhook": lambda: announce_or_tell(bot, webhook),
        "setMyCommands": lambda: announce_or_tell(bot, polling),
        "getChatMenuButton": lambda: announce_or_tell(bot, polling),
        "setChatMenuButton": lambda: announce_or_tell(bot, webhook),
    }
    table = [(*case, form) for case in product(starts, STATUSES) for form in (*FORMS, *ENDLESS)]
    for method, status, form in table:
        if numbers.random() < share:
            fake.answer_next(method, raw(status, form))
            await begin(starts[method], f"{method} {status} {form}", result)
    await bot.session.close()
    return result


async def begin(start: Callable[[], Any], case: str, result: Result) -> None:
    """Make one request of the start, and record its outcome."""
    result.cases += 1
    try:
        await start()
    except DeliveryError:
        result.given_up += 1
    except ConfigError:
        result.given_up += 1
        if not case.startswith("getMe 401"):
            result.violations.append(f"{case}: a wrong token?")
    except Exception as error:  # noqa: BLE001  (any other error is a violation)
        result.violations.append(f"{case}: {error!r}")
    else:
        result.answered += 1


async def announce_or_tell(bot: Any, settings: Settings) -> None:
    """Call ``configure_telegram``, and convert aiogram's errors, which its caller retries."""
    from aiogram.exceptions import AiogramError

    try:
        await configure_telegram(bot, settings)
    except AiogramError as error:
        raise DeliveryError("waited out") from error


async def main(share: float, seed: int) -> Result:
    """Run all walks on their own PostgreSQL."""
    start = time.monotonic()
    whole = Result()
    with tempfile.TemporaryDirectory(prefix="pomni-walk-") as folder:
        server = EmbeddedPostgres(Path(folder))
        dsn = await asyncio.to_thread(server.start)
        try:
            execute(dsn, "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
            await asyncio.to_thread(migrate, dsn)
            client = PgClient(dsn)
            client.open()
            async with FakeTelegram() as fake:
                add(whole, await walk_start(fake, share, seed))
                add(whole, await walk_polling(fake, client, share, seed))
            client.execute("TRUNCATE telegram_updates, procrastinate_jobs CASCADE")
            client.close()
            async with FakeTelegram() as telegram, FakeOpenAI() as model:
                world = World(dsn, telegram, model)
                model.reply = slow_or_not
                try:
                    await world.start(STREAMING="drafts")  # groups have edits
                    add(whole, await walk_buttons(world, share, seed))
                    cases = list_cases(share, seed)
                    for start_of_wave in range(0, len(cases), WAVE):
                        wave = cases[start_of_wave : start_of_wave + WAVE]
                        add(whole, await walk_chats(world, wave))
                finally:
                    await world.close()
        finally:
            await asyncio.to_thread(server.stop)
    whole.seconds = round(time.monotonic() - start, 1)
    return whole


def add(whole: Result, part: Result) -> None:
    """Add the figures of a part to the whole."""
    whole.cases += part.cases
    whole.violations += part.violations
    whole.answered += part.answered
    whole.given_up += part.given_up
    whole.waiting += part.waiting


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--share", type=float, default=1.0, help="of the table, from 0 to 1")
    parser.add_argument("--seed", type=int, default=1)
    found = asyncio.run(main(**vars(parser.parse_args())))
    print(json.dumps(asdict(found), ensure_ascii=False))
    sys.exit(bool(found.violations))
