"""What real brokers wrote gives the same findings however its records are cut into batches.

Each partition of each recording is read, decoded and coordinated in pieces, the state written and read
between them, and must say what it says as one piece; the cuts fall through commit runs too.
"""

from __future__ import annotations

from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from rebalance_monitor.checkpoints.state.codec import decode_state, encode_state
from rebalance_monitor.cluster.captures.capture import read_capture
from rebalance_monitor.coordinator.findings.kind_table import KINDS
from rebalance_monitor.coordinator.findings.kinds import DrivenBy, Kind
from rebalance_monitor.coordinator.findings.outputs import FindingOut
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from rebalance_monitor.decoders import decode_batch
from rebalance_monitor.decoders.rows import made_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.state.shard_state import ShardState

FIXTURES = Path(__file__).parents[1] / "fixtures" / "scenarios"
NAMES = sorted(path.name for path in FIXTURES.iterdir() if path.is_dir())
WHOLE = 1_000_000
Shards = dict[int, pa.RecordBatch]
Piece = tuple[int, int]


@cache
def recorded(name: str) -> Shards:
    """The records of a recording, one batch for each partition."""
    with read_capture(FIXTURES / name / "capture").by_partition(WHOLE) as streams:
        tables = {shard: pa.Table.from_batches(stream) for shard, stream in streams.items()}
    return {
        shard: table.combine_chunks().to_batches()[0] for shard, table in tables.items() if table.num_rows
    }


def coordinated(
    shard: int, records: pa.RecordBatch, pieces: Iterable[Piece], *, clocks: bool, history: int | None = None
) -> list[list[Finding]]:
    """Findings of each piece of a partition; with `clocks` the newest record's time follows each piece."""
    state: ShardState = new_shard_state(shard, 0, history)
    told: list[list[Finding]] = []
    for start, end in pieces:
        rows = list(made_rows(decode_batch(records.slice(start, end - start))))
        coordinator = ShardCoordinator(decode_state(encode_state(state)), DetectionSettings(), "cut")
        found = [out for row in rows for out in coordinator.on_row(row)]
        if clocks:
            found += coordinator.on_clock(max(row.record_ts for row in rows))
        told.append([out.finding for out in found if isinstance(out, FindingOut)])
        state = coordinator.state
    return told


@cache
def whole(name: str, shard: int) -> list[Finding]:
    """Findings of one partition of a recording read as one piece, without a clock."""
    records = recorded(name)[shard]
    return coordinated(shard, records, [(0, records.num_rows)], clocks=False)[0]


def cuts(name: str, shard: int, size: int, pieces: int) -> Iterable[Piece]:
    """Up to `pieces` pieces of a partition, cut at places drawn by lot."""
    lot = Random(f"{name} {shard} {pieces}")  # noqa: S311 - nothing to guess
    return pairwise(sorted({0, size, *(lot.randrange(size) for _ in range(pieces - 1))}))


def decided_by_records(found: Iterable[Finding]) -> list[Finding]:
    """Those that no clock decides; the end of a storm is published by the clock or by the next record."""
    kept = [finding for finding in found if KINDS[finding.kind].driven_by is DrivenBy.RECORD]
    return [finding for finding in kept if finding.phase != "resolved" or finding.kind is Kind.GROUP_EMPTY]


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_cut_into_batches_gives_what_it_gives_whole(name: str) -> None:
    told = 0
    for shard, records in recorded(name).items():
        pieces = cuts(name, shard, records.num_rows, 40)
        assert list(chain(*coordinated(shard, records, pieces, clocks=False))) == whole(name, shard)
        told += len(whole(name, shard))
    assert told


@pytest.mark.parametrize("name", NAMES)
def test_what_records_decide_in_a_recording_is_the_same_under_any_clocks(name: str) -> None:
    for shard, records in recorded(name).items():
        for number in (7, 60):
            pieces = cuts(name, shard, records.num_rows, number)
            found = chain(*coordinated(shard, records, pieces, clocks=True))
            assert decided_by_records(found) == decided_by_records(whole(name, shard))


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_read_as_history_up_to_its_middle_is_the_same_in_any_batches(name: str) -> None:
    for shard, records in recorded(name).items():
        size, until = records.num_rows, records.column("offset")[records.num_rows // 2].as_py()
        at_once = coordinated(shard, records, [(0, size)], clocks=False, history=until)
        pieces = coordinated(shard, records, cuts(name, shard, size, 7), clocks=False, history=until)
        assert list(chain(*pieces)) == at_once[0]


@pytest.mark.parametrize("name", NAMES)
def test_batches_of_a_recording_that_come_again_say_nothing_new(name: str) -> None:
    for shard, records in recorded(name).items():
        size = records.num_rows
        again = [(0, size), (size // 2, size), (size // 3, size // 3 + 1)]
        assert coordinated(shard, records, again, clocks=False) == [whole(name, shard), [], []]
