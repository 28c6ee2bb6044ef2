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
                    # What was not read when it closes resets the connection, and the answer is lost.
                    spoken.shutdown(socket.SHUT_WR)
                    while spoken.recv(65_536):
                        pass
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


NOT_HTTP = (
    b"SSH-2.0-OpenSSH\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
)


@pytest.mark.parametrize("answer", NOT_HTTP, ids=["ssh", "chunks", "header"])
def test_what_answers_without_http_is_not_called_away(answer: bytes) -> None:
    """The network is fine: the words lead to the port and the address."""
    for ask in (told, told_by_slack):
        with server(answer) as port:
            error = ask(f"http://127.0.0.1:{port}/")
        assert "does not speak HTTP, or breaks off its answer" in str(error)
        assert not error.permanent


NOT_SLACKS = {
    "a list": (b"[1]", ""),
    "nesting": (b'{"ok":' + b"[" * 100_000, ""),
    "no time": (b'{"ok": true, "messages": [1]}', ""),
    "an encoding": (b"\xff", "; charset=nope"),
    "bytes": (b"\xff\xfe", ""),
}


@pytest.mark.parametrize(("body", "charset"), NOT_SLACKS.values(), ids=NOT_SLACKS)
def test_an_answer_that_slack_never_gives_is_no_bug_of_ours(body: bytes, charset: str) -> None:
    status = 400 if charset else 200
    head = answered(status, f"application/json{charset}").replace(b"Length: 0", b"Length: %d" % len(body))
    with server(head + body) as port:
        assert "what answers is not Slack's API" in str(told_by_slack(f"http://127.0.0.1:{port}/"))


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_refused_with_what_to_do(status: int) -> None:
    for ask in (told, told_by_slack):
        with server(answered(status)) as port:
            error = ask(f"http://127.0.0.1:{port}/")
        assert f"answered {status}, a redirect, which is not followed" in str(error)
        assert error.permanent


def test_a_header_that_http_does_not_carry_is_not_the_networks_fault() -> None:
    poster = Poster("the webhook", Net(2.0))
    with server(answered(200)) as port, poster, pytest.raises(SinkError, match="is malformed") as caught:
        poster.post(f"http://127.0.0.1:{port}/", b"{}", {"Authorization": "Bearer hunter2\n"}, 0)
    assert caught.value.permanent
    assert "hunter2" not in str(caught.value)


def told_by_slack(url: str) -> SinkError:
    sink = SlackSink("slack", SecretStr("xoxb-1"), "C0123ABCD", base_url=url, net=Net(2.0))
    with pytest.raises(SinkError) as caught:
        sink.send(note(), NOW)
    return caught.value
