"""Replies to /import, its buttons and its words: what a file holds, the choices, the progress."""

from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from typing import BinaryIO, cast

from src.base.config import OFFLINE_MODEL, Settings
from src.base.owners import Caller
from src.imports.files import UnreadableFileError
from src.imports.import_repo import Contents, Import
from src.imports.records import Opened
from src.imports.service import ImportService
from src.pg.client import PgClient
from src.pg.settings_repo import GlobalSettingsRepository
from src.queue.job_repo import STORE_IMPORTS, JobRepository
from src.texts import Language, format_number, say
from src.texts.plain_text import shortened
from src.texts.reply import ASK_FILE, Action, Button, Reply, Rows, in_rows, pager_row

PER_PAGE = 15  # memories of one page
MAX_LINE = 160  # characters of a memory in a list
MAX_BROKEN = 10  # titles of conversations that could not be read
MAX_SPEAKERS = 8
CUT = 3500  # characters; Telegram cuts a longer paste, and its next part comes at once
CHARACTERS_PER_TOKEN = 3
WINDOW_TOKENS = 1700  # of a prompt beside its messages
REPLY_TOKENS = 400  # of the facts of a window
MILLION = 1_000_000
SEARCH, FACTS, CANCEL, KEEP, DROP, OWN, DAY_FIRST, MONTH_FIRST, PAGE, UNDO = range(10)
# The choices in words, for those who have no buttons.
WORDS = {
    "search": SEARCH, "facts": FACTS, "cancel": CANCEL, "keep": KEEP, "drop": DROP,
    "undo": UNDO, "day": DAY_FIRST, "month": MONTH_FIRST, "me": OWN, "list": PAGE,
}  # fmt: skip


@dataclass(eq=False, repr=False)
class ImportScreens:
    """Replies about imports; ``_stored`` has the runtime settings."""

    service: ImportService
    _client: PgClient
    _settings: Settings
    _stored: GlobalSettingsRepository

    async def command(self, caller: Caller) -> Reply:
        """Reply to ``/import``: ask for a file, show the last import, or follow its words.

        A longer text is a pasted list.
        """
        words, refusal = caller.argument.strip(), _find_refusal(caller)
        if refusal is not None:
            return refusal
        first, _, rest = words.partition(" ")
        if "\n" not in words and first.lower() in WORDS and (not rest or first.lower() == "me"):
            return await self._follow(caller, WORDS[first.lower()], rest.strip())
        if words:
            data = words.encode()
            read = await self.read(caller, Opened("", lambda: cast("BinaryIO", BytesIO(data))))
            if len(words) > CUT:
                read = replace(read, asks=ASK_FILE)
            return read
        last = await self._client.run(self.service.rows.find_last, caller.owner)
        if last is not None:
            screen = await self.screen(caller, last)
            if last.state != "done" or screen.rows:
                return screen
        return Reply(say("import_usage", caller.language), asks=ASK_FILE)

    async def read(self, caller: Caller, file: Opened) -> Reply:
        """Read a file, and reply with what it holds."""
        refusal = _find_refusal(caller)
        if refusal is not None:
            return refusal
        try:
            found = await self.service.read(caller, file)
        except UnreadableFileError as error:
            return Reply(say(error.text_key, caller.language))
        return await self.screen(caller, found)

    async def run_to_end(self, caller: Caller, reply: Reply) -> Reply:
        """Store the import of a reply, or take it back, without a job queue; return its screen."""
        assert reply.import_id is not None
        rows, owner, name = self.service.rows, caller.owner, ""
        while True:
            found = await self._client.run(rows.find, owner, reply.import_id)
            if found is None:
                return Reply(say("import_undone", caller.language, name=name))
            name = found.title
            if found.state not in ("storing", "undoing"):
                return await self.screen(caller, found)
            await self.service.advance(found)

    def refuse_large(self, language: Language) -> Reply:
        """Reply to a file that Telegram does not hand to bots."""
        key = "import_large_app" if self._settings.app_url else "import_large"
        return Reply(say(key, language))

    async def press(self, caller: Caller, number: int, choice: int, value: int = 0) -> Reply:
        """Take a choice of a button."""
        found = await self._client.run(self.service.rows.find, caller.owner, number)
        if found is None:
            return Reply.closing_note(say("import_gone", caller.language))
        return await self._choose(caller, found, choice, value)

    async def _follow(self, caller: Caller, choice: int, name: str) -> Reply:
        """Take a choice in words, for the last import."""
        find = self.service.rows.find_last
        found = await self._client.run(find, caller.owner, has_something=choice == UNDO)
        if found is None:
            return Reply(say("import_gone", caller.language))
        value = 1
        if choice == OWN:
            names = [shown.casefold() for shown in found.names.values()]
            if name.casefold() not in names:
                return await self.screen(caller, found)
            value = names.index(name.casefold())
        return replace(await self._choose(caller, found, choice, value), is_screen=False)

    async def _choose(self, caller: Caller, found: Import, choice: int, value: int) -> Reply:
        rows, run, owner, number = self.service.rows, self._client.run, caller.owner, found.id
        if choice == CANCEL and found.state == "waiting" and not found.keeps_memories:
            await run(rows.delete, number)
            return Reply(say("import_cancelled", caller.language), is_screen=True)
        is_clear = found.question is None
        if choice in (SEARCH, FACTS, CANCEL) and is_clear:
            wanted = {"reads_facts": choice == FACTS, "with_messages": choice != CANCEL}
            await run(partial(rows.choose, owner, number, **wanted))
        elif choice in (KEEP, DROP) and is_clear:
            await run(partial(rows.keep, owner, number, keeps=choice == KEEP))
        elif choice == UNDO:
            await run(rows.take_back, owner, number)
        elif choice == OWN and value < len(found.names):
            await run(rows.set_own_name, owner, number, list(found.names)[value])
        elif choice in (DAY_FIRST, MONTH_FIRST):
            await run(partial(rows.set_order, owner, number, days_first=choice == DAY_FIRST))
        await run(JobRepository(self._client).defer_indexing, STORE_IMPORTS)
        current = await run(rows.find, owner, number)
        if current is None:
            return Reply.closing_note(say("import_gone", caller.language))
        return await self.screen(caller, current, max(1, value) if choice == PAGE else 1)

    async def screen(self, caller: Caller, import_: Import, page: int = 1) -> Reply:
        """Return the screen of an import: its question, its contents, or its progress.

        Args:
            caller: The owner.
            import_: The import.
            page: Page of what another assistant remembers.
        """
        language = caller.language
        contents = await self._client.run(self.service.rows.count, caller.owner, import_.id)
        if import_.question is not None:
            answers = [(say("import_day_first", language), DAY_FIRST, 0)]
            answers.append((say("import_month_first", language), MONTH_FIRST, 0))
            if import_.question == "import_who":
                names = list(import_.names.values())[:MAX_SPEAKERS]
                answers = [(name, OWN, place) for place, name in enumerate(names)]
            answers.append((say("import_cancel", language), CANCEL, 0))
            buttons = [_button(label, import_, *choice) for label, *choice in answers]
            text = say(import_.question, language)
            return Reply(text, in_rows(buttons, 1), is_screen=True, import_id=import_.id)
        parts, rows = [_state_line(import_, contents, language)], Rows()
        if import_.state == "waiting":
            parts = [self._summary(caller, import_, contents)]
            rows = await self._choice_rows(import_, contents, language)
        if import_.broken and import_.state == "waiting":
            titles = "\n".join(f"• {title}" for title in import_.broken[:MAX_BROKEN])
            parts.append(say("import_broken_some", language, titles=titles))
        has_memories = contents.memories and import_.keeps_memories is None
        if has_memories and import_.state != "undoing":
            text, more = await self._memory_part(caller, import_, contents, page)
            parts.append(text)
            rows = (*more, *rows)
        text = "\n\n".join(filter(None, parts))
        return Reply(text, rows, is_screen=True, import_id=import_.id)

    def _summary(self, caller: Caller, import_: Import, contents: Contents) -> str:
        language = caller.language
        lines = [say("import_from", language, name=import_.title)]
        if contents.messages:
            years = [f"{moment:%Y}" for moment in (contents.first, contents.last) if moment]
            counts = {
                "conversations": format_number(contents.conversations, language),
                "messages": format_number(contents.messages, language),
                "years": "–".join(dict.fromkeys(years)),
            }
            lines.append(say("import_messages", language, **counts))
        if contents.known:
            known = format_number(contents.known, language)
            lines.append(say("import_known", language, messages=known))
        if contents.files:
            count = format_number(contents.files, language)
            lines.append(say("import_files", language, count=count))
        if contents.facts or contents.reminders:
            facts, reminders = contents.facts, contents.reminders
            lines.append(say("import_own", language, facts=facts, reminders=reminders))
        return "\n".join(lines)

    async def _choice_rows(self, import_: Import, contents: Contents, language: Language) -> Rows:
        rows = list[tuple[Button, ...]]()
        if contents.left:
            key = "import_take" if import_.source == "pomni" else "import_search"
            rows.append((_button(say(key, language), import_, SEARCH),))
            model = self._stored.last_known.memory_extraction_model
            model = model or self._settings.extraction_model or self._settings.chat_model_name
            is_read = self._stored.last_known.memory_extraction_enabled and model != OFFLINE_MODEL
            if contents.messages and is_read and import_.source != "pomni":
                cost = await self._estimate(model, contents, language)
                label = say("import_facts", language, cost=cost)
                rows.append((_button(label, import_, FACTS),))
        label = say("import_cancel", language)
        if import_.keeps_memories:
            label = say("import_memories_alone", language)
        rows.append((_button(label, import_, CANCEL),))
        return tuple(rows)

    async def _estimate(self, model: str, contents: Contents, language: Language) -> str:
        """Return about what reading costs: money if the price is known, else tokens."""
        stored = self._stored.last_known
        windows = -(-contents.messages // stored.memory_extraction_window)
        prompt = windows * WINDOW_TOKENS + contents.characters / CHARACTERS_PER_TOKEN
        reply = windows * REPLY_TOKENS
        price = await self._client.run(self.service.rows.find_price, model)
        if price is None:
            tokens = format_number(round(prompt + reply, -3) or 1000, language)
            return say("import_tokens", language, tokens=tokens)
        money = (prompt * price[0] + reply * price[1]) / MILLION
        if stored.memory_extraction_provider != "immediate":
            money /= 2
        return f"{max(money, 0.01):.2f} {stored.currency}"

    async def _memory_part(
        self, caller: Caller, import_: Import, contents: Contents, page: int
    ) -> tuple[str, Rows]:
        """Return what another assistant remembers, and the buttons to keep it."""
        language, last = caller.language, -(-contents.memories // PER_PAGE)
        page = min(page, last)
        shown = {"limit": PER_PAGE, "offset": PER_PAGE * (page - 1)}
        read = partial(self.service.rows.list_memories, caller.owner, import_.id, **shown)
        texts = await self._client.run(read)
        lines = [say("import_memories", language, count=contents.memories, name=import_.title)]
        lines += [f"• {shortened(text, MAX_LINE)}" for text in texts]
        pages = [
            tuple(_button(b.label, import_, PAGE, b.action.number(0)) for b in row)
            for row in pager_row(page, last, "import")
        ]
        keep = _button(say("import_keep", language, count=contents.memories), import_, KEEP)
        drop = _button(say("import_drop", language), import_, DROP)
        return "\n".join(lines), (*pages, (keep, drop))


def _find_refusal(caller: Caller) -> Reply | None:
    """Return the reply where nothing can be imported: in a group, or without the memory."""
    if caller.owner.is_group:
        return Reply(say("import_group", caller.language), is_personal=True)
    if not caller.preferences.memory_on:
        return Reply(say("import_memory_off", caller.language))
    return None


def _state_line(import_: Import, contents: Contents, language: Language) -> str:
    name = import_.title
    if import_.state == "undoing":
        return say("import_undoing", language, name=name)
    if import_.state == "done":
        if import_.total:
            count = format_number(import_.total, language)
            return say("import_done", language, name=name, count=count)
        if import_.keeps_memories is False:
            return say("import_cancelled", language)
        return say("import_done_none", language, name=name)
    done = format_number(max(0, import_.total - contents.left), language)
    total = format_number(import_.total, language)
    return say("import_storing", language, name=name, done=done, total=total)


def _button(label: str, import_: Import, choice: int, value: int = 0) -> Button:
    return Button(label, Action("import", (import_.id, choice, value)))
