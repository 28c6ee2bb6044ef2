"""The topic before the query: awaited, described, and watched for growth, on a real broker."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from rebalance_monitor.cluster.clients.admin import ClusterAdmin
from rebalance_monitor.engine.topic.leader_epochs import Mark, Marks, read_marks
from rebalance_monitor.engine.topic.topic import TopicWatch, await_topic
from rebalance_monitor.lab.cluster.node import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance_monitor.engine.topic.facts import Look
    from rebalance_monitor.lab.cluster.broker import LabBroker

pytestmark = pytest.mark.broker
WAIT_S = 60


def test_a_topic_that_does_not_exist_yet_is_awaited(lab_broker: LabBroker) -> None:
    properties = {"bootstrap.servers": lab_broker.bootstrap}
    client = AdminClient(properties)
    later = threading.Timer(1, client.create_topics([NewTopic("late", 3, 1)])["late"].result)
    later.start()
    with ClusterAdmin(properties) as admin:
        facts = await_topic(admin, "late", threading.Event())
        assert facts is not None
        assert (facts.partitions, facts.filled(), facts.cluster_id) == (3, {}, admin.cluster_id())
    later.join()


def test_waiting_ends_when_asked_to_stop(lab_broker: LabBroker) -> None:
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    with ClusterAdmin({"bootstrap.servers": lab_broker.bootstrap}) as admin:
        assert await_topic(admin, "never", stop) is None


def test_a_running_query_is_compared_with_what_the_brokers_have(
    lab_broker: LabBroker, tmp_path: Path
) -> None:
    properties = {"bootstrap.servers": lab_broker.bootstrap}
    client = AdminClient(properties)
    client.create_topics([NewTopic("grows", 2, 1)])["grows"].result()
    looks: list[Look] = []

    def seen(partitions: int) -> bool:
        look = watch.take()
        looks.extend([look] if look else [])
        return bool(looks) and looks[-1].facts.partitions == partitions

    leaders = tmp_path / "leaders.json"
    with TopicWatch(properties, "grows", 0.2, leaders) as watch:
        assert not wait_until(lambda: seen(2), 1)
        watch.has_read({0: 0, 1: 0})
        assert wait_until(lambda: seen(2), WAIT_S)
        assert (looks[0].before.batches, looks[0].after.ends) == (1, {0: 0, 1: 0})
        # A look may be taken before its marks are kept.
        assert wait_until(leaders.exists, WAIT_S)
        assert read_marks(leaders) == Marks(looks[0].facts.id, {0: Mark(0, 0), 1: Mark(0, 0)})
        client.create_partitions([NewPartitions("grows", 3)])["grows"].result()
        assert wait_until(lambda: seen(3), WAIT_S)
        watch.begin(looks[-1].facts)
        looks.clear()
        assert not wait_until(lambda: seen(3), 1)
