"""Access that is denied, to a store or to parts of a folder, is named in one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.checkpoints.storage.files import FolderError, locked
from tests.checkpoints.stores import faulty_place, s3_place

if TYPE_CHECKING:
    from pathlib import Path


def test_a_store_that_cannot_be_written_is_reported_in_one_sentence(s3: str, tmp_path: Path) -> None:
    place = s3_place(s3.replace("monitors", "nowhere"), "x")
    place.remote.pause = lambda _seconds: None
    with pytest.raises(FolderError, match=r"cannot be written: .*right to read, list, write"), locked(place):
        pass

    def before(operation: str, path: str) -> None:
        if operation == "write":
            raise PermissionError(13, "Permission denied", path)

    with pytest.raises(FolderError, match="Permission denied"), locked(faulty_place(tmp_path, before)):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write a folder that others may not")
def test_a_folder_with_parts_of_another_user_is_reported_in_one_sentence(tmp_path: Path) -> None:
    """As nobody: the folder may be written, its alerts/ may not."""
    (tmp_path / "alerts").mkdir(mode=0o755)
    script = (
        "import os, sys\n"
        "from rebalance_monitor.checkpoints.storage.files import locked, usable\n"
        "from rebalance_monitor.checkpoints.storage.places import place_at\n"
        "from rebalance_monitor.alerts.runtime.inbox import Inbox\n"
        "os.setgroups([]); os.setegid(65534); os.seteuid(65534)\n"
        "root = place_at(sys.argv[1])\n"
        "with locked(root), usable(root):\n"
        "    Inbox(root / 'alerts' / 'inbox').open({})\n"
    )
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        folder.chmod(0o777 if folder == tmp_path else 0o755)
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, check=False)
    said = done.stderr.decode().splitlines()[-1]
    assert "cannot be used" in said
    assert "Permission denied" in said
    assert "storage.path" in said
