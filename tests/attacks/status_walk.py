"""Every HTTP status and form of body as an answer to every Bot API method that the bot calls.

    python -m tests.attacks.status_walk

prints one JSON line: {"cases", "violations", "answered", "given_up", ...}. Each case has its own
chat: a user writes, and one method gets the case's answer, once (``passing``) or until all retries
are exhausted (``lasting``). Afterwards every update must have an outcome, no passing fault may
have lost an answer, and no answer may have arrived twice, unless a fault left its delivery
unknown. ``--share 0.1`` runs a tenth of the cases. The exit status is 1 on a violation.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.attacks.frame import own_postgres, run_attack
from tests.e2e.bot_process import World, eventually
from tests.e2e.conftest import open_world
from tests.fakes.openai_server import ChatRequest, Reply
from tests.fakes.telegram_faults import RawAnswer
from tests.fakes.telegram_people import Sender

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


async def main(share: float, seed: int) -> Result:
    """Run both walks through a share of the table, from 0 to 1."""
    async with own_postgres() as own, open_world(own.dsn) as world:
        world.model.reply = slow_or_not
        await world.start(STREAMING="drafts")  # groups have edits
        parts = [await walk_buttons(world, share, seed)]
        cases = list_cases(share, seed)
        waves = [cases[begin : begin + WAVE] for begin in range(0, len(cases), WAVE)]
        parts += [await walk_chats(world, wave) for wave in waves]
    return Result(
        sum(part.cases for part in parts),
        [what for part in parts for what in part.violations],
        sum(part.answered for part in parts),
        sum(part.given_up for part in parts),
        sum(part.waiting for part in parts),
    )


if __name__ == "__main__":
    run_attack(main, {"--share": 1.0, "--seed": 1}, wrong=["violations"])
