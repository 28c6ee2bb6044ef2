"""The system's clock is set, an hour back and forth, under a running job: it goes on, and tells the same.

For driver, JVM and workers, by c/clock.c; the broker's clock stays.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.clock import Clock
from tests.chaos.support.living import SESSION_S, Living
from tests.chaos.support.rig import ENGINE, PATIENCE_S, Rig, of_faults

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rebalance_monitor.coordinator.findings.finding import Finding

pytestmark = of_faults(1_200 + 12 * PATIENCE_S)
HOUR_S = 3_600
# A clock is published as off after up to 60 batches that say so.
SKEW_S = 2.5 * PATIENCE_S


@pytest.fixture
def broker() -> Iterator[LabBroker]:
    with LabBroker(offsets_partitions=8) as found:
        yield found


def test_the_clock_is_what_it_is_set_to(tmp_path: Path) -> None:
    clock = Clock(tmp_path)
    code = "import time; print(time.time() - time.monotonic())"
    leads = []
    for ahead_s in (0, -HOUR_S, HOUR_S):
        clock.set(ahead_s)
        command = [sys.executable, "-c", code]
        environment = {**os.environ, **clock.environment}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        leads.append(round(float(done.stdout) - (time.time() - time.monotonic())))
    assert leads == [0, -HOUR_S, HOUR_S]


def test_a_clock_that_is_set_an_hour_back_and_forth_stops_nothing(
    broker: LabBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(tmp_path)
    rig = Rig(broker.bootstrap, tmp_path / "job")
    rig.pulse("clock-steady")
    for name, value in clock.environment.items():
        monkeypatch.setenv(name, value)
    with rig.job:
        rig.job.wait_ready()
        for ahead_s in (-HOUR_S, HOUR_S, 0):
            clock.set(ahead_s)
            began, group = time.monotonic(), f"clock{ahead_s:+d}"
            rig.pulse(group)
            rig.await_told(lambda f, group=group: f.group == group and f.kind == "rebalance")
            assert time.monotonic() - began < HOUR_S / 2
        rig.require_truth()
        rig.job.require()
        # Spark's trigger waits by this clock; the embedded engine's does not.
        assert rig.job.log.count("the clock was set back") == (2 if ENGINE == "spark" else 0)


def test_members_that_live_through_jumps_are_not_accused_and_the_skew_is_published_until_it_ends(
    broker: LabBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour forward and back, then an hour back and forward. The members' and the broker's clock stays."""
    clock = Clock(tmp_path)
    rig = Rig(broker.bootstrap, tmp_path / "job")
    with ExitStack() as stack:
        pair, lone = (Living(rig, name, 1, tmp_path / name, stack) for name in ("pair", "lone"))
        for living, member in ((pair, "one"), (pair, "two"), (lone, "three")):
            living.start(member)
        pair.feed(2)
        for name, value in clock.environment.items():
            monkeypatch.setenv(name, value)
        with rig.job:
            rig.job.wait_ready()
            pair.await_members(2)
            lone.await_members(1)
            for number, (ahead_s, side) in enumerate(((HOUR_S, "behind"), (-HOUR_S, "ahead of"))):
                clock.set(ahead_s)
                opened = await_skew(rig, "opened", number)
                assert f"s {side} the monitor's" in opened.causes[0].why
                assert 0.9 * HOUR_S < skew_s(opened) < 1.1 * HOUR_S
                clock.set(0)
                await_skew(rig, "resolved", number)
            # What a jump led to suspect would be claimed by now.
            time.sleep(2 * SESSION_S)
            sys.stdout.write(f"\nsuspected: {pair.suspicions()} of two, {lone.suspicions()} of one\n")
            pair.require_unaccused()
            lone.require_unaccused()
            assert pair.suspicions() == 0
            rig.require_truth()
            rig.job.require()
            assert len(skews(rig)) == 4


def skews(rig: Rig) -> list[Finding]:
    return [f for f in rig.told() if f.details.get("cause") == "clock_skew"]


def await_skew(rig: Rig, phase: str, number: int) -> Finding:
    """Await the finding that a clock is off, or right again, for one more time than `number`."""
    found: list[Finding] = []

    def looks() -> bool:
        rig.job.require()
        found[:] = [f for f in skews(rig) if f.phase == phase]
        return len(found) > number

    assert wait_until(looks, SKEW_S, 1), (phase, number, rig.health(), rig.job.log[-2_000:])
    return found[number]


def skew_s(finding: Finding) -> float:
    """By how much a clock is said to be off, s."""
    return float(re.findall(r"([\d.]+) s (?:behind|ahead)", finding.causes[0].why)[0])
