"""What is remembered of the looks at one rebalancing group, and of which groups a look says anything.

The memory of a group is a JSON-able dict of `Live`: `sightings` are times of looks, `counted` those that
count towards a storm, and `runs` those of them that saw a barrier begin; `opened` is when it was first seen,
`count` in how many looks since then, `since` when its barrier began, `again` says that its join phase was
begun again since then; `stuck_since` and `storm_at` are those of what is told of it. `listed`: member id ->
the last look that listed it.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from rebalance_monitor.decoders import coordinator_partition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rebalance_monitor.coordinator.sightings import SeenGroup, Sighting

_SPARE, _SOON_MS = 10, 50
_LISTED_MS, _MAX_LISTED = 60_000, 100


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


class Unanswered:
    """Looks that some coordinator did not answer, that saw none, or that took long; `state`: a snapshot."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        memory = state or {}
        # Time of the look -> the brokers that answered it, None where it saw no coordinators.
        self._answered: dict[int, list[int] | None] = dict(memory.get("answered", ()))
        # Time of the look -> how long (ms) it took, where that is not next to nothing.
        self._took: dict[int, int] = dict(memory.get("took", ()))

    def snapshot(self) -> dict[str, Any]:
        """JSON-able memory for the ledger."""
        return {
            "answered": [[at, brokers] for at, brokers in self._answered.items()],
            "took": [[at, took] for at, took in self._took.items()],
        }

    def on_look(self, look: Sighting, since: int) -> None:
        """Take a look; what is not after `since` (ms) is forgotten."""
        self._answered = {at: brokers for at, brokers in self._answered.items() if at > since}
        self._took = {at: took for at, took in self._took.items() if at > since}
        if look.took >= _SOON_MS:
            self._took[look.at] = look.took
        if not look.leaders or not all(answered for _, answered in look.brokers):
            told = [broker for broker, answered in look.brokers if answered]
            self._answered[look.at] = told if look.leaders else None

    def end(self, at: int) -> int:
        """Return when (ms) the look that began at `at` had its last answer."""
        return at + self._took.get(at, 0)

    def by(self, leader: int | None, times: Sequence[int]) -> Sequence[int]:
        """Return those of the looks at `times` that the coordinator `leader` answered."""
        if not self._answered:
            return times
        return [at for at in times if leader in (self._answered.get(at, [leader]) or ())]

    def led(self, times: Sequence[int]) -> Sequence[int]:
        """Return those of the looks at `times` that saw who coordinates."""
        return [at for at in times if self._answered.get(at, []) is not None] if self._answered else times


def remembered(
    before: Mapping[str, Any] | None, at: int, group: SeenGroup, generation: int | None
) -> dict[str, Any]:
    """Begin to remember a group that is seen rebalancing from `at` (ms) on; `before`: what still is of it."""
    kept = before or {"sightings": [], "counted": [], "runs": [], "storm": "", "storm_at": at}
    return {
        "open": "",
        "opened": at,
        "since": at,
        "again": False,
        "stuck": "",
        "generation": generation,
        "type": group.group_type,
        "protocol_type": group.protocol_type,
        "count": 0,
        "listed": dict(listed(before)),
        **{name: kept[name] for name in ("sightings", "counted", "runs", "storm", "storm_at")},
    }


def after(times: Sequence[int], since: int) -> int:
    """How many of `times` (ascending, ms) are after `since`."""
    return len(times) - bisect_right(times, since)


def is_another(memory: Mapping[str, Any], at: int, fresh_ms: int) -> bool:
    """Whether a generation completed while nobody looked, so that `at` (ms) sees another barrier."""
    last: int = memory["sightings"][-1] if memory["sightings"] else at
    return bool(last < memory["since"]) and at - last > fresh_ms


def listed(memory: Mapping[str, Any] | None) -> Mapping[str, int]:
    """Return member id -> last look (ms) that listed it in the group's last barriers."""
    return memory["listed"] if memory else {}


def take(
    memory: dict[str, Any], looks: Sequence[int], members: Collection[tuple[str, str, str, str]]
) -> None:
    """Keep whom the last of `looks` (ms) listed; a record may come after the next barrier has begun."""
    known = {name: at for name, at in listed(memory).items() if at > looks[-1] - _LISTED_MS}
    memory["listed"] = dict([*known.items(), *((one[0], looks[-1]) for one in members)][-_MAX_LISTED:])
    _trim(memory, looks)


def _trim(memory: dict[str, Any], looks: Sequence[int]) -> None:
    """Forget the sightings of a barrier that lasts for long, but for the first ones and those in `looks`."""
    sightings: list[int] = memory["sightings"]
    if len(sightings) <= 2 * len(looks) + _SPARE:
        return
    firsts = {next((at for at in sightings if at >= memory[mark]), -1) for mark in ("opened", "since")}
    memory["sightings"] = [at for at in sightings if at >= looks[0] or at in firsts]
    for times in ("counted", "runs"):
        memory[times] = [at for at in memory[times] if at >= looks[0]]


def stuck_for(memory: Mapping[str, Any], at: int) -> int:
    """Return for how long (ms) the stuck barrier has lasted at `at`, or lasted until another one began."""
    since = int(memory["stuck_since"])
    return int(memory["since"] if memory["since"] > since else at) - since


def set_back(memory: dict[str, Any], at: int) -> None:
    """Go on from `at` (ms): the clock that saw the rest was ahead."""
    memory["sightings"], memory["counted"], memory["runs"] = [], [], []
    for mark in ("opened", "since", "stuck_since", "storm_at"):
        if mark in memory:
            memory[mark] = min(memory[mark], at)
