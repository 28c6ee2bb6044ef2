"""Clock skew by the times of fresh records: proven where ahead, judged over many batches where behind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.probe.sample import ProbeSample
from rebalance_monitor.engine.health.skew import ENOUGH, ENOUGH_AHEAD, STALE_MS, SkewWatch

T0 = 1_795_000_000_000
GRACE, USUAL = 1_500, 3_000


def watch(ages: list[int], shard: int = 0) -> str:
    found, said = SkewWatch(GRACE, USUAL), ""
    found.learn([ProbeSample(T0, (), ((0, 1, 5), (1, 2, 5)), ())])
    for number, age in enumerate(ages):
        now = T0 + 1_000 * number
        said = found.on_batch({shard: now - age}, now)
        assert said is not None
    return said


@given(st.lists(st.integers(-GRACE, USUAL), max_size=100))
def test_clocks_that_agree_are_never_blamed(ages: list[int]) -> None:
    assert watch(ages) == ""


@given(st.integers(GRACE + 1, 10**7))
def test_a_broker_ahead_is_named_after_a_few_batches(ahead: int) -> None:
    assert watch([-ahead] * (ENOUGH_AHEAD - 1)) == ""
    assert watch([-ahead] * ENOUGH_AHEAD, shard=1).startswith("the clock of broker 2 is ")


def test_a_broker_behind_is_named_after_many_batches_without_a_fresh_record() -> None:
    behind = [60_000 + age for age in range(0, 1_000, 20)]
    assert "broker 1 is about 60.0 s behind" in watch(behind)
    assert watch(behind[: ENOUGH - 1]) == ""
    assert watch([*behind, 0]) == ""


@given(st.lists(st.integers(0, USUAL), min_size=10, max_size=60), st.integers(0, 9))
def test_one_forged_time_is_no_clock(ages: list[int], at: int) -> None:
    assert watch([*ages[:at], -(10**12), *ages[at:]]) == ""


def test_records_of_a_shard_without_a_known_leader_count_for_all() -> None:
    assert (
        watch([-60_000] * ENOUGH_AHEAD, shard=9)
        == "the clock of the brokers is 60.0 s ahead of the monitor's"
    )


def test_a_broker_that_leads_nothing_any_more_is_not_blamed_for_ever() -> None:
    found = SkewWatch(GRACE, USUAL)
    found.learn([ProbeSample(T0, (), ((0, 1, 5),), ())])
    said = [found.on_batch({0: T0 + at + 60_000}, T0 + at) for at in range(0, 10_000, 1_000)]
    assert "broker 1 is 60.0 s ahead" in said[-1]
    found.learn([ProbeSample(T0, (), ((0, 2, 6),), ())])
    after = [found.on_batch({0: T0 + at}, T0 + at) for at in range(10_000, 700_000, 1_000)]
    assert "broker 1 is 60.0 s ahead" in after[0]
    assert after[-1] == ""


@pytest.mark.parametrize("share", [1, 3])
def test_a_broker_that_was_blamed_before_a_restart_is_cleared_by_its_own_samples_alone(share: int) -> None:
    """Its records are rarer than those of another broker, whose clock is right."""
    found = SkewWatch(GRACE, USUAL, blamed=[2])
    found.learn([ProbeSample(T0, (), ((0, 1, 5), (1, 2, 5)), ())])
    said = []
    for number in range(share * ENOUGH + 1):
        now = T0 + 1_000 * number
        behind = {1: now} if number % share == 0 else {}
        said.append(found.on_batch({0: now, **behind}, now))
    assert said.index("") == share * (ENOUGH - 1)
    assert set(said[: share * (ENOUGH - 1)]) == {None}


def test_a_broker_of_which_nothing_is_heard_any_more_is_not_blamed_for_ever() -> None:
    found = SkewWatch(GRACE, USUAL, blamed=[2])
    assert found.on_batch({}, T0) is None
    assert found.on_batch({}, T0 + STALE_MS - 1) is None
    assert found.on_batch({}, T0 + STALE_MS) == ""
