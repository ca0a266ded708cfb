"""Codes of doors and passwords of a wifi, kept on request: facts of the kind ``private``.

Such a fact's text has a mask in the place of the secret, and so has all that is made of it; the
secret stands in a column of its own.
"""

from alembic import op

revision = "0108"
down_revision = "0107"

UPGRADE = """
ALTER TABLE memories DROP CONSTRAINT memories_memory_type_check;
ALTER TABLE memories ADD private_text text,
    ADD CONSTRAINT memories_memory_type_check CHECK (memory_type IN
        ('user_fact', 'preference', 'event', 'conversation_insight', 'private')),
    ADD CONSTRAINT memories_private_text CHECK
        ((memory_type = 'private') = (private_text IS NOT NULL));
COMMENT ON COLUMN memories.private_text IS
    'Of a private fact: the text with the code or password, shown only when it is asked for.';
COMMENT ON COLUMN memories.memory_type IS
    'user_fact, preference, event (with a date), conversation_insight (what talks show), or '
    'private (the code of a door, kept on request; masked in the text).';
COMMENT ON COLUMN facts.memory_type IS
    'user_fact, preference, event (with a date), conversation_insight (what talks show), or '
    'private (the code of a door, kept on request; masked in the text).';
CREATE VIEW private_facts AS SELECT id, private_text FROM memories WHERE private_text IS NOT NULL;
COMMENT ON VIEW private_facts IS 'What private facts say; the view facts has a mask there.';
COMMENT ON COLUMN private_facts.id IS 'memories.id.';
COMMENT ON COLUMN private_facts.private_text IS 'The fact with its code or password.';
"""

# Before it there were no such facts.
DOWNGRADE = """
DROP VIEW private_facts;
DELETE FROM memories WHERE memory_type = 'private';
ALTER TABLE memories DROP CONSTRAINT memories_memory_type_check,
    DROP CONSTRAINT memories_private_text, DROP private_text;
ALTER TABLE memories ADD CONSTRAINT memories_memory_type_check CHECK (memory_type IN
    ('user_fact', 'preference', 'event', 'conversation_insight'));
COMMENT ON COLUMN memories.memory_type IS
    'user_fact, preference, event (with a date), or conversation_insight (what talks show).';
COMMENT ON COLUMN facts.memory_type IS
    'user_fact, preference, event (with a date), or conversation_insight (what talks show).';
"""


def upgrade():
    op.get_bind().connection.cursor().execute(UPGRADE)


def downgrade():
    op.get_bind().connection.cursor().execute(DOWNGRADE)
