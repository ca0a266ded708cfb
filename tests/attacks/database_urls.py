"""Database URLs with a canary password, no piece of which may be printed.

python -m tests.attacks.database_urls --n 5000
"""

from __future__ import annotations

import contextlib
import gc
import io
import logging
import os
import random
import string
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bot import main as run_bot
from tests.attacks.frame import run_attack

PIECE = 4  # characters; shorter pieces are no leak
LETTERS = string.ascii_letters + string.digits
SPECIAL = "@@@##//??::%%&=+,;[]{}|\\^`'\"<>~!$()* \tйї€"
FORMS = (
    "postgresql://{user}:{password}@127.0.0.1:1/db",
    "postgresql://{user}:{password}@127.0.0.1:1/db?sslmode={odd}",
    "postgresql://{user}:{password}@127.0.0.1:1,127.0.0.1:1/db",
    "postgresql://{user}:{password}@/db",
    "postgresql://{user}:{password}@127.0.0.1:{odd}/db",
    "postgres://{user}:{password}@[::1]:1/db?options={odd}",
    "postgresql://127.0.0.1:1/db?user={user}&password={password}",
    "postgresql://127.0.0.1:1/db?{odd}={password}",
    "postgresql://{user}:{password}@127.0.0.1:1/db?{password}",
    "{password}",
    "postgresql://{password}",
)


def make_password(rng: random.Random) -> str:
    """Return a random password with special characters between its pieces."""
    pieces = ["".join(rng.choices(LETTERS, k=rng.randint(4, 9))) for _ in range(rng.randint(1, 4))]
    return "".join(piece + "".join(rng.choices(SPECIAL, k=rng.randint(0, 2))) for piece in pieces)


def make_url(rng: random.Random, password: str) -> str:
    """Return a URL in a random form."""
    odd = rng.choice([password, "requir", "require", "70000", "", "-c x=y", "%zz"])
    user = rng.choice(["u", "pomni", password, ""])
    return rng.choice(FORMS).format(user=user, password=password, odd=odd)


def leaked(password: str, output: str) -> str | None:
    """Return the first piece of the password that occurs in the output."""
    for start in range(len(password) - PIECE + 1):
        piece = password[start : start + PIECE]
        if piece in output and not piece.isspace():
            return piece
    return None


@contextlib.contextmanager
def alone(variables: dict[str, str]) -> Iterator[io.StringIO]:
    """Enter an empty folder with these environment variables; yields all output and logs."""
    environment, former_folder = dict(os.environ), Path.cwd()
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    output = io.StringIO()
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stderr(output),
        contextlib.redirect_stdout(output),
    ):
        os.environ.update(variables)
        os.chdir(folder)
        try:
            yield output
        finally:
            os.chdir(former_folder)
            os.environ.clear()
            os.environ.update(environment)
            root.handlers, root.level = handlers, level
            gc.enable()


def attack(n: int, seed: int) -> dict[str, object]:
    """Start the bot with ``n`` URLs; returns the report."""
    rng = random.Random(seed)
    statuses: dict[str, int] = {}
    leaks: list[str] = []
    for number in range(n):
        password = make_password(rng)
        url = make_url(rng, password)
        if "\0" in url:
            continue
        variables = {"DATABASE_URL": url, "LOG_LEVEL": "DEBUG"}
        with alone(variables) as output:
            command = ["migrate"] if number % 10 else ["erase", "--user-id", "1"]
            status = run_bot(command, root=Path.cwd())
        statuses[str(status)] = statuses.get(str(status), 0) + 1
        printed = output.getvalue()
        if leaked(password, printed) or "Traceback" in printed or status not in (1, 2):
            leaks.append(f"{status} {url!r}: {printed[:300]}")
    return {"addresses": n, "statuses": statuses, "leaks": leaks[:5], "leaked": len(leaks)}


if __name__ == "__main__":
    run_attack(attack, {"--n": 5000, "--seed": 8}, wrong=["leaked"])
