"""Transcripts of chats with the bot over the fake Telegram server, sixty turns per language.

    python -m tests.e2e.transcribe [NAME ...]

runs ``python bot.py`` without a language model against the fake, plays ``transcripts/<name>.txt``
line by line, and writes both sides of the chat to ``docs/transcripts/<name>.md``, by default for
all of ``SCRIPTS``. A line is a message or one of: ``tap KEY`` (press the newest button with this
label or text key), ``edit TEXT`` (of the last message), ``reply TEXT`` (to the newest message),
``photo CAPTION``, ``file NAME|TEXT``, ``voice``, ``sticker EMOJI``. ``picture NAME`` is no turn:
it writes a screenshot to ``docs/transcripts/<script>_<picture>.png``, ``picture whole`` one of the
whole chat.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from playwright.async_api import Browser

from src.texts import LANGUAGES, Language, say, sentences
from tests.attacks.frame import own_postgres
from tests.e2e.admin_tour import open_browser
from tests.e2e.bot_process import World, eventually, open_world
from tests.e2e.chat_screen import Shown, take_picture
from tests.fakes.telegram_types import SentMessage

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs" / "transcripts"
# Language of each script; the last one is the short chat whose screenshot is in README.md.
SCRIPTS: Mapping[str, Language] = {**{name: name for name in LANGUAGES}, "readme": "en"}
PHOTO = [{"file_id": "photo", "file_unique_id": "p", "width": 1280, "height": 900}]
STICKER = {"file_id": "s", "file_unique_id": "s", "type": "regular", "width": 512, "height": 512,
           "is_animated": False, "is_video": False}  # fmt: skip

# Messages and documents that are not indexed yet.
BEHIND = """
SELECT 1 FROM unindexed_messages
UNION ALL SELECT 1 FROM search_documents WHERE model_id IS NULL
"""


@dataclass
class Chat:
    """A user's chat with the bot, and its transcript."""

    world: World
    user: int
    script: str
    browser: Browser
    last: int = 0
    page: list[str] = field(default_factory=list)
    screen: list[Shown] = field(default_factory=list)

    @property
    def language(self) -> Language:
        return SCRIPTS[self.script]

    @property
    def sent(self) -> list[SentMessage]:
        return self.world.telegram.sent_to(self.user)

    async def play(self, line: str) -> None:
        """Play one line of the script, and record everything that the bot shows."""
        before = {id(m): (m.text, str(m.reply_markup)) for m in self.sent}
        verb, _, rest = line.partition(" ")
        await getattr(self, f"do_{verb}", self.write)(
            rest if hasattr(self, f"do_{verb}") else line
        )
        await self.world.telegram.wait_for(lambda: not self.world.telegram.pending_updates)
        await self.world.settled()
        await eventually(lambda: not self.world.query(BEHIND), "the index")
        for message in self.sent:
            if before.get(id(message)) != (message.text, str(message.reply_markup)):
                self.show_message(message, is_edit=id(message) in before)

    async def write(self, text: str) -> None:
        self.show(text)
        self.last = await self.world.telegram.send_text(
            self.user, text, language_code=self.language
        )

    async def do_reply(self, text: str) -> None:
        self.show(text, "↪")
        await self.world.telegram.send_text(
            self.user, text, language_code=self.language, reply_to=self.sent[-1].message_id
        )

    async def do_edit(self, text: str) -> None:
        self.show(text, "✎")
        await self.world.telegram.edit_text(self.user, self.last, text)

    async def do_tap(self, key: str) -> None:
        label = say(key, self.language) if key in sentences() else key
        message, data = self.find_button(label)
        self.show(label, "👆")
        await self.world.telegram.press_button(self.user, message.message_id, data)

    async def do_photo(self, caption: str) -> None:
        self.show(f"🖼 {caption}")
        await self.send(photo=PHOTO, caption=caption)

    async def do_file(self, content: str) -> None:
        name, _, text = content.partition("|")
        self.world.telegram.state.files["file"] = text.encode()
        self.show(f"📎 {name}")
        await self.send(document={"file_id": "file", "file_unique_id": "f", "file_name": name})

    async def do_voice(self, _rest: str) -> None:
        self.show("🎙")
        await self.send(voice={"file_id": "voice", "file_unique_id": "v", "duration": 3})

    async def do_sticker(self, emoji: str) -> None:
        self.show(emoji)
        await self.send(sticker={**STICKER, "emoji": emoji})

    async def send(self, **content: object) -> None:
        await self.world.telegram.send_message(self.user, language_code=self.language, **content)

    async def do_picture(self, name: str) -> None:
        file = f"{self.script}_{name}.png"
        await take_picture(self.browser, self.screen, DOCS / file, is_whole=name == "whole")
        self.page.append(f"\n![{name}]({file})\n")

    def find_button(self, label: str) -> tuple[SentMessage, str]:
        """Return the message and data of the newest button with this label."""
        for message in reversed(self.sent):
            for row in (message.reply_markup or {}).get("inline_keyboard", []):
                for button in row:
                    if button["text"] == label:
                        return message, button["callback_data"]
        raise AssertionError(f"no button {label!r}")

    def show(self, text: str, sign: str = "") -> None:
        self.page.append(f"\n**{f'{sign} ' if sign else ''}{text}**\n")
        if sign == "✎":
            last = max(n for n, shown in enumerate(self.screen) if isinstance(shown, str))
            self.screen[last] = f"{text} ✎"
        elif sign != "👆":
            self.screen.append(text)

    def show_message(self, message: SentMessage, *, is_edit: bool) -> None:
        if not is_edit:
            self.screen.append(message)
        text = message.text or f"📄 {message.method}"
        lines = [f"> {line}".rstrip() for line in text.splitlines()]
        if is_edit:
            lines[0] = lines[0].replace("> ", "> ✎ ", 1)
        for row in (message.reply_markup or {}).get("inline_keyboard", []):
            lines += [">", "> " + " ".join(map(shown_button, row))]
        self.page += ["\n".join(lines), ""]


def shown_button(button: Mapping[str, object]) -> str:
    """Return a button in Markdown; a disabled one is struck through."""
    label = f"`[{button['text']}]`"
    return f"~~{label}~~" if "disabled" in button else label


async def transcribe(world: World, name: str, user: int, browser: Browser) -> str:
    """Play a script, and return its transcript."""
    chat = Chat(world, user, name, browser)
    script = (HERE / "transcripts" / f"{name}.txt").read_text(encoding="utf-8")
    for line in script.splitlines():
        await chat.play(line)
    turns = sum(not line.startswith("picture ") for line in script.splitlines())
    head = (
        f"# A chat in `{chat.language}`: {turns} turns, without a language model\n\n"
        "Written by `python -m tests.e2e.transcribe`. Bold is what the person does (👆 taps, "
        "✎ edits, ↪ replies), quoted is what the bot shows; ✎ there: it edited its message; "
        "a button that is struck through is disabled.\n"
    )
    return head + "\n".join(chat.page) + "\n"


async def main(names: Sequence[str]) -> None:
    """Write the transcripts of these scripts."""
    async with open_browser() as browser, own_postgres() as own, open_world(own.dsn) as world:
        world.telegram.state.files |= {"photo": b"\xff\xd8\xff\xe0", "voice": b"sound"}
        await world.start(LLM_MODEL="offline")
        DOCS.mkdir(parents=True, exist_ok=True)
        for number, name in enumerate(names):
            page = await transcribe(world, name, 2**41 + number, browser)
            (DOCS / f"{name}.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SCRIPTS)}")
    chosen = parser.parse_args().names or list(SCRIPTS)
    asyncio.run(main(chosen))
