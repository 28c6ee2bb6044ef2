"""Uniform waits, their mixtures, and the wait since a member's last commit.

How long ago was the last commit of a living member, at a moment that has nothing to do with its commits?
Such a moment falls into one of its commit intervals, into a longer one more likely, and anywhere within it. A
member that does not commit when idle may have had nothing to commit: then its last commit may be as old as
its assignment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from rebalance_monitor.coordinator.departure.evidence import Departed, Trace
    from rebalance_monitor.coordinator.departure.fitted import Fitted

    Array = npt.NDArray[np.float64]

Wait = tuple[float, float, float]
"""A uniform wait: from, to (ms), and its weight."""

SLACK_MS = 25.0
"""How late the coordinator's timers and queues are, ms."""

_ENOUGH, _PICKED = 3, 4
_LONG = 2.5
# Where nobody of the group tells how often it commits: the intervals that clients are usually given.
_USUAL_MS = (1_000, 5_000, 10_000, 30_000)
_MULTIPLE = 0.08
_LEAST_MS, _LONGER = 50.0, 1.02
_ALWAYS, _PAUSE = 0.01, 10


class Mixtures:
    """Rows of waits, laid out flat; none of the rows may be empty."""

    def __init__(self, rows: Sequence[Sequence[Wait]]) -> None:
        sizes = [len(row) for row in rows]
        flat = np.array([wait for row in rows for wait in row])
        self._low = flat[:, :1]
        self._scale = 1 / np.maximum(flat[:, 1:2] - flat[:, :1], 1.0)
        self._weight = flat[:, 2:]
        self._sizes = sizes
        self._starts = np.cumsum([0, *sizes[:-1]])

    def at(self, times: Array) -> Array:
        """Return, for each row, how likely its wait is over at each of `times` (ms)."""
        return self._sum(times - self._low)

    def each(self, times: Array) -> Array:
        """Return the same where each row has `times` of its own."""
        return self._sum(np.repeat(times, self._sizes, axis=0) - self._low)

    def _sum(self, late: Array) -> Array:
        late *= self._scale
        np.maximum(late, 0.0, out=late)
        np.minimum(late, 1.0, out=late)
        late *= self._weight
        return np.add.reduceat(late, self._starts, axis=0)


class Intervals(NamedTuple):
    """Commit intervals of one member.

    `gaps`: up to four of its intervals (ms) with their weights. `idle`: how likely it had nothing to commit,
    for up to `life` (ms). `timer`: how likely a timer decides when it commits: its intervals are then
    multiples of one. `usual`: the median interval.
    """

    gaps: tuple[tuple[float, float], ...]
    idle: float
    life: float
    timer: float
    usual: float

    def waits(self) -> list[Wait]:
        """Return the time since the last commit, at any moment, as a mixture of waits."""
        share = 1 - self.idle
        # A pause is as likely of the order of its intervals as of that of its life.
        pause = min(self.life, _PAUSE * max(gap for gap, _ in self.gaps))
        idle = [(0.0, pause, self.idle / 2), (0.0, self.life, self.idle / 2)]
        return [(0.0, gap, share * weight) for gap, weight in self.gaps] + idle


def of_departed(one: Departed, siblings: Sequence[int], by: Fitted) -> Intervals:
    """Return the commit intervals of a departed member; `siblings`: intervals of those that stayed."""
    idle = _ALWAYS if one.trace.idle else _idleness(one, siblings, by)
    return _intervals(one.trace.gaps, siblings, idle, one.since)


def of_survivor(trace: Trace, since: int, by: Fitted) -> Intervals:
    """Return the commit intervals of a member that stayed."""
    idle = _ALWAYS if trace.idle else _own_idleness(trace.gaps, by)
    return _intervals(trace.gaps, (), idle, since)


def _idleness(one: Departed, siblings: Sequence[int], by: Fitted) -> float:
    gaps = one.trace.gaps
    own = _own_idleness(gaps, by) if gaps else by.idle_unseen if siblings else min(1.0, 2 * by.idle_unseen)
    return own * by.went_on if one.went_on else own


def _own_idleness(gaps: Sequence[int], by: Fitted) -> float:
    """How often it had nothing to commit: its own long pauses tell."""
    if not gaps:
        return by.idle_unseen
    median = sorted(gaps)[len(gaps) // 2]
    paused = sum(gap > _LONG * median for gap in gaps)
    return (paused + by.idle_unseen) / (len(gaps) + 3 * by.idle_unseen)


def _intervals(own: Sequence[int], siblings: Sequence[int], idle: float, life: int) -> Intervals:
    known = sorted(own) if len(own) >= _ENOUGH else sorted([*own, *(siblings or _USUAL_MS)])
    last = len(known) - 1
    places = range(_PICKED)
    picked = known if last < _PICKED else [known[place * last // (_PICKED - 1)] for place in places]
    gaps = [max(float(gap), _LEAST_MS) * _LONGER + SLACK_MS for gap in picked]
    total = sum(gaps)
    return Intervals(
        gaps=tuple((gap, gap / total) for gap in gaps),
        idle=idle,
        life=max(float(life), 1_000.0),
        timer=_timed(own) if len(own) >= _ENOUGH else 0.5,
        usual=float(known[len(known) // 2]),
    )


def _timed(gaps: Sequence[int]) -> float:
    """How likely a timer decides: intervals of one are whole multiples of the usual one."""
    median = sorted(gaps)[len(gaps) // 2]
    near = sum(abs(gap / median - max(round(gap / median), 1)) < _MULTIPLE for gap in gaps)
    return (near + 1) / (len(gaps) + 2)
