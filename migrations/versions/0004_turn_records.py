"""What a turn leaves beside its messages: tool results, model usage, and user settings."""

from alembic import op

revision = "0004"
down_revision = "0003"

UPGRADE = """
CREATE TABLE tool_results (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_id uuid NOT NULL REFERENCES conversations ON DELETE CASCADE,
    message_id bigint REFERENCES messages ON DELETE CASCADE,
    name text NOT NULL,
    arguments jsonb NOT NULL DEFAULT '{}',
    result text NOT NULL,
    error text,
    duration_ms integer NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX tool_results_by_time ON tool_results (conversation_id, id DESC);
CREATE INDEX tool_results_by_message ON tool_results (message_id);
COMMENT ON TABLE tool_results IS 'The newest tool calls of a conversation; /new clears them.';

CREATE TABLE model_usage (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    telegram_user_id bigint NOT NULL,
    purpose text NOT NULL,
    model text NOT NULL,
    prompt_tokens integer NOT NULL,
    cached_tokens integer NOT NULL,
    completion_tokens integer NOT NULL,
    duration_ms integer NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX model_usage_by_owner ON model_usage (telegram_user_id, created_at);
CREATE INDEX model_usage_by_time ON model_usage (created_at);
COMMENT ON TABLE model_usage IS 'One row per call of a model: tokens and milliseconds, no text.';

CREATE TABLE user_settings (
    telegram_user_id bigint PRIMARY KEY,
    language text CHECK (language IN ('ru', 'uk', 'en')),
    time_zone text,
    inactive_since timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON COLUMN user_settings.inactive_since IS
    'Since when the user has blocked the bot; cleared by the next message.';
"""

DOWNGRADE = """
DROP TABLE user_settings;
DROP TABLE model_usage;
DROP TABLE tool_results;
"""


def upgrade():
    op.execute(UPGRADE)


def downgrade():
    op.execute(DOWNGRADE)
