"""The closed form: one departed member by itself, after a join phase of at most a heartbeat and a poll.

History is explained this way: it notifies no receiver, and a topic holds years of it. The likelihoods are
those of `explain.py`; there is one heartbeat interval and one cell, and survivors are not asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rebalance_monitor.coordinator.departure import timers
from rebalance_monitor.coordinator.departure.fitted import FITTED, Fitted
from rebalance_monitor.coordinator.departure.hypotheses import (
    Way,
    client_of,
    learned_ways,
    prior_of,
    shares_of_ways,
)
from rebalance_monitor.coordinator.departure.waits import likeliest_heartbeat, of_departed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.coordinator.departure.evidence import Departed, Evidence
    from rebalance_monitor.coordinator.departure.waits import Wait

# Of a phase that waits for nobody: the coordinator ends it as it begins (`tryCompleteElseWatch`), up to a
# timer's lateness.
_POLL_MS, _AT_ONCE_MS = 1_000, 100


class Explained(NamedTuple):
    """What explains a rebalance.

    `ways`: of each departed member, how likely each `Way` is. `triggers`: how likely each began it; the rest
    is a newcomer or a survivor. `holders`: of each, then of a survivor or newcomer, then of the deadline.
    `beats`, `group_ways`: what the group has learned.
    """

    ways: list[list[float]]
    triggers: list[float]
    holders: list[float]
    beats: tuple[float, ...]
    group_ways: tuple[float, ...]


def alone(evidence: Evidence, by: Fitted = FITTED) -> Explained:
    """Explain every departed member as if it had departed alone."""
    shares = shares_of_ways(evidence.ways, by)
    beat = likeliest_heartbeat(evidence.session, evidence.beats, by)
    length = float((beat + _POLL_MS) * (1 + evidence.aborted))
    if evidence.is_alone:
        length = float(evidence.phase[1] if evidence.phase[1] >= 0 else _AT_ONCE_MS)
    beats = [
        float(likeliest_heartbeat(one.session, evidence.beats, by) if evidence.apart else beat)
        for one in evidence.departed
    ]
    each = zip(evidence.departed, beats, strict=True)
    ways = [_ways(one, own, length, shares, by) for one, own in each]
    group_ways = learned_ways(evidence.ways, ways)
    none = [0.0] * len(ways)
    return Explained(ways, none, [*none, 1.0, 0.0], evidence.beats, group_ways)


def _ways(one: Departed, beat: float, length: float, shares: Sequence[float], by: Fitted) -> list[float]:
    intervals, client = of_departed(one, (), by, young=one.young), client_of(one)
    (died,) = timers.died(one, intervals, (beat,), client, by)
    usual, (noticed,) = timers.stalled(one, intervals, (beat,), client, by)
    waits = {
        Way.LEFT: timers.left(one, intervals, client, by),
        Way.DIED: died,
        Way.STALLED: usual + noticed,
        Way.UNKNOWN: [(0.0, one.since + 1_000.0, 1.0)],
    }
    prior = prior_of(one, shares, by)
    found = [0.0] * len(Way)
    for way, rows in waits.items():
        since = float(one.alive if way is Way.DIED else one.last_active)
        found[way] = prior[way] * (_over(rows, since) - _over(rows, since - length))
    if one.trace.last < 0:
        rows = timers.unsynced(one)
        found[Way.UNSYNCED] = prior[Way.UNSYNCED] * (_over(rows, one.since) - _over(rows, one.since - length))
    total = sum(found)
    return [one / total for one in found] if total > 0 else [0.0] * (len(Way) - 1) + [1.0]


def _over(waits: Sequence[Wait], time: float) -> float:
    """How likely the wait is over at `time` (ms)."""
    return sum(
        weight * min(max((time - low) / max(high - low, 1.0), 0.0), 1.0) for low, high, weight in waits
    )
