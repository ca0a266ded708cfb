"""How many tokens of a prompt what was found in the memory may take."""

from alembic import op

revision = "0117"
down_revision = "0116"

CONTEXT = """
ALTER TABLE global_settings ADD memory_context_tokens integer NOT NULL DEFAULT 3000
    CHECK (memory_context_tokens BETWEEN 500 AND 20000);
COMMENT ON COLUMN global_settings.memory_context_tokens IS
    'Tokens of a prompt for the messages, summaries and facts that were found for it. At most a '
    'quarter of the model''s context is used.';
COMMENT ON COLUMN global_settings.memory_retrieve_limit IS
    'The most facts among what is found for a prompt. (Messages and summaries fill '
    'memory_context_tokens.)';
"""

AS_BEFORE = """
ALTER TABLE global_settings DROP memory_context_tokens;
COMMENT ON COLUMN global_settings.memory_retrieve_limit IS
    'Memories that are put before the model.';
"""


def upgrade():
    op.get_bind().connection.cursor().execute(CONTEXT)


def downgrade():
    op.get_bind().connection.cursor().execute(AS_BEFORE)
