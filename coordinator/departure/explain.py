"""The posterior: each departed member's way, the trigger and the holder of the join phase.

For a member last seen `s` ms before the end, and a phase of length J, a way whose removals are distributed
as F gives three likelihoods (per ms): as the trigger the member was removed J before the end, f(s - J); as
the holder at the end, f(s); and inside the phase F(s) - F(s - J), times the rate at which members depart
beside others. Given the phase, members depart independently. So the sum over all triggers and holders
factorises, and its cost is linear in the number of members. Cells of J are integrated by differences of F:
sharp timers survive them.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rebalance_monitor.coordinator.departure import hypotheses, phase, timers, waits
from rebalance_monitor.coordinator.departure.alone import Explained, alone
from rebalance_monitor.coordinator.departure.evidence import SAME_PLACE
from rebalance_monitor.coordinator.departure.fitted import FITTED, Fitted
from rebalance_monitor.coordinator.departure.hypotheses import EVENTS, SOON_MS, Way, late_share

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from rebalance_monitor.coordinator.departure.evidence import Departed, Evidence
    from rebalance_monitor.coordinator.departure.phase import Phase

    Array = npt.NDArray[np.float64]

# Of so many members likelihoods are worked out together: more would not fit into a processor's cache.
_AT_ONCE = 16
_TINY, _NOTHING, _MOST_LOG = 1e-30, 1e-300, 600.0
_AT_MS, _LEAST_PHASE_MS = 15.0, 1_000.0


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
    """How likely a removal is over, by member, way and heartbeat interval (of all that was before the end).

    `now`: at the end of the phase. `within`: in each cell of the grid. `middle`: in the middle of each.
    `at_end`: its density at the end. `before`: a session timeout before that. `table`: at the grid's `table`,
    and at more ages. `over`: of one that died, when the phase had outlasted the sessions of whoever had not
    rejoined.
    """

    now: Array
    within: Array
    middle: Array
    at_end: Array
    before: Array
    table: Array
    over: Array


class _Together(NamedTuple):
    """How likely each member departed with others, by one event.

    `dead`: it died with the one whose session held the phase. `all_of`: one of `EVENTS` took all of the
    group, by event and role; no array where members are left.
    """

    dead: Array
    all_of: Array


_TRIGGER, _HOLDER, _INSIDE, _REMOVED = range(4)
_ROLES = 3


def explain(evidence: Evidence, by: Fitted = FITTED) -> Explained:
    """Explain one rebalance: the only entry of the model. The same evidence gives the same answer."""
    if not evidence.departed:
        return Explained([], [], [1.0, 0.0], phase.learn_heartbeats(evidence, by), evidence.ways)
    if evidence.is_alone or evidence.is_obvious:
        return alone(evidence, by)
    seen = phase.phase_of(evidence, by)
    siblings = [gap for trace in evidence.survivors for gap in trace.gaps[-4:]]
    shares = hypotheses.shares_of_ways(evidence.ways, by)
    newborn = sum(one.young for one in evidence.departed)
    scene = _Scene(evidence, seen, waits.tried_heartbeats(evidence.session), siblings, shares, newborn, by)
    count, cells = len(evidence.departed), seen.span.spread.shape
    roles = np.empty((count, _ROLES, len(Way), *cells))
    events = len(EVENTS) * (count > 1 and evidence.is_emptied)
    together = _Together(np.zeros((count, *cells)), np.empty((count, events, _ROLES, *cells)))
    for first in range(0, len(roles), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        apart = _Together(*(one[some] for one in together))
        _fill_roles(scene, evidence.departed[some], roles[some], apart)
    return _summed(scene, roles, together, waits.prior_of_heartbeats(evidence.session, evidence.beats, by))


def _fill_roles(scene: _Scene, some: Sequence[Departed], roles: Array, together: _Together) -> None:
    """Fill in the likelihoods of members in each role, by way, heartbeat interval and cell."""
    grid, span, by = scene.phase.grid, scene.phase.span, scene.by
    trigger, holder, inside = (roles[:, role] for role in (_TRIGGER, _HOLDER, _INSIDE))
    prior = np.array([hypotheses.prior_of(one, scene.shares, by) for one in some])[:, :, None, None]
    seen = _removals(scene, some)
    near, apart, rate = hypotheses.rates_beside(scene.evidence, grid, scene.tried, some, by)
    np.multiply(seen.within, prior / grid.width, out=trigger)
    np.multiply(prior * seen.at_end, rate, out=holder)
    begun = span.begun_by_beat(seen.table)
    begun -= seen.middle
    np.maximum(begun, 0.0, out=begun)
    np.subtract(seen.now, seen.middle, out=inside)
    np.maximum(inside, 0.0, out=inside)
    if len(span.long) and all(one.anew < 0 and not (one.lived_on and one.returned) for one in some):
        _leave_out_late(scene, seen, inside)
    among = together.all_of
    for place, (row, way, _) in enumerate(EVENTS[: among.shape[1]]):
        relative = prior[:, way] / scene.shares[way]
        among[:, place, _TRIGGER] = relative * seen.within[:, row] / grid.width
        among[:, place, _HOLDER] = relative * seen.at_end[:, row]
        among[:, place, _INSIDE] = relative * inside[:, row]
    inside *= prior * apart
    inside += prior * near * begun
    if len(scene.evidence.departed) > 1:
        late = phase.beside_the_last(grid, scene.tried, seen.now[:, Way.DIED], seen.table[:, Way.DIED])
        np.multiply(prior[:, Way.DIED], late, out=together.dead)
        if len(span.long):
            free = [one.anew >= 0 or one.lived_on for one in some]
            together.dead[..., span.long] *= np.where(free, 1.0, late_share(by))[:, None, None]
        # One that had rejoined waits without commits since, and may leave at any time.
        waited = prior[:, Way.LEFT] * by.waited * begun[:, Way.UNJOINED] / span.spread
        usual = waited * apart[..., Way.LEFT, :, :]
        holder[:, Way.LEFT] += usual
        inside[:, Way.LEFT] += usual * grid.middle
    trigger[:, Way.UNJOINED] = inside[:, Way.UNJOINED] = 0.0
    holder[:, Way.UNJOINED] = _unjoined(scene, some, seen, prior[..., 0, 0])[:, None]
    unseen = scene.evidence.may_lack_newcomer
    for place, one in enumerate(some):
        if one.returned == SAME_PLACE or unseen:
            leaked = prior[place, Way.STALLED] * seen.at_end[place, Way.STALLED]
            left, late = phase.replaced(one, grid.edges, scene.tried, scene.evidence.deadline, by)
            holder[place, Way.UNJOINED] += leaked * late * (not one.static)
            if one.returned == SAME_PLACE:
                holder[place, Way.STALLED] = leaked * left


def _leave_out_late(scene: _Scene, seen: _Removals, inside: Array) -> None:
    """Leave out sessions that end late in a long phase; of one that was in a batch they may."""
    long, late = scene.phase.span.long, late_share(scene.by)
    after = seen.over - seen.now[:, Way.DIED]
    inside[:, Way.DIED, :, long] += (1 - late) * np.minimum(after, 0.0).transpose(2, 0, 1)
    # Samples may have bounded its removal: then more is left out than there is.
    np.maximum(inside, 0.0, out=inside)


def _unjoined(scene: _Scene, some: Sequence[Departed], seen: _Removals, prior: Array) -> Array:
    """Return how likely the join deadline removed members, by when they committed last, by cell.

    One stopped as the phase began, or long before, commits on, or fell silent within the phase. A dead member
    whose session outlasts the deadline is removed there, too; it died before the phase.
    """
    evidence, grid, by, way = scene.evidence, scene.phase.grid, scene.by, Way.UNJOINED
    length, deadline = grid.middle, max(evidence.deadline, 1_000)
    found = np.zeros((len(some), len(length)))
    if prior[:, way].any():
        active = np.array([one.last_active for one in some])[:, None]
        found += by.deaf_before * seen.within[:, way, 0] / grid.width
        found += by.deaf_commits * seen.at_end[:, way, 0]
        found += by.deaf_long / deadline * ((active > length) & (active <= length + deadline))
        within = max(1 - by.deaf_before - by.deaf_commits - by.deaf_long, 0.0)
        found += within / np.maximum(length, _LEAST_PHASE_MS) * (active <= length)
        found *= prior[:, way, None]
        removed = np.array([one.removed[0] for one in some])[:, None]
        found *= removed <= np.maximum(length - deadline, 0.0) + 2 * _AT_MS + SOON_MS
    for place, one in enumerate(some):
        if one.session > evidence.deadline and not one.static:
            dead = np.maximum(seen.middle[place, way, 0] - seen.before[place, way, 0], 0.0)
            found[place] += prior[place, Way.DIED] * dead / np.maximum(one.session - length, SOON_MS)
    return found


def _removals(scene: _Scene, some: Sequence[Departed]) -> _Removals:
    """Return how the members' removals are distributed at the ages that the roles need."""
    grid, count, latest = scene.phase.grid, len(scene.tried), scene.evidence.since + 1_000
    bounds = [one.removed if one.removed[1] >= 0 else (0, latest) for one in some]
    table = len(grid.table)
    over = table + phase.BESIDE
    ages = np.empty((len(some), over + len(scene.phase.span.over)))
    least, most = np.array(bounds, float).T[..., None]
    np.maximum(grid.table, least, out=ages[:, :table])
    np.minimum(ages[:, :table], most, out=ages[:, :table])
    np.minimum(np.maximum(scene.phase.span.over, least), most, out=ages[:, over:])
    ages[:, table:over] = [
        (one.session, low, low - _AT_MS, low + _AT_MS) for one, (low, _) in zip(some, bounds, strict=True)
    ]
    rows: list[list[waits.Wait]] = []
    since: list[float] = []
    # Where one fault took several new ones, their ages are evidence of that fault once.
    young, failing = scene.newborn <= 1, scene.evidence.failures
    for one in some:
        rows += timers.rows_of(one, scene.siblings, scene.tried, scene.by, young=young, failing=failing)
        seen = one.last_active
        since += [seen, seen, one.since, seen, seen, *[one.alive] * count, *[seen] * count]
    cdf = waits.Mixtures(rows).over(since, ages).reshape(len(some), -1, ages.shape[1])
    found = cdf[:, hypotheses.places(count)]
    found[:, Way.STALLED] += cdf[:, hypotheses.STALLED, None]
    cells = len(grid.width)
    after, before = found[..., table - cells : table], found[..., table - cells - 1 : table - 1]
    now, early, late = (found[..., table + place : table + place + 1] for place in (1, 2, 3))
    # Samples that saw it gone before the end leave it no holder.
    open_end = (least <= 2 * _AT_MS + SOON_MS) / (2 * _AT_MS)
    middle = before + after
    middle *= 0.5
    return _Removals(
        now,
        before - after,
        middle,
        (early - late) * open_end[:, None, None],
        found[..., table : table + 1],
        found,
        found[:, Way.DIED, :, over:],
    )


class _Ends(NamedTuple):
    """How likely all survivors are, by heartbeat interval and cell, as the phase ended.

    `free`: with a survivor. `kept`: with one that departed. `late`: with its deadline. `begun`: how much
    likelier one began it that did not depart.
    """

    free: Array
    kept: Array
    late: Array
    begun: Array


def _ends(scene: _Scene, weights: Array, *, held: bool) -> _Ends:
    grid, seen = scene.phase.grid, scene.phase
    mass = weights[:, None] * grid.width
    kept, begun = seen.held * mass, phase.begun(scene.evidence, grid, scene.by)
    if held:
        nothing = np.zeros_like(kept)
        return _Ends(nothing, kept, nothing, begun)
    return _Ends(seen.free * mass, kept, kept * grid.deadline, begun)


def _else(scene: _Scene, ends: _Ends, sums: Array) -> Array:
    """Return how likely all else is that belongs to the only departed member in each role."""
    free, kept, late, begun = ends
    weighed = np.empty_like(sums)
    weighed[0, _TRIGGER] = free
    np.multiply(begun, kept, out=weighed[0, _HOLDER])
    np.multiply(begun, 0.0 if scene.evidence.is_emptied else free, out=weighed[0, _INSIDE])
    np.multiply(begun, late, out=weighed[0, _REMOVED])
    weighed /= sums[0, _INSIDE].max() + _TINY
    return weighed


def _else_among_others(scene: _Scene, ends: _Ends, sums: Array, most: float | None) -> tuple[Array, float]:
    """Return the same of each of several departed members, whatever the others did, and its scale.

    `sums`: of each member over its ways, by role. `most`: the logarithm that all is scaled by, the largest by
    default. The trigger and the holder among the others are never the same one.
    """
    free, kept, deadline, begun = ends
    inside = sums[:, _INSIDE] + _TINY
    trigger, holder = sums[:, _TRIGGER] / inside, sums[:, _HOLDER] / inside
    logs = np.log(inside)
    every = logs.sum(axis=0)
    top = float(every.max()) if most is None else most
    pairs = trigger * holder
    triggers = np.maximum(trigger.sum(axis=0) - trigger, 0.0)
    ended = np.maximum(holder.sum(axis=0) - holder, 0.0)
    both = begun * ended + np.maximum(triggers * ended - np.maximum(pairs.sum(axis=0) - pairs, 0.0), 0.0)
    late = np.log1p(sums[:, _REMOVED] / inside)
    late = np.expm1(np.minimum(late.sum(axis=0) - late, _MOST_LOG))
    started = begun + triggers
    # Where no member is left, the last one that departs has both begun the phase and ended it.
    last = triggers if scene.evidence.is_emptied else started
    weighed = np.empty_like(sums)
    weighed[:, _TRIGGER] = free + ended * kept + deadline * late
    weighed[:, _HOLDER] = started * kept
    weighed[:, _INSIDE] = last * free + started * deadline * late + both * kept
    weighed[:, _REMOVED] = started * deadline * (late + 1)
    weighed *= np.exp(np.minimum(every - top - logs, _MOST_LOG))[:, None]
    return weighed, top


class _Weights(NamedTuple):
    """How likely each member is in each role (member, role, way), and all else (role, interval, cell)."""

    roles: Array
    cells: Array
    removed: Array
    top: float


def _summed(scene: _Scene, roles: Array, together: _Together, weights: Array) -> Explained:
    """Sum over every trigger and holder: each member in each role, with all that the others may have done.

    Members depart by themselves, or by one event. Those that died may have died together: then one held the
    phase, and the others expired beside it.
    """
    removed = roles[:, _HOLDER, Way.UNJOINED].copy()
    weighed = _weighed(scene, roles, removed, weights)
    if len(roles) > 1:
        for way, others in _by_one_event(scene, together.all_of):
            more = _weighed(scene, others, 0.0, weights, weighed.top)
            weighed.roles[..., way] += more.roles[..., 0]
            weighed.cells[...] += more.cells.sum(axis=(0, 1))
        died = roles[:, :, Way.DIED]
        died[:, _INSIDE] += together.dead
        died[:, _HOLDER] *= scene.by.dead_together
        roles[:, _HOLDER, : Way.DIED] = roles[:, _HOLDER, Way.DIED + 1 :] = 0.0
        more = _weighed(scene, roles, 0.0, weights, weighed.top, held=True)
        weighed.roles[...] += more.roles
        weighed.cells[...] += more.cells
    return _posterior(scene, weighed, weights)


def _by_one_event(scene: _Scene, all_of: Array) -> Iterator[tuple[Way, Array]]:
    """Yield how likely each member of a group departed so, where one event took all of them.

    By role, way (that one), event, how far apart, heartbeat interval and cell. One event is as likely for
    many members as for one. How the application closes, and how far apart, is the same for all.
    """
    for way, places in hypotheses.EVENTS_OF.items() if all_of.shape[1] else ():
        usual = scene.by.one_event * scene.shares[way] / len(hypotheses.APART_MS)
        weights = np.array([usual * EVENTS[place].share(scene.by) for place in places])
        some = all_of[:, places].swapaxes(1, 2)[:, :, None, :, None]
        roles = some * hypotheses.rates_of_event(scene.phase.grid)
        roles[0] *= weights[:, None, None, None]
        yield way, roles


def _weighed(
    scene: _Scene,
    roles: Array,
    removed: Array | float,
    weights: Array,
    most: float | None = None,
    *,
    held: bool = False,
) -> _Weights:
    """Weigh all roles; `removed`: what of the holders' is a removal at the join deadline.

    `held`: only where one that departed has held the phase.
    """
    count, ways = len(roles), roles.shape[2]
    sums = np.empty((count, _ROLES + 1, *roles.shape[3:]))
    np.add.reduce(roles, axis=2, out=sums[:, :_ROLES])
    sums[:, _REMOVED] = removed
    sums[:, _HOLDER] -= removed
    ends = _ends(scene, weights, held=held)
    weighed, top = (
        (_else(scene, ends, sums), 0.0) if count == 1 else _else_among_others(scene, ends, sums, most)
    )
    by_role = weighed[:, :_ROLES].reshape(count, _ROLES, -1, 1)
    return _Weights(
        np.matmul(roles.reshape(count, _ROLES, ways, -1), by_role)[..., 0].swapaxes(0, 1),
        (weighed[0] * sums[0]).sum(axis=0),
        (removed * weighed[:, _REMOVED]).reshape(count, -1).sum(axis=1),
        top,
    )


def _posterior(scene: _Scene, weighed: _Weights, weights: Array) -> Explained:
    evidence, cells = scene.evidence, weighed.cells
    # Of few members lists of numbers are quicker than arrays.
    begun, ended, beside = weighed.roles.astype(float).tolist()
    removed: list[float] = weighed.removed.tolist()
    shares: list[list[float]] = []
    triggers, held, unjoined = [], [], []
    for trigger, holder, inside, late in zip(begun, ended, beside, removed, strict=True):
        holder[Way.UNJOINED] = late
        ways: list[float] = list(map(sum, zip(inside, trigger, holder, strict=True)))
        norm = sum(ways)
        if norm <= _NOTHING:
            # Where nothing explains a member, nothing is known.
            ways[Way.UNKNOWN] = norm = 1.0
        shares.append([way / norm for way in ways])
        triggers.append(sum(trigger) / norm)
        unjoined.append(late / norm)
        held.append(sum(holder) / norm - late / norm)
    deadline = 1 - prod(1 - min(share, 1.0) for share in unjoined)
    return Explained(
        ways=shares,
        triggers=triggers,
        holders=[*held, max(0.0, 1 - deadline - sum(held)), deadline],
        beats=waits.learned_heartbeats(evidence.beats, cells.sum(axis=1) / np.maximum(weights, 1e-12)),
        group_ways=hypotheses.learned_ways(evidence.ways, shares),
    )
