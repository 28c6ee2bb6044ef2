"""What rebalances cost a group, once its consumption is back: `rebalance_cost`.

A rebalance completes before anybody can know what it cost. So its cost is followed in the samples after it,
until no more records wait than in the minute before consumption stopped. Rebalances that come before that
belong to the same cost: it counts them, so the costs of a week add up.

Two numbers say how much waited. `arrived`: records that came to the group's partitions while these stood
still, taken from the ends at both moments, however short the stop was. `peak`: the most that waited at any
sample. All partitions stand still together where all members stop (the eager protocol). In cooperative and
epoch-based groups those stand still that change hands, each on its own (`handovers.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.lag.costs import handovers
from rebalance_monitor.coordinator.lag.costs.impact import USUAL_SHARE
from rebalance_monitor.coordinator.lag.incidents import lag_finding

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from rebalance_monitor.coordinator.findings.finding import Details, Finding
    from rebalance_monitor.coordinator.lag.consumed import Consumed
    from rebalance_monitor.coordinator.lag.costs.handovers import Arrived, Handover
    from rebalance_monitor.coordinator.settings import DetectionSettings

USUAL_MS = 60_000
"""As many records as waited at most in this time before the stop are usual."""

LONGEST_MS = 3_600_000
"""A group that has not caught up after so long is reported as it stands."""


class Cost(msgspec.Struct, array_like=True):
    """An open cost: the id and the generation of its first rebalance, and what is known so far. Times in ms.

    `began`: when consumption stopped; `ended`: when the last of its `rebalances` completed. `stopped`: how
    long consumption stood still in all of them; `seconds`: partition-seconds. `before`: records that waited
    at the last sample before, `usual` the most in `USUAL_MS` before. `windows`: stops whose arrivals are not
    counted yet. `handed`: partitions that change hands; `handovers`: how many have.
    """

    rebalance: str
    generation: int | None
    began: int
    ended: int
    before: int
    usual: int
    rebalances: int = 0
    stopped: int = 0
    seconds: float = 0.0
    partitions: int = 0
    arrived: int = 0
    peak: int = 0
    windows: list[tuple[int, int]] = []
    handed: list[handovers.Handed] = []
    handovers: int = 0


class RebalanceCosts:
    """Follows them; `state` is what `snapshot` returned, None for a new start."""

    def __init__(
        self, settings: DetectionSettings, cluster: str, state: dict[str, Any] | None = None
    ) -> None:
        self._settings, self._cluster = settings, cluster
        self._open = msgspec.convert(state or {}, dict[str, Cost])
        self._handed: dict[str, list[handovers.Handed]] = {}
        """What has changed hands in groups whose rebalance is not over."""

    def snapshot(self) -> dict[str, Any]:
        """JSON-able memory for the ledger."""
        found: dict[str, Any] = msgspec.to_builtins(self._open)
        return found

    def on_handover(self, group: str, news: Handover, consumed: Consumed | None) -> None:
        """Follow partitions that change hands; what they cost is counted with the group's next rebalance."""
        if consumed is None or not consumed.totals:
            return
        cost = self._open.get(group)
        handed = self._handed.setdefault(group, []) if cost is None else cost.handed
        since = news.at - LONGEST_MS
        handed[:] = [one for one in handed if one.since >= since]
        handovers.follow(handed, news, consumed)

    def on_rebalance(self, finding: Finding, consumed: Consumed | None) -> None:
        """Begin to follow the cost of a live rebalance, or count it to the cost that is followed already."""
        group = finding.group or ""
        if consumed is None or not consumed.totals:
            return
        stopped, handed = stopped_ms(finding), self._handed.pop(group, [])
        began = min(
            finding.at - stopped, finding.started_at_min or finding.at, *(one.since for one in handed)
        )
        cost = self._open.get(group)
        if cost is None:
            before = [(at, records) for at, records in consumed.totals if at <= began]
            if not before:
                # What waited before it is not known, so neither is what it added.
                return
            usual = max(records for at, records in before if at >= before[-1][0] - USUAL_MS)
            cost = Cost(finding.id, finding.generation, began, finding.at, before[-1][1], usual)
            self._open[group] = cost
        cost.ended = max(cost.ended, finding.at)
        cost.rebalances += 1
        cost.stopped += stopped
        cost.handed += handed
        if cost.handed:
            # Each partition's own stop is counted when it is over.
            return
        cost.seconds += partition_seconds(finding, consumed)
        if stops_together(finding) and stopped:
            cost.partitions = max(cost.partitions, consumed.partitions)
            cost.windows.append((finding.at - stopped, finding.at))
        else:
            cost.partitions = max(cost.partitions, finding.partitions_affected or 0)

    def concerned(self) -> AbstractSet[str]:
        """Return the groups whose cost is followed."""
        return self._open.keys() | self._handed.keys()

    def on_sample(
        self, group: str, consumed: Consumed, summary: Mapping[str, Any], arrived: Arrived
    ) -> list[Finding]:
        """Let the cost of a group go on with its newest lag; returns it once it is known."""
        cost, lag = self._open.get(group), consumed.lag
        if cost is None or lag is None or lag.records is None:
            return []
        cost.peak = max(cost.peak, *(records for at, records in consumed.totals if at > cost.began), 0)
        known = [window for window in cost.windows if window[1] <= lag.at]
        cost.windows = [window for window in cost.windows if window[1] > lag.at]
        for window in known:
            self._count(cost, sum(arrived(*place, *window) for place in consumed.places.layout))
        for stop in handovers.stops(cost.handed, consumed, lag.as_of, arrived):
            cost.handovers += 1
            cost.partitions = max(cost.partitions, cost.handovers)
            cost.stopped = max(cost.stopped, stop.ms)
            cost.seconds += stop.ms / 1000
            self._count(cost, stop.arrived)
        is_over = not cost.windows and not cost.handed
        has_caught_up = lag.as_of >= cost.ended and is_over and lag.records <= cost.usual
        if not has_caught_up and lag.at < cost.began + LONGEST_MS:
            return []
        del self._open[group]
        is_cost = cost.arrived > 0 or cost.peak > USUAL_SHARE * cost.usual
        caught_up = max(lag.as_of, cost.ended) if has_caught_up else -1
        return [self._found(group, cost, summary, caught_up, lag.at)] if is_cost else []

    def forget(self, group: str) -> None:
        """Forget a group that is gone, or has no members: what waits now is not for a rebalance."""
        self._open.pop(group, None)
        self._handed.pop(group, None)

    @staticmethod
    def _count(cost: Cost, came: int) -> None:
        """Count records that came to partitions which stood still."""
        cost.arrived += came
        cost.peak = max(cost.peak, cost.before + came)

    def _found(self, group: str, cost: Cost, summary: Mapping[str, Any], caught_up: int, at: int) -> Finding:
        details: Details = {
            "rebalance": cost.rebalance,
            "rebalances": cost.rebalances,
            "arrived": cost.arrived,
            "waiting_at_stop": cost.before,
            "waiting_peak": cost.peak,
        }
        if caught_up >= 0:
            details |= {"caught_up_at": caught_up, "caught_up_ms": caught_up - cost.ended}
        if cost.seconds:
            details["partition_seconds"] = round(cost.seconds, 1)
        names = ("group_type", "protocol_type", "protocol", "state", "leader")
        return lag_finding(
            self._settings,
            self._cluster,
            Kind.REBALANCE_COST,
            group,
            f"cost/{cost.rebalance}",
            caught_up if caught_up >= 0 else at,
            generation=cost.generation,
            started_at_min=cost.began,
            stopped_ms_max=cost.stopped or None,
            members_total=summary.get("members"),
            partitions_affected=cost.partitions or None,
            details=details,
            **{name: summary.get(name) or None for name in names},
        )


def stops_together(finding: Finding) -> bool:
    """Whether all members of a rebalance stood still until it was over: not in a cooperative one."""
    return finding.stopped_ms_min is not None


def stopped_ms(finding: Finding) -> int:
    """Return how long (ms) consumption stood still: at most, where commits bound it, else at least."""
    return finding.stopped_ms_max or finding.stopped_ms_min or 0


def partition_seconds(finding: Finding, consumed: Consumed) -> float:
    """Return partitions times how long they stood still: all of them, or those of members that left."""
    partitions = consumed.partitions if stops_together(finding) else finding.partitions_affected or 0
    return partitions * stopped_ms(finding) / 1000
