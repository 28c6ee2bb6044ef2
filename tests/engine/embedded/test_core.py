"""The embedded engine says what Spark's operator says of the same batches, at the same times."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.checkpoints.state.changelog import Changelog
from rebalance_monitor.cluster.captures.capture import read_capture
from rebalance_monitor.coordinator.findings.bodies import body_of, data_of
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.decoders import decode_batch
from rebalance_monitor.decoders.rows import made_rows
from rebalance_monitor.engine.batch.batches import Batch, read_batch
from rebalance_monitor.engine.batch.step import Extent, Plan, step
from rebalance_monitor.engine.embedded.core import Core

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.checkpoints.state.codec import Stored

SCENARIOS = Path(__file__).parents[2] / "fixtures" / "scenarios"
RECORDED = ("expired-4.1.1", "instances-4.1.1", "moved-4.1.1", "matrix-4.3.0")
WHOLE = 1_000_000
Pieces = dict[int, pa.RecordBatch]


@cache
def recorded(name: str) -> Pieces:
    with read_capture(SCENARIOS / name / "capture").by_partition(WHOLE) as streams:
        tables = {shard: pa.Table.from_batches(stream) for shard, stream in streams.items()}
    return {
        shard: table.combine_chunks().to_batches()[0] for shard, table in tables.items() if table.num_rows
    }


def times(records: pa.RecordBatch) -> np.ndarray:
    stamps: np.ndarray = (
        records.column("timestamp").cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_numpy()
    )
    return np.maximum.accumulate(stamps)


def cut(whole: Pieces, bounds: Sequence[int]) -> list[tuple[int, Pieces]]:
    """Batches, each with its timestamp (ms) and the records before it that no other had."""
    found = []
    for since, until in pairwise(bounds):
        pieces: Pieces = {}
        for shard, records in whole.items():
            first, last = np.searchsorted(times(records), [since, until])
            if last > first:
                pieces[shard] = records.slice(first, last - first)
        found.append((until, pieces))
    return found


@st.composite
def batches(draw: st.DrawFn) -> tuple[Pieces, list[tuple[int, Pieces]]]:
    whole = recorded(draw(st.sampled_from(RECORDED)))
    stamps = np.concatenate([times(records) for records in whole.values()])
    first, last = int(stamps.min()), int(stamps.max()) + 1
    bounds = draw(st.lists(st.integers(first, last + 60_000), max_size=30))
    return whole, cut(whole, sorted({first - 1, *bounds, last, last + 90_000}))


def by_spark(plan: Plan, shards: Sequence[int], cuts: list[tuple[int, Pieces]]) -> list[Batch]:
    stored: dict[int, Stored] = {}
    found = []
    for now, pieces in cuts:
        rows = {shard: list(made_rows(decode_batch(piece))) for shard, piece in pieces.items()}
        newest = max((row.record_ts for own in rows.values() for row in own), default=-1)
        out: list[tuple[str, int, str, str]] = []
        for shard in shards:
            own, before = rows.get(shard, []), stored.get(shard)
            stored[shard], told = step(plan, shard, 0, own, now, before, ticks=True, newest=newest)
            out += [tuple(row) for row in told]
        found.append(read_batch(out))
    return found


def comparable(batch: Batch) -> tuple[object, ...]:
    """What a batch says; the size of the state is not known where none was written."""
    stats = [(shard, stat.kind, stat.data) for shard, stat in batch.stats]
    # Spark's came through JSON, which knows no tuples.
    groups = [(name, data_of(body_of(summary))) for name, summary in batch.groups.items()]
    said = (batch.findings, groups, batch.removed, stats, batch.unreadable, batch.troubles)
    return (*said, batch.positions, batch.newest, batch.types, batch.now, batch.rows)


@settings(max_examples=20)
@given(batches(), st.sets(st.integers(0, 33)), st.sets(st.integers(0, 33)), st.booleans(), st.booleans())
def test_both_engines_say_the_same_of_the_same_batches_however_often_one_begins_again(
    drawn: tuple[Pieces, list[tuple[int, Pieces]]],
    restarts: set[int],
    rests: set[int],
    history: bool,  # noqa: FBT001 - drawn
    limited: bool,  # noqa: FBT001 - drawn
) -> None:
    whole, cuts = drawn
    ends = {
        shard: int(records.column("offset")[len(records) // 2].as_py()) for shard, records in whole.items()
    }
    plan = Plan(DetectionSettings(), "c1", ends if history else {}, limited)
    shards = sorted({*whole, 0, 7})
    expected = by_spark(plan, shards, cuts)
    stored: dict[int, Stored] = {}
    core = Core(plan, shards, stored)
    extent = Extent.LIMITED if limited else Extent.USUAL
    for number, (now, pieces) in enumerate(cuts):
        batch = core.apply(pieces.values(), now, extent)
        assert comparable(batch) == comparable(expected[number])
        if number in rests:
            stored |= core.freeze()[0]
        if number in restarts:
            stored |= core.freeze()[0]
            core = Core(plan, shards, stored, now)


@settings(max_examples=10)
@given(batches())
def test_history_read_without_the_clock_gives_the_same_findings_and_every_group_with_its_first_clock(
    drawn: tuple[Pieces, list[tuple[int, Pieces]]],
) -> None:
    whole, cuts = drawn
    ends = {shard: int(records.column("offset")[-1].as_py()) + 1 for shard, records in whole.items()}
    plan = Plan(DetectionSettings(), "c1", ends)
    with_clock, without = Core(plan, whole), Core(plan, whole)
    for now, pieces in cuts:
        expected = [
            one for one in with_clock.apply(pieces.values(), now, Extent.LIMITED).findings if one.history
        ]
        found = without.apply(pieces.values(), now, Extent.LIMITED, ticks=False)
        assert [one for one in found.findings if one.history] == expected
        assert not found.groups
    now, _ = cuts[-1]
    known = {name for shard in without.shards.values() for name in shard.state.groups}
    assert without.apply((), now, Extent.LIMITED).groups.keys() == known


def test_the_clock_of_a_shard_that_nobody_leads_stands_still_and_starts_where_it_stood(
    tmp_path: Path,
) -> None:
    whole = recorded("moved-4.1.1")
    shard, now = next(iter(whole)), int(max(times(records).max() for records in whole.values()))
    plan, kept = Plan(DetectionSettings(), "c1", {}), Changelog(tmp_path)
    core = Core(plan, whole)
    core.apply(whole.values(), now, Extent.USUAL)
    later = now + 600_000
    core.apply([], later, Extent.USUAL, {shard})
    assert {number for number, one in core.shards.items() if one.now == now} == {shard}
    kept.commit(1, later, dict.fromkeys(whole, 9), *core.freeze(), {shard})
    kept.close()
    found = Changelog(tmp_path).recovered
    again = Core(plan, whole, found.stored, found.now, found.still)
    assert {number for number, one in again.shards.items() if one.now == now} == {shard}


def test_a_shard_that_cannot_be_stored_is_read_again_from_the_state_before(tmp_path: Path) -> None:
    whole = recorded("moved-4.1.1")
    stamps = np.concatenate([times(records) for records in whole.values()])
    (middle, first), (last, second) = cut(
        whole, [int(stamps.min()) - 1, int(np.median(stamps)), int(stamps.max()) + 1]
    )
    kept, core = Changelog(tmp_path), Core(Plan(DetectionSettings(), "c1", {}), whole)
    shard = min(first.keys() & second.keys())
    core.apply(first.values(), middle, Extent.USUAL)
    kept.commit(0, middle, dict.fromkeys(whole, 1), *core.freeze())
    core.apply(second.values(), last, Extent.USUAL)
    state = core.shards[shard].state
    hole, state.hole = state.hole, object()  # type: ignore[assignment]  # what no codec writes
    kept.commit(1, last, dict.fromkeys(whole, 2), *core.freeze())
    kept.close()
    after = Changelog(tmp_path).recovered
    assert after.ends == dict.fromkeys(whole, 2) | {shard: 1}
    state.hole = hole
    kept.commit(2, last, dict.fromkeys(whole, 3), *core.freeze())
    kept.close()
    whole_again = Changelog(tmp_path).recovered
    assert whole_again.ends == dict.fromkeys(whole, 3)
    assert whole_again.stored[shard] != after.stored[shard]


@pytest.mark.parametrize("name", RECORDED)
def test_a_recording_has_findings_at_all(name: str) -> None:
    whole = recorded(name)
    stamps = np.concatenate([times(records) for records in whole.values()])
    bounds = [int(stamps.min()) - 1, int(stamps.max()) + 1]
    (batch,) = by_spark(Plan(DetectionSettings(), "c1", {}), sorted(whole), cut(whole, bounds))
    assert batch.findings
