"""Screens that forget, undo and erase: /forget, /undo, /new, /delete_me."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

from src.base.owners import Caller, Owner
from src.history.conversation_repo import ConversationRepository
from src.history.new_messages import last_question
from src.history.turn_repo import Changes, TurnRepository
from src.memory import forgetter, forgetting_repo
from src.memory.memories import Memories
from src.memory.screens import MemoryScreens, forgotten_reply
from src.memory.turn_context import Finding
from src.pg.client import PgClient
from src.privacy.erasure_repo import ErasureRepository
from src.reminders.reminder_service import ReminderResult, ReminderService, format_result
from src.talk.notes import UNKNOWN, offer_of, wish_rows
from src.texts import Language, say
from src.texts.plain_text import shortened
from src.texts.reply import Action, Button, Reply

CONFIRM_SECONDS = 600  # during which the confirmation of an erasure is accepted
MAX_CHOICES = 8  # buttons under an ambiguous request to forget
MAX_SNIPPET = 300  # characters of a choice
MAX_LABEL = 40  # characters of its button


@dataclass(eq=False, repr=False)
class ForgetScreens:
    """Replies of the commands that forget, undo or delete for good, and of their buttons."""

    _memories: Memories
    _reminders: ReminderService
    _client: PgClient
    _facts: MemoryScreens
    _has_model: bool

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
            None if the Telegram message is no answer of the bot, or cited nothing where no wish
            counts: in a group, in strict mode, without a model.
        """
        turns, language = TurnRepository(self._client), caller.language
        chosen = caller.preferences
        cited = await self._client.run(turns.list_cited, caller.owner, sent_message)
        is_heard = self._has_model and chosen.memory_on and chosen.mode == "assistant"
        may_keep = is_heard and not caller.owner.is_group
        if cited is None or not (cited or may_keep):
            return None
        reply = Reply("")
        if cited:
            choices = [forgetter.ForgetMatch(uid, text) for uid, text in cited]
            reply = _choices_reply(say("disliked", language), choices)
        if may_keep:
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

    async def new(self, caller: Caller) -> Reply:
        """Wipe the conversation; facts survive it, and the reply counts them."""
        await self.start_new_conversation(caller.owner)
        return await self._new_reply(caller)

    async def start_new_conversation(self, owner: Owner) -> UUID:
        """Delete the owner's conversations and what refers to them, and create a new one.

        A job reads messages that were not read for facts yet.
        """
        settings = await self._memories.settings()
        return await self._client.run(
            ConversationRepository(self._client).create_new_conversation,
            owner.telegram_user_id,
            thread_id=owner.thread_id,
            keep_unread=settings.memory_extraction_enabled,
        )

    async def _new_reply(self, caller: Caller) -> Reply:
        """Build the reply of /new: the number of facts, with buttons to see or forget them.

        Without a model notes are not facts, so the reply says that they were deleted.
        """
        language = caller.language
        confirmation = say("new_done" if self._has_model else "new_notes", language)
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
        page = await self._facts.page(caller)
        return replace(page, is_screen=False, keeps_button=True)

    async def wipe(self, caller: Caller, step: int) -> Reply:
        """Forget every fact: ask first (step 0), do it (step 1), or leave them (step 2)."""
        language = caller.language
        if step == 1:
            await self._client.run(ErasureRepository(self._client).erase_facts, caller.owner)
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

    async def erase_owner(self, telegram_user_id: int) -> None:
        """Delete everything of an owner, as ``python bot.py erase`` does."""
        await self._client.run(ErasureRepository(self._client).erase, telegram_user_id)

    async def delete_me(self, caller: Caller) -> Reply:
        """Ask for the first of two confirmations of ``/delete_me``."""
        if caller.owner.is_group:
            return Reply(say("forget_group", caller.language), is_personal=True)
        return self._ask_deletion(caller, "delete_ask", 1)

    async def confirm_deletion(self, caller: Caller, step: int, asked: int) -> Reply:
        """Handle a button under one of the two questions.

        Args:
            caller: The user who pressed it.
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
        await self.erase_owner(caller.owner.telegram_user_id)
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

    async def erase(self, caller: Caller, *, agreed: bool) -> Reply:
        """Erase everything if ``agreed``, while the bot's last answer asks for it.

        In a group only its memory was asked about.
        """
        if not agreed:
            return Reply(say("erase_kept", caller.language), is_screen=True)
        conversations, newest = ConversationRepository(self._client), []
        conversation_id = await self._client.run(conversations.find_conversation, caller.owner)
        if conversation_id is not None:
            newest = await self._client.run(conversations.load_last_messages, conversation_id)
        if last_question(newest) != "erase_all":
            return Reply.closing_note(say("erase_late", caller.language))
        await self.erase_owner(caller.owner.telegram_user_id)
        return Reply(say("erase_done", caller.language), is_screen=True)


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
    memories: Memories, reminders: ReminderService, caller: Caller
) -> tuple[str, Finding]:
    """Undo the last change of the caller; return the sentence about it, and what it changed."""
    change = await memories.find_change(caller.owner, asker=caller.member)
    if change is None or change.kind != "reminder":
        undone = await memories.undo(caller.owner, asker=caller.member)
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
