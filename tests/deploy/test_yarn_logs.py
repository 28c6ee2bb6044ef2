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

from tests.chaos.rig import PATIENCE_S, Rig

if TYPE_CHECKING:
    from rebalance_monitor.lab.broker import LabBroker

pytestmark = [
    pytest.mark.spark,
    pytest.mark.broker,
    pytest.mark.timeout(1_200),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
RUN = Path(__file__).resolve().parents[2] / "deploy" / "yarn" / "run.py"


def test_the_log_rolls_in_yarns_folder_and_findings_go_to_the_tables_alone(
    lab_broker: LabBroker, tmp_path: Path
) -> None:
    rig = Rig(lab_broker.bootstrap, tmp_path / "rig")
    rig.job.storage = tmp_path / "data"
    disks = [tmp_path / "disk-1", tmp_path / "disk-2"]
    for disk in disks:
        disk.mkdir()
    settings = {
        "kafka": {"bootstrap_servers": lab_broker.bootstrap},
        "storage": {"path": str(rig.job.storage)},
        "web": {"enabled": False},
    }
    (tmp_path / "monitor.yaml").write_text(yaml.safe_dump(settings))
    environment = {**os.environ, "LOG_DIRS": ",".join(map(str, disks))}
    stdout, stderr = tmp_path / "stdout", tmp_path / "stderr"
    with stdout.open("wb") as out, stderr.open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, RUN],
            cwd=tmp_path,
            env=environment,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    try:
        rig.pulse("yarn-logs")
        rig.await_told(lambda f: f.group == "yarn-logs" and not f.history, PATIENCE_S)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0, stderr.read_text()[-3_000:]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert stdout.read_bytes() == b""
    lines = [json.loads(line) for line in (disks[0] / "monitor-python.log").read_text().splitlines()]
    assert any(line["event"] == "batch" and line["findings"] for line in lines)
    assert '"event": "batch"' not in stderr.read_text()
    assert list(disks[1].iterdir()) == []
