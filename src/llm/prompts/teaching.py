"""Strict mode, first step: what the user wants, and the facts if he teaches some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from langchain_core.messages import BaseMessage
from pydantic import Field

from src.facts.fact import Fact
from src.llm.prompts.extraction import RULES
from src.llm.prompts.form import Form
from src.llm.prompts.quoting import prompt

UNDERSTANDING_PROMPT = f"""\
You are the first step of a system that knows only what its user teaches it. Decide what the \
newest messages do, and call Understanding:
- intent "teach": it tells something (a fact, a preference, an event, also about the world). Then \
list its facts.
- intent "solve": it asks something or wants something done. Then facts is empty, and query is \
what to search the memory for: a few words in the user's language, with what the conversation \
makes clear ("he" replaced by who it is).
- intent "forget": it asks to forget what the user told. Then facts is empty, and query says what \
in the same way; empty when it does not say what, or asks to forget everything.
- intent "remind": it asks to be reminded of something at a time. Then facts and query are empty.

{RULES}"""


Intent = Literal["teach", "solve", "forget", "remind"]


class Understanding(Form):
    """What the newest message does."""

    intent: Intent
    facts: list[Fact] = Field(default_factory=list)
    query: str = ""


def understanding_messages(
    new: Sequence[Mapping[str, Any]], recent: Sequence[Mapping[str, Any]]
) -> list[BaseMessage]:
    """The prompt for what was said since the last answer.

    Args:
        new: ``{"uid", "role", "text"}`` of each message, and whose words it holds.
        recent: ``{"role", "text"}`` of a few messages before them, as context.
    """
    return prompt(UNDERSTANDING_PROMPT, conversation=recent, messages=new)
