"""A small model on the operator's own machine: it reads slowly, and writes its calls as text."""

from __future__ import annotations

from src.talk.prompt import SYSTEM_PROMPT
from tests.e2e.bot_process import World
from tests.fakes.openai_server import Reply, call_text

USER = 2**41 + 90
TOLD = "Меня зовут Зоряна"


async def test_its_prompt_is_read_ahead_and_what_it_calls_is_never_seen(world: World) -> None:
    await world.start()
    await world.model.wait_for(lambda: world.model.read_ahead)
    call = call_text("save_user_fact", text=TOLD, quote=TOLD)
    world.model.queue(Reply(text=call, chunk_size=2, chunk_delay=0.02), "Запомнил.")
    await world.telegram.send_text(USER, TOLD)
    await world.telegram.wait_sent(USER)
    await world.settled()  # its first message may say that it thinks
    [ahead] = world.model.read_ahead
    first = world.model.requests[0]
    assert ahead.tools == first.tools and ahead.messages[0] == first.messages[0]
    assert SYSTEM_PROMPT in ahead.system_text
    seen = [sent.text for sent in world.telegram.sent] + [d.text for d in world.telegram.drafts]
    assert not any("name" in text or "`" in text or "{" in text for text in seen), seen
    assert world.answers(USER)[-1].startswith("Запомнил.")
    told = "SELECT text FROM memories WHERE text LIKE %s"
    assert world.query(told, "%Зоряна%")


async def test_its_silence_before_the_first_word_is_borne(world: World) -> None:
    await world.start(LLM_TIMEOUT="1")
    world.model.queue(Reply(text="дочитала", delay=2.5))
    await world.telegram.send_text(USER, "вопрос")
    await world.telegram.wait_sent(USER)
    assert world.answers(USER) == ["дочитала"]
    assert world.model.request_count == 1
    typing = [call for call in world.telegram.calls if call.method == "sendChatAction"]
    assert typing, "it says that it types meanwhile"
