"""What is remembered of the looks at one rebalancing group, and of which groups a look says anything.

The memory of a group is a JSON-able dict of `Live`: `sightings` and `runs` are times of looks, `opened` is
when it was first seen, `since` when its barrier began, `trimmed` how many sightings were forgotten.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from rebalance_monitor.decoders import coordinator_partition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rebalance_monitor.coordinator.sightings import Sighting

_SPARE = 10


class Judged:
    """Of which groups a look says that they are not rebalancing: those whose coordinator answered it.

    whole: every broker answered.
    """

    def __init__(self, sighting: Sighting) -> None:
        self.whole = bool(sighting.brokers) and all(answered for _, answered in sighting.brokers)
        self._answered = {broker for broker, answered in sighting.brokers if answered}
        self._leaders = {partition: broker for partition, broker, _ in sighting.leaders}

    def knows(self, group: str) -> bool:
        """Whether `group` would have been listed."""
        if self.whole or not self._leaders:
            return self.whole
        return self._leaders.get(coordinator_partition(group, len(self._leaders))) in self._answered


def after(times: Sequence[int], since: int) -> int:
    """How many of `times` (ascending, ms) are after `since`."""
    return len(times) - bisect_right(times, since)


def is_another(memory: Mapping[str, Any], at: int, fresh_ms: int) -> bool:
    """Whether a generation completed while nobody looked, so that `at` (ms) sees another barrier."""
    last: int = memory["sightings"][-1] if memory["sightings"] else at
    return bool(last < memory["since"]) and at - last > fresh_ms


def trim(memory: dict[str, Any], looks: Sequence[int]) -> None:
    """Forget the sightings of a barrier that lasts for long, but for the first ones and those in `looks`."""
    sightings: list[int] = memory["sightings"]
    if len(sightings) <= 2 * len(looks) + _SPARE:
        return
    firsts = {next((at for at in sightings if at >= memory[mark]), -1) for mark in ("opened", "since")}
    kept = [at for at in sightings if at >= looks[0] or at in firsts]
    memory["trimmed"] = total(memory) - len(kept)
    memory["sightings"] = kept


def total(memory: Mapping[str, Any]) -> int:
    """Return in how many looks the group was seen rebalancing."""
    return len(memory["sightings"]) + int(memory.get("trimmed", 0))


def set_back(memory: dict[str, Any], at: int) -> None:
    """Go on from `at` (ms): the clock that saw the rest was ahead."""
    memory["sightings"], memory["runs"] = [], []
    memory["opened"], memory["since"] = min(memory["opened"], at), min(memory["since"], at)
