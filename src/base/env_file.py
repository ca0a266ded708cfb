"""The file ``.env`` and the names in it: lines that set nothing, settings that are misspelt."""

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


# Which setting an operator means with a name that is none: ``OPENAI_KEY``, ``ALLOWED_USERS``.
#
# The environment holds the variables of every program of a machine, so there only what is surely
# meant for us counts; each line of ``.env`` is meant for us. The names are in ``settings.toml``.

TABLE = Path(__file__).with_name("settings.toml")
PART = re.compile("<([A-Z]+)>")
OTHERS = "others"  # in the place of a setting: names of other programs that are like ours
TYPO, LIKE = 0.9, 0.82  # how like a name is to ours, in the environment and in .env (difflib)


@cache
def table() -> Mapping[str, Mapping[str, str]]:
    """By the name of a setting what to write instead (``mend``), and what others call it."""
    return tomllib.loads(TABLE.read_text("utf-8"))


@cache
def _names(kind: str) -> Mapping[str, re.Pattern[str]]:
    """What others call the settings: ``names``, ``in_file`` or ``outside``."""
    parts = table()["parts"]
    return {
        name: re.compile(PART.sub(lambda found: parts[found[1]], about[kind]))
        for name, about in table().items()
        if kind in about
    }


@dataclass(frozen=True)
class Stray:
    """A variable that is no setting, and the setting that was probably meant."""

    name: str
    meant: str
    in_file: bool


def find_strays(names: Mapping[str, bool], settings: frozenset[str]) -> list[Stray]:
    """The names that are none of the settings', but were probably meant for one that is not set.

    Args:
        names: Of the variables that are set; whether each stands in ``.env``, and not in the
            environment.
        settings: The names of the settings, in capitals.
    """
    is_set = {name.upper() for name in names}
    strays = []
    for name, in_file in sorted(names.items()):
        meant = None if name.upper() in settings else find_meant(name, settings, in_file=in_file)
        if meant is not None and meant not in is_set:
            strays.append(Stray(name, meant, in_file))
    return strays


def find_meant(name: str, settings: frozenset[str], *, in_file: bool) -> str | None:
    """The setting that was probably meant with a name that is none; None: nothing of ours.

    Args:
        name: As it is written.
        settings: The names of the settings, in capitals.
        in_file: Whether it stands in ``.env``, and not in the environment.
    """
    bare = _bare(name)
    for kind in ("names", "in_file") if in_file else ("outside", "names"):
        for meant, pattern in _names(kind).items():
            if pattern.fullmatch(bare):
                return None if meant == OTHERS else meant
    ours = {_bare(setting): setting for setting in settings}
    close = get_close_matches(bare, ours, n=1, cutoff=LIKE if in_file else TYPO)
    return ours[close[0]] if close else None


def is_of_compose(name: str) -> bool:
    """Whether a line of ``.env`` is for Docker Compose, which reads the same file."""
    is_others = _names("names")[OTHERS].fullmatch(_bare(name)) is not None
    return is_others or name.startswith(("COMPOSE_", "DOCKER_", "POSTGRES_"))


def _bare(name: str) -> str:
    return re.sub(r"[^A-Z0-9]", "", name.upper()).removeprefix("POMNI")
