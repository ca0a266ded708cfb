"""Commands and buttons: the tables of them, and the replies of those that need no screen."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from src.base.owners import Called
from src.base.zones import local_time
from src.history.timeline_repo import TimelineMessage, TimelineRepository
from src.history.turn_repo import Changes, StoredAnswer, TurnRepository
from src.memory.budget import DailyCeilings
from src.memory.compaction import CompactionService
from src.memory.forgetter import Forgotten, Named
from src.memory.forgetting_repo import Undone
from src.memory.memories import NEAR, Memories
from src.memory.memory_repo import FactQuery, message_number
from src.memory.retrieval_repo import Hit
from src.memory.retriever import Query
from src.memory.screens import MemoryScreens
from src.offline.replies import LISTED, is_note
from src.outside.servers import McpServers, ServerState
from src.pg.client import PgClient
from src.pg.user_settings_repo import Mode
from src.privacy.export import ExportService
from src.queue.job_repo import JobRepository
from src.queue.update_repo import UpdateKind
from src.reading import lexicon
from src.reading.gate import redact
from src.reading.sentences import best_passage
from src.reading.time_expressions import read_time
from src.reading.voices import words_of
from src.reminders.screens import ReminderScreens, cancel_button
from src.talk.questions import QuestionService
from src.talk.settings import SettingsScreens
from src.talk.turn import AgentService
from src.talk.turn_state import RESOLUTIONS, IncomingMessage, Teaching, Turn
from src.talk.zones import city_row, not_mine_button, zone_note
from src.texts import Language, say
from src.texts.morphology import terms
from src.texts.plain_text import shortened
from src.texts.reply import Action, Button, Reply, Rows, in_rows

MAX_UNDO = 4  # buttons; /memory and /undo reach the rest
MAX_FOUND = 8  # of a search
MAX_SNIPPET = 300  # characters of each
LOOKED_AT = 60  # messages among which notes are looked for
MAX_NOTE = 160  # characters of one in a list
MAX_CHOICES = 8  # buttons of what a request to forget may mean
MAX_LABEL = 40  # characters of one
CONFIRM_SECONDS = 600  # for so long a question whether to erase counts


def choice_rows(answer_id: int, language: Language) -> Rows:
    """The buttons under an answer that asks which of two facts holds."""
    return tuple(
        (Button(say(f"conflict_{name}", language), Action("settle", (answer_id, place))),)
        for place, name in enumerate(RESOLUTIONS)
    )


def undo_buttons(changes: Changes, language: Language) -> list[Button]:
    """A button for each change, those that cost something first."""
    buttons = []
    if changes.forgetting is not None:
        action = Action("recall", (changes.forgetting,))
        buttons.append(Button(say("undo_forgot_button", language), action))
    ids = [(id_, "undo_button") for id_ in changes.replaced_by]
    ids += [(id_, "undo_saved_button") for id_ in changes.saved]  # as the notes count them
    buttons += _numbered([Button(say(key, language), Action("undo", (id_,))) for id_, key in ids])
    reminders = [cancel_button(number, language) for number in changes.reminders]
    return [*_numbered(reminders), *buttons][:MAX_UNDO]


def _numbered(buttons: list[Button]) -> list[Button]:
    """The same, told apart by numbers where there are several."""
    if len(buttons) == 1:
        return buttons
    return [replace(one, label=f"{one.label} ({n})") for n, one in enumerate(buttons, start=1)]


MAX_PAGE = 3500  # characters; with our own tools it stays within one message of Telegram's
MAX_LINES = 12  # tools of one server


def tools_page(states: Sequence[ServerState], language: Language) -> str:
    """Our own tools in plain words, then each server with the names of what it offers.

    Descriptions are words of others, meant for a model; so are odd names, which are only counted.
    """
    own = say("tools_own", language)
    if not states:
        return f"{own}\n\n{say('tools_none', language)}"
    parts, left = [own, say("tools_servers", language)], MAX_PAGE
    for number, state in enumerate(states):
        part = _server_part(state, language)
        left -= len(part)
        if left < 0:
            parts.append(say("tools_more", language, count=len(states) - number))
            break
        parts.append(part)
    return "\n\n".join(parts)


def _server_part(state: ServerState, language: Language) -> str:
    if not state.is_ready:
        key = "tools_away" if state.cause else "tools_connecting"
        return f"• {state.name}: {say(key, language)}"
    lines = [f"• {state.name}: {say('tools_ready', language, count=len(state.tools))}"]
    shown = list(filter(None, state.tools))[:MAX_LINES]
    lines += [f"   {name}" for name in shown]
    if hidden := len(state.tools) - len(shown):
        lines.append(f"   {say('tools_more', language, count=hidden)}")
    return "\n".join(lines)


def _grouped(number: int) -> str:
    """With narrow spaces between thousands, as all three languages read them."""
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


PATTERN = re.compile(r"/([A-Za-z0-9_]{1,32})(?:@([A-Za-z0-9_]{3,64}))?(?:\s+(.*))?$", re.DOTALL)


@dataclass(frozen=True)
class Command:
    """``/name@addressee argument``; the name in lower case."""

    name: str
    addressee: str | None = None
    argument: str = ""

    def is_for(self, username: str) -> bool:
        """Whether a bot of this name is meant: by name, or because no name is given."""
        return self.addressee is None or self.addressee.lower() == username.lower()


@dataclass(frozen=True)
class CommandEntry:
    """A command of the bot: all that the rest of the program knows of it.

    Its texts are ``command_<name>`` (Telegram's menu), ``help_<name>`` (/help) and its replies.

    Attributes:
        name: Without the slash.
        run: Does its work and returns the reply.
        kind: The kind of its updates; ``new`` and ``stop`` end the answer that is being written.
            What stands after ``teach`` is a message, to be remembered as it stands.
        is_at_once: Whether its reply may come in the middle of an answer: it changes nothing.
        is_in_help: Whether /help names it.
        is_for_admins: Whether in a group only its admins may use it.
        is_for_groups: Whether it makes sense there, so that their menu shows it.
    """

    name: str
    run: Callable[["CommandService", Called], Awaitable[Reply]]
    kind: UpdateKind = "command"
    is_at_once: bool = False
    is_in_help: bool = True
    is_for_admins: bool = False
    is_for_groups: bool = True


def undone_text(undone: Undone | None, language: Language) -> str:
    """What the user is told when something was taken back, or when there was nothing to."""
    if undone is None:
        return say("undo_nothing", language)
    restored = "; ".join(undone.restored)
    if undone.text is None:
        return say("undo_forgot_done", language, restored=restored)
    if not undone.restored:
        return say("undo_saved_done", language, text=undone.text)
    return say("undo_done", language, text=undone.text, restored=restored)


def _is_open_note(said: TimelineMessage, facts: str) -> bool:
    """Whether a message is a note that anybody may see, and none of these facts."""
    is_open = said.role == "user" and not said.is_private and said.text not in facts
    return is_open and is_note(said.text)


def parse_command(text: str) -> Command | None:
    """The command that a text begins with, or None."""
    match = PATTERN.match(text)
    return Command(match[1].lower(), match[2], (match[3] or "").strip()) if match else None


def help_page(language: Language) -> str:
    """What the bot can do, and every command; the page's own comes last."""
    names = [entry.name for entry in COMMANDS.values() if entry.is_in_help]
    names.sort(key=lambda name: name == "help")
    lines = [f"/{name} — {say(f'help_{name}', language)}" for name in names]
    return say("help", language, commands="\n".join(lines))


@dataclass(eq=False, repr=False)
class CommandService:
    """Runs users' commands and the actions of their buttons.

    Attributes:
        has_model: Whether there is a language model; without one /start says so.
    """

    _agent: AgentService
    _memories: Memories
    _client: PgClient
    screens: MemoryScreens
    compaction: CompactionService
    exports: ExportService
    settings: SettingsScreens
    ceilings: DailyCeilings
    reminders: ReminderScreens
    questions: QuestionService
    has_model: bool
    servers: McpServers

    def __post_init__(self) -> None:
        """Build what it needs on the client."""
        self._turns = TurnRepository(self._client)
        self._timeline = TimelineRepository(self._client)

    async def run(self, command: str, called: Called) -> Reply:
        """Run a command, named without its slash, and return the reply."""
        entry = COMMANDS.get(command)
        if entry is None:
            return Reply(say("unknown_command", called.language))
        if entry.is_for_admins and not called.is_admin:
            return Reply(say("only_admins", called.language))
        return await entry.run(self, called.asking(redact(called.argument)))

    async def press(self, action: Action | None, called: Called) -> Reply:
        """Do what a button stands for; a note for one that is unknown, or not any more known."""
        do = ACTIONS.get(action.name) if action is not None else None
        if do is None or action is None:
            return Reply.gone(say("tap_unknown", called.language))
        if action.name in FOR_ADMINS and not called.is_admin:
            return Reply.note(say("only_admins", called.language))
        return await do(self, called, action)

    async def press_undo(self, called: Called, undone: Awaitable[Reply]) -> Reply:
        """What a button takes back, in a message; or a note that there is nothing to."""
        reply = await undone
        is_over = reply.text == say("undo_nothing", called.language)
        return Reply.gone(say("tap_undone", called.language)) if is_over else reply

    async def start(self, called: Called) -> Reply:
        """Say what the bot does, keeps and forgets, and whether a language model is connected.

        A deep link (``t.me/<bot>?start=settings``) opens one of LINKED at once.
        """
        if called.argument in LINKED:
            return await self.run(called.argument, replace(called, argument=""))
        start = say("start", called.language)
        model = say("start_model" if self.has_model else "offline_note", called.language)
        if called.has_zone or called.owner.is_group:
            return Reply(f"{start}\n\n{model}")
        asked = say("zone_start", called.language)
        return Reply(f"{start}\n\n{model}\n\n{asked}", (city_row(called.language),))

    async def memory(self, called: Called) -> Reply:
        """The first page of facts; without a model also the newest notes, which are no facts."""
        page = await self.screens.page(called)
        if self.has_model or called.owner.is_group:
            return page
        said = await self._client.run(self._timeline.list_before, called.owner, limit=LOOKED_AT)
        told = {one.text: one.said_at for one in reversed(said) if _is_open_note(one, page.text)}
        notes = [
            say(
                "offline_quote", called.language,
                text=shortened(redact(text, household=True), MAX_NOTE),
                said_at=f"{local_time(moment, called.time_zone):%d.%m.%Y %H:%M}",
            )
            for text, moment in reversed(told.items())
        ]  # fmt: skip
        if not notes:
            return page
        known = [page.text] if page.rows else []
        return replace(
            page, text="\n".join([*known, say("memory_notes", called.language), *notes[:LISTED]])
        )

    async def remind(self, called: Called) -> Reply:
        """``/remind``; the first one names the zone by which it was read."""
        reply = await self.reminders.remind(called)
        if called.has_zone or called.owner.is_group or not reply.rows:
            return reply
        await self.settings.change(called.owner, time_zone=called.time_zone)  # they are told it
        rows = (*reply.rows, (not_mine_button(called.language),))
        return replace(reply, text=f"{reply.text}\n\n{zone_note(called)}", rows=rows)

    async def say_help(self, called: Called) -> Reply:
        """Show what the bot can do."""
        return Reply(help_page(called.language))

    async def tools(self, called: Called) -> Reply:
        """Show what the bot can use: its own tools, and those of servers."""
        return Reply(tools_page(self.servers.states(), called.language))

    async def usage(self, called: Called) -> Reply:
        """Messages and tokens of today, tokens of thirty days, and the limits that there are.

        In a group: the group's tokens and the member's own messages.
        """
        settings, language = await self._memories.settings(), called.language
        owner = called.owner.telegram_user_id
        spent = await self.ceilings.sum_spent(called.member or owner, owner)
        lines = [say("usage_title", language)]
        if limit := settings.daily_messages_per_user:
            lines.append(say("usage_messages", language, count=spent.messages, limit=limit))
        lines.append(say("usage_tokens", language, count=_grouped(spent.tokens)))
        lines.append(say("usage_month", language, count=_grouped(spent.tokens_in_month)))
        if tokens := settings.daily_tokens_per_user:
            lines.append(say("usage_token_limit", language, limit=_grouped(tokens)))
        if rate := settings.messages_per_minute_per_user:
            lines.append(say("usage_minute", language, limit=rate))
        if not (limit or tokens or rate):
            lines.append(say("usage_unlimited", language))
        return Reply("\n".join(lines))

    async def say_privacy(self, called: Called) -> Reply:
        """Tell what is kept, who sees it, and how it is erased."""
        settings = await self._memories.settings()
        days = settings.message_retention_days
        kept = say("privacy_days", called.language, days=days) if days else ""
        model = say("privacy_model" if self.has_model else "privacy_offline", called.language)
        return Reply(say("privacy", called.language, model=model, kept=kept).strip())

    async def say_how_to_remember(self, called: Called) -> Reply:
        """``/remember`` alone; with a text it is a message (``CommandEntry.kind``)."""
        return Reply(say("remember_usage", called.language))

    async def mode(self, called: Called) -> Reply:
        """``/mode strict`` and ``/mode assistant`` set it; ``/mode`` alone says which it is."""
        mode, owner = lexicon.values("settings.mode").get(called.argument.lower()), called.owner
        if mode is None:
            current = await self.settings.get(owner)
            it_is = say(f"mode_is_{current.mode}", called.language)
            unknown = say("mode_unknown", called.language)
            return Reply(f"{unknown}\n{it_is}" if called.argument else it_is)
        await self.settings.change(owner, mode=mode)
        return Reply(say(f"mode_set_{mode}", called.language))

    async def correct(
        self, called: Called, memory_id: int, text: str, *, mode: Mode
    ) -> StoredAnswer | None:
        """Store the text as a message, the source of what holds instead of a fact, and answer it.

        Args:
            called: Whose fact it is, in a private chat.
            memory_id: The fact.
            text: What is right.
            mode: In which the user talks with the bot.

        Returns:
            The answer, which says what it changed; None when the fact is not there, or holds no
            more: nothing is stored then.

        Raises:
            AppError: It did not work; the message may be stored.
        """
        find = self._memories.facts.find_fact
        fact = await self._client.run(find, called.owner, memory_id)
        if fact is None or fact.retired_at is not None:
            return None
        turn = Turn(IncomingMessage(
            called.owner, text, called.moment, called.language, called.time_zone, mode,
            teaching=Teaching(corrects=memory_id),
        ))  # fmt: skip
        await self._agent.run_turn(turn)
        # No update of Telegram brings that about here.
        await self._client.run(JobRepository(self._client).defer_indexing)
        return turn.answer

    async def undo(self, called: Called, memory_id: int | None = None) -> Reply:
        """Take back the last replacement or forgetting, or how a certain fact came about."""
        undone = await self._memories.undo(called.owner, memory_id, asker=called.member)
        return Reply(undone_text(undone, called.language))

    async def recall(self, called: Called, number: int) -> Reply:
        """Remember again what was forgotten under a number, while that is possible."""
        undone = await self._memories.undo_forgetting(called.owner, number, asker=called.member)
        return Reply(undone_text(undone, called.language))

    async def settle(self, called: Called, answer_id: int, choice: int) -> Reply:
        """Decide which of two facts holds; what came of it stands below the question.

        Args:
            called: Who pressed the button.
            answer_id: The answer that asks.
            choice: The place of the decision among ``RESOLUTIONS``.
        """
        resolution = RESOLUTIONS[choice] if choice < len(RESOLUTIONS) else "old"
        settlement = await self.questions.settle(called, answer_id, resolution)
        await self.questions.close(called.owner, settlement, is_shown=True)
        if settlement.kind == "not_his":  # the question stays for its author
            return replace(Reply.note(settlement.shown), popup=settlement.said)
        # A second press, or one that a process died over: what came of it is shown once more.
        changes = await self._still_holding(called, settlement.changes)
        rows = in_rows(undo_buttons(changes, called.language), 1)
        over = say("tap_done_already", called.language)
        popup = over if settlement.kind == "over" else settlement.said
        return Reply(settlement.shown, rows, popup=popup, is_screen=True)

    async def _still_holding(self, called: Called, changes: Changes) -> Changes:
        """Of what was changed, the facts that can still be taken back."""
        made = FactQuery(ids=[*changes.saved, *changes.replaced_by])
        facts = await self._client.run(self._memories.facts.list_facts, called.owner, made)
        living = {fact.id for fact in facts}
        saved, by = (tuple(n for n in ids if n in living)
                     for ids in (changes.saved, changes.replaced_by))  # fmt: skip
        return replace(changes, saved=saved, replaced_by=by)

    async def erase(self, called: Called, *, agreed: bool) -> Reply:
        """Erase everything, or nothing; in a group only the group's memory is asked about."""
        key = await self._agent.confirm_erasure(called.owner, agreed=agreed)
        text = say(key, called.language)
        return Reply.gone(text) if key == "erase_late" else Reply(text, is_screen=True)

    async def new(self, called: Called) -> Reply:
        """Wipe the conversation; facts survive it, and the reply says how many."""
        await self._agent.start_new_conversation(called.owner)
        return await self._offer(called)

    async def _offer(self, called: Called) -> Reply:
        """What /new says: how many facts survive it, to be seen or forgotten.

        Without a model notes are no facts, and it says that they went.
        """
        language = called.language
        done = say("new_done" if self.has_model else "new_notes", language)
        facts = await self._client.run(self._memories.facts.count, called.owner)
        if not facts:
            return Reply(done)
        text = f"{done} {say('new_facts', language, count=facts)}"
        buttons = (
            (Button(say("see_button", language), Action("see")),),
            (Button(say("forget_facts_button", language), Action("wipe")),),
        )
        return Reply(text, buttons)

    async def see(self, called: Called) -> Reply:
        """The first page of facts below what /new said, which stays."""
        page = await self.screens.page(called)
        return replace(page, is_screen=False, keeps_button=True)

    async def wipe(self, called: Called, step: int) -> Reply:
        """Forget every fact: ask first (step 0), then (1) do it, or (2) leave all as it is."""
        language = called.language
        if step == 1:
            await self._agent.erase_facts(called.owner)
            return Reply(say("wipe_done", language), is_screen=True)
        facts = await self._client.run(self._memories.facts.count, called.owner)
        if not facts:
            return Reply(say("memory_empty", language), is_screen=True)
        if step == 2:
            offer = await self._offer(called)
            return replace(offer.in_place(), popup=say("erase_kept", language))
        buttons = (
            (Button(say("wipe_yes", language), Action("wipe", (1,))),),
            (Button(say("erase_no", language), Action("wipe", (2,))),),
        )
        return Reply(say("wipe_ask", language, count=facts), buttons, is_screen=True)

    async def stop(self, called: Called) -> Reply:
        """Say whether an answer was stopped: the command did it on its arrival."""
        stopped = await self._agent.was_stopped(called.owner)
        return Reply(say("stop_done" if stopped else "stop_nothing", called.language))

    async def forget(self, called: Called) -> Reply:
        """``/forget the cat``: forget what is surely meant, else ask which of several."""
        language = called.language
        if not called.argument:
            return Reply(say("forget_usage", language))
        found = await self._memories.forget(
            called.owner, about=called.argument, speaker_id=called.asker
        )
        if found.texts:
            return forgotten_reply(found, language)
        if found.ask:
            return _listed(say("forget_which", language), found.ask)
        if found.nearest:
            text = f"{say('forgot_nothing', language)} {say('forget_nearest', language)}"
            return _listed(text, found.nearest)
        return Reply(say("forgot_nothing", language))

    async def offer_to_forget(self, called: Called, sent_message: int) -> Reply | None:
        """What the answer in a Telegram message cited, to be forgotten one by one.

        None where it cited nothing, or is no answer of ours in this conversation.
        """
        cited = await self._client.run(self._turns.list_cited, called.owner, sent_message)
        if not cited:
            return None
        named = [Named(uid, text) for uid, text in cited]
        return _listed(say("disliked", called.language), named)

    async def drop(self, called: Called, kind: int, number: int) -> Reply:
        """Forget what was chosen: a fact (0) or a message (1)."""
        uid = f"{'msg' if kind else 'fact'}-{number}"
        found = await self._memories.forget_once(called.owner, uid, asker=called.asker)
        if not found.texts:
            return Reply.gone(say("memory_gone", called.language))
        reply = forgotten_reply(found, called.language)
        return replace(reply, is_screen=True, keeps_others=True)

    async def search(self, called: Called) -> Reply:
        """``/search the cat``: where it was said, with buttons that lead there."""
        language = called.language
        if not called.argument:
            return Reply(say("search_usage", language))
        hits = await self.find(called, limit=MAX_FOUND)
        if not hits:
            return Reply(say("search_nothing", language))
        lines = [say("search_found", language, count=len(hits))]
        lines += [_found_line(place, hit, called) for place, hit in enumerate(hits, start=1)]
        buttons = [
            Button(f"{place} · {called.day(hit.said_at)}", Action("source", (number,)))
            for place, hit in enumerate(hits, start=1)
            if (number := message_number(hit.uid)) is not None
        ]
        return Reply("\n\n".join(lines), in_rows(buttons, 2), say("search_hint", language))

    async def find(self, called: Called, *, limit: int) -> list[Hit]:
        """What was said that fits the argument, best first; each message once."""
        now = local_time(called.moment, called.time_zone)
        hits = await self._memories.retriever.search(
            Query(
                called.owner, called.argument, now, limit=limit, with_assistant=True,
                kinds=("message", "memory"), speaker_id=called.asker, threshold=NEAR,
            )
        )  # fmt: skip
        spoken = [hit for hit in hits if _speaks_of(hit, called.argument)]
        once: dict[str, Hit] = {}  # a fact and the message that told it lead to the same place
        for hit in spoken or hits:  # what only means the same, where no word is
            once.setdefault(hit.uid, hit)
        return list(once.values())

    async def summary(self, called: Called) -> Reply:
        """``/summary``: what this conversation has been about, the newest messages included."""
        conversation_id = await self._agent.conversation_of(called.owner)
        texts = await self.compaction.describe(conversation_id)
        if not texts:
            return Reply(say("summary_nothing", called.language))
        return Reply("\n\n".join([say("summary_title", called.language), *texts]))

    async def export(self, called: Called) -> Reply:
        """``/export``: everything in two files, one to read and one for programs."""
        files = await self._client.run(self.exports.write_files, called)
        return Reply(say("export_done", called.language), files=files)

    async def delete_me(self, called: Called) -> Reply:
        """``/delete_me`` asks twice; this is the first time."""
        if called.owner.is_group:
            return Reply(say("forget_group", called.language))
        return self._ask(called, "delete_ask", 1)

    async def confirm_deletion(self, called: Called, step: int, asked: int) -> Reply:
        """A button under one of the two questions; 0 is no.

        Args:
            called: Who pressed it.
            step: Which question it answers with yes.
            asked: When that was asked, in seconds since 1970.
        """
        language = called.language
        if step not in (1, 2) or called.owner.is_group:
            return Reply(say("erase_kept", language), is_screen=True)
        if not -60 <= datetime.now(UTC).timestamp() - asked <= CONFIRM_SECONDS:
            return Reply(say("delete_late", language), is_screen=True)
        if step == 1:
            return self._ask(called, "delete_ask_again", 2).in_place()
        await self._agent.erase(called.owner.telegram_user_id)
        return Reply(say("erase_done", language), is_screen=True)

    def _ask(self, called: Called, key: str, step: int) -> Reply:
        asked = int(datetime.now(UTC).timestamp())
        language = called.language
        return Reply(
            say(key, language),
            (
                (Button(say(f"delete_yes_{step}", language), Action("delete", (step, asked))),),
                (Button(say("erase_no", language), Action("delete", (0, asked))),),
            ),
        )


def forgotten_reply(found: Forgotten, language: Language) -> Reply:
    """What was forgotten, and a button that takes it back."""
    text = "\n".join(say("forgot", language, text=text) for text in found.texts)
    if found.number is None:
        return Reply(text)
    label = say("undo_forgot_button", language)
    return Reply(text, ((Button(label, Action("recall", (found.number,))),),))


def _listed(text: str, named: Sequence[Named]) -> Reply:
    """What may be meant, with a button for each that forgets it."""
    chosen = named[:MAX_CHOICES]
    lines = [f"{place}. {shortened(one.text, MAX_SNIPPET)}" for place, one in enumerate(chosen, 1)]
    buttons = []
    for place, one in enumerate(chosen, 1):
        kind, _, number = one.id.partition("-")
        action = Action("drop", (int(kind == "msg"), int(number)))
        buttons.append((Button(f"🗑 {place}. {shortened(one.text, MAX_LABEL)}", action),))
    return Reply("\n".join([text, *lines]), tuple(buttons))


def _found_line(place: int, hit: Hit, called: Called) -> str:
    who = say("search_bot" if hit.speaker == "assistant" else "search_you", called.language)
    if called.owner.is_group and hit.speaker != "assistant":
        who = f", {hit.author}" if hit.author else ""
    if whose := words_of(hit.provenance, hit.author, called.language):
        who = f", {whose}"
    said = f"{called.day(hit.said_at)}{who}"
    text = best_passage(hit.words, terms(called.argument), MAX_SNIPPET)
    return f"{place}. {said}: {say('quoted', called.language, text=shortened(text, MAX_SNIPPET))}"


def _speaks_of(hit: Hit, wanted: str) -> bool:
    """Whether it has a word of what is looked for, or is a fact about it.

    A search by time alone has no words.
    """
    words = frozenset(terms(read_time(wanted, hit.said_at).content))
    is_fact_of_it = hit.kind == "memory" and (hit.bm25 > 0 or hit.hops is not None)
    return not words or is_fact_of_it or bool(words.intersection(terms(hit.words)))


# In the order of Telegram's menu.
COMMANDS: Mapping[str, CommandEntry] = {
    entry.name: entry
    for entry in (
        CommandEntry("start", CommandService.start, is_at_once=True, is_in_help=False),
        CommandEntry("help", CommandService.say_help, is_at_once=True),
        CommandEntry("memory", CommandService.memory),
        CommandEntry("app", lambda s, called: s.screens.open_app(called), is_at_once=True),
        CommandEntry("remember", CommandService.say_how_to_remember, kind="teach"),
        CommandEntry("forget", CommandService.forget),
        CommandEntry("search", CommandService.search),
        CommandEntry("summary", CommandService.summary),
        CommandEntry("remind", CommandService.remind),
        CommandEntry("reminders", lambda s, called: s.reminders.page(called)),
        CommandEntry("settings", lambda s, called: s.settings.page(called), is_for_admins=True),
        CommandEntry("mode", CommandService.mode),
        CommandEntry("tools", CommandService.tools, is_at_once=True),
        CommandEntry("undo", CommandService.undo),
        CommandEntry("new", CommandService.new, kind="new", is_for_admins=True),
        CommandEntry("stop", CommandService.stop, kind="stop"),
        CommandEntry("export", CommandService.export, is_for_admins=True),
        CommandEntry("usage", CommandService.usage, is_at_once=True),
        CommandEntry("privacy", CommandService.say_privacy, is_at_once=True),
        CommandEntry("delete_me", CommandService.delete_me, is_for_groups=False),
    )
}

# What a deep link may open.
LINKED = frozenset({"help", "memory", "settings", "privacy", "usage", "export", "tools"})

# Actions that concern all of a group.
FOR_ADMINS = frozenset(
    {"wipe", "choose", "mode", "language", "length", "remembering", "zone", "zones"}
)

# What buttons do, by the name of their action; the numbers are untrusted.
ACTIONS: Mapping[str, Callable[[CommandService, Called, Action], Awaitable[Reply]]] = {
    "facts": lambda s, who, a: s.screens.page(who, a.number(0, 1), a.number(1)),
    "fact": lambda s, who, a: s.screens.card(who, a.number(0), *a.numbers[1:3]),
    "pin": lambda s, who, a: s.screens.pin(who, a.number(0), *a.numbers[1:3]),
    "unpin": lambda s, who, a: s.screens.pin(who, a.number(0), *a.numbers[1:3], pinned=False),
    "correct": lambda s, who, a: s.screens.correct(who, a.number(0), *a.numbers[1:3]),
    "forget": lambda s, who, a: s.screens.forget(who, a.number(0), *a.numbers[1:3]),
    "drop": lambda s, who, a: s.drop(who, a.number(0), a.number(1)),
    "see": lambda s, who, _: s.see(who),
    "undo": lambda s, who, a: s.press_undo(who, s.undo(who, a.number(0))),
    "recall": lambda s, who, a: s.press_undo(who, s.recall(who, a.number(0))),
    "settle": lambda s, who, a: s.settle(who, a.number(0), a.number(1, 2)),
    "erase": lambda s, who, a: s.erase(who, agreed=a.number(0) == 1),
    "delete": lambda s, who, a: s.confirm_deletion(who, a.number(0), a.number(1)),
    "reminders": lambda s, who, a: s.reminders.page(who, a.number(0, 1)),
    "unremind": lambda s, who, a: s.reminders.cancel(who, a.number(0), a.number(1)),
    "later": lambda s, who, a: s.reminders.snooze(who, a.number(0), a.number(1), a.number(2)),
    "done": lambda s, who, a: s.reminders.finish(who, a.number(0)),
    "norepeat": lambda s, who, a: s.reminders.stop(who, a.number(0)),
    "settings": lambda s, who, _: s.settings.page(who),
    "choose": lambda s, who, a: s.settings.choose(who, a.number(0)),
    "mode": lambda s, who, a: s.settings.choose_value(who, "mode", a.number(0)),
    "language": lambda s, who, a: s.settings.choose_value(who, "language", a.number(0)),
    "length": lambda s, who, a: s.settings.choose_value(who, "length", a.number(0)),
    "remembering": lambda s, who, a: s.settings.choose_value(who, "memory", a.number(0)),
    "zone": lambda s, who, a: s.settings.set_zone(who, a.number(0), a.number(1)),
    "zones": lambda s, who, a: s.settings.offer_cities(who, a.number(0)),
    "wipe": lambda s, who, a: s.wipe(who, a.number(0)),
}
