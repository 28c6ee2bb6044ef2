"""Clients that say nothing, or read nothing, cost the others nothing; health checks are always answered."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import httpx
import pytest
from structlog.testing import capture_logs

from rebalance_monitor.dashboard.view.snapshot import Snapshot, Update
from rebalance_monitor.dashboard.web.http import connection, stream
from rebalance_monitor.dashboard.web.http.access import Access
from tests.dashboard.web import known
from tests.dashboard.web.serving import served

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = "a-token"  # noqa: S105 - made up
EVENTS = b"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with served(Snapshot("lab")) as client:
        yield client


def connect(client: httpx.Client, said: bytes = b"") -> socket.socket:
    address = (client.base_url.host, client.base_url.port or 0)
    found = socket.create_connection(address, timeout=60)
    found.sendall(said)
    return found


def is_cut(reader: socket.socket) -> bool:
    """Return whether the server ends the connection without a word."""
    try:
        return reader.recv(1) == b""
    except ConnectionResetError:
        return True


def answer(client: httpx.Client, path: str) -> int:
    """Return the status over a connection of its own, as a probe asks."""
    return httpx.get(client.base_url.join(path), timeout=60).status_code


def test_the_health_check_answers_while_hundreds_of_connections_say_nothing(client: httpx.Client) -> None:
    with ExitStack() as stack:
        idle = [stack.enter_context(connect(client, b"GET /")) for _ in range(connection.CONNECTIONS + 40)]
        assert answer(client, "/healthz") == 200
        assert answer(client, "/api/v1/groups") == 200
        assert is_cut(idle[0])
        idle[-1].settimeout(0.2)
        with pytest.raises(TimeoutError):
            idle[-1].recv(1)


@pytest.mark.parametrize("said", [b"", b"GET /healthz HT", b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /he"])
def test_a_connection_without_a_whole_request_is_let_go(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(connection, "REQUEST_S", 0.5)
    with connect(client, said) as slow:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                if said:
                    slow.sendall(b"x")
                slow.settimeout(0.1)
                if not slow.recv(65_536):
                    return
            except TimeoutError:
                continue
            except (ConnectionResetError, BrokenPipeError):
                return
    pytest.fail("the connection was kept")


def test_a_reader_that_reads_nothing_loses_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "READ_S", 0.5)
    monkeypatch.setattr(stream, "MAX_READERS", 1)
    snapshot = Snapshot("lab")
    groups = {f"{number}-{'g' * 200}": known.summary("g") for number in range(250)}
    with served(snapshot) as client, connect(client, EVENTS) as asleep:
        assert asleep.recv(12) == b"HTTP/1.1 200"
        assert answer(client, "/api/v1/events") == 503
        until = time.monotonic() + 60
        while time.monotonic() < until:
            snapshot.apply(Update(groups=groups, now=known.T0, wall=known.T0))
            with client.stream("GET", "/api/v1/events") as other:
                if other.status_code == 200:
                    return
            time.sleep(0.05)
    pytest.fail("the place was kept")


def test_the_health_check_answers_while_every_place_is_taken(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CONNECTIONS", 4)
    with ExitStack() as stack:
        for _ in range(4):
            assert stack.enter_context(connect(client, EVENTS)).recv(12) == b"HTTP/1.1 200"
        assert answer(client, "/api/v1/groups") == 503
        assert answer(client, "/healthz") == 200
        assert answer(client, "/readyz") == 503


def test_a_client_that_leaves_before_its_body_is_no_failure_of_the_monitor() -> None:
    head = f"POST /api/v1/silences HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n".encode()
    head += b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    with capture_logs() as logged, served(Snapshot("lab"), access=Access(token=TOKEN)) as client:
        with connect(client, head + b"{") as leaving:
            # What it asked for is being answered once the next one on the same loop is.
            assert answer(client, "/healthz") == 200
            leaving.shutdown(socket.SHUT_RDWR)
        with connect(client, head) as slow:
            slow.sendall(b"[" + b" " * 99)
            assert slow.recv(12) == b"HTTP/1.1 400"
    assert [one["event"] for one in logged] == []
