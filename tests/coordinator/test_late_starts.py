"""A job that begins late never warns of what one that read everything does not: the unknown is no value.

Each recording is read from records drawn by lot on, as by `source.starting: latest`, with a clock each
second and well beyond its end. What the clock decides then must stand in what the whole recording says.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from rebalance_monitor.cluster.captures.capture import read_capture
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.findings.outputs import FindingOut
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.shard import ShardCoordinator, new_shard_state
from rebalance_monitor.decoders import decode_batch
from rebalance_monitor.decoders.rows import RECORD, made_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.decoders import Row

FIXTURES = Path(__file__).parents[1] / "fixtures"
CAPTURES = sorted(
    [path for path in (FIXTURES / "cases").iterdir() if path.is_dir()]
    + [path / "capture" for path in (FIXTURES / "scenarios").iterdir() if path.is_dir()]
)
BY_CLOCK = frozenset({Kind.MEMBER_SILENT, Kind.REBALANCE_STUCK, Kind.GROUP_EMPTY, Kind.OFFSETS_EXPIRING})
SETTINGS = DetectionSettings(always_on=("*",))
TICK_MS, AFTER_MS, CUTS, NEAR_MS = 1_000, 150_000, 12, 60_000
Shards = dict[int, list["Row"]]


@cache
def recorded(capture: Path) -> Shards:
    with read_capture(capture).by_partition(1_000_000) as streams:
        tables = {shard: pa.Table.from_batches(stream) for shard, stream in streams.items()}
    return {
        shard: [row for batch in table.to_batches() for row in made_rows(decode_batch(batch))]
        for shard, table in tables.items()
        if table.num_rows
    }


def told(shard: int, rows: Sequence[Row], *, late: bool) -> list[Finding]:
    coordinator = ShardCoordinator(
        new_shard_state(shard, 0, None if late else 0), SETTINGS, "late", summaries=False
    )
    out, clock = [], rows[0].record_ts // TICK_MS * TICK_MS
    for row in rows:
        while row.record_ts >= clock + TICK_MS:
            clock += TICK_MS
            out += coordinator.on_clock(clock)
        out += coordinator.on_row(row)
    for at in range(clock + TICK_MS, clock + AFTER_MS, TICK_MS):
        out += coordinator.on_clock(at)
    return [one.finding for one in out if isinstance(one, FindingOut)]


def loud(findings: Sequence[Finding]) -> list[Finding]:
    return [one for one in findings if one.kind in BY_CLOCK and one.phase == "opened"]


def is_told(finding: Finding, whole: Sequence[Finding]) -> bool:
    """Whether the whole recording says this, too: of the same group at that time, or not yet over."""
    return any(
        one.kind is finding.kind and one.group == finding.group and abs(one.at - finding.at) <= NEAR_MS
        for one in whole
    )


def starts(capture: Path, shard: int, rows: Sequence[Row]) -> list[int]:
    """Where the reading begins: at records of groups, and behind each that belongs to an epoch."""
    lot = Random(f"{capture.parent.name}/{capture.name} {shard}")  # noqa: S311 - nothing to guess
    groups = [place for place, row in enumerate(rows) if row.row_kind == RECORD and place]
    return sorted(lot.sample(groups, min(CUTS, len(groups))))


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_that_begins_late_warns_of_nothing_that_was_not(capture: Path) -> None:
    for shard, rows in recorded(capture).items():
        whole = told(shard, rows, late=False)
        for start in starts(capture, shard, rows):
            found = loud(told(shard, rows[start:], late=True))
            wrong = [one for one in found if not is_told(one, whole)]
            assert not wrong, (
                shard,
                rows[start].first_offset,
                [(one.kind, one.group, one.at) for one in wrong],
            )
