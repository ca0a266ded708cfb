"""Conversations, their messages and tools, the updates of Telegram, and the view ``chat``.

Every statement that begins a line with ``COMMENT ON`` is what an operator reads in ``psql`` with
``\\d+``; ``src/pg/migrations.py`` takes it from here as well.
"""

from alembic import op

revision = "0101"
down_revision = None

UPGRADE = """
COMMENT ON TABLE alembic_version IS
    'How far the migrations (of the library Alembic) have come.';
COMMENT ON COLUMN alembic_version.version_num IS
    'The number of the last one that ran, such as 0105; bot.py doctor tells what it means.';

CREATE FUNCTION message_text(content text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
RETURN CASE WHEN starts_with(content, '[Текущее время: ') AND substr(content, 33, 2) = '] '
            THEN substr(content, 35) ELSE content END;
COMMENT ON FUNCTION message_text IS 'A stored message without its time label.';

CREATE TABLE conversations (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    telegram_user_id bigint NOT NULL,
    thread_id bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    extracted_position integer NOT NULL DEFAULT 0,
    last_position integer NOT NULL DEFAULT 0,
    consolidated_at timestamptz,
    CONSTRAINT conversations_one_per_owner UNIQUE (telegram_user_id, thread_id)
);
COMMENT ON TABLE conversations IS
    'The current conversation of a person, or of a group and topic; /new starts another.';
COMMENT ON COLUMN conversations.id IS 'Its UUID; another one after each /new.';
COMMENT ON COLUMN conversations.telegram_user_id IS
    'The owner: a person''s Telegram id (private chat), or a group''s negative chat id.';
COMMENT ON COLUMN conversations.thread_id IS 'The topic of a forum group, else 0.';
COMMENT ON COLUMN conversations.created_at IS 'When it began: at the first message, or at /new.';
COMMENT ON COLUMN conversations.extracted_position IS
    'Messages up to this position have been read for facts.';
COMMENT ON COLUMN conversations.last_position IS
    'Positions up to this one belonged to messages that are gone, and are not given out again.';
COMMENT ON COLUMN conversations.consolidated_at IS
    'When the nightly job last went through the owner''s facts; NULL: never.';

CREATE TABLE messages (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_id uuid NOT NULL REFERENCES conversations ON DELETE CASCADE,
    role text NOT NULL CHECK (role IN ('user', 'assistant', 'tool', 'system')),
    content text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    bot_id bigint,
    chat_id bigint,
    telegram_message_id bigint,
    sender_id bigint,
    reply_to_id bigint REFERENCES messages ON DELETE CASCADE,
    stream_message_id bigint,
    delivered_parts integer NOT NULL DEFAULT 0,
    delivered_at timestamptz,
    stopped_at timestamptz,
    failed_at timestamptz,
    position integer NOT NULL,
    said_at timestamptz NOT NULL DEFAULT now(),
    indexed_at timestamptz,
    is_forgotten boolean NOT NULL DEFAULT false,
    forgotten_at timestamptz,
    author_id bigint,
    mentions jsonb,
    edited_at timestamptz,
    is_private boolean NOT NULL DEFAULT false,
    asks text CHECK (asks IN ('erase_all', 'conflict', 'conflict_over')),
    provenance text NOT NULL DEFAULT 'typed'
        CHECK (provenance IN ('typed', 'forwarded', 'bot', 'file')),
    speaker text,
    origin text,
    quoted text,
    quoted_author_id bigint,
    changes jsonb,
    sent_message_ids bigint[],
    is_disputed boolean NOT NULL DEFAULT false,
    mode text CHECK (mode IN ('assistant', 'strict')),
    CONSTRAINT messages_one_per_telegram_message
        UNIQUE (bot_id, chat_id, telegram_message_id)
);
CREATE INDEX messages_by_time ON messages (conversation_id, created_at DESC, id DESC);
CREATE INDEX messages_by_position ON messages (conversation_id, position, id);
CREATE INDEX messages_by_age ON messages USING brin (created_at);
CREATE UNIQUE INDEX messages_one_answer ON messages (reply_to_id) WHERE role = 'assistant';
CREATE INDEX messages_by_reply ON messages (reply_to_id) WHERE reply_to_id IS NOT NULL;
CREATE INDEX messages_by_quoted ON messages (quoted_author_id)
    WHERE quoted_author_id IS NOT NULL;
CREATE INDEX messages_undelivered ON messages (created_at)
    WHERE role = 'assistant' AND delivered_at IS NULL;
CREATE INDEX messages_unindexed ON messages (conversation_id, id)
    WHERE indexed_at IS NULL AND role IN ('user', 'assistant') AND NOT is_forgotten
          AND NOT is_private;
CREATE INDEX messages_forgotten ON messages (forgotten_at) WHERE forgotten_at IS NOT NULL;
COMMENT ON TABLE messages IS
    'Everything said in the current conversations, as the model sees it; to read it, use chat.';
COMMENT ON COLUMN messages.id IS 'Its number; msg-12 in references is message 12.';
COMMENT ON COLUMN messages.conversation_id IS 'The conversation; with it the message goes.';
COMMENT ON COLUMN messages.role IS
    'user, assistant (the bot), system (which tools an answer used), or tool.';
COMMENT ON COLUMN messages.content IS
    'The text, of a user with the time before it; message_text(content) leaves that out.';
COMMENT ON COLUMN messages.created_at IS 'When it was stored.';
COMMENT ON COLUMN messages.bot_id IS 'The bot that received it; NULL on answers, in the console.';
COMMENT ON COLUMN messages.chat_id IS 'The Telegram chat it came from; NULL as bot_id.';
COMMENT ON COLUMN messages.telegram_message_id IS
    'Its number in that chat; below 0: a part of the message of the positive number.';
COMMENT ON COLUMN messages.sender_id IS
    'Telegram id of who wrote it; in a group that is not the owner. NULL on answers.';
COMMENT ON COLUMN messages.reply_to_id IS 'On an answer: the user''s message that it answers.';
COMMENT ON COLUMN messages.stream_message_id IS
    'On a user''s message in a group: the Telegram message that shows the growing answer.';
COMMENT ON COLUMN messages.delivered_parts IS
    'On an answer: how many of its Telegram messages have arrived.';
COMMENT ON COLUMN messages.delivered_at IS 'On an answer: when all of it had arrived.';
COMMENT ON COLUMN messages.stopped_at IS 'When the user stopped the answer to this message.';
COMMENT ON COLUMN messages.failed_at IS 'When the bot gave up answering and apologised.';
COMMENT ON COLUMN messages.position IS 'Its number within the conversation, from 1.';
COMMENT ON COLUMN messages.said_at IS
    'When it was written; created_at is when it was stored, later after an outage.';
COMMENT ON COLUMN messages.indexed_at IS
    'When the search took it in; NULL: not yet, or not since the last edit.';
COMMENT ON COLUMN messages.is_forgotten IS
    'The user asked to forget it: not shown to the model, not searched, not read for facts.';
COMMENT ON COLUMN messages.forgotten_at IS
    'When the user asked to forget it; a job deletes it for good ten minutes later.';
COMMENT ON COLUMN messages.author_id IS
    'Who wrote what sender_id forwarded: the Telegram id of a person, a group or a channel.';
COMMENT ON COLUMN messages.mentions IS
    'People without a user name whom it mentions: [{"id": 1, "name": "as it stands there"}].';
COMMENT ON COLUMN messages.edited_at IS
    'When the user edited it: answers from before may repeat words that stand nowhere else.';
COMMENT ON COLUMN messages.is_private IS
    'The user wants it not remembered: it stays in the conversation and gets nowhere else.';
COMMENT ON COLUMN messages.asks IS
    'What the bot asked with it, so that a yes to it means that: erase_all (whether to erase '
    'everything), conflict (which of two facts holds), conflict_over (that is decided).';
COMMENT ON COLUMN messages.provenance IS
    'Whose words they are: typed by the sender; forwarded; of another bot; of a file.';
COMMENT ON COLUMN messages.speaker IS 'In a group: the sender''s name.';
COMMENT ON COLUMN messages.origin IS 'The name of the author of forwarded words.';
COMMENT ON COLUMN messages.quoted IS 'The words to which the message replies.';
COMMENT ON COLUMN messages.quoted_author_id IS 'Telegram id of the author of quoted, if known.';
COMMENT ON COLUMN messages.changes IS
    'On an answer: ids of the facts that its turn saved (saved), of those that replaced others '
    '(replaced_by), of what it forgot (forgetting), and of reminders. NULL: nothing.';
COMMENT ON COLUMN messages.sent_message_ids IS
    'On an answer: the Telegram messages that show it, in their order.';
COMMENT ON COLUMN messages.is_disputed IS
    'Its writer is, or was, asked whether it replaces what is known: background jobs skip it.';
COMMENT ON COLUMN messages.mode IS
    'On an answer: the mode in which it was given. NULL: an older answer, or none.';

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
COMMENT ON COLUMN tool_results.id IS 'Its number, in the order in which calls ended.';
COMMENT ON COLUMN tool_results.conversation_id IS 'The conversation in which it was called.';
COMMENT ON COLUMN tool_results.message_id IS 'The user''s message that was being answered.';
COMMENT ON COLUMN tool_results.name IS 'The tool''s name.';
COMMENT ON COLUMN tool_results.arguments IS 'What the model gave it.';
COMMENT ON COLUMN tool_results.result IS 'What it returned to the model.';
COMMENT ON COLUMN tool_results.error IS 'What went wrong, or NULL.';
COMMENT ON COLUMN tool_results.duration_ms IS 'How long it took, in milliseconds.';
COMMENT ON COLUMN tool_results.created_at IS 'When it ended.';

CREATE TABLE parting_messages (
    message_id bigint PRIMARY KEY,
    telegram_user_id bigint NOT NULL,
    thread_id bigint NOT NULL DEFAULT 0,
    position integer NOT NULL,
    content text NOT NULL,
    said_at timestamptz NOT NULL,
    sender_id bigint,
    speaker text,
    mentions jsonb,
    left_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX parting_messages_by_owner
    ON parting_messages (telegram_user_id, thread_id, position);
CREATE INDEX parting_messages_by_sender ON parting_messages (sender_id)
    WHERE sender_id IS NOT NULL;
COMMENT ON TABLE parting_messages IS
    'Copies of typed messages that /new deleted before they were read for facts; they stay for '
    'minutes.';
COMMENT ON COLUMN parting_messages.message_id IS 'The number that the message had.';
COMMENT ON COLUMN parting_messages.telegram_user_id IS
    'The owner: a person, or a group (negative).';
COMMENT ON COLUMN parting_messages.thread_id IS 'The topic of a forum group, else 0.';
COMMENT ON COLUMN parting_messages.position IS 'Its number within the deleted conversation.';
COMMENT ON COLUMN parting_messages.content IS 'The text, with the time before it.';
COMMENT ON COLUMN parting_messages.said_at IS 'When it was written.';
COMMENT ON COLUMN parting_messages.sender_id IS 'Telegram id of who wrote it.';
COMMENT ON COLUMN parting_messages.speaker IS 'In a group: the sender''s name.';
COMMENT ON COLUMN parting_messages.mentions IS 'As in messages.';
COMMENT ON COLUMN parting_messages.left_at IS
    'When the message was deleted, or edited; the copy is deleted some minutes later.';

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
    -- The two ids are Telegram's, of anonymous admins and of linked channels.
    served_as bigint GENERATED ALWAYS AS
        (CASE WHEN user_id IN (1087968824, 777000) THEN chat_id
              ELSE coalesce(user_id, chat_id) END) STORED,
    refusals smallint NOT NULL DEFAULT 0,
    CONSTRAINT telegram_updates_once UNIQUE (bot_id, update_id),
    CONSTRAINT telegram_updates_without_words
        CHECK (handled_at IS NULL OR payload = '{}' OR outcome IS NOT DISTINCT FROM 'put aside')
);
CREATE INDEX telegram_updates_waiting ON telegram_updates (bot_id, chat_id, thread_id, id)
    WHERE handled_at IS NULL;
CREATE INDEX telegram_updates_of_person ON telegram_updates
    (bot_id, served_as, (kind = 'message'), received_at) WHERE handled_at IS NULL;
CREATE INDEX telegram_updates_handled ON telegram_updates (handled_at)
    WHERE handled_at IS NOT NULL;
CREATE INDEX telegram_updates_albums ON telegram_updates (bot_id, chat_id, media_group_id)
    WHERE media_group_id IS NOT NULL;
CREATE INDEX telegram_updates_refused ON telegram_updates (bot_id, user_id, id)
    WHERE kind = 'refused';
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
"""

CHAT = """
CREATE VIEW chat AS
SELECT m.said_at, c.telegram_user_id, c.thread_id,
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
LEFT JOIN messages answer
     ON answer.reply_to_id = coalesce(m.reply_to_id, m.id) AND answer.role = 'assistant'
WHERE m.role IN ('user', 'assistant') AND NOT m.is_forgotten;
COMMENT ON VIEW chat IS
    'Who said what, when; without what the user asked to forget. Such as: SELECT * FROM chat '
    'WHERE telegram_user_id = 123 ORDER BY said_at, message_id.';
COMMENT ON COLUMN chat.said_at IS 'When it was said.';
COMMENT ON COLUMN chat.telegram_user_id IS
    'In whose chat: a person''s Telegram id (private chat), or a group''s negative chat id.';
COMMENT ON COLUMN chat.thread_id IS 'In which topic of a forum group, else 0.';
COMMENT ON COLUMN chat.who IS
    'bot; user in a private chat; in a group the member''s name, or his Telegram id.';
COMMENT ON COLUMN chat.what IS 'The text, without the time that is stored before it.';
COMMENT ON COLUMN chat.mode IS
    'The mode in which the bot answered, assistant or strict; NULL: it has not, or not by itself '
    '(several messages in a row get one answer), or the answer is an older one.';
COMMENT ON COLUMN chat.tools IS 'Of the bot: the tools that it used for the answer, or NULL.';
COMMENT ON COLUMN chat.provenance IS
    'Whose words they are: typed by the sender; forwarded; of another bot; of a file.';
COMMENT ON COLUMN chat.message_id IS 'messages.id.';
COMMENT ON COLUMN chat.conversation_id IS 'conversations.id.';
"""

DOWNGRADE = """
DROP VIEW chat;
DROP TABLE chat_moves, telegram_updates, parting_messages, tool_results, messages, conversations;
DROP FUNCTION message_text;
"""


def upgrade():
    cursor = op.get_bind().connection.cursor()
    cursor.execute(UPGRADE)
    cursor.execute(CHAT)


def downgrade():
    op.get_bind().connection.cursor().execute(DOWNGRADE)
