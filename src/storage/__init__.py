"""PostgreSQL: the client, the embedded server, migrations and one repository per table family."""
