"""The job without Spark: a capture through the same coordinator, roll-up and live part, in record time.

Every tick of the timeline is a batch: rows to their shards, the clock to every shard seen, the probe's
sightings up to it, then the roll-up and what sightings add. The clock stops with the last record or sighting:
nothing was read after it, so silence means nothing there; only a shard that waits for a removal to close is
told two seconds more. While a shard reads history the clock does not reach it. A record that breaks a
coordinator is logged, and costs nothing but itself, as in the job.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import structlog

from rebalance_monitor.cluster.captures.capture import CaptureError, read_capture
from rebalance_monitor.coordinator.findings.finding import stamp
from rebalance_monitor.coordinator.findings.outputs import read_until
from rebalance_monitor.coordinator.live import Live
from rebalance_monitor.coordinator.probe import sample as seen
from rebalance_monitor.coordinator.removal import CLOSES_AFTER_MS
from rebalance_monitor.coordinator.rollup.rollup import RollUp
from rebalance_monitor.decoders import Decoded, Failure, decode_batch, decode_record
from rebalance_monitor.engine.batch.batches import batch_of
from rebalance_monitor.engine.batch.step import Extent, OpenShard, Plan
from rebalance_monitor.engine.memory import uncollected
from rebalance_monitor.engine.replay.timeline import Lane, timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    import pyarrow as pa

    from rebalance_monitor.cluster.captures.capture import Capture
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.findings.outputs import Output
    from rebalance_monitor.coordinator.probe.sample import ProbeSample
    from rebalance_monitor.coordinator.settings import DetectionSettings
    from rebalance_monitor.engine.batch.batches import Batch
    from rebalance_monitor.engine.replay.timeline import Tick

    ShardOutput = tuple[int, Output]
    """A shard, and what its coordinator said."""

    Watch = Callable[[int, Batch, list[Finding]], None]
    """Given each batch's clock (ms), what the shards said, and the findings that were made of it."""

log = structlog.get_logger()
# Fifty shards are open at once: small batches keep them in memory.
BATCH_ROWS = 8_192
# The records other than commits in fifty such batches, as a rule; some 30 MB at the most.
_REMEMBERED, _REMEMBERED_BYTES = 4_096, 2_048


def replay_capture(
    path: Path,
    settings: DetectionSettings,
    cluster: str | None = None,
    *,
    history_until: Mapping[int, int] | None = None,
    progress: Callable[[int], None] | None = None,
    watch: Watch | None = None,
) -> Iterator[Finding]:
    """Yield the findings of a capture in record time, `detected_at` being the clock's tick.

    `cluster` is the cluster id that ids are made with, by default the capture's own. `history_until`
    (partition -> offset): what lies before is history; by default everything is live. `progress` is told the
    number of records read, `watch` each batch before its findings are given. Raises CaptureError.
    """
    capture = read_capture(path)
    name = cluster if cluster is not None else capture.metadata.cluster_id
    replay = Replay(settings, name, history_until, watch=watch)
    with capture.by_partition(BATCH_ROWS) as streams:
        lanes = [Lane(shard, _decoded(stream, progress)) for shard, stream in streams.items()]
        yield from replay.run(timeline(lanes), read_sightings(capture))


def read_sightings(capture: Capture) -> Iterator[ProbeSample]:
    """Yield the capture's sightings. Raises CaptureError for a line that is none."""
    for line in capture.sighting_lines():
        try:
            yield seen.from_json(line)
        except (ValueError, KeyError, TypeError) as error:
            raise CaptureError(f"{capture.sightings} has a line that is no sighting: {error}") from error


@dataclass(slots=True)
class Replay:
    """The coordinators of all shards with roll-up and live part."""

    settings: DetectionSettings
    cluster: str
    history_until: Mapping[int, int] | None = None
    shards: dict[int, OpenShard] = field(default_factory=dict)
    now: int = -1
    watch: Watch | None = None
    summaries: dict[str, dict[str, Any]] = field(default_factory=dict)
    summarise: bool = False

    def run(self, ticks: Iterator[Tick], sightings: Iterator[ProbeSample]) -> Iterator[Finding]:
        """Yield the findings of all ticks and sightings; sightings in order of time."""
        batches = self._batches(ticks, sightings)
        while True:
            with uncollected():
                one = next(batches, None)
            if one is None:
                return
            batch, findings = one
            if self.watch is not None:
                self.watch(batch.now, batch, findings)
            yield from findings

    def _batches(
        self, ticks: Iterator[Tick], sightings: Iterator[ProbeSample]
    ) -> Iterator[tuple[Batch, list[Finding]]]:
        roll_up, live = RollUp(self.settings, self.cluster), Live(self.settings, self.cluster)
        waiting = next(sightings, None)
        self.summarise = self.watch is not None or waiting is not None
        for tick in ticks:
            looks: list[ProbeSample] = []
            while waiting is not None and waiting.at < tick.now:
                looks.append(waiting)
                waiting = next(sightings, None)
            yield self._told(tick.now, self._step(tick), looks, roll_up, live)
        while waiting is not None:
            now = max(self.now, waiting.at)
            yield self._told(now, self._clock(now), [waiting], roll_up, live)
            waiting = next(sightings, None)
        yield self._told(self.now, self._closing(), [], roll_up, live)

    def _told(
        self, now: int, outputs: Iterable[ShardOutput], looks: list[ProbeSample], roll_up: RollUp, live: Live
    ) -> tuple[Batch, list[Finding]]:
        """Make one batch of its outputs and looks, and the findings of both."""
        batch = batch_of(outputs)
        batch.now = self.now = now
        stats = [stat for _, stat in batch.stats]
        self._learn(batch)
        for trouble in batch.troubles:
            log.warning("the coordinator failed", **trouble)
        findings = batch.findings
        found = live.on_sightings(looks, self.summaries, findings, read_until(stats)) if looks else []
        found += live.refine(findings)
        found += roll_up.on_batch(found, stats, now)
        return batch, [stamp(finding, now) for finding in found]

    def _step(self, tick: Tick) -> Iterator[ShardOutput]:
        for number, rows in tick.rows.items():
            shard = self.shards.get(number) or self._new(number)
            for output in shard.advance(rows, tick.now, ticks=False, extent=Extent.PROVEN):
                yield number, output
        yield from self._clock(tick.now)

    def _clock(self, now: int) -> Iterator[ShardOutput]:
        for number, shard in self.shards.items():
            if shard.state.catching_up_until is None:
                for output in shard.advance((), now, ticks=True, extent=Extent.PROVEN):
                    yield number, output

    def _closing(self) -> Iterator[ShardOutput]:
        """Let the shards that wait for a removal to close tell it."""
        for number, shard in self.shards.items():
            if shard.state.pending is not None:
                at = max(shard.state.pending.ts + CLOSES_AFTER_MS, shard.now or 0)
                for output in shard.advance((), at, ticks=True, extent=Extent.PROVEN):
                    yield number, output

    def _new(self, number: int) -> OpenShard:
        plan = Plan(self.settings, self.cluster, dict(self.history_until or {}))
        made = self.shards[number] = OpenShard(plan, number, 0, None, summaries=self.summarise, read=_read)
        return made

    def _learn(self, batch: Batch) -> None:
        """Take what the shards told of their groups, as the job does: it asks for no more."""
        for group in batch.removed:
            self.summaries.pop(group, None)
        self.summaries |= batch.groups


def _read(key: bytes | None, value: bytes | None) -> Decoded | Failure:
    """Read a record: its batch does so, and then its shard, where small ones are remembered until then."""
    return (_remembered if len(value or b"") <= _REMEMBERED_BYTES else decode_record)(key, value)


_remembered = lru_cache(_REMEMBERED)(decode_record)


def _decoded(
    stream: Iterator[pa.RecordBatch], progress: Callable[[int], None] | None
) -> Iterator[pa.RecordBatch]:
    for batch in stream:
        yield decode_batch(batch, read=_read)
        if progress:
            progress(batch.num_rows)
