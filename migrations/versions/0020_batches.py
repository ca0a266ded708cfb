"""Batches of windows that a provider reads for facts: what was sent, what came of it.

``batch_jobs`` is the intent first (``intended``), then what the provider knows by ``batch_id``
(``submitted``), then what is only left to be deleted there (``collected``). Neither table holds
anything that somebody wrote.
"""

from alembic import op

revision = "0020"
down_revision = "0019"

UPGRADE = """
CREATE TABLE batch_jobs (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    batch_id text,
    provider text NOT NULL,
    model text NOT NULL,
    job_type text NOT NULL DEFAULT 'memory_extraction',
    status text NOT NULL DEFAULT 'intended'
        CHECK (status IN ('intended', 'submitted', 'collected', 'completed', 'failed')),
    requests integer NOT NULL,
    succeeded integer NOT NULL DEFAULT 0,
    failed integer NOT NULL DEFAULT 0,
    dropped integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    submitted_at timestamptz,
    completed_at timestamptz,
    error_message text,
    CHECK ((status = 'intended') <= (batch_id IS NULL)),
    CHECK ((status = 'submitted') <= (batch_id IS NOT NULL))
);
CREATE INDEX batch_jobs_open ON batch_jobs (created_at)
    WHERE status IN ('intended', 'submitted', 'collected');
CREATE INDEX batch_jobs_by_time ON batch_jobs (created_at);
COMMENT ON TABLE batch_jobs IS 'Batches that providers read for facts; no text.';
COMMENT ON COLUMN batch_jobs.status IS
    'intended: perhaps not sent yet; collected: only the provider''s copy is left to delete.';
COMMENT ON COLUMN batch_jobs.dropped IS 'Results for nobody: unknown, repeated, of erased users.';

CREATE TABLE batch_requests (
    id uuid PRIMARY KEY,
    job_id uuid NOT NULL REFERENCES batch_jobs ON DELETE CASCADE,
    conversation_id uuid NOT NULL REFERENCES conversations ON DELETE CASCADE,
    first_position integer NOT NULL,
    last_position integer NOT NULL,
    known_ids bigint[] NOT NULL DEFAULT '{}',
    status text NOT NULL DEFAULT 'waiting' CHECK (status IN ('waiting', 'applied', 'failed')),
    error text,
    created_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz
);
CREATE UNIQUE INDEX batch_requests_waiting ON batch_requests (conversation_id)
    WHERE status = 'waiting';
CREATE INDEX batch_requests_of_job ON batch_requests (job_id);
CREATE INDEX batch_requests_of_window ON batch_requests (conversation_id, first_position);
COMMENT ON TABLE batch_requests IS
    'The window of a conversation that a batch reads; at most one waits in a conversation.';
COMMENT ON COLUMN batch_requests.known_ids IS 'Facts that the model was shown, and may replace.';
"""

DOWNGRADE = """
DROP TABLE batch_requests;
DROP TABLE batch_jobs;
"""


def upgrade():
    op.execute(UPGRADE)


def downgrade():
    op.execute(DOWNGRADE)
