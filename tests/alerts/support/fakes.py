"""Loopback services for the sinks: a small real HTTP server, and what PagerDuty and Alertmanager answer.

A fake keeps every call it got. `script` puts answers before its own behaviour: a test says what goes wrong
next, None lets a call through. An answer with `cut` closes the connection without a word, which is what a
client sees when it or the network dies between a request and its answer.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Call:
    """One request as it came in."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    def arguments(self) -> dict[str, Any]:
        """Return the query, and the body by its content type (JSON or a form)."""
        kind = self.headers.get("content-type", "")
        if not self.body:
            return dict(self.query)
        if "json" in kind:
            return {**self.query, **json.loads(self.body)}
        return {**self.query, **dict(parse_qsl(self.body.decode(), keep_blank_values=True))}


@dataclass(frozen=True, slots=True)
class Answer:
    """A response. `cut`: no response at all. `taken`: the call has its effect all the same."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    taken: bool = False


def json_answer(status: int, value: object, **headers: str) -> Answer:
    """Return an answer with a JSON body."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Answer(status, json.dumps(value).encode(), {"Content-Type": "application/json", **named})


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Say nothing: clients that go away in the middle are part of the tests."""


class Fake:
    """A server on a free loopback port; subclasses answer in `handle`. Use as a context manager."""

    def __init__(self, port: int = 0) -> None:
        self.calls: list[Call] = []
        self.script: deque[Answer | None] = deque()
        self.lock = threading.RLock()
        self._server = _Server(("127.0.0.1", port), _handler(self._serve))
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def handle(self, call: Call) -> Answer:
        """Return what the service would answer; called under the lock."""
        raise NotImplementedError

    def trouble(self, call: Call) -> Answer | None:
        """Return an answer that comes instead of the service's own: the script's next."""
        del call
        return self.script.popleft() if self.script else None

    def _serve(self, call: Call) -> Answer:
        with self.lock:
            self.calls.append(call)
            wrong = self.trouble(call)
            if wrong is None:
                return self.handle(call)
            if wrong.taken:
                self.handle(call)
            return wrong


def _handler(serve: Callable[[Call], Answer]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: object) -> None:
            """Say nothing: a fake's log is its list of calls."""

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            address = urlsplit(self.path)
            answer = serve(
                Call(
                    self.command,
                    address.path,
                    dict(parse_qsl(address.query)),
                    {name.lower(): value for name, value in self.headers.items()},
                    self.rfile.read(int(self.headers.get("Content-Length") or 0)),
                )
            )
            self.close_connection = answer.cut
            if not answer.cut:
                self._write(answer)

        def _write(self, answer: Answer) -> None:
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

    return Handler


class WebhookFake(Fake):
    """Takes anything."""

    def handle(self, call: Call) -> Answer:
        """Say that it was accepted."""
        del call
        return Answer(202)


class AlertmanagerFake(Fake):
    """Alertmanager's `POST /api/v2/alerts` and the labels it refuses."""

    def handle(self, call: Call) -> Answer:
        """Accept alerts whose labels have names and values."""
        if call.path != "/api/v2/alerts":
            return json_answer(404, "path not found")
        for alert in json.loads(call.body):
            if not alert["labels"] or not all(alert["labels"].values()):
                return json_answer(400, "empty label set or value")
        return json_answer(200, {})


class PagerDutyFake(Fake):
    """Events API v2: `incidents` maps each dedup key to its last action."""

    KEY = "0123456789abcdef0123456789abcdef"

    def __init__(self) -> None:
        super().__init__()
        self.incidents: dict[str, str] = {}
        self.events: list[dict[str, Any]] = []

    def handle(self, call: Call) -> Answer:
        """Check an event as PagerDuty does and keep the state of its incident."""
        if call.path != "/v2/enqueue":
            return Answer(404)
        event = call.arguments()
        errors = list(_event_errors(event, self.KEY))
        if errors:
            said = {"status": "invalid event", "message": "Event object is invalid", "errors": errors}
            return json_answer(400, said)
        self.events.append(event)
        self.incidents[event["dedup_key"]] = event["event_action"]
        done = {"status": "success", "message": "Event processed", "dedup_key": event["dedup_key"]}
        return json_answer(202, done)


def _event_errors(event: dict[str, Any], key: str) -> list[str]:
    found = []
    if event.get("routing_key") != key:
        found.append("Invalid routing key")
    if event.get("event_action") not in {"trigger", "acknowledge", "resolve"}:
        found.append("'event_action' is missing or unknown")
    if not 0 < len(str(event.get("dedup_key", ""))) <= 255:
        found.append("'dedup_key' is missing or too long")
    if event.get("event_action") == "trigger":
        found += _payload_errors(event.get("payload", {}))
    return found


def _payload_errors(payload: dict[str, Any]) -> list[str]:
    found = [f"'payload.{name}' is missing" for name in ("summary", "source") if not payload.get(name)]
    if len(payload.get("summary", "")) > 1_024:
        found.append("'payload.summary' is too long")
    if payload.get("severity") not in {"critical", "error", "warning", "info"}:
        found.append("'payload.severity' is unknown")
    if len(json.dumps(payload)) > 512_000:
        found.append("event is too large")
    return found
