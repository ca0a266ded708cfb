"""Questions which of two facts is right: the user's decision, in words or by a button."""

from dataclasses import dataclass, replace
from typing import Literal

from src.base.owners import Caller, Owner
from src.history.turn_repo import NO_CHANGES, Changes
from src.memory.memories import Memories
from src.memory.memory_repo import FactQuery, Proposal
from src.memory.question_repo import Dispute, QuestionRepository
from src.memory.turn_context import changes_of
from src.memory.writer import Outcome
from src.pg.client import PgClient, Transaction
from src.pg.locks import lock_facts
from src.talk.notes import undo_buttons
from src.talk.strict import confirmation_text
from src.talk.turn_state import RESOLUTIONS, Resolution
from src.texts import Language, say
from src.texts.reply import Action, Button, Reply, Rows, in_rows

Decided = tuple[Dispute, Proposal | Outcome]  # what is left to store of it, or its outcome


@dataclass(frozen=True)
class Settlement:
    """Outcome of a decision about a question.

    Attributes:
        kind: ``settled``: this decision closes it; ``over``: it was closed before; ``gone``: it
            does not exist any more; ``not_theirs``: another member has to decide.
        said: Sentence about the outcome; of a question that is over, all of its text.
        shown: Text that replaces the question.
        changes: Changes in the memory.
    """

    kind: Literal["settled", "over", "gone", "not_theirs"]
    said: str
    shown: str
    changes: Changes = NO_CHANGES


def choice_rows(answer_id: int, language: Language) -> Rows:
    """Return the buttons under an answer that asks which of two facts is right."""
    return tuple(
        (Button(say(f"conflict_{name}", language), Action("settle", (answer_id, index))),)
        for index, name in enumerate(RESOLUTIONS)
    )


@dataclass(eq=False, repr=False)
class QuestionService:
    """Settles the questions whether a new fact replaces an important one."""

    _client: PgClient
    _memories: Memories

    async def settle(
        self, caller: Caller, answer_id: int, resolution: Resolution, *, is_shown: bool = False
    ) -> Settlement:
        """Store what the user decides and append the outcome to the question.

        Both are one transaction, so the first decision stays, whoever retries.

        Args:
            caller: The user who decides. In a group only the author of the message may.
            answer_id: The answer that asks; an untrusted number.
            resolution: The decision.
            is_shown: True if the caller shows the outcome below the question; else a job does.

        Raises:
            StorageError: The database is away.
        """
        find = QuestionRepository(self._client).find
        asked = await self._client.run(find, caller.owner, answer_id, time_zone=caller.time_zone)
        disputes = asked.disputes if asked is not None else ()
        facts = [await self._prepare(caller.owner, one, resolution) for one in disputes]

        def work(transaction: Transaction) -> Settlement:
            lock_facts(transaction, caller.owner)
            questions = QuestionRepository(transaction)
            question = questions.find(caller.owner, answer_id, time_zone=caller.time_zone)
            if question is None:
                gone = say("conflict_gone", caller.language)
                return Settlement("gone", gone, gone)
            if question.is_over:
                return Settlement("over", question.text, question.text, question.changes)
            if caller.asker not in (None, question.sender_id):
                refusal = say("conflict_not_yours", caller.language)
                return Settlement("not_theirs", refusal, f"{question.text}\n\n{refusal}")
            outcomes: list[Outcome] = []
            said = say("conflict_gone", caller.language)
            if facts and question.disputes:
                outcomes = [self._store(transaction, caller.owner, *fact) for fact in facts]
                said = confirmation_text(outcomes, caller.language)
            changes = question.changes + changes_of(outcomes)
            questions.close(caller.owner, answer_id, said, changes=changes, is_shown=is_shown)
            return Settlement("settled", said, f"{question.text}\n\n{said}", changes)

        return await self._client.run(self._client.in_transaction, work)

    async def press(self, caller: Caller, answer_id: int, choice: int) -> Reply:
        """Decide by a button, and show the outcome below the question.

        Args:
            caller: The user who pressed the button.
            answer_id: The answer that asks.
            choice: Index of the decision in ``RESOLUTIONS``.
        """
        resolution = RESOLUTIONS[choice] if choice < len(RESOLUTIONS) else "old"
        settlement = await self.settle(caller, answer_id, resolution, is_shown=True)
        if settlement.kind == "not_theirs":  # the question stays for its author
            return replace(Reply.note(settlement.shown), popup=settlement.said)
        # A second press, or a retry after a crash, shows the outcome once more, with buttons for
        # the facts that are still current.
        changes = settlement.changes
        query = FactQuery(ids=[*changes.saved, *changes.replaced_by])
        facts = await self._client.run(self._memories.facts.list_facts, caller.owner, query)
        current = {fact.id for fact in facts}
        changes = replace(
            changes,
            saved=tuple(number for number in changes.saved if number in current),
            replaced_by=tuple(number for number in changes.replaced_by if number in current),
        )
        rows = in_rows(undo_buttons(changes, caller.language), 1)
        popup = settlement.said
        if settlement.kind == "over":
            popup = say("tap_done_already", caller.language)
        return Reply(settlement.shown, rows, popup=popup, is_screen=True)

    async def _prepare(self, owner: Owner, dispute: Dispute, resolution: Resolution) -> Decided:
        fact, said = dispute.fact, dispute.said
        if resolution == "old":
            denied = tuple(memory.text for memory in dispute.denied)
            return dispute, Outcome("kept", fact.text, f"msg-{said.message_id}", replaced=denied)
        replaced = []
        if resolution == "replace":
            replaced = [memory.id for memory in dispute.denied]
        return dispute, await self._memories.writer.prepare(
            owner, fact, said, origin="teach", contradicts=replaced, is_decided=True
        )

    def _store(
        self, transaction: Transaction, owner: Owner, dispute: Dispute, fact: Proposal | Outcome
    ) -> Outcome:
        """Store a new fact; if it replaces none of those that it denies, keep it beside them."""
        if isinstance(fact, Outcome):
            return fact
        outcome = self._memories.writer.store(transaction, owner, fact)
        if fact.contradicts or outcome.memory_id is None:
            return outcome
        known = [memory.id for memory in dispute.denied]
        QuestionRepository(transaction).keep_apart(owner, outcome.memory_id, known)
        texts = tuple(memory.text for memory in dispute.denied)
        return replace(outcome, kind="beside", replaced=texts)
