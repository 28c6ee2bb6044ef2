"""Rollouts with new pods first, groups that work on a schedule, the offender of an autoscaled group."""

from base64 import b64encode
from dataclasses import replace
from hashlib import md5

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.settings import DetectionSettings, GroupOverride
from rebalance_monitor.coordinator.storms.offenders import common
from tests.coordinator.support.epochs import SETTINGS as EPOCH_SETTINGS
from tests.coordinator.support.epochs import A, Epochs
from tests.coordinator.support.timeline import T0, Client, S, Topic, findings, of, watched

SCHEDULED = DetectionSettings(groups=(GroupOverride("g", expected_churn=True),))


def pod_of(version: int, number: int) -> Client:
    place = f"{version}-{number}"
    return Client(f"p{place}", (), f"app-{place}", f"/10.0.{place}", session=45_000, rebalance=300_000)


@settings(max_examples=8)
@given(
    surge=st.booleans(),
    joins_ms=st.integers(500, 20_000),
    age_ms=st.sampled_from([40_000, 90_000, 400_000]),
    pods=st.integers(3, 6),
)
def test_a_rollout_is_published_when_it_ends_and_is_no_storm_however_long_its_heartbeats(
    *, surge: bool, joins_ms: int, age_ms: int, pods: int
) -> None:
    """`surge`: each new pod comes 3 s before an old one leaves; `joins_ms`: length of each join phase."""
    topic, spans, number = Topic(), [], 1
    members = [pod_of(1, pod) for pod in range(pods)]

    def write(at: int) -> list[Client]:
        shared = [replace(one, partitions=(place,)) for place, one in enumerate(members)]
        topic.generation(at, number, shared)
        return shared

    now, there, since = age_ms, write(0), 500
    for pod in range(pods):
        new = pod_of(2, pod)
        for joins in (surge, not surge):
            for one in there:
                topic.commits(since, now, one, every=5_000)
            members = [*members, new] if joins else members[1:]
            spans.append((now, now + joins_ms))
            number += 1
            there, since = write(now + joins_ms), now + joins_ms + 500
            now += joins_ms + (3_000 if surge and joins else 10_000)
        now += 20_000
    ended = spans[-1][1]
    told = watched(
        topic.sorted(),
        lambda at: "PreparingRebalance" * any(start <= at < end for start, end in spans),
        until=ended + 20_000,
    )
    assert not of(told, Kind.STORM)
    (restart,) = of(told, Kind.ROLLING_RESTART)
    assert restart.at <= T0 + ended


def job(*, dies: bool) -> Topic:
    """Four workers join for 20 s of each minute, and leave, or are killed: one that commits on stays."""
    topic, keeper = Topic(), Client("k-1", (0,), "keeper")
    topic.generation(0, 1, [keeper])
    for minute in range(1, 13):
        at, workers = minute * 60_000, [Client(f"w{n}-{minute}", (n,), f"w-{n}") for n in range(1, 5)]
        topic.generation(at, 2 * minute, [keeper, *workers])
        for worker in workers:
            topic.commits(at + 500, at + 20_000, worker)
        topic.generation(at + (26_500 if dies else 20_400), 2 * minute + 1, [keeper])
    topic.commits(500, 800_000, keeper)
    return topic.sorted()


@pytest.mark.parametrize("dies", [False, True])
def test_a_group_that_works_on_a_schedule_may_be_declared_but_expiries_are_never_expected(
    *, dies: bool
) -> None:
    assert of(findings(job(dies=dies)), Kind.STORM)
    assert bool(of(findings(job(dies=dies), SCHEDULED), Kind.STORM)) is dies


def idle_job(life_ms: int, *, dies: bool) -> Epochs:
    """The same of a KIP-848 group, of three workers, on a quiet topic; one that dies has work until then."""
    topic, epoch = Epochs(), 1
    topic.join(0, A, epoch, (0, 1, 2, 3))
    for visit in range(1, 9):
        at = visit * 60_000
        workers = [b64encode(md5(bytes([visit, n])).digest())[:22].decode() for n in range(3)]  # noqa: S324
        for worker in workers:
            epoch += 1
            topic.join(at, worker, epoch, ())
        topic.ack(at + 500, A, epoch, (0,))
        for n, worker in enumerate(workers, 1):
            topic.ack(at + 600, worker, epoch, (n,))
        if dies:
            for second in range(1, life_ms // 1_000):
                topic.commit(at + 1_000 * second, dict.fromkeys(range(4), visit * 1000 + second))
        for worker in workers:
            epoch += 1
            topic.leave(at + life_ms + (S if dies else 0), worker, epoch)
        topic.target(at + life_ms + (S if dies else 0) + 100, epoch)
        topic.ack(at + life_ms + (S if dies else 0) + 200, A, epoch, (0, 1, 2, 3))
    return topic


@pytest.mark.parametrize("life_ms", [S + 2_000, 2 * S, 3 * S])
def test_idle_workers_of_an_epoch_based_group_may_be_declared_though_they_stay_longer_than_a_session(
    life_ms: int,
) -> None:
    declared = replace(EPOCH_SETTINGS, groups=SCHEDULED.groups)
    assert of(findings(idle_job(life_ms, dies=False), EPOCH_SETTINGS), Kind.STORM)
    assert not of(findings(idle_job(life_ms, dies=False), declared), Kind.STORM)
    assert of(findings(idle_job(life_ms, dies=True), declared), Kind.STORM)


@given(st.integers(4, 40), st.integers(0, 10))
def test_where_no_client_has_a_third_the_application_is_named(pods: int, others: int) -> None:
    clients = {f"orders-7c9f-{pod:05}": 1 for pod in range(pods)} | {f"x{n}": 1 for n in range(others)}
    found = common(clients, pods + others)
    assert found == (
        {"worst_client": "orders-7c9f-*", "worst_share": round(pods / (pods + others), 2)}
        if pods > others
        else {}
    )


def test_threads_of_one_streams_instance_are_one_offender_however_often_they_are_replaced() -> None:
    topic, good = Topic(), pod_of(1, 1)
    topic.generation(0, 1, [good])
    for number in range(1, 9):
        thread = Client(f"t-{number}", (1,), f"shop-7d2f-StreamThread-{number}-consumer", "/10.0.0.9")
        topic.generation(60_000 + number * 20_000, 2 * number, [good, thread])
        topic.generation(68_000 + number * 20_000, 2 * number + 1, [good])
    (opened, *_) = of(findings(topic), Kind.STORM)
    assert opened.details["worst_client"] == "shop-7d2f"
