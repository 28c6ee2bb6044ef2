"""The storage folder on a path: its mode, and that one process has it."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.checkpoints.errors import FolderError, FolderGoneError, FolderInUseError, NoRoomError
from rebalance_monitor.checkpoints.ledger import Ledger, Snapshot
from rebalance_monitor.checkpoints.storage.files import locked, replace_file, usable
from rebalance_monitor.checkpoints.storage.lines import LineFile
from rebalance_monitor.checkpoints.storage.owned import make_folder
from rebalance_monitor.cli.exit_codes import ExitCode, exit_code_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_a_new_folder_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    with locked(tmp_path / "below" / "monitor"):
        assert (tmp_path / "below" / "monitor").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    """It may be a volume whose root is another user's."""
    (folder := tmp_path / "volume").mkdir(mode=0o770)
    mode = folder.stat().st_mode
    with locked(folder):
        assert folder.stat().st_mode == mode


def test_a_second_owner_is_refused(tmp_path: Path) -> None:
    with locked(tmp_path / "monitor"), pytest.raises(FolderInUseError), locked(tmp_path / "monitor"):
        pass


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_no_fault_of_the_configuration(number: int, tmp_path: Path) -> None:
    with (
        pytest.raises(NoRoomError, match=r"is full.*\n.*the job continues with its last batch") as told,
        usable(tmp_path),
    ):
        raise OSError(number, os.strerror(number), "state")
    assert exit_code_of(told.value) is ExitCode.UNREACHABLE


def test_a_folder_that_may_not_be_written_is(tmp_path: Path) -> None:
    with pytest.raises(FolderError) as told, usable(tmp_path):
        raise PermissionError(errno.EACCES, "Permission denied", "state")
    assert exit_code_of(told.value) is ExitCode.USAGE


def moved(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def replaced(folder: Path) -> None:
    moved(folder)
    folder.mkdir()
    (folder / "lock").touch()


def emptied(folder: Path) -> None:
    (folder / "lock").unlink()


def no_folder_any_more(folder: Path) -> None:
    moved(folder)
    folder.write_text("")


@pytest.mark.parametrize("lose", [moved, replaced, emptied, no_folder_any_more])
def test_where_the_folder_is_another_one_nothing_is_written_and_no_folder_made(
    lose: Callable[[Path], None], tmp_path: Path
) -> None:
    root = tmp_path / "monitor"
    lines = LineFile(root / "findings.jsonl")
    writes = [
        lambda: replace_file(root / "ledger" / "snapshot.json", b"new"),
        lambda: make_folder(root / "tables" / "date=2026-11-25"),
        lambda: lines.append(b"new", 3),
        lambda: Ledger(root / "ledger").commit(Snapshot()),
    ]
    with locked(root):
        for write in (writes[3], writes[0], writes[1], lambda: lines.append(b"old", 0)):
            write()
        lose(root)
        before = sorted(tmp_path.rglob("*"))
        for write in writes:
            with pytest.raises(FolderGoneError, match="moved, unmounted or replaced") as gone:
                write()
            assert exit_code_of(gone.value) is ExitCode.USAGE
        assert sorted(tmp_path.rglob("*")) == before
    make_folder(tmp_path / "beside")


def test_a_part_of_the_folder_that_is_locked_besides_is_given_up_alone(tmp_path: Path) -> None:
    root = tmp_path / "monitor"
    with locked(root):
        with locked(root / "tables"):
            replace_file(root / "tables" / "a", b"a")
        (root / "tables" / "lock").unlink()
        replace_file(root / "tables" / "a", b"b")
        moved(root)
        with pytest.raises(FolderGoneError):
            replace_file(root / "tables" / "a", b"c")


def test_two_processes_write_drafts_of_their_own_and_a_killed_ones_are_gone_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, spark = tmp_path / "monitor", tmp_path / "monitor" / "state" / "1"
    spark.mkdir(parents=True)
    drafts: list[str] = []

    def killed(draft: Path, _: Path) -> None:
        drafts.append(draft.name)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.replace", killed)
        for token in ("one", "two"):
            patch.setattr("rebalance_monitor.checkpoints.storage.files._TOKEN", token)
            with pytest.raises(KeyboardInterrupt):
                replace_file(root / "manifest.json", b"new")
    assert len(set(drafts)) == 2
    (spark / ".1.draft").touch()
    with locked(root):
        assert not list(root.glob(".*.draft"))
        assert (spark / ".1.draft").exists()
