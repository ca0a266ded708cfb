"""``make test``: run the suite on all cores, then retry failed tests alone.

Many tests start processes and can fail because the machine is busy, which is no defect. Tests
that passed only at the retry are reported; a test that needed it three runs in a row fails the
run.
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
SECOND_TRIES = CACHE / "second_tries.json"  # consecutive runs with a retry, by test
WORKERS = 6  # for two cores, since many tests wait
OPTIONS = ("--dist", "loadfile", "--no-loadscope-reorder", "--durations", "10")
RETRY_OPTIONS = ("--last-failed", "--last-failed-no-failures", "none", "-p", "no:xdist")
MAX_RUNS_WITH_RETRY = 2  # consecutive, per test


def main(arguments: list[str]) -> int:
    """Run the suite and return the exit status.

    Args:
        arguments: Additional arguments for pytest.
    """
    FAILED.unlink(missing_ok=True)
    with forking(arguments) as worker:
        status = run("--tx", f"{WORKERS}*{worker}", *OPTIONS, *arguments)
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return status
    failed = read(FAILED)
    if failed:
        status = run(*RETRY_OPTIONS, *arguments)
    return max(status, report({test for test in failed if test not in read(FAILED)}))


def run(*arguments: str) -> int:
    """Run pytest in a subprocess and return its exit status."""
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


def report(second: set[str]) -> int:
    """Print the tests that passed at their retry; return 1 if one of them needs it repeatedly."""
    before = read(SECOND_TRIES)
    tries = {test: before.get(test, 0) + 1 for test in sorted(second)}
    CACHE.mkdir(exist_ok=True)
    SECOND_TRIES.write_text(json.dumps(tries))
    print(f"{len(tries)} passed only at their second, lone try")
    for test, runs in tries.items():
        print(
            f"  {test}"
            + (f": {runs} runs in a row, mend it" if runs > MAX_RUNS_WITH_RETRY else "")
        )
    return int(any(runs > MAX_RUNS_WITH_RETRY for runs in tries.values()))


def read(file: Path) -> dict[str, int]:
    """Return the content of a cache file; empty if it does not exist."""
    found: dict[str, int] = json.loads(file.read_text()) if file.exists() else {}
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
