"""A file that is replaced is the old one or the new one, whatever crashes, fails or is read meanwhile."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.checkpoints.errors import StoreError
from rebalance_monitor.checkpoints.storage.files import replace_file
from rebalance_monitor.checkpoints.storage.places import place_at
from rebalance_monitor.checkpoints.storage.remote import PAUSES_S
from tests.checkpoints.stores import Faulty, below, faulty_place

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow.fs as pafs


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("step", range(12))
def test_a_crash_at_any_step_leaves_the_old_file_or_the_new_one(
    tmp_path: Path, *, step: int, copies: bool
) -> None:
    """Twice: the second replacement meets what the first one left."""

    class CrashError(Exception):
        pass

    allowed = {b"old"}
    faulty = partial(faulty_place, tmp_path, copies=copies)
    replace_file(faulty() / "file", b"old")
    for content in (b"new", b"newer"):
        left = step

        def before(_operation: str, _path: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise CrashError

        allowed.add(content)
        try:
            replace_file(faulty(before) / "file", content)
        except CrashError:
            pass
        else:
            allowed = {content}
        seen = faulty()
        assert (seen / "file").read_bytes() in allowed
        assert (seen / "file").exists()
        assert (seen / "file").stat().st_size in set(map(len, allowed))
        assert [found.name for found in seen.glob("[!.]*")] == ["file"]
        allowed = {(seen / "file").read_bytes()}
    replace_file(faulty() / "file", b"last")
    assert (faulty() / "file").read_bytes() == b"last"
    assert {path.name for path in tmp_path.iterdir()} - {".file.draft"} == {"file"}


def test_what_passes_within_seconds_fails_nothing_and_what_lasts_is_reported(tmp_path: Path) -> None:
    failures = len(PAUSES_S)

    def before(operation: str, _path: str) -> None:
        nonlocal failures
        if operation == "write" and failures:
            failures -= 1
            raise OSError("503 Slow Down")

    place = faulty_place(tmp_path, before)
    replace_file(place / "file", b"one")
    assert failures == 0
    failures = len(PAUSES_S) + 1
    with pytest.raises(OSError, match="Slow Down"):
        replace_file(place / "file", b"two")
    assert (place / "file").read_bytes() == b"one"


class Overtaken:
    """An S3 on which somebody puts a longer file as soon as one is opened."""

    def __init__(self, filesystem: pafs.FileSystem, puts: int) -> None:
        self._filesystem, self.puts = filesystem, puts

    def __getattr__(self, name: str) -> object:
        return getattr(self._filesystem, name)

    def open_input_file(self, key: str) -> object:
        file = self._filesystem.open_input_file(key)
        was = file.size()
        if self.puts:
            self.puts -= 1
            with self._filesystem.open_output_stream(key) as stream:
                stream.write(bytes(was * 2))
        return file


def test_a_file_that_is_replaced_while_it_is_read_is_never_read_in_part(s3: str) -> None:
    place = place_at(below(s3, "overtaken"))
    replace_file(place / "file", b"ten bytes!")
    remote = place.remote
    remote.filesystem, remote.pause = Overtaken(remote.filesystem, 2), lambda _: None
    assert (place / "file").read_bytes() == bytes(40)
    remote.filesystem.puts = 100
    with pytest.raises(StoreError, match="replaced while it was read"):
        (place / "file").read_bytes()


def test_the_faulty_file_system_moves_onto_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    with pytest.raises(OSError, match="exists"):
        Faulty().move(str(tmp_path / "a"), str(tmp_path / "b"))
