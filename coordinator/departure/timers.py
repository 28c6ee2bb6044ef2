"""How long after its last commit the coordinator removes a member, for each way in which it may depart.

Each answer is a mixture of uniform waits. The protocol gives the timers:

- the session runs from the last heartbeat or, in a classic group, from the last accepted OffsetCommit;
  TxnOffsetCommit re-arms nothing, nor does a commit in a KIP-848 group;
- a client that enforces max.poll.interval leaves that long after its last poll; a static member stops its
  heartbeats instead, so that its session ends a session timeout after that;
- members that await the answer to JoinGroup or SyncGroup do not expire.

What is uniform is where in its commit interval and where in its heartbeat interval a member was hit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rebalance_monitor.coordinator.departure.hypotheses import (
    CLIENTS,
    client_of,
    enforces,
    expires_closed,
    is_replaced,
    left_behind,
    may_reveal_poll_interval,
    stalled_before,
)
from rebalance_monitor.coordinator.departure.waits import SLACK_MS, Intervals, Wait, batches, of_departed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.coordinator.departure.evidence import Departed
    from rebalance_monitor.coordinator.departure.fitted import Fitted
    from rebalance_monitor.coordinator.departure.hypotheses import Client

    Failures = tuple[tuple[int, int], ...] | None


LOADED_LATE_MS = 2_500
"""How much later than it happened samples tell of a coordinator's load, ms."""

MODERN_MS = 5_000.0
"""The heartbeat interval (ms) that brokers give members of epoch-based groups by default.

`group.consumer.heartbeat.interval.ms`, and the same of share and streams groups.
"""

# auto.commit.interval.ms of Java, librdkafka, kafka-python, aiokafka and franz-go by default.
_DEFAULT_COMMIT_MS = 5_000.0
# The longest that a heartbeat puts off a check of max.poll.interval: heartbeat.interval.ms by default.
_MOST_NOTICED_MS = 3_000.0
# Timers that end later than this after the join phase are never asked for.
_PAST_MS = 50.0
# The session of a member begins so long before its record at most.
_EARLY_MS = 60.0
# An age may be so much longer than its record says.
_LATEST_MS = 1_000.0
# An unknown max.poll.interval, in session timeouts: short, or up to five minutes beside 10 s (aiokafka's).
_HIDDEN_SHORT, _HIDDEN_LONG = (1.0, 5.0), (5.0, 35.0)


def scaled(waits: list[Wait], share: float, shift: float = 0.0) -> list[Wait]:
    """Return the waits `shift` ms later, with `share` of their weights."""
    return [(least + shift, most + shift, weight * share) for least, most, weight in waits]


def left(one: Departed, intervals: Intervals, client: Client, by: Fitted) -> list[Wait]:
    """Return when it is gone that closes: at once after a last commit, or any time after its last one.

    One that has nothing to commit, commits nothing as it closes.
    """
    last = _finally(one, intervals, client, by)
    working = scaled(intervals.working, 1 - last)
    if client.ends_fetch:
        # For half of that time, or for all of it.
        half, slowly = client.ends_fetch / 2, by.closes_slowly / 2
        late = scaled(working, slowly, half) + scaled(working, slowly, 2 * half)
        working = scaled(working, 1 - by.closes_slowly) + late
    return _closing(intervals, last, by) + working + intervals.pauses


def _finally(one: Departed, intervals: Intervals, client: Client, by: Fitted) -> float:
    """Return how likely it commits as it closes, where it has something to commit: not in a lull.

    A member that commits more seldom than clients do by default may do so because records come as seldom. It
    has committed them soon after they came, and nothing is left as it closes.
    """
    auto = intervals.timer * client.closes * (1.0 if one.named else 1 - by.mistaken)
    closes = by.closes_by_hand + (by.closes - by.closes_by_hand) * auto
    usual = max(intervals.usual, 1.0)
    new = 1 - by.seldom * (1 - min(_DEFAULT_COMMIT_MS / usual, 1.0))
    return closes * new * usual / (usual + intervals.lull)


def _closing(intervals: Intervals, share: float, by: Fitted) -> list[Wait]:
    """Return how long after such a commit it has closed; `share`: how likely it made one."""
    last = intervals.last * share * intervals.extra
    # Both may be of the same millisecond.
    return [
        (-SLACK_MS, by.close, last * (1 - by.closes_slowly)),
        (-SLACK_MS, by.close_slow, last * by.closes_slowly),
    ]


def expired(
    intervals: Intervals, beats: Sequence[float], session: float, *, rearms: bool, by: Fitted
) -> list[list[Wait]]:
    """Return when the session of one ends that stopped at any moment, for each of `beats`.

    Those are its heartbeat intervals (ms).
    """
    if not rearms:
        return [
            [late for _, gap, weight in intervals.waits for late in _difference(gap, beat, weight, session)]
            for beat in beats
        ]
    # Clients that commit within transactions are rare: their usual interval says enough.
    rest = 1 - by.transactional
    waits = [(session, gap, weight * rest) for _, gap, weight in intervals.working]
    waits += [(session, gap, weight) for _, gap, weight in intervals.pauses]
    rare = by.transactional * (1 - intervals.idle)
    return [_difference(intervals.usual, beat, rare, session) + _later_of(waits, beat) for beat in beats]


def _later_of(waits: Sequence[Wait], beat: float) -> list[Wait]:
    """Return by how much its last heartbeat came after its last commit, 0 where that was before.

    `waits`: when the session ends that the commit began, how long ago a commit may have been, and how likely
    that is. A heartbeat came up to `beat` ago.
    """
    found: list[Wait] = []
    add, before, session = found.append, 0.0, waits[0][0]
    for _, gap, weight in waits:
        if gap > beat:
            triangle, least, most = weight * beat / (2 * gap), session + gap - beat, session + gap
            before += triangle
            add((session, least, weight * (gap - beat) / gap))
        else:
            triangle, least, most = weight * gap / (2 * beat), session, session + gap
            before += weight - triangle
        middle = (least + most) / 2
        add((least, middle, 0.75 * triangle))
        add((middle, most, 0.25 * triangle))
    add((session - SLACK_MS, session + SLACK_MS, before))
    return found


def _difference(gap: float, beat: float, weight: float, session: float) -> list[Wait]:
    """Return by how much the last heartbeat came after the last commit, negative where it came before.

    The density rises to a flat middle and declines, in two steps each.
    """
    short = min(gap, beat)
    end = weight * short / (2 * max(gap, beat))
    first, last = session - beat, session + gap
    rise, fall = first + short, last - short
    return [
        (first, (first + rise) / 2, 0.25 * end),
        ((first + rise) / 2, rise, 0.75 * end),
        (rise, fall, weight - 2 * end),
        (fall, (fall + last) / 2, 0.75 * end),
        ((fall + last) / 2, last, 0.25 * end),
    ]


def _closed(
    one: Departed, intervals: Intervals, expired: list[list[Wait]], client: Client, by: Fitted
) -> list[list[Wait]]:
    """Return when a member's session ends that may also have closed, which its last commit would show."""
    if not one.rearms:
        return expired
    last = _finally(one, intervals, client, by)
    closing = scaled(_closing(intervals, last, by), by.closed, one.session)
    rest = 1 - by.closed * intervals.last * last
    return [[*closing, *scaled(waits, rest)] for waits in expired]


def died(
    one: Departed,
    intervals: Intervals,
    beats: Sequence[float],
    client: Client,
    by: Fitted,
    *,
    failing: Failures = None,
) -> list[list[Wait]]:
    """Return when one is removed that died, for each of `beats` (ms).

    Before its first commit it may have died before its sync. No wait is returned where none can have ended.
    `failing`: when it may have joined a generation that failed.
    """
    if one.woke < 0 and one.alive + _PAST_MS < one.session - max(beats):
        return [[] for _ in beats]
    usual = _unloaded(one, intervals, beats, client, by)
    if failing is not None and one.failed < 0 and one.session < one.alive:
        times, ended = failing or ((one.session, one.alive),), one.session + one.alive
        share = by.joined_in_vain / len(times)
        late: list[Wait] = [(float(ended - most), float(ended - least), share) for least, most in times]
        usual = [scaled(waits, 1 - by.joined_in_vain) + late for waits in usual]
    if one.trace.last < 0 and (behind := left_behind(one, by)):
        # It commits nothing however long it lives.
        any_time: Wait = (one.session - _EARLY_MS, max(one.session, one.alive + _LATEST_MS), behind)
        usual = [[*scaled(waits, 1 - behind), any_time] for waits in usual]
    if one.lived_on:
        # Its process ended in the middle of a stall, or before the client that it had replaced did.
        amid = by.died_replaced if is_replaced(one) else by.died_stalled
        late = [(one.session, one.session + (one.poll_interval or one.rebalance), amid)]
        usual = [scaled(waits, 1 - amid) + late for waits in usual]
    if (anew := one.anew if one.anew >= 0 else one.woke) < 0:
        return usual
    sure = by.reloaded if anew == one.woke or (one.unanswered and anew == one.loaded) else 1.0
    after = [_delayed(waits, one.session + float(one.alive - anew), LOADED_LATE_MS) for waits in usual]
    return [scaled(waits, 1 - sure) + scaled(late, sure) for waits, late in zip(usual, after, strict=True)]


def _unloaded(
    one: Departed, intervals: Intervals, beats: Sequence[float], client: Client, by: Fitted
) -> list[list[Wait]]:
    """Return the same as if no coordinator had been loaded."""
    usual = expired(intervals, beats, one.session, rearms=one.rearms, by=by)
    if one.woke >= 0:
        return [_delayed(waits, float(one.alive - one.woke), by.waking) for waits in usual]
    if one.trace.last >= 0:
        return _closed(one, intervals, usual, client, by) if expires_closed(one) else usual
    return _unsent(one, usual, beats, by)


def _unsent(
    one: Departed, usual: Sequence[list[Wait]], beats: Sequence[float], by: Fitted
) -> list[list[Wait]]:
    """Mix in that it died before its first heartbeat."""
    in_time = not one.rebalance or one.session <= one.rebalance
    shares = [at_once(one, beat, by) for beat in beats]
    return [
        [*scaled(waits, 1 - share), (one.session - _EARLY_MS, one.session + SLACK_MS, share * in_time)]
        for waits, share in zip(usual, shares, strict=True)
    ]


def at_once(one: Departed, beat: float, by: Fitted) -> float:
    """Return how likely a member that died before its first commit had not sent a heartbeat either.

    `beat`: its heartbeat interval (ms). One that commits seldom may die long before its first commit.
    """
    return min(by.died_young, beat / one.usual) if one.usual > 0 else by.died_young


def _delayed(waits: Sequence[Wait], ended: float, longest: float) -> list[Wait]:
    """Return the waits where no session `ended` (ms) sooner: a load began it anew, or the broker stood still.

    Those that were over by then are over then, up to `longest` later. Samples tell of a load or a pause up to
    so much late or, by the last one without an answer, early.
    """
    late, dead = [], 0.0
    for least, most, weight in waits:
        over = min(max((ended - least) / max(most - least, 1.0), 0.0), 1.0)
        dead += weight * over
        late.append((max(least, ended), max(most, ended), weight * (1 - over)))
    return [*late, (ended - LOADED_LATE_MS, ended + longest, dead)]


def stalled(
    one: Departed, intervals: Intervals, beats: Sequence[float], client: Client, by: Fitted
) -> tuple[list[Wait], list[list[Wait]]]:
    """Return when one is removed whose application stopped polling.

    First the waits of any heartbeat interval, then the waits that depend on it, for each of `beats` (ms).
    """
    limit = float(one.poll_interval or one.rebalance)
    if one.poll_interval or (limit and not client.hides):
        return _waits_with_limit(one, intervals, limit, beats, client, by)
    short = by.hidden_short
    hidden = [
        (low * one.session, high * one.session, weight)
        for (low, high), weight in ((_HIDDEN_SHORT, short), (_HIDDEN_LONG, 1 - short))
    ]
    before, share = _before(one, client, by)
    if share:
        hidden = scaled(hidden, 1 - share) + scaled(hidden, share, before)
    if not limit or not may_reveal_poll_interval(one):
        return hidden, [[] for _ in beats]
    # If it is of a family whose JoinGroup holds the interval, the limit is known.
    other = CLIENTS["kafka-python"]
    usual, noticed = _waits_with_limit(one, intervals, limit, beats, other, by)
    tells = by.mistaken / (by.mistaken + enforces(client, by) * (1 - by.mistaken))
    return scaled(hidden, 1 - tells) + scaled(usual, tells), [scaled(late, tells) for late in noticed]


def _waits_with_limit(
    one: Departed, intervals: Intervals, limit: float, beats: Sequence[float], client: Client, by: Fitted
) -> tuple[list[Wait], list[list[Wait]]]:
    """Return the same of one whose max.poll.interval is `limit` (ms).

    One that may rejoin without a poll may have made its last one before its assignment.
    """
    usual, noticed = _waits_after_poll(one, intervals, limit, beats, client, by)
    before, share = _before(one, client, by)
    if not share:
        return usual, noticed
    earlier, seen = _waits_after_poll(one, intervals, limit + before, beats, client, by)
    return scaled(usual, 1 - share) + scaled(earlier, share), [
        scaled(late, 1 - share) + scaled(sooner, share) for late, sooner in zip(noticed, seen, strict=True)
    ]


def _before(one: Departed, client: Client, by: Fitted) -> tuple[int, float]:
    """Return how long before its assignment its last poll may have been, ms, and how likely it was then."""
    if not client.unpolled or one.worked < 0:
        return 0, 0.0
    after = (1 - by.unpolled) * (by.stalled_first if stalled_before(one) else 1.0)
    return one.since - one.worked, by.unpolled / (by.unpolled + after)


def _waits_after_poll(
    one: Departed, intervals: Intervals, limit: float, beats: Sequence[float], client: Client, by: Fitted
) -> tuple[list[Wait], list[list[Wait]]]:
    """Return the same of one that goes `limit` (ms) after its last poll, near its last sign of work."""
    if one.last_active + _PAST_MS < limit - intervals.longest - max(beats):
        return [], [[] for _ in beats]
    modes, usual = _modes(intervals, client, by), scaled(intervals.pauses, 1.0, limit)
    if client.at_beat:
        # It sees the breach with a heartbeat only.
        noticed = [_at_beat(intervals, limit, beat, modes, by) for beat in beats]
    else:
        usual += _breached(intervals, limit, modes, by)
        most = max(_MOST_NOTICED_MS, client.notice)
        noticed = [_noticed(intervals, limit, min(beat, most), modes, by) for beat in beats]
    if one.static:
        # It stops its heartbeats instead, so that its session ends.
        return [], [
            _ended(usual + late, one.session, beat) for late, beat in zip(noticed, beats, strict=True)
        ]
    if not client.holds:
        return usual, noticed
    at_once, amid = by.holds_at_once, by.holds_amid
    kept = [
        scaled(late, at_once)
        + _ended(scaled(usual + late, 1 - at_once - amid), one.session, min(beat, MODERN_MS))
        for late, beat in zip(noticed, beats, strict=True)
    ]
    ended = [(limit, limit + one.session, amid * (1 - intervals.idle))]
    return scaled(usual, at_once) + ended + _ended(
        scaled(intervals.pauses, amid, limit), one.session, one.session
    ), kept


def _ended(waits: Sequence[Wait], session: float, beat: float) -> list[Wait]:
    """Return when the session ends of one that stopped its heartbeats after each of the waits.

    The last one was sent up to `beat` (ms) before.
    """
    return [(low + session - beat, high + session, weight) for low, high, weight in waits]


def _at_beat(intervals: Intervals, limit: float, beat: float, modes: _Modes, by: Fitted) -> list[Wait]:
    """Return when one that had work is gone that sees its breach with its next heartbeat alone."""
    found = [
        (low + limit, high + limit + beat, weight)
        for low, high, weight in scaled(intervals.working, modes.behind)
    ]
    ended = scaled(batches(intervals, by), modes.before, limit)
    found += [(low, high + beat, weight) for low, high, weight in ended]
    return [*found, (limit, limit + beat + SLACK_MS, modes.at)]


class _Modes(NamedTuple):
    """How likely it had work and its last commit came before its last poll, after it, or with it.

    `before`: with it, as a batch ended whose application polls no more.
    """

    ahead: float
    behind: float
    before: float
    at: float


def _breached(intervals: Intervals, limit: float, modes: _Modes, by: Fitted) -> list[Wait]:
    """Return when one that had work is gone, whose last poll was `limit` before its client saw that."""
    soon = by.noticed
    found = scaled(intervals.working, modes.behind / 2, limit)
    found += scaled(batches(intervals, by), modes.before, limit)
    found.append((limit, limit + soon, modes.at / 2))
    if not modes.ahead:
        return found
    earlier = [(-most, -least, weight) for least, most, weight in intervals.working]
    return found + scaled(earlier, modes.ahead, limit + soon)


def _noticed(intervals: Intervals, limit: float, notice: float, modes: _Modes, by: Fitted) -> list[Wait]:
    """Return the same for one whose client sees that with its next heartbeat, up to `notice` (ms) later."""
    late = scaled(intervals.working, modes.behind / 2, limit + notice)
    return [*late, (limit, limit + notice + by.noticed, modes.at / 2)]


def _modes(intervals: Intervals, client: Client, by: Fitted) -> _Modes:
    """Weigh the modes: a timer's intervals are multiples of one interval, an application's intervals vary."""
    timer = intervals.timer
    polled = timer * (1 - by.per_poll)
    ahead = polled * client.background * by.ahead
    behind, at = polled - ahead, by.per_poll * (1 - timer + by.per_poll_timed * timer)
    total = polled + at
    with_poll = (1 - intervals.idle) * at / total
    return _Modes(ahead / total, behind / total, with_poll * by.ends_batch, with_poll * (1 - by.ends_batch))


def unsynced(one: Departed, by: Fitted) -> list[Wait]:
    """Return when one is removed that never synced: a rebalance timeout after the join phase had ended."""
    return [(one.rebalance - SLACK_MS, one.rebalance + by.sync, 1.0)]


def rows_of(
    one: Departed,
    kept: Sequence[int],
    beats: Sequence[float],
    by: Fitted,
    *,
    young: bool,
    again: bool,
    failing: Failures,
    idler: float,
) -> list[list[Wait]]:
    """Return rows of waits: of each of `PLAIN`, of `STALLED`, then of each of `BY_BEAT` per interval.

    A stalled member has two: what depends on the heartbeat interval, and what does not.
    `kept`: intervals of the members that stayed. `young`, `idler`: as of `of_departed`. `again`: another one
    of its age says when both departed. `failing`: `failures`.
    """
    intervals = of_departed(one, kept, by, young=young, idler=idler)
    client, usual = client_of(one), intervals.waits
    if again:
        return _of_one_age(one, intervals, beats, by)
    unrelated, noticed = stalled(one, intervals, beats, client, by)
    if one.unmoved:
        # It may have stopped its commits all the same: the longer it made none, the likelier.
        stops = by.stops * (one.last_active > by.silent * intervals.longest)
        unrelated = scaled(usual, 1 - stops) + scaled(unrelated, stops)
        noticed = [scaled(late, stops) for late in noticed]
    return [
        left(one, intervals, client, by),
        usual,
        unsynced(one, by) if one.trace.last < 0 else [],
        [(0.0, one.since + _LATEST_MS, 1.0)],
        unrelated,
        *died(one, intervals, beats, client, by, failing=failing),
        *noticed,
    ]


def _of_one_age(one: Departed, intervals: Intervals, beats: Sequence[float], by: Fitted) -> list[list[Wait]]:
    """Return the same of one that has committed nothing for as long as another, whose waits say when.

    Its own say only that it had committed nothing when it left, died or stalled: that may be at any time.
    """
    usual, polled = _silent(one, intervals, 0.0), one.poll_interval or one.rebalance or one.session
    died = _unsent(one, [_silent(one, intervals, one.session - _EARLY_MS)] * len(beats), beats, by)
    return [
        usual,
        usual,
        unsynced(one, by),
        usual,
        _silent(one, intervals, polled),
        *died,
        *[[] for _ in beats],
    ]


def _silent(one: Departed, intervals: Intervals, late: float) -> list[Wait]:
    """Return when one is gone, at the same rate at any time, that had worked until `late` (ms) before."""
    end, lived = one.since + _LATEST_MS, max(one.since - late, 0.0)
    if late >= end:
        return []
    silent = sum([weight * max(1 - lived / most, 0.0) for _, most, weight in intervals.working])
    return [(late, end, (intervals.idle + silent) * (end - late) / end)]
