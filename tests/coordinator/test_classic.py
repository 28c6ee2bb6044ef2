from dataclasses import replace

import pytest

from rebalance_monitor.coordinator.causes import Cause
from rebalance_monitor.coordinator.findings import Finding
from rebalance_monitor.coordinator.kinds import Kind, Severity
from rebalance_monitor.coordinator.outputs import GroupOut, RemovedOut
from rebalance_monitor.coordinator.settings import DetectionSettings
from tests.coordinator.test_epochs import Epochs
from tests.coordinator.timeline import T0, Client, P, S, Topic, findings, outputs

A = Client("a-1", (0, 1), "consumer-g-1")
B = Client("b-1", (2, 3), "consumer-g-2", "/10.0.0.2")
BOTH = Client("a-1", (0, 1, 2, 3), "consumer-g-1")


def of(found: list[Finding], kind: Kind) -> list[Finding]:
    return [finding for finding in found if finding.kind is kind]


def causes(finding: Finding) -> set[Cause]:
    return {entry.cause for entry in finding.causes}


def two_members(end_b: int, *, idle: bool = True) -> Topic:
    """A and B commit every second; B stops after `end_b`."""
    topic = Topic()
    topic.generation(0, 1, [A, B])
    topic.commits(500, 60_000, A, moving=int(not idle))
    topic.commits(700, end_b, B, moving=int(not idle))
    return topic


def test_the_first_generation_is_a_first_start() -> None:
    topic = Topic()
    topic.generation(0, 1, [A])
    (found,) = findings(topic)
    assert found.kind is Kind.REBALANCE
    assert causes(found) == {Cause.FIRST_START}
    assert (found.generation, found.sync_ms, found.leader) == (1, 20, "a-1")


@pytest.mark.parametrize("late", [0, 100, 900, 1_900])
def test_a_killed_member_is_a_session_timeout_and_named(late: int) -> None:
    topic = two_members(30_700)
    topic.generation(30_700 + S + late + 20, 2, [BOTH])
    found = findings(topic.sorted())
    (named,) = of(found, Kind.SESSION_TIMEOUT)
    assert named.members[0].member_id == "b-1"
    assert named.details["silence_ms"] == S + late
    assert named.details["rebalance"] == of(found, Kind.REBALANCE)[1].id
    assert not of(found, Kind.POLL_INTERVAL_EXCEEDED)


@pytest.mark.parametrize("late", [400, 1_000, 1_700])
def test_a_stalled_member_is_a_poll_breach_even_where_both_timeouts_are_close(late: int) -> None:
    topic = two_members(30_700)
    topic.commit(30_700 + P + late - 5, dict.fromkeys(A.partitions, 100))  # as it rejoins
    topic.generation(30_700 + P + late + 20, 2, [BOTH])
    found = findings(topic.sorted())
    (named,) = of(found, Kind.POLL_INTERVAL_EXCEEDED)
    assert named.members[0].member_id == "b-1"
    assert not of(found, Kind.SESSION_TIMEOUT)


def test_a_goodbye_is_no_timeout() -> None:
    topic = two_members(30_700)
    topic.generation(30_700 + 600, 2, [BOTH])
    found = findings(topic.sorted())
    assert of(found, Kind.REBALANCE)[1].causes[0].cause is Cause.MEMBER_LEFT
    assert not of(found, Kind.SESSION_TIMEOUT)


def test_silence_of_a_member_that_never_commits_when_idle_and_has_no_traffic_is_not_a_timeout() -> None:
    quiet = Client("q-1", (2, 3), "rdkafka", "/10.0.0.2")
    topic = Topic()
    topic.generation(0, 1, [A, quiet])
    topic.commit(1_000, {2: 5})
    topic.generation(1_000 + S + 500, 2, [BOTH])
    found = findings(topic.sorted())
    assert not of(found, Kind.SESSION_TIMEOUT)
    assert not of(found, Kind.POLL_INTERVAL_EXCEEDED)


def test_of_a_member_that_never_committed_nothing_is_claimed() -> None:
    topic = Topic()
    topic.generation(0, 1, [A, Client("n-1", (2, 3), "billing")])
    topic.generation(60_000, 2, [BOTH])
    rebalance = of(findings(topic), Kind.REBALANCE)[1]
    assert {Cause.MEMBER_LEFT, Cause.SESSION_TIMEOUT, Cause.UNKNOWN} <= causes(rebalance)
    assert all(entry.confidence < 0.6 for entry in rebalance.causes)


def test_a_new_member_joined() -> None:
    topic = Topic()
    topic.generation(0, 1, [BOTH])
    topic.generation(60_000, 2, [A, B])
    rebalance = of(findings(topic), Kind.REBALANCE)[1]
    assert causes(rebalance) == {Cause.MEMBER_JOINED}
    assert [(m.member_id, m.role) for m in rebalance.members] == [("b-1", "joined"), ("a-1", "kept")]


def test_a_static_member_that_comes_back_in_the_same_generation_is_no_rebalance() -> None:
    topic = Topic()
    topic.generation(0, 1, [Client("s-old", (0,), instance_id="s")])
    topic.generation(60_000, 1, [Client("s-new", (0,), instance_id="s")], sync=59_000)
    found = findings(topic)
    assert len(of(found, Kind.REBALANCE)) == 1
    (replaced,) = of(found, Kind.STATIC_MEMBER_REPLACED)
    assert replaced.details == {"instance_id": "s", "previous_member_id": "s-old"}
    assert replaced.members[0].host_is_stale


def test_a_static_member_that_stays_away_expired() -> None:
    static = Client("s-1", (2, 3), instance_id="s")
    topic = Topic()
    topic.generation(0, 1, [A, static])
    topic.commits(500, 60_000, A)
    topic.commits(700, 30_700, static)
    topic.generation(30_700 + S + 800, 2, [BOTH])
    found = findings(topic.sorted())
    assert Cause.STATIC_MEMBER_EXPIRED in causes(of(found, Kind.REBALANCE)[1])
    assert of(found, Kind.SESSION_TIMEOUT)[0].members[0].instance_id == "s"


def test_a_hole_between_two_live_generations_is_a_failed_rebalance() -> None:
    topic = Topic()
    topic.generation(0, 1, [A, B])
    topic.generation(60_000, 4, [A, B])
    (failed,) = of(findings(topic), Kind.REBALANCE_FAILED)
    assert failed.details == {"failed": 2, "at_start": 0}
    assert failed.severity is Severity.INFO


def test_a_hole_at_the_start_of_a_group_is_information() -> None:
    topic = Topic()
    topic.generation(0, 0, [])
    topic.generation(3_000, 2, [A, B])
    (failed,) = of(findings(topic), Kind.REBALANCE_FAILED)
    assert failed.details["at_start"] == 1


def test_repeated_failures_are_a_warning() -> None:
    topic = Topic()
    for index, number in enumerate((1, 3, 5)):
        topic.generation(index * 60_000, number, [A, B])
    assert [f.severity for f in of(findings(topic), Kind.REBALANCE_FAILED)] == [
        Severity.INFO,
        Severity.WARNING,
    ]


@pytest.mark.parametrize("between", ["history", "tombstone"])
def test_a_hole_that_touches_history_or_a_tombstone_says_nothing(between: str) -> None:
    topic = Topic()
    topic.generation(0, 1, [A, B])
    if between == "tombstone":
        topic.generation(1_000, 2, [])
        topic.tombstone(2_000)
    topic.generation(60_000, 9, [A, B])
    found = findings(topic, history=1 if between == "history" else None)
    assert not of(found, Kind.REBALANCE_FAILED)
    assert of(found, Kind.REBALANCE)[0].history == (between == "history")


def test_an_empty_group_opens_and_the_next_generation_resolves_it() -> None:
    topic = Topic()
    topic.generation(0, 1, [A])
    topic.commits(500, 30_500, A)
    topic.generation(30_500 + S + 200, 2, [])
    topic.generation(90_000, 3, [A])
    opened, resolved = of(findings(topic.sorted()), Kind.GROUP_EMPTY)
    assert (opened.phase, resolved.phase) == ("opened", "resolved")
    assert opened.details == {"ended_by": "session"}
    assert resolved.incident == opened.id
    assert resolved.opened_at == opened.at == T0 + 30_500 + S + 200


def test_an_empty_group_that_must_always_run_is_critical() -> None:
    topic = Topic()
    topic.generation(0, 1, [A])
    topic.generation(60_000, 2, [])
    opened = of(findings(topic, DetectionSettings(always_on=("g*",))), Kind.GROUP_EMPTY)[0]
    assert opened.severity is Severity.CRITICAL


def test_the_second_phase_of_a_cooperative_rebalance_is_a_follow_up() -> None:
    topic = Topic()
    topic.generation(0, 1, [BOTH], protocol="cooperative-sticky")
    topic.generation(60_000, 2, [A, Client("b-1", ())], protocol="cooperative-sticky")
    topic.generation(61_000, 3, [A, B], protocol="cooperative-sticky")
    last = of(findings(topic), Kind.REBALANCE)[-1]
    assert causes(last) == {Cause.COOPERATIVE_FOLLOW_UP}


def test_more_partitions_and_another_subscription_are_causes() -> None:
    topic = Topic()
    topic.generation(0, 1, [Client("a-1", (0, 1))])
    topic.generation(60_000, 2, [Client("a-1", (0, 1, 2))])
    topic.generation(120_000, 3, [Client("a-1", (0, 1, 2), topics=("orders", "bills"))])
    _, grown, changed = of(findings(topic), Kind.REBALANCE)
    assert causes(grown) == {Cause.PARTITIONS_CHANGED}
    assert causes(changed) == {Cause.SUBSCRIPTION_CHANGED}


def test_the_same_members_again_is_never_a_confident_claim() -> None:
    topic = Topic()
    topic.generation(0, 1, [A, B])
    topic.generation(60_000, 2, [A, B])
    rebalance = of(findings(topic), Kind.REBALANCE)[1]
    assert max(entry.confidence for entry in rebalance.causes) < 0.6


def test_members_that_lost_their_generation_hint_at_a_coordinator_that_was_reloaded() -> None:
    topic = Topic()
    topic.generation(0, 1, [replace(A, believes=-1), replace(B, believes=-1)])
    topic.generation(60_000, 2, [replace(A, believes=1), replace(B, believes=1)])
    topic.generation(120_000, 3, [replace(A, believes=-1), replace(B, believes=-1)])
    first, asked, reloaded = of(findings(topic), Kind.REBALANCE)
    assert first.causes[0].cause is Cause.FIRST_START
    assert asked.causes[0].cause is Cause.LEADER_REJOINED
    assert (reloaded.causes[0].cause, reloaded.causes[0].confidence) == (Cause.COORDINATOR_MOVED, 0.55)
    assert "2 members rejoined without" in reloaded.causes[0].why


def test_another_assignor_is_a_cause_that_names_both() -> None:
    topic = Topic()
    topic.generation(0, 1, [A, B])
    topic.generation(60_000, 2, [A, B], protocol="roundrobin")
    (cause,) = of(findings(topic), Kind.REBALANCE)[1].causes
    assert (cause.cause, cause.why) == (Cause.PROTOCOL_CHANGED, "assignor range became roundrobin")


def test_generations_that_fail_while_the_record_nears_its_limit_could_most_likely_not_be_stored() -> None:
    topic = Topic()
    topic.generation(0, 1, [A, B])
    topic.generation(60_000, 3, [A, B])
    (failed,) = of(findings(topic, DetectionSettings(max_message_bytes=200)), Kind.REBALANCE_FAILED)
    assert causes(failed) == {Cause.ASSIGNMENT_NOT_STORED}


def test_a_hole_across_a_change_of_group_type_says_nothing_and_the_way_back_is_a_migration_as_well() -> None:
    topic = Epochs()
    topic.join(0, "m", 7, (0,))
    for kind in (8, 7, 6, 5, 3):
        topic.put(60_000, kind, None, "m" if kind in {5, 7, 8} else "")
    topic.generation(60_000, 12, [A])
    found = findings(topic)
    (moved,) = of(found, Kind.GROUP_MIGRATED)
    assert moved.details == {"from": "consumer", "to": "classic"}
    assert not of(found, Kind.REBALANCE_FAILED)
    assert not of(found, Kind.GROUP_REMOVED)
    assert not of(found, Kind.GROUP_EMPTY)


def test_commits_to_an_empty_group_are_an_offset_reset() -> None:
    topic = Topic()
    topic.generation(0, 1, [A])
    topic.generation(10_000, 2, [])
    topic.commit(60_000, {0: 0, 1: 0})
    topic.generation(90_000, 3, [A])
    assert causes(of(findings(topic), Kind.REBALANCE)[1]) == {Cause.FIRST_START, Cause.OFFSETS_RESET}


def test_a_deleted_group_is_removed_by_an_administrator() -> None:
    topic = Topic()
    topic.generation(0, 1, [A])
    topic.commit(1_000, {0: 1})
    topic.generation(10_000, 2, [])
    topic.tombstone(60_000)
    out = outputs(topic, until=5_000)
    assert RemovedOut("g") in out
    found = findings(topic, until=5_000)
    assert causes(of(found, Kind.GROUP_REMOVED)[0]) == {Cause.GROUP_DELETED_BY_ADMIN}


def test_a_tombstone_followed_by_the_new_protocol_in_the_same_write_is_a_migration() -> None:
    topic = Topic()
    topic.generation(0, 1, [A])
    topic.tombstone(60_000)
    topic.record(60_000, b"\0\3" + b"\0\1g", b"\0\0" + b"\0\0\0\2" + b"\0")
    found = findings(topic, until=5_000)
    assert not of(found, Kind.GROUP_REMOVED)
    (moved,) = of(found, Kind.GROUP_MIGRATED)
    assert moved.details == {"from": "classic", "to": "consumer"}


def open_incidents(found: list[Finding]) -> set[Kind]:
    ended = {finding.incident for finding in found if finding.phase == "resolved"}
    return {finding.kind for finding in found if finding.phase == "opened" and finding.incident not in ended}


def migrate(topic: Topic, at: int) -> None:
    topic.tombstone(at)
    topic.record(at, b"\0\3" + b"\0\1g", b"\0\0" + b"\0\0\0\2" + b"\0")


def test_an_empty_group_that_comes_back_under_the_new_protocol_is_empty_no_more() -> None:
    topic = Topic()
    topic.generation(0, 1, [A])
    topic.commit(1_000, {0: 1})
    topic.generation(10_000, 2, [])
    migrate(topic, 60_000)
    found = findings(topic, DetectionSettings(always_on=("g",)), until=5_000)
    assert of(found, Kind.GROUP_EMPTY)[0].severity == "critical"
    assert open_incidents(found) == set()


@pytest.mark.parametrize("turn", ["another type", "no such transition"])
def test_what_a_group_has_open_ends_when_it_turns_out_to_be_another_one(turn: str) -> None:
    topic = Topic()
    for number in range(1, 22):
        topic.generation(number * 5_000, number, [A, Client("b-1", ())])
    settings = DetectionSettings(max_message_bytes=200)
    if turn == "another type":
        # Its tombstone was compacted away.
        topic.record(120_000, b"\0\3" + b"\0\1g", b"\0\0" + b"\0\0\0\2" + b"\0")
    else:
        topic.generation(120_000, 0, [])
    found = findings(topic, settings, until=5_000)
    assert {Kind.STORM, Kind.ASSIGNMENT_SKEWED, Kind.GROUP_TOO_LARGE} <= {one.kind for one in found}
    assert open_incidents(found) == set()


@pytest.mark.parametrize("end", ["migrated", "removed"])
def test_what_a_group_has_open_ends_with_it(end: str) -> None:
    topic = Topic()
    for number in range(1, 22):
        topic.generation(number * 5_000, number, [A, Client("b-1", ())])
    settings = DetectionSettings(max_message_bytes=200)
    kinds = {Kind.STORM, Kind.ASSIGNMENT_SKEWED, Kind.GROUP_TOO_LARGE}
    assert open_incidents(findings(topic, settings)) == kinds
    if end == "migrated":
        migrate(topic, 120_000)
    else:
        topic.generation(119_000, 22, [])
        topic.tombstone(120_000)
    assert open_incidents(findings(topic, settings, until=5_000)) == set()


def test_what_a_group_has_open_ends_when_it_leaves_quietly() -> None:
    topic = Topic()
    topic.generation(0, 1, [A])
    topic.commit(1_000, {0: 1})
    topic.generation(10_000, 2, [])
    settings = DetectionSettings(offsets_retention_ms=60_000, offsets_expiring_ms=10_000)
    assert open_incidents(findings(topic, settings, until=70_000)) == {
        Kind.GROUP_EMPTY,
        Kind.OFFSETS_EXPIRING,
    }
    assert open_incidents(findings(topic, settings, until=200_000)) == set()


def test_simple_consumers_leave_no_state() -> None:
    topic = Topic()
    topic.commit(0, {0: 1})
    assert not [out for out in outputs(topic, until=10_000) if isinstance(out, GroupOut)]


def test_a_summary_comes_on_change_and_not_more_often_than_its_interval() -> None:
    topic = Topic()
    for number in range(1, 10):
        topic.generation(number * 1_000, number, [A])
    summaries = [out for out in outputs(topic, until=30_000) if isinstance(out, GroupOut)]
    assert 1 <= len(summaries) <= 3
    assert summaries[-1].summary["generation"] == 9


def test_a_slow_sync_is_a_warning() -> None:
    topic = Topic()
    topic.generation(20_000, 1, [A], sync=9_000)
    assert of(findings(topic), Kind.SLOW_SYNC)[0].sync_ms == 9_000


def test_a_record_near_the_size_limit_is_a_warning_once() -> None:
    topic = Topic()
    topic.generation(0, 1, [A, B])
    topic.generation(60_000, 2, [A, B])
    settings = DetectionSettings(max_message_bytes=200)
    assert len(of(findings(topic, settings), Kind.GROUP_TOO_LARGE)) == 1


def test_a_group_that_stays_empty_for_long_leaves_quietly() -> None:
    topic = Topic()
    topic.generation(0, 1, [A])
    topic.generation(10_000, 2, [])
    settings = DetectionSettings(offsets_retention_ms=60_000, offsets_expiring_ms=10_000)
    out = outputs(topic, settings, until=200_000)
    assert out.count(RemovedOut("g")) == 1


def test_a_member_that_is_back_at_once_may_have_been_removed_by_an_administrator() -> None:
    topic = two_members(30_000)
    topic.generation(30_300, 2, [BOTH, Client("b-2", (2, 3), B.client_id, B.host)])
    found = of(findings(topic.sorted()), Kind.REBALANCE)[1]
    assert {Cause.MEMBER_LEFT, Cause.MEMBER_REMOVED_BY_ADMIN} <= causes(found)
