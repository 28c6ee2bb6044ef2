"""The storage folder is taken away under the running job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.rig import PATIENCE_S, Rig, of_faults

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance_monitor.lab.cluster.broker import LabBroker

pytestmark = of_faults(600)


def test_a_storage_that_is_moved_ends_the_job_with_a_sentence_and_comes_back_whole(
    lab_broker: LabBroker, tmp_path: Path
) -> None:
    rig = Rig(lab_broker.bootstrap, tmp_path)
    rig.pulse("before")
    with rig.job:
        rig.job.wait_ready()
        rig.completed("before")
        rig.job.storage.rename(tmp_path / "moved")
        assert wait_until(lambda: rig.job.code is not None, PATIENCE_S), rig.job.log[-4_000:]
    assert rig.job.code == ExitCode.USAGE, rig.job.log[-4_000:]
    assert "was moved, unmounted or replaced while the job ran" in rig.job.log
    # Spark makes the folders of its own checkpoint, which nobody can keep it from.
    made = {path.relative_to(rig.job.storage).parts[0] for path in rig.job.storage.rglob("*")}
    assert made <= {"state"}
    if rig.job.storage.exists():
        rig.job.storage.rename(tmp_path / "made-by-spark")
    (tmp_path / "moved").rename(rig.job.storage)
    with rig.job:
        rig.pulse("after")
        rig.completed("after")
        rig.require_truth()
        rig.job.require()
