"""The offline model: it calls the tools, quotes, fills forms, and never pretends to be more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from pydantic import BaseModel

from src.history.new_messages import ASKS, TypedWords, user_message
from src.llm.chat import ModelCaller
from src.llm.reply import ModelUsage
from src.memory.prompts import (
    ExtractedFacts,
    Understanding,
    extraction_messages,
    merge_messages,
    summary_messages,
    understanding_messages,
)
from src.memory.thresholds import RELATED, SURE
from src.offline.model import NEWEST, SEARCHED, OfflineChatModel, answer, read_calls
from src.offline.replies import OVERVIEW_LINES, QUOTED
from src.reading.facts import Fact
from src.reading.requests import describe_time
from src.reminders.rules import (
    CancelOrder,
    ReminderOrder,
    is_done,
    read_change,
    tells_of_past,
)
from src.talk.prompt import SYSTEM_PROMPT
from src.texts import Language, detect_language, say

TOOLS = (
    "save_user_fact", "search_memory", "forget_fact", "forget_everything", "keep_private",
    "current_time",
)  # fmt: skip
LABEL = "[Текущее время: 2026-11-21 14:05] "
UNKNOWN_RU = say("offline_unknown", "ru")


def prompt(text: str, *more: BaseMessage) -> list[BaseMessage]:
    earlier = [HumanMessage(f"{LABEL}Где мои ключи?"), AIMessage("Не знаю.")]
    facts = SystemMessage("<key_facts>\n</key_facts>", name="user_facts")
    return [SystemMessage(SYSTEM_PROMPT), facts, *earlier, HumanMessage(LABEL + text), *more]


def human(uid: str, said: str) -> HumanMessage:
    """A message with its uid."""
    return user_message(said, [TypedWords(uid=uid, text=said, is_asked=True)])


def result(record: object, name: str, *, failed: bool = False) -> ToolMessage:
    """What a tool returned: an object as JSON, or a text."""
    text = record if isinstance(record, str) else json.dumps(record, ensure_ascii=False)
    status = "error" if failed else "success"
    return ToolMessage(text, name=name, tool_call_id="1", status=status)


def asks(question: str, text: str) -> AIMessage:
    """An answer of the bot's that asks something."""
    return AIMessage(text, additional_kwargs={ASKS: question})


def found(*memories: str | dict[str, Any]) -> ToolMessage:
    """The result of a search: texts, or records with what is not as usual."""
    usual = {"said_at": "2026-11-20 09:07", "score": 1.0, "similarity": 0.8, "lexical": 0.0}
    records = [
        {"n": number, "uid": f"msg-{number}", **usual}
        | (memory if isinstance(memory, dict) else {"text": memory})
        for number, memory in enumerate(memories, start=1)
    ]
    return result({"memories": records}, "search_memory")


def note(text: str, similarity: float = 0.8, day: int = 20, **more: Any) -> dict[str, Any]:
    """A record of a search of a day of November."""
    return {"text": text, "similarity": similarity, "said_at": f"2026-11-{day:02} 09:07"} | more


FAR = note("Вчера был дождь", SURE - 0.01)


OMSK = note("Я живу в Омске", day=21, id="fact-1", holds=False, replaced_by="fact-2")


TOMSK = note("перебрались в Томск", 1.0, id="fact-2", score=0.0)


def numbers_quoted(question: str, *memories: str | dict[str, Any]) -> list[str]:
    """The numbers of the memories that are quoted, as they stand in the reply."""
    text = reply(prompt(question, found(*memories), found()))
    return [line.rpartition(" ")[2] for line in text.splitlines() if line.endswith("]")]


def of_file(text: str, name: str = "чек.txt") -> dict[str, Any]:
    return {"id": "msg-7", "uid": "msg-7", "from_file": name, "text": text, "of_asker": False}


@pytest.mark.parametrize(("question", "memories", "numbers"), [
    # Three quotes are enough, the newest first.
    ("Какой чай я люблю?", [note(f"Я люблю чай номер {n}", day=n) for n in (11, 13, 12, 10, 14)],
     [5, 2, 1]),
    # Questions, requests and small talk are never quoted.
    ("Где кот?", ["Где мой кот?", "Мой кот спит", "как там кот", "Забудь кота", "Спасибо"], [2]),
    ("где ключи?", [note("где ключи? не могу найти", 0.9)], []),
    ("my name?", [note("do you know my name?", 0.9)], []),
    # What is not near is not, unless it shares a word or has no vector yet.
    ("Где зонт?", [FAR, note("Плащ висит дома", SURE)], [2]),
    ("Где зонт?", [FAR, note("Мой зонт сломан", SURE - 0.05)], [2]),
    ("Где зонт?", [note("Мой зонт сломан", 0.0)], [1]),
    # What is asked for answers without being named.
    ("what's my bay number", [note("we …", 0.3), note("we park far away, bay 14", 0.3)], [2]),
    ("телефон слесаря?", [note("Слесарь …", 0.3), note("Слесарь Глеб, тел. 067 111 22 33", 0.3)],
     [2]),
    ("в який день басейн", [note("басейн …", 0.3), note("басейн по п'ятницях", 0.3)], [2]),
    ("where is the tent kept", [note("tent …", 0.3), note("tent in the loft behind a box", 0.3)],
     [2]),
    ("кому лестницу возвращать", [note("лестницу взял у тестя, вернуть надо к маю", 0.5)], [1]),
    ("а пароль от вайфая где?", [note("пароль от вайфая на холодильнике", 0.9)], [1]),
    ("what was the landladys number", [note("landladys number", 0.9),
     note("landlady mrs holt 07700 900412", 0.85)], [2]),
    # What was said later, puts right or holds stands above.
    ("Есть ли у меня мотоцикл?", [note("Хочу мотоцикл", 0.4, day=1),
     note("У меня есть мотоцикл", day=2), note("Продал мотоцикл", 0.4, day=9)], [3, 2]),
    ("Когда стоматолог?", [note("стоматолог во вторник утром", uid="msg-4"),
     note("нет, в среду", 0.3, uid="msg-6", said_at="2026-11-20 09:08")], [2, 1]),
    ("Где я живу?", [OMSK, TOMSK], [2, 1]),
    # A change that names what answers stands first.
    ("на чем я езжу", [note("езжу на киа рио", day=1), note("продал киа взял ладу", 0.7, day=2)],
     [2, 1]),
    ("gym loker code", [note("gym locker code 3390", 0.5)], [1]),
])  # fmt: skip
def test_what_answers_a_question_is_quoted_in_its_order(
    question: str, memories: list[Any], numbers: list[int]
) -> None:
    assert numbers_quoted(question, *memories) == [f"[{number}]" for number in numbers]


OTHERS = note("Я живу в Омске", of_asker=False, speaker="Анна")


SUMMARY = note("Пользователь говорил: «Мой зонт»", id="summary-1", uid="summary-1")


@pytest.mark.parametrize(("question", "nothing"), [
    ("Где зонт?", found(note("Вчера был дождь", RELATED - 0.01))),
    ("Где зонт?", found(note("Вчера был дождь", 0.0))), ("Где зонт?", found(SUMMARY)),
    ("Где кот?", found("Где мой кот?", "как там кот")), ("Где мой зонт?", found(TOMSK)),
    ("Во что обуться?", found(note("Где мои сапоги?", 0.9))), ("Где я живу?", found(OTHERS)),
    ("Где кот?", found()), ("Где кот?", result("not json", "search_memory")),
    ("Где кот?", result({"memories": None}, "search_memory")),
    ("Где кот?", result("The tool failed.", "search_memory", failed=True)),
])  # fmt: skip
def test_without_anything_that_answers_it_says_that_it_does_not_know(
    question: str, nothing: ToolMessage
) -> None:
    assert reply(prompt(question, nothing, nothing)) == UNKNOWN_RU


def test_what_is_quoted_says_how_sure_it_is_of_whom_and_from_where() -> None:
    assert reply(prompt("Где зонт?", found(FAR))).startswith("≈")
    assert say("offline_earlier", "ru") in reply(
        prompt("Где я живу?", found(OMSK, TOMSK), found())
    )
    assert "Анна: Я живу в Омске" in reply(prompt("Где живёт Анна?", found(OTHERS)))
    topic = prompt("school pickup?", found(note("gym hours", 0.75)))
    assert "gym" not in answer(topic, TOOLS, kind=lambda _: "unsure").text
    wife = note("my wife is pregnant, due in april", 0.75)
    assert reply(prompt("when is the baby due?", found(wife))).startswith("≈")
    receipt = {**of_file("Капучино 220. " + "Прочее. " * 40), "similarity": 0.9}
    answered = reply(prompt("Сколько стоил капучино?", found(receipt)))
    assert "чек.txt: Капучино 220." in answered and len(answered) < 500
    texts = ["номер ветеринара", "Ключ у Оли", "Плащ в шкафу", "Сапоги в кладовке"]
    notes = [note(text, 0.75 - n / 50) for n, text in enumerate(texts)]
    lines = reply(prompt("Во что обуться?", found(*notes))).splitlines()
    assert lines[0] == say("offline_nearest", "ru")
    assert sum(line.startswith("•") for line in lines) == QUOTED == 3


@pytest.mark.parametrize(("question", "old", "new"), [
    ("where do i live", "i live on cowley rd", "we split up, at my sisters now"),
    ("на чем я езжу на работу", "езжу на работу на метро", "теперь езжу на велике"),
    ("скільки мг я п'ю зранку", "п'ю 5 мг зранку", "лікар змінив дозу, пʼю 10"),
])  # fmt: skip
def test_a_later_note_that_tells_of_a_change_stands_beside(
    question: str, old: str, new: str
) -> None:
    told, later, other = note(old, 0.9, 19), note(new, RELATED, 20), note("купила кота", 0.0)
    text = reply(prompt(question, found(told, later, other), found()))
    assert old in text and new in text and "кота" not in text
    before = reply(
        prompt(question, found(told, {**later, "said_at": "2026-11-18 09:00"}), found())
    )
    assert new not in before, "it changes nothing"


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
    """The answer, with the given results of tools; the newest notes are none."""
    message = answer(messages, tools)
    if [(call["name"], call["args"]) for call in message.tool_calls] == [NEWEST]:
        message = answer([*messages, found()], tools)
    assert message.tool_calls == []
    return str(message.text)


@pytest.mark.parametrize(("text", "statement", "name"), [
    ("Привет! Меня зовут Анна.", "Меня зовут Анна", "Анна"),
    ("Запам'ятай, будь ласка: мене звати Олена", "мене звати Олена", "Олена"),
    ("Hi, my name is Ann!", "my name is Ann", "Ann"),
])  # fmt: skip
def test_what_the_user_tells_is_saved_with_his_own_words_as_the_quote(
    text: str, statement: str, name: str
) -> None:
    fact = {
        "text": statement, "quote": statement, "memory_type": "user_fact", "importance": 10,
        "subject": "user", "relation": "name", "object": name, "message": "",
    }  # fmt: skip
    assert calls(prompt(text)) == [("save_user_fact", fact)]


@pytest.mark.parametrize(("text", "kept"), [
    ("Запомни: ключи под ковриком.", "ключи под ковриком"),
    ("Запам’ятай, що брат живе у Львові", "брат живе у Львові"),
    ("Remember that Tom is vegan", "Tom is vegan"),
])  # fmt: skip
def test_what_is_to_be_remembered_is_saved_as_it_stands(text: str, kept: str) -> None:
    [(name, fact)] = calls(prompt(text))
    assert (name, fact["text"], fact["relation"]) == ("save_user_fact", kept, "other")


@pytest.mark.parametrize(("text", "language"), [
    ("love thai food, always have", "en"), ("перебрались на прошлой неделе в ужгород", "ru"),
    ("у сусіда собака гавкає всю ніч", "uk"),
])  # fmt: skip
def test_all_else_that_is_told_is_a_note_and_no_fact(text: str, language: Language) -> None:
    assert reply(prompt(text)) == say("offline_noted", language)


@pytest.mark.parametrize("text", [
    "забудь, что я сказал", "скасуй, то я жартувала", "не я пошутил", "lol jk i made that up",
    "хах прикололся", "ой ні, забудь, не те написав", "oh wrong chat", "wait no drop that",
    "стой, убери последнее", "ні, прибери останнє", "i take that back",
])  # fmt: skip
def test_what_is_taken_back_is_the_note_before_it_as_a_whole(text: str) -> None:
    talk = [human("msg-3", "отдал дрель соседу"), AIMessage("ok"), human("msg-5", text)]
    assert calls(talk) == [("forget_fact", {"ids": ["msg-3"]})]


@pytest.mark.parametrize("text", [
    "nvm scrap that one", "тьфу нет убери это", "ой ні, прибери це",
])  # fmt: skip
def test_what_is_scrapped_is_the_note_before_it_though_a_reminder_waits(text: str) -> None:
    talk = [human("msg-3", "отдал дрель соседу"), AIMessage("ok"), human("msg-5", text)]
    [call] = answer(talk, CANCELS, kind=lambda _: "cancel").tool_calls
    assert call["args"] == {"ids": ["msg-3"]}


def test_with_nothing_before_it_is_asked_what_is_taken_back() -> None:
    assert reply([human("msg-5", "я пошутил")]) == say("forget_what", "ru")


@pytest.mark.parametrize(("told", "text"), [
    ("продал телек соседу", "шучу не продавал я телек"),
    ("i sold the van", "jk i didnt sell the van"), ("продав дачу", "жартую, не продав я дачу"),
])  # fmt: skip
def test_a_joke_that_is_denied_goes(told: str, text: str) -> None:
    talk = [human("msg-3", told), AIMessage("ok"), human("msg-5", text)]
    [saved] = calls(talk)  # before anything is hidden
    assert calls([*talk, result({}, "save_user_fact")]) == [("forget_fact", {"ids": ["msg-3"]})]
    assert (saved[0], saved[1]["message"]) == ("save_user_fact", "msg-5")
    assert text.endswith(saved[1]["text"]) and saved[1]["text"] != text


@pytest.mark.parametrize("text", [
    "не записывай следующее", "dont save the next thing", "the next message dont save",
    "наступне повідомлення не зберігай будь ласка", "то что щас скажу не сохраняй пж",
    "what im about to tell you stays between us", "шо зараз розкажу не записуй",
])  # fmt: skip
def test_of_the_next_message_it_keeps_nothing_when_that_is_asked(text: str) -> None:
    private = ("keep_private", {})
    announced = prompt(text)
    assert calls(announced) == [private]
    promised = reply([*announced, result({"private": True}, "keep_private")])
    assert promised == say("private_next", detect_language(text))
    told = [*announced, AIMessage(promised), human("msg-9", "весной уволюсь")]
    assert calls(told) == [private]
    after = [*told, AIMessage("Хорошо."), human("msg-11", "купил чайник")]
    assert calls(after) == []


@pytest.mark.parametrize(("text", "goes"), [
    ("scratch that, we stay in york", True), ("та я пожартувала, лишаємось", True),
    ("забудь, я пожартувала, не їдемо", True), ("да я пошутил, никуда не едем", True),
    ("отмена рейса прилечу завтра", False), ("scratch that, its on 25 may", False),
    ("scratch that, i sold it", False), ("scratch that, where is my cat?", False),
])  # fmt: skip
def test_what_is_taken_back_goes_whatever_is_told_instead(text: str, goes: bool) -> None:
    talk = [human("msg-3", "мы переезжаем в лидс"), AIMessage("Записано."), human("msg-5", text)]
    saved = result({}, "save_user_fact")
    assert (calls([*talk, saved]) == [("forget_fact", {"ids": ["msg-3"]})]) == goes
    after = [*talk[:2], human("msg-4", "а погода какая"), AIMessage("ok"), talk[-1]]
    assert "forget_fact" not in dict(calls([*after, saved])), "what was said long ago stays"


@pytest.mark.parametrize(("text", "about"), [
    ("i was joking about the raffle", "the raffle"), ("пошутил про лотерею", "лотерею"),
    ("жартувала про лотерею", "лотерею"),
])  # fmt: skip
def test_a_joke_is_taken_back_by_what_it_was_about(text: str, about: str) -> None:
    told, other = f"выиграли сто рублей, {about}", "купил чайник"
    before = [human("msg-1", told), AIMessage("ok"), human("msg-3", other), AIMessage("ok")]
    assert calls([*before, human("msg-5", text)]) == [("forget_fact", {"about": about})]
    assert calls([*before[2:], human("msg-5", text)]) == []


def test_that_no_model_is_connected_is_said_with_the_first_reply_of_a_day() -> None:
    said = ("вчера купил новый зелёный чайник", "а сегодня ещё и плед")

    def ask(*labels: str) -> str:
        talk: list[BaseMessage] = [SystemMessage(SYSTEM_PROMPT)]
        for label, text in zip(labels, said, strict=False):
            own = [TypedWords(uid="", text=text, is_asked=True)]
            written = f"[Текущее время: {label}] {text}"
            talk += [user_message(written, own, language="ru"), AIMessage("Записано.")]
        return reply(talk[:-1])

    noted, hint = say("offline_noted", "ru"), say("offline_note", "ru")
    assert ask("2026-11-21 11:05") == f"{noted}\n\n{hint}"
    assert ask("2026-11-21 08:00", "2026-11-21 11:05") == noted
    assert ask("2026-11-20 23:00", "2026-11-21 11:05") == f"{noted}\n\n{hint}"
    assert reply(prompt("ты кто")) == say("offline_identity", "ru"), "nor with who it is"


def test_what_is_told_is_saved_and_what_is_asked_besides_is_searched() -> None:
    told, searched, newest = calls(prompt("Меня зовут Анна. Где мои ключи?"))
    assert (told[0], told[1]["relation"]) == ("save_user_fact", "name")
    assert searched == ("search_memory", {"query": "Где мои ключи?", "limit": SEARCHED})
    assert newest == NEWEST


def test_the_outcomes_of_several_facts_are_lines_in_the_order_in_which_they_were_told() -> None:
    results = (
        saved("new", "Я люблю чай"),
        saved("refused", "Пароль 1", reason="secret"),
        saved("same", "Я живу в Омске"),
        saved("refused", "Пароль 2", reason="secret"),
        saved("refused", "Не это", reason="quote_not_said"),
        saved("update", "Я живу в Томске", replaced=["Я живу в Омске", "?"]),
        saved("outdated", "Я жил в Туле"),
    )
    assert reply(prompt("Я люблю чай …", *results)).split("\n") == [
        say("taught_new", "ru", text="Я люблю чай"),
        say("refused_secret", "ru"),
        say("taught_same", "ru", text="Я живу в Омске"),
        say("refused_other", "ru"),
        *say("taught_update", "ru", text="Я живу в Томске", old="Я живу в Омске; ?").split("\n"),
        say("taught_outdated", "ru", text="Я жил в Туле"),
    ], "each outcome is said once"


@pytest.mark.parametrize(
    "text", ["Как меня зовут?", "де живе мій брат", "where do i keep the keys"]
)
def test_a_question_is_searched_for_in_all_and_in_the_newest_notes(text: str) -> None:
    search = ("search_memory", {"query": text, "limit": SEARCHED})
    assert calls(prompt(text)) == [search, NEWEST]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("Который час?", ""), ("Сколько времени в Токио?", "Токио"),
        ("Котра година у Варшаві?", "Варшаві"),
    ],
)  # fmt: skip
def test_a_question_about_the_time_calls_the_clock_of_the_place(text: str, place: str) -> None:
    assert calls(prompt(text)) == [("current_time", {"time_zone": place})]


def test_the_time_is_told_and_an_unknown_city_is_named_so() -> None:
    answered = "2026-11-21 14:05, Saturday (Europe/Moscow, UTC+0300)"
    told = reply(prompt("Который час?", result(answered, "current_time")))
    assert told == say("offline_time", "ru", time=describe_time(answered, "ru"))
    failed = result("The tool failed.", "current_time", failed=True)
    assert reply(prompt("Который час в Ыбэ?", failed)) == say("offline_no_city", "ru")


@pytest.mark.parametrize(("question", "language", "quoted"), [
    ("Как меня зовут?", "ru", "• 20.11.2026 09:07: «Меня зовут Анна» [1]"),
    ("Як мене звати?", "uk", "• 20.11.2026 09:07: «Меня зовут Анна» [1]"),
    ("What is my name?", "en", "• 20.11.2026 09:07: “Меня зовут Анна” [1]"),
])  # fmt: skip
def test_what_the_search_found_is_quoted_with_its_date_and_number(
    question: str, language: Language, quoted: str
) -> None:
    text = reply(prompt(question, found("Меня зовут Анна"), found()))
    assert text == f"{say('offline_quote_one', language)}\n\n{quoted}"


@pytest.mark.parametrize(("said", "told", "question"), [
    ("а вы знали что пельмени варят в чайнике? я так чайник спалил, должен арсению 900р",
     "900р", "сколько я должен арсению за чайник"),
    ("do u know my hamster waffles escaped again? she was behind the piano",
     "she was behind the piano", "where was waffles the hamster"),
    ("слухай а то нормально що моя шкода їсть 9 літрів на сотню?",
     "моя шкода їсть 9 літрів на сотню?", "скільки їсть моя шкода на сотню"),
])  # fmt: skip
def test_what_is_told_in_passing_beside_a_question_is_quoted_without_it(
    said: str, told: str, question: str
) -> None:
    quote = reply(prompt(question, found({"text": said, "similarity": 0.7})))
    assert told in quote and said not in quote
    noted = say("offline_noted", detect_language(said))
    assert reply(prompt(said, found())).startswith(noted)


@pytest.mark.parametrize(
    ("nearness", "title"), [(0.9, "offline_quote_one"), (0.7, "offline_nearest")]
)
def test_of_later_changes_those_of_the_quoted_thing_come_first(
    nearness: float, title: str
) -> None:
    old = {"text": "rent is 640 a month", "similarity": nearness, "said_at": "2026-11-19 09:00"}
    texts = (
        "they moved me to ward 11",
        "got a new bike",
        "rent is 675 now",
        "the new kettle leaks",
    )
    later = [{"text": text, "similarity": 0.5} for text in texts]
    shown = reply(prompt("what do i pay for the flat", found(old, *later), found()))
    assert shown.startswith(say(title, "en"))
    assert "675" in shown and "kettle" not in shown


@pytest.mark.parametrize(("question", "is_", "was"), [
    ("which ward am i on now", "im on ward 7 now", "til may i was on ward 12"),
    ("в какой комнате я живу", "живу в комнате 302", "раньше жила в комнате 514"),
])  # fmt: skip
def test_what_was_stands_behind_what_is_though_told_later(
    question: str, is_: str, was: str
) -> None:
    told = found(note(is_, 0.9, day=20), note(was, 0.9, day=21))
    shown = reply(prompt(question, told, found()))
    assert 0 < shown.index(is_) < shown.index(was)


@pytest.mark.parametrize(("before", "text", "when"), [
    ("remind me tomorrow at 8 to pay", "and at 9 ring the school", "tomorrow at 9"),
    ("напомни в пятницу в 8 оплатить", "и в 9 позвонить в школу", "в пятницу в 9"),
    ("remind me in an hour to pay", "and at 9 ring the school", "at 9"),
])  # fmt: skip
def test_a_further_request_is_on_the_day_of_the_one_before(
    before: str, text: str, when: str
) -> None:
    talk = [*prompt(before), asks("reminder", "ok"), *prompt(text)[-1:]]
    [(_, order)] = calls(talk, (*CANCELS, "set_reminder"))
    assert order["when"].partition(": ")[2].startswith(when)


@pytest.mark.parametrize(("kind", "text", "tool"), [
    ("forget", "who forgets his keys", "search_memory"),
    ("forget", "хто забуває ноти", "search_memory"), ("undo", "i got my deposit back", None),
    ("remind", "how do i get into ward 6", "search_memory"),
    ("undo", "що там назару не можна, чого він не переносить", "search_memory"),
    ("move", "где я буду в 9", "search_memory"),
])  # fmt: skip
def test_what_only_sounds_like_an_order_changes_nothing(
    kind: str, text: str, tool: str | None
) -> None:
    tools = (*CANCELS, "undo_change", "set_reminder")
    made = answer(prompt(text), tools, kind=lambda _: kind).tool_calls
    assert {call["name"] for call in made} == ({tool} if tool else set())


@pytest.mark.parametrize(("kind", "text"), [
    ("request", "add tea to the list"), ("request", "добавь в список пеньюары"),
    ("undo", "put milk back on the list"), ("undo", "верни лампочки в список"),
    ("undo", "поверни дріт до списку"),
])  # fmt: skip
def test_what_is_put_on_a_list_is_a_note(kind: str, text: str) -> None:
    said = answer(prompt(text), (*TOOLS, "undo_change"), kind=lambda _: kind)
    assert str(said.text).startswith(say("offline_noted", detect_language(text)))


@pytest.mark.parametrize(("told", "text"), [
    ("код складу 4417", "код складу"), ("the shed key hangs by the door", "shed key"),
    ("ключ от бани у Васи", "ключ от бани"),
])  # fmt: skip
def test_words_of_a_note_alone_ask_for_it(told: str, text: str) -> None:
    talk = [human("msg-1", told), AIMessage("ok")]
    asked = answer([*talk, human("msg-3", text)], TOOLS, kind=lambda _: "note")
    assert asked.tool_calls[0]["name"] == "search_memory"
    other = [human("msg-1", "купил хлеб"), AIMessage("ok")]
    assert not answer([*other, human("msg-3", text)], TOOLS, kind=lambda _: "note").tool_calls


@pytest.mark.parametrize(("item", "thing", "text"), [
    ("screws", "the plumber", "take {} off too"), ("лампочки", "сантехника", "вычеркни {}"),
    ("цвяхи", "сантехніка", "викресли {}"), ("milk", "the plumber", "cross off {}"),
])  # fmt: skip
def test_what_is_crossed_off_stands_on_a_list_or_is_a_reminder(
    item: str, thing: str, text: str
) -> None:
    told = [human("msg-1", f"список, shopping list: x, {item}, y"), AIMessage("ok")]
    order = text.format(item)
    crossed = [("forget_fact", {"about": order})]
    assert calls([*told, human("msg-5", order)], CANCELS) == crossed
    assert calls([human("msg-1", item), *told[1:], human("msg-5", order)], CANCELS) != crossed
    asked = [human("msg-3", f"remind me tomorrow at 9: {thing}"), AIMessage("ok")]
    order = text.format(thing)
    cancelled = answer([*told, *asked, human("msg-5", order)], CANCELS, kind=lambda _: "cancel")
    assert cancelled.tool_calls[0]["name"] == "cancel_reminder"


@pytest.mark.parametrize(("before", "text", "is_asked"), [
    ("what was my ferritin", "and vit d", True), ("сколько я должен серёге", "а саньку", True),
    ("i have low ferritin", "and vit d", False), ("what was my ferritin", "and i feel ok", False),
    ("скільки я винен", "та 300 на шторі", False),
])  # fmt: skip
def test_a_thing_alone_behind_a_question_is_asked_for(
    before: str, text: str, is_asked: bool
) -> None:
    talk = [*prompt(before), AIMessage("ok"), *prompt(text)[-1:]]
    searched = answer(talk, TOOLS, kind=lambda _: "note").tool_calls
    assert bool(searched) is is_asked


def test_an_overview_lists_facts_and_notes_the_newest_first() -> None:
    facts = [{"id": f"fact-{n}", "n": n, "uid": f"msg-{n}", "said_at": f"2026-11-{n:02} 09:07",
              "text": f"Сестра подарила мне книгу {n}"} for n in range(1, 9)]  # fmt: skip
    facts[3]["holds"] = False
    notes = [{**fact, "text": "А мама — вазу",
              "id": f"msg-{fact['n'] + 1}", "uid": f"msg-{fact['n'] + 1}", "n": 20}
             for fact in facts[-2:]]  # fmt: skip
    notes.append({**notes[-1], "uid": "msg-30", "id": "msg-30", "text": "спасибо", "n": 21})
    for kind, text in (("profile", "Что ты обо мне знаешь?"), ("family", "Расскажи о моей семье")):
        listed = result({"memories": facts, "overview": kind}, "search_memory")
        more = result({"memories": notes, "overview": "period"}, "search_memory")
        assert [name for name, _ in calls(prompt(text))] == ["search_memory"] * 2
        head, *lines = reply(prompt(text, listed, more)).splitlines()
        assert head == say(f"offline_overview_{kind}", "ru")
        numbers = [line.rpartition("[")[2].rstrip("]") for line in lines if line]
        assert numbers == ["20", "8", "7", "6", "5", "3", "2", "1"]
        assert len(numbers) <= OVERVIEW_LINES
        nothing = result({"memories": [], "overview": kind}, "search_memory")
        assert reply(prompt(text, nothing, nothing)) == UNKNOWN_RU


def test_an_overview_shows_what_a_note_tells_beside_its_fact() -> None:
    row = {"uid": "msg-1", "said_at": "2026-11-01 09:07", "n": 1}
    fact = {**row, "id": "fact-1", "text": "Мене звати Соломія"}
    asked = prompt("Що ти про мене знаєш?")
    for text, shown in (
        ("Мене звати Соломія, а чоловік Остап лагодить годинники", "Остап лагодить"),
        ("Привіт! Мене звати Соломія", "«Мене звати Соломія»"),
    ):
        listed = result({"memories": [fact], "overview": "profile"}, "search_memory")
        note = {**row, "id": "msg-1", "text": text, "n": 2}
        newest = result({"memories": [note], "overview": "period"}, "search_memory")
        _, _, *lines = reply([*asked, listed, newest]).splitlines()
        assert len(lines) == 1 and shown in lines[0]


@pytest.mark.parametrize(("kind", "text", "call"), [
    ("cancel", "the vet is done, no more", ("cancel_reminder", {"id": "vet is done no more"})),
    ("move", "yoga rather at 8pm", ("set_reminder", {
        "text": "yoga rather", "when": "at 8pm", "moves": "yoga rather"})),
    ("remind", "make sure i call mum at 9", ("set_reminder", {
        "text": "make sure i call mum", "when": "make sure i call mum at 9"})),
    ("list", "so what is set", ("list_reminders", {})),
    ("forget", "please that loan, erase", ("forget_fact", {
        "about": "that loan", "everything": False})),
    ("undo", "back it goes", ("undo_change", {})),
    ("note", "верни что забыла, зря я", ("undo_change", {})),
    ("undo", "ой ні верни як було", ("undo_change", {})),
])  # fmt: skip
def test_an_order_in_other_words_is_carried_out_by_its_kind(
    kind: str, text: str, call: tuple[str, dict[str, Any]]
) -> None:
    tools = (*CANCELS, "set_reminder", "undo_change")
    [made] = answer(prompt(text), tools, kind=lambda _: kind).tool_calls
    assert (made["name"], made["args"]) == call


@pytest.mark.parametrize(("text", "arguments"), [
    ("Забудь, что у меня есть кот", {"about": "у меня есть кот", "everything": False}),
    ("Видали все про кота", {"about": "кота", "everything": True}),
])  # fmt: skip
def test_a_request_to_forget_calls_the_tool_with_the_user_s_words(
    text: str, arguments: dict[str, Any]
) -> None:
    assert calls(prompt(text)) == [("forget_fact", arguments)]
    assert reply(prompt("Забудь")) == say("forget_what", "ru"), "it names nothing"


@pytest.mark.parametrize(
    "text", ["Забудь всё", "Забудь усе, що ти знаєш про мене", "Forget everything"]
)
def test_before_everything_is_forgotten_the_user_is_asked(text: str) -> None:
    assert calls(prompt(text)) == [("forget_everything", {})]
    language: Language = detect_language(text)
    asked = result({"confirm": True}, "forget_everything")
    assert reply(prompt(text, asked)) == say("forget_everything_ask", language)


@pytest.mark.parametrize(
    "text", ["Не запоминай это: я курю", "Це між нами: я палю", "Off the record: I smoke"]
)
def test_what_is_to_be_kept_quiet_is_saved_nowhere(text: str) -> None:
    assert calls(prompt(text)) == [("keep_private", {})]
    kept = result({"private": True}, "keep_private")
    assert reply(prompt(text, kept)) == say("kept_private", detect_language(text))


def test_what_came_of_a_request_to_forget_is_told() -> None:
    tea = [{"id": "fact-1", "text": "Я люблю чай"}, {"id": "fact-2", "text": "Чай кончился"}]

    def told(**outcome: Any) -> list[str]:
        record = {"forgotten": [], "ask": [], "nearest": [], **outcome}
        return reply(prompt("Забудь про чай", result(record, "forget_fact"))).split("\n")

    assert told(forgotten=["Я люблю чай"]) == [say("forgot", "ru", text="Я люблю чай")]
    listed = [f"• {say('quoted', 'ru', text=entry['text'])}" for entry in tea]
    assert told(ask=tea) == [say("forget_which", "ru"), *listed]
    nothing = say("forgot_nothing", "ru")
    assert told(nearest=tea) == [f"{nothing} {say('forget_nearest', 'ru')}", *listed]
    assert told() == [nothing]
    failed = result("The tool failed.", "forget_fact", failed=True)
    assert reply(prompt("Забудь про чай", failed)) == nothing


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


@pytest.mark.parametrize(("text", "expected"), [
    ("Меня зовут Анна", Understanding(intent="teach", facts=[
        fact("Меня зовут Анна", importance=10, relation="name", object="Анна")])),
    ("Париж это столица всей Франции", Understanding(intent="teach", facts=[
        fact("Париж это столица всей Франции")])),
    ("Де я живу", Understanding(intent="solve")), ("", Understanding(intent="solve")),
    ("Tell me a joke", Understanding(intent="solve")),
    ("Забудь про кота", Understanding(intent="forget", query="кота")),
    ("Forget everything", Understanding(intent="forget")),
])  # fmt: skip
def test_a_message_is_understood_as_what_it_tells_asks_or_takes_back(
    text: str, expected: Understanding
) -> None:
    recent = [{"role": "user", "text": "Меня зовут Борис"}, {"role": "assistant", "text": "Ок"}]
    assert filled(understanding_messages(new(text), recent), Understanding) == expected


def test_a_strict_answer_is_a_quote_or_unknown() -> None:
    assert strictly("Где мой кот?") == ""
    assert strictly("Где мой кот?", "Где мой кот?", "Як звати кота") == ""
    spare, only = "The Okafors have our spare key", say("offline_only_this", "en")
    assert strictly("who has our spare key?", spare) == f"{spare} [msg-1]"
    assert strictly("how old is our spare key?", spare) == f"{only}\n{spare} [msg-1]"


@pytest.mark.parametrize(("text", "about", "everything"), [
    ("Все", "Костю", True), ("all of them", "Костю", True), ("второе", "У Кости кот", False),
    ("The first one", "Костя — повар", False), ("останнє", "С Костей мы друзья", False),
    ("про кота", "про кота", False), ("9", "9", False),
])  # fmt: skip
def test_which_of_several_is_to_be_forgotten(text: str, about: str, *, everything: bool) -> None:
    told = ("Костя — повар", "У Кости кот", "С Костей мы друзья")
    asked = "\n".join([say("forget_which", "ru"), *(f"• «{one}»" for one in told)])
    talk = [HumanMessage("Забудь про Костю"), asks("forget_which", asked), HumanMessage(text)]
    assert calls(talk) == [("forget_fact", {"about": about, "everything": everything})]


@pytest.mark.parametrize(("text", "about"), [
    ("forget number 2", "Шины у отца"), ("удали второе", "Шины у отца"),
    ("видали 1", "Шины новые"), ("забудь про отца", "отца"), ("forget 9", "9"),
])  # fmt: skip
def test_a_quote_is_forgotten_by_its_number(text: str, about: str) -> None:
    told = "Вот:\n\n• 27.11.2026 10:00: «Шины новые» [1]\n• 26.11.2026 10:00: «Шины у отца» [2]"
    talk = [HumanMessage("что с шинами?"), AIMessage(told), HumanMessage(text)]
    assert calls(talk) == [("forget_fact", {"about": about, "everything": False})]


def test_results_of_an_earlier_turn_are_not_quoted_again() -> None:
    earlier = [HumanMessage("Где кот?"), found("кот дома"), AIMessage("дома")]
    assert answer([*earlier, HumanMessage("Где пёс?")], TOOLS).tool_calls
    assert reply([*earlier, HumanMessage("Спасибо!")]) == say("offline_thanks", "ru")


def test_facts_are_extracted_from_what_the_user_said_and_from_nothing_else() -> None:
    messages = [
        {"uid": "msg-1", "role": "user", "said_at": "x", "text": "Меня зовут Анна"},
        {"uid": "msg-2", "role": "assistant", "said_at": "x", "text": "Я живу в Омске"},
        {"uid": "msg-3", "role": "user", "said_at": "x", "text": "Где я живу?"},
        {"uid": "msg-4", "role": "user", "said_at": "x", "text": "Я родилась 5 мая. </messages>"},
        {"uid": "msg-5", "role": "user", "said_at": "x", "text": "My name\u2028is Ann\x85"},
    ]
    extracted = filled(extraction_messages(messages, {1: "Я живу в Туле"}), ExtractedFacts)
    assert isinstance(extracted, ExtractedFacts)
    assert [(fact.message, fact.relation, fact.object) for fact in extracted.facts] == [
        ("msg-1", "name", "Анна"),
        ("msg-4", "birthday", "5 мая"),
        ("msg-5", "name", "Ann"),
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
    cut = "Меня зовут Анна, […] день рождения 5 мая"
    assert extracted_from(cut) == ["Меня зовут Анна", "день рождения 5 мая"]


def strictly(task: str, *quotes: str) -> str:
    """The answer from these quotes."""
    context = [
        {"uid": f"msg-{number}", "said_at": "2026-11-20 09:07", "text": text}
        for number, text in enumerate(quotes, start=1)
    ]
    understood = filled(understanding_messages(new(task), [], context), Understanding)
    assert isinstance(understood, Understanding) and understood.query == "", "no search helps"
    return understood.answer


def test_a_summary_quotes_the_beginnings_of_what_the_user_told() -> None:
    messages = [
        {"role": "user", "text": "Меня зовут Анна"},
        {"role": "assistant", "text": "Тайна помощника"},
        {"role": "user", "text": "Как меня зовут?"},
        {"role": "user", "text": "Где я живу?"},
        {"role": "user", "text": f"I want a flat {'ok ' * 40}"},
        {"role": "user", "text": "Меня зовут Анна"},
        {"role": "user", "text": "  "},
    ]
    summary = reply(summary_messages(messages), ())
    assert summary.startswith("«Меня зовут Анна»; “I want a flat ok ok ok") and len(summary) < 100
    assert summary.endswith("ok…”")
    only_questions = [{"role": "user", "text": "Как меня зовут?"}]
    assert reply(summary_messages(only_questions), ()) == "«Как меня зовут?»"


@pytest.mark.parametrize("text", [
    "Кто видит моего брата по выходным?", "Как удалить пятно?", "Who reads Tolstoy in my family?",
    "так кто чинил забор", "лена коллега чего не ест", "катя рыжая что обычно берет",
    "адреса пошти на розі", "dentist's phone number", "код от калитки подскажи, курьер приехал",
    "ok cool thanks. what band is our council tax", "дай телефон няни", "скинь номер няні",
])  # fmt: skip
def test_other_questions_are_searched_for(text: str) -> None:
    assert [name for name, _ in calls(prompt(text))] == ["search_memory"] * 2


@pytest.mark.parametrize(("text", "language"), [
    ("Напомни", "ru"), ("напомни мне!", "ru"), ("Нагадай", "uk"), ("remind me", "en"),
])  # fmt: skip
def test_a_bare_order_to_remind_is_asked_about(text: str, language: Language) -> None:
    asked = user_message(text, [TypedWords(uid="msg-1", text=text, is_asked=True)])
    tools = (*TOOLS, "set_reminder")
    assert calls([asked], tools) == [("set_reminder", {"text": "-"})]
    refused = result({"set": False, "reason": "no_time"}, "set_reminder")
    assert reply([asked, refused], tools) == say("reminder_no_time", language)
    more = user_message("tomorrow at 10 call Kate", [
        TypedWords(uid="msg-2", text="tomorrow at 10 call Kate", is_asked=True)
    ])  # fmt: skip
    talk = [asked, asks("reminder_time", say("reminder_no_time", language)), more]
    assert [name for name, _ in calls(talk, tools)] == ["set_reminder"]


@pytest.mark.parametrize(("text", "is_answer"), [
    ("завтра в 9", True), ("9", True), ("ну давай в пятницу в 18, пожалуйста", True),
    ("зватра утром", True), ("люблю суши, но ненавижу роллы с огурцом", False),
    ("в пятницу я ел суши", False), ("кота зовут Барсик", False), ("how about friday at 9", True),
    ("кто дежурит в пятницу", False), ("хто чергує в пт", False), ("which room on friday", False),
])  # fmt: skip
def test_only_a_time_answers_the_question_when_to_remind(text: str, is_answer: bool) -> None:
    asked = user_message("Напомни купить суши", [
        TypedWords(uid="msg-1", text="Напомни купить суши", is_asked=True)
    ])  # fmt: skip
    more = user_message(text, [TypedWords(uid="msg-2", text=text, is_asked=True)])
    talk = [asked, asks("reminder_time", say("reminder_no_time", "ru")), more]
    named = [name for name, _ in calls(talk, (*TOOLS, "set_reminder"))]
    assert (named == ["set_reminder"]) == is_answer


CANCELS = ("list_reminders", "cancel_reminder", "search_memory", "save_user_fact", "forget_fact")


@pytest.mark.parametrize(("text", "about"), [
    ("скасуй нагадування про хліб", "хліб"), ("отмени напоминание", "it"),
    ("Отмени, пожалуйста, напоминание о хлебе", "хлебе"),
    ("больше не напоминай мне про таблетки", "таблетки"),
    ("cancel the rent reminder my flatmate paid", "rent flatmate paid"),
    ("stop reminding me about the rent", "rent"), ("аренду убери из напоминаний", "аренду"),
    ("не треба більше нагадувати про оренду", "оренду"), ("stop reminding me", "it"),
    ("cancel all my reminders", "all"),
])  # fmt: skip
def test_a_reminder_is_cancelled_by_what_it_is_about(text: str, about: str) -> None:
    assert calls(prompt(text), CANCELS) == [("cancel_reminder", {"id": about})]


def test_what_became_of_a_request_to_cancel_is_said() -> None:
    listed = [{"id": "reminder-1", "text": "пить таблетки", "time": "каждый день в 22:00"}]
    which = {"cancelled": False, "reason": "which", "reminders": listed}
    asked = reply(prompt("Отмени напоминание", result(which, "cancel_reminder")), CANCELS)
    line = "• пить таблетки: каждый день в 22:00"
    assert asked == f"{say('reminder_which', 'ru')}\n{line}", "and no second hint"
    done = result({"cancelled": True, "text": "пить таблетки"}, "cancel_reminder")
    told = reply(prompt("Отмени напоминание про таблетки", done), CANCELS)
    assert told == say("reminder_cancelled", "ru", text="пить таблетки")


@pytest.mark.parametrize(("text", "reply_to_list", "call"), [
    ("cancel it", "the mum one", ("cancel_reminder", {"id": "the mum one"})),
    ("скасуй", "друге", ("cancel_reminder", {"id": "pay rent to mum"})),
    ("отмени напоминание", "все", ("cancel_reminder", {"id": "all"})),
    ("move it to 11", "rent",
     ("set_reminder", {"text": "it", "when": "at 11", "moves": "rent"})),
])  # fmt: skip
def test_the_reminder_is_named_that_was_asked_for(
    text: str, reply_to_list: str, call: tuple[str, dict[str, str]]
) -> None:
    listed = "\n• call mum: tomorrow, at 09:00\n• pay rent to mum: on Saturday, at 10:00\n"
    asked = [*prompt(text), asks("reminder_which", say("reminder_which", "uk") + listed)]
    tools = (*CANCELS, "set_reminder")
    assert calls([*asked, *prompt(reply_to_list)[-1:]], tools) == [call]
    for other in ("i bought a jacket", "which one was rent?"):
        assert "reminder" not in str(calls([*asked, *prompt(other)[-1:]], tools))


@pytest.mark.parametrize(("text", "order", "note", "reason"), [
    ("отмени", "позвонить маме", "я купил новую куртку", "мама сама позвонила"),
    ("скасуй", "полити квіти", "купила нову куртку", "сестра полила квіти"),
    ("cancel it", "call mum", "i bought a new jacket", "mum called just now"),
])  # fmt: skip
def test_a_bare_verb_behind_a_note_takes_the_note_back(
    text: str, order: str, note: str, reason: str
) -> None:
    def said_after(told: str, *between: BaseMessage) -> list[tuple[str, dict[str, Any]]]:
        language = detect_language(text)
        reminded = asks("reminder", say("reminder_set", language, time="11:00", text=order))
        talk = [human("msg-1", "?"), reminded, human("msg-3", told), AIMessage("ok")]
        return calls([*talk, *between, human("msg-5", text)], CANCELS)

    reminder = [("cancel_reminder", {"id": "it"})]
    assert said_after(note) == [("forget_fact", {"ids": ["msg-3"]})]
    assert said_after(reason) == reminder, "it may be why"
    listed = asks("reminder", say("reminders_title", "en", count=1))
    assert said_after(note, human("msg-4", "/reminders"), listed) == reminder
    assert said_after(note, human("msg-4", "спасибо"), AIMessage("ok")) == reminder
    told = [human("msg-3", note), AIMessage("ok"), human("msg-5", text)]
    assert calls(told, (*TOOLS, "set_reminder")) == [("forget_fact", {"ids": ["msg-3"]})]


@pytest.mark.parametrize(("text", "about"), [
    ("cancel the bread one, tom has some", "bread"), ("про хлеб отмени", "хлеб"),
    ("cancel that one", "it"), ("gran has it, so cancel the bread one", "bread"),
    ("отмени про хлеб, уже купили", "хлеб"), ("хлеб больше не надо напоминать", "хлеб"),
    ("cancel everything", "all"), ("i dont need the bread reminder", "bread"),
    ("напоминание про хлеб больше не нужно, отмени", "хлеб"),
    ("нагадування про хліб вже не треба", "хліб"), ("the bread reminder isnt needed", "bread"),
    ("отменишь врача?", "врача"), ("скасуєш хлів?", "хлів"),
    ("хліб не треба, відміни", "it"), ("tick it off", "it"),
    ("торт отмени муж заберет", "торт"), ("cancel everything but the gym", "all but gym"),
    ("отмени все напоминания, кроме врача и торта", "all but врача, торта"),
    ("скасуй усі нагадування крім басейну", "all but басейну"),
    ("cancel the vet and the blue bin", "vet, blue bin"),
    ("помыть окна отмени дождь идёт", "помыть окна"),
])  # fmt: skip
def test_a_reminder_is_cancelled_that_is_not_called_one(text: str, about: str) -> None:
    assert read_change(text) == CancelOrder(id=about)


@pytest.mark.parametrize(("text", "about", "when"), [
    ("ugh ok then move it to 11am", "it", "11am"),
    ("перенеси на 12:30, утром не успею", "it", "12:30"),
    ("move the rent one to 10, payday moved", "rent", "at 10"),
    ("hm no, the gym is closed then. move it to thursday", "it", "thursday"),
    ("ой ні, в неї вихідний, перенеси лікаря на вівторок", "лікаря", "вівторок"),
    ("make that friday instead", "it", "friday"), ("make that one 5pm", "it", "5pm"),
    ("можешь перенести стоматолога на 12?", "стоматолога", "at 12"),
    ("перенеси педикюр со среды на четверг", "педикюр", "четверг"),
    ("посылку на 19:15 перенеси", "посылку", "19:15"),
    ("стоп не о 7:45 а о 6:30 перенеси", "it", "о 6:30"),
    ("move it not to 7 but to 8:15", "it", "8:15"), ("bump the rent to 9pm", "rent", "9pm"),
    ("перенеси на 2 часа", "it", "2 часа"), ("перенеси на 19:00?", "it", "19:00"),
    ("перенесёшь врача на 10?", "врача", "at 10"), ("перенесеш його на 20:00?", "it", "20:00"),
    ("ой ні, відклади ще на годину пізніше", "it", "годину пізніше"),
    ("перенеси на 18:20 дзвінок мамі", "дзвінок мамі", "18:20"),
    ("ugh stuck at work can you move yoga to 8pm", "yoga", "8pm"),
    ("make the dough one 19:00 instead, ill be late", "dough one", "19:00"),
    ("move the rent to the 20th", "rent", "on the 20th"), ("move it to sat", "it", "on sat"),
    ("cant do monday, push it to tues half past 12", "it", "on tues half past 12"),
    ("перенеси квартплату на 20-е в 10", "квартплату", "on the 20th в 10"),
    ("oh wait make that one 2 pm she sleeps in", "it", "2 pm"),
    ("shove the rent one to tuesday same time", "rent", "tuesday"),
    ("actually the party is at 8pm move it", "party", "at 8pm"),
    ("збори перенесли на 11 грудня, посунь", "збори", "11 грудня"),
    ("move the gym to 8 mate cant make 7", "gym", "at 8"),
    ("from now on make the swim 6:40 instead", "swim", "6:40"),
    ("педикюр перенеси на среду мастер занят", "педикюр", "среду"),
])  # fmt: skip
def test_a_reminder_is_moved_whatever_is_said_around_it(text: str, about: str, when: str) -> None:
    order = read_change(text)
    assert isinstance(order, ReminderOrder)
    told = order.when.removeprefix("на ").removeprefix("to ").removeprefix("for ")
    assert (order.moves, told) == (about, when)


@pytest.mark.parametrize(("reminder", "told", "is_over"), [
    ("забрать посылку", "посылку забрал, можно убрать", True), ("call mum", "mum called", True),
    ("вимкнути духовку", "духовку вже вимкнув, готово", True),
    ("pay council tax", "oh wait just paid the council tax", True),
    ("take the bins out", "took the bins out", True),
    ("call the vet", "Gary called the vet", False),
    ("позвонить маме", "брат позвонил маме", False), ("купить хлеб", "забыл купить хлеб", False),
    ("купить хлеб", "не купил хлеб", False), ("купить хлеб", "купил машину", False),
    ("купить хлеб", "купил хлеб?", False), ("про посылку", "забрал посылку", False),
    ("купить хлеб", "купил хлеб, напомни завтра в 9 купить хлеб", False),
    ("здати лабу з фізики бондарчуку", "лабу здав", True),
    ("здати лабу з фізики бондарчуку", "здав лабу з хімії", False),
    ("отдать Кате книгу по химии", "книгу отдала", True),
    ("купить хлеб, молоко и сыр", "купил хлеб", False),
    ("hand in the essay on Hamlet to Mrs Bond", "handed in the essay finally", True),
])  # fmt: skip
def test_what_is_told_to_be_done_is_over(reminder: str, told: str, is_over: bool) -> None:
    assert (tells_of_past(told) and is_done(reminder, told)) == is_over


@pytest.mark.parametrize("text", [
    "О чём ты мне напомнишь?", "what did i ask you to remind me about", "any reminders left?",
    "so what reminders do i still have pls", "що я просила нагадати", "напоминания покажи",
    "when will you remind me about the bread", "which nudges are still on",
    "so whats left to remind me of", "what all you gonna bug me about",
    "чё там по напоминалкам", "шо там по нагадувалках",
])  # fmt: skip
def test_reminders_are_listed_in_other_words(text: str) -> None:
    assert calls(prompt(text), CANCELS) == [("list_reminders", {})]


@pytest.mark.parametrize("text", ["so whens the next pilates", "when is my next pilates?"])
def test_a_question_for_the_next_time_of_a_reminder_lists_them(text: str) -> None:
    asked = [*prompt("remind me every tuesday at 10 about pilates"), AIMessage("ok")]
    listing = ("list_reminders", {})
    assert calls([*asked, *prompt(text)[-1:]], CANCELS) == [listing]
    assert listing not in calls(prompt(text), CANCELS), "it may be in a note"


@pytest.mark.parametrize(("text", "call"), [
    ("no sorry, 10", ("set_reminder", {"text": "it", "when": "at 10", "moves": "it"})),
    ("ой, лучше в 11", ("set_reminder", {"text": "it", "when": "в 11", "moves": "it"})),
    ("давай на час позже",
     ("set_reminder", {"text": "it", "when": "на час позже", "moves": "it"})),
    ("an hour later pls",
     ("set_reminder", {"text": "it", "when": "an hour later", "moves": "it"})),
    ("ой не в 6, в 7", ("set_reminder", {"text": "it", "when": "в 7", "moves": "it"})),
    ("та не треба вже, кінь сам приїде", ("cancel_reminder", {"id": "it"})),
    ("не надо уже про собаку, сам заберёт", ("cancel_reminder", {"id": "собаку"})),
    ("never mind", ("cancel_reminder", {"id": "it"})),
    ("давай лучше ровно в 8 утра",
     ("set_reminder", {"text": "it", "when": "в 8 утра", "moves": "it"})),
    ("vet an hour later pls",
     ("set_reminder", {"text": "vet", "when": "an hour later", "moves": "vet"})),
    ("the vet at 8 instead",
     ("set_reminder", {"text": "the vet", "when": "at 8", "moves": "the vet"})),
    ("it from now on at 8", ("set_reminder", {"text": "it", "when": "at 8", "moves": "it"})),
    ("the vet now at 8",
     ("set_reminder", {"text": "the vet", "when": "at 8", "moves": "the vet"})),
    ("rather in an hour the vet",
     ("set_reminder", {"text": "the vet", "when": "in an hour", "moves": "the vet"})),
    *((text, ("set_reminder", {"text": "it", "when": when, "moves": "it"})) for text, when in (
        ("не, я имел в виду четверг", "on четверг"), ("нє, в четвер", "в четвер"),
        ("не я мала на увазі чт", "on чт"), ("ой, в чт", "в чт"), ("в чт а не в пт", "в чт"),
        ("я же сказал в четверг", "в четверг"), ("i meant thursday not friday", "on thursday"),
        ("она перенесла на воскр в то же время", "on воскр"),
        ("вона перенесла на неділю на той же час", "на неділю"),
        ("its been moved to sun, same time", "on sun"),
    )),
])  # fmt: skip
def test_a_bare_time_changes_the_reminder_just_spoken_of(
    text: str, call: tuple[str, dict[str, str]]
) -> None:
    told = say("reminder_set", "en", time="tomorrow", text="vet")
    asked = prompt("remind me tomorrow at 9 to call the vet")
    tools = (*CANCELS, "set_reminder")
    assert calls([*asked, asks("reminder", told), *prompt(text)[-1:]], tools) == [call]
    assert call not in calls([*asked, AIMessage(told), *prompt(text)[-1:]], tools)


@pytest.mark.parametrize(("text", "what"), [
    ("and monday half 3 in the afternoon ring the bank", "ring the bank"),
    ("и каждое воскресенье в 21 полить кактус", "полить кактус"),
    ("і в пн о 17:30 забрати ковдру", "забрати ковдру"),
    ("also fri 9am collect the parcel", "collect the parcel"),
    ("and on friday mum comes", None), ("and i saw her at 5", None),
])  # fmt: skip
def test_a_further_request_needs_no_order_right_behind_an_answer(
    text: str, what: str | None
) -> None:
    talk = [*prompt("remind me"), asks("reminder", "ok"), *prompt(text)[-1:]]
    tools = (*CANCELS, "set_reminder")
    asked = [order["text"] for name, order in calls(talk, tools) if name == "set_reminder"]
    assert asked == ([what] if what else [])
    assert "set_reminder" not in dict(calls(prompt(text), tools))
    answered = read_calls([*talk, AIMessage("Sure, I will remind you!")], tools)
    assert dict(answered).get("set_reminder", {}).get("text") == what, "a model made no call"


def test_a_request_behind_an_answer_about_a_reminder_moves_none() -> None:
    told, again = say("reminder_set", "uk", time="завтра", text="воду"), "о 8:05 нагадуй вітаміни"
    asked = [*prompt("щодня о 9 нагадуй воду"), asks("reminder", told)]
    [(_, order)] = calls([*asked, *prompt(again)[-1:]], (*CANCELS, "set_reminder"))
    assert "moves" not in order


@pytest.mark.parametrize("text", [
    "удали всё", "Когда ты напомнишь про хлеб?", "не отменяй хлеб", "Какие у меня напоминания?",
    "перенесли концерт на пятницу", "shift monday is 6-14", "отменили концерт?",
    "i had to move the call to 6pm",
    "что если перенести врача на 12?",
])  # fmt: skip
def test_other_requests_cancel_no_reminder(text: str) -> None:
    assert read_change(text) is None


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


@pytest.mark.parametrize(("question", "old", "new"), [
    ("де я живу", "живу на пулавській 88", "переїхала на мокотовську 12"),
    ("where do i live", "i live in leeds", "moved to york last week"),
])  # fmt: skip
def test_what_is_newest_answers_beside_what_shares_a_word(
    question: str, old: str, new: str
) -> None:
    other = note("купила кота", 0.0, score=0.0, uid="msg-6")
    newest = found(note(new, 0.0, score=0.0, uid="msg-5"), other)
    told = reply(prompt(question, found(old), newest))
    assert new in told and old in told and "кота" not in told
