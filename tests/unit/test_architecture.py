"""The shape of the code: which way imports point, what every file says about itself."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

# The features, each with its own SQL, tools, screens and jobs; the others may ask the memory.
FEATURES = (
    "src.memory",
    "src.reminders",
    "src.privacy",
    "src.outside",
    "src.media",
    "src.imports",
)
# How people come in; no door knows of another.
DOORS = ("src.telegram", "src.web", "src.console", "src.operate")
# Lowest first. A room imports from its own floor and from those before it in this table, and no
# two rooms from each other.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("src.reading.lexicon", "src.texts", "src.base", "src.pg", "src.queue", "src.llm"),
    ("src.reading",),
    ("src.history",),
    FEATURES,
    ("src.offline", "src.talk"),
    ("src.core",),
    DOORS,
    ("src.app", "bot"),
)  # fmt: skip

FILES = [ROOT / "bot.py", *sorted((ROOT / "src").rglob("*.py"))]
NODE_FILES = ("src.talk.prompt", "src.talk.assistant", "src.talk.strict")
GRAPH = "src.talk.main_graph"
LIST_OF_TOOLS = "src.talk.tools"


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {module_of(path): path for path in FILES}
MODULES = [name for name in PATHS if name != "src"]


@functools.cache  # and not for every worker that only collects
def tree_of(module: str) -> ast.Module:
    return ast.parse(PATHS[module].read_text(encoding="utf-8"))


def imports(tree: ast.AST) -> Iterator[str]:
    """Every imported name in full, also those that functions import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(name: str) -> str:
    """The table's entry to which a module, or a name in it, belongs."""
    for room in (room for floor in FLOORS for room in floor):
        if name == room or name.startswith(f"{room}."):
            return room
    raise AssertionError(f"{name} has no place in FLOORS")


def floor_of(name: str) -> int:
    room = room_of(name)
    return next(number for number, floor in enumerate(FLOORS) if room in floor)


def own_imports(module: str) -> set[str]:
    """What a module imports of ours, by full names."""
    return {name for name in imports(tree_of(module)) if name.startswith("src.")}


def defined_in(name: str) -> str:
    """The module of a full name: ``src.base.errors.AppError`` is in ``src.base.errors``."""
    return name if name in PATHS else name.rpartition(".")[0]


def crossings(rooms: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Imports from one of these rooms in another of them: the module, and the name in full."""
    for module in MODULES:
        if room_of(module) in rooms:
            for name in own_imports(module):
                if room_of(name) in rooms and room_of(name) != room_of(module):
                    yield module, name


def is_public_function(node: ast.AST) -> bool:
    return isinstance(node, FUNCTIONS) and not node.name.startswith("_")


def test_imports_point_one_way() -> None:
    wrong = [
        f"{module} imports {name}"
        for module in MODULES
        for name in own_imports(module)
        if floor_of(name) > floor_of(module)
    ]
    assert wrong == []
    assert len(FLOORS) <= 8


def test_neither_modules_nor_rooms_import_each_other_in_a_circle() -> None:
    modules = {module: {defined_in(name) for name in own_imports(module)} for module in MODULES}
    rooms: dict[str, set[str]] = {}
    for module, imported in modules.items():
        room = room_of(module)
        rooms.setdefault(room, set()).update({room_of(n) for n in imported} - {room})
    for graph in (modules, rooms):
        order = list(TopologicalSorter(graph).static_order())  # raises CycleError
        assert set(order) >= set(graph)


def test_no_door_knows_of_another() -> None:
    assert [f"{module} imports {name}" for module, name in crossings(DOORS)] == []


def test_features_know_of_the_memory_alone() -> None:
    wrong = [f"{m} imports {n}" for m, n in crossings(FEATURES) if room_of(n) != "src.memory"]
    assert wrong == []


def test_every_entry_of_the_table_exists() -> None:
    for room in (room for floor in FLOORS for room in floor):
        assert room in PATHS, room


def test_sql_names_the_table_of_facts_in_the_memory_alone() -> None:
    """Others read the view ``facts``."""
    named = re.compile(r"\b(FROM|JOIN|INTO|UPDATE|USING|TABLE|ONLY)\s+memories\b")
    users = {module_of(path) for path in FILES if named.search(path.read_text(encoding="utf-8"))}
    wrong = {module for module in users if room_of(module) != "src.memory"}
    assert users and wrong == set()


def nodes_of_graph() -> set[str]:
    """The nodes that the graphs add, each under the name of its function."""
    tables = (
        node.value
        for node in tree_of(GRAPH).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).endswith("NODES")
    )
    nodes = (node for table in tables for node in ast.walk(table))
    return {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def functions_of(module: str) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    return {n.name: n for n in tree_of(module).body if isinstance(n, FUNCTIONS)}


def test_a_node_is_one_function_that_says_what_it_reads_and_changes() -> None:
    functions = {n: f for module in NODE_FILES for n, f in functions_of(module).items()}
    nodes = nodes_of_graph()
    assert nodes
    for name in nodes:
        function = functions[name]
        docstring = ast.get_docstring(function) or ""
        labels = re.findall(r"^(Reads|Updates|Side effects): \S", docstring, re.MULTILINE)
        assert labels == ["Reads", "Updates", "Side effects"], name
        assert function.returns is not None
        assert ast.unparse(function.returns) == "ConversationState", name


def test_every_node_is_in_the_graph() -> None:
    written = {
        name
        for module in NODE_FILES
        for name, function in functions_of(module).items()
        if is_public_function(function)
        and function.returns is not None
        and ast.unparse(function.returns) == "ConversationState"
    }
    assert written == nodes_of_graph()


def test_every_tool_is_in_the_list_of_tools() -> None:
    built = {
        name
        for module in MODULES
        if module.endswith(".tools") and room_of(module) != "src.outside"
        for name, function in functions_of(module).items()
        if is_public_function(function)
        and isinstance(function, ast.AsyncFunctionDef)
        and "runtime" in {argument.arg for argument in function.args.args}
    }
    listed = ast.unparse(functions_of(LIST_OF_TOOLS)["build_tools"])
    assert built and {name for name in built if f"{name}," not in listed} == set()


# Classes whose docstrings models read.
FORMS = {"LookOrder", "Understanding", "Forgetting", "Fact", "ReminderOrder", "CancelOrder"}
CLAUSE = re.compile(r"(What|Whether|Who|Whom|Whose|Which|When|Where|Why|How)\b")


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    """A clause ("What becomes of …") makes a reader think before it says anything."""
    documented = (ast.ClassDef, ast.Module, *FUNCTIONS)
    wrong = [
        f"{module}.{getattr(node, 'name', '')}"
        for module in PATHS
        for node in ast.walk(tree_of(module))
        if isinstance(node, documented)
        and getattr(node, "name", "") not in FORMS
        and CLAUSE.match(ast.get_docstring(node) or "")
    ]
    assert wrong == []


IMPORT_ALL = """
import importlib, sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.bind", "subprocess.Popen", "sqlite3.connect"):
        raise RuntimeError(f"{event} while importing: {arguments}")
    if event == "open" and str(arguments[0]).endswith(".env"):
        raise RuntimeError(f"{arguments[0]} was read while importing")

sys.addaudithook(refuse)
for names in sys.argv[1:]:  # those of the running bot alone come last
    for name in names.split():
        importlib.import_module(name)
    print(*{name.partition(".")[0] for name in sys.modules})
"""
PROVIDERS = {
    "anthropic", "google", "langchain_anthropic", "langchain_google_genai", "langchain_openai",
}  # fmt: skip


def test_importing_connects_to_nothing_reads_no_settings_and_loads_no_provider(
    tmp_path: Path,
) -> None:
    """The console, doctor and the other commands import no aiogram either."""
    (tmp_path / ".env").write_text("HTTP_PORT=not a port\n")
    of_bot = [name for name in PATHS if name.startswith(("src.telegram", "src.app"))]
    others = [name for name in PATHS if name not in of_bot]
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, " ".join(others), " ".join(of_bot)],
        env={"PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    without_bot, whole = (set(line.split()) for line in done.stdout.splitlines())
    assert "psycopg2" in without_bot and "aiogram" not in without_bot
    assert "aiogram" in whole and not PROVIDERS & whole
    assert [path.name for path in tmp_path.iterdir()] == [".env"]
