"""By how much the monitor's clock is behind a coordinator's: what looks at barriers prove, and what not."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.clocks import Clocks
from rebalance_monitor.coordinator.findings import Finding
from rebalance_monitor.coordinator.lookback import LookBack
from rebalance_monitor.coordinator.moves import Moves
from tests.coordinator.test_untold import T0, rebalance

APART = 1_000
PERIOD = 30_000
BARRIERS = st.lists(st.tuples(st.integers(5_000, 20_000), st.integers(1_100, 6_000)), min_size=6, max_size=20)


def scene(
    barriers: list[tuple[int, int]], behind: int, phase: int, took: int
) -> list[tuple[Finding, LookBack]]:
    """Barriers (start in their period, length), with looks each second by a clock that is `behind`; in ms."""
    spans = [
        (T0 + n * PERIOD + start, T0 + n * PERIOD + start + held) for n, (start, held) in enumerate(barriers)
    ]
    answers = range(T0 + phase, T0 + (len(barriers) + 1) * PERIOD, APART)
    seen = [at for at in answers if any(start <= at < end for start, end in spans)]
    looks = LookBack(
        [at - took - behind for at in seen],
        [at - took - behind for at in answers],
        end=lambda at: at + took,
    )
    ends = [T0 - PERIOD, *(end for _, end in spans)]
    told = [
        replace(rebalance(end - T0, began=before - T0), id=f"r{end}", shard=7)
        for before, end in pairwise(ends)
    ]
    return [(one, looks) for one in told]


def proven(
    clocks: Clocks, told: list[tuple[Finding, LookBack]], leader: int = 1, moved: int = -1
) -> list[int]:
    """What is proven as each barrier is told, all at once; `leader` coordinates them, since `moved`."""
    looks = {one.id: back for one, back in told}
    moves = Moves("c1", {"leaders": {"7": [leader, 1]}, "moved": {"7": moved}})
    clocks.learn([one for one, _ in told], moves, lambda one: looks[one.id])
    return [clocks.behind(one) for one, _ in told]


PHASES, TOOK = st.integers(0, APART - 1), st.integers(0, 50)


@given(BARRIERS, st.integers(1_400, 5_000), PHASES, TOOK)
def test_a_clock_that_is_behind_is_proven_by_two_barriers_to_half_the_time_between_looks(
    barriers: list[tuple[int, int]], behind: int, phase: int, took: int
) -> None:
    told = proven(Clocks(), scene(barriers, behind, phase, took))
    assert told[0] == 0
    assert all(abs(one - behind) <= APART // 2 + took for one in told[1:])


@given(BARRIERS, st.integers(-2_000, 250), PHASES, TOOK)
def test_a_clock_that_is_right_or_ahead_is_never_said_to_be_behind(
    barriers: list[tuple[int, int]], behind: int, phase: int, took: int
) -> None:
    assert set(proven(Clocks(), scene(barriers, behind, phase, took))) == {0}


@given(BARRIERS, st.integers(0, 20), st.integers(300, 3_000), PHASES)
def test_what_is_proven_is_the_same_however_the_findings_are_cut_and_after_a_restart(
    barriers: list[tuple[int, int]], cut: int, behind: int, phase: int
) -> None:
    told = scene(barriers, behind, phase, 0)
    first = Clocks()
    parts = proven(first, told[:cut])
    parts += proven(Clocks(first.snapshot()), told[cut:])
    assert parts == proven(Clocks(), told)


def test_a_clock_that_was_set_is_believed_again() -> None:
    clocks = Clocks()
    crowd = [(9_000, 3_000 + 37 * n) for n in range(8)]
    assert proven(clocks, scene(crowd, 2_000, 300, 0))[-1] > 0
    assert proven(clocks, scene(crowd, 0, 300, 0))[-1] == 0


def test_barriers_that_nobody_saw_prove_nothing_where_they_do_not_agree() -> None:
    rest = scene([(9_000, 3_000 + 37 * n) for n in range(8)], 0, 300, 0)
    # The barrier that was seen ended unwritten; of the one that the record tells no look knows.
    odd = [(replace(one, id=f"odd{n}", at=one.at + n * 4_000), looks) for n, (one, looks) in enumerate(rest)]
    assert set(proven(Clocks(), odd[1:4])) == {0}


def test_a_barrier_seen_before_its_coordinator_moved_proves_nothing() -> None:
    told = scene([(9_000, 3_000 + 37 * n) for n in range(8)], 2_000, 300, 0)
    assert proven(Clocks(), told, moved=T0 + 8 * PERIOD)[-1] == 0


def test_each_coordinator_has_a_clock_of_its_own() -> None:
    clocks = Clocks()
    crowd = [(9_000, 3_000 + 37 * n) for n in range(8)]
    assert proven(clocks, scene(crowd, 2_000, 300, 0), leader=1)[-1] > 0
    assert proven(clocks, scene(crowd, 0, 300, 0), leader=2)[-1] == 0
