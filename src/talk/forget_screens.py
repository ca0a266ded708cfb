"""Screens that forget, and that undo: /forget, /undo. What they do can be taken back."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from src.base.owners import Caller
from src.history.turn_repo import Changes, TurnRepository
from src.memory import forgetter, forgetting_repo, memories
from src.memory.screens import recall_button
from src.memory.turn_context import Finding
from src.pg.client import PgClient
from src.reminders.reminder_service import ReminderResult, ReminderService, format_result
from src.talk.notes import UNKNOWN, offer_of, wish_rows
from src.texts import Language, say
from src.texts.plain_text import shortened
from src.texts.reply import Action, Button, Reply

MAX_CHOICES = 8  # buttons under an ambiguous request to forget
MAX_SNIPPET = 300  # characters of a choice
MAX_LABEL = 40  # characters of its button


@dataclass(eq=False, repr=False)
class ForgetScreens:
    """Replies of the commands that forget and undo, and of their buttons."""

    _memories: memories.Memories
    _reminders: ReminderService
    _client: PgClient

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
        """Offer to forget what a disliked answer cited, one by one, and to keep a wish.

        Returns:
            None if the Telegram message is no answer of the bot, or cited nothing in a group.
        """
        turns, language = TurnRepository(self._client), caller.language
        cited = await self._client.run(turns.list_cited, caller.owner, sent_message)
        is_answer = await self._client.run(turns.is_answer, caller.owner, sent_message)
        may_keep = caller.preferences.memory_on and not caller.owner.is_group
        if not cited and not (is_answer and may_keep):
            return None
        reply = Reply("")
        if cited:
            choices = [forgetter.ForgetMatch(uid, text) for uid, text in cited]
            reply = _choices_reply(say("disliked", language), choices)
        if is_answer and may_keep:
            unknown = Changes(wish=UNKNOWN)
            text = f"{reply.text}\n\n{offer_of(unknown, language)}".strip()
            reply = Reply(text, (*reply.rows, *wish_rows(unknown, language)))
        return reply

    async def drop(self, caller: Caller, kind: int, number: int) -> Reply:
        """Forget what was chosen: a fact (kind 0) or a message (kind 1)."""
        uid = f"{'msg' if kind else 'fact'}-{number}"
        found = await self._memories.forget_once(caller.owner, uid, asker=caller.asker)
        if not found.texts:
            return Reply.closing_note(say("memory_gone", caller.language))
        reply = forgotten_reply(found, caller.language)
        return replace(reply, is_screen=True, keeps_others=True)

    async def undo(self, caller: Caller) -> Reply:
        """Undo the last replacement, forgetting or change of a reminder."""
        text, _ = await undo_last(self._memories, self._reminders, caller)
        return Reply(text)

    async def press_undo(self, caller: Caller, memory_id: int, number: int) -> Reply:
        """Undo by a button: the storing of a fact, or without one the change of this number."""
        undone = await self._memories.undo(
            caller.owner, memory_id or None, number=number, asker=caller.member
        )
        if undone is None:
            return Reply.closing_note(say("tap_undone", caller.language))
        return Reply(format_undo(undone, caller.language))


def forgotten_reply(found: forgetter.Forgotten, language: Language) -> Reply:
    """Build the reply about forgotten texts, with an undo button."""
    text = "\n".join(say("forgot", language, text=text) for text in found.texts)
    if found.number is None:
        return Reply(text)
    return Reply(text, ((recall_button(found.number, language),),))


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


async def undo_last(
    memories_: memories.Memories, reminders: ReminderService, caller: Caller
) -> tuple[str, Finding]:
    """Undo the last change of the caller; return the sentence about it, and what it changed."""
    change = await memories_.find_change(caller.owner, asker=caller.member)
    if change is None or change.kind != "reminder":
        undone = await memories_.undo(caller.owner, asker=caller.member)
        return format_undo(undone, caller.language), Finding(facts_changed=undone is not None)
    restored = await reminders.undo(caller, change.id)
    if not restored:
        return say("undo_nothing", caller.language), Finding()
    lines = [format_result(ReminderResult(one), caller) for one in restored]
    changes = Changes(reminders=tuple(one.id for one in restored))
    return "\n".join(lines), Finding(changes=changes, asks="reminder")


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
