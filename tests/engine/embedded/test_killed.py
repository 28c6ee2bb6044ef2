"""The embedded job is killed again and again, at any moment: nothing is lost, nothing is published twice."""

from __future__ import annotations

import os
import random
import threading
import time
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.checkpoints.state.changelog import recover
from rebalance_monitor.engine.storage import Storage
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.rig import PATIENCE_S, Rig

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance_monitor.lab.cluster.broker import LabBroker

KILLS = int(os.environ.get("KILLS", "6"))
SEED = int(os.environ.get("KILL_SEED", "20"))
pytestmark = [
    pytest.mark.chaos,
    pytest.mark.broker,
    pytest.mark.timeout(2 * PATIENCE_S + 60 * KILLS),
    # A process that is killed closes nothing.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]


def begun(folder: Path) -> int:
    """How many batches the job's newest changelog knows as begun since its state."""
    files = sorted(Storage(folder).states.glob("*/changelog-*"))
    return len(recover(files[-1].read_bytes()).begun) if files else 0


def test_kills_at_any_moment_lose_nothing_and_publish_nothing_twice(
    lab_broker: LabBroker, tmp_path: Path
) -> None:
    dice = random.Random(SEED)  # noqa: S311 - nothing to guess
    rig = Rig(lab_broker.bootstrap, tmp_path / "job", {"engine": "embedded", "web": {"enabled": False}})
    left_begun = 0
    for life in range(KILLS):
        with rig.job as job:
            # The first kill falls into the very first start.
            if life:
                job.wait_ready()
            pulse = threading.Thread(target=rig.pulse, args=(f"life-{SEED}-{life}",))
            pulse.start()
            time.sleep(dice.uniform(0, 6))
            job.kill()
            pulse.join()
        left_begun += begun(job.storage) > 0
    with rig.job as job:
        job.wait_ready()
        rig.pulse("last")
        rig.completed("last")
        rig.require_truth()
        assert wait_until(lambda: "batches run again" in job.log, PATIENCE_S)
    assert left_begun > 1
