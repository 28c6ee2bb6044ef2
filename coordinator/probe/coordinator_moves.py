"""The leaders of the partitions of the offsets topic, by probe samples, and the moves of coordinators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.findings.finding import Coordinator, make
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.decoders.layouts.twins import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.probe.sample import ProbeSample


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

        A partition without a leader has not moved yet: the move is published when it has one. Each sample may
        come from another broker, whose metadata may lag. So an older epoch is no evidence, as in Kafka's own
        clients.
        """
        found = []
        for partition, broker, epoch in (one for one in sample.leaders if one[1] >= 0):
            before = self._leaders.get(str(partition))
            if before is not None and 0 <= epoch < before[1]:
                continue
            self._leaders[str(partition)] = [broker, epoch]
            if before is not None and before != [broker, epoch]:
                self._moved[str(partition)] = sample.at
                found.append(self._finding(partition, broker, epoch, before, sample.at))
        return found

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

    def _finding(self, partition: int, broker: int, epoch: int, before: list[int], at: int) -> Finding:
        kind = Kind.COORDINATOR_MOVED
        anchor = f"epoch/{partition}/{broker}/{epoch}"
        return make(
            kind,
            cluster=self._cluster,
            anchor=anchor,
            evidence="read",
            shard=partition,
            coordinator=Coordinator(broker, epoch),
            at=at,
            details={"previous_broker": before[0], "previous_epoch": before[1]},
        )
