"""Runs scenarios on a lab broker: one group per scenario and family, each in a folder of its own.

The folder gets `scenario.yaml` (what was run), `steps.jsonl` (what was done when, to which member ids), and
per member a journal and its library's log.
"""

from __future__ import annotations

import json
import re
import threading
import time
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Self

import yaml
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.errors import KafkaError

from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.lab.cluster.quiet import quiet
from rebalance_monitor.lab.scenario.limits import limits_in
from rebalance_monitor.lab.scenario.processes import WorkerProcess
from rebalance_monitor.lab.workers.families import FAMILIES
from rebalance_monitor.lab.workers.flags import Flags

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from rebalance_monitor.lab.cluster.broker import LabBroker
    from rebalance_monitor.lab.scenario.scenario import Scenario, Step
    from rebalance_monitor.lab.scenario.traffic import Traffic
    from rebalance_monitor.lab.workers.families import Family

_KINDS = {one.name: {"int": int, "float": float}.get(str(one.type), str) for one in fields(Flags)}


@dataclass(frozen=True, slots=True)
class Done:
    """A step that was done: at what wall time (ms), to which member ids."""

    at: int
    planned_s: float
    verb: str
    who: tuple[str, ...]
    member_ids: tuple[str, ...]


class Run:
    """One scenario with one family, running on a broker. `group` is its consumer group."""

    def __init__(
        self,
        scenario: Scenario,
        family: Family,
        broker: LabBroker,
        traffic: Traffic,
        folder: Path,
        group: str,
    ) -> None:
        self.scenario = scenario
        self.family = family
        self.group = group
        self.folder = folder / group
        self.admin = AdminClient(quiet(broker.bootstrap))
        self.done: list[Done] = []
        self.ended = threading.Event()
        self.stopping = threading.Event()
        self.broker = broker
        self.errors: list[str] = []
        self._kept: list[object] = []
        self._traffic = traffic
        self._processes: dict[str, WorkerProcess] = {}

    def topic(self, name: str) -> str:
        """Give the full name of a topic of this scenario; patterns stay patterns."""
        return f"^{self.group}[.]{name[1:]}" if name.startswith("^") else f"{self.group}.{name}"

    def create_topic(self, name: str, partitions: int) -> None:
        """Create one topic and give it traffic, if the scenario has any."""
        topic = self.topic(name)
        copies = min(3, len(self.broker.nodes))
        futures = self.admin.create_topics([NewTopic(topic, partitions, copies)], request_timeout=20)
        futures[topic].result(timeout=25)
        if self.scenario.traffic:
            self._traffic.add(topic, partitions)

    def delete_topic(self, name: str) -> None:
        """Delete one topic and end its traffic."""
        self._traffic.remove(self.topic(name))
        self.admin.delete_topics([self.topic(name)], request_timeout=20)[self.topic(name)].result(timeout=25)

    def keep(self, thing: object) -> None:
        """Keep something alive until the run is over."""
        self._kept.append(thing)

    def start(self, member: str, overrides: Mapping[str, str]) -> None:
        """Start one member unless it runs."""
        running = self._processes.get(member)
        if running is None or not running.alive:
            flags = dict(overrides)
            family = FAMILIES[flags.pop("family", self.family.name)]
            self._processes[member] = WorkerProcess(
                member, family, self._flags(member, family, flags), self.folder
            )

    def _flags(self, member: str, family: Family, overrides: Mapping[str, str]) -> Flags:
        scenario = self.scenario
        chosen = {
            "topics": ",".join(self.topic(name) for name in scenario.topics),
            "client_id": f"{self.group}-{member}",
            "instance_id": f"{self.group}-{member}" if scenario.static else "",
            "session_ms": str(scenario.session_ms),
            "poll_ms": str(max(scenario.poll_ms, scenario.session_ms)),
            **family.flags,
            **self._guest(family),
            **scenario.settings,
            **overrides,
        }
        if "topics" in overrides:
            chosen["topics"] = ",".join(self.topic(name) for name in overrides["topics"].split())
        typed = {key: _KINDS[key](value) for key, value in chosen.items()}
        bootstrap = self.broker.proxied_bootstrap if scenario.proxied else self.broker.bootstrap
        return Flags(bootstrap=bootstrap, group=self.group, **typed)

    def _guest(self, family: Family) -> dict[str, str]:
        """Give what a member of another family must share with this group to be let in."""
        own = self.family.flags.get("assignor")
        return {"assignor": own} if own and family.name == "raw" else {}

    def alive(self, who: Iterable[str]) -> list[WorkerProcess]:
        """Give the living processes of these members; `leader` is the one the broker's log names."""
        names = [self._leader() if name == "leader" else name for name in who]
        found = (self._processes.get(name) for name in names)
        return [process for process in found if process is not None and process.alive]

    def _leader(self) -> str:
        text = "".join(log.read_text(errors="replace") for log in self.broker.coordinator_logs)
        pattern = rf"Assignment received from leader (\S+) for group {re.escape(self.group)} for generation"
        chosen = re.findall(pattern, text)
        holders = (name for name, one in self._processes.items() if chosen and chosen[-1] in one.member_ids)
        return next(holders, self.scenario.members[0])

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
        note["limits"] = limits_in(self._flags("", self.family, {}))
        text = yaml.safe_dump(note, sort_keys=False)
        (self.folder / "scenario.yaml").write_text(text, encoding="utf-8")

    def _prepare(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._note(self.scenario)
        for name, partitions in self.scenario.topics.items():
            if not name.startswith("^"):
                self.create_topic(name, partitions)

    def _do(self, step: Step) -> None:
        from rebalance_monitor.lab.scenario.faults import VERBS  # noqa: PLC0415 - the verbs work on runs

        who = tuple(self._leader() if name == "leader" else name for name in step.who)
        ids = tuple(one for name in who for one in self._ids(name))
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

    def _ids(self, member: str) -> tuple[str, ...]:
        process = self._processes.get(member)
        return process.member_ids[-1:] if process is not None else ()

    def finish(self) -> None:
        """Close every member that still lives, and stop its traffic."""
        for process in self._processes.values():
            process.finish()
        self._kept.clear()
        for name in self.scenario.topics:
            self._traffic.remove(self.topic(name))


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
