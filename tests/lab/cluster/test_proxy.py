import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from rebalance_monitor.lab.cluster.node import free_ports, wait_until
from rebalance_monitor.lab.cluster.proxy import Proxy


def _echo(server: socket.socket) -> None:
    def serve(one: socket.socket) -> None:
        with one:
            while data := one.recv(65_536):
                one.sendall(data)

    while True:
        try:
            one, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=serve, args=(one,), daemon=True).start()


@pytest.fixture
def echo_port() -> Iterator[int]:
    """The port of a server that gives back what it gets."""
    (port,) = free_ports(1)
    server = socket.create_server(("127.0.0.1", port))
    threading.Thread(target=_echo, args=(server,), daemon=True).start()
    yield port
    server.close()


@pytest.fixture
def proxy(echo_port: int) -> Iterator[tuple[Proxy, int]]:
    """A proxy before that server, and the proxy's port."""
    (port,) = free_ports(1)
    found = Proxy(port, echo_port).open()
    yield found, port
    found.close()


def _request(client_id: str) -> bytes:
    name = client_id.encode()
    return struct.pack(">ihhih", 10 + len(name), 18, 0, 7, len(name)) + name


SIZE = len(_request("a"))


def _connected(port: int, client_id: str) -> socket.socket:
    one = socket.create_connection(("127.0.0.1", port), 60)
    one.sendall(_request(client_id))
    return one


def _answers(one: socket.socket, size: int, within_s: float = 60) -> bool:
    one.settimeout(within_s)
    try:
        return len(one.recv(size)) == size
    except OSError:
        return False


def test_everything_passes_by_default(proxy: tuple[Proxy, int]) -> None:
    with _connected(proxy[1], "a") as one:
        assert _answers(one, SIZE)


def test_a_stalled_client_hears_nothing_until_mended_and_others_do(proxy: tuple[Proxy, int]) -> None:
    lines, port = proxy
    with _connected(port, "a") as one, _connected(port, "b") as other:
        assert _answers(one, SIZE)
        assert _answers(other, SIZE)
        lines.stall("a")
        for each in (one, other):
            each.sendall(b"hello")
        assert not _answers(one, 5, 0.5)
        assert _answers(other, 5)
        lines.mend("a")
        assert _answers(one, 5)


def test_a_cut_client_loses_its_connections_and_gets_no_new_ones(proxy: tuple[Proxy, int]) -> None:
    lines, port = proxy
    with _connected(port, "a") as one, _connected(port, "b") as other:
        assert _answers(one, SIZE)
        assert _answers(other, SIZE)
        lines.cut("a")
        assert wait_until(lambda: _gone(one), 60)
        with _connected(port, "a") as again:
            assert wait_until(lambda: _gone(again), 60)
        other.sendall(b"hello")
        assert _answers(other, 5)
        lines.mend("a")
        with _connected(port, "a") as third:
            assert _answers(third, SIZE)


def _gone(one: socket.socket) -> bool:
    one.settimeout(0.5)
    try:
        return one.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


def test_a_broker_that_is_away_answers_a_round_trip_later_and_to_many_bytes_as_much(
    echo_port: int,
) -> None:
    (port,) = free_ports(1)
    away = Proxy(port, echo_port, away_ms=200).open()
    with _connected(port, "a") as one:
        began = time.monotonic()
        assert _answers(one, SIZE)
        assert time.monotonic() - began >= 0.19
        many = bytes(range(256)) * 10_000
        threading.Thread(target=one.sendall, args=(many,), daemon=True).start()
        got = bytearray()
        while len(got) < len(many):
            got += one.recv(65_536)
        assert got == many
    away.close()
