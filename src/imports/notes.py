"""Reader of Markdown notes, such as those of an Obsidian vault."""

import hashlib
import re
from datetime import datetime
from pathlib import PurePosixPath

from src.imports.files import read_lines
from src.imports.records import Opened, Reading, Record, Records, read_day, read_moment, title_of

FRONTMATTER = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
CREATED = re.compile(
    r"(?im)^(?:(?:date[_ -]?)?creat(?:ed|ion)(?:[_ -]?(?:at|on|date|time))?|date"
    r"|дата(?: создания| створення)?|создано|створено)[ \t]*:[ \t]*(\S.*)"
)
# Properties, also below the title, as Notion has them, and the number behind its titles.
HEAD = re.compile(r"\A(?:---.{0,2000}|#[^\n]*\n\n(?:[^\n:]{1,60}:[^\n]*\n)+|)", re.DOTALL)
NUMBER = re.compile(r" [0-9a-f]{32}\Z")
EMBED = re.compile(r"!\[\[([^\[\]\n|#]{1,200})(?:#[^\[\]\n|]{0,200})?(?:\|[^\[\]\n]{0,200})?\]\]")
LINK = re.compile(r"\[\[([^\[\]\n|#]{0,200})(#[^\[\]\n|]{0,200})?(?:\|([^\[\]\n]{1,200}))?\]\]")
NOTE_LINK = re.compile(r"\[([^\[\]\n]{1,200})\]\((?!\w+:)[^()\n]{1,400}\.(?:md|csv)\)")
COMMENT = re.compile(r"%%.*?%%", re.DOTALL)
# A day as in 2024_05_13, 20240513 or 202405131030.
DAY = re.compile(r"(?<!\d)(\d{4})[-_./]?(\d\d)[-_./]?(\d\d)(?:\d{4}|\d{6})?(?!\d)")
MARKS = re.compile(r"(?m)\A---[ \t]*$|\[\[[^\[\]\n]+\]\]|^[ \t]{0,20}[-*] \[[ xX]\] ")
MAX_PART = 3000  # characters of a message: longer notes are cut between paragraphs
MAX_NOTE = 2_000_000


def looks_like_note(text: str, name: str) -> bool:
    """Return True if a text has the marks of a note, or its name is that of a daily note."""
    return MARKS.search(text) is not None or _day_of(PurePosixPath(name).stem) is not None


def read(file: Opened, reading: Reading) -> Records:
    """Yield a note as the user's words, a long one in parts; said on the day in its name."""
    path = PurePosixPath(file.name)
    text = "\n".join(read_lines(file))[:MAX_NOTE]
    zone = reading.time_zone
    said_at = _day_of(path.stem, zone) or _day_of(str(path.with_suffix("")), zone)
    [head] = HEAD.findall(text)
    created = CREATED.search(head)
    if said_at is None and created is not None:
        written = created[1].strip("\"'[] ")
        said_at = read_moment(written, zone) or read_day(written, zone)
    said_at = said_at or file.changed_at
    rest = clean_note(text)
    while rest:
        cut = len(rest)
        if cut > MAX_PART:  # between paragraphs or lines
            cuts = (rest.rfind(mark, MAX_PART // 4, MAX_PART) for mark in ("\n\n", "\n", " "))
            cut = next((cut for cut in cuts if cut > 0), MAX_PART)
        part, rest = rest[:cut].strip(), rest[cut:].strip()
        # Its folders may be others in the next archive.
        id_ = hashlib.sha256(f"{path.name}\n{part}".encode()).hexdigest()[:32]
        yield Record("notes", str(path), title_of(NUMBER.sub("", path.stem)), id_, part, said_at)


def clean_note(text: str) -> str:
    """Return a note without the marks of links and comments; its properties stay."""
    found = FRONTMATTER.match(text)
    if found is not None:
        text = f"{found[1].strip()}\n\n{text[found.end() :]}"
    text = NOTE_LINK.sub(r"\1", EMBED.sub(r"\1", COMMENT.sub("", text)))
    return LINK.sub(lambda link: link[3] or link[1] or (link[2] or "").lstrip("#"), text).strip()


def _day_of(name: str, time_zone: str = "UTC") -> datetime | None:
    return read_day(DAY.sub(r" \1-\2-\3 ", name), time_zone)
