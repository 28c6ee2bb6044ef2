"""Groups that are born, commit and are deleted, wave after wave: state, tables and memory are as before.

CHAOS_CHURN=100000 for a hundred thousand groups. A wave's groups are alive together, so the state has to grow
before it may shrink. The record of a group's death is what Kafka's coordinator writes for an admin's delete:
a generation without members, a tombstone of every commit, and one of the group.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pytest

pytest.importorskip("pyspark")

from bench.job.soak import heap_of, resident
from rebalance_monitor.dashboard.tables.groups_table import read_groups
from rebalance_monitor.decoders import coordinator_partition
from rebalance_monitor.engine.embedded.engine import STATE_S
from rebalance_monitor.engine.storage import Storage
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.rig import ENGINE, PATIENCE_S, TOPIC, Record, Rig, inject, of_faults
from tests.coordinator.support.timeline import Client, metadata
from tests.decoders.encode import commit_key, commit_value, group_key

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

GROUPS = int(os.environ.get("CHAOS_CHURN", "20000"))
WAVES = 10
AT_ONCE = GROUPS // WAVES
# As slow as a machine may tell of a wave, beside what everything else may take.
WAVE_S = PATIENCE_S + AT_ONCE / 10
pytestmark = of_faults(1_200 + 2 * WAVES * WAVE_S)
PARTITIONS = 8
# A group of a real member tells, wave after wave, what the state is; nobody else writes into its partition.
RESTS = "rests"
# Nobody dies of silence meanwhile.
SESSION_MS = 1_800_000
# What may be more after the last waves than after those in the middle, MB: a kilobyte kept of each group that
# was born between them would be 40 MB of 100,000. By then the driver's bounded memory of findings is full.
MORE_MB = {"driver": 30.0, "worker": 30.0, "heap": 30.0, "off_heap": 50.0}
# Memory swings with every minute, up to 50 MB of the driver's: the least of so many waves counts.
LEAST_OF = 3
# What the state may have more than after the first wave, bytes: the past of the group that rests, some 70 for
# each of its generations. A single byte kept of each group that is gone would be more.
MORE_BYTES = 1_500


class After(NamedTuple):
    """What the job has after a wave: bytes of state at its fullest and after it, memory in MB."""

    fullest: int
    state: int
    memory: dict[str, float]


class Told:
    """The findings of the churning groups, each kind by group."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.of: dict[str, Counter[str]] = {"rebalance": Counter(), "group_removed": Counter()}

    def have(self, kind: str, groups: Iterable[str]) -> bool:
        for finding in self._rig.job.findings():
            if finding.kind.value in self.of and finding.group:
                self.of[finding.kind.value][finding.group] += 1
        return all(group in self.of[kind] for group in groups)


def names(number: int, count: int) -> list[str]:
    """The groups of a wave: none in the partition of the group that rests."""
    own = coordinator_partition(RESTS, PARTITIONS)
    found: list[str] = []
    candidate = 0
    while len(found) < count:
        name = f"born-{number}-{candidate}"
        candidate += 1
        if coordinator_partition(name, PARTITIONS) != own:
            found.append(name)
    return found


def birth(group: str, now: int) -> list[Record]:
    shard = coordinator_partition(group, PARTITIONS)
    members = [Client(f"{group}-member", (0, 1), session=SESSION_MS, rebalance=SESSION_MS)]
    commits = [Record(shard, commit_key(group, TOPIC, n), commit_value(n, now)) for n in range(2)]
    return [Record(shard, group_key(group), metadata(1, members, now)), *commits]


def death(group: str, now: int) -> list[Record]:
    shard = coordinator_partition(group, PARTITIONS)
    commits = [Record(shard, commit_key(group, TOPIC, n), None) for n in range(2)]
    return [
        Record(shard, group_key(group), metadata(2, [], now)),
        *commits,
        Record(shard, group_key(group), None),
    ]


def sizes(rig: Rig) -> list[int]:
    """Bytes of state of each batch that published something, oldest first."""
    lines = (json.loads(line) for line in rig.job.log.splitlines() if line.startswith("{"))
    found = [line["state_bytes"] for line in lines if line.get("event") == "batch"]
    # What the monitor tells between two batches is of no state.
    return [size for size in found if size]


def memory(rig: Rig) -> dict[str, float]:
    """What each process has now, MB; the heap after a collection. The embedded engine is one process."""
    found = {"driver": resident([rig.job.pid])}
    for jvm in rig.job.jvms():
        found["heap"], found["off_heap"] = heap_of(jvm)
        found["worker"] = max(resident([pid]) for pid in rig.job.python_workers())
    return found


def rest(rig: Rig, told: Told) -> None:
    """Let the group that rests tell how large the state is: embedded, the one that was kept last."""
    time.sleep(STATE_S + 1 if ENGINE == "embedded" else 0)
    rests = told.of["rebalance"][RESTS]
    rig.pulse(RESTS)
    assert wait_until(lambda: told.have("rebalance", [RESTS]) and told.of["rebalance"][RESTS] > rests, WAVE_S)


def wave(rig: Rig, told: Told, number: int) -> After:
    """Let a wave of groups be born and go, each step published before the next; then look."""
    groups, before = names(number, AT_ONCE), len(sizes(rig))
    for kind, records in (("rebalance", birth), ("group_removed", death)):
        now = int(time.time() * 1000)
        inject(rig.bootstrap, [record for group in groups for record in records(group, now)])
        assert wait_until(lambda kind=kind: told.have(kind, groups), WAVE_S, 1), rig.job.log[-3_000:]
        if ENGINE == "embedded" or kind == "group_removed":
            rest(rig, told)
    after = After(max(sizes(rig)[before:]), sizes(rig)[-1], memory(rig))
    # Shown with -s.
    shown = ", ".join(f"{name} {mb:.0f} MB" for name, mb in after.memory.items())
    sys.stdout.write(f"wave {number + 1}: state {after.fullest} then {after.state} bytes; {shown}\n")
    return after


def test_groups_that_are_born_and_gone_leave_state_tables_and_memory_as_they_were(tmp_path: Path) -> None:
    # What the job has read is compared afterwards with nothing: no record may go before it is read.
    settings = {"log.cleaner.enable": "false"}
    with LabBroker(offsets_partitions=PARTITIONS, settings=settings) as broker:
        rig = Rig(broker.bootstrap, tmp_path)
        told = Told(rig)
        rig.pulse(RESTS)
        with rig.job:
            rig.job.wait_ready()
            assert wait_until(lambda: told.have("rebalance", [RESTS]), PATIENCE_S)
            found = [wave(rig, told, number) for number in range(WAVES)]
            rig.job.require()
            table = Storage(rig.job.storage).groups
            assert wait_until(lambda: set(read_groups(table).groups) == {RESTS}, PATIENCE_S, 1)
    born = [group for number in range(WAVES) for group in names(number, AT_ONCE)]
    assert [group for group in born if {times[group] for times in told.of.values()} != {1}] == []
    first, middle, last = found[0], found[WAVES // 2 - 2 :][:LEAST_OF], found[-LEAST_OF:]
    assert min(after.fullest for after in found) > 2 * first.state
    assert max(after.state for after in found) <= first.state + MORE_BYTES
    grown = {name: least(last, name) - least(middle, name) for name in last[0].memory}
    assert {name: mb for name, mb in grown.items() if mb > MORE_MB[name]} == {}


def least(waves: Iterable[After], name: str) -> float:
    """The least memory that a process had after any of these, MB."""
    return min(after.memory[name] for after in waves)
