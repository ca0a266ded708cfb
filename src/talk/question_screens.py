"""Buttons under an answer that asks which of two facts is right."""

from dataclasses import dataclass, replace

from src.base.owners import Caller
from src.history.turn_repo import Changes
from src.memory import memories, memory_repo
from src.pg.client import PgClient
from src.talk.forget_screens import undo_buttons
from src.talk.questions import QuestionService
from src.talk.turn_state import RESOLUTIONS
from src.texts import Language, say
from src.texts.reply import Action, Button, Reply, Rows, in_rows


def choice_rows(answer_id: int, language: Language) -> Rows:
    """Return the buttons under an answer that asks which of two facts is right."""
    return tuple(
        (Button(say(f"conflict_{name}", language), Action("settle", (answer_id, index))),)
        for index, name in enumerate(RESOLUTIONS)
    )


@dataclass(eq=False, repr=False)
class QuestionScreens:
    """Replies of the buttons under a question about facts."""

    _questions: QuestionService
    _memories: memories.Memories
    _client: PgClient

    async def settle(self, caller: Caller, answer_id: int, choice: int) -> Reply:
        """Decide which of two facts is right, and show the outcome below the question.

        Args:
            caller: The user who pressed the button.
            answer_id: The answer that asks.
            choice: Index of the decision in ``RESOLUTIONS``.
        """
        resolution = RESOLUTIONS[choice] if choice < len(RESOLUTIONS) else "old"
        settlement = await self._questions.settle(caller, answer_id, resolution, is_shown=True)
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
