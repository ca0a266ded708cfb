"""Why the bot answered so: what was recalled for an answer, kept on its row; the view ``why``.

One column, not a table: the record is written once, with the answer, is read as a whole, and goes
with the answer, whatever deletes it. It holds ids and numbers, so that what is forgotten stays
nowhere.

In ``chat`` an answer never stands before its question: Telegram's moments have no fractions of a
second, and its clock may be ahead of the database's.
"""

from alembic import context, op

revision = "0116"
down_revision = "0115"

RECALL = """
ALTER TABLE messages ADD COLUMN recall jsonb;
COMMENT ON COLUMN messages.recall IS
    'On an answer: the model, the message from which on the model saw the conversation (since), '
    'and what was recalled (found), by ids and scores. NULL: no model was asked. Read it in why.';
"""

CHAT = """
CREATE OR REPLACE VIEW chat AS
SELECT date_trunc('second', greatest(m.said_at, asked.said_at)) AS said_at,
       c.telegram_user_id, c.thread_id,
       CASE WHEN m.role = 'assistant' THEN 'bot' WHEN c.telegram_user_id > 0 THEN 'user'
            ELSE coalesce(m.speaker, m.sender_id::text, 'user') END AS who,
       message_text(m.content) AS what, answer.mode,
       CASE WHEN m.role = 'assistant'
            THEN (SELECT regexp_replace(t.content, '^Tools used: ', '') FROM messages t
                  WHERE t.reply_to_id = m.reply_to_id AND t.role = 'system'
                  ORDER BY t.id LIMIT 1) END AS tools,
       m.provenance, m.id AS message_id, m.conversation_id
FROM messages m
JOIN conversations c ON c.id = m.conversation_id
LEFT JOIN messages asked ON asked.id = m.reply_to_id
LEFT JOIN messages answer
     ON answer.reply_to_id = coalesce(m.reply_to_id, m.id) AND answer.role = 'assistant'
WHERE m.role IN ('user', 'assistant') AND NOT m.is_forgotten;
COMMENT ON COLUMN chat.said_at IS
    'When it was said, to the second; order by message_id too: it follows the conversation.';
"""

WHY = """
CREATE VIEW why AS
SELECT said.said_at, said.telegram_user_id, said.thread_id, asked.who, asked.what AS asked,
       said.what AS answered, said.mode, a.recall ->> 'model' AS model, said.tools,
       'msg-' || (a.recall ->> 'since') AS since,
       (SELECT string_agg(concat_ws(', ', id || ': ' || by, 'score ' || score,
                                    'meaning ' || meaning, 'words ' || nullif(words, 0),
                                    'link ' || link, CASE WHEN NOT shown THEN 'not shown' END),
                          E'\\n' ORDER BY number)
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
    'FROM why WHERE telegram_user_id = 123 ORDER BY message_id DESC LIMIT 3 \\gx';
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
    'messages, search or a tool, with the place among its hits), its score and the channels '
    'that count most, and whether the model was shown it; as it was then.';
COMMENT ON COLUMN why.message_id IS 'The answer: messages.id.';
COMMENT ON COLUMN why.asked_id IS 'The message that is answered: messages.id.';
"""

AS_BEFORE = """
DROP VIEW why, chat;
ALTER TABLE messages DROP COLUMN recall;
"""


def upgrade():
    op.get_bind().connection.cursor().execute(RECALL + CHAT + WHY)


def downgrade():
    cursor = op.get_bind().connection.cursor()
    cursor.execute(AS_BEFORE)
    cursor.execute(context.script.get_revision("0101").module.CHAT)
