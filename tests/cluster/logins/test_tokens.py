"""The token that all clients of a login share: when it is fetched anew, and what an absent endpoint costs."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("cryptography", reason="cryptography is not installed")

from confluent_kafka.admin import AdminClient

from rebalance_monitor.cluster.clients.properties import reader_settings
from rebalance_monitor.cluster.logins.attempts import REFUSED, Attempts
from rebalance_monitor.cluster.logins.tokens import (
    Endpoint,
    SharedToken,
    Token,
    TokenEndpointError,
    TokenError,
    endpoint_of,
)
from rebalance_monitor.lab.cluster.node import wait_until
from tests.cluster.support.identity_provider import IdentityProvider
from tests.cluster.support.secured import Certificates

if TYPE_CHECKING:
    from pathlib import Path


class Provider:
    """Gives tokens that hold for 100 s, by a clock that stands still by default."""

    def __init__(self) -> None:
        self.now, self.given, self.away = 0.0, 0, False

    def fetch(self) -> Token:
        if self.away:
            raise TokenEndpointError("away")
        self.given += 1
        return Token(f"t{self.given}", self.now + 80, self.now + 100)


def test_a_token_is_shared_until_most_of_its_life_is_over() -> None:
    provider = Provider()
    token = SharedToken(provider.fetch, lambda: provider.now)
    seen = []
    for provider.now in (0.0, 79.0, 80.0, 159.0, 160.0):
        seen.append(token.text())
    assert seen == ["t1", "t1", "t2", "t2", "t3"]


def test_an_endpoint_that_is_away_is_missed_when_the_token_has_expired_and_not_before() -> None:
    provider = Provider()
    token = SharedToken(provider.fetch, lambda: provider.now)
    assert token.text() == "t1"
    provider.away, provider.now = True, 99.0
    assert (token.text(), token.problem) == ("t1", None)
    provider.now = 100.0
    with pytest.raises(TokenError):
        token.text()
    assert token.problem is not None
    provider.away = False
    with pytest.raises(TokenError):
        token.text()
    provider.now = 106.0
    assert (token.text(), token.problem) == ("t2", None)


def test_an_endpoint_behind_an_authority_of_its_own_is_trusted_by_the_file_in_the_login_line(
    tmp_path: Path,
) -> None:
    certificates = Certificates(tmp_path)
    with IdentityProvider(certificate=certificates.issue("idp")) as provider:
        login = provider.login()
        trusting = f' ssl.truststore.type="PEM" ssl.truststore.location="{certificates.authority}";'
        given = {**login, "sasl.jaas.config": login["sasl.jaas.config"].rstrip(";") + trusting}
        assert endpoint_of(given).fetch().text == provider.issued[-1]
        client = AdminClient({"bootstrap.servers": "127.0.0.1:1", **reader_settings(given), "log_level": 0})
        assert wait_until(lambda: client.poll(0.1) == 0 and len(provider.issued) > 1, 20)
        with pytest.raises(TokenEndpointError, match=r"does not answer: .*[Cc]ertificate"):
            endpoint_of(login).fetch()


def test_the_address_is_reported_without_what_logs_in_there() -> None:
    assert Endpoint("https://user:hunter2@idp/token", "c", "s").name == "https://idp/token"


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{}",
        b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 500\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"",
    ],
)
def test_whatever_answers_in_the_place_of_an_endpoint_is_a_token_error(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            client, _ = server.accept()
            with client:
                client.recv(65_536)
                client.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(TokenError):
            Endpoint(f"http://127.0.0.1:{server.getsockname()[1]}/token", "c", "s").fetch()
        thread.join()


def test_a_refusal_can_be_asked_for_while_another_thread_logs_in(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = Attempts("GSSAPI")

    class Meanwhile:
        """The bound, which is compared while the hosts are walked over: another exchange begins there."""

        def __le__(self, count: int) -> bool:
            attempts.begin(f"host-{len(attempts._open)}")
            return count >= REFUSED

    for _ in range(REFUSED):
        attempts.begin("broker")
    monkeypatch.setattr("rebalance_monitor.cluster.logins.attempts.REFUSED", Meanwhile())
    assert "broker" in str(attempts.refusal())
