"""Google's automatic cache covers more than stored contents did, so there are none."""

from alembic import op

revision = "0118"
down_revision = "0117"

AS_BEFORE = """
CREATE TABLE cached_contents (
    content_hash text PRIMARY KEY,
    model text NOT NULL,
    name text,
    expires_at timestamptz,
    claimed_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE cached_contents IS
    'Beginnings of prompts (system prompt and tools, no text of users) that Google caches for us.';
COMMENT ON COLUMN cached_contents.content_hash IS 'Hash of the model and of what is cached.';
COMMENT ON COLUMN cached_contents.model IS 'For which model.';
COMMENT ON COLUMN cached_contents.name IS
    'Google''s name of it; NULL while a process that has claimed it is making it.';
COMMENT ON COLUMN cached_contents.expires_at IS
    'When Google drops it; NULL while it is being made.';
COMMENT ON COLUMN cached_contents.claimed_at IS 'When a process began to make it.';
"""


def upgrade():
    op.get_bind().connection.cursor().execute("DROP TABLE cached_contents")


def downgrade():
    op.get_bind().connection.cursor().execute(AS_BEFORE)
