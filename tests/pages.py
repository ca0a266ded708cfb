"""Parsed README.md and ``docs/*.md``: blocks, commands, links, anchors."""

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

# First words of inline `commands`. A span with another first word, or of one word, is none.
PROGRAMS = frozenset((
    "make", "python", ".venv/bin/python", "bot.py", "docker", "psql", "git", "cp", "chmod", "sudo",
    "echo", "openssl", "gpg", "age", "age-keygen", "shred", "ollama", "llama-server", "vllm",
))  # fmt: skip


@dataclass(frozen=True)
class Block:
    """Fenced code block.

    Attributes:
        kind: ``sh`` (commands), ``console`` (commands after ``$``, and their output),
            ``dotenv``, ``sql``, ``json``, or ``text``.
    """

    kind: str
    text: str

    def commands(self) -> Iterator[str]:
        """Yield each command without its trailing comment."""
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
        """Path relative to the project root."""
        return self.path.relative_to(ROOT).as_posix()

    @cached_property
    def text(self) -> str:
        """Whole content of the file."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def blocks(self) -> list[Block]:
        """All fenced blocks."""
        return [Block(kind, text) for kind, text in FENCE.findall(self.text)]

    @cached_property
    def prose(self) -> str:
        """Text outside the fenced blocks."""
        return FENCE.sub("", self.text)

    @property
    def spans(self) -> list[str]:
        """Inline code in the prose."""
        return [span.replace(r"\|", "|") for span in SPAN.findall(self.prose)]

    @property
    def links(self) -> list[str]:
        """Targets of links and pictures within the project."""
        targets = [first or second for first, second in LINK.findall(self.prose)]
        return [target for target in targets if not target.startswith(("http://", "https://"))]

    @property
    def anchors(self) -> set[str]:
        """Anchors that GitHub generates for the headings."""
        headings = [
            re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", h) for h in HEADING.findall(self.prose)
        ]
        return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}

    def commands(self) -> Iterator[str]:
        """Yield the commands of ``sh`` and ``console`` blocks and of spans that name a program."""
        for block in self.blocks:
            yield from block.commands()
        for span in self.spans:
            program, _, arguments = VARIABLES.sub("", span).partition(" ")
            if arguments and program in PROGRAMS:
                yield span

    def section(self, heading: str) -> str:
        """Return the text under a heading, up to the next one."""
        rest = self.text.partition(f"# {heading}\n")[2]
        assert rest, f"{self.name} has no heading {heading!r}"
        return re.split(r"^#", rest, maxsplit=1, flags=re.MULTILINE)[0]


README = Page(ROOT / "README.md")
ATTACKS = Page(ROOT / "tests" / "README.md")  # each with its command
PAGES = [README, *map(Page, sorted((ROOT / "docs").glob("*.md")))]


def page(name: str) -> Page:
    """Return a page of ``docs``."""
    return Page(ROOT / "docs" / name)


def rows(text: str) -> list[list[str]]:
    """Return the cells of all tables in a text, without their header rows."""
    found = []
    for line in text.splitlines():
        if line.startswith("|") and not line.startswith("|---"):
            cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
            found.append([cell.strip() for cell in cells])
        elif line.startswith("|---"):
            found.pop()
    return found
