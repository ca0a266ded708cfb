"""Libraries as they ship: no import hooks, no patches, no overrides of their private methods."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator

import pytest

from tests.unit.test_architecture import MODULES, imports, tree_of

# The only patch: aiogram's models are built at their first use.
PATCHES = {"src.telegram.lazy_models"}
HOOKS = (
    "sys.meta_path", "sys.path_hooks", "sys.path", "importlib.machinery", "importlib.abc",
    "importlib.util.module_from_spec", "importlib.util.LazyLoader", "importlib.reload",
    "builtins.__import__",
)  # fmt: skip
CHANGERS = {"setdefault", "update", "pop", "clear", "insert", "append", "extend"}
# Names without a library: a closed stdout, and the proxies that only we shall read.
HARMLESS = {"bot: sys", "src.base.config: os.environ"}
# What the documentation of a library asks a subclass to define.
EXTENSION_POINTS = {
    "langchain_core.language_models.chat_models": {"_llm_type", "_generate", "_agenerate"},
}


def read_imports(tree: ast.Module) -> dict[str, str]:
    """Return the full name of everything that a module imports, by its name there."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                names[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def full_name(node: ast.AST, names: dict[str, str]) -> str:
    """Return the full name of an imported object or an attribute of one; empty for any other."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute):
        owner = full_name(node.value, names)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def changed_objects(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the objects whose attributes or entries a module sets or deletes."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(ctx=ast.Store() | ast.Del()):
                yield node.value
            case ast.Subscript(ctx=ast.Store() | ast.Del()):
                yield node.value
            case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[changed, *_]):
                yield changed
            case ast.Call(func=ast.Attribute(value=changed, attr=attr)) if attr in CHANGERS:
                yield changed


def find_patches(tree: ast.Module) -> set[str]:
    names_of = read_imports(tree)
    names = {full_name(changed, names_of) for changed in changed_objects(tree)}
    return {name for name in names if name.partition(".")[0] not in ("", "src")}


def find_hooks(tree: ast.Module) -> set[str]:
    names_of = read_imports(tree)
    names = {*imports(tree), *(full_name(node, names_of) for node in ast.walk(tree))}
    return {name for name in names if name.startswith(HOOKS)}


def test_other_packages_are_neither_patched_nor_imported_by_tricks() -> None:
    found = {
        f"{module}: {name}"
        for module in set(MODULES) - PATCHES
        for name in find_patches(tree_of(module)) | find_hooks(tree_of(module))
    }
    assert found - HARMLESS == set()
    assert find_patches(tree_of("src.telegram.lazy_models")) == {
        "pydantic.BaseModel", "pydantic.BaseModel.model_config",
    }  # fmt: skip


def list_classes(module: str) -> list[type]:
    objects = list(vars(importlib.import_module(module)).values())
    return [one for one in objects if inspect.isclass(one) and one.__module__ == module]


def find_overrides(subclass: type) -> Iterator[str]:
    """Yield the private methods of other packages' classes that a class of ours defines anew."""
    for name, method in list(vars(subclass).items()):
        is_private = name.startswith("_") and not name.startswith("__") and name[-1] != "_"
        if not is_private or not (inspect.isroutine(method) or isinstance(method, property)):
            continue
        for base in subclass.__mro__[1:]:
            is_ours = base.__module__.partition(".")[0] in ("src", "bot")
            is_asked_for = name in EXTENSION_POINTS.get(base.__module__, set())
            if name in vars(base) and not is_ours and not is_asked_for:
                yield f"{subclass.__module__}.{subclass.__qualname__}.{name}"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_no_class_overrides_a_private_method_of_a_library() -> None:
    classes = [one for module in MODULES for one in list_classes(module)]
    assert {name for one in classes for name in find_overrides(one)} == set()


def test_only_the_running_bot_imports_aiogram() -> None:
    users = [
        function.name
        for function in tree_of("bot").body
        if isinstance(function, ast.AsyncFunctionDef)
        and any(name.startswith(("src.app", "src.telegram")) for name in imports(function))
    ]
    assert users == ["_run_bot"]
