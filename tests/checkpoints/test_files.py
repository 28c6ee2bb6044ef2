"""The storage folder on a path: its mode, and that one process has it."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.checkpoints.errors import FolderError, FolderInUseError, NoRoomError
from rebalance_monitor.checkpoints.files import locked, usable
from rebalance_monitor.cli.exit_codes import ExitCode, exit_code_of

if TYPE_CHECKING:
    from pathlib import Path


def test_a_folder_that_is_made_is_nobody_elses_business(tmp_path: Path) -> None:
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
        pytest.raises(NoRoomError, match=r"is full.*\n.*it goes on from its last batch") as told,
        usable(tmp_path),
    ):
        raise OSError(number, os.strerror(number), "state")
    assert exit_code_of(told.value) is ExitCode.UNREACHABLE


def test_a_folder_that_may_not_be_written_is(tmp_path: Path) -> None:
    with pytest.raises(FolderError) as told, usable(tmp_path):
        raise PermissionError(errno.EACCES, "Permission denied", "state")
    assert exit_code_of(told.value) is ExitCode.USAGE
