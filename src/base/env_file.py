"""Parsing of ``.env``: its values, lines that set nothing, and names that are like ours."""

import io
import re
import tomllib
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from dotenv import dotenv_values
from dotenv.parser import parse_stream

from src.base.errors import ConfigError

MAX_LINES = 5  # line numbers listed in a problem
REFERENCE = re.compile(r"\$\{(\w+)")


@dataclass(frozen=True)
class EnvFile:
    """Contents of an env file.

    Attributes:
        values: Values by names as written. A line without a value is ignored; the last of several
            lines with one name wins.
        references: Names referenced as ``${NAME}``.
        problems: At most one line, which quotes nothing.
    """

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    references: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()


def read_env_file(path: Path) -> EnvFile:
    """Read an env file; a missing file is empty.

    Raises:
        ConfigError: The file exists but is unreadable.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")  # Windows writes a byte order mark
    except FileNotFoundError:
        return EnvFile()
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: it cannot be read. Save it as UTF-8 text"]) from error
    except OSError as error:
        problem = f"{path}: it cannot be read ({error.strerror})"
        raise ConfigError([f"{problem}. Put a text file there that the bot may read"]) from error
    bindings = list(parse_stream(io.StringIO(text)))
    lines = "".join(line.original.string for line in bindings if line.value and not line.error)
    broken = []  # lines that are neither a variable, a comment nor blank
    for line in bindings:
        if line.error or (line.key is not None and line.value is None):
            entry = line.original.string  # with the blank lines before it
            blank = entry[: len(entry) - len(entry.lstrip())]
            broken.append(line.original.line + blank.count("\n"))
    values = {name: text or "" for name, text in dotenv_values(stream=io.StringIO(lines)).items()}
    return EnvFile(
        {name: text.strip() for name, text in values.items() if text.strip()},
        frozenset(REFERENCE.findall(text)),
        _describe(broken, path),
    )


def _describe(lines: list[int], path: Path) -> tuple[str, ...]:
    if not lines:
        return ()
    numbers = ", ".join(map(str, lines[:MAX_LINES]))
    if len(lines) > MAX_LINES:
        numbers += " and more"
    which = f"line {numbers} is" if len(lines) == 1 else f"lines {numbers} are"
    return (
        f"{path}: {which} not NAME=value. Write one variable a line, close what a quote opens, "
        "and begin comments with #",
    )


# Names that are no settings: the operator's slips are warned of.

REMEDIES = Path(__file__).with_name("settings.toml")
LIKENESS = 0.83  # of difflib: OPENAI_KEY is OPENAI_API_KEY, FTP_PROXY hardly HTTP_PROXY


def find_remedy(name: str) -> str:
    """Return what to do about a bad value of a setting."""
    remedies = tomllib.loads(REMEDIES.read_text("utf-8"))
    return str(remedies.get(name, "Correct it, or leave it out."))


def find_strays(names: Set[str], settings: frozenset[str]) -> dict[str, str]:
    """Return the names that are no settings but probably intend one that is not set, with that.

    Args:
        names: Names of the variables that are set.
        settings: Names of the settings, in capitals.
    """
    is_set = {name.upper() for name in names}
    intended = {name: find_intended(name, settings) for name in sorted(names)}
    return {name: meant for name, meant in intended.items() if meant and meant not in is_set}


def find_intended(name: str, settings: frozenset[str]) -> str | None:
    """Return the setting that is most like a wrong name; None if there is none, or it is right."""
    capitals = name.upper()
    matches = get_close_matches(capitals, settings, n=1, cutoff=LIKENESS)
    if matches and capitals != matches[0]:
        others = tomllib.loads(REMEDIES.read_text("utf-8"))["of_others"].split()
        matches = [match for match in matches if capitals not in others]
        return next(iter(matches), None)
    return None
