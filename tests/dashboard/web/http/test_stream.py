"""The stream: each reader is sent what changed since its version, once, and slow ones start again."""

from __future__ import annotations

import json
import socket
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from rebalance_monitor.dashboard.view.snapshot import Snapshot, Update
from rebalance_monitor.dashboard.web.http.stream import MAX_READERS, MAX_ROWS
from rebalance_monitor.lab.cluster.node import wait_until
from tests.dashboard.web import known
from tests.dashboard.web.serving import served

if TYPE_CHECKING:
    from collections.abc import Iterator

Other = Any
BURST = 100
"""Fewer than the server's backlog: the system refuses the others by itself."""

GROUPS = {name: known.summary(name) for name in ("a", "b")}


def events(answer: httpx.Response) -> Iterator[tuple[str, Any]]:
    event = ""
    for line in answer.iter_lines():
        if line.startswith("event:"):
            event = line[6:].strip()
        elif line.startswith("data:"):
            yield event, json.loads(line[5:])


def update(*names: str, **other: Other) -> Update:
    return Update(groups={n: GROUPS[n] for n in names}, now=known.T0, wall=known.T0, **other)


def test_a_reader_is_sent_what_changed_and_nothing_else() -> None:
    snapshot = Snapshot("lab")
    snapshot.apply(update("a", "b"))
    with served(snapshot) as client, client.stream("GET", "/api/v1/events") as answer:
        told = events(answer)
        assert next(told) == ("hello", {"version": 1})
        snapshot.apply(update("b", findings=[known.rebalance("b", 2, known.T0)]))
        event, data = next(told)
        assert (event, data["version"], [row["group"] for row in data["rows"]]) == ("change", 2, ["b"])
        assert data["rows"][0]["rebalances"] == data["overview"]["minutes"][-1] == 1
        snapshot.apply(update(removed=["a"]))
        data = next(told)[1]
        assert (data["removed"], data["others"]) == (["a"], False)
        snapshot.apply(Update(findings=[replace(known.storm("b", known.T0), group=None)]))
        assert next(told)[1]["others"] is True


def test_a_reader_that_comes_back_is_sent_what_it_missed() -> None:
    snapshot = Snapshot("lab")
    for _ in range(3):
        snapshot.apply(update("a"))
    snapshot.apply(update("b"))
    with served(snapshot) as client, client.stream("GET", "/api/v1/events?since=3") as answer:
        told = events(answer)
        assert next(told)[1] == {"version": 3}
        assert [row["group"] for row in next(told)[1]["rows"]] == ["b"]


def test_a_page_that_outlives_the_monitor_is_asked_to_start_again_by_the_next_one() -> None:
    before = Snapshot("lab", started=known.T0)
    for _ in range(3):
        before.apply(update("a"))
    after = Snapshot("lab", started=known.T0 + 60_000)
    after.apply(update("b"))
    for seen in (before.known.version, after.known.version + 7):
        with served(after) as client, client.stream("GET", f"/api/v1/events?since={seen}") as answer:
            told = events(answer)
            assert next(told) == ("hello", {"version": seen})
            event, data = next(told)
            assert (event, data["version"]) == ("reset", after.known.version)


@pytest.mark.parametrize(("groups", "event"), [(1, "change"), (MAX_ROWS, "change"), (MAX_ROWS + 1, "reset")])
def test_a_reader_far_behind_is_sent_what_changed_or_asked_to_start_again_where_that_is_too_much(
    groups: int, event: str
) -> None:
    snapshot = Snapshot("lab")
    for number in range(600):
        name = f"g{number % groups}"
        snapshot.apply(Update(groups={name: known.summary(name)}, now=known.T0, wall=known.T0))
    with served(snapshot) as client, client.stream("GET", "/api/v1/events?since=0") as answer:
        told = events(answer)
        next(told)
        assert next(told)[0] == event


def test_the_server_stops_at_once_although_readers_are_connected() -> None:
    snapshot = Snapshot("lab")
    stopped = threading.Event()
    with served(snapshot) as client:
        reader = threading.Thread(target=_read, args=(str(client.base_url), stopped))
        reader.start()
        assert stopped.wait(60)
        stopped.clear()
    assert stopped.wait(60)
    reader.join(60)


def _read(url: str, seen: threading.Event) -> None:
    with httpx.stream("GET", f"{url}/api/v1/events", timeout=60) as answer:
        for _ in events(answer):
            seen.set()
    seen.set()


def test_a_name_that_is_no_text_of_unicode_ends_no_stream() -> None:
    snapshot = Snapshot("lab")
    with served(snapshot) as client, client.stream("GET", "/api/v1/events") as answer:
        told = events(answer)
        next(told)
        snapshot.apply(Update(groups={"a\ud800b": known.summary("a\ud800b")}, now=known.T0, wall=known.T0))
        event, data = next(told)
        assert (event, [row["group"] for row in data["rows"]]) == ("change", ["a\ud800b"])


def test_a_burst_of_readers_gets_no_more_seats_than_there_are() -> None:
    """All ask before any is answered; whoever goes makes room for another."""
    with served(Snapshot("lab")) as client:
        asked = [_ask(client) for _ in range(BURST)]
        statuses = [one.recv(12) for one in asked]
        assert statuses.count(b"HTTP/1.1 200") == MAX_READERS
        assert statuses.count(b"HTTP/1.1 503") == BURST - MAX_READERS
        for one in asked:
            one.close()
        assert wait_until(lambda: client.get("/healthz").is_success and _status(client) == 200, 20)


def _ask(client: httpx.Client) -> socket.socket:
    url = client.base_url
    asked = socket.create_connection((url.host, url.port or 0), timeout=60)
    asked.sendall(f"GET /api/v1/events HTTP/1.1\r\nHost: {url.host}\r\n\r\n".encode())
    return asked


def _status(client: httpx.Client) -> int:
    with client.stream("GET", "/api/v1/events") as answer:
        return answer.status_code
