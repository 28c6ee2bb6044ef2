"""The sinks: a findings file goes on however it was cut, moved or rotated, and a console holds nothing up."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.checkpoints.ledger import Ledger
from rebalance_monitor.coordinator.findings.finding import from_json
from rebalance_monitor.engine.batch.batches import Batch, BatchKey
from rebalance_monitor.engine.driver.parts import Parts
from rebalance_monitor.engine.driver.writer import BatchWriter
from rebalance_monitor.engine.outputs import sinks
from rebalance_monitor.engine.outputs.sinks import JsonLines, Lines, Publication
from rebalance_monitor.engine.storage import Storage
from tests.streaming.support.batches import BATCHES, QUERY, SETTINGS, told, undisturbed, writer_at

if TYPE_CHECKING:
    from pathlib import Path


def test_lines_after_the_last_commit_are_cut_off(tmp_path: Path) -> None:
    found = undisturbed(tmp_path)
    with Storage(tmp_path).jsonl.open("a") as file:
        file.write('{"half":')
    writer_at(Storage(tmp_path))
    assert told(Storage(tmp_path)) == found


def test_a_findings_file_that_was_moved_away_begins_anew(tmp_path: Path) -> None:
    storage, (first, second) = Storage(tmp_path), [batch for batch in BATCHES if batch.findings][:2]
    writer_at(storage).apply(BatchKey(QUERY, 0), first)
    storage.jsonl.unlink()
    writer_at(storage).apply(BatchKey(QUERY, 1), second)
    found = {finding.id for finding in told(storage)}
    assert found.issuperset(finding.id for finding in second.findings)
    assert found.isdisjoint(finding.id for finding in first.findings)


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


def test_the_console_shows_news_and_no_history() -> None:
    (live,) = [finding for finding in BATCHES[0].findings if finding.kind == "rebalance"][:1]
    lines: list[str] = []
    sink = Lines(lambda finding: finding.id, lines.append)
    sink.write(BatchKey(QUERY, 0), Publication([replace(live, history=True), live], Batch(), 0))
    sink.close()
    assert lines == [f"{live.id}\n"]


def test_a_console_reader_that_stands_still_delays_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "WAITING", 2)
    goes_on, lines = threading.Event(), list[str]()

    def write(line: str) -> None:
        goes_on.wait()
        lines.append(line)

    sink, told = (
        Lines(lambda finding: finding.id, write),
        Publication(BATCHES[0].findings[:1] * 9, Batch(), 0),
    )
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

    sink, told = (
        Lines(lambda finding: finding.id, write),
        Publication(BATCHES[0].findings[:1] * 3, Batch(), 0),
    )
    sink.write(BatchKey(QUERY, 0), told)
    sink.close()
    sink.write(BatchKey(QUERY, 1), told)
    assert len(tried) == 1
