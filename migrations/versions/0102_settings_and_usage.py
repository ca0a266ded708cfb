"""Settings of users and of the operator; what models were asked, what it cost, who changed what.

Whoever changes ``global_settings`` (the admin page, ``psql``) leaves a line for each setting, and
every process hears of it. The page says who it is with ``SET LOCAL pomni.actor``. The comments on
its columns are the descriptions that the admin page shows.
"""

from alembic import op

revision = "0102"
down_revision = "0101"

USERS = """
CREATE TABLE user_settings (
    telegram_user_id bigint PRIMARY KEY,
    language text CHECK (language IN ('ru', 'uk', 'en')),
    time_zone text,
    inactive_since timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    mode text NOT NULL DEFAULT 'assistant' CHECK (mode IN ('assistant', 'strict')),
    answer_length text NOT NULL DEFAULT 'normal'
        CHECK (answer_length IN ('short', 'normal', 'long')),
    memory_on boolean NOT NULL DEFAULT true
);
COMMENT ON TABLE user_settings IS
    'What users chose for themselves; who has no row has the defaults.';
COMMENT ON COLUMN user_settings.telegram_user_id IS
    'Whose: a person''s Telegram id, or a group''s negative chat id.';
COMMENT ON COLUMN user_settings.language IS
    'In which the bot speaks: ru, uk or en; NULL: in that of the user''s Telegram.';
COMMENT ON COLUMN user_settings.time_zone IS
    'Such as Europe/Kyiv; NULL: by the language, or else TIMEZONE.';
COMMENT ON COLUMN user_settings.inactive_since IS
    'Since when the user has blocked the bot; the next message clears it.';
COMMENT ON COLUMN user_settings.created_at IS 'When something was first chosen.';
COMMENT ON COLUMN user_settings.updated_at IS 'When something was last changed.';
COMMENT ON COLUMN user_settings.mode IS
    'assistant: answers from everything; strict: only from what the user taught. Set with /mode.';
COMMENT ON COLUMN user_settings.answer_length IS 'How long answers are to be.';
COMMENT ON COLUMN user_settings.memory_on IS
    'When off, messages are not read for facts, and nothing is recalled.';
"""

SETTINGS = """
CREATE TABLE global_settings (
    id integer PRIMARY KEY DEFAULT 1 CHECK (id = 1),
    memory_extraction_enabled boolean NOT NULL DEFAULT true,
    memory_extraction_window integer NOT NULL DEFAULT 20
        CHECK (memory_extraction_window BETWEEN 1 AND 1000),
    memory_extraction_silence_minutes integer NOT NULL DEFAULT 60
        CHECK (memory_extraction_silence_minutes BETWEEN 1 AND 10080),
    memory_dedup_threshold real NOT NULL DEFAULT 0.6
        CHECK (memory_dedup_threshold BETWEEN 0 AND 1),
    memory_update_threshold real NOT NULL DEFAULT 0.95
        CHECK (memory_update_threshold BETWEEN 0 AND 1),
    memory_retrieve_limit integer NOT NULL DEFAULT 5
        CHECK (memory_retrieve_limit BETWEEN 0 AND 50),
    memory_retrieve_threshold real NOT NULL DEFAULT 0.6
        CHECK (memory_retrieve_threshold BETWEEN 0 AND 1),
    max_memories_per_user integer NOT NULL DEFAULT 1000
        CHECK (max_memories_per_user BETWEEN 1 AND 1000000),
    summary_messages integer NOT NULL DEFAULT 6 CHECK (summary_messages BETWEEN 2 AND 100),
    summaries_shown integer NOT NULL DEFAULT 3 CHECK (summaries_shown BETWEEN 0 AND 20),
    summaries_kept integer NOT NULL DEFAULT 6 CHECK (summaries_kept BETWEEN 1 AND 100),
    history_step integer NOT NULL DEFAULT 15 CHECK (history_step BETWEEN 1 AND 29),
    updated_at timestamptz NOT NULL DEFAULT now(),
    background_calls_per_hour integer NOT NULL DEFAULT 120
        CHECK (background_calls_per_hour BETWEEN 1 AND 100000),
    answer_max_characters integer NOT NULL DEFAULT 30000
        CHECK (answer_max_characters BETWEEN 100 AND 60000),
    answer_max_parts integer NOT NULL DEFAULT 10 CHECK (answer_max_parts BETWEEN 1 AND 50),
    answer_max_seconds integer NOT NULL DEFAULT 120
        CHECK (answer_max_seconds BETWEEN 1 AND 3600),
    memory_extraction_interval_hours integer NOT NULL DEFAULT 24
        CHECK (memory_extraction_interval_hours BETWEEN 1 AND 168),
    memory_extraction_provider text NOT NULL DEFAULT 'immediate'
        CHECK (memory_extraction_provider IN ('immediate', 'openai', 'anthropic', 'google')),
    memory_extraction_model text NOT NULL DEFAULT ''
        CHECK (memory_extraction_model ~ '^[^[:space:]]{0,200}$'),
    embedding_provider text NOT NULL DEFAULT ''
        CHECK (embedding_provider IN ('', 'local', 'openai')),
    embedding_model text NOT NULL DEFAULT '' CHECK (embedding_model ~ '^[^[:space:]]{0,200}$'),
    history_messages integer NOT NULL DEFAULT 30 CHECK (history_messages BETWEEN 10 AND 100),
    strict_retrieve_limit integer NOT NULL DEFAULT 10
        CHECK (strict_retrieve_limit BETWEEN 1 AND 50),
    strict_react_limit integer NOT NULL DEFAULT 3 CHECK (strict_react_limit BETWEEN 1 AND 20),
    strict_max_iterations integer NOT NULL DEFAULT 3
        CHECK (strict_max_iterations BETWEEN 0 AND 10),
    daily_messages integer NOT NULL DEFAULT 0 CHECK (daily_messages BETWEEN 0 AND 1000000000),
    daily_tokens bigint NOT NULL DEFAULT 0 CHECK (daily_tokens BETWEEN 0 AND 1000000000000),
    daily_messages_per_user integer NOT NULL DEFAULT 0
        CHECK (daily_messages_per_user BETWEEN 0 AND 1000000000),
    daily_tokens_per_user bigint NOT NULL DEFAULT 0
        CHECK (daily_tokens_per_user BETWEEN 0 AND 1000000000000),
    message_retention_days integer NOT NULL DEFAULT 0
        CHECK (message_retention_days BETWEEN 0 AND 36500),
    messages_per_minute_per_user integer NOT NULL DEFAULT 0
        CHECK (messages_per_minute_per_user BETWEEN 0 AND 1000000000),
    CONSTRAINT history_step_within_history CHECK (history_step < history_messages),
    CONSTRAINT embedding_model_of_provider
        CHECK ((embedding_provider = 'openai') = (embedding_model <> ''))
);
INSERT INTO global_settings DEFAULT VALUES;
COMMENT ON TABLE global_settings IS
    'One row: what an operator may change while the bot runs, here or on the admin page; in force '
    'within seconds.';
COMMENT ON COLUMN global_settings.id IS 'Always 1.';
COMMENT ON COLUMN global_settings.updated_at IS 'When a setting was last changed.';

CREATE TABLE global_settings_changes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    changed_at timestamptz NOT NULL DEFAULT now(),
    changed_by text NOT NULL,
    setting text NOT NULL,
    old_value text,
    new_value text
);
COMMENT ON TABLE global_settings_changes IS 'What was changed in global_settings, when, by whom.';
COMMENT ON COLUMN global_settings_changes.id IS 'Its number, in the order of the changes.';
COMMENT ON COLUMN global_settings_changes.changed_at IS 'When.';
COMMENT ON COLUMN global_settings_changes.changed_by IS
    'From where: the address on the admin page, or SQL: and the database''s user.';
COMMENT ON COLUMN global_settings_changes.setting IS 'The column of global_settings.';
COMMENT ON COLUMN global_settings_changes.old_value IS 'Its value before, as text.';
COMMENT ON COLUMN global_settings_changes.new_value IS 'Its value since then, as text.';

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

# What the admin page shows beside each setting.
DESCRIPTIONS = """
COMMENT ON COLUMN global_settings.memory_extraction_enabled IS
    'Read what users said for facts, in the background.';
COMMENT ON COLUMN global_settings.memory_extraction_provider IS
    'Whose batch API reads it, at half the price and within a day. immediate: at once, one '
    'call a window (the default, so that a fact is known within the hour).';
COMMENT ON COLUMN global_settings.memory_extraction_model IS
    'The model that reads it. Empty: EXTRACTION_MODEL, or else LLM_MODEL.';
COMMENT ON COLUMN global_settings.memory_extraction_interval_hours IS
    'Hours from one batch to the next.';
COMMENT ON COLUMN global_settings.memory_extraction_window IS
    'Messages that one reading takes in.';
COMMENT ON COLUMN global_settings.memory_extraction_silence_minutes IS
    'After so long a silence, fewer messages are read too.';
COMMENT ON COLUMN global_settings.memory_dedup_threshold IS
    'Similarity from which a new fact is compared with an old one. (0.85 was planned; an '
    'update of a fact is often less similar than that, and similarity decides nothing alone.)';
COMMENT ON COLUMN global_settings.memory_update_threshold IS
    'Similarity from which two facts may be the same.';
COMMENT ON COLUMN global_settings.memory_retrieve_limit IS
    'Memories that are put before the model.';
COMMENT ON COLUMN global_settings.memory_retrieve_threshold IS 'Their least similarity.';
COMMENT ON COLUMN global_settings.max_memories_per_user IS
    'Facts beyond it are retired, the least important first.';
COMMENT ON COLUMN global_settings.embedding_provider IS
    'local, or openai with a model. Empty: EMBEDDING_MODEL. Everything is embedded anew; the '
    'old vectors serve meanwhile.';
COMMENT ON COLUMN global_settings.embedding_model IS
    'Such as text-embedding-3-small, with embedding_provider openai.';
COMMENT ON COLUMN global_settings.history_messages IS
    'The most of the last messages that the model sees.';
COMMENT ON COLUMN global_settings.history_step IS
    'Messages by which their first one moves on at once. (The more, the more of the prompts '
    'is cached: four fifths with 15.)';
COMMENT ON COLUMN global_settings.summary_messages IS 'Messages that one summary takes in.';
COMMENT ON COLUMN global_settings.summaries_shown IS 'Summaries in the prompt.';
COMMENT ON COLUMN global_settings.summaries_kept IS 'More than these are merged.';
COMMENT ON COLUMN global_settings.strict_retrieve_limit IS
    'Strict mode: quotes that the first search finds.';
COMMENT ON COLUMN global_settings.strict_react_limit IS
    'Strict mode: quotes that each further search finds.';
COMMENT ON COLUMN global_settings.strict_max_iterations IS 'Strict mode: further searches.';
COMMENT ON COLUMN global_settings.background_calls_per_hour IS
    'Model calls in the background for one owner.';
COMMENT ON COLUMN global_settings.answer_max_characters IS 'An answer is cut after so many.';
COMMENT ON COLUMN global_settings.answer_max_parts IS
    'An answer is cut after so many Telegram messages.';
COMMENT ON COLUMN global_settings.answer_max_seconds IS
    'What a model has written after so many is its answer.';
COMMENT ON COLUMN global_settings.daily_messages IS
    'Messages of all users a day that are answered; 0: no limit. (Days of TIMEZONE; for '
    'ADMIN_USER_IDS there are no limits.)';
COMMENT ON COLUMN global_settings.daily_tokens IS 'Model tokens of all users a day; 0: no limit.';
COMMENT ON COLUMN global_settings.daily_messages_per_user IS
    'Messages of one user a day that are answered; 0: no limit.';
COMMENT ON COLUMN global_settings.daily_tokens_per_user IS
    'Model tokens of one user, or one group, a day; 0: no limit.';
COMMENT ON COLUMN global_settings.messages_per_minute_per_user IS
    'Answers to one user a minute; 0: no limit. (What comes faster than it is answered is '
    'answered together, and counts once.)';
COMMENT ON COLUMN global_settings.message_retention_days IS
    'Older messages are deleted; 0 keeps them. Facts stay.';
"""

USAGE = """
CREATE TABLE daily_messages (
    day date NOT NULL,
    telegram_user_id bigint NOT NULL,
    messages integer NOT NULL,
    PRIMARY KEY (day, telegram_user_id)
);
CREATE INDEX daily_messages_by_user ON daily_messages (telegram_user_id);
COMMENT ON TABLE daily_messages IS
    'How many messages each user wrote on a day, counted while global_settings has a ceiling.';
COMMENT ON COLUMN daily_messages.day IS 'The day, in the zone of TIMEZONE.';
COMMENT ON COLUMN daily_messages.telegram_user_id IS 'Who wrote them.';
COMMENT ON COLUMN daily_messages.messages IS 'How many.';

CREATE TABLE model_usage (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    telegram_user_id bigint NOT NULL,
    purpose text NOT NULL,
    model text NOT NULL,
    prompt_tokens integer,
    cached_tokens integer,
    completion_tokens integer,
    duration_ms integer NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX model_usage_by_owner ON model_usage (telegram_user_id, created_at);
CREATE INDEX model_usage_by_time ON model_usage (created_at);
COMMENT ON TABLE model_usage IS 'One row per call of a model: tokens and milliseconds, no text.';
COMMENT ON COLUMN model_usage.id IS 'Its number.';
COMMENT ON COLUMN model_usage.telegram_user_id IS
    'For whom: a person, or a group (negative).';
COMMENT ON COLUMN model_usage.purpose IS
    'What for: answer, classify, reason, summary, extract, extract_batch (half the price), ...';
COMMENT ON COLUMN model_usage.model IS 'The model, as in LLM_MODEL.';
COMMENT ON COLUMN model_usage.prompt_tokens IS
    'Tokens of the prompt, as the provider counted them; NULL when its number made no sense.';
COMMENT ON COLUMN model_usage.cached_tokens IS
    'Those of the prompt that the provider had in its cache; NULL as in prompt_tokens.';
COMMENT ON COLUMN model_usage.completion_tokens IS
    'Tokens of the reply; NULL as in prompt_tokens.';
COMMENT ON COLUMN model_usage.duration_ms IS 'How long the call took, in milliseconds.';
COMMENT ON COLUMN model_usage.created_at IS 'When it was recorded.';

CREATE TABLE model_usage_days (
    day date NOT NULL,
    model text NOT NULL,
    is_batch boolean NOT NULL,
    class integer NOT NULL,
    calls bigint NOT NULL,
    prompt bigint NOT NULL,
    cached bigint NOT NULL,
    completion bigint NOT NULL,
    uncached bigint NOT NULL,
    PRIMARY KEY (day, model, is_batch, class)
);
COMMENT ON TABLE model_usage_days IS
    'model_usage of all users, summed up by day and model once the day is over.';
COMMENT ON COLUMN model_usage_days.day IS 'The day, in the zone of TIMEZONE.';
COMMENT ON COLUMN model_usage_days.model IS 'As in model_usage.';
COMMENT ON COLUMN model_usage_days.is_batch IS 'Whether these were requests of batches.';
COMMENT ON COLUMN model_usage_days.class IS
    'Of calls that took about exp(class / 50) milliseconds.';
COMMENT ON COLUMN model_usage_days.calls IS 'How many calls.';
COMMENT ON COLUMN model_usage_days.prompt IS 'Tokens of their prompts.';
COMMENT ON COLUMN model_usage_days.cached IS 'Those of them that came from the provider''s cache.';
COMMENT ON COLUMN model_usage_days.completion IS 'Tokens of their replies.';
COMMENT ON COLUMN model_usage_days.uncached IS
    'prompt without cached, of calls where both are known.';

CREATE TABLE model_prices (
    model text PRIMARY KEY CHECK (model ~ '^[^[:space:]]{1,200}$'),
    prompt numeric(14, 6) NOT NULL DEFAULT 0 CHECK (prompt >= 0),
    cached numeric(14, 6) NOT NULL DEFAULT 0 CHECK (cached >= 0),
    completion numeric(14, 6) NOT NULL DEFAULT 0 CHECK (completion >= 0)
);
COMMENT ON TABLE model_prices IS
    'Prices of a million tokens, in any currency, as the operator set them on the admin page.';
COMMENT ON COLUMN model_prices.model IS 'As in model_usage.';
COMMENT ON COLUMN model_prices.prompt IS 'Of a million tokens of a prompt that are not cached.';
COMMENT ON COLUMN model_prices.cached IS 'Of a million cached tokens of a prompt.';
COMMENT ON COLUMN model_prices.completion IS 'Of a million tokens of replies.';

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

CREATE TABLE admin_actions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    done_at timestamptz NOT NULL DEFAULT now(),
    address text NOT NULL,
    action text NOT NULL,
    target text NOT NULL DEFAULT ''
);
COMMENT ON TABLE admin_actions IS
    'What operators did on the admin page: what, to which id, from where; no text of users.';
COMMENT ON COLUMN admin_actions.id IS 'Its number, in the order of the actions.';
COMMENT ON COLUMN admin_actions.done_at IS 'When.';
COMMENT ON COLUMN admin_actions.address IS 'The network address of the browser.';
COMMENT ON COLUMN admin_actions.action IS 'What was done.';
COMMENT ON COLUMN admin_actions.target IS 'To whom or what: an id or a name; empty: to nothing.';
"""

DOWNGRADE = """
DROP TABLE admin_actions, cached_contents, model_prices, model_usage_days, model_usage,
    daily_messages, global_settings_changes, global_settings, user_settings;
DROP FUNCTION note_settings_change, touch_settings;
"""


def upgrade():
    cursor = op.get_bind().connection.cursor()
    for part in (USERS, SETTINGS, DESCRIPTIONS, USAGE):
        cursor.execute(part)


def downgrade():
    op.get_bind().connection.cursor().execute(DOWNGRADE)
