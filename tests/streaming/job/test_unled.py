"""Spark's source reads every partition or none: a job that is started while some have no leader waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.coordinator.findings.causes import Cause
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


def test_a_job_on_spark_waits_for_the_partitions_and_names_them_at_its_start_and_later(
    tmp_path: Path,
) -> None:
    settings = {"engine": "spark", "web": {"enabled": False}, "source": {"refresh": "2s"}}
    with halves() as half:
        rig, group = Rig(half.cluster.bootstrap, tmp_path, settings, copies=3), half.group("away", there=True)
        half.kill()
        with rig.job as job:
            assert wait_until(lambda: "waiting" in job.log or not job.alive, PATIENCE_S)
            assert f"6 partitions of {OFFSETS} ({ranges(half.partitions)})" in job.log
            assert "`engine: embedded` with a `storage.path` of its own" in job.log
            half.start()
            job.wait_ready()
            half.kill()
            opened = rig.await_told(lambda one: one.details.get("cause") == Cause.BLIND)
            assert f"({ranges(half.partitions)})" in opened.causes[0].why
            half.start()
            rig.pulse(group)
            rig.completed(group)
            rig.await_told(lambda one: (one.details.get("cause"), one.phase) == (Cause.BLIND, "resolved"))
