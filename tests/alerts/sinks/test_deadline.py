"""A service that never ends what it says holds up no receiver, and fills no memory."""

from __future__ import annotations

import socket
import threading
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr

from rebalance_monitor.alerts.messages.notification import SinkError
from rebalance_monitor.alerts.sinks.email import EmailSink, Security, Server
from rebalance_monitor.alerts.sinks.http import Net, Poster
from rebalance_monitor.alerts.sinks.slack import SlackSink
from tests.alerts.sinks.notes import NOW, note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rebalance_monitor.alerts.messages.notification import Sink

NET = Net(timeout_s=0.5)
OK = b"HTTP/1.1 200 OK\r\n"
# What is said at first, what is said again and again, and how long is waited before each time (s).
DRIPPED_HEADERS = (OK, b"X: y", 0.05)
DRIPPED_BODY = (OK + b"Content-Length: 9999999\r\n\r\n", b"{", 0.05)
ENDLESS_BODY = (OK + b"\r\n", b" " * 65_536, 0.0)
ENDLESS_CONTINUE = (b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.05)
ENDLESS_BANNER = (b"", b"220-welcome\r\n", 0.05)
ENDLESS_LINE = (b"", b"A" * 65_536, 0.0)
LOUD_BANNER = (b"", b"220-welcome\r\n" * 5_000, 0.0)
# The head of a TLS record of 16 KB with a ServerHello that fills it.
DRIPPED_HANDSHAKE = (b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc", b"\0", 0.05)


@contextmanager
def saying(first: bytes, then: bytes, pause_s: float) -> Iterator[int]:
    """A service that says so to everybody, for ever; gives its port."""
    over = threading.Event()

    def serve(client: socket.socket) -> None:
        with suppress(OSError), client:
            client.sendall(first)
            while not over.wait(pause_s):
                client.sendall(then)

    def accept(server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, args=(server,), daemon=True).start()
        yield server.getsockname()[1]
        over.set()


@pytest.mark.parametrize("said", [DRIPPED_HEADERS, ENDLESS_CONTINUE])
def test_a_web_service_that_never_comes_to_its_answer_is_given_up(said: tuple[bytes, bytes, float]) -> None:
    with saying(*said) as port, Poster("the webhook", NET) as poster, pytest.raises(SinkError) as given_up:
        poster.post(f"http://127.0.0.1:{port}/", b"{}", {}, NOW)
    assert str(given_up.value) == "the webhook did not answer within 2 s"
    assert not given_up.value.permanent


@pytest.mark.parametrize(("way", "said"), [("tls", DRIPPED_HANDSHAKE), ("proxy", DRIPPED_HEADERS)])
def test_tls_and_a_proxy_that_never_come_to_an_end_are_given_up(
    way: str, said: tuple[bytes, bytes, float]
) -> None:
    with saying(*said) as port:
        net = through(port) if way == "proxy" else NET
        with Poster("the webhook", net) as poster, pytest.raises(SinkError) as given_up:
            poster.post(f"https://127.0.0.1:{port}/", b"{}", {}, NOW)
    assert "answer" in str(given_up.value)
    assert not given_up.value.permanent


def through(port: int) -> Net:
    return Net(timeout_s=0.5, proxy=SecretStr(f"http://127.0.0.1:{port}"))


def slack(port: int, scheme: str = "http", net: Net = NET) -> Sink:
    token = SecretStr("xoxb-1")
    return SlackSink("chat", token, "C0123ABCD", base_url=f"{scheme}://127.0.0.1:{port}/api/", net=net)


def slack_by_tls(port: int) -> Sink:
    return slack(port, "https")


def slack_by_proxy(port: int) -> Sink:
    return slack(port, "https", through(port))


def mail(port: int, security: Security = Security.NONE) -> Sink:
    server = Server("127.0.0.1", port, security)
    return EmailSink("mail", server, "a@example.com", ("b@example.com",), net=NET)


def mail_by_tls(port: int) -> Sink:
    return mail(port, Security.TLS)


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        (slack, DRIPPED_HEADERS),
        (slack, DRIPPED_BODY),
        (slack, ENDLESS_BODY),
        (slack, ENDLESS_CONTINUE),
        (slack_by_tls, DRIPPED_HANDSHAKE),
        (slack_by_proxy, DRIPPED_HEADERS),
        (mail, ENDLESS_BANNER),
        (mail, LOUD_BANNER),
        (mail, ENDLESS_LINE),
        (mail_by_tls, DRIPPED_HANDSHAKE),
    ],
)
def test_slack_and_a_mail_server_that_never_end_are_given_up(
    sink: Callable[[int], Sink], said: tuple[bytes, bytes, float]
) -> None:
    with saying(*said) as port, closing(sink(port)) as made, pytest.raises(SinkError) as given_up:
        made.send(note(), NOW)
    assert not given_up.value.permanent
