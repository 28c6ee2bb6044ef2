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

from dataclasses import dataclass
from enum import Enum

from rebalance_monitor.coordinator.causes import Cause

MAX_HEARTBEAT_MS = 3_000
"""Default heartbeat interval; no record holds the configured one."""

_SLACK_MS = 60
_CLOSE_MS = 300
_CAP_WITHOUT_MEANING = 0.5
_CAP_FITTING = 0.55
_CAP_UNSYNCED = 0.85
_CAP_STALL = 0.9
_MIN_REPORTED = 0.1
_UNTOLD = 0.36
_CERTAIN = 0.97
_BARRIER_HELD = 0.85
_STALLED = 10
# How often a member that is not stalled repeats its offsets for so long while its siblings' move.
_UNMOVED = 0.1
_PRIOR_SYNC = 0.15
# The windows are wider than what captures of real clients fill: without it 0.75 is said of what is always so.
_SHARPNESS = 1.4
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


class Stall(Enum):
    """Whether a member that commits while its application is stalled may have been so when it went."""

    NO = "its last commit moved, or too few did not"
    MAYBE = "unmoved for long enough, but its siblings tell nothing else, or there are none"
    LIKELY = "unmoved for long enough while its siblings moved"


@dataclass(frozen=True, slots=True)
class Silence:
    """What was measured about one member that went; all durations in ms.

    `silence` runs from the last sign of life to the end of the barrier, `elapsed` from the generation before.
    `held` is the least time the barrier was held; `wait` the most it can have taken where that is known, else
    -1. `means`: whether silence of this member says anything; `committed`: whether it did in the generation;
    `quiet`: how likely it is that it had nothing to commit; `closes`: its client commits on close even so;
    `poll`: whether its client enforces max.poll.interval (None: not known), `goodbye`: sends LeaveGroup;
    `aborted`: generations that failed on the way; `session_early`: heartbeats, not commits, keep the session,
    so it may end this much earlier after the last commit. `stalled`: just before its last commit it had been
    silent for its rebalance timeout. `stall` and `idle`, how many of its commits moved nothing: see `Stall`.
    `waited`: it may have been silent because it waited in the barrier that another member held.
    """

    session: int
    rebalance: int
    silence: int
    elapsed: int
    cadence: int
    held: int
    wait: int
    static: bool
    means: bool
    committed: bool
    poll: bool | None
    goodbye: bool
    poll_early: float = 0.0
    poll_late: int = 0
    poll_held: bool = False
    aborted: int = 0
    session_early: int = 0
    quiet: float = 0.0
    closes: bool = False
    stalled: bool = False
    stall: Stall = Stall.NO
    idle: int = 0
    waited: bool = False


def attribute(seen: Silence) -> list[tuple[Cause, float]]:
    """Causes with confidences, likeliest first; they sum up to at most 1."""
    if not seen.committed and not seen.means and not _in_time(seen):
        return _censored(seen)
    scores = _static(seen) if seen.static else _dynamic(seen)
    top = max(scores.values())
    sharp = {cause: (score / top) ** _SHARPNESS for cause, score in scores.items()}
    total = sum(sharp.values())
    shares = {cause: score / total for cause, score in sharp.items()}
    cap = _cap(seen)
    if cap < 1:
        shares = _capped(shares, cap)
    ranked = sorted(shares.items(), key=lambda item: -item[1])
    return [(cause, min(_CERTAIN, round(share, 2))) for cause, share in ranked if share >= _MIN_REPORTED]


def _dynamic(seen: Silence) -> dict[Cause, float]:
    prior = dict(PRIORS_DYNAMIC)
    if seen.poll is False:
        prior[Cause.POLL_INTERVAL_EXCEEDED] = 0.0
    elif seen.poll is None:
        prior[Cause.POLL_INTERVAL_EXCEEDED] /= 2
    if not seen.goodbye:
        prior[Cause.MEMBER_LEFT] /= 20
    elif seen.closes and not seen.committed:
        prior[Cause.MEMBER_LEFT] /= 3
    if seen.stall is not Stall.NO:
        prior[Cause.POLL_INTERVAL_EXCEEDED] = prior[Cause.MEMBER_LEFT]
    early = int(seen.poll_early * seen.cadence)
    expiry = _expiry(seen, seen.session - seen.session_early, seen.session_early)
    breach = _held_breach(seen) if seen.poll_held else _breach(seen, seen.rebalance - early, early)
    likelihood = {
        Cause.MEMBER_LEFT: _leave(seen),
        Cause.SESSION_TIMEOUT: _or_quiet(seen, expiry, seen.session),
        Cause.POLL_INTERVAL_EXCEEDED: _or_quiet(seen, breach, seen.rebalance),
        Cause.UNKNOWN: 1 / max(seen.elapsed, seen.session + seen.rebalance, 1),
    }
    if seen.stalled and seen.poll is not False:
        likelihood[Cause.POLL_INTERVAL_EXCEEDED] = max(
            likelihood[Cause.POLL_INTERVAL_EXCEEDED], _STALLED * likelihood[Cause.MEMBER_LEFT]
        )
    _undecided(seen, likelihood)
    scores = {cause: prior[cause] * likelihood[cause] for cause in prior}
    if seen.held >= _BARRIER_HELD * seen.rebalance and seen.wait < 0:
        scores[Cause.JOIN_DEADLINE_MISSED] = 0.5 / _CLOSE_MS
    if not seen.committed and seen.wait < 0:
        late = seen.elapsed - seen.rebalance
        prior_sync = _PRIOR_SYNC if seen.session != seen.rebalance else _PRIOR_SYNC / 3
        scores[Cause.SYNC_DEADLINE_MISSED] = prior_sync * _arrival(seen, late, _CLOSE_MS)
    return scores


def _undecided(seen: Silence, likelihood: dict[Cause, float]) -> None:
    """Level what looks the same: leaving and a breach of a client that commits while stalled; waiting."""
    if seen.stall is not Stall.NO:
        leave = likelihood[Cause.MEMBER_LEFT]
        breach = _arrival(seen, seen.silence, max(seen.cadence, _CLOSE_MS))
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
    beat = _heartbeat(seen)
    likelihood = {
        Cause.STATIC_MEMBER_EXPIRED: _expiry(seen, seen.session - seen.session_early, seen.session_early),
        Cause.POLL_INTERVAL_EXCEEDED: _breach(seen, seen.rebalance + seen.session - beat, beat),
        Cause.MEMBER_REMOVED_BY_ADMIN: 1 / max(seen.elapsed, seen.session, 1),
        Cause.UNKNOWN: 1 / max(seen.elapsed, seen.session + seen.rebalance, 1),
    }
    prior = dict(PRIORS_STATIC)
    if seen.poll is False:
        prior[Cause.POLL_INTERVAL_EXCEEDED] = 0.0
    return {cause: prior[cause] * likelihood[cause] for cause in prior}


def _censored(seen: Silence) -> list[tuple[Cause, float]]:
    """Say what the elapsed time alone rules out: it never committed in the generation."""
    if seen.static:
        return [(Cause.STATIC_MEMBER_EXPIRED, 0.5), (Cause.UNKNOWN, 0.4)]
    if seen.elapsed < seen.session - _CLOSE_MS and seen.goodbye:
        return [(Cause.MEMBER_LEFT, 0.7), (Cause.UNKNOWN, 0.3)]
    # Of a stall nothing speaks in one that was never seen to work.
    possible = dict(PRIORS_DYNAMIC)
    del possible[Cause.POLL_INTERVAL_EXCEEDED]
    total = sum(possible.values())
    possible[Cause.UNKNOWN] += total * _UNTOLD / (1 - _UNTOLD)
    total = sum(possible.values())
    shares = sorted(
        ((cause, round(one / total, 2)) for cause, one in possible.items()), key=lambda it: -it[1]
    )
    if seen.rebalance <= seen.elapsed <= seen.rebalance + MAX_HEARTBEAT_MS:
        shares = [(Cause.SYNC_DEADLINE_MISSED, 0.3), *((cause, round(one * 0.7, 2)) for cause, one in shares)]
    return shares


def _cap(seen: Silence) -> float:
    """Return the most a timeout may claim; one that never committed may as well have missed its sync."""
    if not seen.committed and not seen.means:
        return _CAP_FITTING
    if not seen.committed and seen.session == seen.rebalance:
        return _CAP_UNSYNCED
    if seen.stall is Stall.LIKELY:
        return _CAP_STALL
    return 1.0 if seen.means else _CAP_WITHOUT_MEANING


def _in_time(seen: Silence) -> bool:
    """Whether it never committed but went just when its session, begun by joining, would have expired."""
    return 0 <= seen.elapsed - seen.session <= _heartbeat(seen) + _CLOSE_MS


def _capped(shares: dict[Cause, float], cap: float) -> dict[Cause, float]:
    """Move what timeouts may not claim to `unknown`."""
    timeouts = {Cause.SESSION_TIMEOUT, Cause.POLL_INTERVAL_EXCEEDED}
    over = max((share for cause, share in shares.items() if cause in timeouts), default=0.0)
    if over <= cap:
        return shares
    scale = cap / over
    out = {cause: share * scale if cause in timeouts else share for cause, share in shares.items()}
    out[Cause.UNKNOWN] = out.get(Cause.UNKNOWN, 0.0) + 1 - sum(out.values())
    return out


def _expiry(seen: Silence, due: int, early: int) -> float:
    return _arrival(seen, seen.silence - due, max(seen.cadence, _CLOSE_MS) + early)


def _breach(seen: Silence, due: int, early: int) -> float:
    """Give how likely a breach is; a timer that commits after the last poll is never late as well."""
    late = 0 if early >= seen.cadence > 0 and seen.poll_early >= 1 else max(seen.cadence, _CLOSE_MS)
    spread = late + early + seen.poll_late
    return _arrival(seen, seen.silence - due, spread)


def _held_breach(seen: Silence) -> float:
    """Spread over P to P + S, with peaks at both ends: it leaves at once, or expires as the stall goes on."""
    last = seen.rebalance + seen.session - seen.session_early
    between = 0 <= seen.silence - seen.rebalance <= seen.session
    peaks = 0.2 * _breach(seen, seen.rebalance, 0) + 0.4 * _breach(seen, last, seen.session_early)
    return 0.4 * between / max(seen.session, 1) + peaks


def _leave(seen: Silence) -> float:
    """Most clients commit on close; others leave up to one cadence after their last commit."""
    if not seen.means:
        return max(1 / max(seen.elapsed, 1), 0.8 * _arrival(seen, seen.silence, _CLOSE_MS))
    cadence = max(seen.cadence, _CLOSE_MS)
    closing = 0.75 * _arrival(seen, seen.silence, _CLOSE_MS) + 0.25 * _arrival(seen, seen.silence, cadence)
    return _or_quiet(seen, closing, 0)


def _or_quiet(seen: Silence, likelihood: float, least: int) -> float:
    """Mix in that it had long had nothing to commit; `least` ms must have passed for this explanation."""
    if not seen.means or seen.silence < least:
        return likelihood
    return (1 - seen.quiet) * likelihood + seen.quiet / max(seen.elapsed, seen.session, 1)


def _arrival(seen: Silence, late: int, spread: int) -> float:
    """Likelihood (per ms) that the barrier ended `late` ms after the earliest moment it allows.

    The removal either started the barrier, which took at least `held` and up to a heartbeat more, or ended
    one that others had begun. A short heartbeat is the likelier one: short session timeouts come with it.
    """
    if seen.wait >= 0:
        return _trapezoid(late, spread, seen.wait)
    beat = _heartbeat(seen)
    short, begun = min(beat, 1_000), late - seen.held
    likely = 0.65 * _trapezoid(begun, spread, short) + 0.35 * _trapezoid(begun, spread, beat)
    if seen.held > 0:
        likely = 0.7 * likely + 0.3 * _trapezoid(late, spread, _CLOSE_MS)
    return likely


def _heartbeat(seen: Silence) -> int:
    return min(MAX_HEARTBEAT_MS, max(seen.session // 3, 1)) * (1 + seen.aborted)


def _trapezoid(at: int, first: int, second: int) -> float:
    """Density (per ms) at `at` of the sum of two uniform waits of up to `first` and `second` ms."""
    short, wide = sorted((first + _SLACK_MS, second + _SLACK_MS))
    x = at + _SLACK_MS
    if x < 0 or x > short + wide:
        return 0.0
    rising = min(x, short, short + wide - x)
    return rising / (short * wide)
