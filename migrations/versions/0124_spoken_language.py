"""The language that a person writes in is kept, and until when refusals are not repeated."""

from alembic import op

revision = "0124"
down_revision = "0121"

SPOKEN = """
ALTER TABLE user_settings ADD COLUMN spoken_language text;
COMMENT ON COLUMN user_settings.spoken_language IS
    'Language of the last message of some length: the bot''s sentences follow it unless '
    'language is chosen. NULL: none was clear yet.';
ALTER TABLE user_settings ADD COLUMN refused_until timestamptz;
COMMENT ON COLUMN user_settings.refused_until IS
    'End of a limit that the user was told of; until then its refusal is not repeated.';
"""


def upgrade():
    op.get_bind().connection.cursor().execute(SPOKEN)


def downgrade():
    op.get_bind().connection.cursor().execute(
        "ALTER TABLE user_settings DROP COLUMN spoken_language, DROP COLUMN refused_until"
    )
