import json
from dataclasses import replace
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.degraded import degraded
from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope, Severity
from rebalance_monitor.coordinator.findings.outputs import StatOut
from rebalance_monitor.coordinator.rollup.rollup import RollUp
from rebalance_monitor.coordinator.settings import DetectionSettings
from tests.coordinator.support.timeline import T0, Client, Topic, findings

SETTINGS = DetectionSettings()


def unreadable(at: int, count: int) -> StatOut:
    data = {"shard": 3, "reason": "truncated", "count": count, "first_offset": 9, "ts": at, "sample": "3/9"}
    return StatOut("unreadable", data)


def same_members_again(groups: int, number: int = 2) -> list[Finding]:
    topic = Topic()
    topic.generation(0, 1, [Client("a-1", (0,))])
    topic.generation(60_000, number, [Client("a-1", (0,))])
    again = next(one for one in findings(topic)[1:] if one.kind is Kind.REBALANCE)
    return [replace(again, group=f"g{number}", id=f"{number:016x}") for number in range(groups)]


@pytest.mark.parametrize("number", [2, 3])
def test_many_groups_with_the_same_members_are_one_coordinator_move(number: int) -> None:
    rollup = RollUp(SETTINGS, "c1")
    at = T0 + 60_000
    assert rollup.on_batch(same_members_again(8, number), [], at) == []
    (found,) = rollup.on_batch([], [], at + 4_000)
    assert (found.kind, found.scope, found.groups_total) == (Kind.COORDINATOR_MOVED, Scope.CLUSTER, 8)
    assert rollup.on_batch([], [], at + 5_000) == []


def named(kind: Kind, count: int, apart: int) -> list[Finding]:
    one = replace(same_members_again(1)[0], kind=kind, at=T0)
    host = replace(one.members[0], host="/10.9.9.9")
    return [
        replace(one, group=f"g{n}", id=f"{n:016x}", at=T0 + n * apart, members=(host,)) for n in range(count)
    ]


def test_groups_that_are_restarted_one_after_the_other_are_one_deployment() -> None:
    rollup = RollUp(SETTINGS, "c1")
    for one in named(Kind.ROLLING_RESTART, 6, 40_000):
        assert rollup.on_batch([one], [], one.at + 1_000) == []
    (found,) = rollup.on_batch([], [], T0 + 5 * 40_000 + 61_000)
    assert (found.kind, found.severity, found.groups_total) == (Kind.ROLLING_RESTART, Severity.INFO, 6)
    assert found.groups == tuple(f"g{n}" for n in range(6))
    assert found.causes[0].why.endswith("a deployment")


def test_members_of_many_groups_that_expire_at_once_share_a_host() -> None:
    rollup = RollUp(SETTINGS, "c1")
    assert rollup.on_batch(named(Kind.SESSION_TIMEOUT, 7, 500), [], T0 + 4_000) == []
    (found,) = rollup.on_batch([], [], T0 + 8_000)
    assert (found.kind, found.scope, found.groups_total) == (Kind.SESSION_TIMEOUT, Scope.CLUSTER, 7)
    assert found.causes[0].host == "/10.9.9.9"


def test_a_burst_of_all_groups_costs_as_much_as_they_are_many_and_no_more() -> None:
    rollup, burst, began = RollUp(SETTINGS, "c1"), same_members_again(20_000), process_time()
    rollup.on_batch(burst, [], T0 + 60_000)
    assert process_time() - began < 5
    (found,) = rollup.on_batch([], [], T0 + 70_000)
    assert found.groups_total == 20_000


def test_a_few_groups_are_no_cluster_incident() -> None:
    rollup = RollUp(SETTINGS, "c1")
    rollup.on_batch(same_members_again(3), [], T0 + 60_000)
    assert rollup.on_batch([], [], T0 + 90_000) == []


def test_unreadable_records_open_by_rate_and_resolve_when_quiet() -> None:
    rollup = RollUp(SETTINGS, "c1")
    assert rollup.on_batch([], [unreadable(T0, 4)], T0) == []
    (opened,) = rollup.on_batch([], [unreadable(T0 + 1_000, 7)], T0 + 1_000)
    (resolved,) = rollup.on_batch([], [], T0 + 61_000)
    assert (opened.phase, opened.details["count"]) == ("opened", 11)
    assert (resolved.phase, resolved.incident, resolved.at) == ("resolved", opened.id, T0 + 61_000)


def test_the_memory_survives_as_json() -> None:
    first = RollUp(SETTINGS, "c1")
    first.on_batch(same_members_again(8), [unreadable(T0, 4)], T0 + 60_000)
    again = RollUp(SETTINGS, "c1", json.loads(json.dumps(first.snapshot())))
    assert again.snapshot() == first.snapshot()
    assert again.on_batch([], [], T0 + 70_000) == first.on_batch([], [], T0 + 70_000)


def test_a_blind_monitor_is_critical() -> None:
    found = degraded("c1", Cause.BLIND, "why", opened_at=T0, at=T0, phase="opened", details={"records": 5})
    assert found.severity is Severity.CRITICAL
    assert found.incident == found.id


def test_a_forged_time_far_in_the_future_neither_blocks_nor_outlives_its_window() -> None:
    rollup = RollUp(SETTINGS, "c1")
    forged = [replace(finding, at=2**62) for finding in same_members_again(8)]
    now = T0 + 60_000
    opened = rollup.on_batch(forged, [unreadable(2**62, 50)], now)
    assert [finding.phase for finding in opened] == ["opened"]
    (moved,) = rollup.on_batch([], [], now + 4_000)
    assert moved.kind is Kind.COORDINATOR_MOVED
    (resolved,) = rollup.on_batch([], [], now + 2 * SETTINGS.unreadable_window_ms)
    assert resolved.phase == "resolved"
    (over,) = rollup.on_batch([], [], now + 2 * SETTINGS.storm_quiet_ms)
    assert (over.phase, over.incident, over.at) == ("resolved", moved.id, now + SETTINGS.storm_quiet_ms)
    assert rollup.snapshot() == {"bursts": {}, "open": {}, "reasons": {}}


def test_many_shards_and_batches_of_one_second_are_one_entry_of_memory() -> None:
    rollup = RollUp(SETTINGS, "c1")
    for millisecond in range(0, 1_000, 10):
        rollup.on_batch([], [unreadable(T0 + millisecond, 1)], T0 + 1_000)
    assert len(rollup.snapshot()["reasons"]["truncated"]["counts"]) == 1


def move(group: str, at: int) -> Finding:
    """A rebalance among the same members of `group`, which a coordinator move would explain."""
    (one,) = same_members_again(1)
    return replace(one, group=group, id=f"{group}/{at}", at=T0 + at)


def told(batches: list[tuple[int, list[Finding]]]) -> list[Finding]:
    """What is rolled up of these batches, without the ends, which come when all is quiet again."""
    found = until_quiet(batches)
    assert found[-1:] == [one for one in found[-1:] if one.phase == "resolved"]
    return [one for one in found if one.phase != "resolved"]


def until_quiet(batches: list[tuple[int, list[Finding]]]) -> list[Finding]:
    """What is rolled up of these batches, and when all is quiet again; in memory between any two."""
    rollup, found = RollUp(SETTINGS, "c1"), []
    end = max((now for now, _ in batches), default=0)
    for now, batch in [*batches, (end + 60_000, []), (end + 2 * SETTINGS.storm_quiet_ms, [])]:
        found += rollup.on_batch(batch, [], T0 + now)
        rollup = RollUp(SETTINGS, "c1", json.loads(json.dumps(rollup.snapshot())))
    assert rollup.snapshot() == {"bursts": {}, "open": {}, "reasons": {}}
    return found


def test_a_group_that_rebalances_on_its_own_does_not_hide_the_move_that_follows() -> None:
    own, moved = move("own", 0), [move(f"g{n}", 5_000) for n in range(6)]
    (one_batch,) = told([(6_000, [own, *moved])])
    (by_and_by,) = told([(500, [own]), (4_000, []), (5_500, moved)])
    assert one_batch == by_and_by
    assert one_batch.groups_total == 7


def test_a_batch_over_half_a_minute_shows_the_move_in_its_middle_without_the_groups_long_before() -> None:
    before = [move(f"b{n}", 0) for n in range(4)]
    (found,) = told([(30_000, [*before, *(move(f"g{n}", 15_000) for n in range(6))])])
    assert found.groups == tuple(f"g{n}" for n in range(6))
    assert found.at == T0 + 15_000


def test_groups_of_the_last_ten_seconds_count_however_long_single_ones_went_before() -> None:
    """What is counted slides: nine groups, two seconds apart, are never five at once."""
    assert told([(30_000, [move(f"g{n}", 2_600 * n) for n in range(9)])]) == []
    (found,) = told([(30_000, [move(f"g{n}", 2_500 * n) for n in range(9)])])
    assert found.groups_total == 5


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_neither_batches_nor_the_order_in_them_decide_what_is_rolled_up(data: st.DataObject) -> None:
    groups = data.draw(st.sampled_from([1, 2, 6, 9]))
    some = st.lists(st.integers(0, 300).map(lambda n: 100 * n), unique=True, max_size=30)
    later = data.draw(st.sampled_from([0, 250_000, 290_000, 300_000, 310_000, 900_000]))
    times = {*data.draw(some), *(at + later for at in data.draw(some))}
    moves = [move(f"g{n % groups}", at) for n, at in enumerate(sorted(times))]
    one_by_one = until_quiet([(one.at - T0, [one]) for one in moves])
    together = data.draw(st.permutations(moves))
    assert until_quiet([(max(times, default=0), together)]) == one_by_one


def test_one_group_that_goes_on_and_on_is_no_burst() -> None:
    assert (
        told([(20_000 * n, [move("g", 20_000 * n), move("g", 20_000 * n - 15_000)]) for n in range(1, 9)])
        == []
    )


def test_groups_that_follow_within_the_window_join_the_burst_and_later_ones_are_another() -> None:
    first, late = [move(f"g{n}", 0) for n in range(6)], [move(f"h{n}", 9_000) for n in range(2)]
    again = [move(f"g{n}", 15_000) for n in range(6)]
    found = told([(0, first), (4_000, []), (9_000, late), (13_000, []), (15_000, again), (19_000, [])])
    assert [(one.at - T0, one.groups_total) for one in found] == [(0, 6), (9_000, 8), (15_000, 8)]
    assert [(one.phase, one.incident, one.opened_at) for one in found] == [
        ("opened", found[0].id, T0),
        ("updated", found[0].id, T0),
        ("updated", found[0].id, T0),
    ]
    assert found[1].groups == (*(f"g{n}" for n in range(6)), "h0", "h1")
    assert found[1].causes[0].why.endswith("; 2 of them since the last update")
    assert len({one.id for one in found}) == 3


def test_groups_that_are_in_a_burst_already_are_published_no_second_time() -> None:
    first, again = [move(f"g{n}", 0) for n in range(6)], [move(f"g{n}", 5_000) for n in range(6)]
    (found,) = told([(0, first), (4_000, []), (5_000, again), (9_000, [])])
    assert found.groups_total == 6


def test_a_burst_whose_window_is_over_is_no_longer_remembered_by_group() -> None:
    rollup = RollUp(SETTINGS, "c1")
    rollup.on_batch(same_members_again(1_000), [], T0 + 60_000)
    assert len(rollup.on_batch([], [], T0 + 64_000)) == 1
    assert rollup.on_batch([], [], T0 + 71_000) == []
    assert len(json.dumps(rollup.snapshot())) < 900


def test_a_clock_that_was_ahead_holds_nothing_back_when_it_is_set_right() -> None:
    ahead = 3_600_000
    rollup = RollUp(SETTINGS, "c1")
    (opened,) = rollup.on_batch([move("a", ahead)], [unreadable(T0 + ahead, 20)], T0 + ahead)
    assert rollup.on_batch([move(f"g{n}", 0) for n in range(6)], [], T0) == []
    (moved,) = rollup.on_batch([], [], T0 + 4_000)
    assert moved.kind is Kind.COORDINATOR_MOVED
    (resolved,) = rollup.on_batch([], [], T0 + 60_000)
    assert (resolved.phase, resolved.incident, resolved.at) == ("resolved", opened.id, T0 + 60_000)


def test_a_rejoin_that_the_probe_is_sure_of_and_history_are_no_move() -> None:
    (one,) = same_members_again(1)
    sure = replace(one.causes[0], cause=Cause.LEADER_REJOINED, confidence=0.85)
    asked = [replace(move(f"g{n}", 0), causes=(sure,)) for n in range(6)]
    history = [replace(move(f"h{n}", 0), history=True) for n in range(6)]
    assert told([(0, asked), (0, history)]) == []


def test_the_host_of_most_expired_members_is_named_and_none_where_no_most_share_one() -> None:
    shared = named(Kind.SESSION_TIMEOUT, 6, 100)
    apart = [
        replace(one, members=(replace(one.members[0], host=f"/h{n % 2}"),)) for n, one in enumerate(shared)
    ]
    assert [one.causes[0].host for one in told([(1_000, shared)])] == ["/10.9.9.9"]
    assert [one.causes[0].host for one in told([(1_000, apart)])] == [None]


def phases(*steps: tuple[int, int]) -> list[tuple[str | None, int, int | None]]:
    """Phase, time and opening of the findings of unreadable records: (at, count), then quiet."""
    rollup, found = RollUp(SETTINGS, "c1"), []
    for at, count in steps:
        found += rollup.on_batch([], [unreadable(T0 + at, count)], T0 + at)
    found += rollup.on_batch([], [], T0 + steps[-1][0] + 59_999)
    assert all(one.phase == "opened" for one in found[-1:])
    found += rollup.on_batch([], [], T0 + steps[-1][0] + 60_000)
    assert rollup.snapshot()["reasons"] == {}
    return [(one.phase, one.at - T0, (one.opened_at or 0) - T0) for one in found]


def test_unreadable_records_are_published_from_the_threshold_on_within_the_window_and_once() -> None:
    assert phases((0, 9)) == []
    assert phases((0, 5), (59_000, 4)) == []
    assert phases((0, 5), (61_000, 5)) == []
    assert phases((0, 5), (30_000, 5), (31_000, 50)) == [
        ("opened", 30_000, 30_000),
        ("resolved", 91_000, 30_000),
    ]


def test_records_that_are_unreadable_for_two_reasons_are_two_incidents() -> None:
    rollup, one = RollUp(SETTINGS, "c1"), unreadable(T0, 20)
    other = StatOut("unreadable", {**one.data, "reason": "bad_text"})
    found = rollup.on_batch([], [one, other, StatOut("shard", {})], T0)
    assert [found.details["reason"] for found in found] == ["truncated", "bad_text"]
    assert len({found.incident for found in found}) == 2


def test_a_shard_that_lags_does_not_end_what_another_one_goes_on_with() -> None:
    rollup = RollUp(SETTINGS, "c1")
    (opened,) = rollup.on_batch([], [unreadable(T0 + 100_000, 20), unreadable(T0, 1)], T0 + 100_000)
    assert rollup.on_batch([], [], T0 + 159_999) == []
    (resolved,) = rollup.on_batch([], [], T0 + 160_000)
    assert (resolved.incident, resolved.opened_at) == (opened.id, T0 + 100_000)


def test_what_degrades_the_monitor_ends_under_the_incident_that_it_opened_and_is_a_warning() -> None:
    opened, resolved = (
        degraded("c1", Cause.BEHIND, "why", opened_at=T0, at=T0, phase=phase, details={})
        for phase in ("opened", "resolved")
    )
    assert opened.id == opened.incident == resolved.incident != resolved.id
    assert (opened.severity, opened.resolution, resolved.resolution) == (Severity.WARNING, None, "quiet")
