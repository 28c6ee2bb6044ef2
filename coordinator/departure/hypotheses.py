"""The hypotheses: in which ways a member may depart, what its client does, and how likely each way is.

Kafka's coordinator removes a member for one of five reasons. A record shows only that it is gone.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import IntEnum
from functools import lru_cache
from math import log
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from rebalance_monitor.coordinator.departure.evidence import ELSEWHERE, SAME_PLACE
from rebalance_monitor.coordinator.departure.waits import idleness
from rebalance_monitor.coordinator.findings.causes import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from rebalance_monitor.coordinator.departure.evidence import Departed, Evidence
    from rebalance_monitor.coordinator.departure.fitted import Fitted

    Array = npt.NDArray[np.float64]
    Places = npt.NDArray[np.int_]

SOON_MS = 100.0
"""What befalls two members at once shows within a heartbeat and so long."""


class Way(IntEnum):
    """Why the coordinator removed a member. The order is that of the arrays in `explain.py`."""

    LEFT = 0
    """It sent LeaveGroup as it closed, or an administrator removed it (`removeMembersFromConsumerGroup`)."""

    DIED = 1
    """Its session expired, a session timeout after its last heartbeat or (classic) accepted OffsetCommit."""

    STALLED = 2
    """Its application did not poll for max.poll.interval: the client left, or stopped its heartbeats."""

    UNJOINED = 3
    """It lived and did not rejoin: removed at the join deadline, the group's longest rebalance timeout."""

    UNSYNCED = 4
    """It joined and did not sync: removed a rebalance timeout after the join phase had ended (KAFKA-9752)."""

    UNKNOWN = 5
    """None of these."""


CAUSE_OF = {
    Way.LEFT: Cause.MEMBER_LEFT,
    Way.DIED: Cause.SESSION_TIMEOUT,
    Way.STALLED: Cause.POLL_INTERVAL_EXCEEDED,
    Way.UNJOINED: Cause.JOIN_DEADLINE_MISSED,
    Way.UNSYNCED: Cause.SYNC_DEADLINE_MISSED,
    Way.UNKNOWN: Cause.UNKNOWN,
}
"""The cause that a finding names for a dynamic member."""

STATIC_CAUSE_OF = CAUSE_OF | {
    Way.LEFT: Cause.MEMBER_REMOVED_BY_ADMIN,
    Way.DIED: Cause.STATIC_MEMBER_EXPIRED,
}
"""The same for a static member: a client that closes sends no LeaveGroup for it."""


class Client(NamedTuple):
    """How a client commits, and whether it enforces max.poll.interval.

    `background`: a timer of the client's own thread commits what was processed, also after the last poll, in
    place of one that poll() checks; 0.5 where nobody knows. `enforces`: it does; None where that depends.
    `closes`: it commits as it closes. `hides`: its max.poll.interval is in no record. `holds`: it stops its
    heartbeats as its interval ends, and leaves only when the stall ends, or expires. `between`: it sends
    heartbeats between two batches, and hears of a rebalance there. `at_beat`: it looks for a breach of its
    interval with its heartbeats alone; others see one up to `notice` (ms) later. `unpolled`: it may rejoin
    without a poll of its application. `ends_fetch`: it awaits the answer to its fetch before it leaves, for
    so long (ms) at most, and commits nothing meanwhile. `fetches`: it awaits that before it rejoins, for so
    long (ms) at most. `joins`: how soon (ms, at least and at most) a new client joins that its process put
    in the place of another, after the last poll of that one.
    """

    background: float
    enforces: bool | None
    closes: bool = True
    hides: bool = False
    holds: bool = False
    between: bool = False
    at_beat: bool = False
    unpolled: bool = False
    notice: float = 500.0
    ends_fetch: float = 0.0
    fetches: float = 0.0
    joins: tuple[float, float] = (100.0, 350.0)


# Java's heartbeat thread looks each retry.backoff.ms, librdkafka's timer twice a second.
_IN_POLL = Client(0.0, enforces=True, notice=100.0)
_GO = Client(1.0, enforces=False, closes=False)
CLIENTS: dict[str, Client] = {
    "java": _IN_POLL,
    "java-848": _IN_POLL._replace(notice=5_000.0),
    "streams": _IN_POLL,
    "streams-1071": _IN_POLL,
    "kafka-python": _IN_POLL._replace(at_beat=True),
    "librdkafka": Client(1.0, enforces=True, unpolled=True, joins=(20.0, 120.0)),
    "librdkafka-848": Client(1.0, enforces=True, holds=True),
    "aiokafka": Client(1.0, enforces=None, hides=True, unpolled=True),
    "sarama": _GO,
    "franz-go": _GO,
    # MaxWait, by default.
    "kafka-go": _GO._replace(ends_fetch=10_000.0),
    # maxWaitTimeInMs, by default.
    "kafkajs": _GO._replace(between=True, fetches=5_000.0),
    "connect": Client(1.0, enforces=None, closes=False),
    "unknown": Client(0.5, enforces=None, closes=False, unpolled=True),
    "unknown-848": Client(0.5, enforces=True, closes=False, holds=True),
}
"""Family -> its client, by the clients' sources (docs/detection.md)."""


BY_BEAT = (Way.DIED, Way.STALLED)
PLAIN = (Way.LEFT, Way.UNJOINED, Way.UNSYNCED, Way.UNKNOWN)
STALLED = len(PLAIN)
"""`timers.rows_of` has a row of each of `PLAIN`, this one, and rows by heartbeat interval of `BY_BEAT`."""


@lru_cache(maxsize=8)
def places(count: int) -> Places:
    """Return the row of `timers.rows_of` that each way has for each of so many heartbeat intervals."""
    found = np.empty((len(Way), count), int)
    for row, way in enumerate(PLAIN):
        found[way] = row
    for row, way in enumerate(BY_BEAT):
        found[way] = STALLED + 1 + row * count + np.arange(count)
    return found


CLOSED_MS = tuple([300.0 * 1.25**step for step in range(22)])
"""Within how long (ms) an event shows in its members: any of these is as likely.

They are closed at once or one after the other (Kubernetes gives its pods 30 s), or expire within a heartbeat.
"""


class Event(NamedTuple):
    """What may take many at once. `waits`: the way whose waits each member's last commit shows.

    `way`: the way in which all depart. `share`: how often it is so, of all such events. `whole`: how many
    times as often where they take a whole group.
    """

    waits: Way
    way: Way
    share: Callable[[Fitted], float]
    whole: Callable[[Fitted], float] = lambda _: 1.0


EVENTS = (
    # All commit as they close, if there is something to commit, or none does: that is the application's.
    Event(Way.LEFT, Way.LEFT, lambda by: by.closes_by_hand),
    Event(Way.UNJOINED, Way.LEFT, lambda by: 1 - by.closes_by_hand),
    Event(Way.DIED, Way.DIED, lambda _: 1.0, lambda by: by.all_died),
)
EVENTS_OF = {Way.LEFT: (0, 1), Way.DIED: (2,)}
"""Way -> places of its events."""


UNMOVED = 2
"""`Departed.unmoved` where siblings moved."""

# So many of a group's own departures are kept: those that are known, for a guess would confirm itself.
_KEPT, _KNOWN = 5.0, 0.9
_CACHED = 1_024
_LEAST = 1e-300


def client_of(one: Departed) -> Client:
    """Return how the member's client behaves."""
    return CLIENTS.get(one.family, CLIENTS["unknown"])


def enforces(client: Client, by: Fitted) -> float:
    """How likely such a client leaves by itself as its max.poll.interval is over."""
    if client.enforces is None:
        return by.enforces_hidden if client.hides else by.enforces_unknown
    return float(client.enforces)


def stalled_before(one: Departed) -> bool:
    """Whether its application may have stalled in the generation before, and its client rejoined by itself.

    It had committed nothing for longer than it usually does while others of its group did. One whose
    application had not stalled then had nothing to commit, and may have departed in any way.
    """
    return client_of(one).unpolled and one.outlived > one.usual >= 0


def left_behind(one: Departed, by: Fitted) -> float:
    """How likely its application had let go of it before its generation, and its client goes on without it.

    A client that enforces max.poll.interval does not. It had committed nothing for longer than its session
    while others of its group did, or it had nothing to commit.
    """
    if one.outlived <= one.session:
        return 0.0
    idle = idleness(one, (), by) * (1.0 if one.went_on else by.went_on)
    return (1 - _enforces(one, by)) * by.stalled / (by.stalled + idle)


def expires_closed(one: Departed) -> bool:
    """Whether its session expires when it is closed: no LeaveGroup is sent for it then.

    No client does for a static member in a classic group, nor does Kafka Streams.
    """
    return one.static or one.family == "streams"


def may_expire(one: Departed) -> bool:
    """Whether its session may expire as its process is closed, for it is static, or was left behind."""
    return expires_closed(one) or one.outlived > one.session


def is_replaced(one: Departed) -> bool:
    """Whether its process has put another client in its place, so that nobody closes this one."""
    return one.followed or (one.lived_on and one.returned == SAME_PLACE)


def may_reveal_poll_interval(one: Departed) -> bool:
    """Whether its rebalance timeout may be its max.poll.interval, though its family seems to hide that.

    kafka-python sends the same as aiokafka where both timeouts are equal.
    """
    unsure = client_of(one).hides and not one.named and not one.poll_interval
    return unsure and one.rebalance == one.session


def shares_of_ways(ways: Sequence[float], by: Fitted) -> list[float]:
    """How members of a group depart: as its last ones did (`ways`), beside how they do everywhere."""
    usual = (by.left, by.died, by.stalled, by.unjoined, by.unsynced, by.unknown)
    own = ways if len(ways) == len(usual) else [0.0] * len(usual)
    weight = by.usual_ways
    total = weight * sum(usual) + sum(own)
    return [(weight * one + seen) / total for one, seen in zip(usual, own, strict=True)]


def learned_ways(before: Sequence[float], departed: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return the ways of the group's last departures, of at most five, after these."""
    now = list(before) if len(before) == len(CAUSE_OF) else [0.0] * len(CAUSE_OF)
    for shares in [one for one in departed if max(one) >= _KNOWN][: int(_KEPT)]:
        now = [one + share for one, share in zip(now, shares, strict=True)]
    total = sum(now)
    scale = _KEPT / total if total > _KEPT else 1.0
    return tuple([round(one * scale, 3) for one in now])


class Prior(NamedTuple):
    """How likely each way is before a member's silence is known.

    `expires`: how much of `DIED` is that its process was closed, which sends no LeaveGroup for it.
    """

    ways: list[float]
    expires: float


def prior_of(one: Departed, shares: Sequence[float], by: Fitted) -> Prior:
    """Return the prior of a member; `shares`: of its group's members."""
    prior = list(shares)
    leaves = _enforces(one, by)
    prior[Way.STALLED] *= leaves * (1 + (1 / by.stalled_first - 1) * by.unpolled * stalled_before(one))
    # A member that does not poll leaves before the deadline of a phase that began after its last poll.
    prior[Way.UNJOINED] *= 1 - leaves * (1 - by.unjoined_enforcing)
    if one.returned and not (one.lived_on and one.returned == SAME_PLACE):
        # A process that is back was closed or died: a stalled one comes back when its stall is over, or with
        # another client in the same process.
        back = by.moved if one.returned == ELSEWHERE else by.returned
        prior[Way.STALLED] *= back
        prior[Way.UNJOINED] *= back
    if is_replaced(one):
        prior[Way.LEFT] *= by.never_leaves
    # Nobody closes one that was left behind, either: it expires as its process ends.
    expires = 1.0 if expires_closed(one) else left_behind(one, by)
    expires *= prior[Way.LEFT] * (1 - by.never_leaves)
    prior[Way.LEFT] -= expires
    prior[Way.DIED] += expires
    if not one.trace.commits:
        prior[Way.STALLED] *= by.unworked
    if one.lived_on:
        # It died in the midst of a stall, and stalls are as rare as they are.
        prior[Way.DIED] = min(prior[Way.DIED], shares[Way.STALLED])
    elif one.heard >= 0 and one.last_active - one.heard > 2 * one.usual >= 0:
        # It lived on for longer than it commits apart: its application had stalled before.
        prior[Way.DIED] *= by.stalled_first
    if one.deaf >= 0:
        # A live member would have acknowledged the epoch; one that holds its heartbeats back would not.
        prior[Way.LEFT] *= by.deaf
        prior[Way.UNKNOWN] *= by.deaf
        prior[Way.STALLED] *= 1.0 if client_of(one).holds else by.deaf
    _rule_out(one, prior, by)
    if one.unmoved:
        # It goes on committing while it is stalled: its last commits are the evidence, not a silence.
        scale = by.unmoved if one.unmoved >= UNMOVED else by.unmoved_all
        prior = [weight * scale for weight in prior]
        prior[Way.STALLED] = shares[Way.STALLED]
    return Prior(prior, min(expires, prior[Way.DIED]))


def _enforces(one: Departed, by: Fitted) -> float:
    """How likely its client leaves by itself as its max.poll.interval is over."""
    if one.poll_interval:
        return 1.0
    usual = enforces(client_of(one), by) * (1.0 if one.named else 1 - by.mistaken)
    return usual + by.mistaken * may_reveal_poll_interval(one)


def _rule_out(one: Departed, prior: list[float], by: Fitted) -> None:
    """Take out the deadlines of phases that the member was not in.

    Epoch-based groups have no join phase; a static member is kept at the deadline; a member that committed
    had synced.
    """
    if one.static or not one.rearms or one.undue:
        prior[Way.UNJOINED] = 0.0
    if one.static or not one.rearms or one.trace.last >= 0:
        prior[Way.UNSYNCED] = 0.0
    elif one.rebalance < one.session:
        # A member that dies before its sync is removed by the earlier of two timers.
        prior[Way.UNSYNCED] += by.died_young * prior[Way.DIED]


class Cells(Hashable, Protocol):
    """Cells of the length of the join phase (`phase.Grid`), ms."""

    @property
    def edges(self) -> Array:
        """Where they begin and end."""

    @property
    def width(self) -> Array:
        """How wide each is."""


class Rates(NamedTuple):
    """How likely (per ms) another member departs beside one, by way, heartbeat interval and cell.

    `near`: as long as two that depart together do so, within a heartbeat. `apart`: later. `rate`: in all.
    """

    near: Array
    apart: Array
    rate: Array


def rates_beside(
    evidence: Evidence, grid: Cells, tried: tuple[int, ...], some: Sequence[Departed], by: Fitted
) -> Rates:
    """Return how often others depart beside each of the members, of all at once where that is the same.

    A session that began anew with a load ends in any phase, and so does that of a client that its process has
    replaced, or that is in a batch. Generations that failed begin each session anew.
    """
    deadline, alone, times = evidence.deadline, len(evidence.departed) == 1, 1 + evidence.aborted
    found = [
        _rates(
            grid,
            tried,
            deadline * times,
            (one.session if one.anew < 0 else deadline) * times,
            _any_time(one, by),
            by,
            alone=alone and bool(one.returned),
            follows=alone and evidence.withheld and not evidence.joined,
            followed=one.followed,
            unrelated=not alone and not evidence.joined,
        )
        for one in some
    ]
    if all(one is found[0] for one in found):
        return found[0]
    return Rates(*(np.stack(rates) for rates in zip(*found, strict=True)))


def _any_time(one: Departed, by: Fitted) -> float:
    """How likely it had not rejoined, though it lived, so that its session may end at any time of a phase."""
    if not one.lived_on:
        return 0.0
    return 1.0 if one.returned == SAME_PLACE else late_share(by)


def late_share(by: Fitted) -> float:
    """How likely a member did not rejoin soon: it was in a batch as the phase began."""
    return by.late_poll + by.busy_poll


@lru_cache(maxsize=_CACHED)
def _rates(
    grid: Cells,
    tried: tuple[int, ...],
    deadline: int,
    session: int,
    any_time: float,
    by: Fitted,
    *,
    alone: bool,
    follows: bool,
    followed: bool,
    unrelated: bool,
) -> Rates:
    """Return how often others depart beside a member with that session timeout.

    `alone`: no other departed, and a newcomer has taken its place. `follows`: the phase follows from the
    generation before, and no other departed or came: nothing befell any other. `followed`: its place had been
    taken before, because it had died or stalled: any time of its session ago, or of its poll interval.
    """
    soon = np.array(tried, float)[:, None] + SOON_MS
    together = np.full((len(Way), 1, 1), 0.0 if follows else by.together)
    far = np.full((len(Way), 1, 1), max(by.apart, float(deadline)))
    if not unrelated:
        far[Way.DIED] = session
    if followed:
        far[Way.STALLED] = deadline
    if alone:
        # Its process came back because it had died, and that began the phase: at any time of its session.
        together[Way.DIED] = 0.0
    near, apart = together / soon, (1 - together) / far
    rate = near * _share_below(grid, soon) + apart * _share_below(grid, far)
    if any_time:
        late = (1 - together[Way.DIED]) / deadline
        apart[Way.DIED] += any_time * (late - apart[Way.DIED])
        below = _share_below(grid, np.full((1, 1), float(deadline)))
        rate[Way.DIED] += any_time * (late * below - rate[Way.DIED])
    return Rates(near, apart, rate)


def likely_events(shares: Sequence[float], by: Fitted, *, emptied: bool) -> Array:
    """Return how likely each of `EVENTS` takes all at first, within any of the times that it may take.

    `emptied`: it took a whole group.
    """
    weights = [
        shares[event.way] * event.share(by) * (event.whole(by) if emptied else 1.0) for event in EVENTS
    ]
    return np.array(weights) * by.one_event / len(CLOSED_MS)


@lru_cache(maxsize=_CACHED)
def rate_of_event(grid: Cells, count: int) -> tuple[Array, Array]:
    """Return the logarithm of how likely one of `EVENTS` takes so many members, by cell, and a ratio.

    The first, which began the phase, is taken for sure, and each other one (per ms) within one of its times.
    One event is as likely for many as for one. The ratio: how likely all of them are others, against all but
    one.
    """
    most = np.array(CLOSED_MS)[:, None]
    logs = np.log(np.maximum(_share_below(grid, most) / most, _LEAST))
    top = logs.max(axis=0)
    rest = np.exp((count - 1) * (logs - top))
    total = rest.sum(axis=0)
    return (count - 1) * top + np.log(total), (rest * np.exp(logs)).sum(axis=0) / total


@lru_cache(maxsize=_CACHED)
def rates_of_process(grid: Cells, session: int, tried: tuple[int, ...]) -> tuple[Array, Array]:
    """Return how likely (per ms) a process closes another client, and ends with its last one.

    By heartbeat interval and cell. The first that it closes begins the phase. The last one sends heartbeats
    until the process ends, and holds the phase until its session is over: a process takes a time of any order
    to end, each as likely. It closes the others within that time.
    """
    soon = np.array(tried, float)[:, None] + SOON_MS
    took = np.maximum(grid.edges[:-1] + grid.width / 2 - session + soon, soon)
    ended = (1 - _share_below(grid, session - soon)) / log(CLOSED_MS[-1] / CLOSED_MS[0])
    return 1 / took, ended / took


def _share_below(grid: Cells, most: Array) -> Array:
    """Return how much of each cell is no longer than `most` (ms)."""
    return np.asarray(np.clip((most - grid.edges[:-1]) / grid.width, 0.0, 1.0))
