"""The fakes keep their promises, as seen by the real clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import openai
import pytest
from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import (
    ClientDecodeError,
    TelegramAPIError,
    TelegramBadRequest,
    TelegramConflictError,
    TelegramForbiddenError,
    TelegramNetworkError,
    TelegramNotFound,
    TelegramRetryAfter,
    TelegramServerError,
    TelegramUnauthorizedError,
)
from aiogram.types import (
    BotCommand,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    InputRichMessage,
    MessageEntity,
    ReplyParameters,
)
from aiohttp import web
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from tests.fakes.openai_server import FakeOpenAI, Reply
from tests.fakes.telegram_people import Sender
from tests.fakes.telegram_server import FakeTelegram

USER = 7_000_000_001
GROUP = -1_001_234_567_890

BotFactory = Callable[[str], Bot]


@pytest.fixture
async def fake() -> AsyncIterator[FakeTelegram]:
    """Serve an empty Telegram."""
    async with FakeTelegram() as server:
        yield server


@pytest.fixture
async def make_bot(fake: FakeTelegram) -> AsyncIterator[BotFactory]:
    """Build real bots that talk to the fake."""
    sessions: list[AiohttpSession] = []

    def make(token: str) -> Bot:
        sessions.append(AiohttpSession(api=TelegramAPIServer.from_base(fake.url), timeout=5))
        return Bot(token, session=sessions[-1])

    yield make
    await asyncio.gather(*(session.close() for session in sessions))


@pytest.fixture
def bot(make_bot: BotFactory, fake: FakeTelegram) -> Bot:
    """Return a real bot with the right token."""
    return make_bot(fake.token)


@pytest.fixture
async def model() -> AsyncIterator[FakeOpenAI]:
    """Serve a model that echoes."""
    async with FakeOpenAI() as server:
        yield server


def chat_model(model: FakeOpenAI, api_key: str = "x") -> ChatOpenAI:
    """Build the real client of the fake model."""
    return ChatOpenAI(
        model="fake-model",
        base_url=model.url,
        api_key=SecretStr(api_key),
        max_retries=0,
        stream_usage=True,
    )


async def test_a_person_s_message_has_the_true_shape(fake: FakeTelegram, bot: Bot) -> None:
    group = Sender(chat_id=GROUP, chat_type="supergroup", thread_id=5)
    first = await fake.send_text(USER, "/new@pomni_test_bot привет", **group)
    await fake.send_message(USER, voice={"file_id": "v", "file_unique_id": "u", "duration": 3})
    await fake.send_text(USER, "ответ", **(group | Sender(reply_to=first)))

    command, voice, reply = [update.message for update in await bot.get_updates()]

    assert command and voice and reply
    assert command.message_id == first and command.message_thread_id == 5
    assert command.from_user and command.from_user.id == USER
    assert command.entities and command.entities[0].type == "bot_command"
    assert command.entities[0].extract_from(command.text or "") == "/new@pomni_test_bot"
    assert voice.voice and voice.chat.id == USER and voice.chat.type == "private"
    assert reply.reply_to_message and reply.reply_to_message.message_id == first


async def test_offset_confirms_older_updates(fake: FakeTelegram, bot: Bot) -> None:
    ids = [fake.update_id_of(await fake.send_text(USER, str(number))) for number in range(4)]

    assert [update.update_id for update in await bot.get_updates(limit=2)] == ids[:2]
    assert [update.update_id for update in await bot.get_updates()] == ids
    assert [update.update_id for update in await bot.get_updates(offset=ids[2])] == ids[2:]
    assert len(fake.pending_updates) == 2 and fake.confirmed_offset == ids[2]
    await fake.wait_confirmed(ids[1], timeout=10)
    assert [update.update_id for update in await bot.get_updates(offset=-1)] == ids[3:]
    with pytest.raises(AssertionError, match="confirmation of update"):
        await fake.wait_confirmed(ids[3], timeout=0.01)


async def test_an_offset_far_in_the_future_confirms_nothing(fake: FakeTelegram, bot: Bot) -> None:
    await fake.send_text(USER, "номера пошли заново")
    assert len(await bot.get_updates(offset=2_000_000_000)) == 1


async def test_a_long_poll_returns_when_an_update_comes(fake: FakeTelegram, bot: Bot) -> None:
    poll = asyncio.create_task(bot.get_updates(timeout=30))
    await fake.wait_polling()
    await fake.send_text(USER, "привет")
    updates = await asyncio.wait_for(poll, 2)
    assert updates[0].message and updates[0].message.text == "привет"
    assert not fake.polling


async def test_a_second_poll_ends_the_first_with_409(fake: FakeTelegram, bot: Bot) -> None:
    first = asyncio.create_task(bot.get_updates(timeout=30))
    await fake.wait_polling()
    second = asyncio.create_task(bot.get_updates(timeout=30))
    with pytest.raises(TelegramConflictError, match="terminated by other getUpdates"):
        await asyncio.wait_for(first, 2)
    await fake.send_text(USER, "второму")
    assert len(await asyncio.wait_for(second, 2)) == 1


async def test_a_poll_of_a_killed_client_waits_no_more(fake: FakeTelegram, bot: Bot) -> None:
    poll = asyncio.create_task(bot.get_updates(timeout=30))
    await fake.wait_polling()
    poll.cancel()
    await fake.wait_for(lambda: not fake.polling, timeout=10)


async def test_only_allowed_kinds_of_updates_come(fake: FakeTelegram, bot: Bot) -> None:
    await bot.get_updates(allowed_updates=["message"])
    await fake.change_bot_membership(USER, "kicked")
    await fake.send_text(USER, "привет")
    assert [update.event_type for update in await bot.get_updates()] == ["message"]
    assert "my_chat_member" in fake.queue.filtered[0]


async def test_a_redelivered_update_comes_despite_the_offset(fake: FakeTelegram, bot: Bot) -> None:
    update_id = fake.update_id_of(await fake.send_text(USER, "дважды"))
    assert await bot.get_updates(offset=update_id + 1) == []
    await fake.redeliver(update_id)
    again = await bot.get_updates(offset=update_id + 1)
    assert [update.update_id for update in again] == [update_id]
    assert await bot.get_updates(offset=update_id + 1) == []


async def test_garbage_comes_once_any_update_can_be_pushed(fake: FakeTelegram, bot: Bot) -> None:
    await fake.push_raw({"no_update_id": True})
    with pytest.raises(ClientDecodeError):
        await bot.get_updates()
    await fake.push_raw({"update_id": 5_000_000, "future_kind": {"x": 1}})
    assert [update.update_id for update in await bot.get_updates()] == [5_000_000]


async def test_buttons_and_edits_come_as_updates(fake: FakeTelegram, bot: Bot) -> None:
    own = await fake.send_text(USER, "/start")
    keyboard = InlineKeyboardMarkup(
        inline_keyboard=[[InlineKeyboardButton(text="да", callback_data="yes")]]
    )
    sent = await bot.send_message(USER, "точно?", reply_markup=keyboard)
    await fake.press_button(USER, sent.message_id, "yes")
    await fake.edit_text(USER, own, "иначе")
    await fake.change_bot_membership(USER, "kicked")

    pressed, edited, blocked = (await bot.get_updates())[1:]

    assert pressed.callback_query and pressed.callback_query.data == "yes"
    assert await bot.answer_callback_query(pressed.callback_query.id)
    with pytest.raises(TelegramBadRequest, match="query is too old"):
        await bot.answer_callback_query("другой")
    assert edited.edited_message and edited.edited_message.text == "иначе"
    assert not edited.edited_message.entities
    assert blocked.my_chat_member and blocked.my_chat_member.new_chat_member.status == "kicked"


async def test_a_webhook_gets_each_update_until_2xx(fake: FakeTelegram, bot: Bot) -> None:
    statuses, seen = [503, 200, 200], []

    async def receive(request: web.Request) -> web.Response:
        body = await request.json()
        seen.append((request.headers["X-Telegram-Bot-Api-Secret-Token"], body["update_id"]))
        return web.Response(status=statuses[len(seen) - 1])

    app = web.Application()
    app.router.add_post("/hook", receive)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    ids = [fake.update_id_of(await fake.send_text(USER, str(number))) for number in range(2)]
    await bot.set_webhook(f"http://127.0.0.1:{port}/hook", secret_token="secret")
    await fake.wait_confirmed(ids[1], timeout=10)

    assert seen == [("secret", ids[0]), ("secret", ids[0]), ("secret", ids[1])]
    assert [delivery.status for delivery in fake.webhook.deliveries] == statuses
    with pytest.raises(TelegramConflictError, match="while webhook is active"):
        await bot.get_updates()
    await bot.delete_webhook()
    assert (await bot.get_webhook_info()).url == "" and await bot.get_updates() == []
    await runner.cleanup()


async def test_sent_messages_are_recorded_with_their_edits(fake: FakeTelegram, bot: Bot) -> None:
    question = await fake.send_text(USER, "как дела?")
    shown: list[str] = []
    fake.state.on_shown = lambda message: shown.append(message.text)
    bold = [MessageEntity(type="bold", offset=0, length=2)]
    reply = ReplyParameters(message_id=question)
    sent = await bot.send_message(USER, "[1]", entities=bold, reply_parameters=reply)
    await bot.edit_message_text("раз", chat_id=USER, message_id=sent.message_id)
    with pytest.raises(TelegramBadRequest, match="message is not modified: specified new"):
        await bot.edit_message_text("раз", chat_id=USER, message_id=sent.message_id)
    with pytest.raises(TelegramBadRequest, match="message to edit not found"):
        await bot.edit_message_text("раз", chat_id=USER, message_id=999)
    with pytest.raises(TelegramBadRequest, match="message can't be edited"):
        await bot.edit_message_text("раз", chat_id=USER, message_id=question)
    with pytest.raises(TelegramBadRequest, match="message to be replied not found"):
        await bot.send_message(USER, "x", reply_parameters=ReplyParameters(message_id=999))

    [message] = await fake.wait_sent(USER, 1, timeout=10)
    assert (message.text, message.edits, message.reply_to) == ("раз", ["раз"], question)
    assert shown == ["[1]", "раз"]
    assert fake.calls_of("sendMessage")[0].params["text"] == "[1]"
    assert [call.ok for call in fake.calls_of("editMessageText")] == [True, False, False, False]
    await bot.delete_message(USER, sent.message_id)
    assert message.deleted


@pytest.mark.parametrize(("text", "entity", "error"), [
    (" ", None, "message text is empty"), ("😀" * 2049, None, "message is too long"),
    ("😀ab", (2, 3), "can't parse entities: entity ends after the end"),
    ("😀ab", (1, 2), "can't parse entities: entity begins in the middle"),
    ("a😀b", (0, 2), "can't parse entities: entity ends in the middle"),
])  # fmt: skip
async def test_telegram_s_checks_of_text_and_entities_hold(
    bot: Bot, text: str, entity: tuple[int, int] | None, error: str
) -> None:
    entities = [MessageEntity(type="bold", offset=entity[0], length=entity[1])] if entity else None
    with pytest.raises(TelegramBadRequest, match=error):
        await bot.send_message(USER, text, entities=entities)


async def test_text_of_exactly_the_limit_and_whole_emoji_entities_pass(bot: Bot) -> None:
    whole = [MessageEntity(type="bold", offset=0, length=4096)]
    assert (await bot.send_message(USER, "😀" * 2048, entities=whole)).text == "😀" * 2048


async def test_long_callback_data_and_bad_commands_are_refused(
    fake: FakeTelegram, bot: Bot
) -> None:
    button = InlineKeyboardButton(text="да", callback_data="я" * 33)
    with pytest.raises(TelegramBadRequest, match="BUTTON_DATA_INVALID"):
        await bot.send_message(
            USER, "x", reply_markup=InlineKeyboardMarkup(inline_keyboard=[[button]])
        )
    with pytest.raises(TelegramBadRequest, match="BOT_COMMAND_INVALID"):
        await bot.set_my_commands([BotCommand(command="новый", description="x")])
    await bot.set_my_commands(
        [BotCommand(command="/new", description="Новый")], language_code="ru"
    )
    assert fake.commands["default", "ru"] == [{"command": "new", "description": "Новый"}]
    assert (await bot.get_my_commands(language_code="ru"))[0].command == "new"
    await bot.set_my_description("о боте")
    assert (await bot.get_my_description()).description == "о боте"


async def test_drafts_are_private_and_end_with_the_message(fake: FakeTelegram, bot: Bot) -> None:
    for text in ("", "при", "привет"):
        assert await bot.send_message_draft(USER, draft_id=1, text=text) is True
    assert [draft.text for draft in fake.visible_drafts(USER)] == ["привет"]
    await bot.send_message(USER, "привет!")
    assert fake.visible_drafts(USER) == [] and len(fake.drafts) == 3
    with pytest.raises(TelegramBadRequest, match="TEXTDRAFT_PEER_INVALID"):
        await bot.send_message_draft(GROUP, draft_id=1, text="x")
    with pytest.raises(TelegramBadRequest, match="draft_id"):
        await bot.send_message_draft(USER, draft_id=0, text="x")
    rich = await bot.send_rich_message(USER, InputRichMessage(markdown="# да"))
    assert fake.sent[-1].text == "# да" and rich.rich_message


async def test_refusals_of_token_chat_and_method(
    fake: FakeTelegram, bot: Bot, make_bot: BotFactory
) -> None:
    with pytest.raises(TelegramUnauthorizedError):
        await make_bot("42:WRONG").get_me()
    fake.block(USER)
    with pytest.raises(TelegramForbiddenError, match="bot was blocked by the user"):
        await bot.send_message(USER, "x")
    fake.unblock(USER)
    fake.disable_method("sendMessageDraft")
    with pytest.raises(TelegramNotFound, match="method not found"):
        await bot.send_message_draft(USER, draft_id=1, text="x")
    fake.disable_method("sendMessageDraft", style="bad_request")
    with pytest.raises(TelegramBadRequest, match="method not found"):
        await bot.send_message_draft(USER, draft_id=1, text="x")
    with pytest.raises(TelegramBadRequest, match="chat not found"):
        await bot.send_message(0, "x")
    assert fake.sent == []


async def test_faults_happen_on_demand_and_only_once(fake: FakeTelegram, bot: Bot) -> None:
    fake.fail_next("sendMessage")
    fake.fail_next(
        "sendMessage", status=429, description="Too Many", parameters={"retry_after": 9}
    )
    fake.garbage_next("sendMessage")
    fake.drop_next("sendMessage")
    fake.drop_next("sendMessage", when="after")
    expected: list[type[Exception]] = [
        TelegramServerError, TelegramRetryAfter, ClientDecodeError, TelegramNetworkError,
    ]  # fmt: skip
    for error in expected:
        with pytest.raises(error):
            await bot.send_message(USER, "без следа")
    assert fake.sent == []
    with pytest.raises(TelegramNetworkError):
        await bot.send_message(USER, "дошло")
    assert [message.text for message in fake.sent] == ["дошло"]
    await bot.send_message(USER, "хорошо")
    assert [call.ok for call in fake.calls] == [False] * 5 + [True]


async def test_a_hanging_or_late_answer_is_a_timeout_for_the_client(
    fake: FakeTelegram, bot: Bot
) -> None:
    fake.hang_next("sendMessage")
    with pytest.raises(TelegramNetworkError, match="timeout"):
        await bot.send_message(USER, "никогда", request_timeout=0.05)  # type: ignore[arg-type]
    fake.delay("sendMessage", 5)
    with pytest.raises(TelegramNetworkError, match="timeout"):
        await bot.send_message(USER, "поздно", request_timeout=0.05)  # type: ignore[arg-type]
    assert [message.text for message in fake.sent] == ["поздно"]


async def test_state_and_port_survive_a_new_listener(fake: FakeTelegram, bot: Bot) -> None:
    url = fake.url
    await fake.send_text(USER, "подожди")
    await fake.stop()
    with pytest.raises(TelegramAPIError):
        await bot.get_updates()
    await fake.start()
    assert fake.url == url and len(await bot.get_updates()) == 1


async def test_stopping_cuts_a_waiting_poll_at_once(fake: FakeTelegram, bot: Bot) -> None:
    poll = asyncio.create_task(bot.get_updates(timeout=30))
    await fake.wait_polling()
    await asyncio.wait_for(fake.stop(), 1)
    with pytest.raises(TelegramNetworkError):
        await asyncio.wait_for(poll, 1)


async def test_a_failed_wait_tells_what_was_called(fake: FakeTelegram, bot: Bot) -> None:
    await bot.send_chat_action(USER, "typing")
    with pytest.raises(AssertionError, match=r"1 message.* in chat(?s:.*)sendChatAction"):
        await fake.wait_sent(USER, 1, timeout=0.01)


async def test_the_model_echoes_without_the_time(model: FakeOpenAI) -> None:
    answer = await chat_model(model).ainvoke("[Текущее время: 2026-01-02 03:04] привет")
    assert answer.content == "эхо: привет"
    [request] = await model.wait_requests(1)
    assert request.model == "fake-model" and not request.stream


async def test_the_model_streams_in_chunks_with_usage(model: FakeOpenAI) -> None:
    model.queue(Reply(text="длинный ответ", chunk_size=4, prompt_tokens=70, cached_tokens=64))
    chunks = [chunk async for chunk in chat_model(model).astream("?")]
    assert [c.content for c in chunks if c.content] == ["длин", "ный ", "отве", "т"]
    usage = next(c.usage_metadata for c in chunks if c.usage_metadata)
    assert usage["input_tokens"] == 70
    assert usage["input_token_details"]["cache_read"] == 64


@pytest.mark.parametrize("stream", [False, True])
async def test_tool_calls_reach_langchain(model: FakeOpenAI, stream: bool) -> None:
    model.queue(Reply(tool_calls=[("save", {"text": "любит чай"}), ("now", {})], chunk_size=3))
    client = chat_model(model)
    client.streaming = stream
    answer = await client.ainvoke("запомни")
    calls = [(call["name"], call["args"]) for call in answer.tool_calls]
    assert calls == [("save", {"text": "любит чай"}), ("now", {})]
    assert answer.response_metadata["finish_reason"] == "tool_calls"


async def test_model_errors_and_cuts_reach_the_client(model: FakeOpenAI) -> None:
    client = chat_model(model)
    model.queue(
        Reply(status=429, error="slow down", headers={"Retry-After": "7"}),
        Reply(text="оборвётся посередине", cut_after_chunks=1),
    )
    with pytest.raises(openai.RateLimitError, match="slow down") as limited:
        await client.ainvoke("?")
    assert limited.value.response.headers["retry-after"] == "7"
    got = ""
    with pytest.raises(openai.APIConnectionError):
        async for chunk in client.astream("?"):
            got += str(chunk.content)
    assert got == "оборвётс"
    model.api_key = "right"
    with pytest.raises(openai.AuthenticationError):
        await client.ainvoke("?")
    assert (await chat_model(model, "right").ainvoke("да")).content == "эхо: да"


async def test_a_gate_holds_the_stream_and_a_leaving_client_is_seen(model: FakeOpenAI) -> None:
    gate = asyncio.Event()
    model.queue(
        Reply(text="первая вторая", chunk_size=7, gate=gate, gate_after_chunks=1), Reply(hang=True)
    )
    client = chat_model(model)
    answer = asyncio.create_task(client.ainvoke("?", stream=True))
    await model.wait_for(lambda: model.waiting_at_gate == 1, timeout=10)
    assert not answer.done()
    gate.set()
    assert (await asyncio.wait_for(answer, 2)).content == "первая вторая"
    hung = asyncio.create_task(client.ainvoke("?"))
    await model.wait_requests(2, timeout=10)
    hung.cancel()
    await model.wait_for(lambda: model.abandoned == 1 and model.active == 0, timeout=10)


async def test_embeddings_are_stable_unit_vectors(model: FakeOpenAI) -> None:
    async with openai.AsyncOpenAI(base_url=model.url, api_key="x", max_retries=0) as client:
        texts = ["люблю зелёный чай", "зелёный чай", "поезд в Омск"]
        answer = await client.embeddings.create(model="e", input=texts, dimensions=64)
        plain = await client.embeddings.create(
            model="e", input=texts[0], dimensions=64, encoding_format="float"
        )
        assert [listed.id async for listed in client.models.list()] == ["fake-model"]
    near, tea, far = [item.embedding for item in answer.data]
    assert plain.data[0].embedding == pytest.approx(near, abs=1e-6)
    assert sum(x * x for x in near) == pytest.approx(1)

    def cosine(one: list[float], other: list[float]) -> float:
        return sum(x * y for x, y in zip(one, other, strict=True))

    assert cosine(near, tea) > cosine(near, far)
    assert model.embedding_requests[0] == texts
