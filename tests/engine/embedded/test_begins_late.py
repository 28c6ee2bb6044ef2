"""A state that begins late in the topic begins there again, if the job is killed before its first state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.checkpoints.state.changelog import recover
from rebalance_monitor.engine.storage import Storage
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.rig import PATIENCE_S, Rig

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance_monitor.lab.cluster.broker import LabBroker

pytestmark = [
    pytest.mark.broker,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    # A process that is killed closes nothing.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]


def test_what_came_before_it_stays_unread(lab_broker: LabBroker, tmp_path: Path) -> None:
    settings = {"engine": "embedded", "web": {"enabled": False}, "source": {"starting": "latest"}}
    rig = Rig(lab_broker.bootstrap, tmp_path / "job", settings)
    rig.pulse("came-before")
    with rig.job as job:
        job.wait_ready()
        assert wait_until(lambda: has_begun(job.storage), PATIENCE_S)
        job.kill()
    rig.pulse("came-meanwhile")
    with rig.job as job:
        job.wait_ready()
        rig.completed("came-meanwhile")
        assert "batches run again" in job.log
    assert "came-before" not in {finding.group for finding in rig.told()}


def has_begun(folder: Path) -> bool:
    """Whether the job's changelog knows batches, and no state after them."""
    (file,) = Storage(folder).states.glob("*/changelog-*")
    found = recover(file.read_bytes())
    return found.batch < 0 and len(found.begun) > 1
