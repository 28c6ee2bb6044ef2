"""deploy/yarn on a real YARN and HDFS: executor, master and application are killed; it goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from rebalance_monitor.checkpoints.state.manifest import read_manifest
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.rig import Rig
from tests.deploy.minicluster import MiniCluster, processes
from tests.deploy.submitted import ROOT, Submitted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rebalance_monitor.lab.cluster.broker import LabBroker

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.spark,
    pytest.mark.broker,
    pytest.mark.timeout(3_600),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
PATIENCE_S = max(420.0, float(os.environ.get("CHAOS_PATIENCE_S", "0")))


@pytest.fixture
def hadoop(tmp_path: Path) -> Iterator[MiniCluster]:
    with MiniCluster(tmp_path / "hadoop") as found:
        yield found


def submitted(hadoop: MiniCluster, broker: LabBroker, folder: Path, archive: Path | None = None) -> Submitted:
    settings = {
        "kafka": {"bootstrap_servers": broker.bootstrap},
        "storage": {"path": str(folder / "data"), "checkpoint": f"{hadoop.file_system}/monitor"},
    }
    return Submitted(hadoop, settings, folder, archive=archive)


def test_a_job_on_yarn_survives_its_executor_its_master_and_its_end(
    hadoop: MiniCluster, lab_broker: LabBroker, tmp_path: Path
) -> None:
    rig = Rig(lab_broker.bootstrap, tmp_path / "rig")
    job = submitted(hadoop, lab_broker, tmp_path / "job")
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
    job = submitted(hadoop, lab_broker, tmp_path / "job", archive)
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
