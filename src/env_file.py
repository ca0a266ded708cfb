"""The file ``.env``: what it sets, and which of its lines set nothing."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dotenv import dotenv_values
from dotenv.parser import Binding, parse_stream

from src.errors import ConfigError

MAX_LINES = 5  # whose numbers are named
REFERENCE = re.compile(r"\$\{(\w+)")


@dataclass(frozen=True)
class EnvFile:
    """What a file sets.

    Attributes:
        values: By names as they are written; a line without a value counts as no line, and of
            several with one name the last counts.
        references: The names that stand as ``${NAME}`` in it.
        problems: At most one line, which quotes nothing.
    """

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    references: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()


def read_env_file(path: Path) -> EnvFile:
    """What a file sets; nothing when there is none.

    Raises:
        ConfigError: It is there, but it cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")  # Windows begins files with a mark
    except FileNotFoundError:
        return EnvFile()
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: it cannot be read. Save it as UTF-8 text"]) from error
    except OSError as error:
        problem = f"{path}: it cannot be read ({error.strerror})"
        raise ConfigError([f"{problem}. Put a text file there that the bot may read"]) from error
    found = list(parse_stream(io.StringIO(text)))
    lines = "".join(one.original.string for one in found if one.value and not one.error)
    return EnvFile(
        {name: value for name, value in dotenv_values(stream=io.StringIO(lines)).items() if value},
        frozenset(REFERENCE.findall(text)),
        _describe([_line_of(one) for one in found if _sets_nothing(one)], path),
    )


def _sets_nothing(found: Binding) -> bool:
    """Whether it is no variable, but neither a comment nor space."""
    return found.error or (found.key is not None and found.value is None)


def _line_of(found: Binding) -> int:
    """Its number; the empty lines before it are counted to it."""
    text = found.original.string
    return found.original.line + text[: len(text) - len(text.lstrip())].count("\n")


def _describe(lines: list[int], path: Path) -> tuple[str, ...]:
    if not lines:
        return ()
    numbers = ", ".join(map(str, lines[:MAX_LINES]))
    numbers += " and more" if len(lines) > MAX_LINES else ""
    which = f"line {numbers} is" if len(lines) == 1 else f"lines {numbers} are"
    return (
        f"{path}: {which} not NAME=value. Write one variable a line, close what a quote opens, "
        "and begin comments with #",
    )
