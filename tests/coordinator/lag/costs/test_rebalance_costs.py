"""What a rebalance cost is said once consumption is back: exactly what came, what waited, and until when."""

from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.cli.explain_tables import write_tables
from rebalance_monitor.coordinator.explain.dossier import open_dossier
from rebalance_monitor.coordinator.explain.explanation import Place, explain
from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope
from rebalance_monitor.coordinator.lag.costs.handovers import handed_over
from rebalance_monitor.coordinator.lag.following import News
from rebalance_monitor.coordinator.state.group_state import GroupState
from tests.coordinator.lag.world import SETTINGS, STEP, T0, World, finding

EAGER = {"stopped_ms_min": 1_000}


def rebalance(world: World, stopped: int, **fields: object) -> Finding:
    made = finding(Kind.REBALANCE, world.at, None, stopped_ms_max=stopped, **{**EAGER, **fields})
    (told,) = world.lag.priced([made])
    return told


def costs(world: World) -> list[Finding]:
    return world.of(Kind.REBALANCE_COST)


@given(rate=st.integers(1, 1_000), looks=st.integers(1, 20), back=st.integers(0, 6))
def test_a_rebalance_costs_what_came_while_all_partitions_stood_still(
    rate: int, looks: int, back: int
) -> None:
    world = World()
    world.run(20, rate=rate)
    began = world.at
    world.run(looks, rate=rate, reads=(), rebalancing=True)
    ended = world.at
    told = rebalance(world, ended - began)
    # It reads for a while, but not all that waits.
    world.run(back, rate=rate, reads=(0,))
    world.run(3, rate=rate)
    (cost,) = costs(world)
    assert cost.details["rebalance"] == told.id
    assert cost.details["rebalances"] == 1
    assert cost.details["arrived"] == 4 * rate * looks
    assert cost.details["waiting_at_stop"] == 0
    assert cost.details["waiting_peak"] >= 4 * rate * looks
    assert cost.details["partition_seconds"] == 4 * (ended - began) / 1000
    assert cost.details["caught_up_at"] == cost.at
    assert cost.details["caught_up_ms"] == cost.at - ended
    assert ended + back * STEP <= cost.at <= ended + (back + 1) * STEP


def test_a_stop_between_two_samples_costs_what_came_in_it() -> None:
    world = World()
    world.run(20, rate=1_000)
    world.look()
    # It stood still for 2 s of 5, and has read all by the next sample.
    world.run(1, rate=1_000)
    rebalance(world, 2_000)
    world.run(2, rate=1_000)
    (cost,) = costs(world)
    assert cost.details["arrived"] == 4 * 1_000 * 2 // 5
    assert cost.details["waiting_peak"] == cost.details["arrived"]


def test_rebalances_that_follow_before_the_group_has_caught_up_are_one_cost() -> None:
    world = World()
    world.run(20)
    first = None
    for _ in range(3):
        world.run(2, reads=(), rebalancing=True)
        told = rebalance(world, 2 * STEP)
        first = first or told
    world.run(3)
    (cost,) = costs(world)
    assert first is not None
    assert (cost.details["rebalances"], cost.details["rebalance"]) == (3, first.id)
    assert cost.details["arrived"] == 3 * 2 * 4 * 10
    assert cost.stopped_ms_max == 3 * 2 * STEP
    # The next one is another.
    world.run(20)
    world.run(2, reads=(), rebalancing=True)
    rebalance(world, 2 * STEP)
    world.run(3)
    assert len(costs(world)) == 2


def test_a_group_that_never_catches_up_is_reported_after_an_hour_without_a_time() -> None:
    world = World()
    world.run(20)
    world.run(2, reads=(), rebalancing=True)
    rebalance(world, 2 * STEP)
    world.run(720, reads=(0, 1))
    (cost,) = costs(world)
    assert "caught_up_at" not in cost.details
    assert int(cost.details["waiting_peak"]) > 4 * 2 * 10


def test_a_new_process_finishes_the_cost_that_another_began_to_follow() -> None:
    world = World()
    world.run(20)
    world.run(2, reads=(), rebalancing=True)
    told = rebalance(world, 2 * STEP)
    world.run(1, reads=())
    world.run(1, reads=(), anew=True)
    world.run(2)
    (cost,) = costs(world)
    assert (cost.details["rebalance"], cost.details["arrived"]) == (told.id, 80)
    # The ends were asked for 10 ms before the sample was complete.
    assert cost.details["caught_up_at"] == world.at - STEP - 10


@pytest.mark.parametrize("why", ["nothing is produced", "the members read on", "lag was unknown before"])
def test_a_rebalance_that_cost_nothing_known_is_given_no_cost(why: str) -> None:
    world = World()
    cooperative = {"stopped_ms_min": None, "partitions_affected": 0}
    if why != "lag was unknown before":
        world.run(20)
    world.run(2, rate=0 if why == "nothing is produced" else 10, rebalancing=True)
    rebalance(world, 2 * STEP, **(cooperative if why == "the members read on" else {}))
    world.run(10)
    assert not costs(world)


def test_a_cooperative_rebalance_costs_what_samples_show() -> None:
    world = World()
    world.run(20)
    # The partitions of a member that left.
    world.run(4, reads=(0, 1, 2), rebalancing=True)
    rebalance(world, 4 * STEP, stopped_ms_min=None, partitions_affected=1)
    world.run(2)
    (cost,) = costs(world)
    assert (cost.details["arrived"], cost.details["waiting_peak"]) == (0, 40)
    assert cost.details["partition_seconds"] == 20.0


def owned(world: World, **assigned: str) -> dict[str, Any]:
    """A summary of an epoch-based group with what each member owns."""
    members = [{"member_id": name, "assigned": {"orders": text}} for name, text in assigned.items()]
    return {"group_type": "consumer", "state": "Stable", "at": world.at, "member_list": members}


def hand_over(world: World, before: dict[str, Any], now: dict[str, Any]) -> None:
    handed = handed_over({"g": now}, {"g": before})
    world.lag.on_batch([], News({}, [], frozenset(), [], {}, world.at, world.at, handed=handed))


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("stopped", [2, 5])
def test_partitions_that_change_hands_cost_what_came_to_them_alone(stopped: int, steps: int) -> None:
    """At once, or given up by one record and taken by a later one."""
    world = World()
    world.run(20)
    whole = owned(world, m0="0-1", m1="2-3")
    between = owned(world, m0="0-1", m1="2")
    if steps == 2:
        hand_over(world, whole, between)
    world.run(stopped, reads=(0, 1, 2))
    hand_over(world, between if steps == 2 else whole, owned(world, m0="0-1,3", m1="2"))
    rebalance(world, 0, stopped_ms_min=None, partitions_affected=0)
    world.run(4)
    (cost,) = costs(world)
    # The records of its first look after the handover have come until its first commit, too.
    assert cost.details["arrived"] == 10 * (stopped + 1)
    assert cost.details["waiting_peak"] == 10 * (stopped + 1)
    assert (cost.partitions_affected, cost.stopped_ms_max) == (1, (stopped + 1) * STEP)
    assert cost.details["partition_seconds"] == (stopped + 1) * STEP / 1000
    assert cost.details["caught_up_ms"] >= 0


def test_a_partition_that_changes_hands_while_nothing_comes_costs_nothing() -> None:
    world = World()
    world.run(20)
    before = owned(world, m0="0-1", m1="2-3")
    world.run(2, reads=(), rate=0)
    hand_over(world, before, owned(world, m0="0-1,3", m1="2"))
    rebalance(world, 0, stopped_ms_min=None, partitions_affected=0)
    world.run(10, reads=(), rate=0)
    assert not costs(world)
    assert not world.lag.snapshot()["rebalances"]


def test_handovers_go_on_over_a_restart() -> None:
    world = World()
    world.run(20)
    before = owned(world, m0="0-1", m1="2-3")
    world.run(2, reads=(0, 1, 2))
    hand_over(world, before, owned(world, m0="0-1,3", m1="2"))
    rebalance(world, 0, stopped_ms_min=None, partitions_affected=0)
    world.run(1, reads=(0, 1, 2), anew=True)
    world.run(3)
    (cost,) = costs(world)
    assert cost.details["partition_seconds"] == 4 * STEP / 1000


def test_members_of_an_eager_group_stop_together_whatever_changes_hands() -> None:
    world = World()
    eager = {"group_type": "classic", "protocol": "range"}
    before, now = (owned(world, m0="0-1", m1=text) | eager for text in ("2-3", "2"))
    assert not handed_over({"g": now}, {"g": before})
    assert handed_over({"g": now | {"protocol": "cooperative-sticky"}}, {"g": before})


@pytest.mark.parametrize(
    "cut", [{"members": 3}, {"member_list": [{"member_id": "m1", "assigned": {"orders": "2,…"}}]}]
)
def test_a_summary_that_leaves_something_out_hands_nothing_over(cut: dict[str, Any]) -> None:
    world = World()
    before, now = owned(world, m0="0-1", m1="2-3"), owned(world, m0="0-1,3", m1="2")
    assert handed_over({"g": now}, {"g": before})
    assert not handed_over({"g": now | cut}, {"g": before})
    assert not handed_over({"g": now}, {"g": before | cut})


def test_a_group_without_members_is_followed_no_longer() -> None:
    world = World()
    world.run(20)
    world.run(2, reads=(), rebalancing=True)
    rebalance(world, 2 * STEP)
    world.look({"state": "Empty", "members": 0, "member_list": []})
    world.run(3)
    assert not costs(world)


def test_a_roll_up_carries_the_sums_of_its_groups_and_says_when_all_have_caught_up() -> None:
    world = World()
    world.run(30)
    began = world.at
    # A minute before the first of them is what the group had before.
    world.run(14, reads=(), rebalancing=True)
    rolled = replace(
        finding(Kind.COORDINATOR_MOVED, world.at, "opened", opened_at=began + 60_000, incident="r"),
        scope=Scope.CLUSTER,
        group=None,
        groups=("g", "of which no lag is known"),
    )
    (told,) = world.lag.priced_together([rolled])
    assert told.details == {"waiting_at_stop": 0, "waiting_peak": 14 * 4 * 10}
    world.look(anew=True, known=False)
    world.run(3)
    ended = replace(rolled, id="over", phase="resolved", at=world.at)
    (over,) = world.lag.priced_together([ended])
    assert over.details["waiting_peak"] == 14 * 4 * 10
    assert over.details["caught_up_at"] == world.at - 2 * STEP
    assert not world.lag.snapshot()["roll_ups"]


def test_a_roll_up_of_groups_without_lag_carries_nothing() -> None:
    rolled = replace(
        finding(Kind.COORDINATOR_MOVED, T0, "opened", opened_at=T0, incident="r"),
        scope=Scope.CLUSTER,
        group=None,
        groups=("nobody",),
    )
    (told,) = World().lag.priced_together([rolled])
    assert told.details == {}


def test_explain_says_in_words_what_a_rebalance_cost() -> None:
    world = World()
    world.run(20)
    world.run(2, reads=(), rebalancing=True)
    rebalance(world, 2 * STEP)
    world.run(3)
    out = StringIO()
    dossier = open_dossier("g", 0, SETTINGS, "c1")
    dossier.coordinator.state.groups["g"] = GroupState()
    dossier.replace(costs(world))
    write_tables(explain(dossier, Place(0, 50), SETTINGS) | {"values": "?"}, out)
    assert "80 records arrived while it stood still for 10 s; 80 waited at most; caught up " in out.getvalue()
