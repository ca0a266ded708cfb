"""What an operator knows people by: their names in Telegram, when they wrote; who is blocked."""

from alembic import op

revision = "0111"
down_revision = "0110"

PEOPLE = """
ALTER TABLE owners ADD name text, ADD username text, ADD seen_at timestamptz,
                   ADD blocked_at timestamptz;
UPDATE owners o SET seen_at = coalesce(
    (SELECT max(m.created_at) FROM conversations c CROSS JOIN LATERAL (
         SELECT created_at FROM messages WHERE conversation_id = c.id
         ORDER BY created_at DESC LIMIT 1) AS m
     WHERE c.owner_id = o.id), o.created_at);
ALTER TABLE owners ALTER seen_at SET DEFAULT now(), ALTER seen_at SET NOT NULL;
CREATE INDEX owners_by_seen ON owners (seen_at DESC, id);
CREATE INDEX owners_by_name ON owners (lower(name), id);
CREATE INDEX owners_blocked ON owners (telegram_user_id) WHERE blocked_at IS NOT NULL;
COMMENT ON COLUMN owners.name IS
    'What they are called in Telegram: first and last name, or a group''s title; NULL: unknown.';
COMMENT ON COLUMN owners.username IS 'Their name behind @ in Telegram; NULL: none.';
COMMENT ON COLUMN owners.seen_at IS
    'When an update of theirs was last handled, within ten minutes.';
COMMENT ON COLUMN owners.blocked_at IS
    'Since when nothing of theirs is stored, and nothing sent, as an operator wants it; or NULL.';
"""

# Whoever handles an update, and in whatever statement: it says what its chat is called, which of a
# person is their name. Nobody is added.
CALLED = """
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

UNDO = """
DROP TRIGGER telegram_updates_note_owner ON telegram_updates;
DROP FUNCTION note_owner;
ALTER TABLE owners DROP name, DROP username, DROP seen_at, DROP blocked_at;
"""


def upgrade():
    cursor = op.get_bind().connection.cursor()
    for part in (PEOPLE, CALLED):
        cursor.execute(part)


def downgrade():
    op.get_bind().connection.cursor().execute(UNDO)
