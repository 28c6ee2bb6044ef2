"""The batch writer: each finding is told once, wherever the process dies."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.checkpoints.ledger import Ledger, Snapshot
from rebalance_monitor.cluster.sightings import Sighting as Look
from rebalance_monitor.coordinator.causes import Cause
from rebalance_monitor.coordinator.findings import Finding, from_json
from rebalance_monitor.coordinator.rebuilt import Outcome
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.sightings import Sighting
from rebalance_monitor.dashboard.table_files import files
from rebalance_monitor.decoders import Row, rows
from rebalance_monitor.streaming import sinks
from rebalance_monitor.streaming.batches import Batch, BatchKey, read_batch
from rebalance_monitor.streaming.notices import Notices
from rebalance_monitor.streaming.parts import Parts
from rebalance_monitor.streaming.sinks import FindingsTable, JsonLines, Lines, QuarantineTable, Telling
from rebalance_monitor.streaming.step import Plan, step
from rebalance_monitor.streaming.storage import Storage
from rebalance_monitor.streaming.writer import BatchWriter
from tests.coordinator.timeline import T0
from tests.streaming.topics import eventful_topic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


QUERY = "8d74df78-fa24-4f2f-b920-b9b1ddd93eb6"
SETTINGS = DetectionSettings(unreadable_threshold=2)
BAD = rows.failure_body(rows.FailureRow("truncated", "value", 3, "generation", 2, b"\0\2", b"x"))


class DiedError(Exception):
    """The process was killed."""


class MortalLedger(Ledger):
    """A ledger whose process dies before or after the commit, when told to."""

    dies = ""

    def commit(self, snapshot: Snapshot) -> None:
        if self.dies == "before":
            raise DiedError
        super().commit(snapshot)
        if self.dies == "after":
            raise DiedError


def input_batches(history: int = 0, whole: int | None = None) -> list[Batch]:
    """What Spark gives for the eventful topic and some unreadable records, four rows at a time.

    From batch `whole` on it gives all that is left at once.
    """
    topic, stored, out = eventful_topic(), None, []
    bad = [Row(0, 0, rows.FAILURE, n, n, -1, "", -1, 0, BAD) for n in (900, 901, 902)]
    everything: list[Row] = [*topic.rows, *(replace(row, record_ts=T0 + 61_000) for row in bad)]
    plan = Plan(SETTINGS, "c1", {0: history} if history else {})
    starts = range(0, len(everything), 4)
    for start, end in pairwise([*starts[:whole], *starts[whole or len(starts) :][:1], len(everything)]):
        now = T0 + starts[(end - 1) // 4] * 3_000
        stored, found = step(plan, 0, 0, everything[start:end], now, stored, ticks=True)
        out.append([tuple(row) for row in found])
    return [read_batch(found) for found in out]  # type: ignore[arg-type]  # the same tuples as Spark's


BATCHES = input_batches()


def writer_at(storage: Storage, ledger: Ledger | None = None) -> BatchWriter:
    ledger = ledger or Ledger(storage.ledger)
    sinks = [
        JsonLines(storage.jsonl),
        FindingsTable(storage.findings),
        QuarantineTable(storage.quarantine),
    ]
    snapshot = ledger.load().on_topic("topic", "c1")
    return BatchWriter(ledger, snapshot, sinks, Parts(SETTINGS, "c1", list), wall_ms=lambda: T0 + 70_000)


def told(storage: Storage) -> list[Finding]:
    return [from_json(line) for line in storage.jsonl.read_text().splitlines()]


def table_ids(folder: Path, name: str = "id") -> list[Any]:
    found = [row[name] for path in files(folder) for row in pq.ParquetFile(path).read().to_pylist()]
    return sorted(found)


def undisturbed(root: Path) -> list[Finding]:
    writer = writer_at(Storage(root))
    for number, batch in enumerate(BATCHES):
        writer.apply(BatchKey(QUERY, number), batch)
    return told(Storage(root))


def test_findings_of_operator_and_driver_are_told(tmp_path: Path) -> None:
    found = undisturbed(tmp_path)
    assert {"rebalance", "rebalance_failed", "group_empty", "unreadable_records"} <= {
        finding.kind.value for finding in found
    }
    assert len({finding.id for finding in found}) == len(found)
    assert table_ids(Storage(tmp_path).findings) == sorted(finding.id for finding in found)
    assert table_ids(Storage(tmp_path).quarantine, "offset") == [900, 901, 902]
    assert all(finding.detected_at == T0 + 70_000 for finding in found)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(["before", "after", "between"]), st.integers(0, len(BATCHES)))))
def test_wherever_the_process_dies_each_finding_is_told_once(
    tmp_path_factory: pytest.TempPathFactory, deaths: list[tuple[str, int]]
) -> None:
    storage = Storage(tmp_path_factory.mktemp("job"))
    at, todo = 0, sorted(deaths, key=lambda death: death[1])
    while at < len(BATCHES):
        ledger = MortalLedger(storage.ledger)
        writer = writer_at(storage, ledger)
        try:
            while at < len(BATCHES):
                ledger.dies = todo.pop(0)[0] if todo and todo[0][1] <= at else ""
                writer.apply(BatchKey(QUERY, at), BATCHES[at])
                if ledger.dies == "between":
                    break
                # Spark commits the batch only now: a death before it runs the batch again.
                at += 1
        except DiedError:
            continue
    expected = undisturbed(tmp_path_factory.mktemp("calm"))
    assert told(storage) == expected
    assert table_ids(storage.findings) == sorted(finding.id for finding in expected)


@pytest.mark.parametrize("kept", range(1, len(BATCHES)))
def test_a_checkpoint_older_than_the_ledger_costs_no_finding_and_doubles_none_but_the_last(
    tmp_path: Path, kept: int
) -> None:
    """A backup of the checkpoint is brought back: batch `kept`, which the ledger knows, is now another."""
    for known in range(kept, len(BATCHES)):
        storage = Storage(tmp_path / f"job-{known}")
        writer = writer_at(storage)
        for number, batch in enumerate(BATCHES[: known + 1]):
            writer.apply(BatchKey(QUERY, number), batch)
        writer = writer_at(storage)
        for number, batch in list(enumerate(input_batches(whole=kept)))[kept:]:
            writer.apply(BatchKey(QUERY, number), batch)
        writer_at(storage)
        everything = [finding.id for finding in told(storage)]
        assert table_ids(storage.findings) == sorted(everything)
        assert table_ids(storage.quarantine, "offset") == [900, 901, 902]
        twice = {finding.kind.value for finding in told(storage) if everything.count(finding.id) > 1}
        # What is told some seconds after its record may have been told, or not.
        assert twice <= {"group_removed"}
        found = {finding.id for finding in told(storage) if finding.offset is not None}
        expected = {finding.id for finding in undisturbed(tmp_path / "calm") if finding.offset is not None}
        assert found == expected


def test_a_known_number_without_a_record_tells_what_the_clock_says_since(tmp_path: Path) -> None:
    """Spark's log has lost its newest batches, and nothing is written any more: all consumers are down."""
    clock = replace(BATCHES[0].findings[0], shard=None, offset=None)
    writer = writer_at(Storage(tmp_path))
    for number in range(4):
        writer.apply(BatchKey(QUERY, number), Batch(now=T0 + number * 1_000))
    writer = writer_at(Storage(tmp_path))
    late = replace(clock, id="late", at=T0 + 500_000)
    old = replace(clock, id="old", at=T0 - 500_000)
    writer.apply(BatchKey(QUERY, 2), Batch(findings=[late, old], now=T0 + 600_000))
    writer.apply(BatchKey(QUERY, 3), Batch(findings=[replace(late, id="later")], now=T0 + 601_000))
    found = [finding.id for finding in told(Storage(tmp_path)) if finding.kind == clock.kind]
    assert found == ["late", "later"]


@pytest.mark.parametrize("last", ["group", "removed"])
def test_the_last_word_about_a_group_counts(last: str) -> None:
    first = "removed" if last == "group" else "group"
    batch = read_batch(
        [(kind, 0, "g", '{"generation":3}' if kind == "group" else "") for kind in (first, last)]
    )
    assert (list(batch.groups), batch.removed) == ((["g"], []) if last == "group" else ([], ["g"]))


def test_a_batch_that_fails_is_no_progress(tmp_path: Path) -> None:
    """The job gives up after some failures without progress; a sink that always fails must get there."""
    ledger = MortalLedger(tmp_path)
    writer = writer_at(Storage(tmp_path), ledger)
    ledger.dies = "before"
    for _attempt in range(3):
        with pytest.raises(DiedError):
            writer.apply(BatchKey(QUERY, 0), BATCHES[0])
    assert (writer.told.batches, writer.told.last) == (0, None)
    ledger.dies = ""
    writer.apply(BatchKey(QUERY, 0), BATCHES[0])
    assert (writer.told.batches, writer.told.last) == (1, BatchKey(QUERY, 0))


def test_a_batch_whose_commit_spark_cannot_log_is_no_progress_either(tmp_path: Path) -> None:
    writer = writer_at(Storage(tmp_path))
    for _attempt in range(3):
        writer.apply(BatchKey(QUERY, 0), BATCHES[0])
    assert writer.told.batches == 1


def test_a_batch_that_failed_half_way_counts_once_in_the_same_process(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "job")
    ledger = MortalLedger(storage.ledger)
    writer = writer_at(storage, ledger)
    for number, batch in enumerate(BATCHES):
        ledger.dies = "before"
        with pytest.raises(DiedError):
            writer.apply(BatchKey(QUERY, number), batch)
        writer.pause()
        ledger.dies = ""
        writer.apply(BatchKey(QUERY, number), batch)
    assert told(storage) == undisturbed(tmp_path / "calm")


def test_nothing_of_a_batch_that_failed_is_committed_by_what_is_told_before_it_runs_again(
    tmp_path: Path,
) -> None:
    """The main loop speaks whenever no batch is being told: also before it knows that one has failed."""
    storage, calm = Storage(tmp_path / "job"), Storage(tmp_path / "calm")
    ledger = MortalLedger(storage.ledger)
    writer = writer_at(storage, ledger)
    for number, batch in enumerate(BATCHES):
        ledger.dies = "before"
        with pytest.raises(DiedError):
            writer.apply(BatchKey(QUERY, number), batch)
        ledger.dies = ""
        assert writer.speak()
        writer.pause()
        writer.apply(BatchKey(QUERY, number), batch)
    assert told(storage) == undisturbed(calm.root)
    found, expected = Ledger(storage.ledger).load(), Ledger(calm.ledger).load()
    assert (found.rollup, found.jsonl_bytes) == (expected.rollup, expected.jsonl_bytes)


def test_a_batch_that_tells_less_when_it_runs_again_leaves_nothing_of_the_first_try(tmp_path: Path) -> None:
    """What the probe saw during the first try is told by nobody then: the group may be stable by now."""
    storage = Storage(tmp_path)
    seen = (("g", "PreparingRebalance", "classic", "consumer"),)
    looks = [[Look(T0, groups=seen, brokers=((1, True),))]]
    ledger, sinks = MortalLedger(storage.ledger), [JsonLines(storage.jsonl), FindingsTable(storage.findings)]
    parts = Parts(SETTINGS, "c1", lambda: looks.pop() if looks else [])
    writer = BatchWriter(ledger, ledger.load(), sinks, parts, wall_ms=lambda: T0)
    ledger.dies = "before"
    with pytest.raises(DiedError):
        writer.apply(BatchKey(QUERY, 0), Batch())
    assert [finding.kind for finding in told(storage)] == ["rebalance_in_progress"]
    assert len(table_ids(storage.findings)) == 1
    ledger.dies = ""
    writer.apply(BatchKey(QUERY, 0), Batch())
    assert told(storage) == []
    assert table_ids(storage.findings) == []


def test_a_rebuild_tells_no_history_that_was_told(tmp_path: Path) -> None:
    before = undisturbed(tmp_path)
    writer = writer_at(Storage(tmp_path))
    for number, batch in enumerate(input_batches(history=10_000)):
        writer.apply(BatchKey("another-query", number), batch)
    again = told(Storage(tmp_path))[len(before) :]
    assert not [finding for finding in again if finding.offset is not None]


def test_history_that_nobody_told_is_told_as_history(tmp_path: Path) -> None:
    writer = writer_at(Storage(tmp_path))
    for number, batch in enumerate(input_batches(history=10_000)):
        writer.apply(BatchKey(QUERY, number), batch)
    assert {finding.history for finding in told(Storage(tmp_path)) if finding.offset is not None} == {True}


def test_lines_after_the_last_commit_are_cut_off(tmp_path: Path) -> None:
    found = undisturbed(tmp_path)
    with Storage(tmp_path).jsonl.open("a") as file:
        file.write('{"half":')
    writer_at(Storage(tmp_path))
    assert told(Storage(tmp_path)) == found


def test_a_findings_file_that_was_moved_away_begins_anew(tmp_path: Path) -> None:
    undisturbed(tmp_path)
    Storage(tmp_path).jsonl.unlink()
    writer = writer_at(Storage(tmp_path))
    writer.apply(BatchKey("another-query", 0), BATCHES[0])
    assert [finding.id for finding in told(Storage(tmp_path))] == [f.id for f in BATCHES[0].findings]


@pytest.mark.parametrize("rotate", ["renamed", "truncated"])
def test_findings_go_on_in_a_file_that_was_rotated_under_the_job(tmp_path: Path, rotate: str) -> None:
    path, ledger = tmp_path / "findings.jsonl", Ledger(tmp_path / "ledger")
    writer = BatchWriter(ledger, ledger.load(), [JsonLines(path)], Parts(SETTINGS, "c1", list))
    busy = [batch for batch in BATCHES if batch.findings][:3]
    assert len(busy) == 3
    for number, batch in enumerate(busy):
        writer.apply(BatchKey(QUERY, number), batch)
        if number == 0 and rotate == "renamed":
            path.rename(tmp_path / "findings.jsonl.1")
        elif number == 0:
            path.write_bytes(b"")
    found = [from_json(line).id for line in path.read_text().splitlines()]
    assert set(found) >= {finding.id for batch in busy[1:] for finding in batch.findings}
    assert ledger.load().jsonl_bytes == path.stat().st_size


def test_the_console_is_told_news_and_no_history() -> None:
    (live,) = [finding for finding in BATCHES[0].findings if finding.kind == "rebalance"][:1]
    lines: list[str] = []
    sink = Lines(lambda finding: finding.id, lines.append)
    sink.write(BatchKey(QUERY, 0), Telling([replace(live, history=True), live], Batch(), 0))
    sink.close()
    assert lines == [f"{live.id}\n"]


def test_a_reader_of_the_console_who_stands_still_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "WAITING", 2)
    goes_on, lines = threading.Event(), list[str]()

    def write(line: str) -> None:
        goes_on.wait()
        lines.append(line)

    sink, told = Lines(lambda finding: finding.id, write), Telling(BATCHES[0].findings[:1] * 9, Batch(), 0)
    for number in range(5):
        sink.write(BatchKey(QUERY, number), told)
    goes_on.set()
    sink.close()
    assert 1 <= len(lines) <= 3


def test_a_console_that_fails_is_given_up_and_fails_no_batch() -> None:
    tried: list[str] = []

    def write(line: str) -> None:
        tried.append(line)
        raise OSError(28, "No space left on device")

    sink, told = Lines(lambda finding: finding.id, write), Telling(BATCHES[0].findings[:1] * 3, Batch(), 0)
    sink.write(BatchKey(QUERY, 0), told)
    sink.close()
    sink.write(BatchKey(QUERY, 1), told)
    assert len(tried) == 1


def test_the_cluster_is_called_what_the_configuration_calls_it(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    sink, parts = JsonLines(tmp_path / "f.jsonl"), Parts(SETTINGS, "c1", list)
    writer = BatchWriter(ledger, ledger.load(), [sink], parts, cluster_name="production")
    writer.apply(BatchKey(QUERY, 0), BATCHES[0])
    found = [json.loads(line) for line in (tmp_path / "f.jsonl").read_text().splitlines()]
    assert {finding["cluster"] for finding in found} == {"production"}
    assert {finding["id"] for finding in found} == {finding.id for finding in BATCHES[0].findings}


def test_brokers_that_do_not_answer_open_one_finding_and_resolve_it(tmp_path: Path) -> None:
    looks = [[Sighting(T0 + n * 1_000, (), (), ((1, n >= 4), (2, True)))] for n in range(8)]
    parts = Parts(SETTINGS, "c1", lambda: looks.pop(0) if looks else [])  # type: ignore[arg-type,return-value] # same fields
    ledger = Ledger(tmp_path)
    writer = BatchWriter(ledger, ledger.load(), [JsonLines(tmp_path / "f.jsonl")], parts)
    for number in range(8):
        writer.apply(BatchKey(QUERY, number), Batch())
    found = [from_json(line) for line in (tmp_path / "f.jsonl").read_text().splitlines()]
    assert [(finding.kind, finding.phase) for finding in found] == [
        ("monitor_degraded", "opened"),
        ("monitor_degraded", "resolved"),
    ]
    assert found[0].incident == found[1].incident == found[0].id


def speaking_writer(storage: Storage, notices: Notices) -> BatchWriter:
    ledger = Ledger(storage.ledger)
    snapshot = ledger.load().on_topic("topic", "c1")
    sinks = [JsonLines(storage.jsonl), FindingsTable(storage.findings)]
    parts = Parts(SETTINGS, "c1", list, notices)
    return BatchWriter(ledger, snapshot, sinks, parts, wall_ms=lambda: T0 + 70_000)


def test_what_cannot_wait_for_a_batch_is_told_once_and_survives_the_process(tmp_path: Path) -> None:
    storage, notices = Storage(tmp_path), Notices(lambda: T0)
    notices.hold(Cause.BLIND, "the topic was recreated")
    notices.happened(Cause.DATA_LOST, "gone", 7)
    writer = speaking_writer(storage, notices)
    assert writer.speak()
    assert writer.speak()
    causes = [finding.details["cause"] for finding in told(storage)]
    assert sorted(map(str, causes)) == ["blind", "data_lost"]
    writer.serve(QUERY)
    for number, batch in enumerate(BATCHES):
        writer.apply(BatchKey(QUERY, number), batch)
    after = speaking_writer(storage, Notices(lambda: T0))
    assert after.speak()
    found = [finding.id for finding in told(storage)]
    assert len(set(found)) == len(found)
    assert table_ids(storage.findings) == sorted(found)


def test_nothing_is_told_beside_a_batch_that_is_being_told(tmp_path: Path) -> None:
    notices = Notices(lambda: T0)
    notices.hold(Cause.BLIND, "no broker answers")
    said: list[bool] = []

    class Slow(Lines):
        def write(self, key: BatchKey, telling: Telling) -> None:
            super().write(key, telling)
            said.append(writer.speak())

    ledger = Ledger(Storage(tmp_path).ledger)
    sinks = [Slow(lambda _: "", lambda _: None)]
    writer = BatchWriter(ledger, ledger.load(), sinks, Parts(SETTINGS, "c1", list, notices))
    writer.apply(BatchKey(QUERY, 0), BATCHES[0])
    assert said == [False]


class Echo:
    """Driver's parts that add nothing of their own to what a batch found."""

    def restore(self, snapshot: Snapshot) -> None:
        """Keep nothing."""

    def findings(self, batch: Batch, wall: int) -> list[Finding]:  # noqa: ARG002 - as the protocol has it
        return list(batch.findings)

    def carried(self, told: list[Finding], again: Sequence[Finding], batch: Batch) -> Outcome:  # noqa: ARG002 - as above
        return Outcome(told)

    def into(self, snapshot: Snapshot) -> Snapshot:
        return snapshot


def test_a_job_with_nothing_to_tell_writes_a_line_every_five_minutes(tmp_path: Path) -> None:
    """Something is found in the seventh minute; at last the clock is set back by an hour."""
    seconds = [*range(0, 800, 20), 800 - 3600]
    busy = next(batch for batch in BATCHES if batch.findings)
    clock = {"now": T0}
    ledger = Ledger(tmp_path)
    writer = BatchWriter(ledger, ledger.load(), [], Echo(), wall_ms=lambda: clock["now"])
    with structlog.testing.capture_logs() as lines:
        for number, second in enumerate(seconds):
            clock["now"] = T0 + second * 1_000
            writer.apply(BatchKey(QUERY, number), busy if second == 420 else Batch())
    said = [seconds[line["batch"]] for line in lines if line["log_level"] == "info"]
    assert said == [0, 300, 420, 720, 800 - 3600]
