"""The lag part of the driver: positions and samples of ends in, findings and every group's lag out.

Pure, as the other parts: its memory is JSON-able and is committed with each batch. Positions and windows are
not in it: the coordinators publish all positions to a new process, and windows begin anew. The newest ends of
the logs are, so that records which are lost while no process watches are reported by the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.lag.board import Board
from rebalance_monitor.coordinator.lag.costs.incidents import Costs, RollUpCosts
from rebalance_monitor.coordinator.lag.costs.rebalances import RebalanceCosts
from rebalance_monitor.coordinator.lag.ends import LATELY_MS
from rebalance_monitor.coordinator.lag.judging import continuing
from rebalance_monitor.coordinator.lag.judging.continuing import Silences
from rebalance_monitor.coordinator.lag.judging.losses import Losses
from rebalance_monitor.coordinator.lag.judging.standstills import Standstills
from rebalance_monitor.coordinator.lag.judging.unowned import Unowned
from rebalance_monitor.coordinator.lag.measured import Lags
from rebalance_monitor.coordinator.lag.measuring import Windows
from rebalance_monitor.coordinator.state.state_machine import Status

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.lag.consumed import Consumed
    from rebalance_monitor.coordinator.lag.coordinators import Sample
    from rebalance_monitor.coordinator.lag.costs.handovers import Handover
    from rebalance_monitor.coordinator.lag.costs.incidents import Stopped
    from rebalance_monitor.coordinator.lag.ends import EndsSample
    from rebalance_monitor.coordinator.lag.measured import GroupLag
    from rebalance_monitor.coordinator.settings import DetectionSettings
    from rebalance_monitor.coordinator.state.positions import Positions

PARTIAL_SAMPLES = 12
"""So many samples in a row must miss ends until that is reported: leaders move, and brokers restart."""

PRUNE_MS = 60_000

_REBALANCED = frozenset({Kind.REBALANCE, Kind.REBALANCE_FAILED})


@dataclass(frozen=True, slots=True)
class News:
    """What one batch brings to lag. now: its clock (ms), -1 without one; wall: the driver's (ms).

    committed: group -> its positions; shards: group -> its partition of the offsets topic. removed:
    groups that are gone. rebalancing: groups that the probe saw to; probed: its samples, oldest first.
    samples: of the topics' ends, oldest first. summaries: group -> the newest; fresh: those of this batch.
    handed: group -> what changed hands since the summary before.
    """

    committed: Mapping[str, Positions]
    removed: Sequence[str]
    rebalancing: AbstractSet[str]
    samples: Sequence[EndsSample]
    summaries: Mapping[str, Mapping[str, Any]]
    now: int
    wall: int
    probed: Sequence[Sample] = ()
    shards: Mapping[str, int] = field(default_factory=dict)
    handed: Mapping[str, Handover] = field(default_factory=dict)
    fresh: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class Lag:
    """Follows the lag of all groups; `state` is what `snapshot` returned, None for a new start.

    `board` outlives a batch that fails: what it holds of positions and ends is no result of a batch.
    """

    def __init__(
        self,
        settings: DetectionSettings,
        cluster: str,
        state: dict[str, Any] | None = None,
        board: Board | None = None,
    ) -> None:
        memory = state or {}
        self.board = board or Board()
        self.board.windows = Windows(settings.lag_window_ms, settings.falling_behind_ms)
        self._judging = Standstills(settings, cluster, memory.get("judging"))
        self._silences = msgspec.convert(memory.get("silences", {}), Silences)
        self._judging.silences = self._silences
        self.board.recall(memory.get("logs", ""))
        self._losses = Losses(settings, cluster, memory.get("losses"), memory.get("cuts"))
        self._costs = Costs(settings, memory.get("costs"))
        self._unowned = Unowned(settings, cluster, memory.get("unowned"))
        self._roll_ups = RollUpCosts(memory.get("roll_ups"))
        self._rebalances = RebalanceCosts(settings, cluster, memory.get("rebalances"))
        self._rebalancing: set[str] = set()
        """Groups that were seen to since the last sample of ends."""
        self._missed = 0
        self._pruned_at = -PRUNE_MS

    def snapshot(self) -> dict[str, Any]:
        """JSON-able memory for the ledger."""
        return {
            "judging": self._judging.snapshot(),
            "losses": self._losses.snapshot(),
            "cuts": self._losses.cuts.snapshot(),
            "logs": self.board.remembered.text(),
            "costs": self._costs.snapshot(),
            "unowned": self._unowned.snapshot(),
            "rebalances": self._rebalances.snapshot(),
            "roll_ups": self._roll_ups.snapshot(),
            "silences": msgspec.to_builtins(self._silences),
        }

    def on_batch(self, findings: list[Finding], news: News) -> list[Finding]:
        """Return a batch's findings with what they cost, and the findings that lag decides."""
        for one in findings:
            continuing.learn(self._silences, one)
        for group, handover in news.handed.items():
            self._rebalances.on_handover(group, handover, self.board.groups.get(group))
        findings = [continuing.continued(one, self._judging.open_of(one.group or "")) for one in findings]
        ended = self.forget(news.removed, news.wall)
        for sample in news.probed:
            self.board.coordinators.on_sample(sample)
        ended += self.publish(news.committed, news.now if news.now >= 0 else news.wall, news.shards)
        self.board.include(self._unowned.wanted(news.summaries, news.fresh, news.removed))
        self._rebalancing |= news.rebalancing
        self._rebalancing.update(one.group for one in findings if one.group and one.kind in _REBALANCED)
        found = self.on_samples(news.samples, news.summaries, self._rebalancing)
        if news.samples:
            self._rebalancing = set()
        return [*self.priced(findings), *found, *ended]

    @property
    def opened(self) -> frozenset[str]:
        """Incidents that are open, and end by lag alone."""
        return self._judging.opened | self._losses.opened | self._unowned.opened

    def lags(self) -> Mapping[str, GroupLag]:
        """Return the newest lag of each group that has one."""
        groups = self.board.groups.items()
        return Lags({name: one.measured for name, one in groups if one.measured is not None})

    def publish(
        self, committed: Mapping[str, Positions], now: int, shards: Mapping[str, int] | None = None
    ) -> list[Finding]:
        """Take positions that groups have published at the clock `now` (ms); resolves where none are left."""
        self.board.publish_all(committed, now, shards or {})
        if committed:
            self.board.want(now)
        return self.forget([group for group in committed if group not in self.board.groups], now)

    def forget(self, groups: Iterable[str], at: int) -> list[Finding]:
        """Forget groups that are gone, and resolve what is open of them."""
        found: list[Finding] = []
        for group in groups:
            found += self._judging.end(group, at, "expired")
            found += self._losses.end(group, at, "expired")
            found += self._unowned.end(group, at, "expired")
            self._costs.forget(group)
            self._rebalances.forget(group)
            self._silences.pop(group, None)
            self.board.forget(group)
        return found

    def on_samples(
        self,
        samples: Sequence[EndsSample],
        summaries: Mapping[str, Mapping[str, Any]],
        rebalancing: Collection[str],
    ) -> list[Finding]:
        """Take samples of ends, oldest first; `rebalancing`: groups that were seen to since the last call."""
        found: list[Finding] = []
        for sample in samples:
            self._missed = self._missed + 1 if sample.partial else 0
            found += self._prune(summaries, sample.at)
            unsettled = {
                group
                for group, summary in summaries.items()
                if summary.get("state", Status.STABLE) != Status.STABLE
            }
            busy = unsettled | set(rebalancing) | self.board.cut_off()
            self.board.take(sample, busy)
            board = self.board
            self._losses.cuts.on_sample(sample, board.shortened, board.groups, board.remembered.began)
            found += self._check_groups(sample, summaries, busy)
            board.remember()
            found += self._unowned.on_sample(sample, summaries, rebalancing)
        return found

    def _prune(self, summaries: Mapping[str, Mapping[str, Any]], at: int) -> list[Finding]:
        """Forget groups of which only old positions are known: no record says when such a group goes."""
        if self._pruned_at <= at < self._pruned_at + PRUNE_MS:
            return []
        self._pruned_at = at
        stale = [
            group
            for group, consumed in self.board.groups.items()
            if group not in summaries and consumed.last_commit < at - LATELY_MS
        ]
        return self.forget(stale, at)

    def missing(self) -> str | None:
        """Return why ends are not known, "" where all are, None where no broker answers, or none was asked.

        Another part publishes that the brokers are away.
        """
        sample = self.board.sample
        if sample is None or sample.is_away:
            return None
        return sample.partial if self._missed >= PARTIAL_SAMPLES else ""

    def priced(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return findings with what they cost so far, and what else these costs change."""
        priced: list[Finding] = []
        ended: list[tuple[str, Stopped, Consumed]] = []
        for finding in findings:
            group = finding.group or ""
            consumed = self.board.groups.get(group)
            known = self._costs.open_of(finding) if finding.phase == "resolved" else None
            if known is not None and consumed is not None:
                ended.append((group, known, consumed))
            priced.append(self._costs.price(self._roll_ups.price(finding, self.board.groups), consumed))
            if finding.kind is Kind.REBALANCE and not finding.history:
                self._rebalances.on_rebalance(finding, consumed)
        for over in ended:
            priced += self._costs.inherited(*over)
        return priced

    def priced_together(self, rolled: Iterable[Finding]) -> list[Finding]:
        """Return roll-ups with what they cost their groups so far."""
        return [self._roll_ups.price(found, self.board.groups) for found in rolled]

    def _check_groups(
        self, sample: EndsSample, summaries: Mapping[str, Mapping[str, Any]], busy: Collection[str]
    ) -> list[Finding]:
        found: list[Finding] = []
        self._roll_ups.on_sample(sample.at, self.board.groups)
        # The order is that of the groups: most have nothing to be judged, and are passed over.
        concerned = self._concerned()
        everyone = self.board.groups.items()
        lost = self.board.noticed.lost
        losing = self.board.noticed.losing | {group for group, one in everyone if one.went_back}
        for group, consumed in everyone if concerned or losing else ():
            if group in concerned or group in losing:
                found += self._losses.on_sample(group, consumed, sample, lost.get(group, ()))
            if group in concerned:
                found += self._check(group, consumed, summaries.get(group, {}), busy)
        return found

    def _concerned(self) -> set[str]:
        """Return the groups of which something is open, or a window may be full."""
        parts = (self._losses, self._costs, self._rebalances, self._judging)
        return self.board.noticed.suspected.union(*(one.concerned() for one in parts))

    def _check(
        self,
        group: str,
        consumed: Consumed,
        summary: Mapping[str, Any],
        busy: Collection[str],
    ) -> list[Finding]:
        found = self._costs.on_sample(group, consumed)
        found += self._rebalances.on_sample(group, consumed, summary, self.board.arrived)
        if summary.get("state") == Status.EMPTY:
            self._rebalances.forget(group)
            found += self._judging.on_empty(group, consumed, summary)
        elif summary and group not in busy:
            found += self._judging.on_sample(group, consumed, summary)
        return found
