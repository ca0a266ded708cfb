"""Writes the licences of all packages of the locks into ``docs/dependencies.md``.

``python -m deploy.licences``: as the installed packages state them in their metadata.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageMetadata, PackageNotFoundError, metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/dependencies.md"
BEGIN, END = "<!-- made by `make licences` -->\n", "<!-- until here -->\n"
PARTS = {
    "What the bot runs with": ["requirements", "requirements-anthropic", "requirements-google"],
    "What only sets up, tests and checks": ["requirements-setup", "requirements-dev"],
}
# The same licence in other words.
NAMES = {
    "Apache Software License": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "BSD": "BSD License",
    "MIT License": "MIT",
    "MIT license": "MIT",
}
# Packages whose metadata states none, or contradicts itself; the page explains each.
READ = {
    "axe-playwright-python": "MIT (and axe-core: MPL-2.0)",
    "pymorphy3-dicts-uk": "MIT (code); CC-BY-NC-SA-4.0 (data)",
    "pymorphy3-dicts-ru": "MIT (code); CC-BY-SA-3.0 (data)",
    "pyromark": "MIT",
}
MAX_NAME = 60  # characters; a longer field is the text of a licence


def list_locked(name: str) -> list[str]:
    """Return the names of the packages of a lock."""
    return re.findall(r"^([a-z][\w.-]*)==", (ROOT / f"{name}.lock").read_text(), re.MULTILINE)


def name_licence(name: str, about: PackageMetadata) -> str:
    """Return the licence that a package states, in one of its three places."""
    if name in READ:
        return READ[name]
    stated = about.get("License-Expression") or about.get("License") or ""
    if not stated or stated == "UNKNOWN" or "\n" in stated or len(stated) > MAX_NAME:
        kinds = [c for c in about.get_all("Classifier") or () if c.startswith("License ::")]
        stated = " and ".join(kind.rpartition(" :: ")[2] for kind in kinds)
    stated = stated or (about.get("License") or "not stated").partition("\n")[0].strip()
    return NAMES.get(stated, stated)


def write_table(packages: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a table of licences, with the packages of each."""
    by_licence: dict[str, list[str]] = {}
    for name in sorted(set(packages)):
        try:
            licence = name_licence(name, metadata(name))
        except PackageNotFoundError:  # it is for another platform
            continue
        by_licence.setdefault(licence, []).append(name)
    yield "| licence | packages |"
    yield "|---|---|"
    for licence, names in sorted(by_licence.items(), key=lambda item: item[0].lower()):
        yield f"| {licence} | {', '.join(names)} |"


def write_section() -> str:
    """Return the text between the marks."""
    lines = []
    told: set[str] = set()
    for heading, names in PARTS.items():
        packages = {package for name in names for package in list_locked(name)} - told
        told |= packages
        lines += [f"{heading}:", "", *write_table(packages), ""]
    return "\n".join(lines)


def main() -> int:
    """Write the section; return the exit status."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{write_section()}{END}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
