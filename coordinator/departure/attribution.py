"""Why a member went: silence windows turned into a set of causes with confidences.

Nothing on the topic says why a member left. What can be measured is its silence, from its last commit to
the end of the join barrier that dropped it. Each explanation predicts a window for that silence (S =
session timeout, P = rebalance timeout of the member, c = its commit cadence, J = the survivors' wait before
they rejoined):

- session expiry: S after the last sign of life, so S to S + c + J;
- poll breach, enforced by the client: P after the last poll, so P to P + c + J, for a static member P + S;
- clean leave: 0 to J, or to c + J for clients that do not commit on close.

The sum of two uniform waits is a trapezoid; its height at the measured silence is the likelihood, priors come
from the client family, and what no window explains goes to `unknown`. Where silence means nothing (the member
does not commit when idle and had no steady traffic) no timeout may be claimed above one half.
"""

from __future__ import annotations

from rebalance_monitor.coordinator.departure import busy, overdue, transactional
from rebalance_monitor.coordinator.departure.censored import CAP_FITTING, CLOSES, censored
from rebalance_monitor.coordinator.departure.measured import Silence, Stall, poll_limit
from rebalance_monitor.coordinator.departure.shares import capped, shared
from rebalance_monitor.coordinator.departure.windows import (
    CLOSE_MS,
    SHORT_BEAT_MS,
    SLACK_MS,
    arrival,
    heartbeat,
    trapezoid,
)
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.decoders.twins import replace

_CAP_NOTHING_ELSE = 0.85
_CAP_WITHOUT_MEANING = 0.5
_CAP_UNSYNCED = 0.92
# Who commits on close and went, without any commit, just when its session would have ended, or later.
_CAP_SILENT = 0.92
_CAP_STALL = _CAP_HIDDEN = 0.9
# aiokafka's max.poll.interval as it comes: sooner a death amid a long batch is as likely as a breach.
_HIDDEN_POLL_MS = 300_000
_MIN_REPORTED = 0.1
_EXACT_MS = 100
_CERTAIN = 0.97
# How often a member that never committed was never alive after it had joined.
_AT_ONCE = 0.2
# A poll interval that is not known may end anywhere in so many session timeouts.
_HIDDEN_SESSIONS = 4
_STALLED = 10
# How often one dies whose application had stalled before.
_STALLED_FIRST = 0.1
# How often a member that is not stalled repeats its offsets for so long while its siblings' move.
_UNMOVED = 0.1
# A client whose commit is not answered repeats it, though its application polls no more.
_REPEATS = 3
# In so many steps the time is spread in which a client notices its breach.
_PARTS = 3
_TIMEOUTS = frozenset({Cause.SESSION_TIMEOUT, Cause.POLL_INTERVAL_EXCEEDED, Cause.STATIC_MEMBER_EXPIRED})
PRIORS_DYNAMIC = {
    Cause.MEMBER_LEFT: 0.45,
    Cause.SESSION_TIMEOUT: 0.3,
    Cause.POLL_INTERVAL_EXCEEDED: 0.22,
    Cause.UNKNOWN: 0.03,
}
PRIORS_STATIC = {
    Cause.STATIC_MEMBER_EXPIRED: 0.55,
    Cause.POLL_INTERVAL_EXCEEDED: 0.3,
    Cause.MEMBER_REMOVED_BY_ADMIN: 0.1,
    Cause.UNKNOWN: 0.05,
}


def attribute(seen: Silence) -> list[tuple[Cause, float]]:
    """Causes with confidences, likeliest first; they sum up to at most 1."""
    if not seen.committed and not seen.means and not _in_time(seen):
        return censored(seen)
    scores = scored(seen)
    shares = shared(scores, is_measured=seen.means, is_told=not seen.ended)
    if seen.hidden:
        told = seen.stall is not Stall.NO or seen.silence >= _HIDDEN_POLL_MS
        shares = capped(shares, _CAP_HIDDEN if told else CAP_FITTING, {Cause.POLL_INTERVAL_EXCEEDED})
    if not seen.means and _outlasted(seen):
        shares = capped(shares, CAP_FITTING, {Cause.MEMBER_LEFT})
    shares = capped(shares, _cap(seen), _TIMEOUTS)
    shares = capped(shares, *busy.cap(seen, scores))
    ranked = sorted(shares.items(), key=lambda item: -item[1])
    return [(cause, min(_CERTAIN, round(share, 2))) for cause, share in ranked if share >= _MIN_REPORTED]


def scored(seen: Silence) -> dict[Cause, float]:
    """Give prior times likelihood (per ms) of each explanation."""
    return _static(seen) if seen.static else _dynamic(seen)


def _prior(seen: Silence) -> dict[Cause, float]:
    """Give the priors of a dynamic member, as its client family and its habits change them."""
    prior = dict(PRIORS_DYNAMIC)
    if seen.poll is False:
        prior[Cause.POLL_INTERVAL_EXCEEDED] = 0.0
    elif seen.poll is None:
        prior[Cause.POLL_INTERVAL_EXCEEDED] /= 2
    if not seen.committed and not seen.worked:
        # Less speaks of a stall in one that was not seen to work; but what stalled it is given to it again.
        prior[Cause.POLL_INTERVAL_EXCEEDED] /= 2
    if seen.returned:
        # Who stalls comes back when the stall is over, hardly before those that stayed have rejoined.
        prior[Cause.POLL_INTERVAL_EXCEEDED] /= 3
    if not seen.goodbye:
        prior[Cause.MEMBER_LEFT] /= 20
    elif seen.closes and not seen.committed:
        prior[Cause.MEMBER_LEFT] /= CLOSES
    if seen.stall is not Stall.NO:
        prior[Cause.POLL_INTERVAL_EXCEEDED] = prior[Cause.MEMBER_LEFT]
    elif seen.hidden:
        prior[Cause.POLL_INTERVAL_EXCEEDED] = PRIORS_DYNAMIC[Cause.POLL_INTERVAL_EXCEEDED]
    return prior


def _dynamic(seen: Silence) -> dict[Cause, float]:
    prior = _prior(seen)
    early = int(seen.poll_early * seen.cadence) * (_REPEATS if seen.repeated else 1)
    alive = seen if seen.heard < 0 else replace(seen, silence=seen.heard)
    expiry = _expiry(alive, seen.session - seen.session_early, seen.session_early)
    if seen.silence > alive.silence + 2 * seen.cadence:
        expiry *= _STALLED_FIRST
    limit = poll_limit(seen)
    breach = _held_breach(seen, early) if seen.poll_held else _breach(seen, limit - early, early)
    likelihood = {
        Cause.MEMBER_LEFT: _leave(seen),
        Cause.SESSION_TIMEOUT: _or_quiet(alive, expiry, seen.session),
        Cause.POLL_INTERVAL_EXCEEDED: _or_quiet(seen, breach, limit),
        Cause.UNKNOWN: 1 / max(seen.elapsed, seen.session + seen.rebalance, 1),
    }
    if seen.stalled and seen.poll is not False:
        likelihood[Cause.POLL_INTERVAL_EXCEEDED] = max(
            likelihood[Cause.POLL_INTERVAL_EXCEEDED], _STALLED * likelihood[Cause.MEMBER_LEFT]
        )
    if seen.hidden and seen.silence >= seen.session:
        likelihood[Cause.POLL_INTERVAL_EXCEEDED] = 1 / (_HIDDEN_SESSIONS * seen.session)
    _undecided(seen, likelihood)
    scores = {cause: prior[cause] * likelihood[cause] for cause in prior}
    if seen.wait < 0:
        overdue.score(seen, scores)
    return scores


def _undecided(seen: Silence, likelihood: dict[Cause, float]) -> None:
    """Level what looks the same: leaving and a breach of a client that commits while stalled; waiting."""
    if seen.stall is not Stall.NO:
        leave = likelihood[Cause.MEMBER_LEFT]
        breach = arrival(seen, seen.silence, max(seen.cadence, CLOSE_MS))
        told = seen.stall is Stall.LIKELY
        likelihood[Cause.MEMBER_LEFT] = leave * _UNMOVED if told else breach
        likelihood[Cause.POLL_INTERVAL_EXCEEDED] = breach
    if seen.waited:
        expired = PRIORS_DYNAMIC[Cause.SESSION_TIMEOUT] * likelihood[Cause.SESSION_TIMEOUT]
        breached = PRIORS_DYNAMIC[Cause.POLL_INTERVAL_EXCEEDED] * likelihood[Cause.POLL_INTERVAL_EXCEEDED]
        left = max(expired, breached) / PRIORS_DYNAMIC[Cause.MEMBER_LEFT]
        likelihood[Cause.MEMBER_LEFT] = max(likelihood[Cause.MEMBER_LEFT], left)


def _static(seen: Silence) -> dict[Cause, float]:
    """Score a static member: without a goodbye it expires S after a crash, P + S after a stall."""
    beat, quiet = heartbeat(seen), seen.quiet if seen.means else 1.0
    least = seen.session - seen.session_early
    stalled = seen.rebalance + seen.session - beat
    likelihood = {
        Cause.STATIC_MEMBER_EXPIRED: _mixed(seen, _expiry(seen, least, seen.session_early), least, quiet),
        Cause.POLL_INTERVAL_EXCEEDED: _mixed(seen, _breach(seen, stalled, beat), stalled, quiet),
        # Silent for a whole session it lived on only if it had nothing to commit.
        Cause.MEMBER_REMOVED_BY_ADMIN: (quiet if seen.silence >= least else 1.0)
        / max(seen.elapsed, seen.session, 1),
        Cause.UNKNOWN: 1 / max(seen.elapsed, seen.session + seen.rebalance, 1),
    }
    prior = dict(PRIORS_STATIC)
    if seen.poll is False:
        prior[Cause.POLL_INTERVAL_EXCEEDED] = 0.0
    return {cause: prior[cause] * likelihood[cause] for cause in prior}


def _cap(seen: Silence) -> float:
    """Return the most a timeout may claim; one that never committed may as well have missed its sync."""
    if not seen.committed and not seen.means:
        apart = seen.session != seen.rebalance
        if apart and 0 <= seen.elapsed - seen.session <= _EXACT_MS:
            return _CAP_UNSYNCED
        return _CAP_SILENT if apart and seen.closes and not seen.session_early else CAP_FITTING
    stalled = seen.worked and seen.silence >= seen.rebalance
    if not seen.committed and (stalled or seen.session == seen.rebalance):
        return _CAP_SILENT if stalled else _CAP_UNSYNCED
    if seen.stall is Stall.LIKELY:
        return _CAP_STALL
    lasted = seen.session <= seen.silence < seen.rebalance
    if lasted and not (seen.means or seen.goodbye or seen.static):
        # It says no goodbye, and a breach takes longer: however rarely it commits, nothing else is left.
        return _CAP_NOTHING_ELSE
    return transactional.cap(seen) if seen.means else _CAP_WITHOUT_MEANING


def _in_time(seen: Silence) -> bool:
    """Whether it never committed but went just when its session, begun by joining, would have expired."""
    return 0 <= seen.elapsed - seen.session <= heartbeat(seen) + CLOSE_MS


def _expiry(seen: Silence, due: int, early: int) -> float:
    late = seen.silence - due
    spread = max(seen.cadence, CLOSE_MS)
    usual = arrival(seen, late, spread + early) if early else _last_sign(seen, late, spread)
    if seen.committed:
        return usual if early else transactional.mixed(seen, usual, late, spread)
    # Its session began as the generation did, and its end may be what the barrier waited for.
    return _AT_ONCE * trapezoid(late, SLACK_MS, SLACK_MS) + (1 - _AT_ONCE) * usual


def _last_sign(seen: Silence, late: int, spread: int) -> float:
    """Give how likely an expiry is: its session runs from its last commit, or a heartbeat after that."""
    beat = min(heartbeat(seen), SHORT_BEAT_MS)
    commit = 1 - spread / (2 * beat) if spread <= beat else beat / (2 * spread)
    later = 0.5 * arrival(seen, late, spread // 2) + 0.5 * arrival(seen, late, spread)
    return commit * arrival(seen, late, 0) + (1 - commit) * later


def _breach(seen: Silence, due: int, early: int) -> float:
    """Give how likely a breach is; who commits after processing polled up to a cadence before."""
    if not seen.by_hand or early:
        return _timed_breach(seen, due, early)
    cadence = max(seen.cadence, 0)
    before = _noticed(seen, due - cadence, cadence)
    return (1 - seen.by_hand) * _timed_breach(seen, due, early) + seen.by_hand * before


def _timed_breach(seen: Silence, due: int, early: int) -> float:
    """Give how likely a breach is; a timer that commits after the last poll is never late as well."""
    late = 0 if early >= seen.cadence > 0 and seen.poll_early >= 1 else max(seen.cadence, CLOSE_MS)
    return _noticed(seen, due, late + early)


def _noticed(seen: Silence, due: int, spread: int) -> float:
    """Give how likely a breach is that came up to `spread` ms after `due`; its client notices it later."""
    waits = (seen.poll_late * part // (2 * _PARTS) for part in range(1, 2 * _PARTS, 2))
    return sum(arrival(seen, seen.silence - due - wait, spread) for wait in waits) / _PARTS


def _held_breach(seen: Silence, early: int) -> float:
    """Spread over P to P + S, with peaks at both ends: it leaves at once, or expires as the stall goes on."""
    last = seen.rebalance + seen.session - seen.session_early
    between = -early <= seen.silence - seen.rebalance <= seen.session
    peaks = 0.2 * _breach(seen, seen.rebalance - early, early) + 0.4 * _breach(seen, last, seen.session_early)
    return 0.4 * between / max(seen.session + early, 1) + peaks


def _leave(seen: Silence) -> float:
    """Most clients commit on close; others leave up to one cadence after their last commit."""
    if not seen.means:
        return max(1 / max(seen.elapsed, 1), 0.8 * arrival(seen, seen.silence, CLOSE_MS))
    cadence = max(seen.cadence, CLOSE_MS)
    closing = 0.75 * arrival(seen, seen.silence, CLOSE_MS) + 0.25 * arrival(seen, seen.silence, cadence)
    return _or_quiet(seen, closing, 0)


def _or_quiet(seen: Silence, likelihood: float, least: int) -> float:
    """Mix in that it had long had nothing to commit; `least` ms must have passed for this explanation."""
    if seen.means:
        return _mixed(seen, likelihood, least, seen.quiet)
    return max(likelihood, _mixed(seen, likelihood, least, 1.0)) if _outlasted(seen) else likelihood


def _outlasted(seen: Silence) -> bool:
    """Whether a whole session has passed since its last commit, so that it may have ended in any of this."""
    return seen.silence >= seen.session and not seen.waited


def _mixed(seen: Silence, likelihood: float, least: int, quiet: float) -> float:
    if seen.silence < least:
        return likelihood
    return (1 - quiet) * likelihood + quiet / max(seen.elapsed, seen.session, 1)
