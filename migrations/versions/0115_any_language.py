"""Languages are those of the program's sentences and lexicon: a new one needs no migration."""

from alembic import op

revision = "0115"
down_revision = "0114"

ANY = """
ALTER TABLE user_settings DROP CONSTRAINT user_settings_language_check,
    ADD CONSTRAINT user_settings_language_check CHECK (language ~ '^[a-z]{2,3}$');
ALTER TABLE embedding_means DROP CONSTRAINT embedding_means_language_check,
    ADD CONSTRAINT embedding_means_language_check CHECK (language ~ '^[a-z]{2,3}$');
COMMENT ON COLUMN embedding_means.language IS 'Of the texts, such as ru.';
COMMENT ON COLUMN memories.language IS 'That language, such as ru; NULL: unknown.';
"""

THREE = """
UPDATE user_settings SET language = NULL WHERE language NOT IN ('ru', 'uk', 'en');
DELETE FROM embedding_means WHERE language NOT IN ('ru', 'uk', 'en');
ALTER TABLE user_settings DROP CONSTRAINT user_settings_language_check,
    ADD CONSTRAINT user_settings_language_check CHECK (language IN ('ru', 'uk', 'en'));
ALTER TABLE embedding_means DROP CONSTRAINT embedding_means_language_check,
    ADD CONSTRAINT embedding_means_language_check CHECK (language IN ('ru', 'uk', 'en'));
COMMENT ON COLUMN embedding_means.language IS 'Of the texts: ru, uk or en.';
COMMENT ON COLUMN memories.language IS 'That language: ru, uk or en; NULL: unknown.';
"""


def upgrade():
    op.get_bind().connection.cursor().execute(ANY)


def downgrade():
    op.get_bind().connection.cursor().execute(THREE)
