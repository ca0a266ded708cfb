"""Strict mode, first step: what the user wants, and the facts if he teaches some."""

from __future__ import annotations

from typing import Literal

from langchain_core.messages import BaseMessage
from pydantic import Field

from src.llm.prompts.extraction import RULES
from src.llm.prompts.form import Form
from src.llm.prompts.quoting import prompt
from src.memory.facts import Fact

UNDERSTANDING_PROMPT = f"""\
You are the first step of a system that knows only what its user teaches it. Decide what the \
newest message does, and call Understanding:
- intent "teach": it tells something (a fact, a preference, an event, also about the world). Then \
list its facts.
- intent "solve": it asks something or wants something done. Then facts is empty, and query is \
what to search the memory for: a few words in the user's language, with what the conversation \
makes clear ("he" replaced by who it is).
- intent "forget": it asks to forget what the user told. Then facts is empty, and query says what \
in the same way; empty when it does not say what, or asks to forget everything.

{RULES}"""


Intent = Literal["teach", "solve", "forget"]


class Understanding(Form):
    """What the newest message does."""

    intent: Intent
    facts: list[Fact] = Field(default_factory=list)
    query: str = ""


def understanding_messages(text: str, uid: str, recent: list[dict[str, str]]) -> list[BaseMessage]:
    """The prompt for one message.

    Args:
        text: The newest message.
        uid: Its uid.
        recent: ``{"role", "text"}`` of a few messages before it, as context.
    """
    record = {"uid": uid, "role": "user", "text": text}
    return prompt(UNDERSTANDING_PROMPT, conversation=recent, messages=[record])
