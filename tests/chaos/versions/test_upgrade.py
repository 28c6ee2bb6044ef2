"""A job of the version before, from the repository's own history, hands its storage folder to this one.

Groups live all the while, and one incident is open: what this version finds needs the state that the older
one wrote. It opens nothing again, and resolves what the older one opened.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tarfile
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from rebalance_monitor.checkpoints.state.versions import CODEC_VERSION
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.rig import PATIENCE_S, Rig, needs_spark, of_faults
from tests.streaming.test_end_to_end import Members

pytestmark = [*of_faults(900 + 4 * PATIENCE_S), needs_spark]
ROOT = Path(__file__).parents[3]
# The last whose state is of version 7.
OLDER = "d60f9047a983de62096e120b1f25bd67cdced04a"
GROUP = "survivor"
VERSION = "from rebalance_monitor.checkpoints.state import versions; print(versions.CODEC_VERSION)"


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A Python whose `rebalance_monitor` is that of the older version."""
    archive, tree, packages = tmp_path / "older.tar", tmp_path / "older", tmp_path / "packages"
    done = subprocess.run(
        ["git", "-C", ROOT, "archive", "--output", archive, OLDER],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"no history of the repository here: {done.stderr.strip()}")
    with tarfile.open(archive) as found:
        found.extractall(tree, filter="data")
    package = packages / "rebalance_monitor"
    package.mkdir(parents=True)
    for part in (path for path in tree.iterdir() if (path / "__init__.py").exists()):
        shutil.copytree(part, package / part.name)
    (package / "__init__.py").touch()
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    said = subprocess.run(
        [python, "-c", VERSION],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert int(said.stdout) == CODEC_VERSION - 1
    return python


def test_a_job_goes_on_from_the_storage_of_an_older_version(older: Path, tmp_path: Path) -> None:
    with LabBroker(offsets_partitions=8, folder=tmp_path / "broker") as broker, ExitStack() as stack:
        rig = Rig(broker.bootstrap, tmp_path / "job")
        members = Members(broker.bootstrap, GROUP, tmp_path / "workers", stack)
        members.start("stays")
        dies = members.start("dies")
        rig.groups.add(GROUP)
        rig.job.move_to(older, {})
        with rig.job:
            rig.pulse("older")
            rig.completed("older")
            rig.completed(GROUP)
            time.sleep(5)
            rig.job._process.send_signal(signal.SIGTERM)
            assert wait_until(lambda: not rig.job.alive, PATIENCE_S)
            assert rig.job.code == 0, rig.job.log
        before = [finding.id for finding in rig.told()]
        (empty,) = [f for f in rig.told() if (f.group, f.kind, f.phase) == ("older", "group_empty", "opened")]
        dies.send(signal.SIGKILL)
        rig.job.move_to(Path(sys.executable), {})
        with rig.job:
            rig.await_told(lambda f: f.group == GROUP and f.kind == "session_timeout")
            rig.pulse("newer", "older")
            rig.completed("newer")
            over = rig.await_told(lambda f: f.incident == empty.incident and f.phase == "resolved")
            assert (over.group, over.resolution) == ("older", "completed")
            rig.require_truth()
            rig.job.require()
        assert [child.name for child in (rig.job.storage / "state").iterdir()] == ["1"]
        assert [finding.id for finding in rig.told()][: len(before)] == before
        phases = [f.phase for f in rig.told() if f.incident == empty.incident]
        assert (phases[0], phases[-1]) == ("opened", "resolved")
        assert set(phases[1:-1]) <= {"updated"}
        lost = next(f for f in rig.told() if f.group == GROUP and f.kind == "session_timeout")
        assert lost.causes[0].client_id == "dies"
