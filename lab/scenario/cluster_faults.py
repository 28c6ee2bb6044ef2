"""Faults of the cluster, not of members: brokers, coordinators, networks, administrators, transactions.

They stand beside the members' own in `lab/scenario/faults.py`, whose table of verbs names both.
"""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource
from kafka import TopicPartition as Place
from kafka.admin import KafkaAdminClient
from kafka.structs import OffsetAndMetadata

from rebalance_monitor.decoders import coordinator_partition
from rebalance_monitor.lab.cluster.node import wait_until
from rebalance_monitor.lab.cluster.quiet import quiet

if TYPE_CHECKING:
    from collections.abc import Callable

    from rebalance_monitor.lab.cluster.node import Node
    from rebalance_monitor.lab.scenario.group_run import GroupRun
    from rebalance_monitor.lab.scenario.model import Step

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_S = 20
REORDERED_S = 15
# Families that share a cluster come to the same step within this time, unless started very far apart.
SAME_STEP_S = 15.0
_ONE_AT_A_TIME = threading.Lock()


def restart_broker(run: GroupRun, step: Step) -> None:
    """Stop a node (by number, or `coordinator`) cleanly and start it again.

    Families share a cluster, and each has this step in its script: the first that comes to it does it.
    """
    with _ONE_AT_A_TIME:
        for node in _nodes(run, step):
            if node.up_s() > SAME_STEP_S:
                node.stop()
                node.start(leashed=True)


def pause_broker(run: GroupRun, step: Step) -> None:
    """Stop nodes in their tracks for `seconds`: when they go on, every session has run out at once."""
    with _ONE_AT_A_TIME:
        nodes = [node for node in _nodes(run, step) if node.up_s() > SAME_STEP_S]
        for node in nodes:
            node.pause()
        try:
            if nodes:
                run.stopping.wait(float(str(step.options["seconds"])))
        finally:
            for node in nodes:
                node.resume()


def kill_broker(run: GroupRun, step: Step) -> None:
    """Kill a node (SIGKILL); `start_broker` brings it back. No second one while one is down."""
    with _ONE_AT_A_TIME:
        if all(node.is_running() for node in run.broker.nodes):
            for node in _nodes(run, step):
                node.kill()


def start_broker(run: GroupRun, step: Step) -> None:
    """Start nodes that do not run: `stopped` means all of these."""
    del step
    with _ONE_AT_A_TIME:
        for node in run.broker.nodes:
            if not node.is_running():
                node.start(leashed=True)


def move_coordinator(run: GroupRun, step: Step) -> None:
    """Make the next replica of the group's shard (of a herd, each of its groups') its leader."""
    del step
    with closing(KafkaAdminClient(bootstrap_servers=run.broker.bootstrap.split(","))) as admin:
        count = len(admin.describe_topics([OFFSETS_TOPIC])[0]["partitions"])
    # One move serves all groups of a shard.
    shards = {coordinator_partition(group, count): group for group in run.groups}
    for group in shards.values():
        move_shard_of(group, run.broker.bootstrap)


def move_shard_of(group: str, bootstrap: str) -> int:
    """Do that for the shard of any group; give the shard."""
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap.split(","))) as admin:
        shard, replicas = _shard(group, admin)
        wanted = replicas[1:] + replicas[:1]
        admin.alter_partition_reassignments({Place(OFFSETS_TOPIC, shard): wanted})
        # An election before that is done would find its leader already preferred.
        wait_until(lambda: _shard(group, admin) == (shard, wanted), REORDERED_S)
        admin.elect_leaders(0, {OFFSETS_TOPIC: [shard]})
    return shard


def _shard(group: str, admin: KafkaAdminClient) -> tuple[int, list[int]]:
    partitions = admin.describe_topics([OFFSETS_TOPIC])[0]["partitions"]
    shard = coordinator_partition(group, len(partitions))
    return shard, next(list(p["replica_nodes"]) for p in partitions if p["partition_index"] == shard)


def coordinator_of(group: str, bootstrap: str) -> int:
    """Give the number of the node that leads the group's shard; -1 while none does."""
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap.split(","))) as admin:
        partitions = admin.describe_topics([OFFSETS_TOPIC])[0]["partitions"]
    shard = coordinator_partition(group, len(partitions))
    return next(int(p["leader_id"]) for p in partitions if p["partition_index"] == shard)


def _nodes(run: GroupRun, step: Step) -> list[Node]:
    wanted = set(step.who)
    if "coordinator" in wanted:
        wanted.add(str(coordinator_of(run.group, run.broker.bootstrap)))
    return [node for node in run.broker.nodes if str(node.address.node) in wanted]


def stall_network(run: GroupRun, step: Step) -> None:
    """Let nothing through between members and brokers; connections stay open."""
    _each(run, step, lambda proxy, client: proxy.stall(client))


def cut_network(run: GroupRun, step: Step) -> None:
    """Drop the members' connections and refuse new ones."""
    _each(run, step, lambda proxy, client: proxy.cut(client))


def mend_network(run: GroupRun, step: Step) -> None:
    """Let members reach the brokers again."""
    _each(run, step, lambda proxy, client: proxy.mend(client))


def _each(run: GroupRun, step: Step, act: Callable[..., None]) -> None:
    for proxy in run.broker.proxies:
        for member in step.who:
            act(proxy, f"{run.group}-{member}")


def transaction(run: GroupRun, step: Step) -> None:
    """Commit an offset for the group in a transaction that will `end: commit`, `abort` or `hang`."""
    name = next(iter(run.scenario.topics))
    properties = {**quiet(run.broker.bootstrap), "transactional.id": f"{run.group}-{step.at}"}
    producer = Producer(properties)
    producer.init_transactions(TRANSACTION_S)
    reader = Consumer({**quiet(run.broker.bootstrap), "group.id": run.group, "enable.auto.commit": False})
    try:
        producer.begin_transaction()
        offsets = [TopicPartition(run.topic(name), 0, int(step.at))]
        producer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), TRANSACTION_S)
    finally:
        reader.close()
    match step.options["end"]:
        case "commit":
            producer.commit_transaction(TRANSACTION_S)
        case "abort":
            producer.abort_transaction(TRANSACTION_S)
        case _:
            # A producer that is gone would abort it.
            run.keep(producer)


def reset_offsets(run: GroupRun, step: Step) -> None:
    """Set the group's offset of each topic's first partition, as `kafka-consumer-groups --reset-offsets`."""
    wanted = {Place(run.topic(name), 0): OffsetAndMetadata(1, "", -1) for name in step.who}
    with closing(KafkaAdminClient(bootstrap_servers=run.broker.bootstrap.split(","))) as admin:
        admin.alter_group_offsets(run.group, wanted)


def delete_topic(run: GroupRun, step: Step) -> None:
    """Delete topics (short names)."""
    for name in step.who:
        run.delete_topic(name)


def limit_record(run: GroupRun, step: Step) -> None:
    """Let the offsets topic take no batch of more bytes than this."""
    wanted = ConfigEntry("max.message.bytes", step.who[0], incremental_operation=AlterConfigOpType.SET)
    topic = ConfigResource(ConfigResource.Type.TOPIC, OFFSETS_TOPIC, incremental_configs=[wanted])
    for future in run.admin.incremental_alter_configs([topic]).values():
        future.result(timeout=20)


CLUSTER_VERBS: dict[str, Callable[[GroupRun, Step], None]] = {
    "restart_broker": restart_broker,
    "pause_broker": pause_broker,
    "kill_broker": kill_broker,
    "start_broker": start_broker,
    "move_coordinator": move_coordinator,
    "stall_network": stall_network,
    "cut_network": cut_network,
    "mend_network": mend_network,
    "transaction": transaction,
    "reset_offsets": reset_offsets,
    "delete_topic": delete_topic,
    "limit_record": limit_record,
}
