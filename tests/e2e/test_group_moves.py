"""A group that becomes a supergroup, with a bot that not everybody may use."""

from __future__ import annotations

from src.texts import say
from tests.e2e.bot_process import World, eventually
from tests.fakes.telegram_people import Sender

ANNA, BORIS = 2**41 + 101, 2**41 + 102
NAME = "@pomni_test_bot"


async def test_a_move_that_a_stranger_caused_is_followed_and_lets_nobody_in(world: World) -> None:
    """Telegram tells of it late, from the new chat, caused by somebody who may not use the bot."""
    telegram, model = world.telegram, world.model
    old, new = Sender(chat_id=-778, chat_type="group"), -1_001_000_000_778
    place = Sender(chat_id=new, chat_type="supergroup")
    process = await world.start(ALLOWED_USER_IDS=f"{ANNA},-778")
    await telegram.send_text(BORIS, f"{NAME} старое", **old)
    await telegram.wait_sent(-778)
    await telegram.send_text(ANNA, f"{NAME} раннее", **place)
    await telegram.wait_sent(new)
    await telegram.send_message(2**41 + 999, **place, migrate_from_chat_id=-778)
    owners = "SELECT telegram_user_id FROM conversations WHERE telegram_user_id IN (%s, %s)"
    await eventually(lambda: world.query(owners, -778, new) == [(new,)], "the move")
    await telegram.send_text(ANNA, f"{NAME} новое", **place)
    await telegram.wait_sent(new, 2)
    read = [str(message["content"]) for message in model.requests[-1].messages]
    [talk] = [" ".join(read)]
    assert talk.index("старое") < talk.index("раннее") < talk.index("новое")
    await telegram.send_text(BORIS, f"{NAME} а мне?", **place)
    await telegram.wait_sent(new, 3)
    await world.settled()
    assert world.answers(new)[-1] == say("not_allowed", "ru", user_id=BORIS)
    [told] = [line for line in process.lines if "ALLOWED_USER_IDS" in str(line.get("event"))]
    assert (told["chat"], told["new_chat"], told["level"]) == (-778, new, "warning")
    assert world.query("SELECT 1 FROM telegram_updates WHERE payload <> '{}'") == []
