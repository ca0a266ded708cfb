"""What shall not be remembered: in the window, and nowhere else, whatever happens to it later."""

from __future__ import annotations

import pytest

from src.history.conversation_repo import HistoryMessage, TelegramOrigin
from src.memory.prompts import SUMMARY_PROMPT
from src.memory.queries import Query
from src.memory.turn_context import repeats_private
from src.reading.gate import Voice
from tests.fakes.openai_server import ChatRequest, Reply
from tests.integration.person import MORNING, Agents, Person, called, edit, fact, named, saved

BOT = 555
SECRET = "Я влюблена в начальника"
ASKED = f"Не запоминай это: {SECRET.lower()}"
QUIET = "Понятно."


def reply(request: ChatRequest) -> Reply | str:
    """Whoever extracts or summarises repeats all that it is shown."""
    texts = " ".join(text for _, text in named(request))
    if request.raw.get("tool_choice"):
        return Reply(tool_calls=[("ExtractedFacts", {"facts": []})])
    return f"Говорили: {texts[-3000:]}" if texts.startswith(SUMMARY_PROMPT) else QUIET


@pytest.fixture
async def person(agents: Agents) -> Person:
    opened = await agents.person()
    opened.model.reply = reply
    return opened


def origin(person: Person, number: int) -> TelegramOrigin:
    return TelegramOrigin(BOT, person.user, number, person.user)


async def fill_the_window(person: Person) -> None:
    """So much talk that everything before it is summarised and read for facts."""
    for number in range(23):
        person.write(f"Сегодня я видела {number} ворон")
        person.rig.fill(person.conversation(), ("assistant", QUIET))
    await person.index()
    for number in (23, 24):
        await person.say(f"Сегодня я видела {number} ворон")
    await person.index()
    await person.core.memory.digest.digest(person.conversation())


async def remembered(person: Person) -> str:
    """Everything that is kept beside the messages, and what a search finds."""
    rows = person.rows(
        "SELECT s.content FROM conversation_summaries s"
        " JOIN conversations c ON c.id = s.conversation_id"
        " WHERE c.telegram_user_id = %(user)s"
        " UNION ALL SELECT text FROM facts WHERE telegram_user_id = %(user)s"
        " UNION ALL SELECT quote FROM memory_sources s JOIN memories f ON f.id = s.memory_id"
        " WHERE f.owner_id = %(owner)s"
        " UNION ALL SELECT text FROM rejected_facts WHERE owner_id = %(owner)s"
        " UNION ALL SELECT message_text(m.content) FROM search_documents d"
        " JOIN messages m ON m.id = d.message_id WHERE d.owner_id = %(owner)s"
        " UNION ALL SELECT term FROM search_postings WHERE owner_id = %(owner)s"
    )
    query = Query(person.owner, "влюблена начальник", MORNING, limit=20, with_assistant=True)
    hits = await person.core.memory.retriever.search(query)
    return "\n".join([*(str(text) for (text,) in rows), *(hit.text for hit in hits)]).lower()


@pytest.mark.parametrize("by_tool", [True, False])
async def test_what_is_private_is_remembered_nowhere_also_when_it_left_the_window(
    person: Person, by_tool: bool
) -> None:
    tools = [called("keep_private")] if by_tool else []
    await person.say(SECRET if by_tool else ASKED, *tools, "Любовь к начальнику — не шутка.")
    await person.say("Что же делать?", "Поговорите с начальником, в которого влюблены.")
    await person.say("Я люблю чай", saved(fact("Я люблю чай")), "Чай — это хорошо.")
    assert "влюблена" in str(person.requests[-1].messages), "it stays in the window"
    await fill_the_window(person)
    kept = await remembered(person)
    assert "влюбл" not in kept and "начальник" not in kept
    assert "чай" in kept
    person.model.requests.clear()
    await person.say("Что нового?")
    assert "начальник" not in str(person.requests[-1].messages).lower()


async def test_a_message_that_becomes_private_by_an_edit_is_forgotten(person: Person) -> None:
    await person.say(SECRET, saved(fact(SECRET)), "В начальника? Ого.", origin=origin(person, 1))
    await person.say("А ещё я люблю чай", origin=origin(person, 2))
    await fill_the_window(person)
    assert person.facts() == [SECRET] and "начальник" in await remembered(person)
    assert edit(person.client, person.owner, origin(person, 1), ASKED) == "older"
    assert person.facts() == []
    assert "начальник" not in await remembered(person)
    await person.index()
    await person.core.memory.digest.digest(person.conversation())
    await person.index()
    kept = await remembered(person)
    assert "начальник" not in kept and "чай" in kept
    waiting = person.rows(
        "SELECT 1 FROM search_documents WHERE owner_id = %(owner)s AND model_id IS NULL"
    )
    assert waiting == [], "what was said after it is embedded anew"


def said(text: str, *, role: str = "user", private: bool = False) -> HistoryMessage:
    return HistoryMessage(
        id=1, role=role, content=text, position=1, voice=Voice(is_private=private)
    )


@pytest.mark.parametrize(("answer", "repeats"), [
    ("Вы влюблены в начальника.", True), ("Как дела с начальником?", True),
    ("Я запомнил, что вы любите чай.", False), ("Хорошо.", False), ("", False),
])  # fmt: skip
def test_an_answer_repeats_a_private_message_by_its_own_words(answer: str, repeats: bool) -> None:
    history = [said("Я люблю чай"), said(ASKED, private=True), said("Понятно", role="assistant")]
    assert repeats_private(answer, history) is repeats
    assert not repeats_private(answer, [said(ASKED)]), "it was not private"


def test_what_the_user_says_openly_as_well_is_no_secret() -> None:
    history = [said(ASKED, private=True), said("Мой начальник уволил меня, я была влюблена")]
    assert not repeats_private("Жаль, что начальник вас уволил.", history)
