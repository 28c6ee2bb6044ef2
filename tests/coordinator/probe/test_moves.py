"""Moves of coordinators that the probe sees: published once, never back and never to no broker."""

from dataclasses import replace

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import Coordinator
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.live import Live
from tests.coordinator.refine.test_suppressed import looks, rebalance
from tests.coordinator.support.looks import SETTINGS, kinds, look
from tests.coordinator.support.timeline import T0

_MOVED = Cause.COORDINATOR_MOVED


def test_a_leader_epoch_that_steps_is_a_coordinator_move() -> None:
    live = Live(SETTINGS, "c1")
    found = live.on_samples([look(0, seen=False), look(1_000, seen=False, epoch=3)])
    assert kinds(found) == [(Kind.COORDINATOR_MOVED, None)]


def test_partitions_that_one_sample_shows_with_a_new_epoch_are_one_finding_per_pair_of_brokers() -> None:
    live = Live(SETTINGS, "c1")
    before = replace(look(0, seen=False), leaders=tuple((p, p // 40, 1) for p in range(50)))
    after = replace(look(1_000, seen=False), leaders=tuple((p, 0, 1 + (p != 3)) for p in range(50)))
    restarted, left = live.on_samples([before, after])
    assert (restarted.shard, restarted.details["moved"], restarted.details["partitions"]) == (
        None,
        39,
        "0-2,4-39",
    )
    assert (left.details["previous_broker"], left.details["partitions"]) == (1, "40-49")


def test_a_partition_without_a_leader_has_not_moved_until_it_has_one_again() -> None:
    live = Live(SETTINGS, "c1")
    led = [(0, 1, 1), (1_000, -1, 1), (2_000, -1, 2), (3_000, 1, 3), (4_000, 1, 3)]
    looks = [replace(look(at, seen=False), leaders=((7, broker, epoch),)) for at, broker, epoch in led]
    (moved,) = live.on_samples(looks)
    assert (moved.at, moved.coordinator, moved.details["previous_broker"]) == (
        T0 + 3_000,
        Coordinator(1, 3),
        1,
    )


def test_a_broker_whose_metadata_lags_moves_no_coordinator_back() -> None:
    live = Live(SETTINGS, "c1")
    led = [(0, 1, 5), (1_000, 2, 6), (2_000, 1, 5), (3_000, 2, 6)]
    looks = [replace(look(at, seen=False), leaders=((7, broker, epoch),)) for at, broker, epoch in led]
    (moved,) = live.on_samples(looks)
    assert (moved.at, moved.coordinator) == (T0 + 1_000, Coordinator(2, 6))


def test_a_topic_made_anew_begins_its_leader_epochs_again() -> None:
    live = Live(SETTINGS, "c1")
    live.on_samples([replace(look(0, seen=False), leaders=((7, 1, 5),))])
    live.forget_records()
    assert live.on_samples([replace(look(1_000, seen=False), leaders=((7, 1, 0),))]) == []
    (moved,) = live.on_samples([replace(look(2_000, seen=False), leaders=((7, 2, 1),))])
    assert moved.coordinator == Coordinator(2, 1)


def test_a_coordinator_that_was_away_has_reloaded_though_no_leader_epoch_steps() -> None:
    for away, cause in (
        (1, Cause.LEADER_REJOINED),
        (2, Cause.COORDINATOR_MOVED),
        (11, Cause.COORDINATOR_MOVED),
    ):
        live = Live(SETTINGS, "c1")
        looks(live, 0, 50_000)
        looks(live, 50_000, 50_000 + away * 1_000, answered=False)
        looks(live, 50_000 + away * 1_000, 65_000)
        (told,) = live.refine([rebalance(63_000)])
        assert told.causes[0].cause is cause, away
    assert (
        told.causes[0].why
        == "same members 3.0 s after their coordinator had left 11 probe requests unanswered"
    )
    (later,) = live.refine([rebalance(91_000)])
    assert later.causes[0].cause is Cause.LEADER_REJOINED


def test_samples_that_a_slow_coordinator_leaves_unanswered_now_and_then_are_no_reload() -> None:
    live = Live(SETTINGS, "c1")
    for at in range(0, 65_000, 1_000):
        looks(live, at, at + 1_000, answered=at not in {35_000, 52_000})
    (told,) = live.refine([rebalance(63_000)])
    assert told.causes[0].cause is Cause.LEADER_REJOINED


def test_a_join_phase_that_samples_saw_begin_before_its_coordinator_was_away_is_not_by_its_reload() -> None:
    live = Live(SETTINGS, "c1")
    looks(live, 0, 50_000)
    looks(live, 50_000, 61_000, state="PreparingRebalance")
    looks(live, 61_000, 63_000, answered=False)
    looks(live, 63_000, 65_000)
    (told,) = live.refine([rebalance(63_500, began=40_000)])
    assert told.causes[0].cause is Cause.LEADER_REJOINED


def test_the_reload_of_a_coordinator_is_seen_for_groups_too_that_the_brokers_hide() -> None:
    live = Live(SETTINGS, "c1")
    alive = {"g": {"state": "Stable", "at": T0 - 60_000}}
    hides = replace(look(0, seen=False), listed=frozenset({"other"}))
    assert [one.phase for one in live.on_samples([hides], alive)] == ["opened"]
    looks(live, 1_000, 50_000)
    looks(live, 50_000, 60_000, answered=False)
    looks(live, 60_000, 65_000)
    (told,) = live.refine([rebalance(63_000)])
    assert told.causes[0].cause is _MOVED
