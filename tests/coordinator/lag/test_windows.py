"""What a window says: nothing of lag that does not grow, the right thing of lag that does."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.coordinator.lag.ends import UNKNOWN
from rebalance_monitor.coordinator.lag.packed.columns import Columns
from rebalance_monitor.coordinator.lag.windows import Owner, Track, Verdict, judge, window

LEAST, BEHIND = 60_000, 600_000
STEP = 5_000
Moment = tuple[int, int]
"""Committed offset and end at one sample."""


class Partition:
    """The windows of one partition."""

    def __init__(self) -> None:
        self.columns = Columns.new(1)
        self.position = (UNKNOWN, UNKNOWN)

    def commit(self, offset: int, at: int) -> None:
        self.columns.commit(np.array([self.position]), np.array([(offset, at)]))
        self.position = (offset, at)

    def observe(self, lag: int | None, at: int) -> None:
        self.columns.observe(np.array([UNKNOWN if lag is None else lag]), at)

    def pause(self) -> None:
        self.columns.pause(np.array([True]))

    @property
    def track(self) -> Track:
        return self.columns.track(0, *self.position)


def play(moments: list[Moment], *, recommits: bool = False, owner_goes_on: bool = False) -> list[Verdict]:
    """Verdicts of samples every 5 s; `recommits`: the offset is committed again where it did not move."""
    partition, found = Partition(), []
    committed = last = -1
    for number, (offset, end) in enumerate(moments):
        at = number * STEP
        if offset != last or recommits:
            committed, last = at, offset
        partition.commit(offset, committed)
        partition.observe(max(0, end - offset), at)
        owner = Owner(at if owner_goes_on else committed, 5_000)
        found.append(judge(partition.track, at, owner, LEAST, BEHIND))
    return found


def busy(samples: int, *, start: int = 0) -> list[Moment]:
    """A consumer that keeps up."""
    return [(start + 10 * n, start + 10 * n + 3) for n in range(samples)]


def halted(samples: int, offset: int, rate: int) -> list[Moment]:
    return [(offset, offset + 3 + rate * n) for n in range(samples)]


def test_a_member_that_commits_nothing_while_records_come_has_stopped() -> None:
    found = play(busy(30) + halted(40, 290, 10))
    assert set(found[:30]) == {Verdict.FINE}
    assert found[-1] is Verdict.STOPPED
    first = found.index(Verdict.STOPPED) - 30
    assert LEAST <= first * STEP <= LEAST + 3 * STEP


def test_a_member_whose_commits_go_on_with_one_offset_is_stalled() -> None:
    assert play(busy(30) + halted(40, 290, 10), recommits=True)[-1] is Verdict.STALLED
    assert play(busy(30) + halted(40, 290, 10), owner_goes_on=True)[-1] is Verdict.STALLED


def test_lag_that_only_rises_for_the_long_window_is_falling_behind() -> None:
    found = play([(10 * n, 20 * n) for n in range(200)])
    assert found[-1] is Verdict.BEHIND
    assert Verdict.STOPPED not in found
    assert found.index(Verdict.BEHIND) * STEP >= BEHIND


@settings(max_examples=20)
@given(st.integers(0, 1_000), st.integers(0, 10**6), st.booleans(), st.booleans())
def test_lag_that_has_not_grown_since_the_last_commit_says_nothing(
    lag: int,
    offset: int,
    recommits: bool,  # noqa: FBT001 - drawn
    goes_on: bool,  # noqa: FBT001 - drawn
) -> None:
    moments = busy(20, start=offset) + [(offset + 200, offset + 200 + lag)] * 200
    found = play(moments, recommits=recommits, owner_goes_on=goes_on)
    assert set(found) <= {Verdict.FINE}


@settings(max_examples=30)
@given(st.integers(1, 50), st.lists(st.integers(0, 40), min_size=60, max_size=200))
def test_one_that_keeps_up_within_its_commit_interval_is_fine(chunk: int, arrivals: list[int]) -> None:
    end, moments, done = 0, [], 0
    for number, more in enumerate(arrivals):
        end += more
        if number % min(chunk, 11) == 0:
            done = end
        moments.append((done, end))
    assert set(play(moments)) == {Verdict.FINE}


def test_the_first_record_on_a_topic_that_was_idle_for_hours_is_no_stall() -> None:
    found = play(busy(20) + [(190, 193)] * 2_000 + [(190, 194)] * 3 + [(194, 194)] * 50)
    assert set(found) == {Verdict.FINE}


def test_a_transaction_s_marker_behind_the_last_commit_is_no_waiting_record() -> None:
    found = play(busy(20) + [(200, 200)] * 3 + [(200, 201)] * 500, recommits=True)
    assert set(found) == {Verdict.FINE}


def test_the_window_follows_the_commit_interval() -> None:
    partition = Partition()
    for number in range(20):
        partition.commit(number, number * 60_000)
        partition.observe(0, number * 60_000)
    last = 19 * 60_000
    owner = Owner(last, 60_000)
    said = {}
    for at in range(last + STEP, last + 1_000_000, STEP):
        partition.observe((at - last) // 1_000, at)
        said[at - last] = judge(partition.track, at, owner, LEAST, 10**9)
    assert min(after for after, verdict in said.items() if verdict is Verdict.STOPPED) >= 600_000
    assert said[700_000] is Verdict.STOPPED


def test_the_hours_in_which_nothing_comes_are_no_commit_interval() -> None:
    """A client that commits what is new only: one record in three hours, committed at once."""
    partition, at = Partition(), 0
    for number in range(6):
        partition.commit(number, at)
        for _ in range(10):
            at += STEP
            partition.observe(0, at)
        at += 3 * 3_600_000
        partition.observe(0, at)
    assert 0 < window(partition.track, Owner(), LEAST) <= 2 * LEAST


@pytest.mark.parametrize("rate", [1, 100])
def test_a_longer_interval_is_believed_at_once(rate: int) -> None:
    """Commits come close together where members join; then the client's own timer of five minutes runs."""
    partition, at = Partition(), 0
    for number in range(20):
        at += 10_000
        partition.commit(number * 100, at)
        partition.observe(0, at)
    for number in range(20, 22):
        for late in range(0, 300_000, STEP):
            partition.observe(late * rate // STEP, at + late)
        at += 300_000
        partition.commit(number * 10_000, at)
    assert window(partition.track, Owner(), LEAST) >= 2_500_000


def test_without_any_known_commit_interval_nothing_is_judged() -> None:
    partition = Partition()
    partition.commit(5, 0)
    for at in range(0, 2_000_000, STEP):
        partition.observe(at, at)
        assert judge(partition.track, at, Owner(), LEAST, BEHIND) is Verdict.FINE


def test_a_pause_begins_the_windows_anew_and_an_unknown_lag_changes_nothing() -> None:
    partition = Partition()
    for number in range(20):
        partition.commit(number, number * STEP)
        partition.observe(0, number * STEP)
    for number in range(20, 30):
        partition.observe(5 * number, number * STEP)
    partition.pause()
    before = (partition.track.grown, partition.track.base)
    partition.observe(None, 30 * STEP)
    assert (partition.track.grown, partition.track.base) == before
    partition.observe(150, 30 * STEP)
    partition.observe(155, 31 * STEP)
    assert partition.track.grown == 31 * STEP


def test_lag_that_stood_still_for_long_and_goes_up_once_is_no_falling_behind() -> None:
    partition = Partition()
    for step in range(200):
        partition.commit(step, step * 5_000)
        partition.observe(0 if step < 199 else 72, step * 5_000)
    assert judge(partition.track, 199 * 5_000, Owner(199 * 5_000, 5_000), 60_000, 600_000) is Verdict.FINE
