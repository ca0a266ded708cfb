"""Markup that would cost more than it is worth, hidden from the Markdown parser.

Parsing and laying out Markdown is linear for what people write, and far from it for what an
attacker can: a hundred nested lists in one line become thousands of messages, forty quoted empty
lines in a spoiler, or thirty nested roots, take longer (or more memory) than there is. What goes
beyond the bounds below is shown as it was typed: before the parsing each of its characters is
exchanged for a stand-in that means nothing in Markdown, and after it exchanged back. A stand-in
is one UTF-16 unit, like what it stands for, so no offset moves.
"""

from __future__ import annotations

import re

MAX_DEPTH = 6  # quotes and lists that begin in one line; what is deeper is text
MAX_TABLE = 12_000  # characters of a table when its columns are aligned: three messages
MAX_QUOTES = 6  # ">" in a run of quoted empty lines; telegramify's spoilers try 2^n ways
MAX_BREAKS = 100  # line breaks in such a run, which its spoilers try n * n ways
MAX_LATEX_DEPTH = 5  # telegramify doubles what stands under a root or line with each level
MAX_FORMULAS = 100  # beginnings of formulas; each may look for its end in all the rest
MAX_DELIMITERS = 300  # of "$", and of "~": escaped round by round, each round a new parsing
MAX_FENCES = 300  # of code; behind each, telegramify looks back over all that showed nothing

SHIELDED = "\\>-+*.)|$~`"
# U+FDD0 to U+FDEF are no characters and never will be: nobody can type one.
NONCHARACTERS = dict.fromkeys(range(64976, 65008))
STAND_INS = {character: chr(0xFDD0 + number) for number, character in enumerate(SHIELDED)}
ORIGINALS = str.maketrans({stand_in: character for character, stand_in in STAND_INS.items()})

_MARKER = r"(?:>|[-+*](?=[ \t]|$)|[0-9]{1,9}[.)](?=[ \t]|$))"
# The beginning of a line up to the marker that is one too deep.
_DEEP_LINE = re.compile(rf"^((?:[ \t]*{_MARKER}){{{MAX_DEPTH}}}[ \t]*)({_MARKER})", re.MULTILINE)
_FIRST_MARKER = re.compile(rf"[ \t]*{_MARKER}", re.MULTILINE)
_THEMATIC_BREAK = re.compile(r"[ \t]*([-*])(?:[ \t]*\1){2,}[ \t]*$", re.MULTILINE)
_EMPTY_LINES = re.compile(r"(?:\n[ \t>]*)+")
_FORMULA = re.compile(r"\\(?=[(\[])")
_LATEX = re.compile(r"(\\[A-Za-z]+)|([{])|([}])|[\s$]")


def shield(markdown: str) -> str:
    """The text with everything beyond the bounds hidden; linear in its length."""
    text = markdown.translate(NONCHARACTERS).replace("\r\n", "\n").replace("\r", "\n")
    text = _DEEP_LINE.sub(_flatten, text)
    text = _shield_tables(text)
    if text.count("||") > 1 and _has_long_gap(text):
        text = text.replace("||", STAND_INS["|"] * 2)
    if _is_costly_latex(text):
        text = _FORMULA.sub(STAND_INS["\\"], text).replace("$", STAND_INS["$"])
    if text.count("~") > MAX_DELIMITERS:
        text = text.replace("~", STAND_INS["~"])
    if text.count("```") > MAX_FENCES:
        text = text.replace("`", STAND_INS["`"])
    return text


def unshield(text: str) -> str:
    """What was hidden, as it was typed."""
    return text.translate(ORIGINALS)


def _flatten(match: re.Match[str]) -> str:
    """A line that nests too deeply: its next marker, and so all that follow, are text."""
    if _ends_in_thematic_break(match):
        return match.group()
    marker = match.group(2)
    return match.group(1) + marker[:-1] + STAND_INS[marker[-1]]


def _ends_in_thematic_break(match: re.Match[str]) -> bool:
    """Whether the markers are a line that is drawn, as in ``* * * * * * * *``."""
    position = match.start()
    while position <= match.start(2):
        if _THEMATIC_BREAK.match(match.string, position):
            return True
        marker = _FIRST_MARKER.match(match.string, position)
        if marker is None:
            return False
        position = marker.end()
    return False


def _shield_tables(text: str) -> str:
    """Tables that would be mostly the spaces which align their columns stay as they are typed."""
    if "|" not in text:
        return text
    done: list[str] = []
    block: list[str] = []
    for line in [*text.split("\n"), ""]:
        if line.strip(" \t>"):
            block.append(line)
            continue
        if _aligned_size(block) > MAX_TABLE:
            block = [row.replace("|", STAND_INS["|"]) for row in block]
        done += [*block, line]
        block = []
    return "\n".join(done[:-1])


def _aligned_size(rows: list[str]) -> int:
    """Characters of the rows as a table: every column as wide as its widest cell."""
    widths: list[int] = []
    for row in rows:
        cells = row.split("|")
        widths += [0] * (len(cells) - len(widths))
        for column, cell in enumerate(cells):
            widths[column] = max(widths[column], len(cell))
    separators = 3 * len(widths)
    return len(rows) * (sum(widths) + separators) if len(widths) > 1 else 0


def _has_long_gap(text: str) -> bool:
    gaps = (match.group() for match in _EMPTY_LINES.finditer(text))
    return any(gap.count(">") > MAX_QUOTES or gap.count("\n") > MAX_BREAKS for gap in gaps)


def _is_costly_latex(text: str) -> bool:
    formulas = text.count("\\(") + text.count("\\[")
    dollars = text.count("$")
    if formulas > MAX_FORMULAS or dollars > MAX_DELIMITERS:
        return True
    return (formulas > 0 or dollars > 0) and _latex_depth(text) > MAX_LATEX_DEPTH


def _latex_depth(text: str) -> int:
    """How deeply commands and braces are nested; a command's argument may come without braces."""
    deepest = braces = commands = 0
    for command, opens, closes in _LATEX.findall(text):
        if command:
            commands += 1
        elif opens:
            braces, commands = braces + 1, 0
        elif closes:
            braces, commands = max(0, braces - 1), 0
        else:
            commands = 0
        deepest = max(deepest, braces + commands)
    return deepest
