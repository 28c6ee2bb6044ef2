"""How long the join phase lasted, and what those that stayed say of it.

A survivor learns of a rebalance with its next heartbeat, and rejoins at once or in its next poll(). It may
commit as it gives up its partitions; it commits no more until the phase is over, unless the group is
cooperative. So its last commit bounds when it rejoined. If the phase ended with a survivor, one rejoined at
its very end; if it was held by another, all had rejoined within a heartbeat of its beginning.

No record holds the heartbeat interval. Clients default to 3 s and are told to keep it below a third of the
session, which is what platforms set it to. A few candidates are tried; a group keeps how likely each is.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rebalance_monitor.coordinator.departure.hypotheses import client_of
from rebalance_monitor.coordinator.departure.waits import Intervals, Mixtures, of_survivor

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from rebalance_monitor.coordinator.departure.evidence import Evidence, Trace
    from rebalance_monitor.coordinator.departure.fitted import Fitted

    Array = npt.NDArray[np.float64]

DEFAULT_MS = 3_000
_SHORT_MS = 1_000
_FORGET = 0.02
_LEAST = 1e-3
# Cells of the length of a join phase, ms: finer where clients' heartbeats and polls end.
_EDGES = (
    *(0.0, 30.0, 150.0, 400.0, 700.0, 1_000.0, 1_300.0, 1_700.0, 2_200.0, 2_700.0, 3_200.0, 4_000.0, 5_200.0),
    *(6_600.0, 8_500.0, 11_000.0, 14_000.0, 18_000.0, 23_000.0, 30_000.0, 40_000.0, 55_000.0, 75_000.0),
    *(105_000.0, 150_000.0, 220_000.0, 330_000.0),
)
_LATE_MS, _BUSY_MS = 1_500.0, 30_000.0
_POLL_MS = 150.0
_AT_END_MS, _COMMIT_MS = 15.0, 60.0
_NARROW_MS = 30.0
_EAGER, _COOPERATIVE = 0.05, 0.4
_DEADLINE_MS = (10.0, 60.0)
_TIMED = 0.5
_LONGER = 1.6
_FINE_MS, _NEAR_MS = 5_000, 250
_UNDER = (200.0, 500.0, 1_000.0, 2_000.0, 3_500.0, 6_000.0, 9_500.0, 16_000.0)
_FINE = (-1_000, -250, 250, 750, 1_500, 3_000, 5_500, 10_000, 20_000)


class Grid(NamedTuple):
    """Cells of the length of the join phase, ms; `deadline`: the cell of the join deadline.

    `table`: the edges, and before them lesser ages: members rejoin up to a heartbeat after the beginning.
    """

    edges: Array
    middle: Array
    width: Array
    deadline: Array
    table: Array


class Phase(NamedTuple):
    """Likelihoods by heartbeat interval (rows) and cell of the grid (columns).

    `free`: the phase ended as the last survivor rejoined (per ms). `held`: all survivors had rejoined and it
    went on. `spread`: within so long (ms) of its beginning they did so.
    """

    grid: Grid
    free: Array
    held: Array
    spread: Array


@lru_cache(maxsize=256)
def _cells(least: float, most: float, deadline: int, near: int, quiet: int) -> Grid:
    low, high = deadline - _DEADLINE_MS[0], deadline + _DEADLINE_MS[1]
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
    return Grid(cut, middle, np.diff(cut), ((middle > low) & (middle < high)).astype(float), table)


def grid_of(evidence: Evidence) -> Grid:
    """Return the cells that the phase may have lasted for: no longer than since the record before."""
    least, bound = evidence.phase
    most = float(bound)
    if most < 0:
        # Rounded up, so that grids are made once.
        most = next((edge for edge in _EDGES if edge >= evidence.since), _EDGES[-1])
        if not evidence.aborted and (evidence.kept or evidence.joined):
            # Whoever has not rejoined at the deadline is removed, and somebody had.
            most = min(most, evidence.deadline + _DEADLINE_MS[1])
    low = max(float(least), 0.0)
    last = max((trace.last for trace in evidence.survivors), default=-1)
    near = last // _NEAR_MS * _NEAR_MS if last > _FINE_MS else -1
    quiet = -(-quiet_of(evidence.survivors) // _NEAR_MS) * _NEAR_MS
    return _cells(low, max(most, low + _NARROW_MS), evidence.deadline, near, quiet)


def phase_of(evidence: Evidence, grid: Grid, beats: Array, by: Fitted) -> Phase:
    """Return what survivors say of the phase; `beats`: heartbeat intervals (ms) to be tried."""
    told = [(trace, of_survivor(trace, evidence.since, by)) for trace in evidence.survivors]
    told = [(trace, intervals) for trace, intervals in told if len(trace.gaps) >= 1]
    between = any(client_of(one).between for one in evidence.departed)
    busy = max((one.usual for _, one in told if between or one.timer < _TIMED), default=0.0)
    beat = beats[:, None] * (1 + evidence.aborted)
    prior = _prior(evidence, grid, beat, busy, by)
    free, held = prior / grid.width, np.cumsum(prior, axis=1)
    spread = np.minimum(beat + 100 + busy, np.maximum(grid.middle, _NARROW_MS))
    if told:
        at_end, at_start = _survived(evidence, grid, spread, told, by)
        free, held = free * at_end, held * at_start
    return Phase(grid, free, held, spread)


def _prior(evidence: Evidence, grid: Grid, beat: Array, busy: float, by: Fitted) -> Array:
    """How likely the last survivor rejoined in each cell, before its commits are looked at."""
    if not evidence.kept and not evidence.joined:
        return np.broadcast_to((grid.edges[1:] <= _NARROW_MS).astype(float), (len(beat), len(grid.middle)))
    edges = grid.edges
    quiet = quiet_of(evidence.survivors) // -_NEAR_MS * -_NEAR_MS
    share = by.busy_seen * (quiet > 0)
    rest = 1 - share
    waits = (
        (rest * (1 - by.late_poll - by.busy_poll), beat + _POLL_MS + busy),
        (rest * by.late_poll, beat + _LATE_MS + 2 * busy),
        (rest * by.busy_poll / 2, beat + _BUSY_MS),
        (rest * by.busy_poll / 2, np.maximum(beat + _BUSY_MS, evidence.deadline)),
        (share, np.full_like(beat, max(quiet, _NARROW_MS))),
    )
    one = sum(share * np.minimum(edges / most, 1.0) for share, most in waits)
    prior: Array = 0.5 * np.diff(one) + 0.5 * np.diff(one ** max(evidence.kept, 1))
    return prior


def quiet_of(survivors: Sequence[Trace]) -> int:
    """For how long (ms) before it rejoined at the very end a survivor did not commit, 0 where as usual.

    It may have been in a long batch: then the others have waited for it.
    """
    ended = (trace for trace in survivors if 0 <= trace.last <= _SHORT_MS and _was_quiet(trace))
    return max((trace.last + trace.gaps[-1] for trace in ended), default=0)


def _was_quiet(trace: Trace) -> bool:
    """Whether it made its last commit later than it usually does."""
    *before, last = trace.gaps or (0,)
    return bool(before) and last > _LONGER * sorted(before)[len(before) // 2]


def _lateness(survivors: Sequence[Trace], by: Fitted) -> Array:
    """How likely each of them did not rejoin soon: it was in a batch as the phase began."""
    usual = by.late_poll + by.busy_poll
    return np.array([by.busy_seen if _was_quiet(trace) else usual for trace in survivors])


def _survived(
    evidence: Evidence, grid: Grid, spread: Array, told: Sequence[tuple[Trace, Intervals]], by: Fitted
) -> tuple[Array, Array]:
    """Return how likely the last commits of survivors are if the phase ended with one, and if it was held."""
    last = np.array([trace.last if trace.last >= 0 else evidence.since for trace, _ in told], float)
    commits = np.array([by.rejoin_commit if trace.last >= 0 else 0.0 for trace, _ in told])[:, None]
    waits = Mixtures([intervals.waits() for _, intervals in told])
    broad = _COOPERATIVE if evidence.cooperative else _EAGER
    wide = broad / max(evidence.since, 1_000.0)
    table = grid.table
    ages = np.concatenate([np.array([0.0, _AT_END_MS, -_AT_END_MS]), table])
    at = last[:, None] - ages
    seen = commits * np.clip(at / _COMMIT_MS, 0, 1) + (1 - commits) * waits.each(at)
    now, cut = seen[:, :1], seen[:, -len(grid.edges) :]
    point = (seen[:, 2] - seen[:, 1])[:, None] / (2 * _AT_END_MS)
    middle = (cut[:, :-1] + cut[:, 1:]) / 2
    inside = (now - middle) / np.maximum(grid.middle, _NARROW_MS)
    share = 1 / max(evidence.kept, 1)
    at_end = np.prod((1 - broad) * (share * point + (1 - share) * inside) + wide, axis=0)
    start = grid.middle - spread
    begun = np.stack([[np.interp(row, table, one) for row in start] for one in seen[:, 3:]])
    within = begun - middle[:, None, :]
    late = _lateness([trace for trace, _ in told], by)[:, None, None]
    soon = np.maximum(within, 0.0) / spread
    at_start = np.prod((1 - broad) * ((1 - late) * soon + late * inside[:, None, :]) + wide, axis=0)
    if len(told) == 1:
        return at_end, at_start
    near = np.prod((1 - broad) * np.maximum(cut[:, :-1] - cut[:, 1:], 0) / grid.width + wide, axis=0)
    return _aligned(grid, spread, near, at_end, at_start, by)


def _aligned(
    grid: Grid, spread: Array, near: Array, at_end: Array, at_start: Array, by: Fitted
) -> tuple[Array, Array]:
    """Mix in that survivors rejoined together: their heartbeats began together, with the generation.

    However long the phase was, they then rejoined within a time that is as likely in any of its first cells.
    """
    near_cells = max(int(np.searchsorted(grid.middle, by.jitter)), 1)
    cells = np.minimum(np.arange(1, len(grid.middle) + 1), near_cells)
    together_at_end = (np.cumsum(at_end) / np.arange(1, len(at_end) + 1))[cells - 1]
    total = np.concatenate([[0.0], np.cumsum(near * grid.width)])
    low = np.maximum(grid.middle - spread, 0.0)
    both = np.interp(grid.middle, grid.edges, total) - np.interp(low, grid.edges, total)
    together = both / np.maximum(grid.middle - low, 1.0)
    return (
        (1 - by.aligned) * at_end + by.aligned * together_at_end,
        (1 - by.aligned) * at_start + by.aligned * together,
    )


def candidates(session: int) -> tuple[int, ...]:
    """Return the heartbeat intervals (ms) that are tried for a session timeout of so many ms."""
    third = max(session // 3, 300)
    default = min(DEFAULT_MS, third)
    return tuple(sorted({min(_SHORT_MS, third // 2), default, (default + third) // 2, third}))


def prior(session: int, known: Sequence[float], by: Fitted) -> Array:
    """How likely each candidate is; `known`: what earlier rebalances of the group say of each."""
    tried = candidates(session)
    third, default = tried[-1], min(DEFAULT_MS, tried[-1])
    rest = (1 - by.beat_default - by.beat_third) / len(tried)
    shares = np.array(
        [rest + by.beat_default * (one == default) + by.beat_third * (one == third) for one in tried]
    )
    if len(known) == len(tried):
        shares = shares * np.array(known)
    return np.asarray(shares / shares.sum())


def likeliest(session: int, known: Sequence[float], by: Fitted) -> int:
    """Return the likeliest candidate (ms)."""
    shares = prior(session, known, by)
    return candidates(session)[int(shares.argmax())]


def learned(before: Sequence[float], likely: Array) -> tuple[float, ...]:
    """Return what a group knows of its candidates after a rebalance that made each so `likely`."""
    best = float(likely.max())
    if best <= 0:
        return tuple(before)
    now = np.maximum(likely / best, _LEAST)
    if len(before) == len(now):
        now = now * np.array(before)
    now = (1 - _FORGET) * now / now.max() + _FORGET
    return tuple(round(float(one), 3) for one in now)
