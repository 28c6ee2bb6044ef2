"""The demo, looked at with everything that SREs look with: Prometheus, the API, SQL, logs, contracts, Slack.

One run of the verb, with real brokers, clients, faults and Spark, scraped by a real Prometheus from beginning
to end.
"""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from collections import Counter, defaultdict
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from typing import TYPE_CHECKING, Any

import duckdb
import httpx
import pytest

pytest.importorskip("pyspark")

from rebalance_monitor.cli.main import run
from rebalance_monitor.dashboard import queries
from rebalance_monitor.engine.storage import storage_at
from rebalance_monitor.lab.cluster.node import free_ports
from rebalance_monitor.lab.suite.demo import Stage
from tests.alerts.support.slack_fake import HOOK, SlackFake
from tests.deploy.test_prometheus import all_zero, answer, is_ready, panels, prometheus, wait_for
from tests.programs import installed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rebalance_monitor.engine.storage import Storage

pytestmark = [
    pytest.mark.slow,
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
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
    """What was seen of one demo. statuses: of /readyz, as they changed; answered: of the API, by path.

    said: by the verb. sent: the texts that Slack took; refused: what it did not take.
    """

    folder: Path
    statuses: list[int] = field(default_factory=list)
    answered: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    answers: dict[tuple[str, str, str], list[dict[str, Any]]] = field(default_factory=dict)
    rules: list[dict[str, Any]] = field(default_factory=list)
    fired: set[str] = field(default_factory=set)
    said: str = ""
    sent: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

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


def play(found: Seen, port: int) -> None:
    """Run `rebalance-monitor demo` with its page at `port` and a Slack to notify, until an audit is there."""
    complete, on_sigterm = Stage.complete, signal.getsignal(signal.SIGTERM)
    command = ["demo", "--duration", f"{DURATION_S}s", "--folder", str(found.folder), "--slack-webhook"]
    with (
        SlackFake() as slack,
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(StringIO()) as said,
        redirect_stderr(said),
    ):
        patch.setenv("REBALANCE_MONITOR_WEB__PORT", str(port))
        patch.setenv("REBALANCE_MONITOR_AUDIT__EVERY_BATCHES", "2")
        patch.setattr(Stage, "complete", lambda stage: complete(stage) and bool(found.audits()))
        run([*command, slack.hook])
        found.sent, found.refused = [posted.content["text"] for posted in slack.messages], slack.refused
    signal.signal(signal.SIGTERM, on_sigterm)
    found.said = said.getvalue()


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    installed("prometheus")
    home = tmp_path_factory.mktemp("demo")
    (home / "prometheus").mkdir()
    (port,) = free_ports(1)
    found, began = Seen(home / "demo"), time.time()
    with (
        prometheus(home / "prometheus", f"127.0.0.1:{port}") as url,
        httpx.Client(base_url=url, timeout=20) as asked,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as page,
    ):
        wait_for(lambda: is_ready(asked))
        with looking(found, page):
            play(found, port)
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
    assert re.search(r"^(All \d+ injected events were detected|0 missed),", seen.said, re.MULTILINE), (
        seen.said
    )


def test_its_findings_are_sent_to_a_slack_webhook_once(seen: Seen) -> None:
    assert any(GROUP in text and "storm" in text for text in seen.sent), "\n".join([*seen.sent, seen.said])
    assert {text for text, count in Counter(seen.sent).items() if count > 1} == set()
    assert seen.refused == []
    assert HOOK not in seen.said


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
