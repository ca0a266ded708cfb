"""PostgreSQL: the pool, locks, migrations, settings in the database, the embedded server."""
