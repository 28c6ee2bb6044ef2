"""The posterior: each departed member's way, the trigger and the holder of the join phase.

For a member last seen `s` ms before the end, and a phase of length J, a way whose removals are distributed
as F gives three likelihoods (per ms): as the trigger the member was removed J before the end, f(s - J); as
the holder at the end, f(s); and inside the phase F(s) - F(s - J), times the rate at which members depart
beside others. Given the phase, members depart independently. So the sum over all triggers and holders
factorises, and its cost is linear in the number of members. Cells of J are integrated by differences of F:
sharp timers survive them.

What may have befallen all members alike is summed over: topics without records leave a whole group without
work. Members that have committed nothing in a generation have one age, which is evidence once.
"""

from __future__ import annotations

from math import exp, log, prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rebalance_monitor.coordinator.departure import hypotheses, phase, timers, waits
from rebalance_monitor.coordinator.departure.alone import Explained, alone
from rebalance_monitor.coordinator.departure.evidence import SAME_PLACE, encode
from rebalance_monitor.coordinator.departure.fitted import FITTED, Fitted
from rebalance_monitor.coordinator.departure.hypotheses import EVENTS, SOON_MS, Way, late_share

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from rebalance_monitor.coordinator.departure.evidence import Departed, Evidence
    from rebalance_monitor.coordinator.departure.phase import Phase

    Array = npt.NDArray[np.float64]

# Of so many members likelihoods are worked out together: more would not fit into a processor's cache.
_AT_ONCE = 16
# Topics without records only make it likelier that members left: not asked of those that rather did.
_RATHER = 0.5
_TINY, _NOTHING, _MOST_LOG = 1e-30, 1e-300, 600.0
_AT_MS, _LEAST_PHASE_MS = 15.0, 1_000.0
# Who was gone for so long before a moment was not removed at it.
_CLEARLY_MS = 2 * _AT_MS + SOON_MS
_AROUND = np.array([0.0, -_AT_MS, _AT_MS])


class _Age(NamedTuple):
    """How many departed members have committed nothing for as long, and whether another speaks for them."""

    members: int = 1
    is_told: bool = False


class _Scene(NamedTuple):
    """What all members of a rebalance share.

    `ages`: of each departed member. `is_strict`: in a long phase no session ends late, for each runs as it
    began. `idler`: how many times as likely as usual (odds) the members had nothing to commit.
    """

    evidence: Evidence
    phase: Phase
    tried: tuple[int, ...]
    siblings: list[int]
    shares: list[float]
    by: Fitted
    ages: list[_Age]
    is_strict: bool
    idler: float = 1.0


class _Removals(NamedTuple):
    """How likely a removal is over, by member, way and heartbeat interval (of all that was before the end).

    `now`: at the end of the phase. `within`: in each cell of the grid. `middle`: in the middle of each.
    `at_end`: its density at the end. `table`: at the grid's `table`, and at more ages. `over`: of one that
    died, when the phase had outlasted the sessions of whoever had not rejoined. `stopped`: by member, how
    likely it had fallen silent for good, at the grid's `table` and a session timeout before the end.
    """

    now: Array
    within: Array
    middle: Array
    at_end: Array
    table: Array
    over: Array
    stopped: Array


class _Sums(NamedTuple):
    """How likely all is: each member in each role and way, or removed at the deadline; by heartbeat interval.

    `log`: of what all of that is to be multiplied by.
    """

    roles: Array
    removed: Array
    by_beat: Array
    log: float


class _Parts(NamedTuple):
    """How likely each member departed in each role, by heartbeat interval and cell.

    `roles`: by itself, by role and way. `together`: with others, by role: it died with the one whose session
    held the phase, then one of `EVENTS` took all, then its process closed it and ended with others. `behind`:
    it is of these, by role. `removed`: by the join deadline, in the cells where that may end. Of one member
    alone nothing is `together`.
    """

    roles: Array
    together: Array
    behind: Array
    removed: Array


_TRIGGER, _HOLDER, _INSIDE = range(3)
_ROLES = 3
_DEAD = 1
_PROCESS = -1
_WAYS_TOGETHER = (Way.DIED, *(event.way for event in EVENTS), Way.LEFT)
_SHOWN = [event.waits for event in EVENTS]
_MEANT = [event.way for event in EVENTS]
_CLOSED = [event.waits for event in EVENTS if event.way is Way.LEFT]
_EVENTS = slice(_DEAD, _DEAD + len(EVENTS))


def explain(evidence: Evidence, by: Fitted = FITTED) -> Explained:
    """Explain one rebalance: the only entry of the model. The same evidence gives the same answer."""
    if not evidence.departed:
        return Explained([], [], [1.0, 0.0], phase.learn_heartbeats(evidence, by), evidence.ways)
    if evidence.is_alone or evidence.is_obvious:
        return alone(evidence, by)
    seen = phase.phase_of(evidence, by)
    siblings = [gap for trace in evidence.survivors for gap in trace.gaps[-4:]]
    shares = hypotheses.shares_of_ways(evidence.ways, by)
    tried = waits.tried_heartbeats(evidence.session, evidence.deadline)
    is_strict = not any(one.anew >= 0 or (one.lived_on and one.returned) for one in evidence.departed)
    scene = _Scene(evidence, seen, tried, siblings, shares, by, _ages(evidence), is_strict)
    usual = waits.prior_of_heartbeats(evidence.session, evidence.deadline, evidence.beats, by)
    worked = _summed(scene, _parts(scene), usual, 1 - by.quiet)
    found = _posterior(evidence, worked)
    if not evidence.may_lack_work or min([ways[Way.LEFT] for ways in found.ways]) >= _RATHER:
        return found
    idle = scene._replace(idler=by.quieter)
    return _posterior(evidence, _mixed([worked, _summed(idle, _parts(idle), usual, by.quiet)]))


def _ages(evidence: Evidence) -> list[_Age]:
    """Return how many members have the age of each that has committed nothing in its generation.

    One of them speaks for all, the same in whichever order a record lists them. A member whose session began
    anew speaks for itself.
    """
    places: dict[int, list[int]] = {}
    for place, one in enumerate(evidence.departed):
        if one.trace.last < 0:
            places.setdefault(one.since, []).append(place)
    found = [_Age()] * len(evidence.departed)
    for some in places.values():
        if len(some) > 1:
            anew = {place for place in some if _is_anew(evidence.departed[place])}
            *_, first = min([(place in anew, encode(evidence.departed[place]), place) for place in some])
            for place in some:
                found[place] = _Age(len(some), place != first and place not in anew)
    return found


def _parts(scene: _Scene) -> _Parts:
    """Return how likely each member departed in each role."""
    evidence, seen = scene.evidence, scene.phase
    count, cells = len(evidence.departed), seen.span.spread.shape
    # Where others come, members are replaced one after the other: no event takes all.
    events = count > 1 and not evidence.joined
    process = events and any(hypotheses.may_expire(one) for one in evidence.departed)
    alike = (count > 1) + len(EVENTS) * events + process
    parts = _Parts(
        np.empty((count, _ROLES, len(Way), *cells)),
        np.zeros((count, _ROLES, alike, *cells)),
        np.zeros((count, _ROLES * process, *cells)),
        np.zeros((count, len(scene.tried), seen.grid.due.stop - seen.grid.due.start)),
    )
    for first in range(0, count, _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        part = scene._replace(ages=scene.ages[some])
        _fill(part, evidence.departed[some], _Parts(*(one[some] for one in parts)))
    return parts


def _mixed(each: Sequence[_Sums]) -> _Sums:
    """Return the sum of sums."""
    most = max(one.log for one in each)
    scales = [exp(one.log - most) for one in each]
    roles, removed, by_beat = (
        np.tensordot(scales, np.array(some), axes=1)
        for some in (
            [one.roles for one in each],
            [one.removed for one in each],
            [one.by_beat for one in each],
        )
    )
    return _Sums(roles, removed, by_beat, most)


def _fill(scene: _Scene, some: Sequence[Departed], parts: _Parts) -> None:
    """Fill in the likelihoods of some members in each role, by way, heartbeat interval and cell.

    `scene`: with the ages of these members.
    """
    grid, span, by = scene.phase.grid, scene.phase.span, scene.by
    roles, together, behind, removed = parts
    trigger, holder, inside = (roles[:, role] for role in (_TRIGGER, _HOLDER, _INSIDE))
    priors = [hypotheses.prior_of(one, scene.shares, by) for one in some]
    prior = np.array([one.ways for one in priors])[:, :, None, None]
    seen = _removals(scene, some)
    near, apart, rate = hypotheses.rates_beside(scene.evidence, grid, scene.tried, some, by)
    np.multiply(seen.within, prior / grid.width, out=trigger)
    np.multiply(prior * seen.at_end, rate, out=holder)
    if not scene.evidence.is_emptied:
        # Who lived, and left by chance at the very end, had not rejoined; where all close, none does.
        holder[:, Way.LEFT] *= scene.phase.awaited
    begun = span.begun_by_beat(seen.table)
    begun -= seen.middle
    np.maximum(begun, 0.0, out=begun)
    np.subtract(seen.now, seen.middle, out=inside)
    np.maximum(inside, 0.0, out=inside)
    if len(span.long) and scene.is_strict:
        _leave_out_late(scene, seen, inside)
    if together.shape[2]:
        late = phase.beside_the_last(grid, scene.tried, seen.now[:, Way.DIED], seen.table[:, Way.DIED])
    if together.shape[2] > _DEAD:
        _fill_events(scene, prior, seen, inside, together)
    if behind.size:
        expires = np.array([one.expires for one in priors])[:, None, None] / scene.shares[Way.LEFT]
        _fill_process(scene, prior[:, Way.LEFT], expires, seen, late, together[:, :, _PROCESS], behind)
    inside *= prior * apart
    inside += prior * near * begun
    if together.shape[2]:
        dead = prior[:, Way.DIED] * late
        if len(span.long):
            free = [one.anew >= 0 or one.lived_on for one in some]
            dead[..., span.long] *= np.where(free, 1.0, late_share(by))[:, None, None]
        together[:, _INSIDE, 0] = dead
        # One that had rejoined waits without commits since, and may leave at any time.
        waited = prior[:, Way.LEFT] * by.waited * begun[:, Way.UNJOINED] / span.spread
        usual = waited * apart[..., Way.LEFT, :, :]
        holder[:, Way.LEFT] += usual
        inside[:, Way.LEFT] += usual * grid.middle
        together[:, _HOLDER, 0] = holder[:, Way.DIED] * by.dead_together
    roles[:, :, Way.UNJOINED] = 0.0
    if removed.size:
        removed[:] = _unjoined(scene, some, seen, prior[..., 0, 0])[:, None]
        removed += _unheard(scene, some, seen)
    _fill_replaced(scene, some, prior, seen, holder, removed)


def _fill_replaced(
    scene: _Scene, some: Sequence[Departed], prior: Array, seen: _Removals, holder: Array, removed: Array
) -> None:
    """Add the likelihoods that those whose processes have replaced them held the phase, or were removed."""
    by, unseen = scene.by, scene.evidence.may_lack_newcomer
    for place, one in enumerate(some):
        if one.returned == SAME_PLACE or one.followed or unseen:
            leaked = prior[place, Way.STALLED] * seen.at_end[place, Way.STALLED]
            left, late = phase.replaced(one, scene.phase.grid.edges, scene.tried, scene.evidence.deadline, by)
            removed[place] += leaked * late * (not one.static)
            if one.returned == SAME_PLACE:
                holder[place, Way.STALLED] = leaked * left


def _fill_events(scene: _Scene, prior: Array, seen: _Removals, inside: Array, together: Array) -> None:
    """Fill in the likelihoods, by role, that an event took all; `inside`: that they went in the phase."""
    relative = prior[:, _MEANT] / np.array(scene.shares)[_MEANT, None, None]
    together[:, _TRIGGER, _EVENTS] = relative * seen.within[:, _SHOWN] / scene.phase.grid.width
    together[:, _HOLDER, _EVENTS] = relative * seen.at_end[:, _SHOWN]
    together[:, _INSIDE, _EVENTS] = relative * inside[:, _SHOWN]
    # Of those of one age an event takes all at one time: how long ago that was is evidence once.
    again = [age.is_told for age in scene.ages]
    together[again, _INSIDE, _EVENTS] = relative[again] * inside[again, Way.UNJOINED][:, None]


def _fill_process(
    scene: _Scene, left: Array, expires: Array, seen: _Removals, late: Array, closed: Array, behind: Array
) -> None:
    """Fill in that a process closed a member, or ended with it `behind`, by role.

    `left`, `expires`: how likely a member leaves, or expires as its process is closed. `late`: near the end
    of the phase. Those that it closed had gone a session before that, or a heartbeat less.
    """
    grid, shown = scene.phase.grid, (scene.by.closes_by_hand, 1 - scene.by.closes_by_hand)
    another, last = hypotheses.rates_of_process(grid, scene.evidence.session, scene.tried)
    relative = left / scene.shares[Way.LEFT]
    ended = np.maximum(scene.evidence.session - SOON_MS - np.array(scene.tried, float), 0.0)
    places = np.maximum(grid.table.searchsorted(ended, side="right") - 1, 0)
    gone = seen.table[:, :, np.arange(len(places)), places][:, _CLOSED, :, None] - seen.middle[:, _CLOSED]
    np.maximum(gone, 0.0, out=gone)
    closed[:, _TRIGGER] = relative / grid.width * np.tensordot(seen.within[:, _CLOSED], shown, axes=(1, 0))
    closed[:, _INSIDE] = relative * another * np.tensordot(gone, shown, axes=(1, 0))
    behind[:, _INSIDE] = expires * late
    behind[:, _HOLDER] = expires * seen.at_end[:, Way.DIED] * last


def _leave_out_late(scene: _Scene, seen: _Removals, inside: Array) -> None:
    """Leave out sessions that end late in a long phase; of one that was in a batch they may.

    A process that is back had died before. If none but it came or departed, it began the phase, or nobody.
    """
    long, gone = scene.phase.span.long, scene.evidence.departed
    began = scene.evidence.joined == len(gone) == 1 and gone[0].returned == SAME_PLACE
    late = late_share(scene.by) * (scene.by.uncaused if began else 1.0)
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
    deadline, due = max(evidence.deadline, 1_000), grid.due
    within = max(1 - by.deaf_before - by.deaf_commits - by.deaf_long, 0.0)
    # Seldom more than one cell: lists of numbers are quicker than arrays.
    cells = seen.stopped[:, -len(grid.edges) - 1 : -1]
    before, after = cells[:, :-1], cells[:, 1:]
    lengths, begun = grid.middle[due].tolist(), ((before - after)[:, due] / grid.width[due]).tolist()
    dead = np.maximum((before + after)[:, due] / 2 - seen.stopped[:, -1:], 0.0).tolist()
    at_end: list[float] = seen.at_end[:, way, 0, 0].tolist()
    found = []
    for place, one in enumerate(some):
        silent, outlasts = one.last_active, one.session > evidence.deadline and not one.static
        for cell, length in enumerate(lengths):
            likely = by.deaf_before * begun[place][cell] + by.deaf_commits * at_end[place]
            likely += by.deaf_long / deadline * (length < silent <= length + deadline)
            likely += within / max(length, _LEAST_PHASE_MS) * (silent <= length)
            likely *= prior[place, way] * (one.removed[0] <= max(length - deadline, 0.0) + _CLEARLY_MS)
            late = dead[place][cell] / max(one.session - length, SOON_MS) * outlasts
            found.append(likely + prior[place, Way.DIED] * late)
    return np.array(found).reshape(len(some), -1)


def _unheard(scene: _Scene, some: Sequence[Departed], seen: _Removals) -> Array:
    """Return how likely the deadline removed members before their heartbeats could tell them of the phase.

    They live, and commit until then: heartbeats may be further apart than the deadline.
    """
    beats = np.maximum(np.array(scene.tried, float), 1.0)
    missed = np.maximum(1 - scene.evidence.deadline / beats, 0.0)
    there = [not one.static and one.rearms and not one.undue for one in some]
    return np.asarray(seen.at_end[:, Way.UNJOINED] * missed[:, None] * np.array(there)[:, None, None])


def _removals(scene: _Scene, some: Sequence[Departed]) -> _Removals:
    """Return how the members' removals are distributed at the ages that the roles need."""
    grid, count, latest = scene.phase.grid, len(scene.tried), scene.evidence.since + 1_000
    asked = [(one.session, *(one.removed if one.removed[1] >= 0 else (0, latest))) for one in some]
    # Of members that are asked the same a row of ages is enough.
    asked = asked if len(set(asked)) > 1 else asked[:1]
    table = len(grid.table)
    over = table + phase.BESIDE
    ages = np.empty((len(asked), over + len(scene.phase.span.over)))
    sessions, least, most = np.array(asked, float).T[..., None]
    ages[:, :table], ages[:, over:] = grid.table, scene.phase.span.over
    ages[:, table:over] = 0.0
    np.maximum(ages, least, out=ages)
    np.minimum(ages, most, out=ages)
    ages[:, table : table + 1], ages[:, table + 1 : over] = sessions, least + _AROUND
    rows: list[list[waits.Wait]] = []
    since: list[float] = []
    by, failing = scene.by, scene.evidence.failures
    for one, age in zip(some, scene.ages, strict=True):
        rows += timers.rows_of(
            one,
            scene.siblings,
            scene.tried,
            by,
            # Where one fault took several, their age is evidence of that fault once.
            young=one.young and age.members == 1,
            again=age.is_told,
            failing=failing,
            idler=scene.idler,
        )
        seen = one.last_active
        since += [seen, seen, one.since, seen, seen, *[one.alive] * count, *[seen] * count]
    cdf = waits.Mixtures(rows).over(since, ages).reshape(len(some), -1, ages.shape[1])
    found = cdf[:, hypotheses.places(count)]
    found[:, Way.STALLED] += cdf[:, hypotheses.STALLED, None]
    cells = len(grid.width)
    after, before = found[..., table - cells : table], found[..., table - cells - 1 : table - 1]
    now, early, late = (found[..., table + place : table + place + 1] for place in (1, 2, 3))
    # Samples that saw it gone before the end leave it no holder.
    open_end = (least <= _CLEARLY_MS) / (2 * _AT_MS)
    middle = before + after
    middle *= 0.5
    return _Removals(
        now,
        before - after,
        middle,
        (early - late) * open_end[:, None, None],
        found,
        found[:, Way.DIED, :, over:],
        _stopped(rows, some, grid.table, found[:, Way.UNJOINED, 0, : table + 1]),
    )


def _is_anew(one: Departed) -> bool:
    """Whether its session began anew, or its broker woke: how long it was silent is its own."""
    return one.anew >= 0 or one.woke >= 0


def _stopped(
    rows: Sequence[Sequence[waits.Wait]], some: Sequence[Departed], table: Array, within: Array
) -> Array:
    """Return how likely each had fallen silent: samples that bound its removal say nothing of that.

    `within`: the same within these bounds. Of one that has not committed in its generation nothing says when.
    """
    bound = [place for place, one in enumerate(some) if one.removed[1] >= 0 <= one.trace.last]
    if not bound:
        return within
    every, first = len(rows) // len(some), hypotheses.PLAIN.index(Way.UNJOINED)
    usual = waits.Mixtures([rows[first + every * place] for place in bound])
    found = within.copy()
    ages = np.array([[*table, some[place].session] for place in bound])
    found[bound] = usual.over([some[place].last_active for place in bound], ages)
    return found


def _summed(scene: _Scene, parts: _Parts, usual: Array, share: float) -> _Sums:
    """Sum over every trigger and holder: each member in each role, with all that the others may have done.

    Members depart by themselves, or by one event. Those that died may have died together: then one held the
    phase, and the others expired beside it.
    """
    roles, together = parts.roles, parts.together
    sums = np.empty((len(roles), _ROLES, 1 + together.shape[2], *roles.shape[3:]))
    np.add.reduce(roles, axis=2, out=sums[:, :, 0])
    weights = sums[:, :, 0]
    if len(roles) > 1:
        sums[:, :, 1:] = together
        if parts.behind.size:
            sums[:, :, _PROCESS] += parts.behind
        sums[:, _TRIGGER, _DEAD] = weights[:, _TRIGGER]
        sums[:, _INSIDE, _DEAD] += weights[:, _INSIDE]
    others, removing, most = _others(scene, sums, parts.removed, usual[:, None] * scene.phase.grid.width)
    # Each member gives the same, but for what is approximate.
    by_beat = np.einsum("irabc,irabc->b", sums, others) / len(roles)
    removed = np.zeros(len(roles))
    if parts.removed.size:
        by_beat += np.einsum("ibc,ibc->b", parts.removed, removing) / len(roles)
        np.einsum("ibc,ibc->i", parts.removed, removing, out=removed)
    weights = others[:, :, 0]
    if len(roles) > 1:
        weights[:, _TRIGGER] += others[:, _TRIGGER, _DEAD]
        weights[:, _INSIDE] += others[:, _INSIDE, _DEAD]
    flat = roles.reshape(*roles.shape[:3], -1)
    found = np.matmul(flat, weights.reshape(len(roles), _ROLES, -1, 1))[..., 0]
    if len(roles) > 1:
        more = np.einsum("irabc,irabc->air", together, others[:, :, _DEAD:])
        for way, of_event in zip(_WAYS_TOGETHER, more, strict=False):
            found[..., way] += of_event
        if parts.behind.size:
            found[..., Way.DIED] += np.einsum("irbc,irbc->ir", parts.behind, others[:, :, _PROCESS])
    return _Sums(found.swapaxes(0, 1), removed, by_beat / np.maximum(usual, 1e-12), most + log(share))


def _others(scene: _Scene, sums: Array, removed: Array, mass: Array) -> tuple[Array, Array, float]:
    """Return how likely all else is, whatever the others did: of each member in each role, and removed.

    `sums`: of each member over its ways, by role, by itself and `together`. `removed`: of each, at the join
    deadline. The trigger and the holder among the others are never the same one.
    """
    grid, seen, due = scene.phase.grid, scene.phase, scene.phase.grid.due
    free, kept, begun = seen.free * mass, seen.held * mass, phase.begun(scene.evidence, grid, scene.by)
    deadline = kept[:, due] * grid.deadline[due]
    weighed = np.empty_like(sums)
    if len(sums) == 1:
        weighed[0, _TRIGGER, 0] = free
        np.multiply(begun, kept, out=weighed[0, _HOLDER, 0])
        np.multiply(begun, 0.0 if scene.evidence.is_emptied else free, out=weighed[0, _INSIDE, 0])
        return weighed, (begun[due] * deadline)[None], 0.0
    alike = sums.shape[2]
    freely, begin = np.empty((alike, *free.shape)), np.empty((alike, 1, len(begun)))
    freely[:], begin[:], scale = free, begun, np.zeros_like(begin)
    freely[_DEAD] = 0.0
    if alike > _DEAD + 1:
        rest, sooner = hypotheses.rate_of_event(grid, len(sums))
        likely = hypotheses.likely_events(scene.shares, scene.by, emptied=scene.evidence.is_emptied)
        every = slice(_EVENTS.start + 1, _EVENTS.stop + 1)
        scale[every] = np.log(np.maximum(likely, _NOTHING))[:, None, None] + rest
        begin[every] *= sooner
    if alike > _EVENTS.stop + 1:
        # A member that the process closed began the phase. One that expired after it held the phase.
        freely[_PROCESS] = begin[_PROCESS] = 0.0
        scale[_PROCESS] = log(max(scene.by.one_event * scene.shares[Way.LEFT], _NOTHING))
    inside = sums[:, _INSIDE] + _TINY
    odds = sums[:, :_INSIDE] / inside[:, None]
    pairs = odds[:, _TRIGGER] * odds[:, _HOLDER]
    triggers, ended = np.maximum(odds.sum(axis=0) - odds, 0.0).swapaxes(0, 1)
    both = begin * ended + np.maximum(triggers * ended - np.maximum(pairs.sum(axis=0) - pairs, 0.0), 0.0)
    started = begin + triggers
    weighed[:, _TRIGGER] = freely + ended * kept
    weighed[:, _HOLDER] = started * kept
    # Where no member is left, the last one that departs has both begun the phase and ended it.
    weighed[:, _INSIDE] = (triggers if scene.evidence.is_emptied else started) * freely + both * kept
    late = np.log1p(removed / inside[:, 0, :, due])
    late = np.expm1(np.minimum(late.sum(axis=0) - late, _MOST_LOG)) * deadline
    starting = started[:, 0, :, due]
    weighed[:, _TRIGGER, 0, :, due] += late
    weighed[:, _INSIDE, 0, :, due] += starting * late
    logs = np.log(inside)
    every = logs.sum(axis=0)
    rest = np.exp(np.minimum(every + (scale - every[0].max()) - logs, _MOST_LOG))
    weighed *= rest[:, None]
    return weighed, starting * (late + deadline) * rest[:, 0, :, due], float(every[0].max())


def _posterior(evidence: Evidence, sums: _Sums) -> Explained:
    roles, removed, by_beat, _ = sums
    ways = roles.sum(axis=0)
    ways[:, Way.UNJOINED] += removed
    norm = ways.sum(axis=1)
    if norm.min() <= _NOTHING:
        # Where nothing explains a member, nothing is known.
        ways[norm <= _NOTHING, Way.UNKNOWN] = norm[norm <= _NOTHING] = 1.0
    ways /= norm[:, None]
    shares: list[list[float]] = ways.tolist()
    triggers, held = (roles[: _HOLDER + 1].sum(axis=2) / norm).tolist()
    tells = phase.tells_heartbeats(evidence)
    deadline = 1 - prod([1 - min(share, 1.0) for share in (removed / norm).tolist()])
    return Explained(
        ways=shares,
        triggers=triggers,
        holders=[*held, max(0.0, 1 - deadline - sum(held)), deadline],
        beats=waits.learned_heartbeats(evidence.beats, by_beat) if tells else evidence.beats,
        group_ways=hypotheses.learned_ways(evidence.ways, shares),
    )
