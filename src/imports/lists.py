"""Readers of lists of what another assistant remembers: pasted, of mem0, of OpenMemory."""

import hashlib
import itertools
import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from src.imports.files import mend_json, read_lines
from src.imports.records import Opened, Record, Records, read_day, read_moment, read_or_name

MARK = re.compile(
    r"\A(\s*)(?:(\d{1,3}[.)])|[-*+•–—·▪◦‣●])\s+(?=\S)(?:\[[ xX]\]\s+)?"
)  # of an entry
HEADING = re.compile(r"\s*(?:#{1,6}\s.*|\*\*[^*]+\*\*:?|.{1,150}:(?:\*\*)?)\s*")
QUOTED = re.compile(r"(?m)^> ?")
FENCE = re.compile(r"\s*```")
ROW = re.compile(r"\s*\|(?:\s*\d+\s*\|)?(.*)\|\s*")  # of a table
RULE = re.compile(r"[\s|:-]+")  # below the head of a table
DATE = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?Z?)?"
BOXED = r"(?<=\[)[^\[\]\n]{4,30}(?=\])"
DATED = re.compile(
    rf"\A\s*[\[(]?(?P<date>{DATE}|{BOXED})[\])]?[.:,]?\s*[-–—:.]?\s*", re.IGNORECASE
)
NUMBERED = re.compile(rf"(?m)^[ \t]*\d{{1,4}}[.)]\s+(?=\[{DATE}\])")  # as ChatGPT lists memories
DATED_AFTER = re.compile(
    rf"(?:date\s*:?\s*)?[\[(](?P<date>{DATE}|{BOXED})[\])]\.?\s*$", re.IGNORECASE
)
UNDATED = frozenset({"unknown", "no date", "неизвестно", "невідомо"})
EVIDENCE = re.compile(r"(?:[-–—*]\s*)?\bEvidence\s*:.*$", re.DOTALL)
EMPHASIS = re.compile(r"\*\*|__|`")
SENTENCE_END = re.compile(r"(?<=[.!?…])\s+(?=[^\W\d_])")
ENDED = re.compile(r"[.!?…][\"»”)\]*]*\s*$")
MAX_HEADING = 60  # characters of a heading without marks
MAX_MEMORY = 400  # characters; longer paragraphs are split into sentences
MIN_MEMORY = 4
MOST_LINES = 5000
GONE = frozenset({"deleted", "archived", "DELETE"})


def read_text(file: Opened) -> Records:
    """Yield each entry of a pasted list."""
    lines = itertools.islice(read_lines(file), MOST_LINES)
    yield from read_memories("\n".join(lines), "list", None)


def is_list(text: str) -> bool:
    """Return True if most lines of a text are entries of a list or headings."""
    lines = _tidy(text)
    entries = [line for line in lines if _is_entry(line)]
    headings = [line for line in lines if line not in entries and HEADING.fullmatch(line)]
    return len(entries) > 1 and 2 * len(entries) >= len(list(filter(None, lines))) - len(headings)


def read_memories(text: str, source: str, said_at: datetime | None) -> Iterator[Record]:
    """Yield each entry of a list, or each sentence of a text, as a memory.

    Args:
        text: The text; its headings are left out.
        source: Its format.
        said_at: When it was written, for entries without a date.
    """
    for entry in _split(text, is_whole=source != "list"):
        moment, words = said_at, EMPHASIS.sub("", entry).strip()
        for pattern in (DATED, DATED_AFTER):
            found = _find_date(pattern, words)
            if found is not None:
                match, date = found
                moment = date or moment
                words = words[: match.start()] + words[match.end() :]
        words = EVIDENCE.sub("", words).strip()
        if len(words) < MIN_MEMORY or words.endswith("?"):
            continue
        id_ = hashlib.sha256(words.casefold().encode()).hexdigest()[:32]
        yield Record(source, "memories", "", f"memory:{id_}", words, moment, kind="memory")


def _find_date(
    pattern: re.Pattern[str], words: str
) -> tuple[re.Match[str], datetime | None] | None:
    """Return the place of a date and the date, None for an unknown one; None if there is none."""
    match = pattern.search(words)
    if match is None:
        return None
    text = match["date"]
    date = read_moment(text) or read_moment(f"{text}-01") or read_day(text)
    if date is None and text.lower() not in UNDATED:
        return None
    return match, date


def _is_entry(line: str) -> bool:
    return MARK.match(line) is not None or _find_date(DATED, line) is not None


def _tidy(text: str) -> list[str]:
    """Return the lines of a text: rows of tables as entries, evidence behind its entry."""
    lines: list[str] = []
    for line in QUOTED.sub("", text).splitlines():
        row = ROW.fullmatch(line)
        if FENCE.match(line):
            continue
        if EVIDENCE.match(line.lstrip()) and lines:
            lines[-1] += f" {line.strip()}"
        elif row is None:
            lines.append(line)
        elif RULE.fullmatch(line):
            del lines[-1:]
        else:
            dated = re.sub(rf"(?<=\|)\s*({DATE})\s*(?=\||\Z)", r" [\1] ", row[1])
            cells = [cell.strip() for cell in dated.split("|") if cell.strip()]
            lines.append(" ".join(["-", ": ".join(cells[:2]), *cells[2:]]))
    return lines


def _split(text: str, *, is_whole: bool) -> list[str]:
    """Return the entries of a list, or the sentences of paragraphs."""
    lines = _tidy(text)
    if any(NUMBERED.match(line) for line in lines):  # other lines go on with an entry
        return [entry.strip() for entry in NUMBERED.split("\n".join(lines))[1:]]
    if any(_is_entry(line) for line in lines):
        entries = _split_list(lines, is_whole=is_whole)
    else:  # where most lines are sentences, other short ones are headings
        lines = [line for line in lines if line.strip() and not HEADING.fullmatch(line)]
        entries = [line.strip() for line in lines]
        sentences = [text for text in entries if ENDED.search(text) or len(text) > MAX_HEADING]
        if 2 * len(sentences) >= len(entries):
            entries = sentences
    parts: list[str] = []
    for entry in entries:
        parts += [entry] if len(entry) <= MAX_MEMORY else SENTENCE_END.split(entry)
    return parts


def _split_list(lines: list[str], *, is_whole: bool) -> list[str]:
    """Return entries, and sentences below a heading, or all where nothing is said around them."""
    entries: list[str] = []
    is_open, is_headed = False, is_whole
    group, depth = "", 0
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        words = MARK.sub("", line, count=1).strip()
        indent = len(line) - len(line.lstrip())
        if _heads(MARK.match(line), MARK.match(following), words):
            group, depth = f"{EMPHASIS.sub('', words).rstrip(': ')}:", indent
        elif _is_entry(line):
            if indent <= depth:
                group = ""
            entries.append(f"{group} {words}".strip())
            is_open, is_headed = True, is_whole
        elif HEADING.fullmatch(line):
            is_open, is_headed = False, True
        elif is_open and indent:  # the entry goes on
            entries[-1] = f"{entries[-1]} {words}"
        else:
            if is_headed and ENDED.search(line):
                entries.append(words)
            is_open = False
    return entries


def _heads(mark: re.Match[str] | None, following: re.Match[str] | None, words: str) -> bool:
    """Return True if an entry is a heading of those that follow it: deeper, or not numbered."""
    if mark is None or following is None or ENDED.search(words):
        return False
    return following.end(1) > mark.end(1) or bool(mark[2] and not following[2])


def read_json_lines(file: Opened) -> Records:
    """Yield the rows of a file with one on each line; a broken one loses only itself."""
    for number, line in enumerate(read_lines(file), 1):
        if line.strip():
            yield from read_or_name(_read_line, line, f"{file.name} #{number}")


def _read_line(line: str) -> Records:
    return read_row(json.loads(mend_json(line)))


def read_row(row: dict[str, Any]) -> Records:
    """Yield a row of mem0, or of OpenMemory if it is in force."""
    text = row.get("memory") or row.get("content") or row.get("text")
    if (
        GONE.isdisjoint((row.get("state"), row.get("event")))
        and isinstance(text, str)
        and text.strip()
    ):
        said_at = read_moment(row.get("created_at")) or read_moment(row.get("updated_at"))
        id_ = row.get("id") or hashlib.sha256(text.encode()).hexdigest()[:32]
        words = text.strip()
        yield Record("mem0", "memories", "", f"memory:{id_}", words, said_at, kind="memory")
