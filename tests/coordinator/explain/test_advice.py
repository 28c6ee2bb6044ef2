"""Advice: given where the numbers speak for it, and only there."""

from dataclasses import replace

import pytest

from rebalance_monitor.coordinator.assignors.compare import Spread
from rebalance_monitor.coordinator.explain import advice, returns
from rebalance_monitor.coordinator.explain.dossier import open_dossier
from rebalance_monitor.coordinator.explain.explanation import Place, explain
from rebalance_monitor.coordinator.settings import DetectionSettings, GroupOverride
from rebalance_monitor.coordinator.state.group_state import GroupState
from tests.coordinator.support.epochs import A as EPOCHS_A
from tests.coordinator.support.epochs import B as EPOCHS_B
from tests.coordinator.support.epochs import Epochs
from tests.coordinator.support.timeline import Client, Topic

SETTINGS = DetectionSettings()
Told = dict[str, str]


def advised(topic: Topic, settings: DetectionSettings = SETTINGS) -> list[Told]:
    dossier = open_dossier(topic.group, topic.shard, settings, "c1")
    dossier.on_rows(topic.rows)
    dossier.close()
    found: list[Told] = explain(dossier, Place(7, 50), settings)["advice"]
    return found


def about(told: list[Told], what: str) -> list[Told]:
    return [one for one in told if one["about"] == what]


def usual(index: int, **values: object) -> Client:
    given = {"session": 45_000, "rebalance": 300_000, **values}
    return Client(f"m{index}-1", (index,), f"consumer-{index}", f"/10.0.0.{index}", **given)  # type: ignore[arg-type]


def test_a_healthy_group_with_the_defaults_gets_only_the_advice_without_a_record() -> None:
    topic = Topic()
    topic.generation(0, 1, [usual(0), usual(1)])
    topic.commits(1_000, 9_000, usual(0), moving=1)
    assert [one["about"] for one in advised(topic)] == ["heartbeat.interval.ms"]
    assert "15.0 s" in advised(topic)[0]["advice"]


def test_a_long_gap_between_commits_comes_with_both_remedies() -> None:
    topic = Topic()
    slow = usual(0, rebalance=10_000)
    topic.generation(0, 1, [slow])
    topic.commits(1_000, 3_000, slow, moving=1)
    topic.commit(10_000, {0: 500})
    (told,) = about(advised(topic), "max.poll.interval.ms")
    assert "14.0 s" in told["advice"]
    assert "fewer records a poll" in told["advice"]
    assert "7.0 s between two commits" in told["reason"]
    # It was not seen to commit when idle: there may have been nothing to commit.
    assert told["advice"].startswith("check its lag at that time: if it had records to read")
    assert told["reason"].endswith("that may be one batch, or a time without records")


def _gap_of(gap: int, *, idle: bool, hole: int = 0) -> list[Told]:
    """Advice for a member with one gap (ms) between commits; `hole`: records of the shard gone within it."""
    topic, member = Topic(), usual(0, rebalance=10_000)
    topic.generation(0, 1, [member])
    topic.commits(1_000, 4_000, member, moving=0 if idle else 1)
    topic.offset += hole
    topic.commit(4_000 + gap, {0: 500})
    return about(advised(topic), "max.poll.interval.ms")


def test_a_gap_over_which_a_member_stayed_although_it_is_longer_than_the_interval_is_a_lull() -> None:
    for gap, near in ((4_999, False), (5_000, True), (9_999, True), (60_000, False)):
        assert bool(_gap_of(gap, idle=True)) is near
        assert bool(_gap_of(gap, idle=False)) is near
    # Who commits when idle does so once more after a poll, up to a cadence later.
    assert _gap_of(10_500, idle=True)
    assert not _gap_of(10_500, idle=False)


def test_only_a_gap_of_one_that_commits_when_idle_and_of_which_all_was_read_is_said_to_be_a_batch() -> None:
    (sure,) = _gap_of(7_000, idle=True)
    assert sure["advice"].startswith("raise it to at least 14.0 s")
    for unsure in (_gap_of(7_000, idle=True, hole=3), _gap_of(7_000, idle=False)):
        assert unsure[0]["advice"].startswith("check its lag at that time")


def test_a_gap_across_a_rebalance_is_no_gap() -> None:
    topic = Topic()
    member = usual(0, rebalance=10_000)
    topic.generation(0, 1, [member])
    topic.commits(1_000, 3_000, member, moving=1)
    topic.generation(9_000, 2, [member, usual(1, rebalance=10_000)])
    topic.commit(10_000, {0: 500})
    assert about(advised(topic), "max.poll.interval.ms") == []


def test_a_client_that_does_not_enforce_the_interval_is_not_advised_to_raise_it() -> None:
    topic = Topic()
    sarama = Client("s-1", (0,), "sarama", session=10_000, rebalance=60_000)
    topic.generation(0, 1, [sarama])
    topic.commits(1_000, 3_000, sarama, moving=1)
    topic.commit(50_000, {0: 500})
    assert about(advised(topic), "max.poll.interval.ms") == []


def test_short_and_long_sessions_are_named() -> None:
    short, long = Topic(), Topic()
    short.generation(0, 1, [usual(0, session=6_000)])
    long.generation(0, 1, [usual(0, session=600_000)])
    assert about(advised(short), "session.timeout.ms")[0]["advice"].startswith("raise")
    assert about(advised(long), "session.timeout.ms")[0]["advice"].startswith("lower")


def test_a_long_session_of_static_members_is_on_purpose() -> None:
    topic = Topic()
    topic.generation(0, 1, [usual(0, session=600_000, instance_id="i")])
    assert about(advised(topic), "session.timeout.ms") == []


def test_mixed_timeouts_and_clients_are_named() -> None:
    topic = Topic()
    topic.generation(0, 1, [usual(0), Client("r-1", (1,), "rdkafka", session=30_000, rebalance=300_000)])
    told = advised(topic)
    assert "30.0 s, 45.0 s" in about(told, "session.timeout.ms")[0]["reason"]
    assert "java, librdkafka" in about(told, "clients")[0]["reason"]


def test_a_timeout_that_was_not_read_differs_from_none() -> None:
    topic = Epochs()
    topic.join(0, EPOCHS_A, 1, (0,))
    topic.bump(1_000, 2)
    topic.target(1_000, 2)
    topic.ack(1_500, EPOCHS_A, 2, (0,))
    topic.ack(1_600, EPOCHS_B, 2, (1,))
    assert about(advised(topic), "max.poll.interval.ms") == []


def test_assignors_that_change_to_and_fro_are_named() -> None:
    topic = Topic()
    topic.generation(0, 1, [usual(0)])
    topic.generation(9_000, 2, [usual(0)], protocol="roundrobin")
    topic.generation(18_000, 3, [usual(0)])
    assert "range, roundrobin" in about(advised(topic), "partition.assignment.strategy")[0]["reason"]


def test_an_assignor_that_was_changed_once_is_a_roll_out_that_was_finished() -> None:
    topic = Topic()
    topic.generation(0, 1, [usual(0)])
    for number in range(2, 5):
        topic.generation(number * 60_000, number, [usual(0)], protocol="cooperative-sticky")
    assert about(advised(topic), "partition.assignment.strategy") == []


def test_clients_that_leave_and_come_back_are_advised_static_membership() -> None:
    topic, number = Topic(), 0
    for loop in range(4):
        number += 2
        topic.generation(loop * 60_000, number - 1, [usual(0)])
        again = Client(f"m1-{loop}", (1,), "consumer-1", "/10.0.0.1", session=45_000, rebalance=300_000)
        topic.generation(loop * 60_000 + 20_000, number, [usual(0), again])
    (told,) = about(advised(topic), "group.instance.id")
    assert (told["client_id"], told["host"]) == ("consumer-1", "/10.0.0.1")
    assert "came back 3 times" in told["reason"]
    (told,) = about(advised(topic), "partition.assignment.strategy")
    assert told["advice"] == "change to cooperative-sticky, in two roll-outs"


def test_processes_of_one_host_that_only_start_are_none_that_come_back() -> None:
    topic = Topic()
    members = [Client(f"c{index}", (index,), "c", "/10.0.0.5") for index in range(4)]
    for number in range(1, 5):
        topic.generation(number * 20_000, number, members[:number])
    assert about(advised(topic), "group.instance.id") == []


def test_one_member_that_stopped_polling_again_and_again_is_one() -> None:
    topic, steady, number, at = Topic(), usual(0, rebalance=10_000), 1, 0
    slow = usual(1, rebalance=10_000)
    topic.generation(0, 1, [steady, slow])
    topic.commits(500, 120_000, steady)
    for loop in range(2):
        topic.commits(at + 1_000, at + 20_000, slow)
        topic.generation(at + 30_300, number + 1, [steady])
        number, at, slow = number + 2, at + 45_000, replace(slow, member_id=f"n{loop}")
        topic.generation(at, number, [steady, slow])
    (told,) = about(advised(topic.sorted()), "max.poll.interval.ms")
    assert told["reason"] == "members stopped polling for max.poll.interval.ms 2 times lately"


def test_a_rolling_restart_onto_other_hosts_speaks_for_static_membership_too() -> None:
    topic, members, number = Topic(), [usual(0), usual(1)], 1
    topic.generation(0, number, members)
    for index in range(2):
        topic.generation(60_000 + index * 20_000, number + 1, [members[1 - index]])
        number += 2
        members[index] = replace(members[index], member_id=f"n{index}", host=f"/10.0.1.{index}")
        topic.generation(65_000 + index * 20_000, number, members)
    (told,) = about(advised(topic), "group.instance.id")
    assert "a rolling restart of 2 members" in told["reason"]


def test_static_members_are_not_advised_to_become_static() -> None:
    topic = Topic()
    for loop in range(4):
        again = usual(1, instance_id="i")
        topic.generation(loop * 60_000, 2 * loop + 1, [usual(0)])
        topic.generation(loop * 60_000 + 20_000, 2 * loop + 2, [usual(0), again])
    assert about(advised(topic), "group.instance.id") == []


def test_the_advice_for_idle_members_says_that_no_assignor_helps() -> None:
    topic = Topic()
    idle = Client("m9-1", (), "consumer-9", session=45_000, rebalance=300_000)
    topic.generation(0, 1, [usual(0), idle])
    assert "1 of 2 members" in about(advised(topic), "members")[0]["reason"]


def test_a_record_near_the_limit_is_named() -> None:
    topic = Topic()
    topic.generation(0, 1, [usual(0)])
    small = DetectionSettings(max_message_bytes=200)
    assert about(advised(topic, small), "max.message.bytes")


def static_848(gone: int) -> Topic:
    """Static B of a KIP-848 group is gone at `gone` ms."""
    topic = Epochs()
    topic.join(0, EPOCHS_A, 1, (0, 1), instance="a")
    topic.join(1_000, EPOCHS_B, 2, (), instance="b")
    topic.ack(2_000, EPOCHS_A, 2, (0,))
    topic.ack(2_500, EPOCHS_B, 2, (1,))
    topic.leave(gone, EPOCHS_B, 3)
    topic.target(gone + 500, 3)
    topic.ack(gone + 500, EPOCHS_A, 3, (0, 1))
    return topic


def test_the_advice_for_members_of_the_new_protocol_names_their_own_session_timeout() -> None:
    told = advised(static_848(48_000))
    assert about(told, "session.timeout.ms") == []
    assert "static members expired once" in about(told, "consumer.session.timeout.ms")[0]["reason"]


def spread(**values: object) -> list[advice.Advice]:
    """Advice on three partitions against none, where an even spread is possible."""
    state = GroupState(**{"group_type": "classic", "protocol": "range", **values})  # type: ignore[arg-type]
    better = Spread(2, 1, 0, 1)
    options = {"range": Spread(3, 0, 1, 0), "sticky": better, "cooperative-sticky": better, "uniform": better}
    facts = advice.Facts(state, (), {}, SETTINGS, Spread(3, 0, 1, 0), options)
    return [one for one in advice.advise(facts) if "against" in one.reason]


def test_a_better_spread_is_advised_by_the_setting_that_the_protocol_has() -> None:
    assert [(one.about, one.advice) for one in spread()] == [
        ("partition.assignment.strategy", "change to cooperative-sticky, in two roll-outs")
    ]
    assert [one.about for one in spread(group_type="consumer", protocol="")] == ["group.remote.assignor"]


def test_what_is_used_already_is_not_advised() -> None:
    assert spread(protocol="cooperative-sticky") == []
    assert spread(protocol="sticky") == []


def test_no_assignor_is_advised_to_applications_that_bring_their_own() -> None:
    assert spread(protocol="stream") == []
    assert spread(protocol="my-own") == []


def test_every_rule_is_in_the_table() -> None:
    rules = {
        value
        for value in [*vars(advice).values(), *vars(returns).values()]
        if getattr(value, "__annotations__", {}).get("return") == "Iterable[Advice]"
    }
    assert set(advice.RULES) == rules


def visits(every: list[int], *, expires: bool = False) -> Topic:
    """A worker joins a group of one at these intervals (ms), works and leaves; or its session ends."""
    topic, base, at, number = Topic(), usual(0), 0, 1
    alone = replace(base, partitions=(0, 1))
    topic.generation(0, 1, [alone])
    for place, gap in enumerate(every):
        at += gap
        worker = usual(1, session=6_000)
        worker.member_id = f"worker-{place}"
        topic.generation(at, number + 1, [base, worker])
        stops = 12_000 if expires else 20_000
        topic.commits(at + 500, at + stops, worker, moving=1)
        topic.commits(at + 600, at + 20_000, base, moving=1)
        topic.generation(at + 20_400, number + 2, [alone])
        number += 2
    return topic.sorted()


def test_a_schedule_of_goodbyes_suggests_to_declare_it_and_one_of_expiries_or_at_odd_times_does_not() -> None:
    even, odd = [60_000] * 6, [60_000, 200_000, 90_000, 60_000, 400_000, 60_000]
    (told,) = about(advised(visits(even)), "groups")
    assert "60.0 s" in told["reason"]
    assert not about(advised(visits(odd)), "groups")
    assert not about(advised(visits(even[:3])), "groups")
    assert not about(advised(visits(even, expires=True)), "groups")
    declared = replace(SETTINGS, groups=(GroupOverride("g", expected_churn=True),))
    assert not about(advised(visits(even), declared), "groups")


@pytest.mark.parametrize(
    ("topic", "at", "advises"), [("retry", 9_000, 1), ("retry", 2_000, 0), ("orders", 9_000, 0)]
)
def test_commits_while_members_live_are_of_a_member_or_a_transactional_producer(
    topic: str, at: int, advises: int
) -> None:
    """A topic that members read, or a commit within reach of the rebalance, says nothing."""
    records = Topic()
    records.generation(0, 1, [usual(0), usual(1)])
    records.commit(at, {1: 7}, topic)
    told = about(advised(records), "group.id")
    assert len(told) == advises
    assert all("transactional producer" in one["advice"] and one["reason"].endswith("retry") for one in told)
