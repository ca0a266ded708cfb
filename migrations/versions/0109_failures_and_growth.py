"""What the operator's pages tell: what failed and why, how long answers took, how it grows.

A call of a model that failed is a row of ``model_usage`` as well, with its error; sums of days
are kept by purpose too. What was summed up before has no purpose, but for batches.
"""

from alembic import op

revision = "0109"
down_revision = "0108"

FAILURES = """
CREATE TABLE failures (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    failed_at timestamptz NOT NULL,
    part text NOT NULL,
    event text NOT NULL,
    reason text NOT NULL,
    times integer NOT NULL DEFAULT 1,
    owner_id bigint REFERENCES owners ON DELETE CASCADE,
    update_id bigint,
    job_id bigint
);
CREATE INDEX failures_by_time ON failures (failed_at);
CREATE INDEX failures_by_part ON failures (part, failed_at);
CREATE INDEX failures_by_owner ON failures (owner_id, failed_at) WHERE owner_id IS NOT NULL;
CREATE INDEX failures_by_update ON failures (update_id) WHERE update_id IS NOT NULL;
CREATE INDEX failures_by_job ON failures (job_id) WHERE job_id IS NOT NULL;
COMMENT ON TABLE failures IS
    'Warnings and errors of the log, for two weeks: what happened and why, no text of users.';
COMMENT ON COLUMN failures.id IS 'Its number.';
COMMENT ON COLUMN failures.failed_at IS 'When it happened; of several, the last time.';
COMMENT ON COLUMN failures.part IS
    'What failed: telegram, queue, database, model, embeddings, tools or other.';
COMMENT ON COLUMN failures.event IS 'What the log calls it.';
COMMENT ON COLUMN failures.reason IS 'Why: our own words for an error, or the name of its type.';
COMMENT ON COLUMN failures.times IS 'How often it happened within seconds.';
COMMENT ON COLUMN failures.owner_id IS 'Whose message or memory it was about, if anybody''s.';
COMMENT ON COLUMN failures.update_id IS 'The row of telegram_updates that was handled, or NULL.';
COMMENT ON COLUMN failures.job_id IS 'The job that failed for good, or NULL.';
"""

USAGE = """
ALTER TABLE model_usage ADD error text;
CREATE INDEX model_usage_failed ON model_usage (created_at) WHERE error IS NOT NULL;
COMMENT ON COLUMN model_usage.error IS 'Why the call failed; NULL: it did not.';
COMMENT ON COLUMN model_usage.purpose IS
    'What for: answer, classify, reason, summary, extract, extract_batch (half the price), '
    'picture, speech, ...';

ALTER TABLE model_usage_days ADD purpose text, ADD failed bigint NOT NULL DEFAULT 0;
UPDATE model_usage_days SET purpose = CASE WHEN is_batch THEN 'extract_batch' ELSE '' END;
ALTER TABLE model_usage_days DROP CONSTRAINT model_usage_days_pkey, DROP is_batch,
    ALTER purpose SET NOT NULL, ADD PRIMARY KEY (day, model, purpose, class);
COMMENT ON TABLE model_usage_days IS
    'model_usage of all users, summed up by day, model and purpose once the day is over.';
COMMENT ON COLUMN model_usage_days.purpose IS
    'As in model_usage; empty: days that an older version summed up.';
COMMENT ON COLUMN model_usage_days.calls IS 'How many calls that did not fail.';
COMMENT ON COLUMN model_usage_days.failed IS 'How many calls that failed; their class is 0.';

ALTER TABLE global_settings ADD currency text NOT NULL DEFAULT 'USD'
    CHECK (currency ~ '^[A-Z]{3}$');
COMMENT ON COLUMN global_settings.currency IS
    'In which the prices of models are given: three letters, such as USD or EUR.';
"""

GROWTH = """
ALTER TABLE telegram_updates ADD first_word_at timestamptz;
CREATE INDEX telegram_updates_failed ON telegram_updates (handled_at)
    WHERE outcome IN ('failed', 'put aside');
COMMENT ON COLUMN telegram_updates.first_word_at IS
    'When the first word of its answer was there; NULL: it came as a whole, or not at all.';

CREATE TABLE growth_days (
    day date PRIMARY KEY,
    counted_at timestamptz NOT NULL DEFAULT now(),
    people bigint NOT NULL,
    messages bigint NOT NULL,
    facts bigint NOT NULL,
    bytes bigint NOT NULL
);
COMMENT ON TABLE growth_days IS
    'How much there was at the end of each day; of today, when it was last counted.';
COMMENT ON COLUMN growth_days.day IS 'The day, in the zone of TIMEZONE.';
COMMENT ON COLUMN growth_days.counted_at IS 'When it was counted.';
COMMENT ON COLUMN growth_days.people IS 'People, and groups with their topics.';
COMMENT ON COLUMN growth_days.messages IS 'Messages in their conversations.';
COMMENT ON COLUMN growth_days.facts IS 'Current facts.';
COMMENT ON COLUMN growth_days.bytes IS 'The size of the whole database.';
"""

DOWNGRADE = """
DROP TABLE failures, growth_days;
DROP INDEX telegram_updates_failed;
ALTER TABLE telegram_updates DROP first_word_at;
ALTER TABLE global_settings DROP currency;
DROP INDEX model_usage_failed;
DELETE FROM model_usage WHERE error IS NOT NULL;
ALTER TABLE model_usage DROP error;
COMMENT ON COLUMN model_usage.purpose IS
    'What for: answer, classify, reason, summary, extract, extract_batch (half the price), ...';
CREATE TEMPORARY TABLE sums ON COMMIT DROP AS
SELECT day, model, purpose = 'extract_batch' AS is_batch, class, sum(calls)::bigint AS calls,
       sum(prompt)::bigint AS prompt, sum(cached)::bigint AS cached,
       sum(completion)::bigint AS completion, sum(uncached)::bigint AS uncached
FROM model_usage_days WHERE calls > 0 GROUP BY 1, 2, 3, 4;
TRUNCATE model_usage_days;
ALTER TABLE model_usage_days DROP CONSTRAINT model_usage_days_pkey, DROP purpose, DROP failed,
    ADD is_batch boolean NOT NULL, ADD PRIMARY KEY (day, model, is_batch, class);
INSERT INTO model_usage_days (day, model, is_batch, class, calls, prompt, cached, completion,
                              uncached)
SELECT * FROM sums;
COMMENT ON TABLE model_usage_days IS
    'model_usage of all users, summed up by day and model once the day is over.';
COMMENT ON COLUMN model_usage_days.is_batch IS 'Whether these were requests of batches.';
COMMENT ON COLUMN model_usage_days.calls IS 'How many calls.';
"""


def upgrade():
    cursor = op.get_bind().connection.cursor()
    for part in (FAILURES, USAGE, GROWTH):
        cursor.execute(part)


def downgrade():
    op.get_bind().connection.cursor().execute(DOWNGRADE)
