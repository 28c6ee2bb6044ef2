"""The groups that a probe sample covers, and the coordinators that answered it."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from rebalance_monitor.decoders import coordinator_partition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rebalance_monitor.coordinator.probe.sample import ProbeSample

_SOON_MS = 50
# The first sample of a join phase may be forgotten before the answers to the one before; few last longer.
_KEPT_MS = 600_000


class Judged:
    """The groups that a sample shows as not rebalancing: their coordinator answered it.

    whole: every broker answered.
    """

    def __init__(self, sample: ProbeSample) -> None:
        self.whole = bool(sample.brokers) and all(answered for _, answered in sample.brokers)
        self._answered = {broker for broker, answered in sample.brokers if answered}
        self._leaders = {partition: broker for partition, broker, _ in sample.leaders}

    def knows(self, group: str) -> bool:
        """Whether `group` would have been listed."""
        if self.whole or not self._leaders:
            return self.whole
        return self.leader(group) in self._answered

    def leader(self, group: str) -> int | None:
        """Return the broker that coordinates `group`, None where the sample has no coordinators."""
        if not self._leaders:
            return None
        return self._leaders.get(coordinator_partition(group, len(self._leaders)))


class LastAnswers:
    """When each broker answered last, and when all did; ms, -1 for never; `state`: a snapshot."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        memory = state or {}
        self._answered: dict[str, int] = dict(memory.get("answered", {}))
        self._whole: int = int(memory.get("whole", -1))

    def snapshot(self) -> dict[str, Any]:
        """JSON-able memory for the ledger."""
        return {"whole": self._whole, "answered": self._answered}

    def on_sample(self, sample: ProbeSample) -> None:
        """Take the brokers that answered a sample."""
        self._answered |= {str(broker): sample.at for broker, answered in sample.brokers if answered}
        self._whole = sample.at if Judged(sample).whole else self._whole

    def of(self, leader: int | None) -> int:
        """Return when `leader` answered last, or all brokers did where the leader is unknown."""
        return self._whole if leader is None else self._answered.get(str(leader), -1)


class Unanswered:
    """Samples without the answer of some coordinator, without coordinators, or slow; `state`: a snapshot."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        memory = state or {}
        # Time of the sample -> the brokers that answered it, None if it lists no coordinators.
        self._answered: dict[int, list[int] | None] = dict(memory.get("answered", ()))
        # Time of the sample -> how long (ms) it took, if that is more than next to nothing.
        self._took: dict[int, int] = dict(memory.get("took", ()))

    def snapshot(self) -> dict[str, Any]:
        """JSON-able memory for the ledger."""
        return {
            "answered": [[at, brokers] for at, brokers in self._answered.items()],
            "took": [[at, took] for at, took in self._took.items()],
        }

    def on_sample(self, sample: ProbeSample, since: int) -> None:
        """Take a sample; forget samples up to `since` (ms), but not which brokers did not answer."""
        kept = min(since, sample.at - _KEPT_MS)
        self._answered = {at: brokers for at, brokers in self._answered.items() if at > kept}
        self._took = {at: took for at, took in self._took.items() if at > since}
        if sample.took >= _SOON_MS:
            self._took[sample.at] = sample.took
        if not sample.leaders or not all(answered for _, answered in sample.brokers):
            answering = [broker for broker, answered in sample.brokers if answered]
            self._answered[sample.at] = answering if sample.leaders else None

    def end(self, at: int) -> int:
        """Return when (ms) the sample that began at `at` had its last answer."""
        return at + self._took.get(at, 0)

    def by(self, leader: int | None, times: Sequence[int]) -> Sequence[int]:
        """Return the samples at `times` that the coordinator `leader` answered."""
        if not self._answered:
            return times
        return [at for at in times if leader in (self._answered.get(at, [leader]) or ())]

    def away(self, leader: int | None, times: Sequence[int]) -> Sequence[int]:
        """Return the samples at `times` that list coordinators, but have no answer of `leader`."""
        if leader is None:
            return []
        samples = ((at, self._answered.get(at, [leader])) for at in times)
        return [at for at, brokers in samples if brokers is not None and leader not in brokers]

    def led(self, times: Sequence[int]) -> Sequence[int]:
        """Return the samples at `times` that list coordinators."""
        return [at for at in times if self._answered.get(at, []) is not None] if self._answered else times


def after(times: Sequence[int], since: int) -> int:
    """How many of `times` (ascending, ms) are after `since`."""
    return len(times) - bisect_right(times, since)
