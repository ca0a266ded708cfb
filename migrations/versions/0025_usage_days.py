"""Usage by day, summed up once the day is over."""

from alembic import op

revision = "0025"
down_revision = "0024"

UPGRADE = """
CREATE TABLE model_usage_days (
    day date NOT NULL,
    model text NOT NULL,
    is_batch boolean NOT NULL,
    class integer NOT NULL,
    calls bigint NOT NULL,
    prompt bigint NOT NULL,
    cached bigint NOT NULL,
    completion bigint NOT NULL,
    uncached bigint NOT NULL,
    PRIMARY KEY (day, model, is_batch, class)
);
COMMENT ON TABLE model_usage_days IS
    'Tokens of all users by day (of TIMEZONE) and model, of days that are over.';
COMMENT ON COLUMN model_usage_days.class IS
    'Of calls that took about exp(class / 50) milliseconds.';
"""

DOWNGRADE = """
DROP TABLE model_usage_days;
"""


def upgrade():
    op.execute(UPGRADE)


def downgrade():
    op.execute(DOWNGRADE)
