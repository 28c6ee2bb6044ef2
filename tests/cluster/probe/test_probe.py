"""The probe without a cluster, and with brokers that fail: said in the sighting, never raised."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NoReturn

import pytest
from kafka.errors import IncompatibleBrokerVersion, KafkaConnectionError

from rebalance_monitor.cluster.clients.admin import (
    OFFSETS_TOPIC,
    Broker,
    ClusterAdmin,
    PartitionLeader,
    Topic,
)
from rebalance_monitor.cluster.clients.connection import sentence
from rebalance_monitor.cluster.errors import BrokerUnreachableError
from rebalance_monitor.cluster.probe.probe import METADATA, REBALANCING, ProbeThread, take_sample
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.coordinator.probe.sample import RebalancingGroup


@dataclass
class Cluster:
    """Three brokers: 1 answers, 2 refuses, 3 hangs."""

    release: threading.Event = field(default_factory=threading.Event)
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def metadata(self, name: str = OFFSETS_TOPIC) -> tuple[tuple[Broker, ...], Topic | None]:
        brokers = tuple(Broker(number, "127.0.0.1", 9000 + number) for number in (1, 2, 3))
        return brokers, Topic(name, "", (PartitionLeader(0, 1, 5), PartitionLeader(1, -1, 6)))

    def list_groups(self, broker: int, states: Sequence[str] = ()) -> list[dict[str, Any]]:
        self.asked.append(tuple(states))
        if broker == 2:
            refused = KafkaConnectionError("111 ECONNREFUSED")
            raise sentence(refused, "127.0.0.1:9001,127.0.0.1:9002") from refused
        if broker == 3:
            self.release.wait(10)
        kinds = [("old", None), ("new", "Consumer")]
        return [
            {"group_id": g, "group_state": "Reconciling", "group_type": k, "protocol_type": "consumer"}
            for g, k in kinds
        ]

    def describe_groups(self, groups: Sequence[str], broker: int) -> dict[str, dict[str, Any]]:
        assert (list(groups), broker) in [(["old"], 1), (["old"], 3)]
        member = {"member_id": "m", "group_instance_id": None, "client_id": "c", "client_host": "/h"}
        return {"old": {"members": [member]}}


def test_a_cluster_that_goes_away_is_no_fault_of_the_configuration() -> None:
    class Away(Cluster):
        def metadata(self, name: str = "") -> NoReturn:  # noqa: ARG002 - the signature is the client's
            gone = KafkaConnectionError("111 ECONNREFUSED")
            raise sentence(gone, "kafka-1:9092") from gone

    with ThreadPoolExecutor(1) as pool:
        sample = take_sample(Away(), pool, 17, timeout_s=2.0)
    assert sample.failures == {
        METADATA: "No Kafka broker answers at kafka-1:9092 (KafkaConnectionError: 111 ECONNREFUSED)."
    }


def test_brokers_that_fail_or_hang_are_said_and_the_others_still_answer() -> None:
    cluster = Cluster()
    with ThreadPoolExecutor(4) as pool:
        sighting = take_sample(cluster, pool, 17, timeout_s=2.0)
        cluster.release.set()
    assert sighting.at == 17
    assert sighting.brokers == ((1, True), (2, False), (3, False))
    assert sighting.failures[2] == "Broker 2 does not answer: KafkaConnectionError: 111 ECONNREFUSED."
    assert "3 did not answer" in sighting.failures[3]
    assert sighting.groups == (
        RebalancingGroup("old", "Reconciling", "", "consumer"),
        RebalancingGroup("new", "Reconciling", "consumer", "consumer"),
    )
    assert sighting.members == {"old": (("m", "", "c", "/h"),)}
    assert sighting.leaders == ((0, 1, 5), (1, -1, 6))
    assert set(cluster.asked) == {REBALANCING}


def test_groups_that_cannot_be_described_are_seen_to_rebalance_all_the_same() -> None:
    class Undescribed(Cluster):
        def list_groups(self, broker: int, states: Sequence[str] = ()) -> list[dict[str, Any]]:
            return super().list_groups(min(broker, 1), states)

        def describe_groups(self, groups: Sequence[str], broker: int) -> NoReturn:
            raise ValueError(f"cannot read what broker {broker} says of {groups}")

    with ThreadPoolExecutor(4) as pool:
        sighting = take_sample(Undescribed(), pool, 17)
    assert sighting.brokers == ((1, True), (2, True), (3, True))
    assert sighting.failures[2] == "ValueError: cannot read what broker 2 says of ['old']"
    assert len(sighting.groups) == 6
    assert sighting.members == {}


def test_a_broker_that_knows_no_filter_of_states_is_said_to_be_too_old() -> None:
    class Old(Cluster):
        def list_groups(self, broker: int, states: Sequence[str] = ()) -> list[dict[str, Any]]:
            assert states
            raise sentence(IncompatibleBrokerVersion("no ListGroups v4"), f"broker {broker}")

    with ThreadPoolExecutor(4) as pool:
        sighting = take_sample(Old(), pool, 1)
    assert sighting.brokers == ((1, False), (2, False), (3, False))
    assert sighting.failures[1].startswith("The brokers at broker 1 are too old")
    assert "Kafka 2.6" in sighting.failures[1]


def test_a_bug_in_the_client_does_not_end_the_looking() -> None:
    class Broken(Cluster):
        def metadata(self, name: str = OFFSETS_TOPIC) -> NoReturn:
            raise KeyError(name)

    with ThreadPoolExecutor(1) as pool:
        sighting = take_sample(Broken(), pool, 1)
    assert sighting.failures == {METADATA: "KeyError: '__consumer_offsets'"}
    assert sighting.brokers == ((METADATA, False),)


def test_a_machine_without_a_thread_left_does_not_end_the_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    class Exhausted(ThreadPoolExecutor):
        def submit(self, *_: object, **__: object) -> NoReturn:  # type: ignore[override]  # it never returns
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(
        "rebalance_monitor.cluster.probe.probe.ClusterAdmin", lambda *_, **__: Closing(Cluster())
    )
    monkeypatch.setattr("rebalance_monitor.cluster.probe.probe.ThreadPoolExecutor", Exhausted)
    with ProbeThread({"bootstrap.servers": "x:1"}, 0.01) as probe:
        time.sleep(0.2)
        found = probe.drain()
    assert len(found) > 1
    assert {sighting.failures[METADATA] for sighting in found} == {"RuntimeError: can't start new thread"}


def test_a_cluster_that_is_away_gives_sightings_that_say_so() -> None:
    with ProbeThread({"bootstrap.servers": "127.0.0.1:1", "request.timeout.ms": "300"}, 0.05) as probe:
        found = []
        deadline = time.monotonic() + 60
        while not found and time.monotonic() < deadline:
            time.sleep(0.1)
            found = probe.drain()
    assert "Nothing listens at 127.0.0.1:1" in found[0].failures[METADATA]
    assert found[0].groups == ()
    assert found[0].brokers == ((METADATA, False),)


def test_properties_that_cannot_be_mapped_are_refused_before_the_thread_starts() -> None:
    with pytest.raises(ConfigError, match="no counterpart"):
        ProbeThread({"ssl.engine.factory.class": "x"})


def test_a_cluster_that_stays_away_costs_no_threads() -> None:
    before = threading.active_count()
    for _ in range(3):
        with pytest.raises(BrokerUnreachableError):
            ClusterAdmin({"bootstrap.servers": "127.0.0.1:1"}, timeout_ms=100)
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threading.active_count() == before


def test_a_listing_that_some_broker_does_not_answer_is_not_asked_for_in_every_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster()
    cluster.release.set()
    monkeypatch.setattr(
        "rebalance_monitor.cluster.probe.probe.ClusterAdmin", lambda *_, **__: Closing(cluster)
    )
    with ProbeThread({"bootstrap.servers": "x:1"}, 0.01) as probe:
        assert looks(probe, 10)
    assert cluster.asked.count(()) == 3  # brokers 1 to 3, in one look


def test_a_client_that_breaks_when_it_connects_or_closes_does_not_end_the_looking(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> Closing:
        if next(turns) % 2:
            raise AttributeError("a bug")
        return Closing(Headless())

    turns = count()
    monkeypatch.setattr("rebalance_monitor.cluster.probe.probe.ClusterAdmin", broken)
    with ProbeThread({"bootstrap.servers": "x:1"}, 0.01) as probe:
        assert looks(probe, 6)


class Headless(Cluster):
    def metadata(self, name: str = OFFSETS_TOPIC) -> NoReturn:
        raise KeyError(name)


class Closing:
    """A connection that breaks when it is closed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> object:
        return getattr(self._cluster, name)

    def close(self) -> None:
        raise RuntimeError("a bug")


def looks(probe: ProbeThread, wanted: int) -> bool:
    found, deadline = 0, time.monotonic() + 60
    while found < wanted and time.monotonic() < deadline:
        time.sleep(0.02)
        found += len(probe.drain())
    return found >= wanted
