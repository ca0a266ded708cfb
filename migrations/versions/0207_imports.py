"""Imports: what people bring from elsewhere, and where it is kept.

What begins with ``COMMENT ON`` is what an operator reads in ``psql`` with ``\\d+``.
"""

from alembic import op

revision = "0207"
down_revision = "0206"

UPGRADE = r"""
CREATE TABLE imports (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id bigint NOT NULL REFERENCES owners ON DELETE CASCADE,
    source text NOT NULL,
    name text NOT NULL,
    state text NOT NULL DEFAULT 'reading'
        CHECK (state IN ('reading', 'waiting', 'storing', 'done', 'undoing')),
    reads_facts boolean NOT NULL DEFAULT false,
    keeps_memories boolean,
    own_name text,
    names jsonb NOT NULL DEFAULT '{}',
    days_first boolean,
    broken jsonb NOT NULL DEFAULT '[]',
    total integer NOT NULL DEFAULT 0,
    chat_id bigint,
    thread_id bigint NOT NULL DEFAULT 0,
    telegram_message_id bigint,
    language text NOT NULL DEFAULT 'en',
    created_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz
);
CREATE INDEX imports_by_owner ON imports (owner_id, id DESC);
CREATE INDEX imports_under_way ON imports (id) WHERE finished_at IS NULL;
COMMENT ON TABLE imports IS
    'Files that users brought with /import, or an operator with bot.py import.';
COMMENT ON COLUMN imports.id IS 'Its number.';
COMMENT ON COLUMN imports.owner_id IS 'Whose they are.';
COMMENT ON COLUMN imports.source IS
    'Where it comes from: chatgpt, claude, telegram, whatsapp, notes, list, mem0 or pomni.';
COMMENT ON COLUMN imports.name IS 'The name of the file.';
COMMENT ON COLUMN imports.state IS
    'reading (the file is being read), waiting (for the user''s choice), storing (a job stores '
    'it), done, undoing (a job takes it back; the row goes last).';
COMMENT ON COLUMN imports.reads_facts IS 'Whether its messages are read for facts.';
COMMENT ON COLUMN imports.keeps_memories IS
    'Whether the user wants what another assistant remembered kept as facts; NULL: undecided.';
COMMENT ON COLUMN imports.own_name IS
    'Which of the speakers of a chat the user is, as in import_rows.who; NULL: not known yet.';
COMMENT ON COLUMN imports.names IS 'Speakers of a chat by import_rows.who, as they are shown.';
COMMENT ON COLUMN imports.days_first IS
    'Whether dates are day/month; false: month/day. NULL: the user has to say.';
COMMENT ON COLUMN imports.broken IS 'Titles of conversations that could not be read.';
COMMENT ON COLUMN imports.total IS 'Rows to store, for the progress.';
COMMENT ON COLUMN imports.chat_id IS 'The Telegram chat that shows the progress, or NULL.';
COMMENT ON COLUMN imports.thread_id IS 'The topic in that chat, or 0.';
COMMENT ON COLUMN imports.telegram_message_id IS 'The message that shows it.';
COMMENT ON COLUMN imports.language IS 'Language of that message.';
COMMENT ON COLUMN imports.created_at IS 'When the file came.';
COMMENT ON COLUMN imports.finished_at IS 'When all of it was stored, and that was shown.';

CREATE TABLE import_rows (
    import_id bigint REFERENCES imports ON DELETE CASCADE,
    number integer,
    kind text NOT NULL
        CHECK (kind IN ('message', 'memory', 'fact', 'reminder', 'summary', 'settings')),
    source text NOT NULL,
    conversation text NOT NULL,
    title text NOT NULL,
    source_id text NOT NULL,
    who text NOT NULL DEFAULT '',
    said_at timestamptz NOT NULL,
    text text NOT NULL,
    details jsonb NOT NULL DEFAULT '{}',
    stored_id bigint,
    is_new boolean NOT NULL DEFAULT false,
    PRIMARY KEY (import_id, number),
    CONSTRAINT import_rows_once UNIQUE (import_id, kind, source, source_id)
);
CREATE INDEX import_rows_to_store ON import_rows (import_id, kind, number)
    WHERE stored_id IS NULL;
COMMENT ON TABLE import_rows IS
    'What a file holds, until it is stored; afterwards only the numbers of what came of it.';
COMMENT ON COLUMN import_rows.import_id IS 'The import, with which it goes.';
COMMENT ON COLUMN import_rows.number IS 'Its place in the file.';
COMMENT ON COLUMN import_rows.kind IS
    'message; memory (what another assistant remembered); and of an export of this bot fact, '
    'reminder, summary, settings.';
COMMENT ON COLUMN import_rows.source IS 'Its format, as in imports.source.';
COMMENT ON COLUMN import_rows.conversation IS 'The conversation, as the source calls it.';
COMMENT ON COLUMN import_rows.title IS 'The title of that conversation.';
COMMENT ON COLUMN import_rows.source_id IS 'The message, as the source calls it.';
COMMENT ON COLUMN import_rows.who IS
    'Who wrote it: empty for the user, else a speaker of a chat in which nobody is known to be '
    'the user yet.';
COMMENT ON COLUMN import_rows.said_at IS 'When it was written.';
COMMENT ON COLUMN import_rows.text IS 'The words; empty once they are stored.';
COMMENT ON COLUMN import_rows.details IS 'Other columns of a row of an export of this bot.';
COMMENT ON COLUMN import_rows.stored_id IS
    'The message, fact or reminder that came of it; NULL: nothing yet; 0: nothing.';
COMMENT ON COLUMN import_rows.is_new IS 'False where the same was there before the import.';

CREATE SEQUENCE imported_conversations;

ALTER TABLE conversations ADD COLUMN import_id bigint REFERENCES imports ON DELETE CASCADE;
ALTER TABLE conversations ADD COLUMN source_id text;
ALTER TABLE conversations ADD COLUMN title text;
CREATE UNIQUE INDEX conversations_imported_once ON conversations (import_id, source_id)
    WHERE import_id IS NOT NULL;
COMMENT ON COLUMN conversations.import_id IS
    'The import that brought it; such a conversation is only searched, and outlives /new.';
COMMENT ON COLUMN conversations.source_id IS 'Of an import: what the source calls it.';
COMMENT ON COLUMN conversations.title IS 'Of an import: its title there.';
COMMENT ON COLUMN conversations.thread_id IS
    'The topic of a forum group or of a private chat, else 0; below 0: an imported one.';

ALTER TABLE messages ADD COLUMN import_owner_id bigint;
ALTER TABLE messages ADD COLUMN import_source text;
ALTER TABLE messages ADD COLUMN import_source_id text;
CREATE UNIQUE INDEX messages_imported_once
    ON messages (import_owner_id, import_source, import_source_id)
    WHERE import_owner_id IS NOT NULL;
COMMENT ON COLUMN messages.import_owner_id IS
    'Of an imported message: its owner, for whom a message of a source is stored once.';
COMMENT ON COLUMN messages.import_source IS 'Of an imported message: as in imports.source.';
COMMENT ON COLUMN messages.import_source_id IS 'Of an imported message: what the source calls it.';

ALTER TABLE messages DROP CONSTRAINT messages_provenance_check;
ALTER TABLE messages ADD CONSTRAINT messages_provenance_check
    CHECK (provenance IN ('typed', 'forwarded', 'bot', 'file', 'imported'));
COMMENT ON COLUMN messages.provenance IS
    'Whose words they are: typed by the sender; forwarded; of another bot; of a file; imported '
    '(the user''s own, written elsewhere).';
COMMENT ON COLUMN messages.origin IS
    'The name of the author of forwarded words, or of the program from which they are imported.';
"""

# Imported messages stay, as typed ones.
DOWNGRADE = """
UPDATE messages SET provenance = 'typed', origin = NULL WHERE provenance = 'imported';
ALTER TABLE messages DROP CONSTRAINT messages_provenance_check;
ALTER TABLE messages ADD CONSTRAINT messages_provenance_check
    CHECK (provenance IN ('typed', 'forwarded', 'bot', 'file'));
ALTER TABLE messages DROP COLUMN import_owner_id, DROP COLUMN import_source,
    DROP COLUMN import_source_id;
ALTER TABLE conversations DROP COLUMN import_id, DROP COLUMN source_id, DROP COLUMN title;
DROP SEQUENCE imported_conversations;
DROP TABLE import_rows, imports;
"""


def upgrade():
    op.get_bind().connection.cursor().execute(UPGRADE)


def downgrade():
    op.get_bind().connection.cursor().execute(DOWNGRADE)
