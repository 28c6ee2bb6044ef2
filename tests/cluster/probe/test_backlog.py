from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.cluster.probe.backlog import Backlog, entries_of
from rebalance_monitor.coordinator.probe.sample import ProbeSample, RebalancingGroup


def look(at: int, groups: int = 0, members: int = 0, listed: int | None = None) -> ProbeSample:
    return ProbeSample(
        at=at,
        groups=(RebalancingGroup("g", "Stable", "classic", "consumer"),) * groups,
        members={"g": (("m", "", "c", "h"),) * members},
        listed=None if listed is None else frozenset(map(str, range(listed))),
    )


def test_samples_are_taken_once_and_in_order() -> None:
    backlog = Backlog()
    for at in range(5):
        backlog.add(look(at))
    assert [one.at for one in backlog.take()] == [0, 1, 2, 3, 4]
    assert backlog.take() == []
    assert backlog.dropped == 0


def test_the_newest_sample_waits_however_large_it_is() -> None:
    backlog = Backlog(samples=3, entries=10)
    backlog.add(look(1, groups=5))
    backlog.add(look(2, groups=50, members=50))
    assert [one.at for one in backlog.take()] == [2]
    assert backlog.dropped == 1


def test_what_was_taken_leaves_its_room() -> None:
    backlog = Backlog(samples=10, entries=10)
    backlog.add(look(1, groups=10))
    backlog.take()
    backlog.add(look(2, listed=10))
    assert [one.at for one in backlog.take()] == [2]
    assert backlog.dropped == 0


@given(
    st.lists(
        st.builds(look, st.just(0), st.integers(0, 9), st.integers(0, 9), st.none() | st.integers(0, 9))
    ),
    st.integers(1, 20),
    st.integers(0, 40),
)
def test_it_keeps_the_newest_that_fit_and_counts_the_others(
    looks: list[ProbeSample], most: int, entries: int
) -> None:
    backlog = Backlog(most, entries)
    for one in looks:
        backlog.add(one)
    kept = backlog.take()
    assert kept == looks[len(looks) - len(kept) :]
    assert backlog.dropped == len(looks) - len(kept)
    assert len(kept) <= most
    assert len(kept) <= 1 or sum(map(entries_of, kept)) <= entries
