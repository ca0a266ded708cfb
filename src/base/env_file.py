"""The file ``.env`` and the names in it: lines that set nothing, settings that are misspelt."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
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
# Names are compared without case, underscores and the bot's own name. First by what other programs
# call the same thing, then by likeness. The environment holds the variables of every program of a
# machine, so there only what is surely meant for us counts; each line of ``.env`` is meant for us.

TYPO, LIKE = 0.9, 0.82  # how like a name is to ours, in the environment and in .env (difflib)

_BOT = "(?:TG|TELEGRAM|BOT|TELEGRAMBOT)"
_KEY = "(?:API|SECRET)*(?:KEY|TOKEN)S?"
_URL = "(?:API)?(?:BASE|URL|URI|HOST|ENDPOINT|SERVER|ADDRESS)+"
_PEOPLE = "(?:TG|TELEGRAM|USER|CHAT|GROUP|MEMBER|ACCOUNT|ID|NAME|LIST|S)*"
_ALLOWED = "(?:ALLOW|ALLOWED|WHITELIST|WHITELISTED|ALLOWLIST|PERMITTED|AUTHORI[SZ]ED)"
_PG = "(?:PG|PGSQL|POSTGRES|POSTGRESQL|DB|DATABASE)"
_MODEL = "MODEL(?:NAME|ID|S)*"

# What others call our settings, wherever it stands.
OTHER_NAMES = {
    "TELEGRAM_BOT_TOKEN": f"(?:TG)?{_BOT}(?:API)?(?:KEY|TOKEN)S?",
    "TELEGRAM_API_BASE": f"(?:TG|TELEGRAM)(?:BOT)?{_URL}|BOTAPI{_URL}",
    "TELEGRAM_WEBHOOK_URL": f"{_BOT}WEBHOOK(?:URL|URI|HOST|ADDRESS)?",
    "TELEGRAM_WEBHOOK_SECRET": f"{_BOT}(?:WEBHOOK|SECRET)(?:SECRET)?TOKEN|{_BOT}WEBHOOKSECRET",
    "ALLOWED_USER_IDS": f"{_BOT}?{_ALLOWED}{_BOT}?(?:USER|CHAT|ID){_PEOPLE}|{_BOT}{_ALLOWED}|"
    f"{_BOT}?(?:USER|CHAT|ID)S?{_ALLOWED}|(?:WHITE|ALLOW)LIST",
    "ADMIN_USER_IDS": f"{_BOT}?ADMIN(?:USER|CHAT|TELEGRAM|TG)*(?:IDS?|S)|{_BOT}(?:ADMIN|OWNER)",
    "ADMIN_PASSWORD": "ADMIN(?:PANEL|PAGE)?(?:PASS(?:WORD|WD|PHRASE)?|PWD|PW)",
    "DATABASE_URL": f"{_PG}(?:URL|URI|DSN|CONNECTION(?:STRING)?)",
    "OPENAI_API_KEY": f"(?:OPENAI|CHATGPT|GPT){_KEY}",
    "OPENAI_BASE_URL": f"OPENAI{_URL}",
    "ANTHROPIC_API_KEY": f"(?:ANTHROPIC|CLAUDE){_KEY}",
    "ANTHROPIC_BASE_URL": f"(?:ANTHROPIC|CLAUDE){_URL}",
    "GOOGLE_API_KEY": f"(?:GOOGLE)?(?:GEMINI|GENAI|GENERATIVEAI){_KEY}|GOOGLE(?:AI)?{_KEY}",
    "GOOGLE_BASE_URL": f"(?:GOOGLE)?(?:GEMINI|GENAI){_URL}|GOOGLE{_URL}",
    "LLM_MODEL": f"(?:OPENAI|LLM)(?:CHAT)?{_MODEL}",
}
# What is as likely another program's, so that only a line of .env tells.
OTHER_NAMES_IN_FILE = {
    "TELEGRAM_BOT_TOKEN": "(?:API)?TOKEN",
    "TELEGRAM_WEBHOOK_URL": "WEBHOOK(?:URL|URI|HOST|ADDRESS)?",
    "TELEGRAM_WEBHOOK_SECRET": "WEBHOOK(?:SECRET|TOKEN)+",
    "ALLOWED_USER_IDS": f"{_ALLOWED}{_PEOPLE}|(?:TG|TELEGRAM)?USER(?:ID|S)+|"
    f"(?:TRUSTED|ACCESS)USER{_PEOPLE}",
    "ADMIN_USER_IDS": f"{_BOT}?(?:ADMIN|OWNER|SUPERUSER|OPERATOR){_PEOPLE}",
    "PG_HOST": f"{_PG}(?:HOST|HOSTNAME|SERVER|ADDRESS)",
    "PG_PORT": f"{_PG}PORT",
    "PG_DB": f"{_PG}(?:NAME|DB|DATABASE|DBNAME)",
    "PG_USER": f"{_PG}(?:USER|USERNAME|LOGIN)",
    "PG_PASSWORD": f"{_PG}(?:PASS|PWD|PASSWD|PASSWORD)",
    "LLM_MODEL": f"(?:ANTHROPIC|CLAUDE|GEMINI|GOOGLE|GPT|AI|BOT|DEFAULT)?(?:CHAT)?{_MODEL}|LLM",
    "SUMMARY_MODEL": f"SUMMARI[SZ](?:ATION|ER|E){_MODEL}",
    "EMBEDDING_MODEL": f"(?:OPENAI)?EMBED(?:DING|DINGS|DER|DERS)?(?:{_MODEL})?",
    "TRANSCRIPTION_MODEL": f"(?:OPENAI)?(?:WHISPER|STT|TRANSCRIBE)(?:{_MODEL})?",
    "LLM_CONTEXT_SIZE": "(?:LLM|MODEL|MAX)?CONTEXT(?:SIZE|WINDOW|LENGTH|TOKENS)",
    "MCP_SERVERS": "MCP(?:SERVERS?)?(?:CONFIG|FILE|JSON|PATH)+",
    "TIMEZONE": "(?:BOT|DEFAULT|USER|LOCAL)(?:TIMEZONE|TZ)",
    "HTTP_HOST": "(?:WEB|SERVER|LISTEN|BIND|APP)?(?:HOST|ADDRESS)",
    "HTTP_PORT": "(?:WEB|SERVER|LISTEN|BIND|APP)?PORT",
    "PUBLIC_URL": "(?:PUBLIC|BASE|EXTERNAL|WEBAPP|APP|SITE)(?:URL|ADDRESS)",
    "DATA_DIR": "DATA(?:PATH|FOLDER|DIRECTORY)",
    "LOG_LEVEL": "(?:BOT|APP)?LOG(?:GING|GER)?(?:LEVEL|LVL)",
}
# Names of others that are like ours: of Telegram's clients and Bot API server, and of the compose
# file; those of libpq and of web servers would do nothing in .env.
NOT_OURS = frozenset({"TELEGRAMAPIHASH", "TELEGRAMAPIID", "TZ", "POSTGRESUSER", "POSTGRESPASSWORD",
                      "POSTGRESDB"})  # fmt: skip
NOT_OURS_OUTSIDE = frozenset({"PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "LOGLEVEL", "DATADIR",
                              "HTTPSHOST", "HTTPSPORT"})  # fmt: skip


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
    if bare in NOT_OURS or (not in_file and bare in NOT_OURS_OUTSIDE):
        return None
    for table in (OTHER_NAMES, OTHER_NAMES_IN_FILE) if in_file else (OTHER_NAMES,):
        for meant, pattern in table.items():
            if re.fullmatch(pattern, bare):
                return meant
    ours = {_bare(setting): setting for setting in settings}
    close = get_close_matches(bare, ours, n=1, cutoff=LIKE if in_file else TYPO)
    return ours[close[0]] if close else None


def is_of_compose(name: str) -> bool:
    """Whether a line of ``.env`` is for Docker Compose, which reads the same file."""
    return _bare(name) in NOT_OURS or name.startswith(("COMPOSE_", "DOCKER_", "POSTGRES_"))


def _bare(name: str) -> str:
    return re.sub(r"[^A-Z0-9]", "", name.upper()).removeprefix("POMNI")
