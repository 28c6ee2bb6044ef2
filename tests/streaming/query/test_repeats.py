"""Batches run again wherever the process died: findings are published once, a failure is no progress."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.checkpoints.ledger import Ledger
from rebalance_monitor.coordinator.probe.sample import ProbeSample, RebalancingGroup
from rebalance_monitor.engine.batch.batches import Batch, BatchKey
from rebalance_monitor.engine.driver.parts import Parts
from rebalance_monitor.engine.driver.writer import BatchWriter
from rebalance_monitor.engine.outputs.sinks import FindingsTable, JsonLines
from rebalance_monitor.engine.storage import Storage
from tests.coordinator.support.timeline import T0
from tests.streaming.support.batches import (
    BATCHES,
    QUERY,
    SETTINGS,
    DiedError,
    MortalLedger,
    input_batches,
    table_ids,
    told,
    undisturbed,
    writer_at,
)

if TYPE_CHECKING:
    from pathlib import Path


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(["before", "after", "between"]), st.integers(0, len(BATCHES)))))
def test_wherever_the_process_dies_each_finding_is_published_once(
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
        # A finding that comes some seconds after its record may have been published, or not.
        assert twice <= {"group_removed"}
        found = {finding.id for finding in told(storage) if finding.offset is not None}
        expected = {finding.id for finding in undisturbed(tmp_path / "calm") if finding.offset is not None}
        assert found == expected


def test_a_known_number_without_a_record_shows_what_the_clock_says_since(tmp_path: Path) -> None:
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


def test_a_batch_that_fails_is_no_progress(tmp_path: Path) -> None:
    """The job gives up after some failures without progress; a sink that always fails must get there."""
    ledger = MortalLedger(tmp_path)
    writer = writer_at(Storage(tmp_path), ledger)
    ledger.dies = "before"
    for _attempt in range(3):
        with pytest.raises(DiedError):
            writer.apply(BatchKey(QUERY, 0), BATCHES[0])
    assert (writer.published.batches, writer.published.last) == (0, None)
    ledger.dies = ""
    writer.apply(BatchKey(QUERY, 0), BATCHES[0])
    assert (writer.published.batches, writer.published.last) == (1, BatchKey(QUERY, 0))


def test_a_batch_whose_commit_spark_cannot_log_is_no_progress_either(tmp_path: Path) -> None:
    writer = writer_at(Storage(tmp_path))
    for _attempt in range(3):
        writer.apply(BatchKey(QUERY, 0), BATCHES[0])
    assert writer.published.batches == 1


def fails(writer: BatchWriter, ledger: MortalLedger, number: int) -> None:
    """Let a batch fail before its commit; the next try will not."""
    ledger.dies = "before"
    with pytest.raises(DiedError):
        writer.apply(BatchKey(QUERY, number), BATCHES[number])
    ledger.dies = ""


def test_a_batch_that_failed_half_way_counts_once_in_the_same_process(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "job")
    ledger = MortalLedger(storage.ledger)
    writer = writer_at(storage, ledger)
    for number, batch in enumerate(BATCHES):
        fails(writer, ledger, number)
        writer.pause()
        writer.apply(BatchKey(QUERY, number), batch)
    assert told(storage) == undisturbed(tmp_path / "calm")


def test_nothing_of_a_batch_that_failed_is_committed_by_what_is_published_before_it_runs_again(
    tmp_path: Path,
) -> None:
    """The main loop publishes whenever no batch is written: also before it knows that one has failed."""
    storage, calm = Storage(tmp_path / "job"), Storage(tmp_path / "calm")
    ledger = MortalLedger(storage.ledger)
    writer = writer_at(storage, ledger)
    for number, batch in enumerate(BATCHES):
        fails(writer, ledger, number)
        assert writer.speak()
        writer.pause()
        writer.apply(BatchKey(QUERY, number), batch)
    assert told(storage) == undisturbed(calm.root)
    found, expected = Ledger(storage.ledger).load(), Ledger(calm.ledger).load()
    assert (found.rollup, found.jsonl_bytes) == (expected.rollup, expected.jsonl_bytes)


def test_a_batch_that_publishes_less_when_it_runs_again_leaves_nothing_of_the_first_try(
    tmp_path: Path,
) -> None:
    """What the probe saw during the first try is not published then: the group may be stable by now."""
    storage = Storage(tmp_path)
    seen = (RebalancingGroup("g", "PreparingRebalance", "classic", "consumer"),)
    looks = [[ProbeSample(T0, groups=seen, brokers=((1, True),))]]
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
