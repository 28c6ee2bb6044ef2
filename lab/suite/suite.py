"""A suite: many scenarios on one broker, ending in one folder that can be scored again and again.

The folder holds `capture/` (records, samples of the probe and of topics' ends), `truth.jsonl`,
`coordinator-N.log` per node, `suite.json` (versions, seed, what was skipped and why), and `runs/<group>/` of
every scenario (lab/scenario/runner.py). Runs go side by side as far as their processes fit: at most three
JVMs at once, and a number of Python workers.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from rebalance_monitor.cluster.captures.capture import Metadata, write_capture
from rebalance_monitor.cluster.clients.admin import ClusterAdmin
from rebalance_monitor.cluster.clients.reader import Reading, read_records
from rebalance_monitor.cluster.ends.ends import EndsThread
from rebalance_monitor.cluster.jars.jars import release
from rebalance_monitor.cluster.probe.probe import ProbeThread
from rebalance_monitor.coordinator.lag import ends
from rebalance_monitor.coordinator.probe import sample
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.scenario.runner import Run
from rebalance_monitor.lab.scenario.scenario import load, varied
from rebalance_monitor.lab.scenario.traffic import Traffic
from rebalance_monitor.lab.truth.recorded_suite import ABOUT
from rebalance_monitor.lab.truth.strain import Pulse, Strain, fences
from rebalance_monitor.lab.truth.truth import write_truth
from rebalance_monitor.lab.versions import commit, installed
from rebalance_monitor.lab.workers.families import FAMILIES, UNDISCLOSED, Family, why_not, why_not_built
from rebalance_monitor.lab.workers.flags import BY_HAND, Flags, typed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from rebalance_monitor.lab.scenario.model import Scenario

MAX_JVMS = 3
# Thirty and more at once starve broker and monitor on two cores: what is measured then is the machine.
MAX_PYTHONS = 24
# A process with a client in many groups counts for several.
HERD_PLACES = 2
START_APART_S = 0.7
# The end of what runs beside others: it is stopped when they have ended.
OPEN_END_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Job:
    """One scenario to be run with one family."""

    scenario: str
    family: str

    @property
    def group(self) -> str:
        """The consumer group of this job."""
        return f"{self.scenario}.{self.family}"


def jobs_for(scenarios: Sequence[str], families: Sequence[str]) -> list[Job]:
    """Pair every scenario with every family it is made for, the longest first."""
    loaded = [load(name) for name in scenarios]
    pairs = [
        (scenario.end, Job(scenario.name, family))
        for scenario in loaded
        for family in families
        if fits(scenario, FAMILIES[family])
    ]
    return [job for _, job in sorted(pairs, key=lambda pair: -pair[0])]


def fits(scenario: Scenario, family: Family) -> bool:
    """Return whether a scenario makes sense with a client family: both may name the other."""
    if scenario.families:
        return family.name in scenario.families
    return not family.only or scenario.name in family.only


def clusters_for(jobs: Sequence[Job]) -> list[list[Job]]:
    """Part jobs by the cluster they need: all that may share one, then each that is named or needed."""
    parted: dict[str, list[Job]] = {}
    for job in jobs:
        scenario = load(job.scenario)
        own = job.scenario if scenario.nodes or scenario.broker else ""
        parted.setdefault(scenario.cluster or own, []).append(job)
    return [parted[key] for key in sorted(parted)]


def broker_for(jobs: Sequence[Job], version: str, folder: Path) -> LabBroker:
    """Make the cluster that these jobs (one of the lists of `clusters_for`) run on."""
    cast = [load(job.scenario) for job in jobs]
    first = cast[0]
    return LabBroker(
        version,
        folder,
        nodes=max(1, first.nodes),
        settings=first.broker,
        proxied=first.nodes == 0 or any(scenario.proxied for scenario in cast),
    )


class Room:
    """Admits runs while their processes fit; a run that needs more than there is may go alone."""

    def __init__(self, places: int) -> None:
        self._places = self._free = places
        self._changed = threading.Condition()

    def take(self, count: int) -> None:
        """Wait for `count` places."""
        with self._changed:
            self._changed.wait_for(lambda: self._free >= min(count, self._places))
            self._free -= min(count, self._places)

    def give(self, count: int) -> None:
        """Give them back."""
        with self._changed:
            self._free += min(count, self._places)
            self._changed.notify_all()


def run_suite(
    broker: LabBroker,
    jobs: Iterable[Job],
    folder: Path,
    *,
    seed: int = 0,
    pace: float = 1.0,
    clients: int = MAX_PYTHONS,
    jvms: int = MAX_JVMS,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Run all jobs on a started broker and fill `folder`; `say` hears of every start and end.

    A job that runs `beside` others begins first, takes no place of theirs, and ends when they have ended.
    `seed` varies times and time-outs, `pace` stretches them all. At most so many `jvms` and other `clients`
    (processes) run at once.
    """
    folder.mkdir(parents=True, exist_ok=True)
    skipped: dict[str, str] = {}
    began = int(time.time() * 1000)
    sightings: list[str] = []
    asked: list[str] = []
    loads: list[float] = []
    pulse = Pulse()
    with ExitStack() as stack:
        stack.enter_context(pulse)
        traffic = stack.enter_context(Traffic(broker.bootstrap))
        properties = {"bootstrap.servers": broker.bootstrap}
        probe = stack.enter_context(ProbeThread(properties))
        reader = stack.enter_context(EndsThread(properties, lambda: traffic.names))
        company = _Company(clients, jvms, say)
        for job, scenario in cast_of(list(jobs), seed, pace):
            family = FAMILIES[job.family]
            reason = why_not(family, release(broker.version)) or why_not_built(family)
            if reason is None:
                company.start(Run(scenario, family, broker, traffic, folder / "runs", job.group))
            else:
                skipped[job.group] = reason
                say(f"skipped {job.group}: {reason}")
        while company.is_busy:
            sightings += map(sample.to_json, probe.drain())
            asked += map(ends.to_json, reader.drain())
            loads.append(os.getloadavg()[0])
            time.sleep(1)
        company.end()
        time.sleep(2)
        sightings += map(sample.to_json, probe.drain())
        asked += map(ends.to_json, reader.drain())
    _collect(broker, folder, sightings, asked)
    about: dict[str, Any] = {
        "kafka": broker.name,
        "software": installed(),
        "recorded_by": commit(),
        "seed": seed,
        "pace": pace,
        "clients": clients,
        "began": began,
        "ended": int(time.time() * 1000),
        "cores": os.cpu_count(),
        "load": round(sum(loads) / max(1, len(loads)), 1),
        "late_ms": pulse.worst_ms,
        "strains": [asdict(one) for one in (*pulse.late, *_fences(broker))],
        "skipped": skipped,
    }
    (folder / ABOUT).write_text(json.dumps(about, indent=1), encoding="utf-8")
    write_truth(folder)
    say(_fairness(about))


def _fairness(about: Mapping[str, Any]) -> str:
    """Say whether the machine or a broker was away meanwhile, and how busy the machine was."""
    strains = Counter(str(one["what"]) for one in about["strains"])
    listed = ", ".join(f"{what} {count} times" for what, count in sorted(strains.items()))
    late = f"load {about['load']} on {about['cores']} cores, a sleeper at most {about['late_ms']} ms late"
    return f"the brokers were {listed}: {late}" if listed else f"nothing starved: {late}"


def _fences(broker: LabBroker) -> list[Strain]:
    found: list[Strain] = []
    for node in broker.nodes:
        for log in node.folder.glob("server.log"):
            with log.open(encoding="utf-8", errors="replace") as lines:
                found += fences(lines)
    return found


def undisclosed_intervals(jobs: Sequence[Job], seed: int, pace: float = 1.0) -> dict[str, int]:
    """Give the max.poll.interval (ms) of each group whose members send it nowhere, and commit by hand.

    An operator of such groups would configure it in the monitor.
    """
    found: dict[str, int] = {}
    for job, scenario in cast_of(list(jobs), seed, pace):
        if job.family == UNDISCLOSED:
            poll = max(scenario.poll_ms, scenario.session_ms)
            flags = Flags("", job.group, "", session_ms=scenario.session_ms, poll_ms=poll)
            flags = replace(flags, **typed(scenario.settings))
            found |= {one.group: one.poll_ms for one in flags.each() if one.commit in BY_HAND}
    return found


def cast_of(jobs: Sequence[Job], seed: int, pace: float) -> list[tuple[Job, Scenario]]:
    """Give each job its scenario, varied; first the jobs that run beside others and end with them."""
    # Each member of a Java family is a JVM.
    found = [
        (
            job,
            varied(load(job.scenario), seed, pace, grow=not FAMILIES[job.family].is_java, family=job.family),
        )
        for job in jobs
    ]
    others = [(job, scenario) for job, scenario in found if not scenario.beside]
    if not others:
        return [(job, replace(scenario, beside=False)) for job, scenario in found]
    return [(job, replace(one, end=OPEN_END_S)) for job, one in found if one.beside] + others


class _Company:
    """The runs of a suite, each in a thread: they wait for room, or go on beside all others."""

    def __init__(self, clients: int, jvms: int, say: Callable[[str], None]) -> None:
        self._say = say
        self._rooms = {True: Room(jvms), False: Room(clients)}
        self._threads: list[threading.Thread] = []
        self._beside: list[tuple[Run, threading.Thread]] = []

    def start(self, run: Run) -> None:
        """Start a run as soon as there is room."""
        if run.scenario.beside:
            self._beside.append((run, _start(run, Room(1), self._say)))
        else:
            self._threads.append(_start(run, self._rooms[run.family.is_java], self._say))

    @property
    def is_busy(self) -> bool:
        """Whether a run goes on that has an end of its own."""
        return any(thread.is_alive() for thread in self._threads)

    def end(self) -> None:
        """End what runs beside."""
        for run, _ in self._beside:
            run.stopping.set()
        for _, thread in self._beside:
            thread.join()


def _start(run: Run, room: Room, say: Callable[[str], None]) -> threading.Thread:
    def live() -> None:
        herd = HERD_PLACES if len(run.groups) > 1 else 1
        count = len(run.scenario.members) * herd
        room.take(count)
        try:
            say(f"started {run.group}")
            run.run()
            refused = [error for error in run.errors if error]
            say(f"ended   {run.group}" + "".join(f"; {error}" for error in refused))
        finally:
            room.give(count)

    thread = threading.Thread(target=live, daemon=True)
    thread.start()
    # Thirty interpreters started at once would starve the broker they are to test.
    time.sleep(START_APART_S)
    return thread


def _collect(broker: LabBroker, folder: Path, sightings: list[str], asked: list[str]) -> None:
    capture_broker(broker, folder / "capture", sightings, asked)
    for number, log in enumerate(broker.coordinator_logs, 1):
        shutil.copyfile(log, folder / f"coordinator-{number}.log")


def capture_broker(broker: LabBroker, path: Path, sightings: list[str], asked: list[str]) -> None:
    """Write the whole offsets topic, as it is now, with samples of the probe and of ends, at `path`."""
    properties = {"bootstrap.servers": broker.bootstrap}
    with ClusterAdmin(properties) as admin:
        topic, start, end = admin.topic(), admin.begin_offsets(), admin.end_offsets()
        metadata = Metadata(
            cluster_id=admin.cluster_id(),
            topic_id=topic.id if topic else "",
            partitions=len(start),
            end_offsets=end,
            broker_version=broker.version,
            captured_at=int(time.time() * 1000),
        )
    reading = Reading(start=start, until=end)
    write_capture(path, read_records(properties, reading), metadata, sightings, asked)
