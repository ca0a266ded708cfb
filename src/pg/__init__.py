"""PostgreSQL: connection pool, locks, migrations, stored settings and the embedded server."""
