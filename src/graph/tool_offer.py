"""What the model is offered in a turn: our own tools, then those that servers lend us now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from langchain_core.tools import BaseTool

from src.llm.chat import ModelCaller
from src.llm.prompt_cache import ChatRunnable

LentTools = Callable[[], tuple[BaseTool, ...]]


def no_lent_tools() -> tuple[BaseTool, ...]:
    """Nobody lends any."""
    return ()


@dataclass(frozen=True)
class Bound:
    """The model with the tools ``lent`` beside our own: it may call them, or not now."""

    lent: tuple[BaseTool, ...]
    with_tools: ChatRunnable
    without_tools: ChatRunnable


class ToolOffer:
    """Binds the model to its tools: anew when those that are lent have changed.

    A turn keeps those with which it began, so that the beginning of its prompts stays the same.
    """

    def __init__(
        self, caller: ModelCaller, own: Sequence[BaseTool], lent: LentTools = no_lent_tools
    ) -> None:
        """Offer ``own`` always, and what ``lent`` returns when a turn begins."""
        self._caller = caller
        self._own = own
        self._lent = lent
        self._bare = self._bind(())
        self._newest = self._bare

    def begin(self, lent: tuple[BaseTool, ...] | None) -> Bound:
        """The model as a turn calls it, which has begun with ``lent``; None: it begins now."""
        tools = self._lent() if lent is None else lent
        if not tools:
            return self._bare
        if self._newest.lent is not tools:
            self._newest = self._bind(tools)
        return self._newest

    def withdraw(self) -> Bound:
        """The model with our own tools alone, for the rest of a turn."""
        return self._bare

    def _bind(self, lent: tuple[BaseTool, ...]) -> Bound:
        tools = [*self._own, *lent]
        return Bound(
            lent,
            self._caller.with_tools(tools),
            self._caller.with_tools(tools, may_call=False),
        )
