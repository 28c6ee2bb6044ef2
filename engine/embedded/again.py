"""Batches that were begun and may not have been finished: read and applied once more, as they were.

Their offsets and times are in the changelog; the ledger skips the batches that were published. All of them
are read at once and cut at their borders: a consumer for each would take longer than the batches did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import structlog

from rebalance_monitor.cluster.clients.reader import Reading, RecordReader
from rebalance_monitor.engine.batch.batches import BatchKey
from rebalance_monitor.engine.batch.step import Extent

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Mapping, Sequence

    from rebalance_monitor.checkpoints.state.changelog import Begun, Changelog
    from rebalance_monitor.engine.driver.writer import BatchWriter
    from rebalance_monitor.engine.embedded.core import Core

log = structlog.get_logger()


def run_again(
    kept: Changelog,
    core: Core,
    start: Mapping[int, int],
    properties: Mapping[str, str],
    writer: BatchWriter,
    stop: threading.Event,
) -> dict[int, int]:
    """Apply what was begun since the last state, which ends at `start`; return where to read on.

    A partition that is not in `start` has no leader: its part of the batches waits until it has one. Nothing
    more is applied once `stop` is set. Raises DependencyError, and what the writer raises.
    """
    found = kept.recovered
    if not found.begun:
        return dict(start)
    log.info("batches run again", first=found.begun[0].batch, last=found.begun[-1].batch)
    until: dict[int, int] = {}
    for begun in found.begun:
        until |= begun.until
    reading = Reading(start, until, stop=stop)
    with RecordReader(properties, reading, found.topic) as reader:
        records = list(reader.batches())
    for begun, own in cut(records, found.begun):
        if stop.is_set():
            break
        extent = Extent.LIMITED if begun.limited else Extent.USUAL
        still = {*begun.still, *(core.shards.keys() - begun.until.keys())}
        writer.apply(BatchKey(kept.query, begun.batch), core.apply(own, begun.now, extent, still))
    return {p: max(until.get(p, at), at) for p, at in start.items()}


def cut(
    records: list[pa.RecordBatch], batches: Sequence[Begun]
) -> Iterator[tuple[Begun, list[pa.RecordBatch]]]:
    """Yield each of `batches` with its own records: below its ends, and in no batch before.

    `records` is emptied on the way: each of them is copied, and they may be a million.
    """
    own: list[list[pa.RecordBatch]] = [[] for _ in batches]
    while records:
        batch = records.pop(0)
        numbers = _numbers(batch, batches)
        order = np.argsort(numbers, kind="stable")
        by_number, counts = batch.take(pa.array(order)), np.bincount(numbers, minlength=len(batches))
        begin = 0
        for found, count in zip(own, counts.tolist(), strict=False):
            if count:
                found.append(by_number.slice(begin, count))
            begin += count
    yield from zip(batches, own, strict=True)


def _numbers(records: pa.RecordBatch, batches: Sequence[Begun]) -> npt.NDArray[np.int64]:
    """Return of each record which of `batches` ends behind it first; their number where none does."""
    partition, offset = records.column("partition").to_numpy(), records.column("offset").to_numpy()
    found = np.zeros(len(offset), np.int64)
    for one in np.unique(partition).tolist():
        ends = np.maximum.accumulate([begun.until.get(one, 0) for begun in batches])
        here = partition == one
        found[here] = np.searchsorted(ends, offset[here], side="right")
    return found
