"""The part common to both coordinators: session timers, and a broker that may not answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import log
from typing import TYPE_CHECKING

from rebalance_monitor.lab.simulator.protocol.members import State
from rebalance_monitor.lab.simulator.truth import Removal, Removed

if TYPE_CHECKING:
    from random import Random

    from rebalance_monitor.lab.simulator.plans.plan import BrokerPlan, GroupPlan
    from rebalance_monitor.lab.simulator.protocol.log import Log
    from rebalance_monitor.lab.simulator.protocol.members import Member, Phase, Process
    from rebalance_monitor.lab.simulator.protocol.timeline import Timeline
    from rebalance_monitor.lab.simulator.truth import Truth

# A timer and the clock that it is read from; most ends are within 1 ms of their time.
_SLACK_MS = 2.0
# As recorded of busy machines: how late a broker's timer is, and how long a client takes to join again.
_LATE_MS, _LATE_SPREAD = 2.0, 1.8
_REACTS_MS, _REACTS_SPREAD = 20.0, 1.4


class Coordinator(ABC):
    """One group: requests come in at the timeline's time.

    `commits_arm`: an accepted OffsetCommit re-arms the session (classic groups alone). `changes`: when the
    state or the members changed, for probe samples.
    """

    commits_arm = True

    def __init__(
        self, plan: GroupPlan, broker: BrokerPlan, line: Timeline, rng: Random, log: Log, truth: Truth
    ) -> None:
        self.plan, self.line, self.rng = plan, line, rng
        self._broker, self._log, self._truth = broker, log, truth
        self.state = State.EMPTY
        self.generation = 0
        self.members: dict[str, Member] = {}
        self.phase: Phase | None = None
        self.down_until = 0.0
        self.accepts = False
        self.changes: list[tuple[float, State, tuple[Member, ...]]] = []

    @abstractmethod
    def on_join(self, client: Process) -> None:
        """Take a client that wants to be a member."""

    @abstractmethod
    def on_leave(self, member_id: str, cause: Removed, fault: str) -> None:
        """Take a goodbye, or an administrator's removal."""

    @abstractmethod
    def on_leader_sync(self, client: Process, generation: int) -> None:
        """Take the leader's SyncGroup."""

    @abstractmethod
    def on_late_sync(self, client: Process) -> None:
        """Take a follower's SyncGroup that comes after the leader's."""

    @abstractmethod
    def resume(self) -> None:
        """Go on after a pause: sessions that ran out meanwhile end at once."""

    @abstractmethod
    def load(self) -> None:
        """Load what was written: every member has a full session from now on."""

    def on_return(self, member: Member) -> None:
        """Take the first heartbeat of a member that was cut off, or had stopped its heartbeats."""
        del member

    def session(self, member: Member) -> float:
        """Give the session timeout (ms) of a member."""
        return member.client.plan.session

    def exempt(self, member: Member) -> bool:
        """Whether a member's session does not run for now."""
        del member
        return False

    def watch(self, member: Member) -> None:
        """Let the session of a member that has fallen silent end, unless it is exempt."""
        member.guard += 1
        client = member.client
        beating = client.beating and client.member == member.id
        if self.members.get(member.id) is member and not self.exempt(member) and not beating:
            due = member.armed + self.session(member) + self.lateness()
            self.line.at(due, self._expire, member, member.guard)

    def _expire(self, member: Member, guard: int) -> None:
        if member.guard != guard or self.members.get(member.id) is not member:
            return
        if not self._deferred(self._expire, member, guard):
            self._remove(member, Removed.EXPIRED, member.client.fault)

    @abstractmethod
    def _remove(self, member: Member, cause: Removed, fault: str) -> None:
        """Remove a member, and begin what its departure causes."""

    def pause(self, until: float) -> None:
        """Stop answering until `until` (ms)."""
        for member in self.members.values():
            member.client.flush(self.line.now)
            if member.client.beating and member.client.beats is not None:
                member.armed = max(member.armed, member.client.beats.last_before(self.line.now))
        self.down_until, self.accepts = until, False

    def lateness(self) -> float:
        """Draw how late (ms) a timer of the broker is, against the clock of the records."""
        if not self._broker.busy:
            return (self.rng.random() - 0.4) * _SLACK_MS
        return self.rng.lognormvariate(log(_LATE_MS), _LATE_SPREAD) - 1

    def reaction(self) -> float:
        """Draw how long (ms) a client takes from a refused SyncGroup to its next JoinGroup."""
        return self.rng.lognormvariate(log(_REACTS_MS), _REACTS_SPREAD) if self._broker.busy else 0.0

    def storing(self) -> float:
        """Draw how long (ms) the brokers take to replicate a record."""
        until, median = self._broker.starting
        return self.rng.lognormvariate(log(median), _LATE_SPREAD) if self.line.now < until else 0.0

    def latency(self) -> float:
        """Draw how long (ms) a request or its answer travels."""
        return 0.4 + self.rng.random() * 2.5

    def _deferred(self, call: object, *arguments: object) -> bool:
        """Put off what reaches a broker that does not answer."""
        if self.line.now >= self.down_until:
            return False
        self.line.at(self.down_until + 1 + self.rng.random() * 20, call, *arguments)  # type: ignore[arg-type]
        return True

    def _forget(
        self, member: Member, cause: Removed, fault: str, *, held: bool, triggered: bool = False
    ) -> None:
        """Drop a member, and note the truth."""
        member.client.flush(self.line.now)
        del self.members[member.id]
        epoch, client = self._log.epoch, member.client
        self._truth.removals.append(
            Removal(
                group=self.plan.name,
                member=member.id,
                generation=self.generation,
                at=epoch + self.line.now,
                cause=cause,
                fault=fault,
                client=client.number,
                plan=client.plan,
                triggered=triggered,
                held=held,
                seen=member.seen,
                last_commit=-1 if member.last_commit < 0 else epoch + member.last_commit,
                last_poll=epoch + client.last_poll,
            )
        )
        self.changes.append((self.line.now, self.state, tuple(self.members.values())))
        client.on_removed(member.id)
