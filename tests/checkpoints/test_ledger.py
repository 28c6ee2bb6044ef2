"""The ledger: what has been published survives any death of the process, whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.checkpoints.errors import FolderError, FolderInUseError
from rebalance_monitor.checkpoints.ledger import Ledger, LedgerError, Snapshot
from rebalance_monitor.checkpoints.storage.files import locked, replace_file

if TYPE_CHECKING:
    from pathlib import Path

OFFSETS = st.dictionaries(st.integers(0, 49), st.integers(0, 2**62), max_size=8)
JSON = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5) | st.lists(st.integers()))
SNAPSHOTS = st.builds(
    Snapshot,
    batches=st.dictionaries(st.uuids().map(str), st.integers(0, 2**40), max_size=3),
    topic_id=st.text(max_size=22),
    positions=OFFSETS,
    jsonl_bytes=st.integers(0, 2**60),
    now=st.integers(-1, 2**50),
    rollup=JSON,
    live=JSON,
    health=JSON,
)


@settings(deadline=None, max_examples=60)
@given(SNAPSHOTS)
def test_a_committed_snapshot_is_loaded_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, snapshot: Snapshot
) -> None:
    ledger = Ledger(tmp_path_factory.mktemp("ledger"))
    ledger.commit(snapshot)
    assert ledger.load() == snapshot


def test_the_very_first_start_finds_an_empty_snapshot(tmp_path: Path) -> None:
    assert Ledger(tmp_path / "ledger").load() == Snapshot()


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format":99}', '{"format":1,"surprise":1}'])
def test_a_snapshot_that_cannot_be_read_is_refused_with_a_way_out(tmp_path: Path, text: str) -> None:
    (tmp_path / "snapshot.json").write_text(text)
    with pytest.raises(LedgerError, match="restore it from a backup"):
        Ledger(tmp_path).load()


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 30), min_size=1))
def test_a_batch_is_reported_once_however_often_it_runs(batches: list[int]) -> None:
    snapshot, told = Snapshot(), []
    for batch in sorted(batches):
        if not snapshot.has("q", batch):
            told.append(batch)
            snapshot = snapshot.after("q", batch, now=batch, positions={})
    assert told == sorted(set(batches))


def test_batch_numbers_of_a_rebuilt_state_begin_anew() -> None:
    snapshot = Snapshot().after("old", 7, now=1, positions={})
    assert snapshot.has("old", 7)
    assert not snapshot.has("new", 0)


@settings(deadline=None, max_examples=60)
@given(st.lists(OFFSETS))
def test_positions_never_go_back(batches: list[dict[int, int]]) -> None:
    snapshot = Snapshot()
    for number, positions in enumerate(batches):
        snapshot = snapshot.after("q", number, now=0, positions=positions)
        assert all(snapshot.is_published(shard, offset) for shard, offset in positions.items())
    furthest = {shard: max(b.get(shard, -1) for b in batches) for b in batches for shard in b}
    assert snapshot.positions == furthest


def test_a_recreated_topic_has_no_reported_findings() -> None:
    snapshot = Snapshot().on_topic("one", "c").after("q", 0, now=0, positions={3: 100})
    assert snapshot.on_topic("one", "c").is_published(3, 100)
    assert not snapshot.on_topic("two", "c").is_published(3, 0)


def test_a_failed_replacement_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    replace_file(path, b"old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"


def test_a_second_monitor_on_one_folder_is_refused(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(FolderInUseError, match="in use"), locked(tmp_path):
        pass


def test_the_lock_goes_with_the_process_that_held_it(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys, pathlib\n"
        "from rebalance_monitor.checkpoints.storage.files import locked\n"
        "with locked(pathlib.Path(sys.argv[1])):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert done.returncode == -9
    with locked(tmp_path):
        pass


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_a_folder_that_cannot_be_made_is_reported_with_what_to_do(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match=r"cannot be written: .* storage\.path"), locked(tmp_path / name):
        pass


def test_memory_of_groups_stays_with_its_topic_and_incidents_with_their_cluster() -> None:
    memory = {"rollup": {"a": 1}, "live": {"b": 2}, "health": {"c": 3}}
    snapshot = replace(Snapshot().on_topic("one", "c1"), **memory)
    same = snapshot.on_topic("one", "c1")
    assert (same.rollup, same.live, same.health) == ({"a": 1}, {"b": 2}, {"c": 3})
    recreated = snapshot.on_topic("two", "c1")
    assert (recreated.rollup, recreated.live, recreated.health) == ({}, {}, {"c": 3})
    moved = snapshot.on_topic("one", "c2")
    assert (moved.rollup, moved.live, moved.health, moved.positions) == ({}, {}, {}, {})


def test_a_snapshot_that_never_knew_its_cluster_keeps_its_memory() -> None:
    old = replace(Snapshot().on_topic("one", ""), live={"b": 2})
    assert old.on_topic("one", "c1").live == {"b": 2}


def test_what_was_committed_stays_as_it_was_whatever_its_parts_become(tmp_path: Path) -> None:
    ledger, live = Ledger(tmp_path), {"groups": {"g": [1]}}
    assert ledger.committed() is None
    ledger.commit(Snapshot(batches={"q": 1}, positions={3: 4}, live=live))
    live["groups"]["g"].append(2)
    again = ledger.committed()
    assert again == ledger.load() == Snapshot(batches={"q": 1}, positions={3: 4}, live={"groups": {"g": [1]}})


def test_what_is_held_over_a_rebuild_is_of_one_topic() -> None:
    held = replace(Snapshot().on_topic("one", "c1"), rebuilt={"held": {}})
    assert held.on_topic("one", "c1").rebuilt == {"held": {}}
    assert held.on_topic("two", "c1").rebuilt == held.on_topic("one", "c2").rebuilt == {}


def test_a_snapshot_learns_its_cluster_and_knows_it_from_another_then() -> None:
    old = replace(Snapshot().on_topic("one", ""), health={"blind": 1}).on_topic("one", "c1")
    assert (old.cluster_id, old.health) == ("c1", {"blind": 1})
    assert old.on_topic("one", "c2").health == {}


def test_a_batch_without_a_time_leaves_the_time_of_the_one_before_and_other_queries_theirs() -> None:
    snapshot = Snapshot().after("q", 3, now=0, positions={}).after("r", 5, now=-1, positions={})
    assert snapshot.now == 0
    assert snapshot.batches == {"q": 3, "r": 5}


def test_brokers_that_begin_to_return_ids_are_not_taken_for_others() -> None:
    old = Snapshot(topic_id="", cluster_id="", positions={0: 7}, live={"a": 1})
    assert old.on_topic("t", "c") == replace(old, topic_id="t", cluster_id="c")
    known = replace(old, topic_id="t", cluster_id="c")
    assert known.on_topic("", "") == known
    assert known.on_topic("another", "").positions == {}
