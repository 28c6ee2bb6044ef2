"""One storage folder goes through every Spark of the matrix, newer and newer, and back: as if nothing were.

The environments are those of tools/matrix.py and are made where they are not there (minutes, some GB). Groups
live all the while, so that what the next Spark tells of them needs the state that the last one wrote; records
come while no job runs; and a job is killed in a batch, which the next Spark has to run again.
"""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from rebalance_monitor.checkpoints.state.spark_log import read_spark_log
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.rig import PATIENCE_S, Rig, needs_spark, of_faults
from tests.streaming.test_end_to_end import Members
from tools.matrix import PAIRS, Pair, environment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [*of_faults(3_600), needs_spark]
PYTHON = "3.11"
SPARKS = [pair for pair in PAIRS if pair.python == PYTHON]
GROUP = "survivor"
# Turns that end with a kill.
KILLED = {1, 2}
STARTS_S = 600.0


@pytest.fixture(scope="module")
def pythons() -> dict[Pair, Path]:
    """The Python of each Spark's environment."""
    found: dict[Pair, Path] = {}
    for pair in SPARKS:
        python = environment(pair)
        if isinstance(python, str):
            pytest.skip(f"{pair.name}: {python}")
        found[pair] = python
    return found


def run(rig: Rig, pair: Pair, python: Path, meanwhile: Callable[[], None], turn: int, *, kill: bool) -> None:
    """Run the job on this Spark until it has published what is there, then end it: asked to, or killed."""
    rig.job.move_to(python, {"packages": list(pair.spark.packages)})
    with rig.job:
        rig.pulse(f"starts-{turn}")
        rig.await_told(lambda f: f.group == f"starts-{turn}" and f.kind == "rebalance", STARTS_S)
        meanwhile()
        if kill:
            rig.pulse(f"killed-{turn}")
            rig.job.kill()
            return
        rig.require_truth()
        rig.job._process.terminate()
        assert wait_until(lambda: not rig.job.alive, PATIENCE_S)
        assert rig.job._process.returncode == 0, rig.job.log


def test_one_checkpoint_goes_through_every_spark(pythons: dict[Pair, Path], tmp_path: Path) -> None:
    with LabBroker(offsets_partitions=8, folder=tmp_path / "broker") as broker, ExitStack() as stack:
        rig = Rig(broker.bootstrap, tmp_path / "job")
        members = Members(broker.bootstrap, GROUP, tmp_path / "workers", stack)
        members.start("stays")
        rig.groups.add(GROUP)
        checkpoint = rig.job.storage / "state" / "1"
        batches: list[int] = []

        def lose_a_member() -> None:
            """A member joins and dies: its session ends under this Spark or under the next one."""
            victim = members.start(f"dies-{len(batches)}")
            time.sleep(8)
            victim.send(signal.SIGKILL)
            time.sleep(2)

        # Up, and back to the one that the checkpoint began with.
        way = [*SPARKS, SPARKS[0]]
        for turn, pair in enumerate(way):
            run(rig, pair, pythons[pair], lose_a_member, turn, kill=turn in KILLED)
            batches.append(read_spark_log(checkpoint).committed)
            rig.pulse(f"between-{turn}")
        run(rig, SPARKS[-1], pythons[SPARKS[-1]], lambda: None, len(way), kill=False)
        assert [child.name for child in (rig.job.storage / "state").iterdir()] == ["1"]
        assert batches == sorted(set(batches))
        lost = [f for f in rig.told() if f.group == GROUP and f.kind == "session_timeout"]
        assert {f.causes[0].client_id for f in lost} >= {f"dies-{turn}" for turn in range(len(way))}
