"""A failed query and a disk without room: what is said, when it is given up, what is published afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from rebalance_monitor.checkpoints.ledger import Ledger, Snapshot
from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import from_json
from rebalance_monitor.coordinator.findings.outputs import StatOut, counters, read_until
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import new_shard_state
from rebalance_monitor.engine.batch.batches import Batch
from rebalance_monitor.engine.driver.failures import (
    ERROR,
    FAILURES,
    KNOWN,
    NO_ROOM,
    classify_failure,
    full_disk,
    scratch,
)
from rebalance_monitor.engine.driver.parts import Parts
from rebalance_monitor.engine.driver.writer import BatchWriter
from rebalance_monitor.engine.health.notices import Notices
from rebalance_monitor.engine.outputs.sinks import JsonLines, Lines
from rebalance_monitor.engine.storage import Storage

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance_monitor.engine.batch.batches import BatchKey
    from rebalance_monitor.engine.outputs.sinks import Publication

ENDED = "Query [id] terminated with exception: "


def test_a_failure_that_may_pass_is_said_with_the_head_of_its_error() -> None:
    assert classify_failure(RuntimeError(ENDED + "x" * 9_000), 1, []) == {
        "error": (ENDED + "x" * 9_000)[:ERROR]
    }


@pytest.mark.parametrize("words", NO_ROOM)
def test_a_disk_without_room_is_named_with_what_to_do_wherever_it_stands_in_the_error(words: str) -> None:
    said = classify_failure(RuntimeError(ENDED + "x" * 9_000 + words), 1, ["hdfs://nowhere/state"])
    assert "disk is full" in said["why"]
    assert said["remedy"] == "make room there; nothing is lost"
    assert len(said["error"]) == ERROR


def test_what_failed_often_enough_is_given_up_with_its_last_error() -> None:
    assert classify_failure(RuntimeError("gone"), FAILURES - 1, []) == {"error": "gone"}
    with pytest.raises(DependencyError, match=r"5 times in a row\. The last error: gone"):
        classify_failure(RuntimeError("gone"), FAILURES, [])


@pytest.mark.parametrize("words", KNOWN)
def test_a_failure_of_a_known_kind_is_logged_with_what_to_do_from_the_first_time_on(words: str) -> None:
    why, remedy = KNOWN[words]
    error = RuntimeError(f"{words}: rebalance-monitor-1-driver-2\n=== Streaming Query ===")
    assert classify_failure(error, 1, [])["remedy"] == remedy
    with pytest.raises(DependencyError) as found:
        classify_failure(error, FAILURES, [])
    assert str(found.value) == f"The query failed 5 times in a row. {why}\n{remedy}"


def test_a_disk_that_stays_full_is_given_up_with_what_to_do_then() -> None:
    with pytest.raises(DependencyError) as found:
        classify_failure(RuntimeError(NO_ROOM[0]), FAILURES, [])
    assert "disk is full" in found.value.what
    assert found.value.remedy == "Free space there and start again: the job continues with its last batch."


def test_what_no_next_try_mends_is_refused_at_once_in_its_own_words() -> None:
    with pytest.raises(ConfigError, match=r"^version 9 is newer$"):
        classify_failure(RuntimeError("at worker\n  StateVersionError: version 9 is newer\nat jvm"), 1, [])


def test_a_disk_with_room_is_not_called_full(tmp_path: Path) -> None:
    assert str(tmp_path) not in full_disk([str(tmp_path), str(tmp_path / "not-there")])


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_a_disk_is_found_by_a_path_and_by_its_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder := tmp_path / "a b").mkdir()
    monkeypatch.setattr("shutil.disk_usage", lambda at: usage(at, folder))
    for named in (str(folder), folder.as_uri()):
        assert full_disk(["s3://bucket/monitor", str(tmp_path), named]) == (
            f"The disk of {folder} is full: 1 of 24 MB are free."
        )


def usage(at: str, small: Path) -> Usage:
    """What shutil tells of a disk: here of a full one below `small`, and of a large one."""
    if at.startswith("s3:"):
        raise FileNotFoundError(at)
    mb = 1024 * 1024
    total, free = (24 * mb, mb) if at == str(small) else (9_000 * mb, 8_000 * mb)
    return Usage(total, total - free, free)


def test_sparks_scratch_is_its_first_local_folder() -> None:
    assert scratch({"spark.local.dir": "/a,/b"}) == "/a"
    assert scratch({})


def test_what_a_full_disk_did_not_take_is_published_once_there_is_room_and_once(tmp_path: Path) -> None:
    class Full(Lines):
        has_room = False

        def write(self, key: BatchKey, publication: Publication) -> None:
            super().write(key, publication)
            if not self.has_room:
                raise OSError(28, "No space left on device")

    storage, notices = Storage(tmp_path), Notices()
    notices.hold(Cause.BEHIND, "no batch was finished for 61 s")
    ledger, disk = Ledger(storage.ledger), Full(lambda _: "", lambda _: None)
    parts = Parts(DetectionSettings(), "c1", list, notices)
    writer = BatchWriter(ledger, ledger.load(), [JsonLines(storage.jsonl), disk], parts)
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            writer.speak()
    disk.has_room = True
    assert writer.speak()
    assert writer.speak()
    found = [from_json(line) for line in storage.jsonl.read_text().splitlines()]
    assert [(finding.details["cause"], finding.phase) for finding in found] == [("behind", "opened")]


def test_with_the_state_of_one_shard_only_its_own_unpublished_findings_are_dropped() -> None:
    parts = Parts(DetectionSettings(), "c1", list)
    parts.restore(Snapshot(live={"untold": {"a": 3, "b": 7}}))
    parts.findings(Batch(troubles=[{"kind": "state_lost", "shard": 3, "error": "why"}]), 0)
    assert parts.into(Snapshot()).live["untold"] == {"b": 7}


def test_of_a_shard_that_catches_up_only_what_is_read_counts_as_read() -> None:
    one = {"shard": 3, "bucket": 0, "read_until": 50}
    stats = [StatOut("shard", one), StatOut("shard", {**one, "read_until": 40}), StatOut("other", one)]
    assert read_until(stats) == {3: 40}
    state = new_shard_state(3, 0, 100)
    state.now, state.last_ts = 90, 20
    assert read_until(said for said in counters(state) if isinstance(said, StatOut)) == {3: 20}
    state.catching_up_until = None
    assert read_until(said for said in counters(state) if isinstance(said, StatOut)) == {3: 90}
