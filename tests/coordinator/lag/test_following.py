"""What the lag of groups says: the right finding of the right group, once, and nothing of healthy ones."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.alerts.incidents.alert import Alerts
from rebalance_monitor.alerts.incidents.incidents import Policy, taken
from rebalance_monitor.alerts.incidents.suppression import Swallowing
from rebalance_monitor.coordinator.commits import positions
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import Finding, MemberEntry
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.lag.ends import UNKNOWN, EndsSample
from rebalance_monitor.coordinator.lag.following import Lag, News
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.state.positions import Positions
from rebalance_monitor.decoders.rows import partition_entry
from tests.coordinator.lag.world import SETTINGS, STEP, T0, World, finding, summary


def test_a_group_that_keeps_up_has_no_lag_and_no_finding() -> None:
    world = World()
    world.run(500)
    assert not world.found
    lag = world.lag.board.groups["g"].lag
    assert lag is not None
    assert (lag.records, lag.age_ms, lag.unknown) == (0, 0, 0)


def test_a_member_that_stops_is_named_with_its_partitions_once_and_resolved_when_it_goes_on() -> None:
    world = World()
    world.run(30)
    world.run(100, reads=(0, 1))
    (opened,) = world.of(Kind.CONSUMPTION_STOPPED)
    assert [one.client_id for one in opened.members] == ["c1"]
    assert opened.details["partition"] in {2, 3}
    assert (opened.details["partitions"], opened.severity, opened.phase) == (2, Severity.WARNING, "opened")
    assert opened.opened_at is not None
    assert T0 + 30 * STEP <= opened.opened_at <= T0 + 33 * STEP
    world.run(2)
    resolved = world.of(Kind.CONSUMPTION_STOPPED)[1]
    assert (resolved.phase, resolved.incident, resolved.resolution) == ("resolved", opened.incident, "quiet")
    assert not [one for one in world.found if one.kind is not Kind.CONSUMPTION_STOPPED]


def silent(world: World, phase: str, member: str = "m1") -> Finding:
    entry = MemberEntry(member, None, f"c{member[1:]}", "h", host_is_stale=False, role="kept")
    return finding(
        Kind.MEMBER_SILENT, world.at, phase, incident=f"silent-{member}", opened_at=world.at, members=(entry,)
    )


def batch(world: World, *told: Finding) -> list[Finding]:
    return world.lag.on_batch(list(told), News({}, [], frozenset(), [], {}, world.at, world.at))


@pytest.mark.parametrize(("member", "same"), [("m1", True), ("m0", False)])
def test_a_silence_continues_the_incident_of_its_own_member_s_partitions(member: str, same: bool) -> None:  # noqa: FBT001
    world = World()
    world.run(30)
    world.run(40, reads=(0, 1))
    (opened,) = world.of(Kind.CONSUMPTION_STOPPED)
    found = batch(world, silent(world, "opened", member), silent(world, "resolved", member))
    assert all((one.incident == opened.incident) is same for one in found)
    assert [one.phase for one in found] == (["updated"] * 2 if same else ["opened", "resolved"])
    world.run(2)
    assert [one.phase for one in world.of(Kind.CONSUMPTION_STOPPED)] == ["opened", "resolved"]


@pytest.mark.parametrize("between", ["nothing", "a restart", "an outage of the brokers", "both"])
def test_what_becomes_of_a_member_that_stood_still_is_one_alert(between: str) -> None:
    """Its partitions stand still, it is silent, the broker removes it, the group rebalances, all is well."""
    world, alerts = World(), Alerts()

    def tell(*found: Finding) -> None:
        for one in found:
            for alert in taken(alerts, one, Policy()):
                alerts[alert.fingerprint] = alert

    world.run(30)
    world.run(40, reads=(0, 1))
    if between in {"an outage of the brokers", "both"}:
        world.run(20, reads=(), known=False)
    if between in {"a restart", "both"}:
        world.run(1, reads=(0, 1), anew=True)
    tell(*world.found)
    (alert,) = alerts.values()
    entry = MemberEntry("m1", None, "c1", "h", host_is_stale=False, role="left")
    lost = {"members": (entry,), "incident": None}
    told = [silent(world, "opened"), silent(world, "resolved")]
    told += [finding(kind, world.at, None, **lost) for kind in (Kind.SESSION_TIMEOUT, Kind.REBALANCE)]
    tell(*batch(world, *told))
    assert list(alerts) == [alert.fingerprint]
    one_left = summary(members=1)
    one_left["member_list"][0]["assigned"] = {"orders": "0-3"}
    before = len(world.found)
    world.run(5, said=one_left)
    tell(*world.found[before:])
    assert [one.resolved(world.at) for one in alerts.values()] == [True]


def test_partitions_that_stand_still_continue_the_incident_of_their_silent_member() -> None:
    world = World()
    world.run(30)
    (first,) = batch(world, silent(world, "opened"))
    world.run(40, reads=(0, 1))
    (going_on,) = world.of(Kind.CONSUMPTION_STOPPED)
    assert (going_on.phase, going_on.incident) == ("updated", first.incident)
    (over,) = batch(world, silent(world, "resolved"))
    assert over.phase == "updated"
    world.run(2)
    assert world.of(Kind.CONSUMPTION_STOPPED)[1].incident == first.incident


@pytest.mark.parametrize(("reads", "severity"), [((), Severity.CRITICAL), ((0, 1), Severity.WARNING)])
def test_consumption_that_has_stopped_is_critical_where_no_partition_moves(
    reads: tuple[int, ...], severity: Severity
) -> None:
    world = World()
    world.run(30)
    world.run(40, reads=reads)
    assert world.of(Kind.CONSUMPTION_STOPPED)[0].severity is severity


def test_one_partition_that_stands_still_while_its_member_goes_on_is_stalled() -> None:
    world = World()
    world.run(30)
    world.run(60, reads=(0, 1, 2))
    (opened,) = world.of(Kind.CONSUMPTION_STALLED)
    assert opened.details["partition"] == 3
    assert not world.of(Kind.CONSUMPTION_STOPPED)


@pytest.mark.parametrize("others_stand_still", [False, True])
def test_an_open_transaction_is_the_cause_and_a_member_only_where_others_stand_still_too(
    *, others_stand_still: bool
) -> None:
    world = World()
    world.run(30)
    world.stable = (-1, -1, -1, world.ends[3])
    world.run(60, reads=(0, 1) if others_stand_still else (0, 1, 2))
    (opened,) = world.of(Kind.CONSUMPTION_STOPPED if others_stand_still else Kind.CONSUMPTION_STALLED)
    assert [entry.cause for entry in opened.causes] == [Cause.TRANSACTION_OPEN] * (not others_stand_still)
    assert [member.member_id for member in opened.members] == ["m1"] * others_stand_still
    assert opened.details["partition"] == (2 if others_stand_still else 3)


def test_a_reader_behind_an_open_transaction_is_accused_as_ever() -> None:
    world = World()
    world.run(30)
    world.stable = (-1, -1, -1, world.ends[3] + 100)
    world.run(60, reads=(0, 1, 2))
    (opened,) = world.of(Kind.CONSUMPTION_STALLED)
    assert (opened.causes, [member.member_id for member in opened.members]) == ((), ["m1"])


@pytest.mark.parametrize("how", [{"rebalancing": True}, {"said": summary("PreparingRebalance")}])
def test_nothing_is_said_inside_a_rebalance(how: dict[str, Any]) -> None:
    world = World()
    world.run(30)
    world.run(200, reads=(), **how)
    assert not world.found
    world.run(5, reads=())
    assert not world.found


def test_a_member_that_the_summary_leaves_out_is_judged_without_a_name() -> None:
    cut = summary() | {"members": 120, "topics": ["orders"]}
    cut["member_list"] = cut["member_list"][:1]
    world = World()
    world.run(30, said=cut)
    world.run(60, reads=(0, 1), said=cut)
    (opened,) = world.of(Kind.CONSUMPTION_STOPPED)
    assert (opened.members, opened.details["partitions"]) == ((), 2)
    # Of a topic that nobody is assigned any more nothing is said.
    world = World()
    world.run(30)
    world.run(60, reads=(0, 1), said=summary(members=1))
    assert not world.found


def test_a_group_that_commits_every_five_minutes_is_not_accused_after_a_rolling_restart() -> None:
    """Its members commit as others join and leave, a few seconds apart, and then by their timer."""
    world = World()
    world.run(10)
    for _ in range(6):
        world.run(2)
        said = summary() | {"at": world.at}
        world.run(1, rebalancing=True, said=said)
    for _ in range(3):
        world.run(59, reads=(), said=said)
        world.run(1, said=said)
    assert not world.found
    # From here on its interval is known, and it is found out after ten.
    world.run(700, reads=(), said=said)
    assert [one.severity for one in world.of(Kind.CONSUMPTION_STOPPED)] == [Severity.CRITICAL]


@pytest.mark.parametrize(("cadence", "found"), [(-1, 0), (5_000, 1)])
def test_a_member_that_has_committed_once_has_no_interval_yet(cadence: int, found: int) -> None:
    """Records had waited for a moment when it committed: another may take it as long as others take."""
    world = World()
    world.run(3)
    said = summary() | {"at": world.at - 1}
    said["member_list"][1]["cadence_ms"] = cadence
    world.run(1, said=said)
    for _ in range(4):
        world.run(5, reads=(), said=said)
        world.run(1, reads=(0, 1), said=said)
    assert len(world.of(Kind.CONSUMPTION_STOPPED)) == found
    world.run(100, reads=(0, 1), said=said)
    assert len(world.of(Kind.CONSUMPTION_STOPPED)) == 1


def test_a_group_that_commits_nothing_after_a_rebalance_is_found_out_all_the_same() -> None:
    world = World()
    world.run(30)
    said = summary() | {"at": world.at + STEP}
    world.run(2, reads=(), rebalancing=True, said=said)
    world.run(140, reads=(), said=said)
    assert [one.phase for one in world.of(Kind.CONSUMPTION_STOPPED)] == ["opened"]


def test_a_group_that_may_pause_is_not_accused() -> None:
    world = World(DetectionSettings(expected_pause=("g*",)))
    world.run(30)
    world.run(200, reads=())
    assert not world.found


EMPTY = summary("Empty", members=0)


def test_an_incident_goes_on_over_a_restart() -> None:
    world = World()
    world.run(30)
    world.run(40, reads=(0, 1))
    world.ends = [end + 10 for end in world.ends]
    assert not [one for one in world.look(anew=True) if one.kind is Kind.CONSUMPTION_STOPPED]
    world.run(40, reads=(0, 1))
    assert len(world.of(Kind.CONSUMPTION_STOPPED)) == 1


@pytest.mark.parametrize("end", ["the members are back", "an operator skips what waits"])
@pytest.mark.parametrize(("reads", "severity"), [((), Severity.CRITICAL), ((0, 1), Severity.WARNING)])
def test_a_group_that_loses_its_members_keeps_its_one_alert_as_severe_until_nothing_waits(
    reads: tuple[int, ...], severity: Severity, end: str
) -> None:
    world, alerts = World(), Alerts()

    def tell(*found: Finding) -> list[str]:
        for one in found:
            for alert in taken(alerts, one, Policy()):
                alerts[alert.fingerprint] = alert
        held = Swallowing(alerts.values(), world.at)
        firing = [one for one in alerts.values() if not one.resolved(world.at) and not held.swallows(one)]
        return [f"{one.labels['kind']} {one.labels['severity']}" for one in firing]

    world.run(30)
    world.run(40, reads=reads)
    one_alert = [f"consumption_stopped {severity}"]
    assert tell(*world.found) == one_alert
    emptied = replace(finding(Kind.GROUP_EMPTY, world.at, "opened"), severity=Severity.WARNING)
    before = len(world.found)
    for number in range(200):
        world.run(1, reads=(), said=EMPTY, anew=number == 100)
        assert tell(*([emptied] if not number else []), *world.found[before:]) == one_alert
        before = len(world.found)
    (opened, updated) = world.of(Kind.CONSUMPTION_STOPPED)
    assert (updated.phase, updated.incident, updated.severity) == ("updated", opened.incident, severity)
    assert (updated.members_total, updated.details["partitions"]) == (0, 4)
    if end == "the members are back":
        tell(finding(Kind.GROUP_EMPTY, world.at, "resolved"))
        world.run(2)
        assert tell(*world.found[before:]) == []
    else:
        world.commit(dict(enumerate(world.ends)))
        world.look(EMPTY)
        # From now on nobody consumes, and nothing waits: that is the other alert.
        assert tell(*world.found[before:]) == ["group_empty warning"]
    assert [one.phase for one in world.of(Kind.CONSUMPTION_STOPPED)] == ["opened", "updated", "resolved"]


def test_members_that_stop_one_after_the_other_are_a_page_once_nothing_moves() -> None:
    world = World()
    world.run(30)
    world.run(20, reads=(0, 1))
    world.run(10, reads=(0, 1), anew=True)
    world.run(30, reads=())
    (first, raised) = world.of(Kind.CONSUMPTION_STOPPED)
    assert (first.severity, first.details["partitions"]) == (Severity.WARNING, 2)
    assert (raised.phase, raised.incident, raised.severity) == ("updated", first.incident, Severity.CRITICAL)
    assert [one.client_id for one in raised.members] == ["c0", "c1"]
    world.run(40, reads=())
    assert len(world.of(Kind.CONSUMPTION_STOPPED)) == 2


def test_unknown_ends_are_an_unknown_lag_and_end_nothing() -> None:
    world = World()
    world.run(30)
    world.run(40, reads=(0, 1))
    world.run(10, reads=(0, 1), known=False)
    lag = world.lag.board.groups["g"].lag
    assert lag is not None
    assert (lag.records, lag.age_ms, lag.unknown) == (None, None, 4)
    assert len(world.of(Kind.CONSUMPTION_STOPPED)) == 1


def test_lag_that_rises_throughout_is_falling_behind_and_warns_only_where_asked() -> None:
    for late, severity in ((None, Severity.INFO), (1, Severity.WARNING)):
        world = World(DetectionSettings(falling_behind_warning_ms=late))
        world.run(10)
        read = list(world.ends)
        for _ in range(200):
            world.ends = [end + 10 for end in world.ends]
            read = [offset + 5 for offset in read]
            world.commit(dict(enumerate(read)))
            world.look()
        (opened,) = world.of(Kind.FALLING_BEHIND)
        assert opened.severity is severity
        assert not world.of(Kind.CONSUMPTION_STALLED) + world.of(Kind.CONSUMPTION_STOPPED)


def test_a_group_that_reads_within_its_usual_time_is_not_behind_although_its_lag_rises() -> None:
    """As a real one did: a record in four seconds, and a lag of two that was four after nine minutes."""
    world = World()
    world.run(10)
    for look in range(300):
        world.ends = [end + 10 for end in world.ends]
        world.commit({one: end - 2 - look // 60 for one, end in enumerate(world.ends)})
        world.look()
    assert not world.found


def test_a_group_that_keeps_up_is_not_shown_behind_because_its_positions_are_published_rarely() -> None:
    lag, end = Lag(SETTINGS, "c1"), 0
    worst = 0
    for second in range(120):
        at, end = T0 + 1_000 * second, end + 100
        if second % 6 == 0:
            held = Positions()
            for partition in range(4):
                entry = partition_entry(b"orders", partition)
                positions.keep(held, at, entry, (end - 3).to_bytes(8, "big"))
            lag.publish({"g": positions.copied(held)}, at)
        if second % 5 == 0:
            lag.on_samples([EndsSample(at, at, {"orders": (end,) * 4})], {"g": summary()}, ())
            told = lag.board.groups["g"].lag
            assert told is not None
            worst = max(worst, told.records or 0)
    assert worst <= 4 * (3 + 1)


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=20, max_size=120))
def test_no_healthy_group_is_accused_however_its_traffic_comes(steps: list[tuple[int, bool]]) -> None:
    world = World()
    for more, quiet in steps:
        world.ends = [end + (0 if quiet else more) for end in world.ends]
        # librdkafka commits what is new only; it keeps up.
        world.commit({p: end for p, end in enumerate(world.ends) if not quiet})
        world.look()
    assert not world.found
    assert UNKNOWN not in world.ends
