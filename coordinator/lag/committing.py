"""How a group commits, from the positions that it publishes; the summary of one that does nothing else.

Consumers that assign themselves partitions, and applications that store offsets under a name, have no member
and no record of the group's own. Whatever lists groups lists them too, as `COMMITS_ONLY`; the brokers call
them Empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rebalance_monitor.coordinator.commits import positions
from rebalance_monitor.coordinator.lag.packed import places as packed
from rebalance_monitor.coordinator.state.state_machine import Status

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable

    from rebalance_monitor.coordinator.commits.positions import Position
    from rebalance_monitor.coordinator.lag.consumed import Consumed
    from rebalance_monitor.coordinator.lag.packed.places import Packed
    from rebalance_monitor.coordinator.state.positions import Positions

    Find = Callable[[str, int], Position | None]

COMMITS_ONLY = "commits"
"""Group type of a group without a record of its own."""

MINUTE_MS = 60_000
MAX_TOPICS = 20
_PAIR, _LATEST = 2, 2**63 - 1


class Committing(NamedTuple):
    """When (ms) a group committed last, and how many offsets a minute until then, None where unknown.

    `written`: its positions, if they were unpacked; else `held`.
    """

    at: int
    per_minute: float | None = None
    written: Packed = packed.NOTHING
    held: Positions | None = None

    def find(self) -> Find:
        """Return what gives the position of a partition, None where it has none."""
        if self.held is None:
            return self.written.get
        places = positions.places_of(self.held)
        return lambda topic, partition: places.get(topic, {}).get(partition)


def count(counts: array[int], at: int, commits: int) -> None:
    """Note that a group had committed `commits` offsets at the clock `at` (ms): so many as a minute needs."""
    if counts and commits < counts[-1]:
        # The state was rebuilt and counts from nothing.
        del counts[:]
    # Clocks are of records, which hold any time.
    counts.append(min(at, _LATEST))
    counts.append(commits)
    # The oldest is at least a minute old, where so much is known; a rate needs two.
    while len(counts) > 2 * _PAIR and counts[_PAIR] <= at - MINUTE_MS:
        del counts[:_PAIR]


def committing(consumed: Consumed) -> Committing:
    """Return when and how fast a group committed."""
    counts = consumed.counts
    first, before, last, now = counts[0], counts[1], counts[-_PAIR], counts[-1]
    rate = (now - before) * MINUTE_MS / (last - first) if last > first else None
    return Committing(consumed.last_commit, rate, consumed.written, consumed.held)


def summarise(group: str, consumed: Consumed) -> dict[str, Any]:
    """Return the summary of a group that only commits, with the keys of `coordinator/summary.py`."""
    return {
        "group": group,
        "as_of": consumed.published,
        "group_type": COMMITS_ONLY,
        "state": str(Status.EMPTY),
        "generation": None,
        "leader": "",
        "protocol": "",
        "protocol_type": "",
        "at": consumed.last_commit,
        "topics": list(consumed.places.topics[:MAX_TOPICS]),
        "members": 0,
        "away": 0,
        "member_list": [],
        "last_rebalance": -1,
        "last_causes": [],
        "storm": False,
        "last_commit": consumed.last_commit,
    }
