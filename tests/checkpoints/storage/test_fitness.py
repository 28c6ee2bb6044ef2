"""A file system that refuses what a job does is named at the start; as a URI it is written in whole files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rebalance_monitor.checkpoints.storage.places import is_remote, place_at
from rebalance_monitor.engine.storage import storage_at

LOCKS = """
import sys
from rebalance_monitor.checkpoints.errors import FolderError
from rebalance_monitor.checkpoints.storage.files import locked, replace_file
from rebalance_monitor.checkpoints.storage.lines import lines_at
from rebalance_monitor.checkpoints.storage.places import place_at
folder = place_at(sys.argv[1])
try:
    with locked(folder):
        replace_file(folder / "manifest.json", b"{}")
        lines = lines_at(folder / "findings.jsonl")
        print(lines.append(b"two\\n", lines.append(b"one\\n", 0)))
except FolderError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that stands in for the file system: it refuses calls on files below one folder."""
    if shutil.which("cc") is None:
        pytest.skip("cc is not on the PATH")
    library = tmp_path_factory.mktemp("refusing") / "refusing.so"
    source = Path(__file__).with_name("refusing.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def on_it(shim: Path, folder: Path, refuses: str, named: str) -> str:
    """What is said where the file system of `folder` refuses these calls; empty drafts are left behind."""
    refusing = {"LD_PRELOAD": str(shim), "REFUSING": str(folder), "REFUSES": refuses}
    done = subprocess.run(
        [sys.executable, "-c", LOCKS, named],
        env=os.environ | refusing,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("refuses", "what"), [("flock", "a lock (flock)"), ("append", "an append"), ("fsync", "an fsync")]
)
def test_a_path_that_refuses_is_reported_at_the_start_with_the_setting_and_works_as_a_uri(
    shim: Path, tmp_path: Path, refuses: str, what: str
) -> None:
    said = on_it(shim, tmp_path, refuses, str(tmp_path))
    assert f"{tmp_path} is on a file system that refuses {what}: " in said
    assert f"storage.path: {tmp_path.as_uri()}" in said
    assert "\n" not in said.strip()
    assert [file.name for file in tmp_path.iterdir()] == ["lock"]
    assert on_it(shim, tmp_path, "flock append fsync", tmp_path.as_uri()) == "8\n"


def test_a_path_that_refuses_nothing_keeps_nothing_of_the_trial(shim: Path, tmp_path: Path) -> None:
    assert on_it(shim, tmp_path, "", str(tmp_path)) == "8\n"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["findings.jsonl", "lock", "manifest.json"]


@pytest.mark.skipif(sys.platform == "darwin", reason="any disk is mounted below /Volumes there")
def test_mounts_of_databricks_are_written_in_whole_files(monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("/Volumes/main/ops/monitor", "/dbfs/ops/monitor"):
        place = place_at(path)
        assert is_remote(place)
        assert place.as_uri() == f"file://{path}"
    assert not is_remote(place_at("/data/Volumes/x"))
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    assert storage_at("/Volumes/main/ops/monitor").location(3) == "dbfs:/Volumes/main/ops/monitor/state/3"
    assert storage_at("/dbfs/ops/monitor").location(3) == "dbfs:/ops/monitor/state/3"
