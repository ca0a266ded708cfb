"""aiogram's models, built when they are first used instead of all at import.

aiogram declares its 600 models with ``defer_build=True`` and then rebuilds every one of them at
import, because their forward references are names of one namespace that only that moment knows.
A bot uses a dozen of them. Here the namespace is kept, and the building left to pydantic's own
deferral: a model builds itself at its first use, through ``model_rebuild``. The import takes a
fourth of the time and of the memory then.
"""

import sys
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

_rebuild: Callable[..., bool | None] = BaseModel.model_rebuild.__func__  # type: ignore[attr-defined]
_kept: list[type[BaseModel]] = []


def import_aiogram() -> None:
    """Import aiogram with its models deferred; does nothing when it is imported already."""
    if "aiogram" in sys.modules:
        return
    names: dict[str, Any] = {}

    def defer(cls: type[BaseModel], /, **options: Any) -> bool | None:
        """Build nothing of aiogram's meanwhile; keep the names with which it was to be built."""
        if not cls.__module__.startswith("aiogram."):
            return _rebuild(cls, **options)
        names.update(options.get("_types_namespace") or {})
        return None

    def model_rebuild(cls: type[BaseModel], /, **options: Any) -> bool | None:
        """``BaseModel.model_rebuild``, with the names that aiogram's import knew."""
        options["_types_namespace"] = options.get("_types_namespace") or names
        return _rebuild(cls, **options)

    pydantic_s = BaseModel.__dict__["model_rebuild"]
    BaseModel.model_rebuild = classmethod(defer)  # type: ignore[method-assign,assignment]
    BaseModel.model_config["defer_build"] = True  # its methods do not ask for it themselves
    try:
        import aiogram.methods
        import aiogram.types  # noqa: F401
    finally:
        BaseModel.model_rebuild = pydantic_s  # type: ignore[method-assign]
        del BaseModel.model_config["defer_build"]
    from aiogram.client.context_controller import BotContextController
    from aiogram.methods import Response

    for base in (BotContextController, Response):  # of all types and methods, and of the answers
        base.model_rebuild = classmethod(model_rebuild)  # type: ignore[method-assign,assignment]


def build_models(*results: Any) -> None:
    """Build the models that every turn uses now, and keep them.

    pydantic holds ``Response[Message]`` and the like by weak references only, so the garbage
    collector would take them, and the next answer would build them again.

    Args:
        results: What the requests in use return, such as ``Message`` or ``bool``.
    """
    from aiogram.methods import Response
    from aiogram.types import Message, Update

    answers = (Response.__class_getitem__(result) for result in results)
    models: list[Any] = [Message, Update, *answers]  # a message built once is taken by the others
    for model in models:
        model.model_rebuild()
        _kept.append(model)
