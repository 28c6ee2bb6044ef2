"""Constants that no protocol and no client's source gives.

The defaults of the types are the first values, where `make fit` (lab/suite/fit.py) begins. It writes all that
follows the types, and says there what it was made from. A constant of which recordings and simulations say
little stays near its first value. `tests/coordinator/departure/test_fitted.py` tells when the corpus, the
likelihoods or the settings of the fit are others than those.
"""

from __future__ import annotations

from typing import NamedTuple


class Fitted(NamedTuple):
    """What clients, applications and operators do, as far as nothing in a record says so.

    Shares are probabilities; times are ms.
    """

    # Why members depart, of all departures (`unknown`: in a way that the model all but rules out); the last:
    # so many of them (a number) outweigh a group's own ones.
    left: float = 0.5
    died: float = 0.3
    stalled: float = 0.25
    unjoined: float = 0.1
    unsynced: float = 0.004
    unknown: float = 0.01
    usual_ways: float = 10.0

    # A client that closes commits before: one with automatic commits, an application by hand; within so long,
    # or more slowly. One that commits more seldom than clients do by default has committed already.
    closes: float = 0.85
    closes_by_hand: float = 0.6
    close: float = 150.0
    closes_slowly: float = 0.2
    close_slow: float = 1000.0
    seldom: float = 0.5
    # A session expires though its client closed; a member that no close lets go is removed all the same.
    closed: float = 0.5
    never_leaves: float = 0.05

    # One that dies before its first commit had sent no heartbeat; one in the midst of a stall; one that its
    # process had replaced ends with it.
    died_young: float = 0.3
    died_stalled: float = 0.03
    died_replaced: float = 0.1
    # It had joined a generation that failed; a load began its session anew, which no sample says.
    joined_in_vain: float = 0.1
    reloaded: float = 0.3
    # A broker that goes on after a pause expires within so long what has run out meanwhile.
    waking: float = 3000.0
    # A member is removed within so long of its sync deadline.
    sync: float = 500.0

    # Others depart beside a member within a heartbeat, by chance; else within so long. So it is in groups
    # whose members are removed one by one.
    together: float = 0.5
    together_apart: float = 0.5
    apart: float = 600000.0
    # One event takes many. `all_died`: how often members die by one that takes a whole group, for once by one
    # that takes a part of it. `dead_together`: a second death beside one that held the phase.
    one_event: float = 0.5
    all_died: float = 0.6
    dead_together: float = 0.3

    # A rebalance that no departure and no newcomer began; one that follows from a cooperative one.
    uncaused: float = 0.03
    follows: float = 0.9
    # How soon after a heartbeat survivors rejoin: at once, with a late poll, after a batch; one whose last
    # interval was long was in a batch. They rejoin alike, and together (within `jitter`).
    rejoins: float = 150.0
    late_poll: float = 0.2
    rejoins_late: float = 1500.0
    busy_poll: float = 0.05
    rejoins_busy: float = 30000.0
    busy_seen: float = 0.8
    alike: float = 0.5
    aligned: float = 0.7
    jitter: float = 1000.0
    # They commit as they rejoin, within so long before; or at any time after they have.
    rejoin_commit: float = 0.6
    rejoin_committed: float = 60.0
    stray: float = 0.05
    stray_cooperative: float = 0.2
    # One that has rejoined departs while it waits.
    waited: float = 0.05

    # Heartbeat intervals: the default, a third of the session; others are as likely as each other.
    beat_default: float = 0.55
    beat_third: float = 0.3

    # A member has nothing to commit: one that has shown no interval, or no commit at all; one whose siblings
    # went on is so less often; of one whose commits go on when idle, or that has work, it is (nearly) never.
    idle_unseen: float = 0.5
    idle_never: float = 0.7
    went_on: float = 0.3
    never: float = 0.01
    # The topics of a whole group have no records, which makes that so many times as likely.
    quiet: float = 0.2
    quieter: float = 8.0
    # It commits within transactions, which re-arm nothing.
    transactional: float = 0.02
    # An application commits just as its timer would have.
    same_beat: float = 0.2

    # An application stalls before its first commit, or had done so a generation before.
    unworked: float = 0.3
    stalled_first: float = 0.1
    # The last commit of one that stalls came with a poll, not by a timer; a timer commits once more after the
    # last poll; intervals that a timer seems to decide are an application's own.
    per_poll: float = 0.5
    per_poll_timed: float = 0.125
    ahead: float = 0.6
    # It came as a batch ended, and no poll followed; a batch takes so much of an interval at least.
    ends_batch: float = 0.2
    full_batch: float = 0.94
    # A client may rejoin without a poll of its application.
    unpolled: float = 0.5
    # It sees a breach of its interval within so long.
    noticed: float = 500.0
    # Clients that enforce their interval: of those that hide it, and of those that nobody knows. A hidden one
    # is short: near the session.
    enforces_hidden: float = 0.3
    enforces_unknown: float = 0.6
    hidden_short: float = 0.5
    # A client that stops its heartbeats as its interval ends leaves at once after all, or in the midst of a
    # session.
    holds_at_once: float = 0.3
    holds_amid: float = 0.4
    # A family was mistaken for another.
    mistaken: float = 0.15
    # One that commits while it is stalled, without progress, is so seldom not stalled: where siblings made
    # progress, where nothing says so. It may have stopped its commits after so many of its intervals.
    unmoved: float = 0.1
    unmoved_all: float = 0.4
    stops: float = 0.5
    silent: float = 3.0

    # A stalled client comes back in its place before it departs, or elsewhere.
    returned: float = 0.2
    moved: float = 0.1
    # A process puts a new client in the place of its own as soon as it can, later, or at any time.
    replaced_at_once: float = 0.6
    replaced_late: float = 3000.0
    replaced_any: float = 0.1

    # A client that enforces its interval misses a join deadline. Who misses one committed last before the
    # phase, commits on until the end, was silent for longer, or fell silent within.
    unjoined_enforcing: float = 0.02
    deaf_before: float = 0.4
    deaf_commits: float = 0.144
    deaf_long: float = 0.332
    # One that lives does not acknowledge an epoch that others have.
    deaf: float = 0.03


class Rejoining(NamedTuple):
    """What says that a member has not rejoined a join phase (deadlines/rejoining.py).

    `odds`: that one has not, before anything is known of it. The others multiply them: a newcomer in its
    place (`succeeded`), and the signs that its commits give.
    """

    odds: float = 0.05
    succeeded: float = 15.0
    commits_on: float = 20.0
    stopped_with_work: float = 40.0
    stopped: float = 20.0
    maybe_stopped: float = 1.5
    as_usual: float = 0.6
    rejoined: float = 0.1


# Generated by `make fit`: 8335 departures of 5983 rebalances in simulations and recordings, which weigh
# alike, those that samples tell more of twice; surprise 0.1087 each, 0.1238 by the first values. At their
# first values, as no rebalance of these reads them: none. unknown is how often a truth is given less than
# 0.1. Of who has not rejoined: 555 looks at simulated join phases; surprise 0.6254 each, 0.7179 by the
# first values.
INPUTS = {
    "recordings": "2903ebbc95d6",
    "simulations": "52c853d96179",
    "likelihoods": "5bc62f859a66",
    "settings": "2ceac22fcb2d",
}
"""What they were last judged on, as digests."""

FITTED = Fitted(
    left=0.5,
    died=0.3,
    stalled=0.25,
    unjoined=0.1,
    unsynced=0.004,
    unknown=0.00851,
    usual_ways=6.9,
    closes=0.862,
    closes_by_hand=0.712,
    close=91.7,
    closes_slowly=0.2,
    close_slow=1000.0,
    seldom=0.5,
    closed=0.5,
    never_leaves=0.05,
    died_young=0.206,
    died_stalled=0.03,
    died_replaced=0.1,
    joined_in_vain=0.1,
    reloaded=0.3,
    waking=3000.0,
    sync=225.0,
    together=0.0735,
    together_apart=0.5,
    apart=600000.0,
    one_event=0.782,
    all_died=0.232,
    dead_together=0.3,
    uncaused=0.111,
    follows=0.9,
    rejoins=150.0,
    late_poll=0.0397,
    rejoins_late=4740.0,
    busy_poll=0.0309,
    rejoins_busy=30000.0,
    busy_seen=0.728,
    alike=0.725,
    aligned=0.487,
    jitter=1490.0,
    rejoin_commit=0.476,
    rejoin_committed=60.0,
    stray=0.05,
    stray_cooperative=0.2,
    waited=0.05,
    beat_default=0.232,
    beat_third=0.3,
    idle_unseen=0.786,
    idle_never=0.7,
    went_on=0.206,
    never=0.01,
    quiet=0.2,
    quieter=8.0,
    transactional=0.0295,
    same_beat=0.2,
    unworked=0.722,
    stalled_first=0.1,
    per_poll=0.5,
    per_poll_timed=0.125,
    ahead=0.6,
    ends_batch=0.2,
    full_batch=0.94,
    unpolled=0.5,
    noticed=203.0,
    enforces_hidden=0.578,
    enforces_unknown=0.705,
    hidden_short=0.449,
    holds_at_once=0.161,
    holds_amid=0.4,
    mistaken=0.106,
    unmoved=0.1,
    unmoved_all=0.4,
    stops=0.432,
    silent=3.57,
    returned=0.602,
    moved=0.1,
    replaced_at_once=0.6,
    replaced_late=3000.0,
    replaced_any=0.1,
    unjoined_enforcing=0.02,
    deaf_before=0.499,
    deaf_commits=0.101,
    deaf_long=0.232,
    deaf=0.03,
)

REJOINING = Rejoining(
    odds=0.0452,
    succeeded=147.0,
    commits_on=20.0,
    stopped_with_work=16.2,
    stopped=18.2,
    maybe_stopped=3.97,
    as_usual=3.23,
    rejoined=0.207,
)
