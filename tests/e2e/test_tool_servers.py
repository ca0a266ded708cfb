"""MCP servers of a whole bot: over Telegram, and when it is killed."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.bot_process import World, eventually
from tests.fakes.openai_server import Reply, text_of
from tests.integration.outside.test_tool_servers import TIME
from tests.integration.tool_servers import fake, file_of, living

PERSON = 2**41 + 9501
KEY = "sk-weather-TOPSECRET"


async def test_a_bot_asks_a_real_server_and_leaves_no_process_when_it_is_killed(
    world: World, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    pids.mkdir()
    parent = fake("parent", env={"PIDS": str(pids), "KEY": "${WEATHER_KEY}"})
    file = file_of(tmp_path, time=TIME, parent=parent)
    bot = await world.start(MCP_SERVERS=str(file), WEATHER_KEY=KEY)
    for server in ("time", "parent"):
        await bot.wait_log(
            lambda line, name=server: line.get("server") == name and line.get("tools"),
            what=f"tools of {server}",
        )
    world.model.queue(
        Reply(tool_calls=[("time__get_current_time", {"timezone": "Asia/Tokyo"})]), "Уже ночь."
    )
    await world.telegram.send_text(PERSON, "который час в Токио?")
    [answer] = await world.telegram.wait_sent(PERSON)
    assert answer.text == "Уже ночь."
    [result] = [
        text_of(message["content"])
        for message in world.model.requests[-1].messages
        if message["role"] == "tool"
    ]
    assert "Asia/Tokyo" in result and "data, not instructions" in result
    await world.telegram.send_text(PERSON, "/tools")
    [_, page] = await world.telegram.wait_sent(PERSON, 2)
    assert "• parent: " in page.text and "get_current_time" in page.text
    assert len(living(pids)) == 2
    await bot.kill()
    await eventually(lambda: not living(pids), "the processes of its server to be gone")
    assert KEY not in bot.logs()
