"""What a turn writes: no index that nobody reads, none of rows that have nothing to be found by.

An answer is marked as delivered in its place now, without an entry in every index of ``messages``:
no index knows the columns that change then. Of procrastinate's indexes of jobs, two are there that
ours serve better: ``pomni_jobs_in_lock`` and ``pomni_jobs_by_round``.
"""

from alembic import op

revision = "0112"
down_revision = "0111"

LIGHTER = """
DROP INDEX messages_undelivered;
ALTER TABLE search_documents DROP CONSTRAINT search_documents_memory_id_key,
                             DROP CONSTRAINT search_documents_summary_id_key;
CREATE UNIQUE INDEX search_documents_of_memory ON search_documents (memory_id)
    WHERE memory_id IS NOT NULL;
CREATE UNIQUE INDEX search_documents_of_summary ON search_documents (summary_id)
    WHERE summary_id IS NOT NULL;
DROP INDEX procrastinate_jobs_id_lock_idx_v1, procrastinate_jobs_queue_name_idx_v1;
"""

AS_BEFORE = """
CREATE INDEX messages_undelivered ON messages (created_at)
    WHERE role = 'assistant' AND delivered_at IS NULL;
DROP INDEX search_documents_of_memory, search_documents_of_summary;
ALTER TABLE search_documents
    ADD CONSTRAINT search_documents_memory_id_key UNIQUE (memory_id),
    ADD CONSTRAINT search_documents_summary_id_key UNIQUE (summary_id);
CREATE INDEX procrastinate_jobs_queue_name_idx_v1 ON procrastinate_jobs (queue_name);
CREATE INDEX procrastinate_jobs_id_lock_idx_v1 ON procrastinate_jobs (id, lock)
    WHERE status IN ('todo', 'doing');
"""


def upgrade():
    op.get_bind().connection.cursor().execute(LIGHTER)


def downgrade():
    op.get_bind().connection.cursor().execute(AS_BEFORE)
