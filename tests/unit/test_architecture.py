"""The shape of the code: which way imports point, what every file says about itself."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

# Lowest first. A package imports from its own floor and from those before it in this table, and
# no two packages from each other.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("src.database_url", "src.env_file", "src.errors", "src.http_url", "src.logs", "src.mcp_file",
     "src.metrics", "src.providers", "src.shutdown", "src.terminal_lines", "src.texts",
     "src.time_zones", "src.variable_names"),
    # The settings read TIMEZONE as /settings reads what people call a zone; languages need none.
    ("src.language", "src.dates"), ("src.config", "src.facts"),
    ("src.gate", "src.llm", "src.media"), ("src.mcp_servers", "src.storage"),
    ("src.memory", "src.reminders"), ("src.graph",), ("src.services",),
    ("src.application", "src.jobs", "src.admin", "src.http_connections", "src.http_server",
     "src.webapp"),
    ("src.telegram", "src.console", "src.doctor", "src.evaluation", "bot"),
)  # fmt: skip

FILES = [ROOT / "bot.py", *sorted((ROOT / "src").rglob("*.py"))]
NODES = [path for path in FILES if path.parent.name == "nodes" and path.name != "__init__.py"]


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


TREES = {module_of(path): ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
MODULES = [name for name in TREES if name != "src"]


def imports(tree: ast.AST) -> Iterator[str]:
    """Every imported name in full, also those that functions import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def package_of(name: str) -> str:
    """The table's entry to which a module, or a name in it, belongs."""
    for package in (package for floor in FLOORS for package in floor):
        if name == package or name.startswith(f"{package}."):
            return package
    raise AssertionError(f"{name} has no place in FLOORS")


def floor_of(name: str) -> int:
    package = package_of(name)
    return next(number for number, floor in enumerate(FLOORS) if package in floor)


def own_imports(module: str) -> set[str]:
    """What a module imports of ours, by full names."""
    return {name for name in imports(TREES[module]) if name.startswith("src.")}


def defined_in(name: str) -> str:
    """The module of a full name: ``src.errors.AppError`` is in ``src.errors``."""
    return name if name in TREES else name.rpartition(".")[0]


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
    assert len(FLOORS) <= 10


def test_neither_modules_nor_packages_import_each_other_in_a_circle() -> None:
    modules = {module: {defined_in(name) for name in own_imports(module)} for module in MODULES}
    packages: dict[str, set[str]] = {}
    for module, imported in modules.items():
        package = package_of(module)
        packages.setdefault(package, set()).update({package_of(n) for n in imported} - {package})
    for graph in (modules, packages):
        order = list(TopologicalSorter(graph).static_order())  # raises CycleError
        assert set(order) >= set(graph)


def test_every_entry_of_the_table_exists() -> None:
    for package in (package for floor in FLOORS for package in floor):
        assert package in TREES, package


def test_psycopg2_stays_inside_storage() -> None:
    users = {
        module
        for module, tree in TREES.items()
        if any(name.split(".")[0] == "psycopg2" for name in imports(tree))
    }
    assert users and all(package_of(module) == "src.storage" for module in users), users


def test_only_the_settings_read_the_environment() -> None:
    readers = set()
    for module, tree in TREES.items():
        reads = (n for n in ast.walk(tree) if isinstance(n, ast.Attribute | ast.Name))
        names = {n.attr if isinstance(n, ast.Attribute) else n.id for n in reads}
        if names & {"environ", "environb", "getenv", "BaseSettings", "load_dotenv"}:
            readers.add(module)
    assert readers == {"src.config"}


def test_a_node_is_one_function_that_says_what_it_reads_and_changes() -> None:
    for path in NODES:
        [function] = filter(is_public_function, TREES[module_of(path)].body)
        assert isinstance(function, FUNCTIONS) and function.name == path.stem
        docstring = ast.get_docstring(function) or ""
        labels = re.findall(r"^(Reads|Updates|Side effects): \S", docstring, re.MULTILINE)
        assert labels == ["Reads", "Updates", "Side effects"], path
        assert function.returns is not None
        assert ast.unparse(function.returns) == "ConversationState", path


def test_every_node_is_in_the_graph() -> None:
    wired = set(imports(TREES["src.graph.main_graph"]))
    assert NODES and {f"{module_of(path)}.{path.stem}" for path in NODES} <= wired


def test_every_tool_is_in_the_list_of_tools() -> None:
    tools = "src.graph.tools"
    files = {name for name in MODULES if name.startswith(f"{tools}.")}
    listed = {defined_in(name) for name in own_imports(tools)}
    assert files and files <= listed


def undocumented(tree: ast.Module | ast.ClassDef, prefix: str) -> Iterator[str]:
    """Public modules, classes and functions without a docstring; not what functions hold."""
    if ast.get_docstring(tree) is None:
        yield prefix
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from undocumented(node, f"{prefix}.{node.name}")
        elif is_public_function(node) and ast.get_docstring(node) is None:
            yield f"{prefix}.{node.name}"


def test_everything_public_has_a_docstring() -> None:
    assert [name for module, tree in TREES.items() for name in undocumented(tree, module)] == []


IMPORT_ALL = """
import importlib, sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.bind", "subprocess.Popen", "sqlite3.connect"):
        raise RuntimeError(f"{event} while importing: {arguments}")
    if event == "open" and str(arguments[0]).endswith(".env"):
        raise RuntimeError(f"{arguments[0]} was read while importing")

sys.addaudithook(refuse)
for name in sys.argv[1:]:
    importlib.import_module(name)
print(len(sys.argv) - 1)
"""


def test_importing_connects_to_nothing_and_reads_no_settings(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("HTTP_PORT=not a port\n")
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, *TREES],
        env={"PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{len(TREES)}\n"
    assert [path.name for path in tmp_path.iterdir()] == [".env"]
