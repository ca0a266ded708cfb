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

UNDO = "ALTER TABLE owners DROP name, DROP username, DROP seen_at, DROP blocked_at"


def upgrade():
    op.get_bind().connection.cursor().execute(PEOPLE)


def downgrade():
    op.get_bind().connection.cursor().execute(UNDO)
