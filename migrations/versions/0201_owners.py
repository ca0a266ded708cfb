"""Owners, their settings, and the operator's settings.

What begins with ``COMMENT ON`` is what an operator reads in ``psql`` with ``\\d+``.
"""

from alembic import op

revision = "0201"
down_revision = None

UPGRADE = r"""
COMMENT ON TABLE alembic_version IS 'How far the migrations (of the library Alembic) have come.';
COMMENT ON COLUMN alembic_version.version_num IS
    'The number of the last one that ran, such as 0206; bot.py doctor tells what it means.';

CREATE TABLE owners (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    telegram_user_id bigint NOT NULL,
    thread_id bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    consolidated_at timestamptz,
    name text,
    username text,
    seen_at timestamptz NOT NULL DEFAULT now(),
    blocked_at timestamptz,
    CONSTRAINT owners_of_conversations UNIQUE (id, telegram_user_id),
    CONSTRAINT owners_once UNIQUE (telegram_user_id, thread_id),
    CONSTRAINT owners_persons CHECK ((telegram_user_id < 0) OR (thread_id = 0))
);
CREATE INDEX owners_blocked ON owners (telegram_user_id) WHERE blocked_at IS NOT NULL;
CREATE INDEX owners_by_name ON owners (lower(name), id);
CREATE INDEX owners_by_seen ON owners (seen_at DESC, id);
COMMENT ON TABLE owners IS
    'Of whom something is kept: a person, or a group and topic; all of it goes with this row.';
COMMENT ON COLUMN owners.id IS 'Its number: owner_id in other tables.';
COMMENT ON COLUMN owners.telegram_user_id IS
    'A person''s Telegram id, or a group''s negative chat id.';
COMMENT ON COLUMN owners.thread_id IS
    'The topic of a forum group; 0: a person, or a group as a whole.';
COMMENT ON COLUMN owners.created_at IS 'When something was first kept.';
COMMENT ON COLUMN owners.consolidated_at IS
    'When the nightly job last went through the facts; NULL: never.';
COMMENT ON COLUMN owners.name IS
    'What they are called in Telegram: first and last name, or a group''s title; NULL: unknown.';
COMMENT ON COLUMN owners.username IS 'Their name behind @ in Telegram; NULL: none.';
COMMENT ON COLUMN owners.seen_at IS
    'When an update of theirs was last handled, within ten minutes.';
COMMENT ON COLUMN owners.blocked_at IS
    'Since when nothing of theirs is stored, and nothing sent, as an operator wants it; or NULL.';

CREATE TABLE user_settings (
    language text CHECK (language ~ '^[a-z]{2,3}$'),
    time_zone text,
    inactive_since timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    mode text NOT NULL DEFAULT 'assistant' CHECK (mode IN ('assistant', 'strict')),
    answer_length text NOT NULL DEFAULT 'normal'
        CHECK (answer_length IN ('short', 'normal', 'long')),
    memory_on boolean NOT NULL DEFAULT true,
    owner_id bigint PRIMARY KEY REFERENCES owners ON DELETE CASCADE,
    spoken_language text,
    refused_until timestamptz
);
COMMENT ON TABLE user_settings IS
    'What users chose for themselves; who has no row has the defaults.';
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
COMMENT ON COLUMN user_settings.owner_id IS 'Whose: a person''s, or those of a group as a whole.';
COMMENT ON COLUMN user_settings.spoken_language IS
    'Language of the last message of some length: the bot''s sentences follow it unless language '
    'is chosen. NULL: none was clear yet.';
COMMENT ON COLUMN user_settings.refused_until IS
    'End of a limit that the user was told of; until then its refusal is not repeated.';

CREATE TABLE chat_moves (
    old_chat_id bigint PRIMARY KEY,
    new_chat_id bigint NOT NULL,
    moved_at timestamptz NOT NULL DEFAULT now(),
    CHECK (old_chat_id <> new_chat_id)
);
CREATE INDEX chat_moves_by_new ON chat_moves (new_chat_id);
COMMENT ON TABLE chat_moves IS
    'Groups that became supergroups: what comes late for the old id belongs to the new one.';
COMMENT ON COLUMN chat_moves.old_chat_id IS 'The id of the group.';
COMMENT ON COLUMN chat_moves.new_chat_id IS 'The id of the supergroup that it became.';
COMMENT ON COLUMN chat_moves.moved_at IS 'When the bot heard of it.';

CREATE TABLE global_settings (
    id integer DEFAULT 1 PRIMARY KEY CHECK (id = 1),
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
    daily_tokens bigint NOT NULL DEFAULT 0
        CHECK ((daily_tokens >= 0) AND (daily_tokens <= '1000000000000'::bigint)),
    daily_messages_per_user integer NOT NULL DEFAULT 0
        CHECK (daily_messages_per_user BETWEEN 0 AND 1000000000),
    daily_tokens_per_user bigint NOT NULL DEFAULT 0
        CHECK ((daily_tokens_per_user >= 0)
            AND (daily_tokens_per_user <= '1000000000000'::bigint)),
    message_retention_days integer NOT NULL DEFAULT 0
        CHECK (message_retention_days BETWEEN 0 AND 36500),
    messages_per_minute_per_user integer NOT NULL DEFAULT 0
        CHECK (messages_per_minute_per_user BETWEEN 0 AND 1000000000),
    currency text NOT NULL DEFAULT 'USD' CHECK (currency ~ '^[A-Z]{3}$'),
    memory_context_tokens integer NOT NULL DEFAULT 3000
        CHECK (memory_context_tokens BETWEEN 500 AND 20000),
    CONSTRAINT embedding_model_of_provider
        CHECK ((embedding_provider = 'openai') = (embedding_model <> '')),
    CONSTRAINT history_step_within_history CHECK (history_step < history_messages)
);
COMMENT ON TABLE global_settings IS
    'One row: what an operator may change while the bot runs, here or on the admin page; in force '
    'within seconds.';
COMMENT ON COLUMN global_settings.id IS 'Always 1.';
COMMENT ON COLUMN global_settings.memory_extraction_enabled IS
    'Read what users said for facts, in the background.';
COMMENT ON COLUMN global_settings.memory_extraction_window IS
    'Messages that one reading takes in.';
COMMENT ON COLUMN global_settings.memory_extraction_silence_minutes IS
    'After so long a silence, fewer messages are read too.';
COMMENT ON COLUMN global_settings.memory_dedup_threshold IS
    'Similarity from which a new fact is compared with an old one. (0.85 was planned; an update '
    'of a fact is often less similar than that, and similarity decides nothing alone.)';
COMMENT ON COLUMN global_settings.memory_update_threshold IS
    'Similarity from which two facts may be the same.';
COMMENT ON COLUMN global_settings.memory_retrieve_limit IS
    'The most facts among what is found for a prompt. (Messages and summaries fill '
    'memory_context_tokens.)';
COMMENT ON COLUMN global_settings.memory_retrieve_threshold IS 'Their least similarity.';
COMMENT ON COLUMN global_settings.max_memories_per_user IS
    'Facts beyond it are retired, the least important first.';
COMMENT ON COLUMN global_settings.summary_messages IS 'Messages that one summary takes in.';
COMMENT ON COLUMN global_settings.summaries_shown IS 'Summaries in the prompt.';
COMMENT ON COLUMN global_settings.summaries_kept IS 'More than these are merged.';
COMMENT ON COLUMN global_settings.history_step IS
    'Messages by which their first one moves on at once. (The more, the more of the prompts is '
    'cached: four fifths with 15.)';
COMMENT ON COLUMN global_settings.updated_at IS 'When a setting was last changed.';
COMMENT ON COLUMN global_settings.background_calls_per_hour IS
    'Model calls in the background for one owner.';
COMMENT ON COLUMN global_settings.answer_max_characters IS 'An answer is cut after so many.';
COMMENT ON COLUMN global_settings.answer_max_parts IS
    'An answer is cut after so many Telegram messages.';
COMMENT ON COLUMN global_settings.answer_max_seconds IS
    'What a model has written after so many is its answer.';
COMMENT ON COLUMN global_settings.memory_extraction_interval_hours IS
    'Hours from one batch to the next.';
COMMENT ON COLUMN global_settings.memory_extraction_provider IS
    'Whose batch API reads it, at half the price and within a day. immediate: at once, one call a '
    'window (the default, so that a fact is known within the hour).';
COMMENT ON COLUMN global_settings.memory_extraction_model IS
    'The model that reads it. Empty: EXTRACTION_MODEL, or else LLM_MODEL.';
COMMENT ON COLUMN global_settings.embedding_provider IS
    'local, or openai with a model. Empty: EMBEDDING_MODEL. Everything is embedded anew; the old '
    'vectors serve meanwhile.';
COMMENT ON COLUMN global_settings.embedding_model IS
    'Such as text-embedding-3-small, with embedding_provider openai.';
COMMENT ON COLUMN global_settings.history_messages IS
    'The most of the last messages that the model sees.';
COMMENT ON COLUMN global_settings.strict_retrieve_limit IS
    'Strict mode: quotes that the first search finds.';
COMMENT ON COLUMN global_settings.strict_react_limit IS
    'Strict mode: quotes that each further search finds.';
COMMENT ON COLUMN global_settings.strict_max_iterations IS 'Strict mode: further searches.';
COMMENT ON COLUMN global_settings.daily_messages IS
    'Messages of all users a day that are answered; 0: no limit. (Days of TIMEZONE; for '
    'ADMIN_USER_IDS there are no limits.)';
COMMENT ON COLUMN global_settings.daily_tokens IS 'Model tokens of all users a day; 0: no limit.';
COMMENT ON COLUMN global_settings.daily_messages_per_user IS
    'Messages of one user a day that are answered; 0: no limit.';
COMMENT ON COLUMN global_settings.daily_tokens_per_user IS
    'Model tokens of one user, or one group, a day; 0: no limit.';
COMMENT ON COLUMN global_settings.message_retention_days IS
    'Older messages are deleted; 0 keeps them. Facts stay.';
COMMENT ON COLUMN global_settings.messages_per_minute_per_user IS
    'Answers to one user a minute; 0: no limit. (What comes faster than it is answered is '
    'answered together, and counts once.)';
COMMENT ON COLUMN global_settings.currency IS
    'In which the prices of models are given: three letters, such as USD or EUR.';
COMMENT ON COLUMN global_settings.memory_context_tokens IS
    'Tokens of a prompt for the messages, summaries and facts that were found for it. At most a '
    'quarter of the model''s context is used.';

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

CREATE FUNCTION add_owner(telegram_user_id bigint, thread_id bigint) RETURNS bigint
LANGUAGE sql AS $$
    INSERT INTO owners (telegram_user_id, thread_id)
    SELECT $1, CASE WHEN $1 < 0 THEN $2 ELSE 0 END
    WHERE NOT EXISTS (SELECT FROM owners o WHERE o.telegram_user_id = $1
                      AND o.thread_id = CASE WHEN $1 < 0 THEN $2 ELSE 0 END)
    ON CONFLICT DO NOTHING;
    SELECT o.id FROM owners o WHERE o.telegram_user_id = $1
        AND o.thread_id = CASE WHEN $1 < 0 THEN $2 ELSE 0 END;
$$;
COMMENT ON FUNCTION add_owner IS
    'The id of a person, or of a group and topic, in owners; who is not there is added.';

CREATE FUNCTION touch_settings() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.updated_at := now();
    RETURN NEW;
END $$;

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

CREATE TRIGGER note_settings_change AFTER UPDATE ON global_settings
    FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION note_settings_change();
CREATE TRIGGER touch_settings BEFORE UPDATE ON global_settings
    FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION touch_settings();

-- The one row of the operator's settings.
INSERT INTO global_settings DEFAULT VALUES;
"""

DOWNGRADE = """
DROP TABLE global_settings_changes, global_settings, chat_moves, user_settings, owners;
DROP FUNCTION add_owner;
DROP FUNCTION touch_settings;
DROP FUNCTION note_settings_change;
DROP EXTENSION vector;
"""


def upgrade():
    op.get_bind().connection.cursor().execute(UPGRADE)


def downgrade():
    op.get_bind().connection.cursor().execute(DOWNGRADE)
