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
    from collections.abc import Mapping, Sequence

    from rebalance_monitor.coordinator.sightings import Sighting

SAMPLES = 60
ENOUGH = 30
ENOUGH_AHEAD = 5
STALE_MS = 600_000
"""After so long without a record a leader's ages say nothing of its clock any more."""

UNKNOWN = -1


class SkewWatch:
    """Remembers the ages of each leader's freshest records over the last batches.

    `usual_age_ms`: how old a steady flow's freshest record may be when a batch begins (trigger and a batch).
    """

    def __init__(self, grace_ms: int, usual_age_ms: int) -> None:
        self._grace_ms = grace_ms
        self._usual_age_ms = usual_age_ms
        self._leaders: dict[int, int] = {}
        self._ages: dict[int, deque[int]] = {}
        self._heard: dict[int, int] = {}
        self._knows = False

    def learn(self, sightings: Sequence[Sighting]) -> None:
        """Take who leads which partition."""
        for sighting in sightings:
            for partition, broker, _ in sighting.leaders:
                self._leaders[partition] = broker

    def on_batch(self, newest: Mapping[int, int], now: int) -> str | None:
        """Take each shard's newest record time and the batch's timestamp (ms); say which clocks are off.

        "" where none is, None as long as there are too few samples for that.
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
        said = [self._sentence(broker, ages) for broker, ages in sorted(self._ages.items())]
        self._knows = self._knows or any(len(ages) >= ENOUGH for ages in self._ages.values())
        return "; ".join(sentence for sentence in said if sentence) or ("" if self._knows else None)

    def _sentence(self, broker: int, ages: Sequence[int]) -> str:
        name = "the brokers" if broker == UNKNOWN else f"broker {broker}"
        # The median: one forged time must not pass for a clock.
        ahead = sorted(ages)[len(ages) // 2]
        if len(ages) >= ENOUGH_AHEAD and ahead < -self._grace_ms:
            return f"the clock of {name} is {-ahead / 1000:.1f} s ahead of the monitor's"
        if len(ages) >= ENOUGH and min(ages) > self._grace_ms + self._usual_age_ms:
            return f"the clock of {name} is about {min(ages) / 1000:.1f} s behind the monitor's"
        return ""
