"""Why a receiver could not be notified: each cause in its own words, passing or not, without an address."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr

from rebalance_monitor.alerts.messages.notification import SinkError
from rebalance_monitor.alerts.sinks.alertmanager import AlertmanagerSink
from rebalance_monitor.alerts.sinks.http import Net, Poster
from rebalance_monitor.alerts.sinks.pagerduty import PagerDutySink
from rebalance_monitor.alerts.sinks.slack import SlackSink
from rebalance_monitor.alerts.sinks.slack_webhook import SlackWebhookSink
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.load import load
from tests.alerts.sinks.notes import NOW, note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rebalance_monitor.alerts.messages.notification import Sink


def answered(status: int, kind: str = "application/json") -> bytes:
    return f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: 0\r\n\r\n".encode()


@contextmanager
def server(answer: bytes, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server that gives one answer to whatever comes; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            try:
                link, _ = listening.accept()
                with link, context.wrap_socket(link, server_side=True) if context else link as spoken:
                    spoken.recv(65_536)
                    spoken.sendall(answer)
            except OSError:
                return

        (thread := threading.Thread(target=serve, daemon=True)).start()
        yield listening.getsockname()[1]
        thread.join(5)


def told(url: str, ca_file: str | None = None) -> SinkError:
    poster = Poster("the webhook", Net(2.0, ca_file=ca_file))
    try:
        with poster, pytest.raises(SinkError) as caught:
            poster.post(url, b"{}", {}, 0)
    finally:
        poster.close()
    assert "secretpath" not in caught.value.why
    return caught.value


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://127.0.0.1:1/secretpath", "the connection is refused"),
        ("http://no-such-host.invalid/secretpath", "its name cannot be resolved"),
    ],
)
def test_what_cannot_be_reached_passes(url: str, why: str) -> None:
    error = told(url)
    assert error.why == f"the webhook cannot be reached: {why}"
    assert not error.permanent


@pytest.mark.parametrize(
    ("answer", "permanent", "why"),
    [
        (answered(401), True, "answered 401, the token or password is wrong or has expired"),
        (answered(404), True, "answered 404, not found: the path of the address is wrong"),
        (
            answered(302, "text/html; charset=utf-8"),
            True,
            "answered 302, with a web page: does the address lead",
        ),
        (answered(503, "text/html"), False, "answered 503, with a web page"),
        (answered(503), False, "answered 503"),
    ],
)
def test_a_refusal_is_reported_with_its_usual_reason(answer: bytes, why: str, *, permanent: bool) -> None:
    with server(answer) as port:
        error = told(f"http://127.0.0.1:{port}/secretpath")
    assert why in error.why
    assert error.permanent is permanent


def alertmanager(address: str) -> Sink:
    return AlertmanagerSink("a", (address,))


def pagerduty(address: str) -> Sink:
    return PagerDutySink("p", SecretStr("key"), base_url=address)


def slack(address: str) -> Sink:
    return SlackSink("s", SecretStr("xoxb-1"), "C0123ABCD", base_url=f"{address}/api/")


def slack_webhook(address: str) -> Sink:
    return SlackWebhookSink("s", SecretStr(address))


@pytest.mark.parametrize("sink", [alertmanager, pagerduty, slack, slack_webhook])
def test_a_web_page_is_no_success_although_its_status_is(sink: Callable[[str], Sink]) -> None:
    """What a proxy or a login on the way answers: nobody was notified."""
    page = b"<html>Sign in</html>"
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(page)}\r\n\r\n"
    with (
        server(head.encode() + page) as port,
        closing(sink(f"http://127.0.0.1:{port}")) as made,
        pytest.raises(SinkError, match="answered 200, with a web page") as caught,
    ):
        made.send(note(), NOW)
    assert not caught.value.permanent


def test_a_webhook_may_answer_with_a_page() -> None:
    with server(answered(200, "text/html")) as port, Poster("the webhook", Net(2.0)) as poster:
        assert poster.post(f"http://127.0.0.1:{port}", b"{}", {}, 0, takes_pages=True).status == 200


def test_certificates_are_distinguished_and_ca_file_is_named_where_it_is_the_cure(tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="cryptography is not installed")
    from tests.cluster.support.secured import Certificates

    made = Certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.issue("hooks"))
    with server(answered(200), context) as port:
        error = told(f"https://127.0.0.1:{port}/secretpath")
    assert (error.permanent, "set `ca_file`" in error.why) == (True, True)
    with server(answered(200), context) as port:
        error = told(f"https://localhost:{port}/secretpath", str(made.authority))
    assert (error.permanent, "for another name" in error.why) == (True, True)
    with server(answered(200)) as port:
        error = told(f"https://127.0.0.1:{port}/secretpath", str(made.authority))
    assert (error.permanent, "the TLS handshake fails" in error.why) == (False, True)


@pytest.mark.parametrize(
    "url",
    ["http://am:9093", "http://am:9093/", "http://am:9093/api/v2/alerts", "http://am:9093/api/v2/alerts/"],
)
def test_an_alertmanager_may_be_given_by_its_whole_address(url: str) -> None:
    sink = AlertmanagerSink("a", (url,))
    assert sink._urls == ("http://am:9093/api/v2/alerts",)
    sink.close()


def test_a_channel_beside_a_webhook_is_refused() -> None:
    slack = {"webhook_url": "https://hooks.slack.example/x", "channel": "C0123ABCD"}
    with pytest.raises(ConfigError, match="`channel` goes with `token`"):
        load(flags={"alerts": {"receivers": [{"name": "a", "slack": slack}], "route": {"receiver": "a"}}})
