"""The admin page: what operators did, and what models cost."""

from alembic import op

revision = "0021"
down_revision = "0020"

UPGRADE = """
CREATE TABLE admin_actions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    done_at timestamptz NOT NULL DEFAULT now(),
    address text NOT NULL,
    action text NOT NULL,
    target text NOT NULL DEFAULT ''
);
COMMENT ON TABLE admin_actions IS
    'What operators did on the admin page: what, to which id, from where; no text of users.';

CREATE TABLE model_prices (
    model text PRIMARY KEY CHECK (model ~ '^[^[:space:]]{1,200}$'),
    prompt numeric(14, 6) NOT NULL DEFAULT 0 CHECK (prompt >= 0),
    cached numeric(14, 6) NOT NULL DEFAULT 0 CHECK (cached >= 0),
    completion numeric(14, 6) NOT NULL DEFAULT 0 CHECK (completion >= 0)
);
COMMENT ON TABLE model_prices IS
    'Prices of a million tokens, by models as in model_usage, in whatever currency.';
"""

DOWNGRADE = """
DROP TABLE model_prices;
DROP TABLE admin_actions;
"""


def upgrade():
    op.execute(UPGRADE)


def downgrade():
    op.execute(DOWNGRADE)
