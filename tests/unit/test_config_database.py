"""Which database the settings name: ``DATABASE_URL``, its parts, or the embedded one."""

from __future__ import annotations

import pytest
from psycopg2.extensions import parse_dsn

from tests.unit.settings_environment import load, problems


def test_a_database_url_wins_over_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    address = "postgresql://u:p%40ss@h1:5432,h2:5433/db?sslmode=disable"
    settings = load(monkeypatch, DATABASE_URL=address, PG_HOST="elsewhere")
    assert settings.database_dsn == address and not settings.uses_embedded_database


@pytest.mark.parametrize("address", [
    "postgres://h/db", "postgresql:///db?host=/tmp", "postgresql://u:p@[::1]:5432/db",
    "postgresql://u:p[w:d@h/db", "postgresql://%2Frun%2Fpg/db",
])  # fmt: skip
def test_each_form_of_database_url_is_taken(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    assert parse_dsn(load(monkeypatch, DATABASE_URL=address).database_dsn or "")


@pytest.mark.parametrize("password", ["Жук%zz", "hun/ter2", "hun?ter2"])
def test_a_password_that_libpq_would_quote_is_refused_unquoted(
    monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    [line] = problems(monkeypatch, DATABASE_URL=f"postgresql://u:{password}@host:5432/db")
    assert line.startswith("DATABASE_URL: write special characters")
    assert not any(part in line for part in ("Жук", "hun", "ter2"))


def test_one_part_is_enough_to_name_a_database(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(monkeypatch, PG_HOST="db.local")
    assert parse_dsn(settings.database_dsn or "") == {
        "user": "postgres", "host": "db.local", "port": "5432", "dbname": "ai_db",
    }  # fmt: skip


@pytest.mark.parametrize("password", ["p@ss:w/rd?#[]%", "пароль 'в' \"кавычках\"", "a\\b&c=d+e"])
def test_special_characters_of_the_parts_reach_libpq_unchanged(
    monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    settings = load(monkeypatch, PG_PASSWORD=password, PG_USER="us@er", PG_DB="d/b", PG_HOST="::1")
    assert parse_dsn(settings.database_dsn or "") == {
        "user": "us@er",
        "password": password,
        "host": "::1",
        "port": "5432",
        "dbname": "d/b",
    }


def test_a_socket_s_folder_is_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(monkeypatch, PG_HOST="/var/run/postgresql", PG_PORT="5433")
    found = parse_dsn(settings.database_dsn or "")
    assert (found["host"], found["port"]) == ("/var/run/postgresql", "5433")
