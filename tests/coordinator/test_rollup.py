import json
from dataclasses import replace
from time import process_time

from rebalance_monitor.coordinator.causes import Cause
from rebalance_monitor.coordinator.findings import Finding
from rebalance_monitor.coordinator.kinds import Kind, Scope, Severity
from rebalance_monitor.coordinator.outputs import StatOut
from rebalance_monitor.coordinator.rollup import RollUp, degraded
from rebalance_monitor.coordinator.settings import DetectionSettings
from tests.coordinator.timeline import T0, Client, Topic, findings

SETTINGS = DetectionSettings()


def unreadable(at: int, count: int) -> StatOut:
    data = {"shard": 3, "reason": "truncated", "count": count, "first_offset": 9, "ts": at, "sample": "3/9"}
    return StatOut("unreadable", data)


def same_members_again(groups: int) -> list[Finding]:
    topic = Topic()
    topic.generation(0, 1, [Client("a-1", (0,))])
    topic.generation(60_000, 2, [Client("a-1", (0,))])
    again = findings(topic)[1]
    return [replace(again, group=f"g{number}", id=f"{number:016x}") for number in range(groups)]


def test_many_groups_with_the_same_members_are_one_coordinator_move() -> None:
    rollup = RollUp(SETTINGS, "c1")
    at = T0 + 60_000
    assert rollup.on_batch(same_members_again(8), [], at) == []
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
    assert rollup.snapshot() == {"bursts": {}, "reasons": {}}


def test_many_shards_and_batches_of_one_second_are_one_entry_of_memory() -> None:
    rollup = RollUp(SETTINGS, "c1")
    for millisecond in range(0, 1_000, 10):
        rollup.on_batch([], [unreadable(T0 + millisecond, 1)], T0 + 1_000)
    assert len(rollup.snapshot()["reasons"]["truncated"]["counts"]) == 1
