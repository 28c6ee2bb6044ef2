"""The closed form: one departed member by itself, after a join phase of a heartbeat at most, and a rejoin.

History is explained this way: it notifies no receiver, and a topic holds years of it. So are epoch-based
groups, whose members are removed one by one; what took the last members of one together, is one event here,
too. The likelihoods are those of `explain.py`; there is one heartbeat interval and one cell, and survivors
are not asked.
"""

from __future__ import annotations

from itertools import product
from math import exp, log
from typing import TYPE_CHECKING, NamedTuple

from rebalance_monitor.coordinator.departure import timers
from rebalance_monitor.coordinator.departure.fitted import FITTED, Fitted
from rebalance_monitor.coordinator.departure.hypotheses import (
    CLOSED_MS,
    EVENTS,
    EVENTS_OF,
    SOON_MS,
    Way,
    client_of,
    learned_ways,
    likely_events,
    prior_of,
    shares_of_ways,
)
from rebalance_monitor.coordinator.departure.waits import likeliest_heartbeat, of_departed, tried_heartbeats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.coordinator.departure.evidence import Departed, Evidence
    from rebalance_monitor.coordinator.departure.waits import Wait

# Of a phase that waits for nobody: the coordinator ends it as it begins (`tryCompleteElseWatch`), up to a
# timer's lateness.
_AT_ONCE_MS = 100
_SEVERAL = 2


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


class _Likely(NamedTuple):
    """How likely one member's removal is: by way, in all, and in each of `EVENTS` that may take all."""

    ways: list[float]
    total: float
    events: list[float]


def alone(evidence: Evidence, by: Fitted = FITTED) -> Explained:
    """Explain every departed member as if it had departed alone, or the last ones together."""
    shares = shares_of_ways(evidence.ways, by)
    beat = likeliest_heartbeat(evidence.session, evidence.deadline, evidence.beats, by)
    if evidence.is_alone:
        length = float(evidence.phase[1] if evidence.phase[1] >= 0 else _AT_ONCE_MS)
    else:
        # A survivor may poll late: that matters where no timer can have ended.
        rejoins = by.rejoins_late if evidence.is_obvious else by.rejoins
        length = (beat + rejoins) * (1 + evidence.aborted)
    beats = [
        min(timers.MODERN_MS, tried_heartbeats(one.session, 0)[-1]) if evidence.apart else float(beat)
        for one in evidence.departed
    ]
    last = bool(evidence.apart) and evidence.is_emptied and len(beats) >= _SEVERAL
    # Where one fault took several new ones, their ages are evidence of that fault once.
    young = not last or sum(one.young for one in evidence.departed) <= 1
    each = [
        _likely(one, own, length, shares, by, last=last, young=young)
        for one, own in zip(evidence.departed, beats, strict=True)
    ]
    ways = [[way / one.total for way in one.ways] for one in each]
    if last:
        ways = _by_one_event(evidence, each, ways, beats, shares, by)
    group_ways = learned_ways(evidence.ways, ways)
    none = [0.0] * len(ways)
    return Explained(ways, none, [*none, 1.0, 0.0], evidence.beats, group_ways)


def _by_one_event(
    evidence: Evidence,
    each: Sequence[_Likely],
    ways: Sequence[Sequence[float]],
    beats: Sequence[float],
    shares: Sequence[float],
    by: Fitted,
) -> list[list[float]]:
    """Mix in that one event took the last members of an epoch-based group; others departed long before."""
    near = max(CLOSED_MS) + max(beats)
    among = [place for place, age in enumerate(evidence.apart) if 0 <= age <= near]
    first = max([evidence.apart[place] for place in among], default=0)
    far = max(by.apart, float(evidence.deadline))
    # By themselves: the first at any time, others within a heartbeat of it, or whenever.
    soon = [beat + SOON_MS for beat in beats]
    by_chance = [
        (1 - by.together_apart) / far
        + by.together_apart / soon[place] * (first - evidence.apart[place] <= soon[place])
        for place in among
    ]
    usual = sum(map(log, by_chance)) - max(map(log, by_chance), default=0.0)
    likely = likely_events(shares, by, emptied=True).tolist()
    events: list[tuple[Way, float]] = []
    for way, places in EVENTS_OF.items():
        for place in places if len(among) >= _SEVERAL else ():
            relative = [each[one].events[place] / each[one].total for one in among]
            for least, (more, weight) in product(CLOSED_MS, _spreads(way, max(beats), by)):
                if first <= least + more and min(relative) > 0:
                    odds = sum(map(log, relative)) - (len(among) - 1) * log(least + more) - usual
                    events.append((way, log(likely[place] * weight) + odds))
    most = max([0.0, *(odds for _, odds in events)])
    weights = [(way, exp(odds - most)) for way, odds in events]
    total = exp(-most) + sum(weight for _, weight in weights)
    found = [list(own) for own in ways]
    for place in among:
        mixed = [share * exp(-most) / total for share in ways[place]]
        for way, weight in weights:
            mixed[way] += weight / total
        found[place] = mixed
    return found


def _spreads(way: Way, beat: float, by: Fitted) -> list[tuple[float, float]]:
    """Return how much longer (ms) an event takes to show, with weights: until sessions have ended.

    Heartbeats of members may have begun together.
    """
    return [(0.0, by.aligned), (beat, 1 - by.aligned)] if way is Way.DIED else [(0.0, 1.0)]


def _likely(
    one: Departed, beat: float, length: float, shares: Sequence[float], by: Fitted, *, last: bool, young: bool
) -> _Likely:
    intervals, client = of_departed(one, (), by, young=one.young and young), client_of(one)
    (died,) = timers.died(one, intervals, (beat,), client, by)
    usual, (noticed,) = timers.stalled(one, intervals, (beat,), client, by)
    waits = {
        Way.LEFT: timers.left(one, intervals, client, by),
        Way.DIED: died,
        Way.STALLED: usual + noticed,
        Way.UNKNOWN: [(0.0, one.since + 1_000.0, 1.0)],
    }
    prior = prior_of(one, shares, by).ways
    over = {way: _within(rows, one, way, length) for way, rows in waits.items()}
    if one.trace.last < 0:
        over[Way.UNSYNCED] = _within(timers.unsynced(one, by), one, Way.UNSYNCED, length)
    found = [prior[way] * over.get(way, 0.0) for way in Way]
    total = sum(found)
    if total <= 0:
        found[Way.UNKNOWN] = total = 1.0
    if not last:
        return _Likely(found, total, [])
    over[Way.UNJOINED] = _within(intervals.waits, one, Way.UNJOINED, length)
    if one.trace.last < 0 and one.since > one.session + length:
        # It had not just joined: nor had the others that the event took.
        over[Way.DIED] /= 1 - timers.at_once(one, beat, by)
    return _Likely(found, total, [prior[one.way] / shares[one.way] * over[one.waits] for one in EVENTS])


def _within(rows: Sequence[Wait], one: Departed, way: Way, length: float) -> float:
    """How likely the wait of that way is over within so long (ms) before the end."""
    since = float(one.alive if way is Way.DIED else one.since if way is Way.UNSYNCED else one.last_active)
    return _over(rows, since) - _over(rows, since - length)


def _over(waits: Sequence[Wait], time: float) -> float:
    """How likely the wait is over at `time` (ms)."""
    return sum(
        weight * min(max((time - low) / max(high - low, 1.0), 0.0), 1.0) for low, high, weight in waits
    )
