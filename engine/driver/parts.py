"""The driver's pure parts: live view, lag, roll-up and health, fed with batches and probe samples.

Their states are taken from the ledger's snapshot and go back into it with each batch, so a batch that failed
half-way counts once. What the probe saw during a batch that is run again is gone: only findings that the
probe itself decides depend on it, never an id of another.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rebalance_monitor.checkpoints.ledger import LedgerError
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.outputs import read_until, served
from rebalance_monitor.coordinator.lag.board import Board
from rebalance_monitor.coordinator.lag.costs.handovers import handed_over
from rebalance_monitor.coordinator.lag.following import Lag, News
from rebalance_monitor.coordinator.live import Live
from rebalance_monitor.coordinator.modern.epoch_group import GROUP_TYPES
from rebalance_monitor.coordinator.probe.sample import ProbeSample, groups_seen
from rebalance_monitor.coordinator.rollup.rebuild import Outcome, Reading, Rebuilt
from rebalance_monitor.coordinator.rollup.rollup import RollUp
from rebalance_monitor.engine.batch.batches import with_lag
from rebalance_monitor.engine.health.health import PROBE_MS, USUAL_AGE_MS, Health
from rebalance_monitor.engine.health.notices import Notices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rebalance_monitor.checkpoints.ledger import Snapshot
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.lag.ends import EndsSample
    from rebalance_monitor.coordinator.probe.sample import ProbeSample
    from rebalance_monitor.coordinator.settings import DetectionSettings
    from rebalance_monitor.engine.batch.batches import Batch

_EPOCHS = frozenset(GROUP_TYPES.values())


class Parts:
    """The parts of one job. `drain` returns the probe samples since its last call.

    `notices`: notices of the main loop; `usual_age_ms` and `probe_ms`: see Health. `opened` returns the
    newest published finding of each open incident. `ends` returns the samples of topics' ends since its last
    call; it is None if there are never any.
    """

    def __init__(
        self,
        settings: DetectionSettings,
        cluster: str,
        drain: Callable[[], list[ProbeSample]],
        notices: Notices | None = None,
        usual_age_ms: int = USUAL_AGE_MS,
        probe_ms: int | None = PROBE_MS,
        opened: Callable[[], Iterable[Finding]] = tuple,
        ends: Callable[[], list[EndsSample]] | None = list,
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._drain = drain
        self._notices = notices or Notices()
        self._usual_age_ms = usual_age_ms
        self._probe_ms = probe_ms
        self._opened = opened
        self._ends = ends or list
        self._board = Board(measures=ends is not None)
        self._summaries: dict[str, dict[str, Any]] = {}
        self._has_new_groups = False
        self._now = -1

    def has_new_groups(self) -> bool:
        """Whether epoch-based groups were seen for the first time since the last call."""
        found, self._has_new_groups = self._has_new_groups, False
        return found

    def topics(self) -> frozenset[str]:
        """Return the topics whose ends matter; any thread may ask."""
        return self._board.topics

    def asks(self) -> tuple[str, ...]:
        """Return the groups whose committed offsets the brokers shall be asked for; any thread may ask."""
        return self._board.asks

    def followed(self) -> int:
        """Return how many partitions all groups consume together; any thread may ask."""
        return self._board.followed

    def recall(self, summaries: Mapping[str, Mapping[str, Any]]) -> None:
        """Take what an earlier process knew of the groups: each is summarised anew only when it changes."""
        self._summaries = {name: dict(summary) for name, summary in summaries.items() if summary}

    def begin_anew(self, groups: Iterable[str] = (), shard: int | None = None) -> bool:
        """Hold what is open: the state, or that of `shard`, knows nothing of it. True if there is anything.

        `groups`: all that are known, where history is read from its beginning.
        """
        self._live.forget_records(shard)
        others = self._live.opened | self._lag.opened
        opened = [finding for finding in self._opened() if finding.incident not in others]
        self._rebuilt.begin(opened, groups, shard)
        return bool(self._rebuilt.snapshot())

    def restore(self, snapshot: Snapshot) -> None:
        """Take the states of the parts from `snapshot`. Raises LedgerError."""
        try:
            self._restore(snapshot)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LedgerError(
                f"What the ledger remembers of groups and incidents cannot be read ({error}). Another "
                "version wrote it, or it is damaged: run that version, restore ledger/snapshot.json from a "
                "backup, or move the whole storage folder away and start afresh."
            ) from error

    def _restore(self, snapshot: Snapshot) -> None:
        # Copies, because the parts change what they are given and the snapshot must stay as committed.
        self._rollup = RollUp(self._settings, self._cluster, deepcopy(snapshot.rollup))
        self._live = Live(self._settings, self._cluster, deepcopy(snapshot.live))
        self._rebuilt = Rebuilt(self._settings, self._cluster, deepcopy(snapshot.rebuilt))
        self._lag = Lag(self._settings, self._cluster, deepcopy(snapshot.lag), self._board)
        self._health = Health(
            self._settings,
            self._cluster,
            snapshot.health,
            self._notices,
            self._usual_age_ms,
            self._probe_ms,
        )
        self._now = snapshot.now

    def findings(self, batch: Batch, wall: int) -> list[Finding]:
        """Return the batch's findings, refined, with the findings of the parts; `wall` in ms."""
        for trouble in batch.troubles:
            if trouble["kind"] == "state_lost":
                self.begin_anew(shard=trouble["shard"])
        samples = self._drain()
        self._learn(batch)
        stats = [stat for _, stat in batch.stats]
        read = read_until(stats)
        seen = self._live.on_samples(samples, self._summaries, batch.findings, read, self._board)
        # A probe that was switched off ends nothing of what it had opened.
        seen += self._live.give_up(wall) if self._probe_ms is None else []
        skewed = self._health.skewed
        findings = [*seen, *self._live.refine(batch.findings, skewed, served(stats), self._board)]
        # A batch that Spark did not make has no time; Spark's goes back where the driver's clock does.
        self._now = batch.now if batch.now >= 0 else self._now
        findings = self._with_lag(findings, batch, samples, wall)
        rolled = self._rollup.on_batch(findings, stats, self._now)
        return [*findings, *self._lag.priced_together(rolled), *self._health.on_batch(batch, samples, wall)]

    def _with_lag(
        self, findings: list[Finding], batch: Batch, probed: Sequence[ProbeSample], wall: int
    ) -> list[Finding]:
        """Return the findings with their cost, and the findings that lag decides."""
        samples = self._ends()
        busy = groups_seen(probed)
        news = News(
            batch.committed,
            batch.removed,
            busy,
            samples,
            self._summaries,
            batch.now,
            wall,
            probed=probed,
            shards=batch.shards,
            handed=batch.handed,
            fresh=batch.groups,
        )
        found = with_lag(findings, batch, self._lag, news)
        if samples:
            missing = self._lag.missing()
            if missing is not None:
                self._notices.hold(Cause.ENDS_PARTIAL, missing)
        return found

    def carry_over(self, findings: list[Finding], again: Iterable[Finding], batch: Batch) -> Outcome:
        """Return what to publish of `findings`, otherwise final, after the state was rebuilt.

        `again`: findings of the batch that were published before.
        """
        reads = [stat.data["catching_up"] for _, stat in batch.stats if stat.kind == "shard"]
        catching_up = any(reads) if reads else None
        reading = Reading(again, batch.groups, batch.removed, catching_up, self._now)
        return self._rebuilt.on_batch(findings, reading)

    def learn_again(self, batch: Batch) -> None:
        """Take the positions of a batch that was published before a restart.

        The coordinators publish all of them to a new process, once: in the first batch, which may be one that
        is run again. A group that commits no more would be without lag from then on.
        """
        self._board.publish_all(batch.committed, batch.now, batch.shards)
        self._board.want(batch.now)

    def into(self, snapshot: Snapshot) -> Snapshot:
        """Return `snapshot` with the states of the parts; they go on changing, so it is written at once."""
        return replace(
            snapshot,
            rollup=self._rollup.snapshot(),
            live=self._live.snapshot(),
            health=self._health.snapshot(),
            rebuilt=self._rebuilt.snapshot(),
            lag=self._lag.snapshot(),
        )

    def _learn(self, batch: Batch) -> None:
        for group in batch.removed:
            self._summaries.pop(group, None)
        self._has_new_groups |= any(
            summary.get("group_type") in _EPOCHS
            for name, summary in batch.groups.items()
            if name not in self._summaries
        )
        batch.handed = handed_over(batch.groups, self._summaries)
        self._summaries |= batch.groups
