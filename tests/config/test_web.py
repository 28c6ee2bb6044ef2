"""The page is for this machine unless somebody says who may read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.load import load
from rebalance_monitor.config.model import Settings

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "0123456789abcdef"  # noqa: S105 - of no service


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_loopback_needs_no_token(host: str) -> None:
    assert load(flags={"web.host": host}).web.secret() is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "monitor.example.com"])  # noqa: S104
def test_a_wider_address_is_refused_without_token_or_proxy(host: str) -> None:
    with pytest.raises(ConfigError, match=r"can be reached from other machines: set `token_file`"):
        load(flags={"web.host": host})
    assert load(flags={"web.host": host, "web.token": TOKEN}).web.secret() == TOKEN
    assert load(flags={"web.host": host, "web.proxies": ["10.0.0.0/8"]}).web.proxies == ("10.0.0.0/8",)


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ({"web.host": "127.0.0.1"}, ""),
        ({"web.host": "0.0.0.0"}, ""),  # noqa: S104
        ({"web.host": "::"}, ""),
        ({"web.host": "10.0.0.7"}, "http://10.0.0.7:8377"),
        ({"web.host": "fd00::7", "web.port": 80}, "http://[fd00::7]:80"),
        ({"web.host": "monitor.example.com"}, "http://monitor.example.com:8377"),
        ({"web.host": "10.0.0.7", "web.port": 0}, ""),
        ({"web.host": "10.0.0.7", "web.proxies": ["10.0.0.0/8"]}, ""),
        (
            {"web.host": "10.0.0.7", "web.url": "https://monitor.example/kafka/"},
            "https://monitor.example/kafka",
        ),
        ({"web.url": "https://monitor.example", "web.enabled": False}, ""),
    ],
)
def test_other_machines_open_the_page_at_its_url_or_at_an_address_that_they_reach(
    given: dict[str, object], address: str
) -> None:
    assert load(flags={"web.token": TOKEN, **given}).web.address == address


def test_a_short_token_a_second_token_and_a_proxy_without_address_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("short\n", encoding="utf-8")
    for flags in (
        {"web.token": "short"},
        {"web.token": TOKEN, "web.token_file": str(path)},
        {"web.proxies": ["nginx"]},
        {"web.url": "javascript:alert(1)"},
        {"web.proxy_header": "X-User: me"},
    ):
        with pytest.raises(ConfigError):
            load(flags=flags)
    with pytest.raises(ValueError, match="at least 16"):
        load(flags={"web.token_file": str(path)}).web.secret()


def test_the_token_of_a_file_is_read_without_its_line_end(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n", encoding="utf-8")
    assert load(flags={"web.token_file": str(path)}).web.secret() == TOKEN


def test_the_token_is_never_shown() -> None:
    settings = Settings(web={"token": TOKEN})  # type: ignore[arg-type]  # pydantic reads the mapping
    assert TOKEN not in repr(settings) + str(settings.redacted())
