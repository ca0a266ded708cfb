"""A model that changes its mind: shapes refused in turn, thoughts, dialects, cuts, outages.

No markup, thought or JSON reaches a person, no turn ends without a sentence, nothing is lost.
"""

from __future__ import annotations

import json
import random
import re

import pytest

from src.base.errors import AppError, TransientError
from src.texts import say
from tests.attacks.model_replies import Script
from tests.fakes.openai_server import ChatRequest, Raw, Reply
from tests.integration.person import Agents, Person, new_user
from tests.integration.turns import answer_turn

THOUGHT = "Пользователь хочет правды, обдумаю"
SAVE = json.dumps({"name": "save_user_fact", "arguments": {"text": "{told}", "quote": "{told}"}},
                  ensure_ascii=False)  # fmt: skip
REPLIES = (
    "Хорошо.", f"<think>{THOUGHT}</think>Хорошо.",
    f"<thinking>\n{THOUGHT}\n</thinking>\n\nХорошо.",
    f"[THINK]{THOUGHT}[/THINK]Хорошо.", f"<think>{THOUGHT}", SAVE,
    f"Хорошо.\n```json\n{SAVE}\n```",
    f"<tool_call>{SAVE}</tool_call>", f"<think>{THOUGHT}</think>[TOOL_CALLS][{SAVE}]",
    "<function=save_user_fact><parameter=text>{told}</parameter></function>",
    '<invoke name="save_user_fact"><parameter name="text">{told}</parameter></invoke>',
    "<tools><function><name>save_user_fact</name><arguments><text>{told}</text>"
    "</arguments></function></tools>", f"<tool_call>{SAVE[:40]}",
    '{"name": "save_user_fact", "argu',
)  # fmt: skip
REFUSED = ("stream_options", "tools", "late system", "tool_choice", "response_format")
SHOWN = re.compile(rf"{THOUGHT}|[{{}}]|</?\w+[ >=]|\[/?(?:THINK|TOOL)|save_user_fact")


class Moods:
    """What the model sends next, drawn from a seed; a refusal lasts for some requests."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._refused: frozenset[str] = frozenset()

    def reply(self, chat: ChatRequest) -> Reply:
        draw = self._random
        if draw.random() < 0.05:
            self._refused = frozenset(draw.sample(REFUSED, draw.randint(0, 2)))
        for name in sorted(self._refused):
            if name in chat.raw or (name == "late system" and _has_late_system(chat)):
                return Reply(status=400, error=draw.choice((f"{name} is not supported", "no")))
        if draw.random() < 0.1:
            return Reply(status=draw.choice((429, 503, 500)), error="later")
        text = draw.choice(REPLIES).replace("{told}", chat.last_user_text.split("\n")[0])
        if draw.random() < 0.1:
            return Reply(text, finish_reason=draw.choice(("error", "length", "content_filter")))
        if draw.random() < 0.05:
            return Reply(text * 3, chunk_size=4, cut_after_chunks=3)
        pieces = [text[n : n + 3] for n in range(0, len(text), 3)]
        return Reply(raw=Raw(Script(pieces, [], {}, "stop").stream()))


def _has_late_system(chat: ChatRequest) -> bool:
    return any(message["role"] == "system" for message in chat.messages[1:])


@pytest.mark.parametrize(("turns", "llm_calls"), [
    (20, "tools"), (25, "auto"), pytest.param(250, "auto", marks=pytest.mark.proof),
])  # fmt: skip
async def test_no_markup_reaches_a_person_and_every_turn_ends_with_a_sentence(
    agents: Agents, turns: int, llm_calls: str
) -> None:
    person = Person(await agents.get(llm_calls=llm_calls, persona=f"Сосед {turns}"), new_user())
    person.model.reply = Moods(turns).reply
    for number in range(turns):
        told = f"У меня есть вещь номер {number}"
        turn = await person.begin(told)
        answer = ""
        for _ in range(20):  # the queue's retries
            shown: list[str] = []
            try:
                answer = (await answer_turn(person.core.agent, turn, on_text=shown.append)).text
            except TransientError:
                continue
            except AppError as error:
                answer = say(error.text_key, "ru")
            finally:
                assert not SHOWN.search("".join(shown)), shown
            break
        assert answer.strip() and not SHOWN.search(answer), answer
    assert len(person.messages()) == turns
