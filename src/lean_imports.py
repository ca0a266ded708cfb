"""Packages of others, imported without the parts that are never used here.

They import all that they have: the 500 types of OpenAI's API, the stemmers of 36 languages. That
is half a second of processor and 14 MB.
"""

import ast
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any


def import_on_demand(name: str) -> None:
    """Let a package, and those in it, import what they export when it is first asked for.

    Only what their ``__init__.py`` imports from beside itself is there; the rest of it never runs.
    Does nothing where the package is imported already, or not installed.

    Args:
        name: Its full name.
    """
    parent, _, own_name = name.rpartition(".")
    found = find_spec(parent) if parent else None
    spec = PathFinder.find_spec(name, found.submodule_search_locations if found else None)
    if name in sys.modules or spec is None or spec.origin is None:
        return
    package = sys.modules[name] = module_from_spec(spec)
    package.__getattr__ = _Exports(package)  # type: ignore[method-assign]
    if parent in sys.modules:
        setattr(sys.modules[parent], own_name, package)
    for inner in Path(spec.origin).parent.glob("*/__init__.py"):
        import_on_demand(f"{name}.{inner.parent.name}")


class _Exports:
    """The names that a package exports, as its ``__getattr__``."""

    def __init__(self, package: ModuleType) -> None:
        """Read nothing yet."""
        self._package = package
        self._homes: dict[str, tuple[str, str]] | None = None

    def __call__(self, name: str) -> Any:
        """Import what is exported under a name."""
        if self._homes is None:
            self._homes = dict(_exports(Path(self._package.__file__ or "")))
        if name not in self._homes:
            raise AttributeError(f"{self._package.__name__} has no {name}")
        home, its_name = self._homes[name]
        found = getattr(import_module(f".{home}", self._package.__name__), its_name)
        setattr(self._package, name, found)
        return found


def _exports(file: Path) -> Iterator[tuple[str, tuple[str, str]]]:
    """Each name that an ``__init__.py`` imports from beside itself, its module, its name there."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
            for alias in node.names:
                yield alias.asname or alias.name, (node.module, alias.name)
