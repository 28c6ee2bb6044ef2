"""What the lag of groups says: the right finding of the right group, once, and nothing of healthy ones."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.coordinator.commits import positions
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import Finding, MemberEntry
from rebalance_monitor.coordinator.findings.kinds import KINDS, Kind, Scope, Severity
from rebalance_monitor.coordinator.lag.ends import UNKNOWN, EndsSample
from rebalance_monitor.coordinator.lag.following import Lag, News
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.state.positions import Positions
from rebalance_monitor.decoders.rows import partition_entry

T0, STEP = 1_795_000_000_000, 5_000
SETTINGS = DetectionSettings()


def summary(state: str = "Stable", *, members: int = 2) -> dict[str, Any]:
    """Two members with two partitions each."""
    return {
        "state": state,
        "group_type": "classic",
        "members": members,
        "member_list": [
            {
                "member_id": f"m{number}",
                "client_id": f"c{number}",
                "host": "/10.0.0.1",
                "instance_id": None,
                "session_timeout_ms": 45_000,
                "rebalance_timeout_ms": 300_000,
                "partitions": 2,
                "last_commit": -1,
                "cadence_ms": 5_000,
                "assigned": {"orders": f"{2 * number}-{2 * number + 1}"},
            }
            for number in range(members)
        ],
    }


@dataclass
class World:
    """One group and its topic of four partitions, looked at every 5 s."""

    settings: DetectionSettings = SETTINGS
    lag: Lag = field(init=False)
    at: int = T0
    ends: list[int] = field(default_factory=lambda: [100] * 4)
    begins: list[int] = field(default_factory=lambda: [0] * 4)
    stable: tuple[int, ...] = ()
    shard: int = -1
    held: Positions = field(default_factory=Positions)
    found: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lag = Lag(self.settings, "c1")

    def commit(self, offsets: dict[int, int]) -> None:
        for partition, offset in offsets.items():
            entry = partition_entry(b"orders", partition)
            positions.keep(self.held, self.at, entry, offset.to_bytes(8, "big", signed=True))

    def look(
        self,
        said: dict[str, Any] | None = None,
        *,
        rebalancing: bool = False,
        known: bool = True,
        anew: bool = False,
    ) -> list[Finding]:
        """Publish, take a sample, and return what is found; `anew`: in a process that begins."""
        self.at += STEP
        if anew:
            self.lag = Lag(self.settings, "c1", json.loads(json.dumps(self.lag.snapshot())))
        self.found += self.lag.publish({"g": positions.published(self.held)}, self.at, {"g": self.shard})
        latest = {"orders": tuple(self.ends)} if known else {}
        begins = {"orders": tuple(self.begins)} if known else {}
        sample = EndsSample(self.at - 10, self.at, latest, begins, stable={"orders": self.stable})
        found = self.lag.on_samples([sample], {"g": said or summary()}, {"g"} if rebalancing else ())
        self.found += found
        return found

    def run(
        self,
        looks: int,
        *,
        reads: tuple[int, ...] = (0, 1, 2, 3),
        rate: int = 10,
        **how: Any,  # noqa: ANN401 - as `look` has them
    ) -> None:
        """Let records come to all partitions, read only from `reads`."""
        for _ in range(looks):
            self.ends = [end + rate for end in self.ends]
            self.commit({partition: self.ends[partition] for partition in reads})
            self.look(**how)

    def of(self, kind: Kind) -> list[Finding]:
        return [one for one in self.found if one.kind is kind]


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


def test_a_group_that_may_pause_is_not_accused() -> None:
    world = World(DetectionSettings(expected_pause=("g*",)))
    world.run(30)
    world.run(200, reads=())
    assert not world.found


def test_an_incident_goes_on_over_a_restart_and_ends_with_the_group_s_members() -> None:
    world = World()
    world.run(30)
    world.run(40, reads=(0, 1))
    world.ends = [end + 10 for end in world.ends]
    assert not [one for one in world.look(anew=True) if one.kind is Kind.CONSUMPTION_STOPPED]
    world.run(40, reads=(0, 1))
    assert len(world.of(Kind.CONSUMPTION_STOPPED)) == 1
    (resolved,) = world.look(said=summary("Empty", members=0))
    assert (resolved.kind, resolved.resolution) == (Kind.CONSUMPTION_STOPPED, "confirmed")


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
            lag.publish({"g": positions.published(held)}, at)
        if second % 5 == 0:
            lag.on_samples([EndsSample(at, at, {"orders": (end,) * 4})], {"g": summary()}, ())
            told = lag.board.groups["g"].lag
            assert told is not None
            worst = max(worst, told.records or 0)
    assert worst <= 4 * (3 + 1)


def test_positions_that_went_back_are_told_once_with_what_is_read_again() -> None:
    world = World()
    world.run(30)
    end = world.ends[0]
    world.commit(dict.fromkeys(range(4), 50))
    world.look()
    world.run(3, reads=())
    (told,) = world.of(Kind.OFFSETS_REWOUND)
    assert (told.details["partitions"], told.details["records"]) == (4, 4 * (end - 50))


def test_a_glitch_that_is_over_at_the_next_look_is_no_rewind() -> None:
    world = World()
    world.run(10)
    end = world.ends[0]
    world.commit({0: end - 1})
    world.lag.publish({"g": positions.published(world.held)}, world.at)
    world.commit({0: end})
    world.look()
    assert not world.found


@given(st.integers(1, 90), st.booleans())
def test_records_are_lost_only_above_the_committed_offset(begin: int, beyond: bool) -> None:  # noqa: FBT001
    world = World()
    world.commit(dict.fromkeys(range(4), 90))
    world.look()
    world.begins[2] = 90 + begin if beyond else begin
    world.ends[2] = 200
    world.look()
    world.look()
    lost = world.of(Kind.RECORDS_LOST)
    assert len(lost) == beyond
    if beyond:
        assert (lost[0].severity, lost[0].details["records"]) == (Severity.CRITICAL, begin)


def test_what_was_lost_before_anybody_looked_is_not_told() -> None:
    world = World()
    world.begins = [95] * 4
    world.commit(dict.fromkeys(range(4), 90))
    for _ in range(5):
        world.look()
    assert not world.found


def test_retention_that_comes_near_is_told_and_over_when_the_group_has_read() -> None:
    world = World()
    world.ends = [100_000] * 4
    world.commit({0: 10_000, 1: 100_000, 2: 100_000, 3: 100_000})
    for begin in range(0, 9_000, 100):
        world.begins[0] = begin
        world.look()
    told = world.of(Kind.RECORDS_EXPIRING)
    assert [one.phase for one in told] == ["opened"]
    left = int(told[0].details["left_ms"])
    assert 0 < left <= SETTINGS.records_expiring_ms
    world.commit({0: 100_000})
    world.look()
    assert [one.phase for one in world.of(Kind.RECORDS_EXPIRING)] == ["opened", "resolved"]


@pytest.mark.parametrize("way", ["its offsets are gone", "it commits no more"])
def test_what_is_open_of_a_group_that_only_commits_ends_with_it(way: str) -> None:
    world = World(ends=[10_000] * 4)
    world.commit({0: 5_000})
    for begin in range(0, 4_000, 100):
        world.begins[0] = begin
        world.look({})
    assert [one.phase for one in world.of(Kind.RECORDS_EXPIRING)] == ["opened"]
    if way == "its offsets are gone":
        positions.drop(world.held, world.at, "orders", 0)
        world.look({})
    else:
        at = world.at + 8 * 86_400_000
        world.found += world.lag.on_samples([EndsSample(at - 10, at)], {}, ())
    assert [one.phase for one in world.of(Kind.RECORDS_EXPIRING)] == ["opened", "resolved"]
    assert not world.lag.snapshot()["losses"]


def finding(
    kind: Kind,
    at: int,
    phase: str | None,
    **fields: Any,  # noqa: ANN401 - those of Finding
) -> Finding:
    base = {"details": {}, "evidence": "read", "cluster": "c1", "incident": "i" if phase else None}
    return Finding(
        id=f"{kind}/{phase}", kind=kind, scope=Scope.GROUP, severity=KINDS[kind].severity, group="g", at=at,
        phase=phase, **{**base, **fields},
    )  # fmt: skip


def test_a_rebalance_is_given_what_waited_for_it() -> None:
    world = World()
    world.run(20)
    stopped = world.at
    world.run(6, reads=(), rebalancing=True)
    (told,) = world.lag.priced(
        [
            finding(
                Kind.REBALANCE,
                world.at,
                None,
                started_at_min=stopped,
                stopped_ms_min=1_000,
                stopped_ms_max=30_000,
                # One member left: all partitions stood still, not its own alone.
                partitions_affected=1,
            )
        ]
    )
    assert told.details["waiting_at_stop"] == 0
    assert told.details["waiting_peak"] == 6 * 4 * 10
    assert told.details["partition_seconds"] == 4 * 30.0


def test_an_empty_group_becomes_a_warning_as_records_wait_and_says_when_it_caught_up() -> None:
    world = World()
    world.run(20)
    gone = finding(Kind.GROUP_EMPTY, world.at, "opened", opened_at=world.at)
    left = finding(Kind.GROUP_EMPTY, world.at, "opened", incident="j", details={"ended_by": "leave"})
    told = world.lag.priced([gone, left])
    assert [one.severity for one in told] == [Severity.INFO] * 2
    world.run(4, reads=(), said=summary("Empty", members=0))
    (warned,) = [one for one in world.found if one.kind is Kind.GROUP_EMPTY]
    assert (warned.phase, warned.severity, warned.incident) == ("updated", Severity.WARNING, "i")
    world.run(3)
    caught = [one for one in world.found if one.details.get("caught_up_at")]
    assert {one.incident for one in caught} == {"i", "j"}
    resolved = finding(Kind.GROUP_EMPTY, world.at, "resolved")
    (over,) = world.lag.priced([resolved])
    assert over.details["waiting_peak"] == 4 * 4 * 10
    assert over.details["caught_up_at"] == world.at - 2 * STEP


@pytest.mark.parametrize(("rate", "severity"), [(0, Severity.WARNING), (10, Severity.CRITICAL)])
def test_a_storm_is_as_bad_as_what_waits_for_it(rate: int, severity: Severity) -> None:
    world = World()
    world.run(20)
    began = world.at
    world.run(6, reads=(), rate=rate, rebalancing=True)
    (told,) = world.lag.priced([finding(Kind.STORM, world.at, "opened", opened_at=began)])
    assert told.severity is severity


def test_without_ends_a_storm_is_what_it_was() -> None:
    (told,) = World().lag.priced([finding(Kind.STORM, T0, "opened", opened_at=T0)])
    assert (told.severity, told.details) == (Severity.CRITICAL, {})


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
