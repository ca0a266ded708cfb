"""Readers of lists of what another assistant remembers: pasted, of mem0, of OpenMemory."""

import hashlib
import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from src.imports.files import mend_json, read_each, read_lines
from src.imports.records import Opened, Record, Records, read_moment, read_or_name

BULLET = re.compile(r"\s*(?:[-*•–—·▪◦]|\d{1,3}[.)])\s+(?=\S)(?:\[[ xX]\]\s+)?")
HEADING = re.compile(r"\s*(?:#{1,6}\s.*|\*\*[^*]+\*\*:?|[^.!?]{1,80}:)\s*")
FENCE = re.compile(r"\s*```")
DATE = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?Z?)?"
DATED = re.compile(
    rf"\s*(?:[\[(](?P<boxed>{DATE}|unknown|no date|неизвестно|невідомо)[\])]|(?P<bare>{DATE}))"
    r"[.:,]?\s*[-–—:.]?\s*",
    re.IGNORECASE,
)
NUMBERED = re.compile(rf"(?m)^\s*\d{{1,4}}[.)]\s+(?=\[{DATE}\])")  # as ChatGPT lists memories
DATED_AFTER = re.compile(rf"\s*(?:date\s*:?\s*)?[\[(](?P<date>{DATE})[\])]\.?\s*$", re.IGNORECASE)
EVIDENCE = re.compile(r"\s*(?:[-–—]\s*)?\bEvidence\s*:.*$", re.DOTALL)
EMPHASIS = re.compile(r"\*\*|__|`")
SENTENCE_END = re.compile(r"(?<=[.!?…])\s+(?=[^\W\d_])")
MAX_MEMORY = 400  # characters; longer paragraphs are split into sentences
MIN_MEMORY = 4
MOST_LINES = 5000
GONE = frozenset({"deleted", "archived"})


def read_text(file: Opened) -> Records:
    """Yield each entry of a pasted list."""
    lines = []
    for line in read_lines(file):
        lines.append(line)
        if len(lines) == MOST_LINES:
            break
    yield from read_memories("\n".join(lines), "list", None)


def is_list(text: str) -> bool:
    """Return True if most lines of a text are entries of a list or headings."""
    lines = [line for line in text.splitlines() if line.strip()]
    entries = [line for line in lines if BULLET.match(line) or DATED.match(line)]
    headings = [line for line in lines if line not in entries and HEADING.fullmatch(line)]
    return len(entries) > 1 and 2 * len(entries) >= len(lines) - len(headings)


def read_memories(text: str, source: str, said_at: datetime | None) -> Iterator[Record]:
    """Yield each entry of a list, or each sentence of a text, as a memory.

    Args:
        text: The text; its headings are left out.
        source: Its format.
        said_at: When it was written, for entries without a date.
    """
    for entry in _split(text):
        moment, words = said_at, EMPHASIS.sub("", entry).strip()
        for pattern, groups in ((DATED, ("boxed", "bare")), (DATED_AFTER, ("date",))):
            found = pattern.match(words) if pattern is DATED else pattern.search(words)
            if found is None:
                continue
            date = next((found[group] for group in groups if found[group]), "")
            moment = read_moment(date) or moment
            words = words[: found.start()] + words[found.end() :]
        words = EVIDENCE.sub("", words).strip()
        if len(words) < MIN_MEMORY:
            continue
        id_ = hashlib.sha256(words.casefold().encode()).hexdigest()[:32]
        yield Record(source, "memories", "", id_, words, moment, kind="memory")


def _split(text: str) -> list[str]:
    """Return the entries of a list, or the sentences of paragraphs."""
    lines = [line for line in text.splitlines() if not FENCE.match(line)]
    if any(NUMBERED.match(line) for line in lines):  # other lines go on with an entry
        return [entry.strip() for entry in NUMBERED.split("\n".join(lines))[1:]]
    is_listed = any(BULLET.match(line) or DATED.match(line) for line in lines)
    entries: list[str] = []
    is_open = False
    for line in lines:
        bullet = BULLET.match(line)
        is_entry = bullet is not None or DATED.match(line) is not None
        if not line.strip() or (HEADING.fullmatch(line) and not is_entry):
            is_open = False
        elif is_entry or not is_listed:
            start = bullet.end() if bullet else 0
            entries.append(line[start:].strip())
            is_open = is_entry
        elif is_open and line[0].isspace():  # the entry goes on
            entries[-1] = f"{entries[-1]} {line.strip()}"
        elif not entries:
            continue  # an introduction
        else:
            is_open = False
    return [part for entry in entries for part in _sentences(entry)]


def _sentences(entry: str) -> list[str]:
    return [entry] if len(entry) <= MAX_MEMORY else SENTENCE_END.split(entry)


def read_rows(file: Opened, prefix: str) -> Records:
    """Return the rows of mem0, and those of OpenMemory that are in force.

    Without a prefix each line is a row, and a broken one loses only itself.
    """
    return read_each(file, prefix, _read_row) if prefix else _read_json_lines(file)


def _read_json_lines(file: Opened) -> Records:
    for number, line in enumerate(read_lines(file), 1):
        if line.strip():
            yield from read_or_name(_read_line, line, f"{file.name} #{number}")


def _read_line(line: str) -> Records:
    return _read_row(json.loads(mend_json(line)))


def _read_row(row: dict[str, Any]) -> Records:
    text = row.get("memory") or row.get("content") or row.get("text")
    if row.get("state") not in GONE and isinstance(text, str) and text.strip():
        said_at = read_moment(row.get("created_at")) or read_moment(row.get("updated_at"))
        id_ = str(row.get("id") or hashlib.sha256(text.encode()).hexdigest()[:32])
        yield Record("mem0", "memories", "", id_, text.strip(), said_at, kind="memory")
