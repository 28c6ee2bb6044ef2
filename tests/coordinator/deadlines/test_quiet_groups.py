"""A group that goes on as usual is judged again no later than its nearest deadline."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator import clock
from rebalance_monitor.coordinator.context import Scene
from rebalance_monitor.coordinator.deadlines import not_rejoined, silent_members
from rebalance_monitor.coordinator.lifecycle import empty_groups
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.state.group_state import GroupState, Member, StormState, Stuck
from rebalance_monitor.coordinator.state.state_machine import Status

NOW, BEGAN = 10_000_000, 9_000_000
SETTINGS = DetectionSettings()


@st.composite
def members(draw: st.DrawFn) -> Member:
    commits = draw(st.sampled_from([0, 1, 2, 9, 10, 40]))
    return Member(
        member_id=draw(st.sampled_from(["a", "b", "c", "d"])),
        instance_id=None,
        client_id="client",
        host="/10.0.0.1",
        host_stale=False,
        session_timeout=draw(st.sampled_from([6_000, 10_000, 45_000, 300_000])),
        rebalance_timeout=draw(st.sampled_from([-1, 10_000, 60_000, 300_000])),
        family=draw(st.sampled_from(["java", "librdkafka", "franz-go", "unknown"])),
        version=1,
        subscribed="s",
        joined_at=BEGAN,
        assigned=[[0, 0, 1]],
        offsets=[draw(st.integers(-1, 5)), 5],
        last_commit=draw(st.integers(NOW - 60_000, NOW + 2_000)) if commits else -1,
        commits=commits,
        idle=draw(st.sampled_from([-1, 0, 1, 2, 10, 40])),
        cadence=draw(st.sampled_from([-1, 0, 200, 5_000, 30_000])) if commits > 1 else -1,
        moved=draw(st.booleans()),
        fresh=draw(st.booleans()),
        silent_id=draw(st.sampled_from(["", "", "", "open"])),
        silent_at=NOW - 5_000,
    )


@st.composite
def groups(draw: st.DrawFn) -> GroupState:
    usually = st.sampled_from(["", "", "", "open"])
    return GroupState(
        group_type="classic",
        status=draw(st.sampled_from([*[Status.STABLE] * 3, Status.EMPTY, Status.PREPARING])),
        protocol_type="consumer",
        protocol=draw(st.sampled_from(["range", "cooperative-sticky"])),
        generation=3,
        cst=draw(st.integers(NOW - 90_000, NOW)),
        members=draw(st.lists(members(), min_size=1, max_size=4)),
        topics=["t"],
        last_commit=NOW - 1_000,
        resumed_at=draw(st.sampled_from([-1, NOW - 20_000])),
        last_summary=draw(st.integers(NOW - 90_000, NOW)),
        dirty=draw(st.sampled_from([False, False, True])),
        storm=StormState(incident=draw(usually), last_at=NOW - 400_000),
        stuck=Stuck(suspected=draw(usually), since=NOW - 50_000),
    )


@given(groups(), st.sampled_from([BEGAN, NOW - 30_000]))
def test_nothing_is_due_before_the_clock_until_which_a_group_is_quiet(group: GroupState, live: int) -> None:
    until = clock.quiet_until(group, SETTINGS)
    for now in (NOW, until - 1):
        if not NOW <= now < until:
            continue
        scene = Scene("cluster", 0, "group", SETTINGS, -1, now, history=False)
        moment = clock.moment(group, scene, now, live, now)
        assert clock.report(moment) == []
        assert clock.due(moment) >= until
        assert silent_members.countdown(group, now, moment.ahead) == {}
        assert not not_rejoined.has_new_silence(group, SETTINGS, now)
        assert not empty_groups.retired(group, SETTINGS, now)


def test_a_group_that_commits_is_quiet_for_half_a_session_after_its_slowest_member() -> None:
    slow, quick = NOW - 4_000, NOW - 1_000
    both = [
        Member(
            *(name, None, "client", "/10.0.0.1", False, 45_000, 300_000, "java", 1, "s", BEGAN),
            offsets=[1, 2],
            last_commit=at,
            commits=20,
            cadence=5_000,
        )
        for name, at in (("a", slow), ("b", quick))
    ]
    group = GroupState(
        group_type="classic", status=Status.STABLE, protocol_type="consumer", members=both, topics=["t"]
    )
    assert clock.quiet_until(group, SETTINGS) == slow + 22_500
    group.dirty = True
    assert clock.quiet_until(group, SETTINGS) == -1
