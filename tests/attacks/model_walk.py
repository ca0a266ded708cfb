"""Every reply of the table for every caller of a model, as a stream and as one JSON object.

    python -m tests.attacks.model_walk

prints one JSON line, {"replies", "callers", "runs", "calls", "violations"}. The exit status is 1
on a violation: an error other than ``AppError``, an endless turn, an answer that cannot be stored
or sent, a good reply that was not understood, a log line with the model's words, or a bot that
does not work afterwards.
"""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, field

from src.base.errors import AppError, ModelReplyError, ModelSetupError, ModelUnavailableError
from src.base.logs import configure_logging
from src.base.owners import Mode
from src.texts import say
from tests.attacks.frame import own_postgres, run_attack
from tests.attacks.model_replies import CANARY, Form, Row, rows
from tests.conftest import open_client
from tests.fakes.openai_server import ChatRequest, Reply
from tests.integration.person import (
    Person,
    Rig,
    asked,
    called,
    chosen,
    fact,
    forgetting,
    forms,
    new_user,
    open_rig,
    records,
    solved,
    taught,
)
from tests.integration.turns import answer_turn

KNOWN = "Каждую субботу я хожу на рынок за яблоками"
MAX_CALLS = 9  # per attempt at a turn: eight rounds of tools, and an answer without tools
MAX_DIGESTS = 9  # until three windows are digested or the model counts as unavailable
BACKGROUND = {"summary_model": "openai:summaries", "extraction_model": "openai:extraction"}
TALK = [("user" if number % 2 else "assistant", f"сообщение {number}") for number in range(1, 29)]

Purpose = str
Good = dict[Purpose, Reply | str]


@dataclass(frozen=True)
class Caller:
    """A part of the bot that calls the model.

    Attributes:
        text: The user's message; empty for background work.
        target: Purpose of the request that gets the odd reply.
        good: The model's replies to other requests, by purpose.
        mode: The user's mode.
        tells: True if a bad reply ends the turn; else the turn continues without it.
    """

    text: str
    target: Purpose
    good: Good
    mode: Mode = "assistant"
    tells: bool = True


SOLVE: Good = {"Understanding": asked("рынок"), "further": solved("Не знаю.")}
LEARN: Good = {
    "Understanding": taught(fact("По субботам я хожу на рынок за грушами")),
    "ExtractedFacts": called("ExtractedFacts", facts=[fact("Я люблю груши")]),
    "Conflicts": called("Conflicts", conflicts=[]),
}
NO_FACTS: Good = {"extraction": called("ExtractedFacts", facts=[])}
CALLERS = {
    "answer": Caller("как дела?", "answer", {"answer": "Хорошо. " * 4}),
    "call": Caller(
        "где мой кот?",
        "answer",
        {"answer": called("search_memory", query="кот"), "round": "Дома."},
    ),
    "round": Caller(
        "который час?", "round", {"answer": called("current_time"), "round": "Полдень."}
    ),
    "classify": Caller("куда я хожу по субботам?", "Understanding", SOLVE, "strict"),
    "reason": Caller("куда я хожу по субботам?", "further", SOLVE, "strict"),
    "extract": Caller(
        "Я люблю груши", "ExtractedFacts", {**LEARN, "Understanding": taught()}, "strict"
    ),
    "conflicts": Caller(
        "По субботам я хожу на рынок за грушами", "Conflicts", LEARN, "strict", tells=False
    ),
    "forget": Caller(
        "забудь про рынок",
        "Forgetting",
        {"Understanding": forgetting("рынок"), "Forgetting": chosen()},
        "strict",
    ),
    "summary": Caller("", "summaries", {"summaries": "Говорили о погоде.", **NO_FACTS}),
    "extraction": Caller("", "extraction", NO_FACTS),
}


def purpose_of(request: ChatRequest) -> Purpose:
    """Return the purpose of a request."""
    if request.model in ("summaries", "extraction"):
        return request.model
    [form] = forms([request])
    if form != "text":
        return "further" if records(request, "searched") else form
    return "round" if request.messages[-1]["role"] == "tool" else "answer"


@dataclass
class Result:
    """Result of a walk."""

    replies: int = 0
    callers: int = 0
    runs: int = 0
    calls: int = 0
    violations: list[str] = field(default_factory=list)


class Walk:
    """Walk through rows on one database."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.result = Result()
        self._where = ""

    async def run(self, row: Row, name: str, form: Form) -> None:
        """Give one caller one reply repeatedly; then check that it recovers."""
        caller = CALLERS[name]
        person = Person(self._rig, new_user(), mode=caller.mode)
        self._where = f"{name} / {row.name} / {form}"
        self.result.runs += 1
        if caller.mode == "strict":
            await person.remember(fact(KNOWN, relation="habit"))
            await person.index()
        background = not caller.text
        with logged() as lines:
            self._reply_with(caller, row, form)
            work = self._digest(person) if background else self._turn(person, caller, row)
            try:
                await work
            except Exception as error:  # noqa: BLE001  (any error is a violation)
                self._note(f"raised {type(error).__name__}: {error}"[:300])
            self._reply_with(caller, None, form)
            await self._afterwards(person, caller)
        self._expect(CANARY not in lines(), "logged the model's words")

    def _reply_with(self, caller: Caller, row: Row | None, form: Form) -> None:
        def reply(request: ChatRequest) -> Reply:
            self.result.calls += 1
            purpose = purpose_of(request)
            known = caller.good.get(purpose, "Хорошо.")
            good = Reply(text=known) if isinstance(known, str) else known
            if row is None or purpose != caller.target:
                return good
            return row.reply(request, good, form)

        self._rig.model.reply = reply

    async def _turn(self, person: Person, caller: Caller, row: Row) -> None:
        """Make up to two attempts, as the queue does, since the first error can be temporary."""
        turn = await person.begin(caller.text)
        shown: list[str] = []
        for _attempt in range(2):
            before = self._rig.model.request_count
            try:
                answer = await answer_turn(self._rig.core.agent, turn, on_text=shown.append)
            except AppError as error:
                self._check_error(error, caller, row)
            else:
                self._check_answer(answer.text, "".join(shown), caller, row)
                self._expect(usage_rows(person) > 0, "no usage is stored")
            count = self._rig.model.request_count - before
            self._expect(0 < count <= MAX_CALLS, f"{count} calls in one attempt")
            if person.rows(ANSWERED):
                break

    def _check_error(self, error: AppError, caller: Caller, row: Row) -> None:
        self._expect(bool(say(error.text_key, "ru")), "no sentence")
        self._expect(CANARY not in str(error), "the error holds the model's words")
        understood = row.outcome == "good" and (row.raw is None or caller.target == "answer")
        self._expect(not understood, f"not understood: {error}")

    def _check_answer(self, text: str, shown: str, caller: Caller, row: Row) -> None:
        self._expect(bool(text.strip()), "an empty answer")
        for kind, words in (("stored", text), ("shown", shown)):
            words.encode()  # fails for text that cannot be sent
            self._expect("\x00" not in words, f"NUL was {kind}")
        self._expect(row.outcome != "bad" or not caller.tells, f"took it for an answer: {text!r}")

    async def _digest(self, person: Person) -> None:
        """Digest a conversation until it is done or the model counts as unavailable."""
        self._rig.fill(person.conversation(), *TALK)
        for _attempt in range(MAX_DIGESTS):
            before = self._rig.model.request_count
            try:
                await self._rig.core.memory.digest.digest(person.conversation())
            except ModelReplyError:
                continue
            except (ModelUnavailableError, ModelSetupError):
                return  # unavailable: retried without limit
            finally:
                count = self._rig.model.request_count - before
                self._expect(count <= MAX_CALLS, f"{count} calls in one digest")
            positions = person.rows(DIGESTED)
            self._expect(positions == [(20, 15)], f"done without {positions}")
            return
        self._note("asks for ever")

    async def _afterwards(self, person: Person, caller: Caller) -> None:
        """Check that the next message is answered, or pending windows are digested."""
        try:
            if caller.text:
                person.mode = "assistant"
                caller.good.setdefault("answer", "Хорошо.")
                answer = await person.say("а теперь?")
                self._expect(bool(answer.text), "no answer afterwards")
            else:
                await self._rig.core.memory.digest.digest(person.conversation())
                positions = person.rows(DIGESTED)
                self._expect(positions == [(20, 15)], f"afterwards {positions}")
        except Exception as error:  # noqa: BLE001
            self._note(f"afterwards {type(error).__name__}: {error}"[:300])

    def _expect(self, holds: bool, problem: str) -> None:
        if not holds:
            self._note(problem)

    def _note(self, problem: str) -> None:
        self.result.violations.append(f"{self._where}: {problem}")
        print(self.result.violations[-1][:300], file=sys.__stderr__, flush=True)


# An answer to the user exists.
ANSWERED = """
SELECT 1 FROM messages a JOIN conversations c ON c.id = a.conversation_id
WHERE c.telegram_user_id = %(user)s AND a.role = 'assistant'
"""
# Positions up to which facts were extracted and summaries were made.
DIGESTED = """
SELECT c.extracted_position, (SELECT coalesce(max(s.last_position), 0)
                              FROM conversation_summaries s WHERE s.conversation_id = c.id)
FROM conversations c WHERE c.telegram_user_id = %(user)s
"""


def usage_rows(person: Person) -> int:
    """Return the number of the user's recorded model calls."""
    rows = person.rows("SELECT count(*) FROM model_usage WHERE owner_id = %(owner)s")
    return int(rows[0][0])


@contextmanager
def logged() -> Iterator[Callable[[], str]]:
    """Capture the bot's log in its final format."""
    root = logging.getLogger()
    before, level = root.handlers, root.level
    with redirect_stderr(io.StringIO()) as written:
        configure_logging("INFO")
        try:
            yield written.getvalue
        finally:
            root.handlers = before
            root.setLevel(level)


async def walk(rig: Rig, chosen_rows: list[tuple[Row, str, Form]]) -> Result:
    """Walk through these rows, callers and forms."""
    going = Walk(rig)
    for row, caller, form in chosen_rows:
        await going.run(row, caller, form)
    going.result.replies = len({row.name for row, _, _ in chosen_rows})
    going.result.callers = len({caller for _, caller, _ in chosen_rows})
    return going.result


def everything() -> list[tuple[Row, str, Form]]:
    """Return all combinations of rows, callers and forms."""
    return [
        (row, caller, form)
        for row in rows()
        for caller in CALLERS
        for form in (("stream",) if row.raw or row.stream_only else ("stream", "plain"))
    ]  # type: ignore[misc]


def some(step: int) -> list[tuple[Row, str, Form]]:
    """Return every ``step``-th row, with alternating callers and forms."""
    names, picked = list(CALLERS), list(rows())[::step]
    forms_of: list[tuple[Form, ...]] = [
        ("stream",) if row.raw or row.stream_only else ("stream", "plain") for row in picked
    ]
    return [
        (row, names[n % len(names)], forms_of[n][n % len(forms_of[n])])
        for n, row in enumerate(picked)
    ]


async def main(only: str) -> Result:
    """Walk through the rows and callers whose names contain ``only``."""
    picked = [entry for entry in everything() if only in f"{entry[1]} / {entry[0].name}"]
    async with own_postgres() as own:
        for client in open_client(own.dsn):
            async with open_rig(client, **BACKGROUND) as rig:
                return await walk(rig, picked)
    raise AssertionError


if __name__ == "__main__":
    run_attack(main, {"--only": ""}, wrong=["violations"])
