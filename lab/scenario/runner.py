"""Runs scenarios on a lab broker: one group per scenario and family, each in a folder of its own.

The folder gets `scenario.yaml` (what was run), `steps.jsonl` (what was done when, to which member ids), and
per member a journal and its library's log.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Self

import yaml
from confluent_kafka import KafkaException
from kafka.errors import KafkaError

from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.lab.scenario.faults import VERBS
from rebalance_monitor.lab.scenario.group_run import Done, GroupRun
from rebalance_monitor.lab.scenario.limits import limits_in
from rebalance_monitor.lab.workers.families import FAMILIES, command
from rebalance_monitor.lab.workers.flags import Flags

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rebalance_monitor.lab.scenario.model import Scenario, Step
    from rebalance_monitor.lab.workers.families import Family


class Run(GroupRun):
    """A scenario's steps, done to its group at their times."""

    def run(self) -> None:
        """Do every step at its time, wait for the end, close what is left.

        One that is stopped before its end notes when that was.
        """
        begin = time.monotonic()
        try:
            self._prepare()
            begin = time.monotonic()
            for step in self.scenario.steps:
                if self.stopping.wait(max(0.0, begin + step.at - time.monotonic())):
                    return
                self._do(step)
            self.stopping.wait(max(0.0, begin + self.scenario.end - time.monotonic()))
        finally:
            self.finish()
            if self.stopping.is_set():
                self._note(replace(self.scenario, end=round(time.monotonic() - begin, 1)))
            self.ended.set()

    def _note(self, scenario: Scenario) -> None:
        note = {"family": self.family.name, **json.loads(json.dumps(asdict(scenario)))}
        note["limits"] = limits_in(self.flags("", self.family, {}))
        text = yaml.safe_dump(note, sort_keys=False)
        (self.folder / "scenario.yaml").write_text(text, encoding="utf-8")

    def _prepare(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._note(self.scenario)
        # What has to be built first would take its time out of the first steps.
        for family in self._families():
            command(family, Flags("", "", ""))
        for name, partitions in self.scenario.topics.items():
            if not name.startswith("^"):
                self.create_topic(name, partitions)

    def _families(self) -> list[Family]:
        overrides: list[Any] = [step.options.get("with") or {} for step in self.scenario.steps]
        guests = {str(one["family"]) for one in overrides if "family" in one}
        return [self.family, *(FAMILIES[name] for name in sorted(guests))]

    def _do(self, step: Step) -> None:
        who = tuple(self.leader() if name == "leader" else name for name in step.who)
        ids = tuple(one for name in who for one in self.member_ids(name))
        done = Done(int(time.time() * 1000), step.at, step.verb, who, ids)
        self.done.append(done)
        error = None
        try:
            VERBS[step.verb](self, step)
        except (KafkaException, KafkaError, DependencyError, OSError) as refused:
            error = f"{step.verb}: {type(refused).__name__}: {refused}"
            self.errors.append(error)
        with (self.folder / "steps.jsonl").open("a", encoding="utf-8") as journal:
            journal.write(json.dumps({**asdict(done), "error": error}) + "\n")


class Together:
    """Several runs at once, each in a thread; all are stopped and closed at the end."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self.runs = list(runs)
        self._threads = [threading.Thread(target=run.run, daemon=True) for run in self.runs]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def wait(self, timeout_s: float) -> bool:
        """Wait until every run has ended; False when one has not within `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        return all(run.ended.wait(max(0.0, deadline - time.monotonic())) for run in self.runs)

    def __exit__(self, *_: object) -> None:
        for run in self.runs:
            run.stopping.set()
        for thread in self._threads:
            thread.join(timeout=40)
