"""The lag part among the driver's others: rows in, lag and last commits out, and into the ledger."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from rebalance_monitor.checkpoints.ledger import Ledger, Snapshot
from rebalance_monitor.coordinator.commits import positions
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.lag.board import MAX_LONE
from rebalance_monitor.coordinator.lag.ends import EndsSample
from rebalance_monitor.coordinator.lag.following import PARTIAL_SAMPLES
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.state.positions import Positions
from rebalance_monitor.dashboard.view.snapshot import Known
from rebalance_monitor.dashboard.web.views.board import Board
from rebalance_monitor.dashboard.web.views.group_page import group_detail
from rebalance_monitor.decoders.rows import partition_entry
from rebalance_monitor.engine.batch.batches import Batch, BatchKey, read_batch
from rebalance_monitor.engine.driver.parts import Parts
from rebalance_monitor.engine.driver.writer import BatchWriter
from rebalance_monitor.engine.outputs.serving import update_of
from rebalance_monitor.engine.outputs.sinks import Publication

T0 = 1_795_000_000_000


def body(offset: int, at: int, *, lone: bool = False, commits: int = 0) -> str:
    held = Positions(lone=lone, commits=commits)
    positions.keep(held, at, partition_entry(b"orders", 0), offset.to_bytes(8, "big"))
    return positions.published(held)


class Ends:
    """Samples that wait."""

    def __init__(self) -> None:
        self.waiting: list[EndsSample] = []

    def drain(self) -> list[EndsSample]:
        found, self.waiting = self.waiting, []
        return found


def parts(ends: Ends, snapshot: Snapshot | None = None) -> Parts:
    made = Parts(DetectionSettings(), "c1", list, ends=ends.drain)
    made.restore(snapshot or Snapshot())
    return made


def batch(at: int, offset: int | None) -> Batch:
    rows = [] if offset is None else [("positions", 7, "g", body(offset, at))]
    found = read_batch(rows)
    found.now = at
    return found


def test_a_batch_that_runs_again_gives_its_positions_to_a_process_that_begins(tmp_path: Path) -> None:
    """The coordinators publish all positions in it, and no more until a group commits."""
    ends, ledger, key = Ends(), Ledger(tmp_path), BatchKey("q", 0)
    BatchWriter(ledger, ledger.load(), [], parts(ends)).apply(key, batch(T0, 40))
    begun = parts(ends)
    BatchWriter(ledger, ledger.load(), [], begun).apply(key, batch(T0, 40))
    assert begun.topics() == {"orders"}
    ends.waiting = [EndsSample(T0 + 5_000, T0 + 5_010, {"orders": (100,)})]
    begun.findings(batch(T0 + 5_100, None), T0 + 5_100)
    assert begun.followed() == 1


def test_rows_of_positions_and_samples_become_lag_and_last_commits_that_the_page_has() -> None:
    ends, known = Ends(), Known()
    driver = parts(ends)
    assert driver.topics() == frozenset()
    ends.waiting = [EndsSample(T0, T0, {"orders": (130,)})]
    for number, offset in enumerate((100, None)):
        one = batch(T0 + 1_000 * number, offset)
        driver.findings(one, T0 + 1_000 * number)
        known = known.after(update_of(BatchKey("q", number), Publication([], one, T0)))
    assert driver.topics() == {"orders"}
    assert known.lags["g"].records == 30
    assert known.last_commit("g") == T0
    removed = Batch(removed=["g"], now=T0 + 9_000)
    driver.findings(removed, T0 + 9_000)
    known = known.after(update_of(BatchKey("q", 9), Publication([], removed, T0)))
    assert (known.lags, known.committing) == ({}, {})


def test_a_group_that_only_commits_is_listed_until_its_last_offset_is_gone() -> None:
    driver, known = parts(Ends()), Known()
    for number in range(40):
        rows = [("positions", 7, "", body(100 + number, T0 + 2_000 * number, lone=True, commits=3 * number))]
        one = read_batch(rows)
        one.now = T0 + 2_000 * number
        driver.findings(one, one.now)
        known = known.after(update_of(BatchKey("q", number), Publication([], one, T0)))
        assert len(one.commits_only) == int(number == 0)
    board = Board(known, one.now)
    row = board.row(board.entries[0])
    assert (row["type"], row["state"], row["members"], row["generation"]) == ("commits", "Empty", 0, None)
    assert (row["last_commit"], row["commits_per_minute"]) == (T0 + 78_000, 90)
    assert not known.recorded
    gone = read_batch([("positions", 7, "", positions.published(Positions(lone=True)))])
    driver.findings(gone, T0 + 99_000)
    assert not known.after(update_of(BatchKey("q", 99), Publication([], gone, T0))).groups


def test_the_memory_of_lag_is_json_and_comes_back() -> None:
    ends = Ends()
    driver = parts(ends)
    driver.findings(batch(T0, 100), T0)
    kept = driver.into(Snapshot())
    parts_of_lag = {
        "judging",
        "losses",
        "cuts",
        "costs",
        "silences",
        "rebalances",
        "roll_ups",
        "unowned",
        "logs",
    }
    assert set(kept.lag) == parts_of_lag
    parts(ends, Snapshot(**json.loads(json.dumps(asdict(kept)))))


def test_ends_that_stay_unknown_are_published_once_and_resolved() -> None:
    ends = Ends()
    driver = parts(ends)
    told = []
    for number in range(2 * PARTIAL_SAMPLES):
        at = T0 + 5_000 * number
        partial = "1 topic is refused" if number < PARTIAL_SAMPLES + 3 else ""
        ends.waiting = [EndsSample(at, at, {"orders": (130,)}, partial=partial)]
        told += driver.findings(batch(at, 100), at)
    found = [
        one for one in told if one.kind is Kind.MONITOR_DEGRADED and one.causes[0].cause is Cause.ENDS_PARTIAL
    ]
    assert [one.phase for one in found] == ["opened", "resolved"]
    assert "1 topic is refused" in found[0].causes[0].why


def test_of_names_that_come_and_go_so_many_are_known_at_most() -> None:
    driver, known = parts(Ends()), Known()
    for number in range(3):
        names = [f"job-{one}" for one in range(number * MAX_LONE // 2, (number + 1) * MAX_LONE // 2)]
        at = T0 + 60_000 * number
        one = read_batch([("positions", 7, name, body(1, at, lone=True)) for name in names])
        one.now = at
        driver.findings(one, at)
        known = known.after(update_of(BatchKey("q", number), Publication([], one, T0)))
    assert len(known.groups) <= MAX_LONE
    assert f"job-{3 * MAX_LONE // 2 - 1}" in known.groups
    assert "job-0" not in known.groups


@pytest.mark.parametrize("ends", [None, list])
def test_the_last_commits_of_members_are_new_without_the_ends_of_topics(
    ends: Callable[[], list[EndsSample]] | None,
) -> None:
    """A summary is of the group's last change; it may be hours old."""
    driver, known = Parts(DetectionSettings(), "c1", list, ends=ends), Known()
    driver.restore(Snapshot())
    member = {
        "member_id": "m",
        "client_id": "c",
        "host": "/h",
        "instance_id": None,
        "family": "java",
        "partitions": 2,
        "assigned": {"orders": "0-1"},
        "session_timeout_ms": 6_000,
        "rebalance_timeout_ms": 8_000,
        "last_commit": T0,
    }
    for number in range(3):
        one = batch(T0 + 600_000 * number, 100 + number)
        one.groups = {"g": {"member_list": [member], "members": 1}} if number == 0 else {}
        driver.findings(one, one.now)
        known = known.after(update_of(BatchKey("q", number), Publication([], one, T0)))
    board = Board(known, one.now)
    detail = group_detail(board, board.entries[0], [], live=True)
    assert [one["last_commit"] for one in detail["members"]] == [T0 + 1_200_000]
    assert detail["row"]["last_commit"] == T0 + 1_200_000
