"""The migrations, on a real PostgreSQL."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import get_args

import psycopg2
import pytest
from procrastinate.schema import SchemaManager

from src.base.errors import SchemaRefusedError, StorageRejectedError
from src.base.owners import Owner
from src.memory.consolidation import ConsolidationRepository
from src.memory.forgetting_repo import ForgettingRepository
from src.pg.client import PgClient
from src.pg.embedded import binary
from src.pg.migrations import (
    LAST_OLD,
    MIGRATIONS,
    find_version,
    migrate,
    newest_version,
)
from src.pg.settings_repo import GlobalSettings, GlobalSettingsRepository
from src.queue.update_repo import NewUpdate, UpdateRepository
from src.reading.facts import MEMORY_TYPES, PRIVATE, MemoryType
from tests.conftest import execute, new_database, query
from tests.integration.old_schema import SEEN, build_old_database

pytestmark = pytest.mark.own_database

# Every column, view, index, constraint, trigger, function and comment of schema public that no
# extension brought, and the extensions, as one list of texts.
DESCRIBE = """
SELECT 'column ' || table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable
       || ' ' || coalesce(column_default, '')
FROM information_schema.columns WHERE table_schema = 'public'
UNION ALL SELECT 'index ' || indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT 'constraint ' || conrelid::regclass || ' ' || conname || ' '
       || pg_get_constraintdef(oid)
FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND conrelid <> 0
UNION ALL SELECT 'view ' || viewname || ' ' || definition
FROM pg_views WHERE schemaname = 'public'
UNION ALL SELECT 'function ' || p.oid::regprocedure || ' '
       || md5(coalesce(nullif(p.prosrc, ''), pg_get_functiondef(p.oid)))
FROM pg_proc p WHERE pronamespace = 'public'::regnamespace AND NOT EXISTS (
    SELECT 1 FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
UNION ALL SELECT 'extension ' || extname FROM pg_extension WHERE extname <> 'plpgsql'
UNION ALL SELECT 'comment ' || (pg_identify_object(classoid, objoid, objsubid)).identity || ' '
       || description
FROM pg_description WHERE (pg_identify_object(classoid, objoid, objsubid)).schema = 'public'
  AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = objoid AND d.deptype = 'e')
UNION ALL SELECT 'trigger ' || tgrelid::regclass || ' ' || tgname FROM pg_trigger
WHERE NOT tgisinternal
ORDER BY 1
"""

# Every table and view that no extension brought, and every column, that has no comment.
UNCOMMENTED = """
WITH relations AS (
    SELECT oid, relname::text AS name FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f')
      AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = pg_class.oid AND d.deptype = 'e')
)
SELECT name FROM relations WHERE obj_description(oid, 'pg_class') IS NULL
UNION ALL
SELECT name || '.' || attname FROM relations JOIN pg_attribute ON attrelid = relations.oid
WHERE attnum > 0 AND NOT attisdropped AND col_description(attrelid, attnum) IS NULL
ORDER BY 1
"""


def describe(dsn: str) -> list[str]:
    return [line for (line,) in query(dsn, DESCRIBE) if "alembic_version" not in line]


def pg_dump(dsn: str, *what: str) -> list[str]:
    """Everything, or ``what``, as PostgreSQL itself would write it into a backup."""
    command = [binary("pg_dump"), "--no-owner", "--no-privileges", *what, f"--dbname={dsn}"]
    dumped = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [line for line in dumped.splitlines() if not line.startswith("\\")]


def versions() -> list[str]:
    return sorted(file.name[:4] for file in (MIGRATIONS / "versions").glob("0*.py"))


def test_the_database_takes_every_memory_type_and_no_other(empty_dsn: str) -> None:
    migrate(empty_dsn)
    [(check,)] = query(
        empty_dsn,
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE conname = 'memories_memory_type_check'",
    )
    assert (
        set(re.findall(r"'(\w+)'", check)) == {*MEMORY_TYPES, PRIVATE} == set(get_args(MemoryType))
    )


def test_up_down_up_leaves_the_same_schema_as_a_whole_and_by_steps(empty_dsn: str) -> None:
    assert migrate(empty_dsn) == (None, newest_version())
    assert migrate(empty_dsn) == (newest_version(), newest_version())
    first = describe(empty_dsn)
    migrate(empty_dsn, "base")
    assert describe(empty_dsn) == []
    below = "base"
    for version in versions():
        migrate(empty_dsn, version)
        before = describe(empty_dsn)
        migrate(empty_dsn, below)
        migrate(empty_dsn, version)
        assert describe(empty_dsn) == before
        below = version
    assert describe(empty_dsn) == first


def test_a_migration_that_fails_leaves_nothing_of_those_before_it(empty_dsn: str) -> None:
    execute(empty_dsn, "CREATE EXTENSION vector")  # created before any migration
    execute(empty_dsn, "CREATE FUNCTION notify_next_job() RETURNS int LANGUAGE sql RETURN 1")
    before = describe(empty_dsn)
    with pytest.raises(StorageRejectedError):
        migrate(empty_dsn)
    assert (find_version(empty_dsn), describe(empty_dsn)) == (None, before)


def test_every_table_view_and_column_says_what_it_holds(dsn: str) -> None:
    assert query(dsn, UNCOMMENTED) == []
    assert len(query(dsn, UNCOMMENTED.replace("IS NULL", "IS NOT NULL"))) > 350


def test_a_database_at_the_last_old_migration_becomes_one_made_anew(
    dsn: str, empty_dsn: str
) -> None:
    build_old_database(empty_dsn)
    assert migrate(empty_dsn) == (LAST_OLD, newest_version())
    for statement, rows in SEEN.items():
        assert query(empty_dsn, statement) == rows
    assert describe(empty_dsn) == describe(dsn)
    of_schema = [pg_dump(address, "--schema-only") for address in (empty_dsn, dsn)]
    assert of_schema[0] == of_schema[1], "even the order of the columns is the same"


def test_what_was_replaced_and_merged_before_can_still_be_undone(empty_dsn: str) -> None:
    build_old_database(empty_dsn)
    migrate(empty_dsn)
    with closing(PgClient(empty_dsn)) as client:
        client.open()
        [(number,)] = client.fetch_all("SELECT id FROM changes WHERE undone_at IS NULL OFFSET 1")
        assert ConsolidationRepository(client).undo(Owner(5), number)
        undone = client.in_transaction(lambda t: ForgettingRepository(t, Owner(5)).undo())
    assert undone == ("Тула", ["Омск"])
    left = "SELECT text, importance, valid_until FROM memories WHERE retired_at IS NULL"
    assert sorted(query(empty_dsn, left)) == [
        ("Омск", 5, None), ("кот Барсик", 5, None), ("чай", 3, None), ("чай!", 5, None),
    ]  # fmt: skip


def test_an_old_database_that_somebody_has_changed_is_left_as_it_is(empty_dsn: str) -> None:
    build_old_database(empty_dsn)
    execute(empty_dsn, "ALTER TABLE batch_jobs DROP COLUMN dropped")  # its comment fails, at last
    before = pg_dump(empty_dsn)
    with pytest.raises(StorageRejectedError):
        migrate(empty_dsn)
    assert (find_version(empty_dsn), pg_dump(empty_dsn)) == (LAST_OLD, before)


NEW = (
    f"this program knows {newest_version()}; nothing was changed: start the newer program, or"
    " restore"
)
FOREIGN = "tables of another program; nothing was changed: give Pomni a database of its own"


def test_a_database_that_is_not_in_utf_8_is_refused_while_it_is_empty(
    postgres_server: str,
) -> None:
    for dsn in new_database(postgres_server, "template0 ENCODING 'SQL_ASCII' LOCALE 'C'"):
        for attempt in (migrate, find_version):
            with pytest.raises(SchemaRefusedError, match="encoding is SQL_ASCII; nothing was"):
                attempt(dsn)


def test_a_search_path_without_a_schema_is_told_as_that(empty_dsn: str) -> None:
    with pytest.raises(StorageRejectedError, match="no schema has been selected to create in"):
        migrate(f"{empty_dsn}&options=-csearch_path%3Dnowhere")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("UPDATE alembic_version SET version_num = '0124'", FOREIGN),
        ("UPDATE alembic_version SET version_num = '9999'", f"version 9999, {NEW}"),
        ("UPDATE alembic_version SET version_num = '0150'", FOREIGN),
        ("UPDATE alembic_version SET version_num = 'a1b2c3d4e5f6'", FOREIGN),
        ("INSERT INTO alembic_version VALUES ('0125')", FOREIGN),
        ("DELETE FROM alembic_version", FOREIGN),
        ("DROP TABLE alembic_version", FOREIGN),
        # What another program might have at the very numbers of ours.
        ("ALTER TABLE owners RENAME telegram_user_id TO customer", FOREIGN),
        ("DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE TABLE a (id int)", FOREIGN),
    ],
)
def test_a_database_that_is_not_ours_to_migrate_is_refused_and_left_as_it_is(
    dsn: str, change: str, told: str
) -> None:
    execute(dsn, change)
    before = pg_dump(dsn)
    for attempt in (migrate, find_version):
        with pytest.raises(SchemaRefusedError) as caught:
            attempt(dsn)
        assert told in str(caught.value)
        assert len(caught.value.problems) == 1
    assert pg_dump(dsn) == before


def test_the_view_chat_shows_who_said_what_when_with_mode_and_tools(client: PgClient) -> None:
    client.execute("""
        WITH c AS (
            INSERT INTO conversations (owner_id, telegram_user_id, thread_id)
            VALUES (add_owner(5, 0), 5, 0), (add_owner(-7, 3), -7, 3)
            RETURNING id, telegram_user_id
        )
        INSERT INTO messages (conversation_id, role, content, position, sender_id, speaker,
                              is_forgotten)
        SELECT c.id, 'user', '[Текущее время: 2026-11-24 10:00] ' || text, n, 8,
               CASE WHEN c.telegram_user_id < 0 AND n < 3 THEN 'Аня' END, n = 2
        FROM c, (VALUES (1, 'раз'), (2, 'забудь'), (3, 'три')) AS said (n, text)
        ORDER BY c.telegram_user_id DESC, n
    """)
    client.execute("""
        INSERT INTO messages (conversation_id, role, content, reply_to_id, position, mode)
        SELECT m.conversation_id, 'assistant', 'ответ', m.id, 4, 'strict' FROM messages m
        WHERE m.position = 3
    """)
    client.execute("""
        INSERT INTO messages (conversation_id, role, content, reply_to_id, position)
        SELECT m.conversation_id, 'system', 'Tools used: search_memory, forget_fact', m.id, 5
        FROM messages m WHERE m.position = 3
    """)
    client.execute("INSERT INTO user_settings (owner_id) VALUES (add_owner(5, 0))")
    rows = client.fetch_all(
        "SELECT telegram_user_id, thread_id, who, what, mode, tools FROM chat"
        " ORDER BY telegram_user_id DESC, said_at, message_id"
    )
    tools = "search_memory, forget_fact"
    assert rows == [
        (5, 0, "user", "раз", None, None),
        (5, 0, "user", "три", "strict", None),
        (5, 0, "bot", "ответ", "strict", tools),
        (-7, 3, "Аня", "раз", None, None),
        (-7, 3, "8", "три", "strict", None),
        (-7, 3, "bot", "ответ", "strict", tools),
    ]


def test_the_operator_s_settings_begin_as_the_program_s_own_defaults(client: PgClient) -> None:
    columns = list(GlobalSettings.model_fields)
    [row] = client.fetch_all("SELECT * FROM global_settings")
    assert len(row) == len(columns) + 2, "besides its id and when it was changed"
    assert GlobalSettingsRepository(client).get() == GlobalSettings()
    with pytest.raises(StorageRejectedError):
        client.execute("INSERT INTO global_settings (id) VALUES (2)")


def test_several_processes_migrate_at_once(empty_dsn: str) -> None:
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lambda _: migrate(empty_dsn), range(4)))
    assert sorted(str(before) for before, _ in results) == [*([newest_version()] * 3), "None"]


MIGRATING = """
SELECT wait_event_type = 'Lock' FROM pg_stat_activity
WHERE application_name = 'pomni migrate' AND datname = current_database()
"""


def test_a_start_that_is_killed_while_it_migrates_has_changed_nothing(empty_dsn: str) -> None:
    migrate(empty_dsn, "0203")
    with closing(psycopg2.connect(empty_dsn)) as reader, reader.cursor() as cursor:
        cursor.execute("LOCK TABLE messages")
        program = f"from src.pg.migrations import migrate; migrate({empty_dsn!r})"
        starting = subprocess.Popen([sys.executable, "-c", program], cwd=MIGRATIONS.parent)
        while (True,) not in query(empty_dsn, MIGRATING):
            assert starting.poll() is None
        starting.kill()
        starting.wait()
    while query(empty_dsn, MIGRATING):
        pass
    assert find_version(empty_dsn) == "0203"
    assert migrate(empty_dsn) == ("0203", newest_version())


# Triggers whose events nobody reads, and indexes of jobs in whose place ours are.
UNREAD = ("status_events_insert", "scheduled_events", "abort_requested_events")
REPLACED = (
    " procrastinate_jobs_id_lock_idx_v1 ", " procrastinate_jobs_queue_name_idx_v1 ",
    " idx_procrastinate_jobs_worker_not_null ",
)  # fmt: skip


def test_the_queue_schema_is_the_one_of_the_installed_package(
    empty_dsn: str, postgres_server: str
) -> None:
    """Fails when procrastinate brings scripts that no migration of ours applies yet."""
    migrate(empty_dsn)
    ours = [
        line
        for line in describe(empty_dsn)
        if "procrastinate" in line and "pomni_jobs" not in line and "job_deaths" not in line
        if not line.startswith("comment ")  # these are ours
    ]
    execute(empty_dsn, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    execute(empty_dsn, SchemaManager.get_schema())
    unread = {f"trigger procrastinate_jobs procrastinate_trigger_{name}_v1" for name in UNREAD}
    theirs = {line for line in describe(empty_dsn) if not any(name in line for name in REPLACED)}
    assert {*ours} | unread == theirs
    assert sorted(Path(SchemaManager.get_migrations_path()).glob("*.sql"))


def test_fetching_a_job_stays_in_the_order_of_the_index_whatever_the_statistics(
    dsn: str, client: PgClient
) -> None:
    """Many wait, and the statistics still say that the queue is empty."""
    updates = UpdateRepository(client)
    updates.store(1, [NewUpdate(n, "message", {"n": n}, chat_id=n + 1) for n in range(2000)])
    worker = client.fetch_one("SELECT * FROM procrastinate_register_worker_v1()")
    assert worker is not None
    connection = psycopg2.connect(dsn)
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM procrastinate_fetch_job_v2(ARRAY['people'], %s)", worker)
        assert cursor.fetchone() is not None
        cursor.execute(
            "SELECT pg_stat_get_xact_tuples_fetched('procrastinate_jobs'::regclass)"
            " + pg_stat_get_xact_tuples_returned('procrastinate_jobs'::regclass)"
        )
        looked_at = (cursor.fetchone() or (0,))[0]
    connection.close()
    assert looked_at < 100


def test_ids_of_telegram_are_bigint_and_times_have_a_zone(dsn: str) -> None:
    columns = [line for line in describe(dsn) if line.startswith("column ")]
    columns = [line for line in columns if "procrastinate" not in line]
    for line in columns:
        name, kind = line.split(" ")[1], line.split(" ", 2)[2]
        if name.endswith(("_user_id", "chat_id", "message_id", "update_id", "bot_id")):
            assert kind.startswith("bigint"), line
        assert "timestamp without" not in line
