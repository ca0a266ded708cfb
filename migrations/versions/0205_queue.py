"""Updates of Telegram, the queue of procrastinate, and reminders.

The tables ``procrastinate_*`` come from the numbered scripts of the installed package. They are
append-only: this migration takes those up to LAST. A newer package with further scripts needs a
further migration; ``tests/integration/pg/test_migrations.py`` fails until there is one.
"""

from pathlib import Path

from alembic import op
from procrastinate.schema import SchemaManager

revision = "0205"
down_revision = "0204"

LAST = "03.04.00_50_post_add_retry_failed_job_procedure.sql"

QUEUE = """
-- A chat's waiting jobs in their order: procrastinate's fetch_job takes the first one whose lock
-- is free. While statistics say that the queue is empty, PostgreSQL would collect and sort every
-- waiting job for each fetch (16 ms with 900 of them); in the order of this index it is 0.04 ms.
CREATE INDEX pomni_jobs_in_lock ON procrastinate_jobs (lock, priority DESC, id)
    WHERE status IN ('todo', 'doing');
ALTER FUNCTION procrastinate_fetch_job_v2(varchar[], bigint) SET enable_sort = off;
ALTER FUNCTION procrastinate_fetch_job_v2(varchar[], bigint) SET enable_bitmapscan = off;
ALTER FUNCTION procrastinate_fetch_job_v2(varchar[], bigint) SET enable_seqscan = off;
ALTER FUNCTION procrastinate_fetch_job_v2(varchar[], bigint) SET enable_hashjoin = off;
ALTER FUNCTION procrastinate_fetch_job_v2(varchar[], bigint) SET enable_mergejoin = off;

-- Indexes that ours serve better, and events that nobody reads: a job that succeeds is deleted at
-- once, its events with it.
DROP INDEX procrastinate_jobs_id_lock_idx_v1, procrastinate_jobs_queue_name_idx_v1,
    idx_procrastinate_jobs_worker_not_null;
DROP TRIGGER procrastinate_trigger_status_events_insert_v1 ON procrastinate_jobs;
DROP TRIGGER procrastinate_trigger_scheduled_events_v1 ON procrastinate_jobs;
DROP TRIGGER procrastinate_trigger_abort_requested_events_v1 ON procrastinate_jobs;
DROP TRIGGER procrastinate_trigger_status_events_update_v1 ON procrastinate_jobs;
CREATE TRIGGER procrastinate_trigger_status_events_update_v1
    AFTER UPDATE OF status ON procrastinate_jobs
    FOR EACH ROW WHEN (new.status IN ('failed', 'cancelled', 'aborted'))
    EXECUTE PROCEDURE procrastinate_trigger_function_status_events_update_v1();

-- procrastinate tells its workers of new jobs only; a job that waited for another one of its chat
-- would be found by the next poll, seconds later.

CREATE FUNCTION notify_next_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('procrastinate_queue_v1#' || queue_name,
                      json_build_object('type', 'job_inserted', 'job_id', id)::text)
    FROM procrastinate_jobs
    WHERE lock = OLD.lock AND status = 'todo' AND (scheduled_at IS NULL OR scheduled_at <= now())
    ORDER BY priority DESC, id LIMIT 1;
    RETURN NULL;
END
$$;
CREATE TRIGGER pomni_jobs_deleted AFTER DELETE ON procrastinate_jobs
    FOR EACH ROW WHEN (old.status = 'doing' AND old.lock IS NOT NULL)
    EXECUTE FUNCTION notify_next_job();
CREATE TRIGGER pomni_jobs_ended AFTER UPDATE OF status ON procrastinate_jobs
    FOR EACH ROW WHEN (old.status = 'doing' AND new.status <> 'doing' AND old.lock IS NOT NULL)
    EXECUTE FUNCTION notify_next_job();

COMMENT ON TABLE procrastinate_jobs IS
    'The queue (a table of the library procrastinate): what waits, what runs, what failed.';
COMMENT ON COLUMN procrastinate_jobs.id IS 'Its number.';
COMMENT ON COLUMN procrastinate_jobs.queue_name IS
    'people (turns), control (all else for users) or background; each has a worker in a process.';
COMMENT ON COLUMN procrastinate_jobs.task_name IS 'What is to be done, such as handle_update.';
COMMENT ON COLUMN procrastinate_jobs.lock IS
    'Jobs with the same lock, such as those of one chat, run one after the other.';
COMMENT ON COLUMN procrastinate_jobs.args IS 'With what: ids and numbers, no text of users.';
COMMENT ON COLUMN procrastinate_jobs.status IS
    'todo (it waits), doing (it runs), succeeded, failed, cancelled or aborted.';
COMMENT ON COLUMN procrastinate_jobs.scheduled_at IS 'Not before this time; NULL: at once.';
COMMENT ON COLUMN procrastinate_jobs.attempts IS 'How often it was tried.';
COMMENT ON COLUMN procrastinate_jobs.queueing_lock IS
    'Only one job with the same one waits at a time; NULL: any number.';
COMMENT ON COLUMN procrastinate_jobs.priority IS
    'Higher ones go first; each pending message of a user has a lower one.';
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
    'When jobs that are still in procrastinate_jobs failed or were stopped; a trigger writes it.';
COMMENT ON COLUMN procrastinate_events.id IS 'Its number.';
COMMENT ON COLUMN procrastinate_events.job_id IS 'The job, with which it goes.';
COMMENT ON COLUMN procrastinate_events.type IS 'failed, cancelled or aborted.';
COMMENT ON COLUMN procrastinate_events.at IS 'When.';
"""

TABLES = r"""
CREATE TABLE telegram_updates (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    bot_id bigint NOT NULL,
    update_id bigint NOT NULL,
    kind text NOT NULL,
    chat_id bigint,
    thread_id bigint NOT NULL DEFAULT 0,
    user_id bigint,
    message_id bigint,
    media_group_id text,
    payload jsonb NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    handled_at timestamptz,
    outcome text,
    revision integer NOT NULL DEFAULT 0,
    served_as bigint GENERATED ALWAYS AS (
        CASE WHEN user_id IN (1087968824, 777000) THEN chat_id
             ELSE coalesce(user_id, chat_id) END) STORED,
    refusals smallint NOT NULL DEFAULT 0,
    first_word_at timestamptz,
    asked jsonb,
    CONSTRAINT telegram_updates_once UNIQUE (bot_id, update_id),
    CONSTRAINT telegram_updates_without_words CHECK ((handled_at IS NULL) OR (payload = '{}')
        OR (NOT (outcome IS DISTINCT FROM 'put aside')))
);
CREATE INDEX telegram_updates_albums ON telegram_updates (bot_id, chat_id, media_group_id)
    WHERE media_group_id IS NOT NULL;
CREATE INDEX telegram_updates_asked ON telegram_updates (bot_id,
    chat_id) WHERE asked IS NOT NULL;
CREATE INDEX telegram_updates_failed ON telegram_updates (handled_at)
    WHERE outcome IN ('failed', 'put aside');
CREATE INDEX telegram_updates_handled ON telegram_updates (handled_at)
    WHERE handled_at IS NOT NULL;
CREATE INDEX telegram_updates_of_person ON telegram_updates (bot_id, served_as,
    ((kind = 'message')), received_at)
    WHERE handled_at IS NULL;
CREATE INDEX telegram_updates_refused ON telegram_updates (bot_id, user_id, id)
    WHERE kind = 'refused';
CREATE INDEX telegram_updates_waiting ON telegram_updates (bot_id, chat_id, thread_id, id)
    WHERE handled_at IS NULL;
COMMENT ON TABLE telegram_updates IS
    'What Telegram sent, stored with its job before Telegram is told that it arrived.';
COMMENT ON COLUMN telegram_updates.id IS 'The order of arrival; update_id is not an order.';
COMMENT ON COLUMN telegram_updates.bot_id IS 'The bot that received it.';
COMMENT ON COLUMN telegram_updates.update_id IS 'Telegram''s number of it.';
COMMENT ON COLUMN telegram_updates.kind IS
    'message, media, teach, command, new, stop, edit, callback, member, refused or other.';
COMMENT ON COLUMN telegram_updates.chat_id IS 'The chat, if it came from one.';
COMMENT ON COLUMN telegram_updates.thread_id IS 'The topic of a forum group, else 0.';
COMMENT ON COLUMN telegram_updates.user_id IS 'Telegram id of who caused it, if it is known.';
COMMENT ON COLUMN telegram_updates.message_id IS
    'Telegram''s number of the message, if it has one.';
COMMENT ON COLUMN telegram_updates.media_group_id IS 'The album it belongs to, or NULL.';
COMMENT ON COLUMN telegram_updates.payload IS
    'The update as Telegram sent it, until it is handled; of refused users only who and where.';
COMMENT ON COLUMN telegram_updates.received_at IS 'When it was stored.';
COMMENT ON COLUMN telegram_updates.handled_at IS 'When it was done with; NULL: it waits.';
COMMENT ON COLUMN telegram_updates.outcome IS
    'How it ended: done, left to a later message, wiped, failed, put aside (it killed its process '
    'again and again: bot.py jobs), ...';
COMMENT ON COLUMN telegram_updates.revision IS
    'How often an erasure has taken somebody''s words out of it.';
COMMENT ON COLUMN telegram_updates.served_as IS
    'Whose turn it takes where all users take turns: the sender''s; the chat''s, where a whole '
    'chat writes under one id.';
COMMENT ON COLUMN telegram_updates.refusals IS
    'How often Telegram refused the reply for an unknown reason.';
COMMENT ON COLUMN telegram_updates.first_word_at IS
    'When the first word of its answer was there; NULL: it came as a whole, or not at all.';
COMMENT ON COLUMN telegram_updates.asked IS
    'What the reply to it asks, so that a reply in words answers that: {"asks": zone (which one) '
    'or correction (how is the fact memory_id right), "message_id": that of the question}.';

CREATE TABLE job_deaths (
    job_id bigint PRIMARY KEY REFERENCES procrastinate_jobs ON DELETE CASCADE,
    deaths integer NOT NULL DEFAULT 1,
    put_aside_at timestamptz
);
COMMENT ON TABLE job_deaths IS
    'Jobs that ran when their process died. A row goes with its job: when that is done.';
COMMENT ON COLUMN job_deaths.job_id IS 'The job; what bot.py jobs --retry takes.';
COMMENT ON COLUMN job_deaths.deaths IS 'How often its process died.';
COMMENT ON COLUMN job_deaths.put_aside_at IS
    'Since when it is put aside: its process died three times. NULL before that.';

CREATE TABLE reminders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    thread_id bigint NOT NULL DEFAULT 0,
    asker_id bigint,
    text text NOT NULL CHECK ((text <> '') AND (length(text) <= 1000)),
    due_at timestamptz NOT NULL
        CHECK ((EXTRACT(epoch FROM due_at) % (1)::numeric) = (0)::numeric),
    recurrence text,
    time_zone text NOT NULL,
    language text NOT NULL,
    message_id bigint REFERENCES messages ON DELETE SET NULL,
    snooze_of bigint REFERENCES reminders ON DELETE SET NULL,
    is_waiting boolean NOT NULL DEFAULT true,
    attempts integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    delivered_at timestamptz,
    cancelled_at timestamptz,
    owner_id bigint NOT NULL REFERENCES owners ON DELETE CASCADE
);
CREATE INDEX reminders_due ON reminders (due_at, id) WHERE is_waiting;
CREATE INDEX reminders_of_asker ON reminders (asker_id) WHERE asker_id IS NOT NULL;
CREATE INDEX reminders_of_message ON reminders (message_id) WHERE message_id IS NOT NULL;
CREATE INDEX reminders_of_owner ON reminders (owner_id, due_at, id);
CREATE UNIQUE INDEX reminders_snoozed_once ON reminders (snooze_of)
    WHERE is_waiting AND (snooze_of IS NOT NULL);
COMMENT ON TABLE reminders IS
    'What users asked to be reminded of. Two minutes before it is due, a job waits for it.';
COMMENT ON COLUMN reminders.id IS 'Its number.';
COMMENT ON COLUMN reminders.thread_id IS 'The topic in which it was set, and is sent; 0: none.';
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
COMMENT ON COLUMN reminders.owner_id IS 'The owner, to whose chat it is sent.';

CREATE FUNCTION note_owner() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    chat jsonb := coalesce(OLD.payload #> '{message,chat}', OLD.payload #> '{edited_message,chat}',
                           OLD.payload #> '{callback_query,message,chat}');
    called text := left(coalesce(chat ->> 'title', concat_ws(
        ' ', chat ->> 'first_name', chat ->> 'last_name')), 200);
    known_as text := left(chat ->> 'username', 100);
BEGIN
    IF called <> '' THEN
        UPDATE owners SET name = called, username = known_as, seen_at = now()
        WHERE telegram_user_id = OLD.chat_id
          AND (name IS DISTINCT FROM called OR username IS DISTINCT FROM known_as
               OR seen_at < now() - interval '10 minutes');
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER telegram_updates_note_owner AFTER UPDATE OF handled_at ON telegram_updates
FOR EACH ROW WHEN (OLD.handled_at IS NULL AND NEW.handled_at IS NOT NULL)
EXECUTE FUNCTION note_owner();
"""

DOWNGRADE = """
DROP TABLE reminders, job_deaths, telegram_updates;
DROP FUNCTION note_owner;
DROP TABLE procrastinate_events, procrastinate_periodic_defers, procrastinate_jobs,
    procrastinate_workers CASCADE;
DROP FUNCTION notify_next_job;
DO $$
DECLARE thing record;
BEGIN
    FOR thing IN SELECT oid::regprocedure AS name FROM pg_proc
        WHERE pronamespace = 'public'::regnamespace AND proname LIKE 'procrastinate\\_%'
    LOOP
        EXECUTE format('DROP FUNCTION %s CASCADE', thing.name);
    END LOOP;
    FOR thing IN SELECT oid::regtype AS name FROM pg_type
        WHERE typnamespace = 'public'::regnamespace AND typname LIKE 'procrastinate\\_%'
          AND typtype IN ('c', 'e')
    LOOP
        EXECUTE format('DROP TYPE %s CASCADE', thing.name);
    END LOOP;
END
$$;
"""


def upgrade():
    cursor = op.get_bind().connection.cursor()
    for script in sorted(Path(SchemaManager.get_migrations_path()).glob("*.sql")):
        if script.name <= LAST:
            cursor.execute(script.read_text(encoding="utf-8"))
    cursor.execute(QUEUE)
    cursor.execute(TABLES)


def downgrade():
    op.get_bind().connection.cursor().execute(DOWNGRADE)
