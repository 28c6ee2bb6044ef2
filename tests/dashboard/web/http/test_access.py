"""Who may read: this machine, the token's holders, and whom a known proxy has signed in; nobody else."""

from __future__ import annotations

from contextlib import closing
from ipaddress import ip_network
from typing import TYPE_CHECKING

import pytest
from starlette.datastructures import Headers

from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.web import Web
from rebalance_monitor.dashboard.view.snapshot import Snapshot
from rebalance_monitor.dashboard.web.http.access import HEADERS, Access, access_of
from rebalance_monitor.dashboard.web.http.answers import HttpAnswers, Unanswered
from tests.dashboard.web.serving import served

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "correct-horse-battery"  # noqa: S105 - of no service
GUARDED = ("/api/v1/cluster", "/api/v1/groups", "/api/v1/events", "/api/v1/openapi.json", "/metrics")
OPEN = ("/", "/static/app.js", "/static/style.css", "/healthz")
BEHIND_PROXY = Access(proxy_header="X-Forwarded-User", proxies=(ip_network("127.0.0.0/8"),))


@pytest.mark.parametrize("path", GUARDED)
def test_with_a_token_nothing_that_names_a_group_is_answered_without_it(path: str) -> None:
    with served(Snapshot("lab"), access=Access(token=TOKEN)) as client:
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"}):
            answer = client.get(path, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert "groups" not in answer.text
        if path != "/api/v1/events":
            assert client.get(path, headers={"authorization": f"bearer {TOKEN}"}).status_code == 200


@pytest.mark.parametrize("path", OPEN)
def test_the_shell_without_data_and_the_health_check_are_open(path: str) -> None:
    with served(Snapshot("lab"), access=Access(token=TOKEN)) as client:
        assert client.get(path).status_code == 200


def test_a_proxy_is_believed_only_from_its_address_and_only_with_a_name() -> None:
    elsewhere = Access(proxy_header="X-Forwarded-User", proxies=(ip_network("10.9.0.0/16"),))
    signed = {"X-Forwarded-User": "ada"}
    with served(Snapshot("lab"), access=BEHIND_PROXY) as client:
        assert client.get("/api/v1/cluster", headers=signed).status_code == 200
        assert client.get("/api/v1/cluster", headers={"X-Forwarded-User": ""}).status_code == 403
        assert client.get("/api/v1/cluster").status_code == 403
    with served(Snapshot("lab"), access=elsewhere) as client:
        assert client.get("/api/v1/cluster", headers=signed).status_code == 403
        spoofed = {**signed, "X-Forwarded-For": "10.9.0.1"}
        assert client.get("/api/v1/cluster", headers=spoofed).status_code == 403


def test_a_proxy_is_known_by_its_address_on_a_socket_of_both_families() -> None:
    signed = Headers({"X-Forwarded-User": "ada"})
    assert BEHIND_PROXY.problem(signed, "::ffff:127.0.0.1") is None
    assert BEHIND_PROXY.problem(signed, "::ffff:10.9.0.1") is not None
    assert BEHIND_PROXY.problem(signed, "::1") is not None


def test_a_token_may_have_any_letters() -> None:
    token = "schlüssel-für-alle-✓"  # noqa: S105 - of no service
    with served(Snapshot("lab"), access=Access(token=token)) as client:
        with closing(HttpAnswers(str(client.base_url), token)) as answers:
            assert answers.ask("/cluster")["cluster"] == "lab"
        with closing(HttpAnswers(str(client.base_url), token + "!")) as answers, pytest.raises(Unanswered):
            answers.ask("/cluster")


@pytest.mark.parametrize("host", ["evil.example.com", "127.0.0.1.evil.example.com", "localhost.evil", ""])
def test_without_a_guard_only_names_of_this_machine_are_answered(host: str) -> None:
    with served(Snapshot("lab")) as client:
        assert client.get("/api/v1/cluster", headers={"host": host}).status_code in {400, 421}
        for name in ("localhost", "localhost:9999", "127.0.0.1"):
            assert client.get("/api/v1/cluster", headers={"host": name}).status_code == 200


def test_every_answer_carries_the_policy() -> None:
    with served(Snapshot("lab"), access=Access(token=TOKEN)) as client:
        for path in (*OPEN, *GUARDED, "/nothing"):
            headers = client.get(path).headers
            assert {name: headers[name] for name in HEADERS} == HEADERS
            assert "server" not in headers
    assert "unsafe" not in HEADERS["content-security-policy"]


def test_the_configuration_becomes_the_guard(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n", encoding="utf-8")
    web = Web(host="0.0.0.0", token_file=path, proxies=("10.0.0.0/8",), url="https://rebalance.example.com")  # noqa: S104 - refused without the token
    access = access_of(web)
    assert (access.token, access.proxies) == (TOKEN, (ip_network("10.0.0.0/8"),))
    assert "rebalance.example.com" in access.names
    path.unlink()
    with pytest.raises(ConfigError, match="token_file"):
        access_of(web)


def test_a_port_in_use_is_said_at_once() -> None:
    with served(Snapshot("lab")) as client, pytest.raises(OSError, match="in use"):  # noqa: SIM117 - one is needed for the other
        with served(Snapshot("lab"), port=client.base_url.port or 0):
            pass
