"""Connections of other assistants to a person's memory, and the page outside Telegram.

What begins with ``COMMENT ON`` is what an operator reads in ``psql`` with ``\\d+``.
"""

from alembic import op

revision = "0209"
down_revision = "0208"

UPGRADE = r"""
CREATE TABLE memory_tokens (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id bigint NOT NULL REFERENCES owners ON DELETE CASCADE,
    name text NOT NULL,
    token_hash bytea NOT NULL UNIQUE,
    may_remember boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    last_used_at timestamptz
);
CREATE INDEX memory_tokens_by_owner ON memory_tokens (owner_id, id);
COMMENT ON TABLE memory_tokens IS
    'Connections of other assistants to a person''s memory (/connect), one token each.';
COMMENT ON COLUMN memory_tokens.id IS 'Its number, also in the log.';
COMMENT ON COLUMN memory_tokens.owner_id IS 'Whose memory it opens.';
COMMENT ON COLUMN memory_tokens.name IS 'The person''s name for it, such as Claude Code.';
COMMENT ON COLUMN memory_tokens.token_hash IS
    'SHA-256 of the token; the token itself is shown once and stored nowhere.';
COMMENT ON COLUMN memory_tokens.may_remember IS
    'Whether the assistant may also store facts; else it only reads.';
COMMENT ON COLUMN memory_tokens.created_at IS 'When it was made.';
COMMENT ON COLUMN memory_tokens.last_used_at IS 'When it last called, to the minute; NULL: never.';

CREATE TABLE page_sessions (
    id uuid DEFAULT gen_random_uuid() PRIMARY KEY,
    owner_id bigint NOT NULL REFERENCES owners ON DELETE CASCADE,
    link_hash bytea UNIQUE,
    opened_at timestamptz,
    ends_at timestamptz NOT NULL,
    CHECK ((link_hash IS NULL) = (opened_at IS NOT NULL))
);
CREATE INDEX page_sessions_by_owner ON page_sessions (owner_id, ends_at);
COMMENT ON TABLE page_sessions IS
    'Browsers outside Telegram that show a person''s page (/page), and links that open it once.';
COMMENT ON COLUMN page_sessions.id IS 'Its name in the signed cookie.';
COMMENT ON COLUMN page_sessions.owner_id IS 'Whose page it is.';
COMMENT ON COLUMN page_sessions.link_hash IS
    'SHA-256 of the token in the link; NULL once the link was used.';
COMMENT ON COLUMN page_sessions.opened_at IS 'When the link was used; NULL: not yet.';
COMMENT ON COLUMN page_sessions.ends_at IS 'Until when the link or the session is valid.';

ALTER TABLE memories DROP CONSTRAINT memories_origin_check;
ALTER TABLE memories ADD CONSTRAINT memories_origin_check
    CHECK (origin IN ('tool', 'teach', 'command', 'extraction', 'connected'));
COMMENT ON COLUMN memories.origin IS
    'How it came here: tool (the model saved it), teach (strict mode), command (/remember), '
    'extraction (a background job read the messages), connected (another assistant stored it, '
    'whose name is in speaker).';
COMMENT ON COLUMN facts.origin IS
    'How it came here: tool (the model saved it), teach (strict mode), command (/remember), '
    'extraction (a background job read the messages), connected (another assistant stored it, '
    'whose name is in speaker).';
"""

# Facts of other assistants stay, as extracted ones.
DOWNGRADE = """
UPDATE memories SET origin = 'extraction' WHERE origin = 'connected';
ALTER TABLE memories DROP CONSTRAINT memories_origin_check;
ALTER TABLE memories ADD CONSTRAINT memories_origin_check
    CHECK (origin IN ('tool', 'teach', 'command', 'extraction'));
DROP TABLE page_sessions, memory_tokens;
"""


def upgrade():
    op.get_bind().connection.cursor().execute(UPGRADE)


def downgrade():
    op.get_bind().connection.cursor().execute(DOWNGRADE)
