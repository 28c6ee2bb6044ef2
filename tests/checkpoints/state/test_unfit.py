"""A layout, a release or a damage that a state does not survive: each with a real job and its checkpoint."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from confluent_kafka.admin import NewTopic

from rebalance_monitor.checkpoints.state.manifest import read_manifest, write_manifest
from rebalance_monitor.checkpoints.state.versions import CODEC_VERSION
from rebalance_monitor.decoders import coordinator_partition
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import free_ports
from tests.checkpoints.state.test_mismatch import GROUPS, RUN_S, Site, degraded, no_twice

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.timeout(10 * RUN_S),
]
SHARDS = 3
DAMAGED = coordinator_partition(GROUPS[0], SHARDS)
# Workers whose state of one shard is damaged on its way to the store.
BAD_DAEMON = f"""
from rebalance_monitor.engine.batch import step
whole = step.encode_state
def damaged(state):
    blob = whole(state)
    return blob[:5] + bytes(255 - byte for byte in blob[5:]) if state.shard == {DAMAGED} else blob
step.encode_state = damaged
from pyspark.daemon import manager
manager()
"""


def test_a_state_that_does_not_fit_is_refused_and_a_damaged_shard_is_begun_anew(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    with LabBroker(port=port, folder=tmp_path / "broker", offsets_partitions=SHARDS):
        job = Site(tmp_path / "job", port)
        admin = job.admin()
        admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result()
        job.generations()
        assert {finding.group for finding in job.read()} == set(GROUPS)
        another_layout(job)
        a_newer_release(job)
        a_damaged_shard(job)
        no_twice(job)


def another_layout(job: Site) -> None:
    says = job.refused(spark={"spark.sql.shuffle.partitions": "3"})
    assert "and would have 3 if it began now (spark.sql.shuffle.partitions)" in says
    assert "--rebuild-state" in says
    says = job.refused(buckets=2)
    assert "has 1 bucket per partition, the configuration asks for 2" in says
    assert "--rebuild-state" in says


def a_newer_release(job: Site) -> None:
    path = job.data / "manifest.json"
    before = path.read_text()
    written = read_manifest(path)
    assert written is not None
    newer = replace(written.identity, product_version="9.9.9", codec_version=CODEC_VERSION + 1)
    write_manifest(path, replace(written, identity=newer))
    says = job.refused()
    assert f"a newer version of the product (9.9.9, state format {CODEC_VERSION + 1})" in says
    assert f"knows formats up to {CODEC_VERSION}" in says
    path.write_text(before)


def a_damaged_shard(job: Site) -> None:
    (module := job.folder / "bad_daemon.py").write_text(BAD_DAEMON)
    spark = {"spark.python.daemon.module": "bad_daemon", "spark.executorEnv.PYTHONPATH": str(module.parent)}
    job.generations()
    told = job.read(spark=spark)
    looked = job.run("checkpoint", "verify", "-o", "json")
    assert looked.returncode == 1, looked.stderr
    assert [row["shard"] for row in json.loads(looked.stdout) if row["problem"]] == [DAMAGED]
    job.generations()
    later = job.read()
    assert ("state_rebuilt", "opened") in degraded([*told, *later])
    # Of every group the newest generation is published, as live, and of the others nothing but that.
    assert {f.group for f in later if f.kind == "rebalance" and not f.history} == set(GROUPS)
    assert sum(row["groups"] for row in job.rows("verify")) == len(GROUPS)
