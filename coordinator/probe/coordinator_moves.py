"""The leaders of the partitions of the offsets topic, by probe samples, and the moves of coordinators."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from rebalance_monitor.coordinator.findings.finding import Coordinator, make
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.findings.wording import ranges
from rebalance_monitor.decoders.layouts.twins import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.coordinator.findings.finding import Details, Finding
    from rebalance_monitor.coordinator.probe.sample import ProbeSample


class _Move(NamedTuple):
    """One partition that has another leader epoch."""

    partition: int
    epoch: int
    previous_epoch: int


class Moves:
    """Leaders by partition, and their moves; `state` holds what `snapshot` returned."""

    def __init__(self, cluster: str, state: Mapping[str, Any]) -> None:
        self._cluster = cluster
        self._leaders: dict[str, list[int]] = dict(state.get("leaders", {}))
        self._moved: dict[str, int] = dict(state.get("moved", {}))

    def snapshot(self) -> dict[str, Any]:
        """JSON-able memory for the ledger."""
        return {"leaders": self._leaders, "moved": self._moved}

    def on_sample(self, sample: ProbeSample) -> list[Finding]:
        """Report the partitions with another leader, or leader epoch, than in the sample before.

        A broker that restarts leads dozens anew: those of one sample with the same leaders before and now are
        one finding. A partition without a leader has not moved yet: the move is published when it has one.
        Each sample may come from another broker, whose metadata may lag. So an older epoch is no evidence, as
        in Kafka's own clients.
        """
        found: defaultdict[tuple[int, int], list[_Move]] = defaultdict(list)
        for partition, broker, epoch in (one for one in sample.leaders if one[1] >= 0):
            before = self._leaders.get(str(partition))
            if before is not None and 0 <= epoch < before[1]:
                continue
            self._leaders[str(partition)] = [broker, epoch]
            if before is not None and before != [broker, epoch]:
                self._moved[str(partition)] = sample.at
                found[before[0], broker].append(_Move(partition, epoch, before[1]))
        return [self._finding(*brokers, sorted(moved), sample.at) for brokers, moved in found.items()]

    def at(self, shard: int | None) -> int:
        """Return when the shard's coordinator was last seen to have moved (ms), -1 for never."""
        return self._moved.get(str(shard), -1)

    def leader(self, shard: int | None) -> int | None:
        """Return the broker that coordinates the shard's groups, None where that was not seen."""
        return self._leaders.get(str(shard), [None])[0]

    def placed(self, finding: Finding) -> Finding:
        """Return the finding with its coordinator, as far as it is known."""
        leader = self._leaders.get(str(finding.shard))
        if leader is None or finding.coordinator is not None:
            return finding
        return replace(finding, coordinator=Coordinator(leader[0], leader[1]))

    def forget(self) -> None:
        """Forget the leaders: a topic that is created again starts with the first leader epoch."""
        self._leaders = {}

    def set_back(self, at: int) -> None:
        """Go on from `at` (ms): the clock that saw the rest was ahead."""
        self._moved = {partition: min(moved, at) for partition, moved in self._moved.items()}

    def _finding(self, previous: int, broker: int, moved: list[_Move], at: int) -> Finding:
        """Make the finding about partitions that went from one broker to another; the first one names it."""
        partition, epoch, previous_epoch = moved[0]
        details: Details = {"previous_broker": previous, "previous_epoch": previous_epoch}
        if len(moved) > 1:
            details |= {"moved": len(moved), "partitions": ranges(one.partition for one in moved)}
        return make(
            Kind.COORDINATOR_MOVED,
            cluster=self._cluster,
            anchor=f"epoch/{partition}/{broker}/{epoch}",
            evidence="read",
            shard=partition if len(moved) == 1 else None,
            coordinator=Coordinator(broker, epoch),
            at=at,
            details=details,
        )
