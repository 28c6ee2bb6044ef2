"""The storage folder is taken away under the running job: nothing is written to what stands there then."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.rig import PATIENCE_S, Rig, of_faults

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from rebalance_monitor.lab.cluster.broker import LabBroker

pytestmark = of_faults(600)


@contextmanager
def moved(storage: Path) -> Iterator[None]:
    """It has another name until the job has ended; Spark makes folders of its own at the old one."""
    storage.rename(aside := storage.with_name("aside"))
    yield
    if storage.exists():
        shutil.rmtree(storage)
    aside.rename(storage)


@contextmanager
def replaced(storage: Path) -> Iterator[None]:
    """A copy stands in its place, its lock too, until the job has ended."""
    shutil.copytree(storage, copy := storage.with_name("copy"))
    storage.rename(aside := storage.with_name("aside"))
    copy.rename(storage)
    yield
    shutil.rmtree(storage)
    aside.rename(storage)


@contextmanager
def unmounted(storage: Path) -> Iterator[None]:
    """The file system that it lies on is unmounted until the job has ended."""
    subprocess.run(["umount", "-l", storage.parent], check=True)
    yield
    if storage.exists():
        shutil.rmtree(storage)
    mount(storage.parent)


def mount(folder: Path) -> bool:
    """Mount the folder's neighbour there; false where this user may not."""
    (kept := folder.with_name("kept")).mkdir(exist_ok=True)
    command = ["mount", "--bind", kept, folder]
    return not subprocess.run(command, check=False, capture_output=True).returncode


@pytest.fixture
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    (folder := tmp_path / "mount").mkdir()
    if request.param is unmounted and not mount(folder):
        pytest.skip("nothing can be mounted here (needs root)")
    yield folder / "data"
    if request.param is unmounted:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize(
    ("storage", "taken"),
    [(way, way) for way in (moved, replaced, unmounted)],
    ids=["moved", "replaced", "unmounted"],
    indirect=["storage"],
)
def test_a_storage_that_is_taken_away_ends_the_job_with_a_sentence_and_comes_back_whole(
    lab_broker: LabBroker,
    tmp_path: Path,
    storage: Path,
    taken: Callable[[Path], AbstractContextManager[None]],
) -> None:
    rig = Rig(lab_broker.bootstrap, tmp_path / "job", {"storage": {"path": str(storage)}})
    rig.job.storage = storage
    before, after = f"before-{taken.__name__}", f"after-{taken.__name__}"
    rig.pulse(before)
    with rig.job:
        rig.job.wait_ready()
        rig.completed(before)
        with taken(storage):
            there = contents(storage)
            assert wait_until(lambda: rig.job.code is not None, PATIENCE_S), rig.job.log[-4_000:]
            assert rig.job.code == ExitCode.USAGE, rig.job.log[-4_000:]
            assert "was moved, unmounted or replaced while the job ran" in rig.job.log
            # Spark makes and fills the folders of its own checkpoint, which nobody can keep it from.
            assert contents(storage) == there
    with rig.job:
        rig.pulse(after)
        rig.completed(after)
        rig.require_truth()
        rig.job.require()


def contents(storage: Path) -> dict[str, bytes]:
    """Every file of ours in the folder."""
    files = (path for path in storage.rglob("*") if path.is_file())
    return {
        name: path.read_bytes()
        for path in files
        if not (name := str(path.relative_to(storage))).startswith("state/")
    }
