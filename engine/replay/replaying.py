"""The job without Spark: a capture through the same coordinator, roll-up and live part, in record time.

Every tick of the timeline is a batch: rows to their shards, the clock to every shard with rows so far, the
probe samples and the samples of ends up to it, then the roll-up. Lag is followed if the capture has samples
of ends. The clock stops with the last record or sample: nothing was read after it, so silence is no evidence
there. Only a shard with an undecided removal gets two seconds more. While a shard reads history the clock
does not reach it. A record that breaks a coordinator is logged and skipped, as in the job.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import structlog

from rebalance_monitor.cluster.captures.capture import SAMPLE_OF_ENDS, SIGHTING, CaptureError, read_capture
from rebalance_monitor.cluster.captures.captured import DAMAGE
from rebalance_monitor.coordinator.findings.finding import stamp
from rebalance_monitor.coordinator.findings.outputs import read_until, served
from rebalance_monitor.coordinator.lag import ends
from rebalance_monitor.coordinator.lag.board import Board
from rebalance_monitor.coordinator.lag.costs.handovers import handed_over
from rebalance_monitor.coordinator.lag.ends import EndsSample
from rebalance_monitor.coordinator.lag.following import Lag, News
from rebalance_monitor.coordinator.live import Live
from rebalance_monitor.coordinator.probe import sample
from rebalance_monitor.coordinator.probe.sample import ProbeSample, groups_seen
from rebalance_monitor.coordinator.refine.reattribution import by_evidence
from rebalance_monitor.coordinator.removal import CLOSES_AFTER_MS
from rebalance_monitor.coordinator.rollup.rollup import RollUp
from rebalance_monitor.decoders import decode_batch
from rebalance_monitor.decoders.rows import unreadable as why_unreadable
from rebalance_monitor.engine.batch.batches import batch_of, publish_commits, with_lag
from rebalance_monitor.engine.batch.read_once import ReadOnce
from rebalance_monitor.engine.batch.step import Extent, OpenShard, Plan
from rebalance_monitor.engine.memory import uncollected
from rebalance_monitor.engine.replay.timeline import Lane, timeline

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.findings.outputs import Output, StatOut
    from rebalance_monitor.coordinator.refine.reattribution import Judge
    from rebalance_monitor.coordinator.settings import DetectionSettings
    from rebalance_monitor.engine.batch.batches import Batch
    from rebalance_monitor.engine.replay.timeline import Tick

    ShardOutput = tuple[int, Output]
    """A shard, and what its coordinator said."""

    Watch = Callable[[int, Batch, list[Finding]], None]
    """Given each batch's clock (ms), what the shards said, and the findings that were made of it."""

Sample = TypeVar("Sample", ProbeSample, EndsSample)
log = structlog.get_logger()
# Fifty shards are open at once: small batches keep them in memory.
BATCH_ROWS = 8_192
READ_BYTES = 4 << 20
"""The records other than commits in fifty such batches, as a rule."""


def replay_capture(
    path: Path,
    settings: DetectionSettings,
    cluster: str | None = None,
    *,
    history_until: Mapping[int, int] | None = None,
    progress: Callable[[int], None] | None = None,
    watch: Watch | None = None,
    judge: Judge = by_evidence,
    unreadable: Counter[str] | None = None,
) -> Iterator[Finding]:
    """Yield the findings of a capture in record time, `detected_at` being the clock's tick.

    `cluster` is the cluster id that ids are made with, by default the capture's own. `history_until`
    (partition -> offset): records before are history; by default everything is live. `progress` is called
    with the number of records read, `watch` with each batch before its findings. `judge` explains
    rebalances. `unreadable` counts the records that could not be read, by reason. Raises CaptureError.
    """
    capture = read_capture(path)
    name = cluster if cluster is not None else capture.metadata.cluster_id
    replay = Replay(settings, name, history_until, watch=watch, judge=judge)
    with capture.by_partition(BATCH_ROWS) as streams:
        lanes = [
            Lane(shard, _decoded(stream, replay.records, progress, unreadable))
            for shard, stream in streams.items()
        ]
        lines = capture.sample_lines()
        probed = Samples(_read_samples(lines, sample.from_json, capture.sightings, SIGHTING))
        asked = Samples(_read_samples(capture.ends_lines(), ends.from_json, capture.ends, SAMPLE_OF_ENDS))
        yield from replay.run(timeline(lanes), probed, asked)


def _read_samples(
    lines: Iterator[str], read: Callable[[str], Sample], path: Path | None, what: str
) -> Iterator[Sample]:
    for number, line in enumerate(lines, 1):
        try:
            yield read(line)
        except DAMAGE as error:
            raise CaptureError(f"{path}, line {number} is no {what}: {error}") from error


class Samples(Generic[Sample]):
    """Samples in order of `at`, taken as the clock reaches them."""

    def __init__(self, samples: Iterator[Sample]) -> None:
        self._samples: Iterator[Sample] = samples
        self.next: Sample | None = next(samples, None)

    def before(self, now: int) -> list[Sample]:
        """Take the samples made before `now` (ms)."""
        found: list[Sample] = []
        while self.next is not None and self.next.at < now:
            found.append(self.next)
            self.next = next(self._samples, None)
        return found


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the probe and the ends thread saw up to a tick."""

    probed: Sequence[ProbeSample] = ()
    samples: Sequence[EndsSample] = ()


@dataclass(slots=True)
class _Driver:
    """What the job's driver adds to what shards say.

    board: the groups' positions. lag: None if the capture has no samples of ends.
    """

    roll_up: RollUp
    live: Live
    board: Board
    lag: Lag | None

    @classmethod
    def begun(
        cls, settings: DetectionSettings, cluster: str, judge: Judge, *, is_watched: bool, follows_lag: bool
    ) -> _Driver:
        """Return one without any memory; `is_watched`: whether somebody shows lag and positions."""
        board = Board(measures=is_watched or follows_lag)
        lag = Lag(settings, cluster, board=board) if follows_lag else None
        return cls(RollUp(settings, cluster), Live(settings, cluster, judge=judge), board, lag)

    def findings(
        self,
        batch: Batch,
        seen: _Seen,
        summaries: Mapping[str, Mapping[str, Any]],
        stats: Sequence[StatOut],
    ) -> list[Finding]:
        """Return a batch's findings, refined, with the findings of samples, lag and the roll-up."""
        published, probed = batch.findings, seen.probed
        until = read_until(stats)
        found = self.live.on_samples(probed, summaries, published, until, self.board) if probed else []
        ends = None if self.lag is None else self.board
        found += self.live.refine(published, served=served(stats), ends=ends)
        if self.lag is not None:
            busy = groups_seen(probed)
            news = News(
                batch.committed,
                batch.removed,
                busy,
                seen.samples,
                summaries,
                batch.now,
                batch.now,
                probed=probed,
                shards=batch.shards,
                handed=batch.handed,
                fresh=batch.groups,
            )
            found = with_lag(found, batch, self.lag, news)
            return found + self.lag.priced_together(self.roll_up.on_batch(found, stats, batch.now))
        for group, held in batch.committed.items():
            self.board.publish(group, held, batch.now)
        publish_commits(batch, self.board)
        return found + self.roll_up.on_batch(found, stats, batch.now)


@dataclass(slots=True)
class Replay:
    """The coordinators of all shards with roll-up and live part."""

    settings: DetectionSettings
    cluster: str
    history_until: Mapping[int, int] | None = None
    shards: dict[int, OpenShard] = field(default_factory=dict)
    now: int = -1
    watch: Watch | None = None
    judge: Judge = by_evidence
    summaries: dict[str, dict[str, Any]] = field(default_factory=dict)
    summarise: bool = False
    records: ReadOnce = field(default_factory=lambda: ReadOnce(READ_BYTES))

    def run(
        self, ticks: Iterator[Tick], probed: Samples[ProbeSample], asked: Samples[EndsSample]
    ) -> Iterator[Finding]:
        """Yield the findings of all ticks, probe samples and samples of ends."""
        batches = self._batches(ticks, probed, asked)
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
        self, ticks: Iterator[Tick], probed: Samples[ProbeSample], asked: Samples[EndsSample]
    ) -> Iterator[tuple[Batch, list[Finding]]]:
        driver = _Driver.begun(
            self.settings,
            self.cluster,
            self.judge,
            is_watched=self.watch is not None,
            follows_lag=asked.next is not None,
        )
        self.summarise = any((self.watch, probed.next, asked.next))
        for tick in ticks:
            seen = _Seen(probed.before(tick.now), asked.before(tick.now))
            yield self._make_batch(tick.now, self._step(tick), seen, driver)
        while left := [one.next for one in (probed, asked) if one.next is not None]:
            at = min(one.at for one in left)
            now = max(self.now, at)
            yield self._make_batch(
                now, self._clock(now), _Seen(probed.before(at + 1), asked.before(at + 1)), driver
            )
        yield self._make_batch(self.now, self._closing(), _Seen(), driver)

    def _make_batch(
        self, now: int, outputs: Iterable[ShardOutput], seen: _Seen, driver: _Driver
    ) -> tuple[Batch, list[Finding]]:
        """Make one batch of its outputs and of what was seen, and the findings of both."""
        batch = batch_of(outputs)
        batch.now = self.now = now
        stats = [stat for _, stat in batch.stats]
        self._learn(batch)
        for trouble in batch.troubles:
            log.warning("the coordinator failed", **trouble)
        found = driver.findings(batch, seen, self.summaries, stats)
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
        """Let the shards report removals that are still to be confirmed."""
        for number, shard in self.shards.items():
            if shard.state.pending is not None:
                at = max(shard.state.pending.ts + CLOSES_AFTER_MS, shard.now or 0)
                for output in shard.advance((), at, ticks=True, extent=Extent.PROVEN):
                    yield number, output

    def _new(self, number: int) -> OpenShard:
        plan = Plan(self.settings, self.cluster, dict(self.history_until or {}))
        made = self.shards[number] = OpenShard(
            plan, number, 0, None, summaries=self.summarise, read=self.records.again
        )
        return made

    def _learn(self, batch: Batch) -> None:
        """Take the summaries of the shards, as the job does."""
        for group in batch.removed:
            self.summaries.pop(group, None)
        batch.handed = handed_over(batch.groups, self.summaries)
        self.summaries |= batch.groups


def _decoded(
    stream: Iterator[pa.RecordBatch],
    records: ReadOnce,
    progress: Callable[[int], None] | None,
    unreadable: Counter[str] | None,
) -> Iterator[pa.RecordBatch]:
    for batch in stream:
        decoded = decode_batch(batch, read=records.first)
        if unreadable is not None:
            unreadable.update(why_unreadable(decoded))
        yield decoded
        if progress:
            progress(batch.num_rows)
