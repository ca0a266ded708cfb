"""Alembic's entry: the connection comes from ``src/pg/migrations.py``.

All migrations run in one transaction, so that one that fails leaves the database as it was.
"""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection)
with context.begin_transaction():
    context.run_migrations()
