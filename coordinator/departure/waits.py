"""Uniform waits, their mixtures, and a member's intervals: how often it commits, how often it heartbeats.

How long ago was the last commit of a living member, at a moment that has nothing to do with its commits?
Such a moment falls into one of its commit intervals, into a longer one more likely, and anywhere within it.
All that it has made count, by their orders: the last ones do not show a silence that comes once in an hour. A
member that does not commit when idle may have had nothing to commit: then its last commit may be as old as
its assignment.

No record holds the heartbeat interval. Clients default to 3 s and are advised to keep it below a third of the
session, which is what platforms set it to. A few candidates are tried; a group keeps how likely each is.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate, chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rebalance_monitor.coordinator.departure.evidence import HAD_WORK, MAYBE_WORK, NO_WORK

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

DEFAULT_BEAT_MS = 3_000
"""heartbeat.interval.ms by default."""

_ENOUGH, _PICKED = 3, 4
_PLACES = tuple(range(_PICKED))
_LONG = 2.5
# How far up (of 1) the orders of pauses lie that stand for all of them.
_UP = (0.0, 1 / 3, 2 / 3, 1.0)
# A member that made this share of the commits that its interval allows has not paused for long.
_MOSTLY, _MOST_COUNTED = 0.8, 40
# Where no member shows how often it commits: the intervals that clients are usually configured with.
_USUAL_MS = (1_000, 5_000, 10_000, 30_000)
_MULTIPLE = 0.08
_LEAST_MS, _LONGER = 50.0, 1.02
_KEEPS = 0.02
# Ages of members, ms, by their order: from a second to hours.
_AGES_MS = (1_000.0, 4_000.0, 16_000.0, 64_000.0, 256_000.0, 1_024_000.0, 4_096_000.0, 16_384_000.0)
_OLD_MS = _AGES_MS[-1]
_SHORT_MS = 1_000
# What is kept of rebalances before: so that a heartbeat interval that seemed impossible may come back.
_FORGET, _LEAST_LIKELY = 0.02, 1e-3
_QUIET = 1.6
_NEVER: tuple[Wait, ...] = ((0.0, 1.0, 0.0),)


class Mixtures:
    """Rows of waits, laid out flat: one array is cheaper than one a row."""

    def __init__(self, rows: Sequence[Sequence[Wait]]) -> None:
        filled = [row or _NEVER for row in rows]
        sizes = [len(row) for row in filled]
        numbers = chain.from_iterable(chain.from_iterable(filled))
        flat = np.fromiter(numbers, float, 3 * sum(sizes)).reshape(-1, 3)
        self._low = flat[:, 0]
        self._width = np.maximum(flat[:, 1] - flat[:, 0], 1.0)[:, None]
        self._rate = flat[:, 2:] / self._width
        self._sizes = sizes
        self._starts = [0, *accumulate(sizes[:-1])]

    def over(self, since: Sequence[float], ages: Array) -> Array:
        """Return, for each row, how likely its wait is over at each of `ages`.

        Both are ms before the end of the join phase: `ages`, and `since`, the beginnings of the rows' waits.
        Several rows of ages are each those of as many rows of waits.
        """
        if ages.ndim > 1:
            each = len(self._sizes) // len(ages)
            counts = [sum(self._sizes[first : first + each]) for first in range(0, len(self._sizes), each)]
            ages = ages.repeat(counts, axis=0) if len(ages) > 1 else ages
        late = (np.array(since, float).repeat(self._sizes) - self._low)[:, None] - ages
        np.maximum(late, 0.0, out=late)
        np.minimum(late, self._width, out=late)
        late *= self._rate
        return np.add.reduceat(late, self._starts, axis=0)


class Intervals(NamedTuple):
    """Commit intervals of one member.

    `gaps`: up to four of its last intervals (ms) with their weights. `idle`: how likely it had nothing to
    commit, for up to `life` (ms). `last`: how likely it had something to commit as it closed, if its last
    commit was that one. `timer`: how likely a timer decides when it commits: its intervals are then multiples
    of one. `usual`: the median interval. `extra`: how much likelier its last interval is where its
    last commit was one that its timer did not ask for. `lull`: for how long (ms) it could commit nothing
    after its last commit. The time since its last commit, at any moment, is the mixture of `working`, where
    it had work, and `pauses`, where it had nothing to commit.
    """

    gaps: tuple[tuple[float, float], ...]
    idle: float
    last: float
    life: float
    timer: float
    usual: float
    extra: float
    lull: float
    working: list[Wait]
    pauses: list[Wait]

    @property
    def longest(self) -> float:
        """The longest of `gaps`: they are in order of length."""
        return self.gaps[-1][0]

    @property
    def waits(self) -> list[Wait]:
        """The time since its last commit, at any moment."""
        return self.working + self.pauses


@lru_cache(maxsize=256)
def _ages(most: float) -> tuple[tuple[float, float], ...]:
    """Return ages up to `most` (ms), of which those of every order are as likely, as (age, weight) each.

    Ages of 0 to 4, 16, 64 s … mixed evenly are near enough to that.
    """
    share = 1 / len(_AGES_MS)
    known = [(age, share) for age in _AGES_MS if age < most]
    return *known, (most, most * sum(share / age for age in _AGES_MS if age >= most))


def of_departed(
    one: Departed, siblings: Sequence[int], by: Fitted, *, young: bool, idler: float = 1.0
) -> Intervals:
    """Return the commit intervals of a departed member; `siblings`: intervals of the members that stayed.

    `idler`: how many times as likely as usual (odds) its group had nothing to commit.
    `young`: it has never committed, so that the time since its last commit is its age: most that meet a fault
    so early do so at once.
    """
    own = sorted(one.trace.gaps)
    idle = by.never if one.trace.idle else idleness(one, siblings, by)
    if one.work == MAYBE_WORK and not one.trace.idle:
        idle = idle * idler / (1 - idle + idle * idler)
    extra = _extra(one.trace.gaps, by)
    # That no record came since its last commit does not say that none had come before it.
    last = 1 - (min(idle, by.idle_unseen) if one.work == NO_WORK and own else idle)
    # One that acknowledges an epoch goes on with its work: its commits show for how long at least.
    life = max(one.since, one.trace.last + sum(own)) if one.trace.last > one.since else one.since
    return _intervals(
        own,
        siblings,
        idle,
        life,
        extra,
        one.trace.orders,
        young=young,
        lull=one.lull,
        usual_lull=one.usual_lull,
        last=last,
    )


def of_survivor(trace: Trace, since: int, by: Fitted) -> Intervals:
    """Return the commit intervals of a member that stayed."""
    own = sorted(trace.gaps)
    idle = by.never if trace.idle else _own_idleness(trace, own, since, by)
    return _intervals(own, (), idle, since, last=0.0)


def idleness(one: Departed, siblings: Sequence[int], by: Fitted) -> float:
    """How likely a departed member had nothing to commit; `siblings`: as of `of_departed`."""
    own = sorted(one.trace.gaps)
    if one.work != MAYBE_WORK:
        return by.never if one.work == HAD_WORK else 1 - by.never
    if not one.trace.commits:
        idle = by.idle_never * by.went_on if one.went_on else by.idle_never
        # It committed nothing in the generations before either, in which one with work would have.
        known = siblings or _USUAL_MS
        works = (1 - idle) * max(sum([gap > one.before for gap in known]) / len(known), by.never)
        return idle / (idle + works)
    unseen = by.idle_unseen if siblings else min(1 - by.never, 2 * by.idle_unseen)
    idle = _own_idleness(one.trace, own, one.since, by) if own else unseen
    return idle * by.went_on if one.went_on else idle


def _own_idleness(trace: Trace, own: Sequence[int], since: int, by: Fitted) -> float:
    """How often it had nothing to commit: by its own long pauses, and by how many commits it made in all.

    `own`: its intervals, in order of length.
    """
    if not own:
        return by.idle_unseen
    count = len(own)
    median = own[count // 2]
    paused = count - bisect_right(own, _LONG * median)
    due = (since - max(trace.last, 0)) / max(median, _LEAST_MS)
    if not paused and trace.commits >= _MOSTLY * due:
        count = max(count, min(int(due), _MOST_COUNTED))
    return (paused + by.idle_unseen) / (count + 3 * by.idle_unseen)


def _intervals(
    own: Sequence[int],
    siblings: Sequence[int],
    idle: float,
    life: int,
    extra: float = 1.0,
    orders: Sequence[int] = (),
    *,
    last: float,
    young: bool = False,
    lull: int = 0,
    usual_lull: int = 0,
) -> Intervals:
    """Pick intervals; `own`: the last of the member, in order of length; `orders`: all of them."""
    known = own if len(own) >= _ENOUGH else sorted([*own, *(siblings or _USUAL_MS)])
    longest = len(known) - 1
    picked = known if longest < _PICKED else [known[place * longest // (_PICKED - 1)] for place in _PLACES]
    longer = [max(_LEAST_MS, gap) * _LONGER + SLACK_MS for gap in picked]
    total = sum(longer)
    gaps, lived = tuple([(gap, gap / total) for gap in longer]), max(float(life), 1_000.0)
    timer, beat = _timed(own) if len(own) >= _ENOUGH else (0.5, max(life, 1))
    return Intervals(
        gaps,
        idle,
        last,
        lived,
        timer,
        float(known[len(known) // 2]),
        extra,
        float(lull),
        *(
            _young(gaps, idle)
            if young
            else _grown(
                gaps,
                _by_order(orders, own),
                idle,
                lived,
                lull,
                usual_lull,
                timer=timer,
                beat=beat,
            )
        ),
    )


def _by_order(orders: Sequence[int], own: Sequence[int]) -> list[tuple[float, float]]:
    """Return up to five intervals (ms), each with its share of the time that all took; none of too few.

    The mean of each order stands for it, and for the one that took most of the time the shortest and the
    longest of the last ones (`own`, in order of length): who is later than the mean need not be late. The
    shortest count as of the fourth order from above.
    """
    spent, counts = orders[::2], orders[1::2]
    if sum(counts) < _ENOUGH:
        return []
    short = max(len(spent) - _PICKED, 0)
    total = sum(spent)
    shares: list[float] = [sum(spent[: short + 1]), *spent[short + 1 :]]
    means = [time / count for time, count in zip(spent[short:], counts[short:], strict=True)]
    most = shares.index(max(shares))
    order = int(means[most]).bit_length()
    if len(last := [gap for gap in own if gap.bit_length() == order]) > 1:
        means[most : most + 1] = last[0], last[-1]
        shares[most : most + 1] = shares[most] / 2, shares[most] / 2
    return [(mean * _LONGER + SLACK_MS, share / total) for mean, share in zip(means, shares, strict=True)]


def _young(gaps: Sequence[tuple[float, float]], idle: float) -> tuple[list[Wait], list[Wait]]:
    """Return the waits of a member that has never committed: with work, and without."""
    works = 1 - idle
    working = [(0.0, age, works * weight * part) for gap, weight in gaps for age, part in _ages(gap)]
    return working, [(0.0, age, idle * part) for age, part in _ages(_OLD_MS)]


def _grown(
    gaps: Sequence[tuple[float, float]],
    orders: Sequence[tuple[float, float]],
    idle: float,
    life: float,
    lull: float,
    usual_lull: float,
    *,
    timer: float,
    beat: float,
) -> tuple[list[Wait], list[Wait]]:
    """Return the same of any other member; `orders`: all of its intervals, none where they are too few.

    Its intervals contain lulls already: one that lasts as usual makes no interval longer. But it commits only
    after the work that the lull's end brings. That takes no longer than its shortest interval, nor than by
    how much these differ. Where a timer of `beat` (ms) decides, it commits as that ends again; records that
    come as often decide by themselves.
    """
    works = 1 - idle
    # A pause is of any order from that of its longest interval up to that of its life, each as likely.
    least = min(life, _LONG * gaps[-1][0])
    idling = [(0.0, least * (life / least) ** up, idle / len(_UP)) for up in _UP]
    known = min(lull, usual_lull)
    each, shortest = orders or gaps, gaps[0][0]
    if not lull:
        return [(0.0, gap, works * weight) for gap, weight in each], idling
    most = [gap + lull - min(known, gap) for gap, _ in each]
    after = lull + min(shortest, gaps[-1][0] - shortest) if lull > shortest else 0.0
    timed = lull > beat and abs(usual_lull / beat - 1) > _MULTIPLE
    ticks = (lull // beat + 1) * beat * _LONGER + SLACK_MS if timed else 0.0
    parts = ((after, 1 - timer), (ticks, timer)) if ticks > after else ((after, 1.0),)
    working = [
        (0.0, max(end, least), works * weight * share)
        for least, share in parts
        for end, (_, weight) in zip(most, each, strict=True)
    ]
    return working, idling


def batches(intervals: Intervals, by: Fitted) -> list[Wait]:
    """Return when, after its last commit, it had polled last if it commits as a batch ends and polls no more.

    A batch lasts as long as the interval between two commits, or less where its poll had waited for records.
    """
    soon, full_batch = by.noticed, by.full_batch
    full = [(-gap, min(soon - full_batch * gap, 0.0), weight / 2) for gap, weight in intervals.gaps]
    return [*full, (-intervals.longest, 0.0, 0.5)]


def _extra(gaps: Sequence[int], by: Fitted) -> float:
    """How much likelier the last interval is where the last commit came at any time, and not by a timer.

    A timer's commit keeps the beat; the one of a close falls off it, but for a share as wide as the beat is,
    and where the application has just committed by itself.
    """
    before = gaps[:-1]
    if len(before) < _ENOUGH:
        return 1.0
    beat, _ = _beat_of(sorted(before))
    # How far (ms) each is from a multiple of the usual one.
    *apart, off = [abs(gap - (round(gap / beat) or 1) * beat) for gap in gaps]
    width = max(_KEEPS * beat, SLACK_MS, 2.0 * sorted(apart)[len(apart) // 2])
    by_chance = by.same_beat + (1 - by.same_beat) * min(2 * width / beat, 1.0)
    kept = (sum([one <= width for one in apart]) + 0.5) / (len(before) + 1)
    return by_chance / kept if off <= width else (1 - by_chance) / (1 - kept)


def _timed(own: Sequence[int]) -> tuple[float, int]:
    """How likely a timer decides, and its interval (ms), of which all are whole multiples then.

    `own`: in order of length.
    """
    beat, near = _beat_of(own)
    return (near + 1) / (len(own) + 2), beat


def _beat_of(own: Sequence[int]) -> tuple[int, int]:
    """Return the interval (ms) of which most others are whole multiples, and how many are.

    `own`: in order of length. It is the usual one, or the shortest: where records come seldom, most are
    longer than a timer asks for.
    """
    usual, shortest = max(own[len(own) // 2], 1), max(own[0], 1)
    near = _multiples(own, usual)
    if near == len(own) or (more := _multiples(own, shortest)) <= near:
        return usual, near
    return shortest, more


def _multiples(own: Sequence[int], beat: int) -> int:
    near = 0
    for gap in own:
        times = gap / beat
        near += abs(times - (round(times) or 1)) < _MULTIPLE
    return near


def until_rejoined(trace: Trace, intervals: Intervals, fetch: float, by: Fitted) -> list[Wait]:
    """Return the time from a survivor's last commit until it rejoined, after a fetch of up to `fetch` ms."""
    usual = intervals.waits
    if fetch:
        usual = [part for wait in usual for part in _and_fetch(wait, fetch)]
    if trace.last < 0:
        return usual
    rest = 1 - by.rejoin_commit
    waits = [(low, high, weight * rest) for low, high, weight in usual]
    waits.append((0.0, by.rejoin_committed, by.rejoin_commit))
    return waits


def _and_fetch(wait: Wait, fetch: float) -> tuple[Wait, Wait]:
    """Return a wait with up to `fetch` ms more: so much of the sum of both outlasts the longer one."""
    low, high, weight = wait
    shorter, longer = sorted((high, fetch))
    late = weight * shorter / (2 * longer)
    return (low, longer, weight - late), (longer, shorter + longer, late)


@lru_cache(maxsize=1_024)
def tried_heartbeats(session: int, deadline: int) -> tuple[int, ...]:
    """Return the heartbeat intervals (ms) that are tried for a session timeout of so many ms.

    Clients take any interval below their session. One above a third is tried where a join `deadline` (ms)
    would remove members that live before they hear of the phase: nothing else in a record tells of it.
    """
    third = max(session // 3, 300)
    default = min(DEFAULT_BEAT_MS, third)
    tried = {min(_SHORT_MS, third // 2), default, (default + third) // 2, third}
    longest = (third + session) // 2
    return tuple(sorted({*tried, longest} if 0 < deadline < longest else tried))


def prior_of_heartbeats(session: int, deadline: int, known: Sequence[float], by: Fitted) -> Array:
    """How likely each of them is; `known`: what earlier rebalances of the group say of each."""
    shares = _usual_heartbeats(session, deadline, by)
    if len(known) != len(shares):
        return shares
    weighed = shares * np.array(known)
    return np.asarray(weighed / weighed.sum())


@lru_cache(maxsize=1_024)
def _usual_heartbeats(session: int, deadline: int, by: Fitted) -> Array:
    tried, third = tried_heartbeats(session, deadline), max(session // 3, 300)
    default = min(DEFAULT_BEAT_MS, third)
    rest = (1 - by.beat_default - by.beat_third) / len(tried)
    shares = np.array(
        [rest + by.beat_default * (one == default) + by.beat_third * (one == third) for one in tried]
    )
    return np.asarray(shares / shares.sum())


def likeliest_heartbeat(session: int, deadline: int, known: Sequence[float], by: Fitted) -> int:
    """Return the likeliest heartbeat interval (ms)."""
    shares = prior_of_heartbeats(session, deadline, known, by)
    return tried_heartbeats(session, deadline)[int(shares.argmax())]


def learned_heartbeats(before: Sequence[float], likely: Array) -> tuple[float, ...]:
    """Return what a group knows of its heartbeats after a rebalance that made each interval so `likely`."""
    found = likely.tolist()
    best = max(found)
    if best <= 0:
        return tuple(before)
    now = [max(one / best, _LEAST_LIKELY) for one in found]
    if len(before) == len(now):
        now = [one * known for one, known in zip(now, before, strict=True)]
    most = max(now)
    return tuple([round((1 - _FORGET) * one / most + _FORGET, 3) for one in now])


def quiet_of(survivors: Sequence[Trace]) -> int:
    """For how long (ms) before it rejoined at the very end a survivor did not commit, 0 where as usual.

    It may have been in a long batch: then the others have waited for it.
    """
    ended = [trace for trace in survivors if 0 <= trace.last <= _SHORT_MS and _was_quiet(trace)]
    return max([trace.last + trace.gaps[-1] for trace in ended], default=0)


def _was_quiet(trace: Trace) -> bool:
    """Whether it made its last commit later than it usually does."""
    gaps = trace.gaps
    if len(gaps) <= 1:
        return False
    before = sorted(gaps[:-1])
    return gaps[-1] > _QUIET * before[len(before) // 2]


def lateness(survivors: Sequence[Trace], by: Fitted) -> Array:
    """How likely each of them did not rejoin soon: it was in a batch as the phase began."""
    usual = by.late_poll + by.busy_poll
    return np.array([by.busy_seen if _was_quiet(trace) else usual for trace in survivors])
