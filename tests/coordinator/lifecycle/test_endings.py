"""Classic groups that are empty, removed or migrated: each is published, and open incidents end."""

from struct import pack

import pytest

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import CLAIMED, MEASURED, Finding
from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.findings.outputs import RemovedOut
from rebalance_monitor.coordinator.settings import DetectionSettings
from tests.coordinator.support.classic import A, causes
from tests.coordinator.support.epochs import A as MEMBER
from tests.coordinator.support.epochs import Epochs
from tests.coordinator.support.timeline import T0, Client, S, Topic, findings, of, outputs, text


def test_an_empty_group_opens_and_the_next_generation_resolves_it() -> None:
    topic = Topic()
    topic.generation(0, 1, [A])
    topic.commits(500, 30_500, A)
    topic.generation(30_500 + S + 200, 2, [])
    topic.generation(90_000, 3, [A])
    opened, resolved = of(findings(topic.sorted()), Kind.GROUP_EMPTY)
    assert (opened.phase, resolved.phase) == ("opened", "resolved")
    assert opened.details["ended_by"] == "session"
    # The evidence is for the driver.
    assert opened.details.keys() == {"ended_by", MEASURED}
    assert resolved.incident == opened.id
    assert resolved.opened_at == opened.at == T0 + 30_500 + S + 200


def test_an_empty_group_that_must_always_run_is_critical() -> None:
    topic = Topic()
    topic.generation(0, 1, [A])
    topic.generation(60_000, 2, [])
    opened = of(findings(topic, DetectionSettings(always_on=("g*",))), Kind.GROUP_EMPTY)[0]
    assert opened.severity is Severity.CRITICAL


@pytest.mark.parametrize(("empty", "known", "sure"), [(59_000, 0, 1), (61_000, 0, 0), (61_000, 1, 1)])
def test_a_deleted_group_is_removed_by_an_administrator_unless_its_offsets_may_be_kept_for_less(
    empty: int, known: int, sure: int
) -> None:
    """Brokers keep them for a minute at least; for how long is assumed where nobody has said it."""
    topic = Topic()
    topic.generation(0, 1, [A])
    topic.commit(1_000, {0: 1})
    topic.generation(10_000, 2, [])
    topic.tombstone(10_000 + empty)
    settings = DetectionSettings(known=("offsets_retention_ms",) * known)
    out = outputs(topic, settings, until=5_000)
    assert RemovedOut("g") in out
    (removed,) = of(findings(topic, settings, until=5_000), Kind.GROUP_REMOVED)
    assert removed.causes[0].cause is Cause.GROUP_DELETED_BY_ADMIN
    assert (removed.causes[0].confidence >= CLAIMED) is bool(sure)
    assert (Cause.GROUP_EXPIRED in causes(removed)) is not bool(sure)
    assert ("(assumed)" in removed.causes[0].why) is not bool(known)


@pytest.mark.parametrize(
    ("dropped", "cause"),
    [
        (60_000, Cause.GROUP_EXPIRED),
        (400_000, Cause.GROUP_DELETED_BY_ADMIN),
        (9_000, Cause.GROUP_DELETED_BY_ADMIN),
    ],
)
def test_a_group_whose_offsets_went_before_it_lost_its_topic(dropped: int, cause: Cause) -> None:
    """Not where they went with it, in one write, nor while it had members and committed."""
    topic = Topic()
    topic.generation(0, 1, [A])
    topic.commits(1_000, 50_000, A)
    for partition in A.partitions:
        topic.record(dropped, b"\0\1" + text("g") + text("orders") + pack(">i", partition), None)
    topic.generation(50_100, 2, [])
    topic.tombstone(400_000)
    (removed,) = of(findings(topic.sorted(), until=5_000), Kind.GROUP_REMOVED)
    assert removed.causes[0].cause is cause
    assert removed.causes[0].confidence <= 0.8


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
    topic = Epochs()
    topic.generation(0, 1, [A])
    topic.commit(1_000, {0: 1})
    topic.generation(10_000, 2, [])
    topic.tombstone(60_000)
    topic.join(60_000, MEMBER, 1, (0, 1))
    found = findings(topic, DetectionSettings(always_on=("g",)), until=5_000)
    opened, resolved = of(found, Kind.GROUP_EMPTY)
    assert opened.severity == "critical"
    assert (resolved.incident, resolved.resolution) == (opened.id, "completed")
    assert open_incidents(found) == set()


def test_an_empty_group_that_is_downgraded_by_a_client_that_never_joins_stays_empty() -> None:
    """The client's first request writes a placeholder for a group without members, as does its next."""
    topic = Epochs()
    topic.join(0, MEMBER, 1, (0, 1))
    topic.leave(60_000, MEMBER, 2)
    for kind in (6, 3):
        topic.put(300_000, kind, None)
    topic.generation(300_000, 0, [])
    settings = DetectionSettings(always_on=("g",))
    (opened,) = of(findings(topic, settings, until=600_000), Kind.GROUP_EMPTY)
    assert (opened.phase, opened.severity) == ("opened", "critical")
    topic.generation(900_000, 1, [A])
    _, resolved = of(findings(topic, settings, until=5_000), Kind.GROUP_EMPTY)
    assert (resolved.incident, resolved.details) == (opened.id, {"empty_ms": 839_980})


def test_an_empty_group_that_was_migrated_ends_with_its_removal() -> None:
    topic = Topic()
    topic.generation(0, 1, [A])
    topic.generation(10_000, 2, [])
    migrate(topic, 60_000)
    assert open_incidents(findings(topic, until=5_000)) == {Kind.GROUP_EMPTY}
    topic.tombstone(120_000, 3)
    assert open_incidents(findings(topic, until=5_000)) == set()


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


def test_a_group_that_stays_empty_for_long_leaves_quietly() -> None:
    topic = Topic()
    topic.generation(0, 1, [A])
    topic.generation(10_000, 2, [])
    settings = DetectionSettings(offsets_retention_ms=60_000, offsets_expiring_ms=10_000)
    out = outputs(topic, settings, until=200_000)
    assert out.count(RemovedOut("g")) == 1


@pytest.mark.parametrize(
    ("partitions", "severity"), [(((0,), ()), Severity.INFO), (((0, 1, 2), (3,)), Severity.WARNING)]
)
def test_a_skew_that_ends_with_its_group_is_as_loud_as_it_was(
    partitions: tuple[tuple[int, ...], tuple[int, ...]], severity: Severity
) -> None:
    topic = Topic()
    members = [Client(f"m-{n}", given, f"consumer-{n}") for n, given in enumerate(partitions)]
    topic.generation(0, 1, members)
    migrate(topic, 60_000)
    told = of(findings(topic, until=5_000), Kind.ASSIGNMENT_SKEWED)
    assert [(one.phase, one.severity) for one in told] == [("opened", severity), ("resolved", severity)]
