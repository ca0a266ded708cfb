"""Conversations, their messages, summaries and tool results, and the view ``chat``.

What begins with ``COMMENT ON`` is what an operator reads in ``psql`` with ``\\d+``.
"""

from alembic import op

revision = "0202"
down_revision = "0201"

UPGRADE = r"""
CREATE FUNCTION message_text(content text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
RETURN CASE WHEN starts_with(content, '[Текущее время: ') AND substr(content, 33, 2) = '] '
            THEN substr(content, 35) ELSE content END;
COMMENT ON FUNCTION message_text IS 'A stored message without its time label.';

CREATE TABLE conversations (
    id uuid DEFAULT gen_random_uuid() PRIMARY KEY,
    telegram_user_id bigint NOT NULL,
    thread_id bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    extracted_position integer NOT NULL DEFAULT 0,
    last_position integer NOT NULL DEFAULT 0,
    owner_id bigint NOT NULL,
    CONSTRAINT conversations_one_per_owner UNIQUE (telegram_user_id, thread_id),
    CONSTRAINT conversations_owner_fkey FOREIGN KEY (owner_id,
        telegram_user_id) REFERENCES owners(id,
        telegram_user_id) ON UPDATE CASCADE ON DELETE CASCADE
);
CREATE INDEX conversations_by_owner ON conversations (owner_id);
COMMENT ON TABLE conversations IS
    'The current conversation of a chat, or of a topic of it; /new starts another.';
COMMENT ON COLUMN conversations.id IS 'Its UUID; another one after each /new.';
COMMENT ON COLUMN conversations.telegram_user_id IS
    'The chat: a person''s Telegram id (private chat), or a group''s negative chat id.';
COMMENT ON COLUMN conversations.thread_id IS
    'The topic of a forum group or of a private chat, else 0.';
COMMENT ON COLUMN conversations.created_at IS 'When it began: at the first message, or at /new.';
COMMENT ON COLUMN conversations.extracted_position IS
    'Messages up to this position have been read for facts.';
COMMENT ON COLUMN conversations.last_position IS
    'Positions up to this one belonged to messages that are gone, and are not given out again.';
COMMENT ON COLUMN conversations.owner_id IS
    'The owner; topics of a private chat have the same one.';

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
    is_forgotten boolean NOT NULL DEFAULT false,
    forgotten_at timestamptz,
    author_id bigint,
    mentions jsonb,
    edited_at timestamptz,
    is_private boolean NOT NULL DEFAULT false,
    asks text
        CHECK (asks IN ('erase_all', 'conflict', 'conflict_over', 'forget_which',
            'reminder_which', 'reminder_time', 'reminder', 'zone')),
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
    file_id text,
    recall jsonb,
    question jsonb
);
CREATE INDEX messages_by_position ON messages (conversation_id, position, id);
CREATE INDEX messages_by_quoted ON messages (quoted_author_id) WHERE quoted_author_id IS NOT NULL;
CREATE INDEX messages_by_reply ON messages (reply_to_id) WHERE reply_to_id IS NOT NULL;
CREATE INDEX messages_by_time ON messages (conversation_id, created_at DESC, id DESC);
CREATE INDEX messages_forgotten ON messages (forgotten_at) WHERE forgotten_at IS NOT NULL;
CREATE UNIQUE INDEX messages_one_answer ON messages (reply_to_id) WHERE role = 'assistant';
CREATE UNIQUE INDEX messages_one_per_telegram_message ON messages (bot_id, chat_id,
    telegram_message_id)
    WHERE telegram_message_id IS NOT NULL;
CREATE INDEX messages_with_question ON messages (conversation_id) WHERE question IS NOT NULL;
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
    'What the bot asked with it, so that the next message can answer: erase_all (whether to erase '
    'everything), conflict (which of two facts holds), conflict_over (that is decided), '
    'forget_which, reminder_which (which of several is meant), reminder_time, zone (which one), '
    'reminder (nothing: it names reminders, and the next message may cancel or move one).';
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
COMMENT ON COLUMN messages.file_id IS
    'Of a picture that the message describes: under which Telegram gives it to the bot again.';
COMMENT ON COLUMN messages.recall IS
    'On an answer: the model, the message from which on the model saw the conversation (since), '
    'and what was recalled (found), by ids and scores. NULL: no model was asked. Read it in why.';
COMMENT ON COLUMN messages.question IS
    'On an answer with asks = conflict, until it is decided: [{"fact": the new fact, "message": '
    'id of the message that says it, "denies": ids of the known facts that it would replace}].';

CREATE TABLE conversation_summaries (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_id uuid NOT NULL REFERENCES conversations ON DELETE CASCADE,
    first_position integer NOT NULL,
    last_position integer NOT NULL,
    content text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CHECK (first_position <= last_position),
    CONSTRAINT conversation_summaries_once UNIQUE (conversation_id, first_position)
);
COMMENT ON TABLE conversation_summaries IS
    'Messages that left the recent window, in a sentence or two; gapless and in order.';
COMMENT ON COLUMN conversation_summaries.id IS 'Its number.';
COMMENT ON COLUMN conversation_summaries.conversation_id IS 'The conversation.';
COMMENT ON COLUMN conversation_summaries.first_position IS
    'messages.position of the first message that it sums up.';
COMMENT ON COLUMN conversation_summaries.last_position IS 'And of the last one.';
COMMENT ON COLUMN conversation_summaries.content IS 'The summary.';
COMMENT ON COLUMN conversation_summaries.created_at IS 'When it was written.';

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
CREATE INDEX tool_results_by_message ON tool_results (message_id);
CREATE INDEX tool_results_by_time ON tool_results (conversation_id, id DESC);
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
    position integer NOT NULL,
    content text NOT NULL,
    said_at timestamptz NOT NULL,
    sender_id bigint,
    speaker text,
    mentions jsonb,
    left_at timestamptz NOT NULL DEFAULT now(),
    owner_id bigint NOT NULL REFERENCES owners ON DELETE CASCADE
);
CREATE INDEX parting_messages_by_owner ON parting_messages (owner_id, message_id);
CREATE INDEX parting_messages_by_sender ON parting_messages (sender_id)
    WHERE sender_id IS NOT NULL;
COMMENT ON TABLE parting_messages IS
    'Copies of typed messages that /new deleted before they were read for facts; they stay for '
    'minutes.';
COMMENT ON COLUMN parting_messages.message_id IS 'The number that the message had.';
COMMENT ON COLUMN parting_messages.position IS 'Its number within the deleted conversation.';
COMMENT ON COLUMN parting_messages.content IS 'The text, with the time before it.';
COMMENT ON COLUMN parting_messages.said_at IS 'When it was written.';
COMMENT ON COLUMN parting_messages.sender_id IS 'Telegram id of who wrote it.';
COMMENT ON COLUMN parting_messages.speaker IS 'In a group: the sender''s name.';
COMMENT ON COLUMN parting_messages.mentions IS 'As in messages.';
COMMENT ON COLUMN parting_messages.left_at IS
    'When the message was deleted, or edited; the copy is deleted some minutes later.';
COMMENT ON COLUMN parting_messages.owner_id IS 'The owner.';

CREATE TABLE daily_messages (
    day date,
    messages integer NOT NULL,
    owner_id bigint REFERENCES owners ON DELETE CASCADE,
    PRIMARY KEY (day, owner_id)
);
CREATE INDEX daily_messages_by_owner ON daily_messages (owner_id);
COMMENT ON TABLE daily_messages IS
    'How many messages each user wrote on a day, counted while global_settings has a ceiling.';
COMMENT ON COLUMN daily_messages.day IS 'The day, in the zone of TIMEZONE.';
COMMENT ON COLUMN daily_messages.messages IS 'How many.';
COMMENT ON COLUMN daily_messages.owner_id IS 'Who wrote them.';

CREATE VIEW chat AS
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
COMMENT ON VIEW chat IS
    'Who said what, when; without what the user asked to forget. Such as: SELECT * FROM chat '
    'WHERE telegram_user_id = 123 ORDER BY said_at, message_id.';
COMMENT ON COLUMN chat.said_at IS
    'When it was said, to the second; order by message_id too: it follows the conversation.';
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
DROP TABLE daily_messages, parting_messages, tool_results, conversation_summaries, messages,
    conversations;
DROP FUNCTION message_text;
"""


def upgrade():
    op.get_bind().connection.cursor().execute(UPGRADE)


def downgrade():
    op.get_bind().connection.cursor().execute(DOWNGRADE)
