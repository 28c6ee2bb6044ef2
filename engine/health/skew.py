"""Clock skew between brokers and the monitor, from the times of fresh records.

Kafka's answers carry no broker time, but its records do: the coordinator stamps them, and the partition's
leader is the coordinator. A record is written before the batch that reads it begins, so one that is newer
than the batch's own timestamp proves a broker whose clock is ahead. A broker behind shows as records that are
never fresh: the smallest age over many batches is its lag, give or take a trigger.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rebalance_monitor.coordinator.probe.sample import ProbeSample

SAMPLES = 60
ENOUGH = 30
ENOUGH_AHEAD = 5
STALE_MS = 600_000
"""After so long without a record a leader's ages say nothing of its clock any more."""

UNKNOWN = -1


class SkewWatch:
    """Remembers the ages of each leader's freshest records over the last batches.

    `usual_age_ms`: how old a steady flow's freshest record may be when a batch begins (trigger and a batch).
    `blamed`: the brokers of which an earlier process said that their clocks are off, as `blamed` gave them.
    """

    def __init__(self, grace_ms: int, usual_age_ms: int, blamed: Iterable[int] = ()) -> None:
        self._grace_ms = grace_ms
        self._usual_age_ms = usual_age_ms
        self._leaders: dict[int, int] = {}
        self._ages: dict[int, deque[int]] = {}
        self._heard: dict[int, int] = {}
        self._began = -1
        self.blamed = set(blamed)

    def learn(self, samples: Sequence[ProbeSample]) -> None:
        """Take the leaders of the partitions."""
        for sample in samples:
            for partition, broker, _ in sample.leaders:
                self._leaders[partition] = broker

    def on_batch(self, newest: Mapping[int, int], now: int) -> str | None:
        """Take each shard's newest record time and the batch's timestamp (ms); name the wrong clocks.

        "" if none is, None while that is unknown for a clock that was wrong before.
        """
        freshest: dict[int, int] = {}
        for shard, at in newest.items():
            broker = self._leaders.get(shard, UNKNOWN)
            freshest[broker] = max(at, freshest.get(broker, at))
        for broker, at in freshest.items():
            self._ages.setdefault(broker, deque(maxlen=SAMPLES)).append(now - at)
            self._heard[broker] = now
        for broker in [broker for broker, at in self._heard.items() if not now - STALE_MS < at <= now]:
            del self._heard[broker], self._ages[broker]
        said = {broker: self._sentence(broker, ages) for broker, ages in sorted(self._ages.items())}
        self._blame(said, now)
        return "; ".join(filter(None, said.values())) or (None if self.blamed else "")

    def _blame(self, said: Mapping[int, str], now: int) -> None:
        """Keep the brokers with a wrong clock until enough samples show otherwise, or no samples come."""
        self._began = now if not 0 <= self._began <= now else self._began
        unheard = self.blamed - said.keys() if now - self._began >= STALE_MS else set()
        fine = {broker for broker, why in said.items() if not why and len(self._ages[broker]) >= ENOUGH}
        self.blamed = (self.blamed - unheard - fine) | {broker for broker, why in said.items() if why}

    def _sentence(self, broker: int, ages: Sequence[int]) -> str:
        name = "the brokers" if broker == UNKNOWN else f"broker {broker}"
        # The median: one forged time must not pass for a clock.
        ahead = sorted(ages)[len(ages) // 2]
        if len(ages) >= ENOUGH_AHEAD and ahead < -self._grace_ms:
            return f"the clock of {name} is {-ahead / 1000:.1f} s ahead of the monitor's"
        if len(ages) >= ENOUGH and min(ages) > self._grace_ms + self._usual_age_ms:
            return f"the clock of {name} is about {min(ages) / 1000:.1f} s behind the monitor's"
        return ""
