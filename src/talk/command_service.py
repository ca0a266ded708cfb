"""Commands and buttons: their tables, and the replies that need no screen of their own."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from src.base.owners import Caller
from src.base.zones import local_time
from src.history.timeline_repo import TimelineMessage, TimelineRepository
from src.history.turn_repo import Changes, StoredAnswer, TurnRepository
from src.memory import budget, forgetter, forgetting_repo, memories, memory_repo, retriever
from src.memory.compaction import CompactionService
from src.memory.retrieval_repo import Hit
from src.memory.screens import MemoryScreens
from src.offline.replies import OVERVIEW_LINES, is_note
from src.outside.servers import McpServers
from src.pg.client import PgClient
from src.privacy.export import ExportService
from src.queue import job_repo
from src.reading import gate, lexicon, sentences, time_expressions, voices
from src.reminders.screens import ReminderScreens, cancel_button
from src.talk.commands import CommandEntry, Features, Place
from src.talk.pages import help_page, tools_page
from src.talk.questions import QuestionService
from src.talk.settings import SettingsScreens
from src.talk.spoken import SpokenLanguages
from src.talk.turn import AgentService
from src.talk.turn_state import RESOLUTIONS, IncomingMessage, Teaching, Turn
from src.talk.zones import city_row, not_mine_button, zone_note
from src.texts import Language, say
from src.texts.morphology import terms
from src.texts.plain_text import shortened
from src.texts.reply import Action, Button, Reply, Rows, in_rows

MAX_UNDO = 4  # buttons; /memory and /undo reach the rest
MAX_FOUND = 8  # hits of /search
MAX_NEAREST = 3  # messages offered when nothing was found
MAX_SNIPPET = 300  # characters of a hit
NEWEST = 60  # newest messages that are searched for notes
MAX_NOTE = 160  # characters of a note in a list
MAX_CHOICES = 8  # buttons under an ambiguous request to forget
MAX_LABEL = 40  # characters of such a button
CONFIRM_SECONDS = 600  # during which the confirmation of an erasure is accepted


def choice_rows(answer_id: int, language: Language) -> Rows:
    """Return the buttons under an answer that asks which of two facts is right."""
    return tuple(
        (Button(say(f"conflict_{name}", language), Action("settle", (answer_id, index))),)
        for index, name in enumerate(RESOLUTIONS)
    )


def undo_buttons(changes: Changes, language: Language) -> list[Button]:
    """Return a button per change, at most MAX_UNDO, those that undo the costliest first."""
    buttons = []
    if changes.forgetting is not None:
        action = Action("recall", (changes.forgetting,))
        buttons.append(Button(say("undo_forgot_button", language), action))
    ids = [(id_, "undo_button") for id_ in changes.replaced_by]
    ids += [(id_, "undo_saved_button") for id_ in changes.saved]  # numbered like the notes
    buttons += _number([Button(say(key, language), Action("undo", (id_,))) for id_, key in ids])
    reminders = [cancel_button(number, language) for number in changes.reminders]
    return [*_number(reminders), *buttons][:MAX_UNDO]


def _number(buttons: list[Button]) -> list[Button]:
    if len(buttons) == 1:
        return buttons
    return [replace(one, label=f"{one.label} ({n})") for n, one in enumerate(buttons, start=1)]


def _format_number(number: int) -> str:
    """Format with narrow spaces between thousands, as all three languages read them."""
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def format_undo(undone: forgetting_repo.UndoResult | None, language: Language) -> str:
    """Return the sentence about what was undone; None: there was nothing to undo."""
    if undone is None:
        return say("undo_nothing", language)
    restored = "; ".join(undone.restored)
    if undone.text is None:
        return say("undo_forgot_done", language, restored=restored)
    if not undone.restored:
        return say("undo_saved_done", language, text=undone.text)
    return say("undo_done", language, text=undone.text, restored=restored)


def _pressed_undo(undone: forgetting_repo.UndoResult | None, language: Language) -> Reply:
    """Reply to an undo button: in a message, or with a note if there was nothing to undo."""
    if undone is None:
        return Reply.closing_note(say("tap_undone", language))
    return Reply(format_undo(undone, language))


def _is_public_note(message: TimelineMessage, facts: str) -> bool:
    is_public = message.role == "user" and not message.is_private and message.text not in facts
    return is_public and is_note(message.text)


@dataclass(eq=False, repr=False)
class CommandService:
    """Users' commands and the actions of their buttons.

    Attributes:
        features: Parts of the bot that may be missing: nothing is offered that is.
        is_console: True if the users are not in Telegram.
    """

    _agent: AgentService
    _memories: memories.Memories
    _client: PgClient
    screens: MemoryScreens
    compaction: CompactionService
    exports: ExportService
    settings: SettingsScreens
    ceilings: budget.DailyCeilings
    reminders: ReminderScreens
    questions: QuestionService
    features: Features
    servers: McpServers
    is_console: bool = False

    def __post_init__(self) -> None:
        """Build the repositories on the client."""
        self._turns = TurnRepository(self._client)
        self._timeline = TimelineRepository(self._client)
        self._spoken = SpokenLanguages(self._client)

    def place(self, caller: Caller) -> Place:
        """Return where a caller writes."""
        if self.is_console:
            return "console"
        return "group" if caller.owner.is_group else "private"

    async def run(self, command: str, caller: Caller) -> Reply:
        """Run a command, named without its slash, and return the reply."""
        entry = COMMANDS.get(command)
        if entry is None:
            return Reply(say("unknown_command", caller.language))
        if entry.is_for_admins and not caller.is_admin:
            return Reply(say("only_admins", caller.language))
        heard = await self._spoken.follow(caller.owner, caller.preferences, caller.argument)
        caller = replace(caller, preferences=heard, argument=gate.redact(caller.argument))
        return await entry.run(self, caller)

    async def press(self, action: Action | None, caller: Caller) -> Reply:
        """Run a button's action; reply with a note if it is unknown."""
        if action is None or (handler := ACTIONS.get(action.name)) is None:
            return Reply.closing_note(say("tap_unknown", caller.language))
        if action.name in ADMIN_ACTIONS and not caller.is_admin:
            return Reply.note(say("only_admins", caller.language))
        return await handler(self, caller, action)

    async def start(self, caller: Caller) -> Reply:
        """Reply to /start, which also says whether a language model is connected.

        A deep link (``t.me/<bot>?start=settings``) opens one of DEEP_LINKS instead.
        """
        if caller.argument in DEEP_LINKS:
            return await self.run(caller.argument, replace(caller, argument=""))
        start = say("start", caller.language)
        model = say("start_model" if self.features.has_model else "offline_note", caller.language)
        if caller.preferences.has_zone or caller.owner.is_group:
            return Reply(f"{start}\n\n{model}")
        question = say("zone_start", caller.language)
        return Reply(f"{start}\n\n{model}\n\n{question}", (city_row(caller.language),))

    async def memory(self, caller: Caller) -> Reply:
        """Reply with the first page of facts; without a model also with the newest notes."""
        page = await self.screens.page(caller)
        if self.features.has_model or caller.owner.is_group:
            return page
        last = await self._client.run(self._timeline.list_before, caller.owner, limit=NEWEST)
        moments = {m.text: m.said_at for m in reversed(last) if _is_public_note(m, page.text)}
        notes = [
            say(
                "offline_quote", caller.language,
                text=shortened(gate.redact(text, household=True), MAX_NOTE),
                said_at=f"{local_time(moment, caller.time_zone):%d.%m.%Y %H:%M}",
            )
            for text, moment in reversed(moments.items())
        ]  # fmt: skip
        if not notes:
            return page
        facts = [page.text] if page.rows else []
        return replace(
            page,
            text="\n".join(
                [*facts, say("memory_notes", caller.language), *notes[:OVERVIEW_LINES]]
            ),
        )

    async def remind(self, caller: Caller) -> Reply:
        """Set a reminder; the first reply names the time zone by which it was read."""
        reply = await self.reminders.remind(caller)
        if caller.preferences.has_zone or caller.owner.is_group or not reply.rows:
            return reply
        await self.settings.change(caller.owner, time_zone=caller.time_zone)  # the reply names it
        rows = (*reply.rows, (not_mine_button(caller.language),))
        return replace(reply, text=f"{reply.text}\n\n{zone_note(caller)}", rows=rows)

    async def say_help(self, caller: Caller) -> Reply:
        """Reply with the page of /help."""
        place = self.place(caller)
        return Reply(help_page(COMMANDS.values(), self.features, place, caller.language))

    async def tools(self, caller: Caller) -> Reply:
        """Reply with the page of /tools."""
        states, place = self.servers.states(), self.place(caller)
        return Reply(tools_page(states, self.features, place, caller))

    async def usage(self, caller: Caller) -> Reply:
        """Reply with today's messages and tokens, the month's tokens, and the limits.

        In a group these are the group's tokens and the member's own messages.
        """
        settings, language = await self._memories.settings(), caller.language
        owner = caller.owner.telegram_user_id
        spent = await self.ceilings.sum_spent(caller.member or owner, owner)
        lines = [say("usage_title", language)]
        if limit := settings.daily_messages_per_user:
            lines.append(say("usage_messages", language, count=spent.messages, limit=limit))
        lines.append(say("usage_tokens", language, count=_format_number(spent.tokens)))
        lines.append(say("usage_month", language, count=_format_number(spent.tokens_in_month)))
        if tokens := settings.daily_tokens_per_user:
            lines.append(say("usage_token_limit", language, limit=_format_number(tokens)))
        if rate := settings.messages_per_minute_per_user:
            lines.append(say("usage_minute", language, limit=rate))
        if not (limit or tokens or rate):
            lines.append(say("usage_unlimited", language))
        return Reply("\n".join(lines))

    async def say_privacy(self, caller: Caller) -> Reply:
        """Reply with what is stored, who sees it, and how it is erased."""
        settings = await self._memories.settings()
        days = settings.message_retention_days
        kept = say("privacy_days", caller.language, days=days) if days else ""
        model = say(
            "privacy_model" if self.features.has_model else "privacy_offline", caller.language
        )
        return Reply(say("privacy", caller.language, model=model, kept=kept).strip())

    async def say_how_to_remember(self, caller: Caller) -> Reply:
        """Reply to ``/remember`` alone; with a text it is a message (``CommandEntry.kind``)."""
        return Reply(say("remember_usage", caller.language))

    async def mode(self, caller: Caller) -> Reply:
        """Set the mode (``/mode strict``, ``/mode assistant``), or reply with the current one."""
        mode, owner = lexicon.values("settings.mode").get(caller.argument.lower()), caller.owner
        if mode is None:
            current = await self.settings.get(owner)
            it_is = say(f"mode_is_{current.mode}", caller.language)
            unknown = say("mode_unknown", caller.language)
            return Reply(f"{unknown}\n{it_is}" if caller.argument else it_is)
        await self.settings.change(owner, mode=mode)
        return Reply(say(f"mode_set_{mode}", caller.language))

    async def correct(self, caller: Caller, memory_id: int, text: str) -> StoredAnswer | None:
        """Store a correction of a fact as a message, its source, and answer it.

        Args:
            called: The caller in a private chat, whose fact it is.
            memory_id: The fact.
            text: The corrected text.

        Returns:
            The answer, with its changes; None if the fact does not exist or is retired, and
            nothing was stored.

        Raises:
            AppError: It failed; the message may be stored.
        """
        find = self._memories.facts.find_fact
        fact = await self._client.run(find, caller.owner, memory_id)
        if fact is None or fact.retired_at is not None:
            return None
        teaching = Teaching(corrects=memory_id)
        turn = Turn(
            IncomingMessage(
                caller.owner, text, caller.moment, caller.preferences, teaching=teaching
            )
        )
        await self._agent.run_turn(turn)
        jobs = job_repo.JobRepository(self._client)
        await self._client.run(jobs.defer_indexing)  # there is no update that would defer it
        return turn.answer

    async def undo(self, caller: Caller) -> Reply:
        """Undo the last replacement or forgetting."""
        undone = await self._memories.undo(caller.owner, None, asker=caller.member)
        return Reply(format_undo(undone, caller.language))

    async def press_undo(self, caller: Caller, memory_id: int) -> Reply:
        """Undo the storing of one fact, by its button."""
        undone = await self._memories.undo(caller.owner, memory_id, asker=caller.member)
        return _pressed_undo(undone, caller.language)

    async def recall(self, caller: Caller, number: int) -> Reply:
        """Undo the forgetting with this number, by its button, while that is possible."""
        undone = await self._memories.undo_forgetting(caller.owner, number, asker=caller.member)
        return _pressed_undo(undone, caller.language)

    async def settle(self, caller: Caller, answer_id: int, choice: int) -> Reply:
        """Decide which of two facts is right, and show the outcome below the question.

        Args:
            called: The user who pressed the button.
            answer_id: The answer that asks.
            choice: Index of the decision in ``RESOLUTIONS``.
        """
        resolution = RESOLUTIONS[choice] if choice < len(RESOLUTIONS) else "old"
        settlement = await self.questions.settle(caller, answer_id, resolution, is_shown=True)
        if settlement.kind == "not_theirs":  # the question stays for its author
            return replace(Reply.note(settlement.shown), popup=settlement.said)
        # A second press, or a retry after a crash, shows the outcome once more.
        changes = await self._keep_undoable(caller, settlement.changes)
        rows = in_rows(undo_buttons(changes, caller.language), 1)
        over = say("tap_done_already", caller.language)
        popup = over if settlement.kind == "over" else settlement.said
        return Reply(settlement.shown, rows, popup=popup, is_screen=True)

    async def _keep_undoable(self, caller: Caller, changes: Changes) -> Changes:
        """Drop the facts that are not current any more, and so cannot be undone."""
        query = memory_repo.FactQuery(ids=[*changes.saved, *changes.replaced_by])
        facts = await self._client.run(self._memories.facts.list_facts, caller.owner, query)
        current = {fact.id for fact in facts}
        saved, replaced_by = (tuple(n for n in ids if n in current)
                              for ids in (changes.saved, changes.replaced_by))  # fmt: skip
        return replace(changes, saved=saved, replaced_by=replaced_by)

    async def erase(self, caller: Caller, *, agreed: bool) -> Reply:
        """Erase everything if ``agreed``; in a group only its memory was asked about."""
        key = await self._agent.confirm_erasure(caller.owner, agreed=agreed)
        text = say(key, caller.language)
        return Reply.closing_note(text) if key == "erase_late" else Reply(text, is_screen=True)

    async def new(self, caller: Caller) -> Reply:
        """Wipe the conversation; facts survive it, and the reply counts them."""
        await self._agent.start_new_conversation(caller.owner)
        return await self._new_reply(caller)

    async def _new_reply(self, caller: Caller) -> Reply:
        """Build the reply of /new: the number of facts, with buttons to see or forget them.

        Without a model notes are not facts, so the reply says that they were deleted.
        """
        language = caller.language
        confirmation = say("new_done" if self.features.has_model else "new_notes", language)
        facts = await self._client.run(self._memories.facts.count, caller.owner)
        if not facts:
            return Reply(confirmation)
        text = f"{confirmation} {say('new_facts', language, count=facts)}"
        buttons = (
            (Button(say("see_button", language), Action("see")),),
            (Button(say("forget_facts_button", language), Action("wipe")),),
        )
        return Reply(text, buttons)

    async def see(self, caller: Caller) -> Reply:
        """Reply with the first page of facts below the reply of /new, which stays."""
        page = await self.screens.page(caller)
        return replace(page, is_screen=False, keeps_button=True)

    async def wipe(self, caller: Caller, step: int) -> Reply:
        """Forget every fact: ask first (step 0), do it (step 1), or leave them (step 2)."""
        language = caller.language
        if step == 1:
            await self._agent.erase_facts(caller.owner)
            return Reply(say("wipe_done", language), is_screen=True)
        facts = await self._client.run(self._memories.facts.count, caller.owner)
        if not facts:
            return Reply(say("memory_empty", language), is_screen=True)
        if step == 2:
            reply = await self._new_reply(caller)
            return replace(reply.as_screen(), popup=say("erase_kept", language))
        buttons = (
            (Button(say("wipe_yes", language), Action("wipe", (1,))),),
            (Button(say("erase_no", language), Action("wipe", (2,))),),
        )
        return Reply(say("wipe_ask", language, count=facts), buttons, is_screen=True)

    async def stop(self, caller: Caller) -> Reply:
        """Reply whether an answer was stopped; the stopping is done when the command arrives.

        The reply is empty if the answer itself shows that it was stopped.
        """
        stop = await self._client.run(self._turns.find_stop, caller.owner)
        if stop == "shown":  # the answer ends with a word about it
            return Reply("")
        return Reply(say("stop_nothing" if stop is None else "stop_done", caller.language))

    async def forget(self, caller: Caller) -> Reply:
        """Forget what is surely meant (``/forget the cat``), else ask which of several."""
        language = caller.language
        if not caller.argument:
            return Reply(say("forget_usage", language))
        found = await self._memories.forget(
            caller.owner, about=caller.argument, speaker_id=caller.asker
        )
        if found.texts:
            return forgotten_reply(found, language)
        if found.ask:
            return _choices_reply(say("forget_which", language), found.ask)
        if found.nearest:
            text = f"{say('forgot_nothing', language)} {say('forget_nearest', language)}"
            return _choices_reply(text, found.nearest)
        return Reply(say("forgot_nothing", language))

    async def offer_to_forget(self, caller: Caller, sent_message: int) -> Reply | None:
        """Offer to forget what the answer in a Telegram message cited, one by one.

        Returns:
            None if it cited nothing, or is no answer of the bot in this conversation.
        """
        cited = await self._client.run(self._turns.list_cited, caller.owner, sent_message)
        if not cited:
            return None
        choices = [forgetter.ForgetMatch(uid, text) for uid, text in cited]
        return _choices_reply(say("disliked", caller.language), choices)

    async def drop(self, caller: Caller, kind: int, number: int) -> Reply:
        """Forget what was chosen: a fact (kind 0) or a message (kind 1)."""
        uid = f"{'msg' if kind else 'fact'}-{number}"
        found = await self._memories.forget_once(caller.owner, uid, asker=caller.asker)
        if not found.texts:
            return Reply.closing_note(say("memory_gone", caller.language))
        reply = forgotten_reply(found, caller.language)
        return replace(reply, is_screen=True, keeps_others=True)

    async def search(self, caller: Caller) -> Reply:
        """Reply with the messages that fit (``/search the cat``), and buttons that lead there."""
        language = caller.language
        if not caller.argument:
            return Reply(say("search_usage", language))
        hits, nearest = await self.find(caller, limit=MAX_FOUND)
        if not (hits or nearest):
            return Reply(say("search_nothing", language))
        lines = [say("search_found", language, count=len(hits))]
        if not hits:
            hits, lines = nearest[:MAX_NEAREST], [say("search_nearest", language)]
        lines += [_hit_line(n, hit, caller) for n, hit in enumerate(hits, start=1)]
        buttons = [
            Button(f"{n} · {caller.day(hit.said_at)}", Action("source", (number,)))
            for n, hit in enumerate(hits, start=1)
            if (number := memory_repo.message_number(hit.uid)) is not None
        ]
        return Reply("\n\n".join(lines), in_rows(buttons, 2), say("search_hint", language))

    async def find(self, caller: Caller, *, limit: int) -> tuple[list[Hit], list[Hit]]:
        """Search what was said for the argument, best first; each message once.

        Returns:
            What has a word of it, or is a fact found by its words; the rest, near in meaning.
        """
        now = local_time(caller.moment, caller.time_zone)
        hits = await self._memories.retriever.search(
            retriever.Query(
                caller.owner, caller.argument, now, limit=limit, with_assistant=True,
                kinds=("message", "memory"), speaker_id=caller.asker,
                threshold=memories.SUGGEST_FROM,
            )
        )  # fmt: skip
        matching: dict[str, Hit] = {}  # a fact and the message that told it share a uid
        nearest: dict[str, Hit] = {}
        for hit in hits:
            found = matching if _is_on_topic(hit, caller.argument) else nearest
            found.setdefault(hit.uid, hit)
        own = [hit.words for hit in hits if hit.speaker != "assistant"]
        return _without_echoes(matching, own), _without_echoes(nearest, own)

    async def summary(self, caller: Caller) -> Reply:
        """Reply with a summary of this conversation, the newest messages included."""
        conversation_id = await self._agent.get_or_create_conversation(caller.owner)
        texts = await self.compaction.describe(conversation_id)
        if not texts:
            return Reply(say("summary_nothing", caller.language))
        return Reply("\n\n".join([say("summary_title", caller.language), *texts]))

    async def export(self, caller: Caller) -> Reply:
        """Reply with everything in two files, one to read and one for programs."""
        files = await self._client.run(self.exports.write_files, caller)
        return Reply(say("export_done", caller.language), files=files)

    async def delete_me(self, caller: Caller) -> Reply:
        """Ask for the first of two confirmations of ``/delete_me``."""
        if caller.owner.is_group:
            return Reply(say("forget_group", caller.language))
        return self._ask_deletion(caller, "delete_ask", 1)

    async def confirm_deletion(self, caller: Caller, step: int, asked: int) -> Reply:
        """Handle a button under one of the two questions.

        Args:
            called: The user who pressed it.
            step: The question (1 or 2) that is answered with yes; 0 is no.
            asked: When that was asked, in seconds since 1970.
        """
        language = caller.language
        if step not in (1, 2) or caller.owner.is_group:
            return Reply(say("erase_kept", language), is_screen=True)
        if not -60 <= datetime.now(UTC).timestamp() - asked <= CONFIRM_SECONDS:
            return Reply(say("delete_late", language), is_screen=True)
        if step == 1:
            return self._ask_deletion(caller, "delete_ask_again", 2).as_screen()
        await self._agent.erase(caller.owner.telegram_user_id)
        return Reply(say("erase_done", language), is_screen=True)

    def _ask_deletion(self, caller: Caller, key: str, step: int) -> Reply:
        now = int(datetime.now(UTC).timestamp())
        language = caller.language
        return Reply(
            say(key, language),
            (
                (Button(say(f"delete_yes_{step}", language), Action("delete", (step, now))),),
                (Button(say("erase_no", language), Action("delete", (0, now))),),
            ),
        )


def forgotten_reply(found: forgetter.Forgotten, language: Language) -> Reply:
    """Build the reply about forgotten texts, with an undo button."""
    text = "\n".join(say("forgot", language, text=text) for text in found.texts)
    if found.number is None:
        return Reply(text)
    label = say("undo_forgot_button", language)
    return Reply(text, ((Button(label, Action("recall", (found.number,))),),))


def _choices_reply(text: str, choices: Sequence[forgetter.ForgetMatch]) -> Reply:
    """Build a reply with a button per choice, which forgets it."""
    listed = choices[:MAX_CHOICES]
    lines = [f"{n}. {shortened(choice.text, MAX_SNIPPET)}" for n, choice in enumerate(listed, 1)]
    buttons = []
    for n, choice in enumerate(listed, 1):
        kind, _, number = choice.id.partition("-")
        action = Action("drop", (int(kind == "msg"), int(number)))
        buttons.append((Button(f"🗑 {n}. {shortened(choice.text, MAX_LABEL)}", action),))
    return Reply("\n".join([text, *lines]), tuple(buttons))


def _hit_line(number: int, hit: Hit, caller: Caller) -> str:
    author = say("search_bot" if hit.speaker == "assistant" else "search_you", caller.language)
    if caller.owner.is_group and hit.speaker != "assistant":
        author = f", {hit.author}" if hit.author else ""
    if others := voices.words_of(hit.provenance, hit.author, caller.language):
        author = f", {others}"
    head = f"{caller.day(hit.said_at)}{author}"
    text = sentences.best_passage(hit.words, terms(caller.argument), MAX_SNIPPET)
    return f"{number}. {head}: {say('quoted', caller.language, text=shortened(text, MAX_SNIPPET))}"


def _without_echoes(found: Mapping[str, Hit], own: Sequence[str]) -> list[Hit]:
    """Leave out answers of the bot that only repeat what was found of the user's own words."""
    return [
        hit
        for hit in found.values()
        if hit.speaker != "assistant" or not any(words in hit.words for words in own)
    ]


def _is_on_topic(hit: Hit, query: str) -> bool:
    """Return True if a hit has a word of the query, or is a fact found by its words.

    A query of times alone has no words.
    """
    words = frozenset(terms(time_expressions.read_time(query, hit.said_at).content))
    is_matching_fact = hit.kind == "memory" and (hit.bm25 > 0 or hit.hops is not None)
    return not words or is_matching_fact or bool(words.intersection(terms(hit.words)))


# In the order of Telegram's menu.
COMMANDS: Mapping[str, CommandEntry] = {
    entry.name: entry
    for entry in (
        CommandEntry("start", CommandService.start, is_at_once=True, is_in_help=False),
        CommandEntry("help", CommandService.say_help, is_at_once=True),
        CommandEntry("memory", CommandService.memory),
        CommandEntry(
            "app",
            lambda s, caller: s.screens.open_app(caller),
            is_at_once=True,
            places=("private",),
            needs=lambda features: features.has_app,
        ),
        CommandEntry("remember", CommandService.say_how_to_remember, kind="teach"),
        CommandEntry("forget", CommandService.forget),
        CommandEntry("search", CommandService.search),
        CommandEntry("summary", CommandService.summary),
        CommandEntry("remind", CommandService.remind),
        CommandEntry("reminders", lambda s, caller: s.reminders.page(caller)),
        CommandEntry("settings", lambda s, caller: s.settings.page(caller), is_for_admins=True),
        CommandEntry("mode", CommandService.mode),
        CommandEntry("tools", CommandService.tools, is_at_once=True),
        CommandEntry("undo", CommandService.undo),
        CommandEntry("new", CommandService.new, kind="new", is_for_admins=True),
        CommandEntry("stop", CommandService.stop, kind="stop", places=("private", "group")),
        CommandEntry("export", CommandService.export, is_for_admins=True),
        CommandEntry(
            "usage",
            CommandService.usage,
            is_at_once=True,
            needs=lambda features: features.has_model,
        ),
        CommandEntry("privacy", CommandService.say_privacy, is_at_once=True),
        CommandEntry("delete_me", CommandService.delete_me, places=("private", "console")),
    )
}

# Commands that a deep link may run.
DEEP_LINKS = frozenset({"help", "memory", "settings", "privacy", "usage", "export", "tools"})

# Actions that affect a whole group.
ADMIN_ACTIONS = frozenset(
    {"wipe", "choose", "mode", "language", "length", "remembering", "zone", "zones"}
)

# Handlers of buttons by the name of their action; the numbers of an action are untrusted.
ACTIONS: Mapping[str, Callable[[CommandService, Caller, Action], Awaitable[Reply]]] = {
    "facts": lambda s, who, a: s.screens.page(who, a.number(0, 1), a.number(1)),
    "fact": lambda s, who, a: s.screens.card(who, a.number(0), *a.numbers[1:3]),
    "pin": lambda s, who, a: s.screens.pin(who, a.number(0), *a.numbers[1:3]),
    "unpin": lambda s, who, a: s.screens.pin(who, a.number(0), *a.numbers[1:3], pinned=False),
    "correct": lambda s, who, a: s.screens.correct(who, a.number(0), *a.numbers[1:3]),
    "forget": lambda s, who, a: s.screens.forget(who, a.number(0), *a.numbers[1:3]),
    "drop": lambda s, who, a: s.drop(who, a.number(0), a.number(1)),
    "see": lambda s, who, _: s.see(who),
    "undo": lambda s, who, a: s.press_undo(who, a.number(0)),
    "recall": lambda s, who, a: s.recall(who, a.number(0)),
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
