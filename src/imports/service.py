"""Imports step by step: a file is read into rows, and a job stores them or takes them back.

Each step is a transaction, and the next one finds in the rows what is left. So a killed process
loses nothing and doubles nothing.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, Literal
from uuid import UUID

from procrastinate import App, JobContext
from procrastinate.exceptions import AlreadyEnqueued

from src.base.errors import AppError, StorageRejectedError, TransientError
from src.base.owners import Caller, Owner
from src.base.zones import local_time
from src.imports.files import UnreadableFileError
from src.imports.formats import read_file
from src.imports.import_repo import Import, ImportRepository, StagedRow
from src.imports.records import Broken, Kind, Opened, Reading, Record, read_moment
from src.memory.indexer import Indexer
from src.memory.memory_repo import Source
from src.memory.restore_repo import RestoredFact, RestoredFacts
from src.memory.writer import MemoryWriter, SourceText
from src.pg.client import PATIENT, PgClient, Transaction
from src.pg.locks import lock_facts
from src.pg.settings_repo import UserSettingsRepository
from src.queue.job_repo import BACKGROUND_QUEUE, STORE_IMPORTS, JobDeathRepository, JobRepository
from src.queue.workers import schedule
from src.reading.facts import Fact, fact_number
from src.reading.recurrences import Recurrence, next_after
from src.texts import say

logger = logging.getLogger(__name__)

READ_BATCH = 500  # rows of one statement
KEPT_AT_ONCE = 20  # memories that become facts in one step
MAX_BROKEN = 50  # titles that are kept
SHOW_SECONDS = 3.0  # between two edits of a progress
SLOW_PRIORITY = -1
SLICE_SECONDS = 10.0  # of one job; the next one goes on
PAST = ("retired_at", "retired_reason", "speaker", "private_text")
IN_ORDER: tuple[Kind, ...] = ("message", "fact", "reminder", "summary", "settings")

Outcome = Literal["more", "done", "gone"]
Show = Callable[[Import], Awaitable[None]]


@dataclass(frozen=True)
class ReminderSteps:
    """Steps on reminders that imports take.

    Attributes:
        restore: Stores a reminder of an export in a transaction, unless the owner has it; returns
            its id.
        remove: Deletes reminders of the owner by their ids.
    """

    restore: Callable[[Transaction, Owner, dict[str, Any]], int | None]
    remove: Callable[[Transaction, Owner, Sequence[int]], None]


@dataclass(eq=False, repr=False)
class ImportService:
    """Reads files, stores what they hold, and takes it back."""

    _client: PgClient
    _indexer: Indexer
    _writer: MemoryWriter
    _reminders: ReminderSteps

    def __post_init__(self) -> None:
        """Build the repository on the client."""
        self.rows = ImportRepository(self._client)

    async def read(self, caller: Caller, file: Opened) -> Import:
        """Read a file into rows, which wait for the caller's choice.

        Raises:
            UnreadableFileError: Nothing in it can be imported.
            StorageError: The database is away.
        """
        return await asyncio.to_thread(self._read, caller, file)

    def _read(self, caller: Caller, file: Opened) -> Import:
        owner, now = caller.owner, caller.moment
        number, count = self.rows.begin(owner, file.name, caller.language)
        reading = Reading(owner.telegram_user_id, caller.time_zone, now)
        broken: list[Broken] = []
        try:
            records = read_file(file, reading)
            while batch := list(islice(records, READ_BATCH)):
                broken += [one for one in batch if isinstance(one, Broken)]
                found = [one for one in batch if isinstance(one, Record)]
                self.rows.add_rows(number, count, found, now)
                count += len(found)
            if not count:
                raise UnreadableFileError("import_broken" if broken else "import_nothing")
        except UnreadableFileError:
            self.rows.delete(number)
            raise
        worst_first = dict.fromkeys(sorted(broken, key=lambda one: not one.is_end))
        titles = [one.title for one in worst_first if not one.is_end]
        ends = [one.title for one in worst_first if one.is_end]
        titles = [say("import_breaks_off", caller.language, name=name) for name in ends] + titles
        self.rows.finish_reading(number, titles[:MAX_BROKEN])
        current = self.rows.find(owner, number)
        if current is None:  # the owner was erased meanwhile, or began another import
            raise UnreadableFileError("import_nothing")
        return current

    async def advance(self, import_: Import, job: int | None = None) -> Outcome:
        """Do the next step of an import under way.

        Args:
            import_: The import.
            job: The job that does it. Its deaths are forgotten with each step: what gets on does
                not kill its process.

        Raises:
            TransientError: The database is away; the step is repeated.
        """
        run = self._client.run
        if import_.state == "done":  # its end was not shown yet
            return "done"
        if import_.state == "undoing":
            take_back = partial(ImportSteps.take_back_some, number=import_.id)
            return await run(self._do_step, take_back, job)
        to_index = list[UUID]()
        store = partial(ImportSteps.store_some, number=import_.id, to_index=to_index)
        outcome = await run(self._do_step, store, job)
        for conversation_id in to_index:
            await self._indexer.index_conversation(conversation_id)
        if outcome == "done" and import_.keeps_memories and await self._keep_some(import_):
            return "more"
        if outcome == "done":
            await run(self._do_step, partial(ImportSteps.finish, number=import_.id), job)
            await run(JobRepository(self._client).defer_indexing)  # and embed
        return outcome

    def _do_step(self, step: Callable[["ImportSteps"], Outcome], job: int | None) -> Outcome:
        def work(transaction: Transaction) -> Outcome:
            if job is not None:
                JobDeathRepository(transaction).forget(job)
            return step(ImportSteps(transaction, self._reminders))

        return self._client.in_transaction(work, limits=PATIENT)

    async def _keep_some(self, import_: Import) -> bool:
        """Make facts of some memories; return True if there may be more."""
        unkept = await self._client.run(self.rows.list_unkept, import_.id, KEPT_AT_ONCE)
        for row in unkept:
            assert row.stored_id is not None
            said = SourceText(row.stored_id, row.text, local_time(row.said_at, "UTC"))
            fact = Fact(text=row.text, quote=row.text)
            try:
                await self._writer.remember(import_.owner, fact, said, origin="teach")
            except StorageRejectedError as error:
                logger.warning("a memory could not be kept", exc_info=error)
        numbers = [row.number for row in unkept]
        await self._client.run(self.rows.clear_text, import_.id, numbers)
        return bool(unkept)


class ImportSteps:
    """Steps of imports in one transaction; they block."""

    def __init__(self, transaction: Transaction, reminders: ReminderSteps) -> None:
        """Do the steps in ``transaction``."""
        self._transaction = transaction
        self._reminders = reminders
        self._rows = ImportRepository(transaction)
        self._settings = UserSettingsRepository(transaction)

    def store_some(self, number: int, to_index: list[UUID]) -> Outcome:
        """Store the next rows of a kind; set the conversations that are to be indexed then."""
        import_ = self._rows.lock(number, "storing")
        if import_ is None:
            return "gone"
        to_index.clear()
        kinds = IN_ORDER
        if import_.keeps_memories:
            kinds = (*IN_ORDER, "memory")
        for kind in kinds:
            batch = self._rows.list_rows(number, kind)
            if batch:
                self._store_batch(import_, kind, batch)
                if kind in ("message", "memory"):
                    to_index += self._rows.list_to_index(number, batch)
                return "more"
        return "done"

    def finish(self, number: int) -> Outcome:
        """End an import whose rows are stored."""
        import_ = self._rows.lock(number, "storing")
        if import_ is not None:
            facts = RestoredFacts(self._transaction, import_.owner)
            for fact, successor in self._rows.list_successors(number):
                facts.link(fact, successor)
            self._rows.finish(number)
        return "done"

    def take_back_some(self, number: int) -> Outcome:
        """Take back some messages with their facts; after the last ones, the rest."""
        rows, import_ = self._rows, self._rows.lock(number, "undoing")
        if import_ is None:
            return "gone"
        lock_facts(self._transaction, import_.owner)
        facts = RestoredFacts(self._transaction, import_.owner)
        messages = rows.list_messages(number)
        if messages:
            facts.take_back(messages)
            return "more"
        facts.take_back((), rows.list_new(number, "fact"))
        reminders = rows.list_new(number, "reminder")
        self._reminders.remove(self._transaction, import_.owner, reminders)
        if former := rows.find_former_settings(number):
            self._settings.change(import_.owner.telegram_user_id, **former)
        rows.delete(number)
        facts.tidy()
        return "done"

    def _store_batch(self, import_: Import, kind: Kind, batch: Sequence[StagedRow]) -> None:
        if kind in ("message", "memory"):
            self._rows.add_messages(import_, batch)
        elif kind == "summary":
            self._rows.add_summaries(import_.id, batch)
        elif kind == "fact":
            self._restore_facts(import_, batch)
        for row in batch:
            if kind == "reminder":
                self._restore_reminder(import_, row)
            elif kind == "settings":
                self._restore_settings(import_, row)

    def _restore_facts(self, import_: Import, batch: Sequence[StagedRow]) -> None:
        lock_facts(self._transaction, import_.owner)
        facts = RestoredFacts(self._transaction, import_.owner)
        uids = [source["uid"] for row in batch for source in row.details.get("sources", ())]
        links = self._rows.find_links(import_.id, uids)
        for row in batch:
            details, sources = row.details, []
            for one in details.get("sources", ()):
                number = links.get(one["uid"]) or fact_number(one["uid"], "msg-") or 0
                said_at = read_moment(one["said_at"]) or row.said_at
                sources.append(Source.of_message(number, one["quote"], said_at))
            columns = {name: details[name] for name in Fact.model_fields if name in details}
            for name in ("valid_from", "valid_until"):
                columns[name] = read_moment(details.get(name))
            fact = Fact(text=row.text)
            fact = fact.model_copy(update={"object": "", **columns, "text": row.text})
            past = {name: details[name] for name in PAST if name in details}
            kind = details.get("kind", "user_fact")
            stored = facts.restore(RestoredFact(fact, sources, row.said_at, past, kind))
            self._rows.set_stored(import_.id, row.number, stored)

    def _restore_reminder(self, import_: Import, row: StagedRow) -> None:
        """Restore a reminder; one whose time has passed waits for its next one, if it has one."""
        details, now = row.details, datetime.now(row.said_at.tzinfo)
        names = [details[name] for name in ("message", "snooze_of") if name in details]
        links = self._rows.find_links(import_.id, names)
        columns: dict[str, Any] = dict.fromkeys(("recurrence", "delivered_at", "cancelled_at"))
        columns |= {**details, "text": row.text, "created_at": row.said_at}
        columns["message_id"] = links.get(details.get("message", ""))
        columns["snooze_of"] = links.get(details.get("snooze_of", ""))
        columns["language"] = import_.language
        due_at = read_moment(columns["due_at"])
        if columns["is_waiting"] and due_at is not None and due_at <= now:
            columns["is_waiting"] = False
            if columns["recurrence"]:
                recurrence = Recurrence.from_text(columns["recurrence"])
                with suppress(OverflowError):
                    due_at = next_after(recurrence, now, columns["time_zone"])
                    columns |= {"due_at": due_at.isoformat(), "is_waiting": True}
        stored = self._reminders.restore(self._transaction, import_.owner, columns)
        self._rows.set_stored(import_.id, row.number, stored)

    def _restore_settings(self, import_: Import, row: StagedRow) -> None:
        user = import_.owner.telegram_user_id
        before = vars(self._settings.get(user))
        changed = {name: value for name, value in row.details.items() if before[name] != value}
        self._rows.set_stored(import_.id, row.number, 1)
        former = {name: before[name] for name in changed}
        self._rows.note_settings(import_.id, row.number, former)
        if changed:
            self._settings.change(user, **changed)


@dataclass(eq=False, repr=False)
class ImportTasks:
    """The job of imports, for all owners; ``_show`` shows an import as it is now."""

    _client: PgClient
    _service: ImportService
    _show: Show

    def __post_init__(self) -> None:
        """Note when each import was last shown."""
        self._shown_at: dict[int, float] = {}

    def register(self, app: App) -> None:
        """Register the task and its schedules."""
        task = app.task(
            name=STORE_IMPORTS, queue=BACKGROUND_QUEUE, priority=SLOW_PRIORITY, pass_context=True
        )
        task(self.store)
        schedule("* * * * *", app, BACKGROUND_QUEUE, "resume_imports", self.resume)
        schedule("23 * * * *", app, BACKGROUND_QUEUE, "drop_imports", self.drop_abandoned)

    async def store(self, context: JobContext) -> None:
        """Advance all imports under way for a while; queue the job again if any is left.

        What is interrupted, or fails for a reason that may pass, is resumed within a minute.
        """
        try:
            if await self.run_all(SLICE_SECONDS, job=context.job.id):
                lock = {"lock": STORE_IMPORTS, "queueing_lock": STORE_IMPORTS}
                again = context.app.configure_task(STORE_IMPORTS, allow_unknown=False, **lock)
                with suppress(AlreadyEnqueued):
                    await again.defer_async()
        except asyncio.CancelledError:
            logger.info("imports go on after the restart")
        except TransientError as error:
            logger.warning("imports go on in a minute", exc_info=error)

    async def run_all(self, seconds: float = float("inf"), job: int | None = None) -> bool:
        """Advance all imports under way by turns; one that fails waits for the next call.

        Args:
            seconds: After so many it stops.
            job: The job that it runs in, see ``ImportService.advance``.

        Returns:
            True if an import is left that did not fail.

        Raises:
            TransientError: The database is away.
        """
        failed, after, end = set[int](), 0, time.monotonic() + seconds
        find = self._service.rows.find_under_way
        while time.monotonic() < end:
            import_ = await self._client.run(find, after, failed)
            if import_ is None and after == 0:
                return False
            after = 0
            if import_ is not None:
                after = import_.id
                if not await self._advance(import_, job):
                    failed.add(import_.id)
        return True

    async def _advance(self, import_: Import, job: int | None) -> bool:
        """Do the next step of an import, and show it from time to time; False if it failed."""
        try:
            outcome = await self._service.advance(import_, job)
        except TransientError:
            raise
        except AppError as error:
            log = {"import": import_.id}
            logger.error("an import failed", extra=log, exc_info=error)  # noqa: TRY400
            return False
        shown_at = self._shown_at.get(import_.id, float("-inf"))
        if outcome == "done":
            self._shown_at.pop(import_.id, None)
            await self._show(import_)
            await self._client.run(self._service.rows.close, import_.id)
        elif time.monotonic() - shown_at >= SHOW_SECONDS:
            self._shown_at[import_.id] = time.monotonic()
            await self._show(import_)
        return True

    async def resume(self) -> None:
        """Every minute: queue the job if an import is under way whose job is gone."""
        if await self._client.run(self._service.rows.find_under_way) is not None:
            await self._client.run(JobRepository(self._client).defer_indexing, STORE_IMPORTS)

    async def drop_abandoned(self) -> None:
        """Every hour: drop imports on which nobody decided."""
        await self._client.run(self._service.rows.delete_abandoned)
