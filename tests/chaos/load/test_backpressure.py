"""A job that is too slow says by how much as it grows, keeps the order, catches up, and marks what came late.

Its processes stand still, or a burst of records is more than it reads in the time.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import httpx
import pytest

pytest.importorskip("pyspark")

from confluent_kafka import Producer

from bench.traffic.feeding import feeding
from rebalance_monitor.coordinator.findings.finding import LATE_AFTER_MS
from rebalance_monitor.decoders import coordinator_partition
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.rig import (
    JVM,
    OFFSETS,
    PATIENCE_S,
    TOPIC,
    WORKERS,
    Rig,
    command_line,
    needs_spark,
    of_faults,
)
from tests.coordinator.support.timeline import Client, metadata
from tests.decoders.encode import commit_key, commit_value, group_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rebalance_monitor.coordinator.findings.finding import Finding

pytestmark = of_faults(600 + 5 * PATIENCE_S)
LIVELY = ("before", "held", "after")
PARTITIONS, GROUPS, PER_S, REBALANCES = 50, 200, 4_000, 5
# How long the workers stand still after the member whose finding must come late.
HELD_S = LATE_AFTER_MS / 1_000 + 15
# A burst is so many portions at most, each of so many commits and a generation.
PORTIONS, PORTION, BURST_AFTER_MS = 100, 100_000, 5_000


@contextmanager
def held(rig: Rig, name: str) -> Iterator[None]:
    """Let the processes below the driver stand still that bear this in their command line."""
    stopped = [pid for pid in rig.job.below() if name in command_line(pid)]
    assert stopped
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)


def rebalance_of(rig: Rig, group: str) -> Finding:
    return rig.await_told(lambda f: f.group == group and f.kind == "rebalance")


def once_it_keeps_up(rig: Rig) -> int:
    """Wait until it is not behind, as it may be from its start on; return the time, in ms."""
    phases = Counter[str | None]()

    def keeps_up() -> bool:
        phases.clear()
        phases.update(one.phase for one in rig.behind())
        return phases["opened"] == phases["resolved"]

    assert wait_until(keeps_up, PATIENCE_S, 0.5), phases
    return int(time.time() * 1000)


def behind(rig: Rig, phase: str, since: int = 0) -> Finding:
    fits = ("behind", phase)
    return rig.await_told(lambda f: (f.details.get("cause"), f.phase) == fits and (f.opened_at or 0) >= since)


def lags(rig: Rig, incident: str | None) -> list[int]:
    """How far behind the job said that it was, in ms, from the opening of the incident to its end."""
    found = [one for one in rig.behind() if one.incident == incident]
    assert [one.phase for one in found] == ["opened", *["updated"] * (len(found) - 2), "resolved"]
    told = [int(one.details["lag_ms"]) for one in found]
    assert all(after >= 2 * before for before, after in pairwise(told[:-1]))
    assert told[-1] == max(told)
    return told


def shown(rig: Rig) -> tuple[float, float]:
    """How far behind the job's metrics and its page say that it is, in seconds."""
    page = httpx.get(urljoin(rig.job.page() or "", "api/v1/cluster"), timeout=10).json()
    return rig.metric("lag_seconds"), page["health"]["behind_ms"] / 1_000


def is_in_order(told: list[Finding]) -> bool:
    """Whether each partition's findings come in the order of the records that decided them."""
    last: dict[int, int] = {}
    for finding in told:
        if finding.shard is None or finding.offset is None or finding.phase:
            continue
        if finding.offset < last.get(finding.shard, -1):
            return False
        last[finding.shard] = finding.offset
    return bool(last)


def require_marked(rig: Rig) -> None:
    """What came late is marked, and only that; all came in order."""
    assert {f.late for f in rig.told() if f.kind == "rebalance"} == {True, False}
    assert all(f.late == (f.detected_at - f.at > LATE_AFTER_MS) for f in rig.told() if not f.history)
    assert is_in_order(rig.told())


@needs_spark
@pytest.mark.parametrize("stands_still", [WORKERS, JVM], ids=["workers", "jvm"])
def test_a_job_that_falls_behind_says_by_how_much_keeps_order_and_marks_what_came_late(
    tmp_path: Path, stands_still: str
) -> None:
    with LabBroker(offsets_partitions=PARTITIONS) as broker:
        rig = Rig(broker.bootstrap, tmp_path)
        rig.pulse("before")
        # All in one partition: its coordinator loads anew what others wrote, and serves nobody meanwhile.
        load = {"groups": GROUPS, "per_s": PER_S, "rebalances": REBALANCES, "hot": 1.0}
        assert all(coordinator_partition(group, PARTITIONS) for group in LIVELY)
        with rig.job:
            rig.job.wait_ready()
            with feeding(broker.bootstrap, 1_200, **load) as feed:
                rebalance_of(rig, "before")
                rig.await_told(
                    lambda f: f.group not in rig.groups and f.kind == "rebalance" and not f.history
                )
                began = once_it_keeps_up(rig)
                with held(rig, stands_still):
                    rig.pulse("held")
                    written = time.monotonic()
                    told = behind(rig, "opened", began)
                    time.sleep(max(0.0, written + HELD_S - time.monotonic()))
                    at_release = shown(rig)
                freed = time.monotonic()
                late = rebalance_of(rig, "held")
                behind(rig, "resolved", told.at)
                caught_up = time.monotonic() - freed
                rig.pulse("after")
                fresh = rebalance_of(rig, "after")
                assert feed.poll() is None
            waits = [f.detected_at - f.at for f in rig.told() if f.kind == "rebalance" and f.late]
            said = lags(rig, told.incident)
            # Shown with -s.
            sys.stdout.write(
                f"said {said} ms, metric and page {at_release} s; held {HELD_S:.0f} s at {PER_S:,} a second; "
                f"{len(waits)} findings up to {max(waits) / 1_000:.0f} s late; well {caught_up:.1f} s after\n"
            )
            rig.groups |= {f.group for f in rig.told() if f.group}
            rig.require_truth()
            rig.job.require()
    # Ten seconds without a finished batch, but for one published and not finished when all stood still.
    assert said[0] >= 8_000
    # What was published while it stood still was never half of what it was; at the end it is the most.
    assert len(said) >= 4
    assert said[-2] > HELD_S * 1_000 / 2
    assert said[-1] >= LATE_AFTER_MS
    assert min(at_release) >= LATE_AFTER_MS / 1_000
    assert (late.late, late.history) == (True, False)
    assert (fresh.late, fresh.history) == (False, False)
    require_marked(rig)


def burst(rig: Rig) -> int:
    """Write as fast as the broker takes it, until the job has said that it is behind by ever more.

    Commits of one group, and generations of others in turn, into one partition.
    """
    client = {"bootstrap.servers": rig.bootstrap, "client.id": "__admin_client", "compression.type": "lz4"}
    producer = Producer({**client, "linger.ms": 20, "queue.buffering.max.messages": PORTION + 1_000})
    now = int(time.time() * 1000)
    commits = [(commit_key("burst", TOPIC, n % 10), commit_value(n, now)) for n in range(PORTION)]
    for portion in range(PORTIONS):
        group = f"fleet-{portion % GROUPS}"
        members = [Client(f"{group}-{portion}-{number}", (number,)) for number in range(3)]
        for key, value in [*commits, (group_key(group), metadata(portion + 1, members, now))]:
            producer.produce(OFFSETS, value, key, 0)
        assert producer.flush(120) == 0
        if any(f.phase == "updated" and f.opened_at is not None and f.opened_at >= now for f in rig.behind()):
            break
    return (portion + 1) * (PORTION + 1)


# The embedded engine reads as fast as one process writes.
@needs_spark
def test_a_job_that_falls_behind_a_burst_says_by_how_much_keeps_order_and_catches_up(tmp_path: Path) -> None:
    settings = {"detection": {"behind_after": f"{BURST_AFTER_MS}ms"}}
    with LabBroker(offsets_partitions=PARTITIONS) as broker:
        rig = Rig(broker.bootstrap, tmp_path, settings)
        rig.pulse("before")
        with rig.job:
            rig.job.wait_ready()
            rebalance_of(rig, "before")
            began, start = once_it_keeps_up(rig), time.monotonic()
            records = burst(rig)
            written = time.monotonic()
            told = behind(rig, "opened", began)
            over = behind(rig, "resolved", told.at)
            caught_up = time.monotonic() - written
            rig.pulse("after")
            fresh = rebalance_of(rig, "after")
            said = lags(rig, told.incident)
            sys.stdout.write(
                f"{records:,} records in {written - start:.1f} s; said {said} ms, {over.details} at most; "
                f"well {caught_up:.1f} s after\n"
            )
            rig.groups |= {f.group for f in rig.told() if f.group}
            rig.require_truth()
            rig.job.require()
    assert records > int(over.details["records"]) > PORTION
    assert said[-1] >= said[0] >= BURST_AFTER_MS
    assert len(said) >= 3
    assert (fresh.late, fresh.history) == (False, False)
    assert is_in_order(rig.told())
    assert {f"fleet-{n}" for n in range(min(GROUPS, records // PORTION))} <= rig.groups
