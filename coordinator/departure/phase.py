"""How long the join phase lasted, and what the surviving members say of it.

A survivor learns of a rebalance with its next heartbeat, and rejoins at once or in its next poll(). It may
commit as it gives up its partitions; it commits no more until the phase is over, unless the group is
cooperative. So its last commit bounds when it rejoined. If the phase ended with a survivor, one rejoined at
its very end; if it was held by another, all had rejoined within a heartbeat of its beginning.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rebalance_monitor.coordinator.departure.fitted import FITTED, Fitted
from rebalance_monitor.coordinator.departure.hypotheses import SOON_MS, client_of
from rebalance_monitor.coordinator.departure.waits import (
    DEFAULT_BEAT_MS,
    Mixtures,
    lateness,
    learned_heartbeats,
    of_survivor,
    quiet_of,
    tried_heartbeats,
    until_rejoined,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from rebalance_monitor.coordinator.departure.evidence import Departed, Evidence, Trace
    from rebalance_monitor.coordinator.departure.waits import Wait

    Array = npt.NDArray[np.float64]
    Places = npt.NDArray[np.intp]

AT_ONCE_MS = 1_250
"""Within so long of a generation members of a cooperative group rejoin that have something to give up."""

BESIDE = 4
"""So many more ages than those of the grid's table, and those `over`, are asked of a departed member."""

# Cells of the length of a join phase, ms: finer where clients' heartbeats and polls end.
_EDGES = (
    *(0.0, 30.0, 150.0, 400.0, 700.0, 1_000.0, 1_300.0, 1_700.0, 2_200.0, 2_700.0, 3_200.0, 4_000.0, 5_200.0),
    *(6_600.0, 8_500.0, 11_000.0, 14_000.0, 18_000.0, 23_000.0, 30_000.0, 40_000.0, 55_000.0, 75_000.0),
    *(105_000.0, 150_000.0, 220_000.0, 330_000.0, 480_000.0, 700_000.0, 1_000_000.0, 1_500_000.0),
    *(2_200_000.0, 3_200_000.0, 4_700_000.0, 7_000_000.0, 10_000_000.0, 15_000_000.0, 22_000_000.0),
)
# So long phases are thought of where a deadline may have begun again.
_USUAL_MS = 330_000.0
_AT_END_MS = 15.0
_AROUND_END = (0.0, _AT_END_MS, -_AT_END_MS)
_NARROW_MS = 30.0
_DEADLINE_MS = (10.0, 60.0)
_RECORD_MS = 100
_TIMED = 0.5
_WAITS = 5
# So much is kept of what many rebalances share; an entry takes some 5 KB.
_KEPT = 1_024
_FINE_MS, _NEAR_MS = 5_000, 250
_UNDER = (200.0, 500.0, 1_000.0, 2_000.0, 3_500.0, 6_000.0, 9_500.0, 16_000.0)
_FINE = (-1_000, -250, 250, 750, 1_500, 3_000, 5_500, 10_000, 20_000)


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Cells of the length of the join phase, ms.

    `deadline`: how likely (per ms) the join deadline ends in each, so that it ends in one of them: `due`.
    `table`: the edges, and before them lesser ages: members rejoin up to a heartbeat after the beginning.
    `around`: the table, and moments around the end of the phase. `least`: the middle, 30 ms at least.
    """

    edges: Array
    middle: Array
    width: Array
    deadline: Array
    table: Array
    around: Array
    least: Array
    due: slice


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """Within how long (ms) of the beginning survivors rejoin, by heartbeat interval (rows) and cell.

    `start`: how long before the end that was over. It lies a `share` of the way from a `place` of the grid's
    table to the `next`. `rows`: that place, of several tables in a row with `BESIDE` more ages each.
    `edge`, `part`: the same place, among the grid's edges. `rest`: from `start` to the middle of a cell (ms).
    `long`: the cells that outlast every session of those that had not rejoined, which end `over` (ms) before.
    """

    beats: Array
    spread: Array
    start: Array
    place: Places
    next: Places
    share: Array
    rows: Places
    next_rows: Places
    edge: Places
    next_edge: Places
    part: Array
    rest: Array
    long: Places
    over: Array

    def begun(self, table: Array) -> Array:
        """Return the distributions at `start`, of those at the grid's table (members, times)."""
        return self._between(table, self.place, self.next)

    def begun_by_beat(self, tables: Array) -> Array:
        """Return the same for what depends on the heartbeat interval: (members, ways, intervals, times)."""
        return self._between(tables.reshape(*tables.shape[:2], -1), self.rows, self.next_rows)

    def _between(self, table: Array, places: Places, following: Places) -> Array:
        low, high = table.take(places, axis=-1), table.take(following, axis=-1)
        high -= low
        high *= self.share
        high += low
        return high


class Phase(NamedTuple):
    """Likelihoods by heartbeat interval (rows) and cell of the grid (columns).

    `free`: the phase ended as the last survivor rejoined (per ms). `held`: all survivors had rejoined and it
    went on, a `span` after its beginning. `awaited`: a member that lives had not rejoined by its end.
    """

    grid: Grid
    free: Array
    held: Array
    span: Span
    awaited: Array


@lru_cache(maxsize=_KEPT)
def _cells(least: float, most: float, deadline: int, near: int, quiet: int, later: float, due: float) -> Grid:
    low, high = deadline - _DEADLINE_MS[0], deadline + _DEADLINE_MS[1] + later
    edges = {edge for edge in _EDGES if least < edge < most and not low - 200 < edge < high + 240}
    if near >= 0:
        # The phase began about as the first survivor rejoined: cells are wide so far in the past.
        edges |= {one for step in _FINE if least < (one := float(near + step)) < most}
    edges |= {least, most} | {float(edge) for edge in (quiet,) if least < edge < most}
    edges |= {edge for edge in (low, high) if least < edge <= most}
    cut = np.array(sorted(edges))
    middle = (cut[:-1] + cut[1:]) / 2
    under = {max(least - step, 0.0) for step in _UNDER} - {least}
    table = np.concatenate([np.array(sorted(under)), cut])
    width = np.diff(cut)
    late = due * ((middle > low) & (middle < high))
    late /= max(float((late * width).sum()), 1.0)
    around = np.concatenate([table, _AROUND_END])
    (some,) = np.nonzero(late)
    ends = slice(int(some[0]), int(some[-1]) + 1) if len(some) else slice(0, 0)
    return Grid(cut, middle, width, late, table, around, np.maximum(middle, _NARROW_MS), ends)


def grid_of(evidence: Evidence, quiet: int) -> Grid:
    """Return the cells that the phase may have lasted for: no longer than since the record before.

    `quiet`: for how long (ms) a survivor that rejoined last did not commit (`quiet_of`).
    """
    least, bound = evidence.phase
    most = float(bound)
    if most < 0:
        # Rounded up, so that grids are made once.
        most = next((edge for edge in _EDGES if edge >= evidence.since), _EDGES[-1])
        # A dynamic member that has not rejoined at the deadline is removed; static ones are awaited again.
        longest = (evidence.deadline + _DEADLINE_MS[1]) * (1 + evidence.aborted)
        again = evidence.aborted or (evidence.is_emptied and any(one.static for one in evidence.departed))
        most = min(most, max(longest, _USUAL_MS) if again else longest)
    low = max(float(least), 0.0)
    last = max([trace.last for trace in evidence.survivors], default=-1)
    if last < 0 and evidence.withheld:
        last = evidence.since
    near = last // _NEAR_MS * _NEAR_MS if last > _FINE_MS else -1
    # No phase outlasts its deadline: that ended an earlier one, whose generation failed.
    later = (
        most - evidence.deadline if evidence.aborted and low > evidence.deadline + _DEADLINE_MS[1] else 0.0
    )
    quiet = -(-quiet // _NEAR_MS) * _NEAR_MS
    most = max(most, low + _NARROW_MS)
    # A phase begins after the record before: a later one has not lasted to the deadline.
    due = float(evidence.aborted > 0 or evidence.since + _RECORD_MS >= evidence.deadline)
    return _cells(low, most, evidence.deadline, near, quiet, later, due)


def phase_of(evidence: Evidence, by: Fitted) -> Phase:
    """Return what survivors say of the phase."""
    quiet = quiet_of(evidence.survivors)
    grid = grid_of(evidence, quiet)
    committing = [trace for trace in evidence.survivors if trace.gaps]
    known = [(trace, of_survivor(trace, evidence.since, by)) for trace in committing]
    clients = [client_of(one) for one in evidence.departed]
    between = any(one.between for one in clients)
    fetch = 0.0 if evidence.is_emptied else max([one.fetches for one in clients], default=0.0)
    busy = fetch + max([one.usual for _, one in known if between or one.timer < _TIMED], default=0.0)
    failed = 0 if evidence.failures is None else evidence.aborted
    span = span_of(grid, evidence.session, evidence.deadline, failed, busy)
    if evidence.is_emptied:
        free, held = _emptied(grid, span)
    else:
        near = quiet // -_NEAR_MS * -_NEAR_MS
        free, held = _prior(grid, span, evidence.deadline, busy, near, evidence.kept, by)
    if known:
        survivors = [(trace, until_rejoined(trace, intervals, fetch, by)) for trace, intervals in known]
        at_end, at_start = _survived(evidence, grid, span, survivors, by)
        free, held = free * at_end, held * at_start
    if evidence.awaits:
        # One that is away, or in a long batch, is kept when the deadline ends the phase.
        ends = grid.deadline * by.busy_poll
        free = free + held * ends
    return Phase(grid, free, held, span, _awaited(grid, span, evidence.deadline, busy, by))


@lru_cache(maxsize=_KEPT)
def span_of(grid: Grid, session: int, deadline: int, aborted: int, busy: float) -> Span:
    """Return within how long survivors rejoin; `busy`: for how long (ms) one of them may not poll."""
    beats = np.array(tried_heartbeats(session, deadline), float)
    waits = beats[:, None] * (1 + aborted)
    spread = np.minimum(waits + 100 + busy, np.maximum(grid.middle, _NARROW_MS))
    start, table = grid.middle - spread, grid.table
    at = np.maximum(start, table[0])
    place = np.minimum(table.searchsorted(at, side="right") - 1, len(table) - 2)
    share = (at - table[place]) / (table[place + 1] - table[place])
    (long,) = np.nonzero((start.min(axis=0) > session) & (aborted == 0))
    over = start.min(axis=0)[long] - session
    rows = place + (len(table) + BESIDE + len(over)) * np.arange(len(beats))[:, None]
    low = np.clip(start, grid.edges[0], None)
    edge = np.minimum(grid.edges.searchsorted(low, side="right") - 1, len(grid.width) - 1)
    part = (low - grid.edges[edge]) / grid.width[edge]
    rest = np.maximum(grid.middle - np.maximum(start, 0.0), 1.0)
    return Span(
        waits, spread, start, place, place + 1, share, rows, rows + 1, edge, edge + 1, part, rest, long, over
    )


def begun(evidence: Evidence, grid: Grid, by: Fitted) -> Array:
    """Return how likely one that did not depart began the phase, by cell.

    Members of a cooperative group that were given what others give up rejoin at once. A newcomer whose phase
    lasts for as long as the coordinator waits for newcomers is in no record.
    """
    found = np.full(len(grid.middle), float(evidence.joined > 0) + by.uncaused)
    if evidence.may_lack_newcomer:
        found[grid.due] += 1.0
    if evidence.withheld:
        found[grid.edges[1:] >= evidence.since - AT_ONCE_MS] += by.follows / (1 - by.follows)
    return found


@lru_cache(maxsize=_KEPT)
def _prior(
    grid: Grid, span: Span, deadline: int, busy: float, quiet: int, kept: int, by: Fitted
) -> tuple[Array, Array]:
    """How likely (per ms) the last survivor rejoined in each cell, and by its end, whatever it commits."""
    one = _rejoined(grid, span, deadline, busy, quiet, by)
    both = by.alike * one + (1 - by.alike) * one ** max(kept, 1)
    # Sums differ in their last digit.
    prior = np.maximum(both[:, 1:] - both[:, :-1], 0.0)
    held = prior.cumsum(axis=1)
    # By the deadline all that are left have rejoined.
    return prior / grid.width, held + both[:, :1] if grid.edges[0] > deadline else held


def _rejoined(grid: Grid, span: Span, deadline: int, busy: float, quiet: int, by: Fitted) -> Array:
    """Return how likely a member has rejoined by each edge of the grid, by heartbeat interval."""
    share, beat = by.busy_seen * (quiet > 0), span.beats
    rest = 1 - share
    most = np.empty((_WAITS, len(beat), 1))
    most[0] = beat + by.rejoins + busy
    most[1] = beat + by.rejoins_late + 2 * busy
    most[2] = beat + by.rejoins_busy
    np.maximum(most[2], deadline, out=most[3])
    most[4] = max(quiet, _NARROW_MS)
    usual = rest * (1 - by.late_poll - by.busy_poll), rest * by.late_poll
    shares = np.array([*usual, rest * by.busy_poll / 2, rest * by.busy_poll / 2, share])
    return np.asarray(np.tensordot(shares, np.minimum(grid.edges / most, 1.0), axes=1))


@lru_cache(maxsize=_KEPT)
def _awaited(grid: Grid, span: Span, deadline: int, busy: float, by: Fitted) -> Array:
    """Return how likely one that lives has not rejoined by then, by heartbeat interval and cell."""
    one = _rejoined(grid, span, deadline, busy, 0, by)
    # Shares sum up to 1 but for rounding.
    return np.asarray(np.maximum(1 - (one[:, 1:] + one[:, :-1]) / 2, 0.0))


@lru_cache(maxsize=_KEPT)
def _emptied(grid: Grid, span: Span) -> tuple[Array, Array]:
    """Return the same where no member is left for which a phase would wait: a departed one holds it."""
    prior = np.broadcast_to((grid.edges[1:] <= _NARROW_MS).astype(float), span.spread.shape)
    return prior / grid.width, np.ones_like(prior)


def _survived(
    evidence: Evidence, grid: Grid, span: Span, survivors: Sequence[tuple[Trace, list[Wait]]], by: Fitted
) -> tuple[Array, Array]:
    """Return how likely the last commits of survivors are if the phase ended with one, and if it was held.

    `survivors`: each that commits, with how long after its last commit it rejoins.
    """
    broad = by.stray_cooperative if evidence.cooperative else by.stray
    wide = broad / max(evidence.since, 1_000.0)
    since = [trace.last if trace.last >= 0 else evidence.since for trace, _ in survivors]
    seen = Mixtures([waits for _, waits in survivors]).over(since, grid.around)
    seen *= 1 - broad
    ages = len(grid.table)
    cut, now = seen[:, ages - len(grid.edges) : ages], seen[:, ages : ages + 1]
    before, after = cut[:, :-1], cut[:, 1:]
    middle = before + after
    middle *= 0.5
    inside = now - middle
    inside /= grid.least
    point = seen[:, ages + 2 :] - seen[:, ages + 1 : ages + 2]
    point /= 2 * _AT_END_MS
    point += wide
    within = span.begun(seen)
    within -= middle[:, None, :]
    np.maximum(within, 0.0, out=within)
    late = lateness([trace for trace, _ in survivors], by)[:, None]
    within *= ((1 - late) / span.spread.reshape(1, -1)).reshape(within.shape)
    inside *= late
    inside += wide
    within += inside[:, None, :]
    at_start = np.multiply.reduce(within, axis=0)
    # One at least rejoined at the end, maybe one that is not listed; others as if another had held it.
    share, some = 1 / max(evidence.kept, 1), len(survivors)
    within *= 1 - share
    within += share * point[:, None, :]
    none = at_start * ((1 - share) ** some * some * share)
    at_end = np.maximum(np.multiply.reduce(within, axis=0) - none, 0.0)
    if len(survivors) == 1:
        return at_end, at_start
    near = before - after
    np.maximum(near, 0.0, out=near)
    near /= grid.width
    near += wide
    return _aligned(grid, span, np.multiply.reduce(near, axis=0), at_end, at_start, by)


def _aligned(
    grid: Grid, span: Span, near: Array, at_end: Array, at_start: Array, by: Fitted
) -> tuple[Array, Array]:
    """Mix in that survivors rejoined together: their heartbeats began together, with the generation.

    However long the phase was, they then rejoined within a time that is as likely in any of its first cells.
    """
    count, first = _first_cells(grid, by.jitter)
    together_at_end = (at_end.cumsum(axis=1) / count).take(first, axis=1)
    total = np.zeros(len(grid.edges))
    (near * grid.width).cumsum(out=total[1:])
    low, high = total.take(span.edge), total.take(span.next_edge)
    high -= low
    high *= span.part
    together = (total[1:] + total[:-1]) / 2 - low
    together -= high
    together /= span.rest
    together *= by.aligned
    at_start *= 1 - by.aligned
    at_start += together
    return (1 - by.aligned) * at_end + by.aligned * together_at_end, at_start


@lru_cache(maxsize=_KEPT)
def _first_cells(grid: Grid, jitter: float) -> tuple[Array, Places]:
    """Return the number of cells up to each, and the last one of these that is within `jitter` (ms)."""
    near = max(int(grid.middle.searchsorted(jitter)), 1)
    count = np.arange(1, len(grid.middle) + 1)
    return count.astype(float), np.minimum(count, near) - 1


def learn_heartbeats(evidence: Evidence, by: Fitted = FITTED) -> tuple[float, ...]:
    """Return what a group knows of its heartbeat interval after a rebalance in which no member departed.

    Survivors rejoin within a heartbeat of its beginning, so the end of the phase says how long one may be.
    """
    if not tells_heartbeats(evidence):
        return evidence.beats
    seen = phase_of(evidence, by)
    return learned_heartbeats(evidence.beats, (seen.free * seen.grid.width).sum(axis=1))


def tells_heartbeats(evidence: Evidence) -> bool:
    """Whether the length of the phase says how long a heartbeat interval is.

    A member that is alone and that no newcomer joins begins the phase by itself. In the first moments of a
    generation members hear of the next phase as they sync.
    """
    by_itself = evidence.kept <= 1 and not (evidence.joined or evidence.departed)
    return not by_itself and evidence.since >= DEFAULT_BEAT_MS


def beside_the_last(grid: Grid, tried: Sequence[int], now: Array, table: Array) -> Array:
    """Return how likely (per ms) each member expired near the end of a long phase, by interval and cell.

    `now`, `table`: how likely its session has ended, at the end of the phase and at the grid's table. What
    befell two at once ends their sessions within a heartbeat of each other.
    """
    soon = np.array(tried, float) + SOON_MS
    places = np.minimum(grid.table.searchsorted(soon), len(grid.table) - 1)
    late = now[..., 0] - table[:, np.arange(len(soon)), places]
    near = np.maximum(late, 0.0) / soon
    return np.asarray(near[..., None] * (grid.middle > soon[:, None]))


def replaced(
    one: Departed, edges: Array, tried: Sequence[int], deadline: int, by: Fitted
) -> tuple[Array, Array]:
    """Return how likely a client that its process has replaced held the phase, by when it was replaced.

    The new one's join began the phase after the old one's last poll: as soon as it can, later, or at any
    time. First (per ms, by cell between the `edges`) that the old one left as its interval had passed. Then
    that the join deadline came before: as long after the new one's join, while the old one saw its breach a
    `notice` too late.
    """
    limit, client = one.poll_interval or one.rebalance, client_of(one)
    first, (least, soon) = deadline <= limit, client.joins
    shares = by.replaced_at_once, 1 - by.replaced_at_once - by.replaced_any, by.replaced_any
    times = soon, max(by.replaced_late, 1.2 * one.usual), max(soon, float(limit))
    left, late = [], []
    for notice in tried if client.at_beat else (client.notice,):
        until = limit + (min(notice - least, 0.0) if first else notice)
        missed, over = 0.0, np.zeros(len(edges))
        for within, share in zip(times, shares, strict=True):
            later = share * first * _later(notice, least, within)
            missed, since = missed + later, limit - within
            over += (share - later) / (until - since) * np.minimum(np.maximum(edges, since), until)
        left.append(over)
        late.append([missed])
    return np.diff(left) / np.diff(edges), np.array(late)


def _later(notice: float, least: float, most: float) -> float:
    """Return how often a time of up to `notice` is longer than one between `least` and `most` (all ms)."""
    if notice <= least:
        return 0.0
    if notice >= most:
        return 1 - (least + most) / (2 * notice)
    return (notice - least) ** 2 / (2 * notice * (most - least))
