"""``make test``: the suite on all cores, then once more, alone, whatever failed in it.

Many tests start processes, and a busy machine is no defect. But how many passed only at their
second try is told, and a test that needed it three runs in a row is one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked_workers import forking

CACHE = Path(__file__).resolve().parents[1] / ".pytest_cache"
FAILED = CACHE / "v/cache/lastfailed"
SECOND_TRIES = CACHE / "second_tries.json"  # by test: in how many runs in a row
WORKERS = 6  # on two cores: many tests wait
MANNER = ("--dist", "loadfile", "--no-loadscope-reorder", "--durations", "10")
ALONE = ("--last-failed", "--last-failed-no-failures", "none", "-p", "no:xdist")
MAY_NEED_IT = 2  # runs in a row


def main(arguments: list[str]) -> int:
    """Run the suite; returns the exit status.

    Args:
        arguments: More of them for pytest.
    """
    FAILED.unlink(missing_ok=True)
    with forking(arguments) as worker:
        status = run("--tx", f"{WORKERS}*{worker}", *MANNER, *arguments)
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return status
    failed = read(FAILED)
    if failed:
        status = run(*ALONE, *arguments)
    return max(status, report({test for test in failed if test not in read(FAILED)}))


def run(*arguments: str) -> int:
    """Run pytest as a process of its own."""
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


def report(second: set[str]) -> int:
    """Tell which tests passed at their second try; 1 when one of them needs it again and again."""
    before = read(SECOND_TRIES)
    tries = {test: before.get(test, 0) + 1 for test in sorted(second)}
    CACHE.mkdir(exist_ok=True)
    SECOND_TRIES.write_text(json.dumps(tries))
    print(f"{len(tries)} passed only at their second, lone try")
    for test, runs in tries.items():
        print(f"  {test}" + (f": {runs} runs in a row, mend it" if runs > MAY_NEED_IT else ""))
    return int(any(runs > MAY_NEED_IT for runs in tries.values()))


def read(file: Path) -> dict[str, int]:
    """What a file of the cache holds; nothing when there is none."""
    found: dict[str, int] = json.loads(file.read_text()) if file.exists() else {}
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
