"""The demo: lab broker, scenarios with real consumers, the streaming job as a subprocess, and a judgement.

Uses the same workers and scenarios as the accuracy suite. Everything it starts is stopped by leaving the
context, however that happens.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import yaml

from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.coordinator.findings import Finding, from_json
from rebalance_monitor.lab.families import FAMILIES
from rebalance_monitor.lab.judge import Injected, Verdict, judge, noises
from rebalance_monitor.lab.node import wait_until
from rebalance_monitor.lab.runner import Run, Together
from rebalance_monitor.lab.scenario import load
from rebalance_monitor.lab.traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rebalance_monitor.lab.broker import LabBroker

CAST = (
    ("healthy", "confluent"),
    ("sigkill", "confluent"),
    ("slow-processing", "kafka-python"),
    ("crash-loop-fast", "confluent"),
    ("static-restart", "confluent"),
)
# A storm within a minute, so that nobody waits five; quiet counts after a quarter of one.
DETECTION = {"storm_threshold": 6, "storm_window_ms": 60_000, "storm_quiet_ms": 15_000}
JOB_READY_S = 180.0
JOB_STOP_S = 30.0
FOR_EVER_S = 86_400.0


class Job:
    """The streaming job as its users start it: `rebalance-monitor run --config FILE`."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._folder = folder
        self.storage = folder / "monitor"
        self._read = 0
        self._rest = b""
        folder.mkdir(parents=True, exist_ok=True)
        self.config = folder / "demo.yaml"
        self.config.write_text(yaml.safe_dump(self._settings(bootstrap), sort_keys=False), encoding="utf-8")

    def _settings(self, bootstrap: str) -> dict[str, object]:
        return {
            "cluster_name": "demo",
            "kafka": {"bootstrap_servers": bootstrap},
            "spark": {"spark.master": "local[2]", "spark.driver.memory": "1g"},
            "storage": {"path": str(self.storage)},
            "detection": DETECTION,
            "outputs": {"console": False},
            "probe": {"interval_seconds": 1.0},
        }

    def __enter__(self) -> Self:
        main = "from rebalance_monitor.cli.main import main; main()"
        with (self._folder / "monitor.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", main, "run", "--config", str(self.config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self

    def wait_ready(self) -> None:
        """Wait until the first batch is committed. Raises DependencyError with the end of the job's log."""
        wait_until(lambda: self._committed() or not self.alive, JOB_READY_S, every_s=0.3)
        if not self._committed():
            self.require()
            raise DependencyError(f"The monitor did not start within {JOB_READY_S:.0f} s:\n{self._log()}")

    def _committed(self) -> bool:
        return any(self.storage.glob("state/*/commits/[0-9]*"))

    @property
    def alive(self) -> bool:
        """Whether the job runs."""
        return self._process.poll() is None

    def require(self) -> None:
        """Raise DependencyError with the end of the job's log when it no longer runs."""
        if not self.alive:
            raise DependencyError(f"The monitor ended with code {self._process.returncode}:\n{self._log()}")

    def _log(self) -> str:
        text = (self._folder / "monitor.log").read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-15:])

    def findings(self) -> Iterator[Finding]:
        """Give the findings since the last call."""
        path = self.storage / "findings.jsonl"
        if not path.exists():
            return
        with path.open("rb") as lines:
            lines.seek(self._read)
            text = self._rest + lines.read()
            self._read = lines.tell()
        *whole, self._rest = text.split(b"\n")
        for line in whole:
            yield from_json(line.decode())

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(JOB_STOP_S)
        # Spark's JVM and Python workers live in the job's own session.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


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
        """Tell whether every step was done and every fault detected."""
        verdicts = self.verdicts()
        all_done = all(len(run.done) == len(run.scenario.steps) for run in self.runs)
        return all_done and len(verdicts) == self.planned() and all(one.finding for one in verdicts)


def stage(broker: LabBroker, folder: Path, stack: ExitStack) -> Stage:
    """Start job and consumers on a started broker; everything is stopped when `stack` is left."""
    job = stack.enter_context(Job(broker.bootstrap, folder))
    job.wait_ready()
    traffic = stack.enter_context(Traffic(broker.bootstrap))
    runs = [
        Run(replace(load(name), end=FOR_EVER_S), FAMILIES[family], broker, traffic, folder / "runs", name)
        for name, family in CAST
    ]
    started = int(time.time() * 1000)
    stack.enter_context(Together(runs))
    return Stage(runs, job, started)
