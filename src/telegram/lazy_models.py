"""Deferred building of aiogram's models: at first use instead of at import.

aiogram declares its 600 models with ``defer_build=True`` and then rebuilds every one of them at
import, because their forward references are names of a namespace that exists only then. A bot
uses a dozen of them. Here the namespace is kept, and the building is left to pydantic's own
deferral: a model builds itself at its first use, through ``model_rebuild``. The import then takes
a fourth of the time and of the memory.
"""

import sys
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

_rebuild: Callable[..., bool | None] = BaseModel.model_rebuild.__func__  # type: ignore[attr-defined]
_built: list[type[BaseModel]] = []


def import_aiogram() -> None:
    """Import aiogram with deferred models; do nothing if it is imported already."""
    if "aiogram" in sys.modules:
        return
    namespace: dict[str, Any] = {}

    def defer(cls: type[BaseModel], /, **options: Any) -> bool | None:
        """Build none of aiogram's models during the import; collect their namespace."""
        if not cls.__module__.startswith("aiogram."):
            return _rebuild(cls, **options)
        namespace.update(options.get("_types_namespace") or {})
        return None

    def model_rebuild(cls: type[BaseModel], /, **options: Any) -> bool | None:
        """``BaseModel.model_rebuild`` with the namespace from aiogram's import."""
        options["_types_namespace"] = options.get("_types_namespace") or namespace
        return _rebuild(cls, **options)

    original = BaseModel.__dict__["model_rebuild"]
    BaseModel.model_rebuild = classmethod(defer)  # type: ignore[method-assign,assignment]
    BaseModel.model_config["defer_build"] = True  # aiogram's methods do not set it themselves
    try:
        import aiogram.methods
        import aiogram.types  # noqa: F401
    finally:
        BaseModel.model_rebuild = original  # type: ignore[method-assign]
        del BaseModel.model_config["defer_build"]
    from aiogram.client.context_controller import BotContextController
    from aiogram.methods import Response

    for base in (BotContextController, Response):  # bases of all types, methods and responses
        base.model_rebuild = classmethod(model_rebuild)  # type: ignore[method-assign,assignment]


def build_models(*results: Any) -> None:
    """Build the models that every turn uses, and keep references to them.

    pydantic caches ``Response[Message]`` and the like by weak references only, so they would be
    garbage-collected, and the next response would build them again.

    Args:
        results: Result types of the requests in use, such as ``Message`` or ``bool``.
    """
    from aiogram.methods import Response
    from aiogram.types import Message, Update

    responses = (Response.__class_getitem__(result) for result in results)
    models: list[Any] = [Message, Update, *responses]  # the others reuse the built message
    for model in models:
        model.model_rebuild()
        _built.append(model)
