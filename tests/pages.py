"""README.md and ``docs/*.md`` as the tests read them: blocks, commands, links, anchors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)|<img [^>]*src=\"([^\"]+)\"")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
VARIABLES = re.compile(r"^(?:[A-Z_]+=\S+ )+")

# What an inline `command` begins with; a span of another beginning, or of one word, is none.
PROGRAMS = frozenset((
    "make", "python", ".venv/bin/python", "bot.py", "docker", "psql", "git", "cp", "chmod", "sudo",
    "echo", "openssl", "gpg", "age", "age-keygen", "shred", "ollama", "llama-server", "vllm",
))  # fmt: skip


@dataclass(frozen=True)
class Block:
    """What stands between two fences.

    Attributes:
        kind: ``sh`` (commands), ``console`` (commands behind ``$``, and what they print),
            ``dotenv``, ``sql``, ``json``, or ``text``.
    """

    kind: str
    text: str

    def commands(self) -> Iterator[str]:
        """Each command, without the comment behind it."""
        lines = self.text.replace("\\\n", "").splitlines()
        for line in lines:
            if self.kind == "console" and line.startswith("$ "):
                yield line[2:]
            elif self.kind == "sh" and line.strip() and not line.startswith("#"):
                yield re.sub(r"\s+# .*", "", line)


@dataclass(frozen=True)
class Page:
    """One page of the documentation."""

    path: Path

    @property
    def name(self) -> str:
        """Its path in the project."""
        return self.path.relative_to(ROOT).as_posix()

    @cached_property
    def text(self) -> str:
        """All of it."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def blocks(self) -> list[Block]:
        """What is fenced."""
        return [Block(kind, text) for kind, text in FENCE.findall(self.text)]

    @cached_property
    def prose(self) -> str:
        """What is not."""
        return FENCE.sub("", self.text)

    @property
    def spans(self) -> list[str]:
        """What stands between backticks in the prose."""
        return [span.replace(r"\|", "|") for span in SPAN.findall(self.prose)]

    @property
    def links(self) -> list[str]:
        """The targets of links and pictures that lead to no other site."""
        targets = [first or second for first, second in LINK.findall(self.prose)]
        return [target for target in targets if not target.startswith(("http://", "https://"))]

    @property
    def anchors(self) -> set[str]:
        """The names that GitHub gives to the headings."""
        headings = [
            re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", h) for h in HEADING.findall(self.prose)
        ]
        return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}

    def commands(self) -> Iterator[str]:
        """Every command: of ``sh`` and ``console`` blocks, and spans that begin with a program."""
        for block in self.blocks:
            yield from block.commands()
        for span in self.spans:
            program, _, arguments = VARIABLES.sub("", span).partition(" ")
            if arguments and program in PROGRAMS:
                yield span

    def section(self, heading: str) -> str:
        """What stands under a heading, up to the next one."""
        rest = self.text.partition(f"# {heading}\n")[2]
        assert rest, f"{self.name} has no heading {heading!r}"
        return re.split(r"^#", rest, maxsplit=1, flags=re.MULTILINE)[0]


README = Page(ROOT / "README.md")
PAGES = [README, *map(Page, sorted((ROOT / "docs").glob("*.md")))]


def page(name: str) -> Page:
    """A page of ``docs``."""
    return Page(ROOT / "docs" / name)


def rows(text: str) -> list[list[str]]:
    """The cells of the tables in a text, without their heads."""
    found = []
    for line in text.splitlines():
        if line.startswith("|") and not line.startswith("|---"):
            cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
            found.append([cell.strip() for cell in cells])
        elif line.startswith("|---"):
            found.pop()
    return found
