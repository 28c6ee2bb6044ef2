"""The driver's side of a job that is killed again and again: writer, ledger and dispatcher are the real ones.

`python -m tests.alerts.support.mortal STORAGE SLACK_API STARTED_AT WAVES` imports everything once; for each
line on its standard input it forks a job that goes on where the ledger says, as Spark would: with the batch
it died in. The child's process id is printed at once, `done` when all batches are told and nothing is owed
to anybody.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from rebalance_monitor.alerts.sinks import slack  # noqa: F401 - imported before the fork
from rebalance_monitor.checkpoints.ledger import Ledger
from rebalance_monitor.config.model import Settings
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.engine.batch.batches import Batch, BatchKey
from rebalance_monitor.engine.driver.parts import Parts
from rebalance_monitor.engine.driver.writer import BatchWriter
from rebalance_monitor.engine.outputs.alerting import Alerting
from rebalance_monitor.engine.outputs.sinks import JsonLines
from rebalance_monitor.engine.storage import storage_at
from tests.alerts.support.findings import finding
from tests.alerts.support.slack_fake import CHANNEL, TOKEN

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Finding

QUERY = "8d74df78-fa24-4f2f-b920-b9b1ddd93eb6"
GROUPS = 5
"""Incidents of one wave, beside the one that lasts through all of them."""
WAVE = 60
"""Batches of one wave: a third in which incidents open, then a gate, then they go on and end."""
GATE = 30
BATCH_S = 0.04
LASTING = "lasting"


def groups(waves: int) -> list[str]:
    """Return the groups, each with one incident."""
    return [LASTING, *(f"w{wave}g{number}" for wave in range(waves) for number in range(GROUPS))]


def script(number: int, started_at: int, waves: int) -> list[Finding]:
    """Return the findings of one batch, always the same."""
    at = started_at + round(number * BATCH_S * 1_000)
    wave, step = divmod(number, WAVE)
    found = [replace(finding(Kind.REBALANCE, group=LASTING), id=f"r{number}", at=at)]
    if number == 0:
        found.append(_storm(LASTING, "opened", number, at))
    elif number == waves * WAVE:
        found.append(_storm(LASTING, "resolved", number, at))
    elif number % 7 == 0:
        found.append(_storm(LASTING, "updated", number, at))
    phases = {3: "opened", GATE + 3: "updated", GATE + 12: "resolved"}
    for which in range(GROUPS):
        phase = phases.get(step - 2 * which)
        if phase is not None and wave < waves:
            found.append(_storm(f"w{wave}g{which}", phase, number, at))
    return found


def _storm(group: str, phase: str, number: int, at: int) -> Finding:
    made = finding(Kind.STORM, group=group, phase=phase, incident=f"i-{group}", at=at)
    return replace(made, id=f"{group}-{phase}-{number}", opened_at=at)


def job(folder: str, api: str, started_at: int, waves: int) -> None:
    """Run until all is notified."""
    slack_options = {"token": TOKEN, "channel": CHANNEL, "api_url": api, "per_minute": 100_000}
    route = {"receiver": "sre", "group_wait": "150ms", "group_interval": "250ms"}
    settings = Settings(alerts={"receivers": [{"name": "sre", "slack": slack_options}], "route": route})
    storage = storage_at(folder)
    # The name under which the findings come: under another one they would be another cluster's.
    alerting = Alerting(settings, storage, "prod", lambda *_: None, lambda _: None)
    ledger = Ledger(storage.ledger)
    with alerting:
        # Nobody looks here: a slow life would else be published as a probe that stands still.
        parts = Parts(DetectionSettings(behind_after_ms=86_400_000), "c1", list, probe_ms=None)
        sinks = [JsonLines(storage.jsonl), alerting]
        writer = BatchWriter(ledger, ledger.load().on_topic("topic", "c1"), sinks, parts)
        for number in range(max(0, ledger.load().batches.get(QUERY, 0)), waves * WAVE + 1):
            if number % WAVE == GATE or number == waves * WAVE:
                settle(alerting)
            at = started_at + round(number * BATCH_S * 1_000)
            writer.apply(BatchKey(QUERY, number), Batch(findings=script(number, started_at, waves), now=at))
            time.sleep(BATCH_S)
        settle(alerting)


def settle(alerting: Alerting) -> None:
    """Wait until nobody is owed anything: an incident that ends before that notifies nobody."""
    time.sleep(0.6)
    while alerting.dispatcher is not None and any(way.pending for way in alerting.dispatcher.status.ways):
        time.sleep(0.05)


def main() -> None:
    """Fork a job for each line of standard input."""
    folder, api, started_at, waves = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                job(folder, api, started_at, waves)
                status = 0
            finally:
                os._exit(status)
        print(child, flush=True)  # noqa: T201 - the parent waits for it
        _, code = os.waitpid(child, 0)
        print("done" if code == 0 else "died", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
