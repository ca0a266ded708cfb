"""Screens that delete for good: /new, /delete_me, and the erasure that was asked for in words."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

from src.base.owners import Caller, Owner
from src.history.conversation_repo import ConversationRepository
from src.history.new_messages import last_question
from src.memory.memories import Memories
from src.memory.screens import MemoryScreens
from src.pg.client import PgClient
from src.privacy.erasure_repo import ErasureRepository
from src.texts import say
from src.texts.reply import Action, Button, Reply

CONFIRM_SECONDS = 600  # during which the confirmation of an erasure is accepted


@dataclass(eq=False, repr=False)
class ErasureScreens:
    """Replies of the commands that delete for good, and of their buttons."""

    _memories: Memories
    _client: PgClient
    _facts: MemoryScreens
    _has_model: bool

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
