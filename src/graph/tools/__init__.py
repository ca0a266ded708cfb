"""The tools that the model may call, one per file.

They take ``ToolRuntime[Any, Any]``, whose context is a ``TurnContext``: pydantic would otherwise
describe that class once per tool, which takes as long as all the rest of building one.
"""
