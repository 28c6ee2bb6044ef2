"""The demo: lab broker, scenarios with real consumers, the streaming job as a subprocess, and a judgement.

Uses the same workers and scenarios as the accuracy suite. Everything it starts is stopped by leaving the
context, however that happens.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rebalance_monitor.lab.scenario.runner import Run, Together
from rebalance_monitor.lab.scenario.scenario import load
from rebalance_monitor.lab.scenario.traffic import Traffic
from rebalance_monitor.lab.scoring.judge import Injected, Verdict, judge, noises
from rebalance_monitor.lab.suite.job import Job
from rebalance_monitor.lab.workers.families import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import ExitStack
    from pathlib import Path

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.lab.cluster.broker import LabBroker

CAST = (
    ("healthy", "confluent"),
    ("sigkill", "confluent"),
    ("slow-processing", "kafka-python"),
    ("crash-loop-fast", "confluent"),
    ("static-restart", "confluent"),
)
# A storm within a minute, because a spectator does not wait five; quiet counts after a quarter of one.
DETECTION = {"storm_threshold": 6, "storm_window": "1m", "storm_quiet": "15s"}
# Far enough from the session timeout of 6 s that one silence cannot be both, however busy the machine is.
POLL_MS = 11_000
# Enough that a rebalance of half a second costs something: a hundred records a second and partition.
RECORDS = 25
FOR_EVER_S = 86_400.0


@dataclass(slots=True)
class Stage:
    """The demo while it runs: what was injected so far, what was found, and the verdicts."""

    runs: list[Run]
    job: Job
    started: int = 0
    found: list[Finding] = field(default_factory=list)

    def news(self) -> list[Finding]:
        """Give the findings since the last call. Raises DependencyError when the monitor ended."""
        self.job.require()
        fresh = list(self.job.findings())
        self.found += fresh
        return fresh

    def injected(self) -> list[Injected]:
        """Give every fault injected so far."""
        return [
            Injected(run.group, run.scenario.about, wanted, done.at)
            for run in self.runs
            for wanted in run.scenario.expect
            for done in [next((d for d in run.done if abs(d.planned_s - wanted.after) < 0.01), None)]  # noqa: PLR2004
            if done is not None
        ]

    def planned(self) -> int:
        """Give the number of faults that will have been injected in the end."""
        return sum(len(run.scenario.expect) for run in self.runs)

    def verdicts(self) -> list[Verdict]:
        """Judge what was injected so far."""
        return judge(self.injected(), self.found)

    def noise(self) -> list[Finding]:
        """Give what was said of groups that should be silent."""
        return noises((run.group for run in self.runs if run.scenario.silent), self.started, self.found)

    def complete(self) -> bool:
        """Return whether every step was done and every fault detected."""
        verdicts = self.verdicts()
        all_done = all(len(run.done) == len(run.scenario.steps) for run in self.runs)
        return all_done and len(verdicts) == self.planned() and all(one.finding for one in verdicts)


def stage(
    broker: LabBroker, folder: Path, stack: ExitStack, alerts: Mapping[str, object] | None = None
) -> Stage:
    """Start job and consumers on a started broker; everything is stopped when `stack` is left.

    `alerts` is that section of the job's configuration.
    """
    job = stack.enter_context(Job(broker.bootstrap, folder, DETECTION, alerts))
    job.wait_ready()
    traffic = stack.enter_context(Traffic(broker.bootstrap, at_once=RECORDS))
    cast = [(replace(load(name), end=FOR_EVER_S, poll_ms=POLL_MS), family) for name, family in CAST]
    runs = [
        Run(scenario, FAMILIES[family], broker, traffic, folder / "runs", scenario.name)
        for scenario, family in cast
    ]
    started = int(time.time() * 1000)
    stack.enter_context(Together(runs))
    return Stage(runs, job, started)
