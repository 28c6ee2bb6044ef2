"""A job that spark-submit starts, as on a platform: its folder and Spark's state on S3, by S3A alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

pytest.importorskip("pyspark")

from rebalance_monitor.checkpoints.ledger import Ledger
from rebalance_monitor.checkpoints.state.manifest import read_manifest
from rebalance_monitor.checkpoints.storage.hadoop_jvm import use_jvm
from rebalance_monitor.checkpoints.storage.lines import read_lines
from rebalance_monitor.cluster.jars.ivy import spark_jars_folder
from rebalance_monitor.cluster.jars.jars import installed_spark, resolve_spark_kafka
from rebalance_monitor.coordinator.findings.finding import from_json
from rebalance_monitor.dashboard.tables.findings_table import read_newest
from rebalance_monitor.engine.storage import Storage, storage_at
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.rig import of_faults
from tests.checkpoints.platform_stores import s3a_jars, s3a_settings, s3a_store
from tests.streaming.test_end_to_end import PATIENCE_S, Members

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rebalance_monitor.lab.cluster.broker import LabBroker

pytestmark = of_faults(900)
RUN = Path(__file__).resolve().parents[3] / "deploy" / "yarn" / "run.py"


@contextmanager
def submitted(folder: Path, s3: str) -> Iterator[subprocess.Popen[bytes]]:
    """The job in a driver whose JVM was there first."""
    jars = [*resolve_spark_kafka(*installed_spark()), *s3a_jars()]
    command = [spark_jars_folder().parent / "bin" / "spark-submit", "--master", "local[2]"]
    command += ["--driver-memory", "1g", "--driver-class-path", os.pathsep.join(map(str, jars))]
    for name, value in s3a_settings(s3).items():
        command += ["--conf", f"spark.hadoop.{name}={value}"]
    with (folder / "submit.log").open("ab") as output:
        process = subprocess.Popen(
            [*command, RUN],
            cwd=folder,
            env=os.environ | {"PYSPARK_PYTHON": sys.executable},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def log(folder: Path) -> str:
    return (folder / "submit.log").read_text()[-4_000:]


def batches(storage: Storage) -> int:
    return sum(Ledger(storage.ledger).load().batches.values())


def test_a_job_on_s3a_resumes_after_a_kill(lab_broker: LabBroker, tmp_path: Path, s3: str) -> None:
    settings = {
        "kafka": {"bootstrap_servers": lab_broker.bootstrap},
        "storage": {"path": "s3a://monitors/submitted"},
        "web": {"enabled": False},
    }
    (tmp_path / "monitor.yaml").write_text(yaml.safe_dump(settings))
    with ExitStack() as stack:
        store = stack.enter_context(s3a_store(s3))
        use_jvm(lambda _: store.jvm)
        stack.callback(use_jvm, lambda _: None)
        storage = storage_at("s3a://monitors/submitted", "")

        def has(group: str) -> bool:
            return any(from_json(line).group == group for line in read_lines(storage.jsonl))

        with submitted(tmp_path, s3) as process:
            Members(lab_broker.bootstrap, "on-s3a", tmp_path / "workers", stack).start("stays")
            assert wait_until(lambda: has("on-s3a"), PATIENCE_S), (tmp_path / "submit.log").read_text()[
                -4_000:
            ]
            os.killpg(process.pid, signal.SIGKILL)
        before = batches(storage)
        with submitted(tmp_path, s3):
            Members(lab_broker.bootstrap, "later", tmp_path / "workers", stack).start("comes")
            assert wait_until(lambda: has("later"), PATIENCE_S), (tmp_path / "submit.log").read_text()[
                -4_000:
            ]
            assert batches(storage) > before
        ids = [from_json(line).id for line in read_lines(storage.jsonl)]
        assert len(ids) == len(set(ids))
        assert {finding.id for finding in read_newest(storage.findings, 10_000)} >= set(ids)
        manifest = read_manifest(storage.manifest)
        assert manifest is not None
        assert manifest.generation == 1
        assert list(storage.checkpoint(1).glob("offsets/[0-9]*")), "Spark's state lies elsewhere"
