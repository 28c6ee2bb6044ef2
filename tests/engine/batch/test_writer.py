"""The batch writer: what batches, the driver and the main loop say is published once, history as such."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import structlog

from rebalance_monitor.checkpoints.ledger import Ledger, Snapshot
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.finding import Finding, from_json
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.probe.sample import ProbeSample, RebalancingGroup
from rebalance_monitor.coordinator.rollup.rebuild import Outcome
from rebalance_monitor.engine.batch.batches import Batch, BatchKey, read_batch
from rebalance_monitor.engine.batch.step import OutRow
from rebalance_monitor.engine.driver.parts import Parts
from rebalance_monitor.engine.driver.writer import HELD_BACK, BatchWriter
from rebalance_monitor.engine.health.notices import Notices
from rebalance_monitor.engine.outputs.sinks import FindingsTable, JsonLines, Lines, Publication
from rebalance_monitor.engine.storage import Storage
from tests.coordinator.support.timeline import T0
from tests.streaming.support.batches import (
    BATCHES,
    QUERY,
    SETTINGS,
    input_batches,
    table_ids,
    told,
    undisturbed,
    writer_at,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def test_findings_of_operator_and_driver_are_published(tmp_path: Path) -> None:
    found = undisturbed(tmp_path)
    assert {"rebalance", "rebalance_failed", "group_empty", "unreadable_records"} <= {
        finding.kind.value for finding in found
    }
    assert len({finding.id for finding in found}) == len(found)
    assert table_ids(Storage(tmp_path).findings) == sorted(finding.id for finding in found)
    assert table_ids(Storage(tmp_path).quarantine, "offset") == [900, 901, 902]
    assert all(finding.detected_at == T0 + 70_000 for finding in found)


def test_batches_that_run_again_are_no_progress_however_many_they_are(tmp_path: Path) -> None:
    """The embedded engine runs all since its last state again: what fails behind them is given up in time."""
    writer = writer_at(Storage(tmp_path))
    for _ in range(3):
        for number, batch in enumerate(BATCHES):
            writer.apply(BatchKey(QUERY, number), batch)
    assert writer.published.batches == len(BATCHES)
    assert writer.published.rows == sum(batch.rows for batch in BATCHES)


def test_records_that_are_read_again_in_later_batches_give_no_finding_twice(tmp_path: Path) -> None:
    """As of a partition that had no leader when the batches of a dead process ran again."""
    found, storage = undisturbed(tmp_path), Storage(tmp_path)
    writer = writer_at(storage)
    for number, batch in enumerate(BATCHES):
        writer.apply(BatchKey(QUERY, len(BATCHES) + number), batch)
    again = told(storage)[len(found) :]
    # What waits for the records behind it may come twice, so that it is not lost.
    decided = {one.id for one in found if one.offset is not None and one.kind not in HELD_BACK}
    assert decided
    assert not decided.intersection(finding.id for finding in again)


@pytest.mark.parametrize("last", ["group", "removed"])
def test_the_last_word_about_a_group_counts(last: str) -> None:
    first = "removed" if last == "group" else "group"
    batch = read_batch(
        [OutRow(kind, 0, "g", '{"generation":3}' if kind == "group" else "") for kind in (first, last)]
    )
    assert (list(batch.groups), batch.removed) == ((["g"], []) if last == "group" else ([], ["g"]))


def test_a_rebuild_publishes_no_history_that_was_published(tmp_path: Path) -> None:
    before = undisturbed(tmp_path)
    writer = writer_at(Storage(tmp_path))
    for number, batch in enumerate(input_batches(history=10_000)):
        writer.apply(BatchKey("another-query", number), batch)
    again = told(Storage(tmp_path))[len(before) :]
    assert not [finding for finding in again if finding.offset is not None]


def test_unpublished_history_is_published_as_history(tmp_path: Path) -> None:
    writer = writer_at(Storage(tmp_path))
    for number, batch in enumerate(input_batches(history=10_000)):
        writer.apply(BatchKey(QUERY, number), batch)
    assert {finding.history for finding in told(Storage(tmp_path)) if finding.offset is not None} == {True}


def test_the_cluster_is_called_what_the_configuration_calls_it(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    sink, parts = JsonLines(tmp_path / "f.jsonl"), Parts(SETTINGS, "c1", list)
    writer = BatchWriter(ledger, ledger.load(), [sink], parts, cluster_name="production")
    writer.apply(BatchKey(QUERY, 0), BATCHES[0])
    found = [json.loads(line) for line in (tmp_path / "f.jsonl").read_text().splitlines()]
    assert {finding["cluster"] for finding in found} == {"production"}
    assert {finding["id"] for finding in found} == {finding.id for finding in BATCHES[0].findings}


def test_brokers_that_do_not_answer_open_one_finding_and_resolve_it(tmp_path: Path) -> None:
    looks = [[ProbeSample(T0 + n * 1_000, (), (), ((1, n >= 4), (2, True)))] for n in range(8)]
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


def test_what_the_probe_has_opened_is_over_once_it_is_switched_off(tmp_path: Path) -> None:
    seen = (RebalancingGroup("seen", "PreparingRebalance", "classic", "consumer"),)
    looks = [
        ProbeSample(T0 + n * 1_000, seen if n % 10 else (), ((0, 1, 1),), ((1, True),)) for n in range(200)
    ]
    looks += [ProbeSample(T0 + n * 1_000, seen, ((0, 1, 1),), ((1, True),)) for n in range(200, 300)]
    storage = Storage(tmp_path)
    for number, probe_ms in enumerate((1_000, None, None)):
        ledger = Ledger(storage.ledger)
        drain, looks = looks.copy(), []
        parts = Parts(SETTINGS, "c1", lambda found=drain: found, probe_ms=probe_ms)  # type: ignore[misc]
        writer = BatchWriter(ledger, ledger.load(), [JsonLines(storage.jsonl)], parts)
        writer.apply(BatchKey(QUERY, number), Batch())
    found = [finding for finding in told(storage) if finding.group == "seen"]
    opened = {finding.incident: finding.kind for finding in found if finding.phase == "opened"}
    assert {Kind.STORM, Kind.REBALANCE_STUCK, Kind.REBALANCE_IN_PROGRESS} == set(opened.values())
    assert len(opened) == len([finding for finding in found if finding.phase == "resolved"])
    assert [finding.resolution for finding in found[-3:]] == ["expired"] * 3
    assert len({finding.id for finding in found}) == len(found)


def speaking_writer(storage: Storage, notices: Notices) -> BatchWriter:
    ledger = Ledger(storage.ledger)
    snapshot = ledger.load().on_topic("topic", "c1")
    sinks = [JsonLines(storage.jsonl), FindingsTable(storage.findings)]
    parts = Parts(SETTINGS, "c1", list, notices)
    return BatchWriter(ledger, snapshot, sinks, parts, wall_ms=lambda: T0 + 70_000)


def test_what_cannot_wait_for_a_batch_is_published_once_and_survives_the_process(tmp_path: Path) -> None:
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


def test_nothing_is_published_beside_a_batch_that_is_being_published(tmp_path: Path) -> None:
    notices = Notices(lambda: T0)
    notices.hold(Cause.BLIND, "no broker answers")
    said: list[bool] = []

    class Slow(Lines):
        def write(self, key: BatchKey, publication: Publication) -> None:
            super().write(key, publication)
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

    def carry_over(self, told: list[Finding], again: Sequence[Finding], batch: Batch) -> Outcome:  # noqa: ARG002 - as above
        return Outcome(told)

    def learn_again(self, batch: Batch) -> None:
        """Keep nothing."""

    def into(self, snapshot: Snapshot) -> Snapshot:
        return snapshot


def test_a_job_with_nothing_to_publish_writes_a_line_every_five_minutes(tmp_path: Path) -> None:
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


def test_batches_that_were_published_before_a_restart_are_no_news(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    before = BatchWriter(ledger, ledger.load(), [], Echo())
    for number in range(3):
        before.apply(BatchKey(QUERY, number), Batch(now=T0 + number))
    after = BatchWriter(ledger, ledger.load(), [], Echo())
    with structlog.testing.capture_logs() as lines:
        for number in range(3):
            after.apply(BatchKey(QUERY, number), Batch(now=T0 + number))
    assert [line for line in lines if line["log_level"] != "debug"] == []
    assert after.published.batches == 3
