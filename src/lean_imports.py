"""Lean imports of third-party packages: without the parts that the bot never uses.

They import everything eagerly: the 500 types of OpenAI's API, the stemmers of 36 languages. That
costs half a second of processor time and 14 MB.
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
    """Let a package and its subpackages import their exports lazily, at the first access.

    Only names that their ``__init__.py`` imports from its own submodules are available; its other
    code never runs. Does nothing if the package is imported already, or not installed.

    Args:
        name: Full name of the package.
    """
    parent, _, own_name = name.rpartition(".")
    export = find_spec(parent) if parent else None
    spec = PathFinder.find_spec(name, export.submodule_search_locations if export else None)
    if name in sys.modules or spec is None or spec.origin is None:
        return
    package = sys.modules[name] = module_from_spec(spec)
    package.__getattr__ = _Exports(package)  # type: ignore[method-assign]
    if parent in sys.modules:
        setattr(sys.modules[parent], own_name, package)
    for inner in Path(spec.origin).parent.glob("*/__init__.py"):
        import_on_demand(f"{name}.{inner.parent.name}")


class _Exports:
    """Module-level ``__getattr__`` of a package."""

    def __init__(self, package: ModuleType) -> None:
        """Read nothing yet."""
        self._package = package
        self._homes: dict[str, tuple[str, str]] | None = None

    def __call__(self, name: str) -> Any:
        """Import an export by its name."""
        if self._homes is None:
            self._homes = dict(_read_exports(Path(self._package.__file__ or "")))
        if name not in self._homes:
            raise AttributeError(f"{self._package.__name__} has no {name}")
        home, original_name = self._homes[name]
        export = getattr(import_module(f".{home}", self._package.__name__), original_name)
        setattr(self._package, name, export)
        return export


def _read_exports(file: Path) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield each name that an ``__init__.py`` imports from a submodule, with its origin."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
            for alias in node.names:
                yield alias.asname or alias.name, (node.module, alias.name)
