"""The coordinators of all shards in one process, open from batch to batch.

A batch of records is decoded, cut by shard, and applied; the clock reaches every shard, also those without
records, as Spark's clock rows do. Pure but for memory: the same batches and timestamps give the same outputs
as Spark's operator (`step`), because both advance the same coordinators.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np

from rebalance_monitor.checkpoints.state.codec import Stored
from rebalance_monitor.decoders import decode_batch, pieces
from rebalance_monitor.decoders.rows import made_rows
from rebalance_monitor.engine.batch.batches import batch_of
from rebalance_monitor.engine.batch.read_once import ReadOnce
from rebalance_monitor.engine.batch.step import Extent, OpenShard, measured

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    import pyarrow as pa

    from rebalance_monitor.coordinator.findings.outputs import Output
    from rebalance_monitor.decoders import Row
    from rebalance_monitor.engine.batch.batches import Batch
    from rebalance_monitor.engine.batch.step import Plan


@dataclass(frozen=True, slots=True)
class Census:
    """What the coordinators know. oldest_ms: age of the oldest record read, -1 without one.

    shown: how many of the groups are shown.
    """

    partitions: int
    groups: int
    shown: int
    with_members: int
    oldest_ms: int


class Core:
    """The coordinators of `shards`. Raises StateVersionError.

    stored: shard -> what was kept of it. at: the last batch's time then (ms), which those that were `still`
    have not seen.
    """

    def __init__(
        self,
        plan: Plan,
        shards: Iterable[int],
        stored: Mapping[int, Stored] | None = None,
        at: int = -1,
        still: Collection[int] = (),
    ) -> None:
        self.plan = plan
        self._bytes: dict[int, int] = {}
        self._oldest = -1
        self._changed: set[int] = set()
        self._failed: list[tuple[int, Output]] = []
        self._records = ReadOnce()
        known, nothing = stored or {}, Stored(-1, b"")
        self.shards: dict[int, OpenShard] = {}
        for shard in sorted(shards):
            kept = known.get(shard, nothing)
            if shard not in still:
                # One that rested was kept some batches before, or never: the last clock reached it too.
                kept = Stored(max(at, kept.now), kept.blob)
            self._open(shard, kept)

    def add(self, ends: Mapping[int, int]) -> None:
        """Take further shards, which are read from their beginnings: what is before `ends` is history."""
        self.plan = replace(self.plan, catching_up={**self.plan.catching_up, **ends})
        for shard in sorted(ends):
            self._open(shard, Stored(-1, b""))

    def _open(self, shard: int, kept: Stored) -> None:
        stored = kept if kept.now >= 0 else None
        self.shards[shard] = OpenShard(self.plan, shard, 0, stored, read=self._records.again)

    def apply(
        self,
        records: Iterable[pa.RecordBatch],
        now: int,
        extent: Extent,
        still: Collection[int] = (),
        *,
        ticks: bool = True,
    ) -> Batch:
        """Apply one batch at its timestamp `now` (ms); `extent` says what that time is worth.

        It is worth nothing to shards that stand `still`: of these nobody knows what is yet to be read.
        `ticks`: deadlines are judged after the records, and groups are summarised.
        """
        rows, newest = self._by_shard(records)
        if rows:
            # Records come in the order of their offsets: a shard's first one is its oldest.
            oldest = min(own[0].record_ts for own in rows.values())
            self._oldest = min(oldest, self._oldest) if self._oldest >= 0 else oldest
        return batch_of(self._outputs(rows, now, newest, extent, still, ticks=ticks))

    def freeze(self) -> tuple[dict[int, Stored], set[int]]:
        """Return what is to be kept of the shards that changed since the last call, and which cannot be.

        A shard that only the clock has passed has not changed: its clock is that of the batches. One that
        cannot be kept is tried again with the next call.
        """
        found: dict[int, Stored] = {}
        unkept: set[int] = set()
        for number in sorted(self._changed):
            stored, failed = self.shards[number].close(rests=True)
            if failed:
                unkept.add(number)
                self._failed += [(number, output) for output in failed]
            else:
                found[number], self._bytes[number] = stored, len(stored.blob)
        self._changed = set(unkept)
        return found, unkept

    def census(self, now: int, is_shown: Callable[[str], bool] = lambda _: True) -> Census:
        """Count what is known at `now` (ms)."""
        groups = [group for shard in self.shards.values() for group in shard.state.groups.values()]
        age = max(now - self._oldest, 0) if self._oldest >= 0 else -1
        shown = sum(map(is_shown, chain.from_iterable(shard.state.groups for shard in self.shards.values())))
        return Census(len(self.shards), len(groups), shown, sum(1 for group in groups if group.members), age)

    def _outputs(
        self,
        rows: dict[int, list[Row]],
        now: int,
        newest: int,
        extent: Extent,
        still: Collection[int],
        *,
        ticks: bool,
    ) -> Iterator[tuple[int, Output]]:
        """Yield what each shard gives; `rows` is emptied on the way."""
        yield from self._failed
        self._failed = []
        resting = []
        for number, shard in self.shards.items():
            own = rows.pop(number, [])
            is_still = number in still
            if not own:
                if is_still:
                    continue
                resting.append(number)
            is_catching_up = shard.state.catching_up_until is not None
            worth = Extent.LIMITED if is_still else extent
            outputs = shard.advance(own, now, ticks=ticks, newest=newest, extent=worth)
            if own or is_catching_up or len(outputs) > 1:
                # The clock alone gives the shard's counters, and nothing else where no group is due; it is
                # counted while the shard waits for the rest of its history.
                self._changed.add(number)
            for output in outputs:
                yield number, output
            for stat in measured(shard.state, own, now, self._bytes.get(number, 0)) if own else ():
                yield number, stat
        if resting:
            # One summary stands for all that had no rows: of an idle topic it would be fifty.
            first, kept = resting[0], sum(self._bytes.get(number, 0) for number in resting)
            for stat in measured(self.shards[first].state, (), now, kept):
                yield first, stat

    def _by_shard(self, records: Iterable[pa.RecordBatch]) -> tuple[dict[int, list[Row]], int]:
        """Return the rows of each shard in the order of their offsets, and the newest record's time (ms)."""
        found: defaultdict[int, list[Row]] = defaultdict(list)
        newest = -1
        for part in (part for batch in records for part in pieces(batch)):
            decoded = decode_batch(part, read=self._records.first)
            if not decoded.num_rows:
                continue
            rows, shards = list(made_rows(decoded)), decoded.column("shard").to_numpy()
            newest = max(newest, int(decoded.column("record_ts").to_numpy().max()))
            # They come by shard.
            borders = [0, *(np.flatnonzero(np.diff(shards)) + 1).tolist(), len(rows)]
            for since, until in pairwise(borders):
                found[rows[since].shard] += rows[since:until]
        return found, newest
