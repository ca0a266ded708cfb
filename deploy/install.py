"""Installs the packages of the locks into the environment of the Python that runs this.

``python deploy/install.py [dev]``: those of ``requirements.lock`` and of the providers whose
package is there already, so that an upgrade refreshes it; with ``dev``, those of all locks. Each
file is checked against its hashes. uv takes a quarter of pip's time; pip does what uv cannot, such
as reading a package index that only pip's configuration names.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
UV = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable]
# Errors of pip about a version that has no file for this platform or Python.
UNFIT = ("No matching distribution found", "is not supported wheel on this platform")
FALLBACK = (
    "requirements.lock does not fit this Python or platform: installing what requirements.txt "
    "lists, without hashes."
)


def choose_locks(*, dev: bool) -> list[str]:
    """Return the names of the locks to install, without their suffix."""
    providers = [
        f"requirements-{name}"
        for name, package in (
            ("anthropic", "langchain_anthropic"),
            ("google", "langchain_google_genai"),
        )
        if dev or find_spec(package) is not None
    ]
    return ["requirements", *providers, *(["requirements-dev"] if dev else [])]


def run(command: list[str], names: list[str], suffix: str) -> subprocess.CompletedProcess[str]:
    """Run an installer on files of this folder; its errors are captured."""
    files = [word for name in names for word in ("-r", str(ROOT / f"{name}{suffix}"))]
    return subprocess.run(
        [*command, *files], stdout=sys.stderr, stderr=subprocess.PIPE, text=True, check=False
    )


def main(arguments: list[str]) -> int:
    """Install; return the exit status."""
    names = choose_locks(dev="dev" in arguments)
    hashed = "--require-hashes"
    has_uv = run([*PIP, hashed], ["requirements-setup"], ".lock").returncode == 0
    if has_uv and run([*UV, hashed], names, ".lock").returncode == 0:
        return 0
    done = run([*PIP, hashed], names, ".lock")
    if any(words in done.stderr for words in UNFIT):
        print(FALLBACK, file=sys.stderr)
        done = run(PIP, names, ".txt")
    sys.stderr.write(done.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
