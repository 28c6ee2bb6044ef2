"""A job that is behind says how far: again each time that has doubled, and the most at the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from math import log2
from typing import TYPE_CHECKING, cast

from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.engine.batch.batches import Batch
from rebalance_monitor.engine.driver.speaking import TURN_S, Speaking
from rebalance_monitor.engine.driver.writer import BatchWriter, Published
from rebalance_monitor.engine.health.health import Health
from rebalance_monitor.engine.health.notices import Notices

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Finding

T0 = 1_795_000_000_000
AFTER_MS = 10_000
SETTINGS = DetectionSettings(behind_after_ms=AFTER_MS)
DURATIONS = st.lists(st.integers(1, 2_000_000), min_size=1, max_size=30)


@dataclass
class Monitor:
    """Health behind a writer that only speaks, on a clock that the test moves (ms)."""

    now: int = T0
    published: Published = field(default_factory=lambda: Published(batches=1))
    findings: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.notices = Notices(lambda: self.now)
        self.health = Health(SETTINGS, "c", notices=self.notices, probe_ms=None)
        self.speaking = Speaking(self.notices, cast("BatchWriter", self), AFTER_MS, lambda: self.now / 1000)
        self.batch(0)

    def speak(self) -> bool:
        self.findings += self.health.on_batch(Batch(), (), self.now)
        return True

    def batch(self, took_ms: int, records: int = 0) -> list[Finding]:
        began, self.now = self.now, self.now + took_ms
        found = self.health.on_batch(Batch(now=began, types=Counter({1: records})), (), self.now)
        self.findings += found
        self.speaking.progressed()
        return found

    def restart(self) -> None:
        self.health = Health(SETTINGS, "c", self.health.snapshot(), self.notices, probe_ms=None)


def lags(found: list[Finding], *phases: str) -> list[int]:
    return [int(one.details["lag_ms"]) for one in found if one.phase in phases]


def incidents(found: list[Finding]) -> list[list[Finding]]:
    names = dict.fromkeys(one.incident for one in found)
    return [[one for one in found if one.incident == name] for name in names]


def require_sound(found: list[Finding]) -> None:
    assert len({one.id for one in found}) == len(found)
    for incident in incidents(found):
        phases = [one.phase for one in incident]
        assert phases[0] == "opened"
        assert phases.count("opened") == 1
        assert "resolved" not in phases[:-1]
        told = lags(incident, "opened", "updated")
        assert all(after >= 2 * before for before, after in pairwise(told))
        assert len(told) <= 2 + log2(told[-1] / AFTER_MS)
        assert all(most >= told[-1] for most in lags(incident, "resolved"))


@given(DURATIONS)
def test_batches_that_take_ever_so_long_report_each_doubling_once_and_the_peak_at_the_end(
    durations: list[int],
) -> None:
    monitor = Monitor()
    for took_ms in durations:
        monitor.batch(took_ms)
        last = incidents(monitor.findings)[-1:]
        if took_ms > AFTER_MS:
            assert 2 * lags(last[0], "opened", "updated")[-1] > took_ms
    monitor.batch(1)
    require_sound(monitor.findings)
    assert {found[-1].phase for found in incidents(monitor.findings)} <= {"resolved"}
    slowest = max(durations)
    assert max(lags(monitor.findings, "resolved"), default=0) >= (slowest if slowest > AFTER_MS else 0)


@given(st.integers(AFTER_MS + 1_000, 3_600_000), st.integers(0, 9_000))
def test_while_nothing_is_read_what_was_reported_is_never_half_of_what_it_is(
    still_ms: int, took_ms: int
) -> None:
    monitor = Monitor()
    monitor.batch(took_ms)
    began, until = monitor.now - took_ms, monitor.now + still_ms
    turn_ms = max(int(TURN_S * 1000), still_ms // 500)
    while monitor.now < until:
        monitor.now += turn_ms
        monitor.speaking.turn()
        told = lags(monitor.findings, "opened", "updated")
        assert 2 * max(told, default=AFTER_MS) > monitor.now - began - turn_ms
    lag = monitor.now - began
    monitor.batch(1)
    monitor.batch(1)
    require_sound(monitor.findings)
    assert lags(monitor.findings, "resolved") == [lag + 1]


@given(DURATIONS, st.integers(0, 29))
def test_a_restart_in_between_repeats_no_id_and_forgets_no_most(durations: list[int], at: int) -> None:
    monitor = Monitor()
    for number, took_ms in enumerate(durations):
        if number == at:
            monitor.restart()
        monitor.batch(took_ms)
    monitor.batch(1)
    monitor.batch(1)
    require_sound(monitor.findings)


def test_how_many_records_a_late_batch_had_is_reported_and_in_the_end_how_many_at_most() -> None:
    monitor = Monitor()
    assert [dict(one.details) for one in monitor.batch(12_000, records=7)] == [
        {"cause": "behind", "records": 7, "lag_ms": 12_000}
    ]
    assert monitor.batch(20_000, records=8) == []
    (found,) = monitor.batch(24_000, records=9)
    assert (found.phase, found.details["records"], found.details["lag_ms"]) == ("updated", 9, 24_000)
    # The topic is known up to the beginning of a batch, and only once that is read.
    (over,) = monitor.batch(1, records=30)
    assert (over.phase, over.details["records"], over.details["lag_ms"]) == ("resolved", 30, 20_000 + 24_000)
