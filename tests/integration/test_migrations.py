"""The migrations, on a real PostgreSQL."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import get_args

import psycopg2
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from procrastinate.schema import SchemaManager

from src.errors import ConfigError, StorageRejectedError
from src.facts.fact import MEMORY_TYPES, MemoryType
from src.storage.global_settings_repo import GlobalSettings, GlobalSettingsRepository
from src.storage.migrations import MIGRATIONS, find_version, migrate, newest_version
from src.storage.pg_client import PgClient
from src.storage.update_repo import NewUpdate, UpdateRepository
from tests.conftest import execute, query

# Every column, view, index, constraint, trigger and function of schema public that no extension
# brought, and the extensions, as one list of texts.
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
UNION ALL SELECT 'trigger ' || tgrelid::regclass || ' ' || tgname FROM pg_trigger
WHERE NOT tgisinternal
ORDER BY 1
"""


def describe(dsn: str) -> list[str]:
    connection = psycopg2.connect(dsn)
    with connection.cursor() as cursor:
        cursor.execute(DESCRIBE)
        found = [row[0] for row in cursor.fetchall()]
    connection.close()
    return [line for line in found if "alembic_version" not in line]


def test_from_zero_to_the_newest_and_again(empty_dsn: str) -> None:
    assert find_version(empty_dsn) is None
    assert migrate(empty_dsn) == (None, newest_version())
    assert migrate(empty_dsn) == (newest_version(), newest_version())


def test_the_database_takes_every_memory_type_and_no_other(empty_dsn: str) -> None:
    migrate(empty_dsn)
    [(check,)] = query(
        empty_dsn,
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE conname = 'memories_memory_type_check'",
    )
    assert set(re.findall(r"'(\w+)'", check)) == set(MEMORY_TYPES) == set(get_args(MemoryType))


def test_up_down_up_leaves_the_same_schema(empty_dsn: str) -> None:
    migrate(empty_dsn)
    first = describe(empty_dsn)
    migrate(empty_dsn, "base")
    assert describe(empty_dsn) == ["extension btree_gin"], "it may have been there before us"
    migrate(empty_dsn)
    assert describe(empty_dsn) == first


def test_every_single_step_goes_down_and_up(empty_dsn: str) -> None:
    for number in range(int(newest_version())):
        migrate(empty_dsn, f"{number + 1:04}")
        before = describe(empty_dsn)
        migrate(empty_dsn, f"{number:04}" if number else "base")
        migrate(empty_dsn, f"{number + 1:04}")
        assert describe(empty_dsn) == before


def test_stored_messages_get_their_positions_and_times_in_the_order_of_the_history(
    empty_dsn: str,
) -> None:
    migrate(empty_dsn, "0006")
    execute(
        empty_dsn,
        "INSERT INTO conversations (telegram_user_id) VALUES (1), (2)",
        # By turns in two conversations; every second moment is shared by two messages.
        "INSERT INTO messages (conversation_id, role, content, created_at)"
        " SELECT c.id, 'user', n::text, timestamptz '2025-01-01' - n / 2 * interval '1 day'"
        " FROM generate_series(0, 5) n CROSS JOIN conversations c",
    )
    look = (
        "SELECT c.telegram_user_id, array_agg(m.content ORDER BY m.created_at, m.id),"
        " array_agg(m.position ORDER BY m.created_at, m.id),"
        " bool_and(m.said_at = m.created_at AND m.indexed_at IS NULL AND NOT m.is_forgotten)"
        " FROM messages m JOIN conversations c ON c.id = m.conversation_id GROUP BY 1 ORDER BY 1"
    )
    for _ in range(2):
        migrate(empty_dsn)
        assert query(empty_dsn, look) == [
            (owner, list("452301"), [1, 2, 3, 4, 5, 6], True) for owner in (1, 2)
        ]
        migrate(empty_dsn, "0006")


def test_documents_with_a_vector_of_zeros_are_embedded_anew(empty_dsn: str) -> None:
    migrate(empty_dsn, "0009")
    execute(
        empty_dsn,
        "INSERT INTO embedding_models (name, dimensions, unrelated_median, unrelated_high)"
        " VALUES ('old', 2, 0, 1), ('new', 2, 0, 1)",
        "INSERT INTO conversations (telegram_user_id) VALUES (1)",
        "INSERT INTO messages (conversation_id, role, content, position, said_at)"
        " SELECT id, 'user', n::text, n, now() FROM conversations, generate_series(1, 3) n",
        "INSERT INTO search_documents"
        " (telegram_user_id, position, kind, message_id, speaker, said_at, length, model_id)"
        " SELECT 1, position, 'message', id, 'user', said_at, 1, 2 FROM messages",
        # By number of the document: refused by the old model, refused by the new one, by none.
        "INSERT INTO document_embeddings"
        " (telegram_user_id, thread_id, model_id, position, document_id, embedding)"
        " SELECT 1, 0, m.id, d.position, d.id,"
        " CASE WHEN d.position = m.id THEN '[0,0]' ELSE '[0.6,0.8]' END::halfvec"
        " FROM search_documents d, embedding_models m",
    )
    look = (
        "SELECT d.position, d.model_id, array_agg(e.model_id ORDER BY e.model_id)"
        " FROM search_documents d JOIN document_embeddings e ON e.document_id = d.id"
        " GROUP BY 1, 2 ORDER BY 1"
    )
    for _ in range(2):
        migrate(empty_dsn)
        assert query(empty_dsn, look) == [(1, 2, [2]), (2, None, [1]), (3, 2, [1, 2])]
        migrate(empty_dsn, "0009")


def test_the_operator_s_settings_begin_as_the_program_s_own_defaults(client: PgClient) -> None:
    columns = list(GlobalSettings.model_fields)
    [row] = client.fetch_all("SELECT * FROM global_settings")
    assert len(row) == len(columns) + 2, "besides its id and when it was changed"
    assert GlobalSettingsRepository(client).get() == GlobalSettings()
    with pytest.raises(StorageRejectedError):
        client.execute("INSERT INTO global_settings (id) VALUES (2)")


def test_there_is_one_head_and_the_numbers_are_in_order() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    scripts = ScriptDirectory.from_config(config)
    assert len(scripts.get_heads()) == 1
    revisions = [script.revision for script in scripts.walk_revisions()][::-1]
    assert revisions == [f"{number + 1:04}" for number in range(len(revisions))]


def test_several_processes_migrate_at_once(empty_dsn: str) -> None:
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lambda _: migrate(empty_dsn), range(4)))
    assert sorted(str(before) for before, _ in results) == [*([newest_version()] * 3), "None"]


def test_a_database_from_the_future_is_refused(empty_dsn: str) -> None:
    migrate(empty_dsn)
    execute(empty_dsn, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(ConfigError, match="version 9999"):
        migrate(empty_dsn)


def test_the_queue_schema_is_the_one_of_the_installed_package(
    empty_dsn: str, postgres_server: str
) -> None:
    """Fails when procrastinate brings scripts that no migration of ours applies yet."""
    migrate(empty_dsn)
    ours = [
        line
        for line in describe(empty_dsn)
        if "procrastinate" in line and "pomni_jobs" not in line and "job_deaths" not in line
    ]
    execute(empty_dsn, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    execute(empty_dsn, SchemaManager.get_schema())
    assert sorted(ours) == sorted(line for line in describe(empty_dsn))
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
        cursor.execute("SELECT id FROM procrastinate_fetch_job_v2(ARRAY['turns'], %s)", worker)
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
