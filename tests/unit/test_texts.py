"""The sentences: complete, alike and used in every language; and which language to speak."""

from __future__ import annotations

import ast
import functools
import re
import string
import tomllib
from pathlib import Path
from typing import cast, get_args, get_type_hints

import pytest

import src.texts
from src.base.owners import Mode
from src.memory.line_kinds import ORDERS, shipped_weights
from src.memory.memory_repo import KINDS
from src.memory.queries import OverviewKind
from src.memory.tools import REFUSALS
from src.memory.writer import Outcome
from src.reading.reminder_moments import Problem
from src.reminders.follow_ups import Stake
from src.reminders.reminder_service import PERIODS
from src.talk.commands import COMMANDS, Place, offered
from src.talk.notes import WISHES
from src.talk.search_screens import SUBJECTS
from src.talk.settings import CHOICES
from src.talk.turn_state import RESOLUTIONS
from src.telegram.incoming import UNREADABLE, UNSEEN
from src.telegram.requests import refusals
from src.texts import (
    LANGUAGES,
    ROOMS,
    Language,
    choose_language,
    clear_language,
    detect_language,
    say,
    sentences,
)
from src.web.app_api import page_names
from tests.help_pages import EVERYTHING, OFFLINE, help_of
from tests.languages import WRITTEN

SRC = Path(__file__).resolve().parents[2] / "src"

# Keys that the code builds: what stands in say(), and what it can become. Extend it with the code.
TEXT_KEYS = {
    "error_internal", "error_busy", "error_model", "error_filtered", "error_model_setup",
    "error_put_aside",
    "error_document_broken", "error_document_kind", "error_document_protected",
    "error_document_too_full", "error_document_too_large", "error_document_too_slow",
    "error_document_without_text", "app_unauthorized", "app_expired",
    "import_unknown", "import_html", "import_nothing", "import_broken", "import_broken_zip",
    "import_password", "import_too_big",
}  # fmt: skip
TALK = shipped_weights().rows.keys() - {"note", "question"} - ORDERS  # with a sentence of its own
REFUSALS_OF_REMINDERS = {*get_args(Problem), "too_many", "not_own", "gone", "not_yours", "which"}
OUTCOMES = get_args(get_type_hints(Outcome)["kind"])
BUILT = {
    "f'{self.lost.reason}{ending}'": {
        f"{one.reason}{ending}" for one in refusals() for ending in ("", "_group") if one.reason
    }
    - {"place_mute"},
    "f'command_{entry.name}'": {f"command_{name}" for name in COMMANDS},
    "f'help_{entry.name}'": {f"help_{name}" for name, it in COMMANDS.items() if it.is_in_help},
    "f'mode_is_{current.mode}'": {f"mode_is_{mode}" for mode in get_args(Mode)},
    "f'mode_set_{mode}'": {f"mode_set_{mode}" for mode in get_args(Mode)},
    "f'conflict_{name}'": {f"conflict_{name}" for name in RESOLUTIONS},
    "f'delete_yes_{step}'": {"delete_yes_1", "delete_yes_2"},
    "f'{kind}_{name}'": {
        f"{kind}_{({True: 'on', False: 'off'}).get(value, value)}"
        for kind, (_, values) in CHOICES.items()
        for value in values
        if kind != "language"
    },
    "f'settings_{kind}'": {f"settings_{kind}" for kind in CHOICES},
    "f'kind_{kind}'": {f"kind_{kind}" for kind in KINDS},
    "f'{pin}_button'": {"pin_button", "unpin_button"},
    "f'refused_{reason}'": {f"refused_{reason}" for reason in REFUSALS},
    "f'taught_{outcome}'": {f"taught_{kind}" for kind in OUTCOMES if kind != "refused"},
    "f'on_weekday_{number}'": {f"on_weekday_{number}" for number in range(7)},
    "f'on_weekday_{n}'": {f"on_weekday_{number}" for number in range(7)},
    "f'in_weekday_{number}'": {f"in_weekday_{number}" for number in range(7)},
    "f'every_weekday_{weekdays[0]}'": {f"every_weekday_{number}" for number in range(7)},
    "f'every_{unit}'": {f"every_{unit}" for unit in PERIODS.values()},
    "f'reminder_{request.problem}'": {f"reminder_{problem}" for problem in get_args(Problem)},
    "f'reminder_{outcome}'": {
        f"reminder_{one}"
        for one in {*REFUSALS_OF_REMINDERS, "moved", "skipped", "set", "done", "cancelled"}
    },
    "f'words_of_{provenance}'": {f"words_of_{kind}" for kind in ("forwarded", "bot", "file")},
    "f'{PAGE_TEXT}{name}'": {f"page_{name}" for name in page_names()},
    "f'offline_{self._kind}'": {f"offline_{kind}" for kind in TALK},
    "f'offline_overview_{overview}'": {
        f"offline_overview_{kind}" for kind in get_args(OverviewKind)
    },
    "f'follow_up_{stake}'": {f"follow_up_{stake}" for stake in get_args(Stake)},
    "f'about_{subject}'": {f"about_{subject}" for subject in SUBJECTS},
    "f'wish_{wish}'": {f"wish_{wish}" for wish in WISHES},
    "error.text_key": TEXT_KEYS,
    "content.problem": {"cannot_read"},
    "import_.question": {"import_who", "import_dates"},
}
# What say(key, ...) can hold, by file.
KEYS_OF_FILE = {
    "tasks.py": TEXT_KEYS,
    "notes.py": {"undo_button", "undo_saved_button"},
    "forget_screens.py": {"delete_ask", "delete_ask_again"},
    "commands.py": {"tools_away", "tools_connecting", "privacy_model", "privacy_offline"},
    "turn.py": {"limit_user", "limit_bot", "limit_minute"},
    "orders.py": {"zone_which", "zone_unknown"},
    "incoming.py": {UNREADABLE, *UNSEEN.values()},
    "handlers.py": {"source_quote", "source_quote_bot"},
    "buttons.py": {"erase_yes", "erase_no"},
    "screens.py": {
        "import_large", "import_large_app", "import_take",
        "import_search", "import_done", "import_done_none",
        "later_minutes", "later_hour", "later_tomorrow",
    },
    "attachments.py": {
        "sound_locked", "sound_refused", "picture_unseen", "sound_unheard", "sound_silent",
    },
    "app_api.py": {"app_unavailable", "app_not_here"},
    "app_gate.py": {
        "app_bad_request", "app_empty_text", "app_too_long", "memory_gone", "undo_nothing",
        "app_message_gone", "app_not_here", "reminder_no_time", "tap_unknown",
    },
}  # fmt: skip


def keys_in(node: ast.expr, file: str) -> set[str]:
    """The keys that the first argument of ``say`` can be."""
    if isinstance(node, ast.Constant):
        return {str(node.value)}
    if isinstance(node, ast.IfExp):
        return keys_in(node.body, file) | keys_in(node.orelse, file)
    written = ast.unparse(node)
    if written == "key":
        return KEYS_OF_FILE[file]
    assert written in BUILT, f"{file} says {written}: add it to BUILT"
    return BUILT[written]


def says_sentences(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module == "src.texts"
        and any(name.name == "say" for name in node.names)
        for node in ast.walk(tree)
    )


@functools.cache
def used_keys() -> dict[str, str]:
    """Each key that the code says, and a file that does."""
    used = {}
    for path in SRC.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        says = says_sentences(tree)
        for node in ast.walk(tree):
            found: set[str] = set()
            if says and isinstance(node, ast.Call) and ast.unparse(node.func) == "say":
                found = keys_in(node.args[0], path.name)
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "text_key":
                found = keys_in(node.value, path.name)
                assert found <= TEXT_KEYS, "add it to TEXT_KEYS"
            used |= dict.fromkeys(found, path.name)
    return used


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def keys(language: str) -> set[str]:
    """The keys of every sentence that is written in a language."""
    return {key for key, texts in sentences().items() if language in texts}


@pytest.mark.parametrize("language", WRITTEN)
def test_every_sentence_is_written_in_the_languages_of_our_users(language: Language) -> None:
    missing = sorted(set(used_keys()) - keys(language))
    assert missing == [], f"write them in {language} in the sentences.toml of their rooms"


def test_no_sentence_lacks_english_or_is_of_another_language() -> None:
    assert sorted(sentences().keys() - keys("en")) == []
    assert {code for texts in sentences().values() for code in texts} == set(LANGUAGES)


def test_what_a_language_lacks_is_said_in_english(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "room").mkdir()
    told = '[start]\nuk = "Вітаю!"\nen = "Hello"\n\n[help_new]\nen = "start over"\n'
    (tmp_path / "room" / "sentences.toml").write_text(told, encoding="utf-8")
    monkeypatch.setattr(src.texts, "ROOMS", tmp_path)
    sentences.cache_clear()
    try:
        said = [say(key, "uk") for key in ("start", "help_new")]
    finally:
        sentences.cache_clear()
    assert said == ["Вітаю!", "start over"]


def test_no_sentence_is_empty_or_stands_twice() -> None:
    for key, texts in sentences().items():
        assert all(text.strip() == text != "" for text in texts.values()), key
    files = (path.read_text(encoding="utf-8") for path in ROOMS.glob("*/sentences.toml"))
    written = [key for file in files for key in tomllib.loads(file)]
    assert len(written) == len(set(written))


def test_every_language_fills_in_the_same_fields() -> None:
    for key in keys("en"):
        assert {frozenset(fields(say(key, one))) for one in LANGUAGES} == {
            frozenset(fields(say(key, "en")))
        }, key


def test_no_sentence_is_unused() -> None:
    assert keys("en") - set(used_keys()) == set()


def test_each_language_is_written_in_its_own_letters() -> None:
    for key in keys("en"):
        assert not re.search("[іїєґ]", say(key, "ru"), re.IGNORECASE), key
        assert not re.search("[ыэъё]", say(key, "uk"), re.IGNORECASE), key
        assert not re.search("[а-яё]", say(key, "en"), re.IGNORECASE), key


def test_users_read_of_no_variable_and_no_file_of_the_operator_s() -> None:
    of_operators = re.compile(r"[A-Z]{3,}_[A-Z]+|\.env\b|\bdocs/")
    named = {key for key in keys("en") for one in LANGUAGES if of_operators.search(say(key, one))}
    assert named == {"console_model", "import_large", "import_large_app"}


def test_descriptions_of_commands_fit_telegram_s_menu() -> None:
    for name in COMMANDS:
        assert all(1 <= len(say(f"command_{name}", language)) <= 256 for language in LANGUAGES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_start_and_help_name_the_commands(language: Language) -> None:
    for command in ("/new", "/memory", "/privacy", "/delete_me"):
        assert command in say("start", language)
    for place, missing in PLACES.items():
        page = help_of(language, place, EVERYTHING)
        named = set(re.findall(r"^/(\w+) — ", page, re.MULTILINE))
        assert named == set(COMMANDS) - {"start", *missing}


# The commands that do not work in a place.
PLACES: dict[Place, set[str]] = {
    "private": set(),
    "group": {"about", "app", "brief", "connect", "delete_me", "import", "page", "today"},
    "console": {"app", "stop"},
}  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_is_offered_that_is_switched_off(language: Language) -> None:
    full, bare = (help_of(language, "private", one) for one in (EVERYTHING, OFFLINE))
    for word in (
        say("reads_voices", language),
        say("reads_photos", language),
        "/app",
        "/usage",
        "/page",
        "/connect",
    ):
        assert word in full and word not in bare, word
    assert say("reads_files", language) in bare and say("help_notes", language) in bare
    console = help_of(language, "console", OFFLINE)
    assert say("help_edit", language) not in console
    assert say("help_reads", language, kinds=say("reads_files", language)) not in console
    listed = offered(COMMANDS.values(), EVERYTHING, "group", is_admin=False)
    assert not any(entry.is_for_admins for entry in listed)
    assert say("help_admins", language) in help_of(language, "group")
    assert say("help_admins", language) not in help_of(language)


def test_an_unknown_sentence_is_an_error() -> None:
    with pytest.raises(KeyError, match="no sentence 'nonsense' in uk"):
        say("nonsense", "uk")
    with pytest.raises(KeyError):
        say("", "ru")


def test_fields_are_filled_in_and_a_missing_one_is_an_error() -> None:
    assert "7_000".replace("_", "") in say("not_allowed", "en", user_id=7000)
    with pytest.raises(KeyError):
        say("offline_quote", "en", text="only one of two")


def test_what_a_user_wrote_is_no_template() -> None:
    quote = say("offline_quote", "en", said_at="today", text="{user_id} {0} {")
    assert quote == "• today: “{user_id} {0} {”"


@pytest.mark.parametrize(("candidates", "expected"), [
    (("ru",), "ru"), (("uk-UA",), "uk"), (("en_GB",), "en"), (("UK",), "uk"), (("be",), "ru"),
    (("de", "uk"), "uk"), ((None, "", "ru-RU"), "ru"), (("de",), "en"), (("rus",), "en"),
    ((), "en"),
])  # fmt: skip
def test_the_first_language_that_we_speak_is_chosen(
    candidates: tuple[str | None, ...], expected: Language
) -> None:
    assert choose_language(*candidates) == expected


@pytest.mark.parametrize(("text", "default", "expected"), [
    ("Как меня зовут?", "en", "ru"), ("Это я", "uk", "ru"), ("ЁЛКА", "uk", "ru"),
    ("Як мене звати?", "en", "uk"), ("Їжак", "ru", "uk"), ("де мама", "ru", "uk"),
    ("Дякую!", "ru", "uk"), ("мама", "ru", "ru"), ("мама", "uk", "uk"), ("мама", "en", "ru"),
    ("What is my name?", "ru", "en"), ("Привет, world", "en", "ru"), ("12:30 😀", "uk", "uk"),
    ("", "ru", "ru"), ("п'ю каву зранку", "ru", "uk"), ("здоров’я", "ru", "uk"),
    ("борщ уже зняла", "uk", "uk"),
])  # fmt: skip
def test_a_text_s_language_shows_in_its_letters_and_words(
    text: str, default: Language, expected: Language
) -> None:
    assert detect_language(text, default) == expected


@pytest.mark.parametrize(("text", "language"), [
    # A sentence that shows its language.
    ("Де лежить мій паспорт?", "uk"), ("Запам'ятай: ключі в сусідки", "uk"),
    ("п'ю каву зранку", "uk"), ("Мене звати Олена", "uk"), ("Меня зовут Пётр", "ru"),
    ("Where is my passport?", "en"), ("show my reminders", "en"), ("I moved to Bristol", "en"),
    ("Вечером купил iPhone и чехол", "ru"), ("Работаю в Google с марта и доволен", "ru"),
    # Short, mixed, in other letters, or the same in both languages: as before.
    *((text, None) for text in (
        "ok", "thanks", "Дякую!", "мама купила молоко", "", "napomni mne zavtra v 9", "12:30 😀",
        "my s zhenoj zhivem na dache", "Ich wohne jetzt bei Oma", "борщ уже зняла", "ok ok ok",
        "deadline для Project Atlas is Friday", "завтра о девятой", "My wife’s name is Оля",
        "https://example.org/это/и/то/что есть тут",
    )),
])  # fmt: skip
def test_a_sentence_shows_the_language_of_its_writer_and_a_short_word_does_not(
    text: str, language: Language | None
) -> None:
    assert clear_language(text) == language


def test_latin_letters_may_be_those_of_a_language_that_is_not_read_yet() -> None:
    assert detect_language("Dzień dobry", cast("Language", "pl")) == "pl"
    assert detect_language("Добрый день", cast("Language", "pl")) == "ru"
