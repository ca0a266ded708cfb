"""Addresses: what libpq would refuse is refused in our words; which proxy leads where."""

from __future__ import annotations

import pytest
from psycopg2.extensions import parse_dsn

from src.base.addresses import find_url_problem
from src.base.errors import StorageUnavailableError
from src.pg.client import connect, connect_failure
from tests.attacks.database_urls import attack
from tests.unit.settings_environment import load, problems

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


@pytest.mark.parametrize("url", GOOD)
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
    if any(f"CAN{sign}ARY@" in url for sign in "@/?%"):
        assert "percent-encoded" in line


@pytest.mark.parametrize("query", ["pgbouncer=true", "schema=public", "sslmode=require&pool=5"])
def test_a_parameter_of_another_client_is_told_as_that(query: str) -> None:
    problem = find_url_problem(f"postgresql://u:p@h:6543/db?{query}")
    assert problem is not None and "does not know a parameter" in problem


@pytest.mark.parametrize("name", BAD_VALUES)
def test_a_value_that_libpq_does_not_know_is_quoted_by_nobody(name: str) -> None:
    with pytest.raises(StorageUnavailableError, match="libpq refuses the address") as caught:
        connect(f"postgresql://u:p@127.0.0.1:1/db?{name}=CANARY")
    assert "CANARY" not in str(caught.value) and caught.value.__cause__ is None


AT = 'connection to server at "10.0.0.5", port 5432 failed: '


@pytest.mark.parametrize(("message", "told"), [
    (f'{AT}FATAL:  too many connections for role "pomni"', "no free connection"),
    (f'{AT}FATAL:  role "pomni" does not exist', "no such user"),
    (f"{AT}No route to host", "nothing listens"),
    (f"{AT}Network is unreachable", "nothing listens"),
    (f"{AT}received invalid response to SSL negotiation: H", "is no PostgreSQL"),
    (f"{AT}server closed the connection unexpectedly", "breaks off"),
    (f"{AT}server does not support SSL, but SSL was required", "TLS"),
])  # fmt: skip
def test_what_libpq_says_is_told_in_our_words(message: str, told: str) -> None:
    assert told in str(connect_failure(Exception(message)))


def test_no_piece_of_a_password_is_printed_on_the_way_to_the_database() -> None:
    found = attack(40, seed=8)
    assert found["leaked"] == 0, found["leaks"]
    assert set(found["statuses"]) == {"1", "2"}  # type: ignore[call-overload]


def test_a_database_url_wins_over_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    address = "postgresql://u:p%40ss@h1:5432,h2:5433/db?sslmode=disable"
    settings = load(monkeypatch, DATABASE_URL=address, PG_HOST="elsewhere")
    assert settings.database_dsn == address and not settings.uses_embedded_database


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


FAR, NEAR = "https://api.example.org/v1", "http://127.0.0.1:11434/v1"


def test_own_proxies_come_before_shared_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = {"https_proxy": "proxy.example.org:3128", "ALL_PROXY": "socks://127.0.0.1:1080/"}
    settings = load(monkeypatch, TELEGRAM_PROXY="socks5h://t:1", **shared)
    assert settings.telegram_proxy_to(FAR) == settings.telegram_proxy_to(NEAR) == "socks5://t:1"
    assert settings.model_proxy_to(FAR) == "http://proxy.example.org:3128"
    assert settings.model_proxy_to("http://10.1.1.1/v1") == "socks5://127.0.0.1:1080"
    assert settings.model_proxy_to(NEAR) is None, "a shared proxy does not lead back to here"
    assert load(monkeypatch).model_proxy_to(FAR) is None


@pytest.mark.parametrize(("listed", "is_direct"), [
    ("*", True), ("a,*", True), ("api.example.org", True), (".example.org", True),
    ("*.example.org", True), ("EXAMPLE.org", True), ("api.example.org:443", False),
    ("ample.org", False), ("10.0.0.0/8", False), ("", False),
])  # fmt: skip
def test_hosts_of_no_proxy_are_called_directly(
    monkeypatch: pytest.MonkeyPatch, listed: str, is_direct: bool
) -> None:
    for name in ("MODEL_PROXY", "ALL_PROXY"):
        settings = load(monkeypatch, NO_PROXY=listed, **{name: "http://p:1"})
        assert (settings.model_proxy_to(FAR) is None) == is_direct
    settings = load(monkeypatch, NO_PROXY="127.0.0.0/8", MODEL_PROXY="http://p:1")
    assert settings.model_proxy_to(NEAR) is None


@pytest.mark.parametrize("value", [
    "socks5://u:TOP/SECRET@h:1", "socks5://u:12?SECRET@h:1", "socks5://u:12#SECRET@h:1",
    "tg://socks?server=SECRET", "http://u:SECRET@h:0", "h:1", "socks5://:1",
])  # fmt: skip
def test_a_malformed_proxy_is_one_line_without_its_value(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    [line] = problems(monkeypatch, TELEGRAM_PROXY=value)
    assert line.startswith("TELEGRAM_PROXY: it is not the address of a proxy. Write http://")
    assert "SECRET" not in line


def test_the_log_redacts_a_password_in_both_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(monkeypatch, MODEL_PROXY="http://u:p@ss%2Fw0rd@h:1")
    assert settings.model_proxy_to(FAR) == "http://u:p%40ss%2Fw0rd@h:1"
    assert {"p@ss/w0rd", "p%40ss%2Fw0rd"} <= set(settings.secrets())
    assert "w0rd" not in repr(settings)
