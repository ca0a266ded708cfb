"""What the model is told of tools: in few words, and of none that it cannot use now."""

from __future__ import annotations

from typing import Any

import pytest

from src.llm.tokens import TokenCounter
from src.talk.tools import OF_THE_MEMORY
from tests.integration.person import Person

TOOL_TOKENS = 1200  # of a plain turn: reminders are neither listed nor cancelled there
OF_REMINDERS = ("list_reminders", "cancel_reminder")


def offered(person: Person) -> dict[str, Any]:
    return {tool["function"]["name"]: tool for tool in person.requests[-1].tools}


async def test_the_tools_of_a_plain_turn_take_few_tokens(person: Person) -> None:
    await person.say("Привет", "Здравствуйте!")
    plain = [tool for name, tool in offered(person).items() if name not in OF_REMINDERS]
    assert TokenCounter("openai:gpt-5-mini").count_tools(plain) <= TOOL_TOKENS


@pytest.mark.parametrize("memory_on", [True, False])
async def test_tools_of_the_memory_are_offered_while_it_is_on(
    person: Person, memory_on: bool
) -> None:
    await person.say("Привет", "Здравствуйте!", memory_on=memory_on)
    assert (offered(person).keys() >= OF_THE_MEMORY) is memory_on
    assert {"forget_everything", "set_reminder"} <= offered(person).keys()
    assert bool(offered(person).keys() & OF_THE_MEMORY) is memory_on
