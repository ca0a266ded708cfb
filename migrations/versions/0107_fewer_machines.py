"""Machines against faults that went: suspected jobs have no steps and no process of their own."""

from alembic import op

revision = "0107"
down_revision = "0105"

# A message or document that was put aside is tried again with the others: the engines that such
# texts killed have processes of their own.
UPGRADE = """
UPDATE messages m SET indexed_at = NULL FROM job_deaths d WHERE d.message_id = m.id;
DELETE FROM job_deaths WHERE message_id IS NOT NULL OR document_id IS NOT NULL;
ALTER TABLE job_deaths DROP COLUMN message_id, DROP COLUMN document_id;
COMMENT ON COLUMN job_deaths.work IS
    'What is counted: a job, or recurring work under its queueing lock.';
COMMENT ON COLUMN job_deaths.job_id IS 'The job.';
COMMENT ON COLUMN job_deaths.deaths IS
    'How often its process died: two make a suspect, which runs alone from then on.';
"""

DOWNGRADE = """
ALTER TABLE job_deaths
    ADD COLUMN message_id bigint REFERENCES messages ON DELETE CASCADE,
    ADD COLUMN document_id bigint REFERENCES search_documents ON DELETE CASCADE;
COMMENT ON COLUMN job_deaths.message_id IS 'A message that is not indexed because of its deaths.';
COMMENT ON COLUMN job_deaths.document_id IS 'A document without a vector because of its deaths.';
COMMENT ON COLUMN job_deaths.work IS
    'What is counted: a job; work that comes again and again under its queueing lock; or one '
    'message or document of a job for all.';
COMMENT ON COLUMN job_deaths.job_id IS 'The job; NULL for a message or document.';
COMMENT ON COLUMN job_deaths.deaths IS
    'How often its process died: two make a suspect, and only deaths in a process of the '
    'suspects'' own count beyond that.';
"""


def upgrade():
    op.get_bind().connection.cursor().execute(UPGRADE)


def downgrade():
    op.get_bind().connection.cursor().execute(DOWNGRADE)
