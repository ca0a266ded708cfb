"""Deferred building of aiogram's models: at first use instead of at import.

aiogram declares its 600 models with ``defer_build=True``, and at its import rebuilds them all, in
a namespace that it then drops. A bot uses a dozen of them. Here the namespace is kept, and
pydantic builds a model at its first use; the import takes a fourth of the time and of the memory.
If aiogram or pydantic is not as expected, the models are built as aiogram asks.
"""

import sys
from typing import Any

from pydantic import BaseModel


def import_aiogram() -> None:
    """Import aiogram with deferred models; do nothing if it is imported already."""
    if "aiogram" in sys.modules:
        return
    original = BaseModel.__dict__["model_rebuild"]
    namespace: dict[str, Any] = {}
    deferred: list[tuple[type[BaseModel], dict[str, Any]]] = []

    def defer(cls: type[BaseModel], /, **options: Any) -> Any:
        if "_types_namespace" not in options:
            return original.__func__(cls, **options)
        namespace.update(options["_types_namespace"])
        deferred.append((cls, options))
        return None

    def rebuild(cls: type[BaseModel], /, **options: Any) -> Any:
        return original.__func__(cls, **{"_types_namespace": namespace, **options})

    BaseModel.model_rebuild = classmethod(defer)  # type: ignore[method-assign,assignment]
    BaseModel.model_config["defer_build"] = True  # aiogram's methods do not set it themselves
    try:
        from aiogram import methods, types
    finally:
        BaseModel.model_rebuild = original  # type: ignore[method-assign]
        del BaseModel.model_config["defer_build"]
    try:
        for base in (types.TelegramObject, methods.TelegramMethod, methods.Response):
            base.model_rebuild = classmethod(rebuild)  # type: ignore[method-assign,assignment]
        types.Message.model_rebuild()  # built once for all models that hold one
    except (AttributeError, TypeError, NameError):  # NameError: pydantic's, of a forward reference
        for model, options in deferred:
            original.__func__(model, **options)
