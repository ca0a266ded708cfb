"""Whatever a model replies, a turn ends, and the background does not ask for ever.

``python -m tests.attacks.model_walk`` goes through the whole table.
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from typing import Any

import pytest

from src.base.errors import ModelFilteredError, ModelReplyError
from src.talk.assistant import MAX_ROUNDS
from src.talk.tools import MAX_AT_ONCE, NO_JSON, WAIT
from src.texts import say
from tests.attacks.model_replies import JSON, Script, delta
from tests.attacks.model_walk import BACKGROUND, TALK, Walk, some, walk
from tests.fakes.openai_server import ChatRequest, Raw, Reply, tool_call
from tests.integration.person import Agents, Person, Rig, new_user, results
from tests.integration.turns import answer_turn

USAGE = {"prompt_tokens": 3, "completion_tokens": 2}


@pytest.fixture
async def rig(agents: Agents) -> Rig:
    return await agents.get(**BACKGROUND)


@pytest.fixture
def person(rig: Rig) -> Person:
    return Person(rig, new_user())


def streamed(*texts: Any, calls: tuple[Any, ...] = (), usage: Any = None, **changes: Any) -> Reply:
    """A reply as a stream that may be odd."""
    script = Script(list(texts), list(calls), usage or dict(USAGE), "stop", **changes)
    return Reply(raw=Raw(script.stream()))


@pytest.mark.parametrize(
    ("every", "least"), [(24, 12), pytest.param(1, 320, marks=pytest.mark.proof)]
)
async def test_odd_replies_end_every_turn_and_leave_nothing_in_the_log(
    rig: Rig, every: int, least: int
) -> None:
    result = await walk(rig, some(every))
    assert result.violations == []
    assert result.runs > least and result.callers == 10


async def test_the_walk_sees_what_is_wrong(rig: Rig) -> None:
    going = Walk(rig)
    [(row, _, form)] = some(10**6)
    bad = type(row)("raises", lambda _script: None, outcome="bad")
    await going.run(bad, "answer", form)
    assert "took it for an answer" in going.result.violations[0]


# Usage


@pytest.mark.parametrize("number", [-1, 10**12, 1.5, "12", None, float("nan"), True])
async def test_token_counts_that_make_no_sense_are_stored_as_unknown(
    person: Person, number: object
) -> None:
    usage = {"prompt_tokens": number, "completion_tokens": 2, "total_tokens": number}
    assert (await person.say("привет", streamed("да", usage=usage))).text == "да"
    columns = "prompt_tokens, cached_tokens, completion_tokens"
    stored = person.rows(f"SELECT {columns} FROM model_usage WHERE owner_id = %(owner)s")
    assert stored == [(None, 0, 2)]
    assert b'kind="prompt"' in person.core.metrics.render()


# Text


@pytest.mark.parametrize(("texts", "stored"), [
    (["а\ud83d", "\ude00б"], "а😀б"), (["а\ud83d", "б"], "а\ufffdб"), (["а", "\ud83d"], "а\ufffd"),
    (["а\x00\ufffe\x1bб"], "а\ufffd\ufffd\ufffdб"),
])  # fmt: skip
async def test_what_is_shown_and_stored_consists_of_whole_characters(
    person: Person, texts: list[str], stored: str
) -> None:
    shown: list[str] = []
    person.model.queue(streamed(*texts))
    turn = await person.begin("?")
    answer = await answer_turn(person.core.agent, turn, on_text=shown.append)
    assert answer.text == "".join(shown) == stored
    for piece in shown:
        piece.encode()


@pytest.mark.parametrize(("finish", "key"), [
    ("length", "answer_cut"), ("content_filter", "answer_filtered"),
    ("max_output_tokens", "answer_cut"), ("IMAGE_SAFETY", "answer_filtered"),
])  # fmt: skip
async def test_an_answer_that_was_cut_short_says_why(
    person: Person, finish: str, key: str
) -> None:
    answer = await person.say("яд?", Reply(text="начало", finish_reason=finish))
    assert answer.text == f"начало\n\n{say(key, 'ru')}"
    nothing = await person.say("?", Reply(text="", finish_reason=finish))
    assert nothing.text == say(key, "ru")
    is_shown = "яд?" in json.dumps(person.requests[-1].messages, ensure_ascii=False)
    assert is_shown is (key == "answer_cut"), "what a filter cut stays out of later prompts"


# The stream


async def test_an_error_in_mid_reply_is_worth_another_try(person: Person) -> None:
    turn = await person.begin("?")
    failing = streamed("раз ", "два ", middle=[{"error": {"message": "внутри", "code": 503}}])
    person.model.queue(failing, "снова здесь")
    with pytest.raises(ModelReplyError) as failed:
        await answer_turn(person.core.agent, turn)
    assert "внутри" not in str(failed.value)
    assert (await answer_turn(person.core.agent, turn)).text == "снова здесь"
    for report in (b'data: {"object": "error", "message": "EngineDead", "code": 500}\n\n',
                   b'event: error\ndata: {"message": "EngineDead"}\n\n',
                   b'error: {"code": 500, "message": "EngineDead"}\n\n'):  # fmt: skip
        person.model.queue(streamed("раз ", "два ", middle=[report]))
        with pytest.raises(ModelReplyError, match=r"in mid-reply, (busy|reply)"):
            await answer_turn(person.core.agent, turn)
    late = streamed("готово", after=[{"error": {"code": 500}}])
    assert (await person.say("?", late)).text == "готово", "an error after the end is none"
    refusal = streamed(extra={"refusal": "Этого я не скажу."})
    assert (await person.say("?", refusal)).text == "Этого я не скажу."


# Tools


def call(name: str, arguments: str, id_: str = "call_1") -> dict[str, Any]:
    return {**tool_call(0, name, arguments), "id": id_}


def asks_for_tools(request: ChatRequest) -> bool:
    """Whether the model is allowed to call them."""
    return request.raw.get("tool_choice") != "none"


async def test_a_call_that_fails_again_and_again_is_ended(person: Person) -> None:
    bad = Reply(tool_calls=[("search_memory", {"limit": "много"})])

    def reply(request: ChatRequest) -> Reply:
        return bad if asks_for_tools(request) else Reply(text="не нашёл")

    person.model.reply = reply
    answer = await person.say("найди")
    assert (answer.text, answer.tools) == ("не нашёл", ("search_memory",) * MAX_ROUNDS)
    assert person.requests[-1].tools, "those whose calls are in the prompt are still described"


async def test_of_thirty_calls_at_once_eight_run(person: Person) -> None:
    calls = tuple(call("current_time", "{}", f"call_{n}") for n in range(30))
    answer = await person.say("?", streamed(calls=calls), "полдень")
    assert (answer.text, answer.tools) == ("полдень", ("current_time",) * MAX_AT_ONCE)
    told = results(person.requests[-1])
    assert len(told) == 30 and told.count(WAIT) == 30 - MAX_AT_ONCE


@pytest.mark.parametrize(
    "arguments", ["не JSON", "[1]", "null", '{"a": ', "[" * 5000, '{"a": 1}{"a": 2}', '{}{"a": "}']
)
async def test_arguments_that_are_no_object_go_back_to_it(person: Person, arguments: str) -> None:
    odd = streamed(calls=(call("current_time", arguments),))
    assert (await person.say("?", odd, "ладно")).text == "ладно"
    assert results(person.requests[-1]) == [NO_JSON]
    [echoed] = person.requests[-1].messages[-2]["tool_calls"]
    assert isinstance(json.loads(echoed["function"]["arguments"]), dict)


TOKYO = {"time_zone": "Asia/Tokyo"}
GIVEN = json.dumps(TOKYO)


@pytest.mark.parametrize(("name", "arguments"), [
    ("current_time", f"{{}}{GIVEN}"), ("current_time", f"{GIVEN}{{}}"),
    ("current_time", GIVEN * 2),
    ("current_time", json.dumps(GIVEN)), ("current_time", f"```json\n{GIVEN}\n```"),
    ("current_time", "{'time_zone': 'Asia/Tokyo',}"), ("current_time", f"[{GIVEN}]"),
    ("current_time", f'{{"arguments": {GIVEN}}}'),
    ("current_time", f'{{"current_time": {GIVEN}}}'),
    ("functions.current_time", GIVEN), ("default_api.current_time", GIVEN),
    ("current_time<|channel|>commentary", GIVEN),
    (" current_time()", GIVEN), ("currentTime", GIVEN),
])  # fmt: skip
async def test_a_call_that_servers_spell_otherwise_runs_at_once(
    person: Person, name: str, arguments: str
) -> None:
    answer = await person.say("?", streamed(calls=(call(name, arguments),)), "полдень")
    assert (answer.text, answer.tools) == ("полдень", ("current_time",))
    [echoed] = person.requests[-1].messages[-2]["tool_calls"]
    assert json.loads(echoed["function"]["arguments"]) == TOKYO


def pieces_of_a_call(*ids: str) -> tuple[Any, ...]:
    """One call in pieces, the first of which has its name."""
    half = len(GIVEN) // 2
    parts = zip(ids, ("current_time", None, None), ("", GIVEN[:half], GIVEN[half:]), strict=True)
    return tuple(
        {"index": 0, "id": id_, "function": {"name": name, "arguments": part}}
        for id_, name, part in parts
    )


@pytest.mark.parametrize(
    "calls", [pieces_of_a_call("a", "a", "a"), pieces_of_a_call("a", "b", "c")]
)
async def test_pieces_without_a_name_go_on_with_the_call_before(
    person: Person, calls: tuple[Any, ...]
) -> None:
    answer = await person.say("?", streamed(calls=calls), "полдень")
    assert (answer.text, answer.tools) == ("полдень", ("current_time",))


async def test_the_older_form_of_a_call_and_a_byte_order_mark_are_read(person: Person) -> None:
    older = {"function_call": {"name": "current_time", "arguments": GIVEN}}
    stream = Script([], [], USAGE, "function_call", extra=older).stream()
    answer = await person.say("?", Reply(raw=Raw(BOM_UTF8 + stream)), "полдень")
    assert (answer.text, answer.tools) == ("полдень", ("current_time",))


@pytest.mark.parametrize("call", [
    '<tool_call>\n{"name": "current_time", "arguments": {"time_zone": "Asia/Tokyo"}}',
    "<tool_call>\n<function=current_time>\n<parameter=time_zone>Asia/Tokyo</parameter>\n</function>",
    "<tool_call>current_time\n<arg_key>time_zone</arg_key>\n<arg_value>Asia/Tokyo</arg_value>",
])  # fmt: skip
async def test_a_call_in_a_reply_that_is_all_thoughts_runs(person: Person, call: str) -> None:
    thoughts = streamed(extra={"reasoning_content": f"Надо узнать.\n{call}"})
    answer = await person.say("?", thoughts, "полдень")
    assert (answer.text, answer.tools) == ("полдень", ("current_time",))


def saves(**arguments: Any) -> Reply:
    return streamed(calls=(call("save_user_fact", json.dumps(arguments)),))


FACT = {"text": "Живёт в Одессе", "quote": "Я живу в Одессе"}


@pytest.mark.parametrize("reply", [
    saves(facts=json.dumps([FACT])), saves(facts={"item": [FACT]}), saves(fact=FACT),
    saves(**FACT),
])  # fmt: skip
async def test_a_list_that_is_written_otherwise_is_one(person: Person, reply: Reply) -> None:
    await person.say("Я живу в Одессе", reply, "запомнила")
    assert person.facts() == ["Живёт в Одессе"]


async def test_calls_without_ids_or_with_equal_ones_get_their_own(person: Person) -> None:
    calls = (
        call("current_time", "{}"),
        call("current_time", "{}"),
        call("current_time", "{}", ""),
    )
    whole = Raw(Script([], list(calls), USAGE, "stop").plain(), headers=JSON)
    answer = await person.say("?", Reply(raw=whole), "полдень")
    assert answer.tools == ("current_time",) * 3
    [*_, asked, _, _, _] = person.requests[-1].messages
    ids = [one["id"] for one in asked["tool_calls"]]
    assert len(set(ids)) == 3 and all(ids)


async def test_a_name_that_no_tool_can_have_is_neither_logged_nor_sent_back(
    person: Person, caplog: pytest.LogCaptureFixture
) -> None:
    odd = streamed(calls=(call("тайна \x00 <x>" * 50, "{}"),))
    assert (await person.say("?", odd, "ладно")).text == "ладно"
    [echoed] = person.requests[-1].messages[-2]["tool_calls"]
    assert echoed["function"]["name"].strip("_x") == "" and "тайна" not in caplog.text


# The background


@pytest.mark.parametrize(("model", "nonsense"), [
    ("summaries", Reply(raw=Raw(b"<html>"))), ("extraction", Reply(raw=Raw(b"<html>"))),
    ("extraction", Reply("Фактов много.")),
])  # fmt: skip
async def test_nonsense_is_asked_for_three_times_and_then_left(
    person: Person, model: str, nonsense: Reply
) -> None:
    asked: list[str] = []

    def reply(request: ChatRequest) -> Reply:
        asked.append(request.model)
        good = Reply(text="Говорили.") if request.model == "summaries" else Reply(text="{}")
        return nonsense if request.model == model else good

    person.model.reply = reply
    person.rig.fill(person.conversation(), *TALK)
    windows = 3 if model == "summaries" else 1
    for _ in range(2 * windows):
        with pytest.raises(ModelReplyError):
            await person.core.memory.digest.digest(person.conversation())
    await person.core.memory.digest.digest(person.conversation())
    assert asked.count(model) == 3 * windows
    stored = "SELECT count(*), count(error) FROM model_usage WHERE owner_id = %(owner)s"
    errors = asked.count(model) if nonsense.raw else 0
    assert person.rows(stored) == [(len(asked), errors)]


# What a filter refuses


FILTERED = {"message": "The response was filtered", "code": "content_filter"}


async def test_only_the_message_that_trips_a_filter_hears_about_it(person: Person) -> None:
    refuse = Reply(status=400, error=FILTERED)

    def reply(chat: ChatRequest) -> Reply:
        return refuse if "яд" in json.dumps(chat.messages, ensure_ascii=False) else Reply("да")

    person.model.reply = reply
    with pytest.raises(ModelFilteredError) as refused:
        await person.say("расскажи про яд")
    assert say(refused.value.text_key, "ru") != say("error_model", "ru")
    assert (await person.say("а про кота?")).text == "да"


async def test_chunks_without_choices_or_content_are_passed_over(person: Person) -> None:
    odd = [{}, {"choices": None}, {"choices": [None]}, delta(None), delta({"content": None}), 7]
    assert (await person.say("?", streamed("раз ", "два", middle=odd))).text == "раз два"
