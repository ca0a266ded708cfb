"""Statements that the server plans once per connection."""

from __future__ import annotations

from collections.abc import Mapping


class PreparedStatement:
    """A long statement whose planning takes as long as a good part of its run.

    Attributes:
        name: Its name on the server.
        sql: The statement, with ``%(parameter)s`` as everywhere.
        prepare: What tells the server about it.
        execute: What runs it afterwards, with the same parameters.
    """

    def __init__(self, name: str, sql: str, types: Mapping[str, str]) -> None:
        """Prepare ``sql``; ``types`` are PostgreSQL's names for the types of its parameters."""
        self.name = name
        self.sql = sql
        places = {parameter: f"${number}" for number, parameter in enumerate(types, start=1)}
        self.prepare = f"PREPARE {name} ({', '.join(types.values())}) AS {sql % places}"
        values = ", ".join(f"%({parameter})s::{type_}" for parameter, type_ in types.items())
        self.execute = f"EXECUTE {name} ({values})"
