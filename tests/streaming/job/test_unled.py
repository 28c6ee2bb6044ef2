"""Spark's source reads every partition or none: a job that is started while some have no leader waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.coordinator.findings.wording import ranges
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.rig import PATIENCE_S, Rig
from tests.engine.support.halves import OFFSETS, halves

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]


def test_a_job_on_spark_names_the_partitions_and_what_reads_the_others_and_starts_by_itself(
    tmp_path: Path,
) -> None:
    with halves() as half:
        rig = Rig(half.cluster.bootstrap, tmp_path, {"engine": "spark", "web": {"enabled": False}}, copies=3)
        half.kill()
        with rig.job as job:
            assert wait_until(lambda: "waiting" in job.log or not job.alive, PATIENCE_S)
            assert f"6 partitions of {OFFSETS} ({ranges(half.partitions)})" in job.log
            assert "`engine: embedded` with a `storage.path` of its own" in job.log
            half.start()
            job.wait_ready()
            group = half.group("away", there=True)
            rig.pulse(group)
            rig.completed(group)
