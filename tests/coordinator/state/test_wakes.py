"""The groups that are due are those that a look at all of them finds, whatever changed meanwhile."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from rebalance_monitor.coordinator.state.group_state import GroupState
from rebalance_monitor.coordinator.state.store import GroupStore
from rebalance_monitor.coordinator.state.wakes import VOID, Wakes
from rebalance_monitor.decoders import Row
from rebalance_monitor.decoders.rows import COMMIT_RUN, partition_entry, run_body

NAMES = ("a", "b", "c", "d")
FAR = 1_000_000
changes = st.tuples(st.sampled_from(NAMES), st.sampled_from([0, 5, 10, 20, 50, FAR, None]))
batches = st.lists(
    st.tuples(st.lists(changes, max_size=4), st.integers(0, 15), st.booleans(), st.integers(1, 40)),
    max_size=30,
)


@given(batches, st.dictionaries(st.sampled_from(NAMES), st.integers(0, 60), max_size=3))
def test_the_due_groups_are_those_that_a_check_of_every_group_finds(
    drawn: list[tuple[list[tuple[str, int | None]], int, bool, int]], frozen: dict[str, int]
) -> None:
    """A group whose deadlines could not be judged stays due; one whose could is due again later."""
    store = GroupStore({name: (wake, b"") for name, wake in frozen.items()}, lambda _: GroupState())
    wakes, now = Wakes(store), 0
    for rows, gap, forgets, later in drawn:
        for name, wake in rows:
            wakes.touched.add(name)
            if wake is None:
                store.pop(name, None)
            else:
                store[name] = GroupState()
                store[name].wake = wake
        if forgets:
            for group in store.values():
                group.wake = 0
            wakes.forget()
        now += gap
        found = wakes.due(now)
        assert found == store.due(now)
        for name in found[::2]:
            store[name].wake = now + later


def test_entries_that_are_void_do_not_pile_up() -> None:
    store = GroupStore()
    wakes = Wakes(store)
    for turn in range(1_000):
        store["a"] = GroupState()
        store["a"].wake = FAR + turn
        wakes.touched.add("a")
        assert wakes.due(turn) == []
    assert len(wakes._heap) <= VOID * (1 + VOID) + 1


def test_names_that_commit_once_are_not_kept() -> None:
    coordinator = ShardCoordinator(new_shard_state(0, 0, None), DetectionSettings(), "cluster")
    body = run_body(partition_entry(b"t", 0), bytes(8))
    for at in range(5_000):
        coordinator.on_row(Row(0, 0, COMMIT_RUN, at, at, at, f"name-{at}", at, 1, body))
        coordinator.on_clock(at)
    assert len(coordinator._active) <= 1_001
