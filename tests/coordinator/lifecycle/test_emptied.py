"""What a group has open while it is empty, and when that ends."""

from dataclasses import replace
from struct import pack

import pytest

from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
from rebalance_monitor.coordinator.findings.outputs import FindingOut
from rebalance_monitor.coordinator.settings import DetectionSettings
from tests.coordinator.support.epochs import SETTINGS, A, B, C, Epochs
from tests.coordinator.support.timeline import T0, Client, Topic, findings, of, outputs, text

KEPT = replace(SETTINGS, offsets_retention_ms=100_000, offsets_expiring_ms=50_000)


def test_offsets_of_an_empty_group_that_is_used_again_no_longer_expire_and_are_reported_anew() -> None:
    topic = Epochs()
    topic.join(0, A, 1, (0,))
    topic.commit(1_000, {0: 5})
    topic.leave(2_000, A, 2)
    topic.join(70_000, B, 3, (0,))
    topic.commit(71_000, {0: 6})
    topic.leave(72_000, B, 4)
    first, over, again = of(findings(topic, KEPT, until=60_000), Kind.OFFSETS_EXPIRING)
    assert (first.phase, over.phase, over.resolution) == ("opened", "resolved", "withdrawn")
    assert (over.incident, over.at) == (first.id, T0 + 70_000)
    assert (again.phase, again.details["expires_at"]) == ("opened", T0 + 71_000 + 100_000)


def test_a_member_that_came_and_went_before_its_first_assignment_leaves_no_second_emptiness_open() -> None:
    topic = Epochs()
    topic.join(0, A, 1, (0,))
    topic.leave(10_000, A, 2)
    topic.metadata(20_000, B)
    topic.bump(20_000, 3)
    topic.leave(20_400, B, 4)
    topic.join(30_000, C, 5, (0,))
    told = [(found.phase, found.incident) for found in of(findings(topic, SETTINGS), Kind.GROUP_EMPTY)]
    assert [phase for phase, _ in told] == ["opened", "resolved", "opened", "resolved"]
    assert told[0][1] == told[1][1] != told[2][1] == told[3][1]


def test_a_group_whose_other_members_were_described_before_a_recording_began_is_not_empty() -> None:
    topic = Epochs(offset=1_000)
    topic.join(1_000, B, 5, ())
    topic.ack(2_000, A, 4, (0,), state=1)
    topic.ack(20_000, A, 5, (0,))
    topic.ack(20_500, B, 5, (1,))
    topic.leave(60_000, B, 6)
    topic.target(61_000, 6)
    topic.ack(61_000, A, 6, (0, 1))
    found = findings(topic, SETTINGS)
    assert not of(found, Kind.GROUP_EMPTY)
    assert not of(found, Kind.MEMBER_SILENT)
    left = of(found, Kind.REBALANCE)[-1]
    assert (left.members_total, left.details["left"]) == (1, 1)


def test_a_group_of_which_compaction_left_that_it_is_empty_did_not_expire_at_once() -> None:
    topic = Epochs()
    topic.bump(0, 7)
    topic.target(0, 6)
    history = topic.offset
    topic.put(60_000, 6, None)
    topic.put(60_000, 3, None)
    (removed,) = of(findings(topic, SETTINGS, until=5_000, history=history), Kind.GROUP_REMOVED)
    assert removed.details == {"empty_ms": 60_000}
    assert removed.causes[0].confidence < 0.6


def test_an_always_on_group_that_is_empty_when_the_monitor_starts_is_published_once() -> None:
    settings = DetectionSettings(always_on=("g",))
    for whole in (True, False):
        topic = Topic()
        if whole:
            topic.generation(0, 1, [Client("a-1", (0,))])
        topic.generation(10_000, 2, [])
        found = findings(topic, settings, until=60_000, history=topic.offset)
        live = [one for one in found if one.kind is Kind.GROUP_EMPTY and not one.history]
        assert [(one.phase, one.severity) for one in live] == [
            ("updated" if whole else "opened", Severity.CRITICAL)
        ]
        assert not [one for one in findings(topic, until=60_000, history=topic.offset) if not one.history]


def test_offsets_of_a_group_that_was_empty_before_the_monitor_came_are_reported_in_time() -> None:
    """Compaction leaves its newest commits before the record that says that it is empty."""
    topic = Topic()
    topic.commit(1_000, {0: 5, 1: 7})
    topic.generation(10_000, 2, [])
    topic.record(20_000, b"\0\2\0\5other", None, "other")
    settings = DetectionSettings(offsets_retention_ms=600_000, offsets_expiring_ms=120_000)
    found = findings(topic, settings, until=500_000, history=topic.offset)
    (expiring,) = of(found, Kind.OFFSETS_EXPIRING)
    assert expiring.details["expires_at"] == T0 + 610_000


def test_offsets_that_are_gone_with_their_group_are_not_said_to_expire() -> None:
    topic = Topic()
    topic.commit(1_000, {0: 5})
    topic.tombstone(5_000)
    topic.generation(10_000, 2, [])
    topic.record(20_000, b"\0\2\0\5other", None, "other")
    settings = DetectionSettings(offsets_retention_ms=600_000, offsets_expiring_ms=120_000)
    assert not of(findings(topic, settings, until=700_000, history=topic.offset), Kind.OFFSETS_EXPIRING)


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_an_empty_always_on_group_is_reported_wherever_history_is_cut(cut: int) -> None:
    topic = Topic()
    topic.generation(0, 1, [Client("a-1", (0,))])
    topic.generation(10_000, 2, [])
    topic.record(20_000, b"\0\2\0\5other", None, "other")
    topic.record(30_000, b"\0\2\0\5other", None, "other")
    told = findings(topic, DetectionSettings(always_on=("g",)), until=5_000, history=cut)
    live = [one for one in of(told, Kind.GROUP_EMPTY) if not one.history]
    assert [one.severity for one in live] == [Severity.CRITICAL]


HOUR = 3_600_000
WEEK = DetectionSettings(offsets_retention_ms=7 * 24 * HOUR, offsets_expiring_ms=24 * HOUR)


def simple(*hours: int) -> Topic:
    """A group that never had a member, to which somebody commits at these hours."""
    topic = Topic()
    value = pack(">h", 3) + text("") + pack(">i", 0) + text(None) * 2 + pack(">qi", T0, 0)
    topic.record(0, b"\0\2" + text("g"), value)
    for hour in hours:
        topic.commit(hour * HOUR, {0: hour})
    return topic


def expiring(topic: Topic, hours: int) -> list[tuple[str | None, int, int]]:
    """Phase, when it was published and the end that it names, both in hours."""
    last = topic.rows[-1].record_ts
    said = outputs(topic, WEEK, until=T0 + hours * HOUR - last, clock=HOUR)
    told = of([one.finding for one in said if isinstance(one, FindingOut)], Kind.OFFSETS_EXPIRING)
    ends = [int(one.details.get("expires_at", T0)) for one in told]
    return [
        (one.phase, (one.at - T0) // HOUR, (end - T0) // HOUR) for one, end in zip(told, ends, strict=True)
    ]


def test_offsets_of_one_that_assigns_itself_its_partitions_are_kept_from_each_commit_on() -> None:
    assert not expiring(simple(*range(1, 20 * 24, 24)), 20 * 24)
    assert expiring(simple(5), 8 * 24) == [("opened", 5 + 6 * 24, 5 + 7 * 24)]


def test_a_commit_of_one_that_assigns_itself_its_partitions_ends_what_was_said_of_its_offsets() -> None:
    told = expiring(simple(5, 155), 13 * 24)
    assert told == [("opened", 149, 173), ("resolved", 155, 0), ("opened", 299, 323)]


def test_a_start_that_fails_begins_the_retention_of_an_empty_group_anew() -> None:
    """Its member died before its first assignment: another record without members is all that it left."""
    topic = Topic()
    topic.generation(0, 1, [Client("a-1", (0,))])
    topic.commit(1_000, {0: 5})
    topic.generation(60_000, 2, [])
    topic.generation(146 * HOUR, 4, [])
    told = expiring(topic, 14 * 24)
    assert told == [("opened", 144, 168), ("resolved", 146, 0), ("opened", 290, 314)]
