"""A disk without room: the job names it and what to do, goes on by itself for a while, then ends.

The disk holds all that the job keeps (checkpoint, ledger, findings, tables), or one of these alone.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from rebalance_monitor.dashboard.tables.files import files
from rebalance_monitor.engine.driver.failures import FAILURES
from rebalance_monitor.engine.storage import Storage
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.rig import PATIENCE_S, Rig, needs_spark, of_faults

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = of_faults(1_200 + 6 * PATIENCE_S)
# So many failures in a row, each after a longer pause, are waited for before there is room.
HELD_FAILURES = 3


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 24 MB."""
    (folder := tmp_path / "disk").mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here (needs root)")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


class Held(NamedTuple):
    """A job, and what it is to call the folder on the small disk."""

    rig: Rig
    folder: Path


@pytest.fixture
def held(request: pytest.FixtureRequest, disk: Path, tmp_path: Path) -> Iterator[Held]:
    """A job of which `request.param` lies on the small disk: everything, the checkpoint or the tables."""
    data = disk / "data" if request.param == "everything" else tmp_path / "data"
    storage = {"path": str(data)}
    folder = data
    if request.param == "checkpoint":
        storage["checkpoint"] = disk.as_uri()
        folder = disk
    elif request.param == "tables":
        data.mkdir(mode=0o700)
        folder = data / "tables"
        folder.symlink_to(disk)
    with LabBroker(offsets_partitions=8) as broker:
        rig = Rig(broker.bootstrap, tmp_path / "job", {"storage": storage})
        rig.job.storage = data
        yield Held(rig, folder)


def fill(path: Path) -> None:
    """Write until the disk is full."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 65_536)
        except OSError:
            return


def failures(rig: Rig) -> list[dict[str, object]]:
    """What the job logged of a query that failed, oldest first."""
    lines = (json.loads(line) for line in rig.job.log.splitlines() if line.startswith("{"))
    return [line for line in lines if line.get("event") == "the query failed and is tried again"]


def in_table(rig: Rig) -> set[str | None]:
    """The groups that the findings table tells of."""
    paths = files(Storage(rig.job.storage).findings)
    return {group for path in paths for group in pq.ParquetFile(path).read(["group"])["group"].to_pylist()}


def is_waiting(rig: Rig) -> bool:
    return any(line["failures"] == HELD_FAILURES for line in failures(rig))


@pytest.mark.parametrize(
    "held", ["everything", pytest.param("checkpoint", marks=needs_spark), "tables"], indirect=True
)
def test_a_full_disk_is_named_and_the_job_goes_on_once_there_is_room(held: Held, disk: Path) -> None:
    rig = held.rig
    rig.pulse("disk-a")
    with rig.job:
        rig.completed("disk-a")
        fill(disk / "filler")
        rig.pulse("disk-b")
        assert wait_until(lambda: is_waiting(rig) or not rig.job.alive, PATIENCE_S), rig.job.log[-3_000:]
        rig.job.require()
        assert "disk-b" not in in_table(rig)
        (disk / "filler").unlink()
        rig.completed("disk-b")
        rig.require_truth()
        rig.job.require()
    said = failures(rig)
    assert len(said) >= HELD_FAILURES
    for line in said:
        assert str(line["why"]).startswith(f"The disk of {held.folder}")
        assert " is full: " in str(line["why"])
        assert line["remedy"] == "make room there; nothing is lost"


@pytest.mark.parametrize("held", ["everything"], indirect=True)
def test_a_disk_that_stays_full_ends_the_job_with_what_to_do_and_the_next_start_loses_nothing(
    held: Held, disk: Path
) -> None:
    rig = held.rig
    rig.pulse("full-a")
    with rig.job:
        rig.job.wait_ready()
        rig.completed("full-a")
        fill(disk / "filler")
        rig.pulse("full-b")
        assert wait_until(lambda: not rig.job.alive, 2 * PATIENCE_S), rig.job.log[-3_000:]
        assert rig.job._process.returncode == 3
    last = "\n".join(rig.job.log.splitlines()[-2:])
    assert f"The query failed {FAILURES} times in a row. The disk of {disk / 'data'} is full" in last
    assert "Free space there and start again: the job continues with its last batch." in last
    # As its supervisor starts it, who knows of no disk.
    with rig.job:
        assert wait_until(lambda: not rig.job.alive, 2 * PATIENCE_S), rig.job.log[-3_000:]
        assert rig.job._process.returncode == 3
    (disk / "filler").unlink()
    with rig.job:
        rig.completed("full-b")
        rig.require_truth()
        rig.job.require()
