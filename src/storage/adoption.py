"""A database at the last of the old migrations, 0031, becomes one of the new numbering.

The migrations 0101 to 0105 make in one go what 0001 to 0031 had made step by step. A database at
0031 differs from theirs by what stands here, and by its comments and views, which are taken from
those migrations themselves.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from psycopg2.extensions import cursor as Cursor

LAST_OLD = "0031"
ADOPTED = "0105"  # what 0031 becomes; later migrations run as they do elsewhere

# What nothing reads is dropped, what the mode of an answer is noted in is added, and two bounds of
# one setting become one.
CHANGE_TABLES = """
DROP VIEW memories_with_source;
ALTER TABLE messages ADD COLUMN mode text CHECK (mode IN ('assistant', 'strict'));
ALTER TABLE memories DROP COLUMN recalled_at;
ALTER TABLE entities DROP COLUMN entity_type;
ALTER TABLE batch_jobs DROP COLUMN job_type;
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

# The database is at this version from now on.
STAMP = "UPDATE alembic_version SET version_num = %(version)s"

# A comment of a migration: it begins a line, and nothing stands behind it.
COMMENT = re.compile(r"^COMMENT ON .+?';$", re.MULTILINE | re.DOTALL)


def adopt(cursor: Cursor, migrations: Path) -> None:
    """Bring a database at ``LAST_OLD`` to ``ADOPTED``; the caller commits.

    Args:
        cursor: In a transaction of its own, on which nobody else migrates.
        migrations: The folder of the new migrations.
    """
    cursor.execute(CHANGE_TABLES)
    for path in sorted(migrations.glob("[0-9]*.py")):
        if path.name[: len(ADOPTED)] <= ADOPTED:
            cursor.execute(_views_and_comments(path))
    cursor.execute(STAMP, {"version": ADOPTED})


def _views_and_comments(path: Path) -> str:
    """The views of a migration, and all its comments."""
    spec = importlib.util.spec_from_file_location(f"migration_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    parts = [part for name, part in vars(module).items() if name.isupper() and part is not None]
    texts = [part for part in parts if isinstance(part, str)]
    views = [text for text in texts if text.startswith("\nCREATE VIEW ")]
    comments = [found for text in texts if text not in views for found in COMMENT.findall(text)]
    return "\n".join([*views, *comments])
