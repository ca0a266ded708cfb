"""The queue: procrastinate 3.4's schema, from the numbered scripts of the package itself.

The package's scripts are append-only, so this migration stays the same with newer packages: it
takes those up to LAST. A newer package with further scripts needs a further migration here;
``tests/integration/test_migrations.py`` fails until there is one.
"""

from pathlib import Path

from alembic import op
from procrastinate.schema import SchemaManager

revision = "0002"
down_revision = "0001"

LAST = "03.04.00_50_post_add_retry_failed_job_procedure.sql"

DOWNGRADE = """
DROP TABLE procrastinate_events, procrastinate_periodic_defers, procrastinate_jobs,
    procrastinate_workers CASCADE;
DO $$
DECLARE
    thing record;
BEGIN
    FOR thing IN
        SELECT p.oid::regprocedure AS name FROM pg_proc p
        WHERE p.pronamespace = 'public'::regnamespace AND p.proname LIKE 'procrastinate\\_%'
    LOOP
        EXECUTE format('DROP FUNCTION %s CASCADE', thing.name);
    END LOOP;
    FOR thing IN
        SELECT t.oid::regtype AS name FROM pg_type t
        WHERE t.typnamespace = 'public'::regnamespace AND t.typname LIKE 'procrastinate\\_%'
          AND t.typtype IN ('e', 'c')
    LOOP
        EXECUTE format('DROP TYPE %s CASCADE', thing.name);
    END LOOP;
END;
$$;
"""


def upgrade():
    cursor = op.get_bind().connection.cursor()
    for script in sorted(Path(SchemaManager.get_migrations_path()).glob("*.sql")):
        if script.name <= LAST:
            cursor.execute(script.read_text(encoding="utf-8"))


def downgrade():
    op.get_bind().connection.cursor().execute(DOWNGRADE)
