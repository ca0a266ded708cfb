"""The queue, jobs that killed their process, batches that a provider reads; reminders, questions.

The tables ``procrastinate_*`` come from the numbered scripts of the installed package. They are
append-only, so this migration stays the same with newer packages: it takes those up to LAST. A
newer package with further scripts needs a further migration here;
``tests/integration/test_migrations.py`` fails until there is one.

procrastinate's ``fetch_job`` takes the first waiting job whose lock is free. The queue is nearly
empty most of the time, and statistics that say so make PostgreSQL collect and sort every waiting
job for each fetch: 16 ms with 900 of them, which made the queue the bottleneck of a burst. In the
order of the index it is 0.04 ms: an index on the lock, and no other plan for this one function.

``batch_jobs`` is the intent first (``intended``), then what the provider knows by ``batch_id``
(``submitted``), then what is only left to be deleted there (``collected``). Neither table of
batches holds anything that somebody wrote.

Questions wait for the user, with LangGraph's checkpoints of what asked them. The four
``checkpoint*`` tables are what ``langgraph-checkpoint-postgres`` 3.2.0 makes by its own
migrations, so its ``setup()`` is never called; a test compares the two. What is ours beside them:
a checkpoint belongs to a question, a question to the message that taught something and to the
facts that are in doubt, and goes with any of them, whoever deletes it.
"""

from pathlib import Path

from alembic import op
from procrastinate.schema import SchemaManager

revision = "0105"
down_revision = "0103"

LAST = "03.04.00_50_post_add_retry_failed_job_procedure.sql"

QUEUE = """
CREATE INDEX pomni_jobs_in_lock ON procrastinate_jobs (lock, priority DESC, id)
    WHERE status IN ('todo', 'doing');
CREATE INDEX pomni_jobs_by_round ON procrastinate_jobs (queue_name, status, priority)
    WHERE status IN ('todo', 'doing');
ALTER FUNCTION procrastinate_fetch_job_v2(varchar[], bigint) SET enable_sort = off;
ALTER FUNCTION procrastinate_fetch_job_v2(varchar[], bigint) SET enable_bitmapscan = off;
ALTER FUNCTION procrastinate_fetch_job_v2(varchar[], bigint) SET enable_seqscan = off;
ALTER FUNCTION procrastinate_fetch_job_v2(varchar[], bigint) SET enable_hashjoin = off;
ALTER FUNCTION procrastinate_fetch_job_v2(varchar[], bigint) SET enable_mergejoin = off;
COMMENT ON TABLE procrastinate_jobs IS
    'The queue (a table of the library procrastinate): what waits, what runs, what failed.';
COMMENT ON COLUMN procrastinate_jobs.id IS 'Its number.';
COMMENT ON COLUMN procrastinate_jobs.queue_name IS
    'The queue, such as turns; each worker of the bot serves some of them.';
COMMENT ON COLUMN procrastinate_jobs.task_name IS 'What is to be done, such as handle_update.';
COMMENT ON COLUMN procrastinate_jobs.priority IS
    'Higher ones go first; the bot gives lower ones to who has had his turn.';
COMMENT ON COLUMN procrastinate_jobs.lock IS
    'Jobs with the same lock, such as those of one chat, run one after the other.';
COMMENT ON COLUMN procrastinate_jobs.queueing_lock IS
    'Only one job with the same one waits at a time; NULL: any number.';
COMMENT ON COLUMN procrastinate_jobs.args IS 'With what: ids and numbers, no text of users.';
COMMENT ON COLUMN procrastinate_jobs.status IS
    'todo (it waits), doing (it runs), succeeded, failed, cancelled or aborted.';
COMMENT ON COLUMN procrastinate_jobs.scheduled_at IS 'Not before this time; NULL: at once.';
COMMENT ON COLUMN procrastinate_jobs.attempts IS 'How often it was tried.';
COMMENT ON COLUMN procrastinate_jobs.abort_requested IS 'Whether it is to be stopped.';
COMMENT ON COLUMN procrastinate_jobs.worker_id IS 'The worker that runs it, or NULL.';
COMMENT ON TABLE procrastinate_workers IS 'The processes that work on the queue now.';
COMMENT ON COLUMN procrastinate_workers.id IS 'Its number.';
COMMENT ON COLUMN procrastinate_workers.last_heartbeat IS
    'When it was last alive; the jobs of one that is silent are given to others.';
COMMENT ON TABLE procrastinate_periodic_defers IS
    'Which periodic tasks were put into the queue for which time, so that each is only once.';
COMMENT ON COLUMN procrastinate_periodic_defers.id IS 'Its number.';
COMMENT ON COLUMN procrastinate_periodic_defers.task_name IS 'The task.';
COMMENT ON COLUMN procrastinate_periodic_defers.defer_timestamp IS
    'For which time: seconds since 1970, UTC.';
COMMENT ON COLUMN procrastinate_periodic_defers.job_id IS 'The job that came of it.';
COMMENT ON COLUMN procrastinate_periodic_defers.periodic_id IS
    'Tells periodic tasks of one name apart; empty here.';
COMMENT ON TABLE procrastinate_events IS
    'What happened to the jobs that are still in procrastinate_jobs; triggers write it.';
COMMENT ON COLUMN procrastinate_events.id IS 'Its number.';
COMMENT ON COLUMN procrastinate_events.job_id IS 'The job, with which it goes.';
COMMENT ON COLUMN procrastinate_events.type IS
    'deferred (it was put into the queue), started, deferred_for_retry, failed, succeeded, ...';
COMMENT ON COLUMN procrastinate_events.at IS 'When.';
"""

JOBS = """
CREATE TABLE job_deaths (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    work text NOT NULL UNIQUE,
    task text NOT NULL,
    queue text NOT NULL,
    job_id bigint REFERENCES procrastinate_jobs ON DELETE CASCADE,
    update_id bigint REFERENCES telegram_updates ON DELETE CASCADE,
    conversation_id uuid REFERENCES conversations ON DELETE CASCADE,
    deaths integer NOT NULL DEFAULT 1,
    last_at timestamptz NOT NULL DEFAULT now(),
    put_aside_at timestamptz
);
CREATE INDEX job_deaths_by_job ON job_deaths (job_id);
COMMENT ON TABLE job_deaths IS
    'Jobs that ran when their process died. A row goes with its job: when that is done.';
COMMENT ON COLUMN job_deaths.id IS 'What bot.py jobs --retry takes.';
COMMENT ON COLUMN job_deaths.work IS
    'What is counted: a job, or recurring work under its queueing lock.';
COMMENT ON COLUMN job_deaths.task IS 'The task''s name.';
COMMENT ON COLUMN job_deaths.queue IS 'Where the job stood before it was suspected.';
COMMENT ON COLUMN job_deaths.job_id IS 'The job.';
COMMENT ON COLUMN job_deaths.update_id IS 'The update that the job handles.';
COMMENT ON COLUMN job_deaths.conversation_id IS 'The conversation that the job digests.';
COMMENT ON COLUMN job_deaths.deaths IS
    'How often its process died: two make a suspect, which runs alone from then on.';
COMMENT ON COLUMN job_deaths.last_at IS 'When it died last.';
COMMENT ON COLUMN job_deaths.put_aside_at IS
    'Since when it is put aside: it died alone. NULL while it is only counted or tried.';

CREATE TABLE batch_jobs (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
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
CREATE INDEX batch_jobs_open ON batch_jobs (created_at)
    WHERE status IN ('intended', 'submitted', 'collected');
CREATE INDEX batch_jobs_by_time ON batch_jobs (created_at);
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
CREATE UNIQUE INDEX batch_requests_waiting ON batch_requests (conversation_id)
    WHERE status = 'waiting';
CREATE INDEX batch_requests_of_job ON batch_requests (job_id);
CREATE INDEX batch_requests_of_window ON batch_requests (conversation_id, first_position);
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
"""

REMINDERS = """
CREATE TABLE reminders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    telegram_user_id bigint NOT NULL,
    thread_id bigint NOT NULL DEFAULT 0,
    asker_id bigint,
    text text NOT NULL CHECK (text <> '' AND length(text) <= 1000),
    due_at timestamptz NOT NULL CHECK (extract(epoch FROM due_at) % 1 = 0),
    recurrence text,
    time_zone text NOT NULL,
    language text NOT NULL,
    message_id bigint REFERENCES messages (id) ON DELETE SET NULL,
    snooze_of bigint REFERENCES reminders (id) ON DELETE SET NULL,
    is_waiting boolean NOT NULL DEFAULT true,
    attempts integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    delivered_at timestamptz,
    cancelled_at timestamptz
);
CREATE INDEX reminders_due ON reminders (due_at, id) WHERE is_waiting;
CREATE INDEX reminders_of_owner ON reminders (telegram_user_id, thread_id, due_at, id)
    WHERE is_waiting;
CREATE INDEX reminders_of_asker ON reminders (asker_id) WHERE asker_id IS NOT NULL;
CREATE INDEX reminders_of_message ON reminders (message_id) WHERE message_id IS NOT NULL;
CREATE UNIQUE INDEX reminders_snoozed_once ON reminders (snooze_of)
    WHERE is_waiting AND snooze_of IS NOT NULL;
COMMENT ON TABLE reminders IS
    'What users asked to be reminded of. Two minutes before it is due, a job waits for it.';
COMMENT ON COLUMN reminders.id IS 'Its number.';
COMMENT ON COLUMN reminders.telegram_user_id IS
    'The person, or the group (negative); it is sent to the chat of that number.';
COMMENT ON COLUMN reminders.thread_id IS 'The topic of a forum group, else 0.';
COMMENT ON COLUMN reminders.asker_id IS
    'In a group: Telegram id of who asked for it; only he changes it.';
COMMENT ON COLUMN reminders.text IS 'Of what the user is reminded.';
COMMENT ON COLUMN reminders.due_at IS
    'When it comes (next), a whole second; of one that waits no more, when it came last.';
COMMENT ON COLUMN reminders.recurrence IS
    'How it comes again, in RFC 5545 (FREQ=WEEKLY;BYDAY=MO;...); NULL: once.';
COMMENT ON COLUMN reminders.time_zone IS 'On whose clock a recurrence is counted.';
COMMENT ON COLUMN reminders.language IS
    'Of the request; what the user chose in user_settings goes before it.';
COMMENT ON COLUMN reminders.message_id IS 'The message that asked for it, while it is there.';
COMMENT ON COLUMN reminders.snooze_of IS
    'The recurring reminder of which this is one time, put off.';
COMMENT ON COLUMN reminders.is_waiting IS 'Whether it comes (again).';
COMMENT ON COLUMN reminders.attempts IS
    'How often sending it failed for a reason that may not pass; the second time gives it up.';
COMMENT ON COLUMN reminders.created_at IS 'When it was set.';
COMMENT ON COLUMN reminders.delivered_at IS 'When it was sent last.';
COMMENT ON COLUMN reminders.cancelled_at IS
    'When it was cancelled: by the user, or since nothing can be sent to the chat.';
"""

QUESTIONS = """
CREATE TABLE open_questions (
    thread_id text PRIMARY KEY,
    message_id bigint NOT NULL UNIQUE REFERENCES messages ON DELETE CASCADE,
    language text NOT NULL,
    asked_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE open_questions IS
    'What the bot asked with the answer to a message, and nobody has answered yet.';
COMMENT ON COLUMN open_questions.thread_id IS
    'LangGraph''s name of the paused run: conversation and message.';
COMMENT ON COLUMN open_questions.message_id IS
    'The user''s message, to which the answer was a question.';
COMMENT ON COLUMN open_questions.language IS 'In which it was asked.';
COMMENT ON COLUMN open_questions.asked_at IS 'When; after some days nobody is waited for.';

CREATE TABLE question_facts (
    thread_id text NOT NULL REFERENCES open_questions ON DELETE CASCADE,
    message_id bigint NOT NULL REFERENCES messages ON DELETE CASCADE,
    memory_id bigint NOT NULL REFERENCES memories ON DELETE CASCADE,
    PRIMARY KEY (thread_id, message_id, memory_id)
);
CREATE INDEX question_facts_message ON question_facts (message_id);
CREATE INDEX question_facts_memory ON question_facts (memory_id);
COMMENT ON TABLE question_facts IS
    'The known facts that a question is about, and the messages that deny them.';
COMMENT ON COLUMN question_facts.thread_id IS 'The question.';
COMMENT ON COLUMN question_facts.message_id IS 'The message that denies the fact.';
COMMENT ON COLUMN question_facts.memory_id IS 'The fact.';

-- The paused run holds the words of all of them, so with one of them it goes as a whole.
CREATE FUNCTION close_question() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM open_questions WHERE thread_id = OLD.thread_id;
    RETURN NULL;
END
$$;
CREATE TRIGGER question_facts_gone AFTER DELETE ON question_facts
    FOR EACH ROW EXECUTE FUNCTION close_question();
"""

CHECKPOINTS = """
CREATE TABLE checkpoint_migrations (
    v INTEGER PRIMARY KEY
);
CREATE TABLE checkpoints (
    thread_id TEXT NOT NULL,
    checkpoint_ns TEXT NOT NULL DEFAULT '',
    checkpoint_id TEXT NOT NULL,
    parent_checkpoint_id TEXT,
    type TEXT,
    checkpoint JSONB NOT NULL,
    metadata JSONB NOT NULL DEFAULT '{}',
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
);
CREATE TABLE checkpoint_blobs (
    thread_id TEXT NOT NULL,
    checkpoint_ns TEXT NOT NULL DEFAULT '',
    channel TEXT NOT NULL,
    version TEXT NOT NULL,
    type TEXT NOT NULL,
    blob BYTEA,
    PRIMARY KEY (thread_id, checkpoint_ns, channel, version)
);
CREATE TABLE checkpoint_writes (
    thread_id TEXT NOT NULL,
    checkpoint_ns TEXT NOT NULL DEFAULT '',
    checkpoint_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    idx INTEGER NOT NULL,
    channel TEXT NOT NULL,
    type TEXT,
    blob BYTEA NOT NULL,
    task_path TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
);
CREATE INDEX checkpoints_thread_id_idx ON checkpoints (thread_id);
CREATE INDEX checkpoint_blobs_thread_id_idx ON checkpoint_blobs (thread_id);
CREATE INDEX checkpoint_writes_thread_id_idx ON checkpoint_writes (thread_id);
INSERT INTO checkpoint_migrations (v) SELECT generate_series(0, 9);
COMMENT ON TABLE checkpoint_migrations IS
    'Which migrations of the library LangGraph its tables (checkpoint*) correspond to.';
COMMENT ON COLUMN checkpoint_migrations.v IS 'The number of the migration.';
COMMENT ON TABLE checkpoints IS
    'Runs of the graph that are paused by a question (a table of the library LangGraph).';
COMMENT ON COLUMN checkpoints.thread_id IS 'The question: open_questions.thread_id.';
COMMENT ON COLUMN checkpoints.checkpoint_ns IS 'The part of the graph; empty: the whole.';
COMMENT ON COLUMN checkpoints.checkpoint_id IS 'The step; later ones sort after earlier ones.';
COMMENT ON COLUMN checkpoints.parent_checkpoint_id IS 'The step before it, or NULL.';
COMMENT ON COLUMN checkpoints.type IS 'Unused by this version of the library.';
COMMENT ON COLUMN checkpoints.checkpoint IS 'The state: small values, and versions of the others.';
COMMENT ON COLUMN checkpoints.metadata IS 'The library''s notes about the step.';
COMMENT ON TABLE checkpoint_blobs IS 'The larger values of the state of paused runs.';
COMMENT ON COLUMN checkpoint_blobs.thread_id IS 'The question: open_questions.thread_id.';
COMMENT ON COLUMN checkpoint_blobs.checkpoint_ns IS 'The part of the graph; empty: the whole.';
COMMENT ON COLUMN checkpoint_blobs.channel IS 'The field of the state.';
COMMENT ON COLUMN checkpoint_blobs.version IS 'Its version; checkpoints.checkpoint names it.';
COMMENT ON COLUMN checkpoint_blobs.type IS 'How the value is encoded, such as msgpack.';
COMMENT ON COLUMN checkpoint_blobs.blob IS 'The value.';
COMMENT ON TABLE checkpoint_writes IS
    'What a step of a paused run has written already, so that it is not done again.';
COMMENT ON COLUMN checkpoint_writes.thread_id IS 'The question: open_questions.thread_id.';
COMMENT ON COLUMN checkpoint_writes.checkpoint_ns IS 'The part of the graph; empty: the whole.';
COMMENT ON COLUMN checkpoint_writes.checkpoint_id IS 'The step.';
COMMENT ON COLUMN checkpoint_writes.task_id IS 'The node of the graph, in this step.';
COMMENT ON COLUMN checkpoint_writes.idx IS 'The order of the writes of that node.';
COMMENT ON COLUMN checkpoint_writes.channel IS 'The field of the state, or __interrupt__.';
COMMENT ON COLUMN checkpoint_writes.type IS 'How the value is encoded, such as msgpack.';
COMMENT ON COLUMN checkpoint_writes.blob IS 'The value.';
COMMENT ON COLUMN checkpoint_writes.task_path IS 'Where the node stands in the graph.';

ALTER TABLE checkpoints ADD CONSTRAINT checkpoints_question
    FOREIGN KEY (thread_id) REFERENCES open_questions ON DELETE CASCADE;
ALTER TABLE checkpoint_blobs ADD CONSTRAINT checkpoint_blobs_question
    FOREIGN KEY (thread_id) REFERENCES open_questions ON DELETE CASCADE;
ALTER TABLE checkpoint_writes ADD CONSTRAINT checkpoint_writes_question
    FOREIGN KEY (thread_id) REFERENCES open_questions ON DELETE CASCADE;
"""

DOWNGRADE = """
DROP TABLE checkpoint_writes, checkpoint_blobs, checkpoints, checkpoint_migrations;
DROP TABLE question_facts, open_questions, reminders;
DROP FUNCTION close_question();
DROP TABLE batch_requests, batch_jobs, job_deaths;
DROP TABLE procrastinate_events, procrastinate_periodic_defers, procrastinate_jobs,
    procrastinate_workers CASCADE;
DO $$
DECLARE
    thing record;
BEGIN
    FOR thing IN
        SELECT p.oid::regprocedure AS name FROM pg_proc p
        WHERE p.pronamespace = 'public'::regnamespace AND p.proname LIKE 'procrastinate\\_%'
    LOOP
        EXECUTE format('DROP FUNCTION %s CASCADE', thing.name);
    END LOOP;
    FOR thing IN
        SELECT t.oid::regtype AS name FROM pg_type t
        WHERE t.typnamespace = 'public'::regnamespace AND t.typname LIKE 'procrastinate\\_%'
          AND t.typtype IN ('e', 'c')
    LOOP
        EXECUTE format('DROP TYPE %s CASCADE', thing.name);
    END LOOP;
END;
$$;
"""


def upgrade():
    cursor = op.get_bind().connection.cursor()
    for script in sorted(Path(SchemaManager.get_migrations_path()).glob("*.sql")):
        if script.name <= LAST:
            cursor.execute(script.read_text(encoding="utf-8"))
    for part in (QUEUE, JOBS, REMINDERS, QUESTIONS, CHECKPOINTS):
        cursor.execute(part)


def downgrade():
    op.get_bind().connection.cursor().execute(DOWNGRADE)
