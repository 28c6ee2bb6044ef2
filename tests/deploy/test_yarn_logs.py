"""What deploy/yarn starts, with YARN's environment: a job of months fills neither stdout nor stderr."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

pytest.importorskip("pyspark")

from rebalance_monitor.cluster.jars.gateway import java_gateway
from tests.chaos.support.rig import PATIENCE_S, Rig

if TYPE_CHECKING:
    from rebalance_monitor.lab.cluster.broker import LabBroker

RUN = Path(__file__).resolve().parents[2] / "deploy" / "yarn" / "run.py"
LOG = "monitor-python.log"
ROLLS, LINE = 50 * 1024 * 1024, 2 * 1024 * 1024


class Container:
    """A folder with what YARN gives a container: a configuration, two disks for logs, stdout and stderr."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.folder, self.data = folder, folder / "data"
        self.stdout, self.stderr = folder / "stdout", folder / "stderr"
        self.disks = [folder / "disk-1", folder / "disk-2"]
        for disk in self.disks:
            disk.mkdir(parents=True)
        settings = {
            "kafka": {"bootstrap_servers": bootstrap},
            "storage": {"path": str(self.data)},
            "web": {"enabled": False},
        }
        (folder / "monitor.yaml").write_text(yaml.safe_dump(settings))

    def start(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "LOG_DIRS": ",".join(map(str, self.disks))}
        with self.stdout.open("wb") as out, self.stderr.open("wb") as err:
            return subprocess.Popen(
                [sys.executable, RUN],
                cwd=self.folder,
                env=environment,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )


def test_a_job_that_cannot_begin_says_why_on_stderr_alone(tmp_path: Path) -> None:
    container = Container(tmp_path, "127.0.0.1:1")
    with container.start() as process:
        assert process.wait(PATIENCE_S) == 3
    assert "Nothing listens at 127.0.0.1:1" in container.stderr.read_text()
    assert container.stdout.read_bytes() == b""
    assert [[path.name for path in disk.iterdir()] for disk in container.disks] == [[LOG], []]


@pytest.mark.spark
def test_the_log_of_a_jvm_rolls_at_fifty_megabytes_and_five_are_kept(tmp_path: Path) -> None:
    options = [f"-Dlog4j2.configurationFile={RUN.with_name('log4j2.properties').as_uri()}"]
    options += [f"-Dspark.yarn.app.container.log.dir={tmp_path}"]
    with java_gateway((), options) as jvm:
        words = jvm.java.lang.StringBuilder("x" * LINE)
        javas = jvm.org.apache.logging.log4j.LogManager.getLogger("test")
        for _ in range(8 * ROLLS // LINE):
            javas.error(words)
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes.keys() == {"monitor.log", *(f"monitor-{number}.log" for number in range(1, 6))}
    assert all(ROLLS <= size < ROLLS + 2 * LINE for name, size in sizes.items() if name != "monitor.log")


@pytest.mark.spark
@pytest.mark.broker
@pytest.mark.timeout(max(1_200, 4 * PATIENCE_S))
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_the_log_lies_in_yarns_folder_and_findings_go_to_the_tables_alone(
    lab_broker: LabBroker, tmp_path: Path
) -> None:
    rig = Rig(lab_broker.bootstrap, tmp_path / "rig")
    container = Container(tmp_path / "container", lab_broker.bootstrap)
    rig.job.storage = container.data
    with container.start() as process:
        try:
            rig.pulse("yarn-logs")
            rig.await_told(lambda f: f.group == "yarn-logs", PATIENCE_S)
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0, container.stderr.read_text()[-3_000:]
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert container.stdout.read_bytes() == b""
    lines = [json.loads(line) for line in (container.disks[0] / LOG).read_text().splitlines()]
    assert any(line["event"] == "batch" and line["findings"] for line in lines)
    assert '"event": "batch"' not in container.stderr.read_text()
    assert list(container.disks[1].iterdir()) == []
