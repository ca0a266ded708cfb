"""``make test``: run the suite on all cores, then retry failed tests alone.

A test that passes only at its retry depends on the speed of the machine, and is named. Only the
retry rewrites asserts to tell the values in them, since in a fresh clone each process would
rewrite all files, which takes half of its start; the first run shows local variables instead.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

FAILED = Path(__file__).resolve().parents[1] / ".pytest_cache/v/cache/lastfailed"
# For two cores, since many tests wait.
OPTIONS = ("-n", "4", "--dist", "loadfile", "--no-loadscope-reorder", "--durations", "10",
           "--assert", "plain", "--showlocals")  # fmt: skip
RETRY_OPTIONS = ("--last-failed", "--last-failed-no-failures", "none", "-p", "no:xdist")


def main(arguments: list[str]) -> int:
    """Run the suite and return the exit status.

    Args:
        arguments: Additional arguments for pytest.
    """
    FAILED.unlink(missing_ok=True)
    status = run(*OPTIONS, *arguments)
    failed = failed_tests()
    if status == pytest.ExitCode.TESTS_FAILED and failed:
        status = run(*RETRY_OPTIONS, *arguments)
    second = sorted(failed - failed_tests())
    print(f"{len(second)} passed only at their second, lone try", *second, sep="\n  ")
    return status


def run(*arguments: str) -> int:
    """Run pytest in a subprocess and return its exit status."""
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


def failed_tests() -> set[str]:
    """Return the tests that failed when pytest ran last."""
    return set(json.loads(FAILED.read_text())) if FAILED.exists() else set()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
