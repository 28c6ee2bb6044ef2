"""A leader without the newest records takes over the offsets topic under a running job (unclean election).

Two of three brokers hold the topic. One misses what the job has read meanwhile, and leads alone once the
other is killed: then the state knows of generations that the topic never had, and the job must not go on.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until
from rebalance_monitor.lab.cluster.quiet import quiet
from tests.chaos.support.rig import OFFSETS, PATIENCE_S, Rig, of_faults

pytestmark = of_faults(900 + 5 * PATIENCE_S)
SETTINGS = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}


def leader(bootstrap: str) -> int:
    """The broker that leads the topic's only partition, -1 while none does."""
    found = AdminClient(quiet(bootstrap)).list_topics(OFFSETS, timeout=20).topics[OFFSETS]
    return int(found.partitions[0].leader) if found.partitions else -1


def made(client: AdminClient, topic: NewTopic) -> bool:
    """Whether the topic is there as it is wanted; a broker deletes the one before it in its own time."""
    with suppress(KafkaException):
        client.create_topics([topic])[OFFSETS].result()
        return True
    return False


def test_a_leader_without_what_was_read_ends_the_job_and_a_rebuild_shows_what_the_topic_holds(
    tmp_path: Path,
) -> None:
    with LabBroker(nodes=3, offsets_partitions=1, settings=SETTINGS) as cluster:
        first, second, _ = cluster.nodes
        own = NewTopic(
            OFFSETS,
            1,
            replica_assignment=[[first.address.node, second.address.node]],
            config={"cleanup.policy": "compact"},
        )
        client = AdminClient(quiet(cluster.bootstrap))
        client.delete_topics([OFFSETS])[OFFSETS].result()
        assert wait_until(lambda: made(client, own), PATIENCE_S, 1)
        rig = Rig(cluster.bootstrap, tmp_path, copies=3)
        rig.pulse("before")
        with rig.job:
            rig.job.wait_ready()
            rig.completed("before")
            second.kill()
            rig.pulse("lost")
            rig.completed("lost")
            first.kill()
            second.start(leashed=True)
            assert wait_until(lambda: leader(cluster.bootstrap) == second.address.node, PATIENCE_S, 1)
            assert wait_until(lambda: not rig.job.alive, PATIENCE_S), rig.health()
            assert rig.job.code == ExitCode.USAGE, rig.job.log
            assert "--rebuild-state" in rig.job.log
        assert "blind opened" in rig.health()
        rig.groups.discard("lost")
        # The topic grows beyond what had been read: its ends tell nothing any more.
        rig.pulse("after", *(f"more-{number}" for number in range(4)))
        with rig.job:
            assert wait_until(lambda: not rig.job.alive, PATIENCE_S), rig.job.log
            assert rig.job.code == ExitCode.USAGE, rig.job.log
            assert "kept to" in rig.job.log
        storage = {"path": str(rig.job.storage), "rebuild": "after the election"}
        rig.job.move_to(Path(rig.job.python), {"storage": storage})
        with rig.job:
            rig.completed("after")
            time.sleep(5)
            rig.job.require()
            ids = [finding.id for finding in rig.told()]
            assert len(set(ids)) == len(ids)
            assert wait_until(lambda: "blind resolved" in rig.health(), PATIENCE_S), rig.health()
