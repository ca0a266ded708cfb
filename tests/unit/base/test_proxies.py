"""Proxies: which one leads to an address, and what their settings accept."""

from __future__ import annotations

import pytest

from tests.unit.settings_environment import load, problems

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
