"""A cluster in which one broker alone leads some partitions of the offsets topic, and can be away."""

from __future__ import annotations

from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import KafkaError

from rebalance_monitor.decoders import coordinator_partition
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rebalance_monitor.lab.cluster.node import Node

OFFSETS, PARTITIONS, PATIENCE_S = "__consumer_offsets", 12, 180
NOBODY = -1


class Halves(NamedTuple):
    """One of three brokers and the partitions that it alone has."""

    cluster: LabBroker
    broker: Node
    partitions: list[int]

    def group(self, name: str, *, there: bool) -> str:
        """A name of a group whose partition this broker has, or one of the others."""
        names = (f"{name}-{number}" for number in range(1_000))
        return next(
            name for name in names if there == (coordinator_partition(name, PARTITIONS) in self.partitions)
        )

    def kill(self) -> None:
        self.broker.kill()
        assert wait_until(lambda: led(self.cluster.bootstrap, NOBODY) == self.partitions, PATIENCE_S, 0.5)

    def start(self) -> None:
        self.broker.start()
        assert wait_until(lambda: not led(self.cluster.bootstrap, NOBODY), PATIENCE_S, 0.5)


def led(bootstrap: str, broker: int) -> list[int]:
    """The partitions that a broker leads; -1 for none."""
    topic = AdminClient({"bootstrap.servers": bootstrap}).list_topics(OFFSETS, timeout=30).topics[OFFSETS]
    return sorted(number for number, one in topic.partitions.items() if one.leader == broker)


@contextmanager
def halves() -> Iterator[Halves]:
    """Give one broker every other partition alone, and another one the rest."""
    with LabBroker(nodes=3, offsets_partitions=PARTITIONS) as cluster:
        servers, (alone, rest, _) = cluster.bootstrap, (node.address.node for node in cluster.nodes)
        there = list(range(0, PARTITIONS, 2))
        places = {number: alone if number in there else rest for number in range(PARTITIONS)}
        wanted = {TopicPartition(OFFSETS, number): [at] for number, at in places.items()}

        def is_asked() -> bool:
            # A broker that has just started is not known to every client yet.
            with (
                suppress(KafkaError),
                closing(KafkaAdminClient(bootstrap_servers=servers.split(","))) as admin,
            ):
                return not any(admin.alter_partition_reassignments(wanted).values())
            return False

        assert wait_until(is_asked, PATIENCE_S, 0.5)
        moved = (there, [number for number in places if number not in there])
        assert wait_until(lambda: (led(servers, alone), led(servers, rest)) == moved, PATIENCE_S, 0.5)
        yield Halves(cluster, cluster.nodes[0], there)
