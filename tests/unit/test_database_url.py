"""``DATABASE_URL``: what libpq would refuse is refused in our words, without a piece of it."""

from __future__ import annotations

import pytest
from psycopg2.extensions import parse_dsn

from src.base.addresses import find_url_problem
from src.base.errors import StorageUnavailableError
from src.pg.connection import connect
from tests.attacks.database_urls import attack
from tests.cases import for_each
from tests.unit.settings_environment import problems

GOOD = [
    "postgresql://u:p%40ss@db.example.org:5432/name?sslmode=verify-full",
    "postgresql://",
    "postgresql:///name?host=/run/pg&port=5433",
    "postgresql://u:p@[2001:db8::1]:5432,h2/db?target_session_attrs=read-write",
    "postgresql://u:pa:ss#word@h/db?application_name=a%20b",
    "postgresql://u@h/%D0%B1%D0%B0%D0%B7%D0%B0?options=-c%20geqo%3Doff",
]
BAD = [
    "mysql://u:CANARY@h/db", "postgresql://u:CAN@ARY@h/db", "postgresql://u:CAN/ARY@h/db",
    "postgresql://u:CAN?ARY@h/db", "postgresql://u:CAN%ARY@h/db", "postgresql://u:CANARY%00@h/db",
    "postgresql://u:CAN ARY@h/db", "postgresql://u:CAN\nARY@h/db", "postgresql://u:p@h:CANARY/db",
    "postgresql://u:p@h:0/db", "postgresql://u:p@[CANARY]/db", "postgresql://u:p@h/db/CANARY",
    "postgresql://:CANARY@h/db", "postgresql://u:p@h/db?sslmode", "postgresql://u:p@h/db?CANARY=1",
    "postgresql://u:p@h/db?host=a?b", "CANARY",
]  # fmt: skip


# What ``parse_dsn`` takes, and ``connect`` does not.
BAD_VALUES = ["sslmode", "port", "gssencmode", "target_session_attrs", "sslcertmode"]


@for_each("url", GOOD)
def test_what_libpq_takes_is_taken(url: str) -> None:
    assert find_url_problem(url) is None
    parse_dsn(url)


@pytest.mark.parametrize("url", BAD)
def test_what_libpq_would_quote_is_refused_without_a_piece_of_it(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    [line] = problems(monkeypatch, DATABASE_URL=url)
    assert line.startswith("DATABASE_URL: ") and "\n" not in line
    assert not any(piece in line for piece in ("CAN", "ARY"))


@for_each("name", BAD_VALUES)
def test_a_value_that_libpq_does_not_know_is_quoted_by_nobody(name: str) -> None:
    with pytest.raises(StorageUnavailableError, match="libpq refuses the address") as caught:
        connect(f"postgresql://u:p@127.0.0.1:1/db?{name}=CANARY")
    assert "CANARY" not in str(caught.value) and caught.value.__cause__ is None


@pytest.mark.parametrize("sign", "@/?%")
def test_a_special_character_in_the_password_is_advised_to_be_percent_encoded(
    monkeypatch: pytest.MonkeyPatch, sign: str
) -> None:
    [line] = problems(monkeypatch, DATABASE_URL=f"postgresql://u:hunt{sign}er22@h:5432/db")
    assert "percent-encoded" in line and "hunt" not in line and "er22" not in line


def test_no_piece_of_a_password_is_printed_on_the_way_to_the_database() -> None:
    found = attack(40, seed=8)
    assert found["leaked"] == 0, found["leaks"]
    assert set(found["statuses"]) == {"1", "2"}  # type: ignore[call-overload]
