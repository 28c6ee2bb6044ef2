"""What becomes of a job whose topic, cluster or state is not what it was: each with the real thing.

One broker, one storage folder, and run after run; the steps of a test build on each other.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

pytest.importorskip("pyspark")

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from rebalance_monitor.cluster.clients.admin import ClusterAdmin
from rebalance_monitor.coordinator.findings.finding import Finding, from_json
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import free_ports, wait_until
from tests.chaos.support.rig import PATIENCE_S, join

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# How long one start of the job may take.
RUN_S = max(300.0, PATIENCE_S)
pytestmark = [
    pytest.mark.chaos,
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.timeout(10 * RUN_S),
]
MAIN = "from rebalance_monitor.cli.main import main; main()"
TOPIC = "__consumer_offsets"
GROUPS = [f"group-{number}" for number in range(6)]
# Workers that write state as a release did whose state is no longer read.
OLD_DAEMON = """
from rebalance_monitor.checkpoints.state import codec
codec.CODEC_VERSION = codec.OLDEST_READ = 2
from pyspark.daemon import manager
manager()
"""


class Site:
    """A broker's address and a job's folder."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.bootstrap = folder, f"127.0.0.1:{port}"
        self.data = folder / "data"

    def run(self, *words: str, **settings: object) -> subprocess.CompletedProcess[str]:
        self.folder.mkdir(parents=True, exist_ok=True)
        tree = {
            "kafka": {"bootstrap_servers": self.bootstrap},
            "storage": {"path": str(self.data)},
            "probe": {"enabled": False},
            # Another monitor on this machine may have the page's usual port.
            "web": {"port": 0},
            **settings,
        }
        (config := self.folder / "monitor.yaml").write_text(yaml.safe_dump(tree))
        command = [sys.executable, "-c", MAIN, *words, "--config", str(config)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=RUN_S)

    def read(self, *words: str, **settings: object) -> list[Finding]:
        """Let the job read what there is; return what it has published since the last call."""
        before = len(self.told())
        done = self.run("run", "--available-now", *words, **settings)
        assert done.returncode == 0, done.stderr
        return self.told()[before:]

    def refused(self, **settings: object) -> str:
        done = self.run("run", "--available-now", **settings)
        assert done.returncode == 2, done.stderr
        return done.stderr

    def told(self) -> list[Finding]:
        """What the job has published, without what depends on how fast this machine is."""
        path = self.data / "findings.jsonl"
        found = map(from_json, path.read_text().splitlines()) if path.exists() else []
        return [finding for finding in found if finding.details.get("cause") != "behind"]

    def rows(self, *words: str) -> list[dict[str, Any]]:
        done = self.run("checkpoint", *words, "-o", "json")
        assert done.returncode == 0, done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def generations(self) -> None:
        """Give every group one more generation."""
        for group in GROUPS:
            consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
            consumer.subscribe(["orders"])
            join(consumer)
            consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
            consumer.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Site, LabBroker]]:
    soon = {"log.retention.check.interval.ms": "500", "log.initial.task.delay.ms": "500"}
    broker = LabBroker(port=free_ports(1)[0], folder=tmp_path / "broker", offsets_partitions=3, settings=soon)
    with broker:
        found = Site(tmp_path / "job", int(broker.bootstrap.rpartition(":")[2]))
        admin = found.admin()
        admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result()
        found.generations()
        yield found, broker


def degraded(found: list[Finding]) -> list[tuple[str, str | None]]:
    return [(str(f.details["cause"]), f.phase) for f in found if f.kind == "monitor_degraded"]


def no_twice(site: Site) -> None:
    ids = [finding.id for finding in site.told()]
    assert len(set(ids)) == len(ids)


def test_what_was_added_lost_or_removed_is_reported_and_nothing_is_published_twice(
    site: tuple[Site, LabBroker],
) -> None:
    job, _ = site
    first = job.read()
    assert {finding.group for finding in first} == set(GROUPS)
    shows_the_state(job)
    grown_topic(job)
    lost_checkpoint(job)
    removed_records(job)
    no_twice(job)


def test_another_topic_or_cluster_is_refused_and_a_rebuild_publishes_nothing_twice(
    site: tuple[Site, LabBroker],
) -> None:
    job, broker = site
    job.read()
    recreated_topic(job)
    cut_off_topic(job, broker)
    replaced_cluster(job, broker)
    no_twice(job)


def shows_the_state(job: Site) -> None:
    (state,) = job.rows("inspect")
    assert (state["in use"], state["state"]) == ("yes", 1)
    assert state["read up to"] > 0
    assert {row["group"]: row["type"] for row in job.rows("groups")} == dict.fromkeys(GROUPS, "classic")
    assert [row["group"] for row in job.rows("groups", "--group", "*-3")] == ["group-3"]
    assert sum(row["groups"] for row in job.rows("verify")) == len(GROUPS)


def grown_topic(job: Site) -> None:
    admin = job.admin()
    admin.create_partitions([NewPartitions(TOPIC, 4)])[TOPIC].result()
    job.generations()
    assert degraded(job.read()) == []
    assert json.loads((job.data / "manifest.json").read_text())["identity"]["shards"] == 4


def lost_checkpoint(job: Site) -> None:
    before = len(job.told())
    shutil.rmtree(job.data / "state")
    assert degraded(job.read()) == [("state_rebuilt", "opened")]
    assert len(job.told()) == before + 1
    assert len(job.rows("groups")) == len(GROUPS)


def removed_records(job: Site) -> None:
    """Somebody gave the topic a retention: what the job has not read goes."""
    with ClusterAdmin({"bootstrap.servers": job.bootstrap}) as admin:
        read = admin.end_offsets()
        job.generations()
        configure(job, **{"cleanup.policy": "delete", "retention.ms": "1000", "segment.ms": "1000"})

        def are_removed() -> bool:
            job.generations()
            return any(begin > read[p] for p, begin in admin.begin_offsets().items())

        assert wait_until(are_removed, PATIENCE_S, 2)
    configure(job, **{"cleanup.policy": "compact", "retention.ms": "-1", "segment.ms": "604800000"})
    job.generations()
    found = job.read()
    (lost,) = [f for f in found if f.details.get("cause") == "data_lost"]
    assert lost.phase == "opened"
    assert int(lost.details["records"]) > 0
    assert "removed before they were read" in lost.causes[0].why


def configure(job: Site, **values: str) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in values.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC, incremental_configs=entries)
    admin = job.admin()
    admin.incremental_alter_configs([resource])[resource].result()


def test_state_of_a_release_that_is_read_no_longer_is_refused_by_name(site: tuple[Site, LabBroker]) -> None:
    job, _ = site
    job.folder.mkdir()
    (module := job.folder / "old_daemon.py").write_text(OLD_DAEMON)
    spark = {"spark.python.daemon.module": "old_daemon", "spark.executorEnv.PYTHONPATH": str(module.parent)}
    assert {finding.group for finding in job.read(spark=spark)} == set(GROUPS)
    says = job.refused()
    assert "state of version" in says
    assert "--rebuild-state" in says
    assert ("state_rebuilt", "opened") in degraded(job.read("--rebuild-state"))
    no_twice(job)
    assert {row["in use"] for row in job.rows("inspect")} == {"yes", "no"}
    assert job.run("checkpoint", "prune", "--yes").returncode == 0
    assert [row["in use"] for row in job.rows("inspect")] == ["yes"]


def recreated_topic(job: Site) -> None:
    admin = job.admin()
    admin.delete_topics([TOPIC])[TOPIC].result()
    assert wait_until(lambda: TOPIC not in admin.list_topics(timeout=20).topics, PATIENCE_S)
    job.generations()
    says = job.refused()
    assert "was recreated" in says
    assert "--rebuild-state" in says
    found = job.read("--rebuild-state")
    assert {f.group for f in found if f.kind == "rebalance"} == set(GROUPS)


def cut_off_topic(job: Site, broker: LabBroker) -> None:
    """A leader without the log's end: what a copy that lags behind leaves when it is elected."""
    for node in broker.nodes:
        node.stop()
        for log in node.data.glob(f"{TOPIC}-*/*"):
            log.unlink()
        node.start()
    broker.wait_ready()
    assert "lost records at the end of" in job.refused()
    job.generations()
    job.read("--rebuild-state")


def replaced_cluster(job: Site, broker: LabBroker) -> None:
    port = int(broker.bootstrap.rpartition(":")[2])
    broker.stop()
    with LabBroker(port=port, folder=job.folder / "other", offsets_partitions=4):
        admin = job.admin()
        admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result()
        job.generations()
        assert "The state is of Kafka cluster" in job.refused()
        found = job.read("--rebuild-state")
        assert {f.group for f in found if f.kind == "rebalance"} == set(GROUPS)
        memory = json.loads((job.data / "ledger" / "snapshot.json").read_text())
        assert "storms" not in memory["live"] or memory["live"]["storms"] == []
