"""Lag is what waits: never negative, never made up, its age within bounds that hold."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.lag.arithmetic import SKEW_MS, records
from rebalance_monitor.coordinator.lag.ends import UNKNOWN
from rebalance_monitor.coordinator.lag.packed.recent_ends import TopicEnds

offsets = st.integers(0, 2**50)
times = st.integers(0, 2**42)
growth = st.lists(st.tuples(st.integers(1, 10**6), st.integers(0, 10**4)), min_size=1, max_size=200)


@given(offsets, times, offsets, times)
def test_a_known_lag_is_what_lies_between_and_never_negative(
    offset: int, committed_at: int, end: int, asked_at: int
) -> None:
    found = records(offset, committed_at, end, asked_at)
    if offset <= end:
        assert found == end - offset
    elif committed_at >= asked_at - SKEW_MS:
        assert found == 0
    else:
        assert found is None


@given(times, offsets, times)
def test_what_no_broker_answered_is_unknown(at: int, offset: int, asked_at: int) -> None:
    assert records(offset, at, UNKNOWN, asked_at) is None
    assert records(-1, at, offset, asked_at) is None


def log_of(steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Time and end of each sample of a log that grows."""
    at = end = 0
    found = [(0, 0)]
    for after, more in steps:
        at, end = at + after, end + more
        found.append((at, end))
    return found


@given(growth, st.data())
def test_the_age_of_the_oldest_waiting_record_lies_within_its_bounds(
    steps: list[tuple[int, int]], data: st.DataObject
) -> None:
    log = log_of(steps)
    ends = TopicEnds()
    for at, end in log:
        ends.add(at, (end,))
    now, newest = log[-1]
    if newest == 0:
        return
    offset = data.draw(st.integers(0, newest - 1))
    # It was written after the last sample without it and before the first with it.
    lower, upper = next((before[0], after[0]) for before, after in pairwise(log) if after[1] > offset)
    found = ends.age(0, offset, now)
    assert found is not None
    assert found.low <= now - upper
    assert found.high is None or found.high >= now - lower
    assert found.low <= found.estimate
    assert found.high is None or found.estimate <= found.high


@given(growth, st.floats(0, 1))
def test_an_end_between_two_samples_lies_between_theirs(steps: list[tuple[int, int]], share: float) -> None:
    ends, log = TopicEnds(), log_of(steps)
    for at, end in log:
        ends.add(at, (end,))
    at = int(share * log[-1][0])
    before = max(end for when, end in ends.known(0) if when <= at)
    after = min(end for when, end in ends.known(0) if when >= at)
    assert before <= ends.end_at(0, at) <= after


@given(growth)
def test_nothing_is_late_at_the_end_of_the_log(steps: list[tuple[int, int]]) -> None:
    ends = TopicEnds()
    for at, end in log_of(steps):
        ends.add(at, (end,))
    found = ends.age(0, ends.known(0)[-1][1], ends.at[-1])
    assert found is not None
    assert found.estimate == found.high == 0


@given(growth, growth)
def test_a_log_that_went_back_is_another_one(
    before: list[tuple[int, int]], after: list[tuple[int, int]]
) -> None:
    ends = TopicEnds()
    log = log_of(before)
    for at, end in log:
        ends.add(at, (end + 10**9,))
    for at, end in log_of(after):
        ends.add(at + log[-1][0] + 1, (end,))
    kept = [end for _, end in ends.known(0)]
    assert all(end < 10**9 for end in kept)
    assert kept == sorted(kept)
    assert len(ends.at) <= TopicEnds.KEPT


def test_samples_reach_back_for_hours_in_a_dozen() -> None:
    ends = TopicEnds()
    for second in range(0, 4 * 3_600, 5):
        ends.add(1_000 * second, (second,))
    assert ends.at[-1] - ends.at[0] == 1_000 * (4 * 3_600 - 5)
    ages = [(ends.at[-1] - at) / 1_000 for at in ends.at]
    for age in (60, 600, 3_600):
        assert any(age / 4 <= one <= 4 * age for one in ages), ages


answers = st.lists(
    st.tuples(st.integers(1, 10**5), st.lists(st.integers(-1, 50), min_size=1, max_size=3)),
    min_size=1,
    max_size=9,
)


@given(answers)
def test_a_partition_s_ends_are_its_own_whatever_those_beside_it_do(
    drawn: list[tuple[int, list[int]]],
) -> None:
    """Held to a list of each partition alone: partitions that are added, that do not answer, or go back."""
    ends, alone, at = TopicEnds(), dict[int, list[tuple[int, int]]](), 0
    for gap, answered in drawn:
        at += gap
        ends.add(at, answered)
        for partition, end in enumerate(answered):
            known = alone.setdefault(partition, [])
            if end != UNKNOWN:
                if known and end < known[-1][1]:
                    known.clear()
                known.append((at, end))
    assert {partition: ends.known(partition) for partition in alone} == alone


@given(st.integers(1, 10**6), growth, st.data())
def test_a_record_came_between_two_samples_and_before_the_first_one_nobody_knows_when(
    first: int, steps: list[tuple[int, int]], data: st.DataObject
) -> None:
    known = [(at, end + first) for at, end in log_of(steps)]
    ends = TopicEnds()
    for at, end in known:
        ends.add(at, [end])
    offset = data.draw(st.integers(0, known[-1][1] + 1))
    came = ends.came_at(0, offset)
    if offset >= known[-1][1]:
        assert came == -known[-1][0]
    elif offset < first:
        assert came is None
    else:
        assert came is not None
        assert known[0][0] <= came <= known[-1][0]


@given(st.integers(0, 20_000), st.integers(1, 20_000))
def test_what_stands_at_a_position_is_a_marker_unless_a_sample_shows_that_it_came_later(
    committed: int, after: int
) -> None:
    """One offset more, and no other: a record that came after the commit, or the marker of one before."""
    ends, came = TopicEnds(), committed + after
    for at in range(-5_000, 60_000, 5_000):
        ends.add(at, [7 + (at >= came)])
    told = ends.next_at(0, 7, committed)
    between = any(committed < at < came for at in range(-5_000, 60_000, 5_000))
    assert told is not None
    assert (told >= 0) == between
    assert not between or abs(told - came) <= 5_000


@given(st.integers(500, 20_000))
def test_records_are_as_far_apart_as_they_came(every: int) -> None:
    ends = TopicEnds()
    for at in range(0, 60_000, 5_000):
        ends.add(at, [at // every])
    assert ends.apart(0, -1, 50_000) == 0
    found = ends.apart(0, 5_000, 55_000)
    assert 50_000 / (50_000 / every + 1) - 1 <= found <= 50_000 / max(50_000 / every - 1, 1)


@given(st.integers(1, 1_000))
def test_what_is_consumed_while_no_record_comes_says_nothing_of_how_far_apart_they_come(end: int) -> None:
    ends = TopicEnds()
    for at in range(0, 60_000, 5_000):
        ends.add(at, [end])
    assert ends.apart(0, 5_000, 55_000) == 0
