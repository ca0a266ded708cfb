"""The offline model: it calls the tools, quotes, fills forms, and never pretends to be more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from pydantic import BaseModel

from src.history.new_messages import NewWords, with_own_words
from src.llm.chat import ModelCaller
from src.llm.reply import ModelUsage
from src.memory.prompts import (
    UNKNOWN,
    Conflict,
    Conflicts,
    ExtractedFacts,
    ReasoningStep,
    Understanding,
    answer_messages,
    conflict_messages,
    extraction_messages,
    merge_messages,
    reasoning_messages,
    summary_messages,
    understanding_messages,
)
from src.offline.model import MAX_CALLS, SEARCHED, OfflineChatModel, answer
from src.offline.replies import LEAD, SIMILAR, SIMILAR_IF_SOME
from src.reading.facts import Fact
from src.reading.requests import CORRECTION
from src.reading.statements import MAX_FACTS, statements
from src.reminders.rules import read_cancelling
from src.talk.prompt import SYSTEM_PROMPT
from src.talk.tools import build_current_time
from src.texts import Language, detect_language, say
from tests.cases import for_each
from tests.languages import WRITTEN

TOOLS = (
    "save_user_fact", "search_memory", "forget_fact", "forget_everything", "keep_private",
    "current_time",
)  # fmt: skip
NOW = datetime(2026, 11, 21, 11, 5, tzinfo=UTC)
LABEL = "[Текущее время: 2026-11-21 14:05] "
UNKNOWN_RU = f"{say('offline_unknown', 'ru')} {say('offline_note', 'ru')}"


def prompt(text: str, *more: BaseMessage) -> list[BaseMessage]:
    earlier = [HumanMessage(f"{LABEL}Где мои ключи?"), AIMessage("Не знаю.")]
    facts = SystemMessage("<key_facts>\n</key_facts>", name="user_facts")
    return [SystemMessage(SYSTEM_PROMPT), facts, *earlier, HumanMessage(LABEL + text), *more]


def result(record: object, name: str, *, failed: bool = False) -> ToolMessage:
    """What a tool returned: an object as JSON, or a text."""
    text = record if isinstance(record, str) else json.dumps(record, ensure_ascii=False)
    status = "error" if failed else "success"
    return ToolMessage(text, name=name, tool_call_id="1", status=status)


def found(*memories: str | dict[str, Any]) -> ToolMessage:
    """The result of a search: texts, or records with what is not as usual."""
    records = [
        {
            "n": number,
            "uid": f"msg-{number}",
            "said_at": "2026-11-20 09:07",
            "score": 1.0,
            "similarity": 0.8,
            "lexical": 1.5,
            **(memory if isinstance(memory, dict) else {"text": memory}),
        }
        for number, memory in enumerate(memories, start=1)
    ]
    return result({"memories": records}, "search_memory")


def saved(outcome: str, text: str = "Меня зовут Анна", **more: Any) -> ToolMessage:
    record = {"saved": outcome != "refused", "outcome": outcome, "text": text, "replaced": []}
    return result({**record, "reason": None, **more}, "save_user_fact")


def calls(
    messages: Sequence[BaseMessage], tools: Sequence[str] = TOOLS
) -> list[tuple[str, dict[str, Any]]]:
    """The names and arguments of the tool calls; nothing is said besides."""
    message = answer(messages, tools)
    assert message.text == "" or not message.tool_calls
    ids = [call["id"] for call in message.tool_calls]
    assert len(set(ids)) == len(ids) and None not in ids
    return [(call["name"], call["args"]) for call in message.tool_calls]


def reply(messages: Sequence[BaseMessage], tools: Sequence[str] = TOOLS) -> str:
    message = answer(messages, tools)
    assert message.tool_calls == []
    return str(message.text)


@for_each(("text", "statement", "name"), [
    ("Привет! Меня зовут Анна.", "Меня зовут Анна", "Анна"),
    ("Запам'ятай, будь ласка: мене звати Олена", "мене звати Олена", "Олена"),
    ("Hi, my name is Ann!", "my name is Ann", "Ann"),
])  # fmt: skip
def test_what_the_user_tells_is_saved_with_his_own_words_as_the_quote(
    text: str, statement: str, name: str
) -> None:
    fact = {
        "text": statement, "quote": statement, "memory_type": "user_fact", "importance": 10,
        "subject": "user", "relation": "name", "object": name,
    }  # fmt: skip
    assert calls(prompt(text)) == [("save_user_fact", fact)]


def test_each_fact_of_a_message_is_a_call_of_its_own_and_a_dozen_are_enough() -> None:
    told = calls(prompt("Я живу в Омске. Моего брата зовут Олег, и я люблю чай."))
    assert [(name, fact["subject"], fact["relation"], fact["object"]) for name, fact in told] == [
        ("save_user_fact", "user", "lives_in", "Омске"),
        ("save_user_fact", "brother", "name", "Олег"),
        ("save_user_fact", "user", "likes", "чай"),
    ]
    many = " ".join(f"Я люблю чай номер {number}." for number in range(20))
    assert len(calls(prompt(many))) == MAX_CALLS < len(statements(many)) == MAX_FACTS == 12


def test_what_is_told_is_saved_and_what_is_asked_besides_is_searched() -> None:
    told, searched = calls(prompt("Меня зовут Анна. Где мои ключи?"))
    assert (told[0], told[1]["relation"]) == ("save_user_fact", "name")
    assert searched == ("search_memory", {"query": "Где мои ключи?", "limit": SEARCHED})


@for_each("language", WRITTEN)
@for_each(("outcome", "key"), [("new", "offline_saved"), ("same", "offline_known")])
def test_what_was_saved_or_known_is_told(language: Language, outcome: str, key: str) -> None:
    text = {"ru": "Меня зовут Анна", "uk": "Мене звати Олена", "en": "My name is Ann"}[language]
    assert reply(prompt(text, saved(outcome, text))) == say(key, language, text=text)


@for_each("language", WRITTEN)
def test_what_was_replaced_is_told_with_what_it_was_before(language: Language) -> None:
    now, before = {
        "ru": ("Я живу в Томске", "Я живу в Омске"),
        "uk": ("Я живу у Львові", "Я живу в Києві"),
        "en": ("I live in Leeds", "I live in York"),
    }[language]
    told = reply(prompt(now, saved("update", now, replaced=[before, "?"])))
    assert told == say("offline_replaced", language, text=now, old=f"{before}; ?")


@for_each("language", WRITTEN)
@for_each("reason", ["secret", "instruction", "unclear_date", "quote_not_said"])
def test_a_refusal_says_why_in_a_sentence_of_its_own(language: Language, reason: str) -> None:
    text = {"ru": "Мой пароль тут", "uk": "Мій пароль тут", "en": "My password is here"}[language]
    is_told = reason in ("secret", "unclear_date")
    expected = say(f"refused_{reason}" if is_told else "refused_other", language)
    assert reply(prompt(text, saved("refused", text, reason=reason))) == expected


def test_the_outcomes_of_several_facts_are_lines_in_the_order_in_which_they_were_told() -> None:
    results = (
        saved("new", "Я люблю чай"),
        saved("refused", "Пароль 1", reason="secret"),
        saved("same", "Я живу в Омске"),
        saved("refused", "Пароль 2", reason="secret"),
        saved("outdated", "Я жил в Туле"),
    )
    assert reply(prompt("Я люблю чай …", *results)).split("\n") == [
        say("offline_saved", "ru", text="Я люблю чай"),
        say("refused_secret", "ru"),
        say("offline_known", "ru", text="Я живу в Омске"),
        say("taught_outdated", "ru", text="Я жил в Туле"),
    ], "each outcome is said once"


@for_each(("text", "language"), [("Понятно", "ru"), ("Зрозуміло", "uk"), ("I see", "en")])
def test_where_there_is_nothing_to_remember_it_says_what_this_model_is(
    text: str, language: Language
) -> None:
    assert reply(prompt(text)) == say("offline_note", language)


def test_without_the_tool_nothing_is_said_to_be_saved() -> None:
    failed = result("The tool failed.", "save_user_fact", failed=True)
    assert reply(prompt("Меня зовут Анна"), ()) == say("offline_note", "ru")
    told = reply(prompt("Меня зовут Анна", failed))
    assert told == say("refused_other", "ru") and "Анна" not in told


@for_each("text", ["Как меня зовут?", "Як мене звати?", "What is my name?"])
def test_a_question_calls_the_search_with_the_user_s_words(text: str) -> None:
    assert calls(prompt(text)) == [("search_memory", {"query": text, "limit": SEARCHED})]


@for_each(
    ("text", "place"),
    [
        ("Который час?", ""), ("котра година", ""), ("What time is it?", ""),
        ("Сколько времени в Токио?", "Токио"), ("Котра година у Варшаві?", "Варшаві"),
        ("What's the time in New York?", "New York"),
    ],
)  # fmt: skip
def test_a_question_about_the_time_calls_the_clock_of_the_place(text: str, place: str) -> None:
    assert calls(prompt(text)) == [("current_time", {"time_zone": place})]


def test_the_time_is_told_and_an_unknown_city_is_named_so() -> None:
    time = "2026-11-21 14:05, Saturday"
    told = reply(prompt("Который час?", result(time, "current_time")))
    assert told == say("offline_time", "ru", time=time)
    failed = result("The tool failed.", "current_time", failed=True)
    assert reply(prompt("Который час в Ыбэ?", failed)) == say("offline_no_city", "ru")


@for_each(("question", "language", "quoted"), [
    ("Как меня зовут?", "ru", "• 20.11.2026 09:07: «Меня зовут Анна» [1]"),
    ("Як мене звати?", "uk", "• 20.11.2026 09:07: «Меня зовут Анна» [1]"),
    ("What is my name?", "en", "• 20.11.2026 09:07: “Меня зовут Анна” [1]"),
])  # fmt: skip
def test_what_the_search_found_is_quoted_with_its_date_and_number(
    question: str, language: Language, quoted: str
) -> None:
    text = reply(prompt(question, found("Меня зовут Анна")))
    assert text == f"{say('offline_quote_one', language)}\n\n{quoted}"


def numbers_quoted(question: str, *memories: str | dict[str, Any]) -> list[str]:
    """The numbers of the memories that are quoted, as they stand in the reply."""
    text = reply(prompt(question, found(*memories)))
    return [line.rpartition(" ")[2] for line in text.splitlines() if line.endswith("]")]


def test_what_was_said_last_is_quoted_first_and_four_quotes_are_enough() -> None:
    days = [f"2026-11-{day} 09:00" for day in (11, 13, 12, 10, 14)]
    memories = [{"text": f"Я люблю чай номер {day[8:10]}", "said_at": day} for day in days]
    assert numbers_quoted("Какой чай я люблю?", *memories) == ["[5]", "[2]", "[3]", "[1]"]


def test_questions_and_small_talk_are_never_quoted() -> None:
    memories = ("Где мой кот?", "Мой кот спит", "как там кот", "Спасибо, кот!")
    assert numbers_quoted("Где кот?", *memories) == ["[2]"]
    assert reply(prompt("Где кот?", found("Где мой кот?", "как там кот"))) == UNKNOWN_RU


def test_what_shares_no_word_is_quoted_only_when_it_is_far_nearer_than_all_else() -> None:
    far = {"text": "Я люблю чай", "similarity": SIMILAR - LEAD - 0.01}
    near = {"text": "Плащ от дождя висит дома", "similarity": SIMILAR}
    rival = {"text": "Вчера был дождь", "similarity": SIMILAR - LEAD / 2}
    word = {"text": "Мой зонт сломан", "similarity": 0.1}
    assert numbers_quoted("Где зонт?", far, near) == ["[2]"]
    assert reply(prompt("Где зонт?", found(far))) == UNKNOWN_RU
    assert reply(prompt("Где зонт?", found(far, near, rival))) == UNKNOWN_RU
    assert reply(prompt("Где зонт?", found({**near, "similarity": SIMILAR - 0.01}))) == UNKNOWN_RU
    assert numbers_quoted("Где зонт?", far, near, word) == ["[3]"]


def test_what_shares_some_words_is_quoted_when_it_is_near_as_well() -> None:
    shares_half = "Мой зонт сломан"
    for similarity, is_quoted in ((SIMILAR_IF_SOME, True), (SIMILAR_IF_SOME - 0.01, False)):
        rival = {"text": "Вчера был дождь", "similarity": similarity}
        memory = {"text": shares_half, "similarity": similarity}
        quoted = numbers_quoted("Где чинят зонт?", memory, rival) if is_quoted else None
        answer = reply(prompt("Где чинят зонт?", found(memory, rival)))
        assert quoted == ["[1]"] if is_quoted else answer == UNKNOWN_RU
    unknown = {"text": shares_half, "similarity": 0.0}  # it has no vector yet
    assert numbers_quoted("Где чинят зонт?", unknown) == ["[1]"]


def test_a_summary_is_nobody_s_words() -> None:
    summary = {"id": "summary-1", "uid": "summary-1", "text": "Пользователь говорил: «Мой зонт»"}
    assert reply(prompt("Где зонт?", found(summary))) == UNKNOWN_RU


@for_each(("question", "told", "others"), [
    ("Где я живу?", "Я живу в Омске", "Мой друг живёт в Риме"),
    ("Где живёт мой друг?", "Мой друг живёт в Риме", "Я живу в Омске"),
    ("Как меня зовут?", "Меня зовут Анна", "Моего брата зовут Олег"),
    ("Де живе мій брат?", "Мій брат живе у Празі", "Я живу у Львові"),
    ("Where do I live?", "We moved to Bergen last week", "My sister lives in Oslo"),
    ("Where does my sister live?", "My sister lives in Oslo", "I live in Leeds"),
    ("Кем я работаю?", "Я работаю поваром", "Моя мама работает врачом"),
])  # fmt: skip
def test_nobody_s_facts_answer_for_another(question: str, told: str, others: str) -> None:
    assert numbers_quoted(question, others, told) == ["[2]"]
    assert numbers_quoted(question, others) == []


OLD = {"text": "Я живу в Омске", "holds": False}


@for_each(("question", "quoted"), [
    ("Где я живу?", ["[2]"]), ("Где я жил раньше?", ["[2]", "[1]"]),
    ("Де я жив раніше?", ["[2]", "[1]"]), ("Where did I live before?", ["[2]", "[1]"]),
])  # fmt: skip
def test_what_held_earlier_stands_below_and_only_when_it_is_asked_for(
    question: str, quoted: list[str]
) -> None:
    assert numbers_quoted(question, OLD, "Я живу в Томске") == quoted


@for_each("language", WRITTEN)
def test_what_held_earlier_is_marked_where_nothing_else_is_known(language: Language) -> None:
    question = {"ru": "Где я живу?", "uk": "Де я живу тепер?", "en": "Where do I live?"}[language]
    _, _, line = reply(prompt(question, found(OLD))).partition("\n\n")
    assert line.startswith(say("offline_earlier", language)) and "Я живу в Омске" in line


@for_each("kind", ["profile", "family", "wishes"])
def test_an_overview_lists_all_that_holds(kind: str) -> None:
    memories = [{"n": n, "said_at": "2026-11-20 09:07", "text": f"Факт {n}"} for n in range(1, 9)]
    memories[3]["holds"] = False
    listed = result({"memories": memories, "overview": kind}, "search_memory")
    head, *lines = reply(prompt("Что ты обо мне знаешь?", listed)).splitlines()
    assert head == say(f"offline_overview_{kind}", "ru")
    assert [line[-3:] for line in lines if line] == [f"[{n}]" for n in (1, 2, 3, 5, 6, 7, 8)]
    nothing = result({"memories": [], "overview": kind}, "search_memory")
    assert reply(prompt("Что ты обо мне знаешь?", nothing)) == UNKNOWN_RU


@for_each("nothing", [
    found(), result("not json", "search_memory"), result("[1, 2]", "search_memory"),
    result({"memories": None}, "search_memory"),
    result("The tool failed.", "search_memory", failed=True),
])  # fmt: skip
def test_without_anything_found_it_says_that_it_does_not_know(nothing: ToolMessage) -> None:
    assert reply(prompt("Где кот?", nothing)) == UNKNOWN_RU


def test_without_tools_it_does_not_know() -> None:
    for question in ("Где кот?", "Который час?"):
        assert reply(prompt(question), ()) == UNKNOWN_RU


@for_each(("text", "arguments"), [
    ("Забудь, что у меня есть кот", {"about": "у меня есть кот", "everything": False}),
    ("Видали все про кота", {"about": "кота", "everything": True}),
    ("Please forget about my cat", {"about": "my cat", "everything": False}),
])  # fmt: skip
def test_a_request_to_forget_calls_the_tool_with_the_user_s_words(
    text: str, arguments: dict[str, Any]
) -> None:
    assert calls(prompt(text)) == [("forget_fact", arguments)]


@for_each("text", ["Забудь всё", "Забудь усе, що ти знаєш про мене", "Forget everything"])
def test_before_everything_is_forgotten_the_user_is_asked(text: str) -> None:
    assert calls(prompt(text)) == [("forget_everything", {})]
    language: Language = detect_language(text)
    asked = result({"confirm": True}, "forget_everything")
    assert reply(prompt(text, asked)) == say("forget_everything_ask", language)


def test_a_request_that_names_nothing_is_asked_back() -> None:
    assert reply(prompt("Забудь")) == say("forget_what", "ru")


@for_each("text", ["Не запоминай это: я курю", "Це між нами: я палю", "Off the record: I smoke"])
def test_what_is_to_be_kept_quiet_is_saved_nowhere(text: str) -> None:
    assert calls(prompt(text)) == [("keep_private", {})]
    kept = result({"private": True}, "keep_private")
    assert reply(prompt(text, kept)) == say("kept_private", detect_language(text))


@for_each("language", WRITTEN)
def test_what_came_of_a_request_to_forget_is_told(language: Language) -> None:
    text = {"ru": "Забудь про чай", "uk": "Забудь про мій чай", "en": "Forget about my tea"}[
        language
    ]
    tea = [{"id": "fact-1", "text": "Я люблю чай"}, {"id": "fact-2", "text": "Чай кончился"}]

    def told(**outcome: Any) -> list[str]:
        record = {"forgotten": [], "ask": [], "nearest": [], **outcome}
        return reply(prompt(text, result(record, "forget_fact"))).split("\n")

    gone = [say("forgot", language, text="Я люблю чай"), say("forgot_undo", language)]
    assert told(forgotten=["Я люблю чай"]) == gone
    listed = [f"• {say('quoted', language, text=entry['text'])}" for entry in tea]
    assert told(ask=tea) == [say("forget_which", language), *listed]
    nothing = say("forgot_nothing", language)
    assert told(nearest=tea) == [f"{nothing} {say('forget_nearest', language)}", *listed]
    assert told() == [nothing]
    failed = result("The tool failed.", "forget_fact", failed=True)
    assert reply(prompt(text, failed)) == nothing


@for_each(("text", "about", "everything"), [
    ("Все", "Костю", True), ("да, все три", "Костю", True), ("all of them", "Костю", True),
    ("второе", "У Кости кот", False), ("The first one", "Костя — повар", False),
    ("останнє", "С Костей мы друзья", False), ("1", "Костя — повар", False),
    ("про кота", "про кота", False), ("9", "9", False),
])  # fmt: skip
def test_which_of_several_is_to_be_forgotten(text: str, about: str, *, everything: bool) -> None:
    told = ("Костя — повар", "У Кости кот", "С Костей мы друзья")
    asked = "\n".join([say("forget_which", "ru"), *(f"• «{one}»" for one in told)])
    talk = [HumanMessage("Забудь про Костю"), AIMessage(asked), HumanMessage(text)]
    assert calls(talk) == [("forget_fact", {"about": about, "everything": everything})]


def test_results_of_an_earlier_turn_are_not_quoted_again() -> None:
    earlier = [HumanMessage("Где кот?"), found("кот дома"), AIMessage("дома")]
    assert answer([*earlier, HumanMessage("Где пёс?")], TOOLS).tool_calls
    assert reply([*earlier, HumanMessage("Спасибо!")]) == say("offline_welcome", "ru")


def filled(messages: Sequence[BaseMessage], schema: type[BaseModel]) -> BaseModel:
    """The form as the graph gets it."""
    message = answer(messages, [], form=schema.__name__)
    [call] = message.tool_calls
    assert (call["name"], message.text) == (schema.__name__, "")
    return schema.model_validate(call["args"], strict=True)


def fact(text: str, message: str = "msg-7", **fields: Any) -> Fact:
    values = {"text": text, "quote": text, "message": message, **fields}
    return Fact.model_validate(values)


def new(text: str) -> list[dict[str, str]]:
    return [{"uid": "msg-7", "role": "user", "text": text}]


@for_each(("text", "expected"), [
    ("Меня зовут Анна", fact("Меня зовут Анна", importance=10, relation="name", object="Анна")),
    ("Мене звати Олена", fact("Мене звати Олена", importance=10, relation="name", object="Олена")),
    ("My name is Ann", fact("My name is Ann", importance=10, relation="name", object="Ann")),
    ("Париж — столица Франции", fact("Париж — столица Франции", importance=5)),
])  # fmt: skip
def test_a_message_that_tells_a_thing_is_understood_as_teaching(text: str, expected: Fact) -> None:
    recent = [{"role": "user", "text": "Меня зовут Борис"}, {"role": "assistant", "text": "Ок"}]
    understood = filled(understanding_messages(new(text), recent), Understanding)
    assert understood == Understanding(intent="teach", facts=[expected])


@for_each("text", ["Как меня зовут?", "Де я живу", "Tell me a joke", "Спасибо", ""])
def test_a_message_that_tells_nothing_is_understood_as_a_task(text: str) -> None:
    understood = filled(understanding_messages(new(text), []), Understanding)
    assert understood == Understanding(intent="solve")


@for_each(("text", "query"), [("Забудь про кота", "кота"), ("Forget everything", "")])
def test_a_request_to_forget_is_understood_with_what_is_meant(text: str, query: str) -> None:
    understood = filled(understanding_messages(new(text), []), Understanding)
    assert understood == Understanding(intent="forget", query=query)


def test_facts_are_extracted_from_what_the_user_said_and_from_nothing_else() -> None:
    messages = [
        {"uid": "msg-1", "role": "user", "said_at": "x", "text": "Меня зовут Анна"},
        {"uid": "msg-2", "role": "assistant", "said_at": "x", "text": "Я живу в Омске"},
        {"uid": "msg-3", "role": "user", "said_at": "x", "text": "Где я живу?"},
        {"uid": "msg-4", "role": "user", "said_at": "x", "text": "Я люблю чай. </messages>"},
        {"uid": "msg-5", "role": "user", "said_at": "x", "text": "I live\u2028in Leeds\x85"},
    ]
    extracted = filled(extraction_messages(messages, {1: "Я живу в Туле"}), ExtractedFacts)
    assert isinstance(extracted, ExtractedFacts)
    assert [(fact.message, fact.relation, fact.object) for fact in extracted.facts] == [
        ("msg-1", "name", "Анна"),
        ("msg-4", "likes", "чай"),
        ("msg-5", "lives_in", "Leeds"),
    ]
    assert filled(extraction_messages([], {}), ExtractedFacts) == ExtractedFacts()


def extracted_from(text: str) -> list[str]:
    """The texts of the facts that are extracted from one message."""
    messages = [{"uid": "msg-1", "role": "user", "said_at": "x", "text": text}]
    extracted = filled(extraction_messages(messages, {}), ExtractedFacts)
    assert isinstance(extracted, ExtractedFacts)
    return [fact.text for fact in extracted.facts]


def test_nothing_is_extracted_from_requests_nor_beside_what_was_cut_out() -> None:
    for text in ("Забудь, что я курю", "Forget my address", "Не запоминай: я курю", "Где я живу?"):
        assert extracted_from(text) == []
    assert extracted_from("Меня зовут Анна, […] и живу в Омске") == [
        "Меня зовут Анна",
        "живу в Омске",
    ]


@for_each(("new", "known", "contradict"), [
    ("Я живу в Томске", "Я живу в Омске", True), ("Я живу у Львові", "Я мешкаю в Києві", True),
    ("I live in Leeds", "I live in York", True),
    ("мой любимый цвет — синий", "Мой любимый цвет — красный", True),
    ("Я живу в Омске", "я живу в омске", False), ("Я люблю чай", "Я люблю кофе", False),
    ("У меня есть сын Пётр", "У меня есть сын Иван", False),
    ("Моего брата зовут Олег", "Меня зовут Анна", False),
    ("Мой брат живёт в Туле", "Я живу в Омске", False), ("бла", "бла-бла", False),
])  # fmt: skip
def test_two_values_of_what_has_one_contradict_each_other(
    new: str, known: str, contradict: bool
) -> None:
    prompted = conflict_messages(["Спасибо", new], {40: "Я люблю музыку", 41: known})
    expected = [Conflict(new=1, known=41, confidence=1.0)] if contradict else []
    assert filled(prompted, Conflicts) == Conflicts(conflicts=expected)


def test_it_never_asks_for_another_search() -> None:
    context = [{"uid": "msg-1", "said_at": "x", "text": "Я живу в Омске"}]
    step = filled(reasoning_messages("Где я живу?", context, ["живу"]), ReasoningStep)
    assert step == ReasoningStep(action="answer")


def test_a_form_that_nobody_knows_stays_empty() -> None:
    [call] = answer(prompt("Меня зовут Анна"), TOOLS, form="Nonsense").tool_calls
    assert (call["name"], call["args"]) == ("Nonsense", {})


def strictly(task: str, *quotes: str) -> str:
    """The answer from these quotes."""
    context = [
        {"uid": f"msg-{number}", "said_at": "2026-11-20 09:07", "text": text}
        for number, text in enumerate(quotes, start=1)
    ]
    return reply(answer_messages(task, context), ())


def test_a_strict_answer_is_the_quotes_that_have_to_do_with_the_task() -> None:
    quotes = ("Я люблю чай", "Мою собаку зовут Рекс", "Где моя собака?", "Моя собака спит")
    expected = "Мою собаку зовут Рекс [msg-2]\nМоя собака спит [msg-4]"
    assert strictly("Расскажи о собаке", *quotes) == expected
    assert strictly("Расскажи о собаке", "Я люблю чай") == UNKNOWN
    many = [f"Моя собака съела {number} котлет" for number in range(5)]
    assert strictly("Расскажи о собаке", *many).count("[msg-") == 3


def test_a_strict_answer_without_anything_that_tells_something_is_unknown() -> None:
    assert strictly("Где мой кот?") == UNKNOWN
    assert strictly("Где мой кот?", "Где мой кот?", "Як звати кота") == UNKNOWN


def test_a_summary_quotes_the_beginnings_of_what_the_user_told() -> None:
    messages = [
        {"role": "user", "text": "Меня зовут Анна"},
        {"role": "assistant", "text": "Тайна помощника"},
        {"role": "user", "text": "Как меня зовут?"},
        {"role": "user", "text": f"I want a flat {'ok ' * 40}"},
        {"role": "user", "text": "Меня зовут Анна"},
        {"role": "user", "text": "  "},
    ]
    summary = reply(summary_messages(messages), ())
    assert summary.startswith("«Меня зовут Анна»; «I want a flat ok ok ok") and len(summary) < 100
    assert summary.endswith("ok…»")
    only_questions = [{"role": "user", "text": "Как меня зовут?"}]
    assert reply(summary_messages(only_questions), ()) == "«Как меня зовут?»"


def test_a_summary_of_nothing_said_and_a_merged_one() -> None:
    silent = [{"role": "assistant", "text": "Привет"}]
    assert reply(summary_messages(silent), ()) == "—"
    assert reply(merge_messages(["«Первое»", "«Второе»"]), ()) == "«Первое»; «Второе»"


@for_each(("text", "language", "key"), [
    ("Привет!", "ru", "offline_hello"), ("Добрый вечер", "ru", "offline_hello"),
    ("доброго дня", "uk", "offline_hello"), ("Привіт, бот", "uk", "offline_hello"),
    ("hi there", "en", "offline_hello"), ("Good morning!", "en", "offline_hello"),
    ("Большое спасибо за помощь", "ru", "offline_welcome"), ("дякую", "uk", "offline_welcome"),
    ("thank you so much", "en", "offline_welcome"),
])  # fmt: skip
def test_pleasantries_are_returned(text: str, language: Language, key: str) -> None:
    asked = with_own_words(text, [NewWords(uid="msg-1", text=text, is_asked=True)], NOW,
                           language=language)  # fmt: skip
    assert reply([SystemMessage(SYSTEM_PROMPT), asked]) == say(key, language)


@for_each(("text", "language"), [
    ("Кто видит мои сообщения?", "ru"), ("как удалить мои данные", "ru"),
    ("Где хранятся мои данные?", "ru"), ("Что ты умеешь?", "ru"),
    ("хто бачить мої повідомлення?", "uk"), ("Як стерти все?", "uk"), ("що ти вмієш?", "uk"),
    ("who can see my messages?", "en"), ("How do I delete my data?", "en"), ("help", "en"),
    ("where are my messages stored?", "en"),
])  # fmt: skip
def test_questions_about_the_bot_lead_to_its_commands(text: str, language: Language) -> None:
    assert reply(prompt(text)) == say("offline_help", language)


@for_each("text", [
    "Кто видит моего брата по выходным?", "Как удалить пятно?", "Where did I put my phone?",
    "Где данные для входа в банк?", "Who reads Tolstoy in my family?",
])  # fmt: skip
def test_other_questions_are_searched_for(text: str) -> None:
    assert [name for name, _ in calls(prompt(text))] == ["search_memory"]


@for_each(("text", "language"), [
    ("Напомни", "ru"), ("напомни мне!", "ru"), ("Нагадай", "uk"), ("remind me", "en"),
])  # fmt: skip
def test_a_bare_order_to_remind_is_asked_about(text: str, language: Language) -> None:
    asked = with_own_words(text, [NewWords(uid="msg-1", text=text, is_asked=True)], NOW)
    tools = (*TOOLS, "set_reminder")
    assert reply([asked], tools) == say("reminder_no_time", language)
    more = with_own_words("tomorrow at 10 call Kate", [
        NewWords(uid="msg-2", text="tomorrow at 10 call Kate", is_asked=True)
    ], NOW)  # fmt: skip
    talk = [asked, AIMessage(say("reminder_no_time", language)), more]
    assert [name for name, _ in calls(talk, tools)] == ["set_reminder"]


@for_each(("text", "is_correction"), [
    ("Not green, blue", True), ("не зелёный, синий", True), ("ні, не зелений, а синій", True),
    ("actually it's green", True), ("not today, thanks", False), ("не сегодня, спасибо", False),
])  # fmt: skip
def test_what_is_denied_and_put_right_is_a_correction(text: str, *, is_correction: bool) -> None:
    assert (CORRECTION.match(text) is not None) is is_correction


def of_file(text: str, name: str = "чек.txt") -> dict[str, Any]:
    return {"id": "msg-7", "uid": "msg-7", "from_file": name, "text": text, "of_asker": False}


@for_each(("question", "is_quoted"), [
    ("Сколько стоил капучино?", True), ("Сколько я заплатил за капучино?", True),
    ("Что было в чеке?", True), ("Как меня зовут?", False), ("Где я живу?", False),
])  # fmt: skip
def test_a_file_is_quoted_where_it_answers_and_is_not_the_one_who_asks(
    question: str, *, is_quoted: bool
) -> None:
    receipt = of_file("Капучино 220. Я живу в Париже. Меня зовут Пьер.")
    answered = reply(prompt(question, found(receipt)))
    assert ("чек.txt: Капучино 220." in answered) is is_quoted, answered


def test_who_is_called_something_is_known_by_that_name() -> None:
    records = ({"id": "fact-1", "uid": "msg-1", "text": "My brother is called Oliver"},
               {"id": "fact-2", "uid": "msg-2", "text": "Oliver lives in Vienna"},
               {"id": "fact-3", "uid": "msg-3", "text": "Rex lives in a kennel"})  # fmt: skip
    answered = reply(prompt("Tell me about my brother", found(*records)))
    assert "is called Oliver" in answered and "Vienna" in answered and "Rex" not in answered


def test_what_the_user_says_of_himself_outweighs_a_file() -> None:
    own = {"id": "fact-1", "uid": "msg-1", "text": "Я заплатил за капучино 300"}
    answered = reply(
        prompt("Сколько я заплатил за капучино?", found(of_file("Капучино 220"), own))
    )
    assert "300" in answered and "220" not in answered


REMINDERS = {"reminders": [
    {"id": "reminder-1", "text": "пить таблетки", "time": "каждый день в 22:00"},
    {"id": "reminder-2", "text": "про хлеб и молоко", "time": "завтра в 9:00"},
    {"id": "reminder-3", "text": "pay the rent", "time": "on the 1st"},
]}  # fmt: skip
CANCELS = ("list_reminders", "cancel_reminder", "search_memory", "save_user_fact", "forget_fact")


@for_each(("text", "cancelled"), [
    ("Отмени напоминание про таблетки", ["reminder-1"]),
    ("Отмени, пожалуйста, напоминание о хлебе", ["reminder-2"]),
    ("больше не напоминай мне про таблетки", ["reminder-1"]),
    ("скасуй нагадування про хліб", []),  # that is called otherwise
    ("не нагадуй більше про молоко", ["reminder-2"]),
    ("cancel the rent reminder", ["reminder-3"]),
    ("stop reminding me about the rent", ["reminder-3"]), ("stop reminding me", []),
    ("cancel all my reminders", ["reminder-1", "reminder-2", "reminder-3"]),
    ("Удали все напоминания", ["reminder-1", "reminder-2", "reminder-3"]),
    ("отмени напоминание", []), ("cancel the dentist reminder", []),
])  # fmt: skip
def test_a_reminder_is_cancelled_by_what_it_is_about(text: str, cancelled: list[str]) -> None:
    assert calls(prompt(text), CANCELS) == [("list_reminders", {})]
    listed = prompt(text, result(REMINDERS, "list_reminders"))
    wanted = [("cancel_reminder", {"id": number}) for number in cancelled]
    assert calls(listed, CANCELS) == wanted
    if not cancelled:  # which one is meant can be pressed
        assert "/reminders" in reply(listed, CANCELS)


def test_what_became_of_a_cancelled_reminder_is_said() -> None:
    done = result({"cancelled": True, "text": "пить таблетки"}, "cancel_reminder")
    told = prompt("Отмени напоминание про таблетки", result(REMINDERS, "list_reminders"), done)
    assert reply(told, CANCELS) == say("reminder_cancelled", "ru", text="пить таблетки")


@for_each("text", [
    "Отмени встречу завтра", "удали всё", "Когда ты напомнишь про хлеб?", "cancel my flight",
    "Какие у меня напоминания?",
])  # fmt: skip
def test_other_requests_cancel_no_reminder(text: str) -> None:
    assert read_cancelling(text) is None


async def test_it_works_through_the_interface_of_a_real_model() -> None:
    caller = ModelCaller(OfflineChatModel(), "offline", timeout=5)
    shown: list[str] = []
    usage: list[ModelUsage] = []

    async def ask(text: str) -> AIMessage:
        return await caller.stream(
            caller.with_tools([build_current_time()]),
            prompt(text),
            purpose="answer",
            on_text=shown.append,
            on_usage=usage.append,
        )

    assert (await ask("Который час?")).tool_calls[0]["name"] == "current_time"
    assert shown == []
    told = await ask("Спасибо!")
    assert shown == [told.text] and told.text == say("offline_welcome", "ru")
    assert [(u.purpose, u.model, u.prompt_tokens) for u in usage] == [("answer", "offline", 0)] * 2
    plain = await OfflineChatModel().ainvoke([HumanMessage("Где кот?")])
    assert plain.text == UNKNOWN_RU, "no tools were bound"


async def test_forms_and_tasks_work_through_the_interface_of_a_real_model() -> None:
    caller = ModelCaller(OfflineChatModel(), "offline", timeout=5)
    usage: list[ModelUsage] = []
    understood = await caller.structured(
        understanding_messages(new("Где я живу?"), []),
        Understanding,
        purpose="classify",
        on_usage=usage.append,
    )
    assert understood == Understanding(intent="solve")
    text = await caller.text(merge_messages(["Первое."]), purpose="summary", on_usage=usage.append)
    assert text == "Первое."
    assert [call.purpose for call in usage] == ["classify", "summary"]
