"""The changelog gives back what was committed and begun, wherever the process died."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.checkpoints.state import changelog
from rebalance_monitor.checkpoints.state.changelog import Begun, Changelog, ChangelogError, recover
from rebalance_monitor.checkpoints.state.codec import Stored

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def begun(batch: int) -> Begun:
    return Begun(batch, 1_000 * batch, batch % 2 == 0, {0: batch, 49: 2 * batch})


def state(batch: int) -> dict[int, Stored]:
    return {batch % 3: Stored(1_000 * batch, bytes((batch % 251,)) * (batch % 90))}


def written(folder: Path, batches: int, every: int = 3) -> list[bytes]:
    """What the newest file held after each write."""
    log = Changelog(folder)
    seen = []
    for batch in range(batches):
        log.begin(begun(batch))
        seen.append(content(folder))
        if batch % every == every - 1:
            log.commit(batch, 1_000 * batch, begun(batch).until, state(batch))
    return seen


def content(folder: Path) -> bytes:
    return max(folder.glob("changelog-*")).read_bytes()


def expected(batches: int, every: int = 3) -> dict[int, Stored]:
    found: dict[int, Stored] = {}
    for batch in range(every - 1, batches - 1, every):
        found |= state(batch)
    return found


def test_what_was_begun_last_is_known_and_the_state_is_that_of_the_last_commit(tmp_path: Path) -> None:
    written(tmp_path, 8)
    found = Changelog(tmp_path).recovered
    assert (found.batch, found.now, found.ends) == (5, 5_000, begun(5).until)
    assert found.begun == [begun(6), begun(7)]
    assert found.stored == expected(8)


def test_a_state_that_was_committed_before_an_orderly_end_is_kept(tmp_path: Path) -> None:
    log = Changelog(tmp_path)
    log.begin(begun(0))
    log.commit(0, 0, {0: 5}, state(0))
    log.close()
    found = Changelog(tmp_path).recovered
    assert (found.batch, found.ends, found.begun, found.stored) == (0, {0: 5}, [], state(0))


@pytest.mark.parametrize("least", [0, changelog.LEAST_BYTES])
def test_a_shard_that_was_not_read_keeps_its_state_and_where_that_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least: int
) -> None:
    monkeypatch.setattr(changelog, "LEAST_BYTES", least)
    log, first, second = Changelog(tmp_path), Stored(1, b"first"), Stored(2, b"second")
    log.commit(0, 1_000, {0: 5, 1: 7}, {0: first, 1: first})
    log.close()
    log = Changelog(tmp_path)
    log.begin(Begun(1, 2_000, limited=False, until={0: 6}))
    log.commit(1, 2_000, {0: 6}, {0: second})
    log.begin(Begun(2, 3_000, limited=False, until={0: 7}, still=(0,)))
    found = Changelog(tmp_path).recovered
    assert (found.ends, found.stored, found.still) == ({0: 6, 1: 7}, {0: second, 1: first}, {1})
    assert found.begun == [Begun(2, 3_000, limited=False, until={0: 7}, still=(0,))]


def test_the_query_keeps_its_name(tmp_path: Path) -> None:
    assert Changelog(tmp_path).query == Changelog(tmp_path).query != Changelog(tmp_path / "other").query


@settings(max_examples=60)
@given(cut=st.integers(0), flipped=st.none() | st.integers(0), more=st.binary(max_size=20))
def test_a_file_cut_or_damaged_anywhere_gives_a_state_that_was_there_and_goes_on(
    tmp_path_factory: pytest.TempPathFactory, cut: int, flipped: int | None, more: bytes
) -> None:
    folder = tmp_path_factory.mktemp("log")
    states = [recover(one) for one in written(folder, 9)]
    whole = content(folder)
    head = recover(whole[: cut % (len(whole) + 1)])
    damaged = bytearray(whole)
    if flipped is not None:
        damaged[flipped % len(damaged)] ^= 0x40
    found = recover(bytes(damaged[: cut % (len(whole) + 1)]) + more)
    assert found.length <= head.length
    if found.is_whole:
        assert (found.batch, found.stored) in [(one.batch, one.stored) for one in states]
        assert found.begun == [begun(number) for number in range(found.batch + 1, found.newest + 1)]
    shutil.rmtree(folder)


def test_writing_goes_on_where_a_torn_file_can_be_read(tmp_path: Path) -> None:
    written(tmp_path, 5)
    path = max(tmp_path.glob("changelog-*"))
    path.write_bytes(path.read_bytes()[:-3])
    log = Changelog(tmp_path)
    assert log.recovered.newest == 3
    log.begin(begun(4))
    assert Changelog(tmp_path).recovered.begun == [begun(3), begun(4)]


def test_files_follow_one_another_and_the_one_before_stands_in_for_a_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changelog, "LEAST_BYTES", 600)
    written(tmp_path, 60)
    files = sorted(tmp_path.glob("changelog-*"))
    assert len(files) == changelog.KEPT
    found = Changelog(tmp_path).recovered
    assert found.newest == 59
    assert found.stored == expected(found.batch + 2)
    files[-1].write_bytes(b"RMCL\x01 damaged")
    found = Changelog(tmp_path).recovered
    assert found.is_whole
    assert found.stored == expected(found.batch + 2)
    assert sorted(tmp_path.glob("changelog-*")) == files[:-1]


def test_a_changelog_of_which_nothing_can_be_read_is_refused_with_the_way_out(tmp_path: Path) -> None:
    written(tmp_path, 2)
    max(tmp_path.glob("changelog-*")).write_bytes(b"garbage")
    with pytest.raises(ChangelogError, match="--rebuild-state"):
        Changelog(tmp_path)


@pytest.mark.parametrize(
    "other",
    [
        lambda content: content[:4] + b"\x07" + content[5:],
        lambda _: changelog.MAGIC + changelog._frame(b"H", b'{"query":"q","topic":"t"}') + _of_version_9(),
    ],
    ids=["the file", "its states"],
)
def test_a_changelog_of_another_version_is_named_as_such(
    tmp_path: Path, other: Callable[[bytes], bytes]
) -> None:
    written(tmp_path, 2)
    path = max(tmp_path.glob("changelog-*"))
    path.write_bytes(other(path.read_bytes()))
    with pytest.raises(
        ChangelogError, match=r"(?s)is of version [79], this release reads version.*--rebuild-state"
    ):
        Changelog(tmp_path)


def _of_version_9() -> bytes:
    """A frame of states in a layout to come."""
    return changelog._frame(b"S", b"\x09")
