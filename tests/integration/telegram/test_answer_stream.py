"""An answer shown while it is written: drafts in private chats, edits elsewhere, no harm done."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from aiogram import Bot

from src.base.config import Streaming
from src.base.owners import Caller, Owner, Preferences
from src.talk.turn_state import IncomingMessage, Turn
from src.telegram import answer_stream
from src.telegram.answer_stream import EDIT_SECONDS, AnswerStream
from src.telegram.buttons import STOP_LABEL
from src.telegram.delivery import Address, Delivery
from src.telegram.rendering import render
from src.texts import say
from tests.fakes.telegram_checks import utf16_length
from tests.fakes.telegram_server import FakeTelegram
from tests.integration.phone import buttons, never

USER = 2**41 + 7
GROUP = -1_001_234_567_890
DRAFT_ID = 99


def turn() -> Turn:
    caller = Caller(Owner(USER), Preferences("ru", "UTC"), datetime.now(UTC))
    return Turn(IncomingMessage(caller, "вопрос"))


def write(stream: AnswerStream, piece: str) -> None:
    """Let an answer grow by a piece."""
    text = stream.draft() + piece
    stream.draft = lambda: text
    stream.grow()


class Shown:
    """Streams of one bot, and the messages that they made."""

    def __init__(self, bot: Bot, delivery: Delivery | None = None) -> None:
        self.bot = bot
        self.delivery = delivery or Delivery(bot, never)
        self.messages: list[int] = []

    async def note(self, message_id: int) -> None:
        self.messages.append(message_id)

    async def open(self, address: Address, streaming: Streaming = "drafts") -> AnswerStream:
        stream = AnswerStream(self.delivery, address, DRAFT_ID, False, streaming=streaming)
        await stream.open(turn(), self.note)
        return stream


@pytest.fixture
def shown(bot: Bot) -> Shown:
    return Shown(bot)


async def requests_after(fake: FakeTelegram, close: AnswerStream) -> int:
    """Requests that a closed stream still makes within two of its intervals."""
    await close.close()
    before = len(fake.calls)
    with pytest.raises(AssertionError):
        await fake.wait_for(lambda: len(fake.calls) > before, timeout=EDIT_SECONDS * 1.5)
    return len(fake.calls) - before


async def test_a_private_answer_grows_as_one_draft_with_a_stop_button(
    fake: FakeTelegram, shown: Shown
) -> None:
    stream = await shown.open(Address(USER))
    for piece in ("Раз", ", **два**", ", три"):
        write(stream, piece)
        count = len(fake.drafts)
        await fake.wait_for(lambda count=count: len(fake.drafts) > count)
    await stream.close()
    assert [draft.text for draft in fake.drafts] == ["Раз", "Раз, два", "Раз, два, три"]
    assert {(draft.draft_id, draft.can_stop) for draft in fake.drafts} == {(DRAFT_ID, True)}
    assert fake.drafts[1].entities[0]["type"] == "bold"
    assert fake.sent == [] and shown.messages == []


@pytest.mark.parametrize("owner", [USER, GROUP])
async def test_by_default_answers_grow_by_edits_with_a_stop_button(
    fake: FakeTelegram, shown: Shown, owner: int
) -> None:
    asked = await fake.send_text(USER, "вопрос", chat_id=owner, chat_type="supergroup")
    stream = await shown.open(Address(owner, 5, asked), streaming="edits")
    write(stream, "Раз")
    [message] = await fake.wait_sent(owner)
    assert message.reply_to == asked
    write(stream, ", https://example.org")
    await fake.wait_for(lambda: message.edits)
    await stream.close()
    assert message.shown == ["Раз", "Раз, https://example.org"] and message.thread_id == 5
    assert shown.messages == [message.message_id]
    assert buttons(message) == [[(STOP_LABEL, f"halt:{DRAFT_ID}")]]
    assert message.link_preview == {"is_disabled": True} and fake.drafts == []
    parts = await render("Раз, https://example.org")
    await shown.delivery.send_answer(Address(owner, 5), parts, edit=message.message_id)
    assert buttons(message) == [] and len(fake.sent_to(owner)) == 1


async def test_with_streaming_off_only_typing_is_shown(
    fake: FakeTelegram, bot: Bot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_stream, "SLOW_AFTER", 0.05)
    stream = AnswerStream(Delivery(bot, never), Address(USER), DRAFT_ID, True, streaming="off")
    await stream.open(turn(), Shown(bot).note)
    stream.think()
    write(stream, "Раз")
    await fake.wait_for(lambda: fake.calls_of("sendChatAction"))
    assert await requests_after(fake, stream) == 0
    assert fake.sent == [] and fake.drafts == []


async def test_a_lost_topic_is_asked_once_while_an_answer_grows(
    fake: FakeTelegram, shown: Shown
) -> None:
    fake.close_topic(GROUP, 5)
    stream = await shown.open(Address(GROUP, 5), streaming="edits")
    write(stream, "Раз")
    await fake.wait_for(lambda: fake.calls_of("sendMessage"))
    write(stream, ", два")
    assert await requests_after(fake, stream) == 0
    assert len(fake.calls_of("sendMessage")) == 1 and shown.messages == []


async def test_a_long_draft_shows_its_end_in_its_topic(fake: FakeTelegram, shown: Shown) -> None:
    stream = await shown.open(Address(USER, 5))
    write(stream, "😀" * 3000 + "конец")
    await fake.wait_for(lambda: fake.drafts)
    await stream.close()
    assert fake.drafts[0].text.endswith("конец") and utf16_length(fake.drafts[0].text) <= 4096
    assert fake.drafts[0].thread_id == 5


@pytest.mark.parametrize("style", ["not_found", "bad_request"])
async def test_on_a_server_without_drafts_answers_are_edited_instead(
    fake: FakeTelegram, shown: Shown, style: str
) -> None:
    fake.disable_method("sendMessageDraft", style)
    first = await shown.open(Address(USER))
    write(first, "первый")
    await fake.wait_sent(USER)
    await first.close()
    assert shown.messages == [first.message_id]

    second = await shown.open(Address(USER))
    write(second, "второй")
    await fake.wait_sent(USER, 2)
    await second.close()
    assert len(fake.calls_of("sendMessageDraft")) == 2, "each answer tries once"
    assert shown.messages == [first.message_id, second.message_id]


async def test_edits_obey_retry_after(fake: FakeTelegram, shown: Shown) -> None:
    stream = await shown.open(Address(GROUP))
    write(stream, "раз")
    await fake.wait_sent(GROUP)
    fake.fail_next(
        "editMessageText", status=429, description="Too Many", parameters={"retry_after": 3}
    )
    write(stream, " два")
    await fake.wait_for(lambda: fake.calls_of("editMessageText"))
    await fake.wait_for(lambda: len(fake.calls_of("editMessageText")) == 2)
    await stream.close()
    assert fake.sent_to(GROUP)[0].text == "раз два", "what was not shown is shown later"
    refused, taken = fake.calls_of("editMessageText")[:2]
    assert taken.at - refused.at >= 3


@pytest.mark.parametrize("trouble", ["fail", "garbage", "drop"])
async def test_errors_of_typing_and_drafts_harm_nobody_and_it_goes_on(
    fake: FakeTelegram, shown: Shown, trouble: str
) -> None:
    for method in ("sendChatAction", "sendMessageDraft"):
        getattr(fake, f"{trouble}_next")(method)
    stream = await shown.open(Address(USER))
    await fake.wait_for(lambda: fake.calls_of("sendChatAction"))
    write(stream, "раз")
    await fake.wait_for(lambda: fake.calls_of("sendMessageDraft"))
    await fake.wait_for(lambda: fake.drafts, what="a draft after the trouble")
    await stream.close()


@pytest.mark.parametrize("owner", [USER, GROUP])
async def test_a_model_that_reads_slowly_says_so_once_and_the_answer_takes_that_place(
    fake: FakeTelegram, shown: Shown, monkeypatch: pytest.MonkeyPatch, owner: int
) -> None:
    monkeypatch.setattr(answer_stream, "SLOW_AFTER", 0.1)
    stream = AnswerStream(shown.delivery, Address(owner), DRAFT_ID, True, streaming="drafts")
    await stream.open(turn(), shown.note)

    def texts() -> list[str]:
        edits = [edit for sent in fake.sent_to(owner) for edit in (sent.text, *sent.edits)]
        return [draft.text for draft in fake.drafts] + [str(edit) for edit in edits]

    await fake.wait_for(lambda: texts() == [say("model_slow", "ru")])
    write(stream, "ответ")
    await fake.wait_for(lambda: any("ответ" in text for text in texts()))
    await stream.close()
    assert len(fake.sent_to(owner)) == (owner == GROUP)
    if owner == GROUP:
        assert fake.sent_to(owner)[0].text == "ответ"
        assert shown.messages == [stream.message_id], "the final answer is an edit of it"
