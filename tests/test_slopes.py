"""What bench/job/soak.py says of memory that grows, is flat, or is flat but for single samples."""

from math import isclose

from hypothesis import given
from hypothesis import strategies as st

from bench.measure.slopes import slope, slope_of_pairs

HOURS = [minute / 60 for minute in range(60)]


@given(st.floats(10, 1_000), st.floats(-5, 5))
def test_both_slopes_of_a_straight_line_are_its_own(start: float, per_hour: float) -> None:
    values = [start + per_hour * hour for hour in HOURS]
    expected = 100 * per_hour * len(values) / sum(values)
    assert isclose(slope_of_pairs(HOURS, values), expected, abs_tol=1e-6)
    assert isclose(slope(HOURS, values)[0], expected, abs_tol=1e-6)


@given(st.sets(st.integers(0, 59), max_size=5), st.floats(20, 100))
def test_single_samples_that_lie_far_off_move_the_line_but_not_the_median_of_pairs(
    which: set[int], off: float
) -> None:
    values = [100 + 2 * hour + off * (index in which) for index, hour in enumerate(HOURS)]
    assert 1.5 < slope_of_pairs(HOURS, values) < 2.5
    late = [100.0 + off * (index >= 57) for index in range(60)]
    assert slope(HOURS, late)[0] > 1 > abs(slope_of_pairs(HOURS, late))


@given(st.lists(st.floats(0, 10), max_size=2))
def test_too_few_samples_have_no_slope(values: list[float]) -> None:
    assert slope(HOURS[: len(values)], values) == (0.0, 0.0)
    assert slope_of_pairs(HOURS[: len(values)], values) == 0.0
