"""deploy/yarn on a real YARN and HDFS: executor, master and application are killed; it goes on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

pytest.importorskip("pyspark")

from rebalance_monitor.checkpoints.state.manifest import read_manifest
from rebalance_monitor.cluster.jars.ivy import spark_jars_folder
from rebalance_monitor.cluster.jars.jars import installed_spark, resolve_spark_kafka
from rebalance_monitor.cluster.jars.java import find_java
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.rig import Rig
from tests.deploy.minicluster import MiniCluster, processes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rebalance_monitor.lab.cluster.broker import LabBroker

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.spark,
    pytest.mark.broker,
    pytest.mark.timeout(3_600),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = max(420.0, float(os.environ.get("CHAOS_PATIENCE_S", "0")))


@pytest.fixture
def hadoop(tmp_path: Path) -> Iterator[MiniCluster]:
    with MiniCluster(tmp_path / "hadoop") as found:
        yield found


class Submitted:
    """The job on YARN, by the script that users run; without an archive the nodes have this environment."""

    def __init__(
        self, hadoop: MiniCluster, bootstrap: str, folder: Path, archive: Path | None = None
    ) -> None:
        self._hadoop, self._conf, self._folder, self.application = hadoop, hadoop.conf, folder, ""
        self.log = folder / "submit.log"
        home = spark_jars_folder().parent
        self._environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "HADOOP_CONF_DIR": str(hadoop.conf),
            "YARN_CONF_DIR": str(hadoop.conf),
            "HADOOP_USER_NAME": "monitor",
            "JAVA_HOME": str(find_java().home),
            **({"ARCHIVE": str(archive)} if archive else {"PYTHON_ON_NODES": sys.executable}),
            "PACKAGES": "",
            "DRIVER_MEMORY": "1g",
            "EXECUTOR_MEMORY": "1g",
            "EXECUTORS": "1",
        }
        jars = ",".join(f"local:{jar}" for jar in resolve_spark_kafka(*installed_spark()))
        self._options = [
            *("--jars", jars),
            *("--conf", f"spark.yarn.jars=local:{home}/jars/*"),
            *("--conf", "spark.yarn.am.waitTime=300s"),
        ]
        if archive is None:
            self._options += ["--conf", f"spark.yarn.appMasterEnv.PYTHONPATH={home.parent}"]
        settings = {
            "kafka": {"bootstrap_servers": bootstrap},
            "storage": {"path": str(folder / "data"), "checkpoint": f"{hadoop.file_system}/monitor"},
            "spark": {"spark.sql.shuffle.partitions": "1"},
            "web": {"enabled": False},
        }
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "monitor.yaml").write_text(yaml.safe_dump(settings))

    def submit(self) -> None:
        with self.log.open("wb") as log:
            command = [ROOT / "deploy" / "yarn" / "submit.sh", self._folder / "monitor.yaml", *self._options]
            done = subprocess.run(command, env=self._environment, stdout=log, stderr=log, check=False)
        text = self.log.read_text(errors="replace")
        assert done.returncode == 0, text[-3_000:]
        self.application = re.findall(r"application_\d+_\d+", text)[-1]

    def kill(self) -> None:
        """What `yarn application -kill` does."""
        home = self._environment["SPARK_HOME"]
        verb = ["org.apache.hadoop.yarn.client.cli.ApplicationCLI", "application", "-kill", self.application]
        command = [find_java().executable, "-cp", f"{self._conf}:{home}/jars/*", *verb]
        subprocess.run(command, env=self._environment, check=True, capture_output=True)

    def masters(self) -> list[int]:
        """The application's masters that run."""
        return self._java_processes("yarn.ApplicationMaster")

    def executors(self) -> list[int]:
        """Its executors that run."""
        return self._java_processes("YarnCoarseGrainedExecutorBackend")

    def _java_processes(self, name: str) -> list[int]:
        """JVMs of its cluster that run this class, without the shells that start them."""
        found = [(pid, text.split()) for pid, text in processes() if name in text and self._hadoop.runs(pid)]
        return [pid for pid, words in found if words[0].endswith("/bin/java")]


def test_a_job_on_yarn_survives_its_executor_its_master_and_its_end(
    hadoop: MiniCluster, lab_broker: LabBroker, tmp_path: Path
) -> None:
    rig = Rig(lab_broker.bootstrap, tmp_path / "rig")
    job = Submitted(hadoop, lab_broker.bootstrap, tmp_path / "job")
    rig.job.storage = tmp_path / "job" / "data"
    rig.pulse("yarn-a")
    job.submit()
    rig.await_told(lambda f: f.group == "yarn-a", PATIENCE_S)
    (executor,) = job.executors()
    os.kill(executor, signal.SIGKILL)
    rig.pulse("yarn-x")
    rig.await_told(lambda f: f.group == "yarn-x", PATIENCE_S)
    assert executor not in job.executors()
    (master,) = job.masters()
    os.kill(master, signal.SIGKILL)
    rig.pulse("yarn-b")
    rig.await_told(lambda f: f.group == "yarn-b", PATIENCE_S)
    assert master not in job.masters()
    job.kill()
    assert wait_until(lambda: not job.masters(), 60)
    rig.pulse("yarn-c")
    time.sleep(2)
    job.submit()
    rig.await_told(lambda f: f.group == "yarn-c", PATIENCE_S)
    rig.require_truth()
    # Neither gave up the state for another one.
    manifest = read_manifest(rig.job.storage / "manifest.json")
    assert manifest is not None
    assert manifest.generation == 1
    assert not [f for f in rig.told() if f.details.get("cause") == "state_rebuilt"]
    job.kill()
    assert wait_until(lambda: not job.masters(), 60)


def test_a_job_on_yarn_runs_by_the_packed_environment_alone(
    hadoop: MiniCluster, lab_broker: LabBroker, tmp_path: Path
) -> None:
    archive = tmp_path / "environment.tar.gz"
    packing = subprocess.run(
        [ROOT / "deploy" / "yarn" / "pack.sh", archive],
        env=os.environ | {"PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert packing.returncode == 0, packing.stderr[-3_000:]
    rig = Rig(lab_broker.bootstrap, tmp_path / "rig")
    job = Submitted(hadoop, lab_broker.bootstrap, tmp_path / "job", archive)
    rig.job.storage = tmp_path / "job" / "data"
    rig.pulse("packed-a")
    job.submit()
    rig.await_told(lambda f: f.group == "packed-a", PATIENCE_S)
    # The driver, and the executor's daemon with its workers.
    pythons = [text.split() for pid, text in processes() if "python" in text and hadoop.runs(pid)]
    interpreters = {words[0] for words in pythons if words[0].endswith("/python")}
    assert interpreters == {"environment/bin/python"}
    assert any(word.endswith("run.py") for words in pythons for word in words)
    assert any(word.endswith(".daemon") for words in pythons for word in words)
    rig.require_truth()
    job.kill()
    assert wait_until(lambda: not job.masters(), 60)
