"""The words of the languages: each file can be read, each group is used, a new file is enough."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import src
from src.reading import lexicon

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted(lexicon.FOLDER.glob("*.toml"))
# Groups of which the code asks by a name that it puts together.
FAMILIES = (
    "ask.",
    "change.",
    "day.stakes.",
    "relations.",
    "sameness.",
    "time.",
    "marks.message.",
)
POLISH = """
[time]
ago = ["temu"]
[time.unit]
day = ["dzień", "dni"]
[numbers.cardinals]
2 = "dwa"
[forget]
verb = ["zapomnij"]
about = ["o"]
"""


def groups(table: dict[str, Any], path: str = "") -> Iterator[tuple[str, list[str]]]:
    """Every list of entries, by its full name."""
    for name, told in table.items():
        if isinstance(told, dict):
            yield from groups(told, f"{path}{name}.")
        else:
            yield f"{path}{name}", told.split() if isinstance(told, str) else told


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_entry_is_in_the_notation(path: Path) -> None:
    for name, entries in groups(tomllib.loads(path.read_text(encoding="utf-8"))):
        assert entries or name.startswith("forms.latin"), name
        for entry in () if name.startswith(("marks.message", "forms.latin")) else entries:
            source = re.sub(r"\(\?P<\w+>", "(?:", lexicon.pattern_of(entry))
            re.compile(re.sub(r"<\w+>", "", source))


def test_every_expression_finds_its_groups_and_compiles() -> None:
    found = 0
    for module in pkgutil.walk_packages(src.__path__, "src."):
        for value in vars(importlib.import_module(module.name)).values():
            for one in value if isinstance(value, tuple) else [value]:
                if isinstance(one, lexicon.Expression):
                    assert one.compiled.pattern
                    found += 1
    assert found > 60


def test_no_group_is_left_over() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    texts = "\n".join(path.read_text(encoding="utf-8") for path in FILES)
    both = code + texts
    names = (
        name
        for path in FILES
        for name, _ in groups(tomllib.loads(path.read_text(encoding="utf-8")))
    )
    left = {".".join(name.split(".")[:2]) for name in names if not name.startswith(FAMILIES)}
    for group in left:
        assert f"<{group}" in both or f'"{group}"' in code or f"={group}" in texts, group


def test_a_fourth_language_is_one_more_file(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("*.pyc"))
    words = tmp_path / "src" / lexicon.FOLDER.relative_to(ROOT / "src") / "pl.toml"
    words.write_text(POLISH, encoding="utf-8")
    script = (
        "import json\nfrom datetime import UTC, datetime\n"
        "from src.reading.time_expressions import read_time\n"
        "from src.reading.requests import forget_request\n"
        "found = read_time('dwa dni temu', datetime(2026, 11, 23, 14, tzinfo=UTC))\n"
        "wanted = forget_request('zapomnij o moim psie')\n"
        "print(json.dumps([str(found.periods[0].start), wanted.about]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert json.loads(done.stdout) == ["2026-11-21 00:00:00+00:00", "moim psie"]
