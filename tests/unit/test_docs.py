"""The documentation says what is so: its links, its commands, its tables, its settings."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from itertools import product
from pathlib import Path

import pytest
import yaml

from benchmarks.prompts import SAVED, CacheFigures, cache_table
from bot import COMMANDS, parse_arguments
from src.base.config import Settings, load_settings
from src.base.metrics import Metrics
from src.base.providers import PROVIDERS, find_provider
from src.talk.commands import COMMANDS as CHAT_COMMANDS
from tests.pages import ATTACKS, PAGES, README, ROOT, Page, page, rows
from tests.unit.settings_environment import load

# Variables that are named and are no settings of the bot.
OF_OTHERS = {
    "POSTGRES_PASSWORD",
    "POSTGRES_DB",
    "OLLAMA_HOST",
    "OLLAMA_CONTEXT_LENGTH",
    "OLLAMA_KEEP_ALIVE",
    "WEATHER_KEY",
}
VARIABLE = re.compile(r"[A-Z]+(?:_[A-Z]+)+")
CODE_PATH = re.compile(r"(?:src|tests|benchmarks|migrations|monitoring|docs)/[\w./-]*\w")
COMMANDS_OF_PAGES = {command for each in PAGES for command in each.commands()}
ROOMS = page("architecture.md").section("The rooms")


def sources() -> str:
    """The program and its alerts, as one text in which no string is broken into pieces."""
    files = [*(ROOT / "src").rglob("*.py"), ROOT / "monitoring/alerts.yml"]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    return re.sub(r'"\s*\n\s*f?"', "", text)


def test_the_readme_is_one_page() -> None:
    assert len(README.text.splitlines()) <= 150


@pytest.mark.parametrize("each", PAGES, ids=lambda each: each.name)
def test_links_lead_somewhere(each: Page) -> None:
    for target in each.links:
        name, _, anchor = target.partition("#")
        path = (each.path.parent / name).resolve() if name else each.path
        assert path.is_relative_to(ROOT) and path.exists(), f"{each.name}: {target}"
        if anchor:
            assert anchor in Page(path).anchors, f"{each.name}: {target}"


def test_every_page_and_picture_is_reached() -> None:
    linked = {
        (each.path.parent / t.partition("#")[0]).resolve() for each in PAGES for t in each.links
    }
    for path in [
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("docs/admin_*.png"),
        *ROOT.glob("docs/*/en.md"),
    ]:
        assert path in linked, f"no page leads to {path.relative_to(ROOT)}"


@pytest.mark.parametrize("each", PAGES, ids=lambda each: each.name)
def test_blocks_say_what_they_are(each: Page) -> None:
    kinds = {"sh", "console", "dotenv", "sql", "json", "text"}
    assert {block.kind for block in each.blocks} <= kinds
    assert "```" not in each.prose


def test_what_make_is_asked_for_is_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for command in COMMANDS_OF_PAGES:
        if command.startswith("make "):
            assert re.search(rf"^{command[5:]}:", makefile, re.MULTILINE), command
    assert "\nrun: $(VENV)/.installed\n\t@$(BIN)/python bot.py run\n" in makefile


def forms(command: str) -> list[list[str]]:
    """What a command of bot.py stands for: with and without each thing in brackets."""
    arguments = command.partition("bot.py ")[2].replace("ID|all", "all").replace(" N", " 1")
    parts = re.split(r"\[([^\]]*)\]", arguments)
    choices = [[part] if number % 2 == 0 else [part, ""] for number, part in enumerate(parts)]
    return [shlex.split(" ".join(form)) for form in product(*choices)]


@pytest.mark.parametrize("command", sorted(c for c in COMMANDS_OF_PAGES if "bot.py " in c))
def test_the_commands_of_the_bot_are_understood(command: str) -> None:
    for arguments in forms(command):
        assert parse_arguments(arguments).command in (None, *COMMANDS)


OWN_PROGRAMS = [c for c in COMMANDS_OF_PAGES if "python -m " in c]
OWN_PROGRAMS += [c for c in ATTACKS.commands() if c.startswith("python -m tests.")]


@pytest.mark.parametrize("command", sorted(set(OWN_PROGRAMS)))
def test_the_programs_of_the_project_are_there_with_their_options(command: str) -> None:
    name, *arguments = command.partition("python -m ")[2].split()
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.origin is not None
    file = Path(spec.origin)
    text = (file.with_name("__main__.py") if file.name == "__init__.py" else file).read_text()
    for option in (argument for argument in arguments if argument.startswith("--")):
        assert f'"{option}"' in text, f"{name} has no {option}"


def test_the_tables_of_commands_are_whole() -> None:
    table = rows(page("operating.md").section("Commands"))
    named = [re.match(r"`python bot\.py \[?(\w+)", first) for first, *_ in table]
    assert {match[1] for match in named if match} == set(COMMANDS) and len(table) == len(COMMANDS)
    first_cells = " ".join(first for first, *_ in rows(page("using.md").section("Commands")))
    assert set(re.findall(r"`/(\w+)", first_cells)) == set(CHAT_COMMANDS)


SAMPLES = [
    (each.name, block.text) for each in PAGES for block in each.blocks if block.kind == "dotenv"
]


@pytest.mark.parametrize(("name", "lines"), SAMPLES)
def test_lines_for_env_are_valid_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, lines: str
) -> None:
    load(monkeypatch)  # the environment of the test is empty now
    file = tmp_path / ".env"
    file.write_text(lines)
    settings = load_settings(str(file))
    names = [line.partition("=")[0].lower() for line in lines.splitlines()]
    assert settings.model_fields_set == set(names)
    if settings.llm_model is None:
        return
    assert settings.chat_model_name == settings.llm_model
    provider = find_provider(settings.llm_model)
    assert provider is not None and provider.is_configured(settings)


def test_there_are_lines_for_each_provider_and_for_three_servers_of_one_s_own() -> None:
    blocks = [block.text for block in README.blocks if block.kind == "dotenv"]
    for provider in PROVIDERS.values():
        default = f"LLM_MODEL={provider.name}:{provider.default_model}\n"
        [block] = [block for block in blocks if block.startswith(default)]
        assert f"\n{provider.key_variable}=" in block
    own = [block for block in blocks if "OPENAI_BASE_URL=http://localhost:" in block]
    assert len(own) == 3 and len(blocks) == 3 + len(PROVIDERS)
    asked = {"LLM_MODEL", "OPENAI_BASE_URL", "LLM_CONTEXT_SIZE"}  # no key
    for block in own:
        names = {line.partition("=")[0] for line in block.splitlines()}
        assert names == asked
    port = f":{Settings.model_fields['http_port'].default}/"
    assert not any(port in block for block in own), "that port is the bot's own"


@pytest.mark.parametrize("each", PAGES, ids=lambda each: each.name)
def test_variables_that_are_named_exist(each: Page) -> None:
    settings = {field.upper() for field in Settings.model_fields}
    named = {variable for span in each.spans for variable in VARIABLE.findall(span)}
    constants = set(
        VARIABLE.findall(sources())
    )  # some are spoken of, where things are to be added
    assert named - settings - OF_OTHERS - constants == set()


@pytest.mark.parametrize("each", PAGES, ids=lambda each: each.name)
def test_files_that_are_named_exist(each: Page) -> None:
    for span in each.spans:
        for path in CODE_PATH.findall(span):
            assert (ROOT / path).exists() or "<" in span, f"{each.name}: {path}"


def test_metrics_that_are_named_exist() -> None:
    names = set(Metrics().registry._names_to_collectors)
    for each in PAGES:
        for metric in re.findall(r"`(pomni_\w+)`", each.prose):
            assert metric in names, f"{each.name}: {metric}"


def test_every_room_has_its_place_in_the_drawing() -> None:
    rooms = {
        f"src/{folder.name}"
        for folder in (ROOT / "src").iterdir()
        if (folder / "__init__.py").exists()
    }
    assert set(re.findall(r"`(src/\w+)`", ROOMS)) == rooms


def test_every_dependency_says_why() -> None:
    files = [file for file in ROOT.glob("requirements*.txt") if "dev" not in file.name]
    required = "".join(file.read_text() for file in files)
    told = page("dependencies.md").text
    names = re.findall(r"^([A-Za-z][\w-]*)", required, re.MULTILINE)
    assert [name for name in names if name not in told] == []


def test_what_can_break_is_told_in_the_words_of_the_program() -> None:
    program = sources()
    table = rows(page("operating.md").section("What can break and what to do"))
    seen = [span for first, *_ in table for span in re.findall(r"`([^`]+)`", first)]
    of_http = re.compile(r"HTTP (?:\d+|5…)|VARIABLE: …|/readyz|MEND|mcp server")
    for words in seen:
        assert words in program or of_http.fullmatch(words), words
    alerts = yaml.safe_load((ROOT / "monitoring/alerts.yml").read_text())
    names = {rule["alert"] for group in alerts["groups"] for rule in group["rules"]}
    assert {words for words in seen if words.startswith("Pomni")} == names


FIGURES_OF_BENCH = {
    "added latency at 20": "added_p50_ms added_p99_ms",
    "… of it update": "added_to_model_p50_ms added_to_model_p99_ms",
    "… of it model": "added_from_model_p50_ms added_from_model_p99_ms",
    "the same with messages at random": "random_added_p50_ms random_added_p99_ms",
    "sustained turns/s": "turns_per_s",
    "cold start": "cold_start_s",
    "resident memory, idle": "memory_idle_mb",
    "everything of a flood": "embedded_after_flood_s",
    "`load_last_messages`": "load_last_of_100_p99_ms load_last_of_100000_p99_ms",
    "key facts / summaries": "key_facts_p50_ms summaries_p50_ms",
    "search of 10,000": "search_of_10000_p50_ms search_of_10000_p99_ms",
    "context beside":
        "context_tokens_after_10 context_tokens_after_1000 context_tokens_after_100000",
    "statements / transactions": "statements_per_turn transactions_per_turn",
}  # fmt: skip


@pytest.mark.parametrize("row", FIGURES_OF_BENCH)
def test_the_figures_of_the_bench_are_those_of_its_last_run(row: str) -> None:
    results = json.loads((ROOT / "benchmarks/results/latest.json").read_text())
    [cells] = [
        cells for cells in rows(page("measured.md").section("The bench"))
        if cells[0].startswith(row)
    ]  # fmt: skip
    for column, part in ((1, "pomni"), (2, "bare"), (3, "ratio")):
        measured = results[part] if part != "pomni" else {**results["database"], **results[part]}
        names = [name for name in FIGURES_OF_BENCH[row].split() if name in measured]
        if cells[column] and names:
            told = [text.strip() for text in cells[column].split("/")]
            places = [len(text.partition(".")[2]) for text in told]
            assert told == [f"{measured[n]:.{p}f}" for n, p in zip(names, places, strict=True)]


def test_the_shares_of_caches_are_those_that_were_measured() -> None:
    measured = [CacheFigures(**figures) for figures in json.loads(SAVED.read_text())]
    assert cache_table(measured) in (ROOT / "docs" / "memory.md").read_text()
