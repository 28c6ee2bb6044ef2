"""Windows are densities: each sums up to one, and lies where the waits that make it allow."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.coordinator.departure import windows
from rebalance_monitor.coordinator.departure.measured import Busy, Rejoined
from rebalance_monitor.coordinator.departure.windows import SLACK_MS, arrival, trapezoid
from tests.coordinator.departure.test_attribution import silence

STEP_MS = 5
waits = st.integers(0, 400)


@given(waits, waits)
@settings(max_examples=30)
def test_a_sum_of_two_waits_is_a_density_from_no_wait_to_both_and_no_further(first: int, second: int) -> None:
    latest = first + second + SLACK_MS
    assert sum(trapezoid(at, first, second) for at in range(-SLACK_MS, latest)) == pytest.approx(1, abs=0.01)
    assert trapezoid(-SLACK_MS - 1, first, second) == trapezoid(latest + 1, first, second) == 0


@given(
    spread=waits,
    told=st.builds(
        Rejoined,
        least=st.integers(0, 1_500),
        apart=st.integers(0, 2_500),
        among=st.integers(1, 5),
        sure=st.floats(0, 1),
    ),
    wait=st.sampled_from([-1, 0, 300]),
    crowded=st.booleans(),
)
@settings(max_examples=15)
def test_whatever_the_survivors_tell_the_barriers_end_is_a_density(
    spread: int, told: Rejoined, wait: int, *, crowded: bool
) -> None:
    seen = silence(0, session=6_000, rejoined=told, wait=wait, crowded=crowded)
    whole = sum(arrival(seen, late, spread) for late in range(-SLACK_MS, 5_000, STEP_MS)) * STEP_MS
    assert whole == pytest.approx(1, abs=0.015)


@given(
    late=st.one_of(st.integers(-300, 500), st.integers(0, 60_000)),
    spread=st.integers(0, 10_000),
    told=st.one_of(
        st.none(),
        st.builds(
            Rejoined, st.integers(0, 20_000), st.integers(0, 5_000), st.integers(1, 5), st.floats(0, 1)
        ),
    ),
    held=st.integers(0, 20_000),
    busy=st.one_of(st.none(), st.builds(Busy, st.integers(0, 20_000), st.floats(0, 1))),
    aborted=st.integers(0, 2),
    ended=st.sampled_from([0.0, 0.4, 1.0]),
    returned=st.booleans(),
)
@settings(max_examples=500)
def test_what_is_told_apart_as_too_late_or_too_early_is_so_by_every_window(
    late: int,
    spread: int,
    told: Rejoined | None,
    held: int,
    busy: Busy | None,
    aborted: int,
    ended: float,
    *,
    returned: bool,
) -> None:
    measured = {"held": held, "busy": busy, "aborted": aborted, "ended": ended, "returned": returned}
    seen = silence(0, session=45_000, rejoined=told, **measured)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "_is_out", lambda *_: False)
        by_every_window = arrival(seen, late, spread)
    assert arrival(seen, late, spread) == by_every_window


@pytest.mark.parametrize("wait", [0, 300])
def test_a_wait_that_is_known_bounds_the_barriers_end(wait: int) -> None:
    """A group that became empty waited for nobody: the wait is 0 then."""
    seen = silence(0, rejoined=Rejoined(), wait=wait)
    assert arrival(seen, 200 + wait, 200) > 0
    assert arrival(seen, 200 + wait + SLACK_MS + 1, 200) == 0
