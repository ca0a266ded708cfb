"""An import in a running bot: chosen by a tap, stored by its job, also after kills."""

from __future__ import annotations

import json

import pytest

from src.texts import say
from tests.e2e.bot_process import World, eventually
from tests.integration.imports.bringing import chat
from tests.integration.phone import buttons

USER = 2**41 + 501
LANGUAGE = "ru"
STORED = """
SELECT count(*), count(DISTINCT import_source_id) FROM messages WHERE import_source = 'chatgpt'
"""
STATE = "SELECT state FROM imports"
UNSEARCHED = """
SELECT 1 FROM messages m LEFT JOIN search_documents d ON d.message_id = m.id
WHERE m.import_source = 'chatgpt' AND d.id IS NULL
"""


@pytest.mark.proof
@pytest.mark.timeout(600)
async def test_an_import_is_stored_once_over_kills_and_its_progress_is_edited(
    world: World,
) -> None:
    count, kills = 4800, 10
    chats = [chat(f"c{n}", *(f"слово {n} {k}" for k in range(100))) for n in range(count // 100)]
    world.telegram.state.files["export"] = json.dumps(chats).encode()
    bot = await world.start(LLM_MODEL="offline")
    document = {"file_id": "export", "file_unique_id": "e", "file_name": "conversations.json"}
    await world.telegram.send_message(
        USER, document=document, caption="/import", language_code=LANGUAGE
    )
    await world.telegram.wait_sent(USER, 1)
    [summary] = world.telegram.sent_to(USER)
    [data] = [
        data
        for row in buttons(summary)
        for label, data in row
        if label == say("import_search", LANGUAGE)
    ]
    await world.telegram.press_button(USER, summary.message_id, data)
    for _ in range(kills):
        before = world.query(STORED)

        def has_gone_on(before: list[tuple[int, ...]] = before) -> bool:
            return world.query(STORED) != before or world.query(STATE) == [("done",)]

        await eventually(has_gone_on, "a step of the import", 100)
        await bot.kill()
        bot = await world.start(LLM_MODEL="offline")
    await eventually(lambda: world.query(STATE) == [("done",)], "the end of the import", 100)
    assert world.query(STORED) == [(count, count)]
    shown = f"{count // 1000}\N{NO-BREAK SPACE}{count % 1000}"
    done = say("import_done", LANGUAGE, name="ChatGPT", count=shown)
    await eventually(lambda: done in world.answers(USER), "the progress to end", 100)
    await eventually(lambda: not world.query(UNSEARCHED), "all to be searchable", 100)
