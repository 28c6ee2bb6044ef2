"""The demo, looked at with everything that SREs look with: Prometheus, the API, SQL, logs, contracts.

One run of real brokers, clients, faults and Spark, scraped by a real Prometheus from beginning to end.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, defaultdict
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import duckdb
import httpx
import pytest

pytest.importorskip("pyspark")

from rebalance_monitor.dashboard import queries
from rebalance_monitor.engine.storage import storage_at
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import free_ports
from rebalance_monitor.lab.suite.demo import stage
from tests.deploy.test_prometheus import all_zero, answer, is_ready, panels, prometheus, wait_for
from tests.programs import installed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rebalance_monitor.engine.storage import Storage
    from rebalance_monitor.lab.suite.demo import Stage

pytestmark = [
    pytest.mark.slow,
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
KAFKA = "4.1.1"
GROUP = "crash-loop-fast"
DURATION_S = 400
ASKED = ("cluster", "groups", f"group?group={GROUP}", "incidents", "findings")
# Java says this before anything of ours, or of Spark's, runs.
JAVA = "WARNING: Using incubator modules"
# What these faults do not do.
WELL = {
    ("overview", "Stuck"),
    ("overview", "Failed generations"),
    ("group", "Skew"),
    ("group", "Partitions of unknown lag"),
    ("monitor", "Broken contracts"),
    ("monitor", "Degraded"),
    ("monitor", "Degraded by"),
    ("monitor", "Lag in records"),
    ("monitor", "Partitions reading history"),
    ("monitor", "Unreadable records"),
}


@dataclass
class Seen:
    """What was seen of one demo. statuses: of /readyz, as they changed; answered: of the API, by path."""

    folder: Path
    statuses: list[int] = field(default_factory=list)
    answered: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    answers: dict[tuple[str, str, str], list[dict[str, Any]]] = field(default_factory=dict)
    rules: list[dict[str, Any]] = field(default_factory=list)
    fired: set[str] = field(default_factory=set)
    complete: bool = False

    @property
    def storage(self) -> Storage:
        return storage_at(self.folder / "monitor")

    def log(self) -> list[str]:
        return (self.folder / "monitor.log").read_text(encoding="utf-8").splitlines()

    def audits(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log() if '"event": "audit"' in line]

    def look(self, page: httpx.Client) -> None:
        """Ask what a person asks who looks at the page."""
        try:
            status = page.get("/readyz").status_code
            if status not in self.statuses[-1:]:
                self.statuses.append(status)
            if status != httpx.codes.OK:
                return
            for path in ASKED:
                self.answered[path][page.get(f"/api/v1/{path}").status_code] += 1
        except httpx.TransportError:
            pass


class Receiver(BaseHTTPRequestHandler):
    """A webhook that takes everything."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        pass


@contextmanager
def webhook() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@contextmanager
def demo(home: Path, port: int) -> Iterator[Stage]:
    """What `rebalance-monitor demo` plays, with its page at `port`, audits, and somebody to notify."""
    with ExitStack() as stack:
        environment = stack.enter_context(pytest.MonkeyPatch.context())
        environment.setenv("REBALANCE_MONITOR_WEB__PORT", str(port))
        environment.setenv("REBALANCE_MONITOR_AUDIT__EVERY_BATCHES", "2")
        receiver = {"name": "hook", "webhook": {"url": stack.enter_context(webhook())}}
        alerts = {"receivers": [receiver], "route": {"receiver": "hook", "group_wait": "1s"}}
        broker = stack.enter_context(LabBroker(KAFKA, home / "broker", initial_delay_ms=3_000))
        yield stage(broker, home, stack, alerts)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    installed("prometheus")
    home = tmp_path_factory.mktemp("demo")
    (home / "prometheus").mkdir()
    (port,) = free_ports(1)
    found, began = Seen(home), time.time()
    with (
        prometheus(home / "prometheus", f"127.0.0.1:{port}") as url,
        httpx.Client(base_url=url, timeout=20) as asked,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as page,
    ):
        wait_for(lambda: is_ready(asked))
        with looking(found, page), demo(home, port) as play:
            deadline = time.monotonic() + DURATION_S
            while time.monotonic() < deadline and not (play.complete() and found.audits()):
                play.news()
                time.sleep(0.5)
            found.complete = play.complete()
        for board, panel, query in panels():
            found.answers[board, panel, query] = answer(asked, query, began, GROUP)
        found.rules = json.loads(asked.get("/api/v1/rules").text)["data"]["groups"]
        alerts = answer(asked, 'ALERTS{alertstate="firing"}', began, GROUP)
        found.fired = {series["metric"]["alertname"] for series in alerts}
    return found


@contextmanager
def looking(found: Seen, page: httpx.Client) -> Iterator[None]:
    """Look at the page twice a second, from before it is there."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(0.5):
            found.look(page)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield
    stop.set()
    thread.join(20)


def test_every_fault_of_the_demo_was_found(seen: Seen) -> None:
    assert seen.complete


def test_no_panel_is_without_data_and_every_rule_works(seen: Seen) -> None:
    assert [place for place, found in seen.answers.items() if not found] == []
    alive = {(board, panel) for (board, panel, _), found in seen.answers.items() if not all_zero(found)}
    zero = {(board, panel) for board, panel, _ in seen.answers} - alive
    assert zero <= WELL
    assert [(r["name"], r["lastError"]) for g in seen.rules for r in g["rules"] if r["health"] != "ok"] == []
    assert "RebalanceStorm" in seen.fired


def test_ready_comes_after_catching_up_and_the_page_answers_beside_real_batches(seen: Seen) -> None:
    assert seen.statuses[:2] == [503, 200]
    assert seen.answered.keys() == set(ASKED)
    for path, statuses in seen.answered.items():
        # A group that has not been seen yet is not found.
        assert statuses.keys() <= ({200, 404} if path.startswith("group?") else {200})
        assert statuses[200] > 1


def test_the_log_is_json_with_a_line_a_batch_at_most_and_names_incidents(seen: Seen) -> None:
    lines = [line for line in seen.log() if not line.startswith(JAVA)]
    said = [json.loads(line) for line in lines]
    assert all({"event", "level", "timestamp"} <= set(line) for line in said)
    of_batches = Counter(line["batch"] for line in said if "batch" in line)
    assert len(of_batches) >= 8
    assert set(of_batches.values()) == {1}
    assert len(said) - len(of_batches) < 20
    told = [json.loads(line) for line in seen.storage.jsonl.read_text(encoding="utf-8").splitlines()]
    storms = {finding["incident"] for finding in told if finding["kind"] == "storm"}
    assert storms
    assert storms <= {incident for line in said for incident in line.get("incidents") or ()}


def test_every_question_has_its_answer(seen: Seen) -> None:
    duck = duckdb.connect()
    duck.execute(queries.views("duckdb", seen.storage.findings, seen.storage.groups))
    answered = {name: len(duck.execute(queries.query(name)).fetchall()) for name in queries.names()}
    # Nothing is deployed, nothing left unattended, and in the end the storm is over.
    empty = {name for name, rows in answered.items() if not rows}
    assert empty <= {"05_deployments", "08_unattended", "09_trouble_now"}


def test_contracts_were_checked_beside_the_job(seen: Seen) -> None:
    audits = seen.audits()
    assert audits
    assert [audit["broken"] for audit in audits if audit["broken"]] == []
    assert audits[-1]["contracts"] > 20
    assert "<html" in (seen.storage.audit / "index.html").read_text(encoding="utf-8")
