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

from rebalance_monitor.checkpoints.storage.hadoop_jvm import use_jvm
from rebalance_monitor.cluster.jars.ivy import spark_jars_folder
from rebalance_monitor.cluster.jars.jars import installed_spark, resolve_spark_kafka
from rebalance_monitor.cluster.jars.java import find_java
from rebalance_monitor.engine.storage import storage_at
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.rig import PATIENCE_S, Rig, of_faults
from tests.checkpoints.platform_stores import s3a_jars, s3a_settings, s3a_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rebalance_monitor.lab.cluster.broker import LabBroker

pytestmark = of_faults(900)
RUN = Path(__file__).resolve().parents[3] / "deploy" / "yarn" / "run.py"
PLACE = "s3a://monitors/submitted"


@contextmanager
def submitted(folder: Path, s3: str) -> Iterator[subprocess.Popen[bytes]]:
    """The job in a driver whose JVM was there first."""
    jars = [*resolve_spark_kafka(*installed_spark()), *s3a_jars()]
    command = [spark_jars_folder().parent / "bin" / "spark-submit", "--master", "local[2]"]
    command += ["--driver-memory", "1g", "--driver-class-path", os.pathsep.join(map(str, jars))]
    for name, value in s3a_settings(s3).items():
        command += ["--conf", f"spark.hadoop.{name}={value}"]
    environment = {**find_java().environment(), "PYSPARK_PYTHON": sys.executable, "LOG_DIRS": str(folder)}
    with (folder / "submit.log").open("ab") as output:
        process = subprocess.Popen(
            [*command, RUN],
            cwd=folder,
            env=environment,
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


def test_a_job_on_s3a_resumes_after_a_kill_and_keeps_a_second_one_out(
    lab_broker: LabBroker, tmp_path: Path, s3: str
) -> None:
    settings = {
        "kafka": {"bootstrap_servers": lab_broker.bootstrap},
        "storage": {"path": PLACE},
        "web": {"enabled": False},
    }
    (tmp_path / "monitor.yaml").write_text(yaml.safe_dump(settings))
    rig = Rig(lab_broker.bootstrap, tmp_path / "rig")
    with ExitStack() as stack:
        store = stack.enter_context(s3a_store(s3))
        use_jvm(lambda _: store.jvm)
        stack.callback(use_jvm, lambda _: None)
        storage = storage_at(PLACE, "")
        rig.job.storage = storage.root

        def has(group: str) -> bool:
            return any(finding.group == group for finding in rig.told())

        def log() -> str:
            return (tmp_path / "submit.log").read_text()

        rig.pulse("on-s3a")
        with submitted(tmp_path, s3) as process:
            assert wait_until(lambda: has("on-s3a"), PATIENCE_S), log()
            with submitted(tmp_path, s3) as second:
                assert second.wait(PATIENCE_S) == 2, log()
            assert "another monitor" in log()
            os.killpg(process.pid, signal.SIGKILL)
        with submitted(tmp_path, s3):
            rig.pulse("later")
            assert wait_until(lambda: has("later"), PATIENCE_S), log()
            rig.require_truth()
        assert not [f for f in rig.told() if f.details.get("cause") == "state_rebuilt"]
        assert list(storage.checkpoint(1).glob("offsets/[0-9]*")), "Spark's state lies elsewhere"
