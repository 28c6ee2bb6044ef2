"""A clock that is set back under a running query is noticed, and nothing else is taken for that."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.streaming.query.query import SET_BACK_S, WallClock

TURN_S = 0.2


@given(st.lists(st.integers(-7_200_000, 7_200_000), max_size=20))
def test_every_step_back_is_seen_once_and_no_other(steps_ms: list[int]) -> None:
    wall, steady = 1.8e9, 1_000.0
    clock = WallClock(lambda: wall, lambda: steady)
    for step in (ms / 1_000 for ms in [0, *steps_ms, 0]):
        wall, steady = wall + TURN_S + step, steady + TURN_S
        # Near the border the sum of floats may lie on either side.
        assert clock.was_set_back() is (step < -SET_BACK_S) or abs(step + SET_BACK_S) < 1e-5
