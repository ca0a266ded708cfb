"""Full-text search in a user's own messages, in Russian, Ukrainian and English.

PostgreSQL's ``russian`` configuration stems Cyrillic words as Russian and Latin words as English.
There is no Ukrainian one, so every word is also indexed as it stands (``simple``), which the query
matches by prefix.
"""

from alembic import op

revision = "0005"
down_revision = "0004"

UPGRADE = r"""
CREATE FUNCTION message_text(content text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
RETURN regexp_replace(content, '^\[Текущее время: [0-9: -]+\] ', '');
COMMENT ON FUNCTION message_text IS 'A stored message without its time label.';

CREATE FUNCTION message_terms(content text) RETURNS tsvector
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
RETURN to_tsvector('russian', left(message_text(content), 100000))
    || to_tsvector('simple', left(message_text(content), 100000));

CREATE EXTENSION IF NOT EXISTS btree_gin;
CREATE INDEX messages_by_terms ON messages USING gin (conversation_id, message_terms(content))
    WHERE role = 'user';
"""

DOWNGRADE = """
DROP INDEX messages_by_terms;
DROP FUNCTION message_terms;
DROP FUNCTION message_text;
"""


def upgrade():
    op.execute(UPGRADE)


def downgrade():
    op.execute(DOWNGRADE)
