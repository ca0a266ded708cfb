"""What models cost, batches, failures, and what operators did; the view ``why``.

What begins with ``COMMENT ON`` is what an operator reads in ``psql`` with ``\\d+``.
"""

from alembic import op

revision = "0206"
down_revision = "0205"

UPGRADE = r"""
CREATE TABLE model_usage (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    purpose text NOT NULL,
    model text NOT NULL,
    prompt_tokens integer,
    cached_tokens integer,
    completion_tokens integer,
    duration_ms integer NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    owner_id bigint NOT NULL REFERENCES owners ON DELETE CASCADE,
    error text
);
CREATE INDEX model_usage_by_owner ON model_usage (owner_id, created_at);
CREATE INDEX model_usage_by_time ON model_usage (created_at);
CREATE INDEX model_usage_failed ON model_usage (created_at) WHERE error IS NOT NULL;
COMMENT ON TABLE model_usage IS 'One row per call of a model: tokens and milliseconds, no text.';
COMMENT ON COLUMN model_usage.id IS 'Its number.';
COMMENT ON COLUMN model_usage.purpose IS
    'What for: answer, classify, reason, summary, extract, extract_batch (half the price), '
    'picture, speech, ...';
COMMENT ON COLUMN model_usage.model IS 'The model, as in LLM_MODEL.';
COMMENT ON COLUMN model_usage.prompt_tokens IS
    'Tokens of the prompt, as the provider counted them; NULL when its number made no sense.';
COMMENT ON COLUMN model_usage.cached_tokens IS
    'Those of the prompt that the provider had in its cache; NULL as in prompt_tokens.';
COMMENT ON COLUMN model_usage.completion_tokens IS
    'Tokens of the reply; NULL as in prompt_tokens.';
COMMENT ON COLUMN model_usage.duration_ms IS 'How long the call took, in milliseconds.';
COMMENT ON COLUMN model_usage.created_at IS 'When it was recorded.';
COMMENT ON COLUMN model_usage.owner_id IS 'The owner.';
COMMENT ON COLUMN model_usage.error IS 'Why the call failed; NULL: it did not.';

CREATE TABLE model_usage_days (
    day date,
    model text,
    class integer,
    calls bigint NOT NULL,
    prompt bigint NOT NULL,
    cached bigint NOT NULL,
    completion bigint NOT NULL,
    uncached bigint NOT NULL,
    purpose text,
    failed bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (day, model, purpose, class)
);
COMMENT ON TABLE model_usage_days IS
    'model_usage of all users, summed up by day, model and purpose once the day is over.';
COMMENT ON COLUMN model_usage_days.day IS 'The day, in the zone of TIMEZONE.';
COMMENT ON COLUMN model_usage_days.model IS 'As in model_usage.';
COMMENT ON COLUMN model_usage_days.class IS
    'Of calls that took about exp(class / 50) milliseconds.';
COMMENT ON COLUMN model_usage_days.calls IS 'How many calls that did not fail.';
COMMENT ON COLUMN model_usage_days.prompt IS 'Tokens of their prompts.';
COMMENT ON COLUMN model_usage_days.cached IS 'Those of them that came from the provider''s cache.';
COMMENT ON COLUMN model_usage_days.completion IS 'Tokens of their replies.';
COMMENT ON COLUMN model_usage_days.uncached IS
    'prompt without cached, of calls where both are known.';
COMMENT ON COLUMN model_usage_days.purpose IS
    'As in model_usage; empty: days that an older version summed up.';
COMMENT ON COLUMN model_usage_days.failed IS 'How many calls that failed; their class is 0.';

CREATE TABLE model_prices (
    model text PRIMARY KEY CHECK (model ~ '^[^[:space:]]{1,200}$'),
    prompt numeric(14,6) NOT NULL DEFAULT 0 CHECK (prompt >= (0)::numeric),
    cached numeric(14,6) NOT NULL DEFAULT 0 CHECK (cached >= (0)::numeric),
    completion numeric(14,6) NOT NULL DEFAULT 0 CHECK (completion >= (0)::numeric)
);
COMMENT ON TABLE model_prices IS
    'Prices of a million tokens, in any currency, as the operator set them on the admin page.';
COMMENT ON COLUMN model_prices.model IS 'As in model_usage.';
COMMENT ON COLUMN model_prices.prompt IS 'Of a million tokens of a prompt that are not cached.';
COMMENT ON COLUMN model_prices.cached IS 'Of a million cached tokens of a prompt.';
COMMENT ON COLUMN model_prices.completion IS 'Of a million tokens of replies.';

CREATE TABLE batch_jobs (
    id uuid DEFAULT gen_random_uuid() PRIMARY KEY,
    batch_id text,
    provider text NOT NULL,
    model text NOT NULL,
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
CREATE INDEX batch_jobs_by_time ON batch_jobs (created_at);
CREATE INDEX batch_jobs_open ON batch_jobs (created_at)
    WHERE status IN ('intended', 'submitted', 'collected');
COMMENT ON TABLE batch_jobs IS 'Batches that providers read for facts; no text of users.';
COMMENT ON COLUMN batch_jobs.id IS
    'Ours; the provider is told it, so that a batch is found again.';
COMMENT ON COLUMN batch_jobs.batch_id IS 'The provider''s; NULL until it is known.';
COMMENT ON COLUMN batch_jobs.provider IS 'openai, anthropic or google.';
COMMENT ON COLUMN batch_jobs.model IS 'The model that reads.';
COMMENT ON COLUMN batch_jobs.status IS
    'intended (perhaps not sent yet), submitted (the provider has it), collected (only the '
    'provider''s copy is left to delete), completed or failed.';
COMMENT ON COLUMN batch_jobs.requests IS 'How many requests it has.';
COMMENT ON COLUMN batch_jobs.succeeded IS 'How many of them were answered and applied.';
COMMENT ON COLUMN batch_jobs.failed IS 'How many of them came to nothing.';
COMMENT ON COLUMN batch_jobs.dropped IS 'Results for nobody: unknown, repeated, of erased users.';
COMMENT ON COLUMN batch_jobs.created_at IS 'When it was put together.';
COMMENT ON COLUMN batch_jobs.submitted_at IS 'When the provider had it.';
COMMENT ON COLUMN batch_jobs.completed_at IS 'When nothing was left to do.';
COMMENT ON COLUMN batch_jobs.error_message IS 'What went wrong last, or NULL.';

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
CREATE INDEX batch_requests_of_job ON batch_requests (job_id);
CREATE INDEX batch_requests_of_window ON batch_requests (conversation_id, first_position);
CREATE UNIQUE INDEX batch_requests_waiting ON batch_requests (conversation_id)
    WHERE status = 'waiting';
COMMENT ON TABLE batch_requests IS
    'The window of a conversation that a batch reads; at most one waits in a conversation.';
COMMENT ON COLUMN batch_requests.id IS 'The name of the request in the batch.';
COMMENT ON COLUMN batch_requests.job_id IS 'The batch.';
COMMENT ON COLUMN batch_requests.conversation_id IS 'The conversation.';
COMMENT ON COLUMN batch_requests.first_position IS
    'messages.position of the first message that it reads.';
COMMENT ON COLUMN batch_requests.last_position IS 'And of the last one.';
COMMENT ON COLUMN batch_requests.known_ids IS 'Facts that the model was shown, and may replace.';
COMMENT ON COLUMN batch_requests.status IS 'waiting, applied (its facts are stored) or failed.';
COMMENT ON COLUMN batch_requests.error IS 'Why it came to nothing: a short code, or NULL.';
COMMENT ON COLUMN batch_requests.created_at IS 'When it was put together.';
COMMENT ON COLUMN batch_requests.finished_at IS 'When it was applied, or failed.';

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
CREATE INDEX failures_by_job ON failures (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX failures_by_owner ON failures (owner_id, failed_at) WHERE owner_id IS NOT NULL;
CREATE INDEX failures_by_part ON failures (part, failed_at);
CREATE INDEX failures_by_time ON failures (failed_at);
CREATE INDEX failures_by_update ON failures (update_id) WHERE update_id IS NOT NULL;
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

CREATE TABLE admin_actions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    done_at timestamptz NOT NULL DEFAULT now(),
    address text NOT NULL,
    action text NOT NULL,
    target text NOT NULL DEFAULT '',
    who text NOT NULL DEFAULT ''
);
CREATE INDEX admin_actions_inside ON admin_actions (id) WHERE action <> 'wrong password';
COMMENT ON TABLE admin_actions IS
    'What operators did on the admin page: what, to which id, from where; no text of users.';
COMMENT ON COLUMN admin_actions.id IS 'Its number, in the order of the actions.';
COMMENT ON COLUMN admin_actions.done_at IS 'When.';
COMMENT ON COLUMN admin_actions.address IS 'The network address of the browser.';
COMMENT ON COLUMN admin_actions.action IS 'What was done.';
COMMENT ON COLUMN admin_actions.target IS 'To whom or what: an id or a name; empty: to nothing.';
COMMENT ON COLUMN admin_actions.who IS
    'operator or reader, and the beginning of the session''s name; empty: nobody was inside.';

CREATE TABLE admin_logouts (
    session_id text PRIMARY KEY,
    ended_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE admin_logouts IS
    'Sessions of the admin page that somebody has ended, as long as their cookies would hold.';
COMMENT ON COLUMN admin_logouts.session_id IS 'What the signed cookie says.';
COMMENT ON COLUMN admin_logouts.ended_at IS 'When they logged out.';

CREATE VIEW why AS
SELECT said.said_at, said.telegram_user_id, said.thread_id, asked.who, asked.what AS asked,
       said.what AS answered, said.mode, a.recall ->> 'model' AS model, said.tools,
       'msg-' || (a.recall ->> 'since') AS since,
       (SELECT string_agg(concat_ws(', ', id || ': ' || by, 'score ' || score,
                                    'meaning ' || meaning, 'words ' || nullif(words, 0),
                                    'link ' || link, CASE WHEN NOT shown THEN 'not shown' END),
                          E'\n' ORDER BY number)
        FROM ROWS FROM (jsonb_to_recordset(a.recall -> 'found') AS (
            id text, by text, score numeric, meaning numeric, words numeric, link numeric,
            shown boolean)) WITH ORDINALITY AS found (
            id, by, score, meaning, words, link, shown, number)) AS recalled,
       a.id AS message_id, a.reply_to_id AS asked_id
FROM messages a
JOIN chat said ON said.message_id = a.id
LEFT JOIN chat asked ON asked.message_id = a.reply_to_id
WHERE a.role = 'assistant';
COMMENT ON VIEW why IS
    'Why the bot answered so: an answer a row, with what was recalled for it. Such as: SELECT * '
    'FROM why WHERE telegram_user_id = 123 ORDER BY message_id DESC LIMIT 3 \gx';
COMMENT ON COLUMN why.said_at IS 'When it was answered.';
COMMENT ON COLUMN why.telegram_user_id IS
    'In whose chat: a person''s Telegram id (private chat), or a group''s negative chat id.';
COMMENT ON COLUMN why.thread_id IS 'In which topic, else 0.';
COMMENT ON COLUMN why.who IS 'Who asked: user; in a group the member''s name, or Telegram id.';
COMMENT ON COLUMN why.asked IS 'The message that is answered, as it stands now.';
COMMENT ON COLUMN why.answered IS 'The answer, as it stands now.';
COMMENT ON COLUMN why.mode IS 'The mode in which it was given: assistant or strict.';
COMMENT ON COLUMN why.model IS
    'The model that answered; NULL: none was asked, or the answer is an older one.';
COMMENT ON COLUMN why.tools IS 'The tools that ran, in order; NULL: none.';
COMMENT ON COLUMN why.since IS
    'The model saw the conversation from this message on; NULL in strict mode, which goes by the '
    'last few.';
COMMENT ON COLUMN why.recalled IS
    'A fact, message or summary a line: what led to it (key: a key fact, summary: of earlier '
    'messages, search or a tool, with the place among its hits), its score and the channels that '
    'count most, and whether the model was shown it; as it was then.';
COMMENT ON COLUMN why.message_id IS 'The answer: messages.id.';
COMMENT ON COLUMN why.asked_id IS 'The message that is answered: messages.id.';
"""

DOWNGRADE = """
DROP VIEW why;
DROP TABLE admin_logouts, admin_actions, growth_days, failures, batch_requests, batch_jobs,
    model_prices, model_usage_days, model_usage;
"""


def upgrade():
    op.get_bind().connection.cursor().execute(UPGRADE)


def downgrade():
    op.get_bind().connection.cursor().execute(DOWNGRADE)
