"""What the admin page shows: one bounded statement a view, by index, however much there is.

The columns have the names by which the templates know them.
"""

from src.pg.records_repo import usage_query

FIRST, LAST = -(2**62), 2**62  # before and behind every id and position

# What each setting is for.
SELECT_DESCRIPTIONS = """
SELECT attname::text AS name, col_description(attrelid, attnum) AS description
FROM pg_attribute WHERE attrelid = 'global_settings'::regclass AND attnum > 0
"""

# What was changed of them, newest first.
SELECT_CHANGES = """
SELECT id, changed_at, changed_by, setting, old_value, new_value
FROM global_settings_changes ORDER BY id DESC LIMIT %(limit)s
"""

# Owners by their ids; what they have is looked up for the page's few alone.
SELECT_OWNERS = """
SELECT c.telegram_user_id, c.thread_id, c.created_at, m.created_at AS last_at,
       coalesce(m.position, 0) AS messages
FROM (SELECT * FROM conversations
      WHERE (telegram_user_id, thread_id) > (%(user)s, %(thread_id)s)
      ORDER BY telegram_user_id, thread_id LIMIT %(limit)s) AS c
LEFT JOIN LATERAL (SELECT created_at, position FROM messages WHERE conversation_id = c.id
                   ORDER BY position DESC, id DESC LIMIT 1) AS m ON true
ORDER BY c.telegram_user_id, c.thread_id
"""

# A page of a conversation, upwards from a position; with how each message ended. An answer is
# stored by one statement with what it cost, so both have the same moment.
SELECT_BUBBLES = """
SELECT m.id, m.position, m.role, message_text(m.content) AS text, m.created_at, m.speaker,
       m.is_forgotten, m.is_private,
       CASE WHEN m.failed_at IS NOT NULL THEN 'given up'
            WHEN m.stopped_at IS NOT NULL THEN 'stopped'
            WHEN m.role = 'assistant' AND m.delivered_at IS NULL THEN 'not delivered'
            ELSE '' END AS state,
       ARRAY(SELECT CASE WHEN s.memory_id IS NOT NULL THEN 'fact-' || s.memory_id
                         ELSE 'msg-' || s.message_id END
             FROM answer_sources s WHERE s.answer_id = m.id ORDER BY s.number) AS sources,
       ARRAY(SELECT t.name FROM tool_results t
             WHERE t.message_id = m.reply_to_id ORDER BY t.id) AS tools,
       u.prompt, u.completion
FROM messages m JOIN conversations c ON c.id = m.conversation_id
LEFT JOIN LATERAL (SELECT sum(prompt_tokens) AS prompt, sum(completion_tokens) AS completion
                   FROM model_usage
                   WHERE owner_id = c.owner_id AND created_at = m.created_at
                     AND m.role = 'assistant') AS u ON true
WHERE c.telegram_user_id = %(user)s AND c.thread_id = %(thread_id)s
  AND m.position < %(before)s
ORDER BY m.position DESC, m.id DESC LIMIT %(limit)s
"""

# What the gate refused of an owner's, the newest first.
SELECT_REJECTED = """
SELECT created_at, reason, coalesce(text, '') AS text, message_id, origin
FROM rejected_facts
WHERE owner_id = %(owner)s
ORDER BY id DESC LIMIT 100
"""

# What an owner's data weighs: rows, counted up to ten thousand.
WEIGH = """
WITH said AS (SELECT m.content FROM messages m JOIN conversations c ON c.id = m.conversation_id
              WHERE c.owner_id = %(owner)s LIMIT 10000),
     known AS (SELECT 1 FROM facts WHERE owner_id = %(owner)s LIMIT 10000),
     vectors AS (SELECT 1 FROM document_embeddings WHERE owner_id = %(owner)s LIMIT 10000)
SELECT (SELECT count(*) FROM said) AS "messages",
       (SELECT coalesce(sum(octet_length(content)), 0) FROM said) AS "bytes of messages",
       (SELECT count(*) FROM known) AS "facts", (SELECT count(*) FROM vectors) AS "vectors"
"""

# How much there is, as the planner knows it: counting would read everything.
ESTIMATE = """
SELECT relname AS name, greatest(reltuples, 0)::bigint AS rows,
       pg_total_relation_size(oid) AS bytes
FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
  AND relname IN ('conversations', 'messages', 'memories', 'document_embeddings', 'model_usage')
ORDER BY relname
"""

# Tokens, money and time by day and model, the newest first; days that are over were summed up.
# Batches cost half. The percentiles are of classes of times, each two hundredths wide.
SELECT_USAGE = usage_query("""
, classes AS (
    SELECT * FROM model_usage_days
    WHERE day > (now() AT TIME ZONE %(zone)s)::date - %(days)s AND day <= (SELECT day FROM rolled)
    UNION ALL SELECT * FROM fresh
), ranked AS (
    SELECT *, sum(calls) OVER (PARTITION BY day, model ORDER BY class) AS so_far,
           sum(calls) OVER (PARTITION BY day, model) AS in_all
    FROM classes
)
SELECT u.day, u.model, sum(u.calls)::bigint AS calls, sum(u.prompt)::bigint AS prompt,
       sum(u.cached)::bigint AS cached, sum(u.completion)::bigint AS completion,
       sum((u.uncached * p.prompt + u.cached * p.cached + u.completion * p.completion) / 1000000
           * CASE WHEN u.is_batch THEN 0.5 ELSE 1 END) AS cost,
       round(exp(min(u.class) FILTER (WHERE u.so_far >= 0.5 * u.in_all) / 50.0)) AS median_ms,
       round(exp(min(u.class) FILTER (WHERE u.so_far >= 0.95 * u.in_all) / 50.0)) AS high_ms
FROM ranked u LEFT JOIN model_prices p ON p.model = u.model
GROUP BY 1, 2 ORDER BY 1 DESC, 4 DESC, 2 LIMIT 1000
""")

# Those who cost most.
SELECT_SPENDERS = """
SELECT o.telegram_user_id AS "user", count(*) AS calls,
       coalesce(sum(prompt_tokens), 0)::bigint AS prompt,
       coalesce(sum(completion_tokens), 0)::bigint AS completion
FROM model_usage u JOIN owners o ON o.id = u.owner_id
WHERE u.created_at >= now() - make_interval(days => %(days)s)
GROUP BY 1 ORDER BY 3 DESC, 1 LIMIT 20
"""

# What a million tokens of a model cost.
SELECT_PRICES = (
    "SELECT model, prompt, cached, completion FROM model_prices ORDER BY model LIMIT 500"
)
UPSERT_PRICE = """
INSERT INTO model_prices (model, prompt, cached, completion)
VALUES (%(model)s, %(prompt)s, %(cached)s, %(completion)s)
ON CONFLICT (model) DO UPDATE
SET prompt = EXCLUDED.prompt, cached = EXCLUDED.cached, completion = EXCLUDED.completion
"""
DELETE_PRICE = "DELETE FROM model_prices WHERE model = %(model)s"

# What waits, by queue and state.
SELECT_QUEUE = """
SELECT queue_name, status::text, count(*) AS jobs, min(scheduled_at) AS since
FROM procrastinate_jobs WHERE status <> 'succeeded' GROUP BY 1, 2 ORDER BY 1, 2
"""

# Jobs that failed for good, the newest first.
SELECT_FAILED = """
SELECT id, queue_name, task_name, attempts FROM procrastinate_jobs
WHERE status = 'failed' ORDER BY id DESC LIMIT 50
"""
RETRY_FAILED = """
SELECT procrastinate_retry_job_v2(id, now(), NULL, NULL, NULL) FROM procrastinate_jobs
WHERE id = %(id)s AND status = 'failed'
"""

# Batches, the newest first.
SELECT_BATCHES = """
SELECT created_at, provider, model, status, requests, succeeded, failed, dropped,
       coalesce(error_message, '') AS error
FROM batch_jobs ORDER BY created_at DESC, id LIMIT %(limit)s
"""

# What operators did, the newest first.
INSERT_ACTION = """
INSERT INTO admin_actions (address, action, target)
VALUES (left(%(address)s, 100), %(action)s, left(%(target)s, 200))
"""
SELECT_ACTIONS = """
SELECT done_at, address, action, target FROM admin_actions ORDER BY id DESC LIMIT 200
"""
