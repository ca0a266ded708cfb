"""Settings that are changed while the bot runs: the rest of them, their history, a notification.

Whoever changes the row (the admin page, ``psql``) leaves a line for each setting, and every
process hears of it. The page says who it is with ``SET LOCAL pomni.actor``.
"""

from alembic import op

revision = "0019"
down_revision = "0018"

UPGRADE = """
ALTER TABLE global_settings
    ADD COLUMN memory_extraction_interval_hours integer NOT NULL DEFAULT 24
        CHECK (memory_extraction_interval_hours BETWEEN 1 AND 168),
    ADD COLUMN memory_extraction_provider text NOT NULL DEFAULT 'immediate'
        CHECK (memory_extraction_provider IN ('immediate', 'openai', 'anthropic', 'google')),
    ADD COLUMN memory_extraction_model text NOT NULL DEFAULT ''
        CHECK (memory_extraction_model ~ '^[^[:space:]]{0,200}$'),
    ADD COLUMN embedding_provider text NOT NULL DEFAULT ''
        CHECK (embedding_provider IN ('', 'local', 'openai')),
    ADD COLUMN embedding_model text NOT NULL DEFAULT ''
        CHECK (embedding_model ~ '^[^[:space:]]{0,200}$'),
    ADD COLUMN history_messages integer NOT NULL DEFAULT 30
        CHECK (history_messages BETWEEN 10 AND 100),
    ADD COLUMN strict_retrieve_limit integer NOT NULL DEFAULT 10
        CHECK (strict_retrieve_limit BETWEEN 1 AND 50),
    ADD COLUMN strict_react_limit integer NOT NULL DEFAULT 3
        CHECK (strict_react_limit BETWEEN 1 AND 20),
    ADD COLUMN strict_max_iterations integer NOT NULL DEFAULT 3
        CHECK (strict_max_iterations BETWEEN 0 AND 10),
    ADD COLUMN daily_messages integer NOT NULL DEFAULT 0
        CHECK (daily_messages BETWEEN 0 AND 1000000000),
    ADD COLUMN daily_tokens bigint NOT NULL DEFAULT 0
        CHECK (daily_tokens BETWEEN 0 AND 1000000000000),
    ADD COLUMN daily_messages_per_user integer NOT NULL DEFAULT 0
        CHECK (daily_messages_per_user BETWEEN 0 AND 1000000000),
    ADD COLUMN daily_tokens_per_user bigint NOT NULL DEFAULT 0
        CHECK (daily_tokens_per_user BETWEEN 0 AND 1000000000000),
    ADD COLUMN message_retention_days integer NOT NULL DEFAULT 0
        CHECK (message_retention_days BETWEEN 0 AND 36500),
    ADD CONSTRAINT history_step_within_history CHECK (history_step < history_messages),
    ADD CONSTRAINT embedding_model_of_provider
        CHECK ((embedding_provider = 'openai') = (embedding_model <> ''));
COMMENT ON COLUMN global_settings.memory_extraction_provider IS
    'Whose batch API reads closed windows; immediate: each is read at once, one call each.';
COMMENT ON COLUMN global_settings.memory_extraction_model IS
    'The model that reads them; empty: EXTRACTION_MODEL, or else LLM_MODEL.';
COMMENT ON COLUMN global_settings.embedding_provider IS
    'local, or openai with a model; empty: EMBEDDING_MODEL.';
COMMENT ON COLUMN global_settings.daily_tokens IS
    'Model tokens of all users from midnight to midnight (of TIMEZONE); 0 for no limit.';
COMMENT ON COLUMN global_settings.message_retention_days IS
    'Messages older than so many days are deleted; 0 keeps them. Facts stay.';

-- More than anybody types, so that a slip of the hand is refused.
ALTER TABLE global_settings
    ADD CHECK (memory_extraction_window <= 1000),
    ADD CHECK (memory_extraction_silence_minutes <= 10080),
    ADD CHECK (max_memories_per_user <= 1000000),
    ADD CHECK (background_calls_per_hour <= 100000);

CREATE TABLE global_settings_changes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    changed_at timestamptz NOT NULL DEFAULT now(),
    changed_by text NOT NULL,
    setting text NOT NULL,
    old_value text,
    new_value text
);
COMMENT ON TABLE global_settings_changes IS 'What was changed in global_settings, when, by whom.';

CREATE TABLE daily_messages (
    day date NOT NULL,
    telegram_user_id bigint NOT NULL,
    messages integer NOT NULL,
    PRIMARY KEY (day, telegram_user_id)
);
CREATE INDEX daily_messages_by_user ON daily_messages (telegram_user_id);
COMMENT ON TABLE daily_messages IS
    'Messages that somebody wrote on a day (of TIMEZONE), counted while there is a ceiling.';

CREATE FUNCTION note_settings_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO global_settings_changes (changed_by, setting, old_value, new_value)
    SELECT coalesce(nullif(current_setting('pomni.actor', true), ''), 'SQL: ' || session_user),
           after.key, before.value, after.value
    FROM jsonb_each_text(to_jsonb(NEW)) AS after
    JOIN jsonb_each_text(to_jsonb(OLD)) AS before USING (key)
    WHERE after.value IS DISTINCT FROM before.value AND after.key <> 'updated_at'
    ORDER BY after.key;
    PERFORM pg_notify('global_settings', '');
    RETURN NULL;
END $$;
CREATE FUNCTION touch_settings() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.updated_at := now();
    RETURN NEW;
END $$;
CREATE TRIGGER touch_settings BEFORE UPDATE ON global_settings
    FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION touch_settings();
CREATE TRIGGER note_settings_change AFTER UPDATE ON global_settings
    FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION note_settings_change();
"""

DOWNGRADE = """
DROP TRIGGER note_settings_change ON global_settings;
DROP TRIGGER touch_settings ON global_settings;
DROP FUNCTION note_settings_change();
DROP FUNCTION touch_settings();
DROP TABLE daily_messages;
DROP TABLE global_settings_changes;
ALTER TABLE global_settings
    DROP CONSTRAINT global_settings_memory_extraction_window_check1,
    DROP CONSTRAINT global_settings_memory_extraction_silence_minutes_check1,
    DROP CONSTRAINT global_settings_max_memories_per_user_check1,
    DROP CONSTRAINT global_settings_background_calls_per_hour_check1,
    DROP CONSTRAINT embedding_model_of_provider,
    DROP CONSTRAINT history_step_within_history,
    DROP COLUMN message_retention_days,
    DROP COLUMN daily_tokens_per_user,
    DROP COLUMN daily_messages_per_user,
    DROP COLUMN daily_tokens,
    DROP COLUMN daily_messages,
    DROP COLUMN strict_max_iterations,
    DROP COLUMN strict_react_limit,
    DROP COLUMN strict_retrieve_limit,
    DROP COLUMN history_messages,
    DROP COLUMN embedding_model,
    DROP COLUMN embedding_provider,
    DROP COLUMN memory_extraction_model,
    DROP COLUMN memory_extraction_provider,
    DROP COLUMN memory_extraction_interval_hours;
"""


def upgrade():
    op.execute(UPGRADE)


def downgrade():
    op.execute(DOWNGRADE)
