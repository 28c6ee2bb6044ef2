"""The posterior: each departed member's way, the trigger and the holder of the join phase.

For a member last seen `s` ms before the end, and a phase of length J, a way whose removals are distributed
as F gives three likelihoods (per ms): as the trigger the member was removed J before the end, f(s - J); as
the holder at the end, f(s); and inside the phase F(s) - F(s - J), times the rate at which members depart
beside others. Given the phase, members depart independently. So the sum over all triggers and holders
factorises, and its cost is linear in the number of members. Cells of J are integrated by differences of F:
sharp timers survive them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rebalance_monitor.coordinator.departure import phase, timers
from rebalance_monitor.coordinator.departure.alone import Explained, alone, is_alone, is_obvious
from rebalance_monitor.coordinator.departure.evidence import SAME_PLACE
from rebalance_monitor.coordinator.departure.fitted import FITTED, Fitted
from rebalance_monitor.coordinator.departure.hypotheses import (
    Way,
    client_of,
    learned_ways,
    prior_of,
    shares_of_ways,
)
from rebalance_monitor.coordinator.departure.waits import Mixtures, of_departed

if TYPE_CHECKING:
    import numpy.typing as npt

    from rebalance_monitor.coordinator.departure.evidence import Departed, Evidence
    from rebalance_monitor.coordinator.departure.phase import Grid, Phase
    from rebalance_monitor.coordinator.departure.waits import Wait

    Array = npt.NDArray[np.float64]
    Places = npt.NDArray[np.int_]

_TINY, _NOTHING, _MOST_LOG = 1e-30, 1e-300, 600.0
_AT_MS = 15.0
_SOON_MS = 100.0
_LEAST_PHASE_MS = 1_000.0
# How long after a client's last poll its process has another one join.
_REPLACED_MS = 3_000.0
_BY_BEAT = (Way.DIED, Way.STALLED)
_PLAIN = (Way.LEFT, Way.UNJOINED, Way.UNSYNCED, Way.UNKNOWN)
_STALLED = len(_PLAIN)


class _Scene(NamedTuple):
    """What all members of a rebalance share."""

    evidence: Evidence
    phase: Phase
    tried: tuple[int, ...]
    siblings: list[int]
    shares: list[float]
    newborn: int
    by: Fitted


class _Removals(NamedTuple):
    """How likely a member's removal is over, by way and heartbeat interval (of all that was before the end).

    `now`: at the end of the phase. `within`: in each cell of the grid. `middle`: in the middle of each.
    `at_end`: its density at the end. `before`: a session timeout before that. `table`: at the grid's `table`.
    """

    now: Array
    within: Array
    middle: Array
    at_end: Array
    before: Array
    table: Array


class _Rates(NamedTuple):
    """How likely (per ms) another member departs beside one, by way, heartbeat interval and cell.

    `near`: as long as two that depart together do so, within a heartbeat. `apart`: later. `rate`: in all.
    """

    near: Array
    apart: Array
    rate: Array


_TRIGGER, _HOLDER, _INSIDE, _REMOVED = range(4)
_ROLES = 3


def explain(evidence: Evidence, by: Fitted = FITTED) -> Explained:
    """Explain one rebalance: the only entry of the model. The same evidence gives the same answer."""
    if is_alone(evidence) or is_obvious(evidence):
        return alone(evidence, by)
    seen = phase.phase_of(evidence, phase.grid_of(evidence), by)
    if not evidence.departed:
        length, beats = phase.learn_heartbeats(seen, evidence.beats)
        return Explained([], [], [1.0, 0.0], length, beats, evidence.ways)
    siblings = [gap for trace in evidence.survivors for gap in trace.gaps[-4:]]
    shares = shares_of_ways(evidence.ways, by)
    newborn = sum(one.young for one in evidence.departed)
    scene = _Scene(evidence, seen, phase.candidates(evidence.session), siblings, shares, newborn, by)
    roles = np.empty((len(evidence.departed), _ROLES, len(Way), *seen.span.spread.shape))
    beside = np.zeros((len(evidence.departed), *seen.span.spread.shape))
    for one, found, near in zip(evidence.departed, roles, beside, strict=True):
        _fill_roles(scene, one, near, *found)
    return _summed(scene, roles, beside, phase.prior(evidence.session, evidence.beats, by))


def _fill_roles(
    scene: _Scene, one: Departed, beside: Array, trigger: Array, holder: Array, inside: Array
) -> None:
    """Fill in the likelihoods of one member in each role, by way, heartbeat interval and cell.

    `beside`: that it died with the one whose session held the phase.
    """
    evidence, grid, span, by = scene.evidence, scene.phase.grid, scene.phase.span, scene.by
    prior = np.array(prior_of(one, scene.shares, by))[:, None, None]
    seen = _removals(scene, one)
    replaced = bool(one.returned) and len(evidence.departed) == 1
    near, apart, rate = _rates(grid, scene.tried, evidence.deadline, one.session, by, alone=replaced)
    np.multiply(seen.within, prior / grid.width, out=trigger)
    np.multiply(prior * seen.at_end, rate, out=holder)
    if one.returned == SAME_PLACE:
        holder[Way.STALLED] = prior[Way.STALLED] * seen.at_end[Way.STALLED] * _leaked(grid.middle, one)
    begun = span.begun_by_beat(seen.table)
    begun -= seen.middle
    np.maximum(begun, 0.0, out=begun)
    np.subtract(seen.now, seen.middle, out=inside)
    np.maximum(inside, 0.0, out=inside)
    inside *= prior * apart
    inside += prior * near * begun
    if len(evidence.departed) > 1:
        np.multiply(prior[Way.DIED], _beside_the_last(scene, seen), out=beside)
        # One that had rejoined waits without commits, and may leave at any time: its last commit says when it
        # stopped.
        waited = prior[Way.LEFT] * by.waited * apart[Way.LEFT] * begun[Way.UNJOINED] / span.spread
        holder[Way.LEFT] += waited
        inside[Way.LEFT] += waited * grid.middle
    trigger[Way.UNJOINED] = inside[Way.UNJOINED] = 0.0
    holder[Way.UNJOINED] = _unjoined(scene, one, seen, prior[:, 0, 0])


@lru_cache(maxsize=1_024)
def _rates(
    grid: Grid, tried: tuple[int, ...], deadline: int, session: int, by: Fitted, *, alone: bool
) -> _Rates:
    """Return how often others depart beside a member with that session timeout.

    `alone`: no other departed, and a newcomer has taken its place.
    """
    soon = np.array(tried, float)[:, None] + _SOON_MS
    together = np.full((len(Way), 1, 1), by.together)
    far = np.full((len(Way), 1, 1), max(by.apart, float(deadline)))
    far[Way.DIED] = session
    if alone:
        # Its process came back because it had died, and that began the phase: at any time of its session.
        together[Way.DIED] = 0.0
    near, apart = together / soon, (1 - together) / far
    return _Rates(near, apart, near * (grid.middle <= soon) + apart * (grid.middle <= far))


def _beside_the_last(scene: _Scene, seen: _Removals) -> Array:
    """Return how likely (per ms) a member expired near the end of a long phase.

    What befell two at once ends their sessions within a heartbeat of each other.
    """
    grid, soon = scene.phase.grid, np.array(scene.tried, float) + _SOON_MS
    places = np.minimum(grid.table.searchsorted(soon), len(grid.table) - 1)
    late = seen.now[Way.DIED, :, 0] - seen.table[Way.DIED, np.arange(len(soon)), places]
    near = np.maximum(late, 0.0) / soon
    return np.asarray(near[:, None] * (grid.middle > soon[:, None]))


def _leaked(length: Array, one: Departed) -> Array:
    """Return how likely (per ms) a phase of a length was held by a client that its process has replaced.

    The new one's join began the phase, soon after the old one's last poll.
    """
    limit, late = one.poll_interval or one.rebalance, max(_REPLACED_MS, 1.2 * one.usual)
    return np.asarray((length > limit - late) & (length <= limit + _REPLACED_MS)) / (late + _REPLACED_MS)


def _unjoined(scene: _Scene, one: Departed, seen: _Removals, prior: Array) -> Array:
    """Return how likely the join deadline removed the member, by when it committed last.

    It stopped as the phase began, or long before, commits on, or fell silent within the phase. A dead member
    whose session outlasts the deadline is removed there, too; it died before the phase.
    """
    evidence, grid, by, way = scene.evidence, scene.phase.grid, scene.by, Way.UNJOINED
    length, deadline = grid.middle, max(evidence.deadline, 1_000)
    found = np.zeros_like(length)
    if prior[way]:
        found += by.deaf_before * seen.within[way, 0] / grid.width + by.deaf_commits * seen.at_end[way, 0]
        found += (
            by.deaf_long / deadline * ((one.last_active > length) & (one.last_active <= length + deadline))
        )
        within = max(1 - by.deaf_before - by.deaf_commits - by.deaf_long, 0.0)
        found += within / np.maximum(length, _LEAST_PHASE_MS) * (one.last_active <= length)
        found *= prior[way]
    if one.session > evidence.deadline and not one.static:
        dead = np.maximum(seen.middle[way, 0] - seen.before[way, 0], 0.0)
        found += prior[Way.DIED] * dead / np.maximum(one.session - length, _SOON_MS)
    return found


def _removals(scene: _Scene, one: Departed) -> _Removals:
    """Return how a member's removals are distributed at the ages that the roles need."""
    evidence, count = scene.evidence, len(scene.tried)
    least, most = one.removed if one.removed[1] >= 0 else (0, evidence.since + 1_000)
    grid = scene.phase.grid
    ages = np.empty(4 + len(grid.table))
    ages[:4] = one.session, least, least - _AT_MS, least + _AT_MS
    np.minimum(np.maximum(grid.table, least), most, out=ages[4:])
    seen, since, alive = float(one.last_active), float(one.since), float(one.alive)
    cdf = Mixtures(_waits(scene, one)).over(
        [seen, seen, since, seen, seen, *[alive] * count, *[seen] * count], ages
    )
    found = cdf[_rows(count)]
    found[Way.STALLED] += cdf[_STALLED]
    cut = found[..., -len(grid.edges) :]
    # Samples that saw it gone before the end leave it no holder.
    open_end = least <= 2 * _AT_MS + _SOON_MS
    at_end = (found[..., 2:3] - found[..., 3:4]) / (2 * _AT_MS) * open_end
    middle = (cut[..., :-1] + cut[..., 1:]) / 2
    within = cut[..., :-1] - cut[..., 1:]
    return _Removals(found[..., 1:2], within, middle, at_end, found[..., :1], found[..., 4:])


def _waits(scene: _Scene, one: Departed) -> list[list[Wait]]:
    """Return rows of waits: of each of `_PLAIN`, of `_STALLED`, then of each of `_BY_BEAT` per interval.

    A stalled member has two rows: what depends on the heartbeat interval, and what does not.
    """
    intervals, client, by = of_departed(one, scene.siblings, scene.by), client_of(one), scene.by
    if scene.newborn > 1:
        # One fault took them all: their ages are evidence of that fault once, not once for each member.
        intervals = intervals._replace(young=False)
    usual, beats = intervals.waits(), scene.tried
    plain = {
        Way.LEFT: timers.left(one, intervals, client, by),
        Way.UNJOINED: usual,
        Way.UNSYNCED: timers.unsynced(one) if one.trace.last < 0 else [],
        Way.UNKNOWN: [(0.0, one.since + 1_000.0, 1.0)],
    }
    stalled, noticed = timers.stalled(one, intervals, beats, client, by)
    if one.unmoved:
        stalled, noticed = usual, [[] for _ in beats]
    died = timers.died(one, intervals, beats, client, by)
    return [*(plain[way] for way in _PLAIN), stalled, *died, *noticed]


@lru_cache(maxsize=8)
def _rows(count: int) -> Places:
    """Return the row of `_waits` that each way has for each of so many heartbeat intervals."""
    places = np.empty((len(Way), count), int)
    for row, way in enumerate(_PLAIN):
        places[way] = row
    for row, way in enumerate(_BY_BEAT):
        places[way] = _STALLED + 1 + row * count + np.arange(count)
    return places


class _Sums(NamedTuple):
    """Sums over the other members, by (member, heartbeat interval, cell), 0 where there is one member.

    `scale`: the likelihood of all others inside. `triggers`: of a trigger among them; `begun`: of one that
    did not depart. `ended`: of a holder; `both`: of a trigger and a holder, which are not the same; `late`:
    that the deadline removed some. `top`: the logarithm that `scale` is scaled by.
    """

    scale: Array
    begun: Array
    triggers: Array | float
    ended: Array | float
    both: Array | float
    late: Array | float
    top: float


def _others(scene: _Scene, sums: Array, most: float | None = None) -> _Sums:
    """Sum over the others, from the `sums` of each member over its ways, by role.

    `most`: the logarithm that all is scaled by, the largest by default.
    """
    inside = sums[:, _INSIDE] + _TINY
    begun = phase.begun(scene.evidence, scene.phase.grid, scene.by)
    if len(sums) == 1:
        return _Sums(1 / inside.max(keepdims=True), begun, 0.0, 0.0, 0.0, 0.0, 0.0)
    trigger, holder = sums[:, _TRIGGER] / inside, sums[:, _HOLDER] / inside
    logs = np.log(inside)
    every = logs.sum(axis=0)
    pairs = trigger * holder
    triggers = np.maximum(trigger.sum(axis=0) - trigger, 0.0)
    ended = np.maximum(holder.sum(axis=0) - holder, 0.0)
    late = np.log1p(sums[:, _REMOVED] / inside)
    top = float(every.max()) if most is None else most
    return _Sums(
        scale=np.exp(np.minimum(every - top - logs, _MOST_LOG)),
        begun=begun,
        triggers=triggers,
        ended=ended,
        both=begun * ended + np.maximum(triggers * ended - np.maximum(pairs.sum(axis=0) - pairs, 0.0), 0.0),
        late=np.expm1(np.minimum(late.sum(axis=0) - late, _MOST_LOG)),
        top=top,
    )


class _Told(NamedTuple):
    """How likely each member is in each role (member, role, way), and all else (role, interval, cell)."""

    roles: Array
    cells: Array
    removed: Array
    top: float


def _summed(scene: _Scene, roles: Array, beside: Array, weights: Array) -> Explained:
    """Sum over every trigger and holder: each member in each role, with all that the others may have done.

    Those that died may have died together, by what befell them all: then one held the phase, and the others
    expired beside it.
    """
    told = _weighed(scene, roles, weights)
    if len(roles) > 1:
        together = roles.copy()
        together[:, _HOLDER] = 0.0
        together[:, _HOLDER, Way.DIED] = roles[:, _HOLDER, Way.DIED] * scene.by.dead_together
        together[:, _INSIDE, Way.DIED] = beside
        both = _weighed(scene, together, weights, told.top, held=True)
        told = _Told(told.roles + both.roles, told.cells + both.cells, told.removed + both.removed, told.top)
    return _posterior(scene, told, weights)


def _weighed(
    scene: _Scene, roles: Array, weights: Array, most: float | None = None, *, held: bool = False
) -> _Told:
    """Weigh all roles; `held`: only where one that departed has held the phase."""
    evidence, grid, seen = scene.evidence, scene.phase.grid, scene.phase
    sums = np.empty((len(roles), _ROLES + 1, *roles.shape[3:]))
    roles.sum(axis=2, out=sums[:, :_ROLES])
    sums[:, _REMOVED] = roles[:, _HOLDER, Way.UNJOINED]
    sums[:, _HOLDER] -= sums[:, _REMOVED]
    rest = _others(scene, sums, most)
    mass = weights[:, None] * grid.width
    free, kept = seen.free * mass * (not held), seen.held * mass
    late = kept * grid.deadline * (not held) / max(float((grid.deadline * grid.width).sum()), 1.0)
    started = rest.begun + rest.triggers
    # Where no member is left, the last one that departs has both begun the phase and ended it.
    last = started if evidence.kept or evidence.joined else rest.triggers
    # How likely all else is that belongs to a member in each role.
    told = np.empty_like(sums)
    told[:, _TRIGGER] = free + rest.ended * kept + late * rest.late
    told[:, _HOLDER] = started * kept
    told[:, _INSIDE] = last * free + started * late * rest.late + rest.both * kept
    told[:, _REMOVED] = started * late * (rest.late + 1)
    told *= rest.scale[:, None]
    return _Told(
        np.einsum("mrwbc,mrbc->rmw", roles, told[:, :_ROLES]),
        (told[0] * sums[0]).sum(axis=0),
        (roles[:, _HOLDER, Way.UNJOINED] * told[:, _REMOVED]).sum(axis=(1, 2)),
        rest.top,
    )


def _posterior(scene: _Scene, told: _Told, weights: Array) -> Explained:
    evidence, cells = scene.evidence, told.cells
    triggers, holders, inside = told.roles
    holders[:, Way.UNJOINED] = told.removed
    ways = inside + triggers + holders
    # Where nothing explains a member, nothing is known.
    ways[ways.sum(axis=1) <= _NOTHING, Way.UNKNOWN] = 1.0
    norm = np.maximum(ways.sum(axis=1), _NOTHING)
    unjoined = holders[:, Way.UNJOINED] / norm
    held = holders.sum(axis=1) / norm - unjoined
    deadline = float(1 - np.multiply.reduce(1 - np.minimum(unjoined, 1.0)))
    middle = scene.phase.grid.middle
    length = float((cells.sum(axis=0) * middle).sum() / max(float(cells.sum()), _NOTHING))
    shares: list[list[float]] = (ways / norm[:, None]).tolist()
    return Explained(
        ways=shares,
        triggers=(triggers.sum(axis=1) / norm).tolist(),
        holders=[*held.tolist(), max(0.0, 1 - deadline - float(held.sum())), deadline],
        length=length,
        beats=phase.learned(evidence.beats, cells.sum(axis=1) / np.maximum(weights, 1e-12)),
        group_ways=learned_ways(evidence.ways, shares),
    )
