"""Token counts that make no sense are unknown: a provider may report anything."""

from alembic import op

revision = "0013"
down_revision = "0012"

UPGRADE = """
ALTER TABLE model_usage
    ALTER COLUMN prompt_tokens DROP NOT NULL,
    ALTER COLUMN cached_tokens DROP NOT NULL,
    ALTER COLUMN completion_tokens DROP NOT NULL;
COMMENT ON COLUMN model_usage.prompt_tokens IS
    'As the provider counted; NULL when its number made no sense.';
COMMENT ON COLUMN model_usage.cached_tokens IS
    'Those of the prompt that the provider had in its cache; NULL as above.';
COMMENT ON COLUMN model_usage.completion_tokens IS 'Of the reply; NULL as above.';
"""

DOWNGRADE = """
UPDATE model_usage SET prompt_tokens = coalesce(prompt_tokens, 0),
    cached_tokens = coalesce(cached_tokens, 0),
    completion_tokens = coalesce(completion_tokens, 0)
WHERE num_nulls(prompt_tokens, cached_tokens, completion_tokens) > 0;
COMMENT ON COLUMN model_usage.prompt_tokens IS NULL;
COMMENT ON COLUMN model_usage.cached_tokens IS NULL;
COMMENT ON COLUMN model_usage.completion_tokens IS NULL;
ALTER TABLE model_usage
    ALTER COLUMN prompt_tokens SET NOT NULL,
    ALTER COLUMN cached_tokens SET NOT NULL,
    ALTER COLUMN completion_tokens SET NOT NULL;
"""


def upgrade():
    op.execute(UPGRADE)


def downgrade():
    op.execute(DOWNGRADE)
