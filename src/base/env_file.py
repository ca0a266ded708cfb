"""Parsing of ``.env``: its values, lines that set nothing, and misspelt names."""

import io
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from dotenv import dotenv_values
from dotenv.parser import Binding, parse_stream

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
    return EnvFile(
        {name: value for name, value in dotenv_values(stream=io.StringIO(lines)).items() if value},
        frozenset(REFERENCE.findall(text)),
        _describe([_line_number(line) for line in bindings if _sets_nothing(line)], path),
    )


def _sets_nothing(binding: Binding) -> bool:
    """Return True for a line that is neither a variable, a comment nor blank."""
    return binding.error or (binding.key is not None and binding.value is None)


def _line_number(binding: Binding) -> int:
    """Return the line number; the parser counts preceding blank lines as part of the entry."""
    text = binding.original.string
    return binding.original.line + text[: len(text) - len(text.lstrip())].count("\n")


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


# Matching of misspelt names to settings: ``OPENAI_KEY``, ``ALLOWED_USERS``.
#
# The environment holds variables of every program on the machine, so matching is strict there;
# each line of ``.env`` is meant for the bot. The known names are in ``settings.toml``.

TABLE = Path(__file__).with_name("settings.toml")
PART = re.compile("<([A-Z]+)>")
OTHERS = "others"  # key of names that belong to other programs but resemble ours
TYPO, SIMILAR = 0.9, 0.82  # difflib ratios that match, in the environment and in .env


@cache
def table() -> Mapping[str, Mapping[str, str]]:
    """Return, by setting, its remedy (``mend``) and patterns of wrong names for it."""
    return tomllib.loads(TABLE.read_text("utf-8"))


@cache
def _patterns(kind: str) -> Mapping[str, re.Pattern[str]]:
    """Return patterns of wrong names by setting; ``kind``: ``names``, ``in_file``, ``outside``."""
    parts = table()["parts"]
    return {
        name: re.compile(PART.sub(lambda found: parts[found[1]], about[kind]))
        for name, about in table().items()
        if kind in about
    }


@dataclass(frozen=True)
class Stray:
    """Variable that is no setting, and the setting that was probably intended."""

    name: str
    meant: str
    in_file: bool


def find_strays(names: Mapping[str, bool], settings: frozenset[str]) -> list[Stray]:
    """Return the names that are no settings but probably intend one that is not set.

    Args:
        names: Names of the variables that are set; True if set in ``.env`` rather than in the
            environment.
        settings: Names of the settings, in capitals.
    """
    is_set = {name.upper() for name in names}
    strays = []
    for name, in_file in sorted(names.items()):
        if name.upper() not in settings:
            meant = find_intended(name, settings, in_file=in_file)
            if meant is not None and meant not in is_set:
                strays.append(Stray(name, meant, in_file))
    return strays


def find_intended(name: str, settings: frozenset[str], *, in_file: bool) -> str | None:
    """Return the setting that a wrong name probably intends, or None.

    Args:
        name: As written.
        settings: Names of the settings, in capitals.
        in_file: True if set in ``.env`` rather than in the environment.
    """
    bare = _bare(name)
    for kind in ("names", "in_file") if in_file else ("outside", "names"):
        for intended, pattern in _patterns(kind).items():
            if pattern.fullmatch(bare):
                return None if intended == OTHERS else intended
    by_bare_name = {_bare(setting): setting for setting in settings}
    matches = get_close_matches(bare, by_bare_name, n=1, cutoff=SIMILAR if in_file else TYPO)
    return by_bare_name[matches[0]] if matches else None


def is_of_compose(name: str) -> bool:
    """Return True for a line meant for Docker Compose, which reads the same file."""
    is_others = _patterns("names")[OTHERS].fullmatch(_bare(name)) is not None
    return is_others or name.startswith(("COMPOSE_", "DOCKER_", "POSTGRES_"))


def _bare(name: str) -> str:
    return re.sub(r"[^A-Z0-9]", "", name.upper()).removeprefix("POMNI")
