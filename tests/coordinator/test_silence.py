"""Silences and expiring offsets of classic groups: opened by the clock, decided by what follows."""

from rebalance_monitor.coordinator.kinds import Kind
from rebalance_monitor.coordinator.settings import DetectionSettings
from tests.coordinator.test_classic import BOTH, A, of, two_members
from tests.coordinator.timeline import T0, P, Topic, findings


def test_a_silent_member_is_opened_by_the_clock_and_withdrawn_by_a_commit() -> None:
    topic = two_members(30_700)
    topic.commit(50_000, {2: 100, 3: 100})
    opened, updated, resolved = of(findings(topic.sorted()), Kind.MEMBER_SILENT)
    assert (opened.phase, opened.members[0].member_id) == ("opened", "b-1")
    assert (opened.details["deadline"], updated.details["deadline"]) == ("session", "poll")
    assert (updated.phase, updated.incident) == ("updated", opened.id)
    assert (resolved.phase, resolved.resolution, resolved.incident) == ("resolved", "withdrawn", opened.id)


def test_a_silent_member_that_is_dropped_is_confirmed() -> None:
    topic = two_members(30_700)
    topic.generation(30_700 + P + 3_000, 2, [BOTH])
    resolved = of(findings(topic.sorted()), Kind.MEMBER_SILENT)[-1]
    assert resolved.resolution == "confirmed"


def test_a_healthy_idle_group_stays_silent() -> None:
    topic = two_members(60_700)
    assert [f.kind for f in findings(topic.sorted(), until=3_000)] == [Kind.REBALANCE]


def test_no_single_member_is_named_when_the_whole_group_is_silent() -> None:
    topic = two_members(60_700)
    assert not of(findings(topic.sorted(), until=60_000), Kind.MEMBER_SILENT)


def test_offsets_that_are_about_to_expire_are_told_once() -> None:
    topic = Topic()
    topic.generation(0, 1, [A])
    topic.commit(1_000, {0: 1})
    topic.generation(10_000, 2, [])
    settings = DetectionSettings(offsets_retention_ms=60_000, offsets_expiring_ms=20_000)
    (found,) = of(findings(topic, settings, until=100_000), Kind.OFFSETS_EXPIRING)
    assert (found.phase, found.at) == ("opened", T0 + 10_000 + 40_000)
