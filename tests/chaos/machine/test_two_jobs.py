"""Two jobs on one storage, a folder or a bucket: one writes at a time, whatever becomes of the other."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.engine.storage import storage_at
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.rig import PATIENCE_S, ChaosJob, Rig, of_faults
from tests.checkpoints.stores import below

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance_monitor.lab.cluster.broker import LabBroker

pytestmark = of_faults(1_200)


class Pair:
    """A rig whose job has the storage, and another job that is given the same."""

    def __init__(self, bootstrap: str, folder: Path, path: str) -> None:
        # Spark's own client of S3 is half a gigabyte of jars.
        checkpoint = (folder / "state").as_uri() if ":" in path else ""
        settings = {"storage": {"path": path, "checkpoint": checkpoint}}
        self.rig = Rig(bootstrap, folder / "first", settings)
        self.first, self.second = self.rig.job, ChaosJob(bootstrap, folder / "second", settings)
        self.first.storage = self.second.storage = storage_at(path, checkpoint).root

    def is_published(self, group: str) -> None:
        """The job that has the storage publishes a generation of `group`."""
        self.rig.pulse(group)
        self.rig.completed(group)

    def refuses(self, job: ChaosJob) -> None:
        """`job` ends with one sentence."""
        assert wait_until(lambda: job.code is not None, PATIENCE_S), job.log[-4_000:]
        assert (job.code, "another monitor" in job.log) == (ExitCode.USAGE, True), job.log[-4_000:]


@pytest.fixture(params=["folder", "bucket"])
def pair(request: pytest.FixtureRequest, lab_broker: LabBroker, tmp_path: Path) -> Pair:
    name = f"pair-{request.param}"
    if request.param == "bucket":
        return Pair(lab_broker.bootstrap, tmp_path, below(request.getfixturevalue("s3"), name))
    return Pair(lab_broker.bootstrap, tmp_path, str(tmp_path / name))


def test_a_second_job_is_refused_while_the_first_goes_on_and_takes_over_once_that_is_killed(
    pair: Pair,
) -> None:
    with pair.first:
        pair.is_published("first")
        with pair.second:
            pair.refuses(pair.second)
        pair.is_published("goes-on")
        pair.first.require()
        pair.first.kill()
        with pair.second:
            pair.is_published("taken-over")
            pair.rig.require_truth()
            pair.second.require()


def test_a_job_that_stood_still_until_another_had_its_bucket_ends_and_changes_nothing_there(
    lab_broker: LabBroker, s3: str, tmp_path: Path
) -> None:
    pair = Pair(lab_broker.bootstrap, tmp_path, below(s3, "stood-still"))
    with pair.first:
        pair.is_published("before")
        os.killpg(pair.first.pid, signal.SIGSTOP)
        with pair.second:
            pair.is_published("meanwhile")
            os.killpg(pair.first.pid, signal.SIGCONT)
            pair.refuses(pair.first)
            pair.is_published("after")
            pair.rig.require_truth()
            pair.second.require()
        # What both have left of Spark's state is whole.
        with pair.second:
            pair.is_published("later")
            pair.rig.require_truth()
