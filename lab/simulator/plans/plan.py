"""The plan of a simulation: groups, their clients, and the events of clients and broker.

A plan is data: the same plan and seed give the same simulation. All times are ms from the simulation's start.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Mode(StrEnum):
    """When a client commits.

    `IN_POLL`: a timer that the client library checks in the application's poll (Java, kafka-python).
    `BACKGROUND`: a timer of the library that runs whether or not the application polls (librdkafka, Go,
    aiokafka). `PER_POLL` and `PER_RECORD`: by hand, after each batch or each record. `OWN_TIMER`: by hand,
    when the application's own timer is due at its poll. `TRANSACTION`: as PER_POLL, but by TxnOffsetCommit,
    which re-arms no session. `NEVER`: a client that commits nothing (a Connect worker).
    """

    IN_POLL = "in_poll"
    BACKGROUND = "background"
    PER_POLL = "per_poll"
    PER_RECORD = "per_record"
    OWN_TIMER = "own_timer"
    TRANSACTION = "transaction"
    NEVER = "never"


AFTER_WORK = frozenset({Mode.PER_POLL, Mode.PER_RECORD, Mode.TRANSACTION})
"""The application commits by hand when a piece of its work is done."""


@dataclass(frozen=True, slots=True)
class ClientPlan:
    """One client process: its family (`families.FAMILIES`), timers (ms) and identity.

    `session` (S), `poll` (P, max.poll.interval: enforced by the client), `heartbeat` (h), `interval` (c) of
    its commits. `rebalance` is what its JoinGroup says: P for clients that have one, else their own setting.
    `gap`: mean time between two polls; `work`: the share of it that the application processes, instead of
    waiting in poll. `final_commit`: commits what is left on a clean close.
    `fetch`: for how long (ms) a broker may wait for records.
    `rejoins_in_poll`: sends JoinGroup only from the application's poll. `instance`: group.instance.id.
    """

    family: str
    session: int
    poll: int
    rebalance: int
    heartbeat: int
    interval: int
    mode: Mode
    gap: float = 200.0
    work: float = 0.1
    client_id: str = ""
    host: str = ""
    instance: str | None = None
    final_commit: bool = True
    revoke_commit: bool = True
    rejoins_in_poll: bool = True
    fetch: float = 500.0


class Act(StrEnum):
    """What can happen to a client (or be done to a group).

    `START`, `CLOSE` (clean, by the family's habits), `KILL` (SIGKILL: sockets close, the group learns
    nothing), `FREEZE` (SIGSTOP for `lasts`), `CUT` (network away for `lasts`), `STALL` (the application
    processes for `lasts` without a poll), `DEAF` (heartbeats go on for `lasts`, but it neither rejoins nor
    commits), `UNSYNCED` (joins the next generation and never syncs, for `lasts`), `REMOVE` (by an
    administrator), `REJOIN` (the leader rejoins: metadata changed).
    """

    START = "start"
    CLOSE = "close"
    KILL = "kill"
    FREEZE = "freeze"
    CUT = "cut"
    STALL = "stall"
    DEAF = "deaf"
    UNSYNCED = "unsynced"
    REMOVE = "remove"
    REJOIN = "rejoin"


@dataclass(frozen=True, slots=True)
class Step:
    """At `at`, `act` happens to the client with number `client`; `lasts` only where the act has a length."""

    at: float
    act: Act
    client: int
    lasts: float = float("inf")


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is produced to each topic of a group: `per_second` records on each partition; 0 is none.

    `until`: after this time (ms) nothing is produced any more. `even`: records come at even intervals, into
    all partitions at once; by default few come at random.
    """

    per_second: float = 20.0
    until: float = float("inf")
    even: bool = False


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """One consumer group: clients by number, and the steps of its life in order of time.

    `modern`: a KIP-848 group, whose clients are of the families `java-848` and `librdkafka-848`.
    """

    name: str
    clients: tuple[ClientPlan, ...]
    steps: tuple[Step, ...]
    topics: tuple[str, ...] = ("orders",)
    partitions: int = 6
    protocol: str = "range"
    protocol_type: str = "consumer"
    traffic: Traffic = field(default_factory=Traffic)
    modern: bool = False


class Outage(StrEnum):
    """How a broker fails its groups.

    `PAUSE`: it stops, goes on, and expires everybody whose session ran out meanwhile. `MOVE`: another broker
    (or the same after a restart) loads the groups: every member gets a full session from the load on.
    `RELOAD`: the same, but the leader's epoch stays, as under ZooKeeper. `UNSEEN`: nothing, but the monitor
    cannot reach the brokers.
    """

    PAUSE = "pause"
    MOVE = "move"
    RELOAD = "reload"
    UNSEEN = "unseen"


@dataclass(frozen=True, slots=True)
class BrokerPlan:
    """The broker: `outages` are (from, length, kind), `initial_delay` its group.initial.rebalance.delay.ms.

    `java`: the coordinator of 4.x, which writes a record of generation 0 for a new group. `session`: the
    session timeout of KIP-848 members (group.consumer.session.timeout.ms). `busy`: its machine is, and those
    of the clients are, so that timers and answers are late. `starting`: until when (ms) processes start and
    the brokers' records wait for each other, and for how long (median, ms) one does.
    """

    outages: tuple[tuple[float, float, Outage], ...] = ()
    initial_delay: int = 3_000
    java: bool = True
    session: int = 45_000
    busy: bool = False
    starting: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole simulation: it begins at `epoch` (ms since 1970) and lasts `length` ms."""

    groups: tuple[GroupPlan, ...]
    length: float
    broker: BrokerPlan = field(default_factory=BrokerPlan)
    epoch: int = 1_700_000_000_000
    shard: int = 0
