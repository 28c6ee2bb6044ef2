"""Silences and expiring offsets of classic groups: opened by the clock, decided by what follows."""

from dataclasses import replace
from struct import pack

import pytest
from msgspec import structs

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from tests.coordinator.support.classic import BOTH, A, B, two_members
from tests.coordinator.support.epochs import A as EPOCHS_A
from tests.coordinator.support.epochs import Epochs
from tests.coordinator.support.timeline import T0, Client, P, S, Topic, findings, metadata, of, text


def test_a_silent_member_is_opened_by_the_clock_and_withdrawn_by_a_commit() -> None:
    topic = two_members(30_700)
    topic.commit(50_000, {2: 100, 3: 100})
    opened, updated, resolved = of(findings(topic.sorted()), Kind.MEMBER_SILENT)
    assert (opened.phase, opened.members[0].member_id) == ("opened", "b-1")
    assert (opened.details["deadline"], updated.details["deadline"]) == ("session", "poll")
    assert (updated.phase, updated.incident) == ("updated", opened.id)
    assert (resolved.phase, resolved.resolution, resolved.incident) == ("resolved", "withdrawn", opened.id)
    assert {found.members_affected for found in (opened, updated, resolved)} == {1}
    for found, deadline, timeout in ((opened, "session", "6.0 s"), (updated, "poll", "8.0 s")):
        assert f" at its {deadline} deadline; timeout {timeout};" in found.causes[0].why


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


@pytest.mark.parametrize("others", [False, True])
def test_a_member_alone_is_silent_only_where_its_shard_goes_on(*, others: bool) -> None:
    topic = Topic()
    topic.generation(0, 1, [BOTH])
    topic.commits(500, 30_500, BOTH)
    topic.commits(50_500, 60_500, BOTH)
    for at in range(1_000, 60_000, 1_000) if others else ():
        topic.record(at, b"\0\2\0\5other", None, "other")
    assert bool(of(findings(topic.sorted()), Kind.MEMBER_SILENT)) is others


STATIC_A, STATIC_B, STATIC_C = (
    Client(f"{name}-1", (place,), host=f"/10.0.0.{place}", instance_id=name)
    for place, name in enumerate("abc")
)


def rewritten(*after: Client) -> list[Finding]:
    """A and C commit on, B until 20 s; at 31 s a record of the same generation has these members."""
    topic = Topic()
    topic.generation(0, 1, [STATIC_A, STATIC_B, STATIC_C])
    for member, last in ((STATIC_A, 60_000), (STATIC_B, 20_500), (STATIC_C, 60_000)):
        topic.commits(500, last, member)
    topic.record(31_000, b"\0\2" + text("g"), metadata(1, list(after), T0 - 20))
    topic.generation(62_000, 2, [STATIC_A, STATIC_C])
    return of(findings(topic.sorted()), Kind.MEMBER_SILENT)


def test_a_silence_lasts_over_a_record_of_the_same_generation() -> None:
    again = replace(STATIC_C, member_id="c-2")
    for after in ((STATIC_A, STATIC_B, STATIC_C), (STATIC_A, STATIC_B, again)):
        told = [one for one in rewritten(*after) if one.members[0].member_id == "b-1"]
        assert [one.phase for one in told] == ["opened", "updated", "resolved"]
        assert told[-1].resolution == "confirmed"
        assert len({one.incident for one in told}) == 1


def test_a_silent_member_that_is_replaced_under_its_instance_id_is_back() -> None:
    told = rewritten(STATIC_A, replace(STATIC_B, member_id="b-2"), STATIC_C)
    assert [(one.phase, one.resolution) for one in told if one.members[0].member_id == "b-1"][-1] == (
        "resolved",
        "withdrawn",
    )


def test_offsets_that_are_about_to_expire_are_published_once() -> None:
    topic = Topic()
    topic.generation(0, 1, [A])
    topic.commit(1_000, {0: 1})
    topic.generation(10_000, 2, [])
    settings = DetectionSettings(offsets_retention_ms=60_000, offsets_expiring_ms=20_000)
    (found,) = of(findings(topic, settings, until=100_000), Kind.OFFSETS_EXPIRING)
    assert (found.phase, found.at) == ("opened", T0 + 10_000 + 40_000)


HOURS = DetectionSettings(offsets_retention_ms=3_600_000, offsets_expiring_ms=600_000)


def unsubscribed() -> Topic:
    """A and B read bills until 61 s; then only orders."""
    topic = Topic()
    topic.generation(0, 1, [replace(A, topics=("bills", "orders")), replace(B, topics=("bills", "orders"))])
    topic.commit(60_000, {0: 1, 1: 1}, "bills")
    topic.commit(61_000, {2: 1, 3: 1}, "bills")
    topic.generation(90_000, 2, [A, B])
    return topic


def test_offsets_of_a_topic_without_subscribers_are_reported_before_they_expire() -> None:
    opened, resolved = of(findings(unsubscribed(), HOURS, until=4_300_000), Kind.OFFSETS_EXPIRING)
    assert (opened.phase, opened.at) == ("opened", T0 + 61_000 + 3_000_000)
    assert (opened.details["topic"], opened.details["expires_at"]) == ("bills", T0 + 61_000 + 3_600_000)
    assert (resolved.resolution, resolved.incident) == ("expired", opened.id)


def test_offsets_of_a_topic_that_is_subscribed_to_again_are_safe() -> None:
    topic = unsubscribed()
    topic.generation(100_000, 3, [replace(A, topics=("bills",)), B])
    assert not of(findings(topic, HOURS, until=4_300_000), Kind.OFFSETS_EXPIRING)


def test_the_tombstone_of_an_offset_says_that_it_is_gone() -> None:
    topic, key = unsubscribed(), b"\0\1" + text("g") + text("bills") + pack(">i", 0)
    topic.record(95_000, key, None)
    assert not of(findings(topic, HOURS, until=4_300_000), Kind.OFFSETS_EXPIRING)


def test_a_member_that_was_silent_before_the_monitor_started_has_its_whole_timeout_from_then() -> None:
    rows = two_members(20_000).sorted()
    until = next(row.first_offset for row in rows.rows if row.record_ts >= T0 + 50_000)
    opened = of(findings(rows, history=until), Kind.MEMBER_SILENT)[0]
    assert opened.at >= T0 + 50_000 + S


def test_a_commit_to_an_empty_classic_group_does_not_keep_its_offsets_longer() -> None:
    topic = Topic()
    topic.generation(0, 1, [A])
    topic.commit(1_000, {0: 1})
    topic.generation(10_000, 2, [])
    topic.commit(40_000, {0: 0})
    settings = DetectionSettings(offsets_retention_ms=900_000, offsets_expiring_ms=100_000)
    (found,) = of(findings(topic, settings, until=900_000), Kind.OFFSETS_EXPIRING)
    assert (found.at, found.details["expires_at"]) == (T0 + 810_000, T0 + 910_000)
    topic.tombstone(912_000)
    (gone,) = of(findings(topic, settings, until=5_000), Kind.GROUP_REMOVED)
    assert gone.causes[0].cause is Cause.GROUP_EXPIRED


def test_an_epoch_based_group_that_was_long_idle_is_about_to_lose_its_offsets_once_it_is_empty() -> None:
    topic = Epochs()
    topic.join(0, EPOCHS_A, 1, (0,))
    topic.commit(10_000, {0: 1})
    topic.leave(850_000, EPOCHS_A, 2)
    settings = DetectionSettings(offsets_retention_ms=900_000, offsets_expiring_ms=100_000)
    (found,) = of(findings(topic, settings, until=30_000), Kind.OFFSETS_EXPIRING)
    assert (found.at, found.details["expires_at"]) == (T0 + 850_000, T0 + 910_000)
    topic.put(911_000, 3, None)
    (gone,) = of(findings(topic, settings, until=5_000), Kind.GROUP_REMOVED)
    assert gone.causes[0].cause is Cause.GROUP_EXPIRED
    assert "15 min 1 s before" in gone.causes[0].why


def under_traffic(end_b: int, end_a: int = 60_000, partitions: tuple[int, ...] = (2, 3)) -> Topic:
    """A and B commit progress only, twice a second; B stops after `end_b`, A after `end_a`."""
    topic, b = Topic(), replace(B, client_id="rdkafka", partitions=partitions)
    a = replace(A, client_id="rdkafka")
    topic.generation(0, 1, [a, b])
    topic.commits(500, end_a, a, every=500, moving=1)
    topic.commits(700, end_b, b, every=500, moving=1)
    return topic


def test_under_traffic_a_member_is_suspected_while_others_move_the_same_topic() -> None:
    topic = under_traffic(20_700)
    topic.commit(60_500, {2: 500, 3: 500})
    opened, updated, resolved = of(findings(topic.sorted()), Kind.MEMBER_SILENT)
    assert [found.details["basis"] for found in (opened, updated)] == ["traffic", "traffic"]
    assert opened.at == T0 + 20_700 + 500 + S
    assert all(found.confidence < 0.5 for found in (opened, updated))
    assert all(cause.confidence <= 0.5 for found in (opened, updated) for cause in found.causes)
    assert (resolved.resolution, resolved.incident) == ("withdrawn", opened.id)


def test_a_lull_of_the_whole_group_says_nothing_and_the_next_one_is_judged_anew() -> None:
    topic = under_traffic(20_700, 21_500)
    assert not of(findings(topic.sorted(), until=600_000), Kind.MEMBER_SILENT)
    a, b = (replace(one, client_id="rdkafka") for one in (A, B))
    topic.commits(300_500, 360_500, a, every=500, moving=1)
    topic.commits(300_700, 330_700, b, every=500, moving=1)
    found = of(findings(topic.sorted()), Kind.MEMBER_SILENT)
    assert [one.members[0].member_id for one in found if one.phase == "opened"] == ["b-1"]
    assert found[0].at > T0 + 330_700


def test_under_traffic_a_member_with_one_partition_has_no_deadline() -> None:
    topic = under_traffic(20_700, partitions=(2,))
    assert not of(findings(topic.sorted(), until=60_000), Kind.MEMBER_SILENT)


def test_a_group_whose_traffic_stopped_is_not_woken_again() -> None:
    topic = under_traffic(20_700, 21_500).sorted()
    shard = ShardCoordinator(new_shard_state(topic.shard, 0, None), DetectionSettings(), "c1")
    for row in topic.rows:
        shard.on_row(row)
    looks = 0
    for now in range(T0 + 22_000, T0 + 600_000, 1_000):
        looks += len(shard.due())
        shard.on_clock(now)
    assert looks <= 5


def test_after_an_outage_of_all_each_member_has_its_whole_timeout_from_the_first_sign_of_life() -> None:
    topic = Topic()
    members = [Client(f"m{place}-1", (place,), f"consumer-{place}") for place in range(4)]
    topic.generation(0, 1, members)
    for place, member in enumerate(members):
        topic.commits(1_000 + place, 30_000, member)
        topic.commits(90_000 + 2_000 * place, 120_000, member)
    for at in range(1_000, 120_000, 1_000):
        topic.record(at + 500, b"\0\2\0\5other", None, "other")
    assert not of(findings(topic.sorted()), Kind.MEMBER_SILENT)


def test_a_commit_that_brings_a_time_ahead_hides_no_silence_of_its_member() -> None:
    """OffsetCommit version 1, or a hostile client: it was there when the record was written."""
    a, b = Client("a-1", (0, 1)), Client("b-1", (2, 3), "consumer-g-2", "/10.0.0.2")
    topic = Topic()
    topic.generation(0, 1, [a, b])
    topic.commits(500, 30_000, a)
    topic.commits(600, 20_600, b)
    ahead = topic.rows[-1]
    topic.rows[-1] = structs.replace(ahead, commit_ts=ahead.commit_ts + 3_600_000)
    silent = of(findings(topic.sorted()), Kind.MEMBER_SILENT)
    assert silent[0].members[0].member_id == "b-1"


@pytest.mark.parametrize("moving", [0, 1])
def test_members_that_wait_in_the_join_phase_of_another_one_are_not_silent(moving: int) -> None:
    """D joins at 100 s; B and C rejoin at once, and A, in a long batch, commits each record until 160 s."""
    a, b, c, d = (
        Client(f"{name}-1", share, f"consumer-{name}", f"/10.0.0.{number}", session=10_000, rebalance=300_000)
        for number, (name, share) in enumerate([("a", (0, 1)), ("b", (2, 3)), ("c", (4, 5)), ("d", (5,))])
    )
    topic = Topic()
    topic.generation(0, 1, [a, b, c])
    topic.commits(500, 159_800, a, moving=1)
    topic.commits(700, 101_000, b, moving=moving)
    topic.commits(900, 101_500, c, moving=moving)
    topic.generation(160_000, 2, [a, b, replace(c, partitions=(4,)), d])
    assert of(findings(topic.sorted()), Kind.MEMBER_SILENT) == []
