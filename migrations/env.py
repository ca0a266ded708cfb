"""Alembic environment; ``src/pg/migrations.py`` provides the connection.

All migrations run in one transaction, so that a failing one leaves the database unchanged.

Migrations 0101 to 0105 create in one step the schema that 0001 to 0031 built up. A database at
0031 differs from it by ``CHANGE_TABLES``, and by its comments and views, which are read from
0101 to 0105 themselves. Later migrations run as on any other database.
"""

import re
from typing import Any

from alembic import context

ADOPTED = "0105"  # version of a database at 0031 after its adoption

# Drop columns that nothing reads, add the column for the mode of an answer, and merge two bounds
# of one setting into one. Quarantined messages and documents are retried.
CHANGE_TABLES = """
DROP VIEW memories_with_source;
ALTER TABLE messages ADD COLUMN mode text CHECK (mode IN ('assistant', 'strict'));
ALTER TABLE memories DROP COLUMN recalled_at;
ALTER TABLE entities DROP COLUMN entity_type;
ALTER TABLE batch_jobs DROP COLUMN job_type;
UPDATE messages m SET indexed_at = NULL FROM job_deaths d WHERE d.message_id = m.id;
DELETE FROM job_deaths WHERE message_id IS NOT NULL OR document_id IS NOT NULL;
ALTER TABLE job_deaths DROP COLUMN message_id, DROP COLUMN document_id;
ALTER TABLE global_settings
    DROP CONSTRAINT global_settings_memory_extraction_window_check,
    DROP CONSTRAINT global_settings_memory_extraction_window_check1,
    DROP CONSTRAINT global_settings_memory_extraction_silence_minutes_check,
    DROP CONSTRAINT global_settings_memory_extraction_silence_minutes_check1,
    DROP CONSTRAINT global_settings_max_memories_per_user_check,
    DROP CONSTRAINT global_settings_max_memories_per_user_check1,
    DROP CONSTRAINT global_settings_background_calls_per_hour_check,
    DROP CONSTRAINT global_settings_background_calls_per_hour_check1,
    ADD CHECK (memory_extraction_window BETWEEN 1 AND 1000),
    ADD CHECK (memory_extraction_silence_minutes BETWEEN 1 AND 10080),
    ADD CHECK (max_memories_per_user BETWEEN 1 AND 1000000),
    ADD CHECK (background_calls_per_hour BETWEEN 1 AND 100000);
"""

# Set the database's version.
STAMP = "UPDATE alembic_version SET version_num = %(version)s"

# A COMMENT statement in a migration; it starts and ends with a line.
COMMENT = re.compile(r"^COMMENT ON .+?';$", re.MULTILINE | re.DOTALL)


def adopt(cursor: Any) -> None:
    """Migrate a database at 0031 to ``ADOPTED``."""
    cursor.execute(CHANGE_TABLES)
    for revision in reversed(list(context.script.iterate_revisions(ADOPTED, "base"))):
        parts = vars(revision.module).items()
        texts = [part for name, part in parts if name.isupper() and isinstance(part, str)]
        views = [text for text in texts if text.startswith("\nCREATE VIEW ")]
        comments = [one for text in texts if text not in views for one in COMMENT.findall(text)]
        cursor.execute("\n".join([*views, *comments]))
    cursor.execute(STAMP, {"version": ADOPTED})


connection = context.config.attributes["connection"]
context.configure(connection=connection)
with context.begin_transaction():
    if context.config.attributes["is_old"]:
        adopt(connection.connection.cursor())
    context.run_migrations()
