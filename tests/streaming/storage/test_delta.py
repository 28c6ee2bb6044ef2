"""The findings table as Delta, by a real Spark: a batch that runs again appends nothing."""

from __future__ import annotations

import json
import subprocess
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.dashboard.tables.delta_log import read_log
from rebalance_monitor.dashboard.tables.findings_table import read_newest
from rebalance_monitor.streaming.storage.delta import require_reach
from tests.processes import environment, module
from tests.streaming.support import delta_job

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any


@pytest.mark.slow
@pytest.mark.spark
def test_each_finding_stands_once_in_a_delta_table_and_upkeep_loses_none(tmp_path: Path) -> None:
    command = module("streaming.support.delta_job", tmp_path)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=500, check=False, env=environment()
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    told = json.loads(done.stdout.splitlines()[-1])
    expected = {number: [f.id for f in delta_job.batch(number)] for number in range(delta_job.BATCHES + 1)}
    added = ["more", "older-1", "older-2"]
    everything = sorted([*added, *(one for found in expected.values() for one in found)])
    assert told["rows"] == told["merged_rows"] == everything
    assert told["view"] == len(everything)
    assert told["files"] == told["merged"][0] == delta_job.BATCHES + 4
    assert told["merged_files"] == told["merged"][1] == 2
    assert told["days_deleted"] == 1
    kept = sorted(one for number, found in expected.items() if number % 2 for one in found)
    assert told["kept_rows"] == kept
    assert sorted(one.id for one in read_newest(tmp_path / "tables" / "findings", 1_000)) == kept
    assert read_log(tmp_path / "tables" / "findings").transactions[delta_job.QUERY] == delta_job.BATCHES + 1


class Elsewhere:
    """A session whose executors see other disks than the driver: the part of it that is asked."""

    def __init__(self, found: list[object]) -> None:
        self.conf: Any = {"spark.master": "spark://one:7077"}
        self.read, self._found = self, found
        self.asked = ""

    def text(self, place: str) -> Elsewhere:
        self.asked = place
        return self

    def collect(self) -> list[object]:
        return self._found


def test_executors_that_do_not_see_the_drivers_folder_are_refused(tmp_path: Path) -> None:
    session: Any = Elsewhere([])
    with pytest.raises(ConfigError, match="does not reach"):
        require_reach(session, tmp_path)
    assert session.asked == (tmp_path / "reach.txt").as_uri()
    assert list(tmp_path.iterdir()) == []
    session = Elsewhere([SimpleNamespace(value="reached")])
    require_reach(session, tmp_path)
    assert session.asked
