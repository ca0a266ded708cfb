"""Alembic's entry: the connection comes from ``src/storage/migrations.py``."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, transaction_per_migration=True)
with context.begin_transaction():
    context.run_migrations()
