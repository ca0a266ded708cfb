"""The admin pages: sessions that ended, and in the audit whose session it was."""

from alembic import op

revision = "0108"
down_revision = "0107"

DOOR = """
CREATE TABLE admin_logouts (
    session_id text PRIMARY KEY,
    ended_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE admin_logouts IS
    'Sessions of the admin page that somebody has ended, as long as their cookies would hold.';
COMMENT ON COLUMN admin_logouts.session_id IS 'What the signed cookie says.';
COMMENT ON COLUMN admin_logouts.ended_at IS 'When they logged out.';

ALTER TABLE admin_actions ADD who text NOT NULL DEFAULT '';
COMMENT ON COLUMN admin_actions.who IS
    'operator or reader, and the beginning of the session''s name; empty: nobody was inside.';
CREATE INDEX admin_actions_inside ON admin_actions (id) WHERE action <> 'wrong password';
"""
DOWN_DOOR = """
DROP TABLE admin_logouts;
DROP INDEX admin_actions_inside;
ALTER TABLE admin_actions DROP who;
"""


def upgrade():
    op.get_bind().connection.cursor().execute(DOOR)


def downgrade():
    op.get_bind().connection.cursor().execute(DOWN_DOOR)
